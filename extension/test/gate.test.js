import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import test from 'node:test';
import {decide, Gate} from '../gate.js';
import {NEEDS} from '../gen/wire.js';
import {Tabs} from '../tabs.js';
import {makeBrowser} from './fake.js';

const PORT = {};
const NOW = {monoMs: 1_000, wallMs: 5_000_000};
const LATER = {monoMs: 2_000, wallMs: 5_001_000};

const state = (over = {}) => ({
  port: PORT, linked: true, epoch: 7, hold: null, stopping: false,
  grant: {epoch: 7, lease: 'L', watchMs: 0, ...LATER}, ...over,
});
const order = (over = {}) => ({
  by: 'agent', kind: 'cdp', epoch: 7, port: PORT, tab: 1, frame: 0, document: 'D1', method: 'Runtime.evaluate', params: {},
  action: 'A', seq: 1, effect: true, script: false, ...LATER, ...over,
});
const view = (over = {}) => ({
  visible: (tab) => tab === 1, owns: () => false, probes: () => false, dead: () => false, mainFrame: () => 'F', allowed: (url) => url.startsWith('https://shop.test/') || url === 'about:blank',
  url: () => 'https://shop.test/', document: () => 'D1', room: () => true, domain: (name) => name === 'shop.test',
  paused: (tab, session, request) => session === '' && request === '1', ...over,
});

test('back leads only where the lease may go, and the browser is not told more than the entry', () => {
  const back = (params) => order({method: 'Page.navigateToHistoryEntry', params});
  const go = (params) => decide(state(), back(params), view(), NOW)?.code ?? null;
  assert.equal(go({entryId: 3, url: 'https://shop.test/a?b'}), null);
  assert.equal(go({entryId: 3, url: 'about:blank'}), null);
  for (const url of ['https://bank.test/', 'chrome://newtab/', 'chrome-error://chromewebdata/', 'file:///etc/passwd', 'about:blank#x', '', undefined, 7]) {
    assert.equal(go({entryId: 3, url}), 'policy', String(url));
  }
  const fake = makeBrowser();
  const gate = new Gate(fake.browser, view());
  Object.assign(gate, state(), {grant: {epoch: 7, lease: 'L', watchMs: 0, monoMs: Infinity, wallMs: Infinity}});
  const {refused} = gate.dispatch({...back({entryId: 3, url: 'https://shop.test/a?b'}), monoMs: Infinity, wallMs: Infinity});
  assert.equal(refused, undefined);
  assert.deepEqual(fake.did, [['send', 1, 'Page.navigateToHistoryEntry', {entryId: 3}]]);
});

test('an empty page is the page’s own, never the extension’s', () => {
  const go = (params, ...over) => run({order: {method: 'Page.navigate', document: '', params: {url: 'about:blank', ...params}}}, ...over)?.code ?? null;
  assert.equal(go({}), null);
  assert.equal(go({frameId: 'F'}), null);
  assert.equal(go({frameId: 'G'}), 'policy', 'a frame in the page');
  const unknown = {view: {mainFrame: () => ''}};
  assert.equal(go({}, unknown), null);
  assert.equal(go({frameId: 'G'}, unknown), 'unavailable', 'it may be a frame in the page');
  const child = {order: {method: 'Page.navigate', document: '', session: 'S', params: {url: 'about:blank'}}, view: {child: () => 'https://shop.test/frame'}};
  assert.equal(run(child)?.code, 'policy', 'a frame of another process, which it does not name');
  assert.equal(run(child, {order: {params: {url: 'about:blank', frameId: 'F'}}})?.code, 'policy', 'the same, by its name');
  assert.equal(go({}, {view: {url: () => 'https://other.test/'}}), 'policy', 'it would have the other site’s origin');
  assert.equal(go({}, {view: {dead: () => true}}), 'unavailable', 'nobody is there to leave');
  assert.equal(go({url: 'about:blank#x'}), 'policy');
  const fake = makeBrowser();
  const gate = new Gate(fake.browser, view());
  Object.assign(gate, state(), {grant: {epoch: 7, lease: 'L', watchMs: 0, monoMs: Infinity, wallMs: Infinity}});
  const {refused} = gate.dispatch({...order({method: 'Page.navigate', params: {url: 'about:blank'}}), monoMs: Infinity, wallMs: Infinity});
  assert.equal(refused, undefined);
  assert.deepEqual(fake.did, [['leave', 1, 'F']]);
});

