// A day's work of a Playwright program, against an address: it prints what it found.
import {chromium} from 'playwright-core';

const [address, product] = process.argv.slice(2);
const browser = await chromium.connectOverCDP(address);
const out = {};
const context = browser.contexts()[0];
out.pages = context.pages().length;
const page = context.pages()[0];
out.sum = await page.evaluate(([a, b]) => a + b, [1, 2]);
await page.click('#press');
out.pressed = await page.textContent('#state');
const second = await context.newPage();
out.made = context.pages().length;
await second.goto(product);
out.title = await second.textContent('h1');
await second.click('#save');
await second.waitForFunction(() => document.querySelector('#state').textContent.startsWith('Saved'));
await second.setContent('<input id=name><iframe srcdoc="<b>inner</b>"></iframe>');
await second.fill('#name', 'Ada');
out.filled = await second.inputValue('#name');
out.inner = await second.frames()[1].textContent('b');
second.on('dialog', (dialog) => {
  out.dialog = dialog.message();
  void dialog.accept();
});
await second.evaluate(() => alert('hello'));
out.shot = (await second.screenshot()).length > 500;
await second.close();
out.after = context.pages().length;
await browser.close();
console.log(JSON.stringify(out));
