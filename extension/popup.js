// @ts-check

/**
 * The popup: it shows what the worker says, whole, at each change, and passes on what
 * a person presses. If the worker goes away it says so, and asks for it again.
 */

import {browser} from './browser.js';
import {authorityNow, left, span, view} from './words.js';

/** @typedef {import('./people.js').Snapshot} Snapshot */
/** @typedef {import('./words.js').Row} Row */

const RECONNECT_MS = 300;

/** @type {chrome.runtime.Port | null} */
let port = null;
/** @type {Snapshot | null} */
let last = null;
let lastMs = 0;
/** @type {any[]} */
let stopTabs = [];
let spoken = '';

/** @template {HTMLElement} T @param {string} id @returns {T} */
const el = (id) => /** @type {T} */ (document.getElementById(id));
const takeover = /** @type {HTMLButtonElement} */ (el('takeover'));
const handbackTo = /** @type {HTMLSelectElement} */ (el('handback-to'));

/** When a button's event happened, on the wall clock. @param {Event} event */
const pressedMs = (event) => performance.timeOrigin + event.timeStamp;

/** How old the daemon's status is. */
const ageMs = () => (last ? last.age_ms + performance.now() - lastMs : 0);

const epoch = () => Number(last?.status?.authority?.epoch) || 0;

/** @param {string} id @param {string} text */
function put(id, text) {
  const node = el(id);
  if (node.textContent !== text) node.textContent = text;
}

/** @param {string} id @param {Row[]} rows */
function list(id, rows) {
  const node = el(id);
  const items = rows.map(({text, small}) => {
    const item = document.createElement('li');
    item.textContent = text;
    if (small) {
      const note = document.createElement('small');
      note.textContent = small;
      item.append(note);
    }
    return item;
  });
  node.replaceChildren(...items);
}

function show() {
  const now = view(last, ageMs());
  document.body.dataset.state = now.state;
  put('link-state', now.pill);
  put('slot', now.slot);
  put('binding', now.binding);
  el('notice').hidden = !now.notice;
  put('notice-text', now.notice);
  put('notice-hint', now.hint);
  el('ask').hidden = !now.ask;
  put('ask-text', now.ask);
  put('sentence-authority', now.authority);
  put('sentence-local', now.local);
  put('sentence-remote', now.remote);
  put('holder', now.holder);
  put('epoch', now.epoch);
  list('commands', now.commands);
  list('documents', now.documents);
  list('requests', now.requests);
  list('warnings', now.warnings.map((text) => ({text, small: ''})));
  el('warnings').hidden = now.warnings.length === 0;
  el('offer').hidden = !now.offer;
  put('sentence-offer', now.offer);
  list('reasons', now.reasons);

  takeover.hidden = now.takeover === null;
  takeover.disabled = !now.takeover?.enabled;
  takeover.dataset.from = String(now.takeover?.from ?? false);
  put('takeover', now.takeover?.label ?? 'Take over');
  choices(now.handback);
  el('stop-page').hidden = !now.stop;
  if (!now.stop) closeStop();
  if (now.handback === null) el('handback-confirm').hidden = true;
  // Only what a person must hear: not the clock, and nothing twice.
  const said = [now.notice, now.ask, (last?.status?.sentences?.authority ?? now.authority), now.local, ...now.warnings].filter(Boolean).join(' ');
  if (said !== spoken) put('announce', (spoken = said));
  tick();
}

/** @param {{value: string, label: string}[] | null} options */
function choices(options) {
  el('handback-form').hidden = options === null;
  if (!options) return;
  const one = options.length < 2;
  el('handback-form').classList.toggle('plain', one);
  el('handback-label').hidden = one;
  handbackTo.hidden = one;
  const same = options.length === handbackTo.options.length && options.every((o, i) => handbackTo.options[i].value === o.value);
  if (!same) handbackTo.replaceChildren(...options.map((o) => new Option(o.label, o.value)));
  // Otherwise the list stays, with the person's choice in it; who is next may change.
  options.forEach(({label}, i) => {
    if (handbackTo.options[i].text !== label) handbackTo.options[i].text = label;
  });
}

