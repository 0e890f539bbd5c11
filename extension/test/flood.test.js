// A page whose debugger's events come faster than the browser passes them on.

import assert from 'node:assert/strict';
import test from 'node:test';
import {FLOOD_MS, FLOOD_WEIGHT} from '../limits.js';
import {rig, settle, until} from './rig.js';

/** Granted epoch 2, a client watches, and the browser answers no small question. */
async function watched(ping = () => new Promise(() => {})) {
  const it = await (await rig({tabs: [[1, 'D1'], [2, 'D2']]})).granted();
  it.fake.browser.debugTargets = async () => [{id: 'T1', tabId: 1, type: 'page'}, {id: 'T2', tabId: 2, type: 'page'}];
  it.cmd({kind: 'watch', method: '', expect: {}, class: 'read'});
  await settle();
  it.fake.ping = ping;
  it.fake.did.length = 0;
  return it;
}

const LINE = {type: 'log', args: [{type: 'string', value: 'z'.repeat(2000)}]};
/** More than is a flood, if it comes within the time. */
const MANY = Math.ceil(FLOOD_WEIGHT / 2000);

function comes(it, method, params, {child = '', count = MANY} = {}) {
  for (let i = 0; i < count; i++) {
    if (i === Math.ceil(count / 8)) it.fake.pass(FLOOD_MS); // the browser has been asked by then
    it.fake.emit('debuggerEvent', 1, child, method, params);
  }
}

const events = (it) => it.port.of('cdp.event').length;
const detached = (it) => it.fake.did.filter(([what]) => what === 'detach');

test('a flood of any kind ends the debugging of its tab in that turn, and the lease’s clients are told', async () => {
  for (const [method, params, fields] of [
    ['Runtime.consoleAPICalled', LINE],
    ['Runtime.consoleAPICalled', LINE, {child: 'S1'}],
    ['Runtime.bindingCalled', {name: 'tell', payload: 'z'.repeat(2000)}],
    ['Log.entryAdded', {entry: {text: 'z'.repeat(2000)}}],
    ['DOM.attributeModified', {nodeId: 1, name: 'a', value: ''}, {count: 2 * MANY}],
    ['Network.requestWillBeSent', {request: {url: 'https://shop.test/'}}, {count: 40 * MANY}],
  ]) {
    const it = await watched();
    comes(it, method, params, fields);
    assert.deepEqual(detached(it), [['detach', 1]], method);
    assert.deepEqual([it.port.last('cdp.lost').epoch, it.port.last('cdp.lost').tab], [2, 1], method);
    const told = events(it);
    it.fake.emit('debuggerEvent', 1, '', method, params);
    assert.equal(events(it), told, `${method}: what was under way is nobody’s`);
    assert.equal(it.port.of('cdp.lost').length, 1, method);
  }
});

test('as long as the browser answers, as much as comes is passed on', async () => {
  const it = await watched(() => ({then: (f) => f()}));
  comes(it, 'Runtime.consoleAPICalled', LINE);
  assert.deepEqual([detached(it), events(it)], [[], MANY]);
});

test('a large page load, and a browser that stands still, are no flood', async () => {
  const it = await watched();
  comes(it, 'Network.requestWillBeSent', {request: {url: 'https://shop.test/', headers: {Accept: 'x'.repeat(300)}}}, {count: 14_000});
  it.fake.pass(60_000);
  it.fake.emit('debuggerEvent', 1, '', 'Runtime.consoleAPICalled', LINE);
  assert.deepEqual([detached(it), it.port.of('cdp.lost')], [[], []]);
});

test('what was open in a flood is unknown, with the reason; what is held down is let go, and a later command attaches anew', async () => {
  const it = await watched();
  it.cmd({method: 'Input.dispatchMouseEvent', params: {type: 'mousePressed', x: 5, y: 5, button: 'left'}, effect: true, action: 'A2'});
  let end = () => {};
  it.fake.answers['Runtime.evaluate'] = () => new Promise((_, reject) => (end = () => reject(new Error('Detached while handling command.'))));
  const open = it.cmd({action: 'A3', script: true});
  await settle();
  it.fake.did.length = 0;
  comes(it, 'Runtime.consoleAPICalled', LINE);
  end();
  await settle();
  assert.deepEqual(it.fake.did.map(([what, , method]) => method ?? what), ['Input.dispatchMouseEvent', 'detach']);
  const {ok, dispatched, error} = it.result(open);
  assert.deepEqual([ok, dispatched, error.code, error.detail], [false, true, 'unavailable', undefined]);
  assert.match(error.message, /faster than they could be passed on, so its debugging was ended/);
  assert.match(error.hint, /say less/);
  delete it.fake.answers['Runtime.evaluate'];
  const next = it.cmd({action: 'A4'});
  await until('the next command goes on, although the browser has not answered yet', () => it.result(next)?.ok);
  assert.ok(it.fake.did.some(([what, tab]) => what === 'attach' && tab === 1));
});

test('after a press nobody is told, and the debugging is ended all the same', async () => {
  const it = await watched();
  const popup = it.popup();
  popup.say({t: 'takeover'});
  comes(it, 'Runtime.consoleAPICalled', LINE);
  assert.deepEqual([detached(it), it.port.of('cdp.lost'), events(it)], [[['detach', 1]], [], 0]);
});
