// The one part of browser.js that waits for something: a page that leaves for the empty one.

import assert from 'node:assert/strict';
import test from 'node:test';
import {browser} from '../browser.js';
import {LEAVE_MS} from '../limits.js';
import {fromDebugger, isAnswer} from '../refusal.js';

/** Stands in for chrome.debugger: what was evaluated, and who listens. */
function makeDebugger(answer = Promise.resolve({})) {
  const heard = new Set();
  const did = [];
  globalThis.chrome = {
    debugger: {
      onEvent: {addListener: (f) => heard.add(f), removeListener: (f) => heard.delete(f)},
      sendCommand: (target, method, params) => (did.push([target, method, params.expression]), answer),
    },
  };
  return {heard, did, emit: (source, method, params) => [...heard].forEach((f) => f(source, method, params))};
}

const BLANK = 'about:blank';
const starts = (frameId, url = BLANK) => ['Page.frameStartedNavigating', {frameId, loaderId: `L-${frameId}`, url}];
const comes = (id, parentId, url = BLANK) => ['Page.frameNavigated', {frame: {id, parentId, loaderId: `L-${id}`, url}}];

test('only the page’s own frame tells that the page leaves for the empty one', async () => {
  for (const [name, main, foreign, own] of [
    ['the main frame is known', 'F', [starts('G'), comes('G', 'F'), comes('G'), starts('F', 'https://shop.test/')], starts('F')],
    ['it has come already', 'F', [comes('G', 'F')], comes('F')],
    ['the main frame is not known', '', [starts('G'), comes('G', 'F'), starts('F')], comes('F')],
  ]) {
    const {heard, did, emit} = makeDebugger();
    let left;
    const leaving = browser.leaveForBlank(1, main).then((answer) => (left = answer));
    assert.deepEqual(did, [[{tabId: 1}, 'Runtime.evaluate', "location.href = 'about:blank'"]], name);
    for (const event of foreign) emit({tabId: 1}, ...event);
    emit({tabId: 2}, ...own);
    emit({tabId: 1, sessionId: 'S'}, ...own);
    await new Promise(setImmediate);
    assert.equal(left, undefined, name);
    emit({tabId: 1}, ...own);
    assert.deepEqual(await leaving, {frameId: 'F', loaderId: 'L-F'}, name);
    assert.equal(heard.size, 0, name);
  }
});

test('a page that has not left in time may yet: nothing is said in the browser’s name', async (t) => {
  t.mock.timers.enable({apis: ['setTimeout']});
  const {heard} = makeDebugger();
  const leaving = browser.leaveForBlank(1, 'F');
  await new Promise(setImmediate);
  t.mock.timers.tick(LEAVE_MS);
  const error = await leaving.then(() => null, fromDebugger);
  assert.equal(error?.code, 'unavailable');
  assert.equal(isAnswer(error), false, 'the action stays as open as before');
  assert.equal(heard.size, 0);
});

test('a page that is not reached says so', async () => {
  const {heard} = makeDebugger(Promise.reject(new Error('Detached while handling command.')));
  await assert.rejects(browser.leaveForBlank(1, 'F'), /Detached/);
  assert.equal(heard.size, 0);
});
