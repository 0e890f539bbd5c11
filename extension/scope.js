// @ts-check

/**
 * What a setting of the binding opens is held to the binding's origins: cookies by their
 * domain, what is stored by its origin, requests by their address. The host has said the
 * same before (host/act/scope.go).
 */

import {refuse} from './refusal.js';
import {isWeb} from './tabs.js';

/** @typedef {import('./refusal.js').Refusal} Refusal */

/**
 * @typedef {object} Within what the binding's origins are
 * @property {(url: string) => boolean} allowed whether an address is of one of them
 * @property {(domain: string) => boolean} domain whether a cookie's domain is
 */

const HINT = 'a person allows it: remove the binding and make it again with --origin ORIGIN';
const COOKIES = new Set(['Network.getCookies', 'Network.getAllCookies', 'Storage.getCookies']);
const PLACES = ['origin', 'securityOrigin', 'storageKey', 'cacheId'];
/** Of these no place is asked for. */
const PLACELESS = /\.(getCookies|setCookies|getStorageKey|getStorageKeyForFrame)$/;
const STORED = /^(CacheStorage|Storage)\./;

/** @param {unknown} value */
const given = (value) => value !== undefined && value !== '';
/** @param {unknown} url @param {Within} it */
const web = (url, it) => typeof url === 'string' && isWeb(url) && it.allowed(url);
/** @param {string} what */
const beyond = (what) => refuse('policy', `${what} is not of one of the binding’s origins`, HINT);

/** @param {any} cookie @param {Within} it @returns {Refusal | null} */
function cookieBeyond(cookie, it) {
  const {url, domain} = cookie ?? {};
  const its = (!given(url) || web(url, it)) && (!given(domain) || (typeof domain === 'string' && it.domain(domain)));
  return its ? null : beyond('that cookie');
}

/** Whether what is stored in a place is the origins'. A partition is written behind its origin. @param {unknown} place @param {Within} it */
const placed = (place, it) => web(String(place).split(/[\^|]/)[0], it);

/** @param {string} method @param {any} params @param {Within} it @returns {Refusal | null} */
function storedBeyond(method, params, it) {
  const places = [params, params.storageBucket].flatMap((of) => PLACES.map((name) => of?.[name])).filter(given);
  if (places.length === 0) return refuse('invalid', `${method} names no origin`, 'name the storage key');
  if (!places.every((place) => placed(place, it))) return beyond('what is stored there');
  if (/(^|,)\s*(all|cookies)\s*(,|$)/.test(String(params.storageTypes ?? ''))) {
    return refuse('policy', `${method} deletes no cookies`, 'Network.deleteCookies does, one by one');
  }
  return null;
}

/** @param {any} params @param {Within} it @param {string[]} allow @returns {Refusal | null} */
function headersBeyond({responseHeaders, binaryResponseHeaders}, it, allow) {
  if (given(binaryResponseHeaders)) return refuse('policy', 'binaryResponseHeaders is not passed on', 'use responseHeaders');
  for (const {name, value} of responseHeaders ?? []) {
    if (/[\0\r\n]/.test(`${name}${value}`)) return refuse('invalid', 'a header holds the end of a line', 'name each header by itself');
    if (!/^\s*set-cookie2?\s*$/i.test(String(name))) continue;
    if (!allow.includes('cookies')) return notAllowed('an answer with Set-Cookie', 'cookies');
    for (const [, of] of String(value).matchAll(/;\s*domain\s*=\s*([^;]*)/gi)) {
      if (of.trim() && !it.domain(of.trim())) return beyond('that cookie');
    }
  }
  return null;
}

/** @param {unknown} name */
export const isCookieHeader = (name) => /^\s*cookie2?\s*$/i.test(String(name));

/** @param {any} headers @param {string[]} allow @returns {Refusal | null} */
function cookieSent(headers, allow) {
  if (!Array.isArray(headers)) return refuse('invalid', 'headers must be a list of name and value');
  const cookie = headers.some((/** @type {any} */ header) => isCookieHeader(header?.name));
  return cookie && !allow.includes('cookies') ? notAllowed('a Cookie header', 'cookies') : null;
}

/** @param {string} what @param {string} setting */
export const notAllowed = (what, setting) =>
  refuse('policy', `${what} is not passed on: this binding does not allow ${setting}`, `a person allows it: make the binding anew with --allow ${setting}`);

/**
 * Why a command that a setting opens is refused all the same.
 * @param {string} method @param {any} params @param {Within} it @param {string[]} allow the settings
 * @returns {Refusal | null}
 */
export function scope(method, params, it, allow) {
  switch (method) {
    case 'Network.setCookie':
    case 'Network.deleteCookies':
      return cookieBeyond(params, it);
    case 'Network.setCookies':
    case 'Storage.setCookies':
      if (!Array.isArray(params.cookies)) return refuse('invalid', `${method} needs cookies`);
      return params.cookies.map((/** @type {any} */ one) => cookieBeyond(one, it)).find(Boolean) ?? null;
    case 'Fetch.continueRequest':
      if (given(params.url) && !web(params.url, it)) return beyond('that address');
      return cookieSent(params.headers ?? [], allow);
    case 'Fetch.continueResponse':
    case 'Fetch.fulfillRequest':
      return headersBeyond(params, it, allow);
  }
  return STORED.test(method) && !PLACELESS.test(method) ? storedBeyond(method, params, it) : null;
}

/**
 * An answer without the cookies of other origins.
 * @param {string} method @param {any} result @param {Within} it
 */
export function within(method, result, it) {
  if (!COOKIES.has(method)) return result;
  const cookies = (result?.cookies ?? []).filter((/** @type {any} */ cookie) => it.domain(String(cookie.domain)));
  return {...result, cookies};
}
