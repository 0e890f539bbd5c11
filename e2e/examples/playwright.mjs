// sessiondock run -- node playwright.mjs URL        (npm install playwright-core)
import {chromium} from 'playwright-core';

const browser = await chromium.connectOverCDP(process.env.SESSIONDOCK_CDP_URL);
const [page] = browser.contexts()[0].pages(); // the tab that the lease has in front
await page.goto(process.argv[2]);
console.log(await page.title());
await browser.close(); // closes the connection; the browser goes on
