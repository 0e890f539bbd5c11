// @ts-check

/**
 * Messages that are too large for one native message travel in chunks: base64 of
 * pieces of the UTF-8 of their JSON. Chunks of one message come in order and those
 * of two messages never interleave, so one half-joined message is all that is held.
 */

import {CHUNK_BYTES, MAX_MESSAGE} from './limits.js';

/** @typedef {{t: 'chunk', id: number, index: number, total: number, data: string}} Chunk */

/** A peer broke the rules of chunking; the link it came by cannot be trusted further. */
export class ChunkError extends Error {}

const MAX_TOTAL = Math.ceil(MAX_MESSAGE / CHUNK_BYTES);
// String.fromCharCode takes its bytes as arguments, and the stack bounds those.
const APPLY_BYTES = 32 << 10;

/** @param {Uint8Array} bytes */
function toBase64(bytes) {
  let binary = '';
  for (let at = 0; at < bytes.length; at += APPLY_BYTES) {
    binary += String.fromCharCode(...bytes.subarray(at, at + APPLY_BYTES));
  }
  return btoa(binary);
}

/** @param {string} text */
function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/**
 * Cuts a message into chunks.
 * @param {Uint8Array} bytes UTF-8 of the message's JSON
 * @param {number} id of this message, unique on its link
 * @returns {Generator<Chunk>}
 */
export function* split(bytes, id) {
  const total = Math.max(1, Math.ceil(bytes.length / CHUNK_BYTES));
  for (let index = 0; index < total; index++) {
    const data = toBase64(bytes.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES));
    yield {t: 'chunk', id, index, total, data};
  }
}

/** Joins chunks again. One per link. */
export class Joiner {
  /** @type {{id: number, total: number, parts: Uint8Array[], size: number} | null} */
  #open = null;

  /**
   * @param {Chunk} chunk
   * @returns {unknown} the whole message after its last chunk, else undefined
   * @throws {ChunkError}
   */
  push(chunk) {
    const {id, index, total} = chunk;
    if (!Number.isInteger(total) || total < 1 || total > MAX_TOTAL) {
      throw new ChunkError(`a message of ${total} chunks`);
    }
    if (index === 0) {
      if (this.#open) throw new ChunkError(`message ${id} began inside message ${this.#open.id}`);
      this.#open = {id, total, parts: [], size: 0};
    }
    const open = this.#open;
    if (!open || open.id !== id || open.total !== total || open.parts.length !== index) {
      throw new ChunkError(`chunk ${index} of message ${id} is out of order`);
    }
    let part;
    try {
      part = fromBase64(chunk.data);
    } catch {
      throw new ChunkError(`chunk ${index} of message ${id} is not base64`);
    }
    open.size += part.length;
    if (part.length > CHUNK_BYTES || open.size > MAX_MESSAGE) {
      throw new ChunkError(`message ${id} is larger than the limit`);
    }
    open.parts.push(part);
    if (open.parts.length < total) return undefined;

    this.#open = null;
    const whole = new Uint8Array(open.size);
    let at = 0;
    for (const piece of open.parts) {
      whole.set(piece, at);
      at += piece.length;
    }
    try {
      return JSON.parse(new TextDecoder('utf-8', {fatal: true}).decode(whole));
    } catch {
      throw new ChunkError(`message ${id} is not JSON in UTF-8`);
    }
  }
}
