import assert from 'node:assert/strict';
import {readdirSync, readFileSync} from 'node:fs';
import test from 'node:test';

const HOME = new URL('../', import.meta.url);
const sources = readdirSync(HOME)
  .filter((name) => name.endsWith('.js'))
  .map((name) => ({name, text: readFileSync(new URL(name, HOME), 'utf8')}));

/** The source without comments, where words may name what the code may not. */
const code = (text) => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '');

test('only gate.js has an effect on a page or a tab', () => {
  const effects = /\b(sendCommand|runNothing|createTab|closeTab|activateTab|blankTab|loadTab|leaveForBlank|gotoTab|readText)\b/;
  assert.ok(sources.length > 15);
  for (const {name, text} of sources) {
    const found = effects.test(code(text));
    assert.equal(found, ['gate.js', 'browser.js'].includes(name), name);
  }
  const calls = code(sources.find((s) => s.name === 'gate.js').text).match(/\.sendCommand\(/g);
  assert.equal(calls.length, 1);
});

test('only browser.js names chrome.*', () => {
  for (const {name, text} of sources) {
    const names = /\bchrome\s*\.\s*(?!runtime\.Port\b|tabs\.Tab\b)\w|\bchrome\s*\[/.test(code(text));
    assert.equal(names, name === 'browser.js', name);
  }
});

test('the worker registers its listeners in its first turn', () => {
  const dock = code(sources.find((s) => s.name === 'dock.js').text);
  const start = dock.slice(dock.indexOf('  start() {'), dock.indexOf('this.#ready = this.#prepare()'));
  assert.ok(start.includes('on.connect(') && start.includes('on.requestError('));
  assert.ok(!/\bawait\b/.test(start));
  const elsewhere = dock.replace(start, '');
  assert.ok(!/\bon\.\w+\(/.test(elsewhere));
});

test('the manifest opens no door to pages', () => {
  const manifest = JSON.parse(readFileSync(new URL('manifest.json', HOME), 'utf8'));
  for (const door of ['web_accessible_resources', 'externally_connectable', 'content_scripts', 'sandbox', 'optional_permissions']) {
    assert.equal(manifest[door], undefined, door);
  }
});
