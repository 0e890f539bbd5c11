// The host's commands, the grants they need, and where tabs begin and end for a lease.

import assert from 'node:assert/strict';
import test from 'node:test';
import {MAX_DIALOG_TEXT} from '../limits.js';
import {rig, settle, until} from './rig.js';

const MOUSE = 'Input.dispatchMouseEvent';
const cdpError = (code, message) => () => Promise.reject(new Error(JSON.stringify({code, message})));

test('an attached tab’s command is dispatched in the turn in which it comes', async () => {
  const it = await (await rig()).granted();
  it.fake.did.length = 0;
  it.cmd({params: {expression: '1'}});
  assert.deepEqual(it.fake.did, [['send', 1, 'Runtime.evaluate', {expression: '1'}]]);
  await settle();
  const {observed, dispatched, result} = it.port.last('cmd.result');
  assert.deepEqual([observed, dispatched, result], [{tab: 1, document: 'D1'}, true, {}]);
});

test('commands that come while a tab is being attached keep their order, behind the set-up', async () => {
  const it = await rig();
  it.up();
  it.grant(2);
  for (const expression of ['1', '2', '3']) it.cmd({params: {expression}});
  await settle();
  assert.deepEqual(it.fake.did[0], ['attach', 1]);
  assert.deepEqual(it.fake.did.filter((d) => d[0] === 'attach').length, 1);
  const methods = it.fake.did.slice(1).map((d) => d[2]);
  assert.ok(methods.indexOf('Page.enable') < methods.indexOf('Runtime.evaluate'));
  assert.deepEqual(it.fake.sent('Runtime.evaluate').map((d) => d[3].expression), ['1', '2', '3']);
});

test('a fence while a tab is being attached: nothing of the queue is dispatched', async () => {
  const it = await rig();
  it.up();
  it.grant(2);
  let attached;
  it.fake.browser.attach = () => new Promise((resolve) => (attached = resolve));
  const n = it.cmd({});
  it.fence(3);
  attached();
  await settle();
  await settle();
  assert.equal(it.fake.sent('Runtime.evaluate').length, 0);
  assert.deepEqual([it.result(n).dispatched, it.result(n).error.code], [false, 'fenced']);
  assert.deepEqual(it.fake.did.at(-1), ['detach', 1]);
});

test('a tab that cannot be attached: not dispatched, and why', async () => {
  const it = await rig();
  it.up();
  it.grant(2);
  const refused = async (...errors) => {
    it.fake.attachErrors.push(...errors);
    const n = it.cmd({});
    await settle();
    const {dispatched, error} = it.result(n);
    assert.equal(dispatched, false);
    assert.ok(error.message.includes(errors.at(-1)), error.message);
    return error.code;
  };
  // The browser's standing rules will not pass for that page.
  for (const rule of [
    'Cannot access a chrome:// URL',
    'Cannot access a chrome-extension:// URL of different extension',
    'The extensions gallery cannot be scripted.',
    'This page cannot be scripted due to an ExtensionsSettings policy.',
    'Cannot attach to this target.',
  ]) {
    assert.equal(await refused(rule), 'conflict', rule);
  }
  assert.equal(await refused('No tab with given id 1.'), 'unavailable');
  const another = 'Another debugger is already attached to the tab with id: 1.';
  assert.equal(await refused(another, another), 'unavailable');
  it.fake.attachErrors.push('Another debugger is already attached to the tab with id: 1.');
  const again = it.cmd({});
  await settle();
  assert.equal(it.result(again).ok, true, 'left by a former life: detached and attached anew');
});

test('a new tab’s own page is made empty before it is attached', async () => {
  const it = await rig({tabs: [[1, 'D1', 'chrome://newtab/']]});
  it.up();
  it.grant(2);
  it.cmd({method: 'Page.navigate', params: {url: 'https://shop.test/'}, expect: {}});
  await settle();
  assert.deepEqual(it.fake.did.slice(0, 2), [['blank', 1], ['attach', 1]]);
});

