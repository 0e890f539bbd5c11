// @ts-check

/**
 * A probe: the system's look at one page that the daemon names, in a background tab of
 * its own. Every step is an order through the gate, which lets it make that tab, go to
 * that page and read there, and nothing else. The tab is made empty, set apart from what
 * a lease sees and stored before it is given its page: a worker that dies meanwhile
 * leaves a tab that the next one knows, and closes.
 *
 * What is read is sent once and kept nowhere. A fence, another probe and a lost link end
 * a look, unanswered: nobody waits for it any more.
 */

import {ranIn} from './drain.js';
import {withoutQuery} from './evidence.js';
import {MAX_PROBE_TEXT, PROBE_LOOK_MS} from './limits.js';
import {fromDebugger, note} from './refusal.js';
import {isWeb, originOf} from './tabs.js';

/** @typedef {import('./gate.js').Order} Order */
/** @typedef {import('./gen/wire.js').ProbeResult} ProbeResult */
/** @typedef {{state: ProbeResult['state'], text?: string, cut?: boolean}} Seen */

/**
 * @typedef {object} Look one probe
 * @property {string} id
 * @property {number} epoch
 * @property {string} url
 * @property {string} selector
 * @property {string} expression
 * @property {number} monoMs when it ends
 * @property {number} wallMs
 * @property {number} tab
 * @property {Seen} last what was last seen
 */

/**
 * Whether longer time makes no other answer of it: all else may only not be there yet.
 * @param {Seen} seen
 */
const isAnswer = ({state, text = ''}) =>
  state === 'seen' || state === 'several' || (state === 'refused' && /^EvalError: Possible side-effect/.test(text));
/** Read only is not short: an expression that goes on for ever is ended. */
const EVALUATE_MS = 1_000;
const encoder = new TextEncoder();

export class Probe {
  /** @type {Look | null} */ #look = null;
  /** Tabs that were made for probes, and those opened from them. @type {Set<number>} */ #tabs = new Set();
  /** A tab is being made. */
  #making = false;
  #browser;
  #gate;
  #documents;
  #sessions;
  #lease;
  #memory;
  #send;

  /**
   * @param {object} parts
   * @param {import('./browser.js').Browser} parts.browser
   * @param {import('./gate.js').Gate} parts.gate
   * @param {import('./documents.js').Documents} parts.documents
   * @param {import('./sessions.js').Sessions} parts.sessions
   * @param {import('./tabs.js').Tabs} parts.tabs
   * @param {import('./state.js').Memory} parts.memory
   * @param {(result: any) => void} parts.send
   */
  constructor({browser, gate, documents, sessions, tabs, memory, send}) {
    this.#browser = browser;
    this.#gate = gate;
    this.#documents = documents;
    this.#sessions = sessions;
    this.#lease = tabs;
    this.#memory = memory;
    this.#send = send;
  }

  /** @param {any} probe the daemon's message */
  take({probe: id, epoch, url, selector = '', expression = '', wait_ms: waitMs}) {
    this.cut();
    const look = {
      id, epoch, url, selector, expression, tab: 0, last: /** @type {Seen} */ ({state: 'silent'}),
      monoMs: this.#browser.monoMs() + waitMs, wallMs: this.#browser.wallMs() + waitMs,
    };
    this.#look = look;
    this.#gate.probe = {epoch, url, selector, expression, tab: 0};
    void this.#answer(look, waitMs);
  }

  /** Ends what is under way: its epoch or its link has ended, or another takes its place. */
  cut() {
    this.#look = null;
    this.#gate.probe = null;
    for (const tab of this.#tabs) this.#close(tab);
  }

  /** Whether a tab was made for a probe, or opened from such a one. @param {number} tab */
  mine(tab) {
    return this.#tabs.has(tab);
  }

  tabs() {
    return [...this.#tabs];
  }

  /**
   * Whether a tab that has just come to be is, or may be, a probe's: it is nobody else's
   * to see before that is known.
   * @param {any} tab chrome.tabs.Tab
   */
  made(tab) {
    if (typeof tab.openerTabId === 'number' && this.mine(tab.openerTabId)) {
      this.#tabs.add(tab.id);
      return true;
    }
    const {active, openerTabId, pendingUrl, url} = tab;
    return this.#making && !active && openerTabId === undefined && (pendingUrl || url || 'about:blank') === 'about:blank';
  }

  /** @param {number} tab */
  removed(tab) {
    this.#tabs.delete(tab);
  }

  /** The browser has given a tab another number. @param {number} added @param {number} removed */
  replaced(added, removed) {
    if (this.mine(removed)) this.#tabs.add(added);
  }

  /** @param {unknown} stored tabs that a former worker left open */
  restore(stored) {
    if (!Array.isArray(stored)) return;
    for (const tab of stored) {
      if (!this.#lease.get(tab)) continue;
      this.#tabs.add(tab);
      this.#lease.setApart(tab);
      this.#close(tab);
    }
  }

  /** @param {Look} look @param {number} waitMs */
  async #answer(look, waitMs) {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, waitMs);
    });
    const refused = (/** @type {any} */ error) => {
      look.last = failed(error);
    };
    await Promise.race([late, this.#read(look).catch(refused)]);
    clearTimeout(timer);
    if (this.#look !== look) return;
    const where = this.#documents.url(look.tab);
    const seen = look.last.text === undefined ? look.last : {...look.last, ...clipped(look.last)};
    this.cut();
    this.#send({
      t: 'probe.result', probe: look.id, epoch: look.epoch, cut: false, ...seen, ...(isWeb(where) && {url: withoutQuery(where)}),
    });
  }

  /** Looks until there is an answer, or the look has ended. @param {Look} look */
  async #read(look) {
    this.#making = true;
    try {
      const tab = await this.#order(look, 'tab_create', {params: {url: 'about:blank', active: false}});
      this.#tabs.add(tab.id);
      this.#lease.put(tab);
      this.#lease.setApart(tab.id);
      look.tab = tab.id;
    } finally {
      this.#making = false;
    }
    await this.#memory.flush();
    if (this.#look !== look || !this.#gate.probe) {
      this.#close(look.tab);
      return;
    }
    this.#gate.probe.tab = look.tab;
    await this.#order(look, 'tab_goto', {params: {url: look.url}});
    let before = '';
    while (this.#look === look) {
      await new Promise((resolve) => setTimeout(resolve, PROBE_LOOK_MS));
      if (this.#look !== look) return;
      const seen = await this.#see(look).catch((error) => {
        if (error.code === 'fenced') throw error;
        return failed(error); // the document may have gone in that very moment
      });
      if (!seen) continue;
      look.last = seen;
      const now = JSON.stringify(seen);
      if (isAnswer(seen) && now === before && this.#lease.get(look.tab)?.loaded) return;
      before = now;
    }
  }

