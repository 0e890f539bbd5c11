// Shared workers that may run an agent's code.

import assert from 'node:assert/strict';
import test from 'node:test';
import {rig, settle, until} from './rig.js';

const W = {id: 'W1', type: 'worker', url: 'blob:https://shop.test/8b82706c?x', attached: false};
const OTHERS = [
  {id: 'P1', type: 'page', url: 'blob:https://shop.test/a-page', attached: false, tabId: 1},
  {id: 'S1', type: 'worker', url: 'https://shop.test/sw.js', attached: false},
  {id: 'S2', type: 'worker', url: 'chrome-extension://self/gen/worker.js', attached: true},
];

/** Granted epoch 2; the browser has these targets. */
async function at(targets) {
  const it = await (await rig()).granted();
  it.targets = [...OTHERS, ...targets];
  it.fake.browser.debugTargets = async () => it.targets;
  it.closed = [];
  it.fake.browser.attachWorker = it.fake.browser.detachWorker = async () => {};
  it.fake.browser.closeWorker = async (id) => void it.closed.push(id);
  it.runs = async () => {
    it.cmd({script: true, effect: true});
    await settle();
  };
  it.drains = async (epoch) => {
    it.fence(epoch, {person: false});
    await until('drained', () => it.port.last('drained')?.epoch === epoch);
  };
  it.told = () => it.port.heard.map(({t, document, url}) => [t, document, url]).filter(([t]) => /^document|^drained/.test(t));
  return it;
}

test('a worker of no website’s code is told before the drain’s end, once an agent’s script has run, and its end is', async () => {
  const it = await at([W]);
  it.port.heard.length = 0;
  await it.drains(3);
  assert.deepEqual(it.told(), [['drained', undefined, undefined]], 'no script has run here');
  it.grant(3);
  it.cmd({epoch: 3, script: true, effect: true});
  await settle();
  it.port.heard.length = 0;
  await it.drains(4);
  assert.deepEqual(it.told().map(([t, document]) => [t, document]), [['document.found', 'worker:W1'], ['drained', undefined]]);
  assert.equal(it.port.last('document.found').url, 'blob:https://shop.test', 'what names its content is not told');
  it.targets = OTHERS;
  await until('its end', () => it.port.last('document.ended')?.document === 'worker:W1');
});

test('a page that ends leaves no moment in which its worker is not listed', async () => {
  const it = await at([]);
  await it.runs();
  await it.drains(3);
  it.targets.push(W);
  it.port.heard.length = 0;
  it.fake.alive.delete('D1');
  it.fake.commit(1, 'D6');
  await until('the page’s end', () => it.port.last('document.ended'));
  assert.deepEqual(it.told().map(([t, document]) => [t, document]), [['document.found', 'worker:W1'], ['document.ended', 'D1']]);
});

test('stopping pages ends workers, too: through the gate, and only those that were told', async () => {
  const it = await at([W]);
  await it.runs();
  await it.drains(3);
  const order = {by: 'agent', kind: 'worker_close', epoch: 3, port: it.port, tab: 0, frame: 0, document: '', method: '', params: {target: 'W1'}, monoMs: Infinity, wallMs: Infinity, action: 'A', seq: 1};
  assert.ok(it.dock.gate.dispatch(order).refused, 'an agent ends none');
  assert.ok(it.dock.gate.dispatch({...order, by: 'system', params: {target: 'S1'}}).refused);
  assert.ok(it.dock.gate.dispatch({...order, by: 'system', epoch: 2}).refused);
  assert.deepEqual(it.closed, []);
  it.fake.browser.closeWorker = async (id) => {
    it.closed.push(id);
    it.targets = OTHERS;
  };
  // A fence that comes while it is attached to: nothing is sent under the epoch that has ended.
  it.fake.browser.attachWorker = async () => it.dock.gate.raise(4);
  await it.dock.workers.end();
  assert.deepEqual(it.closed, ['W1'], 'under the epoch in force at that turn, as the system’s');
  it.closed.length = 0;
  it.targets = [...OTHERS, W];
  it.fake.browser.attachWorker = async () => {};
  await it.dock.workers.tell();
  it.daemon('stop.page', {epoch: 4, tabs: []});
  await until('its end', () => it.port.last('document.ended')?.document === 'worker:W1');
  assert.deepEqual(it.closed, ['W1']);
});

test('the next life of the extension’s worker goes on to look', async () => {
  const it = await at([W]);
  await it.runs();
  await it.drains(3);
  await until('stored', () => it.fake.session.workers?.length === 1 && it.fake.session.scripted === true);
});
