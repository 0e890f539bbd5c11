// @ts-check

/**
 * What the browser sends on behalf of an action, and how it was answered. A request
 * goes to the latest action that can have caused it, by the first rule that applies:
 *
 *   document       webRequest names the document that made it
 *   navigation     it loads a frame, between the action's effect and the next commit
 *                  there (a form's POST has no document), or a tab opened from there
 *   worker_origin  it comes from no tab, and from the origin of the action's page: weak
 *
 * Nothing of a request is kept but its method, its address without the query, and
 * how it ended.
 */

import {UNHEARD} from './ledger.js';
import {MAX_ERROR, MAX_ID, MAX_REQUESTS, MAX_URL, MAX_WORD} from './limits.js';

/** @typedef {import('./ledger.js').Entry} Entry */
/** @typedef {import('./gen/wire.js').RequestReport} RequestReport */

/** @param {string} text */
export function withoutQuery(text) {
  try {
    const {origin, protocol, pathname} = new URL(text);
    if (protocol === 'about:') return (protocol + pathname).slice(0, MAX_WORD);
    // The path of a data: or blob: address is content, or names it.
    if (!/^(https?|wss?|ftp):$/.test(protocol)) return protocol + (origin === 'null' ? '' : origin);
    return (origin + pathname).slice(0, MAX_URL);
  } catch {
    return '';
  }
}

/** @param {string} url */
function originOf(url) {
  try {
    return new URL(url).origin;
  } catch {
    return 'null';
  }
}

export class Evidence {
  /** Requests under way. @type {Map<string, {entry: Entry, request: RequestReport}>} */ #open = new Map();
  /** Tabs that a page opened: which one, until their first commit. @type {Map<number, number>} */ #openers = new Map();
  /** @type {Map<number, Entry>} */ #downloads = new Map();
  #hops = 0;
  #ledger;
  #documents;

  /**
   * @param {import('./ledger.js').Ledger} ledger
   * @param {import('./documents.js').Documents} documents
   */
  constructor(ledger, documents) {
    this.#ledger = ledger;
    this.#documents = documents;
  }

  /** @param {number} tab @param {number} opener */
  opened(tab, opener) {
    this.#openers.set(tab, opener);
  }

  /** The tab has a document of its own from now on. @param {number} tab */
  committed(tab) {
    this.#openers.delete(tab);
  }

  /** @param {any} details of webRequest.onBeforeRequest */
  began(details) {
    // One that was redirected comes again with the same number: see redirected.
    if (this.#open.has(details.requestId)) return;
    const found = this.#attribute(details);
    if (found) this.#begin(found.entry, details.requestId, details, found.rule);
  }

  /**
   * A redirect is the answer to the request that was redirected, and the beginning of
   * another: a POST answered by 303 was answered.
   * @param {any} details of webRequest.onBeforeRedirect
   */
  redirected(details) {
    const open = this.#open.get(details.requestId);
    if (!open) return;
    this.#end(details.requestId, {state: 'answered', status: details.statusCode, ended_ms: Math.round(details.timeStamp)});
    const kept = details.statusCode === 307 || details.statusCode === 308;
    const safe = open.request.method === 'HEAD' ? 'HEAD' : 'GET';
    const next = {...details, url: details.redirectUrl, method: kept ? open.request.method : safe};
    this.#begin(open.entry, `${details.requestId}.${++this.#hops}`, next, open.request.rule);
  }

  /** The answer's head has come. @param {any} details of webRequest.onResponseStarted */
  answered(details) {
    this.#end(details.requestId, {state: 'answered', status: details.statusCode, ended_ms: Math.round(details.timeStamp)});
  }

  /** @param {any} details of webRequest.onErrorOccurred */
  failed(details) {
    this.#end(details.requestId, {state: 'failed', error: String(details.error).slice(0, MAX_ERROR), ended_ms: Math.round(details.timeStamp)});
  }

  /** @param {any} item of downloads.onCreated */
  downloadBegan(item) {
    if (item.state && item.state !== 'in_progress') return;
    const origin = originOf(item.referrer || item.url);
    const entry = this.#ledger
      .watched(Date.parse(item.startTime) || Infinity)
      .find((candidate) => this.#originOf(candidate) === origin);
    if (!entry) return;
    this.#downloads.set(item.id, entry);
    this.#ledger.download(entry, String(item.id), withoutQuery(item.finalUrl || item.url) || 'a download');
  }

  /** @param {any} delta of downloads.onChanged */
  downloadChanged(delta) {
    const entry = this.#downloads.get(delta.id);
    if (!entry || !delta.state || delta.state.current === 'in_progress') return;
    this.#downloads.delete(delta.id);
    this.#ledger.download(entry, String(delta.id), '');
  }

  /**
   * @param {any} details
   * @returns {{entry: Entry, rule: RequestReport['rule']} | null}
   */
  #attribute(details) {
    const {tabId, timeStamp, type, documentId, parentDocumentId, method} = details;
    const candidates = this.#ledger.watched(timeStamp).filter((entry) => entry.firstMs <= timeStamp + 1);
    if (candidates.length === 0) return null;

    if (documentId) {
      const root = this.#documents.known(documentId)?.root ?? documentId;
      const entry = candidates.find((one) => one.document === root || one.document === documentId);
      return entry ? {entry, rule: 'document'} : null;
    }
    if (type === 'main_frame' || type === 'sub_frame') {
      const parent = parentDocumentId ? this.#documents.known(parentDocumentId)?.root ?? parentDocumentId : '';
      const opener = this.#openers.get(tabId);
      const entry = candidates.find((one) => {
        const navigates = this.#ledger.navigates(one, timeStamp, method);
        if (type === 'sub_frame') return parent ? one.document === parent : one.tab === tabId && navigates;
        if (one.tab === tabId && navigates) return true;
        // What is lost is watched without end, but not for all that its tab opens later.
        return opener !== undefined && one.tab === opener && (navigates || one.how !== 'lost');
      });
      return entry ? {entry, rule: 'navigation'} : null;
    }
    if (tabId >= 0 || !details.initiator) return null;
    const entry = candidates.find((one) => this.#originOf(one) === details.initiator);
    return entry ? {entry, rule: 'worker_origin'} : null;
  }

  /** @param {Entry} entry */
  #originOf(entry) {
    return originOf(this.#documents.known(entry.document)?.url ?? this.#documents.url(entry.tab));
  }

  /**
   * @param {Entry} entry @param {string} id @param {any} details @param {RequestReport['rule']} rule
   */
  #begin(entry, id, details, rule) {
    /** @type {RequestReport} */
    const request = {
      id: id.slice(0, MAX_ID),
      // A page chooses its method, of any length.
      method: String(details.method).slice(0, MAX_WORD),
      url: withoutQuery(details.url),
      type: String(details.type).slice(0, MAX_WORD),
      state: 'in_flight',
      status: 0,
      error: '',
      rule,
      after_fence: entry.fencedMs > 0 && details.timeStamp >= entry.fencedMs,
      began_ms: Math.round(details.timeStamp),
      ended_ms: 0,
    };
    if (this.#open.size >= MAX_REQUESTS) {
      this.#ledger.request(entry, {...request, state: 'failed', error: UNHEARD});
      this.#ledger.beyond(entry);
      return;
    }
    this.#open.set(details.requestId, {entry, request});
    this.#ledger.request(entry, request);
  }

  /** @param {string} requestId @param {Partial<RequestReport>} end */
  #end(requestId, end) {
    const open = this.#open.get(requestId);
    if (!open) return;
    this.#open.delete(requestId);
    this.#ledger.request(open.entry, {...open.request, ...end});
  }
}
