// @ts-check

/**
 * The only module that names chrome.*. It decides nothing and keeps nothing, so
 * that everything else runs under a test with this one seam replaced.
 */

import {LEAVE_MS, MAX_PROBE_TEXT} from './limits.js';
import {NOWHERE} from './tabs.js';

/** @typedef {typeof browser} Browser */

const ALL = {urls: ['<all_urls>']};

/**
 * Runs in a page, and so names nothing from here.
 * @param {string} selector @param {number} max
 * @returns {{found: number, text: string, cut: boolean}} found: -1 if that is no selector
 */
function textOf(selector, max) {
  let found;
  try {
    found = document.querySelectorAll(selector);
  } catch {
    return {found: -1, text: '', cut: false};
  }
  const [it] = found;
  if (found.length !== 1) return {found: found.length, text: '', cut: false};
  // What a person would see; SVG and the like have no such text.
  const text = String((it instanceof HTMLElement ? it.innerText : it.textContent) ?? '').replace(/\s+/g, ' ').trim();
  return {found: 1, text: text.slice(0, max), cut: text.length > max};
}

export const browser = {
  id: () => chrome.runtime.id,
  popupURL: () => chrome.runtime.getURL('popup.html'),
  /** Milliseconds: one that never jumps, one that people read. */
  monoMs: () => performance.now(),
  wallMs: () => Date.now(),
  uuid: () => crypto.randomUUID(),
  userAgent: () => navigator.userAgent,

  connectHost: () => chrome.runtime.connectNative('dev.sessiondock.host'),
  lastError: () => chrome.runtime.lastError?.message ?? '',
  connectWorker: () => chrome.runtime.connect({name: 'popup'}),

  /** What stands at the toolbar button. @param {string} text */
  badge: (text) => chrome.action.setBadgeText({text}),

  /** @param {number} tabId */
  attach: (tabId) => chrome.debugger.attach({tabId}, '1.3'),
  /** @param {number} tabId */
  detach: (tabId) => chrome.debugger.detach({tabId}),
  /** The least that the browser can be asked: its answer comes after all events that are ahead of it. */
  ping: () => chrome.runtime.getPlatformInfo(),
  debugTargets: () => chrome.debugger.getTargets(),
  /**
   * @param {number} tabId @param {string} method @param {Record<string, unknown>} params
   * @param {string} [sessionId] of a child: a frame of another process, a worker
   * @returns {Promise<unknown>}
   */
  sendCommand: (tabId, method, params, sessionId) =>
    chrome.debugger.sendCommand(sessionId ? {tabId, sessionId} : {tabId}, method, params),
  /**
   * A no-op in one document: it runs after everything queued there before it.
   * @param {number} tabId @param {string} documentId
   */
  runNothing: (tabId, documentId) =>
    chrome.scripting.executeScript({
      target: {tabId, documentIds: [documentId]},
      func: () => {},
      injectImmediately: true,
    }),

  tabs: () => chrome.tabs.query({}),
  /** @param {number} tabId */
  tab: (tabId) => chrome.tabs.get(tabId),
  /** @param {string} url @param {boolean} active */
  createTab: (url, active) => chrome.tabs.create({url, active}),
  /** @param {number} tabId */
  closeTab: (tabId) => chrome.tabs.remove(tabId),
  /** @param {number} tabId */
  activateTab: (tabId) => chrome.tabs.update(tabId, {active: true}),
  /**
   * Has the page of a tab come that is not loaded; the tab stays where it is. Where a form
   * was sent to get that page, the browser brings the tab to the front to ask a person, and
   * then takes it from its cache: nothing is sent a second time.
   * @param {number} tabId
   */
  loadTab: (tabId) => chrome.tabs.reload(tabId),
  /**
   * Puts a page that no website has in a tab. An empty one would have the extension's own
   * origin, as whatever an extension navigates to it has: the browser's page about an
   * address that cannot be opened has none. It has come when this is answered, or does not.
   * @param {number} tabId
   */
  blankTab: async (tabId) => {
    await chrome.tabs.update(tabId, {url: NOWHERE});
    const late = Date.now() + LEAVE_MS;
    while (Date.now() < late && (await chrome.webNavigation.getFrame({tabId, frameId: 0}))?.url !== NOWHERE) {
      await new Promise((again) => setTimeout(again, 20));
    }
  },
  /**
   * Has a page leave for the empty one by itself, so that this one has the page's origin.
   * It is asked in the page, behind what is queued there. The promise is rejected in plain
   * words, which prove nothing, if it has not left in time: it may yet.
   * @param {number} tabId @param {string} mainFrame the DevTools protocol's name of it, '' if not known
   * @returns {Promise<{frameId: string, loaderId?: string}>} as Page.navigate answers,
   *   before the page has come
   */
  leaveForBlank: (tabId, mainFrame) =>
    new Promise((answer, fail) => {
      const end = () => chrome.debugger.onEvent.removeListener(seen);
      /** @param {chrome.debugger.DebuggerSession} source @param {string} method @param {any} params */
      const seen = (source, method, params) => {
        if (source.tabId !== tabId || source.sessionId) return;
        const begins = method === 'Page.frameStartedNavigating' ? {...params, id: params.frameId} : null;
        const {id, parentId, loaderId, url} = begins ?? (method === 'Page.frameNavigated' ? params.frame : {});
        // Frames in the page go to empty pages too. Only what has come says whether it is one.
        if (url !== 'about:blank' || parentId || (mainFrame ? id !== mainFrame : begins)) return;
        end();
        answer({frameId: id, loaderId});
      };
      chrome.debugger.onEvent.addListener(seen);
      chrome.debugger.sendCommand({tabId}, 'Runtime.evaluate', {expression: "location.href = 'about:blank'"}).then(
        () => setTimeout(() => (end(), fail(new Error('the page has not left for the empty one in time'))), LEAVE_MS),
        (error) => (end(), fail(error)),
      );
    }),
  /**
   * What the console of a page has been told so far: the browser keeps it, and tells it whoever
   * begins to listen, before it answers. Nobody listens any more afterwards.
   * @param {number} tabId
   * @returns {Promise<{method: string, params: any}[]>} the events, as the DevTools protocol has them
   */
  readConsole: async (tabId) => {
    /** @type {{method: string, params: any}[]} */
    const told = [];
    /** @param {chrome.debugger.DebuggerSession} source @param {string} method @param {any} params */
    const hears = (source, method, params) => {
      if (source.tabId !== tabId || source.sessionId) return;
      if (method === 'Runtime.consoleAPICalled' || method === 'Runtime.exceptionThrown' || method === 'Log.entryAdded') told.push({method, params});
    };
    chrome.debugger.onEvent.addListener(hears);
    try {
      const asks = ['Runtime.enable', 'Log.enable', 'Runtime.disable', 'Log.disable'];
      await Promise.all(asks.map((method) => chrome.debugger.sendCommand({tabId}, method)));
      return told;
    } finally {
      chrome.debugger.onEvent.removeListener(hears);
    }
  },
  /** @param {string} targetId the browser's name of a worker */
  attachWorker: (targetId) => chrome.debugger.attach({targetId}, '1.3'),
  /** @param {string} targetId */
  detachWorker: (targetId) => chrome.debugger.detach({targetId}),
  /** Ends a shared worker, which does that itself when it is asked to. @param {string} targetId */
  closeWorker: (targetId) => chrome.debugger.sendCommand({targetId}, 'Runtime.evaluate', {expression: 'self.close()'}),
  /** @param {number} tabId @param {string} url */
  gotoTab: (tabId, url) => chrome.tabs.update(tabId, {url}),
  /**
   * The text of the one element that a selector names. It is read in a world of ours,
   * where a page's scripts change nothing of what is called.
   * @param {number} tabId @param {string} documentId @param {string} selector
   */
  readText: (tabId, documentId, selector) =>
    chrome.scripting.executeScript({
      target: {tabId, documentIds: [documentId]},
      func: textOf,
      args: [selector, MAX_PROBE_TEXT],
      injectImmediately: true,
    }),

  /** @param {number} tabId */
  frames: (tabId) => chrome.webNavigation.getAllFrames({tabId}),
  /** @param {number} tabId */
  mainFrame: (tabId) => chrome.webNavigation.getFrame({tabId, frameId: 0}),
  /** @param {string} documentId */
  frameOf: (documentId) => chrome.webNavigation.getFrame({documentId}),

  /** @param {string[]} keys */
  loadLocal: (keys) => chrome.storage.local.get(keys),
  /** @param {Record<string, unknown>} items */
  saveLocal: (items) => chrome.storage.local.set(items),
  /** @param {string[]} keys */
  loadSession: (keys) => chrome.storage.session.get(keys),
  /** @param {Record<string, unknown>} items */
  saveSession: (items) => chrome.storage.session.set(items),

  /** Wakes a worker that has nothing else to keep it; half a minute is the least there is. */
  wakeEveryHalfMinute: () => chrome.alarms.create('reconnect', {periodInMinutes: 0.5}),

  /** Registration of listeners: all of them in the worker's first turn. */
  on: {
    /** @param {() => void} f */
    alarm: (f) => chrome.alarms.onAlarm.addListener(f),
    /** @param {() => void} f */
    startup: (f) => chrome.runtime.onStartup.addListener(f),
    /** @param {() => void} f */
    installed: (f) => chrome.runtime.onInstalled.addListener(f),
    /** @param {(port: chrome.runtime.Port) => void} f */
    connect: (f) => chrome.runtime.onConnect.addListener(f),
    /** @param {(tab: number, session: string, method: string, params: any) => void} f */
    debuggerEvent: (f) =>
      chrome.debugger.onEvent.addListener((source, method, params) =>
        f(source.tabId ?? 0, source.sessionId ?? '', method, params ?? {}),
      ),
    /** @param {(tab: number, reason: string) => void} f */
    debuggerDetach: (f) => chrome.debugger.onDetach.addListener((source, reason) => f(source.tabId ?? 0, reason)),
    /** @param {(details: any) => void} f */
    committed: (f) => chrome.webNavigation.onCommitted.addListener(f),
    /** @param {(details: any) => void} f */
    navigationError: (f) => chrome.webNavigation.onErrorOccurred.addListener(f),
    /** Moves within one document. @param {(details: any) => void} f */
    sameDocument: (f) => {
      chrome.webNavigation.onHistoryStateUpdated.addListener(f);
      chrome.webNavigation.onReferenceFragmentUpdated.addListener(f);
    },
    /** @param {(details: {sourceTabId: number, tabId: number}) => void} f */
    navigationTarget: (f) => chrome.webNavigation.onCreatedNavigationTarget.addListener(f),
    /** @param {(tab: chrome.tabs.Tab) => void} f */
    tabCreated: (f) => chrome.tabs.onCreated.addListener(f),
    /** @param {(id: number, change: any, tab: chrome.tabs.Tab) => void} f */
    tabUpdated: (f) => chrome.tabs.onUpdated.addListener(f),
    /** @param {(tab: number) => void} f */
    tabRemoved: (f) => chrome.tabs.onRemoved.addListener((tabId) => f(tabId)),
    /** @param {(tab: number, window: number) => void} f */
    tabActivated: (f) => chrome.tabs.onActivated.addListener(({tabId, windowId}) => f(tabId, windowId)),
    /** @param {(added: number, removed: number) => void} f */
    tabReplaced: (f) => chrome.tabs.onReplaced.addListener(f),
    /** @param {(window: number) => void} f */
    windowFocused: (f) => chrome.windows.onFocusChanged.addListener(f),
    /** @param {(details: any) => void} f */
    request: (f) => chrome.webRequest.onBeforeRequest.addListener((d) => void f(d), ALL),
    /** @param {(details: any) => void} f */
    redirect: (f) => chrome.webRequest.onBeforeRedirect.addListener(f, ALL),
    /** @param {(details: any) => void} f */
    response: (f) => chrome.webRequest.onResponseStarted.addListener(f, ALL),
    /** @param {(details: any) => void} f */
    requestError: (f) => chrome.webRequest.onErrorOccurred.addListener(f, ALL),
    /** @param {(item: any) => void} f */
    downloadCreated: (f) => chrome.downloads.onCreated.addListener(f),
    /** @param {(delta: any) => void} f */
    downloadChanged: (f) => chrome.downloads.onChanged.addListener(f),
  },
};
