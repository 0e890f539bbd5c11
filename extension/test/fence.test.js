// The worker's side of a fence, from the press of a button to the end of the drain.

import assert from 'node:assert/strict';
import test from 'node:test';
import {ANSWER_MS, STORE_MS} from '../limits.js';
import {makePort, rig, settle, until} from './rig.js';

const INPUT = 'Input.dispatchMouseEvent';
const never = () => new Promise(() => {});

test('hello comes first, and says all that is known', async () => {
  const it = await rig({before: (fake) => (fake.local.mark = {epoch: 5, seq: 9, person: true})});
  it.up('n1', 0);
  const [hello] = it.port.heard;
  assert.equal(hello.t, 'hello');
  assert.deepEqual([hello.nonce, hello.version, hello.granted, hello.hold], ['n1', 1, 0, undefined]);
  assert.deepEqual(hello.mark, {epoch: 5, seq: 9, person: true});
  assert.ok(hello.instance && hello.build);
  assert.deepEqual(hello.actions, []);
});

test('that nothing is remembered of this run of the browser is said until a daemon has taken it', async () => {
  const it = await rig();
  it.up('n1', 0);
  assert.equal(it.port.last('hello').anew, true);
  await until('stored', () => it.fake.session.run === true);
  const after = (/** @type {any} */ former) =>
    rig({before: (fake) => Object.assign(fake, {local: former.fake.local, session: structuredClone(former.fake.session)})});
  const next = await after(it); // no daemon has answered the first one
  next.up('n2', 1);
  assert.equal(next.port.last('hello').anew, true);
  await until('stored', () => next.fake.session.anew === false);
  const last = await after(next);
  last.up('n3', 1);
  assert.equal(last.port.last('hello').anew, undefined);
});

test('one that has forgotten a person’s tabs lends none that is open at its welcome', async () => {
  const it = await rig();
  it.up('n1', 0);
  it.daemon('welcome', {nonce: 'n1', epoch: 3, seq: 1, apart: true});
  assert.ok(it.dock.tabs.all().length > 0);
  assert.deepEqual(it.dock.tabs.apart(), it.dock.tabs.all().map(({tab}) => tab));
  await until('stored', () => it.fake.session.apart?.length > 0);
});

test('fenced is answered in the turn of the fence, and nothing older is dispatched after it', async () => {
  const it = await (await rig()).granted();
  it.fake.did.length = 0;
  it.fence(3);
  const fenced = it.port.last('fenced');
  assert.deepEqual([fenced.epoch, fenced.granted], [3, 2]);
  assert.equal(it.dock.gate.grant, null);
  const n = it.cmd({});
  const again = it.cmd({epoch: 3});
  for (const seq of [n, again]) assert.deepEqual([it.result(seq).dispatched, it.result(seq).error.code], [false, 'fenced']);
  await settle();
  assert.equal(it.fake.sent('Runtime.evaluate').length, 0);
  assert.equal(it.fake.local.mark.epoch, 3);
  assert.equal(it.fake.local.mark.person, true);
});

test('a fence below the epoch in force, or of another link, moves nothing', async () => {
  const it = await (await rig()).granted();
  it.fence(1);
  it.daemon('fence', {nonce: 'forged', epoch: 9, seq: 1, person: true, from_person: false, deadline_ms: 1, watch_ms: 1});
  assert.equal(it.dock.gate.epoch, 2);
  assert.equal(it.port.of('fenced').length, 1);
  assert.equal(it.result(it.cmd({})), undefined);
  await settle();
  assert.equal(it.port.last('cmd.result').ok, true);
});

test('a profile that has seen a higher epoch refuses a fence and a grant below it', async () => {
  const it = await rig({before: (fake) => (fake.local.mark = {epoch: 50, seq: 9, person: false})});
  it.up('n1', 3);
  it.fence(4);
  it.grant(4);
  assert.equal(it.port.of('fenced').length, 0);
  assert.equal(it.port.of('granted').length, 0);
});

test('losing the port or the daemon clears the grant in that turn', async () => {
  for (const lose of [(it) => it.port.drop(), (it) => it.port.say({t: 'link', up: false, reason: 'gone'})]) {
    const it = await (await rig()).granted();
    assert.ok(it.dock.gate.grant);
    lose(it);
    assert.equal(it.dock.gate.grant, null);
    assert.equal(it.dock.gate.port, null);
  }
});

