// Tabs without a page: those that the browser has restored, or whose page it has discarded.

import assert from 'node:assert/strict';
import test from 'node:test';
import {HEARD_MS, LOAD_MS} from '../limits.js';
import {rig, settle, until} from './rig.js';

/** Granted epoch 2; tab 1 is in front, tab 2 has no page. */
async function restored(fields = {status: 'unloaded'}, document = '') {
  const it = await rig({
    tabs: [[1, 'D1'], [2, 'D2', 'https://shop.test/second']],
    before: (fake) => {
      Object.assign(fake.tabList[1], fields);
      if (!document) fake.framesOf.delete(2);
    },
  });
  it.up();
  it.fence(2, {person: false});
  await settle();
  it.grant(2);
  it.ask = (more = {}) => it.cmd({expect: {tab: 2}, ...more});
  it.done = (kind) => it.fake.did.filter(([what, tab]) => what === kind && tab === 2).length;
  it.comes = (id = 'D3') => {
    Object.assign(it.fake.tabList[1], {status: 'loading', discarded: false});
    it.fake.emit('tabUpdated', 2, {}, it.fake.tabList[1]);
    it.fake.commit(2, id, 'https://shop.test/second');
  };
  return it;
}

test('a tab without a page is loaded before it is attached, and commands wait in their order', async () => {
  const it = await restored();
  const numbers = ['1', '2', '3'].map((expression) => it.ask({params: {expression}, effect: true}));
  await settle();
  assert.deepEqual([it.done('load'), it.done('attach'), it.done('send')], [1, 0, 0]);
  it.fake.emit('request', {requestId: 'R', tabId: 2, type: 'main_frame', method: 'GET', url: 'https://shop.test/second', timeStamp: it.fake.wall});
  it.comes();
  await until('the answers', () => numbers.every((n) => it.result(n)));
  assert.deepEqual(numbers.map((n) => it.result(n).ok), [true, true, true]);
  assert.deepEqual(it.fake.sent('Runtime.evaluate').map((d) => d[3].expression), ['1', '2', '3']);
  assert.deepEqual([it.done('load'), it.done('attach'), it.done('activate')], [1, 1, 0]);
  assert.deepEqual(it.report('A1').requests, [], 'the load is nobody’s action');
});

test('what the browser loads already is not loaded again', async () => {
  const it = await restored({status: 'loading'});
  const n = it.ask();
  await settle();
  assert.deepEqual([it.done('load'), it.done('attach')], [0, 0]);
  it.comes();
  await until('the answer', () => it.result(n));
  assert.equal(it.result(n).ok, true);
});

test('a discarded page is loaded, and the one before it is not taken for it', async () => {
  const it = await restored({status: 'unloaded', discarded: true}, 'D2');
  const n = it.ask();
  await settle();
  assert.deepEqual([it.done('load'), it.done('attach')], [1, 0]);
  it.comes();
  await until('the answer', () => it.result(n));
  assert.deepEqual(it.result(n).observed, {tab: 2, document: 'D3'});
});

test('a page that has crashed is none that is only to be loaded', async () => {
  const unseen = await restored({status: 'unloaded'}, 'D2');
  const first = unseen.ask();
  unseen.fake.answers['Runtime.evaluate'] = () => new Promise(() => {});
  await settle();
  unseen.fake.emit('debuggerEvent', 2, '', 'Inspector.targetCrashed', {});
  const second = unseen.ask();
  await settle();
  assert.equal(unseen.done('load'), 0);
  assert.match(unseen.result(first).error.message, /renderer crashed/);
  assert.match(unseen.result(second).error.message, /has crashed/);
});

test('a page that does not come: nothing was dispatched, and it can be tried again', async () => {
  const it = await restored();
  const n = it.ask({left_ms: 60_000});
  await settle();
  it.fake.pass(LOAD_MS);
  await until('the answer', () => it.result(n));
  assert.deepEqual([it.result(n).dispatched, it.result(n).error.code, it.done('attach')], [false, 'unavailable', 0]);
  const again = it.ask();
  await settle();
  it.comes();
  await until('the answer', () => it.result(again));
  assert.equal(it.result(again).ok, true);
});

test('a command does not wait for a page until its host has given it up', async () => {
  const it = await restored();
  const [short, long] = [it.ask({left_ms: 1_000}), it.ask({left_ms: 4_000})];
  await settle();
  it.fake.pass(1_000 - HEARD_MS);
  await until('the first answer', () => it.result(short));
  assert.deepEqual([it.result(short).dispatched, it.result(short).error.code, it.result(long)], [false, 'deadline', undefined]);
  it.comes();
  await until('the second answer', () => it.result(long));
  assert.equal(it.result(long).ok, true);
});

test('a fence or a press while a page is loaded: what waits is refused, and no tab is attached', async () => {
  for (const [name, end] of [
    ['a fence', (it) => it.fence(3)],
    ['a press', (it) => it.dock.people.takeOver(0)],
  ]) {
    const it = await restored();
    const n = it.ask({effect: true});
    await settle();
    assert.equal(it.done('load'), 1, name);
    end(it);
    await until('the answer', () => it.result(n));
    assert.deepEqual([it.result(n).dispatched, it.result(n).error.code], [false, 'fenced'], name);
    it.comes();
    await settle();
    assert.deepEqual([it.done('attach'), it.done('send')], [0, 0], name);
  }
  const it = await restored();
  let look;
  it.fake.browser.tab = () => new Promise((resolve) => (look = resolve));
  it.ask();
  it.fence(3);
  look(it.fake.tabList[1]);
  await settle();
  assert.equal(it.done('load'), 0, 'a fence before it is loaded');
});
