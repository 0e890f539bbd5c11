// Which request belongs to which action, and what is kept of it.

import assert from 'node:assert/strict';
import test from 'node:test';
import {withoutQuery} from '../evidence.js';
import {Ledger} from '../ledger.js';
import {MAX_ACTIONS, MAX_EVIDENCE, MAX_REQUESTS} from '../limits.js';
import {rig, settle, until} from './rig.js';

let ids = 0;
async function clicked() {
  const it = await (await rig()).granted();
  await it.click();
  it.begin = (fields = {}) => {
    const requestId = String(++ids);
    it.fake.emit('request', {
      requestId, method: 'POST', url: 'https://shop.test/save?token=secret#x', type: 'xmlhttprequest', tabId: 1, frameId: 0,
      documentId: 'D1', timeStamp: it.fake.wall, ...fields,
    });
    return requestId;
  };
  it.end = (event, requestId, fields = {}) => it.fake.emit(event, {requestId, timeStamp: it.fake.wall, ...fields});
  it.requests = (action = 'A1') => it.report(action).requests;
  return it;
}

test('by document: begun, answered, and nothing of the query', async () => {
  const it = await clicked();
  const id = it.begin();
  assert.deepEqual(it.requests(), [
    {id, method: 'POST', url: 'https://shop.test/save', type: 'xmlhttprequest', state: 'in_flight', status: 0, error: '',
      rule: 'document', after_fence: false, began_ms: it.fake.wall, ended_ms: 0},
  ]);
  it.fake.pass(30);
  it.end('response', id, {statusCode: 201});
  assert.deepEqual([it.requests()[0].state, it.requests()[0].status, it.requests()[0].ended_ms], ['answered', 201, it.fake.wall]);
  it.end('requestError', id, {error: 'net::ERR_ABORTED'});
  assert.equal(it.requests()[0].state, 'answered', 'what was answered stays so');
});

test('the first request of an action that has come to rest is told at once, before the answer to its barrier', async () => {
  const it = await clicked();
  it.begin();
  it.port.heard.length = 0;
  it.cmd({kind: 'barrier', method: ''});
  await settle();
  assert.deepEqual(it.port.heard.map(({t}) => t).slice(0, 2), ['report', 'cmd.result']);

  await it.click({action: 'A2'});
  it.cmd({kind: 'barrier', method: '', action: 'A2'});
  await settle();
  it.port.heard.length = 0;
  it.begin();
  assert.deepEqual(it.port.heard.map(({t, action}) => [t, action?.action]), [['report', 'A2']], 'in the turn in which it is seen');
});

test('a failure is told in Chromium’s words', async () => {
  const it = await clicked();
  it.end('requestError', it.begin(), {error: 'net::ERR_ABORTED'});
  assert.deepEqual([it.requests()[0].state, it.requests()[0].error], ['failed', 'net::ERR_ABORTED']);
});

test('a redirect answers the one and begins another', async () => {
  const it = await clicked();
  for (const [code, method] of [[303, 'GET'], [307, 'POST']]) {
    const id = it.begin();
    it.end('redirect', id, {statusCode: code, redirectUrl: 'https://shop.test/done?x', type: 'xmlhttprequest'});
    it.begin({requestId: id, method: 'GET', url: 'https://shop.test/done'});
    const [first, second] = it.requests().slice(-2);
    assert.deepEqual([first.state, first.status], ['answered', code]);
    assert.deepEqual([second.method, second.url, second.state], [method, 'https://shop.test/done', 'in_flight']);
    it.end('response', id, {statusCode: 200});
    assert.equal(it.requests().at(-1).status, 200);
  }
});

test('by navigation: same tab, between the effect and the next commit, or a tab opened from there', async () => {
  const it = await clicked();
  const form = {documentId: undefined, type: 'main_frame'};
  it.begin(form);
  assert.equal(it.requests().at(-1).rule, 'navigation');
  it.begin({...form, tabId: 9});
  assert.equal(it.requests().length, 1, 'a tab that has nothing to do with it');
  it.fake.emit('navigationTarget', {sourceTabId: 1, tabId: 9});
  it.begin({...form, tabId: 9});
  assert.equal(it.requests().length, 2);
  it.begin({...form, type: 'sub_frame', parentDocumentId: 'D1', frameId: 5});
  assert.equal(it.requests().length, 3);
  it.fake.commit(1, 'D2');
  it.begin({...form, method: 'GET'});
  assert.equal(it.requests().length, 3, 'after the commit it is the new document’s');
  it.begin({documentId: 'D1', tabId: -1});
  assert.deepEqual(it.requests().at(-1).rule, 'document', 'the old document’s late request is still its own');
});