test('after a new link the old grant is gone until another is pulled', async () => {
  const it = await (await rig()).granted();
  it.port.say({t: 'link', up: false});
  it.up('n2', 2);
  assert.equal(it.port.last('hello').granted, 2);
  const n = it.cmd({});
  assert.equal(it.result(n).error.code, 'fenced');
  it.grant(2);
  it.cmd({});
  await settle();
  assert.equal(it.port.last('cmd.result').ok, true);
});

test('a press holds in its turn, is stored, survives the worker, and only its own fence clears it', async () => {
  const it = await (await rig()).granted();
  const popup = it.popup();
  popup.say({t: 'takeover', pressed_ms: 5});
  assert.ok(it.dock.gate.hold);
  assert.equal(it.dock.gate.grant, null);
  assert.equal(it.result(it.cmd({})).error.code, 'fenced');
  const {hold} = it.port.last('person.hold');
  assert.equal(globalThis.sessiondockLastHold.pressed_ms, 5);
  assert.ok(globalThis.sessiondockLastHold.held_ms > 1e12);
  await settle();
  assert.deepEqual(it.fake.local.hold, hold);

  it.grant(2);
  assert.equal(it.dock.gate.grant, null, 'no grant opens a gate that a person holds');
  it.fence(3, {hold: 'another'});
  assert.ok(it.dock.gate.hold);

  const next = await rig({before: (fake) => (fake.local = it.fake.local)});
  next.up('n9', 3);
  assert.deepEqual(next.port.last('hello').hold, hold);
  next.grant(3);
  assert.equal(next.dock.gate.grant, null);
  next.fence(4, {hold: hold.id});
  await settle();
  assert.equal(next.dock.gate.hold, null);
  assert.equal(next.fake.local.hold, null);
});

test('a press while the worker is still waking is not lost to what was stored', async () => {
  let it;
  const started = rig({
    before: (fake) => {
      fake.local.hold = {id: 'old', since_ms: 1};
      const load = fake.browser.loadLocal;
      fake.browser.loadLocal = async (keys) => {
        const popup = makePort('popup', {id: 'self', url: 'chrome-extension://self/popup.html'});
        fake.emit('connect', popup);
        popup.say({t: 'takeover', pressed_ms: 1});
        return load(keys);
      };
    },
  });
  it = await started;
  assert.ok(it.dock.gate.hold);
  assert.notEqual(it.dock.gate.hold.id, 'old');
});

test('nobody but the popup is heard', async () => {
  const it = await (await rig()).granted();
  for (const [name, sender] of [
    ['popup', {id: 'self', url: 'https://evil.test/popup.html'}],
    ['popup', {id: 'other', url: 'chrome-extension://self/popup.html'}],
    ['popup', {id: 'self', url: 'chrome-extension://self/other.html'}],
    ['popup', undefined],
    ['else', {id: 'self', url: 'chrome-extension://self/popup.html'}],
  ]) {
    const port = makePort(name, sender);
    it.fake.emit('connect', port);
    assert.equal(port.closed, true);
    assert.deepEqual(port.heard, []);
    port.say({t: 'takeover', pressed_ms: 1});
    assert.equal(it.dock.gate.hold, null);
  }
});

test('a person who ends the debugging has taken over, and nothing re-attaches', async () => {
  const it = await (await rig()).granted();
  it.fake.emit('debuggerDetach', 1, 'canceled_by_user');
  assert.ok(it.dock.gate.hold);
  assert.ok(it.port.last('person.hold'));
  it.fake.did.length = 0;
  it.cmd({});
  await settle();
  assert.deepEqual(it.fake.did, []);
});

test('acknowledged input drains by a barrier in its document, and the tab is detached after it', async () => {
  const it = await (await rig()).granted();
  await it.click();
  assert.equal(it.report('A1').how, 'open');
  it.fence(3);
  const fenced = it.port.last('fenced');
  assert.deepEqual(fenced.documents.map((d) => [d.document, d.why, d.how]), [['D1', 'input_pending', 'open']]);
  assert.deepEqual(fenced.actions.map((a) => [a.action, a.dispatched, a.open, a.how]), [['A1', 2, 0, 'open']]);
  await until('drained', () => it.port.last('drained')?.epoch === 3);
  const drained = it.port.last('drained');
  assert.deepEqual(drained.documents.map((d) => d.how), ['barrier']);
  assert.deepEqual(drained.actions.map((a) => [a.how, a.how_rule]), [['barrier', 'barrier_in_document']]);
  await settle();
  const order = it.fake.did.map((d) => d[0]);
  assert.ok(order.indexOf('detach') > order.indexOf('barrier'), 'detached only after the drain');
});

