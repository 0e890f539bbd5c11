// Written by daemon/wire/gen from package wire. Do not edit.

export declare const VERSION: 1;

export declare const LIMITS: {
  /** MaxToExtension is Chromium's own bound on one native message to the browser. */
  readonly MaxToExtension: 1048576;
  /** MaxFromExtension is Chromium's own bound on one native message to a host. */
  readonly MaxFromExtension: 67108864;
  /**
   * ChunkBytes is how much of a larger message one chunk carries before base64: 4/3 of it
   * and the envelope stay below MaxToExtension.
   */
  readonly ChunkBytes: 655360;
  /**
   * MaxMessage is the largest whole message, after joining chunks: room for a 70 MB page
   * capture in base64.
   */
  readonly MaxMessage: 100663296;
  /** MaxFrame is the largest frame on host.sock. */
  readonly MaxFrame: 100663296;
  /** MaxBody is the largest body of an API request: parameters of 5 MB and some room. */
  readonly MaxBody: 16777216;
  /** MaxEvidence is how many requests one action's report names; more are counted. */
  readonly MaxEvidence: 64;
  /** MaxEvents is how many entries of the journal one answer holds. */
  readonly MaxEvents: 1000;
  /** MaxActions is how many actions of the ledger one answer holds. */
  readonly MaxActions: 1000;
  /** MaxURL is how much of a URL is kept in reports and records. */
  readonly MaxURL: 2048;
  /** MaxProbeText is how much of a page a probe may tell. */
  readonly MaxProbeText: 4096;
  /** MaxDialogText is how much of a dialog's text is told, in UTF-16 code units. */
  readonly MaxDialogText: 2000;
  /** MaxQueuedActions is how many actions of one lease may wait their turn. */
  readonly MaxQueuedActions: 64;
  /**
   * GrantTTL is how long a grant that the extension pulled opens its gate. It counts from
   * when the extension asked. (milliseconds)
   */
  readonly GrantTTL: 15000;
  /**
   * FenceAck is how long the daemon waits for `fenced` before it calls the fence
   * unacknowledged. (milliseconds)
   */
  readonly FenceAck: 2000;
  /** DrainDeadline bounds the drain; what is left then is unknown. (milliseconds) */
  readonly DrainDeadline: 30000;
  /**
   * WatchWindow is how long the requests of an action's documents are watched after its
   * local work has settled, unless the binding says otherwise. (milliseconds)
   */
  readonly WatchWindow: 5000;
  /** ClaimWithin is how long a granted lease may stay unclaimed. (milliseconds) */
  readonly ClaimWithin: 5000;
  /** ActionDeadline is an action's deadline if the client names none. (milliseconds) */
  readonly ActionDeadline: 30000;
  /** MaxActionDeadline is the longest deadline a client may name. (milliseconds) */
  readonly MaxActionDeadline: 600000;
  /** ProbeWait is how long a probe's page may take if its binding does not say. (milliseconds) */
  readonly ProbeWait: 10000;
  /** HelloWithin bounds the handshake of a host. (milliseconds) */
  readonly HelloWithin: 5000;
};

/** One row of MESSAGES: how a field is written. */
export interface Field {
  readonly kind: 'string' | 'int' | 'uint' | 'number' | 'bool' | 'array' | 'map' | 'object' | 'any';
  readonly optional?: true;
  readonly nullable?: true;
  readonly max?: number;
  readonly enum?: readonly string[];
  readonly struct?: string;
  readonly element?: Field;
}

/** DevTools methods for an agent: '' or why one is refused whatever the binding allows. What is not in it is refused. */
export declare const METHODS: { readonly [method: string]: string };

/** Those that a setting of the binding opens. */
export declare const NEEDS: { readonly [method: string]: string };

export declare const MESSAGES: { readonly [t in Message['t']]: { readonly [name: string]: Field } };

/** Returns null, or what is wrong with the first wrong field. */
export declare function validate(msg: unknown): string | null;