test('errors say what the browser said, and whether it was dispatched', async () => {
  const it = await (await rig()).granted();
  for (const [answer, code, message, cdp] of [
    [cdpError(-32601, "'X.y' wasn't found"), 'invalid', "'X.y' wasn't found", -32601],
    [cdpError(-32000, 'Inspected target navigated or closed'), 'unavailable', 'Inspected target navigated or closed', -32000],
    [() => Promise.reject(new Error('Detached while handling command.')), 'unavailable', 'Detached while handling command.', undefined],
  ]) {
    it.fake.answers['DOM.focus'] = answer;
    const n = it.cmd({method: 'DOM.focus'});
    await settle();
    const {ok, dispatched, error} = it.result(n);
    assert.deepEqual([ok, dispatched, error.code, error.message, error.detail?.cdp_code], [false, true, code, message, cdp]);
  }
});

test('an error that proves nothing leaves the action open', async () => {
  const it = await (await rig()).granted();
  it.fake.answers['DOM.focus'] = () => Promise.reject(new Error('Detached while handling command.'));
  it.cmd({method: 'DOM.focus', effect: true});
  await settle();
  assert.deepEqual([it.report('A1').open, it.report('A1').how], [1, 'open']);
});

test('a page that has not left for the empty one in time leaves the action open: no barrier settles it', async () => {
  const it = await (await rig()).granted();
  it.fake.left = () => Promise.reject(new Error('the page has not left for the empty one in time'));
  const n = it.cmd({method: 'Page.navigate', params: {url: 'about:blank'}, effect: true});
  await settle();
  assert.deepEqual([it.result(n).ok, it.result(n).dispatched, it.result(n).error.detail], [false, true, undefined]);
  assert.deepEqual([it.report('A1').open, it.report('A1').how], [1, 'open']);
  it.fence(3);
  await until('the drain', () => it.port.last('drained')?.epoch === 3);
  const [{why, how}] = it.port.last('drained').documents;
  assert.deepEqual([why, how, it.report('A1').open, it.report('A1').how], ['input_pending', 'lost', 1, 'lost']);
});

test('what is late, of another tab or of another document is not dispatched', async () => {
  const it = await (await rig({tabs: [[1, 'D1'], [2, 'D2', 'chrome://settings/']]})).granted();
  it.fake.did.length = 0;
  for (const [fields, code] of [
    [{left_ms: 0}, 'deadline'],
    [{expect: {tab: 2}}, 'not_found'],
    [{expect: {tab: 77}}, 'not_found'],
    [{expect: {tab: 1, document: 'D0'}}, 'document_changed'],
    [{epoch: 1}, 'fenced'],
    [{epoch: 3}, 'fenced'],
    [{epoch: 2 ** 53 - 1}, 'fenced'],
  ]) {
    const n = it.cmd(fields);
    assert.deepEqual([it.result(n)?.dispatched, it.result(n)?.error.code], [false, code], JSON.stringify(fields));
  }
  assert.deepEqual(it.fake.did, []);
});

test('a barrier counts in its document, and a document’s own navigation in its place', async () => {
  const it = await (await rig()).granted();
  it.fake.emit('debuggerEvent', 1, '', 'Page.frameNavigated', {frame: {id: 'F1'}});
  await it.click();
  it.cmd({kind: 'barrier', method: ''});
  await settle();
  assert.deepEqual(it.port.last('cmd.result').result, {how_rule: 'barrier_in_document'});
  assert.equal(it.report('A1').how_rule, 'barrier_in_document');

  await it.click({action: 'A2'});
  it.fake.emit('debuggerEvent', 1, '', 'Page.frameRequestedNavigation', {frameId: 'F1', disposition: 'currentTab'});
  it.fake.commit(1, 'D2');
  it.cmd({kind: 'barrier', method: '', action: 'A2'});
  await settle();
  const {ok, observed, result} = it.port.last('cmd.result');
  assert.deepEqual([ok, observed, result], [true, {tab: 1, document: 'D2'}, {how_rule: 'navigated_by_document'}]);
  assert.deepEqual([it.report('A2').how, it.report('A2').how_rule], ['barrier', 'navigated_by_document']);
});

