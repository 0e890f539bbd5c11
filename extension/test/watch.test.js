// What DevTools clients are told, and to whom it is never told.

import assert from 'node:assert/strict';
import test from 'node:test';
import {rig, settle} from './rig.js';

const NAMES = [{id: 'T1', tabId: 1, type: 'page'}, {id: 'T2', tabId: 2, type: 'page'}, {id: 'W', type: 'worker'}];

/** Granted epoch 2, and a client watches. */
async function watched(options) {
  const it = await (await rig(options)).granted();
  it.fake.browser.debugTargets = async () => NAMES;
  const n = it.cmd({kind: 'watch', method: '', expect: {}, class: 'read'});
  await settle();
  assert.match(it.result(n).result.userAgent, /Chrome/);
  return it;
}

const event = (it, method, params = {}, child = '', tab = 1) => it.fake.emit('debuggerEvent', tab, child, method, params);
const events = (it) => it.port.of('cdp.event');

test('a client is told of the lease’s tabs, and of their events under the epoch', async () => {
  const it = await watched();
  const tab = it.port.last('cdp.tab');
  assert.deepEqual(
    [tab.epoch, tab.tab, tab.target, tab.url, tab.document, tab.owned], [2, 1, 'T1', 'https://shop.test/', 'D1', false],
  );
  event(it, 'Runtime.consoleAPICalled', {type: 'log'});
  const {epoch, document, method, params} = events(it).at(-1);
  assert.deepEqual([epoch, document, method, params], [2, 'D1', 'Runtime.consoleAPICalled', {type: 'log'}]);
  it.fake.commit(1, 'D9', 'https://shop.test/next');
  await settle();
  assert.deepEqual([it.port.last('cdp.tab').document, it.port.last('cdp.tab').url], ['D9', 'https://shop.test/next']);
  it.fake.emit('tabRemoved', 1);
  assert.equal(it.port.last('cdp.tab').gone, true);
});

test('nobody watches: nothing is told', async () => {
  const it = await (await rig()).granted();
  event(it, 'Runtime.consoleAPICalled');
  it.fake.commit(1, 'D9');
  await settle();
  assert.deepEqual([events(it), it.port.of('cdp.tab')], [[], []]);
});

test('from a fence on, and from a press on, nothing is told, under no later epoch either (I10)', async () => {
  for (const [name, end] of [
    ['a fence', (it) => it.fence(3)],
    ['a press', (it) => {
      const popup = it.popup();
      popup.say({t: 'takeover'});
      popup.say({t: 'take_over'});
      it.dock.people.takeOver(0);
    }],
    ['the end of the link', (it) => it.port.say({t: 'link', up: false, reason: 'gone'})],
  ]) {
    const it = await watched();
    event(it, 'Runtime.consoleAPICalled');
    const before = events(it).length;
    assert.equal(before, 1, name);
    end(it);
    event(it, 'Runtime.consoleAPICalled', {secret: 1});
    it.fake.commit(1, 'D9', 'https://shop.test/secret');
    await settle();
    event(it, 'Runtime.consoleAPICalled', {secret: 2});
    assert.equal(events(it).length, before, name);
    assert.ok(!JSON.stringify(it.port.of('cdp.tab')).includes('secret'), name);
  }
  const it = await watched();
  it.fence(3, {person: false});
  await settle();
  it.grant(4);
  event(it, 'Runtime.consoleAPICalled', {of: 'the next holder'});
  assert.equal(events(it).length, 0, 'the next holder has not asked');
});

test('of a page beyond the origins it is told that it came, and nothing else', async () => {
  const it = await rig();
  it.up();
  it.fence(2, {person: false});
  await settle();
  it.grant(2, {origins: ['https://shop.test']});
  it.fake.browser.debugTargets = async () => NAMES;
  it.cmd({kind: 'watch', method: '', expect: {}, class: 'read'});
  it.cmd({});
  await settle();
  it.fake.commit(1, 'D9', 'https://bank.test/account?secret=1');
  await settle();
  event(it, 'Page.frameNavigated', {frame: {id: 'F', loaderId: 'L', url: 'https://bank.test/account?secret=1', mimeType: 'text/html'}});
  event(it, 'Runtime.consoleAPICalled', {secret: 1});
  event(it, 'Network.responseReceived', {secret: 1});
  event(it, 'Page.loadEventFired', {timestamp: 1});
  assert.deepEqual(events(it).map((e) => e.method), ['Page.frameNavigated', 'Page.loadEventFired']);
  assert.equal(events(it)[0].params.frame.url, 'https://bank.test/');
  assert.ok(!JSON.stringify([events(it), it.port.of('cdp.tab')]).includes('secret'));
});

