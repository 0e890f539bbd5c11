// @ts-check

/**
 * The host's commands: one step each, through the gate, and answered. On the way of
 * an attached tab's command to sendCommand nothing is awaited and nothing stored.
 */

import {summary} from './console.js';
import {ranIn} from './drain.js';
import {FIRST_DOCUMENT_MS, MAX_DIALOG_TEXT, MAX_URL, MAX_WORD} from './limits.js';
import {fromDebugger, isAnswer, refuse} from './refusal.js';
import {within} from './scope.js';

/** @typedef {import('./gate.js').Order} Order */
/** @typedef {import('./refusal.js').Refusal} Refusal */

const SOON_MS = 5;
const COMMIT_TURNS = 100;
const HISTORY = 'Page.getNavigationHistory';
/** Whether an answer says something of a page. @param {Order} order @param {any} result */
const tells = (order, result) => (!order.effect || order.script) && Object.keys(result ?? {}).length > 0;
const ELSEWHERE = refuse('policy', 'the page left the binding’s origins before the answer came', 'navigate back to one that is');
const NO_TAB = new Set(['tabs', 'tab_create', 'watch']);

/** What a page with a dialog leaves waiting: whatever is asked of the page. */
const OF_A_PAGE = new Set(['cdp', 'barrier', 'document', 'console']);
/** Whether an order waits with its page for a dialog. DevTools clients are told of dialogs anyway. @param {Order} order */
const waitsWithPage = ({kind, method, raw}) => !raw && OF_A_PAGE.has(kind) && method !== 'Page.handleJavaScriptDialog';
const NEEDS_DEBUGGER = new Set(['cdp', 'console']);

export class Commands {
  /** What is not answered. @type {Set<Order>} */ #waiting = new Set();
  #browser;
  #gate;
  #ledger;
  #documents;
  #tabs;
  #sessions;
  #watch;
  #traffic;
  #answer;
  #store;

  /**
   * @param {object} parts
   * @param {import('./browser.js').Browser} parts.browser
   * @param {import('./gate.js').Gate} parts.gate
   * @param {import('./ledger.js').Ledger} parts.ledger
   * @param {import('./documents.js').Documents} parts.documents
   * @param {import('./tabs.js').Tabs} parts.tabs
   * @param {import('./sessions.js').Sessions} parts.sessions
   * @param {import('./watch.js').Watch} parts.watch
   * @param {import('./traffic.js').Traffic} parts.traffic
   * @param {(port: unknown, message: any) => void} parts.answer
   * @param {() => void} [parts.store] stores in this turn what another worker has to know
   */
  constructor({browser, gate, ledger, documents, tabs, sessions, watch, traffic, answer, store = () => {}}) {
    this.#browser = browser;
    this.#gate = gate;
    this.#ledger = ledger;
    this.#documents = documents;
    this.#tabs = tabs;
    this.#sessions = sessions;
    this.#watch = watch;
    this.#traffic = traffic;
    this.#answer = answer;
    this.#store = store;
  }

