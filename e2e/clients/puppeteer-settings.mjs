// What the settings of a binding open for a Puppeteer program.
import puppeteer from 'puppeteer-core';
import {tryAll} from './features.mjs';

const [address, here, there, product] = process.argv.slice(2);
const browser = await puppeteer.connect({browserWSEndpoint: address, defaultViewport: null});
const page = await browser.newPage();
const session = await page.createCDPSession();
await page.goto(here);
const domain = new URL(here).hostname;
const has = async (name) => (await browser.cookies()).some((cookie) => cookie.name === name && cookie.httpOnly);
const out = await tryAll({
  cookies: async () => {
    await browser.setCookie({name: 'given', value: '1', domain, path: '/', httpOnly: true});
    const before = (await has('given')) && (await page.cookies()).some((cookie) => cookie.name === 'given');
    await page.deleteCookie({name: 'given', url: here});
    return before && !(await has('given'));
  },
  'cookies of another site': async () => void (await browser.setCookie({name: 'given', value: '1', domain: new URL(there).hostname})),
  storage: async () => {
    await page.evaluate(async () => void (await caches.open('pages')));
    const {caches: all} = await session.send('CacheStorage.requestCacheNames', {securityOrigin: new URL(here).origin});
    await session.send('CacheStorage.deleteCache', {cacheId: all[0].cacheId});
    return (await page.evaluate(async () => (await caches.keys()).length)) === 0;
  },
  'storage of another site': async () => void (await session.send('CacheStorage.requestCacheNames', {securityOrigin: new URL(there).origin})),
  interception: async () => {
    await page.setRequestInterception(true);
    const answer = (request) => {
      if (request.url().endsWith('/made-up')) void request.respond({status: 200, contentType: 'text/html', body: '<p>made up</p>'});
      else if (request.url().includes('/product')) void request.abort();
      else void request.continue();
    };
    page.on('request', answer);
    await page.goto(new URL('made-up', here).href);
    const text = await page.$eval('p', (it) => it.textContent);
    await page.goto(here);
    const failed = await page.evaluate((url) => fetch(url).then(() => 'came', () => 'failed'), product);
    page.off('request', answer);
    await page.setRequestInterception(false);
    const came = await page.evaluate((url) => fetch(url).then(() => 'came', () => 'failed'), product);
    return text === 'made up' && failed === 'failed' && came === 'came';
  },
});
await page.close();
await browser.disconnect();
console.log(JSON.stringify(out));