test('a tab that is not the lease’s is told of to nobody', async () => {
  const it = await watched({tabs: [[1, 'D1'], [2, 'D2', 'chrome://settings/']]});
  event(it, 'Runtime.consoleAPICalled', {}, '', 2);
  assert.deepEqual(it.port.of('cdp.tab').map((m) => m.tab), [1]);
  assert.equal(events(it).length, 0);
});

test('cookies and passwords are in no event', async () => {
  const it = await watched();
  const cookie = 'session=hunter2';
  event(it, 'Network.requestWillBeSentExtraInfo', {headers: {Cookie: cookie, Authorization: 'Basic hunter2', 'proxy-authorization': 'hunter2', Accept: '*'}, associatedCookies: [{cookie: {value: 'hunter2'}}]});
  event(it, 'Network.responseReceivedExtraInfo', {
    headers: {'set-cookie': cookie, Server: 'x'}, headersText: `Set-Cookie: ${cookie}`, blockedCookies: [{cookieLine: cookie}], exemptedCookies: [{cookieLine: cookie}],
  });
  event(it, 'Network.webSocketWillSendHandshakeRequest', {request: {headers: {Cookie: cookie}}});
  event(it, 'Network.webSocketHandshakeResponseReceived', {
    response: {headers: {'Set-Cookie': cookie}, headersText: cookie, requestHeaders: {cookie}, requestHeadersText: cookie},
  });
  assert.equal(events(it).length, 4);
  assert.ok(!JSON.stringify(events(it)).includes('hunter2'));
  assert.deepEqual([events(it)[0].params.headers, events(it)[1].params.headers], [{Accept: '*'}, {Server: 'x'}]);
});

test('a child session: known, within the origins, and by the same table of methods', async () => {
  const it = await rig();
  it.up();
  it.fence(2, {person: false});
  await settle();
  it.grant(2, {origins: ['https://shop.test']});
  it.cmd({});
  await settle();
  const child = (sessionId, url) => event(it, 'Target.attachedToTarget', {sessionId, targetInfo: {targetId: `F-${sessionId}`, url}});
  child('S1', 'https://shop.test/frame');
  child('S2', 'https://bank.test/frame');
  child('S3', '');
  const code = (fields) => {
    const n = it.cmd({document: '', expect: {tab: 1}, ...fields});
    return it.result(n)?.error?.code ?? 'dispatched';
  };
  assert.equal(code({session: 'S1'}), 'dispatched');
  assert.deepEqual(it.fake.did.at(-1), ['send', 1, 'Runtime.evaluate', {}, 'S1']);
  assert.equal(code({session: 'S3'}), 'dispatched');
  assert.equal(code({session: 'S2'}), 'policy');
  assert.equal(code({session: 'S2', method: 'Runtime.runIfWaitingForDebugger'}), 'dispatched');
  assert.equal(code({session: 'nobody'}), 'not_found');
  assert.equal(code({session: 'S1', method: 'Network.getAllCookies'}), 'policy');
  assert.equal(code({session: 'S1', method: 'Page.crash'}), 'policy');
  // The frame leads elsewhere, and is not acted in any more.
  event(it, 'Page.frameNavigated', {frame: {id: 'F-S1', parentId: 'P', url: 'https://bank.test/'}}, 'S1');
  assert.equal(code({session: 'S1'}), 'policy');
  event(it, 'Target.detachedFromTarget', {sessionId: 'S3'});
  assert.equal(code({session: 'S3'}), 'not_found');
});

test('what was asked of a child that has ended is answered by that', async () => {
  const it = await (await rig()).granted();
  event(it, 'Target.attachedToTarget', {sessionId: 'S1', targetInfo: {targetId: 'F', url: 'https://shop.test/'}});
  it.fake.answers['Runtime.evaluate'] = () => new Promise(() => {});
  const [its, other] = [it.cmd({session: 'S1', script: true}), it.cmd({script: true})];
  event(it, 'Inspector.targetCrashed', {}, 'S1');
  await settle();
  assert.deepEqual([it.result(its).dispatched, it.result(its).error.code, it.result(other)], [true, 'unavailable', undefined]);
  assert.equal(it.report('A1').open, 2, 'its answer proves nothing');
});

