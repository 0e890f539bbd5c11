// The popup's words, state by state.

import assert from 'node:assert/strict';
import test from 'node:test';
import {authorityNow, left, span as exact, view as exactView} from '../words.js';

/** No-break spaces are for the eye. */
const plain = (value) => JSON.parse(JSON.stringify(value).replaceAll('\u00a0', ' '));
const span = (ms) => plain(exact(ms));
const view = (...args) => plain(exactView(...args));

const status = (over = {}) => ({
  slot: 'shop', binding: 'shop-admin',
  authority: {holder: {kind: 'agent', name: 'claude'}, epoch: 7, expires_in_ms: 90_000, fence: 'drained', ready: true},
  local: {state: 'running', commands: [{action: 'A', summary: 'click Save', running_ms: 1000, local: 'running'}], documents: [], downloads: []},
  remote: {state: 'in_flight', requests: [{action: 'A', method: 'POST', url: 'https://shop.test/save', state: 'in_flight'}]},
  offer: {available: false, why: ['held by claude']}, quarantine: [], queue: [],
  sentences: {authority: 'claude may act for 1m30s more (epoch 7).', local: '1 command running.', remote: 'A request has been sent.', warnings: []},
  ...over,
});
const person = (name, over = {}) => status({
  authority: {holder: {kind: 'human', name}, epoch: 8, fence: 'drained', ready: false},
  sentences: {authority: 'Control is yours (epoch 8).', local: '', remote: '', warnings: ['A click may still land in this page.']},
  ...over,
});
const it = (over = {}) => ({t: 'state', link: 'up', reason: '', error: null, hold: null, status: status(), age_ms: 0, open: 0, slot: 'shop', ...over});

test('nothing is said to be so before the worker has spoken', () => {
  const v = view(null, 0);
  assert.deepEqual([v.state, v.takeover.enabled, v.holder, v.epoch], ['starting', false, '—', '—']);
});

test('an agent has control: who, for how long now, what runs', () => {
  const v = view(it(), 0);
  assert.deepEqual([v.state, v.holder, v.epoch, v.takeover.enabled, v.handback, v.stop], ['agent', 'claude', '7', true, null, true]);
  assert.equal(v.authority, 'claude may act for 1 min 30 s more (epoch 7).');
  assert.equal(view(it(), 31_000).authority, 'claude may act for 59 s more (epoch 7).');
  assert.equal(view(it(), 99_000).authority, 'claude may act for no time more (epoch 7).');
  assert.deepEqual(v.commands, [{text: 'click Save', small: 'Running for 1 s'}]);
  assert.deepEqual(v.requests, [{text: 'POST https://shop.test/save', small: 'Not answered yet'}]);
});

test('where an agent’s code may go on: in a page, or in any of them', () => {
  const documents = [
    {document: 'D1', tab: 1, url: 'https://shop.test/', why: 'agent_script', agent: 'claude'},
    {document: '', tab: 0, url: '', why: 'agent_script', agent: 'claude'},
  ];
  assert.deepEqual(view(it({status: status({local: {state: 'running', commands: [], documents}})}), 0).documents, [
    {text: 'https://shop.test/', small: 'Holds a script of claude'},
    {text: 'Any page', small: 'May hold a script of claude'},
  ]);
});

test('a pressed button reads as a hold until the daemon has answered, and offers nothing else', () => {
  const v = view(it({hold: {since_ms: 1, told: true}}), 0);
  assert.deepEqual([v.state, v.takeover.enabled, v.handback], ['held', false, null]);
  assert.match(v.authority, /Nothing of the agent is sent/);
});

test('a hold that nobody was told of is not called one that waits for an answer', () => {
  assert.match(view(it({hold: {since_ms: 1, told: true, stop: false}}), 0).authority, /waiting for the daemon to confirm/);
  assert.match(view(it({hold: {since_ms: 1, told: false, stop: false}}), 0).authority, /has not been told yet/);
  const down = (stop) => view(it({link: 'down', status: null, hold: {since_ms: 1, told: false, stop}}), 0).authority;
  assert.match(down(true), /The pages that you want ended go on until then/);
  assert.doesNotMatch(down(false), /pages/);
});

test('a button pressed before there is a link has been pressed', () => {
  const v = view(it({link: 'starting', status: null, hold: {since_ms: 1, told: false}}), 0);
  assert.deepEqual([v.state, v.pill, v.takeover.enabled], ['held', 'Connecting', false]);
});

test('without the daemon nothing of it is shown, and Take over still works', () => {
  const v = view(it({link: 'down', status: null, open: 2}), 0);
  assert.deepEqual([v.state, v.takeover.enabled, v.holder, v.epoch, v.commands, v.requests], ['down', true, '—', '—', [], []]);
  assert.match(v.notice, /cannot be reached/);
  assert.match(v.local, /^2 commands/);
  assert.match(v.remote, /Not known/);
  const held = view(it({link: 'down', status: null, hold: {since_ms: 1, told: false}}), 0);
  assert.equal(held.takeover.enabled, false);
  assert.match(held.authority, /Nothing of the agent is sent from this browser; the daemon will be told when it is back\./);
});

