// The system's look at a page: its tab, its order, its ends.

import assert from 'node:assert/strict';
import test from 'node:test';
import {rig, settle, until} from './rig.js';

const ME = 'https://shop.test/me?of=ada#top';
const PROBE = {probe: 'p1', epoch: 2, url: ME, selector: '#email', wait_ms: 1_500};

/** A worker that nobody holds, at epoch 2. A page comes into a probe's tab when it is sent there. */
async function free({pages = {}, ...options} = {}) {
  const it = await rig(options);
  const {fake} = it;
  fake.went = (tab, url) => {
    const {document = 'DP', at = url, loaded = true} = pages[url] ?? pages.any ?? {};
    if (!document) return;
    fake.commit(tab, document, at);
    if (loaded) fake.emit('tabUpdated', tab, {status: 'complete'}, {id: tab, url: at, status: 'complete', active: false, windowId: 1});
  };
  it.up();
  it.fence(2, {person: false});
  await settle();
  fake.did.length = 0;
  it.look = (fields = {}) => it.daemon('probe', {...PROBE, ...fields});
  it.tab = () => fake.did.find((one) => one[0] === 'goto')?.[1];
  it.seen = async () => {
    await until('an answer', () => it.port.last('probe.result'));
    return it.port.last('probe.result');
  };
  return it;
}

const says = (text, more = {}) => () => ({found: 1, text, cut: false, ...more});

test('a probe reads one text in a tab of its own, and closes it', async () => {
  const it = await free();
  it.fake.text = says('ada@shop.test');
  it.look();
  const answer = await it.seen();
  assert.deepEqual(
    {...answer, nonce: undefined},
    {t: 'probe.result', nonce: undefined, probe: 'p1', epoch: 2, cut: false, state: 'seen', text: 'ada@shop.test', url: 'https://shop.test/me'},
  );
  const tab = it.tab();
  assert.deepEqual(it.fake.did, [
    ['create', 'about:blank', false], ['goto', tab, ME], ['text', tab, 'DP', '#email'], ['text', tab, 'DP', '#email'], ['close', tab],
  ]);
  assert.equal(it.fake.sent('Runtime.evaluate').length, 0);
  assert.equal(it.dock.gate.probe, null);
});

test('a text that comes late, or is not whole yet, is waited for', async () => {
  const it = await free();
  const texts = [{found: 0, text: ''}, {found: 1, text: ''}, {found: 1, text: 'Loading…'}, {found: 1, text: 'eve'}];
  it.fake.text = () => texts.shift() ?? {found: 1, text: 'ada', cut: false};
  it.look();
  assert.equal((await it.seen()).text, 'ada');
});

test('a page that goes on loading is read when its time is over', async () => {
  const it = await free({pages: {any: {loaded: false}}});
  it.fake.text = says('ada');
  it.look({wait_ms: 2_000});
  const {state, text} = await it.seen();
  assert.deepEqual([state, text], ['seen', 'ada']);
  assert.ok(it.fake.did.filter((one) => one[0] === 'text').length > 3, 'it waited');
});

test('what cannot be told is told apart', async () => {
  for (const [want, pages, text, fields] of [
    ['absent', {}, () => ({found: 0, text: '', cut: false})],
    ['absent', {}, says('')],
    ['several', {}, () => ({found: 2, text: '', cut: false})],
    ['refused', {}, () => ({found: -1, text: '', cut: false})],
    ['silent', {any: {document: ''}}, says('ada')],
    ['silent', {any: {at: 'chrome-error://chromewebdata/'}}, says('ada')],
    ['elsewhere', {any: {at: 'https://login.test/?token=secret'}}, says('ada')],
  ]) {
    const it = await free({pages});
    it.fake.text = text;
    it.look({wait_ms: 350, ...fields});
    const answer = await it.seen();
    assert.equal(answer.state, want);
    assert.ok(!JSON.stringify(answer).includes('secret') && !answer.text?.includes('ada'), want);
    assert.equal(it.fake.did.at(-1)[0], 'close', want);
  }
});

