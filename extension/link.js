// @ts-check

/**
 * The native port and the attested link behind it. A link is one nonce on one port;
 * what comes by another port or carries another nonce belongs to a link that has
 * ended, and is dropped. Losing either is told in the turn in which it is learnt.
 */

import {validate} from './gen/wire.js';
import {ChunkError, Joiner, split} from './chunks.js';
import {BACK_OFF_MS, MAX_FROM_EXTENSION, MAX_MESSAGE, STABLE_MS} from './limits.js';
import {brief} from './ledger.js';
import {note, refuse} from './refusal.js';

/** @typedef {import('./refusal.js').Refusal} Refusal */
/** @typedef {{t: string, nonce?: string, [member: string]: any}} Message */

/**
 * @typedef {object} Events
 * @property {(port: unknown, nonce: string) => void} up a daemon is attested behind the port
 * @property {(reason: string, error: Refusal | null) => void} down
 * @property {(message: Message, port: unknown) => void} message of the current link, well formed
 */

const encoder = new TextEncoder();

/**
 * About how many characters reports make, so that gigabytes are not written out to learn
 * that they are too many.
 * @param {import('./gen/wire.js').ActionReport[]} actions
 */
function weight(actions) {
  let sum = 0;
  for (const {requests, downloads} of actions) {
    sum += 512;
    for (const {url, error} of requests ?? []) sum += 256 + url.length + error.length;
    for (const name of downloads ?? []) sum += name.length;
  }
  return sum;
}

export class Link {
  /** @type {chrome.runtime.Port | null} */ #port = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;
  #nonce = '';
  #welcomed = false;
  #welcomedMs = 0;
  #attempt = 0;
  #chunkId = 0;
  /** What came before anybody was ready for it, in its order; null from then on. @type {(() => void)[] | null} */ #early = [];
  #browser;
  #events;
  #limit;

  /**
   * @param {import('./browser.js').Browser} browser
   * @param {Events} events
   * @param {number} [limit] bytes of one native message; tests set it lower
   */
  constructor(browser, events, limit = MAX_FROM_EXTENSION) {
    this.#browser = browser;
    this.#events = events;
    this.#limit = limit;
  }

  get nonce() {
    return this.#nonce;
  }

  /** Whether the daemon has accepted our hello. */
  get welcomed() {
    return this.#welcomed;
  }

  /** How many starts of the host have come to nothing, for storing. */
  get attempt() {
    return this.#attempt;
  }

