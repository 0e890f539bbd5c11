// @ts-check

/**
 * A refusal or failure as every part of SessionDock words it; the codes are the
 * daemon's (daemon/core/codes.go).
 * @typedef {{code: string, message: string, hint?: string, detail?: Record<string, unknown>}} Refusal
 */

/**
 * @param {string} code @param {string} message @param {string} [hint]
 * @returns {Refusal}
 */
export function refuse(code, message, hint) {
  return hint ? {code, message, hint} : {code, message};
}

/**
 * Words an error of chrome.debugger. A protocol error's message is itself JSON; its
 * number is kept, because some numbers prove that nothing was executed and most do
 * not: that is for the host to judge.
 * @param {unknown} error
 * @returns {Refusal}
 */
export function fromDebugger(error) {
  const text = error instanceof Error ? error.message : String(error);
  try {
    const {code, message} = JSON.parse(text);
    if (typeof code === 'number' && typeof message === 'string') {
      const invalid = code === -32601 || code === -32602;
      return {code: invalid ? 'invalid' : 'unavailable', message, detail: {cdp_code: code}};
    }
  } catch {
    // Plain text: the extension API's own words.
  }
  return {code: 'unavailable', message: text};
}

/**
 * Whether an error is the page's own side answering. These two say instead that the
 * connection to it ended, which was measured while the command's effect still came.
 * @param {Refusal} error
 */
export function isAnswer(error) {
  return error.detail?.cdp_code !== undefined && !/navigated or closed|target closed|crashed/i.test(error.message);
}

/**
 * Somewhere for what is dropped: a reader of the worker's console finds the reason.
 * @param {string} what @param {unknown} [detail]
 */
export function note(what, detail) {
  if (detail === undefined) console.warn(`sessiondock: ${what}`);
  else console.warn(`sessiondock: ${what}`, detail instanceof Error ? detail.message : detail);
}
