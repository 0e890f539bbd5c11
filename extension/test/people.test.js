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

test('an ask shows at the toolbar button, for as long as it is open', async () => {
  const it = await (await rig()).granted();
  it.daemon('ui', {status: {...human, asks: [{agent: 'claude', reason: 'sign in'}]}});
  assert.equal(it.fake.badge, '?');
  it.daemon('ui', {status: human});
  assert.equal(it.fake.badge, '');
  it.daemon('ui', {status: {...human, asks: [{agent: 'claude', reason: 'sign in'}]}});
  it.port.say({t: 'link', up: false, reason: 'the daemon has ended'});
  assert.equal(it.fake.badge, '');
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

test('a page is called ended when the daemon had it ended and it was seen to end', async () => {
  const it = await (await rig({tabs: [[1, 'D1'], [2, 'D2']]})).granted();
  it.fake.answers['Page.crash'] = () => new Promise(() => {});
  const popup = it.popup();
  popup.say({t: 'stop_page', tabs: [{tab: 1, title: 'T'.repeat(9999), url: 'https://shop.test/a?token=s3cret'}], pressed_ms: 3});
  assert.equal(popup.last('reply'), undefined, 'pressing is not having done');
  const {hold} = it.port.last('person.hold');
  assert.deepEqual(hold.tabs, [{tab: 1, title: 'T'.repeat(256), url: 'https://shop.test/a'}]);
  it.fence(3, {hold: hold.id});
  it.daemon('stop.page', {epoch: 3, tabs: hold.tabs});
  await until('crash', () => it.fake.sent('Page.crash').length === 1);
  assert.equal(popup.last('reply'), undefined);
  it.fake.emit('debuggerEvent', 1, '', 'Inspector.targetCrashed', {});
  await until('reply', () => popup.last('reply'));
  assert.deepEqual([popup.last('reply').verb, popup.last('reply').error], ['stop_page', null]);
});

test('a page that is not seen to end is said to be so, and a silent daemon too', async (t) => {
  const it = await (await rig()).granted();
  const popup = it.popup();
  t.mock.timers.enable({apis: ['setTimeout']});
  popup.say({t: 'stop_page', tabs: [{tab: 1}], pressed_ms: 3});
  t.mock.timers.tick(CALL_MS);
  assert.equal(popup.last('reply').error.code, 'deadline');
  popup.heard.length = 0;
  popup.say({t: 'stop_page', tabs: [{tab: 1}], pressed_ms: 3});
  it.dock.people.stopped(1);
  assert.equal(popup.last('reply').error.code, 'outcome_unknown');
  t.mock.timers.tick(CALL_MS);
  assert.equal(popup.of('reply').length, 1, 'answered once');
});

test('without a daemon a page is not called ended: it is asked for when the daemon is back', async () => {
  const it = await rig();
  const popup = it.popup();
  popup.say({t: 'stop_page', tabs: [{tab: 1, title: 'T'}], pressed_ms: 3});
  assert.ok(it.dock.gate.hold);
  const {error} = popup.last('reply');
  assert.equal(error.code, 'unavailable');
  assert.match(error.message, /no page has been ended: that is done when it is back/);
  assert.deepEqual([popup.last('state').hold.told, popup.last('state').hold.stop], [false, true]);
  it.up('n1', 2);
  assert.deepEqual([it.port.last('hello').hold.stop_page, it.port.last('hello').hold.tabs], [true, [{tab: 1, title: 'T'}]]);
  assert.equal(it.port.of('person.hold').length, 0, 'the hello carried it');
  assert.equal(popup.last('state').hold.told, true);
});

test('tabs to end are those of this run of the browser: a later one has others by their numbers', async () => {
  const hold = {id: 'h', since_ms: 1, stop_page: true, tabs: [{tab: 1}]};
  const again = await rig({before: (fake) => Object.assign(fake, {local: {hold}, session: {run: true}})});
  again.up();
  assert.deepEqual(again.port.last('hello').hold, hold);
  const later = await rig({before: (fake) => (fake.local.hold = hold)});
  later.up();
  assert.deepEqual(later.port.last('hello').hold, {id: 'h', since_ms: 1});
});

test('pressed between hello and welcome it is told all the same, and told means said to a daemon that listens', async () => {
  const it = await rig();
  const popup = it.popup();
  it.up('n1', 0);
  assert.equal(it.port.last('hello').hold, undefined);
  popup.say({t: 'takeover', pressed_ms: 1});
  assert.equal(popup.last('state').hold.told, false);
  assert.equal(it.port.of('person.hold').length, 0);
  it.daemon('welcome', {epoch: 1, seq: 10});
  assert.deepEqual(it.port.of('person.hold').map((m) => m.hold.id), [it.dock.gate.hold.id]);
  assert.equal(popup.last('state').hold.told, true);
  it.port.say({t: 'link', up: false});
  assert.equal(popup.last('state').hold.told, false);
  it.up('n2', 1);
  assert.equal(it.port.last('hello').hold.id, it.dock.gate.hold.id);
  assert.equal(it.port.of('person.hold').length, 1);

  it.up('n3', 0);
  popup.say({t: 'stop_page', tabs: [{tab: 1}], pressed_ms: 1});
  it.daemon('welcome', {epoch: 1, seq: 10});
  assert.equal(it.port.last('person.hold').hold.stop_page, true, 'the hello carried less');
});

test('a press after Hand back is another: what answers the first one leaves it', async () => {
  const it = await (await rig()).granted();
  const popup = it.popup();
  popup.say({t: 'takeover', pressed_ms: 1});
  popup.say({t: 'handback', to: '', confirm: true, if_epoch: 0});
  popup.say({t: 'takeover', pressed_ms: 2});
  const [first, second] = it.port.of('person.hold').map((m) => m.hold.id);
  assert.notEqual(first, second);
  it.fence(3, {hold: first, person: false});
  assert.equal(it.dock.gate.hold?.id, second, 'the slot is the person’s again');
  it.fence(4, {hold: second, person: true});
  assert.equal(it.dock.gate.hold, null);
});

test('that pages are to end is said again with the next press only if it was not told', async () => {
  for (const linked of [true, false]) {
    const it = await rig();
    const popup = it.popup();
    if (linked) it.up('n1', 1);
    popup.say({t: 'stop_page', tabs: [{tab: 1}], pressed_ms: 1});
    popup.say({t: 'takeover', pressed_ms: 2});
    assert.equal(it.dock.gate.hold.stop_page, linked ? undefined : true);
  }
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