test('a page that navigates by itself does not hide what was asked for', async () => {
  const form = {documentId: undefined, type: 'main_frame'};
  // The click is under way, and the page's own navigation is committed first.
  const it = await clicked();
  it.fake.commit(1, 'D2');
  it.fake.pass(900);
  it.begin({...form, method: 'GET'});
  assert.deepEqual([it.requests().length, it.requests().at(-1)?.rule], [1, 'navigation']);

  // It begins before the click's own: that one is still looked for if it asks for an effect.
  const second = await clicked();
  second.begin({...form, method: 'GET'});
  second.fake.commit(1, 'D2');
  second.begin({...form, method: 'GET'});
  assert.equal(second.requests().length, 1);
  second.begin(form);
  assert.deepEqual(second.requests().map(({method}) => method), ['GET', 'POST']);

  const late = await clicked();
  late.fake.commit(1, 'D2');
  late.fake.pass(1_100);
  late.begin(form);
  assert.equal(late.requests().length, 0, 'that is not watched for without an end');

  // A navigation that is not answered goes on, however late it begins.
  const go = order('A', {method: 'Page.navigate'});
  const ledger = new Ledger(() => 1, () => {});
  ledger.dispatched(go, 'D', 1);
  ledger.replaced(1, 'D');
  const entry = /** @type {any} */ (ledger.get('A'));
  assert.equal(ledger.navigates(entry, 60_000, 'GET'), true);
  ledger.settled(go, 'answered');
  ledger.replaced(1, 'E');
  assert.equal(ledger.navigates(entry, 60_000, 'GET'), false);
});

test('a navigation that was cut off is not at rest because a barrier passed', () => {
  const ledger = new Ledger(() => 1, () => {});
  const go = order('A', {method: 'Page.navigate'});
  ledger.dispatched(go, 'D', 1);
  ledger.settled(go, 'cut');
  ledger.barrier('D', ledger.tick());
  assert.equal(ledger.get('A').how, 'open');
  ledger.replaced(1, 'D');
  assert.equal(ledger.get('A').how, 'lost');

  // A worker that begins anew knows no more of it than the one that was cut off.
  const former = new Ledger(() => 1, () => {});
  former.dispatched(go, 'D', 1);
  const next = new Ledger(() => 1, () => {});
  next.restore(former.snapshot());
  next.barrier('D', next.tick());
  assert.equal(next.get('A').how, 'open');

  const press = order('B', {method: 'Input.dispatchMouseEvent'});
  ledger.dispatched(press, 'E', 1);
  ledger.settled(press, 'cut');
  ledger.barrier('E', ledger.tick());
  assert.equal(ledger.get('B').how, 'barrier', 'input is');
});

test('by worker: no tab, the page’s origin, and said to be weak', async () => {
  const it = await clicked();
  const worker = {documentId: undefined, tabId: -1, type: 'xmlhttprequest'};
  it.begin({...worker, initiator: 'https://other.test'});
  it.begin({...worker, initiator: undefined});
  assert.equal(it.requests().length, 0);
  it.begin({...worker, initiator: 'https://shop.test'});
  assert.equal(it.requests()[0].rule, 'worker_origin');
});

test('a frame’s request belongs to the page that holds it', async () => {
  const it = await clicked();
  it.fake.emit('committed', {tabId: 1, frameId: 4, documentId: 'F4', url: 'https://pay.test/', documentLifecycle: 'active'});
  it.begin({documentId: 'F4', frameId: 4});
  assert.equal(it.requests()[0].rule, 'document');
});

test('the latest action before the request has it; one begun before the effect is nobody’s', async () => {
  const it = await clicked();
  it.begin({timeStamp: it.fake.wall - 500});
  assert.equal(it.requests().length, 0);
  it.fake.pass(100);
  await it.click({action: 'A2'});
  it.begin();
  it.begin({timeStamp: it.fake.wall - 50});
  assert.deepEqual([it.requests('A1').length, it.requests('A2').length], [1, 1]);
});

test('the watch ends after the window, which begins when the work came to rest', async () => {
  const it = await clicked();
  it.fake.pass(60_000);
  it.begin();
  assert.equal(it.requests().length, 1, 'not at rest: watched');
  it.cmd({kind: 'barrier', method: '', left_ms: 1000});
  it.grant(2);
  it.cmd({kind: 'barrier', method: ''});
  await settle();
  it.fake.pass(5_000);
  it.begin();
  assert.equal(it.requests().length, 2);
  it.fake.pass(1);
  it.begin();
  assert.equal(it.requests().length, 2);
});