/** Every reason to refuse, in the order in which they are told. */
const REASONS = [
  ['unavailable', 'no link', {state: {linked: false}}],
  ['unavailable', 'no port', {state: {port: null}}],
  ['unavailable', 'a forged port', {order: {port: {}}}],
  ['fenced', 'a hold', {state: {hold: {id: 'h', since_ms: 1}}}],
  ['fenced', 'no grant', {state: {grant: null}}],
  ['fenced', 'a fence above the grant', {state: {epoch: 8}}],
  ['unavailable', 'the grant is over by the monotonic clock', {now: {monoMs: 2_000}}],
  ['unavailable', 'the grant is over by the wall clock', {now: {wallMs: 5_001_000}}],
  ['deadline', 'the command is late by the monotonic clock', {order: {monoMs: 1_000}}],
  ['deadline', 'the command is late by the wall clock', {order: {wallMs: 5_000_000}}],
  ['limit', 'no room to record it', {view: {room: () => false}}],
  ['not_found', 'a tab of somebody else', {view: {visible: () => false}}],
  ['policy', 'a page out of the origins', {view: {url: () => 'https://other.test/'}}],
  ['unavailable', 'a renderer that has crashed', {view: {dead: () => true}}],
  ['document_changed', 'another document', {view: {document: () => 'D2'}}],
];

function run(...parts) {
  const merged = {state: {}, order: {}, view: {}, now: {}};
  for (const part of parts) for (const key of Object.keys(merged)) Object.assign(merged[key], part[key]);
  return decide(state(merged.state), order(merged.order), view(merged.view), {...NOW, ...merged.now});
}

test('nothing wrong: it passes', () => assert.equal(run(), null));

test('each reason refuses alone', () => {
  for (const [code, name, part] of REASONS) assert.equal(run(part)?.code, code, name);
});

test('each pair of reasons refuses, by the one that comes first', () => {
  for (let i = 0; i < REASONS.length; i++) {
    for (let j = i + 1; j < REASONS.length; j++) {
      assert.equal(run(REASONS[j][2], REASONS[i][2])?.code, REASONS[i][0], `${REASONS[i][1]} + ${REASONS[j][1]}`);
    }
  }
});

test('every subset of reasons refuses, and only the empty one passes', () => {
  for (let bits = 0; bits < 1 << REASONS.length; bits++) {
    const parts = REASONS.filter((_, i) => bits & (1 << i)).map((reason) => reason[2]);
    assert.equal(run(...parts) === null, bits === 0, `subset ${bits}`);
  }
});

test('the shared vectors of the epoch', () => {
  const vectors = JSON.parse(readFileSync(new URL('./vectors/gate.json', import.meta.url), 'utf8'));
  assert.ok(vectors.length >= 10);
  for (const {name, gate, cmd, allow, code} of vectors) {
    const grant = gate.granted ? {epoch: gate.granted, lease: 'L', watchMs: 0, ...LATER} : null;
    const hold = gate.hold ? {id: 'h', since_ms: 1} : null;
    const refusal = decide(state({epoch: gate.epoch, grant, hold}), order({epoch: cmd.epoch}), view(), NOW);
    assert.equal(refusal === null, allow, name);
    assert.equal(refusal?.code ?? '', code, name);
  }
});

test('odd epochs are refused, and the gate stays as it was', () => {
  const gate = new Gate(makeBrowser().browser, view());
  Object.assign(gate, state());
  for (const epoch of [NaN, -1, 0, 0.5, 2 ** 53, 2 ** 64 - 1, Infinity, '7', null, undefined, {}]) {
    assert.equal(decide(gate, order({epoch}), view(), NOW)?.code, 'fenced', String(epoch));
    assert.equal(gate.raise(epoch), false, String(epoch));
    assert.equal(gate.epoch, 7);
  }
  assert.equal(decide(gate, order(), view(), NOW), null);
});

test('raising the epoch closes the gate for the lower one, and is never undone', () => {
  const gate = new Gate(makeBrowser().browser, view());
  Object.assign(gate, state());
  assert.equal(gate.raise(9), true);
  assert.equal(gate.grant, null);
  assert.equal(gate.raise(8), false);
  assert.equal(gate.epoch, 9);
});