/** The clock: a figure counts down between two words of the daemon. */
function tick() {
  const status = last?.link === 'up' ? last.status : null;
  const ms = left(status, ageMs());
  put('time-left', ms === null ? '—' : ms > 0 ? span(ms) : 'over');
  if (status && !last?.hold) put('sentence-authority', authorityNow(status, ageMs()));
}

/** @param {string} text @param {Row[]} [rows] @param {boolean} [confirm] */
function reply(text, rows = [], confirm = false) {
  el('reply').hidden = !text;
  put('reply-text', text);
  list('reply-list', rows);
  el('handback-confirm').hidden = !confirm;
  if (confirm) el('handback-confirm').focus();
}

function closeStop() {
  el('stop-panel').hidden = true;
  stopTabs = [];
}

/** @param {any[]} tabs */
function askStop(tabs) {
  stopTabs = tabs;
  el('stop-panel').hidden = false;
  const sharing = tabs.some((tab) => tab.shares) ? ', also those that share a process with them' : '';
  const mine = last?.status?.authority?.holder?.kind === 'human';
  const title = `${mine ? 'These' : 'You take over, and these'} tabs’ pages end${sharing}:`;
  put('stop-title', tabs.length ? title : 'No tab holds an agent’s work, so there is no page to end.');
  list('stop-list', tabs.map((tab) => ({text: tab.title || tab.url || `Tab ${tab.tab}`, small: tab.shares ? `${tab.url} (shares the process)` : tab.url})));
  const confirm = /** @type {HTMLButtonElement} */ (el('stop-page-confirm'));
  confirm.disabled = tabs.length === 0;
  (tabs.length ? confirm : el('stop-page-cancel')).focus();
}

/** @param {any} message of the worker */
function hear(message) {
  switch (message.t) {
    case 'state':
      last = message;
      lastMs = performance.now();
      show();
      return;
    case 'stop_list':
      askStop(message.tabs);
      return;
    case 'reply': {
      const {error, verb} = message;
      if (!error) {
        reply('');
        if (verb === 'stop_page') closeStop();
        return;
      }
      const open = Array.isArray(error.detail?.open) ? error.detail.open : null;
      const rows = (open ?? []).map((/** @type {unknown} */ text) => ({text: String(text), small: ''}));
      const text = open && verb === 'handback' ? 'Not everything is settled yet:' : `${error.message}${error.hint ? ` (${error.hint})` : ''}`;
      reply(text, rows, verb === 'handback' && open !== null);
    }
  }
}

/** @param {Record<string, unknown>} message */
function say(message) {
  if (!port) {
    reply('This browser’s worker cannot be reached. Press again in a moment.');
    return;
  }
  port.postMessage(message);
}

function connect() {
  port = browser.connectWorker();
  port.onMessage.addListener(hear);
  port.onDisconnect.addListener(() => {
    browser.lastError();
    port = null;
    last = null;
    show();
    setTimeout(connect, RECONNECT_MS);
  });
}

takeover.addEventListener('click', (event) => {
  say({t: 'takeover', pressed_ms: pressedMs(event), from: takeover.dataset.from === 'true', if_epoch: epoch()});
});
el('handback-form').addEventListener('submit', (event) => {
  event.preventDefault();
  say({t: 'handback', to: handbackTo.value, confirm: false, if_epoch: epoch()});
});
el('handback-confirm').addEventListener('click', () => {
  say({t: 'handback', to: handbackTo.value, confirm: true, if_epoch: epoch()});
});
el('stop-page').addEventListener('click', () => say({t: 'stop_list'}));
el('stop-page-cancel').addEventListener('click', () => {
  closeStop();
  el('stop-page').focus();
});
el('stop-page-confirm').addEventListener('click', (event) => {
  const tabs = stopTabs.map(({tab, title, url}) => ({tab, title, url}));
  reply('Waiting until the pages have ended…');
  say({t: 'stop_page', tabs, pressed_ms: pressedMs(event), if_epoch: epoch()});
});

connect();
show();
setInterval(tick, 1000);
