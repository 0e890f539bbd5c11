import {chromium} from 'playwright-core';
const browser = await chromium.connectOverCDP(process.env.SESSIONDOCK_CDP_URL);
console.log(await browser.contexts()[0].pages()[0].title());
await browser.close();