/** a slot's name, chosen by a person */
export type SlotName = string;
/** ULID: one run of a slot's browser */
export type LaunchID = string;
/** one attested connection of a host to the daemon */
export type Nonce = string;
/** A code of docs/PROTOCOL.md. */
export type Code = 'invalid' | 'unauthenticated' | 'denied' | 'not_found' | 'conflict' | 'held' | 'fenced' | 'expired' | 'quarantined' | 'document_changed' | 'account_mismatch' | 'outcome_unknown' | 'policy' | 'capacity' | 'busy' | 'limit' | 'deadline' | 'unavailable' | 'epoch_regression' | 'version_skew' | 'internal';
/** one life of the extension's service worker */
export type InstanceID = string;
/**
 * Epoch numbers the periods of control of one slot. It is raised at every change of
 * control, never lowered and never issued twice (I1). The largest one fits a JavaScript
 * number exactly.
 */
export type Epoch = number;
/** one press of "Take over", made by the extension */
export type HoldID = string;
/** TabID is the extension's number of a tab; it is valid for one launch. */
export type TabID = number;
/** ULID: the daemon's global identifier of an action */
export type ActionID = string;
/** Chromium's documentId of one document */
export type DocumentID = string;
/** ULID */
export type LeaseID = string;
/** Class says whether an action can have an effect on a website. */
export type Class = string;
/** of one probe, numbered by the journal */
export type ProbeID = string;
/** an agent's name, as its delegation gives it */
export type AgentName = string;
/** a binding's name, chosen by a person */
export type BindingName = string;
/** Local is what is known of an action's local work. */
export type Local = string;
/** ULID */
export type RetentionID = string;

/**
 * Error is a refusal. Every refusal of every part is one of these; on the wire it is
 * {"error":{"code","message","hint","detail"}}.
 */
export interface Refusal {
  code: Code;
  message: string;
  hint?: string;
  detail?: { [key: string]: unknown } | null;
}

/** Mark is the extension's high-water mark, kept in storage.local of the profile. */
export interface Mark {
  /** the highest epoch this profile ever saw */
  epoch: Epoch;
  /** the journal's sequence that came with it */
  seq: number;
  person: boolean;
}

/**
 * Hold is a person's press of "Take over". From the turn in which the worker learns of it
 * nothing of an agent is dispatched.
 */
export interface Hold {
  id: HoldID;
  /** wall clock, unix milliseconds */
  since_ms: number;
  stop_page?: boolean;
  /** with stop_page: the tabs to end */
  tabs?: TabRef[] | null;
}

/** TabRef names a tab for a person. */
export interface TabRef {
  tab: TabID;
  title?: string;
  url?: string;
}

/**
 * ActionReport is all that the extension knows of one action. It is sent whole whenever
 * it changes (Report), and in Hello, Fenced and Drained; a report with a lower rev than
 * one seen before is ignored. It is kept until Forget.
 */
export interface ActionReport {
  action: ActionID;
  epoch: Epoch;
  rev: number;
  /** effect commands given to sendCommand */
  dispatched: number;
  /** of those, not settled */
  open: number;
  tab: TabID;
  document: DocumentID;
  /** the agent's own script ran in the main world */
  script: boolean;
  /** How its document came to rest after its last effect, as in Document.How. */
  how: 'barrier' | 'ended' | 'lost' | 'open';
  /**
   * HowRule says what a barrier rests on: barrier_in_document, navigated_by_document (the
   * last input was answered while the document was current, and the document itself asked
   * for the navigation that replaced it), or answered (no input was among the commands,
   * and each was answered without an error).
   */
  how_rule?: string;
  requests: RequestReport[] | null;
  /** requests beyond MaxEvidence, counted only */
  more: number;
  downloads: string[] | null;
}

/** RequestReport is one request attributed to an action. */
export interface RequestReport {
  id: string;
  method: string;
  /** origin and path, no query */
  url: string;
  /** chrome.webRequest's resource type */
  type: string;
  state: 'in_flight' | 'answered' | 'failed';
  /** when answered */
  status: number;
  /** when failed: Chromium's net:: error */
  error: string;
  /**
   * Rule of attribution: document (webRequest named the document), navigation (same tab
   * and frame, between dispatch and the next commit), worker_origin (a service worker of
   * the document's origin: weak).
   */
  rule: 'document' | 'navigation' | 'worker_origin';
  after_fence: boolean;
  /** wall clock, unix milliseconds */
  began_ms: number;
  /** 0 while in flight */
  ended_ms: number;
}

/** Document is a document that an agent's input or script reached. */
export interface Document {
  document: DocumentID;
  tab: TabID;
  url: string;
  why: 'agent_script' | 'input_pending';
  /**
   * How it came to rest: barrier (our barrier ran in it after the last input), ended (its
   * renderer is verified gone), lost (neither), open (not yet).
   */
  how: 'barrier' | 'ended' | 'lost' | 'open';
}

