// @ts-check

/**
 * Debugger sessions: one a tab, attached at the first need and kept until the drain
 * has ended. Orders that come while a tab is being attached wait in their order.
 * Nothing here re-attaches by itself.
 */

import {ATTACH_MS, HEARD_MS, LOAD_MS, LOOK_MS, MAX_QUEUED, MAX_REQUESTS, TOLD_MS} from './limits.js';
import {OUTSIDE} from './gate.js';
import {note, refuse} from './refusal.js';
import {isNewTab} from './tabs.js';

/** @typedef {import('./refusal.js').Refusal} Refusal */
/** @typedef {import('./gate.js').Order} Order */

/**
 * @typedef {object} Session
 * @property {number} tab
 * @property {boolean} attached
 * @property {Promise<void> | null} attaching
 * @property {string} mainFrame the DevTools protocol's name of the main frame, '' if not known
 * @property {{order: Order, run: () => void, fail: (error: Refusal) => void}[]} queue
 * @property {Map<Order, (error: Refusal) => void>} open dispatched orders that are not answered
 * @property {Map<string, Paused>} paused requests that Fetch holds back, of which the lease was told
 * @property {Set<string>} fetching sessions in which Fetch is on: children by their names, '' for the tab itself
 * @property {Map<string, number>} buttons mouse buttons that an agent holds, with the modifiers
 * @property {Map<string, Record<string, unknown>>} keys keys that an agent holds
 * @property {Map<string, {target: string, url: string}>} children sessions of its frames in other processes and its workers
 * @property {Shown | null} shown the dialog that its page shows
 * @property {boolean} leaving it is let go when its page shows no dialog any more
 * @property {boolean} everyDocument an agent's script runs in each new document here
 */

/** @typedef {{child: string, requestId: string, auth: boolean, page: boolean}} Paused page: of a document's load */

/** @typedef {{kind: string, message: string, default: string, url: string}} Shown a dialog, and whose it is */

/**
 * @typedef {object} Events
 * @property {(tab: number) => void} crashed
 * @property {(tab: number) => void} asked the main frame's document asked to be replaced
 * @property {(tab: number) => boolean} unloaded whether no process is behind it, as far as events have told
 * @property {(tab: number) => void} dialog the page shows one, or none any more
 * @property {(tab: number) => void} canceled a person ended the debugging
 * @property {(tab: number, child: string, url: string) => boolean} holds whether the lease may hold back a request to an address
 */

const ALREADY = /already attached/i;
/** The browser's rules about its own pages, other extensions' and those that its manager closed. */
const CLOSED = /^Cannot (access|attach to this target)\b|cannot be scripted/i;
const NOT_OURS = /not attached/i;
const ONE_DAY = 86_400_000;
/** What lets a request that is held back go on, or ends it. */
const GOES_ON = new Set(['continueRequest', 'continueResponse', 'continueWithAuth', 'failRequest', 'fulfillRequest'].map((name) => `Fetch.${name}`));
/** What answers a page in the website's place: a script of the agent's may be in it. */
const ANSWERS_PAGE = new Set(['Fetch.continueResponse', 'Fetch.fulfillRequest']);

/** @param {string} child @param {unknown} requestId */
const pausedKey = (child, requestId) => `${child} ${requestId}`;

/**
 * A frame of another process has another page.
 * @param {{target: string, url: string} | undefined} child @param {{id: string, url: string} | undefined} frame
 */
function moved(child, frame) {
  if (child && frame && frame.id === child.target) child.url = frame.url;
}

export class Sessions {
  /** @type {Map<number, Session>} */ #sessions = new Map();
  /** Why the session of an open order was ended. @type {WeakMap<Order, Refusal>} */ #ended = new WeakMap();
  /** What an order lets go on. @type {WeakMap<object, Paused>} */ #going = new WeakMap();
  #browser;
  #gate;
  #documents;
  #events;

  /**
   * @param {import('./browser.js').Browser} browser
   * @param {import('./gate.js').Gate} gate
   * @param {import('./documents.js').Documents} documents
   * @param {Events} events
   */
  constructor(browser, gate, documents, events) {
    this.#browser = browser;
    this.#gate = gate;
    this.#documents = documents;
    this.#events = events;
  }

