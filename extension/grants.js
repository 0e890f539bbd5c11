// @ts-check

/**
 * Grants are pulled. A grant's life counts from when it was asked for, so that a
 * frame stuck in a stopped process gains none; and it ends when either clock says
 * so, because a suspended machine stops one of them.
 */

import {MAX_ASKS} from './limits.js';

/** @typedef {{monoMs: number, wallMs: number}} Instant */

/** How often a grant that came too late is asked for again before the daemon must poke. */
const MAX_AGAIN = 3;

export class Grants {
  #ask = 0;
  #again = 0;
  /** @type {Map<number, Instant>} */ #asks = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #renewal;
  #browser;
  #pull;

  /**
   * @param {import('./browser.js').Browser} browser
   * @param {(ask: number) => void} pull sends the question
   */
  constructor(browser, pull) {
    this.#browser = browser;
    this.#pull = pull;
  }

  /** A new link: its asks count from the beginning, and no older one is answered. */
  reset() {
    this.#ask = 0;
    this.#again = 0;
    this.#asks.clear();
    this.stop();
  }

  /** Renews no longer. */
  stop() {
    clearTimeout(this.#renewal);
    this.#renewal = undefined;
  }

  /** The daemon has something to grant. */
  poked() {
    this.#again = 0;
    this.ask();
  }

  ask() {
    const ask = ++this.#ask;
    this.#asks.set(ask, {monoMs: this.#browser.monoMs(), wallMs: this.#browser.wallMs()});
    for (const old of this.#asks.keys()) {
      if (this.#asks.size <= MAX_ASKS) break;
      this.#asks.delete(old);
    }
    this.#pull(ask);
  }

  /**
   * Takes a grant of an epoch: when does it end? One that comes too late, because the
   * daemon was slow or the machine slept, is asked for again, a few times.
   * @param {{ask: number, ttl_ms: number}} grant
   * @returns {Instant | null} null if nobody asked, or its time is over already
   */
  ends(grant) {
    const asked = this.#asks.get(grant.ask);
    this.#asks.delete(grant.ask);
    if (!asked || !(grant.ttl_ms > 0)) return null;
    const end = {monoMs: asked.monoMs + grant.ttl_ms, wallMs: asked.wallMs + grant.ttl_ms};
    if (this.#browser.monoMs() < end.monoMs && this.#browser.wallMs() < end.wallMs) {
      this.#again = 0;
      return end;
    }
    const younger = [...this.#asks.keys()].some((ask) => ask > grant.ask);
    if (this.#again < MAX_AGAIN && !younger) {
      this.#again++;
      this.ask();
    }
    return null;
  }

  /** @param {number} ttlMs of the grant that was just opened */
  renewWithin(ttlMs) {
    this.stop();
    this.#renewal = setTimeout(() => {
      this.ask();
      // Asked again even if this one gets no answer: the daemon may be slow once.
      this.renewWithin(ttlMs);
    }, ttlMs / 3);
  }
}