test('what a page makes long is kept short', async () => {
  const it = await clicked();
  const long = 'X'.repeat(1 << 20);
  const requestId = '9'.repeat(500);
  it.begin({method: long, type: long, url: `https://shop.test/${long}`, requestId});
  it.end('requestError', requestId, {error: long});
  const {method, type, error, url, id: kept} = it.requests()[0];
  assert.deepEqual([method, type, error, url, kept].map((text) => text.length), [32, 32, 128, 2048, 64]);
  assert.equal(it.requests()[0].state, 'failed');
});

test('lost, not forgotten: the click’s request is its own however late, and rest begins the window', async () => {
  const it = await clicked();
  let passes;
  it.fake.barrier = (_, document) => new Promise((resolve) => (passes = () => resolve([{documentId: document}])));
  it.fence(3, {deadline_ms: 40});
  await until('drained', () => it.port.last('drained')?.epoch === 3);
  assert.equal(it.report('A1').how, 'lost');
  it.fake.pass(120_000);
  const late = it.begin();
  assert.deepEqual(it.requests().map((r) => [r.id, r.rule, r.after_fence]), [[late, 'document', true]]);
  await until('report', () => it.port.last('report')?.action.requests.length === 1);

  passes();
  await until('rest', () => it.report('A1').how === 'barrier');
  it.fake.pass(5_000);
  it.begin();
  assert.equal(it.requests().length, 2, 'within the window from the rest itself');
  it.fake.pass(1);
  it.begin();
  assert.equal(it.requests().length, 2);
});

test('what is lost with its document is watched by that document, not for what its tab does later', async () => {
  const it = await clicked();
  it.fake.commit(1, 'D2', 'https://shop.test/other');
  assert.equal(it.report('A1').how, 'lost');
  it.fake.pass(600_000);
  it.begin();
  assert.equal(it.requests().length, 1);
  it.begin({documentId: 'D2'});
  it.begin({documentId: undefined, type: 'main_frame'});
  it.fake.emit('navigationTarget', {sourceTabId: 1, tabId: 9});
  it.begin({documentId: undefined, type: 'main_frame', tabId: 9});
  assert.equal(it.requests().length, 1);
  it.daemon('forget', {actions: ['A1']});
  it.begin();
  assert.equal(it.report('A1'), undefined);
});

test('after the fence the watch goes on, and says so', async () => {
  const it = await clicked();
  it.fence(3);
  await until('drained', () => it.port.last('drained')?.epoch === 3);
  it.fake.pass(10);
  it.begin();
  it.begin({timeStamp: it.fake.wall - 10.5});
  assert.deepEqual(it.requests().map((r) => r.after_fence), [true, false]);
  await until('report', () => it.port.last('report')?.action.requests.length === 2);
});

test('a running download is listed until it has ended', async () => {
  const it = await clicked();
  const item = {id: 7, url: 'https://cdn.test/a.zip?sig=1', referrer: 'https://shop.test/', state: 'in_progress', startTime: new Date(it.fake.wall).toISOString()};
  it.fake.emit('downloadCreated', item);
  assert.deepEqual(it.report('A1').downloads, ['https://cdn.test/a.zip']);
  it.fake.emit('downloadChanged', {id: 7, state: {current: 'complete'}});
  assert.deepEqual(it.report('A1').downloads, []);
});

test('an address is kept without query, fragment and credentials', () => {
  assert.equal(withoutQuery('https://u:p@shop.test:8443/a/b?c=d#e'), 'https://shop.test:8443/a/b');
  assert.equal(withoutQuery('nonsense'), '');
  assert.equal(withoutQuery('about:blank?x#y'), 'about:blank');
  assert.equal(withoutQuery('data:text/plain,secret'), 'data:', 'what a data address holds is content');
  assert.equal(withoutQuery('blob:https://shop.test/1-2'), 'blob:https://shop.test');
  assert.equal(withoutQuery(`https://shop.test/${'x'.repeat(5000)}`).length, 2048);
});

const order = (action, over = {}) => ({action, epoch: 2, tab: 1, kind: 'cdp', method: 'DOM.focus', script: false, effect: true, params: {}, ...over});

