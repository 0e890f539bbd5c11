// A Playwright program that works until it is told to stop: it prints how it was told.
import {chromium} from 'playwright-core';

const [address] = process.argv.slice(2);
const browser = await chromium.connectOverCDP(address);
const page = browser.contexts()[0].pages()[0];
const gone = new Promise((resolve) => browser.once('disconnected', () => resolve(true)));
const out = {clicks: 0};
try {
  for (;;) {
    await page.click('#press', {timeout: 10_000});
    out.clicks++;
  }
} catch (error) {
  out.error = String(error.message).split('\n')[0];
}
out.disconnected = await gone;
out.connected = browser.isConnected();
try {
  await chromium.connectOverCDP(address, {timeout: 10_000});
  out.again = 'connected';
} catch (error) {
  out.again = String(error.message);
}
console.log(JSON.stringify(out));
