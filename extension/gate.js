// @ts-check

/**
 * The dispatch gate, third of three. `Gate.dispatch` decides and acts in one turn
 * of the event loop, and nothing else in the extension has an effect on a page or
 * a tab. It keeps no history: what it may do follows from its fields at that
 * instant (I3, I4).
 *
 * Two kinds of principal come through it. An agent's orders pass only under an
 * open grant. The system's own (settlement, set-up, and a probe's look at the page
 * that the daemon has named) pass only from closed lists, and only under the epoch now
 * in force.
 */

import {METHODS, NEEDS} from './gen/wire.js';
import {MAX_EPOCH} from './limits.js';
import {refuse} from './refusal.js';
import {isCookieHeader, notAllowed, scope} from './scope.js';
import {isWeb, originOf} from './tabs.js';

/** @typedef {import('./refusal.js').Refusal} Refusal */
/** @typedef {import('./browser.js').Browser} Browser */

/**
 * @typedef {object} Grant
 * @property {number} epoch
 * @property {string} lease
 * @property {number} monoMs when it ends, on the clock that never jumps
 * @property {number} wallMs when it ends, on the wall clock
 * @property {number} watchMs
 * @property {string[]} [allow] the settings of its binding
 */

/**
 * @typedef {object} Order one thing to be done, with what it expects
 * @property {'agent' | 'system'} by
 * @property {string} kind cdp, barrier, document, network, console, tabs, tab_create, tab_close, tab_activate,
 *   tab_blank, tab_load, watch; the system's alone: tab_goto, text, worker_close
 * @property {number} epoch
 * @property {unknown} port the native port it came by; the system's have none
 * @property {number} tab 0 if it concerns no tab
 * @property {number} frame
 * @property {string} document expected in that frame; '' if any will do
 * @property {string} method
 * @property {Record<string, any>} params
 * @property {string} [session] a child session of the tab's
 * @property {number} monoMs may not be dispatched after this
 * @property {number} wallMs nor after this
 * @property {string} action
 * @property {number} seq
 * @property {boolean} effect
 * @property {boolean} [raw] a DevTools client's own
 * @property {boolean} script
 * @property {string} [dialog] the kind of dialog that a system order answers
 */

/**
 * @typedef {object} State what the gate decides on
 * @property {unknown} port the current native port, null without one
 * @property {boolean} linked whether that port has an attested daemon behind it
 * @property {number} epoch the epoch in force: never lowered
 * @property {Grant | null} grant
 * @property {object | null} hold a person's press of "Take over"
 * @property {boolean} stopping a clean stop is being prepared
 * @property {ProbePage | null} probe the page that the system may look at now
 */

/**
 * @typedef {object} ProbePage as the daemon named it
 * @property {number} epoch under which, and under no other
 * @property {string} url
 * @property {string} selector '' if an expression is read
 * @property {string} expression
 * @property {number} tab made for it, 0 before
 */

/**
 * @typedef {object} View what the browser looks like now
 * @property {(tab: number) => boolean} visible to the lease
 * @property {(tab: number) => boolean} owns made under the lease
 * @property {(tab: number) => boolean} probes made for a probe, or opened from such a tab
 * @property {(url: string) => boolean} allowed by the lease's origins
 * @property {(tab: number) => boolean} dead its renderer has crashed, and nothing has come since
 * @property {(tab: number) => string} url of its main document
 * @property {(tab: number, session: string) => string | undefined} child the address of a child session's
 *   frame or worker, undefined if the tab has no such session
 * @property {(tab: number) => string} mainFrame the DevTools protocol's name of the frame at the top of a tab, '' if
 *   not known
 * @property {(tab: number, frame: number) => string} document now in the frame, '' if not known
 * @property {(domain: string) => boolean} domain whether it is the host of one of the lease's origins
 * @property {(tab: number, session: string, request: unknown) => boolean} paused the lease was told of a request that is held back
 * @property {(target: unknown) => boolean} listed a worker that a drain has told of
 * @property {(action: string) => boolean} room to record one more action
 */