test('input that is not acknowledged is waited for; at the deadline the rest is lost, never at rest', async () => {
  const it = await (await rig()).granted();
  it.fake.answers[INPUT] = never;
  await it.click();
  it.fence(3, {deadline_ms: 60});
  await until('drained', () => it.port.last('drained')?.epoch === 3);
  assert.deepEqual(it.port.last('drained').documents.map((d) => d.how), ['lost']);
  assert.deepEqual(it.report('A1').how, 'lost');
  assert.equal(it.report('A1').open, 2, 'our own detach answers nothing');
  assert.equal(it.fake.did.filter((d) => d[0] === 'barrier').length, 0);
});

test('a barrier that ran in another document does not count', async () => {
  const it = await (await rig()).granted();
  await it.click();
  it.fake.barrier = async () => [{frameId: 0, documentId: 'D2'}];
  it.fence(3);
  await until('drained', () => it.port.last('drained')?.epoch === 3);
  assert.deepEqual(it.port.last('drained').documents.map((d) => d.how), ['lost']);
  assert.equal(it.report('A1').how, 'lost');
});

/** Granted epoch 2 to an agent that may intercept; it watches, and holds the request R7 of tab 1 back. */
async function holding() {
  const it = await rig();
  it.up();
  it.fence(2, {person: false});
  await settle();
  it.grant(2, {allow: ['interception'], origins: ['https://shop.test']});
  it.fake.browser.debugTargets = async () => [{id: 'T1', tabId: 1, type: 'page'}];
  it.cmd({kind: 'watch', method: '', expect: {}, class: 'read'});
  it.cmd({method: 'Fetch.enable', params: {patterns: []}});
  await settle();
  it.pauses('R7', {resourceType: 'Document'});
  return it;
}

test('requests that an agent holds back are failed, and none is held back any more, whatever ends its control', async () => {
  for (const [name, end] of [
    ['a fence', (it) => it.fence(3)],
    ['a press, with no daemon to hear of it', (it) => it.dock.people.takeOver(0)],
    ['the end of the link', (it) => it.port.say({t: 'link', up: false, reason: 'gone'})],
  ]) {
    const it = await holding();
    it.pauses('R8', {auth: true});
    assert.deepEqual(it.port.of('cdp.event').map((m) => [m.method, m.params.requestId]), [['Fetch.requestPaused', 'R7'], ['Fetch.authRequired', 'R8']], name);
    it.fake.did.length = 0;
    end(it);
    const did = it.fake.did.filter(([what]) => what === 'send').map(([, , method, params]) => [method, params]);
    assert.deepEqual(did.slice(0, 3), [
      ['Fetch.failRequest', {requestId: 'R7', errorReason: 'Aborted'}],
      ['Fetch.continueWithAuth', {requestId: 'R8', authChallengeResponse: {response: 'CancelAuth'}}],
      ['Fetch.disable', {}],
    ], `${name}: in that very turn`);
    it.pauses('R9');
    assert.deepEqual(it.fake.did.at(-1).slice(2), ['Fetch.continueRequest', {requestId: 'R9'}], `${name}: the person's own goes on`);
  }
});

test('a request beyond the origins, or of a page beyond them, is not held back', async () => {
  const it = await holding();
  const heard = () => it.port.of('cdp.event').filter((m) => m.method.startsWith('Fetch.')).length;
  const before = heard();
  it.fake.did.length = 0;
  it.pauses('R8', {url: 'https://bank.test/account'});
  it.pauses('R9', {url: 'https://bank.test/account', auth: true});
  it.pauses('R10', {url: 'chrome-extension://x/'});
  assert.deepEqual(it.fake.did.map((one) => one.slice(2)), [
    ['Fetch.continueRequest', {requestId: 'R8'}],
    ['Fetch.continueWithAuth', {requestId: 'R9', authChallengeResponse: {response: 'Default'}}],
    ['Fetch.continueRequest', {requestId: 'R10'}],
  ]);
  const body = it.cmd({method: 'Fetch.getResponseBody', params: {requestId: 'R8'}});
  await settle();
  assert.equal(it.result(body).error.code, 'not_found');
  it.fake.commit(1, 'D2', 'https://bank.test/');
  it.pauses('R11');
  assert.deepEqual(it.fake.did.at(-1).slice(2), ['Fetch.continueRequest', {requestId: 'R11'}]);
  assert.equal(heard(), before);
});