/**
 * Expect names the document in which an action is to run. Tab 0 is the active tab; an
 * empty Document is the one last reported to this agent for that tab.
 */
export interface Expect {
  tab?: TabID;
  frame?: number;
  document?: DocumentID;
}

/**
 * Act is the flat part of an action request: the verb and its arguments. Which arguments
 * a verb takes stands in Verbs.
 */
export interface Act {
  verb: string;
  /**
   * Where. A target is one of Selector (CSS), Ref (from a snapshot of the same document),
   * Text (visible text, the smallest element that contains it), or Role with Name (ARIA
   * role, accessible name).
   */
  selector?: string;
  ref?: string;
  text?: string;
  role?: string;
  name?: string;
  /** drag: the target to drop on, a CSS selector or a ref. */
  to_selector?: string;
  to_ref?: string;
  /** navigate */
  url?: string;
  /** fill, type, select; dialog: the prompt's text */
  value?: string | null;
  /** press: "Enter", "Control+A" */
  key?: string;
  /** check: false unchecks; default true */
  checked?: boolean | null;
  /** scroll, CSS pixels */
  dx?: number;
  /** scroll, CSS pixels */
  dy?: number;
  /** evaluate: JavaScript, a promise is awaited */
  expression?: string;
  /** upload: names in the lease's upload directory */
  files?: string[] | null;
  /**
   * wait: visible, hidden, load; default visible. snapshot: load waits for that first,
   * for half of the action's time
   */
  state?: string;
  /** screenshot */
  full_page?: boolean;
  /** snapshot: what changes within this time is told as it is then */
  settle_ms?: number;
  /** dialog */
  accept?: boolean | null;
  /** tabs: list, new, close, select; default list */
  op?: string;
  /** cdp */
  method?: string;
  /** cdp */
  params?: unknown;
}

/** Steps counts the effect commands of an action. */
export interface Steps {
  dispatched: number;
  total: number;
}

/**
 * Dialog is what a page shows a person and waits with: whatever is asked of the page
 * meanwhile is answered afterwards.
 */
export interface Dialog {
  /** alert, confirm, prompt, beforeunload */
  kind: string;
  message: string;
  /** prompt: the text that stands there */
  default?: string;
}

/** CDPError is an error as the DevTools protocol words it. */
export interface CDPError {
  code: number;
  message: string;
}

/** Status is a slot's state in the three answers. It is what status, the popup and the API show. */
export interface Status {
  slot: SlotName;
  at: number;
  binding: BindingName;
  authority: AuthorityNow;
  local: LocalNow;
  remote: RemoteNow;
  offer: Offer;
  quarantine: Reason[] | null;
  interrupted?: Interrupt | null;
  queue: Waiter[] | null;
  /** what its binding allows beyond pages */
  allow?: string[] | null;
  /** conflict keys that the slot holds */
  keys?: string[] | null;
  asks?: AskNow[] | null;
  retentions?: RetentionNow[] | null;
  sign_ins?: SignIn[] | null;
  /** the browser's last end, if that was not a clean one */
  unclean?: UncleanEnd | null;
  /** a look of the system's at a page */
  probing?: Probing | null;
  sentences: Sentences;
}

/** AuthorityNow answers: who may act now? */
export interface AuthorityNow {
  holder: Holder;
  epoch: Epoch;
  lease?: LeaseID;
  expires_in_ms?: number;
  /** pending, acknowledged, draining, drained, unacknowledged */
  fence: string;
  /** the holder's grant is open in the extension */
  ready: boolean;
  /** Unrecorded: a person has taken over, and the database does not have it yet. */
  unrecorded?: boolean;
}

/** Holder is who has control. */
export interface Holder {
  /** none, human, agent */
  kind: string;
  /** the agent's name, or the person's surface */
  name: string;
}

/** LocalNow answers: what local work might still be running? */
export interface LocalNow {
  /** idle, running, unknown */
  state: string;
  commands: CommandNow[] | null;
  documents: DocNow[] | null;
  downloads: string[] | null;
  launch?: LaunchNow | null;
}

/** CommandNow is an action whose local work is not known to be over. */
export interface CommandNow {
  action: ActionID;
  summary: string;
  running_ms: number;
  local: Local;
}