test('what another document says is not taken for the page’s', async () => {
  const it = await free();
  it.fake.browser.readText = async () => [{documentId: 'another', result: {found: 1, text: 'ada', cut: false}}];
  it.look({wait_ms: 350});
  assert.equal((await it.seen()).state, 'silent');
});

test('an expression is evaluated without side effects, and only there', async () => {
  for (const [value, want] of [
    [{result: {type: 'string', value: 'ada'}}, ['seen', 'ada']],
    [{result: {type: 'number', value: 7}}, ['seen', '7']],
    [{result: {type: 'undefined'}}, ['absent', undefined]],
    [{result: {}, exceptionDetails: {text: 'Uncaught', exception: {description: 'EvalError: Possible side-effect'}}}, ['refused', 'EvalError: Possible side-effect']],
  ]) {
    const it = await free();
    it.fake.answers['Runtime.evaluate'] = async () => value;
    it.look({selector: undefined, expression: 'user.name', wait_ms: 500});
    const {state, text} = await it.seen();
    assert.deepEqual([state, text], want);
    for (const [, tab, , params] of it.fake.sent('Runtime.evaluate')) {
      assert.equal(tab, it.tab());
      assert.deepEqual([params.throwOnSideEffect, params.expression, params.returnByValue], [true, 'user.name', true]);
    }
    assert.equal(it.fake.did.filter((one) => one[0] === 'text').length, 0);
  }
});

test('no more than the daemon compares is sent', async () => {
  const it = await free();
  it.fake.text = says('ä'.repeat(4096));
  it.look();
  const {text, cut} = await it.seen();
  assert.equal(cut, true);
  assert.equal(new TextEncoder().encode(text).length, 4096);
  assert.match(text, /^ä+$/);
});

test('the tab is known before it is given a page, and a worker that comes after closes it', async () => {
  const it = await free({pages: {any: {document: ''}}});
  it.look();
  await until('the page to be asked for', () => it.tab());
  const tab = it.tab();
  assert.deepEqual(it.fake.session.probes, [tab]);
  assert.ok(it.fake.session.apart.includes(tab));
  const next = await rig({
    tabs: [[1, 'D1'], [tab, 'DP', ME]],
    before: (fake) => {
      fake.session = structuredClone(it.fake.session);
      fake.local = {mark: {epoch: 2, seq: 1, person: false}};
    },
  });
  assert.deepEqual(next.fake.did.filter((one) => one[0] === 'close'), [['close', tab]]);
  next.up();
  next.fence(3, {person: false});
  await settle();
  next.grant(4);
  assert.equal(next.dock.tabs.visible(tab), false);
});

test('an agent never sees the tab, whatever it makes at the same time', async () => {
  const it = await (await rig()).granted();
  const {fake, dock} = it;
  let make = () => {};
  const created = new Promise((resolve) => (make = resolve));
  const real = fake.browser.createTab;
  fake.browser.createTab = async (url, active) => {
    const tab = await real(url, active);
    if (active) return created.then(() => tab);
    fake.emit('tabCreated', {id: tab.id, url: '', pendingUrl: 'about:blank', active: false, windowId: 1});
    assert.equal(dock.tabs.visible(tab.id), false, 'before its promise has settled');
    return tab;
  };
  fake.went = (tab, url) => fake.commit(tab, 'DP', url);
  fake.text = says('ada');
  it.cmd({kind: 'tab_create', expect: {}, method: '', params: {url: 'https://shop.test/new'}, effect: true}); // its tab is yet to come
  it.daemon('probe', {...PROBE, epoch: 2});
  await until('the page', () => fake.did.some((one) => one[0] === 'text'));
  const tab = fake.did.find((one) => one[0] === 'goto')[1];
  const seq = it.cmd({kind: 'tabs', expect: {}, method: ''});
  await settle();
  assert.deepEqual(it.result(seq).result.tabs.map((one) => one.tab), [1]);
  for (const fields of [{expect: {tab, document: 'DP'}}, {kind: 'tab_close', expect: {tab}}, {kind: 'tab_activate', expect: {tab}}, {kind: 'document', expect: {tab}}]) {
    const refused = it.cmd({method: fields.kind ? '' : 'Runtime.evaluate', ...fields});
    await settle();
    assert.deepEqual([it.result(refused).dispatched, it.result(refused).error.code], [false, 'not_found'], JSON.stringify(fields));
  }
  // What its page opens is no agent's either, and is closed with it.
  fake.emit('tabCreated', {id: 777, url: 'https://shop.test/popup', openerTabId: tab, active: true, windowId: 1});
  fake.emit('navigationTarget', {sourceTabId: tab, tabId: 777});
  assert.equal(dock.tabs.visible(777), false);
  make();
  await settle();
  await until('the end', () => it.port.last('probe.result'));
  assert.deepEqual(fake.did.filter((one) => one[0] === 'close').map((one) => one[1]).sort(), [tab, 777].sort());
  assert.equal(dock.tabs.owns(fake.did.find((one) => one[0] === 'create' && one[2])[1] ?? 0), false);
});