test('an agent may leave a page out of its origins, and do nothing else there', () => {
  const away = {view: {url: () => 'https://other.test/'}};
  assert.equal(run(away, {order: {method: 'Page.navigate', params: {url: 'https://shop.test/x'}, document: ''}}), null);
  assert.equal(run(away, {order: {method: 'Page.reload'}})?.code, 'policy');
  assert.equal(run(away, {order: {kind: 'document', method: ''}})?.code, 'policy');
});

test('addresses that are no website’s are not opened', () => {
  for (const url of ['chrome://settings', 'chrome-extension://self/popup.html', 'file:///etc/passwd', 'devtools://x', 'javascript:1', 'https://other.test/']) {
    assert.equal(run({order: {method: 'Page.navigate', params: {url}, document: ''}})?.code, 'policy', url);
    assert.equal(run({order: {kind: 'tab_create', tab: 0, method: '', document: '', params: {url}}})?.code, 'policy', url);
  }
});

test('what would blind the fence is not for an agent', () => {
  for (const method of ['Page.crash', 'Page.disable', 'Inspector.disable', 'Target.createTarget', 'Target.attachToTarget', 'Target.closeTarget']) {
    assert.equal(run({order: {method}})?.code, 'policy', method);
  }
  assert.equal(run({order: {method: 'Target.setAutoAttach'}}), null);
});

test('a lent tab is not closed, an owned one is', () => {
  const close = {order: {kind: 'tab_close', method: ''}};
  assert.equal(run(close)?.code, 'policy');
  assert.equal(run(close, {view: {owns: () => true}}), null);
});

test('the system passes with the closed list, and nothing else', () => {
  const system = (over, st = {}) =>
    decide(state({grant: null, hold: {id: 'h', since_ms: 1}, port: null, linked: false, ...st}), order({by: 'system', port: null, ...over}), view(), NOW);
  const allowed = [
    {kind: 'barrier', method: ''},
    {method: 'Fetch.failRequest', params: {requestId: '1', errorReason: 'Aborted'}},
    {method: 'Input.dispatchKeyEvent', params: {type: 'keyUp', key: 'a'}},
    {method: 'Input.dispatchMouseEvent', params: {type: 'mouseReleased', x: -10, y: -10, button: 'left'}},
    {method: 'Fetch.disable', params: {}},
    {method: 'Page.crash'},
    {method: 'Page.stopLoading'},
    {method: 'Page.handleJavaScriptDialog', params: {accept: false}, dialog: 'ending'},
    {method: 'Page.enable'},
    {method: 'Inspector.enable'},
    {method: 'Page.getFrameTree'},
    {method: 'Emulation.setFocusEmulationEnabled', params: {enabled: true}},
  ];
  for (const one of allowed) assert.equal(system(one), null, JSON.stringify(one));
  const others = {method: 'Fetch.continueRequest', params: {requestId: '2'}};
  assert.equal(system(others), null, 'no agent holds it back');
  assert.equal(system({...others, params: {...others.params, url: 'https://other.test/'}})?.code, 'policy');
  const auth = (requestId, response) => ({method: 'Fetch.continueWithAuth', params: {requestId, authChallengeResponse: {response}}});
  assert.equal(system(auth('2', 'Default')), null);
  assert.equal(system(auth('1', 'CancelAuth')), null);
  const refused = [
    auth('1', 'Default'),
    auth('2', 'ProvideCredentials'),
    {method: 'Runtime.evaluate'},
    {method: 'Page.handleJavaScriptDialog', params: {accept: true}, dialog: 'ending'},
    {method: 'Page.handleJavaScriptDialog', params: {accept: false}},
    {method: 'Page.navigate', params: {url: 'https://shop.test/'}},
    {method: 'Fetch.continueRequest', params: {requestId: '1'}},
    {method: 'Input.dispatchKeyEvent', params: {type: 'keyDown', key: 'a'}},
    {method: 'Input.dispatchMouseEvent', params: {type: 'mouseReleased', x: 5, y: 5, button: 'left'}},
    {method: 'Input.dispatchMouseEvent', params: {type: 'mousePressed', x: -10, y: -10, button: 'left'}},
    {method: 'Emulation.setFocusEmulationEnabled', params: {enabled: false}},
    {method: 'constructor'},
    {kind: 'tab_close', method: ''},
    {kind: 'tab_create', method: ''},
  ];
  for (const one of refused) assert.equal(system(one)?.code, 'policy', JSON.stringify(one));

  const dialog = {method: 'Page.handleJavaScriptDialog', params: {accept: true}, dialog: 'beforeunload'};
  assert.equal(system(dialog)?.code, 'policy', 'no stop is being prepared');
  assert.equal(system(dialog, {stopping: true}), null);
  assert.equal(system({...dialog, dialog: 'alert'}, {stopping: true})?.code, 'policy');

  for (const epoch of [6, 8]) assert.equal(system({kind: 'barrier', method: '', epoch})?.code, 'fenced');
  assert.equal(system({kind: 'barrier', method: '', monoMs: 1_000})?.code, 'deadline');
});

