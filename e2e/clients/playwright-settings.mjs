// What the settings of a binding open for a Playwright program.
import {chromium} from 'playwright-core';
import {tryAll} from './features.mjs';

const [address, here, there, product] = process.argv.slice(2);
const browser = await chromium.connectOverCDP(address);
const context = browser.contexts()[0];
const page = await context.newPage();
const session = await context.newCDPSession(page);
await page.goto(here);
const has = async (name) => (await context.cookies()).some((cookie) => cookie.name === name && cookie.httpOnly);
const out = await tryAll({
  cookies: async () => {
    await context.addCookies([{name: 'given', value: '1', url: here, httpOnly: true}]);
    const before = await has('given');
    await context.clearCookies();
    return before && !(await has('given'));
  },
  'cookies of another site': async () => void (await context.addCookies([{name: 'given', value: '1', url: there}])),
  storage: async () => {
    await page.evaluate(async () => (await caches.open('pages')).put('/kept', new Response('kept')));
    const storageKey = `${new URL(here).origin}/`;
    const {caches: all} = await session.send('CacheStorage.requestCacheNames', {storageKey});
    const {cacheDataEntries} = await session.send('CacheStorage.requestEntries', {cacheId: all[0].cacheId});
    await page.evaluate(() => localStorage.setItem('kept', 'yes'));
    await session.send('Storage.clearDataForOrigin', {origin: new URL(here).origin, storageTypes: 'local_storage,cache_storage'});
    await page.reload();
    const left = await page.evaluate(async () => `${localStorage.getItem('kept')} ${(await caches.keys()).length}`);
    return (cacheDataEntries.length === 1 && left === 'null 0') || left;
  },
  'storage of another site': async () => void (await session.send('Storage.clearDataForOrigin', {origin: new URL(there).origin, storageTypes: 'local_storage'})),
  interception: async () => {
    await page.route('**/made-up', (route) => route.fulfill({status: 200, contentType: 'text/html', body: '<p>made up</p>'}));
    await page.route('**/product*', (route) => route.abort());
    await page.route('**/button*', (route) => route.continue({headers: {...route.request().headers(), 'x-given': '1'}}));
    await page.goto(new URL('made-up', here).href);
    const text = await page.textContent('p');
    await page.goto(here);
    const failed = await page.evaluate((url) => fetch(url).then(() => 'came', () => 'failed'), product);
    await page.unrouteAll();
    const came = await page.evaluate((url) => fetch(url).then(() => 'came', () => 'failed'), product);
    return text === 'made up' && failed === 'failed' && came === 'came';
  },
});
await page.close();
await browser.close();
console.log(JSON.stringify(out));
