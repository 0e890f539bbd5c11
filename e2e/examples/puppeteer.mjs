// sessiondock run -- node puppeteer.mjs URL        (npm install puppeteer-core)
import puppeteer from 'puppeteer-core';

const browser = await puppeteer.connect({browserWSEndpoint: process.env.SESSIONDOCK_CDP_URL, defaultViewport: null});
const [page] = await browser.pages();
await page.goto(process.argv[2]);
console.log(await page.title());
await browser.disconnect();
