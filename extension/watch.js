// @ts-check

/**
 * What an agent's DevTools clients are told: the lease's tabs as they come and go, and
 * the events of their debugging sessions. It is all observation: it bears the epoch
 * under which it was seen, and from a fence or a press of "Take over" on nothing of it
 * is sent (I10).
 */

import {isPlace} from './gate.js';
import {MAX_TITLE} from './limits.js';
import {note} from './refusal.js';
import {isNewTab, isWeb} from './tabs.js';

/** What may be told of a page that is not within the lease's origins: that it came and went. */
const ANYWHERE = new Set([
  'Inspector.targetCrashed', 'Page.frameStartedLoading', 'Page.frameStoppedLoading', 'Page.lifecycleEvent',
  'Page.domContentEventFired', 'Page.loadEventFired', 'Page.frameDetached', 'Runtime.executionContextDestroyed',
  'Runtime.executionContextsCleared', 'Target.detachedFromTarget',
]);

/** Headers that carry cookies or a password, also those that no page's script can read. */
const SECRET_HEADER = /^(cookie2?|set-cookie2?|(proxy-)?authorization)$/i;

/** Of these it is told only if the request is the lease's to hold back. */
const HELD = new Set(['Fetch.requestPaused', 'Fetch.authRequired']);

/** How often it is asked for the browser's name of a tab that has only just come. */
const NAME_TURNS = 50;
const NAME_MS = 20;

/** @param {Record<string, string> | undefined} headers */
function withoutSecrets(headers) {
  if (!headers) return headers;
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !SECRET_HEADER.test(name)));
}

/**
 * An event without what the binding does not allow.
 * @param {string} method @param {any} params
 */
function clean(method, params) {
  switch (method) {
    case 'Network.requestWillBeSentExtraInfo':
      return {...params, headers: withoutSecrets(params.headers), associatedCookies: []};
    case 'Network.responseReceivedExtraInfo':
      return {...params, headers: withoutSecrets(params.headers), headersText: undefined, blockedCookies: [], exemptedCookies: []};
    case 'Network.webSocketWillSendHandshakeRequest':
      return {...params, request: {...params.request, headers: withoutSecrets(params.request?.headers)}};
    case 'Network.webSocketHandshakeResponseReceived':
      return {
        ...params,
        response: {
          ...params.response, headers: withoutSecrets(params.response?.headers), headersText: undefined,
          requestHeaders: withoutSecrets(params.response?.requestHeaders), requestHeadersText: undefined,
        },
      };
    case 'Fetch.requestPaused':
    case 'Fetch.authRequired':
      return {
        ...params, request: {...params.request, headers: withoutSecrets(params.request?.headers)},
        ...(params.responseHeaders && {responseHeaders: params.responseHeaders.filter((/** @type {any} */ one) => !SECRET_HEADER.test(one.name))}),
      };
    default:
      return params;
  }
}

export class Watch {
  #epoch = 0;
  /** What was last told of each tab. @type {Map<number, string>} */ #told = new Map();
  /** The browser's names of tabs. @type {Map<number, string>} */ #names = new Map();
  #browser;
  #gate;
  #tabs;
  #documents;
  #sessions;
  #send;

  /**
   * @param {object} parts
   * @param {import('./browser.js').Browser} parts.browser
   * @param {import('./gate.js').Gate} parts.gate
   * @param {import('./tabs.js').Tabs} parts.tabs
   * @param {import('./documents.js').Documents} parts.documents
   * @param {import('./sessions.js').Sessions} parts.sessions
   * @param {(message: any) => void} parts.send
   */
  constructor({browser, gate, tabs, documents, sessions, send}) {
    this.#browser = browser;
    this.#gate = gate;
    this.#tabs = tabs;
    this.#documents = documents;
    this.#sessions = sessions;
    this.#send = send;
  }

  /**
   * A client of this epoch listens. It is told of all tabs, also if one listened before.
   * @param {number} epoch
   */
  async begin(epoch) {
    this.#epoch = epoch;
    this.#told.clear();
    await this.#learn();
    for (const {tab} of this.#tabs.all()) this.#tell(tab);
  }

  /** Whether a client of the epoch in force listens. */
  listens() {
    return this.#open();
  }

  /** Nobody listens any more: a fence, or the end of the link. */
  end() {
    this.#epoch = 0;
    this.#told.clear();
  }

  /** Whether anything may be told in this turn. */
  #open() {
    const {epoch, grant, hold, linked} = this.#gate;
    return this.#epoch !== 0 && linked && !hold && epoch === this.#epoch && grant?.epoch === this.#epoch;
  }

