// What an agent is told of a page's console and of its requests.

import assert from 'node:assert/strict';
import test from 'node:test';
import {summary} from '../console.js';
import {MAX_LINE, MAX_LINES, MAX_TRAFFIC} from '../limits.js';
import {rig, settle} from './rig.js';

let ids = 0;
const look = async (it, kind, fields = {}) => {
  const n = it.cmd({kind, method: '', class: 'read', ...fields});
  await settle();
  return it.result(n);
};
function begins(it, fields = {}) {
  const requestId = `R${++ids}`;
  it.fake.emit('request', {
    requestId, method: 'GET', url: 'https://shop.test/a?b#c', type: 'xmlhttprequest', tabId: 1, frameId: 0, documentId: 'D1',
    initiator: 'https://shop.test', timeStamp: it.fake.wall, ...fields,
  });
  return requestId;
}
const ends = (it, event, requestId, fields) => it.fake.emit(event, {requestId, timeStamp: it.fake.wall, ...fields});

test('requests of a page: how each ended, and from the next page on only its own', async () => {
  const it = await (await rig()).granted();
  const [ok, not] = [begins(it), begins(it, {method: 'POST'})];
  begins(it, {url: 'https://shop.test/open'});
  it.fake.pass(30);
  ends(it, 'response', ok, {statusCode: 200});
  ends(it, 'requestError', not, {error: 'net::ERR_FAILED'});
  const {result} = await look(it, 'network');
  assert.deepEqual(result.requests.map(({method, url, state, status, error, ms}) => [method, url, state, status, error, ms]), [
    ['GET', 'https://shop.test/a?b', 'answered', 200, '', 30],
    ['POST', 'https://shop.test/a?b', 'failed', 0, 'net::ERR_FAILED', 30],
    ['GET', 'https://shop.test/open', 'in_flight', 0, '', 0],
  ]);
  begins(it, {type: 'main_frame', url: 'https://shop.test/next', documentId: undefined});
  assert.deepEqual((await look(it, 'network')).result.requests.map(({url}) => url), ['https://shop.test/next']);
});

test('requests: of other tabs, of frames beyond the origins and of workers nothing is told', async () => {
  const it = await rig({tabs: [[1, 'D1'], [2, 'D2']]});
  it.up();
  it.grant(2, {origins: ['https://shop.test']});
  begins(it, {initiator: 'https://ads.test', url: 'https://ads.test/of-its-frame'});
  begins(it, {tabId: 2});
  begins(it, {tabId: -1});
  begins(it, {url: 'https://cdn.test/of-the-page.js'});
  begins(it, {type: 'main_frame', tabId: 1, url: 'https://other.test/', initiator: undefined});
  assert.deepEqual((await look(it, 'network')).result, {requests: [], more: 0}, 'another page has come');
  begins(it, {type: 'main_frame', initiator: undefined});
  begins(it, {url: 'https://cdn.test/of-the-page.js'});
  begins(it, {initiator: undefined, url: 'https://ads.test/'});
  assert.deepEqual((await look(it, 'network')).result.requests.map(({url}) => url), ['https://shop.test/a?b', 'https://cdn.test/of-the-page.js']);
});

test('requests: what was seen under one epoch is told under no other, and no more is kept than the bound', async () => {
  const it = await rig();
  it.up();
  begins(it); // nobody's
  it.fence(2, {person: false});
  await settle();
  it.grant(2);
  assert.equal((await look(it, 'network')).result.requests.length, 0);
  for (let i = 0; i < MAX_TRAFFIC + 3; i++) begins(it, {url: `https://shop.test/${i}`});
  const {result} = await look(it, 'network');
  assert.deepEqual([result.requests.length, result.more, result.requests[0].url], [MAX_TRAFFIC, 3, 'https://shop.test/3']);
  it.fence(3, {person: false});
  await settle();
  begins(it); // a person's, or nobody's
  it.grant(3);
  assert.equal((await look(it, 'network', {epoch: 3, action: 'A3'})).result.requests.length, 0);
});

test('the console: through the gate, and refused where a client listens by itself', async () => {
  const it = await (await rig()).granted();
  it.fake.console = [{method: 'Runtime.consoleAPICalled', params: {type: 'log', args: [{type: 'string', value: 'hello'}], timestamp: 5}}];
  const heard = await look(it, 'console');
  assert.deepEqual(heard.result, {lines: [{level: 'info', text: 'hello', url: '', line: 0, at: 5}], more: 0});
  it.cmd({kind: 'watch', method: '', expect: {}, class: 'read'});
  await settle();
  it.fake.did.length = 0;
  const refused = await look(it, 'console', {action: 'A2'});
  assert.deepEqual([refused.dispatched, refused.error.code, it.fake.did], [false, 'conflict', []]);
  it.fence(3);
  const late = await look(it, 'console', {action: 'A3'});
  assert.deepEqual([late.dispatched, late.error.code, it.fake.did.filter(([what]) => what === 'console')], [false, 'fenced', []]);
});

test('the console’s lines: of every kind, in order, and no more than the bound', () => {
  const args = (...values) => values.map((value) => ({type: typeof value, value}));
  const frame = {url: 'https://shop.test/a.js', lineNumber: 4, columnNumber: 1};
  const {lines} = summary([
    {method: 'Log.entryAdded', params: {entry: {source: 'network', level: 'error', text: 'Failed to load', url: 'https://shop.test/x', timestamp: 4}}},
    {method: 'Runtime.exceptionThrown', params: {timestamp: 3, exceptionDetails: {text: 'Uncaught', exception: {description: 'Error: x'}, url: frame.url, lineNumber: 0}}},
    {method: 'Runtime.consoleAPICalled', params: {type: 'warning', args: args('a', 1, true), timestamp: 1, stackTrace: {callFrames: [frame]}}},
    {method: 'Runtime.consoleAPICalled', params: {type: 'trace', args: [{type: 'undefined'}, {type: 'number', unserializableValue: 'NaN'}, {type: 'object', description: 'Array(2)'}], timestamp: 2}},
    {method: 'Runtime.consoleAPICalled', params: {type: 'log', args: args('z'.repeat(2 * MAX_LINE)), timestamp: 5}},
    {method: 'Runtime.exceptionThrown', params: {}},
  ]);
  assert.deepEqual(lines.map(({level, text, line}) => [level, text.slice(0, 20), line]), [
    ['error', 'undefined', 0], ['warning', 'a 1 true', 5], ['debug', 'undefined NaN Array(', 0], ['error', 'Error: x', 1], ['error', 'Failed to load', 0],
    ['info', 'z'.repeat(20), 0],
  ]);
  assert.equal(lines.at(-1).text.length, MAX_LINE);
  const many = summary(Array.from({length: MAX_LINES + 7}, (_, i) => ({method: 'Runtime.consoleAPICalled', params: {type: 'log', args: args(`${i}`), timestamp: i}})));
  assert.deepEqual([many.lines.length, many.more, many.lines[0].text], [MAX_LINES, 7, '7']);
});