test('an answered request is let go of once the browser has taken the answer; a page that is answered may hold a script', async () => {
  const it = await holding();
  it.fake.answers['Fetch.continueRequest'] = () => Promise.reject(new Error(JSON.stringify({code: -32602, message: 'Invalid header'})));
  it.cmd({method: 'Fetch.continueRequest', params: {requestId: 'R7'}, effect: true});
  await settle();
  assert.equal(it.dock.sessions.paused(1, '', 'R7'), true, 'it is still held back');
  it.cmd({method: 'Fetch.fulfillRequest', params: {requestId: 'R7', responseCode: 200}, effect: true, script: true});
  await settle();
  assert.equal(it.dock.sessions.paused(1, '', 'R7'), false);
  it.fake.commit(1, 'D2');
  it.fence(3);
  assert.deepEqual(it.port.last('fenced').documents.filter((d) => d.why === 'agent_script').map((d) => d.document).toSorted(), ['D1', 'D2']);
});

test('a request that asks for a password is told without its cookies', async () => {
  const it = await holding();
  it.fake.emit('debuggerEvent', 1, '', 'Fetch.authRequired', {
    requestId: 'R8', request: {url: 'https://shop.test/a', headers: {Cookie: 'sid=1', Accept: '*/*'}}, authChallenge: {realm: 'shop'},
  });
  assert.deepEqual(it.port.last('cdp.event').params.request.headers, {Accept: '*/*'});
});

test('a page that an agent answered and that comes after the fence counts as one with its script', async () => {
  const it = await holding();
  it.cmd({method: 'Fetch.fulfillRequest', params: {requestId: 'R7', responseCode: 200}, effect: true, script: true});
  await settle();
  it.fence(3);
  await until('drained', () => it.port.last('drained')?.epoch === 3);
  it.fake.commit(1, 'D2');
  await settle();
  it.fence(4);
  assert.deepEqual(it.port.last('fenced').documents.filter((d) => d.why === 'agent_script').map((d) => d.document).toSorted(), ['D1', 'D2']);
  it.fake.commit(1, 'D3');
  await settle();
  it.fence(5);
  assert.ok(!it.port.last('fenced').documents.some((d) => d.document === 'D3'), 'the next one is the person’s');
});

test('a request that is held back again before its first answer has settled stays held', async () => {
  const it = await holding();
  let settled = (/** @type {any} */ value) => {};
  it.fake.answers['Fetch.continueRequest'] = () => new Promise((resolve) => (settled = resolve));
  it.cmd({method: 'Fetch.continueRequest', params: {requestId: 'R7', interceptResponse: true}, effect: true});
  await settle();
  it.pauses('R7');
  settled({});
  await settle();
  assert.equal(it.dock.sessions.paused(1, '', 'R7'), true);
});

test('past the grant’s time nothing more is held back', async () => {
  const it = await holding();
  it.fake.mono += 3_600_000;
  it.pauses('R8');
  assert.deepEqual(it.fake.did.at(-1).slice(2), ['Fetch.continueRequest', {requestId: 'R8'}]);
});

test('held buttons are let go outside the page, keys let go, paused requests failed, before the barrier', async () => {
  const it = await holding();
  it.cmd({method: INPUT, params: {type: 'mousePressed', x: 5, y: 5, button: 'left'}, effect: true});
  it.cmd({method: 'Input.dispatchKeyEvent', params: {type: 'keyDown', key: 'Shift', code: 'ShiftLeft'}, effect: true});
  it.cmd({method: 'Input.dispatchKeyEvent', params: {type: 'keyDown', key: 'a', code: 'KeyA', text: 'a'}, effect: true});
  it.cmd({method: 'Input.dispatchKeyEvent', params: {type: 'keyUp', key: 'a', code: 'KeyA'}, effect: true});
  await settle();
  it.fake.did.length = 0;
  it.fence(3);
  await until('drained', () => it.port.last('drained')?.epoch === 3);
  const did = it.fake.did.map(([what, , method, params]) => (what === 'send' ? [method, params] : [what]));
  assert.deepEqual(did.slice(0, 5), [
    ['Fetch.failRequest', {requestId: 'R7', errorReason: 'Aborted'}],
    ['Fetch.disable', {}],
    ['Input.dispatchKeyEvent', {type: 'keyUp', key: 'Shift', code: 'ShiftLeft'}],
    [INPUT, {type: 'mouseReleased', x: -10, y: -10, button: 'left', clickCount: 0}],
    ['barrier'],
  ]);
});

