// @ts-check

/**
 * What was dispatched, and what is known of it: one entry an action, kept until the
 * daemon forgets it. An entry is made in the turn of its first effect, so an action
 * without one was not dispatched by this worker.
 *
 * The ledger never concludes from an error or from silence. `how` leaves "open" for
 *   barrier  by one of three proofs, named in how_rule:
 *            barrier_in_document    our no-op ran in that very document after the last input
 *            navigated_by_document  every input was acknowledged while the document was
 *                                   current, and then the document itself asked to be replaced
 *            answered               no input among its commands, and each answered without an error
 *   ended    its renderer was seen to crash
 *   lost     the document was replaced or the drain ended first
 *
 * What is open or lost may still send something, however late: its requests are watched
 * until it is forgotten, or for the window after it has come to rest after all.
 */

import {MAX_ACTIONS, MAX_EVIDENCE, OVERTAKEN_MS, WATCH_MS} from './limits.js';

/** @typedef {import('./gen/wire.js').ActionReport} ActionReport */
/** @typedef {import('./gen/wire.js').RequestReport} RequestReport */
/** @typedef {'open' | 'barrier' | 'ended' | 'lost'} How */

/**
 * @typedef {object} Entry
 * @property {string} action
 * @property {number} epoch
 * @property {number} rev
 * @property {number} dispatched
 * @property {number} open
 * @property {number} openInputs commands of the Input domain that are not answered
 * @property {number} lastTick of the ledger's count when its last effect was dispatched
 * @property {boolean} input it sent input, or something failed: only a barrier shows rest
 * @property {boolean} errors an effect was answered by an error
 * @property {boolean} adrift a command that was no input was cut off: a navigation or a script may
 *   go on, and a barrier says nothing of it
 * @property {boolean} asked the document asked to be replaced, after an effect
 * @property {boolean} navigable a navigation of its tab may be its own: none was committed since
 *   its last effect, or one came first that was the page's
 * @property {number} navigableMs wall clock until which; 0 without an end. Afterwards, until then,
 *   one that asks for an effect still may be
 * @property {boolean} creating it makes a tab that has not been seen yet
 * @property {number} tab
 * @property {string} document
 * @property {boolean} script
 * @property {How} how
 * @property {string} howRule
 * @property {Map<string, RequestReport>} requests
 * @property {number} more
 * @property {Map<string, string>} downloads running ones, by the browser's number
 * @property {number} firstMs wall clock of its first effect
 * @property {number} restMs wall clock when it came to rest or was lost, 0 before
 * @property {number} watchMs
 * @property {number} fencedMs wall clock of the end of its epoch, 0 before
 */

/** The error of a request of whose end nothing is told. */
export const UNHEARD = 'how it ended was not heard';
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS']);

export class Ledger {
  /** @type {Map<string, Entry>} */ #entries = new Map();
  #tick = 0;
  #wallMs;
  #changed;

  /** @param {() => number} wallMs @param {(entry: Entry) => void} changed called at each new rev */
  constructor(wallMs, changed) {
    this.#wallMs = wallMs;
    this.#changed = changed;
  }

  /** @param {string} action */
  get(action) {
    return this.#entries.get(action);
  }

  entries() {
    return this.#entries.values();
  }

  /**
   * Whether an effect of this action can be recorded. At the bound it is refused: an
   * entry that gave way would read as "never dispatched" at the next drain.
   * @param {string} action
   */
  room(action) {
    return this.#entries.has(action) || this.#entries.size < MAX_ACTIONS;
  }