/** DocNow is a document in which an agent's input is pending or its script may run. */
export interface DocNow {
  document: DocumentID;
  tab: TabID;
  url: string;
  /** agent_script, input_pending */
  why: string;
  agent: AgentName;
}

/** LaunchNow is the slot's browser. */
export interface LaunchNow {
  launch: LaunchID;
  generation: number;
  unit?: string;
  invocation_id?: string;
  /** full, weak */
  containment: string;
  /** starting, running, ended, unknown */
  state: string;
  /** up, down: is the extension connected and attested */
  link: string;
  debug?: string;
  /** how the extension was put into it: policy, external, load */
  packaging?: string;
  /** what that packaging leaves open; empty: nothing that another would close */
  unprotected?: string;
}

/** RemoteNow answers: what is known about the result on the website? */
export interface RemoteNow {
  /** of the actions that are not closed: none_seen, in_flight, answered, unknown */
  state: string;
  requests: RequestNow[] | null;
}

/** RequestNow is a request of an action that is not closed. */
export interface RequestNow {
  action: ActionID;
  method: string;
  url: string;
  state: string;
}

/** Offer says whether the slot can be granted to an agent now, and if not, why. */
export interface Offer {
  available: boolean;
  why: string[] | null;
}

/** Reason is one reason of a quarantine. */
export interface Reason {
  code: string;
  text: string;
  since: number;
  action?: ActionID;
  /** the command that leaves it */
  resolve: string;
}

/** Interrupt is the lease that a person's takeover interrupted. */
export interface Interrupt {
  lease: LeaseID;
  agent: AgentName;
  expires_in_ms: number;
  /** what it asked of the person who took over */
  ask?: Ask | null;
}

/**
 * Ask is what an agent asks of a person: to sign in, to enter a second factor, to decide.
 * It waits visibly until a person answers it, takes the slot over, or the lease ends.
 */
export interface Ask {
  reason: string;
  at: number;
  /** at which it was asked: an answer is for this epoch */
  epoch: Epoch;
  /** open, granted, declined, taken_over */
  state: string;
  by?: string;
  note?: string;
  answered?: number;
}

/** Waiter is a place in the slot's queue. */
export interface Waiter {
  lease: LeaseID;
  agent: AgentName;
  binding: BindingName;
  task?: string;
  priority?: number;
  /** 1 is next */
  position: number;
  /** left */
  wait_ms: number;
  reasons: string[] | null;
}

/** AskNow is what an agent asks of a person and nobody has answered. */
export interface AskNow {
  lease: LeaseID;
  agent: AgentName;
  reason: string;
  at: number;
  /** at which it was asked: an answer is for this epoch */
  epoch: Epoch;
  /** open, granted, declined, taken_over */
  state: string;
  by?: string;
  note?: string;
  answered?: number;
}

/** RetentionNow is a longer maximum lifetime that an agent asks for. */
export interface RetentionNow {
  lease: LeaseID;
  agent: AgentName;
  retention: RetentionID;
  /** from the approval on */
  for_ms: number;
  reason: string;
  /** at which it was asked */
  epoch: Epoch;
  at: number;
  /** requested, approved, refused, acknowledged */
  state: string;
  by?: string;
  note?: string;
  /** DecidedMs and AcknowledgedMs are of the wall clock, for people. */
  decided?: number;
  acknowledged?: number;
  /** what was approved */
  until: Deadline;
}

/** Deadline is an instant of one boot. After a reboot it has passed. */
export interface Deadline {
  boot_id: string;
  boot_ms: number;
}

/** SignIn is what is known of the account that a binding expects. */
export interface SignIn {
  binding: BindingName;
  account?: string;
  confirmed: Confirmation | null;
  /** the browser was started again since */
  before_restart?: boolean;
  /** confirmed, on the disk, and not known to be lost */
  prepared: boolean;
  /** the binding declares how to check it */
  probe?: boolean;
  /** what was last found by that */
  checked?: AccountNow | null;
}

/**
 * Confirmation is a person's word that a slot is signed in as a binding says. It is of
 * one launch: after a restart it is shown as older than that.
 */