test('a replaced document proves nothing if its input was open, or the navigation was not its own', async () => {
  for (const [name, how] of [
    ['asked by nobody', async (it) => void (await it.click())],
    ['asked by a subframe', async (it) => {
      await it.click();
      it.fake.emit('debuggerEvent', 1, '', 'Page.frameRequestedNavigation', {frameId: 'F2', disposition: 'currentTab'});
    }],
    ['asked for another tab', async (it) => {
      await it.click();
      it.fake.emit('debuggerEvent', 1, '', 'Page.frameRequestedNavigation', {frameId: 'F1', disposition: 'newTab'});
    }],
    ['asked before the input', async (it) => {
      it.fake.emit('debuggerEvent', 1, '', 'Page.frameRequestedNavigation', {frameId: 'F1', disposition: 'currentTab'});
      await it.click();
    }],
    ['input not acknowledged', async (it) => {
      it.fake.answers[MOUSE] = () => new Promise(() => {});
      await it.click();
      it.fake.emit('debuggerEvent', 1, '', 'Page.frameRequestedNavigation', {frameId: 'F1', disposition: 'currentTab'});
    }],
  ]) {
    const it = await (await rig()).granted();
    it.fake.emit('debuggerEvent', 1, '', 'Page.frameNavigated', {frame: {id: 'F1'}});
    await how(it);
    it.fake.commit(1, 'D2');
    assert.equal(it.report('A1').how, 'lost', name);
    const n = it.cmd({kind: 'barrier', method: ''});
    await settle();
    assert.deepEqual([it.result(n)?.ok, it.result(n)?.error.code], [false, 'document_changed'], name);
  }
});

test('a barrier that fails because its document went is judged after the commit is known', async () => {
  const it = await (await rig()).granted();
  it.fake.emit('debuggerEvent', 1, '', 'Page.frameNavigated', {frame: {id: 'F1'}});
  await it.click();
  it.fake.emit('debuggerEvent', 1, '', 'Page.frameRequestedNavigation', {frameId: 'F1', disposition: 'currentTab'});
  it.fake.barrier = () => Promise.reject(new Error('Frame with ID 0 was removed.'));
  const n = it.cmd({kind: 'barrier', method: ''});
  await settle();
  assert.equal(it.result(n), undefined);
  it.fake.commit(1, 'D2');
  await until('answer', () => it.result(n));
  assert.deepEqual([it.result(n).ok, it.result(n).result.how_rule], [true, 'navigated_by_document']);
});

test('a crashed tab takes only what revives it', async () => {
  const it = await (await rig()).granted();
  it.fake.emit('debuggerEvent', 1, '', 'Inspector.targetCrashed', {});
  const n = it.cmd({expect: {tab: 1}});
  assert.deepEqual([it.result(n).dispatched, it.result(n).error.code], [false, 'unavailable']);
  it.fake.did.length = 0;
  it.cmd({method: 'Page.navigate', params: {url: 'https://shop.test/'}, expect: {tab: 1}});
  it.fake.emit('debuggerEvent', 1, '', 'Inspector.targetCrashed', {});
  await settle();
  assert.equal(it.port.last('cmd.result').ok, true);
  it.fake.commit(1, 'D2');
  assert.ok(it.fake.sent('Page.enable').length === 1, 'the set-up is sent again');
  it.cmd({expect: {tab: 1, document: 'D2'}});
  await settle();
  assert.equal(it.port.last('cmd.result').ok, true);
});

test('tabs: lent at the grant, owned if made or opened under it, and nothing else', async () => {
  const it = await rig({tabs: [[1, 'D1'], [2, 'D2', 'https://other.test/'], [3, 'D3', 'about:blank']]});
  it.up();
  it.grant(2, {origins: ['https://shop.test']});
  const list = async () => {
    const n = it.cmd({kind: 'tabs', method: '', expect: {}});
    await settle();
    return it.result(n).result.tabs.map(({tab, owned, allowed}) => [tab, owned, allowed]);
  };
  assert.deepEqual(await list(), [[1, false, true], [3, false, true]]);
  it.fake.emit('tabCreated', {id: 4, url: 'https://shop.test/pop', openerTabId: 1, windowId: 1});
  it.fake.emit('tabCreated', {id: 5, url: 'https://shop.test/mine', windowId: 1});
  it.fake.emit('tabCreated', {id: 6, url: 'https://shop.test/pop', openerTabId: 2, windowId: 1});
  assert.deepEqual(await list(), [[1, false, true], [3, false, true], [4, true, true]]);

  const n = it.cmd({kind: 'tab_create', method: '', expect: {}, params: {url: 'https://shop.test/new'}, effect: true});
  await until('created', () => it.result(n));
  const made = it.result(n).observed.tab;
  assert.ok(made && it.result(n).observed.document);
  assert.deepEqual((await list()).at(-1), [made, true, true]);
  assert.equal(it.result(it.cmd({kind: 'tab_close', method: '', expect: {tab: 1}, effect: true})).error.code, 'policy');
  it.cmd({kind: 'tab_close', method: '', expect: {tab: made}, effect: true});
  await settle();
  assert.deepEqual(it.fake.did.at(-1), ['close', made]);

  it.fake.commit(1, 'D9', 'https://other.test/in');
  assert.equal(it.result(it.cmd({expect: {tab: 1}})).error.code, 'policy', 'a redirect out of the origins');
  assert.deepEqual((await list())[0], [1, false, false]);

  it.fence(3);
  it.grant(4, {origins: ['https://shop.test']});
  const m = it.cmd({kind: 'tabs', method: '', expect: {}, epoch: 4});
  await settle();
  assert.ok(it.result(m).result.tabs.every((tab) => !tab.owned), 'nothing is inherited');
});