test('a refusal is shown in its own words, with what to do', () => {
  const v = view(it({link: 'down', status: null, error: {code: 'version_skew', message: 'Another build.', hint: 'Run: sessiondock install'}}), 0);
  assert.deepEqual([v.notice, v.hint], ['Another build.', 'Run: sessiondock install']);
});

test('a person has control: hand back to whom', () => {
  const v = view(it({status: person('popup', {interrupted: {lease: 'L', agent: 'claude', expires_in_ms: 5}})}), 0);
  assert.deepEqual([v.state, v.holder, v.takeover], ['person', 'You', null]);
  assert.deepEqual(v.handback.map((o) => o.value), ['claude', '']);
  assert.deepEqual(v.warnings, ['A click may still land in this page.']);
  assert.deepEqual(view(it({status: person('popup')}), 0).handback.map((o) => o.value), ['']);
});

test('a person at another place has control: taking it from there is said so', () => {
  const v = view(it({status: person('viewer')}), 0);
  assert.deepEqual(v.takeover, {label: 'Take over from viewer', enabled: true, from: true});
});

test('what an agent asks is one sentence with what to press, and stays in sight after it', () => {
  const ask = {lease: 'L', agent: 'claude', reason: 'the shop wants a second factor', epoch: 7, state: 'open'};
  const open = status({asks: [ask]});
  open.sentences.warnings = ['claude asks for a person: the shop wants a second factor', 'Another.'];
  const v = view(it({status: open}), 0);
  assert.equal(v.ask, 'claude asks for you: “the shop wants a second factor”. Press “Take over”, see to it, then hand back to claude.');
  assert.deepEqual(v.warnings, ['Another.'], 'not said twice');
  const taken = view(it({status: person('popup', {interrupted: {lease: 'L', agent: 'claude', expires_in_ms: 5, ask}})}), 0);
  assert.match(taken.ask, /^claude asked for you: “the shop wants a second factor”\. When it is done, choose “Back to claude” and press “Hand back”\.$/);
  assert.equal(taken.handback[0].label, 'Back to claude');
  assert.equal(view(it({link: 'down', status: null}), 0).ask, '');
  assert.ok(view(it({status: status({asks: [{...ask, reason: 'x'.repeat(1024)}]})}), 0).ask.length < 400);
});

test('a request for more time is said with the command that allows it', () => {
  const v = view(it({status: status({retentions: [{lease: 'L', agent: 'claude', for_ms: 3_600_000, reason: 'not done'}]})}), 0);
  assert.deepEqual(v.warnings, ['claude asks to keep its lease for 1 h 0 min more: “not done”. To allow it: sessiondock retain approve L']);
});

test('who waits, why, and who is next', () => {
  const queue = [
    {lease: 'Q1', agent: 'ben', position: 1, task: 'count the stock', reasons: ['held by a person (popup)', 'key till held by cleo']},
    {lease: 'Q2', agent: 'eve', position: 2, reasons: []}, {lease: 'Q3', agent: 'f', position: 3, reasons: []}, {lease: 'Q4', agent: 'g', position: 4, reasons: []},
  ];
  const v = view(it({status: person('popup', {queue, interrupted: {lease: 'L', agent: 'claude', expires_in_ms: 5}})}), 0);
  assert.equal(v.offer, '4 agents waiting; the next is ben.');
  assert.deepEqual(v.reasons.length, 3);
  assert.deepEqual(v.reasons[0], {text: '1. ben: count the stock', small: 'held by a person (popup); key till held by cleo'});
  assert.deepEqual(v.handback.map((o) => o.label), ['Back to claude', 'The next in the queue (ben)']);
  assert.equal(view(it({status: status({queue: queue.slice(0, 1)})}), 0).offer, '1 agent waiting; the next is ben.');
});

test('a takeover does not wait for a key, it warns', () => {
  const text = 'Key shop:product/42 is held by claude on slot b: what you change may meet what it does.';
  const held = person('popup');
  held.sentences.warnings = [text];
  assert.deepEqual(view(it({status: held}), 0).warnings, [text]);
});

test('a quarantine names its reasons and the way out', () => {
  const v = view(it({status: person('popup', {quarantine: [{code: 'outcome_unknown', text: 'click Save: unknown', since: 1, resolve: 'sessiondock resolve A'}]})}), 0);
  assert.match(v.offer, /until this is settled/);
  assert.deepEqual(v.reasons, [{text: 'click Save: unknown', small: 'To settle it: sessiondock resolve A'}]);
});

test('a status with nothing in it is no reason to fail', () => {
  for (const odd of [{}, {local: null, remote: null, authority: null, quarantine: null, queue: null, offer: null, sentences: null, asks: null, retentions: null, interrupted: null}]) {
    assert.equal(view(it({status: odd}), 0).state, 'nobody');
  }
});

test('spans and what is left', () => {
  assert.deepEqual([0, 999, 61_000, 3_700_000, -5].map(span), ['0 s', '1 s', '1 min 01 s', '1 h 1 min', '0 s']);
  assert.equal(left(status(), 100_000), 0);
  assert.equal(left(person('popup'), 0), null);
  assert.equal(authorityNow({}, 0), '');
});