test('the history of a lent tab does not tell where the person was', async () => {
  const it = await rig();
  it.up();
  it.fence(2, {person: false});
  await settle();
  it.grant(2, {origins: ['https://shop.test']});
  it.fake.answers['Page.getNavigationHistory'] = async () => ({
    currentIndex: 1, entries: [{id: 1, url: 'https://bank.test/account', userTypedURL: 'https://bank.test/account', title: 'Account'}, {id: 2, url: 'https://shop.test/', title: 'Shop'}],
  });
  const n = it.cmd({method: 'Page.getNavigationHistory'});
  await settle();
  const {entries} = it.result(n).result;
  assert.deepEqual(entries.map((e) => [e.id, e.url]), [[1, ''], [2, 'https://shop.test/']]);
  assert.ok(!JSON.stringify(entries).includes('bank'));
});

test('every method of the protocol that is not in the table is refused', async () => {
  const it = await (await rig()).granted();
  for (const method of ['No.such', 'Browser.close', 'Target.createTarget', 'Debugger.enable', 'Page.disable', '__proto__', 'constructor', '']) {
    const n = it.cmd({method});
    assert.deepEqual([it.result(n).dispatched, it.result(n).error.code], [false, 'policy'], method);
  }
});

test('where a child frame goes is told to the worker, and of a page elsewhere nothing to the agent', async () => {
  const it = await rig();
  it.up();
  it.fence(2, {person: false});
  await settle();
  it.grant(2, {origins: ['https://shop.test']});
  it.fake.browser.debugTargets = async () => NAMES;
  it.cmd({kind: 'watch', method: '', expect: {}, class: 'read'});
  it.cmd({});
  await settle();
  const targetInfo = {targetId: 'F', type: 'iframe', url: 'https://shop.test/frame'};
  event(it, 'Target.attachedToTarget', {sessionId: 'S1', targetInfo});
  assert.deepEqual(it.fake.did.at(-1), ['send', 1, 'Page.enable', {}, 'S1'], 'the worker asks to be told');
  event(it, 'Runtime.consoleAPICalled', {said: 1}, 'S1');
  event(it, 'Page.frameNavigated', {frame: {id: 'F', parentId: 'P', url: 'https://bank.test/'}}, 'S1');
  event(it, 'Runtime.consoleAPICalled', {secret: 1}, 'S1');
  const told = events(it).filter((e) => e.session === 'S1');
  assert.deepEqual(told.map((e) => e.method), ['Runtime.consoleAPICalled']);
});

test('a request that is held back is told without cookies', async () => {
  const it = await rig();
  it.up();
  it.fence(2, {person: false});
  await settle();
  it.grant(2, {allow: ['interception']});
  it.fake.browser.debugTargets = async () => NAMES;
  it.cmd({kind: 'watch', method: '', expect: {}, class: 'read'});
  it.cmd({method: 'Fetch.enable'});
  await settle();
  it.pauses('R1', {
    request: {url: 'https://shop.test/', headers: {Cookie: 'a=secret', Accept: 'text/html'}},
    responseHeaders: [{name: 'set-cookie', value: 'a=secret'}, {name: 'Content-Type', value: 'text/html'}],
  });
  const {params} = events(it).at(-1);
  assert.deepEqual(params.request.headers, {Accept: 'text/html'});
  assert.deepEqual(params.responseHeaders, [{name: 'Content-Type', value: 'text/html'}]);
});

test('of cookies only the origins’ own are told', async () => {
  const it = await rig();
  it.up();
  it.fence(2, {person: false});
  await settle();
  it.grant(2, {allow: ['cookies'], origins: ['https://shop.test']});
  const cookies = ['shop.test', '.shop.test', 'www.shop.test', '.test', 'bank.test'].map((domain) => ({name: 'a', value: 'b', domain}));
  for (const method of ['Network.getAllCookies', 'Network.getCookies', 'Storage.getCookies']) {
    it.fake.answers[method] = async () => ({cookies});
    const n = it.cmd({method});
    await settle();
    assert.deepEqual(it.result(n).result.cookies.map((one) => one.domain), ['shop.test', '.shop.test'], method);
  }
});