const ME = 'https://shop.test/me';
const page = (over = {}) => ({epoch: 7, url: ME, selector: '#email', expression: '', tab: 1, ...over});
const LOOK = {by: 'system', port: null, kind: 'text', method: '', params: {selector: '#email'}};
/** A probe's read, of a state in which nobody holds the slot. */
const looks = (...parts) => run({state: {grant: null, probe: page()}, order: LOOK}, ...parts);

/** Every reason to refuse what a probe reads, in the order in which they are told. */
const PROBE_REASONS = [
  ['fenced', 'another epoch in force', {state: {epoch: 8}}],
  ['policy', 'no probe is under way', {state: {probe: null}}],
  ['fenced', 'a hold', {state: {hold: {id: 'h', since_ms: 1}}}],
  ['unavailable', 'no link', {state: {linked: false}}],
  ['policy', 'another website', {view: {url: () => 'https://other.test/me'}}],
  ['document_changed', 'another document', {view: {document: () => 'D2'}}],
  ['deadline', 'too late by the monotonic clock', {order: {monoMs: 1_000}}],
  ['deadline', 'too late by the wall clock', {now: {wallMs: 5_001_000}}],
];

test('a probe reads its page, and every subset of reasons refuses, by the one that comes first', () => {
  assert.equal(looks(), null);
  for (let bits = 0; bits < 1 << PROBE_REASONS.length; bits++) {
    const found = PROBE_REASONS.filter((_, i) => bits & (1 << i));
    const refusal = looks(...found.map((reason) => reason[2]));
    assert.equal(refusal?.code, found[0]?.[0], found.map((reason) => reason[1]).join(' + '));
  }
});

test('a probe does nothing but what its page asks for, in its own tab', () => {
  const value = {kind: 'cdp', method: 'Runtime.evaluate', params: {expression: 'user.name', throwOnSideEffect: true}};
  const byValue = {state: {probe: page({selector: '', expression: 'user.name'})}};
  const make = {kind: 'tab_create', tab: 0, document: '', params: {url: 'about:blank', active: false}};
  const none = {state: {probe: page({tab: 0})}};
  const go = {kind: 'tab_goto', document: '', params: {url: ME}};
  assert.equal(looks(byValue, {order: value}), null);
  assert.equal(looks(none, {order: make}), null);
  assert.equal(looks({order: go}), null);
  assert.equal(looks({order: go}, {view: {url: () => 'about:blank', document: () => ''}}), null, 'it reads nothing');
  for (const [name, ...parts] of [
    ['another selector', {order: {params: {selector: 'input[type=password]'}}}],
    ['a selector where an expression is read', byValue],
    ['another tab', {order: {tab: 2}}],
    ['the agent’s tab before it has one', none],
    ['another expression', byValue, {order: {...value, params: {...value.params, expression: 'document.cookie'}}}],
    ['side effects', byValue, {order: {...value, params: {...value.params, throwOnSideEffect: false}}}],
    ['side effects, by silence', byValue, {order: {...value, params: {expression: 'user.name'}}}],
    ['an expression where a selector is read', {order: value}],
    ['an expression that is empty', {order: {...value, params: {expression: '', throwOnSideEffect: true}}}],
    ['another method', byValue, {order: {...value, method: 'Runtime.callFunctionOn'}}],
    ['a second tab', {order: make}],
    ['a tab in front', none, {order: {...make, params: {url: 'about:blank', active: true}}}],
    ['a tab that is not empty', none, {order: {...make, params: {url: ME, active: false}}}],
    ['another address', {order: {...go, params: {url: 'https://shop.test/logout'}}}],
    ['the agent’s tab sent to the page', {order: {...go, tab: 2}}],
    ['a page of another epoch', {state: {probe: page({epoch: 6})}}],
    ['the front', {order: {kind: 'tab_activate', params: {}}}],
    ['a click', {order: {kind: 'cdp', method: 'Input.dispatchMouseEvent', params: {type: 'mousePressed', x: 1, y: 1}}}],
  ]) {
    assert.equal(looks(...parts)?.code, 'policy', name);
  }
});