export interface Confirmation {
  by: string;
  at: number;
  account?: string;
  launch: LaunchID;
  generation: number;
  note?: string;
  /**
   * SavedMs is when the sign-in was known to be on the disk, LostMs when its browser
   * ended before that, without a clean stop. Both 0: a crash now would lose it.
   */
  saved?: number;
  lost?: number;
}

/** AccountNow is what was found about an account, as people see it. */
export interface AccountNow {
  binding: BindingName;
  /** match, mismatch, unknown */
  state: string;
  at: number;
  launch: LaunchID;
  generation: number;
  /** system (a probe), or the person who attested it */
  by: string;
  /** of a probe */
  asked_by?: string;
  why: string;
  /** it counts so long; zero: no longer */
  until: Deadline;
  /** why it counts no longer */
  past?: string;
  /** a lease may rest on it */
  counts: boolean;
  before_restart?: boolean;
}

/** UncleanEnd is an end of a browser that wrote nothing more. */
export interface UncleanEnd {
  launch: LaunchID;
  generation: number;
  /** unix milliseconds, when it was known */
  at: number;
  how: string;
}

/** Probing is a probe under way. */
export interface Probing {
  probe: ProbeID;
  /** account, effect */
  kind: string;
  binding: BindingName;
  /** of effect */
  action?: ActionID;
  /** under which it looks; an end of it cuts it off */
  epoch: Epoch;
  /** the person, or the system for one who waits */
  asked_by: string;
  deadline: Deadline;
}

/** Sentences says the three answers in plain words, for a person. */
export interface Sentences {
  authority: string;
  local: string;
  remote: string;
  warnings: string[] | null;
}

/**
 * HostHello opens host.sock (H to D). What it says is routing evidence; the daemon
 * attests the peer by its credentials, its descent and the secret.
 */
export interface HostHello {
  t: 'host.hello';
  version: number;
  build: string;
  slot: SlotName;
  launch: LaunchID;
  secret: string;
  /** argv[1]: chrome-extension://ID/ */
  origin: string;
}

/** HostWelcome answers HostHello (D to H). */
export interface HostWelcome {
  t: 'host.welcome';
  nonce: Nonce;
  slot: SlotName;
}

/**
 * HostRefused answers HostHello or ends a link (D to H, and H to X as it is). The
 * connection is closed after it.
 */
export interface HostRefused {
  t: 'host.refused';
  error: Refusal;
}

/**
 * Link tells the extension that its host has, or has lost, an attested link to the daemon
 * (H to X). Losing it clears the grant in that turn. After an up the extension sends
 * Hello.
 */
export interface Link {
  t: 'link';
  up: boolean;
  nonce?: Nonce;
  reason?: string;
  error?: Refusal | null;
}

/**
 * Chunk is a piece of a message that is too large for one Native Messaging frame (both
 * ways between H and X). Data is base64 of up to ChunkBytes of the UTF-8 JSON of the
 * whole message. Chunks of one message come in order; those of two messages do not
 * interleave.
 */
export interface Chunk {
  t: 'chunk';
  id: number;
  index: number;
  total: number;
  data: string;
}

/** Hello is the extension's first message on a link (X to D). */
export interface Hello {
  t: 'hello';
  nonce: Nonce;
  version: number;
  /** hash of the extension's files, in its code */
  build: string;
  instance: InstanceID;
  mark: Mark;
  hold?: Hold | null;
  /** the epoch last granted to this instance, 0 if none */
  granted: Epoch;
  /**
   * it remembers nothing of this run of the browser: that has just begun, or the
   * extension was loaded anew
   */
  anew?: boolean;
  /** every action not yet forgotten */
  actions: ActionReport[] | null;
}

/** Welcome accepts a Hello (D to X). */
export interface Welcome {
  t: 'welcome';
  nonce: Nonce;
  epoch: Epoch;
  seq: number;
  /** the tabs that are open now are the person's: none is lent */
  apart?: boolean;
}

/**
 * Fence raises the extension's epoch (D to X; H raises its own first). Everything of an
 * older epoch is refused from then on. It is answered by Fenced at once and by Drained
 * when the drain has ended.
 */
export interface Fence {
  t: 'fence';
  nonce: Nonce;
  epoch: Epoch;
  seq: number;
  /** a person holds under this epoch */
  person: boolean;
  /** a person held until now: drain the active tab of every window too */
  from_person: boolean;
  /** the hold that this fence answers: clear it */
  hold?: HoldID;
  /** for the drain */
  deadline_ms: number;
  watch_ms: number;
}

