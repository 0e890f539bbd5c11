// The role and the name of an element: the part of ARIA that agents go by. It is
// installed before page.js and changes nothing.
globalThis.__sessiondockNames ??= (() => {
  const LOOSE = /^\s|\s$|\s\s|[^\S ]/;
  const squash = (s) => (!s ? "" : LOOSE.test(s) ? s.replace(/\s+/g, " ").trim() : s);
  const clip = (s, n) => (s.length > n ? `${s.slice(0, n)}…` : s);

  const INPUT_ROLES = {
    button: "button", submit: "button", reset: "button", image: "button",
    checkbox: "checkbox", radio: "radio", range: "slider", number: "spinbutton",
    search: "searchbox", file: "button", color: "button", hidden: "",
  };
  const TAG_ROLES = {
    ARTICLE: "article", ASIDE: "complementary", BUTTON: "button", DETAILS: "group",
    DIALOG: "dialog", FIELDSET: "group", FIGURE: "figure", FOOTER: "contentinfo",
    FORM: "form", H1: "heading", H2: "heading", H3: "heading", H4: "heading",
    H5: "heading", H6: "heading", HEADER: "banner", HR: "separator", IFRAME: "iframe",
    FRAME: "iframe", LI: "listitem", MAIN: "main", MENU: "list", METER: "meter",
    NAV: "navigation", OL: "list", OPTION: "option", OUTPUT: "status", P: "paragraph",
    PROGRESS: "progressbar", SUMMARY: "button", TABLE: "table", TD: "cell",
    TEXTAREA: "textbox", TH: "columnheader", TR: "row", UL: "list", VIDEO: "video",
    AUDIO: "audio",
  };
  const FROM_CONTENT = new Set([
    "button", "cell", "checkbox", "columnheader", "heading", "link", "menuitem",
    "menuitemcheckbox", "menuitemradio", "option", "radio", "rowheader", "switch", "tab",
    "tooltip", "treeitem",
  ]);
  const LABELLED = new Set(["BUTTON", "INPUT", "METER", "OUTPUT", "PROGRESS", "SELECT", "TEXTAREA"]);
  const SKIP = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "META", "LINK", "BASE"]);

  function roleOf(el) {
    const given = el.getAttribute("role")?.trim().split(/\s+/, 1)[0];
    if (given && given !== "none" && given !== "presentation") return given;
    switch (el.nodeName) {
      case "A": case "AREA": return el.hasAttribute("href") ? "link" : "";
      case "IMG": return el.getAttribute("alt") === "" ? "" : "img";
      case "INPUT": return INPUT_ROLES[el.type] ?? "textbox";
      case "SELECT": return el.multiple || el.size > 1 ? "listbox" : "combobox";
      case "SECTION": return el.hasAttribute("aria-label") ? "region" : "";
    }
    return TAG_ROLES[el.nodeName.toUpperCase()] ?? (el.isContentEditable && !el.parentElement?.isContentEditable ? "textbox" : "");
  }

  function nameOf(el, role = roleOf(el)) {
    const tells = el.hasAttributes(); // without attributes there is less to ask for
    const by = tells && el.getAttribute("aria-labelledby");
    if (by) {
      const root = el.getRootNode();
      const text = by.split(/\s+/).map((id) => root.getElementById?.(id)?.textContent ?? "").join(" ");
      if (squash(text)) return squash(text);
    }
    const label = tells ? squash(el.getAttribute("aria-label")) : "";
    if (label) return label;
    if (LABELLED.has(el.nodeName) && el.labels?.length) {
      const text = squash(Array.from(el.labels, labelText).join(" "));
      if (text) return text;
    }
    switch (el.nodeName) {
      case "IMG": case "AREA": if (el.alt) return squash(el.alt); break;
      case "INPUT":
        if (/^(button|submit|reset)$/.test(el.type)) return squash(el.value) || (el.type === "button" ? "" : el.type);
        if (el.type === "image") return squash(el.alt);
        break;
      case "FIELDSET": return squash(el.querySelector("legend")?.textContent);
      case "TABLE": return squash(el.caption?.textContent);
      case "OPTION": return squash(el.label);
    }
    if (FROM_CONTENT.has(role)) {
      const text = contentText(el);
      if (text) return text;
    }
    return !tells ? "" : squash(el.getAttribute("title") || el.getAttribute("placeholder") || el.getAttribute("aria-placeholder"));
  }

  // A label's own words, without what was typed or chosen in the field inside it.
  function labelText(label) {
    if (!label.querySelector("input,select,textarea")) return label.textContent;
    const copy = label.cloneNode(true);
    for (const field of copy.querySelectorAll("input,select,textarea")) field.remove();
    return copy.textContent;
  }

  function contentText(el) {
    const only = el.shadowRoot ? null : el.firstChild;
    if (only && only.nodeType === 3 /* text */ && !only.nextSibling) return squash(only.data);
    const parts = [];
    const walk = (node) => {
      for (const child of node.childNodes) {
        if (child.nodeType === Node.TEXT_NODE) parts.push(child.data);
        else if (child.nodeType === Node.ELEMENT_NODE && !SKIP.has(child.nodeName) && child.getAttribute("aria-hidden") !== "true") {
          if (child.nodeName === "IMG") parts.push(` ${child.alt} `);
          else if (!/^(INPUT|SELECT|TEXTAREA)$/.test(child.nodeName)) walk(child.shadowRoot ?? child);
        }
      }
    };
    walk(el.shadowRoot ?? el);
    return squash(parts.join(""));
  }

  return { INPUT_ROLES, SKIP, FROM_CONTENT, squash, clip, roleOf, nameOf };
})();