test('an agent’s script is listed until its document is seen to have ended', async () => {
  const it = await (await rig()).granted();
  it.cmd({params: {expression: 'setInterval(f)'}, effect: true, script: true});
  await settle();
  assert.deepEqual([it.report('A1').how, it.report('A1').how_rule], ['barrier', 'answered']);
  it.fence(3);
  const fenced = it.port.last('fenced');
  assert.deepEqual(fenced.documents.map((d) => [d.document, d.why]), [['D1', 'agent_script']]);
  assert.deepEqual(fenced.actions.map((a) => a.script), [true]);
  await until('drained', () => it.port.last('drained')?.epoch === 3);
  it.fake.commit(1, 'D2');
  await settle();
  assert.equal(it.port.of('document.ended').length, 0, 'the browser still lists it');
  it.fake.alive.delete('D1');
  await until('ended', () => it.port.last('document.ended'));
  assert.deepEqual([it.port.last('document.ended').document, it.port.last('document.ended').how], ['D1', 'replaced']);
  it.fence(4);
  assert.deepEqual(it.port.last('fenced').documents, []);
});

test('a script counts in every window that its page can name and has the origin of', async () => {
  const tabs = [[1, 'D1'], [2, 'D2'], [3, 'D3', 'https://else.test/'], [4, 'D4']];
  const it = await (await rig({tabs})).granted();
  for (const tabId of [2, 3]) it.fake.emit('navigationTarget', {sourceTabId: 1, tabId});
  it.cmd({params: {expression: 'w.setInterval(f)'}, effect: true, script: true});
  await settle();
  const listed = (/** @type {number} */ epoch) => {
    it.fence(epoch);
    return it.port.last('fenced').documents.map((/** @type {any} */ d) => d.document).sort();
  };
  assert.deepEqual(listed(3), ['D1', 'D2'], 'not another site’s, nor a window that nothing here opened');
  // The page that was sent the script is left: its code goes on in the other window, which
  // can put it into the next page as well.
  it.fake.alive.delete('D1');
  it.fake.commit(1, 'D6');
  await until('looked', () => !it.dock.documents.scripted('D1'));
  assert.deepEqual(listed(4), ['D2', 'D6']);
  await settle();
  assert.equal(it.port.last('document.ended').document, 'D1', 'told after the list that has the others');
  // Another worker goes on with the list, and with who opened what.
  await until('stored', () => it.fake.session.scripts?.length === 2);
  const next = await rig({tabs, before: (fake) => Object.assign(fake, {local: it.fake.local, session: structuredClone(it.fake.session)})});
  next.up('n2', 4);
  next.fake.commit(3, 'D7');
  next.fence(5);
  assert.ok(next.port.last('fenced').documents.some((/** @type {any} */ d) => d.document === 'D7'));
  // An empty page has the origin of whoever opened it.
  next.fake.addTab(5, 'D8', 'about:blank');
  next.fake.emit('navigationTarget', {sourceTabId: 2, tabId: 5});
  await settle();
  next.fence(6);
  assert.ok(next.port.last('fenced').documents.some((/** @type {any} */ d) => d.document === 'D8'));
});

test('an end is not told while code may have gone on to a document that no fence has listed', async () => {
  const it = await (await rig({tabs: [[1, 'D1'], [2, 'D2', 'https://else.test/']]})).granted();
  it.fake.emit('navigationTarget', {sourceTabId: 1, tabId: 2});
  it.cmd({params: {expression: 'setInterval(f)'}, effect: true, script: true});
  await settle();
  it.fence(3);
  assert.deepEqual(it.port.last('fenced').documents.map((/** @type {any} */ d) => d.document), ['D1']);
  it.fake.commit(2, 'D3'); // of the script's site, while it runs
  it.fake.alive.delete('D1');
  it.fake.commit(1, 'D4', 'https://else.test/');
  await until('looked', () => !it.dock.documents.scripted('D1'));
  assert.equal(it.port.of('document.ended').length, 0);
  it.fake.alive.delete('D3');
  it.fake.commit(2, 'D5', 'https://else.test/');
  await until('ended', () => it.port.of('document.ended').length === 2);
  assert.deepEqual(it.port.of('document.ended').map((/** @type {any} */ m) => m.document), ['D1', 'D3']);
});

test('a crash settles what was open: ended, and its commands are answered', async () => {
  const it = await (await rig()).granted();
  it.fake.answers[INPUT] = never;
  const n = it.cmd({method: INPUT, params: {type: 'mousePressed', x: 1, y: 1, button: 'left'}, effect: true});
  await settle();
  it.fake.emit('debuggerEvent', 1, '', 'Inspector.targetCrashed', {});
  assert.deepEqual([it.result(n).ok, it.result(n).dispatched], [false, true]);
  assert.deepEqual([it.report('A1').how, it.report('A1').open], ['ended', 0]);
  await settle();
  assert.deepEqual([it.port.last('document.ended').document, it.port.last('document.ended').how], ['D1', 'crashed']);
});

