// @ts-check

/**
 * The drain after a fence: what was put into pages must come to rest, or be said not
 * to have. It sends only settlement commands, as the system's, under the fence's own
 * epoch; a later fence ends it, and takes over what it had not settled.
 */

import {withoutQuery} from './evidence.js';
import {ANSWER_MS, DRAIN_MS, LOOK_MS} from './limits.js';
import {note} from './refusal.js';
import {isWeb} from './tabs.js';

/** @typedef {import('./gen/wire.js').Document} Document */
/** @typedef {'open' | 'barrier' | 'ended' | 'lost'} How */
/**
 * @typedef {object} Target
 * @property {string} document
 * @property {number} tab
 * @property {string} url
 * @property {boolean} input something may be queued there
 * @property {boolean} script an agent's script ran there
 * @property {How} how
 * @property {Promise<void>} gone settles if its renderer is seen to end
 * @property {() => void} end
 */

const SOON_MS = 5;

export class Drain {
  /** @type {object | null} */ #run = null;
  /** @type {Target[]} */ #targets = [];
  /** @type {() => void} */ #wake = () => {};
  #browser;
  #gate;
  #ledger;
  #documents;
  #tabs;
  #sessions;
  #last;

  /**
   * @param {object} parts
   * @param {import('./browser.js').Browser} parts.browser
   * @param {import('./gate.js').Gate} parts.gate
   * @param {import('./ledger.js').Ledger} parts.ledger
   * @param {import('./documents.js').Documents} parts.documents
   * @param {import('./tabs.js').Tabs} parts.tabs
   * @param {import('./sessions.js').Sessions} parts.sessions
   * @param {() => Promise<void>} parts.last what is told before a drain's end is
   */
  constructor({browser, gate, ledger, documents, tabs, sessions, last}) {
    this.#browser = browser;
    this.#gate = gate;
    this.#ledger = ledger;
    this.#documents = documents;
    this.#tabs = tabs;
    this.#sessions = sessions;
    this.#last = last;
  }

  get running() {
    return this.#run !== null;
  }

