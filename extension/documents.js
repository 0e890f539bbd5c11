// @ts-check

/**
 * Which document is in which frame, and which documents had an agent's own script.
 * A documentId names one document for its whole life, also in what Chromium reports
 * late about it, so the recent ones stay known after they were replaced.
 */

import {FIRST_DOCUMENT_MS, MAX_DOCUMENTS, MAX_FRAMES} from './limits.js';
import {note} from './refusal.js';
import {isWeb, originOf} from './tabs.js';

/** @typedef {{id: string, url: string, error: boolean}} Frame */
/** @typedef {{tab: number, root: string, url: string}} Known */

/**
 * @typedef {object} Events
 * @property {(tab: number, before: string, after: string) => void} replaced the main document
 * @property {(tab: number) => void} revived a document has come into a tab whose renderer had crashed
 * @property {(document: string, how: 'crashed' | 'replaced' | 'closed') => void} ended one with a script
 * @property {() => void} spread a document counts as one with a script because another can reach it
 */

// A document lives on for its unload handlers after it was replaced.
const LOOK_AGAIN_MS = [0, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000];

export class Documents {
  /** @type {Map<number, Map<number, Frame>>} */ #tabs = new Map();
  /** @type {Map<string, Known>} */ #known = new Map();
  /** @type {Map<string, number>} tab, by document */ #scripts = new Map();
  /** Of windows that pages opened: the first window of those that can name each other. @type {Map<number, number>} */ #groups = new Map();
  /** Documents that came to count as scripted after the last fence: no daemon knows of them. @type {Set<string>} */ #unlisted = new Set();
  /** Ends that are not told while there is such a document. @type {[string, 'crashed' | 'replaced' | 'closed'][]} */ #held = [];
  /** Tabs to which a page is on its way that an agent has answered. @type {Set<number>} */ #answered = new Set();
  /** @type {Set<number>} */ #dead = new Set();
  #everScripted = false;
  /** @type {Map<number, Set<() => void>>} */ #waiting = new Map();
  #browser;
  #events;

  /** @param {import('./browser.js').Browser} browser @param {Events} events */
  constructor(browser, events) {
    this.#browser = browser;
    this.#events = events;
  }

  /**
   * Learns the frames of a tab that was there before us.
   * @param {number} tab
   */
  async learn(tab) {
    const frames = await this.#browser.frames(tab);
    for (const frame of frames ?? []) {
      const known = this.#tabs.get(tab)?.get(frame.frameId);
      // What an event said meanwhile is newer.
      if (!known) this.#put(tab, frame.frameId, frame, frame.errorOccurred === true);
    }
  }

  /** @param {any} details of webNavigation.onCommitted */
  committed(details) {
    const {tabId, frameId} = details;
    if (typeof tabId !== 'number' || !details.documentId) return;
    // A prerendered page is in no tab yet.
    if (details.documentLifecycle && details.documentLifecycle !== 'active') return;
    this.#put(tabId, frameId, details, false);
  }

  /**
   * A navigation failed. If it ended in the browser's error page, that is a document
   * of its own which no commit announces.
   * @param {any} details of webNavigation.onErrorOccurred
   */
  async failed(details) {
    if (details.frameId === 0 && details.tabId >= 0) await this.refresh(details.tabId);
  }