test('the document after another is told as soon as it is there, and to nobody after a fence', async () => {
  const it = await (await rig()).granted();
  const ask = (before) => it.cmd({kind: 'document', method: '', expect: {tab: 1}, params: {before}});
  const n = ask('D1');
  await settle();
  assert.equal(it.result(n), undefined, 'the tab still has the former one');
  it.fake.commit(1, 'D2', 'https://shop.test/next');
  await settle();
  assert.deepEqual([it.result(n).observed, it.result(n).url], [{tab: 1, document: 'D2'}, 'https://shop.test/next']);
  const m = ask('D1');
  await settle();
  assert.equal(it.result(m).observed.document, 'D2', 'it is there already');
  it.fake.framesOf.set(1, [{frameId: 0, documentId: 'D3', url: 'https://shop.test/', processId: 7}]);
  const k = ask('D2');
  await settle();
  assert.equal(it.result(k).observed.document, 'D3', 'no event has told of it yet');
  const f = ask('D3');
  await settle();
  it.fence(3);
  it.fake.commit(1, 'D4');
  await settle();
  assert.equal(it.result(f), undefined, 'an answer after the fence');
});

test('a lease without a tab is told so', async () => {
  const it = await rig({tabs: [[1, 'D1', 'chrome://settings/']]});
  it.up();
  it.grant(2);
  const n = it.cmd({kind: 'document', method: '', expect: {}});
  assert.deepEqual([it.result(n).dispatched, it.result(n).error.code], [false, 'not_found']);
});

test('a grant lives from when it was asked for, on either clock', async () => {
  for (const [name, wait] of [
    ['both', (fake) => fake.pass(15_000)],
    ['monotonic only', (fake) => (fake.mono += 15_000)],
    ['wall only', (fake) => (fake.wall += 15_000)],
  ]) {
    const it = await (await rig()).granted();
    wait(it.fake);
    const n = it.cmd({});
    assert.deepEqual([it.result(n).dispatched, it.result(n).error.code], [false, 'unavailable'], name);
    it.grant(2);
    it.cmd({});
    await settle();
    assert.equal(it.port.last('cmd.result').ok, true, `${name}: a fresh grant opens it again`);
    assert.equal(it.port.of('granted').length, 1, 'a renewal is no news');
  }
});

test('a grant that was stuck on its way gains no life', async () => {
  const it = await rig();
  it.up();
  it.daemon('poke');
  const {ask} = it.port.last('pull');
  it.fake.pass(14_999);
  it.daemon('grant', {ask, epoch: 2, lease: 'L', ttl_ms: 15_000, origins: [], watch_ms: 1});
  assert.ok(it.dock.gate.grant);
  it.fake.pass(1);
  assert.equal(it.result(it.cmd({})).error.code, 'unavailable');

  it.daemon('poke');
  const late = it.port.last('pull').ask;
  it.fake.pass(15_000);
  it.daemon('grant', {ask: late, epoch: 3, lease: 'L', ttl_ms: 15_000, origins: [], watch_ms: 1});
  assert.equal(it.port.of('granted').length, 1);
});

