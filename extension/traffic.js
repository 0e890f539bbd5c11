// @ts-check

/**
 * What the pages of a lease's tabs ask the network for, in short, for an agent that asks.
 * It is observation: kept for the epoch in which it was seen, in memory only. A request of
 * a frame beyond the lease's origins is not among it.
 */

import {UNHEARD} from './ledger.js';
import {MAX_ERROR, MAX_REQUESTS, MAX_TRAFFIC, MAX_URL, MAX_WORD} from './limits.js';

/**
 * @typedef {object} Seen
 * @property {string} method
 * @property {string} url
 * @property {string} type as webRequest calls it
 * @property {'in_flight' | 'answered' | 'failed'} state
 * @property {number} status
 * @property {string} error
 * @property {number} at wall clock
 * @property {number} ms until its answer began, or it failed
 */

export class Traffic {
  /** @type {Map<number, {seen: Seen[], more: number}>} */ #tabs = new Map();
  /** Requests under way. @type {Map<string, Seen>} */ #open = new Map();
  #epoch = 0;
  #gate;
  #mine;

  /**
   * @param {import('./gate.js').Gate} gate
   * @param {import('./tabs.js').Tabs} tabs
   */
  constructor(gate, tabs) {
    this.#gate = gate;
    this.#mine = tabs;
  }

  /** @param {any} details of webRequest.onBeforeRequest */
  began({requestId, tabId, type, method, url, initiator, timeStamp}) {
    const epoch = this.#gate.grant?.epoch ?? 0;
    if (epoch !== this.#epoch) this.clear(epoch);
    if (epoch === 0 || !this.#mine.visible(tabId)) return;
    if (type === 'main_frame') this.#tabs.set(tabId, {seen: [], more: 0}); // another page
    if (!this.#mine.allowed(type === 'main_frame' ? url : initiator ?? url)) return;
    const list = this.#tabs.get(tabId) ?? {seen: [], more: 0};
    this.#tabs.set(tabId, list);
    if (list.seen.length >= MAX_TRAFFIC) {
      list.seen.shift();
      list.more++;
    }
    /** @type {Seen} */
    const seen = {
      method: String(method).slice(0, MAX_WORD), url: String(url).split('#')[0].slice(0, MAX_URL), type: String(type).slice(0, MAX_WORD),
      state: 'in_flight', status: 0, error: '', at: Math.round(timeStamp), ms: 0,
    };
    list.seen.push(seen);
    if (this.#open.size < MAX_REQUESTS) this.#open.set(requestId, seen);
    else Object.assign(seen, {state: 'failed', error: UNHEARD});
  }

  /** @param {any} details of webRequest.onResponseStarted or onBeforeRedirect */
  answered({requestId, statusCode, timeStamp}) {
    this.#ended(requestId, timeStamp, {state: 'answered', status: statusCode});
  }

  /** @param {any} details of webRequest.onErrorOccurred */
  failed({requestId, error, timeStamp}) {
    this.#ended(requestId, timeStamp, {state: 'failed', error: String(error).slice(0, MAX_ERROR)});
  }

  /** @param {string} requestId @param {number} at @param {Partial<Seen>} end */
  #ended(requestId, at, end) {
    const seen = this.#open.get(requestId);
    if (!seen) return;
    this.#open.delete(requestId);
    Object.assign(seen, end, {ms: Math.max(0, Math.round(at - seen.at))});
  }

  /** What was seen of a tab's page under the grant in force. @param {number} tab */
  of(tab) {
    const {seen, more} = (this.#gate.grant?.epoch === this.#epoch && this.#tabs.get(tab)) || {seen: [], more: 0};
    return {requests: seen, more};
  }

  /** @param {number} [epoch] the one that is kept from here on */
  clear(epoch = 0) {
    this.#epoch = epoch;
    this.#tabs.clear();
    this.#open.clear();
  }
}
