// @ts-check

/**
 * The worker: its parts, what the daemon says to them, and what they say back. It is
 * a cache, and the daemon the truth: at every link it says hello, and accepts work
 * only after the welcome.
 */

import {BUILD} from './build.js';
import {Commands} from './commands.js';
import {Documents} from './documents.js';
import {Drain} from './drain.js';
import {Evidence, withoutQuery} from './evidence.js';
import {Flood} from './flood.js';
import {Gate} from './gate.js';
import {Grants} from './grants.js';
import {Ledger, quiet, report} from './ledger.js';
import {CRASH_MS, LOOK_MS, MAX_TITLE, REPORT_MS, UNDER_WAY_MS, VERSION} from './limits.js';
import {Link} from './link.js';
import {People} from './people.js';
import {Probe} from './probe.js';
import {note, refuse} from './refusal.js';
import {Sessions} from './sessions.js';
import {Memory} from './state.js';
import {Tabs} from './tabs.js';
import {Traffic} from './traffic.js';
import {Watch} from './watch.js';
import {Workers} from './workers.js';

/** @typedef {import('./ledger.js').Entry} Entry */
/** @typedef {import('./gen/wire.js').Fence} Fence */

/** How often a renderer that has not been seen to end is ended once more. */
const CRASH_AGAIN_MS = 500;
const FLOODED = 'the page’s events came faster than they could be passed on, so its debugging was ended';

export class Dock {
  /** One life of the worker. */
  #instance;
  /** The epoch last granted to this life, 0 if none. */
  #granted = 0;
  /** This run of the browser has just begun, or what was known of it is gone, and no daemon has recorded that yet. */
  #anew = false;
  /** The epoch for which the visible tabs were worked out. */
  #lent = 0;
  /** Entries with news, and since when. @type {Map<Entry, number>} */ #dirty = new Map();
  /** The rev of each action that this link's daemon has. @type {Map<string, number>} */ #told = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #reporting;
  /** The hold that this link's hello carried. @type {import('./gen/wire.js').Hold | null} */ #helloHold = null;
  /** Tabs that were made before it was known who holds; null from then on. @type {Set<number> | null} */ #early = new Set();
  /** Ends of documents that no daemon has been told. @type {Map<string, string>} */ #ends = new Map();
  #pageStops = 0;
  #browser;