test('a grant that nobody asked for, twice, or of a former link, is dropped; epoch 0 closes', async () => {
  const it = await rig();
  it.up();
  const grant = {epoch: 2, lease: 'L', ttl_ms: 15_000, origins: [], watch_ms: 1};
  it.daemon('grant', {ask: 1, ...grant});
  assert.equal(it.dock.gate.grant, null);
  it.daemon('poke');
  const {ask} = it.port.last('pull');
  it.port.say({t: 'link', up: false});
  it.up('n2', 1);
  it.daemon('grant', {ask, ...grant});
  assert.equal(it.dock.gate.grant, null);
  it.daemon('poke');
  const again = it.port.last('pull').ask;
  it.daemon('grant', {ask: again, ...grant});
  assert.equal(it.dock.gate.grant.epoch, 2);
  it.fence(3);
  it.daemon('grant', {ask: again, ...grant, epoch: 3});
  assert.equal(it.dock.gate.grant, null, 'one ask, one grant');
  it.grant(3);
  it.daemon('poke');
  it.daemon('grant', {ask: it.port.last('pull').ask, ...grant, epoch: 0});
  assert.equal(it.dock.gate.grant, null);
});

test('a grant while a drain runs ends it, lets go of every tab and calls what was open lost', async () => {
  const it = await (await rig()).granted();
  it.fake.answers[MOUSE] = () => new Promise(() => {});
  await it.click();
  it.fence(3);
  assert.ok(it.dock.drain.running);
  it.grant(4);
  await settle();
  assert.equal(it.report('A1').how, 'lost');
  assert.deepEqual(it.fake.did.at(-1), ['detach', 1]);
  assert.equal(it.port.of('drained').some((d) => d.epoch === 3), false);
});

test('a clean stop: every tab is attached, and only dialogs of beforeunload are accepted', async () => {
  const it = await rig({tabs: [[1, 'D1'], [2, 'D2']]});
  it.up('n1', 4);
  it.fake.emit('debuggerEvent', 1, '', 'Page.javascriptDialogOpening', {type: 'beforeunload'});
  it.daemon('stop.prepare');
  await settle();
  assert.ok(it.port.last('stop.ready'));
  it.fake.emit('debuggerEvent', 1, '', 'Page.javascriptDialogOpening', {type: 'alert'});
  assert.equal(it.fake.sent('Page.handleJavaScriptDialog').length, 0);
  it.fake.emit('debuggerEvent', 2, '', 'Page.javascriptDialogOpening', {type: 'beforeunload'});
  assert.deepEqual(it.fake.sent('Page.handleJavaScriptDialog').map((d) => [d[1], d[3]]), [[2, {accept: true}]]);
});

test('a script for new documents and one with a reload are refused where origins are listed', async () => {
  const it = await rig();
  it.up();
  it.fence(2, {person: false});
  await settle();
  it.grant(2, {origins: ['https://shop.test']});
  const asked = async (method, params) => {
    const seq = it.cmd({method, params, effect: true, script: true});
    await settle();
    return it.result(seq);
  };
  const add = 'Page.addScriptToEvaluateOnNewDocument';
  assert.equal((await asked(add, {source: 'steal()'})).error.code, 'policy');
  assert.equal((await asked(add, {source: '// a world\nsteal()'})).error.code, 'policy');
  assert.equal((await asked(add, {source: '//# sourceURL=a', worldName: 'w'})).ok, true);
  assert.equal((await asked('Page.reload', {scriptToEvaluateOnLoad: 'steal()'})).error.code, 'policy');
  assert.equal((await asked('Page.reload', {})).ok, true);
});

test('extra headers go to every website: refused where origins are listed, and a cookie among them without cookies', async () => {
  const headers = (names) => ({headers: Object.fromEntries(names.map((name) => [name, '1']))});
  for (const [grant, names, code] of [
    [{origins: ['https://shop.test'], allow: ['cookies', 'storage', 'interception']}, ['X-Csrf'], 'policy'],
    [{origins: ['https://shop.test']}, [], undefined],
    [{origins: []}, ['X-Csrf'], undefined],
    [{origins: []}, ['X-Csrf', 'cookie'], 'policy'],
    [{origins: [], allow: ['cookies']}, ['X-Csrf', 'Cookie'], undefined],
  ]) {
    const it = await rig();
    it.up();
    it.fence(2, {person: false});
    await settle();
    it.grant(2, grant);
    const seq = it.cmd({method: 'Network.setExtraHTTPHeaders', params: headers(names), effect: true});
    await settle();
    assert.equal(it.result(seq).error?.code, code, JSON.stringify([grant, names]));
  }
});