  /** @param {any} cmd @param {unknown} port */
  take(cmd, port) {
    const expect = cmd.expect ?? {};
    /** @type {Order} */
    const order = {
      by: 'agent', kind: cmd.kind, epoch: cmd.epoch, port,
      tab: NO_TAB.has(cmd.kind) ? 0 : expect.tab || this.#tabs.active(),
      frame: expect.frame ?? 0, document: expect.document ?? '',
      method: cmd.kind === 'cdp' ? cmd.method ?? '' : '', params: cmd.params ?? {}, session: cmd.session ?? '',
      monoMs: this.#browser.monoMs() + cmd.left_ms, wallMs: this.#browser.wallMs() + cmd.left_ms,
      action: cmd.action, seq: cmd.seq, effect: cmd.effect, script: cmd.script, raw: cmd.raw === true,
    };
    const fail = (/** @type {Refusal} */ error) => this.#refuse(order, error);
    this.#waiting.add(order);
    if (this.#sessions.shown(order.tab) && !order.effect) this.#tellWaits(order);
    if (order.tab === 0 && !NO_TAB.has(order.kind)) {
      // Whether the epoch has ended is the more useful answer of the two.
      fail(this.#gate.check(order) ?? refuse('not_found', 'this lease has no tab', 'open one: the verb tabs with op new'));
      return;
    }
    if (order.kind === 'console' && this.#watch.listens()) {
      // Who listens by a command of its own would be told no more, or never was what is kept.
      fail(refuse('conflict', 'a DevTools client is connected, which listens to the console itself', 'ask that client, or disconnect it'));
      return;
    }
    if (order.kind === 'barrier') this.#sessions.submit(order, false, () => void this.#barrier(order), fail);
    else this.#sessions.submit(order, NEEDS_DEBUGGER.has(order.kind), () => this.#run(order), fail);
  }

  /** The page in a tab shows a dialog, or none any more. @param {number} tab */
  dialog(tab) {
    for (const order of this.#waiting) if (order.tab === tab) this.#tellWaits(order);
  }

  /** Tells the host why an order is not answered: what answers a dialog itself is. @param {Order} order */
  #tellWaits(order) {
    if (!waitsWithPage(order) || this.#gate.check(order)) return;
    const dialog = this.#dialogOf(order.tab);
    this.#answer(order.port, {t: 'cmd.waits', seq: order.seq, ...(dialog && {dialog})});
  }

  /** What is told of the dialog in a tab: of one beyond the origins, that it is there. @param {number} tab */
  #dialogOf(tab) {
    const shown = this.#sessions.shown(tab);
    if (!shown) return null;
    const tells = this.#tabs.allowed(this.#urlOf(tab)) && this.#tabs.allowed(shown.url);
    const text = (/** @type {string} */ it) => (tells ? it.slice(0, MAX_DIALOG_TEXT) : '');
    return {kind: shown.kind.slice(0, MAX_WORD), message: text(shown.message), default: text(shown.default)};
  }

  /** @param {Order} order */
  #run(order) {
    const document = order.tab ? this.#documents.current(order.tab) : '';
    if (order.effect && waitsWithPage(order) && this.#sessions.shown(order.tab) && !this.#gate.check(order)) {
      // The browser would drop it, or do it in the page that comes of the answer.
      this.#refuse(order, refuse('conflict', 'the page shows a dialog', 'answer it'), this.#dialogOf(order.tab));
      return;
    }
    const {refused, sent} = this.#gate.dispatch(order);
    if (refused) {
      this.#refuse(order, refused);
      return;
    }
    const counted = order.effect || order.script;
    if (counted) this.#ledger.dispatched(order, document, this.#gate.grant?.watchMs ?? 0);
    if (order.script && this.#documents.script(order.tab, document)) this.#store();
    let over = false;
    const once = (/** @type {() => void} */ end, done = false) => {
      if (over) return;
      over = true;
      this.#sessions.answered(order, done);
      end();
    };
    this.#sessions.dispatched(order, (error) => once(() => this.#fail(order, error)));
    sent.then(
      (result) => once(() => this.#done(order, document, result, counted), true),
      (error) => once(() => this.#failed(order, this.#sessions.ended(order) ?? fromDebugger(error), counted)),
    );
  }

  /** @param {Order} order @param {string} document @param {any} result @param {boolean} counted */
  #done(order, document, result, counted) {
    switch (order.kind) {
      case 'cdp':
        if (order.tab && tells(order, result) && !this.#tabs.allowed(this.#urlOf(order.tab))) {
          // Another page came meanwhile: whose content this is, is not known.
          if (counted) this.#ledger.settled(order, 'answered');
          this.#fail(order, ELSEWHERE);
          return;
        }
        if (order.method === HISTORY) result = this.#ownHistory(result);
        result = within(order.method, result, this.#tabs);
        this.#succeed(order, order.tab, document, result ?? {});
        if (counted) this.#ledger.settled(order, 'answered');
        return;
      case 'document':
        void this.#document(order, order.tab, String(order.params.before ?? ''), Number(order.params.ms) || FIRST_DOCUMENT_MS);
        return;
      case 'watch':
        void this.#watch.begin(order.epoch).then(() => this.#succeed(order, 0, '', {userAgent: this.#browser.userAgent()}));
        return;
      case 'network':
        this.#succeed(order, order.tab, document, this.#traffic.of(order.tab));
        return;
      case 'console':
        if (this.#tabs.allowed(this.#urlOf(order.tab))) this.#succeed(order, order.tab, document, summary(result));
        else this.#fail(order, ELSEWHERE);
        return;
      case 'tabs':
        this.#succeed(order, 0, '', {tabs: this.#list()});
        return;
      case 'tab_create':
        if (counted) this.#ledger.settled(order, 'answered');
        this.#tabs.put(result);
        this.#tabs.own(result.id);
        void this.#watch.look(result.id);
        void this.#document(order, result.id);
        return;
      default:
        if (counted) this.#ledger.settled(order, 'answered');
        this.#succeed(order, order.tab, document, {});
    }
  }

  /** @param {Order} order @param {Refusal} error @param {boolean} counted */
  #failed(order, error, counted) {
    this.#fail(order, error);
    if (counted) this.#ledger.settled(order, isAnswer(error) ? 'refused' : 'cut');
  }

  /**
   * A no-op in the expected document, after the input that is queued there. Where the
   * document's own navigation has replaced it, that is the proof instead.
   * @param {Order} order
   */
  async #barrier(order) {
    const {tab, document} = order;
    const known = () => this.#ledger.get(order.action);
    if (document && this.#documents.current(tab) !== document && known()?.howRule === 'navigated_by_document') {
      const refused = this.#gate.check({...order, document: ''});
      if (refused) this.#refuse(order, refused);
      else this.#navigated(order);
      return;
    }
    const expected = document || this.#documents.current(tab);
    // A barrier may overtake input that the browser itself still holds back. The gate
    // ends the wait: it refuses what is too late.
    while (this.#ledger.busy(expected, this.#documents.current(tab) === expected) && !this.#gate.check(order)) {
      await new Promise((resolve) => setTimeout(resolve, SOON_MS));
    }
    const tick = this.#ledger.tick();
    const {refused, sent} = this.#gate.dispatch({...order, document: expected});
    if (refused) {
      this.#refuse(order, refused);
      return;
    }
    /** @type {Refusal | null} */
    let error = null;
    try {
      if (ranIn(await sent, expected)) {
        this.#ledger.barrier(expected, tick);
        this.#succeed(order, tab, expected, {how_rule: 'barrier_in_document'});
        return;
      }
    } catch (cause) {
      error = fromDebugger(cause);
    }
    // It ran in another document, or nowhere. Chromium may say so before it tells of
    // the commit that was the reason.
    for (let turn = 0; turn < COMMIT_TURNS && this.#documents.current(tab) === expected; turn++) {
      await this.#documents.refresh(tab);
      await new Promise((resolve) => setTimeout(resolve, SOON_MS));
    }
    if (known()?.howRule === 'navigated_by_document') this.#navigated(order);
    else if (error && this.#documents.current(tab) === expected) this.#fail(order, error);
    else this.#fail(order, refuse('document_changed', 'another document came before the barrier', 'look the action up'));
  }

  /** @param {Order} order */
  #navigated(order) {
    const document = this.#documents.current(order.tab);
    this.#succeed(order, order.tab, document, {how_rule: 'navigated_by_document'});
  }

  /** @param {Order} order @param {number} tab @param {string} [before] @param {number} [ms] */
  async #document(order, tab, before = '', ms = FIRST_DOCUMENT_MS) {
    const document = await this.#documents.first(tab, before, Math.min(ms, FIRST_DOCUMENT_MS));
    const shown = this.#tabs.get(tab);
    this.#succeed(order, tab, document, {tab, document, url: this.#urlOf(tab), title: shown?.title ?? ''});
  }

  /** A lent tab has been elsewhere, too: where, is the person's. @param {any} history */
  #ownHistory(history) {
    const entries = (history?.entries ?? []).map((/** @type {any} */ entry) =>
      this.#tabs.allowed(String(entry.url)) ? entry : {...entry, url: '', userTypedURL: '', title: ''});
    return {...history, entries};
  }

  #list() {
    const front = this.#tabs.active();
    return this.#tabs
      .all()
      .filter(({tab}) => this.#tabs.visible(tab))
      .map(({tab, title}) => {
        const url = this.#urlOf(tab);
        const allowed = this.#tabs.allowed(url);
        return {
          tab, document: allowed ? this.#documents.current(tab) : '',
          // A lent tab that has left the origins is listed, not shown.
          url: allowed ? url : '', title: allowed ? title : '',
          active: tab === front, owned: this.#tabs.owns(tab), allowed,
        };
      });
  }

  /** @param {number} tab */
  #urlOf(tab) {
    return (this.#documents.url(tab) || this.#tabs.get(tab)?.url || '').slice(0, MAX_URL);
  }

  /** @param {Order} order @param {number} tab @param {string} document @param {unknown} result */
  #succeed(order, tab, document, result) {
    this.#waiting.delete(order);
    if (this.#stale(order)) return;
    /** @type {any} */
    const message = {t: 'cmd.result', seq: order.seq, ok: true, dispatched: true, result};
    if (tab) message.observed = order.frame ? {tab, frame: order.frame, document} : {tab, document};
    if (tab && order.kind !== 'cdp') message.url = this.#urlOf(tab);
    this.#answer(order.port, message);
  }

  /** It was dispatched, and this is how it ended. @param {Order} order @param {Refusal} error */
  #fail(order, error) {
    this.#waiting.delete(order);
    if (this.#stale(order)) return;
    this.#answer(order.port, {t: 'cmd.result', seq: order.seq, ok: false, dispatched: true, error});
  }

  /**
   * It was not dispatched.
   * @param {Order} order @param {Refusal} error @param {object | null} [dialog] because of which
   */
  #refuse(order, error, dialog = null) {
    this.#waiting.delete(order);
    this.#answer(order.port, {t: 'cmd.result', seq: order.seq, ok: false, dispatched: false, error, ...(dialog && {dialog})});
  }

  /**
   * What is observed after a fence, or after a person pressed "Take over", is the
   * next holder's: it is not sent. The ledger's report tells what became of it.
   * @param {Order} order
   */
  #stale(order) {
    return order.epoch < this.#gate.epoch || this.#gate.hold !== null;
  }
}