  /**
   * What the page says now.
   * @param {Look} look
   * @returns {Promise<Seen | null>} null if another document came meanwhile
   */
  async #see(look) {
    const document = this.#documents.current(look.tab);
    const url = this.#documents.url(look.tab);
    if (!document || !isWeb(url)) return {state: 'silent'};
    if (originOf(url) !== originOf(look.url)) return {state: 'elsewhere'};
    return look.selector ? this.#text(look, document) : this.#value(look, document);
  }

  /** @param {Look} look @param {string} document @returns {Promise<Seen | null>} */
  async #text(look, document) {
    const result = await this.#order(look, 'text', {document, params: {selector: look.selector}});
    if (!ranIn(result, document)) return null;
    const {found, text, cut} = result[0].result ?? {found: -1};
    if (found < 0) return {state: 'refused', text: 'that is no selector'};
    if (found > 1) return {state: 'several'};
    return found === 1 && text ? {state: 'seen', text, cut} : {state: 'absent'};
  }

  /** @param {Look} look @param {string} document @returns {Promise<Seen | null>} */
  async #value(look, document) {
    await this.#sessions.attach(look.tab);
    const {result, exceptionDetails} = await this.#order(look, 'cdp', {
      document, method: 'Runtime.evaluate',
      params: {expression: look.expression, throwOnSideEffect: true, returnByValue: true, silent: true, timeout: EVALUATE_MS},
    });
    // It names no document: what was there before must be there still.
    await this.#documents.refresh(look.tab);
    if (this.#documents.current(look.tab) !== document) return null;
    if (exceptionDetails) {
      const text = exceptionDetails.exception?.description ?? exceptionDetails.text;
      return {state: 'refused', text: String(text)};
    }
    const {value} = result;
    if (value === undefined || value === null || value === '') return {state: 'absent'};
    return {state: 'seen', text: typeof value === 'string' ? value : JSON.stringify(value)};
  }

  /**
   * @param {Look} look @param {string} kind @param {Partial<Order>} part
   * @returns {Promise<any>} rejected if it was refused or failed
   */
  async #order(look, kind, part) {
    const {refused, sent} = this.#gate.dispatch({
      ...this.#system(kind, look.epoch), tab: look.tab, monoMs: look.monoMs, wallMs: look.wallMs, ...part,
    });
    if (refused) throw refused;
    try {
      return await sent;
    } catch (error) {
      throw fromDebugger(error);
    }
  }

  /** Closes a probe's tab, whatever epoch is in force by now. @param {number} tab */
  #close(tab) {
    const {refused, sent} = this.#gate.dispatch({...this.#system('tab_close', this.#gate.epoch), tab});
    if (refused) note('could not close a probe’s tab', refused.message);
    sent?.catch((error) => {
      this.#tabs.delete(tab);
      note('a probe’s tab is gone already', error);
    });
  }

  /** @param {string} kind @param {number} epoch @returns {Order} */
  #system(kind, epoch) {
    return {
      by: 'system', kind, epoch, port: null, tab: 0, frame: 0, document: '', method: '', params: {},
      monoMs: Infinity, wallMs: Infinity, action: '', seq: 0, effect: false, script: false,
    };
  }
}

/** @param {any} error @returns {Seen} */
const failed = (error) => ({state: 'refused', text: String(error?.message ?? error)});

/**
 * As much of a text as the daemon compares.
 * @param {Seen} seen
 */
function clipped({text = '', cut = false}) {
  const bytes = encoder.encode(text);
  if (bytes.length <= MAX_PROBE_TEXT) return {text, cut};
  return {text: new TextDecoder().decode(bytes.subarray(0, MAX_PROBE_TEXT)).replace(/\uFFFD$/, ''), cut: true};
}
