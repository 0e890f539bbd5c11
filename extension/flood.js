// @ts-check

/**
 * The bound on the debugger's events. A page makes them as fast as it likes, and a fence
 * stands in line behind all that have been made. How many a second are too many depends
 * on the machine, so what matters is measured: the browser is asked something small, and
 * the answer waits in the same line. Events of any kind weigh, whoever hears them.
 */

import {EVENT_WEIGHT, FLOOD_MS, FLOOD_WEIGHT, NETWORK_PART} from './limits.js';
import {note} from './refusal.js';

/**
 * What an event holds, in characters, about: far cheaper than what the browser has spent
 * on it by now.
 * @param {unknown} value
 * @returns {number}
 */
function sizeOf(value) {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 8;
  let size = 0;
  for (const one of Object.values(value)) size += 8 + sizeOf(one);
  return size;
}

export class Flood {
  /** When the browser was asked what it has not answered yet. @type {number | null} */ #asked = null;
  /** The weight of what has come of each tab since it last answered in time. @type {Map<number, number>} */ #came = new Map();
  #browser;
  #flooded;

  /** @param {import('./browser.js').Browser} browser @param {(tab: number) => void} flooded */
  constructor(browser, flooded) {
    this.#browser = browser;
    this.#flooded = flooded;
  }

  /** @param {number} tab @param {string} method @param {unknown} params */
  event(tab, method, params) {
    const part = method.startsWith('Network.') ? NETWORK_PART : 1;
    const weight = (this.#came.get(tab) ?? 0) + part * (EVENT_WEIGHT + sizeOf(params));
    this.#came.set(tab, weight);
    // An ordinary page's few are not worth the question.
    if (this.#asked === null && weight >= FLOOD_WEIGHT / 16) this.#ask();
    if (weight < FLOOD_WEIGHT || this.#browser.monoMs() - (this.#asked ?? Infinity) < FLOOD_MS) return;
    this.#came.delete(tab);
    note(`the debugging of tab ${tab} is ended: its events flood the browser`);
    this.#flooded(tab);
  }

  #ask() {
    const asked = this.#browser.monoMs();
    this.#asked = asked;
    const answered = () => {
      this.#asked = null;
      // A late answer is one from the line: what stands in it still weighs.
      if (this.#browser.monoMs() - asked < FLOOD_MS) this.#came.clear();
    };
    this.#browser.ping().then(answered, answered);
  }
}