test('stopping a page: attached first, ended by Page.crash, proved only by the crash that is seen', async () => {
  const it = await (await rig({tabs: [[1, 'D1'], [2, 'D2']]})).granted();
  it.fake.answers[INPUT] = never;
  it.fake.answers['Page.crash'] = never;
  await it.click();
  it.fence(3, {deadline_ms: 5000});
  it.daemon('stop.page', {epoch: 2, tabs: [{tab: 1}]});
  await settle();
  assert.equal(it.fake.sent('Page.crash').length, 0, 'of an epoch that has ended');
  it.daemon('stop.page', {epoch: 3, tabs: [{tab: 1}, {tab: 2}]});
  await until('both', () => it.fake.sent('Page.crash').length === 2);
  assert.deepEqual(it.fake.sent('Page.crash').map((d) => d[1]), [1, 2]);
  assert.equal(it.report('A1').how, 'open');
  assert.equal(it.port.of('drained').some((d) => d.epoch === 3), false);
  it.fake.emit('debuggerEvent', 1, '', 'Inspector.targetCrashed', {});
  await until('drained', () => it.port.last('drained')?.epoch === 3);
  assert.deepEqual(it.port.last('drained').documents.map((d) => d.how), ['ended']);
});

test('a page that is on its way to another is kept from that, and ended', async () => {
  const it = await (await rig()).granted();
  it.fake.answers[INPUT] = never;
  await it.click();
  it.fence(3, {deadline_ms: 5000});
  const order = [];
  let under = true;
  it.fake.answers['Page.handleJavaScriptDialog'] = (_, params) => (order.push(['dialog', params.accept]), Promise.resolve({}));
  it.fake.answers['Page.stopLoading'] = () => (order.push(['stop']), Promise.resolve({}));
  it.fake.answers['Page.crash'] = () => {
    if (under) {
      under = false;
      return Promise.reject(new Error(JSON.stringify({code: -32000, message: 'Page has pending navigations, not killing'})));
    }
    it.fake.emit('debuggerEvent', 1, '', 'Inspector.targetCrashed', {});
    return Promise.resolve({});
  };
  it.daemon('stop.page', {epoch: 3, tabs: [{tab: 1}]});
  await until('ended', () => it.port.last('document.ended')?.how === 'crashed');
  assert.deepEqual(order, [['dialog', false], ['stop'], ['dialog', false], ['stop']]);
});

test('a later fence takes over what the former had not settled, and only it is drained', async () => {
  const it = await (await rig()).granted();
  let acknowledge;
  it.fake.answers[INPUT] = () => new Promise((resolve) => (acknowledge = () => resolve({})));
  it.cmd({method: INPUT, params: {type: 'mouseReleased', x: 1, y: 1, button: 'left'}, effect: true});
  await settle();
  it.fence(3, {deadline_ms: 2000});
  it.fence(4, {deadline_ms: 2000});
  acknowledge();
  await until('drained', () => it.port.last('drained')?.epoch === 4);
  assert.equal(it.port.of('drained').some((d) => d.epoch === 3), false);
  assert.deepEqual(it.port.last('drained').documents.map((d) => d.how), ['barrier']);
});

test('from a person the page in front is drained too, the browser’s own pages are not', async () => {
  const it = await rig({tabs: [[1, 'D1']]});
  it.up();
  it.fence(2, {from_person: true, person: false});
  await until('drained', () => it.port.last('drained'));
  assert.deepEqual(it.port.last('drained').documents.map((d) => [d.document, d.why, d.how]), [['D1', 'input_pending', 'barrier']]);
  const own = await rig({tabs: [[1, 'D1', 'chrome://newtab/']]});
  own.up();
  own.fence(2, {from_person: true, person: false});
  await until('drained', () => own.port.last('drained'));
  assert.deepEqual(own.port.last('drained').documents, []);
});

test('what is answered after the fence, or after a press, is not sent; its report is', async () => {
  const ends = [(/** @type {any} */ it) => it.fence(3), (/** @type {any} */ it) => it.popup().say({t: 'takeover', pressed_ms: 5})];
  for (const end of ends) {
    const it = await (await rig()).granted();
    let answer;
    it.fake.answers['Runtime.evaluate'] = () => new Promise((resolve) => (answer = resolve));
    const n = it.cmd({effect: true, script: true});
    await settle();
    end(it);
    answer({result: {value: 'secret'}});
    const told = () => [...it.port.of('report').map((m) => m.action), ...it.port.of('drained').flatMap((m) => m.actions)];
    await until('settled', () => it.report('A1').open === 0);
    it.up('n2', 0); // whatever was to be sent has been
    assert.ok([...told(), ...it.port.last('hello').actions].some((action) => action.open === 0));
    assert.equal(it.result(n), undefined);
    assert.ok(!JSON.stringify(it.port.heard).includes('secret'));
  }
});

