// The seam under the extension's own modules: what browser.js is to Chromium, this is
// to the simulated browser. It decides nothing. `native` is a table of Go functions.

import './globals.js';
import {Dock} from './dock.js';

function makePort(name, sender, post, close) {
  const said = [];
  const gone = [];
  return {
    name, sender, said, gone, closed: false,
    onMessage: {addListener: (f) => said.push(f)},
    onDisconnect: {addListener: (f) => gone.push(f)},
    postMessage(message) {
      if (this.closed) throw new Error('Attempting to use a disconnected port object');
      post(JSON.stringify(message), message);
    },
    disconnect() {
      this.closed = true;
      close();
    },
  };
}

/** Starts a worker on a simulated browser, and returns what the browser does to it. */
globalThis.startWorker = (native) => {
  const listeners = {};
  const calls = new Map();
  const ports = new Map();
  let call = 0;
  const later = (ask) =>
    new Promise((resolve, reject) => {
      calls.set(++call, {resolve, reject});
      ask(call);
    });
  const now = (text) => Promise.resolve(text === '' ? null : JSON.parse(text));
  let popup = null;

  const browser = {
    id: () => 'self',
    popupURL: () => 'chrome-extension://self/popup.html',
    monoMs: native.mono,
    wallMs: native.wall,
    uuid: native.uuid,
    userAgent: () => 'Mozilla/5.0 Chrome/150.0.0.0',
    connectHost() {
      const id = native.connect();
      const port = makePort('host', undefined, (text, {t, nonce = '', epoch = 0}) => native.post(id, text, t, nonce, epoch), () => native.closed(id));
      ports.set(id, port);
      return port;
    },
    lastError: () => '',
    attach: (tab) => later((id) => native.attach(id, tab)),
    detach: (tab) => later((id) => native.detach(id, tab)),
    ping: () => now('{}'),
    debugTargets: () => now(native.targets()),
    sendCommand: (tab, method, params) => later((id) => native.send(id, tab, method, JSON.stringify(params))),
    runNothing: (tab, document) => later((id) => native.barrier(id, tab, document)),
    tabs: () => now(native.tabs()),
    createTab: (url) => now(native.createTab(url)),
    closeTab: (tab) => now(native.closeTab(tab)),
    activateTab: () => now(''),
    blankTab: () => now(''),
    // In no schedule a tab is restored or discarded.
    tab: () => now('{"status": "complete"}'),
    loadTab: () => now(''),
    frames: (tab) => now(native.frames(tab)),
    mainFrame: (tab) => now(native.mainFrame(tab)),
    frameOf: (document) => now(native.frameOf(document)),
    loadLocal: () => now(native.load('local')),
    saveLocal: (items) => now(native.save('local', JSON.stringify(items))),
    loadSession: () => now(native.load('session')),
    saveSession: (items) => now(native.save('session', JSON.stringify(items))),
    wakeEveryHalfMinute: () => now(''),
    badge: () => now(''),
    leaveForBlank: () => now(''), // no schedule goes to about:blank
    readConsole: () => now('[]'),
    attachWorker: () => now(''),
    detachWorker: () => now(''),
    closeWorker: (id) => now(native.closeWorker(id)),
    // Of probes, which no schedule asks for (rows.go, never).
    gotoTab: () => now(''),
    readText: () => now(''),
    on: new Proxy({}, {get: (_, name) => (f) => (listeners[name] ??= []).push(f)}),
  };

  const dock = new Dock(browser);
  dock.start();

  return {
    /** An event of the browser. */
    emit(name, text) {
      for (const f of listeners[name] ?? []) f(...JSON.parse(text));
    },
    /** A call's answer: its result, or its error. */
    answer(id, text) {
      calls.get(id)?.resolve(JSON.parse(text));
      calls.delete(id);
    },
    fail(id, error) {
      calls.get(id)?.reject(new Error(error));
      calls.delete(id);
    },
    /** The host says something, or has ended. */
    say(id, text) {
      for (const f of ports.get(id).said) f(JSON.parse(text));
    },
    drop(id) {
      ports.get(id).closed = true;
      for (const f of ports.get(id).gone) f();
    },
    /** A person says something in the popup. */
    press(text) {
      if (!popup) {
        popup = makePort('popup', {id: 'self', url: 'chrome-extension://self/popup.html'}, () => {}, () => {});
        for (const f of listeners.connect) f(popup);
      }
      for (const f of popup.said) f(JSON.parse(text));
    },
  };
};
