// @ts-check

/**
 * Every bound of the extension. The protocol's own come from the generated table,
 * so that the two sides cannot drift.
 */

import {LIMITS, VERSION as WIRE_VERSION} from './gen/wire.js';

export const VERSION = WIRE_VERSION;
export const MAX_FROM_EXTENSION = LIMITS.MaxFromExtension;
export const CHUNK_BYTES = LIMITS.ChunkBytes;
export const MAX_MESSAGE = LIMITS.MaxMessage;
export const MAX_EVIDENCE = LIMITS.MaxEvidence;
export const MAX_URL = LIMITS.MaxURL;
export const MAX_PROBE_TEXT = LIMITS.MaxProbeText;
export const MAX_DIALOG_TEXT = LIMITS.MaxDialogText;
/** Characters kept of a method or a type, an error, an identifier, a title. A page chooses some of them. */
export const MAX_WORD = 32;
export const MAX_ERROR = 128;
export const MAX_ID = 64;
export const MAX_TITLE = 256;
export const MAX_EPOCH = Number.MAX_SAFE_INTEGER;

/** Actions kept until the daemon forgets them: more than a lease's lane by far. */
export const MAX_ACTIONS = 8192;
/** Commands of one tab that wait for the debugger to be attached. */
export const MAX_QUEUED = 256;
/** Documents whose tab and main document are remembered after they were replaced. */
export const MAX_DOCUMENTS = 2048;
/** Frames of one tab whose documents are known. */
export const MAX_FRAMES = 512;
/** Requests followed at a time; the browser itself has a few hundred sockets. */
export const MAX_REQUESTS = 4096;
/** What a summary of a page's requests, and of its console, tells: so many, and so much of a line. */
export const MAX_TRAFFIC = 200;
export const MAX_LINES = 200;
export const MAX_LINE = 1000;
/** Pulls that may be unanswered. An older one is forgotten, and its grant dropped. */
export const MAX_ASKS = 8;

/**
 * When a tab's events are a flood, and its debugging is ended: the browser has not answered
 * a small question for this long, and what has come of the tab since it last answered in
 * time weighs more than this. The end waits in the same line as the fence, so it must come while the line is short.
 */
export const FLOOD_MS = 100;
export const FLOOD_WEIGHT = 2 << 20;
/** What an event weighs besides its characters. 600 lines of 2,000 characters are a flood, 1,500 short ones. */
export const EVENT_WEIGHT = 1 << 10;
/**
 * Of the network each event weighs this part only: a request makes seven or so, and a page
 * load of 2,000 requests, of which most come at once, is not to be cut off.
 */
export const NETWORK_PART = 1 / 20;

/** How long chrome.debugger.attach may take. It answers in milliseconds. */
export const ATTACH_MS = 5_000;
/** How long the browser may take to tell what it has to tell of a tab that was just attached. */
export const TOLD_MS = 250;
/** How long the page of a tab that is not loaded may take to come. */
export const LOAD_MS = 5_000;
/** A command that waits for it is refused this long before its time is over, so that its host still hears it. */
export const HEARD_MS = 250;
/** How long the popup waits for the daemon's answer to a person's verb. */
export const CALL_MS = 10_000;
/** How long a tab that was just made may take to have a document. */
export const FIRST_DOCUMENT_MS = 3_000;
/** How long a page may take to leave for the empty one, once it has been asked to. */
export const LEAVE_MS = 3_000;
/** How long a renderer may take to be seen to crash. */
export const CRASH_MS = 5_000;
/** How long a drain waits for scripts that have run so far that only their promises are open. */
export const ANSWER_MS = 1_000;
/** Reports that change within this time go out together. */
export const REPORT_MS = 25;
/** An action that has not come to rest is told of this often, at most. */
export const UNDER_WAY_MS = 200;
/** How often the browser is asked whether something has come about. */
export const LOOK_MS = 20;
/** How often it is looked whether a worker that was told has gone. */
export const WORKER_LOOK_MS = 1_000;
/** How often a probe looks; a text that is the same twice has come to rest. */
export const PROBE_LOOK_MS = 100;
/** How often, at most, what a restart of the worker must not lose is stored. */
export const STORE_MS = 500;
/** How long after a page's own navigation one that was asked for before it may yet begin. */
export const OVERTAKEN_MS = 1_000;
/** The watch window where neither grant nor fence names one. */
export const WATCH_MS = LIMITS.WatchWindow;
/** The drain's deadline where the fence names none. */
export const DRAIN_MS = LIMITS.DrainDeadline;

/**
 * Waits before the native host is started again. The first is short because a
 * host that was replaced is there at once; the last keeps a dead daemon from
 * costing more than two starts a minute.
 */
export const BACK_OFF_MS = [100, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000];
/** A link that has lived this long starts the waits from the beginning. */
export const STABLE_MS = 10_000;
