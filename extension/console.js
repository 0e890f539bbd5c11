// @ts-check

/**
 * What a page's console says, in short: one line an entry, for an agent that asks.
 */

import {MAX_LINE, MAX_LINES, MAX_URL, MAX_WORD} from './limits.js';

/**
 * @typedef {object} Line
 * @property {string} level error, warning, info or debug
 * @property {string} text
 * @property {string} url where it was said, '' if not known
 * @property {number} line there, from 1; 0 if not known
 * @property {number} at wall clock
 */

/** What the protocol calls them, and what they are. @type {Record<string, string>} */
const LEVELS = {error: 'error', assert: 'error', warning: 'warning', debug: 'debug', trace: 'debug', verbose: 'debug'};

/** An argument of a console call. @param {any} argument */
function shown({type, value, unserializableValue, description}) {
  if (type === 'string') return String(value);
  return String(unserializableValue ?? description ?? (value === undefined ? type : JSON.stringify(value)));
}

/** @param {string} method @param {any} params @returns {Line} */
function lineOf(method, params) {
  const {level, text, url, line, at} = parts(method, params);
  return {
    level: LEVELS[level] ?? 'info', text: String(text).slice(0, MAX_LINE), url: String(url ?? '').slice(0, MAX_URL),
    line: Number(line) || 0, at: Math.round(at ?? 0),
  };
}

/** @param {string} method @param {any} params */
function parts(method, params) {
  if (method === 'Runtime.consoleAPICalled') {
    const [frame] = params.stackTrace?.callFrames ?? [];
    return {
      level: params.type, text: (params.args ?? []).map(shown).join(' '), url: frame?.url, line: frame ? frame.lineNumber + 1 : 0, at: params.timestamp,
    };
  }
  if (method === 'Runtime.exceptionThrown') {
    const {text, exception, url, lineNumber} = params.exceptionDetails ?? {};
    return {level: 'error', text: exception?.description ?? text, url, line: (lineNumber ?? -1) + 1, at: params.timestamp};
  }
  const {level, text, url, lineNumber, timestamp} = params.entry ?? {};
  return {level: String(level).slice(0, MAX_WORD), text, url, line: (lineNumber ?? -1) + 1, at: timestamp};
}

/**
 * The latest lines, oldest first.
 * @param {{method: string, params: any}[]} events
 * @returns {{lines: Line[], more: number}} more: older ones that are left out
 */
export function summary(events) {
  const lines = events.map(({method, params}) => lineOf(method, params)).sort((a, b) => a.at - b.at);
  return {lines: lines.slice(-MAX_LINES), more: Math.max(0, lines.length - MAX_LINES)};
}