test('what it was told to forget only the journal knows: the next hello says which', async () => {
  const it = await rig();
  await it.granted();
  await it.click();
  it.daemon('forget', {seq: 40, actions: ['A1']});
  assert.equal(it.report('A1'), undefined);
  it.port.say({t: 'link', up: false, reason: 'the daemon has ended'});
  it.up('n2', 0);
  assert.equal(it.port.last('hello').mark.seq, 40);
  it.daemon('forget', {actions: []}); // of a daemon that does not say it
  it.up('n3', 0);
  assert.equal(it.port.last('hello').mark.seq, 40);
});

test('a restarted worker keeps its reports, and claims no more than it knows', async () => {
  const it = await (await rig()).granted();
  it.fake.answers[INPUT] = never;
  await it.click();
  await until('stored', () => it.fake.session.ledger?.length === 1);
  const next = await rig({before: (fake) => Object.assign(fake, {local: it.fake.local, session: it.fake.session})});
  next.up('n2', 2);
  const [action] = next.port.last('hello').actions;
  assert.deepEqual([action.action, action.how, action.dispatched], ['A1', 'open', 2]);
  assert.ok(action.rev > it.report('A1').rev);
  assert.notEqual(next.port.last('hello').instance, it.port.last('hello').instance);
  next.fence(3);
  await until('drained', () => next.port.last('drained'));
  assert.equal(next.report('A1').how, 'barrier');
});

test('sessions of a former life are let go at the next drain; another’s are left alone', async () => {
  const it = await rig({
    tabs: [[1, 'D1'], [2, 'D2']],
    before: (fake) => {
      fake.local.mark = {epoch: 5, seq: 9, person: false};
      fake.browser.debugTargets = async () => [{attached: true, tabId: 1}, {attached: true, tabId: 2}, {attached: false, tabId: 3}];
      fake.answers['Inspector.enable'] = (tab) => (tab === 2 ? Promise.reject(new Error('Debugger is not attached to the tab with id: 2.')) : Promise.resolve({}));
    },
  });
  await settle();
  it.up('n1', 5);
  it.fence(6);
  await until('drained', () => it.port.last('drained'));
  await settle();
  assert.deepEqual(it.fake.did.filter((d) => d[0] === 'detach'), [['detach', 1]]);
});

test('a grant of nothing closes the gate at once, without a time to live and without an ask', async () => {
  for (const grant of [{ask: 0}, {ask: undefined}]) {
    const it = await (await rig()).granted();
    assert.ok(it.dock.gate.grant);
    it.daemon('poke');
    const {ask} = it.port.last('pull');
    it.daemon('grant', {ask: grant.ask ?? ask, epoch: 0, lease: '', ttl_ms: 0, origins: [], watch_ms: 0});
    assert.equal(it.dock.gate.grant, null);
    assert.equal(it.result(it.cmd({})).error.code, 'fenced');
  }
});

test('a grant that comes too late is asked for again, a few times', async () => {
  const it = await rig();
  it.up();
  it.fence(2, {person: false});
  it.daemon('poke');
  const late = () => {
    const {ask} = it.port.last('pull');
    it.fake.pass(20_000);
    it.daemon('grant', {ask, epoch: 2, lease: 'L2', ttl_ms: 15_000, origins: [], watch_ms: 5000});
  };
  for (let i = 0; i < 10; i++) late();
  assert.deepEqual(it.port.of('pull').map((m) => m.ask), [1, 2, 3, 4]);
  assert.equal(it.dock.gate.grant, null);
  it.daemon('poke');
  late();
  assert.equal(it.port.last('pull').ask, 6, 'a poke begins anew');
  it.daemon('grant', {ask: 6, epoch: 2, lease: 'L2', ttl_ms: 15_000, origins: [], watch_ms: 5000});
  assert.equal(it.port.last('granted').epoch, 2);
});

test('the documents of a fence are named without query and fragment', async () => {
  const it = await (await rig({tabs: [[1, 'D1', 'https://shop.test/cart?token=s3cret#x']]})).granted();
  await it.click();
  it.fence(3);
  assert.deepEqual(it.port.last('fenced').documents.map((d) => d.url), ['https://shop.test/cart']);
});