/** Whether an order leads to the empty page. @param {Order} order */
const toBlank = ({method, params}) => method === 'Page.navigate' && params.url === 'about:blank';

/** Outside every viewport: a release there is no click. */
export const OUTSIDE = -10;

/** Whether the lease was told that a request is held back. @param {Order} order @param {View} view */
const isHeld = ({tab, session, params}, view) => view.paused(tab, session ?? '', params.requestId);

/** @type {[string, (order: Order, state: State, view: View) => boolean][]} */
const SYSTEM_COMMANDS = [
  // Settlement: only what ends or releases something. What an agent holds back does not go on.
  ['Fetch.failRequest', () => true],
  ['Fetch.disable', () => true],
  ['Fetch.continueRequest', (order, _, view) => Object.keys(order.params).length === 1 && !isHeld(order, view)],
  [
    'Fetch.continueWithAuth',
    (order, _, view) => ({CancelAuth: true, Default: !isHeld(order, view)})[String(order.params.authChallengeResponse?.response)] === true,
  ],
  ['Page.crash', () => true],
  ['Input.dispatchKeyEvent', ({params}) => params.type === 'keyUp'],
  [
    'Input.dispatchMouseEvent',
    ({params}) => params.type === 'mouseReleased' && params.x === OUTSIDE && params.y === OUTSIDE,
  ],
  [
    'Page.handleJavaScriptDialog',
    ({dialog, params}, state) =>
      (state.stopping && dialog === 'beforeunload' && params.accept === true) || (dialog === 'ending' && params.accept === false),
  ],
  ['Page.stopLoading', () => true],
  // Set-up of a session: what the evidence rests on.
  ['Page.enable', () => true],
  ['Page.getFrameTree', () => true],
  ['Inspector.enable', () => true],
  ['Emulation.setFocusEmulationEnabled', ({params}) => params.enabled === true],
];
// A map, so that no name of Object.prototype is on the list.
const SYSTEM = new Map(SYSTEM_COMMANDS);

/** @type {[string, (order: Order, page: ProbePage) => boolean][]} */
const PROBE_ORDERS = [
  // An empty tab, made out of sight; it is known before it is given a page.
  ['tab_create', ({params}, {tab}) => tab === 0 && params.url === 'about:blank' && params.active === false],
  ['tab_goto', ({tab, params}, page) => tab === page.tab && params.url === page.url],
  ['text', ({tab, params}, page) => tab === page.tab && page.selector !== '' && params.selector === page.selector],
  [
    'cdp',
    ({tab, method, params}, page) =>
      tab === page.tab && method === 'Runtime.evaluate' && params.throwOnSideEffect === true &&
      page.expression !== '' && params.expression === page.expression,
  ],
];
const PROBE = new Map(PROBE_ORDERS);
const READS = new Set(['text', 'cdp']);
const NOT_AGENTS = new Set(['tab_goto', 'text', 'worker_close']);

const BACK = 'Page.navigateToHistoryEntry';
const REVIVES = new Set(['Page.navigate', 'Page.reload', 'tab_activate']);
/** These only let something go on, or listen; who leaves a page needs them. */
const RELEASES = new Set(['Runtime.runIfWaitingForDebugger', 'Page.handleJavaScriptDialog', 'Page.stopLoading']);

/** Only a comment, as clients send it to have a world of their own. */
const NO_CODE = /^\s*(\/\/[^\n\r\u2028\u2029]*)?\s*$/;
/** An address that no list of origins has. */
const ELSEWHERE = 'https://elsewhere.invalid/';

/** Whether an address says whose page it is; a data: or about: one is its parent's. @param {string} url */
export const isPlace = (url) => url !== '' && !/^(about|data|blob|javascript):/.test(url);

/**
 * @param {string} code @param {string} message @param {string} [hint]
 */