test('a probe’s tab is closed whoever holds, and no other is', () => {
  const close = (over) => looks({state: {probe: null, hold: {id: 'h', since_ms: 1}, linked: false, port: null}, order: {kind: 'tab_close', document: '', params: {}}}, over);
  assert.equal(close({})?.code, 'policy');
  assert.equal(close({view: {probes: (tab) => tab === 1}}), null);
  assert.equal(close({view: {probes: (tab) => tab === 1}, order: {tab: 2}})?.code, 'policy');
  assert.equal(close({view: {probes: (tab) => tab === 1}, order: {epoch: 6}})?.code, 'fenced');
});

test('what a probe does is not for an agent', () => {
  for (const kind of ['tab_goto', 'text']) {
    assert.equal(run({state: {probe: page()}, order: {...LOOK, by: 'agent', port: PORT, kind, params: {url: ME, selector: '#email'}}})?.code, 'policy', kind);
  }
});

test('raising the epoch ends a probe', () => {
  const gate = new Gate(makeBrowser().browser, view());
  Object.assign(gate, state(), {probe: page()});
  gate.raise(7);
  assert.ok(gate.probe);
  gate.raise(8);
  assert.equal(gate.probe, null);
});

test('dispatch does nothing when it refuses, and says so when Chromium’s own check throws', () => {
  const fake = makeBrowser();
  Object.assign(fake, {mono: NOW.monoMs, wall: NOW.wallMs});
  const gate = new Gate(fake.browser, view());
  Object.assign(gate, state());
  assert.equal(gate.dispatch(order({epoch: 6})).refused.code, 'fenced');
  assert.deepEqual(fake.did, []);
  assert.ok(gate.dispatch(order()).sent);
  assert.equal(fake.did.length, 1);
  fake.browser.sendCommand = () => {
    throw new TypeError('Error at parameter "method"');
  };
  assert.equal(gate.dispatch(order()).refused.code, 'invalid');
});

test('a setting opens its methods, and no others', () => {
  const go = (method, allow, params = {cookies: [], requestId: '1', storageKey: 'https://shop.test/'}) =>
    run({state: {grant: {epoch: 7, lease: 'L', watchMs: 0, allow, ...LATER}}, order: {method, params}});
  const all = [...new Set(Object.values(NEEDS))];
  assert.deepEqual(all.toSorted(), ['cookies', 'interception', 'storage']);
  for (const [method, needs] of Object.entries(NEEDS)) {
    assert.equal(go(method, [needs]), null, method);
    for (const allow of [undefined, [], all.filter((one) => one !== needs)]) {
      const refused = go(method, allow);
      assert.equal(refused?.code, 'policy', method);
      assert.match(refused?.hint ?? '', new RegExp(`--allow ${needs}$`), method);
    }
  }
});

test('the shared vectors of what is beyond the origins', () => {
  const vectors = JSON.parse(readFileSync(new URL('./vectors/scope.json', import.meta.url), 'utf8'));
  assert.ok(vectors.length >= 30);
  for (const {method, params, origins, allow, code} of vectors) {
    const tabs = new Tabs();
    tabs.lend(origins, () => '');
    const refusal = run({
      state: {grant: {epoch: 7, lease: 'L', watchMs: 0, allow, ...LATER}}, order: {method, params: {requestId: '1', ...params}},
      view: {url: () => '', allowed: (url) => tabs.allowed(url), domain: (name) => tabs.domain(name)},
    });
    assert.equal(refusal?.code ?? '', code, `${method} ${JSON.stringify(params)} within ${origins}: ${refusal?.message}`);
  }
});

test('of a request that the lease was not told of nothing is done', () => {
  const go = (params, session = '') =>
    run({
      state: {grant: {epoch: 7, lease: 'L', watchMs: 0, allow: ['interception'], ...LATER}},
      order: {method: 'Fetch.getResponseBody', params, session}, view: {child: () => 'https://shop.test/frame'},
    })?.code ?? null;
  assert.equal(go({requestId: '1'}), null);
  assert.equal(go({requestId: '2'}), 'not_found');
  assert.equal(go({requestId: '1'}, 'S'), 'not_found', 'it is of another session');
  assert.equal(go({}), 'not_found');
});