  /**
   * Records an effect, in the turn of its dispatch.
   * @param {import('./gate.js').Order} order @param {string} document @param {number} watchMs
   * @returns {Entry}
   */
  dispatched(order, document, watchMs) {
    let entry = this.#entries.get(order.action);
    if (!entry) {
      entry = {
        action: order.action, epoch: order.epoch, rev: 0, dispatched: 0, open: 0, openInputs: 0, lastTick: 0,
        input: false, errors: false, adrift: false, asked: false, navigable: true, navigableMs: 0, creating: false,
        tab: order.tab, document, script: false, how: 'open', howRule: '',
        requests: new Map(), more: 0, downloads: new Map(),
        firstMs: this.#wallMs(), restMs: 0, watchMs: watchMs || WATCH_MS, fencedMs: 0,
      };
      this.#entries.set(order.action, entry);
    }
    const input = order.method.startsWith('Input.');
    entry.dispatched++;
    entry.open++;
    entry.lastTick = ++this.#tick;
    if (input) {
      entry.input = true;
      entry.openInputs++;
    }
    if (document && document !== entry.document) {
      // Its earlier inputs were acknowledged in another document; that cannot be
      // shown any more, so they are no part of this document's proof.
      if (entry.input && entry.how !== 'barrier' && entry.document) entry.errors = true;
      entry.document = document;
    }
    entry.tab = order.tab || entry.tab;
    entry.script ||= order.script;
    entry.creating = order.kind === 'tab_create';
    entry.navigable = true;
    entry.navigableMs = 0;
    entry.how = 'open';
    entry.howRule = '';
    entry.restMs = 0;
    this.#touch(entry);
    return entry;
  }

  /**
   * The promise of an effect is over. "answered" is a result; "refused" an error with
   * which the page's own side answered; "cut" an error that says only that the
   * connection to it ended: the command is as open as before.
   * @param {import('./gate.js').Order} order @param {'answered' | 'refused' | 'cut'} end
   */
  settled(order, end) {
    const entry = this.#entries.get(order.action);
    if (!entry || entry.open === 0) return;
    if (order.method.startsWith('Input.') && entry.openInputs > 0) entry.openInputs--;
    if (end !== 'cut') entry.open--;
    else if (!order.method.startsWith('Input.')) {
      entry.adrift = true;
      // Of a script that barriers have passed it will not be heard any more whether its promise settles.
      if (order.script && entry.how === 'barrier') this.#rest(entry, 'lost', '');
    }
    if (end !== 'answered') {
      entry.errors = true;
      entry.input = true;
    }
    if (entry.open === 0 && !entry.input && entry.how !== 'ended') this.#rest(entry, 'barrier', 'answered');
    this.#touch(entry);
  }

  /**
   * Whether a barrier would come too early: input is not acknowledged, or a command
   * that is no script of the agent's (a navigation) is not answered.
   * @param {string} document @param {boolean} current whether it is still in its tab
   */
  busy(document, current) {
    for (const entry of this.#of(document)) {
      if (entry.openInputs > 0 ? current : entry.open > 0 && !entry.input && !entry.script) return true;
    }
    return false;
  }

  /** Whether a script of an older epoch has run so far that only its promise is open. @param {number} below */
  waits(below) {
    for (const {epoch, script, open, how} of this.#entries.values()) {
      if (epoch < below && script && open > 0 && how === 'barrier') return true;
    }
    return false;
  }

  /** A mark for `barrier`: what is dispatched later is not covered by it. */
  tick() {
    return this.#tick;
  }

  /**
   * Our no-op ran in the document. It says nothing of a navigation under way.
   * @param {string} document @param {number} tick when it was sent
   */
  barrier(document, tick) {
    for (const entry of this.#of(document)) {
      if (entry.lastTick > tick || entry.how === 'ended' || entry.how === 'barrier') continue;
      if (entry.adrift || (entry.open > 0 && !entry.input && !entry.script)) continue;
      this.#rest(entry, 'barrier', 'barrier_in_document');
    }
  }

  /** The document in a tab's main frame asked to be replaced. @param {string} document */
  asked(document) {
    for (const entry of this.#of(document)) if (entry.how === 'open') entry.asked = true;
  }

  /**
   * Another document was committed in its place: no barrier can run there any more.
   * @param {number} tab @param {string} document the former one
   */
  replaced(tab, document) {
    for (const entry of this.#entries.values()) {
      if (entry.tab === tab) this.#overtaken(entry);
      if (!document || entry.document !== document || entry.how !== 'open' || !entry.input) continue;
      if (entry.asked && entry.open === 0 && !entry.errors) this.#rest(entry, 'barrier', 'navigated_by_document');
      else this.#rest(entry, 'lost', '');
    }
  }

  /**
   * A document was committed in its tab. What a page does by itself may come between an
   * effect and the navigation that it asks for: unless the effect had come to rest, that
   * one may be yet to begin.
   * @param {Entry} entry
   */
  #overtaken(entry) {
    const rests = entry.how !== 'open' && entry.open === 0;
    const seen = [...entry.requests.values()].some(({type}) => type === 'main_frame');
    if (!rests && (seen || entry.open === 0)) entry.navigableMs ||= this.#wallMs() + OVERTAKEN_MS;
    if (rests || seen) entry.navigable = false;
  }