  /**
   * Begins, or goes on if nothing is under way. The host takes time to come up: it may
   * be started before anybody is ready for what it says.
   * @param {number} [attempt] where a former worker had got to
   */
  start(attempt) {
    if (this.#port || this.#timer !== undefined) return;
    if (attempt !== undefined) this.#attempt = Math.min(attempt, BACK_OFF_MS.length);
    if (this.#attempt === 0) this.#connect();
    else this.#later();
  }

  /** From here on events are told, those that have come already first. */
  ready() {
    const early = this.#early ?? [];
    this.#early = null;
    for (const tell of early) tell();
  }

  /** @param {() => void} tell */
  #inTurn(tell) {
    if (this.#early) this.#early.push(tell);
    else tell();
  }

  /**
   * Sends a message of a link. One that is too large goes with its reports cut down to
   * what decides: a fence that is not acknowledged is worse than one that says less.
   * Without one it is not sent, and nothing is queued: the
   * next hello tells the daemon all there is.
   * @param {Message} message without its nonce
   * @returns {boolean}
   */
  send(message) {
    if (!this.#port || !this.#nonce) return false;
    const whole = {...message, nonce: this.#nonce};
    const {actions} = message;
    if (!actions) return this.#post(this.#port, whole);
    if (weight(actions) <= MAX_MESSAGE / 4 && this.#post(this.#port, whole)) return true;
    note(`${message.t} is too large: sent without its requests`);
    return this.#post(this.#port, {...whole, actions: actions.map(brief)});
  }

  /**
   * Sends the answer to a command of the host; it bears no nonce, because the host is
   * at the other end of this very port.
   * @param {unknown} port where the command came from
   * @param {Message} message
   */
  answer(port, message) {
    if (this.#port === null || port !== this.#port) return false;
    if (this.#post(this.#port, message)) return true;
    const {t, seq, dispatched} = message;
    const error = refuse('limit', 'the answer is larger than a message may be', 'ask for less at once');
    return this.#post(this.#port, {t, seq, ok: false, dispatched, error});
  }

  #connect() {
    let port;
    try {
      port = this.#browser.connectHost();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#inTurn(() => this.#events.down(reason, null));
      this.#later();
      return;
    }
    const joiner = new Joiner();
    this.#port = port;
    port.onMessage.addListener((message) => this.#inTurn(() => this.#receive(port, joiner, message)));
    port.onDisconnect.addListener(() => {
      const reason = this.#browser.lastError() || 'the host has ended';
      this.#inTurn(() => {
        if (this.#port === port) this.#lost(reason);
      });
    });
  }

  #later() {
    const wait = BACK_OFF_MS[Math.min(this.#attempt, BACK_OFF_MS.length - 1)];
    this.#attempt++;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#connect();
    }, wait);
  }

  /** @param {string} reason */
  #lost(reason) {
    this.#port = null;
    this.#unlink(reason, null);
    this.#later();
  }

  /** @param {string} reason @param {Refusal | null} error */
  #unlink(reason, error) {
    if (this.#welcomed && this.#browser.monoMs() - this.#welcomedMs >= STABLE_MS) this.#attempt = 0;
    this.#nonce = '';
    this.#welcomed = false;
    this.#events.down(reason, error);
  }

  /**
   * @param {chrome.runtime.Port} port @param {Joiner} joiner @param {unknown} raw
   */
  #receive(port, joiner, raw) {
    if (port !== this.#port) return;
    const problem = validate(raw);
    if (problem !== null) {
      note('dropped a message that is not well formed', problem);
      return;
    }
    const message = /** @type {Message} */ (raw);
    if (message.t !== 'chunk') {
      this.#take(port, message);
      return;
    }
    let whole;
    try {
      whole = joiner.push(/** @type {any} */ (message));
    } catch (error) {
      if (!(error instanceof ChunkError)) throw error;
      // What follows cannot be told apart any more: this port is over.
      note('closed the port', error);
      port.disconnect();
      this.#lost(error.message);
      return;
    }
    if (whole === undefined) return;
    const wrong = validate(whole);
    if (wrong !== null || /** @type {Message} */ (whole).t === 'chunk') {
      note('dropped a joined message that is not well formed', wrong ?? 'a chunk of chunks');
      return;
    }
    this.#take(port, /** @type {Message} */ (whole));
  }

  /** @param {chrome.runtime.Port} port @param {Message} message */
  #take(port, message) {
    switch (message.t) {
      case 'link':
        if (message.up && message.nonce) {
          if (this.#nonce) this.#unlink('another link took its place', null);
          this.#nonce = message.nonce;
          this.#events.up(port, message.nonce);
        } else {
          this.#unlink(message.reason ?? 'the daemon cannot be reached', message.error ?? null);
        }
        return;
      case 'host.refused':
        this.#unlink(message.error.message, message.error);
        return;
      case 'cmd':
        if (!this.#welcomed) {
          const error = refuse('unavailable', 'the daemon has not accepted this browser yet');
          this.#post(port, {t: 'cmd.result', seq: message.seq, ok: false, dispatched: false, error});
          return;
        }
        break;
      default:
        if (!this.#nonce || message.nonce !== this.#nonce) {
          note(`dropped ${message.t}: it is not of the current link`);
          return;
        }
        if (message.t === 'welcome') {
          this.#welcomed = true;
          this.#welcomedMs = this.#browser.monoMs();
        } else if (!this.#welcomed) {
          note(`dropped ${message.t}: it came before welcome`);
          return;
        }
    }
    this.#events.message(message, port);
  }

  /**
   * @param {chrome.runtime.Port} port @param {Message} message
   * @returns {boolean}
   */
  #post(port, message) {
    const text = JSON.stringify(message);
    if (text.length * 3 <= this.#limit) {
      port.postMessage(message);
      return true;
    }
    const bytes = encoder.encode(text);
    if (bytes.length <= this.#limit) {
      port.postMessage(message);
      return true;
    }
    if (bytes.length > MAX_MESSAGE) {
      note(`${message.t} of ${bytes.length} bytes cannot be sent`);
      return false;
    }
    for (const chunk of split(bytes, ++this.#chunkId)) port.postMessage(chunk);
    return true;
  }
}
