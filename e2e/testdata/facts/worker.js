// What the tests of facts_test.go ask of chrome.*, by name. It keeps what it hears
// in plain arrays, which the tests read.
"use strict";

const requests = []; // POSTs: {id, tab, url, document, error}
const events = []; // {tab, name, reason, at}

chrome.webRequest.onBeforeRequest.addListener((d) => {
  if (d.method === "POST") {
    requests.push({ id: d.requestId, tab: d.tabId, url: d.url, document: d.documentId ?? "", error: "" });
  }
}, { urls: ["<all_urls>"] });
chrome.webRequest.onErrorOccurred.addListener((d) => {
  const seen = requests.find((r) => r.id === d.requestId);
  if (seen) seen.error = d.error;
}, { urls: ["<all_urls>"] });
chrome.debugger.onDetach.addListener((source, reason) => {
  events.push({ tab: source.tabId, name: "detach", reason });
});
chrome.debugger.onEvent.addListener((source, method) => {
  if (method === "Inspector.targetCrashed") events.push({ tab: source.tabId, name: method, reason: "" });
});

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(what, check) {
  for (let i = 0; i < 500; i++) {
    const got = await check();
    if (got) return got;
    await sleep(20);
  }
  throw new Error("waited in vain: " + what);
}

// open opens an address in a window of its own, attaches, and says where Save is.
async function open(url) {
  const window = await chrome.windows.create({ url, width: 1000, height: 800 });
  const tab = window.tabs[0].id;
  await until("the page to load", async () => (await chrome.tabs.get(tab)).status === "complete");
  const [{ documentId, result }] = await chrome.scripting.executeScript({
    target: { tabId: tab },
    func: () => {
      const r = document.getElementById("save")?.getBoundingClientRect();
      return r ? { x: r.x + r.width / 2, y: r.y + r.height / 2 } : { x: 0, y: 0 };
    },
  });
  await chrome.debugger.attach({ tabId: tab }, "1.3");
  await send(tab, "Inspector.enable");
  return { tab, window: window.id, document: documentId, x: result.x, y: result.y };
}

function send(tab, method, params = {}) {
  return chrome.debugger.sendCommand({ tabId: tab }, method, params);
}

function mouse(tab, type, x, y) {
  const button = type === "mouseMoved" ? "none" : "left";
  return send(tab, "Input.dispatchMouseEvent", { type, x, y, button, clickCount: type === "mouseMoved" ? 0 : 1 });
}

// settled turns a promise into a word about how it ended.
function settled(promise) {
  return promise.then(() => "ok", (error) => error.message);
}

// queueClick moves to Save, which makes the page busy, and sends a press and a
// release that have to wait.
const clicks = new Map(); // tab -> promises of how each command ended
async function queueClick({ tab, x, y }) {
  clicks.set(tab, ["mouseMoved", "mousePressed", "mouseReleased"].map((t) => settled(mouse(tab, t, x, y))));
  await sleep(700);
}

// clickEnds says how the commands of queueClick ended, as far as they have.
function clickEnds(tab) {
  return Promise.all(clicks.get(tab).map((p) => Promise.race([p, sleep(50).then(() => "open")])));
}

// barrier runs nothing in the document and says in which one it ran.
async function barrier(tab, document) {
  const [{ documentId }] = await chrome.scripting.executeScript({
    target: { tabId: tab, documentIds: [document] }, func: () => 1,
  });
  return { document: documentId, posts: requests.filter((r) => r.tab === tab).length };
}

// begin starts a barrier and does not wait for it; ran says what it answered, or null.
const begun = new Map(); // tab -> promise of a barrier
function begin(tab, document) {
  begun.set(tab, barrier(tab, document));
}
function ran(tab) {
  return Promise.race([begun.get(tab), sleep(50).then(() => null)]);
}

// openCompare opens a same-site window that shares the page's process.
async function openCompare(tab) {
  await send(tab, "Runtime.evaluate", { expression: `window.open("child", "compare", "popup,width=480,height=360"); 1`, userGesture: true });
  const child = new URL("child", (await chrome.tabs.get(tab)).url).href;
  await until("the window", async () => (await chrome.tabs.query({})).some((t) => t.url === child && t.status === "complete"));
}

async function click({ tab, x, y }) {
  for (const type of ["mouseMoved", "mousePressed", "mouseReleased"]) await mouse(tab, type, x, y);
}
