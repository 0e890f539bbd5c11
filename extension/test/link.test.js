import assert from 'node:assert/strict';
import test from 'node:test';
import {ChunkError, Joiner, split} from '../chunks.js';
import {BACK_OFF_MS, CHUNK_BYTES, MAX_MESSAGE} from '../limits.js';
import {Link} from '../link.js';
import {makeBrowser, settle} from './fake.js';

const SIZES = [1, 2, 100, 65_535, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 1 << 20, (1 << 20) + 1, 5 << 20];
const encode = (value) => new TextEncoder().encode(JSON.stringify(value));

function join(chunks) {
  const joiner = new Joiner();
  let whole;
  for (const chunk of chunks) {
    assert.equal(whole, undefined);
    assert.ok(chunk.data.length + 200 < 1 << 20, 'a chunk fits one native message');
    whole = joiner.push(chunk);
  }
  return whole;
}

test('what is cut is joined again, from one byte to 5 MB, beyond ASCII too', () => {
  for (const size of SIZES) {
    for (const unit of size > CHUNK_BYTES + 1 ? ['漢'] : ['x', 'é', '漢', '𝄞']) {
      const value = {s: unit.repeat(Math.ceil(size / new TextEncoder().encode(unit).length))};
      assert.ok(join(split(encode(value), 3)).s === value.s, `${size} of ${unit}`);
    }
  }
});

test('chunks out of order, interleaved, foreign, too many or broken are refused', () => {
  const [a, b] = [...split(encode('x'.repeat(CHUNK_BYTES + 9)), 1)];
  const [c] = [...split(encode('y'.repeat(CHUNK_BYTES + 9)), 2)];
  for (const [name, chunks] of [
    ['the second first', [b]],
    ['the first twice', [a, a]],
    ['another message inside', [a, c]],
    ['another message’s second', [a, {...b, id: 2}]],
    ['another total', [a, {...b, total: 3}]],
    ['a gap', [a, {...b, index: 2, total: 2}]],
    ['no chunks', [{...a, total: 0}]],
    ['a million chunks', [{...a, total: 1_000_000}]],
    ['half a chunk', [{...a, total: 1.5}]],
    ['no base64', [a, {...b, data: '!!!'}]],
    ['no JSON', [{t: 'chunk', id: 1, index: 0, total: 1, data: btoa('{')}]],
    ['no UTF-8', [{t: 'chunk', id: 1, index: 0, total: 1, data: btoa('"\xff"')}]],
    ['a chunk that is too long', [{...a, data: btoa('x'.repeat(CHUNK_BYTES + 1))}]],
  ]) {
    const joiner = new Joiner();
    assert.throws(() => chunks.forEach((chunk) => joiner.push(chunk)), ChunkError, name);
  }
});

function makeLink(limit, ready = true) {
  const fake = makeBrowser();
  const seen = [];
  const link = new Link(
    fake.browser,
    {
      up: (_, nonce) => seen.push(['up', nonce]),
      down: (reason) => seen.push(['down', reason]),
      message: (message) => seen.push([message.t, message]),
    },
    limit,
  );
  if (ready) link.ready();
  return {fake, seen, link, port: () => fake.ports.at(-1)};
}

const up = ({port}, nonce = 'n1') => {
  port().say({t: 'link', up: true, nonce});
  port().say({t: 'welcome', nonce, epoch: 1, seq: 1});
};

test('both ways through a link: one native message if it fits, else chunks', () => {
  const one = makeLink(CHUNK_BYTES * 2);
  one.link.start();
  up(one);
  for (const size of SIZES) {
    const port = one.port();
    port.heard.length = 0;
    const result = 'x'.repeat(size);
    assert.equal(one.link.answer(port, {t: 'cmd.result', seq: 1, ok: true, dispatched: true, result}), true);
    if (size > CHUNK_BYTES * 2) {
      assert.ok(port.heard.length > 1);
      assert.ok(join(port.heard).result === result);
    } else {
      assert.ok(port.heard[0].result === result);
    }

    one.seen.length = 0;
    for (const chunk of split(encode({t: 'ui', nonce: 'n1', status: {text: result}}), size)) port.say(chunk);
    assert.equal(one.seen.length, 1);
    assert.ok(one.seen[0][1].status.text === result);
  }
});

