// What the host runs inside a page, in an isolated world and after names.js: the
// page's scripts see neither this code nor its variables. It is installed once a
// document. Nothing here talks to the network or changes the page (it may scroll),
// but for the functions under "Effects", each of which the host sends as a counted
// step.
(() => {
  if (globalThis.__sessiondock) return;
  const { INPUT_ROLES, SKIP, FROM_CONTENT, squash, clip, roleOf, nameOf } = globalThis.__sessiondockNames;

  // ---- Elements held for the host --------------------------------------------

  // References of the last snapshots ("e12") and elements found for the step that
  // follows. Both end with the document, because this world does.
  const refs = new Map();
  const refOf = new WeakMap();
  let lastRef = 0;
  const held = new Map();
  let lastHeld = 0;
  const MAX_REFS = 20000;
  const MAX_HELD = 16;

  function hold(el) {
    held.set(++lastHeld, new WeakRef(el));
    if (held.size > MAX_HELD) held.delete(held.keys().next().value);
    return lastHeld;
  }

  function take(n) {
    const el = held.get(n)?.deref();
    return el?.isConnected ? el : null;
  }

  function refFor(el) {
    let ref = refOf.get(el);
    if (ref === undefined) {
      ref = `e${++lastRef}`;
      refOf.set(el, ref);
    }
    if (!refs.has(ref)) {
      refs.set(ref, new WeakRef(el));
      if (refs.size > MAX_REFS) refs.delete(refs.keys().next().value);
    }
    return ref;
  }

  // ---- Trees -----------------------------------------------------------------

  const frameDocument = (el) => {
    // Reading contentDocument of a foreign frame gives null, or throws.
    try {
      return el.nodeName === "IFRAME" || el.nodeName === "FRAME" ? el.contentDocument : null;
    } catch {
      return null;
    }
  };

  // Open shadow roots and documents of same-origin frames, in document order.
  function* roots(root) {
    yield root;
    for (const el of root.querySelectorAll("*")) {
      if (el.shadowRoot) yield* roots(el.shadowRoot);
      const inner = frameDocument(el);
      if (inner) yield* roots(inner);
    }
  }

  const parentOf = (el) => el.parentElement ?? el.getRootNode().host ?? null;

  function hasAncestor(el, wanted) {
    for (let e = el; e; e = parentOf(e)) if (e === wanted) return true;
    return false;
  }

  // ---- Finding ---------------------------------------------------------------

  const isVisible = (el) => {
    if (!el.checkVisibility?.({ visibilityProperty: true, contentVisibilityAuto: true })) return false;
    const box = el.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  };

  const fault = (reason, message, detail = {}) => ({ ok: false, reason, message, detail });

  // How a target is named in a message: never by its text or value.
  function describe(el) {
    const id = el.id ? `#${el.id}` : "";
    const cls = typeof el.className === "string" && el.className ? `.${el.className.trim().split(/\s+/).slice(0, 2).join(".")}` : "";
    return clip(`<${el.nodeName.toLowerCase()}>${id}${cls}`, 120);
  }

  function candidates(t) {
    if (t.selector) {
      const flat = [...document.querySelectorAll(t.selector)];
      if (flat.length) return flat;
      return [...roots(document)].slice(1).flatMap((r) => [...r.querySelectorAll(t.selector)]);
    }
    const all = [];
    for (const root of roots(document)) all.push(...root.querySelectorAll("*"));
    if (t.role) {
      const rows = all.filter((el) => !SKIP.has(el.nodeName) && roleOf(el) === t.role);
      if (!t.name) return rows;
      const wanted = squash(t.name).toLowerCase();
      const named = rows.map((el) => [el, nameOf(el, t.role).toLowerCase()]);
      const exact = named.filter(([, name]) => name === wanted);
      return (exact.length ? exact : named.filter(([, name]) => name.includes(wanted))).map(([el]) => el);
    }
    const wanted = squash(t.text).toLowerCase();
    const texts = new Map();
    const textOf = (el) => {
      let text = texts.get(el);
      if (text === undefined) {
        const isButton = el.nodeName === "INPUT" && /^(button|submit|reset)$/.test(el.type);
        texts.set(el, (text = squash(isButton ? el.value : el.textContent).toLowerCase()));
      }
      return text;
    };
    const found = all.filter((el) => !SKIP.has(el.nodeName) && textOf(el).includes(wanted));
    const smallest = found.filter((el) => ![...el.children].some((c) => textOf(c).includes(wanted)));
    const exact = smallest.filter((el) => textOf(el) === wanted);
    return exact.length ? exact : smallest;
  }

  // pick returns the element or a fault. Of several matches it takes the first one
  // that is visible.
  function pick(t) {
    if (t.ref) {
      const el = refs.get(t.ref)?.deref();
      if (!el?.isConnected) return fault("stale_ref", `the reference ${t.ref} is not of this document, or its element is gone`, { final: true });
      return el;
    }
    let list;
    try {
      list = candidates(t);
    } catch (e) {
      return fault("invalid", `the selector is not valid: ${clip(String(e.message), 200)}`, { final: true });
    }
    if (!list.length) return fault("not_found", "no element matches the target");
    return list.find(isVisible) ?? list[0];
  }

  // The field that a label stands for.
  const control = (el) => (el.nodeName === "LABEL" && el.control) || el;

  const isDisabled = (el) => el.matches(":disabled") || el.closest("[aria-disabled=true]") !== null;

  const TYPED = /^(text|search|url|tel|email|password|number|)$/;
  const SET = /^(date|time|month|week|datetime-local|color|range)$/;

  function editable(el) {
    if (el.isContentEditable) return "content";
    if (el.nodeName === "TEXTAREA") return el.readOnly ? "" : "text";
    if (el.nodeName !== "INPUT" || el.readOnly) return "";
    return TYPED.test(el.type) || !(SET.test(el.type) || el.type in INPUT_ROLES) ? "text" : SET.test(el.type) ? "set" : "";
  }

  // Where a frame's viewport lies in the top one, and the frame elements on the way.
  function frameOffset(el) {
    let x = 0, y = 0;
    const frames = [];
    for (let w = el.ownerDocument.defaultView; w && w !== globalThis.window; w = w.parent) {
      const frame = w.frameElement;
      if (!frame) break;
      const box = frame.getBoundingClientRect();
      frames.push({ frame, x, y });
      x += box.left + frame.clientLeft;
      y += box.top + frame.clientTop;
    }
    return { x, y, frames };
  }

  // The middle of the largest part of the element that lies in its viewport.
  function pointOf(el) {
    const view = el.ownerDocument.defaultView;
    let best = null;
    for (const r of el.getClientRects()) {
      const left = Math.max(r.left, 0), right = Math.min(r.right, view.innerWidth);
      const top = Math.max(r.top, 0), bottom = Math.min(r.bottom, view.innerHeight);
      const area = (right - left) * (bottom - top);
      if (right > left && bottom > top && (!best || area > best.area)) {
        best = { x: (left + right) / 2, y: (top + bottom) / 2, area };
      }
    }
    return best;
  }

  function deepHit(doc, x, y) {
    let el = doc.elementFromPoint(x, y);
    while (el?.shadowRoot) {
      const inner = el.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === el) break;
      el = inner;
    }
    return el;
  }

  const receives = (el, hit) =>
    hit !== null && (hasAncestor(hit, el) || control(hit.closest("label") ?? hit) === el || (el.nodeName === "LABEL" && hit === el.control));

  // hitTest returns a point, or the element that covers the target, or null if the
  // target is outside its viewport.
  function hitTest(el) {
    const p = pointOf(el);
    if (!p) return null;
    const hit = deepHit(el.ownerDocument, p.x, p.y);
    if (!receives(el, hit)) return { by: hit };
    const off = frameOffset(el);
    for (const { frame, x, y } of off.frames) {
      const box = frame.getBoundingClientRect();
      const fx = box.left + frame.clientLeft + x + p.x, fy = box.top + frame.clientTop + y + p.y;
      const over = deepHit(frame.ownerDocument, fx, fy);
      if (over !== frame) return over ? { by: over } : null;
    }
    return { x: p.x + off.x, y: p.y + off.y };
  }

  const isMoving = (el) =>
    el.ownerDocument.getAnimations().some((a) => a.playState === "running" && a.effect?.target && hasAncestor(el, a.effect.target) &&
      Number.isFinite(a.effect.getComputedTiming().endTime));

  // look makes one attempt to get the target ready for what the host is to do.
  function look(t, need) {
    let el = pick(t);
    if (el.ok === false) return el;
    if (need.control) el = control(el);
    if (need.file) {
      if (el.nodeName !== "INPUT" || el.type !== "file") return fault("wrong_kind", `${describe(el)} is not a file field`);
      if (isDisabled(el)) return fault("disabled", `${describe(el)} is disabled`);
      return { ok: true, n: hold(el), multiple: el.multiple };
    }
    if (!isVisible(el)) return fault("hidden", `${describe(el)} is not visible`);
    if (need.enabled && isDisabled(el)) return fault("disabled", `${describe(el)} is disabled`);
    const out = { ok: true };
    if (need.editable) {
      out.kind = editable(el);
      if (!out.kind) return fault("wrong_kind", `${describe(el)} takes no text`);
    }
    if (need.option !== undefined) {
      if (el.nodeName !== "SELECT") return fault("wrong_kind", `${describe(el)} is not a select field`);
      const option = optionOf(el, need.option);
      if (!option) return fault("not_found", `${describe(el)} has no such option`);
      if (option.disabled) return fault("disabled", "that option is disabled");
    }
    if (need.checkable) {
      const now = checkedNow(el);
      if (now === null) return fault("wrong_kind", `${describe(el)} can not be checked`);
      out.checked = now;
      if (now === need.checked) return out;
    }
    if (need.point) {
      if (isMoving(el)) return fault("unstable", `${describe(el)} is moving`);
      let at = hitTest(el);
      if (!at || "by" in at) {
        el.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
        at = hitTest(el);
      }
      if (!at) return fault("outside", `${describe(el)} can not be scrolled into view`);
      if ("by" in at) {
        return fault("covered", `${describe(el)} is covered by ${at.by ? describe(at.by) : "something outside the page"}`);
      }
      out.x = at.x;
      out.y = at.y;
      out.draggable = el.closest("[draggable=true]") !== null || (el.draggable === true && el.nodeName !== "DIV");
    }
    out.n = hold(el);
    return out;
  }

  const CHECKABLE = new Set(["checkbox", "switch", "radio", "menuitemcheckbox", "menuitemradio"]);

  function checkedNow(el) {
    if (el.nodeName === "INPUT" && (el.type === "checkbox" || el.type === "radio")) return el.checked;
    return CHECKABLE.has(el.getAttribute("role")) ? el.getAttribute("aria-checked") === "true" : null;
  }

  const optionOf = (select, wanted) => {
    const options = [...select.options];
    return options.find((o) => o.value === wanted) ?? options.find((o) => squash(o.label) === squash(wanted));
  };

  // A tick passes when the page has changed or a frame was drawn, and at the latest
  // after 50 ms. (A hidden page draws no frames and slows its timers to 1 s.)
  const tick = () =>
    new Promise((resolve) => {
      const watch = new MutationObserver(done);
      const timer = setTimeout(done, 50);
      const frame = requestAnimationFrame(() => requestAnimationFrame(done));
      function done() {
        watch.disconnect();
        clearTimeout(timer);
        cancelAnimationFrame(frame);
        resolve();
      }
      watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    });

  async function until(ms, attempt) {
    const end = performance.now() + ms;
    for (;;) {
      const got = attempt();
      if (got.ok || got.detail?.final || performance.now() >= end) return got;
      await tick();
    }
  }

  // A document tells when it gets on: looking at it at each change while it is parsed would
  // slow that down.
  const ready = (state, ms) =>
    new Promise((resolve) => {
      const look = () => {
        if (document.readyState === "complete" || state === "parsed" && document.readyState !== "loading") end({ ok: true });
      };
      const late = setTimeout(() => end(fault("not_yet", state === "load" ? "the page has not finished loading" : "the page has not been parsed")), ms);
      const end = (reply) => {
        document.removeEventListener("readystatechange", look);
        clearTimeout(late);
        // "complete" comes before the load event: in the next task its listeners have run. A
        // message makes one at once, in a hidden page, too.
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => {
          port1.close();
          resolve(reply);
        };
        port2.postMessage(null);
      };
      document.addEventListener("readystatechange", look);
      look();
    });

  const api = {
    find: ({ target, need, ms }) => until(ms, () => look(target, need)),

    // Two targets at once, so that neither moves while the other is looked for.
    pair: ({ from, to, ms }) =>
      until(ms, () => {
        const b = look(to, { point: true });
        if (!b.ok) return fault(b.reason, `drop target: ${b.message}`, b.detail);
        const a = look(from, { point: true, enabled: true });
        if (!a.ok) return a;
        const again = hitTest(take(b.n));
        if (!again || "by" in again) return fault("outside", "the two targets are not in view at once", { final: true });
        return { ok: true, from: a, to: { ...b, x: again.x, y: again.y } };
      }),

    middle: () => ({ ok: true, x: innerWidth / 2, y: innerHeight / 2 }),

    element: (n) => take(n),

    checked: ({ n }) => {
      const el = take(n);
      return { ok: true, checked: el ? checkedNow(el) : null };
    },

    wait: ({ target, state, ms }) =>
      state === "load" || state === "parsed" ? ready(state, ms) : until(ms, () => {
        let list;
        if (target.ref) {
          const el = refs.get(target.ref)?.deref();
          list = el?.isConnected ? [el] : [];
        } else {
          try {
            list = candidates(target);
          } catch (e) {
            return fault("invalid", `the selector is not valid: ${clip(String(e.message), 200)}`, { final: true });
          }
        }
        const seen = list.some(isVisible);
        if (seen === (state === "visible")) return { ok: true };
        return fault("not_yet", seen ? "the element is still visible" : "the element is not visible");
      }),

    snapshot: async ({ bytes, watch, load, ms }) => {
      const there = load ? await ready("load", ms) : { ok: true };
      return there.ok ? outline(bytes, watch) : there;
    },

    // Whether the page has changed since the last snapshot that watches.
    changed: () => {
      const changed = watched.changed || watched.observer?.takeRecords().length > 0;
      watched.observer?.disconnect();
      watched = {};
      return { ok: true, changed };
    },

    // ---- Effects: each says whether it did anything ----------------------------

    focus: ({ n, all }) => {
      const el = take(n);
      if (!el) return fault("gone", "the element left the page");
      el.focus({ preventScroll: false });
      if (!all) {
        if (typeof el.selectionStart === "number") el.setSelectionRange(el.value.length, el.value.length);
        return { ok: true, did: true };
      }
      if (el.isContentEditable) {
        el.ownerDocument.defaultView.getSelection().selectAllChildren(el);
      } else if (el.select) {
        el.select();
      }
      const root = el.getRootNode();
      return root.activeElement === el || hasAncestor(root.activeElement, el) ? { ok: true, did: true } : fault("no_focus", `${describe(el)} did not take the focus`, { did: true });
    },

    // Fields that are not typed into: dates, colours, sliders.
    set: ({ n, value }) => {
      const el = take(n);
      if (!el) return fault("gone", "the element left the page");
      el.focus();
      const before = el.value;
      el.value = value;
      if (value !== "" && el.value !== value && !(el.type === "range" || el.type === "color")) {
        el.value = before;
        return fault("invalid", `${describe(el)} does not take a value of that form`, { did: true });
      }
      el.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
      el.dispatchEvent(new Event("change", { bubbles: true }));
      return { ok: true, did: true };
    },

    choose: ({ n, value }) => {
      const el = take(n);
      const option = el && optionOf(el, value);
      if (!option) return fault("gone", "the option left the page");
      el.focus();
      for (const o of el.multiple ? [] : el.options) o.selected = false;
      option.selected = true;
      el.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
      el.dispatchEvent(new Event("change", { bubbles: true }));
      return { ok: true, did: true, value: option.value, label: squash(option.label) };
    },

    // A drag of an element that is declared draggable. The browser makes these
    // events itself only from a real pointer, which then belongs to the desktop.
    drag: ({ from, to }) => {
      const a = take(from.n)?.closest("[draggable=true]") ?? take(from.n), b = take(to.n);
      if (!a || !b) return fault("gone", "an element left the page");
      const dataTransfer = new DataTransfer();
      const fire = (el, type, at) =>
        el.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, composed: true, dataTransfer, clientX: at.x, clientY: at.y }));
      if (!fire(a, "dragstart", from)) return { ok: true, did: true, dropped: false };
      fire(a, "drag", from);
      fire(b, "dragenter", to);
      const dropped = !fire(b, "dragover", to);
      if (dropped) fire(b, "drop", to);
      else fire(b, "dragleave", to);
      fire(a, "dragend", to);
      return { ok: true, did: true, dropped };
    },
  };

  // ---- The page as text --------------------------------------------------------

  const isSecret = (el) => el.type === "password" || /password|cc-csc/.test(el.getAttribute("autocomplete") ?? "");
  const secrets = new WeakSet(); // a field once seen as a secret stays one, whatever its type becomes

  // Roles of what an agent may act on: these have references.
  const ACTS = new Set([
    "button", "checkbox", "combobox", "iframe", "link", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio",
    "option", "radio", "scrollbar", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem",
  ]);
  const NAMES = { LEGEND: "FIELDSET", CAPTION: "TABLE" };
  const CELLS = new Set(["cell", "gridcell", "columnheader", "rowheader"]);
  // What stands on one line if everything in it does, and how its parts are told apart.
  const ONE_LINE = new Map([
    ["row", " | "], ["listitem", " "], ["paragraph", " "], ["generic", " "], ...[...CELLS].map((role) => [role, " "]),
  ]);
  const LINE = 600; // characters of such a line
  // Nothing that a page says looks like a reference.
  const plain = (s) => (s.includes("[ref=") ? s.replaceAll("[ref=", "[ref ") : s);
  const quote = (s) => plain(JSON.stringify(clip(s, 300)));
  const styleOf = (el) => el.ownerDocument.defaultView.getComputedStyle(el);
  const VISIBLE = { visibilityProperty: true };
  const NONE = Object.freeze([]);
  const CAN_BE_DISABLED = new Set(["BUTTON", "FIELDSET", "INPUT", "OPTGROUP", "OPTION", "SELECT", "TEXTAREA"]);

  let watched = {}; // by the last snapshot that watches

  // outline tells the page in at most so many bytes, one line a thing. It is made in
  // two passes: what there is, as a tree; then the lines. It runs once after most
  // actions, on thousands of elements, in code that is new to its page: what an element
  // without attributes cannot have is not asked for, and computed style, the dearest
  // thing here, is read where nothing cheaper decides.
  function outline(limit, watch) {
    if (watch) {
      watched.observer?.disconnect();
      const it = { changed: false, observer: null };
      it.observer = new MutationObserver(() => {
        it.changed = true;
        it.observer.disconnect();
      });
      watched = it;
    }
    let made = 0; // characters, of which there are no more than bytes
    let more = false; // the page has more than was looked at
    const focused = new Set();
    const enter = (root) => {
      if (watch) watched.observer.observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
      if (root.activeElement && root.activeElement !== document.body) focused.add(root.activeElement);
    };

    // item is one thing: its line without what is in it, and that. bare: the line says
    // nothing by itself. ref: it can be acted on; acts: it, or something in it.
    const item = (role, line, kids = NONE, bare = false, ref = "") => {
      made += line.length;
      return { role, line, kids, bare, ref, acts: ref !== "" || acts(kids, 0) };
    };
    const isText = (it) => it.role === "";
    const acts = (items, from) => {
      for (let i = from; i < items.length; i++) if (items[i].acts) return true;
      return false;
    };

    // walk collects what is in a node. Inside something that is named by its content,
    // only what can be acted on is told. off: it is in something that is disabled.
    function walk(node, into, named, off, unseen) {
      const shadow = node.shadowRoot;
      if (shadow) enter(shadow);
      const at = { node, into, named, off, unseen, text: "" };
      const slotted = node.nodeName === "SLOT" ? node.assignedNodes() : [];
      for (const child of slotted) visit(child, at);
      for (let child = slotted.length ? null : (shadow ?? node).firstChild; child; child = child.nextSibling) {
        if (made > limit) {
          more = true;
          return;
        }
        visit(child, at);
      }
      if (at.text !== "") flush(at);
    }

    function flush(at) {
      const text = squash(at.text);
      at.text = "";
      // The words of an element whose contents are not drawn are not there.
      if (text && !at.named && !at.unseen && styleOf(at.node).contentVisibility !== "hidden") say(text, at.into);
    }

    function say(words, into) {
      const text = squash(words);
      if (text) into.push(item("", plain(clip(text, 2000))));
    }

    function visit(child, at) {
      const type = child.nodeType;
      if (type === 3 /* text */) {
        at.text += child.data;
        return;
      }
      const tag = child.nodeName;
      if (type !== 1 /* element */ || SKIP.has(tag)) return;
      const { into, named } = at;
      const tells = child.hasAttributes();
      if (tells && child.getAttribute("aria-hidden") === "true" || child.inert) return;
      if (at.node.nodeName === "DETAILS" && !at.node.open && tag !== "SUMMARY") return;
      let hidden = false;
      if (!child.checkVisibility(VISIBLE)) {
        const { display, visibility } = styleOf(child);
        if (display === "none" && tag !== "AREA") return; // an area is drawn by its picture
        hidden = visibility !== "visible";
        if (!hidden && display !== "contents" && display !== "none") return; // in what is not drawn
      }
      const off = at.off || tells && child.getAttribute("aria-disabled") === "true";
      const role = hidden ? "" : roleOf(child);
      if ((tag === "LABEL" && child.control && isVisible(child.control)) || (tag in NAMES && NAMES[tag] === at.node.nodeName)) {
        // Its words are a name, which the line of what it names tells.
        flush(at);
        walk(child, into, true, off, false);
        return;
      }
      if (role || tells && child.hasAttribute("tabindex") && !hidden) {
        if (at.text !== "") flush(at);
        const it = element(child, role || "generic", tells, off);
        if (!named || it.acts) into.push(it);
        return;
      }
      if (tag === "BR") {
        at.text += " ";
        return;
      }
      // A wrapper says nothing by itself: inline ones go on with the text.
      const leaf = child.childElementCount === 0 && !child.shadowRoot;
      if (leaf && !hidden && styleOf(child).display.startsWith("inline") && (named || !takesClick(child))) {
        if (!at.unseen) at.text += child.textContent;
        else if (!named) say(child.textContent, into); // it is seen, and what it stands in is not
        return;
      }
      if (at.text !== "") flush(at);
      const before = into.length;
      walk(child, into, named, off, hidden);
      // What shows a hand, and holds nothing that takes the click instead, takes it itself.
      if (!hidden && !named && !acts(into, before) && takesClick(child)) {
        const ref = refFor(child);
        into.push(item("generic", `generic [ref=${ref}]`, into.splice(before), false, ref));
      }
    }

    // takesClick says whether the hand that the mouse shows begins at the element.
    const takesClick = (el) => {
      if (styleOf(el).cursor !== "pointer") return false;
      const parent = parentOf(el);
      return !parent || styleOf(parent).cursor !== "pointer";
    };

    function element(el, role, tells, off) {
      const cell = CELLS.has(role) || role === "row";
      const name = nameOf(el, cell ? "" : role);
      let line = role;
      if (name) line += ` ${quote(name)}`;
      const checked = checkedNow(el);
      if (checked !== null) line += checked ? " [checked]" : " [unchecked]";
      if (role === "heading") line += ` [level=${el.getAttribute("aria-level") ?? (el.nodeName.slice(1) || "2")}]`;
      if (off || (CAN_BE_DISABLED.has(el.nodeName) || el.nodeName.includes("-")) && el.matches(":disabled")) line += " [disabled]";
      const expanded = (tells ? el.getAttribute("aria-expanded") : null) ?? (el.nodeName === "DETAILS" ? String(el.open) : null);
      if (expanded !== null) line += expanded === "true" ? " [expanded]" : " [collapsed]";
      if (tells) {
        if (el.getAttribute("aria-selected") === "true") line += " [selected]";
        if (el.getAttribute("aria-pressed") === "true") line += " [pressed]";
        if (el.required) line += " [required]";
      }
      if (focused.has(el)) line += " [focused]";
      let ref = "";
      if (ACTS.has(role) || el.nodeName === "SUMMARY" || tells && (el.hasAttribute("tabindex") || el.isContentEditable && !el.parentElement?.isContentEditable)) ref = refFor(el);

      const kids = [];
      inside(el, kids, name !== "" && FROM_CONTENT.has(role) && !cell, off);
      if (!ref && !acts(kids, 0) && takesClick(el)) ref = refFor(el);
      if (ref) line += ` [ref=${ref}]`;
      const value = valueOf(el, role);
      if (value !== null) line += `: ${plain(value)}`;
      return item(role, line, kids, line === role && ONE_LINE.has(role), ref);
    }

    function inside(el, kids, named, off) {
      if (el.nodeName === "TEXTAREA" || el.nodeName === "INPUT") return;
      if (el.nodeName === "SELECT") {
        for (const o of [...el.options].slice(0, 50)) kids.push(item("option", `option ${quote(squash(o.label))}${o.selected ? " [selected]" : ""}`));
        if (el.options.length > 50) kids.push(item("more", `(${el.options.length - 50} more options)`));
        return;
      }
      const inner = frameDocument(el);
      if (inner?.body) {
        enter(inner);
        walk(inner.body, kids, false, false, false);
      } else {
        walk(el, kids, named, off, false);
      }
    }

    function valueOf(el, role) {
      if (el.nodeName === "INPUT" || el.nodeName === "TEXTAREA") {
        if (isSecret(el)) secrets.add(el);
        if (secrets.has(el)) return el.value ? "(not shown)" : null;
        if (el.type === "file") return el.files.length ? quote(Array.from(el.files, (f) => f.name).join(", ")) : null;
        if (/^(checkbox|radio|button|submit|reset|image)$/.test(el.type) || el.value === "") return null;
        return quote(el.value);
      }
      if (el.nodeName === "A" && el.getAttribute("href")) return clip(el.getAttribute("href"), 200);
      if (role === "iframe" && !frameDocument(el)) return "(of another origin)";
      if (role === "progressbar" || role === "meter") return el.value !== undefined ? String(el.value) : el.getAttribute("aria-valuenow");
      return null;
    }

    // flat is a thing with all that is in it on one line, or null if it takes several.
    function flat(it, within) {
      if (!it.kids.length) return it.bare && CELLS.has(it.role) ? "" : it.line;
      const between = ONE_LINE.get(it.role) ?? (it.kids.every(isText) ? " " : undefined);
      if (between === undefined) return null;
      const parts = it.kids.map((kid) => flat(kid, it.role));
      if (parts.includes(null)) return null;
      const said = parts.join(between);
      if (said.length > LINE) return null;
      return it.bare && within ? said : `${it.line}: ${said}`;
    }

    const lines = [];
    let bytes = 0, cut = false;
    const CUT = "- (cut: the page is longer than a snapshot may be)";
    const put = (depth, text) => {
      const line = "  ".repeat(Math.min(depth, 40)) + text;
      const size = 1 + line.length + (line.match(/[^\0-\x7f]/g)?.length ?? 0) * 2;
      if (bytes + size > limit) {
        cut = true;
        lines.push(CUT);
        return;
      }
      bytes += size;
      lines.push(line);
    };
    const print = (items, depth) => {
      for (const it of items) {
        if (cut) return;
        const line = isText(it) ? `text: ${it.line}` : flat(it, "");
        put(depth, `- ${line ?? it.line}`);
        if (line === null) print(it.kids, depth + 1);
      }
    };
    const all = [];
    enter(document);
    if (document.body) walk(document.body, all, false, false, false);
    print(all, 0);
    if (more && !cut) lines.push(CUT);
    return { ok: true, url: location.href, title: document.title, text: lines.join("\n") };
  }

  Object.defineProperty(globalThis, "__sessiondock", { value: Object.freeze(api) });
})();
