// The least that a relay through chrome.debugger can do: no gate, no epoch, no
// ledger. What SessionDock costs is measured against it.
"use strict";

const port = chrome.runtime.connectNative("dev.sessiondock.bench_relay");
let tab;

port.onMessage.addListener(async ({ id, method, params }) => {
  try {
    if (tab === undefined) {
      const [active] = await chrome.tabs.query({ active: true });
      await chrome.debugger.attach({ tabId: active.id }, "1.3");
      tab = active.id;
    }
    port.postMessage({ id, result: await chrome.debugger.sendCommand({ tabId: tab }, method, params) });
  } catch (error) {
    port.postMessage({ id, error: error.message });
  }
});
