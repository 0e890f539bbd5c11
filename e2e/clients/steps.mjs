// Fifty steps of a Playwright program on a page of rows, once for each line on standard
// input: the answer to each is how many milliseconds they took.
import {createInterface} from 'node:readline';
import {chromium} from 'playwright-core';

const [address, table] = process.argv.slice(2);
const browser = await chromium.connectOverCDP(address);
// The tab that is there already: one behind another draws no frames.
const page = browser.contexts()[0].pages().find((page) => page.url().startsWith(table));

async function steps() {
  await page.goto(table); // 1
  for (let row = 0; row < 12; row++) {
    const button = page.getByRole('button', {name: `Save ${row}`, exact: true});
    await button.click();
    await page.getByLabel(`Quantity ${row}`, {exact: true}).fill(String(row));
    await page.getByLabel(`Quantity ${row}`, {exact: true}).inputValue();
    if ((await page.textContent('#state')) !== String(row + 1)) throw new Error(`the click on row ${row} did not land`);
  }
  await page.evaluate(() => document.title); // 50
}

for await (const _ of createInterface({input: process.stdin})) {
  const start = performance.now();
  await steps();
  console.log(performance.now() - start);
}
await browser.close();