test('the ledger refuses more than it can keep, and never lets go of what is not forgotten', () => {
  const ledger = new Ledger(() => 1, () => {});
  for (let i = 0; i < MAX_ACTIONS; i++) ledger.dispatched(order(`A${i}`), 'D', 1);
  assert.equal(ledger.room('more'), false);
  assert.equal(ledger.room('A0'), true);
  assert.equal(ledger.reports().length, MAX_ACTIONS);
  ledger.forget(['A3']);
  assert.equal(ledger.room('more'), true);
  assert.equal(ledger.get('A0').action, 'A0');
});

test('requests beyond the bound are counted, and one that can change something displaces one that cannot', () => {
  const ledger = new Ledger(() => 1, () => {});
  const entry = ledger.dispatched(order('A'), 'D', 1);
  const request = (id, method, state) => ({id, method, state, url: '', type: '', status: 0, error: '', rule: 'document', after_fence: false, began_ms: 1, ended_ms: 0});
  for (let i = 0; i < MAX_EVIDENCE; i++) ledger.request(entry, request(`g${i}`, 'GET', i === 0 ? 'in_flight' : 'answered'));
  ledger.request(entry, request('more', 'GET', 'in_flight'));
  ledger.request(entry, request('post', 'POST', 'in_flight'));
  const [report] = ledger.reports();
  assert.equal(report.requests.length, MAX_EVIDENCE);
  assert.equal(report.more, 2);
  assert.ok(report.requests.some((r) => r.id === 'post') && report.requests.some((r) => r.id === 'g0'));
  assert.ok(!report.requests.some((r) => r.id === 'more' || r.id === 'g1'));
});

test('requests that can change something displace every other, under way or not', () => {
  const ledger = new Ledger(() => 1, () => {});
  const entry = ledger.dispatched(order('A'), 'D', 1);
  const request = (id, method) => ({id, method, state: 'in_flight', url: '', type: '', status: 0, error: '', rule: 'document', after_fence: false, began_ms: 1, ended_ms: 0});
  for (let i = 0; i < MAX_EVIDENCE; i++) ledger.request(entry, request(`g${i}`, 'GET'));
  for (let i = 0; i <= MAX_EVIDENCE; i++) ledger.request(entry, request(`p${i}`, 'POST'));
  const [report] = ledger.reports();
  assert.deepEqual(report.requests.map((r) => r.id), Array.from({length: MAX_EVIDENCE}, (_, i) => `p${i}`));
  assert.equal(report.more, MAX_EVIDENCE + 1);
});

test('where too many are followed, how the next one ended is said to be unheard', async () => {
  const it = await clicked();
  for (let i = 0; i < MAX_REQUESTS; i++) it.begin({method: 'GET'});
  const id = it.begin();
  it.end('response', id, {statusCode: 200});
  const told = it.requests().find((r) => r.id === id);
  assert.deepEqual([told.state, told.error], ['failed', 'how it ended was not heard']);
  assert.equal(it.report('A1').more, MAX_REQUESTS - MAX_EVIDENCE + 2);
});

test('each change has a rev of its own, and nothing that is at rest is called open again without an effect', () => {
  const revs = [];
  const ledger = new Ledger(() => 1, (entry) => revs.push(entry.rev));
  const one = order('A', {method: 'Input.insertText'});
  ledger.dispatched(one, 'D', 1);
  ledger.settled(one, 'answered');
  ledger.barrier('D', ledger.tick());
  ledger.barrier('D', ledger.tick());
  ledger.settled(one, 'answered');
  ledger.lost(3);
  assert.deepEqual(revs, [1, 2, 3]);
  assert.equal(ledger.get('A').how, 'barrier');
  ledger.dispatched(one, 'D', 1);
  assert.equal(ledger.get('A').how, 'open');
  ledger.barrier('D', ledger.tick() - 1);
  assert.equal(ledger.get('A').how, 'open', 'a barrier that was sent before the effect says nothing of it');
});

test('a navigation under way is not at rest because its old document is', () => {
  const ledger = new Ledger(() => 1, () => {});
  const go = order('A', {method: 'Page.navigate'});
  ledger.dispatched(go, 'D', 1);
  assert.equal(ledger.busy('D', true), true);
  ledger.barrier('D', ledger.tick());
  ledger.replaced(1, 'D');
  assert.equal(ledger.get('A').how, 'open');
  ledger.settled(go, 'answered');
  assert.deepEqual([ledger.get('A').how, ledger.get('A').howRule], ['barrier', 'answered']);
});