/**
 * Fenced acknowledges Fence (X to D): I4 holds from here on. Actions lists every action
 * of an older epoch with something unsettled, and every one whose script may still run.
 */
export interface Fenced {
  t: 'fenced';
  nonce: Nonce;
  epoch: Epoch;
  instance: InstanceID;
  /** the last epoch granted to this instance */
  granted: Epoch;
  actions: ActionReport[] | null;
  /** agent_script and input_pending */
  documents: Document[] | null;
}

/**
 * Drained ends the drain of Fence (X to D). Documents says how each affected one came to
 * rest. Actions is every report of an older epoch not yet forgotten: an action that was
 * sent and is not among them was never dispatched by this instance.
 */
export interface Drained {
  t: 'drained';
  nonce: Nonce;
  epoch: Epoch;
  actions: ActionReport[] | null;
  documents: Document[] | null;
}

/**
 * DocumentFound reports a shared worker that may run an agent's code (X to D): it
 * outlives the page that made it. It is listed as a document with an agent's script is,
 * and its end is a DocumentEnded. It is told again with each drain.
 */
export interface DocumentFound {
  t: 'document.found';
  nonce: Nonce;
  /** worker:NAME */
  document: DocumentID;
  url: string;
}

/** DocumentEnded reports that a document with an agent's script is gone (X to D). */
export interface DocumentEnded {
  t: 'document.ended';
  nonce: Nonce;
  document: DocumentID;
  how: 'crashed' | 'replaced' | 'closed';
}

/** Report is a settlement or evidence, at any time, of any epoch (X to D). */
export interface Report {
  t: 'report';
  nonce: Nonce;
  action: ActionReport;
}

/**
 * Forget lets the extension drop its reports of these actions (D to X): nothing more is
 * expected of them. Seq is the journal entry that says so at the latest: a database that
 * does not have it must not be believed about them, for the extension has nothing left to
 * say against it.
 */
export interface Forget {
  t: 'forget';
  nonce: Nonce;
  /** missing: of a daemon that did not tell it */
  seq?: number;
  actions: ActionID[] | null;
}

/** Poke asks the extension to pull a grant (D to X). */
export interface Poke {
  t: 'poke';
  nonce: Nonce;
}

/**
 * Pull asks for the grant (X to D). The deadline of what comes back counts from when the
 * extension sent this.
 */
export interface Pull {
  t: 'pull';
  nonce: Nonce;
  /** counts up on each link */
  ask: number;
}

/**
 * Grant opens the dispatch gate for one epoch (D to X; H opens its own). Epoch 0 means
 * that nothing is granted.
 */
export interface Grant {
  t: 'grant';
  nonce: Nonce;
  ask: number;
  epoch: Epoch;
  lease: LeaseID;
  ttl_ms: number;
  /** empty: any http(s) origin */
  origins: string[] | null;
  /** what the binding allows beyond pages */
  allow?: string[] | null;
  watch_ms: number;
}

/** Granted confirms that the gate is open (X to D). */
export interface Granted {
  t: 'granted';
  nonce: Nonce;
  epoch: Epoch;
}

/** Action asks the host for one action (D to H). */
export interface Action {
  t: 'action';
  action: ActionID;
  epoch: Epoch;
  class: Class;
  deadline_ms: number;
  expect: Expect;
  upload_dir?: string;
  /** of the binding, for the verb cdp */
  origins?: string[] | null;
  /** the same */
  allow?: string[] | null;
  act: Act;
  /**
   * Raw: a command of a DevTools client, as it is: method and params of Act, answered by
   * CDPAnswer before ActionDone. It leaves in the order in which it came. Without a
   * method: from here on the events of the lease's tabs are sent.
   */
  raw?: boolean;
  /** raw: a child session of the tab in Expect */
  session?: string;
}

/**
 * ActionDone is the host's last word on an action (H to D). It is kept by the host until
 * a daemon has taken it, and sent again on a new link.
 */
export interface ActionDone {
  t: 'action.done';
  action: ActionID;
  epoch: Epoch;
  /**
   * State: finished (all steps, and for input the barrier in the same document), failed
   * (an error of the closed table proves that nothing was executed), refused (nothing was
   * dispatched; Error says why), halted (a fence, a deadline or a lost link stopped it;
   * Steps says how far it came; what was dispatched is settled by the extension's
   * reports), unknown.
   */
  state: 'finished' | 'failed' | 'refused' | 'halted' | 'unknown';
  error?: Refusal | null;
  steps: Steps;
  /** the document the agent now has seen */
  observed?: Expect | null;
  url?: string;
  result?: unknown;
}

