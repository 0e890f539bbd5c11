// @ts-check

/**
 * The person's end of the worker: what the popup is told, and what it may ask for.
 * Only the extension's own popup is heard; nothing else that connects is answered.
 *
 * "Take over" is no request. In the turn in which it arrives the hold is set, and
 * from then on nothing of an agent is dispatched, whoever can be reached.
 */

import {withoutQuery} from './evidence.js';
import {CALL_MS, MAX_TITLE} from './limits.js';
import {note, refuse} from './refusal.js';

/** @typedef {import('./refusal.js').Refusal} Refusal */
/** @typedef {import('./gen/wire.js').TabRef} TabRef */
/** @typedef {'starting' | 'up' | 'down'} LinkState */

/**
 * @typedef {object} Snapshot what the popup shows; all of it, at each change
 * @property {'state'} t
 * @property {LinkState} link
 * @property {string} reason why it is down
 * @property {Refusal | null} error
 * @property {{since_ms: number, told: boolean, stop: boolean} | null} hold told: it was
 *   said on a link whose daemon had accepted this browser; stop: pages are to end with it
 * @property {any} status the daemon's, null unless the link is up
 * @property {number} age_ms of the status
 * @property {number} open commands that this browser has not seen answered
 * @property {string} slot its name, if it was ever told
 */

export class People {
  /** @type {Set<chrome.runtime.Port>} */ #popups = new Set();
  /** @type {Map<number, {verb: string, popup: chrome.runtime.Port, timer: ReturnType<typeof setTimeout>}>} */
  #calls = new Map();
  /** @type {LinkState} */ #state = 'starting';
  #reason = '';
  /** @type {Refusal | null} */ #error = null;
  /** @type {any} */ #status = null;
  /** What the badge shows; null: not known. @type {string | null} */ #shown = null;
  #statusMs = 0;
  #slot = '';
  #call = 0;
  /** The hold that was said on this link. @type {import('./gen/wire.js').Hold | null} */ #told = null;
  /** Popups that wait for pages to end. @type {Map<chrome.runtime.Port, ReturnType<typeof setTimeout>>} */ #stops = new Map();
  #browser;
  #gate;
  #memory;
  #link;
  #ledger;
  #stopList;
  #held;

  /**
   * @param {object} parts
   * @param {import('./browser.js').Browser} parts.browser
   * @param {import('./gate.js').Gate} parts.gate
   * @param {import('./state.js').Memory} parts.memory
   * @param {import('./link.js').Link} parts.link
   * @param {import('./ledger.js').Ledger} parts.ledger
   * @param {() => Promise<(TabRef & {shares: boolean})[]>} parts.stopList tabs that end with "Stop the page"
   * @param {() => void} parts.held in the turn in which a person has taken over
   */
  constructor({browser, gate, memory, link, ledger, stopList, held}) {
    this.#browser = browser;
    this.#gate = gate;
    this.#memory = memory;
    this.#link = link;
    this.#ledger = ledger;
    this.#stopList = stopList;
    this.#held = held;
  }

