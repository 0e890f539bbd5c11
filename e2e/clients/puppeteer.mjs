// A day's work of a Puppeteer program, against an address: it prints what it found.
import puppeteer from 'puppeteer-core';

const [address, product] = process.argv.slice(2);
const browser = await puppeteer.connect({browserWSEndpoint: address, defaultViewport: null});
const out = {};
const pages = await browser.pages();
out.pages = pages.length;
const page = pages[0];
out.sum = await page.evaluate((a, b) => a + b, 1, 2);
await page.click('#press');
out.pressed = await page.$eval('#state', (it) => it.textContent);
const second = await browser.newPage();
out.made = (await browser.pages()).length;
await second.goto(product);
out.title = await second.$eval('h1', (it) => it.textContent);
await second.click('#save');
await second.waitForFunction(() => document.querySelector('#state').textContent.startsWith('Saved'));
out.shot = (await second.screenshot()).length > 1000;
await second.close();
out.after = (await browser.pages()).length;
await browser.disconnect();
console.log(JSON.stringify(out));
