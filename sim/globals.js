// What a browser has and the engine here has not, as far as the extension uses it.

/** As much of URL as the extension reads of it. */
globalThis.URL = class {
  constructor(text) {
    const found = /^([a-z-]+:)\/\/([^/?#]*)([^?#]*)/.exec(text) ?? /^(about:)()(blank)/.exec(text);
    if (!found) throw new TypeError('Invalid URL');
    [, this.protocol, this.host, this.pathname] = found;
    this.origin = this.protocol === 'about:' ? 'null' : `${this.protocol}//${this.host}`;
    this.pathname ||= '/';
  }

  static canParse(text) {
    try {
      return new URL(text) !== null;
    } catch {
      return false;
    }
  }
};

globalThis.TextEncoder = class {
  encode(text) {
    return {length: text.length};
  }
};

globalThis.performance = {now: () => 0, timeOrigin: 0};