test('what is answered after the page has left the origins is not told', async () => {
  const it = await rig();
  it.up();
  it.fence(2, {person: false});
  await settle();
  it.grant(2, {origins: ['https://shop.test']});
  let answer = (_) => {};
  it.fake.answers['Page.captureScreenshot'] = () => new Promise((resolve) => (answer = resolve));
  const seq = it.cmd({method: 'Page.captureScreenshot', class: 'read'});
  await settle();
  it.fake.commit(1, 'D2', 'https://bank.test/');
  answer({data: 'the bank’s'});
  await settle();
  const {ok, error, result} = it.result(seq);
  assert.deepEqual([ok, error.code, result], [false, 'policy', undefined]);
});

test('a dialog: what the page leaves waiting is told of it, and what answers it is not', async () => {
  const opens = (it, fields = {}) =>
    it.fake.emit('debuggerEvent', 1, '', 'Page.javascriptDialogOpening', {type: 'confirm', message: 'Really?', url: 'https://shop.test/', ...fields});
  const it = await (await rig({tabs: [[1, 'D1'], [2, 'D2']]})).granted();
  const told = () => it.port.of('cmd.waits').map(({seq, dialog}) => [seq, dialog?.kind, dialog?.message]);
  it.fake.answers['Runtime.evaluate'] = () => new Promise(() => {});
  const before = it.cmd({});
  const elsewhere = it.cmd({expect: {tab: 2}});
  opens(it);
  assert.deepEqual(told(), [[before, 'confirm', 'Really?']]);
  const after = it.cmd({kind: 'document', method: ''});
  it.cmd({method: 'Page.handleJavaScriptDialog', params: {accept: true}, effect: true});
  it.cmd({kind: 'tabs', method: ''});
  assert.deepEqual(told().slice(1), [[after, 'confirm', 'Really?']]);
  await settle();
  it.fake.emit('debuggerEvent', 1, '', 'Page.javascriptDialogClosed', {result: true});
  assert.deepEqual(told().slice(2), [[before, undefined, undefined]], 'what is answered does not wait');
  it.cmd({});
  assert.equal(told().length, 3);

  // A page may say as much as it likes.
  opens(it, {message: 'z'.repeat(MAX_DIALOG_TEXT + 1), defaultPrompt: 'x'});
  assert.equal(it.port.last('cmd.waits').dialog.message.length, MAX_DIALOG_TEXT);
  // After a fence nobody is told anything of it.
  const count = told().length;
  it.fence(3);
  opens(it);
  assert.equal(told().length, count);
  assert.ok(elsewhere);
});

test('an effect is not put behind a dialog, but for a DevTools client and for what answers it', async () => {
  const it = await (await rig()).granted();
  it.fake.emit('debuggerEvent', 1, '', 'Page.javascriptDialogOpening', {type: 'alert', message: 'Late', url: 'https://shop.test/'});
  it.fake.did.length = 0;
  const key = {method: 'Input.dispatchKeyEvent', params: {type: 'keyDown', key: 'x'}, effect: true};
  const n = it.cmd({action: 'A2', ...key});
  await settle();
  assert.deepEqual([it.result(n).dispatched, it.result(n).error.code, it.result(n).dialog], [false, 'conflict', {kind: 'alert', message: 'Late', default: ''}]);
  assert.deepEqual([it.fake.did, it.report('A2'), it.port.of('cmd.waits')], [[], undefined, []]);
  // What the gate refuses is not told of it.
  const others = [it.cmd({action: 'A3', ...key, epoch: 9}), it.cmd({action: 'A4', ...key, expect: {tab: 1, document: 'D9'}})];
  it.cmd({action: 'A5', kind: 'document', method: '', epoch: 9});
  await settle();
  assert.deepEqual(others.map((one) => [it.result(one).error.code, it.result(one).dialog]), [['fenced', undefined], ['document_changed', undefined]]);
  assert.deepEqual(it.port.of('cmd.waits'), []);
  it.cmd({action: 'A6', ...key, raw: true});
  it.cmd({action: 'A7', method: 'Page.handleJavaScriptDialog', params: {accept: true}, effect: true});
  await settle();
  assert.deepEqual(it.fake.did.map((did) => did[2]), ['Input.dispatchKeyEvent', 'Page.handleJavaScriptDialog']);
  assert.deepEqual(it.port.of('cmd.waits'), [], 'a client hears of it by itself');
});