test('a fence cuts a probe off in its turn, unanswered', async () => {
  const it = await free({pages: {any: {document: ''}}});
  it.look();
  await until('the page to be asked for', () => it.tab());
  it.fence(3);
  assert.deepEqual(it.fake.did.at(-1), ['close', it.tab()]);
  assert.equal(it.dock.gate.probe, null);
  assert.equal(it.port.last('fenced').epoch, 3);
  const before = it.fake.did.length;
  it.fake.commit(it.tab(), 'DP', ME);
  const later = Date.now() + 300;
  await until('a while', () => Date.now() > later);
  assert.deepEqual(it.fake.did.slice(before), []);
  assert.equal(it.port.of('probe.result').length, 0);
});

test('a fence while the tab is being made leaves none behind', async () => {
  const it = await free();
  let made = () => {};
  const real = it.fake.browser.createTab;
  it.fake.browser.createTab = async (url, active) => {
    const tab = await real(url, active);
    await new Promise((resolve) => (made = resolve));
    return tab;
  };
  it.look();
  await settle();
  it.fence(3);
  made();
  await until('the tab to be closed', () => it.fake.did.some((one) => one[0] === 'close'));
  assert.equal(it.tab(), undefined);
  assert.equal(it.port.of('probe.result').length, 0);
});

test('so do a lost link, another probe, a press of "Take over" and a stop', async () => {
  for (const [name, end] of [
    ['link', (it) => it.port.drop()],
    ['daemon', (it) => it.port.say({t: 'link', up: false, reason: 'gone'})],
    ['another', (it) => it.look({probe: 'p2'})],
    ['stop', (it) => it.daemon('stop.prepare')],
    ['take over', (it) => it.popup().say({t: 'takeover', pressed_ms: 1})],
  ]) {
    const it = await free();
    it.fake.text = () => ({found: 0, text: '', cut: false});
    it.look();
    await until('a first look', () => it.fake.did.some((one) => one[0] === 'text'));
    const tab = it.tab();
    end(it);
    await until(`${name}: the tab to be closed`, () => it.fake.did.some((one) => one[0] === 'close' && one[1] === tab));
    const told = it.port.of('probe.result').filter((one) => one.probe === 'p1' && one.state !== 'refused');
    assert.deepEqual(told, [], name);
  }
});

test('a probe of an epoch that is not in force does nothing', async () => {
  for (const epoch of [1, 3]) {
    const it = await free();
    it.look({epoch});
    assert.equal((await it.seen()).state, 'refused');
    assert.deepEqual(it.fake.did, []);
  }
  const it = await free();
  it.look({nonce: 'forged'});
  it.daemon('probe', {...PROBE, wait_ms: 'long'});
  await settle();
  assert.deepEqual(it.fake.did, []);
});