const no = (code, message, hint) => refuse(code, message, hint);

/**
 * @param {State} state @param {Order} order @param {View} view
 * @returns {Refusal | null}
 */
function decideTab(state, order, view) {
  if (!view.visible(order.tab)) {
    return no('not_found', `tab ${order.tab} is not one of this lease's`, 'list the tabs, or open one');
  }
  if (order.kind === 'tab_close') {
    return view.owns(order.tab)
      ? null
      : no('policy', 'this tab is lent: it may be used, not closed', 'close only tabs opened under this lease');
  }
  // The way back from a page that the binding does not list must stay open. An empty page
  // would have that page's origin.
  const leaving = (order.method === 'Page.navigate' && !toBlank(order)) || order.kind === 'tab_activate' || RELEASES.has(order.method);
  if (!leaving && !view.allowed(view.url(order.tab))) {
    return no('policy', 'the page in this tab is not within the binding’s origins', 'navigate back to one that is');
  }
  if (order.session) {
    const url = view.child(order.tab, order.session);
    if (url === undefined) return no('not_found', 'this tab has no such session', 'attach again');
    if (isPlace(url) && !leaving && !view.allowed(url)) {
      return no('policy', 'that frame is not within the binding’s origins', 'act in the page around it');
    }
  }
  if (toBlank(order)) {
    // It is the page that leaves, whatever frame was meant.
    const {frameId} = order.params;
    const main = view.mainFrame(order.tab);
    if (order.session || (frameId && main && main !== frameId)) {
      return no('policy', 'a frame is not navigated to an empty page', 'have the page around it do so');
    }
    if (frameId && !main) return no('unavailable', 'which frame is the page itself is not known yet', 'ask for the frame tree, then send it again');
  }
  if (view.dead(order.tab) && (toBlank(order) || !REVIVES.has(order.method || order.kind))) {
    // Such a command would never be answered.
    return no('unavailable', 'the page in this tab has crashed', 'navigate or reload it');
  }
  if (order.document && view.document(order.tab, order.frame) !== order.document) {
    return no('document_changed', 'another document is in this tab now', 'observe the page again');
  }
  return null;
}

/**
 * What a setting of the binding opens, and no further than its origins.
 * @param {State} state @param {Order} order @param {View} view
 * @returns {Refusal | null}
 */
function decideSetting({grant}, order, view) {
  const {method, params} = order;
  const allow = grant?.allow ?? [];
  const needs = Object.hasOwn(NEEDS, method) ? NEEDS[method] : '';
  if (!needs) return null;
  if (!allow.includes(needs)) return notAllowed(method, needs);
  if (/^Fetch\.(?!(enable|disable)$)/.test(method) && !isHeld(order, view)) {
    return no('not_found', 'no such request is held back', 'answer those that Fetch.requestPaused has told of');
  }
  return scope(method, params, view, allow);
}

/**
 * @param {State} state @param {Order} order @param {View} view
 * @returns {Refusal | null}
 */
