// @ts-check

/**
 * Shared workers outlive the page that started them. One whose code is no website's but was
 * made in a page (blob:, data:) may be an agent's, once an agent's script has run in this
 * browser. The daemon is told of it where a page with such a script ends, and at the end of
 * each drain, until it is seen to have gone. A website's own workers, its service workers
 * too, run the website's code.
 */

import {withoutQuery} from './evidence.js';
import {LEAVE_MS, WORKER_LOOK_MS} from './limits.js';
import {note} from './refusal.js';

const MADE = /^(blob|data):/;
/** The name by which a worker stands among documents. @param {string} id */
const named = (id) => `worker:${id}`;

export class Workers {
  /** Those that were told: the browser's names of them. @type {Set<string>} */ #told = new Set();
  /** @type {ReturnType<typeof setTimeout> | null} */ #looking = null;
  #browser;
  #gate;
  #found;
  #ended;

  /**
   * @param {import('./browser.js').Browser} browser @param {import('./gate.js').Gate} gate
   * @param {(document: string, url: string) => void} found @param {(document: string) => void} ended
   */
  constructor(browser, gate, found, ended) {
    this.#browser = browser;
    this.#gate = gate;
    this.#found = found;
    this.#ended = ended;
  }

  /** @returns {Promise<{id: string, url: string}[]>} */
  async #there() {
    const all = await this.#browser.debugTargets();
    return all.filter(({type, url}) => type === 'worker' && MADE.test(url));
  }

  /**
   * Tells of those that are there now, once more of those that were told.
   * @returns {Promise<boolean>} whether there are new ones
   */
  async tell() {
    const known = this.#told.size;
    for (const {id, url} of await this.#there()) {
      this.#told.add(id);
      this.#found(named(id), withoutQuery(url));
    }
    this.#again();
    return this.#told.size > known;
  }

  /** For storing. */
  names() {
    return [...this.#told];
  }

  /** @param {unknown} stored what a former life of the extension's worker has told */
  restore(stored) {
    if (Array.isArray(stored)) for (const id of stored) this.#told.add(String(id));
    this.#again();
  }

  /** Ends all that were told. That they have gone is seen, not taken for granted. */
  async end() {
    await Promise.all([...this.#told].map((id) => this.#close(id).catch((error) => note('a worker was not ended', error))));
    await this.#look();
  }

  /** The gate decides in the turn in which the worker is told to end. @param {string} id */
  async #close(id) {
    await this.#browser.attachWorker(id);
    const {refused, sent} = this.#gate.dispatch({
      by: 'system', kind: 'worker_close', epoch: this.#gate.epoch, port: null, tab: 0, frame: 0, document: '', method: '',
      params: {target: id}, monoMs: Infinity, wallMs: Infinity, action: '', seq: 0, effect: false, script: false,
    });
    if (refused) note('a worker was not ended', refused.message);
    // One that never rests does not answer.
    const late = new Promise((resolve) => setTimeout(resolve, LEAVE_MS));
    await Promise.race([late, sent]).catch(() => {}); // its end may cut its answer off
    await this.#browser.detachWorker(id).catch(() => {}); // of one that has gone there is nothing to leave
  }

  #again() {
    if (this.#told.size > 0) this.#looking ??= setTimeout(() => void this.#look(), WORKER_LOOK_MS);
  }

  async #look() {
    if (this.#looking) clearTimeout(this.#looking);
    this.#looking = null;
    const there = await this.#there().catch(() => null);
    if (there) {
      const ids = new Set(there.map(({id}) => id));
      for (const id of [...this.#told]) {
        if (ids.has(id)) continue;
        this.#told.delete(id);
        this.#ended(named(id));
      }
    }
    this.#again();
  }
}