/**
 * ActionStop says that nobody waits for an action's answer any more (D to H). The host
 * gives its last word on it at once, with what is known then.
 */
export interface ActionStop {
  t: 'action.stop';
  action: ActionID;
  epoch: Epoch;
}

/**
 * ActionWaits says that an action goes on when a dialog of its page has been answered (H
 * to D). Without a dialog: it goes on.
 */
export interface ActionWaits {
  t: 'action.waits';
  action: ActionID;
  epoch: Epoch;
  dialog?: Dialog | null;
}

/**
 * CDPAnswer is what a raw command saw (H to D), in its order among the events. Without a
 * result it carries the browser's own error, or the gate's refusal.
 */
export interface CDPAnswer {
  t: 'cdp.answer';
  action: ActionID;
  epoch: Epoch;
  /** the tab and its main document then */
  observed: Expect;
  result?: unknown;
  error?: CDPError | null;
}

/**
 * CDPLost says that events came faster than they could be passed on: a client that goes
 * by them must begin anew. The host says so where it has dropped some (Tab is absent),
 * the extension where it has ended the debugging of a tab, so that no more come.
 */
export interface CDPLost {
  t: 'cdp.lost';
  nonce: Nonce;
  epoch: Epoch;
  tab?: TabID;
}

/**
 * CDPEvent is an event of a tab's debugging session (X to D), under the epoch in which it
 * was seen. After a fence, or a press of "Take over", none is sent (I10).
 */
export interface CDPEvent {
  t: 'cdp.event';
  nonce: Nonce;
  epoch: Epoch;
  tab: TabID;
  /** of a child: a frame of another process, a worker */
  session?: string;
  /** in the tab's main frame now, as far as is known */
  document: DocumentID;
  method: string;
  params: unknown;
}

/**
 * CDPTab tells of a tab of the lease's when a client watches (X to D): when it comes,
 * when its document or address changes, and when it is gone.
 */
export interface CDPTab {
  t: 'cdp.tab';
  nonce: Nonce;
  epoch: Epoch;
  tab: TabID;
  /** the browser's own name of it */
  target: string;
  /** the target that opened it */
  opener?: string;
  /** empty outside the origins */
  url: string;
  title: string;
  document: DocumentID;
  /** made under the lease: it may be closed */
  owned: boolean;
  gone?: boolean;
}

/**
 * Cmd is one step (H to X). The dispatch gate decides on it in the same turn of the event
 * loop in which it is carried out.
 */
export interface Cmd {
  t: 'cmd';
  /** counts up, per host */
  seq: number;
  action: ActionID;
  epoch: Epoch;
  /**
   * Kind: cdp (Method, Params, by chrome.debugger), barrier (a no-op by chrome.scripting
   * in the expected document), document (which document is in the tab), network and
   * console (what the page there has asked for, and said), tabs (list), tab_create,
   * tab_close, tab_activate, watch (from here on CDPTab and CDPEvent are sent).
   */
  kind: 'cdp' | 'barrier' | 'document' | 'network' | 'console' | 'tabs' | 'tab_create' | 'tab_close' | 'tab_activate' | 'watch';
  /**
   * Expect.Tab 0 means the active tab; an empty Expect.Document means that any document
   * will do (a navigation, or a look).
   */
  expect: Expect;
  method?: string;
  params?: unknown;
  /** Session names a child session of the tab's: a frame of another process, a worker. */
  session?: string;
  /** it can change the page: counted as a step */
  effect: boolean;
  /** it runs the agent's own script in the main world */
  script: boolean;
  class: Class;
  /** Raw: of a DevTools client, which hears of dialogs by itself. */
  raw?: boolean;
  /** LeftMs is how long from the receipt the command may still be dispatched. */
  left_ms: number;
}

/**
 * CmdResult answers Cmd (X to H). Dispatched false proves that sendCommand was not
 * called. After a fence the answer of an older command is not sent: its report is.
 */