function decideMethod(state, order, view) {
  if (NOT_AGENTS.has(order.kind)) return no('policy', `${order.kind} is not for an agent`);
  if (order.method === 'Page.reload' && order.params.scriptToEvaluateOnLoad) {
    return no('policy', 'a reload takes no script with it', 'evaluate it when the page has come');
  }
  if (
    order.method === 'Page.addScriptToEvaluateOnNewDocument' &&
    !NO_CODE.test(String(order.params.source ?? '')) && !view.allowed(ELSEWHERE)
  ) {
    return no(
      'policy', 'a script for new documents would also run in pages beyond the binding’s origins',
      'evaluate it in each page; a binding without origins allows it',
    );
  }
  if (order.method === 'Network.setExtraHTTPHeaders') {
    const names = Object.keys(order.params.headers ?? {});
    if (names.length > 0 && !view.allowed(ELSEWHERE)) {
      return no(
        'policy', 'extra headers would also go to websites beyond the binding’s origins, which take them for the page’s own',
        'with --allow interception, Fetch.continueRequest sets the headers of a request to an origin; a binding without origins allows it',
      );
    }
    if (names.some(isCookieHeader) && !state.grant?.allow?.includes('cookies')) return notAllowed('a Cookie header', 'cookies');
  }
  if (order.kind === 'cdp') {
    const why = Object.hasOwn(METHODS, order.method) ? METHODS[order.method] : 'it is not in the table of methods';
    if (why) return no('policy', `${order.method} is not for an agent: ${why}`);
    const withheld = decideSetting(state, order, view);
    if (withheld) return withheld;
  }
  // The host says with an entry of the history where it leads.
  const goes = order.method === 'Page.navigate' || order.method === BACK || order.kind === 'tab_create';
  const url = String(order.params.url ?? '');
  if (order.method === BACK && !isWeb(url) && url !== 'about:blank') {
    return no('policy', 'that entry of the history is no website’s');
  }
  if (goes && !isWeb(url) && url !== 'about:blank' && !(url === '' && order.kind === 'tab_create')) {
    return no('policy', 'an agent opens http, https and about:blank only', 'use an http or https address');
  }
  if (goes && !view.allowed(url)) {
    return no('policy', 'that address is not within the binding’s origins');
  }
  return null;
}

/**
 * The system's own order, under its epoch: from a closed list, whoever holds.
 * @param {State} state @param {Order} order @param {View} view
 * @returns {Refusal | null}
 */
function decideSystem(state, order, view) {
  if (order.epoch !== state.epoch) return no('fenced', `epoch ${order.epoch} has ended`);
  if (order.kind === 'barrier') return null;
  if (order.kind === 'cdp' && SYSTEM.get(order.method)?.(order, state, view)) return null;
  if (order.kind === 'tab_close' && view.probes(order.tab)) return null;
  if (order.kind === 'worker_close' && view.listed(order.params.target)) return null;
  const {probe} = state;
  if (probe?.epoch !== order.epoch || !PROBE.get(order.kind)?.(order, probe)) {
    return no('policy', `${order.method || order.kind} is no settlement command, nor part of a probe`);
  }
  if (state.hold) return no('fenced', 'a person has taken over');
  if (!state.linked || state.port === null) return no('unavailable', 'the link that this came by has ended');
  if (!READS.has(order.kind)) return null;
  // What is read is the named website's: a redirect may have led to another.
  if (originOf(view.url(order.tab)) !== originOf(probe.url)) return no('policy', 'the page has led to another origin');
  if (!order.document || view.document(order.tab, 0) !== order.document) {
    return no('document_changed', 'another document is in this tab now');
  }
  return null;
}

/**
 * Decides on one order. Without effect, so that the whole grid of states can be
 * tried; `Gate.dispatch` calls it in the turn in which it acts.
 * @param {State} state @param {Order} order @param {View} view
 * @param {{monoMs: number, wallMs: number}} now
 * @returns {Refusal | null} null: go
 */
export function decide(state, order, view, now) {
  if (!Number.isSafeInteger(order.epoch) || order.epoch < 1 || order.epoch > MAX_EPOCH) {
    return no('fenced', 'that is not an epoch');
  }
  if (order.by === 'system') {
    const refused = decideSystem(state, order, view);
    if (refused) return refused;
  } else {
    if (!state.linked || state.port === null || order.port !== state.port) {
      return no('unavailable', 'the link that this came by has ended');
    }
    if (state.hold) return no('fenced', 'a person has taken over');
    if (!state.grant || state.grant.epoch !== order.epoch || state.epoch !== order.epoch) {
      return no('fenced', `epoch ${order.epoch} is not granted here`);
    }
    if (now.monoMs >= state.grant.monoMs || now.wallMs >= state.grant.wallMs) {
      return no('unavailable', 'the grant has not been renewed in time', 'wait for the daemon');
    }
  }
  if (now.monoMs >= order.monoMs || now.wallMs >= order.wallMs) {
    return no('deadline', 'the command was too late to be dispatched');
  }
  if (order.by === 'system') return null;

  if ((order.effect || order.script) && !view.room(order.action)) {
    return no('limit', 'too many actions are still open', 'wait until some are settled');
  }
  return decideMethod(state, order, view) ?? (order.tab === 0 ? null : decideTab(state, order, view));
}

