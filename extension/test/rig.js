// A whole worker on the fake seam, and the daemon's and the host's lines to it.

import {Dock} from '../dock.js';
import {makeBrowser, makePort, POPUP, settle} from './fake.js';

// A worker renews its grant for ever; its timers must not keep a test process alive.
const keepAlive = globalThis.setTimeout;
globalThis.setTimeout = (...args) => keepAlive(...args).unref();

export async function rig({tabs = [[1, 'D1']], before = () => {}} = {}) {
  const fake = makeBrowser();
  for (const tab of tabs) fake.addTab(...tab);
  before(fake);
  const dock = new Dock(fake.browser);
  await dock.start();
  let seq = 0;
  const it = {
    fake,
    dock,
    nonce: '',
    get port() {
      return fake.ports.at(-1);
    },
    /** The host is attested, and the daemon takes the hello. */
    up(nonce = 'n1', epoch = 1) {
      it.nonce = nonce;
      it.port.say({t: 'link', up: true, nonce});
      if (epoch) it.daemon('welcome', {epoch, seq: 10});
    },
    daemon: (t, fields = {}) => it.port.say({t, nonce: it.nonce, ...fields}),
    fence: (epoch, fields = {}) =>
      it.daemon('fence', {epoch, seq: 11, person: true, from_person: false, deadline_ms: 400, watch_ms: 5000, ...fields}),
    grant(epoch, fields = {}) {
      it.daemon('poke');
      const {ask} = it.port.last('pull');
      it.daemon('grant', {ask, epoch, lease: `L${epoch}`, ttl_ms: 15_000, origins: [], watch_ms: 5000, ...fields});
    },
    cmd(fields) {
      it.port.say({
        t: 'cmd', seq: ++seq, action: 'A1', epoch: 2, kind: 'cdp', expect: {tab: 1, document: 'D1'}, method: 'Runtime.evaluate',
        params: {}, effect: false, script: false, class: 'write', left_ms: 5000, ...fields,
      });
      return seq;
    },
    result: (n) => it.port.of('cmd.result').find((m) => m.seq === n),
    /** A click's press and release, as the host sends them. */
    async click(fields = {}) {
      for (const type of ['mousePressed', 'mouseReleased']) {
        it.cmd({method: 'Input.dispatchMouseEvent', params: {type, x: 5, y: 5, button: 'left'}, effect: true, ...fields});
      }
      await settle();
    },
    /** The page asks for something, and the browser holds it back. */
    pauses(requestId, {url = 'https://shop.test/a', auth = false, child = '', ...fields} = {}) {
      fake.emit('debuggerEvent', 1, child, auth ? 'Fetch.authRequired' : 'Fetch.requestPaused', {requestId, request: {url, headers: {}}, ...fields});
    },
    popup() {
      const popup = makePort('popup', {id: 'self', url: POPUP});
      fake.emit('connect', popup);
      return popup;
    },
    report: (action) => dock.ledger.reports().find((r) => r.action === action),
    /** Up, fenced once, granted epoch 2, tab 1 attached. */
    async granted() {
      it.up();
      it.fence(2, {person: false});
      await settle();
      it.grant(2);
      it.cmd({});
      await settle();
      return it;
    },
  };
  return it;
}

export {settle, makePort};

/** Waits in real time until something holds, as long as a busy machine may need. */
export async function until(what, check) {
  const end = Date.now() + 20_000;
  while (!check()) {
    if (Date.now() > end) throw new Error(`not within 20 s: ${what}`);
    await new Promise((resolve) => keepAlive(resolve, 5));
  }
}