export interface CmdResult {
  t: 'cmd.result';
  seq: number;
  ok: boolean;
  dispatched: boolean;
  /** tab and document it ran in */
  observed?: Expect | null;
  url?: string;
  result?: unknown;
  error?: Refusal | null;
  /** the page shows one: an effect is not dispatched behind it */
  dialog?: Dialog | null;
}

/**
 * CmdWaits says that the page shows a dialog, and that Cmd is answered when that has been
 * (X to H). Without a dialog: it shows none any more.
 */
export interface CmdWaits {
  t: 'cmd.waits';
  seq: number;
  /** texts of at most MaxDialogText; without them for a page beyond the origins */
  dialog?: Dialog | null;
}

/** StopPage ends the renderers of tabs by Page.crash (D to X), a settlement command. */
export interface StopPage {
  t: 'stop.page';
  nonce: Nonce;
  epoch: Epoch;
  /** empty: every tab with an affected document */
  tabs: TabRef[] | null;
}

/**
 * Probe has the extension read one page in a background tab of its own (D to X). H passes
 * it on under the epoch in force only: the highest that it was granted or fenced at. A
 * later fence, another probe and a lost link end it, unanswered.
 */
export interface Probe {
  t: 'probe';
  nonce: Nonce;
  probe: ProbeID;
  epoch: Epoch;
  url: string;
  /** the one element whose text is read */
  selector?: string;
  /** or an expression without side effects */
  expression?: string;
  /** how long the page may take */
  wait_ms: number;
}

/** ProbeResult answers Probe (X to D). */
export interface ProbeResult {
  t: 'probe.result';
  nonce: Nonce;
  probe: ProbeID;
  epoch: Epoch;
  /**
   * State: seen (Text is what was read, the same twice), absent (no such element or value
   * came, or an empty one), several (the selector names more than one element), elsewhere
   * (the page led to another origin, where nothing was read), silent (no page, or one
   * that does not answer), refused (a gate or the browser did not let it through, or the
   * expression failed or has a side effect; Text says which).
   */
  state: 'seen' | 'absent' | 'several' | 'elsewhere' | 'silent' | 'refused';
  /** at most MaxProbeText bytes */
  text?: string;
  /** there was more */
  cut: boolean;
  /** where the page was: origin and path */
  url?: string;
}

/**
 * StopPrepare readies the browser for a clean stop (D to X): the extension answers
 * beforeunload dialogs from here on. Answered by StopReady.
 */
export interface StopPrepare {
  t: 'stop.prepare';
  nonce: Nonce;
}

/** StopReady answers StopPrepare (X to D). */
export interface StopReady {
  t: 'stop.ready';
  nonce: Nonce;
}

/**
 * PersonHold tells the daemon of a hold (X to D). It becomes one takeover by its
 * identifier, however often it comes.
 */
export interface PersonHold {
  t: 'person.hold';
  nonce: Nonce;
  hold: Hold;
}

/** PersonCall is another verb of the popup (X to D), answered by PersonReply. */
export interface PersonCall {
  t: 'person.call';
  nonce: Nonce;
  id: number;
  verb: 'handback' | 'stop_page' | 'takeover';
  if_epoch: Epoch;
  /** handback: the interrupted agent, or empty for the queue */
  to: AgentName;
  /** handback although something is listed as open */
  confirm: boolean;
  /** takeover from another person's surface */
  from: boolean;
  tabs: TabRef[] | null;
}

/** PersonReply answers PersonCall (D to X). */
export interface PersonReply {
  t: 'person.reply';
  nonce: Nonce;
  id: number;
  error?: Refusal | null;
}

/** UI is what the popup shows (D to X), sent whole at each change. */
export interface UI {
  t: 'ui';
  nonce: Nonce;
  status: Status | null;
}

export type Message =
  | HostHello
  | HostWelcome
  | HostRefused
  | Link
  | Chunk
  | Hello
  | Welcome
  | Fence
  | Fenced
  | Drained
  | DocumentFound
  | DocumentEnded
  | Report
  | Forget
  | Poke
  | Pull
  | Grant
  | Granted
  | Action
  | ActionDone
  | ActionStop
  | ActionWaits
  | CDPAnswer
  | CDPLost
  | CDPEvent
  | CDPTab
  | Cmd
  | CmdResult
  | CmdWaits
  | StopPage
  | Probe
  | ProbeResult
  | StopPrepare
  | StopReady
  | PersonHold
  | PersonCall
  | PersonReply
  | UI;