  /** @param {import('./browser.js').Browser} browser */
  constructor(browser) {
    this.#browser = browser;
    this.#instance = browser.uuid();
    this.memory = new Memory(browser);
    this.tabs = new Tabs();
    this.documents = new Documents(browser, {
      replaced: (tab, before, after) => this.#replaced(tab, before, after),
      revived: (tab) => this.sessions.revived(tab),
      ended: (document, how) => this.#documentEnded(document, how),
      spread: () => this.memory.store(),
    });
    this.ledger = new Ledger(browser.wallMs, (entry) => this.#changed(entry));
    this.gate = new Gate(browser, {
      visible: (tab) => this.tabs.visible(tab),
      owns: (tab) => this.tabs.owns(tab),
      probes: (tab) => this.probe.mine(tab),
      allowed: (url) => this.tabs.allowed(url),
      dead: (tab) => this.documents.dead(tab),
      url: (tab) => this.documents.url(tab) || this.tabs.get(tab)?.url || '',
      child: (tab, session) => this.sessions.child(tab, session),
      mainFrame: (tab) => this.sessions.mainFrame(tab),
      document: (tab, frame) => this.documents.current(tab, frame),
      domain: (name) => this.tabs.domain(name),
      paused: (tab, session, request) => this.sessions.paused(tab, session, request),
      listed: (target) => this.workers.names().some((one) => one === target),
      room: (action) => this.ledger.room(action),
    });
    this.sessions = new Sessions(browser, this.gate, this.documents, {
      crashed: (tab) => this.#crashed(tab),
      asked: (tab) => this.ledger.asked(this.documents.current(tab)),
      unloaded: (tab) => this.tabs.get(tab)?.unloaded ?? false,
      dialog: (tab) => this.commands.dialog(tab),
      // Somebody at the browser ended the debugging: that is a person interrupting.
      canceled: () => this.people.takeOver(0),
      holds: (tab, child, url) => this.watch.holds(tab, child, url),
    });
    this.flood = new Flood(browser, (tab) => {
      this.watch.lost(tab);
      void this.sessions.letGo(tab, refuse('unavailable', FLOODED, 'have the page say less, or listen to less of it; the next command attaches anew'));
    });
    this.workers = new Workers(browser, this.gate, (document, url) => void this.link.send({t: 'document.found', document, url}), (document) => this.#endOf(document, 'closed'));
    this.evidence = new Evidence(this.ledger, this.documents);
    this.traffic = new Traffic(this.gate, this.tabs);
    this.link = new Link(browser, {
      up: (port) => this.#up(port),
      down: (reason, error) => this.#down(reason, error),
      message: (message, port) => this.#receive(message, port),
    });
    this.grants = new Grants(browser, (ask) => this.link.send({t: 'pull', ask}));
    const {gate, ledger, documents, tabs, sessions, memory, link} = this;
    this.drain = new Drain({browser, gate, ledger, documents, tabs, sessions, last: () => this.#tellWorkers()});
    this.probe = new Probe({browser, gate, documents, sessions, tabs, memory, send: (result) => void link.send(result)});
    const answer = (/** @type {unknown} */ port, /** @type {any} */ message) => void this.link.answer(port, message);
    this.watch = new Watch({browser, gate, tabs, documents, sessions, send: (message) => void link.send(message)});
    this.commands = new Commands({browser, gate, ledger, documents, tabs, sessions, watch: this.watch, traffic: this.traffic, answer, store: () => memory.store()});
    this.people = new People({browser, gate, memory, link, ledger, stopList: () => this.#stopList(), held: () => this.sessions.letRequestsGo()});
  }

  /**
   * Registers every listener, in the worker's first turn, and begins.
   * @returns {Promise<void>} when it is ready for a link
   */
  start() {
    const {on} = this.#browser;
    on.alarm(() => void this.#ready.then(() => this.link.start()));
    on.startup(() => {});
    on.installed(() => {});
    on.connect((port) => this.people.connect(port));

    on.debuggerEvent((tab, child, method, params) => {
      // Of a session that has ended, many may be under way yet.
      if (this.sessions.attached(tab)) this.flood.event(tab, method, params);
      if (!this.sessions.attached(tab)) return;
      this.sessions.event(tab, child, method, params);
      this.watch.event(tab, child, method, params);
    });
    on.debuggerDetach((tab, reason) => this.sessions.detached(tab, reason));

    on.committed((details) => {
      this.documents.committed(details);
      if (details.frameId !== 0) return;
      this.evidence.committed(details.tabId);
      void this.watch.look(details.tabId);
    });
    on.navigationError((details) => void this.documents.failed(details));
    on.sameDocument((details) => {
      this.documents.moved(details);
      if (details.frameId === 0) void this.watch.look(details.tabId);
    });
    on.navigationTarget(({sourceTabId, tabId}) => {
      this.evidence.opened(tabId, sourceTabId);
      this.tabs.openedBy(sourceTabId, tabId);
      this.documents.opened(tabId, sourceTabId);
      void this.watch.look(tabId);
    });
    on.tabCreated((tab) => this.#tabCreated(tab));
    on.tabUpdated((_, __, tab) => {
      this.tabs.put(tab);
      void this.watch.look(tab.id ?? 0);
    });
    on.tabRemoved((tab) => this.#tabRemoved(tab));
    on.tabActivated((tab, window) => this.tabs.activated(tab, window));
    on.tabReplaced((added, removed) => {
      if (this.tabs.isApart(removed)) this.tabs.setApart(added);
      this.probe.replaced(added, removed);
      this.#tabRemoved(removed);
      void this.documents.refresh(added);
    });
    on.windowFocused((window) => this.tabs.focused(window));

    on.request((details) => {
      this.evidence.began(details);
      this.traffic.began(details);
    });
    on.redirect((details) => {
      this.evidence.redirected(details);
      this.traffic.answered(details);
    });
    on.response((details) => {
      this.evidence.answered(details);
      this.traffic.answered(details);
    });
    on.requestError((details) => {
      this.evidence.failed(details);
      this.traffic.failed(details);
    });
    on.downloadCreated((item) => this.evidence.downloadBegan(item));
    on.downloadChanged((delta) => this.evidence.downloadChanged(delta));

    this.#ready = this.#prepare();
    return this.#ready;
  }

  #ready = Promise.resolve();

  async #prepare() {
    const begin = (/** @type {Record<string, any>} */ stored) => {
      this.link.start(Number.isInteger(stored.starts) ? stored.starts : 0);
      return stored;
    };
    const [stored, tabs] = await Promise.all([this.memory.load().then(begin), this.#browser.tabs()]);
    for (const tab of tabs) this.tabs.put(tab);
    // One tab that cannot be looked into does not keep the others from being known.
    const learnt = (/** @type {unknown} */ error) => note('could not look into a tab', error);
    await Promise.all(this.tabs.all().map(({tab}) => this.documents.learn(tab).catch(learnt)));
    this.#anew = stored.run !== true || stored.anew === true;
    this.ledger.restore(stored.ledger);
    this.documents.restore(stored.scripts, stored.groups, stored.scripted === true);
    this.workers.restore(stored.workers);
    if (Array.isArray(stored.apart)) for (const tab of stored.apart) this.tabs.setApart(tab);
    // Those of a browser that has just begun are the ones that it came with.
    if (stored.run === true && this.#personHolds()) for (const tab of this.#early ?? []) this.tabs.setApart(tab);
    this.#early = null;
    // Not before: what a former worker stored is not to be written over unread.
    this.memory.keep(() => ({
      run: true, anew: this.#anew, ledger: this.ledger.snapshot(), scripts: this.documents.scripts(), groups: this.documents.groups(), starts: this.link.attempt, scripted: this.documents.everScripted(), workers: this.workers.names(),
      apart: this.tabs.apart(), probes: this.probe.tabs(),
    }));
    this.memory.touch();
    this.gate.hold = this.memory.hold;
    if (this.memory.mark.epoch > 0) this.gate.raise(this.memory.mark.epoch);
    this.probe.restore(stored.probes);
    await this.sessions.adopt().catch((error) => note('could not list debugger targets', error));
    await Promise.resolve(this.#browser.wakeEveryHalfMinute()).catch((error) => note('alarm', error));
    this.link.ready();
  }

  // The link.

  /** @param {unknown} port */
  #up(port) {
    this.gate.port = port;
    this.grants.reset();
    this.#dirty.clear();
    this.#told.clear();
    /** @type {any} */
    const hello = {
      t: 'hello', version: VERSION, build: BUILD, instance: this.#instance,
      mark: this.memory.mark, granted: this.#granted, actions: this.ledger.reports().map((action) => this.#tell(action)),
    };
    this.#helloHold = this.memory.hold;
    if (this.#helloHold) hello.hold = this.#helloHold;
    if (this.#anew) hello.anew = true;
    this.link.send(hello);
  }

  /** @param {string} reason @param {import('./refusal.js').Refusal | null} error */
  #down(reason, error) {
    this.gate.linked = false;
    this.gate.port = null;
    this.gate.close();
    this.probe.cut();
    this.watch.end();
    this.sessions.letRequestsGo(); // nobody is there to answer them
    this.grants.reset();
    this.people.linkIs('down', reason, error);
    this.memory.touch();
  }

  /** @param {import('./link.js').Message} message @param {unknown} port */
  #receive(message, port) {
    switch (message.t) {
      case 'cmd':
        this.commands.take(message, port);
        return;
      case 'welcome':
        this.#welcome(message);
        return;
      case 'fence':
        this.#fence(/** @type {any} */ (message));
        return;
      case 'poke':
        this.grants.poked();
        return;
      case 'grant':
        this.#grant(message);
        return;
      case 'forget':
        // Only the journal knows of them from here on: an older one is not to be taken for it.
        this.memory.know(message.seq ?? 0);
        this.ledger.forget(message.actions ?? []);
        for (const action of message.actions ?? []) this.#told.delete(action);
        this.memory.touch();
        return;
      case 'probe':
        this.probe.take(message);
        return;
      case 'stop.page':
        void this.#stopPage(message);
        return;
      case 'stop.prepare':
        void this.#stopPrepare();
        return;
      case 'person.reply':
        this.people.replied(/** @type {any} */ (message));
        return;
      case 'ui':
        this.people.show(message.status);
        return;
      default:
        note(`dropped ${message.t}: it is not for the extension`);
    }
  }

  /** @param {any} welcome */
  #welcome({epoch, seq, apart}) {
    this.gate.linked = true;
    this.gate.raise(epoch);
    this.memory.see(epoch, seq);
    if (apart) for (const {tab} of this.tabs.all()) this.tabs.setApart(tab);
    if (this.#anew) {
      // The next life must not say it again: it would be taken for what came in between.
      this.#anew = false;
      this.memory.store();
    }
    this.memory.touch();
    this.people.linkIs('up');
    this.people.tell(this.#helloHold);
    // What they leave behind is told first.
    const ends = [...this.#ends];
    this.#ends.clear();
    void this.#tellWorkers().then(() => {
      for (const [document, how] of ends) this.#endOf(document, how);
    });
  }

  /**
   * Everything up to the answer happens in this one turn: from its end on, nothing
   * of an older epoch can be dispatched (I4).
   * @param {Fence} fence
   */
  #fence(fence) {
    if (!this.gate.raise(fence.epoch)) {
      note(`refused a fence at epoch ${fence.epoch}: it is below ${this.gate.epoch}`);
      return;
    }
    this.gate.close();
    this.probe.cut();
    this.watch.end();
    this.traffic.clear();
    this.grants.stop();
    this.tabs.withdraw();
    this.#lent = 0;
    const answersHold = this.memory.clearHold(fence.hold);
    if (answersHold) this.gate.hold = null;
    this.ledger.fence(fence.epoch, fence.watch_ms);
    const documents = this.drain.begin(fence);
    const actions = this.ledger
      .unsettled(fence.epoch, (document) => this.documents.scripted(document))
      .map((action) => this.#tell(action));
    this.link.send({
      t: 'fenced', epoch: fence.epoch, instance: this.#instance, granted: this.#granted, actions, documents,
    });
    this.memory.see(fence.epoch, fence.seq, fence.person);
    this.people.changed();
    void this.#settle(fence);
  }

  /** @param {Fence} fence */
  async #settle(fence) {
    const documents = await this.drain.settle(fence);
    if (!documents) return;
    const actions = this.ledger.reports(fence.epoch).map((action) => this.#tell(action));
    this.link.send({t: 'drained', epoch: fence.epoch, actions, documents});
    if (this.#pageStops === 0) await this.sessions.detachAll();
  }

  /** @param {any} grant */
  #grant(grant) {
    if (grant.epoch === 0) {
      // Nothing is granted: that needs no time to live, and nobody to have asked.
      this.gate.close();
      this.grants.stop();
      return;
    }
    const end = this.grants.ends(grant);
    if (!end) {
      note('dropped a grant: it answers nothing that was asked, or comes too late');
      return;
    }
    if (this.gate.hold || !this.gate.raise(grant.epoch)) {
      note(`refused a grant of epoch ${grant.epoch}`);
      return;
    }
    const before = this.gate.grant;
    this.gate.grant = {epoch: grant.epoch, lease: grant.lease, watchMs: grant.watch_ms, allow: grant.allow ?? [], ...end};
    this.grants.renewWithin(grant.ttl_ms);
    if (before?.epoch === grant.epoch) return;

    this.probe.cut();
    if (this.drain.running) {
      // A person said to go on although something was open. What the former holder
      // left in the debugger's sessions must not reach this one.
      this.drain.cancel();
      this.ledger.lost(grant.epoch);
      void this.sessions.detachAll();
    }
    if (this.#lent !== grant.epoch) this.tabs.lend(grant.origins ?? [], (tab) => this.documents.url(tab));
    this.#lent = this.#granted = grant.epoch;
    this.gate.stopping = false;
    this.memory.see(grant.epoch, 0);
    this.link.send({t: 'granted', epoch: grant.epoch});
  }

  // What is learnt.

  /** @param {Entry} entry */
  #changed(entry) {
    if (!this.#dirty.has(entry)) this.#dirty.set(entry, this.#browser.monoMs());
    this.memory.touch();
    // Whoever asked waits to hear whether it has sent something: the first request of an action at rest is told at once.
    if (entry.how === 'barrier' && entry.requests.size > 0 && !this.#told.has(entry.action)) this.#report(entry);
    this.#reporting ??= setTimeout(() => this.#flush(), REPORT_MS);
  }

  /** Without a link there is nobody to tell; the next hello carries all of it. @param {Entry} entry */
  #report(entry) {
    if (!this.link.welcomed || this.ledger.get(entry.action) !== entry) return;
    if (this.#told.get(entry.action) !== entry.rev) this.link.send({t: 'report', action: this.#tell(report(entry))});
  }

  /** Sends what has changed. An action under way is told of less often: it changes with each step. */
  #flush() {
    this.#reporting = undefined;
    const now = this.#browser.monoMs();
    for (const [entry, since] of this.#dirty) {
      if (entry.how === 'open' && now - since < UNDER_WAY_MS) continue;
      this.#dirty.delete(entry);
      // At rest, and nothing was seen of it: the host has said so, and drains say it again.
      if (quiet(entry) && !this.#told.has(entry.action)) continue;
      this.#report(entry);
    }
    if (this.#dirty.size > 0) this.#reporting = setTimeout(() => this.#flush(), REPORT_MS);
    this.people.changed();
  }

  /**
   * Remembers which state of an action the daemon has, so that it is not told twice.
   * @param {import('./ledger.js').ActionReport} action
   */
  #tell(action) {
    this.#told.set(action.action, action.rev);
    return action;
  }

  /** @param {number} tab @param {string} before @param {string} after '' if the tab is gone */
  #replaced(tab, before, after) {
    this.ledger.replaced(tab, before);
    if (!after) return;
    this.documents.arrived(tab, after);
    if (this.sessions.everyDocument(tab) && this.documents.script(tab, after)) this.memory.store();
  }

  /** @param {string} document @param {string} how */
  #documentEnded(document, how) {
    this.memory.touch();
    // A worker that it leaves behind is told first: at no time nothing is listed.
    void this.#tellWorkers().then(() => this.#endOf(document, how));
  }

  /** What may run an agent's code without a page. */
  async #tellWorkers() {
    if (!this.link.welcomed || !this.documents.everScripted()) return;
    const more = await this.workers.tell().catch((error) => note('could not list workers', error));
    // The next life has to tell their ends.
    if (more) this.memory.store();
  }

  /** @param {string} document @param {string} how */
  #endOf(document, how) {
    if (this.link.welcomed) this.#sendEnd(document, how);
    else this.#ends.set(document, how);
  }

  /** @param {string} document @param {string} how */
  #sendEnd(document, how) {
    this.link.send({t: 'document.ended', document, how});
  }

  /** @param {number} tab */
  #crashed(tab) {
    const gone = this.documents.crashed(tab);
    this.ledger.ended(gone);
    this.drain.ended(gone);
  }

  /** @param {any} tab */
  #tabCreated(tab) {
    this.#early?.add(tab.id);
    const probes = this.probe.made(tab);
    // What a person opens while holding is not lent with the next grant.
    if (probes || this.#personHolds()) {
      this.tabs.setApart(tab.id);
      this.memory.touch();
    }
    this.tabs.created(tab);
    if (typeof tab.openerTabId === 'number') this.evidence.opened(tab.id, tab.openerTabId);
    else if (!probes && this.ledger.tabMade(tab.id)) this.tabs.own(tab.id);
    void this.watch.look(tab.id);
  }

  #personHolds() {
    return this.memory.hold !== null || this.memory.mark.person;
  }

  /** @param {number} tab */
  #tabRemoved(tab) {
    this.watch.removed(tab);
    this.tabs.removed(tab);
    this.probe.removed(tab);
    this.evidence.committed(tab);
    this.documents.removed(tab);
  }

  // Stopping.

  /**
   * The tabs that end with the pages that an agent's work reached: these, and those
   * that share a renderer process with them.
   */
  async #stopList() {
    const reached = new Set([...this.drain.tabs(), ...this.sessions.tabs()]);
    for (const {tab} of this.documents.scripts()) reached.add(tab);
    for (const tab of this.probe.tabs()) reached.delete(tab); // read there, and nothing done
    /** @type {Map<number, Set<number>>} */
    const processes = new Map();
    await Promise.all(
      this.tabs.all().map(async ({tab}) => {
        const frames = await this.#browser.frames(tab).catch(() => null);
        processes.set(tab, new Set((frames ?? []).map((frame) => frame.processId)));
      }),
    );
    const ending = new Set();
    for (const tab of reached) for (const process of processes.get(tab) ?? []) ending.add(process);
    return this.tabs
      .all()
      .filter(({tab}) => reached.has(tab) || [...(processes.get(tab) ?? [])].some((process) => ending.has(process)))
      .map(({tab, title, url}) => ({
        tab, title: title.slice(0, MAX_TITLE), url: withoutQuery(url), shares: !reached.has(tab),
      }));
  }

  /**
   * Ends the renderers of tabs. All are attached before the first is ended, so that
   * the end of one that shares a process is seen too.
   * @param {any} message
   */
  async #stopPage({epoch, tabs}) {
    if (epoch !== this.gate.epoch) {
      note(`refused to stop pages under epoch ${epoch}`);
      return;
    }
    const named = (tabs ?? []).map((/** @type {{tab: number}} */ one) => one.tab);
    const scripts = this.documents.scripts().map((one) => one.tab);
    const list = new Set(named.length ? named : [...this.drain.tabs(), ...scripts]);
    this.#pageStops++;
    const workers = named.length === 0 ? this.workers.end() : Promise.resolve();
    try {
      const attach = (/** @type {number} */ tab) =>
        this.sessions.attach(tab).catch((error) => note('could not attach to stop a page', error));
      await Promise.all([...list].map(attach));
      const ended = (/** @type {number} */ tab) => this.documents.dead(tab);
      for (let waited = 0; waited < CRASH_MS && ![...list].every(ended); waited += LOOK_MS) {
        // Once more where it was not done: what stood in the way is about to be over.
        if (waited % CRASH_AGAIN_MS === 0) {
          for (const tab of list) if (this.sessions.attached(tab) && !ended(tab)) void this.sessions.crash(tab);
        }
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
      await workers;
      this.people.stopped([...list].filter((tab) => !ended(tab)).length + this.workers.names().length);
    } finally {
      this.#pageStops--;
    }
    if (this.gate.epoch === epoch && !this.gate.grant && !this.drain.running && this.#pageStops === 0) {
      await this.sessions.detachAll();
    }
  }

  /** A dialog of beforeunload would keep the browser from a clean end: it is accepted. */
  async #stopPrepare() {
    this.gate.stopping = true;
    this.probe.cut(); // the next run is not to come up with its tab
    const attach = (/** @type {number} */ tab) =>
      this.sessions.attach(tab).catch((error) => note('could not attach for the stop', error));
    await Promise.all(this.tabs.all().map(({tab}) => attach(tab)));
    this.link.send({t: 'stop.ready'});
  }
}