test('a tab that a person opened while holding stays the person’s, also over the worker’s restart', async () => {
  const it = await (await rig()).granted();
  const listed = async (rig, epoch) => {
    const seq = rig.cmd({kind: 'tabs', method: '', expect: {}, epoch});
    await settle();
    return rig.result(seq).result.tabs.map((t) => t.tab);
  };
  const open = (rig, id, fields = {}) => {
    rig.fake.addTab(id, `D${id}`);
    rig.fake.emit('tabCreated', {id, url: 'https://shop.test/', title: '', active: false, windowId: 1, ...fields});
    rig.fake.commit(id, `D${id}`);
  };
  open(it, 4);
  const popup = it.popup();
  popup.say({t: 'takeover', pressed_ms: 1});
  open(it, 5, {openerTabId: 1});
  it.fence(3, {hold: it.dock.gate.hold.id, person: true});
  open(it, 6);
  it.fence(4, {person: false, from_person: true});
  await until('drained', () => it.port.last('drained')?.epoch === 4);
  it.grant(4);
  assert.deepEqual(await listed(it, 4), [1, 4]);
  await until('stored', () => it.fake.session.apart?.length === 2);

  const next = await rig({
    tabs: [],
    before: (fake) => {
      Object.assign(fake, {local: {mark: {epoch: 5, seq: 1, person: true}}, session: it.fake.session});
      for (const id of [1, 4, 5, 6]) fake.addTab(id, `D${id}`);
      const load = fake.browser.loadLocal;
      fake.browser.loadLocal = async (keys) => {
        open({fake}, 7); // it is what woke the worker
        return load(keys);
      };
    },
  });
  next.up('n2', 5);
  next.fence(6, {person: false, from_person: true});
  await until('drained', () => next.port.last('drained')?.epoch === 6);
  next.grant(6);
  assert.deepEqual(await listed(next, 6), [1, 4]);
});

test('what a restart needs is stored when it changes, and not otherwise', async () => {
  const it = await (await rig()).granted();
  let writes = 0;
  const save = it.fake.browser.saveSession;
  it.fake.browser.saveSession = (items) => (writes++, save(items));
  await it.click();
  await until('stored', () => it.fake.session.ledger?.length === 1);
  const before = writes;
  it.dock.memory.touch();
  const end = Date.now() + 700;
  await until('the time to store', () => Date.now() > end);
  assert.equal(writes, before);
  it.dock.ledger.lost(9);
  await until('stored', () => writes === before + 1);
});

test('a worker that wakes starts the host at once, says hello when it knows its tabs, and stores nothing before', async () => {
  const was = {run: true, ledger: [], scripts: [{tab: 1, document: 'D1'}], starts: 0, apart: [], probes: []};
  let fake;
  let known = (_) => {};
  const started = rig({
    before: (it) => {
      fake = it;
      fake.session = structuredClone(was);
      fake.browser.tabs = () => new Promise((resolve) => (known = resolve));
    },
  });
  await until('the host is started', () => fake.ports.length === 1);
  fake.ports[0].say({t: 'link', up: true, nonce: 'n1'});
  fake.commit(1, 'D2'); // something to store
  const end = Date.now() + STORE_MS + 100;
  await until('the time to store', () => Date.now() > end);
  assert.deepEqual(fake.session, was);
  assert.deepEqual(fake.ports[0].heard, []);
  known(fake.tabList);
  await started;
  assert.equal(fake.ports.length, 1);
  assert.equal(fake.ports[0].heard[0].t, 'hello');
});

test('a script whose promise settles soon after its barrier is waited for, one that does not is lost', async () => {
  for (const soon of [true, false]) {
    const it = await (await rig()).granted();
    let settled = (_) => {};
    it.fake.answers['Runtime.evaluate'] = () => new Promise((resolve) => (settled = resolve));
    it.cmd({action: 'A2', effect: true, script: true});
    await settle();
    it.fence(3);
    await settle();
    await until('the barrier', () => it.fake.did.some(([what]) => what === 'barrier'));
    await settle();
    assert.equal(it.port.last('drained').epoch, 2, 'it is waited for');
    if (soon) settled({result: {}});
    else it.fake.pass(ANSWER_MS);
    await until('drained', () => it.port.last('drained').epoch === 3);
    const {how, open} = it.report('A2');
    assert.deepEqual([how, open], soon ? ['barrier', 0] : ['barrier', 1]);
    await settle();
  }
});
