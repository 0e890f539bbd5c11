// What a Playwright program does, feature by feature.
import {chromium} from 'playwright-core';
import {tryAll} from './features.mjs';

const [address, here, there, product, note] = process.argv.slice(2);
const browser = await chromium.connectOverCDP(address);
const context = browser.contexts()[0];
const page = await context.newPage();
const settle = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const out = await tryAll({
  navigate: async () => (await page.goto(here)).status() === 200,
  click: async () => {
    await page.click('#press');
    return (await page.textContent('#state')) === '1';
  },
  fill: async () => {
    await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<input id=name><select id=pick><option>a<option>b</select><input type=checkbox id=ok><input type=file id=file>'));
    await page.fill('#name', 'Ada');
    await page.press('#name', 'End');
    await page.keyboard.type('!');
    await page.selectOption('#pick', 'b');
    await page.check('#ok');
    return (await page.evaluate(() => [document.querySelector('#name').value, document.querySelector('#pick').value, document.querySelector('#ok').checked].join())) === 'Ada!,b,true';
  },
  evaluate: async () => (await (await page.evaluateHandle(() => ({a: 1}))).evaluate((it) => it.a)) === 1,
  console: async () => {
    const [message] = await Promise.all([page.waitForEvent('console'), page.evaluate(() => console.log('hello'))]);
    return message.text() === 'hello';
  },
  network: async () => {
    const [response] = await Promise.all([page.waitForResponse(/product/), page.evaluate((url) => fetch(url).then((r) => r.text()), product)]);
    return response.status() === 200 && (await response.text()).includes('Product 42');
  },
  screenshot: async () => (await page.screenshot({fullPage: true})).length > 1000,
  pdf: async () => (await page.pdf()).length > 1000,
  exposeFunction: async () => {
    await page.exposeFunction('twice', (n) => 2 * n);
    return (await page.evaluate(() => window.twice(21))) === 42;
  },
  addInitScript: async () => {
    await page.addInitScript(() => {
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
    const [popup] = await Promise.all([page.waitForEvent('popup'), page.evaluate((url) => void window.open(url), product)]);
    await popup.waitForLoadState();
    const title = await popup.textContent('h1');
    await popup.close();
    return title === 'Product 42';
  },
  frames: async () => {
    await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<iframe name=inner srcdoc="<b>inner</b>"></iframe>'));
    return (await page.frameLocator('[name=inner]').locator('b').textContent()) === 'inner';
  },
  'frames of another process': async () => {
    await page.evaluate((url) => {
      document.body.insertAdjacentHTML('beforeend', `<iframe name=outer width=600 height=300 src="${url}"></iframe>`);
    }, there);
    const frame = page.frameLocator('[name=outer]');
    await frame.locator('#press').click();
    return (await frame.locator('#state').textContent()) === '1';
  },
  worker: async () => {
    const [worker] = await Promise.all([
      page.waitForEvent('worker'),
      page.evaluate(() => {
        window.worker = new Worker(URL.createObjectURL(new Blob(['self.n = 7'])));
      }),
    ]);
    return (await worker.evaluate(() => self.n)) === 7;
  },
  upload: async () => {
    await page.goto(here);
    await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<input type=file id=file>'));
    await page.setInputFiles('#file', note);
    return (await page.evaluate(() => document.querySelector('#file').files[0].text())) === 'hello';
  },
  download: async () => {
    await page.goto(here);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.evaluate((url) => Object.assign(document.createElement('a'), {href: url, download: 'list.html'}).click(), product),
    ]);
    return download.suggestedFilename() === 'list.html' && (await download.failure()) === null;
  },
  viewport: async () => {
    await page.setViewportSize({width: 500, height: 400});
    return (await page.evaluate(() => innerWidth)) === 500;
  },
  'aria snapshot': async () => (await page.locator('body').ariaSnapshot()).includes('button "Press"'),
  newCDPSession: async () => {
    const session = await context.newCDPSession(page);
    return (await session.send('Runtime.evaluate', {expression: '1+1'})).result.value === 2;
  },
  cookies: async () => void (await context.cookies()),
  'request interception': async () => void (await page.route('**/*', (route) => route.continue())),
  'another context': async () => void (await browser.newContext()),
  'another site': async () => void (await page.goto('https://other.example/')),
  close: async () => {
    await page.close();
    await settle(100);
    return context.pages().length === 1;
  },
});
await browser.close();
console.log(JSON.stringify(out));
