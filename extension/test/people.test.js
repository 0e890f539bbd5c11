// What the popup may ask for, and what it is told.

import assert from 'node:assert/strict';
import test from 'node:test';
import {CALL_MS} from '../limits.js';
import {rig, settle, until} from './rig.js';

const human = {slot: 'shop', authority: {holder: {kind: 'human', name: 'popup'}, epoch: 3}};

test('the popup is told at once, at each change, and nothing stale', async () => {
  const it = await (await rig()).granted();
  const popup = it.popup();
  assert.deepEqual([popup.last('state').link, popup.last('state').status], ['up', null]);
  it.daemon('ui', {status: human});
  it.fake.pass(1500);
  it.dock.people.changed();
  assert.deepEqual([popup.last('state').status.slot, popup.last('state').age_ms], ['shop', 1500]);
  it.port.say({t: 'link', up: false, reason: 'the daemon has ended'});
  const {link, status, slot, reason} = popup.last('state');
  assert.deepEqual([link, status, slot, reason], ['down', null, 'shop', 'the daemon has ended']);
});

test('a refusal is not covered by the end of the port that follows it', async () => {
  const it = await rig();
  const popup = it.popup();
  it.port.say({t: 'host.refused', error: {code: 'version_skew', message: 'another build'}});
  it.port.drop();
  assert.equal(popup.last('state').error.code, 'version_skew');
});

test('a person’s verbs go to the daemon, and its answers come back', async () => {
  const it = await (await rig()).granted();
  const popup = it.popup();
  it.daemon('ui', {status: human});
  popup.say({t: 'handback', to: 'claude', confirm: true, if_epoch: 3});
  popup.say({t: 'takeover', from: true, if_epoch: 3});
  popup.say({t: 'stop_page', tabs: [{tab: 1}, {tab: 'x'}, null], if_epoch: 3});
  const calls = it.port.of('person.call');
  assert.deepEqual(
    calls.map((c) => [c.verb, c.to, c.confirm, c.from, c.if_epoch, c.tabs]),
    [['handback', 'claude', true, false, 3, []], ['takeover', '', false, true, 3, []], ['stop_page', '', true, false, 3, [{tab: 1}]]],
  );
  assert.equal(it.dock.gate.hold, null);
  it.daemon('person.reply', {id: calls[0].id, error: {code: 'conflict', message: 'open', detail: {open: ['a click']}}});
  it.daemon('person.reply', {id: calls[0].id});
  it.daemon('person.reply', {id: 999});
  assert.deepEqual(popup.of('reply').map((m) => [m.verb, m.error?.code]), [['handback', 'conflict']]);
});

test('while an agent has control, stopping its page takes over first', async () => {
  const it = await (await rig()).granted();
  it.popup().say({t: 'stop_page', tabs: [{tab: 1, title: 'T'}], pressed_ms: 3});
  assert.ok(it.dock.gate.hold);
  const {hold} = it.port.last('person.hold');
  assert.deepEqual([hold.stop_page, hold.tabs], [true, [{tab: 1, title: 'T'}]]);
  assert.equal(it.port.of('person.call').length, 0);
});

test('pressed twice it is one hold', async () => {
  const it = await (await rig()).granted();
  const popup = it.popup();
  popup.say({t: 'takeover', pressed_ms: 1});
  popup.say({t: 'takeover', pressed_ms: 2});
  const holds = it.port.of('person.hold').map((m) => m.hold.id);
  assert.equal(holds.length, 2);
  assert.equal(new Set(holds).size, 1);
});

test('without a daemon: Take over holds, and what needs it says that nothing was asked', async () => {
  const it = await rig();
  const popup = it.popup();
  popup.say({t: 'handback', to: '', if_epoch: 1});
  assert.equal(popup.last('reply').error.code, 'unavailable');
  popup.say({t: 'takeover', pressed_ms: 1});
  assert.ok(it.dock.gate.hold);
  assert.ok(popup.last('state').hold);
  it.up('n1', 2);
  assert.equal(it.port.last('hello').hold.id, it.dock.gate.hold.id);
});

test('silence of the daemon is not called a failure', async (t) => {
  const it = await (await rig()).granted();
  const popup = it.popup();
  t.mock.timers.enable({apis: ['setTimeout']});
  popup.say({t: 'handback', to: '', if_epoch: 2});
  t.mock.timers.tick(CALL_MS);
  assert.equal(popup.last('reply').error.code, 'deadline');
  assert.match(popup.last('reply').error.message, /not known/);
});

test('the tabs that end with the page: the reached ones, and those of the same process', async () => {
  const it = await rig({tabs: [[1, 'D1'], [2, 'D2'], [3, 'D3']]});
  it.fake.framesOf.get(3)[0].processId = 8;
  await it.granted();
  const popup = it.popup();
  popup.say({t: 'stop_list'});
  await until('list', () => popup.last('stop_list'));
  assert.deepEqual(popup.last('stop_list').tabs.map(({tab, shares}) => [tab, shares]), [[1, false], [2, true]]);
});

test('words that are not the popup’s do nothing', async () => {
  const it = await (await rig()).granted();
  const popup = it.popup();
  for (const odd of [null, 1, 'takeover', {}, {t: 'cmd'}, {t: 'stop_page', tabs: 'all', if_epoch: 'x'}]) popup.say(odd);
  await settle();
  assert.equal(it.port.of('person.call').length, 0);
});