/** Where it leads was for the gate, not for the browser. @param {Record<string, any>} params */
const entryOnly = ({entryId}) => ({entryId});

/**
 * Carries an order out.
 * @param {Browser} browser @param {Order} order @param {View} view
 * @returns {Promise<unknown>}
 */
function perform(browser, order, view) {
  switch (order.kind) {
    case 'cdp':
      if (toBlank(order)) return browser.leaveForBlank(order.tab, view.mainFrame(order.tab));
      return browser.sendCommand(order.tab, order.method, order.method === BACK ? entryOnly(order.params) : order.params, order.session);
    case 'console':
      return browser.readConsole(order.tab);
    case 'barrier':
      return browser.runNothing(order.tab, order.document);
    case 'tab_create':
      return browser.createTab(order.params.url ?? 'about:blank', order.params.active !== false);
    case 'tab_close':
      return browser.closeTab(order.tab);
    case 'tab_activate':
      return browser.activateTab(order.tab);
    case 'tab_blank':
      return browser.blankTab(order.tab);
    case 'tab_load':
      return browser.loadTab(order.tab);
    case 'worker_close':
      return browser.closeWorker(order.params.target);
    case 'tab_goto':
      return browser.gotoTab(order.tab, order.params.url);
    case 'text':
      return browser.readText(order.tab, order.document, order.params.selector);
    default:
      // document, network, tabs and watch are looks at what the extension knows already.
      return Promise.resolve();
  }
}

export class Gate {
  /** @type {unknown} */ port = null;
  linked = false;
  epoch = 0;
  /** @type {Grant | null} */ grant = null;
  /** @type {import('./gen/wire.js').Hold | null} */ hold = null;
  stopping = false;
  /** @type {ProbePage | null} */ probe = null;

  #browser;
  #view;

  /** @param {Browser} browser @param {View} view */
  constructor(browser, view) {
    this.#browser = browser;
    this.#view = view;
  }

  /**
   * Raises the epoch in force, which closes the gate for every lower one.
   * @param {number} epoch
   * @returns {boolean} false for one that is lower, or no epoch at all
   */
  raise(epoch) {
    if (!Number.isSafeInteger(epoch) || epoch < 1 || epoch < this.epoch) return false;
    this.epoch = epoch;
    if (this.grant && this.grant.epoch < epoch) this.grant = null;
    if (this.probe && this.probe.epoch < epoch) this.probe = null;
    return true;
  }

  /** The gate is shut for agents from this turn on. */
  close() {
    this.grant = null;
  }

  /**
   * What dispatch would answer now.
   * @param {Order} order
   * @returns {Refusal | null}
   */
  check(order) {
    const now = {monoMs: this.#browser.monoMs(), wallMs: this.#browser.wallMs()};
    return decide(this, order, this.#view, now);
  }

  /**
   * Decides, and in the same turn acts. `refused` proves that nothing was sent.
   * @param {Order} order
   * @returns {{refused: Refusal, sent?: undefined} | {refused?: undefined, sent: Promise<any>}}
   */
  dispatch(order) {
    const refused = this.check(order);
    if (refused) return {refused};
    try {
      return {sent: perform(this.#browser, order, this.#view)};
    } catch (error) {
      // Chromium throws at once, and sends nothing, if the arguments are not of the
      // shape that its API takes.
      return {refused: refuse('invalid', error instanceof Error ? error.message : String(error))};
    }
  }
}