  /**
   * What the fence reaches: documents with an agent's script, those where input has
   * not come to rest, and, if a person held until now, the page in front of every
   * window, for the person's own last click may be queued there.
   * @param {{epoch: number, from_person?: boolean}} fence
   * @returns {Document[]}
   */
  begin({epoch, from_person: fromPerson}) {
    this.cancel();
    /** @type {Map<string, Target>} */
    const targets = new Map();
    const add = (/** @type {string} */ document, /** @type {number} */ tab, /** @type {'input' | 'script'} */ why) => {
      // The daemon stores it: a query or a fragment may hold a secret.
      const url = withoutQuery(this.#documents.known(document)?.url ?? this.#documents.url(tab));
      const target = targets.get(document) ?? makeTarget(document, tab, url);
      target[why] = true;
      targets.set(document, target);
    };
    for (const {document, tab} of this.#documents.list()) add(document, tab, 'script');
    for (const [document, tab] of this.#ledger.pending(epoch)) add(document, tab, 'input');
    if (fromPerson) {
      for (const tab of this.#tabs.inFront()) {
        const document = this.#documents.current(tab);
        if (document && isWeb(this.#documents.url(tab))) add(document, tab, 'input');
      }
    }
    this.#targets = [...targets.values()];
    return this.#list();
  }

  /**
   * Settles what `begin` found.
   * @param {{epoch: number, deadline_ms: number}} fence
   * @returns {Promise<Document[] | null>} null if another fence or a grant ended it
   */
  async settle({epoch, deadline_ms: deadlineMs}) {
    const run = {};
    this.#run = run;
    const ms = deadlineMs > 0 ? deadlineMs : DRAIN_MS;
    const order = {
      by: /** @type {const} */ ('system'), kind: 'barrier', epoch, port: null, frame: 0, method: '', params: {},
      monoMs: this.#browser.monoMs() + ms, wallMs: this.#browser.wallMs() + ms,
      action: '', seq: 0, effect: false, script: false,
    };
    this.#sessions.release();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const over = new Promise((resolve) => {
      this.#wake = () => resolve(undefined);
      timer = setTimeout(resolve, ms);
    });
    const rest = Promise.all(this.#targets.map((target) => this.#settle(run, target, order)));
    await Promise.race([over, rest.then(() => this.#answers(run, epoch))]);
    await Promise.race([over, this.#last()]);
    clearTimeout(timer);
    if (this.#run !== run) return null;
    this.#run = null;
    this.#ledger.lost(epoch);
    for (const target of this.#targets) if (target.how === 'open') target.how = 'lost';
    return this.#list();
  }

  /** Another fence, or a grant, has come. */
  cancel() {
    this.#run = null;
    this.#wake();
  }

  /** Documents whose renderer was seen to end. @param {Set<string>} documents */
  ended(documents) {
    for (const target of this.#targets) {
      if (!documents.has(target.document)) continue;
      target.how = 'ended';
      target.end();
    }
  }

  /** The tabs with a document that the last fence reached. */
  tabs() {
    return this.#targets.map((target) => target.tab);
  }

  /**
   * @param {object} run @param {Target} target @param {Omit<import('./gate.js').Order, 'tab' | 'document'>} order
   */
  async #settle(run, target, order) {
    const {document, tab} = target;
    const current = () => this.#documents.current(tab) === document;
    const goOn = () => this.#run === run && target.how === 'open';
    // A barrier may overtake input that the browser itself still holds back.
    while (goOn() && this.#ledger.busy(document, current())) {
      await new Promise((resolve) => setTimeout(resolve, SOON_MS));
    }
    if (goOn() && current()) {
      const tick = this.#ledger.tick();
      const ran = await Promise.race([this.#barrier({...order, tab, document}), target.gone]);
      if (ran) {
        this.#ledger.barrier(document, tick);
        // What was cut off before it was known to have run may come after a barrier.
        if (goOn()) target.how = this.#ledger.pending(order.epoch).has(document) ? 'lost' : 'barrier';
      }
    }
    if (!goOn()) return;
    // No barrier is left. Either its own navigation shows that it had come to rest, or
    // nothing does.
    const how = target.input ? this.#ledger.how(document) : 'lost';
    target.how = how === 'open' ? 'lost' : how;
  }

  /**
   * Waits a little for scripts that barriers have passed: whether their promises settle is
   * not heard any more after the debugger is detached.
   * @param {object} run @param {number} epoch
   */
  async #answers(run, epoch) {
    const end = this.#browser.monoMs() + ANSWER_MS;
    while (this.#run === run && this.#ledger.waits(epoch) && this.#browser.monoMs() < end) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /**
   * @param {import('./gate.js').Order} order
   * @returns {Promise<boolean>} whether it ran in that very document
   */
  async #barrier(order) {
    const {refused, sent} = this.#gate.dispatch(order);
    if (refused) {
      note('barrier', refused.message);
      return false;
    }
    try {
      return ranIn(await sent, order.document);
    } catch (error) {
      note('barrier', error);
      return false;
    }
  }

  /** @returns {Document[]} */
  #list() {
    const rows = [];
    for (const {document, tab, url, input, script, how} of this.#targets) {
      if (script) rows.push({document, tab, url, why: /** @type {const} */ ('agent_script'), how});
      if (input) rows.push({document, tab, url, why: /** @type {const} */ ('input_pending'), how});
    }
    return rows;
  }
}

/**
 * @param {string} document @param {number} tab @param {string} url
 * @returns {Target}
 */
function makeTarget(document, tab, url) {
  let end = () => {};
  const gone = new Promise((resolve) => {
    end = () => resolve(undefined);
  });
  return {document, tab, url, input: false, script: false, how: 'open', gone, end};
}

/**
 * Asked for a document that was replaced, Chromium runs the barrier in the new one,
 * and says so: only the result tells.
 * @param {unknown} result of scripting.executeScript @param {string} document
 */
export function ranIn(result, document) {
  return Array.isArray(result) && result.some((one) => one?.documentId === document);
}