  /**
   * Takes up the sessions that a former life of the worker has left, so that the drain
   * ends them. Chromium does not say whose a session is; a tab that is another's
   * answers that we are not attached.
   */
  async adopt() {
    if (this.#gate.epoch === 0) return;
    for (const {attached, tabId} of await this.#browser.debugTargets()) {
      if (!attached || !tabId || this.#sessions.has(tabId)) continue;
      const session = this.#make(tabId);
      session.attached = true;
      this.#gate.dispatch(this.#order(tabId, 'Inspector.enable', {})).sent?.then(
        () => {
          this.#setUp(session);
          void this.#system(tabId, 'Fetch.disable', {}); // who held requests back is not known any more
        },
        (error) => {
          if (NOT_OURS.test(String(error)) && this.#sessions.get(tabId) === session) this.#sessions.delete(tabId);
        },
      );
    }
  }

  /** A crashed renderer has refused the set-up, or forgotten it. @param {number} tab */
  revived(tab) {
    const session = this.#sessions.get(tab);
    if (session?.attached) this.#setUp(session);
  }

  /** @param {number} tab */
  attached(tab) {
    return this.#sessions.get(tab)?.attached ?? false;
  }

  /** Whether an agent's script runs in each new document of a tab. @param {number} tab */
  everyDocument(tab) {
    return this.#sessions.get(tab)?.everyDocument ?? false;
  }

  /** The address of a child session's frame or worker, undefined if there is no such session. @param {number} tab @param {string} child */
  child(tab, child) {
    return this.#sessions.get(tab)?.children.get(child)?.url;
  }

  /** The protocol's name of the frame at the top of a tab, '' if not known. @param {number} tab */
  mainFrame(tab) {
    return this.#sessions.get(tab)?.mainFrame ?? '';
  }

  /** The dialog that the page in a tab shows, as far as it is known. @param {number} tab */
  shown(tab) {
    return this.#sessions.get(tab)?.shown ?? null;
  }

  tabs() {
    return [...this.#sessions.values()].filter((session) => session.attached).map((session) => session.tab);
  }

  /**
   * Runs an order in its turn: at once if its tab is attached and nothing waits there.
   * The gate decides again in the turn in which it runs.
   * @param {Order} order @param {boolean} needsDebugger
   * @param {() => void} run @param {(error: Refusal) => void} fail it was not dispatched
   */
  submit(order, needsDebugger, run, fail) {
    const left = this.#sessions.get(order.tab);
    // What a former agent has set in its session is not to reach the next.
    if (left?.leaving) void this.#leave(left);
    const session = this.#sessions.get(order.tab);
    if (session ? session.queue.length === 0 && (session.attached || !needsDebugger) : !needsDebugger) {
      run();
      return;
    }
    const refused = this.#gate.check(order);
    if (refused) {
      fail(refused);
      return;
    }
    const it = session ?? this.#make(order.tab);
    if (it.queue.length >= MAX_QUEUED) {
      fail(refuse('limit', 'too many commands wait for this tab'));
      return;
    }
    it.queue.push({order, run, fail});
    if (it.queue.length === 1) this.#attach(it, order);
  }

  /**
   * Attaches for the system's own work.
   * @param {number} tab
   */
  async attach(tab) {
    const session = this.#sessions.get(tab) ?? this.#make(tab);
    session.leaving = false;
    if (session.attached) return;
    try {
      await this.#attachNow(session);
    } catch (error) {
      if (this.#sessions.get(tab) === session && session.queue.length === 0) this.#sessions.delete(tab);
      throw error;
    }
  }

  /**
   * Notes what a dispatched order leaves held, paused or open.
   * @param {Order} order @param {(error: Refusal) => void} crashed
   */
  dispatched(order, crashed) {
    const session = this.#sessions.get(order.tab);
    if (!session) return;
    session.open.set(order, crashed);
    const {method, params} = order;
    if (method === 'Input.dispatchMouseEvent') {
      if (params.type === 'mousePressed' && params.button && params.button !== 'none') {
        session.buttons.set(params.button, params.modifiers ?? 0);
      } else if (params.type === 'mouseReleased') {
        session.buttons.delete(params.button);
      }
    } else if (method === 'Input.dispatchKeyEvent') {
      const name = String(params.code || params.key || params.windowsVirtualKeyCode || '');
      if (params.type === 'keyDown' || params.type === 'rawKeyDown') session.keys.set(name, params);
      else if (params.type === 'keyUp') session.keys.delete(name);
    } else if (method === 'Page.addScriptToEvaluateOnNewDocument') {
      session.everyDocument = true;
    } else if (method === 'Fetch.enable') {
      session.fetching.add(order.session ?? '');
    } else if (method === 'Fetch.disable') {
      this.#forgetFetch(session, order.session ?? '');
    } else if (GOES_ON.has(method)) {
      const held = session.paused.get(pausedKey(order.session ?? '', params.requestId));
      if (held) this.#going.set(order, held);
      if (ANSWERS_PAGE.has(method)) {
        session.everyDocument = true; // which document gets the answer is not known
        if (held?.page) this.#documents.answers(order.tab);
      }
    }
  }

  /** An order's promise has settled. @param {Order} order @param {boolean} [done] */
  answered(order, done = false) {
    const session = this.#sessions.get(order.tab);
    session?.open.delete(order);
    const went = done && this.#going.get(order);
    if (!went) return;
    const key = pausedKey(went.child, went.requestId);
    // The same request may be held back again by now, at its answer.
    if (session?.paused.get(key) === went) session.paused.delete(key);
  }

  /** Whether the lease was told of a request that is held back. @param {number} tab @param {string} child @param {unknown} requestId */
  paused(tab, child, requestId) {
    return this.#sessions.get(tab)?.paused.has(pausedKey(child, requestId)) ?? false;
  }

  /**
   * A request is held back. One that is not the lease's to hold goes on.
   * @param {Session} session @param {string} child @param {any} params @param {boolean} auth
   */
  #pause(session, child, {requestId, request, resourceType}, auth) {
    if (session.paused.size < MAX_REQUESTS && this.#events.holds(session.tab, child, String(request?.url))) {
      session.paused.set(pausedKey(child, requestId), {child, requestId, auth, page: resourceType === 'Document'});
    } else if (auth) {
      void this.#system(session.tab, 'Fetch.continueWithAuth', {requestId, authChallengeResponse: {response: 'Default'}}, undefined, child);
    } else {
      void this.#system(session.tab, 'Fetch.continueRequest', {requestId}, undefined, child);
    }
  }

  /** @param {Session} session @param {string} child */
  #forgetFetch(session, child) {
    session.fetching.delete(child);
    for (const [key, one] of session.paused) if (one.child === child) session.paused.delete(key);
  }

  /** Fails the requests that an agent holds back, and holds back none from here on. */
  letRequestsGo() {
    for (const {tab, attached, paused, fetching} of this.#sessions.values()) {
      if (!attached) continue;
      for (const {child, requestId, auth} of paused.values()) {
        if (auth) void this.#system(tab, 'Fetch.continueWithAuth', {requestId, authChallengeResponse: {response: 'CancelAuth'}}, undefined, child);
        else void this.#system(tab, 'Fetch.failRequest', {requestId, errorReason: 'Aborted'}, undefined, child);
      }
      for (const child of fetching) void this.#system(tab, 'Fetch.disable', {}, undefined, child);
      paused.clear();
      fetching.clear();
    }
  }

  /** @param {number} tab @param {string} child @param {string} method @param {any} params */
  event(tab, child, method, params) {
    const session = this.#sessions.get(tab);
    if (!session) return;
    switch (method) {
      case 'Inspector.targetCrashed':
        if (child) this.#childEnded(session, child, 'the frame’s renderer crashed');
        else this.#crashed(session);
        return;
      case 'Target.attachedToTarget':
        session.children.set(params.sessionId, {target: params.targetInfo?.targetId ?? '', url: params.targetInfo?.url ?? ''});
        // So that it is told where a frame goes to.
        if (params.targetInfo?.type === 'iframe') this.#system(tab, 'Page.enable', {}, undefined, params.sessionId);
        return;
      case 'Target.detachedFromTarget':
        session.children.delete(params.sessionId);
        this.#forgetFetch(session, params.sessionId);
        this.#childEnded(session, params.sessionId, 'the frame or worker has ended');
        return;
      case 'Page.frameNavigated':
        if (child) moved(session.children.get(child), params.frame);
        if (!child && params.frame && !params.frame.parentId) session.mainFrame = params.frame.id;
        return;
      case 'Page.frameRequestedNavigation':
        if (child || (params.disposition && params.disposition !== 'currentTab')) return;
        if (params.frameId !== session.mainFrame) return;
        this.#events.asked(tab);
        return;
      case 'Fetch.requestPaused':
      case 'Fetch.authRequired':
        this.#pause(session, child, params, method === 'Fetch.authRequired');
        return;
      case 'Page.javascriptDialogOpening':
        if (params.type === 'beforeunload' && this.#gate.stopping) {
          this.#system(tab, 'Page.handleJavaScriptDialog', {accept: true}, 'beforeunload');
          return;
        }
        session.shown = {kind: params.type, message: params.message, default: params.defaultPrompt ?? '', url: params.url};
        this.#events.dialog(tab);
        return;
      case 'Page.javascriptDialogClosed':
        session.shown = null;
        this.#events.dialog(tab);
        if (session.leaving) void this.#leave(session);
    }
  }

  /** @param {number} tab @param {string} reason of chrome.debugger.onDetach */
  detached(tab, reason) {
    const session = this.#sessions.get(tab);
    this.#sessions.delete(tab);
    // What was open is answered by its own promise, with an error that proves nothing.
    if (session) this.#fail(session, refuse('unavailable', `the debugger was detached: ${reason}`));
    if (reason === 'canceled_by_user') this.#events.canceled(tab);
  }

  /**
   * Ends one tab's session, in this turn: nothing more comes of it. What was open there is
   * answered by its own promise, in the words that are given here; what becomes of it is
   * not known.
   * @param {number} tab @param {Refusal} why
   */
  async letGo(tab, why) {
    const session = this.#sessions.get(tab);
    if (!session) return;
    this.#release(session);
    for (const order of session.open.keys()) this.#ended.set(order, why);
    this.#drop(session, why);
    await this.#browser.detach(tab).catch((/** @type {unknown} */ error) => note('detach', error));
  }

  /** Why the session in which an order was open was ended by us, if it was. @param {Order} order */
  ended(order) {
    return this.#ended.get(order);
  }

  /** Lets go of everything that an agent holds down, and fails what Fetch holds back. */
  release() {
    this.letRequestsGo();
    for (const session of this.#sessions.values()) if (session.attached) this.#release(session);
  }

  /** @param {Session} session */
  #release({tab, keys, buttons}) {
    for (const {key, code, windowsVirtualKeyCode, location} of keys.values()) {
      const up = {type: 'keyUp', key, code, windowsVirtualKeyCode, location};
      this.#system(tab, 'Input.dispatchKeyEvent', JSON.parse(JSON.stringify(up)));
    }
    for (const button of buttons.keys()) {
      this.#system(tab, 'Input.dispatchMouseEvent', {type: 'mouseReleased', x: OUTSIDE, y: OUTSIDE, button, clickCount: 0});
    }
    keys.clear();
    buttons.clear();
  }

  /**
   * Ends the renderer of a tab. It is proved by the crash that is seen, not by this. Chromium
   * does not end a page that is on its way to another, nor one whose dialog keeps it from that.
   * @param {number} tab
   */
  crash(tab) {
    void this.#system(tab, 'Page.handleJavaScriptDialog', {accept: false}, 'ending');
    void this.#system(tab, 'Page.stopLoading', {});
    return this.#system(tab, 'Page.crash', {});
  }

  /**
   * Detaches from every tab. One whose page shows a dialog is left when that is closed, or the
   * next agent comes: who attaches later is not told of it, and cannot end the page for a person.
   */
  async detachAll() {
    for (const session of this.#sessions.values()) session.leaving = true;
    await Promise.all([...this.#sessions.values()].filter(({shown}) => !shown).map((session) => this.#leave(session)));
  }

  /** Detaches from a tab that nobody uses any more. @param {Session} session */
  async #leave(session) {
    this.#drop(session, refuse('fenced', 'a person or another lease has this browser now'));
    if (session.attached) await this.#browser.detach(session.tab).catch((/** @type {unknown} */ error) => note('detach', error));
  }

  /** @param {number} tab @returns {Session} */
  #make(tab) {
    const session = {
      tab, attached: false, attaching: null, mainFrame: '', queue: [], open: new Map(),
      paused: new Map(), fetching: new Set(), buttons: new Map(), keys: new Map(), children: new Map(), shown: null, leaving: false, everyDocument: false,
    };
    this.#sessions.set(tab, session);
    return session;
  }

  /** @param {Session} session @param {Order} order the one that needs it */
  async #attach(session, order) {
    try {
      if (isNewTab(this.#documents.url(session.tab))) {
        // The browser's own page takes no debugger, and nothing of a website is lost.
        const blank = {...order, kind: 'tab_blank', document: '', method: ''};
        const {refused, sent} = this.#gate.dispatch(blank);
        if (refused) {
          this.#drop(session, refused);
          return;
        }
        await sent;
      }
      if (this.#mayLackPage(session.tab)) {
        const refused = await this.#load(session, order);
        if (refused) {
          this.#drop(session, refused);
          return;
        }
      }
      await this.#attachNow(session);
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      const refused = CLOSED.test(text)
        ? refuse('conflict', `the browser lets no debugger into the page that is in this tab: ${text}`, 'open another tab')
        : refuse('unavailable', `the tab cannot be driven now: ${text}`);
      this.#drop(session, refused);
      return;
    }
    if (this.#sessions.get(session.tab) !== session) return;
    for (let next = session.queue.shift(); next; next = session.queue.shift()) next.run();
  }

  /** A crashed page is none that only has to be loaded. @param {number} tab */
  #mayLackPage(tab) {
    return !this.#documents.dead(tab) && (!this.#documents.current(tab) || this.#events.unloaded(tab));
  }

  /**
   * A tab that the browser has restored, or whose page it has discarded, has no renderer:
   * a debugger would be told that it has crashed. Its page comes first, before any command
   * is dispatched there, so that the load is no action's.
   * @param {Session} session @param {Order} order the one that needs it
   * @returns {Promise<Refusal | null>} null: attach
   */
  async #load(session, order) {
    const {tab} = session;
    const before = this.#documents.current(tab);
    const {status, discarded} = await this.#browser.tab(tab);
    const lacks = () => this.#documents.current(tab) === before;
    // One that crashed unseen has no process either, but is not marked as discarded.
    if (!lacks() || (before && !discarded)) return null;
    // The browser loads those that it has restored one by one: what it has begun goes on.
    if (status === 'unloaded') {
      const {refused, sent} = this.#gate.dispatch({...order, kind: 'tab_load', document: '', method: '', session: ''});
      if (refused) return refused;
      await sent;
    } else if (status !== 'loading') {
      return null;
    }
    const end = this.#browser.monoMs() + LOAD_MS;
    for (;;) {
      this.#refuseWaiting(session);
      if (session.queue.length === 0) return refuse('unavailable', 'no command waits for this tab any more');
      if (!lacks()) return null;
      if (this.#browser.monoMs() >= end) return refuse('unavailable', 'the page in this tab has not been loaded yet', 'try again, or use another tab');
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** What waits for a page to come and may not be dispatched any more is not kept. @param {Session} session */
  #refuseWaiting(session) {
    const waiting = session.queue.splice(0);
    for (const one of waiting) {
      const {monoMs, wallMs} = one.order;
      const refused = this.#gate.check({...one.order, monoMs: monoMs - HEARD_MS, wallMs: wallMs - HEARD_MS});
      if (refused) one.fail(refused);
      else session.queue.push(one);
    }
  }

  /** @param {Session} session */
  #attachNow(session) {
    session.attaching ??= this.#attachInTime(session).finally(() => {
      session.attaching = null;
    });
    return session.attaching;
  }

  /** @param {Session} session */
  async #attachInTime(session) {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('the browser did not attach in time')), ATTACH_MS);
    });
    try {
      await Promise.race([late, this.#attachOnce(session)]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {Session} session */
  async #attachOnce(session) {
    const {tab} = session;
    try {
      await this.#browser.attach(tab);
    } catch (error) {
      if (!ALREADY.test(error instanceof Error ? error.message : '')) throw error;
      // Left by a former life of the worker. If it is another's, this fails too.
      await this.#browser.detach(tab).catch((/** @type {unknown} */ gone) => note('detach', gone));
      await this.#browser.attach(tab);
    }
    if (this.#sessions.get(tab) !== session) {
      // A fence let go of every tab while this one was being attached.
      await this.#browser.detach(tab);
      throw new Error('the tab was let go meanwhile');
    }
    // In the turn of the check: whoever lets go of all tabs from here on sees this one.
    session.attached = true;
    this.#setUp(session);
    // That a renderer has crashed while nobody was attached is told by now, and not later, when
    // it would be taken for the end of what the agent has sent.
    await Promise.race([this.#browser.ping(), new Promise((resolve) => setTimeout(resolve, TOLD_MS))]);
  }

  /** What the evidence rests on. The agent's own command follows without waiting for it. @param {Session} session */
  #setUp(session) {
    this.#system(session.tab, 'Page.enable', {});
    this.#system(session.tab, 'Inspector.enable', {});
    this.#system(session.tab, 'Emulation.setFocusEmulationEnabled', {enabled: true});
    this.#system(session.tab, 'Page.getFrameTree', {}).then((tree) => {
      session.mainFrame ||= tree?.frameTree?.frame?.id ?? '';
    });
  }

  /**
   * The system's own command, under the epoch in force.
   * @param {number} tab @param {string} method @param {Record<string, unknown>} params @param {string} [dialog] @param {string} [child]
   * @returns {Promise<any>} never rejected: its answer decides nothing
   */
  #system(tab, method, params, dialog, child) {
    const {refused, sent} = this.#gate.dispatch({...this.#order(tab, method, params, dialog), session: child ?? ''});
    if (refused) {
      note(`${method} was refused`, refused.message);
      return Promise.resolve(undefined);
    }
    return sent.catch((error) => note(method, error));
  }

  /**
   * @param {number} tab @param {string} method @param {Record<string, unknown>} params @param {string} [dialog]
   * @returns {Order}
   */
  #order(tab, method, params, dialog) {
    return {
      by: 'system', kind: 'cdp', epoch: this.#gate.epoch, port: null, tab, frame: 0, document: '', method, params,
      monoMs: this.#browser.monoMs() + ONE_DAY, wallMs: this.#browser.wallMs() + ONE_DAY,
      action: '', seq: 0, effect: false, script: false, dialog,
    };
  }

  /** @param {Session} session */
  #crashed(session) {
    // Attaching to a tab that is dead already says so once more; what may revive it is
    // under way.
    if (this.#documents.dead(session.tab)) return;
    const open = [...session.open.values()];
    session.open.clear();
    session.keys.clear();
    session.buttons.clear();
    session.paused.clear();
    session.shown = null;
    // These promises never settle: the answer is that there will be none.
    for (const crashed of open) crashed(refuse('unavailable', 'the page’s renderer crashed'));
    this.#events.crashed(session.tab);
    if (session.leaving) void this.#leave(session);
  }

  /**
   * What was asked of a child that has ended is never answered.
   * @param {Session} session @param {string} child @param {string} why
   */
  #childEnded(session, child, why) {
    for (const [order, ended] of session.open) {
      if (order.session !== child) continue;
      session.open.delete(order);
      ended(refuse('unavailable', why));
    }
  }

  /** @param {Session} session @param {Refusal} error */
  #drop(session, error) {
    if (this.#sessions.get(session.tab) === session) this.#sessions.delete(session.tab);
    this.#fail(session, error);
  }

  /** @param {Session} session @param {Refusal} error */
  #fail(session, error) {
    for (const {fail} of session.queue.splice(0)) fail(error);
  }
}
