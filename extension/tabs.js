// @ts-check

/**
 * The browser's tabs, and which of them the lease sees: lent (they were within its
 * origins when it was granted: to act in, not to close) and owned (made under it).
 * All others do not exist for an agent, and neither do those that a person opened while
 * holding, or the system for a probe: they stay apart, under every later grant, until
 * they are closed.
 */

/**
 * @typedef {object} Tab
 * @property {number} tab
 * @property {string} url of the address bar
 * @property {string} title
 * @property {boolean} active in its window
 * @property {boolean} loaded
 * @property {boolean} unloaded no process is behind it: restored, discarded or crashed
 * @property {number} window
 * @property {number} shownTick counts up each time a tab is brought to the front
 */

const NEW_TAB = /^(chrome:\/\/(newtab|new-tab-page)\/?|about:newtab)$/;

/** A new tab's own page, to which no debugger can be attached. @param {string} url */
export const isNewTab = (url) => NEW_TAB.test(url);

/** An address that no tab can open and nobody is asked for: the browser's page says so. */
export const NOWHERE = 'about:srcdoc';

/** Whether a page is the website's, not the browser's own. @param {string} url */
export const isWeb = (url) => /^https?:/.test(url);

/** The last address that was asked about, and its origin: an agent stays in one page for many commands. */
let last = {url: '', origin: 'null'};

/** @param {string} url */
export function originOf(url) {
  if (url !== last.url) last = {url, origin: URL.canParse(url) ? new URL(url).origin : 'null'};
  return last.origin;
}

export class Tabs {
  /** @type {Map<number, Tab>} */ #tabs = new Map();
  /** @type {Set<number>} */ #lent = new Set();
  /** @type {Set<number>} */ #owned = new Set();
  /** @type {Set<number>} */ #apart = new Set();
  /** @type {Set<string>} */ #origins = new Set();
  /** @type {Map<number, number>} */ #openers = new Map();
  #tick = 0;
  #focused = -1;

  /** @param {any} tab chrome.tabs.Tab */
  put(tab) {
    if (typeof tab.id !== 'number') return;
    const known = this.#tabs.get(tab.id);
    this.#tabs.set(tab.id, {
      tab: tab.id,
      url: tab.url || tab.pendingUrl || '',
      title: tab.title ?? '',
      active: tab.active === true,
      loaded: tab.status === 'complete',
      unloaded: tab.status === 'unloaded',
      window: tab.windowId ?? -1,
      shownTick: tab.active && !known?.active ? ++this.#tick : known?.shownTick ?? 0,
    });
  }

  /**
   * A tab that a lent or owned one opened is owned.
   * @param {any} tab chrome.tabs.Tab
   */
  created(tab) {
    this.put(tab);
    if (typeof tab.openerTabId === 'number') this.openedBy(tab.openerTabId, tab.id);
  }

  /** @param {number} source @param {number} tab */
  openedBy(source, tab) {
    if (!this.visible(source) || this.#apart.has(tab)) return;
    this.#owned.add(tab);
    this.#openers.set(tab, source);
  }

  /** The tab that opened an owned one, 0 if none did. @param {number} tab */
  openerOf(tab) {
    return this.#openers.get(tab) ?? 0;
  }

  /** @param {number} tab */
  own(tab) {
    this.#owned.add(tab);
  }

  /** A person opened it while holding, or a probe did. @param {number} tab */
  setApart(tab) {
    this.#apart.add(tab);
    this.#lent.delete(tab);
    this.#owned.delete(tab);
  }

  /** @param {number} tab */
  isApart(tab) {
    return this.#apart.has(tab);
  }

  apart() {
    return [...this.#apart];
  }

  /** @param {number} tab @param {number} window */
  activated(tab, window) {
    for (const other of this.#tabs.values()) if (other.window === window) other.active = other.tab === tab;
    const it = this.#tabs.get(tab);
    if (it) it.shownTick = ++this.#tick;
  }

  /** @param {number} window -1 if none of the browser's has the focus: the last one counts on */
  focused(window) {
    if (window >= 0) this.#focused = window;
  }

  /** @param {number} tab */
  removed(tab) {
    this.#tabs.delete(tab);
    this.#lent.delete(tab);
    this.#owned.delete(tab);
    this.#apart.delete(tab);
    this.#openers.delete(tab);
  }

  /**
   * A grant of a new epoch: nothing is inherited from the lease before it.
   * @param {string[]} origins none: any website's
   * @param {(tab: number) => string} url of the tab's main document
   */
  lend(origins, url) {
    this.#origins = new Set(origins.map(originOf));
    this.#owned.clear();
    this.#lent.clear();
    for (const {tab, url: shown} of this.#tabs.values()) {
      if (!this.#apart.has(tab) && this.allowed(url(tab) || shown)) this.#lent.add(tab);
    }
  }

  /** Nothing is visible to anyone. */
  withdraw() {
    this.#owned.clear();
    this.#lent.clear();
  }

  /** @param {number} tab */
  visible(tab) {
    return this.#lent.has(tab) || this.#owned.has(tab);
  }

  /** @param {number} tab */
  owns(tab) {
    return this.#owned.has(tab);
  }

  /**
   * Whether the lease may act on a page at this address. An empty page and the
   * browser's own page about a failed navigation belong to no website.
   * @param {string} url
   */
  allowed(url) {
    if (url === '' || url.startsWith('about:blank') || url.startsWith('chrome-error:') || url === NOWHERE || isNewTab(url)) return true;
    const origin = originOf(url);
    if (!/^https?:/.test(origin)) return false;
    return this.#origins.size === 0 || this.#origins.has(origin);
  }

  /**
   * Whether a cookie's domain is the host of one of the lease's origins. Ports and schemes
   * are all the same to cookies.
   * @param {string} name
   */
  domain(name) {
    const bare = (/** @type {string} */ host) => host.toLowerCase().replace(/^\[|\]$/g, '');
    return this.#origins.size === 0 || [...this.#origins].some((origin) => bare(new URL(origin).hostname) === bare(name.replace(/^\./, '')));
  }

  /** The lease's tab in front: of the focused window, else the one shown last. 0 if it has none. */
  active() {
    let best = 0;
    let bestTick = -1;
    for (const tab of this.#tabs.values()) {
      if (!this.visible(tab.tab)) continue;
      if (tab.active && tab.window === this.#focused) return tab.tab;
      const tick = tab.active ? tab.shownTick + this.#tick + 1 : tab.shownTick;
      if (tick > bestTick) [best, bestTick] = [tab.tab, tick];
    }
    return best;
  }

  /** The tab in front of every window, visible to the lease or not. */
  inFront() {
    return [...this.#tabs.values()].filter((tab) => tab.active).map((tab) => tab.tab);
  }

  /** @param {number} tab */
  get(tab) {
    return this.#tabs.get(tab);
  }

  all() {
    return [...this.#tabs.values()];
  }
}