test('an ordinary message may pass between chunks: a fence does not wait for a picture', () => {
  const one = makeLink();
  one.link.start();
  up(one);
  const [a, b] = [...split(encode({t: 'ui', nonce: 'n1', status: 'x'.repeat(CHUNK_BYTES)}), 1)];
  one.seen.length = 0;
  one.port().say(a);
  one.port().say({t: 'poke', nonce: 'n1'});
  one.port().say(b);
  assert.deepEqual(one.seen.map((s) => s[0]), ['poke', 'ui']);
});

test('an answer beyond the largest message is answered as that, not dropped', () => {
  const one = makeLink();
  one.link.start();
  up(one);
  one.port().heard.length = 0;
  const result = 'x'.repeat(MAX_MESSAGE);
  assert.equal(one.link.answer(one.port(), {t: 'cmd.result', seq: 8, ok: true, dispatched: true, result}), true);
  const [{seq, ok, dispatched, error}] = one.port().heard;
  assert.deepEqual([seq, ok, dispatched, error.code], [8, false, true, 'limit']);
  assert.equal(one.link.send({t: 'pull', text: result}), false, 'what cannot be cut down is said not to be sent');
});

test('a fence is acknowledged however much there is to report: without the requests, which are counted, save that there were some', () => {
  const one = makeLink();
  one.link.start();
  up(one);
  const url = `https://shop.test/${'x'.repeat(2000)}`;
  const request = {id: '1', method: 'POST', url, type: 'xmlhttprequest', state: 'in_flight', status: 0, error: '', rule: 'document', after_fence: true, began_ms: 1, ended_ms: 0};
  const action = (i) => ({
    action: `A${i}`, epoch: 2, rev: 1, dispatched: 1, open: 1, tab: 1, document: 'D1', script: false, how: 'lost', how_rule: '',
    requests: Array(64).fill(i === 8 ? {...request, method: 'GET'} : request), more: 3, downloads: ['a', 'b'],
  });
  for (const t of ['fenced', 'drained', 'hello']) {
    one.port().heard.length = 0;
    assert.equal(one.link.send({t, epoch: 3, actions: Array.from({length: 1200}, (_, i) => action(i))}), true);
    const {actions, nonce} = one.port().last(t) ?? join(one.port().heard);
    assert.equal(nonce, 'n1');
    assert.equal(actions.length, 1200);
    assert.deepEqual([actions[7].action, actions[7].how, actions[7].more, actions[7].downloads], ['A7', 'lost', 67, ['a']]);
    assert.deepEqual(actions[7].requests.map(({method, state, url}) => [method, state, url]), [['POST', 'failed', '']], 'one that can have changed something');
    assert.deepEqual(actions[8].requests, []);
  }
  one.port().heard.length = 0;
  one.link.send({t: 'report', action: action(1)});
  assert.equal(one.port().last('report').action.requests.length, 64);
});

test('broken chunks end the port, and the link is told lost in that turn', () => {
  const one = makeLink();
  one.link.start();
  up(one);
  const port = one.port();
  one.seen.length = 0;
  port.say({t: 'chunk', id: 1, index: 4, total: 9, data: ''});
  assert.equal(one.seen[0][0], 'down');
  assert.equal(port.closed, true);
  assert.equal(one.link.nonce, '');
});

test('what is not of the current link is dropped', () => {
  const one = makeLink();
  one.link.start();
  const first = one.port();
  first.say({t: 'fence', nonce: 'n1', epoch: 3, seq: 1, person: true, from_person: false, deadline_ms: 1, watch_ms: 1});
  first.say({t: 'link', up: true, nonce: 'n1'});
  first.say({t: 'poke', nonce: 'n1'});
  assert.deepEqual(one.seen.map((s) => s[0]), ['up'], 'nothing before welcome');
  first.say({t: 'welcome', nonce: 'forged', epoch: 1, seq: 1});
  assert.equal(one.link.welcomed, false);
  first.say({t: 'welcome', nonce: 'n1', epoch: 1, seq: 1});
  first.say({t: 'poke', nonce: 'n0'});
  first.say({t: 'poke', nonce: ''});
  first.say({t: 'poke'});
  first.say({t: 'nonsense', nonce: 'n1'});
  first.say({t: 'grant', nonce: 'n1', ask: 'one'});
  first.say('poke');
  first.say(null);
  assert.deepEqual(one.seen.map((s) => s[0]), ['up', 'welcome']);
  first.say({t: 'link', up: true, nonce: 'n2'});
  first.say({t: 'poke', nonce: 'n1'});
  assert.deepEqual(one.seen.map((s) => s[0]), ['up', 'welcome', 'down', 'up']);
});

