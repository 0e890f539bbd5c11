// A stand-in for browser.js, and only for that: everything above the seam is real.

/** One end of a runtime port; `heard` is what the worker posted. */
export function makePort(name = '', sender = undefined) {
  const message = [];
  const gone = [];
  return {
    name,
    sender,
    heard: [],
    closed: false,
    onMessage: {addListener: (f) => message.push(f)},
    onDisconnect: {addListener: (f) => gone.push(f)},
    postMessage(m) {
      if (this.closed) throw new Error('Attempting to use a disconnected port object');
      this.heard.push(structuredClone(m));
    },
    disconnect() {
      this.closed = true;
    },
    /** The other end says something. */
    say: (m) => message.forEach((f) => f(structuredClone(m))),
    /** The other end goes away. */
    drop() {
      this.closed = true;
      gone.forEach((f) => f());
    },
    of(t) {
      return this.heard.filter((m) => m.t === t);
    },
    last(t) {
      return this.of(t).at(-1);
    },
  };
}

export const POPUP = 'chrome-extension://self/popup.html';

let ids = 0;

export function makeBrowser() {
  const listeners = {};

  const fake = {
    mono: 1_000,
    wall: 1_700_000_000_000,
    ports: [],
    local: {},
    session: {},
    /** tab to frames: [{frameId, documentId, url, processId}] */
    framesOf: new Map(),
    tabList: [],
    alive: new Set(),
    /** What was done to pages and tabs, in order. */
    did: [],
    /** Answers of sendCommand by method; a function of (tab, params). Default {}. */
    answers: {},
    attachErrors: [],
    /** What becomes of a tab that is sent to a page, and what is read there. */
    went: () => {},
    left: () => Promise.resolve({frameId: 'F', loaderId: 'L'}),
    ping: async () => ({}),
    console: [],
    text: () => ({found: 0, text: '', cut: false}),
    barrier: (tab, document) => Promise.resolve([{frameId: 0, documentId: document}]),
    /** @param {string} name */
    emit: (name, ...args) => (listeners[name] ?? []).forEach((f) => f(...args)),
    pass(ms) {
      fake.mono += ms;
      fake.wall += ms;
    },
    sent: (method) => fake.did.filter((d) => d[0] === 'send' && d[2] === method),
    /** Puts a document into a tab, as Chromium tells it. */
    commit(tab, documentId, url = 'https://shop.test/') {
      fake.framesOf.set(tab, [{frameId: 0, documentId, url, processId: 7}]);
      fake.alive.add(documentId);
      fake.emit('committed', {tabId: tab, frameId: 0, documentId, url, documentLifecycle: 'active'});
    },
    addTab(id, documentId, url = 'https://shop.test/') {
      fake.tabList.push({id, url, title: `Tab ${id}`, active: fake.tabList.length === 0, windowId: 1});
      fake.framesOf.set(id, [{frameId: 0, documentId, url, processId: 7}]);
      fake.alive.add(documentId);
    },
  };
  fake.browser = {
    id: () => 'self',
    popupURL: () => POPUP,
    monoMs: () => fake.mono,
    wallMs: () => fake.wall,
    uuid: () => `uuid-${++ids}`,
    userAgent: () => 'Mozilla/5.0 Chrome/150.0.0.0',
    connectHost: () => {
      const port = makePort('host');
      fake.ports.push(port);
      return port;
    },
    lastError: () => '',
    badge: async (text) => void (fake.badge = text),
    attach: (tab) => {
      fake.did.push(['attach', tab]);
      const error = fake.attachErrors.shift();
      return error ? Promise.reject(new Error(error)) : Promise.resolve();
    },
    detach: async (tab) => void fake.did.push(['detach', tab]),
    ping: () => fake.ping(),
    debugTargets: async () => [],
    sendCommand: (tab, method, params, session) => {
      fake.did.push(session ? ['send', tab, method, params, session] : ['send', tab, method, params]);
      const answer = fake.answers[method];
      return answer ? answer(tab, params) : Promise.resolve({});
    },
    runNothing: (tab, document) => {
      fake.did.push(['barrier', tab, document]);
      return fake.barrier(tab, document);
    },
    tabs: async () => fake.tabList,
    tab: async (tab) => {
      const found = fake.tabList.find(({id}) => id === tab);
      if (!found) throw new Error(`No tab with id: ${tab}.`);
      return found;
    },
    createTab: async (url, active) => {
      const tab = {id: 90 + ++ids, url, title: '', active, windowId: 1};
      fake.did.push(['create', url, active]);
      fake.framesOf.set(tab.id, [{frameId: 0, documentId: `D${tab.id}`, url, processId: 9}]);
      return tab;
    },
    closeTab: async (tab) => void fake.did.push(['close', tab]),
    activateTab: async (tab) => void fake.did.push(['activate', tab]),
    loadTab: async (tab) => void fake.did.push(['load', tab]),
    gotoTab: async (tab, url) => {
      fake.did.push(['goto', tab, url]);
      fake.went(tab, url);
    },
    readText: async (tab, document, selector) => {
      fake.did.push(['text', tab, document, selector]);
      return [{frameId: 0, documentId: document, result: fake.text(tab, document, selector)}];
    },
    readConsole: async (tab) => {
      fake.did.push(['console', tab]);
      return fake.console;
    },
    leaveForBlank: (tab, mainFrame) => {
      fake.did.push(['leave', tab, mainFrame]);
      return fake.left();
    },
    blankTab: async (tab) => void fake.did.push(['blank', tab]),
    frames: async (tab) => fake.framesOf.get(tab) ?? null,
    mainFrame: async (tab) => fake.framesOf.get(tab)?.[0] ?? null,
    frameOf: async (document) => (fake.alive.has(document) ? {documentId: document} : null),
    loadLocal: async () => structuredClone(fake.local),
    saveLocal: async (items) => void Object.assign(fake.local, structuredClone(items)),
    loadSession: async () => structuredClone(fake.session),
    saveSession: async (items) => void Object.assign(fake.session, structuredClone(items)),
    wakeEveryHalfMinute: async () => {},
    on: new Proxy({}, {get: (_, name) => (f) => (listeners[name] ??= []).push(f)}),
  };
  return fake;
}

/** Lets every settled promise run what hangs on it. */
export const settle = () => new Promise((resolve) => setImmediate(resolve));