  /** @param {chrome.runtime.Port} port */
  connect(port) {
    const {sender} = port;
    const url = (sender?.url ?? '').split(/[?#]/)[0];
    if (port.name !== 'popup' || sender?.id !== this.#browser.id() || url !== this.#browser.popupURL()) {
      note('refused a connection that is not the popup’s', url);
      port.disconnect();
      return;
    }
    this.#popups.add(port);
    port.onDisconnect.addListener(() => {
      this.#popups.delete(port);
      clearTimeout(this.#stops.get(port));
      this.#stops.delete(port);
    });
    port.onMessage.addListener((message) => this.#hear(port, message));
    port.postMessage(this.#snapshot());
  }

  /** @param {LinkState} state @param {string} [reason] @param {Refusal | null} [error] */
  linkIs(state, reason = '', error = null) {
    if (state !== 'up') {
      this.#status = null;
      this.#told = null;
      this.#badge('');
    }
    // A refusal says more than the end of the port that follows it.
    const keep = state === 'down' && !error && this.#error !== null;
    if (!keep) [this.#reason, this.#error] = [reason, error];
    this.#state = state;
    this.changed();
  }

  /** @param {any} status the daemon's */
  show(status) {
    this.#status = status;
    this.#statusMs = this.#browser.monoMs();
    if (typeof status?.slot === 'string') this.#slot = status.slot;
    // The popup opens only when it is clicked: an agent that asks shows at its button.
    this.#badge(Array.isArray(status?.asks) && status.asks.length > 0 ? '?' : '');
    this.changed();
  }

  /** @param {string} text */
  #badge(text) {
    if (text === this.#shown) return;
    this.#shown = text;
    this.#browser.badge(text);
  }

  changed() {
    if (this.#popups.size === 0) return;
    const snapshot = this.#snapshot();
    for (const popup of this.#popups) popup.postMessage(snapshot);
  }

  /**
   * A person has taken over. Each press is one of its own: a Hand back may have been asked
   * for since the last one, so the answer to that is none to this.
   * @param {number} pressedMs wall clock of the button's event
   * @param {TabRef[]} [stop] tabs whose pages are to end with it
   */
  takeOver(pressedMs, stop) {
    const known = this.#memory.hold;
    // That pages are to end is said again only if the daemon has not been told.
    const before = known && known === this.#told ? {since_ms: known.since_ms} : known;
    const hold = {since_ms: this.#browser.wallMs(), ...before, id: this.#browser.uuid()};
    const next = stop ? {...hold, stop_page: true, tabs: stop} : hold;
    this.#gate.hold = next;
    this.#gate.close();
    this.#held();
    if (!known) {
      const heldMs = performance.timeOrigin + performance.now();
      Object.assign(globalThis, {sessiondockLastHold: {pressed_ms: pressedMs, held_ms: heldMs}});
    }
    this.#memory.setHold(next);
    this.#say(next);
    this.changed();
  }

  /**
   * A daemon has accepted this browser: it is told of the hold, unless the hello has.
   * @param {import('./gen/wire.js').Hold | null} carried by the hello of this link
   */
  tell(carried) {
    const {hold} = this.#memory;
    if (!hold) return;
    if (hold === carried) this.#told = hold;
    else this.#say(hold);
    this.changed();
  }

  /** @param {import('./gen/wire.js').Hold} hold */
  #say(hold) {
    if (this.#link.welcomed && this.#link.send({t: 'person.hold', hold})) this.#told = hold;
  }

  /** The daemon had pages ended. @param {number} left those that were not seen to end */
  stopped(left) {
    const error = left
      ? refuse('outcome_unknown', `${left === 1 ? 'A page was' : `${left} pages were`} not seen to end.`, 'Stop the browser to be sure')
      : null;
    for (const popup of [...this.#stops.keys()]) this.#stopReply(popup, error);
  }

  /** @param {chrome.runtime.Port} popup @param {Refusal | null} error */
  #stopReply(popup, error) {
    clearTimeout(this.#stops.get(popup));
    this.#stops.delete(popup);
    this.#tell(popup, {t: 'reply', verb: 'stop_page', error});
  }

  /**
   * Takes over, and has pages ended. It is done when the daemon has ordered it and the
   * pages were seen to end; until then it is not called so.
   * @param {chrome.runtime.Port} popup @param {number} pressedMs @param {TabRef[]} tabs
   */
  #takeOverAndStop(popup, pressedMs, tabs) {
    this.takeOver(pressedMs, tabs);
    if (this.#told !== this.#memory.hold) {
      this.#stopReply(
        popup,
        refuse(
          'unavailable',
          'You have taken over. The daemon cannot be reached, so no page has been ended: that is done when it is back.',
          'To end them now, close the browser',
        ),
      );
      return;
    }
    clearTimeout(this.#stops.get(popup));
    const late = refuse('deadline', 'The daemon has not answered. Whether the pages end is not known.');
    this.#stops.set(popup, setTimeout(() => this.#stopReply(popup, late), CALL_MS));
  }

  /** @param {{id: number, error?: Refusal | null}} reply */
  replied({id, error}) {
    const call = this.#calls.get(id);
    if (!call) return;
    this.#calls.delete(id);
    clearTimeout(call.timer);
    this.#tell(call.popup, {t: 'reply', verb: call.verb, error: error ?? null});
  }

  /** @param {chrome.runtime.Port} popup @param {any} message */
  #hear(popup, message) {
    switch (message?.t) {
      case 'takeover':
        if (message.from === true) this.#ask(popup, 'takeover', {from: true, if_epoch: message.if_epoch});
        else this.takeOver(Number(message.pressed_ms) || 0);
        return;
      case 'stop_list':
        this.#stopList().then(
          (tabs) => this.#tell(popup, {t: 'stop_list', tabs}),
          (error) => this.#tell(popup, {t: 'reply', verb: 'stop_page', error: refuse('internal', String(error))}),
        );
        return;
      case 'stop_page': {
        const tabs = tabRefs(message.tabs);
        if (this.#status?.authority?.holder?.kind === 'human') {
          this.#ask(popup, 'stop_page', {tabs, confirm: true, if_epoch: message.if_epoch});
        } else {
          this.#takeOverAndStop(popup, Number(message.pressed_ms) || 0, tabs);
        }
        return;
      }
      case 'handback':
        this.#ask(popup, 'handback', {
          to: typeof message.to === 'string' ? message.to : '',
          confirm: message.confirm === true,
          if_epoch: message.if_epoch,
        });
        return;
      default:
        note('the popup said something unknown');
    }
  }

  /**
   * Puts a person's verb to the daemon.
   * @param {chrome.runtime.Port} popup @param {string} verb @param {Record<string, unknown>} fields
   */
  #ask(popup, verb, fields) {
    const id = ++this.#call;
    const ifEpoch = Number.isSafeInteger(fields.if_epoch) ? fields.if_epoch : 0;
    const message = {t: 'person.call', id, verb, to: '', confirm: false, from: false, tabs: [], ...fields, if_epoch: ifEpoch};
    if (!this.#link.welcomed || !this.#link.send(message)) {
      const error = refuse('unavailable', 'The daemon cannot be reached, so nothing was asked of it.');
      this.#tell(popup, {t: 'reply', verb, error});
      return;
    }
    const timer = setTimeout(() => {
      this.#calls.delete(id);
      const error = refuse('deadline', 'The daemon has not answered. Whether it did so is not known.');
      this.#tell(popup, {t: 'reply', verb, error});
    }, CALL_MS);
    this.#calls.set(id, {verb, popup, timer});
  }

  /** @param {chrome.runtime.Port} popup @param {unknown} message */
  #tell(popup, message) {
    if (this.#popups.has(popup)) popup.postMessage(message);
  }

  /** @returns {Snapshot} */
  #snapshot() {
    const {hold} = this.#memory;
    let open = 0;
    for (const entry of this.#ledger.entries()) open += entry.open;
    return {
      t: 'state',
      link: this.#state,
      reason: this.#reason,
      error: this.#error,
      hold: hold && {since_ms: hold.since_ms, told: hold === this.#told, stop: hold.stop_page === true},
      status: this.#status,
      age_ms: this.#status ? this.#browser.monoMs() - this.#statusMs : 0,
      open,
      slot: this.#slot,
    };
  }
}

/**
 * What the daemon is told of tabs: it stores that, so no more than a person needs.
 * @param {unknown} list the popup's
 * @returns {TabRef[]}
 */
function tabRefs(list) {
  if (!Array.isArray(list)) return [];
  return list
    .filter((one) => Number.isInteger(one?.tab))
    .map(({tab, title, url}) => ({
      tab,
      ...(typeof title === 'string' && {title: title.slice(0, MAX_TITLE)}),
      ...(typeof url === 'string' && {url: withoutQuery(url)}),
    }));
}