  /**
   * Whether a navigation of its tab may be its own.
   * @param {Entry} entry @param {number} wallMs when it began @param {string} method
   */
  navigates({navigable, navigableMs}, wallMs, method) {
    if (navigable) return navigableMs === 0 || wallMs <= navigableMs;
    return !SAFE.has(method) && wallMs <= navigableMs;
  }

  /** The renderer of these documents was seen to end. @param {Set<string>} documents */
  ended(documents) {
    for (const entry of this.#entries.values()) {
      if (documents.has(entry.document) && entry.how !== 'barrier') {
        entry.open = 0;
        entry.openInputs = 0;
        this.#rest(entry, 'ended', '');
      }
    }
  }

  /**
   * The drain has ended: what it has not brought to rest it has lost.
   * @param {number} below this epoch
   */
  lost(below) {
    for (const entry of this.#entries.values()) {
      if (entry.epoch < below && entry.how === 'open') this.#rest(entry, 'lost', '');
    }
  }

  /** How a document's actions came to rest: the weakest of them. @param {string} document @returns {How} */
  how(document) {
    const found = new Set([...this.#of(document)].map((entry) => entry.how));
    for (const how of /** @type {How[]} */ (['open', 'lost', 'ended'])) if (found.has(how)) return how;
    return found.size ? 'barrier' : 'open';
  }

  /**
   * The epochs below this one have ended.
   * @param {number} epoch @param {number} watchMs
   */
  fence(epoch, watchMs) {
    const now = this.#wallMs();
    for (const entry of this.#entries.values()) {
      if (entry.epoch >= epoch) continue;
      entry.fencedMs ||= now;
      if (watchMs > 0) entry.watchMs = watchMs;
    }
  }

  /**
   * The reports that a fence lists: unsettled, or with a script that may still run.
   * @param {number} below @param {(document: string) => boolean} scripted
   * @returns {ActionReport[]}
   */
  unsettled(below, scripted) {
    const out = [];
    for (const entry of this.#entries.values()) {
      if (entry.epoch < below && (unsettled(entry) || (entry.script && scripted(entry.document)))) {
        out.push(report(entry));
      }
    }
    return out;
  }

  /** Documents where an action of a lower epoch has not come to rest. @param {number} below */
  pending(below) {
    /** @type {Map<string, number>} document to tab */
    const out = new Map();
    for (const entry of this.#entries.values()) {
      if (entry.epoch < below && entry.how === 'open' && entry.document) out.set(entry.document, entry.tab);
    }
    return out;
  }

  /** Entries whose requests are still watched, the latest first. @param {number} wallMs */
  watched(wallMs) {
    return [...this.#entries.values()].filter((entry) => watched(entry, wallMs)).reverse();
  }

  /**
   * Adds or replaces a request of an entry. At the bound a harmless one gives way to one
   * that can change something.
   * @param {Entry} entry @param {RequestReport} request
   */
  request(entry, request) {
    const known = entry.requests.has(request.id);
    if (!known && entry.requests.size >= MAX_EVIDENCE) {
      entry.more++;
      const victim = SAFE.has(request.method) ? undefined : harmless(entry);
      if (!victim) return this.#touch(entry);
      entry.requests.delete(victim);
    }
    entry.requests.set(request.id, request);
    this.#touch(entry);
  }

  /** A request that cannot be followed is counted. @param {Entry} entry */
  beyond(entry) {
    entry.more++;
    this.#touch(entry);
  }

  /** @param {Entry} entry @param {string} id @param {string} name '' when it has ended */
  download(entry, id, name) {
    if (name && entry.downloads.size >= MAX_EVIDENCE && !entry.downloads.has(id)) return this.beyond(entry);
    if (name) entry.downloads.set(id, name);
    else if (!entry.downloads.delete(id)) return;
    this.#touch(entry);
  }

  /** A tab came to be by an action that makes one. @param {number} tab */
  tabMade(tab) {
    for (const entry of [...this.#entries.values()].reverse()) {
      if (!entry.creating) continue;
      entry.creating = false;
      entry.tab = tab;
      return true;
    }
    return false;
  }

  /** @param {string[]} actions */
  forget(actions) {
    for (const action of actions) this.#entries.delete(action);
  }

  /**
   * Everything that is not forgotten.
   * @param {number} [below] only of epochs below this one
   * @returns {ActionReport[]}
   */
  reports(below = Infinity) {
    return [...this.#entries.values()].filter((entry) => entry.epoch < below).map(report);
  }

  /** For storage.session: a worker's restart must not lose what there was to tell. */
  snapshot() {
    return [...this.#entries.values()].filter((entry) => !quiet(entry)).map((entry) => ({
      ...entry,
      requests: [...entry.requests],
      downloads: [...entry.downloads],
    }));
  }

  /**
   * Takes up what a former worker stored. Its promises are gone, so an answer will
   * never come: only a barrier can show rest. Revs go on far above any it has sent.
   * @param {unknown} stored
   */
  restore(stored) {
    if (!Array.isArray(stored)) return;
    for (const item of stored) {
      if (typeof item?.action !== 'string' || this.#entries.has(item.action)) continue;
      this.#entries.set(item.action, {
        ...item,
        rev: item.rev + 1_000_000,
        open: 0,
        openInputs: 0,
        input: true,
        errors: item.errors || item.open > 0,
        adrift: item.adrift === true || (item.open > item.openInputs && !item.script),
        creating: false,
        lastTick: 0,
        requests: new Map(item.requests),
        downloads: new Map(item.downloads),
      });
    }
  }

  /** @param {string} document */
  *#of(document) {
    if (!document) return;
    for (const entry of this.#entries.values()) if (entry.document === document) yield entry;
  }

  /** @param {Entry} entry @param {How} how @param {string} rule */
  #rest(entry, how, rule) {
    if (entry.how === how && entry.howRule === rule) return;
    entry.how = how;
    entry.howRule = rule;
    entry.restMs = this.#wallMs();
    this.#touch(entry);
  }

  /** @param {Entry} entry */
  #touch(entry) {
    entry.rev++;
    this.#changed(entry);
  }
}

