// What a Puppeteer program does, feature by feature.
import puppeteer from 'puppeteer-core';
import {tryAll} from './features.mjs';

const [address, here, there, product, note] = process.argv.slice(2);
const browser = await puppeteer.connect({browserWSEndpoint: address, defaultViewport: null});
const page = await browser.newPage();
const out = await tryAll({
  navigate: async () => (await page.goto(here)).status() === 200,
  click: async () => {
    await page.click('#press');
    return (await page.$eval('#state', (it) => it.textContent)) === '1';
  },
  fill: async () => {
    await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<input id=name><select id=pick><option>a<option>b</select>'));
    await page.type('#name', 'Ada');
    await page.select('#pick', 'b');
    return (await page.evaluate(() => [document.querySelector('#name').value, document.querySelector('#pick').value].join())) === 'Ada,b';
  },
  evaluate: async () => (await (await page.evaluateHandle(() => ({a: 1}))).evaluate((it) => it.a)) === 1,
  console: async () => {
    const said = new Promise((resolve) => page.once('console', (message) => resolve(message.text())));
    await page.evaluate(() => console.log('hello'));
    return (await said) === 'hello';
  },
  network: async () => {
    const [response] = await Promise.all([page.waitForResponse((r) => r.url().includes('product')), page.evaluate((url) => fetch(url).then((r) => r.text()), product)]);
    return response.status() === 200 && (await response.text()).includes('Product 42');
  },
  screenshot: async () => (await page.screenshot({fullPage: true})).length > 1000,
  pdf: async () => (await page.pdf()).length > 1000,
  exposeFunction: async () => {
    await page.exposeFunction('twice', (n) => 2 * n);
    return (await page.evaluate(() => window.twice(21))) === 42;
  },
  addInitScript: async () => {
    await page.evaluateOnNewDocument(() => {
      window.early = true;
    });
    await page.goto(here);
    return page.evaluate(() => window.early === true);
  },
  blank: async () => {
    await page.goto('about:blank');
    const empty = await page.evaluate(() => `${location} ${document.body.childElementCount}`);
    await page.goto(here);
    return empty === 'about:blank 0';
  },
  reload: async () => (await page.reload()).status() === 200,
  back: async () => {
    await page.goto(product);
    await page.goBack();
    return page.url() === here;
  },
  dialog: async () => {
    page.once('dialog', (dialog) => dialog.dismiss());
    return (await page.evaluate(() => confirm('sure?'))) === false;
  },
  popup: async () => {
    const opened = new Promise((resolve) => page.once('popup', resolve));
    await page.evaluate((url) => void window.open(url), product);
    const popup = await opened;
    await popup.waitForSelector('h1');
    const title = await popup.$eval('h1', (it) => it.textContent);
    await popup.close();
    return title === 'Product 42';
  },
  frames: async () => {
    await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<iframe name=inner srcdoc="<b>inner</b>"></iframe>'));
    const frame = await (await page.waitForSelector('[name=inner]')).contentFrame();
    await frame.waitForSelector('b');
    return (await frame.$eval('b', (it) => it.textContent)) === 'inner';
  },
  'frames of another process': async () => {
    await page.evaluate((url) => {
      document.body.insertAdjacentHTML('beforeend', `<iframe name=outer width=600 height=300 src="${url}"></iframe>`);
    }, there);
    const frame = await page.waitForFrame((f) => f.url() === there);
    await (await frame.waitForSelector('#press')).click();
    return (await frame.$eval('#state', (it) => it.textContent)) === '1';
  },
  worker: async () => {
    const made = new Promise((resolve) => page.once('workercreated', resolve));
    await page.evaluate(() => {
      window.worker = new Worker(URL.createObjectURL(new Blob(['self.n = 7'])));
    });
    return (await (await made).evaluate(() => self.n)) === 7;
  },
  upload: async () => {
    await page.goto(here);
    await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<input type=file id=file>'));
    await (await page.$('#file')).uploadFile(note);
    return (await page.evaluate(() => document.querySelector('#file').files[0].text())) === 'hello';
  },
  download: async () => {
    const session = await browser.target().createCDPSession();
    await session.send('Browser.setDownloadBehavior', {behavior: 'default', eventsEnabled: true});
    const begins = new Promise((resolve) => session.once('Browser.downloadWillBegin', resolve));
    const ends = new Promise((resolve) => session.on('Browser.downloadProgress', (it) => it.state === 'completed' && resolve(it)));
    await page.evaluate((url) => Object.assign(document.createElement('a'), {href: url, download: 'list.html'}).click(), product);
    const {guid, suggestedFilename} = await begins;
    return suggestedFilename === 'list.html' && (await ends).guid === guid;
  },
  viewport: async () => {
    await page.setViewport({width: 500, height: 400});
    return (await page.evaluate(() => innerWidth)) === 500;
  },
  'aria snapshot': async () => JSON.stringify(await page.accessibility.snapshot()).includes('Press'),
  newCDPSession: async () => {
    const session = await page.createCDPSession();
    return (await session.send('Runtime.evaluate', {expression: '1+1'})).result.value === 2;
  },
  cookies: async () => void (await browser.cookies()),
  'request interception': async () => void (await page.setRequestInterception(true)),
  'another context': async () => void (await browser.createBrowserContext()),
  'another site': async () => void (await page.goto('https://other.example/')),
  close: async () => {
    await page.close();
    return (await browser.pages()).length === 1;
  },
});
await browser.close();
console.log(JSON.stringify(out));