test('a port that is no longer the current one is not heard, and not answered', async (t) => {
  t.mock.timers.enable({apis: ['setTimeout']});
  const one = makeLink();
  one.link.start();
  up(one);
  const old = one.port();
  old.drop();
  t.mock.timers.tick(BACK_OFF_MS[0]);
  assert.equal(one.fake.ports.length, 2);
  up(one, 'n2');
  one.seen.length = 0;
  old.say({t: 'poke', nonce: 'n2'});
  old.say({t: 'link', up: true, nonce: 'n3'});
  assert.deepEqual(one.seen, []);
  assert.equal(one.link.nonce, 'n2');
  assert.equal(one.link.answer(old, {t: 'cmd.result', seq: 1}), false);
});

test('a command before the welcome is answered: it was not dispatched', () => {
  const one = makeLink();
  one.link.start();
  one.port().say({
    t: 'cmd', seq: 4, action: 'A', epoch: 1, kind: 'tabs', expect: {}, effect: false, script: false, class: 'read', left_ms: 9,
  });
  const answer = one.port().last('cmd.result');
  assert.deepEqual([answer.seq, answer.ok, answer.dispatched, answer.error.code], [4, false, false, 'unavailable']);
});

test('a dead host costs two starts a minute, after a first fast one', (t) => {
  t.mock.timers.enable({apis: ['setTimeout']});
  const one = makeLink();
  one.link.start();
  const starts = [];
  let now = 0;
  for (const end = 600_000; now < end; now += 50) {
    const before = one.fake.ports.length;
    if (!one.port().closed) one.port().drop();
    t.mock.timers.tick(50);
    if (one.fake.ports.length > before) starts.push(now + 50);
  }
  assert.equal(starts[0], 100);
  assert.deepEqual(starts.slice(1, 5).map((at, i) => at - starts[i]).map((ms) => Math.round(ms / 500) * 500), [500, 1000, 2000, 5000]);
  const settled = starts.filter((at) => at > 70_000);
  for (let i = 2; i < settled.length; i++) assert.ok(settled[i] - settled[i - 2] >= 60_000);
  assert.ok(starts.length < 30, `${starts.length} starts in ten minutes`);
});

test('a link that lived begins the waits anew; a former worker’s count goes on', async (t) => {
  t.mock.timers.enable({apis: ['setTimeout']});
  const one = makeLink();
  one.link.start(BACK_OFF_MS.length);
  assert.equal(one.fake.ports.length, 0);
  t.mock.timers.tick(29_999);
  assert.equal(one.fake.ports.length, 0);
  t.mock.timers.tick(1);
  up(one);
  one.fake.pass(60_000);
  one.port().drop();
  t.mock.timers.tick(100);
  assert.equal(one.fake.ports.length, 2);
  await settle();
});

test('a refusal of the host is told with its reason', () => {
  const one = makeLink();
  const errors = [];
  const link = new Link(one.fake.browser, {up: () => {}, down: (_, error) => errors.push(error), message: () => {}});
  link.start();
  link.ready();
  one.port().say({t: 'host.refused', error: {code: 'version_skew', message: 'another build', hint: 'install again'}});
  assert.equal(errors[0].code, 'version_skew');
});

test('what the host says before the worker is ready is told afterwards, in its order', async (t) => {
  t.mock.timers.enable({apis: ['setTimeout']});
  const one = makeLink(undefined, false);
  one.link.start();
  up(one);
  one.port().drop();
  assert.deepEqual(one.seen, []);
  one.link.ready();
  assert.deepEqual(one.seen.map((s) => s[0]), ['up', 'welcome', 'down']);
  t.mock.timers.tick(100);
  assert.equal(one.fake.ports.length, 2);
  up(one, 'n2');
  assert.equal(one.seen.at(-1)[0], 'welcome');
});
