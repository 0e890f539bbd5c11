// @ts-check

/**
 * What outlives the worker. In storage.local, of the profile: the high-water mark of
 * epochs and the hold. In storage.session, of this run of the browser: what the
 * ledger and the documents know, and how often the host was started in vain.
 *
 * Nothing waits for a write: what a gate decides on is in memory, and the storage is
 * read once, before the first link.
 */

import {STORE_MS} from './limits.js';
import {note} from './refusal.js';

/** @typedef {import('./gen/wire.js').Mark} Mark */
/** @typedef {import('./gen/wire.js').Hold} Hold */

/** @param {unknown} value */
const whole = (value) => (Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0);

export class Memory {
  /** @type {Mark} */ mark = {epoch: 0, seq: 0, person: false};
  /** @type {Hold | null} */ hold = null;

  #browser;
  /** What storage.session has, as JSON. */
  #stored = '';
  /** @type {() => Record<string, unknown>} */ #session = () => ({});
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;

  /** @param {import('./browser.js').Browser} browser */
  constructor(browser) {
    this.#browser = browser;
  }

  /**
   * Reads both storages. A hold that was set while it ran stays: it is the newer one.
   * @returns {Promise<Record<string, any>>} what storage.session had
   */
  async load() {
    const [local, session] = await Promise.all([
      this.#browser.loadLocal(['mark', 'hold']),
      this.#browser.loadSession(['run', 'anew', 'ledger', 'scripts', 'groups', 'starts', 'apart', 'probes']),
    ]);
    const mark = /** @type {any} */ (local.mark);
    this.mark = {
      epoch: Math.max(this.mark.epoch, whole(mark?.epoch)),
      seq: Math.max(this.mark.seq, whole(mark?.seq)),
      person: mark?.person === true,
    };
    const hold = /** @type {any} */ (local.hold);
    if (!this.hold && typeof hold?.id === 'string' && hold.id) {
      // The tabs that were to end with it ended with the browser that had them; another
      // run gives their numbers to others.
      this.hold = session.run === true ? hold : {id: hold.id, since_ms: hold.since_ms};
    }
    return session;
  }

  /**
   * Notes an epoch and the journal entry that came with it; neither goes down.
   * @param {number} epoch @param {number} seq @param {boolean} [person]
   */
  see(epoch, seq, person = this.mark.person) {
    const {mark} = this;
    const next = {epoch: Math.max(mark.epoch, epoch), seq: Math.max(mark.seq, seq), person};
    if (next.epoch === mark.epoch && next.seq === mark.seq && next.person === mark.person) return;
    this.mark = next;
    this.#save(this.#browser.saveLocal({mark: next}));
  }

  /**
   * Notes a journal entry for this life of the worker; it is stored with the next change
   * of the mark. Another life does not vouch for what this one has forgotten.
   * @param {number} seq
   */
  know(seq) {
    this.mark = {...this.mark, seq: Math.max(this.mark.seq, seq)};
  }

  /** @param {Hold} hold */
  setHold(hold) {
    this.hold = hold;
    this.#save(this.#browser.saveLocal({hold}));
  }

  /**
   * Clears the hold that a fence answers, and no other.
   * @param {string | undefined} id
   * @returns {boolean}
   */
  clearHold(id) {
    if (!this.hold || !id || this.hold.id !== id) return false;
    this.hold = null;
    this.#save(this.#browser.saveLocal({hold: null}));
    return true;
  }

  /** @param {() => Record<string, unknown>} session what to store, asked when it is due */
  keep(session) {
    this.#session = session;
  }

  /** Something of the session's changed; it is stored soon. */
  touch() {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.store();
    }, STORE_MS);
  }

  /** Stores it in this turn, so that it is not lost with the worker. */
  store() {
    const session = this.#session();
    const text = JSON.stringify(session);
    if (text === this.#stored) return;
    this.#stored = text;
    this.#save(this.#browser.saveSession(session));
  }

  /** Stores it now, for what must not be done before. */
  async flush() {
    const session = this.#session();
    this.#stored = JSON.stringify(session);
    await this.#browser.saveSession(session);
  }

  /** @param {Promise<unknown>} write */
  #save(write) {
    write.catch((/** @type {unknown} */ error) => {
      this.#stored = '';
      note('could not store', error);
    });
  }
}