/** @param {Entry} entry */
function unsettled(entry) {
  if (entry.open > 0 || entry.how === 'open' || entry.downloads.size > 0) return true;
  for (const request of entry.requests.values()) if (request.state === 'in_flight') return true;
  return false;
}

/** @param {Entry} entry @param {number} wallMs */
function watched(entry, wallMs) {
  return entry.how === 'open' || entry.how === 'lost' || wallMs <= entry.restMs + entry.watchMs;
}

/** One that is settled, if there is one. @param {Entry} entry @returns {string | undefined} */
function harmless(entry) {
  const safe = [...entry.requests.values()].filter(({method}) => SAFE.has(method));
  return (safe.find(({state}) => state !== 'in_flight') ?? safe[0])?.id;
}

/**
 * Whether there is nothing to tell of an action that its host has not told: it is at
 * rest, and no request or download was seen of it.
 * @param {Entry} entry
 */
export function quiet({how, open, requests, more, downloads}) {
  return how === 'barrier' && open === 0 && requests.size === 0 && more === 0 && downloads.size === 0;
}

/**
 * Reports that fit where the whole ones do not: they say how many requests there were,
 * whether one of them can have changed something, and that something is downloaded.
 * @param {ActionReport} whole @returns {ActionReport}
 */
export function brief(whole) {
  const {downloads, more} = whole;
  const requests = whole.requests ?? [];
  const one = requests.find(({method}) => !SAFE.has(method));
  /** @type {RequestReport[]} */
  const left = one ? [{...one, id: 'left out', url: '', state: 'failed', status: 0, error: UNHEARD}] : [];
  return {...whole, requests: left, more: more + requests.length, downloads: (downloads ?? []).slice(0, 1)};
}

/** @param {Entry} entry @returns {ActionReport} */
export function report(entry) {
  return {
    action: entry.action,
    epoch: entry.epoch,
    rev: entry.rev,
    dispatched: entry.dispatched,
    open: entry.open,
    tab: entry.tab,
    document: entry.document,
    script: entry.script,
    how: entry.how,
    how_rule: entry.howRule,
    requests: [...entry.requests.values()],
    more: entry.more,
    downloads: [...entry.downloads.values()],
  };
}