  /**
   * @param {number} tab @param {string} child @param {string} method @param {any} params
   */
  event(tab, child, method, params) {
    if (!this.#open() || !this.#told.has(tab) || !this.#tabs.visible(tab)) return;
    if (!this.#tabs.allowed(this.#url(tab)) && !ANYWHERE.has(method)) {
      if (method !== 'Page.frameNavigated') return;
      params = this.#elsewhere(params);
    }
    const frame = child ? (this.#sessions.child(tab, child) ?? '') : '';
    if (isPlace(frame) && !this.#tabs.allowed(frame) && !ANYWHERE.has(method)) return;
    if (HELD.has(method) && !this.#sessions.paused(tab, child, params.requestId)) return;
    /** @type {any} */
    const message = {
      t: 'cdp.event', epoch: this.#epoch, tab, document: this.#documents.current(tab), method, params: clean(method, params),
    };
    if (child) message.session = child;
    this.#send(message);
  }

  /** What clients had of a tab's debugging has ended. @param {number} tab */
  lost(tab) {
    if (this.#open() && this.#told.has(tab)) this.#send({t: 'cdp.lost', epoch: this.#epoch, tab});
  }

  /**
   * Whether the lease's client may hold back a request: it is told of the page, and the
   * request is for one of the origins.
   * @param {number} tab @param {string} child @param {string} url
   */
  holds(tab, child, url) {
    // Past its time an agent answers nothing any more: the page would hang.
    const {grant} = this.#gate;
    if (!grant || this.#browser.monoMs() >= grant.monoMs || this.#browser.wallMs() >= grant.wallMs) return false;
    if (!this.#open() || !this.#told.has(tab) || !this.#tabs.visible(tab) || !this.#tabs.allowed(this.#url(tab))) return false;
    const frame = child ? (this.#sessions.child(tab, child) ?? '') : '';
    return (!isPlace(frame) || this.#tabs.allowed(frame)) && isWeb(url) && this.#tabs.allowed(url);
  }

  /** That a page beyond the origins has come is told, and of its address the origin alone. @param {any} params */
  #elsewhere(params) {
    let origin = '';
    try {
      ({origin} = new URL(params.frame.url));
    } catch {
      // It has none.
    }
    const {id, parentId, loaderId, mimeType} = params.frame;
    return {
      type: params.type,
      frame: {
        id, parentId, loaderId, url: `${origin}/`, domainAndRegistry: '', securityOrigin: origin, mimeType,
        secureContextType: 'InsecureScheme', crossOriginIsolatedContextType: 'NotIsolated', gatedAPIFeatures: [],
      },
    };
  }

  /**
   * Something of a tab may have changed.
   * @param {number} tab
   */
  async look(tab) {
    if (!this.#open()) return;
    for (let turn = 0; turn < NAME_TURNS && !this.#names.has(tab) && this.#tabs.visible(tab); turn++) {
      if (turn > 0) await new Promise((resolve) => setTimeout(resolve, NAME_MS));
      await this.#learn();
    }
    this.#tell(tab);
  }

  /** @param {number} tab */
  removed(tab) {
    const target = this.#names.get(tab) ?? '';
    this.#names.delete(tab);
    if (!this.#told.delete(tab) || !this.#open()) return;
    this.#send({t: 'cdp.tab', epoch: this.#epoch, tab, target, url: '', title: '', document: '', owned: false, gone: true});
  }

  async #learn() {
    try {
      for (const {id, tabId, type} of await this.#browser.debugTargets()) {
        if (tabId && type === 'page') this.#names.set(tabId, id);
      }
    } catch (error) {
      note('could not list debugger targets', error);
    }
  }

  /** @param {number} tab */
  #url(tab) {
    return this.#documents.url(tab) || this.#tabs.get(tab)?.url || '';
  }

  /** @param {number} tab */
  #tell(tab) {
    const target = this.#names.get(tab);
    if (!target || !this.#open() || !this.#tabs.visible(tab)) return;
    const url = this.#url(tab);
    const allowed = this.#tabs.allowed(url);
    // A tab that is elsewhere already is not shown; one that a client has goes on.
    if (!allowed && !this.#told.has(tab)) return;
    /** @type {any} */
    const message = {
      t: 'cdp.tab', epoch: this.#epoch, tab, target, url: allowed ? (isNewTab(url) || !url ? 'about:blank' : url) : '',
      title: allowed ? (this.#tabs.get(tab)?.title ?? '').slice(0, MAX_TITLE) : '',
      document: this.#documents.current(tab), owned: this.#tabs.owns(tab),
    };
    const opener = this.#names.get(this.#tabs.openerOf(tab));
    if (opener) message.opener = opener;
    const text = JSON.stringify(message);
    if (this.#told.get(tab) === text) return;
    this.#told.set(tab, text);
    this.#send(message);
  }
}