test('of a dialog beyond the origins it is told that it is there', async () => {
  const it = await rig();
  it.up();
  it.grant(2, {origins: ['https://shop.test']});
  it.fake.answers['Runtime.evaluate'] = () => new Promise(() => {});
  it.cmd({});
  await settle();
  for (const [url, message] of [['https://other.test/', ''], ['https://shop.test/', 'Really?']]) {
    it.fake.emit('debuggerEvent', 1, '', 'Page.javascriptDialogOpening', {type: 'prompt', message: 'Really?', defaultPrompt: message, url});
    assert.deepEqual(it.port.last('cmd.waits').dialog, {kind: 'prompt', message, default: message});
  }
});

test('a dialog ends with its page’s renderer, and with the debugging of its tab', async () => {
  for (const end of ['crash', 'detach']) {
    const it = await (await rig()).granted();
    it.fake.emit('debuggerEvent', 1, '', 'Page.javascriptDialogOpening', {type: 'alert', message: 'a', url: 'https://shop.test/'});
    if (end === 'crash') it.fake.emit('debuggerEvent', 1, '', 'Inspector.targetCrashed', {});
    if (end === 'detach') it.fake.emit('debuggerDetach', 1, 'target_closed');
    it.cmd({action: 'A9', kind: 'document', method: '', expect: {tab: 1}});
    assert.deepEqual(it.port.of('cmd.waits'), [], end);
  }
});

test('a tab whose page shows a dialog is let go when that is closed, or when the next agent comes', async () => {
  for (const again of [false, true]) {
    const it = await (await rig({tabs: [[1, 'D1'], [2, 'D2']]})).granted();
    it.cmd({expect: {tab: 2, document: 'D2'}});
    await settle();
    it.fake.emit('debuggerEvent', 1, '', 'Page.javascriptDialogOpening', {type: 'alert', message: 'a', url: 'https://shop.test/'});
    it.fake.did.length = 0;
    it.fence(3);
    await until('the drain’s end', () => it.port.last('drained')?.epoch === 3);
    await settle();
    const left = () => it.fake.did.filter(([what]) => what === 'detach').map(([, tab]) => tab);
    assert.deepEqual(left(), [2]);
    if (again) {
      it.grant(3);
      it.cmd({epoch: 3, action: 'A9', expect: {tab: 1}});
      await settle();
      const order = it.fake.did.filter(([what, tab]) => tab === 1 && /^(de|at)tach$/.test(what)).map(([what]) => what);
      assert.deepEqual(order, ['detach', 'attach'], 'by a session without what the former agent has set');
      assert.deepEqual(it.fake.sent('Runtime.evaluate').length, 1);
    }
    it.fake.emit('debuggerEvent', 1, '', 'Page.javascriptDialogClosed', {result: true});
    await settle();
    assert.deepEqual(left(), [2, 1]);
    assert.equal(it.dock.sessions.attached(1), again);
  }
});

test('a renderer that crashed unseen is told at the attachment, and not taken for the end of what follows', async () => {
  const it = await rig();
  it.up();
  it.grant(2);
  let ping;
  it.fake.ping = () => new Promise((resolve) => (ping = resolve));
  const evaluates = it.cmd({});
  const goes = it.cmd({action: 'A2', method: 'Page.navigate', params: {url: 'https://shop.test/'}, effect: true, expect: {tab: 1}});
  await settle();
  assert.deepEqual(it.port.of('cmd.result'), []);
  it.fake.emit('debuggerEvent', 1, '', 'Inspector.targetCrashed', {});
  ping({});
  await settle();
  assert.deepEqual([it.result(evaluates).dispatched, it.result(evaluates).error.code], [false, 'unavailable']);
  assert.match(it.result(evaluates).error.message, /crashed/);
  assert.equal(it.result(goes).ok, true);
  assert.notEqual(it.report('A2').how, 'ended');
});