  /**
   * Asks what the main document of a tab is, where events may not have said it yet.
   * @param {number} tab
   */
  async refresh(tab) {
    try {
      const frame = await this.#browser.mainFrame(tab);
      // Chromium goes on naming the document of a renderer that has crashed.
      if (this.#dead.has(tab)) return;
      if (frame?.documentId && frame.documentId !== this.current(tab)) {
        this.#put(tab, 0, frame, frame.errorOccurred === true);
      }
    } catch (error) {
      note('could not ask what is in a tab', error);
    }
  }

  /** The address changed within one document. @param {any} details */
  moved(details) {
    const frame = this.#tabs.get(details.tabId)?.get(details.frameId);
    if (!frame || (details.documentId && details.documentId !== frame.id)) return;
    frame.url = details.url;
    const known = this.#known.get(frame.id);
    if (known) known.url = details.url;
  }

  /** @param {number} tab @param {number} [frame] @returns {string} '' if it is not known */
  current(tab, frame = 0) {
    return this.#tabs.get(tab)?.get(frame)?.id ?? '';
  }

  /** @param {number} tab */
  url(tab) {
    const frame = this.#tabs.get(tab)?.get(0);
    if (!frame) return '';
    return frame.error ? 'chrome-error://chromewebdata/' : frame.url;
  }

  /** Whether the tab shows the browser's own error page. @param {number} tab */
  failedIn(tab) {
    return this.#tabs.get(tab)?.get(0)?.error ?? false;
  }

  /** What is known of a document, also after it was replaced. @param {string} document */
  known(document) {
    return this.#known.get(document);
  }

  /**
   * Waits until a tab has a document, and another one than that which was there before.
   * @param {number} tab @param {string} [before] @param {number} [ms]
   * @returns {Promise<string>} in time: else '', or the one before
   */
  async first(tab, before = '', ms = FIRST_DOCUMENT_MS) {
    const there = () => this.current(tab) !== '' && this.current(tab) !== before;
    if (there()) return this.current(tab);
    if (this.current(tab)) await this.refresh(tab);
    else await this.learn(tab).catch((error) => note('could not look into a new tab', error));
    if (there()) return this.current(tab);
    await new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      const waiting = this.#waiting.get(tab) ?? new Set();
      this.#waiting.set(tab, waiting.add(done));
      function done() {
        clearTimeout(timer);
        waiting.delete(done);
        resolve(undefined);
      }
    });
    return this.current(tab);
  }

  /**
   * An agent's own script runs in a document.
   * @param {number} tab @param {string} document
   * @returns {boolean} whether it is the first there
   */
  script(tab, document) {
    this.#everScripted = true;
    if (!document || this.#scripts.has(document)) return false;
    this.#scripts.set(document, tab);
    for (const other of this.#tabs.keys()) this.#spread(other);
    return true;
  }

  /**
   * A page opened a tab: the two can name each other's windows.
   * @param {number} tab @param {number} opener
   */
  opened(tab, opener) {
    this.#groups.set(tab, this.#group(opener));
    // An empty page that it writes into is announced by no commit.
    void this.learn(tab).catch((error) => note('could not look into a new tab', error));
    this.#spread(tab);
  }

  /** @param {number} tab */
  #group(tab) {
    return this.#groups.get(tab) ?? tab;
  }

  /** The origins in a tab, '' for a page that may be of any. @param {number} tab */
  #origins(tab) {
    return new Set([...(this.#tabs.get(tab)?.values() ?? [])].map(({url}) => (isWeb(url) ? originOf(url) : '')));
  }

  /**
   * What runs in one window can put code into every other that it can name and whose origin it
   * has: a document there counts as one with a script, too.
   * @param {number} tab
   */
  #spread(tab) {
    const document = this.current(tab);
    if (!document || this.#scripts.has(document)) return;
    const its = this.#origins(tab);
    for (const from of new Set(this.#scripts.values())) {
      if (from === tab || this.#group(from) !== this.#group(tab)) continue;
      const theirs = this.#origins(from);
      if (!its.has('') && !theirs.has('') && ![...its].some((origin) => theirs.has(origin))) continue;
      this.#unlisted.add(document);
      this.script(tab, document);
      this.#events.spread();
      return;
    }
  }

  /** An agent answers a page's load in a tab: what comes there next may be its script's. @param {number} tab */
  answers(tab) {
    this.#answered.add(tab);
  }

  /**
   * A document has come to a tab. One that an agent has answered counts as one with a script,
   * also after a fence, which could not list it.
   * @param {number} tab @param {string} document
   */
  arrived(tab, document) {
    if (!this.#answered.delete(tab) || this.#scripts.has(document)) return;
    this.#unlisted.add(document);
    this.script(tab, document);
    this.#events.spread();
  }

  /** The list that a fence is answered with: what the daemon knows from here on. */
  list() {
    this.#unlisted.clear();
    this.#tellHeld();
    return this.scripts();
  }

  /** For storing. */
  groups() {
    return [...this.#groups];
  }

  /** @param {string} document */
  scripted(document) {
    return this.#scripts.has(document);
  }

  /** Documents with an agent's script that are not known to have ended. Their addresses are not kept: a query may be a secret. */
  scripts() {
    return [...this.#scripts].map(([document, tab]) => ({document, tab}));
  }

  /** Whether a script of an agent's has run anywhere in this browser. */
  everScripted() {
    return this.#everScripted;
  }

  /** @param {unknown} stored what a former worker knew @param {unknown} groups the same @param {boolean} ever the same */
  restore(stored, groups, ever) {
    this.#everScripted ||= ever;
    if (Array.isArray(groups)) this.#groups = new Map(groups);
    if (!Array.isArray(stored)) return;
    for (const {document, tab} of stored) {
      if (typeof document !== 'string' || this.#scripts.has(document)) continue;
      this.#scripts.set(document, tab);
      if (this.current(tab) !== document) this.#look(document, this.#tabs.has(tab) ? 'replaced' : 'closed', 0);
    }
    for (const tab of this.#tabs.keys()) this.#spread(tab);
  }

  /**
   * The renderer of a tab's main document was seen to crash.
   * @param {number} tab
   * @returns {Set<string>} the documents that ended with it
   */
  crashed(tab) {
    const gone = new Set();
    for (const frame of this.#tabs.get(tab)?.values() ?? []) gone.add(frame.id);
    this.#tabs.delete(tab);
    this.#dead.add(tab);
    for (const id of gone) this.#ended(id, 'crashed');
    return gone;
  }

  /** Whether nothing has come into a tab since its renderer crashed. @param {number} tab */
  dead(tab) {
    return this.#dead.has(tab);
  }

  /** @param {number} tab */
  removed(tab) {
    this.#answered.delete(tab);
    const before = this.current(tab);
    this.#tabs.delete(tab);
    this.#groups.delete(tab);
    this.#dead.delete(tab);
    if (before) this.#events.replaced(tab, before, '');
    for (const [document, its] of this.#scripts) if (its === tab) this.#look(document, 'closed', 0);
  }

  /**
   * @param {number} tab @param {number} frameId
   * @param {{documentId?: string, url: string, parentFrameId?: number}} details @param {boolean} error
   */
  #put(tab, frameId, details, error) {
    if (!details.documentId) return;
    let frames = this.#tabs.get(tab);
    if (!frames) this.#tabs.set(tab, (frames = new Map()));
    const before = frames.get(frameId)?.id ?? '';
    const {documentId: id, url} = details;
    if (frameId === 0) frames.clear();
    frames.set(frameId, {id, url, error});
    // Removed frames are not announced; a page that makes them without end is bounded.
    if (frames.size > MAX_FRAMES) for (const old of frames.keys()) if (old !== 0 && frames.delete(old)) break;
    this.#remember(id, {tab, root: frameId === 0 ? id : frames.get(0)?.id ?? id, url});
    this.#spread(tab);
    if (frameId !== 0 || before === id) return;
    if (this.#dead.delete(tab)) this.#events.revived(tab);
    if (before) this.#events.replaced(tab, before, id);
    for (const [document, its] of this.#scripts) {
      if (its === tab && document !== id) this.#look(document, 'replaced', 0);
    }
    for (const done of this.#waiting.get(tab) ?? []) done();
    this.#waiting.delete(tab);
  }

  /** @param {string} id @param {Known} known */
  #remember(id, known) {
    this.#known.delete(id);
    this.#known.set(id, known);
    for (const old of this.#known.keys()) {
      if (this.#known.size <= MAX_DOCUMENTS) break;
      this.#known.delete(old);
    }
  }

  /**
   * Says that a document has ended once the browser no longer lists it, and not before.
   * @param {string} document @param {'replaced' | 'closed'} how @param {number} turn
   */
  async #look(document, how, turn) {
    if (turn > 0) await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS[turn]));
    if (!this.#scripts.has(document)) return;
    try {
      if (!(await this.#browser.frameOf(document))) {
        this.#ended(document, how);
        return;
      }
    } catch (error) {
      note('could not ask whether a document is still there', error);
    }
    if (turn + 1 < LOOK_AGAIN_MS.length) await this.#look(document, how, turn + 1);
  }

  /** @param {string} document @param {'crashed' | 'replaced' | 'closed'} how */
  #ended(document, how) {
    const scripted = this.#scripts.delete(document);
    this.#unlisted.delete(document);
    // The daemon would take a slot for free of scripts whose last listed document has ended.
    if (scripted || how === 'crashed') this.#held.push([document, how]);
    if (this.#unlisted.size === 0) this.#tellHeld();
  }

  #tellHeld() {
    for (const [document, how] of this.#held.splice(0)) this.#events.ended(document, how);
  }
}
