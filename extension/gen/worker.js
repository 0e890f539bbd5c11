// Made from worker.js and the modules that it imports by `go run ./extension/bundle`. Do not edit.


// gen/wire.js
var VERSION = 1;
var LIMITS = Object.freeze({
  MaxToExtension: 1048576,
  MaxFromExtension: 67108864,
  ChunkBytes: 655360,
  MaxMessage: 100663296,
  MaxFrame: 100663296,
  MaxBody: 16777216,
  MaxEvidence: 64,
  MaxEvents: 1e3,
  MaxActions: 1e3,
  MaxURL: 2048,
  MaxProbeText: 4096,
  MaxDialogText: 2e3,
  MaxQueuedActions: 64,
  GrantTTL: 15e3,
  FenceAck: 2e3,
  DrainDeadline: 3e4,
  WatchWindow: 5e3,
  ClaimWithin: 5e3,
  ActionDeadline: 3e4,
  MaxActionDeadline: 6e5,
  ProbeWait: 1e4,
  HelloWithin: 5e3
});
var MAX_STRING = 65536;
var MAX_ARRAY = 4096;
var STRUCTS = Object.freeze({
  Refusal: {
    code: { kind: "string" },
    message: { kind: "string" },
    hint: { kind: "string", optional: true },
    detail: { kind: "map", optional: true, nullable: true, element: { kind: "any" } }
  },
  Mark: {
    epoch: { kind: "uint" },
    seq: { kind: "int" },
    person: { kind: "bool" }
  },
  Hold: {
    id: { kind: "string" },
    since_ms: { kind: "int" },
    stop_page: { kind: "bool", optional: true },
    tabs: { kind: "array", optional: true, nullable: true, element: { kind: "object", struct: "TabRef" } }
  },
  TabRef: {
    tab: { kind: "int" },
    title: { kind: "string", optional: true },
    url: { kind: "string", optional: true }
  },
  ActionReport: {
    action: { kind: "string" },
    epoch: { kind: "uint" },
    rev: { kind: "int" },
    dispatched: { kind: "int" },
    open: { kind: "int" },
    tab: { kind: "int" },
    document: { kind: "string" },
    script: { kind: "bool" },
    how: { kind: "string", enum: ["barrier", "ended", "lost", "open"] },
    how_rule: { kind: "string", optional: true },
    requests: { kind: "array", nullable: true, element: { kind: "object", struct: "RequestReport" } },
    more: { kind: "int" },
    downloads: { kind: "array", nullable: true, element: { kind: "string" } }
  },
  RequestReport: {
    id: { kind: "string" },
    method: { kind: "string" },
    url: { kind: "string" },
    type: { kind: "string" },
    state: { kind: "string", enum: ["in_flight", "answered", "failed"] },
    status: { kind: "int" },
    error: { kind: "string" },
    rule: { kind: "string", enum: ["document", "navigation", "worker_origin"] },
    after_fence: { kind: "bool" },
    began_ms: { kind: "int" },
    ended_ms: { kind: "int" }
  },
  Document: {
    document: { kind: "string" },
    tab: { kind: "int" },
    url: { kind: "string" },
    why: { kind: "string", enum: ["agent_script", "input_pending"] },
    how: { kind: "string", enum: ["barrier", "ended", "lost", "open"] }
  },
  Expect: {
    tab: { kind: "int", optional: true },
    frame: { kind: "int", optional: true },
    document: { kind: "string", optional: true }
  },
  Act: {
    verb: { kind: "string" },
    selector: { kind: "string", optional: true },
    ref: { kind: "string", optional: true },
    text: { kind: "string", optional: true },
    role: { kind: "string", optional: true },
    name: { kind: "string", optional: true },
    to_selector: { kind: "string", optional: true },
    to_ref: { kind: "string", optional: true },
    url: { kind: "string", optional: true },
    value: { kind: "string", optional: true, nullable: true, max: 16777216 },
    key: { kind: "string", optional: true },
    checked: { kind: "bool", optional: true, nullable: true },
    dx: { kind: "number", optional: true },
    dy: { kind: "number", optional: true },
    expression: { kind: "string", optional: true, max: 16777216 },
    files: { kind: "array", optional: true, nullable: true, element: { kind: "string" } },
    state: { kind: "string", optional: true },
    full_page: { kind: "bool", optional: true },
    settle_ms: { kind: "int", optional: true },
    accept: { kind: "bool", optional: true, nullable: true },
    op: { kind: "string", optional: true },
    method: { kind: "string", optional: true },
    params: { kind: "any", optional: true }
  },
  Steps: {
    dispatched: { kind: "int" },
    total: { kind: "int" }
  },
  Dialog: {
    kind: { kind: "string" },
    message: { kind: "string" },
    default: { kind: "string", optional: true }
  },
  CDPError: {
    code: { kind: "int" },
    message: { kind: "string" }
  },
  Status: {
    slot: { kind: "string" },
    at: { kind: "int" },
    binding: { kind: "string" },
    authority: { kind: "object", struct: "AuthorityNow" },
    local: { kind: "object", struct: "LocalNow" },
    remote: { kind: "object", struct: "RemoteNow" },
    offer: { kind: "object", struct: "Offer" },
    quarantine: { kind: "array", nullable: true, element: { kind: "object", struct: "Reason" } },
    interrupted: { kind: "object", optional: true, nullable: true, struct: "Interrupt" },
    queue: { kind: "array", nullable: true, element: { kind: "object", struct: "Waiter" } },
    allow: { kind: "array", optional: true, nullable: true, element: { kind: "string" } },
    keys: { kind: "array", optional: true, nullable: true, element: { kind: "string" } },
    asks: { kind: "array", optional: true, nullable: true, element: { kind: "object", struct: "AskNow" } },
    retentions: { kind: "array", optional: true, nullable: true, element: { kind: "object", struct: "RetentionNow" } },
    sign_ins: { kind: "array", optional: true, nullable: true, element: { kind: "object", struct: "SignIn" } },
    unclean: { kind: "object", optional: true, nullable: true, struct: "UncleanEnd" },
    probing: { kind: "object", optional: true, nullable: true, struct: "Probing" },
    sentences: { kind: "object", struct: "Sentences" }
  },
  AuthorityNow: {
    holder: { kind: "object", struct: "Holder" },
    epoch: { kind: "uint" },
    lease: { kind: "string", optional: true },
    expires_in_ms: { kind: "int", optional: true },
    fence: { kind: "string" },
    ready: { kind: "bool" },
    unrecorded: { kind: "bool", optional: true }
  },
  Holder: {
    kind: { kind: "string" },
    name: { kind: "string" }
  },
  LocalNow: {
    state: { kind: "string" },
    commands: { kind: "array", nullable: true, element: { kind: "object", struct: "CommandNow" } },
    documents: { kind: "array", nullable: true, element: { kind: "object", struct: "DocNow" } },
    downloads: { kind: "array", nullable: true, element: { kind: "string" } },
    launch: { kind: "object", optional: true, nullable: true, struct: "LaunchNow" }
  },
  CommandNow: {
    action: { kind: "string" },
    summary: { kind: "string" },
    running_ms: { kind: "int" },
    local: { kind: "string" }
  },
  DocNow: {
    document: { kind: "string" },
    tab: { kind: "int" },
    url: { kind: "string" },
    why: { kind: "string" },
    agent: { kind: "string" }
  },
  LaunchNow: {
    launch: { kind: "string" },
    generation: { kind: "int" },
    unit: { kind: "string", optional: true },
    invocation_id: { kind: "string", optional: true },
    containment: { kind: "string" },
    state: { kind: "string" },
    link: { kind: "string" },
    debug: { kind: "string", optional: true },
    packaging: { kind: "string", optional: true },
    unprotected: { kind: "string", optional: true }
  },
  RemoteNow: {
    state: { kind: "string" },
    requests: { kind: "array", nullable: true, element: { kind: "object", struct: "RequestNow" } }
  },
  RequestNow: {
    action: { kind: "string" },
    method: { kind: "string" },
    url: { kind: "string" },
    state: { kind: "string" }
  },
  Offer: {
    available: { kind: "bool" },
    why: { kind: "array", nullable: true, element: { kind: "string" } }
  },
  Reason: {
    code: { kind: "string" },
    text: { kind: "string" },
    since: { kind: "int" },
    action: { kind: "string", optional: true },
    resolve: { kind: "string" }
  },
  Interrupt: {
    lease: { kind: "string" },
    agent: { kind: "string" },
    expires_in_ms: { kind: "int" },
    ask: { kind: "object", optional: true, nullable: true, struct: "Ask" }
  },
  Ask: {
    reason: { kind: "string" },
    at: { kind: "int" },
    epoch: { kind: "uint" },
    state: { kind: "string" },
    by: { kind: "string", optional: true },
    note: { kind: "string", optional: true },
    answered: { kind: "int", optional: true }
  },
  Waiter: {
    lease: { kind: "string" },
    agent: { kind: "string" },
    binding: { kind: "string" },
    task: { kind: "string", optional: true },
    priority: { kind: "int", optional: true },
    position: { kind: "int" },
    wait_ms: { kind: "int" },
    reasons: { kind: "array", nullable: true, element: { kind: "string" } }
  },
  AskNow: {
    lease: { kind: "string" },
    agent: { kind: "string" },
    reason: { kind: "string" },
    at: { kind: "int" },
    epoch: { kind: "uint" },
    state: { kind: "string" },
    by: { kind: "string", optional: true },
    note: { kind: "string", optional: true },
    answered: { kind: "int", optional: true }
  },
  RetentionNow: {
    lease: { kind: "string" },
    agent: { kind: "string" },
    retention: { kind: "string" },
    for_ms: { kind: "int" },
    reason: { kind: "string" },
    epoch: { kind: "uint" },
    at: { kind: "int" },
    state: { kind: "string" },
    by: { kind: "string", optional: true },
    note: { kind: "string", optional: true },
    decided: { kind: "int", optional: true },
    acknowledged: { kind: "int", optional: true },
    until: { kind: "object", struct: "Deadline" }
  },
  Deadline: {
    boot_id: { kind: "string" },
    boot_ms: { kind: "int" }
  },
  SignIn: {
    binding: { kind: "string" },
    account: { kind: "string", optional: true },
    confirmed: { kind: "object", nullable: true, struct: "Confirmation" },
    before_restart: { kind: "bool", optional: true },
    prepared: { kind: "bool" },
    probe: { kind: "bool", optional: true },
    checked: { kind: "object", optional: true, nullable: true, struct: "AccountNow" }
  },
  Confirmation: {
    by: { kind: "string" },
    at: { kind: "int" },
    account: { kind: "string", optional: true },
    launch: { kind: "string" },
    generation: { kind: "int" },
    note: { kind: "string", optional: true },
    saved: { kind: "int", optional: true },
    lost: { kind: "int", optional: true }
  },
  AccountNow: {
    binding: { kind: "string" },
    state: { kind: "string" },
    at: { kind: "int" },
    launch: { kind: "string" },
    generation: { kind: "int" },
    by: { kind: "string" },
    asked_by: { kind: "string", optional: true },
    why: { kind: "string" },
    until: { kind: "object", struct: "Deadline" },
    past: { kind: "string", optional: true },
    counts: { kind: "bool" },
    before_restart: { kind: "bool", optional: true }
  },
  UncleanEnd: {
    launch: { kind: "string" },
    generation: { kind: "int" },
    at: { kind: "int" },
    how: { kind: "string" }
  },
  Probing: {
    probe: { kind: "string" },
    kind: { kind: "string" },
    binding: { kind: "string" },
    action: { kind: "string", optional: true },
    epoch: { kind: "uint" },
    asked_by: { kind: "string" },
    deadline: { kind: "object", struct: "Deadline" }
  },
  Sentences: {
    authority: { kind: "string" },
    local: { kind: "string" },
    remote: { kind: "string" },
    warnings: { kind: "array", nullable: true, element: { kind: "string" } }
  }
});
var MESSAGES = Object.freeze({
  "host.hello": {
    version: { kind: "int" },
    build: { kind: "string" },
    slot: { kind: "string" },
    launch: { kind: "string" },
    secret: { kind: "string" },
    origin: { kind: "string" }
  },
  "host.welcome": {
    nonce: { kind: "string" },
    slot: { kind: "string" }
  },
  "host.refused": {
    error: { kind: "object", struct: "Refusal" }
  },
  "link": {
    up: { kind: "bool" },
    nonce: { kind: "string", optional: true },
    reason: { kind: "string", optional: true },
    error: { kind: "object", optional: true, nullable: true, struct: "Refusal" }
  },
  "chunk": {
    id: { kind: "int" },
    index: { kind: "int" },
    total: { kind: "int" },
    data: { kind: "string", max: 100663296 }
  },
  "hello": {
    nonce: { kind: "string" },
    version: { kind: "int" },
    build: { kind: "string" },
    instance: { kind: "string" },
    mark: { kind: "object", struct: "Mark" },
    hold: { kind: "object", optional: true, nullable: true, struct: "Hold" },
    granted: { kind: "uint" },
    anew: { kind: "bool", optional: true },
    actions: { kind: "array", nullable: true, element: { kind: "object", struct: "ActionReport" } }
  },
  "welcome": {
    nonce: { kind: "string" },
    epoch: { kind: "uint" },
    seq: { kind: "int" },
    apart: { kind: "bool", optional: true }
  },
  "fence": {
    nonce: { kind: "string" },
    epoch: { kind: "uint" },
    seq: { kind: "int" },
    person: { kind: "bool" },
    from_person: { kind: "bool" },
    hold: { kind: "string", optional: true },
    deadline_ms: { kind: "int" },
    watch_ms: { kind: "int" }
  },
  "fenced": {
    nonce: { kind: "string" },
    epoch: { kind: "uint" },
    instance: { kind: "string" },
    granted: { kind: "uint" },
    actions: { kind: "array", nullable: true, element: { kind: "object", struct: "ActionReport" } },
    documents: { kind: "array", nullable: true, element: { kind: "object", struct: "Document" } }
  },
  "drained": {
    nonce: { kind: "string" },
    epoch: { kind: "uint" },
    actions: { kind: "array", nullable: true, element: { kind: "object", struct: "ActionReport" } },
    documents: { kind: "array", nullable: true, element: { kind: "object", struct: "Document" } }
  },
  "document.found": {
    nonce: { kind: "string" },
    document: { kind: "string" },
    url: { kind: "string" }
  },
  "document.ended": {
    nonce: { kind: "string" },
    document: { kind: "string" },
    how: { kind: "string", enum: ["crashed", "replaced", "closed"] }
  },
  "report": {
    nonce: { kind: "string" },
    action: { kind: "object", struct: "ActionReport" }
  },
  "forget": {
    nonce: { kind: "string" },
    seq: { kind: "int", optional: true },
    actions: { kind: "array", nullable: true, element: { kind: "string" } }
  },
  "poke": {
    nonce: { kind: "string" }
  },
  "pull": {
    nonce: { kind: "string" },
    ask: { kind: "int" }
  },
  "grant": {
    nonce: { kind: "string" },
    ask: { kind: "int" },
    epoch: { kind: "uint" },
    lease: { kind: "string" },
    ttl_ms: { kind: "int" },
    origins: { kind: "array", nullable: true, element: { kind: "string" } },
    allow: { kind: "array", optional: true, nullable: true, element: { kind: "string" } },
    watch_ms: { kind: "int" }
  },
  "granted": {
    nonce: { kind: "string" },
    epoch: { kind: "uint" }
  },
  "action": {
    action: { kind: "string" },
    epoch: { kind: "uint" },
    class: { kind: "string" },
    deadline_ms: { kind: "int" },
    expect: { kind: "object", struct: "Expect" },
    upload_dir: { kind: "string", optional: true },
    origins: { kind: "array", optional: true, nullable: true, element: { kind: "string" } },
    allow: { kind: "array", optional: true, nullable: true, element: { kind: "string" } },
    act: { kind: "object", struct: "Act" },
    raw: { kind: "bool", optional: true },
    session: { kind: "string", optional: true }
  },
  "action.done": {
    action: { kind: "string" },
    epoch: { kind: "uint" },
    state: { kind: "string", enum: ["finished", "failed", "refused", "halted", "unknown"] },
    error: { kind: "object", optional: true, nullable: true, struct: "Refusal" },
    steps: { kind: "object", struct: "Steps" },
    observed: { kind: "object", optional: true, nullable: true, struct: "Expect" },
    url: { kind: "string", optional: true },
    result: { kind: "any", optional: true }
  },
  "action.stop": {
    action: { kind: "string" },
    epoch: { kind: "uint" }
  },
  "action.waits": {
    action: { kind: "string" },
    epoch: { kind: "uint" },
    dialog: { kind: "object", optional: true, nullable: true, struct: "Dialog" }
  },
  "cdp.answer": {
    action: { kind: "string" },
    epoch: { kind: "uint" },
    observed: { kind: "object", struct: "Expect" },
    result: { kind: "any", optional: true },
    error: { kind: "object", optional: true, nullable: true, struct: "CDPError" }
  },
  "cdp.lost": {
    nonce: { kind: "string" },
    epoch: { kind: "uint" },
    tab: { kind: "int", optional: true }
  },
  "cdp.event": {
    nonce: { kind: "string" },
    epoch: { kind: "uint" },
    tab: { kind: "int" },
    session: { kind: "string", optional: true },
    document: { kind: "string" },
    method: { kind: "string" },
    params: { kind: "any" }
  },
  "cdp.tab": {
    nonce: { kind: "string" },
    epoch: { kind: "uint" },
    tab: { kind: "int" },
    target: { kind: "string" },
    opener: { kind: "string", optional: true },
    url: { kind: "string" },
    title: { kind: "string" },
    document: { kind: "string" },
    owned: { kind: "bool" },
    gone: { kind: "bool", optional: true }
  },
  "cmd": {
    seq: { kind: "int" },
    action: { kind: "string" },
    epoch: { kind: "uint" },
    kind: { kind: "string", enum: ["cdp", "barrier", "document", "network", "console", "tabs", "tab_create", "tab_close", "tab_activate", "watch"] },
    expect: { kind: "object", struct: "Expect" },
    method: { kind: "string", optional: true },
    params: { kind: "any", optional: true },
    session: { kind: "string", optional: true },
    effect: { kind: "bool" },
    script: { kind: "bool" },
    class: { kind: "string" },
    raw: { kind: "bool", optional: true },
    left_ms: { kind: "int" }
  },
  "cmd.result": {
    seq: { kind: "int" },
    ok: { kind: "bool" },
    dispatched: { kind: "bool" },
    observed: { kind: "object", optional: true, nullable: true, struct: "Expect" },
    url: { kind: "string", optional: true },
    result: { kind: "any", optional: true },
    error: { kind: "object", optional: true, nullable: true, struct: "Refusal" },
    dialog: { kind: "object", optional: true, nullable: true, struct: "Dialog" }
  },
  "cmd.waits": {
    seq: { kind: "int" },
    dialog: { kind: "object", optional: true, nullable: true, struct: "Dialog" }
  },
  "stop.page": {
    nonce: { kind: "string" },
    epoch: { kind: "uint" },
    tabs: { kind: "array", nullable: true, element: { kind: "object", struct: "TabRef" } }
  },
  "probe": {
    nonce: { kind: "string" },
    probe: { kind: "string" },
    epoch: { kind: "uint" },
    url: { kind: "string" },
    selector: { kind: "string", optional: true },
    expression: { kind: "string", optional: true },
    wait_ms: { kind: "int" }
  },
  "probe.result": {
    nonce: { kind: "string" },
    probe: { kind: "string" },
    epoch: { kind: "uint" },
    state: { kind: "string", enum: ["seen", "absent", "several", "elsewhere", "silent", "refused"] },
    text: { kind: "string", optional: true },
    cut: { kind: "bool" },
    url: { kind: "string", optional: true }
  },
  "stop.prepare": {
    nonce: { kind: "string" }
  },
  "stop.ready": {
    nonce: { kind: "string" }
  },
  "person.hold": {
    nonce: { kind: "string" },
    hold: { kind: "object", struct: "Hold" }
  },
  "person.call": {
    nonce: { kind: "string" },
    id: { kind: "int" },
    verb: { kind: "string", enum: ["handback", "stop_page", "takeover"] },
    if_epoch: { kind: "uint" },
    to: { kind: "string" },
    confirm: { kind: "bool" },
    from: { kind: "bool" },
    tabs: { kind: "array", nullable: true, element: { kind: "object", struct: "TabRef" } }
  },
  "person.reply": {
    nonce: { kind: "string" },
    id: { kind: "int" },
    error: { kind: "object", optional: true, nullable: true, struct: "Refusal" }
  },
  "ui": {
    nonce: { kind: "string" },
    status: { kind: "any", nullable: true }
  }
});
var METHODS = Object.freeze({
  "Accessibility.disable": "",
  "Accessibility.enable": "",
  "Accessibility.getAXNodeAndAncestors": "",
  "Accessibility.getChildAXNodes": "",
  "Accessibility.getFullAXTree": "",
  "Accessibility.getPartialAXTree": "",
  "Accessibility.getRootAXNode": "",
  "Accessibility.queryAXTree": "",
  "Animation.disable": "",
  "Animation.enable": "",
  "Animation.getCurrentTime": "",
  "Animation.getPlaybackRate": "",
  "Audits.disable": "",
  "Audits.enable": "",
  "Browser.grantPermissions": "Chromium lets no extension change permissions: a person does, in the page",
  "Browser.resetPermissions": "Chromium lets no extension change permissions: a person does, in the page",
  "Browser.setPermission": "Chromium lets no extension change permissions: a person does, in the page",
  "CSS.addRule": "",
  "CSS.collectClassNames": "",
  "CSS.createStyleSheet": "",
  "CSS.disable": "",
  "CSS.enable": "",
  "CSS.forcePseudoState": "",
  "CSS.getBackgroundColors": "",
  "CSS.getComputedStyleForNode": "",
  "CSS.getInlineStylesForNode": "",
  "CSS.getMatchedStylesForNode": "",
  "CSS.getMediaQueries": "",
  "CSS.getPlatformFontsForNode": "",
  "CSS.getStyleSheetText": "",
  "CSS.setEffectivePropertyValueForNode": "",
  "CSS.setKeyframeKey": "",
  "CSS.setMediaText": "",
  "CSS.setRuleSelector": "",
  "CSS.setStyleSheetText": "",
  "CSS.setStyleTexts": "",
  "CSS.startRuleUsageTracking": "",
  "CSS.stopRuleUsageTracking": "",
  "CSS.takeCoverageDelta": "",
  "CacheStorage.deleteCache": "",
  "CacheStorage.deleteEntry": "",
  "CacheStorage.requestCacheNames": "",
  "CacheStorage.requestCachedResponse": "",
  "CacheStorage.requestEntries": "",
  "DOM.collectClassNamesFromSubtree": "",
  "DOM.copyTo": "",
  "DOM.describeNode": "",
  "DOM.disable": "",
  "DOM.discardSearchResults": "",
  "DOM.enable": "",
  "DOM.focus": "",
  "DOM.getAttributes": "",
  "DOM.getBoxModel": "",
  "DOM.getContentQuads": "",
  "DOM.getDocument": "",
  "DOM.getFrameOwner": "",
  "DOM.getNodeForLocation": "",
  "DOM.getNodesForSubtreeByStyle": "",
  "DOM.getOuterHTML": "",
  "DOM.getRelayoutBoundary": "",
  "DOM.getSearchResults": "",
  "DOM.getTopLayerElements": "",
  "DOM.markUndoableState": "",
  "DOM.moveTo": "",
  "DOM.performSearch": "",
  "DOM.pushNodeByPathToFrontend": "",
  "DOM.pushNodesByBackendIdsToFrontend": "",
  "DOM.querySelector": "",
  "DOM.querySelectorAll": "",
  "DOM.redo": "",
  "DOM.removeAttribute": "",
  "DOM.removeNode": "",
  "DOM.requestChildNodes": "",
  "DOM.requestNode": "",
  "DOM.resolveNode": "",
  "DOM.scrollIntoViewIfNeeded": "",
  "DOM.setAttributeValue": "",
  "DOM.setAttributesAsText": "",
  "DOM.setFileInputFiles": "",
  "DOM.setInspectedNode": "",
  "DOM.setNodeName": "",
  "DOM.setNodeValue": "",
  "DOM.setOuterHTML": "",
  "DOM.undo": "",
  "DOMDebugger.getEventListeners": "",
  "DOMDebugger.setDOMBreakpoint": "a page that is stopped cannot be brought to rest when a person takes over",
  "DOMDebugger.setEventListenerBreakpoint": "a page that is stopped cannot be brought to rest when a person takes over",
  "DOMDebugger.setXHRBreakpoint": "a page that is stopped cannot be brought to rest when a person takes over",
  "DOMSnapshot.captureSnapshot": "",
  "DOMSnapshot.disable": "",
  "DOMSnapshot.enable": "",
  "DOMStorage.clear": "Chromium gives it to no extension; a script in the page has the same",
  "DOMStorage.disable": "Chromium gives it to no extension; a script in the page has the same",
  "DOMStorage.enable": "Chromium gives it to no extension; a script in the page has the same",
  "DOMStorage.getDOMStorageItems": "Chromium gives it to no extension; a script in the page has the same",
  "DOMStorage.removeDOMStorageItem": "Chromium gives it to no extension; a script in the page has the same",
  "DOMStorage.setDOMStorageItem": "Chromium gives it to no extension; a script in the page has the same",
  "Debugger.disable": "a page that is stopped cannot be brought to rest when a person takes over",
  "Debugger.enable": "a page that is stopped cannot be brought to rest when a person takes over",
  "Debugger.pause": "a page that is stopped cannot be brought to rest when a person takes over",
  "Debugger.resume": "a page that is stopped cannot be brought to rest when a person takes over",
  "Debugger.setAsyncCallStackDepth": "a page that is stopped cannot be brought to rest when a person takes over",
  "Debugger.setBreakpointByUrl": "a page that is stopped cannot be brought to rest when a person takes over",
  "Debugger.setSkipAllPauses": "a page that is stopped cannot be brought to rest when a person takes over",
  "Debugger.stepInto": "a page that is stopped cannot be brought to rest when a person takes over",
  "Debugger.stepOut": "a page that is stopped cannot be brought to rest when a person takes over",
  "Debugger.stepOver": "a page that is stopped cannot be brought to rest when a person takes over",
  "Emulation.clearDeviceMetricsOverride": "",
  "Emulation.clearGeolocationOverride": "",
  "Emulation.clearIdleOverride": "",
  "Emulation.getScreenInfos": "",
  "Emulation.resetPageScaleFactor": "",
  "Emulation.setAutoDarkModeOverride": "",
  "Emulation.setCPUThrottlingRate": "",
  "Emulation.setDefaultBackgroundColorOverride": "",
  "Emulation.setDeviceMetricsOverride": "",
  "Emulation.setEmitTouchEventsForMouse": "",
  "Emulation.setEmulatedMedia": "",
  "Emulation.setEmulatedVisionDeficiency": "",
  "Emulation.setFocusEmulationEnabled": "",
  "Emulation.setGeolocationOverride": "",
  "Emulation.setHardwareConcurrencyOverride": "",
  "Emulation.setIdleOverride": "",
  "Emulation.setLocaleOverride": "",
  "Emulation.setPageScaleFactor": "",
  "Emulation.setScriptExecutionDisabled": "",
  "Emulation.setScrollbarsHidden": "",
  "Emulation.setTimezoneOverride": "",
  "Emulation.setTouchEmulationEnabled": "",
  "Emulation.setUserAgentOverride": "",
  "Emulation.setVirtualTimePolicy": "a page that is stopped cannot be brought to rest when a person takes over",
  "Fetch.continueRequest": "",
  "Fetch.continueResponse": "",
  "Fetch.continueWithAuth": "",
  "Fetch.disable": "",
  "Fetch.enable": "",
  "Fetch.failRequest": "",
  "Fetch.fulfillRequest": "",
  "Fetch.getResponseBody": "",
  "Fetch.takeResponseBodyAsStream": "",
  "IO.close": "",
  "IO.read": "",
  "IndexedDB.clearObjectStore": "Chromium gives it to no extension; a script in the page has the same",
  "IndexedDB.deleteDatabase": "Chromium gives it to no extension; a script in the page has the same",
  "IndexedDB.deleteObjectStoreEntries": "Chromium gives it to no extension; a script in the page has the same",
  "IndexedDB.disable": "Chromium gives it to no extension; a script in the page has the same",
  "IndexedDB.enable": "Chromium gives it to no extension; a script in the page has the same",
  "IndexedDB.getMetadata": "Chromium gives it to no extension; a script in the page has the same",
  "IndexedDB.requestData": "Chromium gives it to no extension; a script in the page has the same",
  "IndexedDB.requestDatabase": "Chromium gives it to no extension; a script in the page has the same",
  "IndexedDB.requestDatabaseNames": "Chromium gives it to no extension; a script in the page has the same",
  "Input.cancelDragging": "",
  "Input.dispatchDragEvent": "",
  "Input.dispatchKeyEvent": "",
  "Input.dispatchMouseEvent": "",
  "Input.dispatchTouchEvent": "",
  "Input.emulateTouchFromMouseEvent": "",
  "Input.imeSetComposition": "",
  "Input.insertText": "",
  "Input.setIgnoreInputEvents": "it would shut the person's own hands out of the page",
  "Input.setInterceptDrags": "",
  "Input.synthesizePinchGesture": "",
  "Input.synthesizeScrollGesture": "",
  "Input.synthesizeTapGesture": "",
  "Inspector.disable": "the fence and the record rest on what it would switch off",
  "Inspector.enable": "",
  "LayerTree.disable": "",
  "LayerTree.enable": "",
  "Log.clear": "",
  "Log.disable": "",
  "Log.enable": "",
  "Log.startViolationsReport": "",
  "Log.stopViolationsReport": "",
  "Media.disable": "",
  "Media.enable": "",
  "Network.clearBrowserCache": "it is the whole browser's, not this lease's pages'",
  "Network.clearBrowserCookies": "it would sign the person out of every website; cookies are deleted one by one",
  "Network.deleteCookies": "",
  "Network.disable": "",
  "Network.emulateNetworkConditions": "",
  "Network.emulateNetworkConditionsByRule": "",
  "Network.enable": "",
  "Network.enableReportingApi": "",
  "Network.getAllCookies": "",
  "Network.getCertificate": "",
  "Network.getCookies": "",
  "Network.getRequestPostData": "",
  "Network.getResponseBody": "",
  "Network.getSecurityIsolationStatus": "",
  "Network.loadNetworkResource": "it would fetch with the person's sign-ins from any website",
  "Network.overrideNetworkState": "",
  "Network.replayXHR": "it would fetch with the person's sign-ins from any website",
  "Network.searchInResponseBody": "",
  "Network.setAttachDebugStack": "",
  "Network.setBlockedURLs": "",
  "Network.setBypassServiceWorker": "",
  "Network.setCacheDisabled": "",
  "Network.setCookie": "",
  "Network.setCookieControls": "it is the whole browser's, not this lease's pages'",
  "Network.setCookies": "",
  "Network.setExtraHTTPHeaders": "",
  "Network.setUserAgentOverride": "",
  "Network.streamResourceContent": "",
  "Overlay.disable": "",
  "Overlay.enable": "",
  "Overlay.hideHighlight": "",
  "Overlay.highlightNode": "",
  "Overlay.highlightQuad": "",
  "Overlay.highlightRect": "",
  "Overlay.setShowViewportSizeOnResize": "",
  "Page.addScriptToEvaluateOnNewDocument": "",
  "Page.bringToFront": "",
  "Page.captureScreenshot": "",
  "Page.crash": "it would end every page of that process",
  "Page.createIsolatedWorld": "",
  "Page.disable": "the fence and the record rest on what it would switch off",
  "Page.enable": "",
  "Page.getAppManifest": "",
  "Page.getFrameTree": "",
  "Page.getInstallabilityErrors": "",
  "Page.getLayoutMetrics": "",
  "Page.getNavigationHistory": "",
  "Page.getOriginTrials": "",
  "Page.getResourceContent": "",
  "Page.getResourceTree": "",
  "Page.handleJavaScriptDialog": "",
  "Page.navigate": "",
  "Page.navigateToHistoryEntry": "",
  "Page.printToPDF": "",
  "Page.reload": "",
  "Page.removeScriptToEvaluateOnNewDocument": "",
  "Page.screencastFrameAck": "",
  "Page.searchInResource": "",
  "Page.setBypassCSP": "it would take a protection of the website's away",
  "Page.setDocumentContent": "",
  "Page.setDownloadBehavior": "downloads go into the slot's directory, wherever a client would have them",
  "Page.setFontFamilies": "",
  "Page.setFontSizes": "",
  "Page.setInterceptFileChooserDialog": "",
  "Page.setLifecycleEventsEnabled": "",
  "Page.setWebLifecycleState": "",
  "Page.startScreencast": "",
  "Page.stopLoading": "",
  "Page.stopScreencast": "",
  "Page.waitForDebugger": "a page that is stopped cannot be brought to rest when a person takes over",
  "Performance.disable": "",
  "Performance.enable": "",
  "Performance.getMetrics": "",
  "PerformanceTimeline.enable": "",
  "Preload.disable": "",
  "Preload.enable": "",
  "Runtime.addBinding": "",
  "Runtime.awaitPromise": "",
  "Runtime.callFunctionOn": "",
  "Runtime.compileScript": "",
  "Runtime.disable": "",
  "Runtime.discardConsoleEntries": "",
  "Runtime.enable": "",
  "Runtime.evaluate": "",
  "Runtime.getExceptionDetails": "",
  "Runtime.getHeapUsage": "",
  "Runtime.getIsolateId": "",
  "Runtime.getProperties": "",
  "Runtime.globalLexicalScopeNames": "",
  "Runtime.queryObjects": "",
  "Runtime.releaseObject": "",
  "Runtime.releaseObjectGroup": "",
  "Runtime.removeBinding": "",
  "Runtime.runIfWaitingForDebugger": "",
  "Runtime.runScript": "",
  "Runtime.setAsyncCallStackDepth": "",
  "Runtime.setMaxCallStackSizeToCapture": "",
  "Runtime.terminateExecution": "",
  "Security.setIgnoreCertificateErrors": "it would take a protection of the website's away",
  "Storage.clearCookies": "it would sign the person out of every website; cookies are deleted one by one",
  "Storage.clearDataForOrigin": "",
  "Storage.clearDataForStorageKey": "",
  "Storage.getCookies": "",
  "Storage.getStorageKey": "",
  "Storage.getStorageKeyForFrame": "",
  "Storage.getUsageAndQuota": "",
  "Storage.setCookies": "",
  "Target.getTargetInfo": "",
  "Target.setAutoAttach": "",
  "Tracing.end": "it records the whole browser, not this lease's tabs",
  "Tracing.start": "it records the whole browser, not this lease's tabs",
  "WebAudio.disable": "",
  "WebAudio.enable": "",
  "WebMCP.disable": "",
  "WebMCP.enable": ""
});
var NEEDS = Object.freeze({
  "CacheStorage.deleteCache": "storage",
  "CacheStorage.deleteEntry": "storage",
  "CacheStorage.requestCacheNames": "storage",
  "CacheStorage.requestCachedResponse": "storage",
  "CacheStorage.requestEntries": "storage",
  "Fetch.continueRequest": "interception",
  "Fetch.continueResponse": "interception",
  "Fetch.continueWithAuth": "interception",
  "Fetch.disable": "interception",
  "Fetch.enable": "interception",
  "Fetch.failRequest": "interception",
  "Fetch.fulfillRequest": "interception",
  "Fetch.getResponseBody": "interception",
  "Fetch.takeResponseBodyAsStream": "interception",
  "Network.deleteCookies": "cookies",
  "Network.getAllCookies": "cookies",
  "Network.getCookies": "cookies",
  "Network.setCookie": "cookies",
  "Network.setCookies": "cookies",
  "Storage.clearDataForOrigin": "storage",
  "Storage.clearDataForStorageKey": "storage",
  "Storage.getCookies": "cookies",
  "Storage.getStorageKey": "storage",
  "Storage.getStorageKeyForFrame": "storage",
  "Storage.getUsageAndQuota": "storage",
  "Storage.setCookies": "cookies"
});
function validate(msg) {
  if (!isObject(msg)) return "message: not an object";
  const t = Object.hasOwn(msg, "t") ? msg.t : void 0;
  if (typeof t !== "string") return "t: not a string";
  if (!Object.hasOwn(MESSAGES, t)) return `t: unknown type ${JSON.stringify(t.slice(0, 64))}`;
  return checkFields(msg, MESSAGES[t], "");
}
function checkFields(value, fields, path) {
  for (const name of Object.keys(fields)) {
    const field = fields[name];
    const at = path === "" ? name : `${path}.${name}`;
    const v = Object.hasOwn(value, name) ? value[name] : void 0;
    if (v === void 0) {
      if (field.optional) continue;
      return `${at}: missing`;
    }
    const wrong = checkValue(v, field, at);
    if (wrong !== null) return wrong;
  }
  return null;
}
function checkValue(v, field, at) {
  if (v === null && field.nullable) return null;
  switch (field.kind) {
    case "any":
      return null;
    case "string":
      if (typeof v !== "string") return `${at}: not a string`;
      if (v.length > (field.max ?? MAX_STRING)) return `${at}: longer than ${field.max ?? MAX_STRING}`;
      if (field.enum && !field.enum.includes(v)) return `${at}: not one of ${field.enum.join(", ")}`;
      return null;
    case "bool":
      return typeof v === "boolean" ? null : `${at}: not a boolean`;
    case "number":
      return Number.isFinite(v) ? null : `${at}: not a number`;
    case "int":
    case "uint":
      if (typeof v !== "number") return `${at}: not a number`;
      if (!Number.isInteger(v)) return `${at}: not an integer`;
      if (field.kind === "uint" && v < 0) return `${at}: negative`;
      if (v > Number.MAX_SAFE_INTEGER) return `${at}: above 2^53-1`;
      if (v < Number.MIN_SAFE_INTEGER) return `${at}: below -(2^53-1)`;
      return null;
    case "object":
      return isObject(v) ? checkFields(v, STRUCTS[field.struct], at) : `${at}: not an object`;
    case "array":
      if (!Array.isArray(v)) return `${at}: not an array`;
      if (v.length > MAX_ARRAY) return `${at}: more than ${MAX_ARRAY} elements`;
      for (let i = 0; i < v.length; i++) {
        const wrong = checkValue(v[i], field.element, `${at}[${i}]`);
        if (wrong !== null) return wrong;
      }
      return null;
    case "map": {
      if (!isObject(v)) return `${at}: not an object`;
      const keys = Object.keys(v);
      if (keys.length > MAX_ARRAY) return `${at}: more than ${MAX_ARRAY} members`;
      for (const key of keys) {
        const wrong = checkValue(v[key], field.element, `${at}[${JSON.stringify(key.slice(0, 64))}]`);
        if (wrong !== null) return wrong;
      }
      return null;
    }
  }
  return `${at}: of a kind that is not known`;
}
function isObject(v) {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}

// limits.js
var VERSION2 = VERSION;
var MAX_FROM_EXTENSION = LIMITS.MaxFromExtension;
var CHUNK_BYTES = LIMITS.ChunkBytes;
var MAX_MESSAGE = LIMITS.MaxMessage;
var MAX_EVIDENCE = LIMITS.MaxEvidence;
var MAX_URL = LIMITS.MaxURL;
var MAX_PROBE_TEXT = LIMITS.MaxProbeText;
var MAX_DIALOG_TEXT = LIMITS.MaxDialogText;
var MAX_WORD = 32;
var MAX_ERROR = 128;
var MAX_ID = 64;
var MAX_TITLE = 256;
var MAX_EPOCH = Number.MAX_SAFE_INTEGER;
var MAX_ACTIONS = 8192;
var MAX_QUEUED = 256;
var MAX_DOCUMENTS = 2048;
var MAX_FRAMES = 512;
var MAX_REQUESTS = 4096;
var MAX_TRAFFIC = 200;
var MAX_LINES = 200;
var MAX_LINE = 1e3;
var MAX_ASKS = 8;
var FLOOD_MS = 100;
var FLOOD_WEIGHT = 2 << 20;
var EVENT_WEIGHT = 1 << 10;
var NETWORK_PART = 1 / 20;
var ATTACH_MS = 5e3;
var TOLD_MS = 250;
var LOAD_MS = 5e3;
var HEARD_MS = 250;
var CALL_MS = 1e4;
var FIRST_DOCUMENT_MS = 3e3;
var LEAVE_MS = 3e3;
var CRASH_MS = 5e3;
var ANSWER_MS = 1e3;
var REPORT_MS = 25;
var UNDER_WAY_MS = 200;
var LOOK_MS = 20;
var WORKER_LOOK_MS = 1e3;
var PROBE_LOOK_MS = 100;
var STORE_MS = 500;
var OVERTAKEN_MS = 1e3;
var WATCH_MS = LIMITS.WatchWindow;
var DRAIN_MS = LIMITS.DrainDeadline;
var BACK_OFF_MS = [100, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4];
var STABLE_MS = 1e4;

// tabs.js
var NEW_TAB = /^(chrome:\/\/(newtab|new-tab-page)\/?|about:newtab)$/;
var isNewTab = (url) => NEW_TAB.test(url);
var NOWHERE = "about:srcdoc";
var isWeb = (url) => /^https?:/.test(url);
var last = { url: "", origin: "null" };
function originOf(url) {
  if (url !== last.url) last = { url, origin: URL.canParse(url) ? new URL(url).origin : "null" };
  return last.origin;
}
var Tabs = class {
  /** @type {Map<number, Tab>} */
  #tabs = /* @__PURE__ */ new Map();
  /** @type {Set<number>} */
  #lent = /* @__PURE__ */ new Set();
  /** @type {Set<number>} */
  #owned = /* @__PURE__ */ new Set();
  /** @type {Set<number>} */
  #apart = /* @__PURE__ */ new Set();
  /** @type {Set<string>} */
  #origins = /* @__PURE__ */ new Set();
  /** @type {Map<number, number>} */
  #openers = /* @__PURE__ */ new Map();
  #tick = 0;
  #focused = -1;
  /** @param {any} tab chrome.tabs.Tab */
  put(tab) {
    if (typeof tab.id !== "number") return;
    const known = this.#tabs.get(tab.id);
    this.#tabs.set(tab.id, {
      tab: tab.id,
      url: tab.url || tab.pendingUrl || "",
      title: tab.title ?? "",
      active: tab.active === true,
      loaded: tab.status === "complete",
      unloaded: tab.status === "unloaded",
      window: tab.windowId ?? -1,
      shownTick: tab.active && !known?.active ? ++this.#tick : known?.shownTick ?? 0
    });
  }
  /**
   * A tab that a lent or owned one opened is owned.
   * @param {any} tab chrome.tabs.Tab
   */
  created(tab) {
    this.put(tab);
    if (typeof tab.openerTabId === "number") this.openedBy(tab.openerTabId, tab.id);
  }
  /** @param {number} source @param {number} tab */
  openedBy(source, tab) {
    if (!this.visible(source) || this.#apart.has(tab)) return;
    this.#owned.add(tab);
    this.#openers.set(tab, source);
  }
  /** The tab that opened an owned one, 0 if none did. @param {number} tab */
  openerOf(tab) {
    return this.#openers.get(tab) ?? 0;
  }
  /** @param {number} tab */
  own(tab) {
    this.#owned.add(tab);
  }
  /** A person opened it while holding, or a probe did. @param {number} tab */
  setApart(tab) {
    this.#apart.add(tab);
    this.#lent.delete(tab);
    this.#owned.delete(tab);
  }
  /** @param {number} tab */
  isApart(tab) {
    return this.#apart.has(tab);
  }
  apart() {
    return [...this.#apart];
  }
  /** @param {number} tab @param {number} window */
  activated(tab, window) {
    for (const other of this.#tabs.values()) if (other.window === window) other.active = other.tab === tab;
    const it = this.#tabs.get(tab);
    if (it) it.shownTick = ++this.#tick;
  }
  /** @param {number} window -1 if none of the browser's has the focus: the last one counts on */
  focused(window) {
    if (window >= 0) this.#focused = window;
  }
  /** @param {number} tab */
  removed(tab) {
    this.#tabs.delete(tab);
    this.#lent.delete(tab);
    this.#owned.delete(tab);
    this.#apart.delete(tab);
    this.#openers.delete(tab);
  }
  /**
   * A grant of a new epoch: nothing is inherited from the lease before it.
   * @param {string[]} origins none: any website's
   * @param {(tab: number) => string} url of the tab's main document
   */
  lend(origins, url) {
    this.#origins = new Set(origins.map(originOf));
    this.#owned.clear();
    this.#lent.clear();
    for (const { tab, url: shown2 } of this.#tabs.values()) {
      if (!this.#apart.has(tab) && this.allowed(url(tab) || shown2)) this.#lent.add(tab);
    }
  }
  /** Nothing is visible to anyone. */
  withdraw() {
    this.#owned.clear();
    this.#lent.clear();
  }
  /** @param {number} tab */
  visible(tab) {
    return this.#lent.has(tab) || this.#owned.has(tab);
  }
  /** @param {number} tab */
  owns(tab) {
    return this.#owned.has(tab);
  }
  /**
   * Whether the lease may act on a page at this address. An empty page and the
   * browser's own page about a failed navigation belong to no website.
   * @param {string} url
   */
  allowed(url) {
    if (url === "" || url.startsWith("about:blank") || url.startsWith("chrome-error:") || url === NOWHERE || isNewTab(url)) return true;
    const origin = originOf(url);
    if (!/^https?:/.test(origin)) return false;
    return this.#origins.size === 0 || this.#origins.has(origin);
  }
  /**
   * Whether a cookie's domain is the host of one of the lease's origins. Ports and schemes
   * are all the same to cookies.
   * @param {string} name
   */
  domain(name) {
    const bare = (host) => host.toLowerCase().replace(/^\[|\]$/g, "");
    return this.#origins.size === 0 || [...this.#origins].some((origin) => bare(new URL(origin).hostname) === bare(name.replace(/^\./, "")));
  }
  /** The lease's tab in front: of the focused window, else the one shown last. 0 if it has none. */
  active() {
    let best = 0;
    let bestTick = -1;
    for (const tab of this.#tabs.values()) {
      if (!this.visible(tab.tab)) continue;
      if (tab.active && tab.window === this.#focused) return tab.tab;
      const tick = tab.active ? tab.shownTick + this.#tick + 1 : tab.shownTick;
      if (tick > bestTick) [best, bestTick] = [tab.tab, tick];
    }
    return best;
  }
  /** The tab in front of every window, visible to the lease or not. */
  inFront() {
    return [...this.#tabs.values()].filter((tab) => tab.active).map((tab) => tab.tab);
  }
  /** @param {number} tab */
  get(tab) {
    return this.#tabs.get(tab);
  }
  all() {
    return [...this.#tabs.values()];
  }
};

// browser.js
var ALL = { urls: ["<all_urls>"] };
function textOf(selector, max) {
  let found;
  try {
    found = document.querySelectorAll(selector);
  } catch {
    return { found: -1, text: "", cut: false };
  }
  const [it] = found;
  if (found.length !== 1) return { found: found.length, text: "", cut: false };
  const text = String((it instanceof HTMLElement ? it.innerText : it.textContent) ?? "").replace(/\s+/g, " ").trim();
  return { found: 1, text: text.slice(0, max), cut: text.length > max };
}
var browser = {
  id: () => chrome.runtime.id,
  popupURL: () => chrome.runtime.getURL("popup.html"),
  /** Milliseconds: one that never jumps, one that people read. */
  monoMs: () => performance.now(),
  wallMs: () => Date.now(),
  uuid: () => crypto.randomUUID(),
  userAgent: () => navigator.userAgent,
  connectHost: () => chrome.runtime.connectNative("dev.sessiondock.host"),
  lastError: () => chrome.runtime.lastError?.message ?? "",
  connectWorker: () => chrome.runtime.connect({ name: "popup" }),
  /** What stands at the toolbar button. @param {string} text */
  badge: (text) => chrome.action.setBadgeText({ text }),
  /** @param {number} tabId */
  attach: (tabId) => chrome.debugger.attach({ tabId }, "1.3"),
  /** @param {number} tabId */
  detach: (tabId) => chrome.debugger.detach({ tabId }),
  /** The least that the browser can be asked: its answer comes after all events that are ahead of it. */
  ping: () => chrome.runtime.getPlatformInfo(),
  debugTargets: () => chrome.debugger.getTargets(),
  /**
   * @param {number} tabId @param {string} method @param {Record<string, unknown>} params
   * @param {string} [sessionId] of a child: a frame of another process, a worker
   * @returns {Promise<unknown>}
   */
  sendCommand: (tabId, method, params, sessionId) => chrome.debugger.sendCommand(sessionId ? { tabId, sessionId } : { tabId }, method, params),
  /**
   * A no-op in one document: it runs after everything queued there before it.
   * @param {number} tabId @param {string} documentId
   */
  runNothing: (tabId, documentId) => chrome.scripting.executeScript({
    target: { tabId, documentIds: [documentId] },
    func: () => {
    },
    injectImmediately: true
  }),
  tabs: () => chrome.tabs.query({}),
  /** @param {number} tabId */
  tab: (tabId) => chrome.tabs.get(tabId),
  /** @param {string} url @param {boolean} active */
  createTab: (url, active) => chrome.tabs.create({ url, active }),
  /** @param {number} tabId */
  closeTab: (tabId) => chrome.tabs.remove(tabId),
  /** @param {number} tabId */
  activateTab: (tabId) => chrome.tabs.update(tabId, { active: true }),
  /**
   * Has the page of a tab come that is not loaded; the tab stays where it is. Where a form
   * was sent to get that page, the browser brings the tab to the front to ask a person, and
   * then takes it from its cache: nothing is sent a second time.
   * @param {number} tabId
   */
  loadTab: (tabId) => chrome.tabs.reload(tabId),
  /**
   * Puts a page that no website has in a tab. An empty one would have the extension's own
   * origin, as whatever an extension navigates to it has: the browser's page about an
   * address that cannot be opened has none. It has come when this is answered, or does not.
   * @param {number} tabId
   */
  blankTab: async (tabId) => {
    await chrome.tabs.update(tabId, { url: NOWHERE });
    const late = Date.now() + LEAVE_MS;
    while (Date.now() < late && (await chrome.webNavigation.getFrame({ tabId, frameId: 0 }))?.url !== NOWHERE) {
      await new Promise((again) => setTimeout(again, 20));
    }
  },
  /**
   * Has a page leave for the empty one by itself, so that this one has the page's origin.
   * It is asked in the page, behind what is queued there. The promise is rejected in plain
   * words, which prove nothing, if it has not left in time: it may yet.
   * @param {number} tabId @param {string} mainFrame the DevTools protocol's name of it, '' if not known
   * @returns {Promise<{frameId: string, loaderId?: string}>} as Page.navigate answers,
   *   before the page has come
   */
  leaveForBlank: (tabId, mainFrame) => new Promise((answer, fail) => {
    const end = () => chrome.debugger.onEvent.removeListener(seen);
    const seen = (source, method, params) => {
      if (source.tabId !== tabId || source.sessionId) return;
      const begins = method === "Page.frameStartedNavigating" ? { ...params, id: params.frameId } : null;
      const { id, parentId, loaderId, url } = begins ?? (method === "Page.frameNavigated" ? params.frame : {});
      if (url !== "about:blank" || parentId || (mainFrame ? id !== mainFrame : begins)) return;
      end();
      answer({ frameId: id, loaderId });
    };
    chrome.debugger.onEvent.addListener(seen);
    chrome.debugger.sendCommand({ tabId }, "Runtime.evaluate", { expression: "location.href = 'about:blank'" }).then(
      () => setTimeout(() => (end(), fail(new Error("the page has not left for the empty one in time"))), LEAVE_MS),
      (error) => (end(), fail(error))
    );
  }),
  /**
   * What the console of a page has been told so far: the browser keeps it, and tells it whoever
   * begins to listen, before it answers. Nobody listens any more afterwards.
   * @param {number} tabId
   * @returns {Promise<{method: string, params: any}[]>} the events, as the DevTools protocol has them
   */
  readConsole: async (tabId) => {
    const told = [];
    const hears = (source, method, params) => {
      if (source.tabId !== tabId || source.sessionId) return;
      if (method === "Runtime.consoleAPICalled" || method === "Runtime.exceptionThrown" || method === "Log.entryAdded") told.push({ method, params });
    };
    chrome.debugger.onEvent.addListener(hears);
    try {
      const asks = ["Runtime.enable", "Log.enable", "Runtime.disable", "Log.disable"];
      await Promise.all(asks.map((method) => chrome.debugger.sendCommand({ tabId }, method)));
      return told;
    } finally {
      chrome.debugger.onEvent.removeListener(hears);
    }
  },
  /** @param {string} targetId the browser's name of a worker */
  attachWorker: (targetId) => chrome.debugger.attach({ targetId }, "1.3"),
  /** @param {string} targetId */
  detachWorker: (targetId) => chrome.debugger.detach({ targetId }),
  /** Ends a shared worker, which does that itself when it is asked to. @param {string} targetId */
  closeWorker: (targetId) => chrome.debugger.sendCommand({ targetId }, "Runtime.evaluate", { expression: "self.close()" }),
  /** @param {number} tabId @param {string} url */
  gotoTab: (tabId, url) => chrome.tabs.update(tabId, { url }),
  /**
   * The text of the one element that a selector names. It is read in a world of ours,
   * where a page's scripts change nothing of what is called.
   * @param {number} tabId @param {string} documentId @param {string} selector
   */
  readText: (tabId, documentId, selector) => chrome.scripting.executeScript({
    target: { tabId, documentIds: [documentId] },
    func: textOf,
    args: [selector, MAX_PROBE_TEXT],
    injectImmediately: true
  }),
  /** @param {number} tabId */
  frames: (tabId) => chrome.webNavigation.getAllFrames({ tabId }),
  /** @param {number} tabId */
  mainFrame: (tabId) => chrome.webNavigation.getFrame({ tabId, frameId: 0 }),
  /** @param {string} documentId */
  frameOf: (documentId) => chrome.webNavigation.getFrame({ documentId }),
  /** @param {string[]} keys */
  loadLocal: (keys) => chrome.storage.local.get(keys),
  /** @param {Record<string, unknown>} items */
  saveLocal: (items) => chrome.storage.local.set(items),
  /** @param {string[]} keys */
  loadSession: (keys) => chrome.storage.session.get(keys),
  /** @param {Record<string, unknown>} items */
  saveSession: (items) => chrome.storage.session.set(items),
  /** Wakes a worker that has nothing else to keep it; half a minute is the least there is. */
  wakeEveryHalfMinute: () => chrome.alarms.create("reconnect", { periodInMinutes: 0.5 }),
  /** Registration of listeners: all of them in the worker's first turn. */
  on: {
    /** @param {() => void} f */
    alarm: (f) => chrome.alarms.onAlarm.addListener(f),
    /** @param {() => void} f */
    startup: (f) => chrome.runtime.onStartup.addListener(f),
    /** @param {() => void} f */
    installed: (f) => chrome.runtime.onInstalled.addListener(f),
    /** @param {(port: chrome.runtime.Port) => void} f */
    connect: (f) => chrome.runtime.onConnect.addListener(f),
    /** @param {(tab: number, session: string, method: string, params: any) => void} f */
    debuggerEvent: (f) => chrome.debugger.onEvent.addListener(
      (source, method, params) => f(source.tabId ?? 0, source.sessionId ?? "", method, params ?? {})
    ),
    /** @param {(tab: number, reason: string) => void} f */
    debuggerDetach: (f) => chrome.debugger.onDetach.addListener((source, reason) => f(source.tabId ?? 0, reason)),
    /** @param {(details: any) => void} f */
    committed: (f) => chrome.webNavigation.onCommitted.addListener(f),
    /** @param {(details: any) => void} f */
    navigationError: (f) => chrome.webNavigation.onErrorOccurred.addListener(f),
    /** Moves within one document. @param {(details: any) => void} f */
    sameDocument: (f) => {
      chrome.webNavigation.onHistoryStateUpdated.addListener(f);
      chrome.webNavigation.onReferenceFragmentUpdated.addListener(f);
    },
    /** @param {(details: {sourceTabId: number, tabId: number}) => void} f */
    navigationTarget: (f) => chrome.webNavigation.onCreatedNavigationTarget.addListener(f),
    /** @param {(tab: chrome.tabs.Tab) => void} f */
    tabCreated: (f) => chrome.tabs.onCreated.addListener(f),
    /** @param {(id: number, change: any, tab: chrome.tabs.Tab) => void} f */
    tabUpdated: (f) => chrome.tabs.onUpdated.addListener(f),
    /** @param {(tab: number) => void} f */
    tabRemoved: (f) => chrome.tabs.onRemoved.addListener((tabId) => f(tabId)),
    /** @param {(tab: number, window: number) => void} f */
    tabActivated: (f) => chrome.tabs.onActivated.addListener(({ tabId, windowId }) => f(tabId, windowId)),
    /** @param {(added: number, removed: number) => void} f */
    tabReplaced: (f) => chrome.tabs.onReplaced.addListener(f),
    /** @param {(window: number) => void} f */
    windowFocused: (f) => chrome.windows.onFocusChanged.addListener(f),
    /** @param {(details: any) => void} f */
    request: (f) => chrome.webRequest.onBeforeRequest.addListener((d) => void f(d), ALL),
    /** @param {(details: any) => void} f */
    redirect: (f) => chrome.webRequest.onBeforeRedirect.addListener(f, ALL),
    /** @param {(details: any) => void} f */
    response: (f) => chrome.webRequest.onResponseStarted.addListener(f, ALL),
    /** @param {(details: any) => void} f */
    requestError: (f) => chrome.webRequest.onErrorOccurred.addListener(f, ALL),
    /** @param {(item: any) => void} f */
    downloadCreated: (f) => chrome.downloads.onCreated.addListener(f),
    /** @param {(delta: any) => void} f */
    downloadChanged: (f) => chrome.downloads.onChanged.addListener(f)
  }
};

// dock.js
import { BUILD } from "../build.js";

// console.js
var LEVELS = { error: "error", assert: "error", warning: "warning", debug: "debug", trace: "debug", verbose: "debug" };
function shown({ type, value, unserializableValue, description }) {
  if (type === "string") return String(value);
  return String(unserializableValue ?? description ?? (value === void 0 ? type : JSON.stringify(value)));
}
function lineOf(method, params) {
  const { level, text, url, line, at } = parts(method, params);
  return {
    level: LEVELS[level] ?? "info",
    text: String(text).slice(0, MAX_LINE),
    url: String(url ?? "").slice(0, MAX_URL),
    line: Number(line) || 0,
    at: Math.round(at ?? 0)
  };
}
function parts(method, params) {
  if (method === "Runtime.consoleAPICalled") {
    const [frame] = params.stackTrace?.callFrames ?? [];
    return {
      level: params.type,
      text: (params.args ?? []).map(shown).join(" "),
      url: frame?.url,
      line: frame ? frame.lineNumber + 1 : 0,
      at: params.timestamp
    };
  }
  if (method === "Runtime.exceptionThrown") {
    const { text: text2, exception, url: url2, lineNumber: lineNumber2 } = params.exceptionDetails ?? {};
    return { level: "error", text: exception?.description ?? text2, url: url2, line: (lineNumber2 ?? -1) + 1, at: params.timestamp };
  }
  const { level, text, url, lineNumber, timestamp } = params.entry ?? {};
  return { level: String(level).slice(0, MAX_WORD), text, url, line: (lineNumber ?? -1) + 1, at: timestamp };
}
function summary(events) {
  const lines = events.map(({ method, params }) => lineOf(method, params)).sort((a, b) => a.at - b.at);
  return { lines: lines.slice(-MAX_LINES), more: Math.max(0, lines.length - MAX_LINES) };
}

// ledger.js
var UNHEARD = "how it ended was not heard";
var SAFE = /* @__PURE__ */ new Set(["GET", "HEAD", "OPTIONS"]);
var Ledger = class {
  /** @type {Map<string, Entry>} */
  #entries = /* @__PURE__ */ new Map();
  #tick = 0;
  #wallMs;
  #changed;
  /** @param {() => number} wallMs @param {(entry: Entry) => void} changed called at each new rev */
  constructor(wallMs, changed) {
    this.#wallMs = wallMs;
    this.#changed = changed;
  }
  /** @param {string} action */
  get(action) {
    return this.#entries.get(action);
  }
  entries() {
    return this.#entries.values();
  }
  /**
   * Whether an effect of this action can be recorded. At the bound it is refused: an
   * entry that gave way would read as "never dispatched" at the next drain.
   * @param {string} action
   */
  room(action) {
    return this.#entries.has(action) || this.#entries.size < MAX_ACTIONS;
  }
  /**
   * Records an effect, in the turn of its dispatch.
   * @param {import('./gate.js').Order} order @param {string} document @param {number} watchMs
   * @returns {Entry}
   */
  dispatched(order, document2, watchMs) {
    let entry = this.#entries.get(order.action);
    if (!entry) {
      entry = {
        action: order.action,
        epoch: order.epoch,
        rev: 0,
        dispatched: 0,
        open: 0,
        openInputs: 0,
        lastTick: 0,
        input: false,
        errors: false,
        adrift: false,
        asked: false,
        navigable: true,
        navigableMs: 0,
        creating: false,
        tab: order.tab,
        document: document2,
        script: false,
        how: "open",
        howRule: "",
        requests: /* @__PURE__ */ new Map(),
        more: 0,
        downloads: /* @__PURE__ */ new Map(),
        firstMs: this.#wallMs(),
        restMs: 0,
        watchMs: watchMs || WATCH_MS,
        fencedMs: 0
      };
      this.#entries.set(order.action, entry);
    }
    const input = order.method.startsWith("Input.");
    entry.dispatched++;
    entry.open++;
    entry.lastTick = ++this.#tick;
    if (input) {
      entry.input = true;
      entry.openInputs++;
    }
    if (document2 && document2 !== entry.document) {
      if (entry.input && entry.how !== "barrier" && entry.document) entry.errors = true;
      entry.document = document2;
    }
    entry.tab = order.tab || entry.tab;
    entry.script ||= order.script;
    entry.creating = order.kind === "tab_create";
    entry.navigable = true;
    entry.navigableMs = 0;
    entry.how = "open";
    entry.howRule = "";
    entry.restMs = 0;
    this.#touch(entry);
    return entry;
  }
  /**
   * The promise of an effect is over. "answered" is a result; "refused" an error with
   * which the page's own side answered; "cut" an error that says only that the
   * connection to it ended: the command is as open as before.
   * @param {import('./gate.js').Order} order @param {'answered' | 'refused' | 'cut'} end
   */
  settled(order, end) {
    const entry = this.#entries.get(order.action);
    if (!entry || entry.open === 0) return;
    if (order.method.startsWith("Input.") && entry.openInputs > 0) entry.openInputs--;
    if (end !== "cut") entry.open--;
    else if (!order.method.startsWith("Input.")) {
      entry.adrift = true;
      if (order.script && entry.how === "barrier") this.#rest(entry, "lost", "");
    }
    if (end !== "answered") {
      entry.errors = true;
      entry.input = true;
    }
    if (entry.open === 0 && !entry.input && entry.how !== "ended") this.#rest(entry, "barrier", "answered");
    this.#touch(entry);
  }
  /**
   * Whether a barrier would come too early: input is not acknowledged, or a command
   * that is no script of the agent's (a navigation) is not answered.
   * @param {string} document @param {boolean} current whether it is still in its tab
   */
  busy(document2, current) {
    for (const entry of this.#of(document2)) {
      if (entry.openInputs > 0 ? current : entry.open > 0 && !entry.input && !entry.script) return true;
    }
    return false;
  }
  /** Whether a script of an older epoch has run so far that only its promise is open. @param {number} below */
  waits(below) {
    for (const { epoch, script, open, how } of this.#entries.values()) {
      if (epoch < below && script && open > 0 && how === "barrier") return true;
    }
    return false;
  }
  /** A mark for `barrier`: what is dispatched later is not covered by it. */
  tick() {
    return this.#tick;
  }
  /**
   * Our no-op ran in the document. It says nothing of a navigation under way.
   * @param {string} document @param {number} tick when it was sent
   */
  barrier(document2, tick) {
    for (const entry of this.#of(document2)) {
      if (entry.lastTick > tick || entry.how === "ended" || entry.how === "barrier") continue;
      if (entry.adrift || entry.open > 0 && !entry.input && !entry.script) continue;
      this.#rest(entry, "barrier", "barrier_in_document");
    }
  }
  /** The document in a tab's main frame asked to be replaced. @param {string} document */
  asked(document2) {
    for (const entry of this.#of(document2)) if (entry.how === "open") entry.asked = true;
  }
  /**
   * Another document was committed in its place: no barrier can run there any more.
   * @param {number} tab @param {string} document the former one
   */
  replaced(tab, document2) {
    for (const entry of this.#entries.values()) {
      if (entry.tab === tab) this.#overtaken(entry);
      if (!document2 || entry.document !== document2 || entry.how !== "open" || !entry.input) continue;
      if (entry.asked && entry.open === 0 && !entry.errors) this.#rest(entry, "barrier", "navigated_by_document");
      else this.#rest(entry, "lost", "");
    }
  }
  /**
   * A document was committed in its tab. What a page does by itself may come between an
   * effect and the navigation that it asks for: unless the effect had come to rest, that
   * one may be yet to begin.
   * @param {Entry} entry
   */
  #overtaken(entry) {
    const rests = entry.how !== "open" && entry.open === 0;
    const seen = [...entry.requests.values()].some(({ type }) => type === "main_frame");
    if (!rests && (seen || entry.open === 0)) entry.navigableMs ||= this.#wallMs() + OVERTAKEN_MS;
    if (rests || seen) entry.navigable = false;
  }
  /**
   * Whether a navigation of its tab may be its own.
   * @param {Entry} entry @param {number} wallMs when it began @param {string} method
   */
  navigates({ navigable, navigableMs }, wallMs, method) {
    if (navigable) return navigableMs === 0 || wallMs <= navigableMs;
    return !SAFE.has(method) && wallMs <= navigableMs;
  }
  /** The renderer of these documents was seen to end. @param {Set<string>} documents */
  ended(documents) {
    for (const entry of this.#entries.values()) {
      if (documents.has(entry.document) && entry.how !== "barrier") {
        entry.open = 0;
        entry.openInputs = 0;
        this.#rest(entry, "ended", "");
      }
    }
  }
  /**
   * The drain has ended: what it has not brought to rest it has lost.
   * @param {number} below this epoch
   */
  lost(below) {
    for (const entry of this.#entries.values()) {
      if (entry.epoch < below && entry.how === "open") this.#rest(entry, "lost", "");
    }
  }
  /** How a document's actions came to rest: the weakest of them. @param {string} document @returns {How} */
  how(document2) {
    const found = new Set([...this.#of(document2)].map((entry) => entry.how));
    for (
      const how of
      /** @type {How[]} */
      ["open", "lost", "ended"]
    ) if (found.has(how)) return how;
    return found.size ? "barrier" : "open";
  }
  /**
   * The epochs below this one have ended.
   * @param {number} epoch @param {number} watchMs
   */
  fence(epoch, watchMs) {
    const now = this.#wallMs();
    for (const entry of this.#entries.values()) {
      if (entry.epoch >= epoch) continue;
      entry.fencedMs ||= now;
      if (watchMs > 0) entry.watchMs = watchMs;
    }
  }
  /**
   * The reports that a fence lists: unsettled, or with a script that may still run.
   * @param {number} below @param {(document: string) => boolean} scripted
   * @returns {ActionReport[]}
   */
  unsettled(below, scripted) {
    const out = [];
    for (const entry of this.#entries.values()) {
      if (entry.epoch < below && (unsettled(entry) || entry.script && scripted(entry.document))) {
        out.push(report(entry));
      }
    }
    return out;
  }
  /** Documents where an action of a lower epoch has not come to rest. @param {number} below */
  pending(below) {
    const out = /* @__PURE__ */ new Map();
    for (const entry of this.#entries.values()) {
      if (entry.epoch < below && entry.how === "open" && entry.document) out.set(entry.document, entry.tab);
    }
    return out;
  }
  /** Entries whose requests are still watched, the latest first. @param {number} wallMs */
  watched(wallMs) {
    return [...this.#entries.values()].filter((entry) => watched(entry, wallMs)).reverse();
  }
  /**
   * Adds or replaces a request of an entry. At the bound a harmless one gives way to one
   * that can change something.
   * @param {Entry} entry @param {RequestReport} request
   */
  request(entry, request) {
    const known = entry.requests.has(request.id);
    if (!known && entry.requests.size >= MAX_EVIDENCE) {
      entry.more++;
      const victim = SAFE.has(request.method) ? void 0 : harmless(entry);
      if (!victim) return this.#touch(entry);
      entry.requests.delete(victim);
    }
    entry.requests.set(request.id, request);
    this.#touch(entry);
  }
  /** A request that cannot be followed is counted. @param {Entry} entry */
  beyond(entry) {
    entry.more++;
    this.#touch(entry);
  }
  /** @param {Entry} entry @param {string} id @param {string} name '' when it has ended */
  download(entry, id, name) {
    if (name && entry.downloads.size >= MAX_EVIDENCE && !entry.downloads.has(id)) return this.beyond(entry);
    if (name) entry.downloads.set(id, name);
    else if (!entry.downloads.delete(id)) return;
    this.#touch(entry);
  }
  /** A tab came to be by an action that makes one. @param {number} tab */
  tabMade(tab) {
    for (const entry of [...this.#entries.values()].reverse()) {
      if (!entry.creating) continue;
      entry.creating = false;
      entry.tab = tab;
      return true;
    }
    return false;
  }
  /** @param {string[]} actions */
  forget(actions) {
    for (const action of actions) this.#entries.delete(action);
  }
  /**
   * Everything that is not forgotten.
   * @param {number} [below] only of epochs below this one
   * @returns {ActionReport[]}
   */
  reports(below = Infinity) {
    return [...this.#entries.values()].filter((entry) => entry.epoch < below).map(report);
  }
  /** For storage.session: a worker's restart must not lose what there was to tell. */
  snapshot() {
    return [...this.#entries.values()].filter((entry) => !quiet(entry)).map((entry) => ({
      ...entry,
      requests: [...entry.requests],
      downloads: [...entry.downloads]
    }));
  }
  /**
   * Takes up what a former worker stored. Its promises are gone, so an answer will
   * never come: only a barrier can show rest. Revs go on far above any it has sent.
   * @param {unknown} stored
   */
  restore(stored) {
    if (!Array.isArray(stored)) return;
    for (const item of stored) {
      if (typeof item?.action !== "string" || this.#entries.has(item.action)) continue;
      this.#entries.set(item.action, {
        ...item,
        rev: item.rev + 1e6,
        open: 0,
        openInputs: 0,
        input: true,
        errors: item.errors || item.open > 0,
        adrift: item.adrift === true || item.open > item.openInputs && !item.script,
        creating: false,
        lastTick: 0,
        requests: new Map(item.requests),
        downloads: new Map(item.downloads)
      });
    }
  }
  /** @param {string} document */
  *#of(document2) {
    if (!document2) return;
    for (const entry of this.#entries.values()) if (entry.document === document2) yield entry;
  }
  /** @param {Entry} entry @param {How} how @param {string} rule */
  #rest(entry, how, rule) {
    if (entry.how === how && entry.howRule === rule) return;
    entry.how = how;
    entry.howRule = rule;
    entry.restMs = this.#wallMs();
    this.#touch(entry);
  }
  /** @param {Entry} entry */
  #touch(entry) {
    entry.rev++;
    this.#changed(entry);
  }
};
function unsettled(entry) {
  if (entry.open > 0 || entry.how === "open" || entry.downloads.size > 0) return true;
  for (const request of entry.requests.values()) if (request.state === "in_flight") return true;
  return false;
}
function watched(entry, wallMs) {
  return entry.how === "open" || entry.how === "lost" || wallMs <= entry.restMs + entry.watchMs;
}
function harmless(entry) {
  const safe = [...entry.requests.values()].filter(({ method }) => SAFE.has(method));
  return (safe.find(({ state }) => state !== "in_flight") ?? safe[0])?.id;
}
function quiet({ how, open, requests, more, downloads }) {
  return how === "barrier" && open === 0 && requests.size === 0 && more === 0 && downloads.size === 0;
}
function brief(whole2) {
  const { downloads, more } = whole2;
  const requests = whole2.requests ?? [];
  const one = requests.find(({ method }) => !SAFE.has(method));
  const left = one ? [{ ...one, id: "left out", url: "", state: "failed", status: 0, error: UNHEARD }] : [];
  return { ...whole2, requests: left, more: more + requests.length, downloads: (downloads ?? []).slice(0, 1) };
}
function report(entry) {
  return {
    action: entry.action,
    epoch: entry.epoch,
    rev: entry.rev,
    dispatched: entry.dispatched,
    open: entry.open,
    tab: entry.tab,
    document: entry.document,
    script: entry.script,
    how: entry.how,
    how_rule: entry.howRule,
    requests: [...entry.requests.values()],
    more: entry.more,
    downloads: [...entry.downloads.values()]
  };
}

// evidence.js
function withoutQuery(text) {
  try {
    const { origin, protocol, pathname } = new URL(text);
    if (protocol === "about:") return (protocol + pathname).slice(0, MAX_WORD);
    if (!/^(https?|wss?|ftp):$/.test(protocol)) return protocol + (origin === "null" ? "" : origin);
    return (origin + pathname).slice(0, MAX_URL);
  } catch {
    return "";
  }
}
function originOf2(url) {
  try {
    return new URL(url).origin;
  } catch {
    return "null";
  }
}
var Evidence = class {
  /** Requests under way. @type {Map<string, {entry: Entry, request: RequestReport}>} */
  #open = /* @__PURE__ */ new Map();
  /** Tabs that a page opened: which one, until their first commit. @type {Map<number, number>} */
  #openers = /* @__PURE__ */ new Map();
  /** @type {Map<number, Entry>} */
  #downloads = /* @__PURE__ */ new Map();
  #hops = 0;
  #ledger;
  #documents;
  /**
   * @param {import('./ledger.js').Ledger} ledger
   * @param {import('./documents.js').Documents} documents
   */
  constructor(ledger, documents) {
    this.#ledger = ledger;
    this.#documents = documents;
  }
  /** @param {number} tab @param {number} opener */
  opened(tab, opener) {
    this.#openers.set(tab, opener);
  }
  /** The tab has a document of its own from now on. @param {number} tab */
  committed(tab) {
    this.#openers.delete(tab);
  }
  /** @param {any} details of webRequest.onBeforeRequest */
  began(details) {
    if (this.#open.has(details.requestId)) return;
    const found = this.#attribute(details);
    if (found) this.#begin(found.entry, details.requestId, details, found.rule);
  }
  /**
   * A redirect is the answer to the request that was redirected, and the beginning of
   * another: a POST answered by 303 was answered.
   * @param {any} details of webRequest.onBeforeRedirect
   */
  redirected(details) {
    const open = this.#open.get(details.requestId);
    if (!open) return;
    this.#end(details.requestId, { state: "answered", status: details.statusCode, ended_ms: Math.round(details.timeStamp) });
    const kept = details.statusCode === 307 || details.statusCode === 308;
    const safe = open.request.method === "HEAD" ? "HEAD" : "GET";
    const next = { ...details, url: details.redirectUrl, method: kept ? open.request.method : safe };
    this.#begin(open.entry, `${details.requestId}.${++this.#hops}`, next, open.request.rule);
  }
  /** The answer's head has come. @param {any} details of webRequest.onResponseStarted */
  answered(details) {
    this.#end(details.requestId, { state: "answered", status: details.statusCode, ended_ms: Math.round(details.timeStamp) });
  }
  /** @param {any} details of webRequest.onErrorOccurred */
  failed(details) {
    this.#end(details.requestId, { state: "failed", error: String(details.error).slice(0, MAX_ERROR), ended_ms: Math.round(details.timeStamp) });
  }
  /** @param {any} item of downloads.onCreated */
  downloadBegan(item) {
    if (item.state && item.state !== "in_progress") return;
    const origin = originOf2(item.referrer || item.url);
    const entry = this.#ledger.watched(Date.parse(item.startTime) || Infinity).find((candidate) => this.#originOf(candidate) === origin);
    if (!entry) return;
    this.#downloads.set(item.id, entry);
    this.#ledger.download(entry, String(item.id), withoutQuery(item.finalUrl || item.url) || "a download");
  }
  /** @param {any} delta of downloads.onChanged */
  downloadChanged(delta) {
    const entry = this.#downloads.get(delta.id);
    if (!entry || !delta.state || delta.state.current === "in_progress") return;
    this.#downloads.delete(delta.id);
    this.#ledger.download(entry, String(delta.id), "");
  }
  /**
   * @param {any} details
   * @returns {{entry: Entry, rule: RequestReport['rule']} | null}
   */
  #attribute(details) {
    const { tabId, timeStamp, type, documentId, parentDocumentId, method } = details;
    const candidates = this.#ledger.watched(timeStamp).filter((entry2) => entry2.firstMs <= timeStamp + 1);
    if (candidates.length === 0) return null;
    if (documentId) {
      const root = this.#documents.known(documentId)?.root ?? documentId;
      const entry2 = candidates.find((one) => one.document === root || one.document === documentId);
      return entry2 ? { entry: entry2, rule: "document" } : null;
    }
    if (type === "main_frame" || type === "sub_frame") {
      const parent = parentDocumentId ? this.#documents.known(parentDocumentId)?.root ?? parentDocumentId : "";
      const opener = this.#openers.get(tabId);
      const entry2 = candidates.find((one) => {
        const navigates = this.#ledger.navigates(one, timeStamp, method);
        if (type === "sub_frame") return parent ? one.document === parent : one.tab === tabId && navigates;
        if (one.tab === tabId && navigates) return true;
        return opener !== void 0 && one.tab === opener && (navigates || one.how !== "lost");
      });
      return entry2 ? { entry: entry2, rule: "navigation" } : null;
    }
    if (tabId >= 0 || !details.initiator) return null;
    const entry = candidates.find((one) => this.#originOf(one) === details.initiator);
    return entry ? { entry, rule: "worker_origin" } : null;
  }
  /** @param {Entry} entry */
  #originOf(entry) {
    return originOf2(this.#documents.known(entry.document)?.url ?? this.#documents.url(entry.tab));
  }
  /**
   * @param {Entry} entry @param {string} id @param {any} details @param {RequestReport['rule']} rule
   */
  #begin(entry, id, details, rule) {
    const request = {
      id: id.slice(0, MAX_ID),
      // A page chooses its method, of any length.
      method: String(details.method).slice(0, MAX_WORD),
      url: withoutQuery(details.url),
      type: String(details.type).slice(0, MAX_WORD),
      state: "in_flight",
      status: 0,
      error: "",
      rule,
      after_fence: entry.fencedMs > 0 && details.timeStamp >= entry.fencedMs,
      began_ms: Math.round(details.timeStamp),
      ended_ms: 0
    };
    if (this.#open.size >= MAX_REQUESTS) {
      this.#ledger.request(entry, { ...request, state: "failed", error: UNHEARD });
      this.#ledger.beyond(entry);
      return;
    }
    this.#open.set(details.requestId, { entry, request });
    this.#ledger.request(entry, request);
  }
  /** @param {string} requestId @param {Partial<RequestReport>} end */
  #end(requestId, end) {
    const open = this.#open.get(requestId);
    if (!open) return;
    this.#open.delete(requestId);
    this.#ledger.request(open.entry, { ...open.request, ...end });
  }
};

// refusal.js
function refuse(code, message, hint) {
  return hint ? { code, message, hint } : { code, message };
}
function fromDebugger(error) {
  const text = error instanceof Error ? error.message : String(error);
  try {
    const { code, message } = JSON.parse(text);
    if (typeof code === "number" && typeof message === "string") {
      const invalid = code === -32601 || code === -32602;
      return { code: invalid ? "invalid" : "unavailable", message, detail: { cdp_code: code } };
    }
  } catch {
  }
  return { code: "unavailable", message: text };
}
function isAnswer(error) {
  return error.detail?.cdp_code !== void 0 && !/navigated or closed|target closed|crashed/i.test(error.message);
}
function note(what, detail) {
  if (detail === void 0) console.warn(`sessiondock: ${what}`);
  else console.warn(`sessiondock: ${what}`, detail instanceof Error ? detail.message : detail);
}

// drain.js
var SOON_MS = 5;
var Drain = class {
  /** @type {object | null} */
  #run = null;
  /** @type {Target[]} */
  #targets = [];
  /** @type {() => void} */
  #wake = () => {
  };
  #browser;
  #gate;
  #ledger;
  #documents;
  #tabs;
  #sessions;
  #last;
  /**
   * @param {object} parts
   * @param {import('./browser.js').Browser} parts.browser
   * @param {import('./gate.js').Gate} parts.gate
   * @param {import('./ledger.js').Ledger} parts.ledger
   * @param {import('./documents.js').Documents} parts.documents
   * @param {import('./tabs.js').Tabs} parts.tabs
   * @param {import('./sessions.js').Sessions} parts.sessions
   * @param {() => Promise<void>} parts.last what is told before a drain's end is
   */
  constructor({ browser: browser2, gate, ledger, documents, tabs, sessions, last: last2 }) {
    this.#browser = browser2;
    this.#gate = gate;
    this.#ledger = ledger;
    this.#documents = documents;
    this.#tabs = tabs;
    this.#sessions = sessions;
    this.#last = last2;
  }
  get running() {
    return this.#run !== null;
  }
  /**
   * What the fence reaches: documents with an agent's script, those where input has
   * not come to rest, and, if a person held until now, the page in front of every
   * window, for the person's own last click may be queued there.
   * @param {{epoch: number, from_person?: boolean}} fence
   * @returns {Document[]}
   */
  begin({ epoch, from_person: fromPerson }) {
    this.cancel();
    const targets = /* @__PURE__ */ new Map();
    const add = (document2, tab, why) => {
      const url = withoutQuery(this.#documents.known(document2)?.url ?? this.#documents.url(tab));
      const target = targets.get(document2) ?? makeTarget(document2, tab, url);
      target[why] = true;
      targets.set(document2, target);
    };
    for (const { document: document2, tab } of this.#documents.list()) add(document2, tab, "script");
    for (const [document2, tab] of this.#ledger.pending(epoch)) add(document2, tab, "input");
    if (fromPerson) {
      for (const tab of this.#tabs.inFront()) {
        const document2 = this.#documents.current(tab);
        if (document2 && isWeb(this.#documents.url(tab))) add(document2, tab, "input");
      }
    }
    this.#targets = [...targets.values()];
    return this.#list();
  }
  /**
   * Settles what `begin` found.
   * @param {{epoch: number, deadline_ms: number}} fence
   * @returns {Promise<Document[] | null>} null if another fence or a grant ended it
   */
  async settle({ epoch, deadline_ms: deadlineMs }) {
    const run = {};
    this.#run = run;
    const ms = deadlineMs > 0 ? deadlineMs : DRAIN_MS;
    const order = {
      by: (
        /** @type {const} */
        "system"
      ),
      kind: "barrier",
      epoch,
      port: null,
      frame: 0,
      method: "",
      params: {},
      monoMs: this.#browser.monoMs() + ms,
      wallMs: this.#browser.wallMs() + ms,
      action: "",
      seq: 0,
      effect: false,
      script: false
    };
    this.#sessions.release();
    let timer;
    const over = new Promise((resolve) => {
      this.#wake = () => resolve(void 0);
      timer = setTimeout(resolve, ms);
    });
    const rest = Promise.all(this.#targets.map((target) => this.#settle(run, target, order)));
    await Promise.race([over, rest.then(() => this.#answers(run, epoch))]);
    await Promise.race([over, this.#last()]);
    clearTimeout(timer);
    if (this.#run !== run) return null;
    this.#run = null;
    this.#ledger.lost(epoch);
    for (const target of this.#targets) if (target.how === "open") target.how = "lost";
    return this.#list();
  }
  /** Another fence, or a grant, has come. */
  cancel() {
    this.#run = null;
    this.#wake();
  }
  /** Documents whose renderer was seen to end. @param {Set<string>} documents */
  ended(documents) {
    for (const target of this.#targets) {
      if (!documents.has(target.document)) continue;
      target.how = "ended";
      target.end();
    }
  }
  /** The tabs with a document that the last fence reached. */
  tabs() {
    return this.#targets.map((target) => target.tab);
  }
  /**
   * @param {object} run @param {Target} target @param {Omit<import('./gate.js').Order, 'tab' | 'document'>} order
   */
  async #settle(run, target, order) {
    const { document: document2, tab } = target;
    const current = () => this.#documents.current(tab) === document2;
    const goOn = () => this.#run === run && target.how === "open";
    while (goOn() && this.#ledger.busy(document2, current())) {
      await new Promise((resolve) => setTimeout(resolve, SOON_MS));
    }
    if (goOn() && current()) {
      const tick = this.#ledger.tick();
      const ran = await Promise.race([this.#barrier({ ...order, tab, document: document2 }), target.gone]);
      if (ran) {
        this.#ledger.barrier(document2, tick);
        if (goOn()) target.how = this.#ledger.pending(order.epoch).has(document2) ? "lost" : "barrier";
      }
    }
    if (!goOn()) return;
    const how = target.input ? this.#ledger.how(document2) : "lost";
    target.how = how === "open" ? "lost" : how;
  }
  /**
   * Waits a little for scripts that barriers have passed: whether their promises settle is
   * not heard any more after the debugger is detached.
   * @param {object} run @param {number} epoch
   */
  async #answers(run, epoch) {
    const end = this.#browser.monoMs() + ANSWER_MS;
    while (this.#run === run && this.#ledger.waits(epoch) && this.#browser.monoMs() < end) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }
  /**
   * @param {import('./gate.js').Order} order
   * @returns {Promise<boolean>} whether it ran in that very document
   */
  async #barrier(order) {
    const { refused, sent } = this.#gate.dispatch(order);
    if (refused) {
      note("barrier", refused.message);
      return false;
    }
    try {
      return ranIn(await sent, order.document);
    } catch (error) {
      note("barrier", error);
      return false;
    }
  }
  /** @returns {Document[]} */
  #list() {
    const rows = [];
    for (const { document: document2, tab, url, input, script, how } of this.#targets) {
      if (script) rows.push({ document: document2, tab, url, why: (
        /** @type {const} */
        "agent_script"
      ), how });
      if (input) rows.push({ document: document2, tab, url, why: (
        /** @type {const} */
        "input_pending"
      ), how });
    }
    return rows;
  }
};
function makeTarget(document2, tab, url) {
  let end = () => {
  };
  const gone = new Promise((resolve) => {
    end = () => resolve(void 0);
  });
  return { document: document2, tab, url, input: false, script: false, how: "open", gone, end };
}
function ranIn(result, document2) {
  return Array.isArray(result) && result.some((one) => one?.documentId === document2);
}

// scope.js
var HINT = "a person allows it: remove the binding and make it again with --origin ORIGIN";
var COOKIES = /* @__PURE__ */ new Set(["Network.getCookies", "Network.getAllCookies", "Storage.getCookies"]);
var PLACES = ["origin", "securityOrigin", "storageKey", "cacheId"];
var PLACELESS = /\.(getCookies|setCookies|getStorageKey|getStorageKeyForFrame)$/;
var STORED = /^(CacheStorage|Storage)\./;
var given = (value) => value !== void 0 && value !== "";
var web = (url, it) => typeof url === "string" && isWeb(url) && it.allowed(url);
var beyond = (what) => refuse("policy", `${what} is not of one of the binding’s origins`, HINT);
function cookieBeyond(cookie, it) {
  const { url, domain } = cookie ?? {};
  const its = (!given(url) || web(url, it)) && (!given(domain) || typeof domain === "string" && it.domain(domain));
  return its ? null : beyond("that cookie");
}
var placed = (place, it) => web(String(place).split(/[\^|]/)[0], it);
function storedBeyond(method, params, it) {
  const places = [params, params.storageBucket].flatMap((of) => PLACES.map((name) => of?.[name])).filter(given);
  if (places.length === 0) return refuse("invalid", `${method} names no origin`, "name the storage key");
  if (!places.every((place) => placed(place, it))) return beyond("what is stored there");
  if (/(^|,)\s*(all|cookies)\s*(,|$)/.test(String(params.storageTypes ?? ""))) {
    return refuse("policy", `${method} deletes no cookies`, "Network.deleteCookies does, one by one");
  }
  return null;
}
function headersBeyond({ responseHeaders, binaryResponseHeaders }, it, allow) {
  if (given(binaryResponseHeaders)) return refuse("policy", "binaryResponseHeaders is not passed on", "use responseHeaders");
  for (const { name, value } of responseHeaders ?? []) {
    if (/[\0\r\n]/.test(`${name}${value}`)) return refuse("invalid", "a header holds the end of a line", "name each header by itself");
    if (!/^\s*set-cookie2?\s*$/i.test(String(name))) continue;
    if (!allow.includes("cookies")) return notAllowed("an answer with Set-Cookie", "cookies");
    for (const [, of] of String(value).matchAll(/;\s*domain\s*=\s*([^;]*)/gi)) {
      if (of.trim() && !it.domain(of.trim())) return beyond("that cookie");
    }
  }
  return null;
}
var isCookieHeader = (name) => /^\s*cookie2?\s*$/i.test(String(name));
function cookieSent(headers, allow) {
  if (!Array.isArray(headers)) return refuse("invalid", "headers must be a list of name and value");
  const cookie = headers.some((header) => isCookieHeader(header?.name));
  return cookie && !allow.includes("cookies") ? notAllowed("a Cookie header", "cookies") : null;
}
var notAllowed = (what, setting) => refuse("policy", `${what} is not passed on: this binding does not allow ${setting}`, `a person allows it: make the binding anew with --allow ${setting}`);
function scope(method, params, it, allow) {
  switch (method) {
    case "Network.setCookie":
    case "Network.deleteCookies":
      return cookieBeyond(params, it);
    case "Network.setCookies":
    case "Storage.setCookies":
      if (!Array.isArray(params.cookies)) return refuse("invalid", `${method} needs cookies`);
      return params.cookies.map((one) => cookieBeyond(one, it)).find(Boolean) ?? null;
    case "Fetch.continueRequest":
      if (given(params.url) && !web(params.url, it)) return beyond("that address");
      return cookieSent(params.headers ?? [], allow);
    case "Fetch.continueResponse":
    case "Fetch.fulfillRequest":
      return headersBeyond(params, it, allow);
  }
  return STORED.test(method) && !PLACELESS.test(method) ? storedBeyond(method, params, it) : null;
}
function within(method, result, it) {
  if (!COOKIES.has(method)) return result;
  const cookies = (result?.cookies ?? []).filter((cookie) => it.domain(String(cookie.domain)));
  return { ...result, cookies };
}

// commands.js
var SOON_MS2 = 5;
var COMMIT_TURNS = 100;
var HISTORY = "Page.getNavigationHistory";
var tells = (order, result) => (!order.effect || order.script) && Object.keys(result ?? {}).length > 0;
var ELSEWHERE = refuse("policy", "the page left the binding’s origins before the answer came", "navigate back to one that is");
var NO_TAB = /* @__PURE__ */ new Set(["tabs", "tab_create", "watch"]);
var OF_A_PAGE = /* @__PURE__ */ new Set(["cdp", "barrier", "document", "console"]);
var waitsWithPage = ({ kind, method, raw }) => !raw && OF_A_PAGE.has(kind) && method !== "Page.handleJavaScriptDialog";
var NEEDS_DEBUGGER = /* @__PURE__ */ new Set(["cdp", "console"]);
var Commands = class {
  /** What is not answered. @type {Set<Order>} */
  #waiting = /* @__PURE__ */ new Set();
  #browser;
  #gate;
  #ledger;
  #documents;
  #tabs;
  #sessions;
  #watch;
  #traffic;
  #answer;
  #store;
  /**
   * @param {object} parts
   * @param {import('./browser.js').Browser} parts.browser
   * @param {import('./gate.js').Gate} parts.gate
   * @param {import('./ledger.js').Ledger} parts.ledger
   * @param {import('./documents.js').Documents} parts.documents
   * @param {import('./tabs.js').Tabs} parts.tabs
   * @param {import('./sessions.js').Sessions} parts.sessions
   * @param {import('./watch.js').Watch} parts.watch
   * @param {import('./traffic.js').Traffic} parts.traffic
   * @param {(port: unknown, message: any) => void} parts.answer
   * @param {() => void} [parts.store] stores in this turn what another worker has to know
   */
  constructor({ browser: browser2, gate, ledger, documents, tabs, sessions, watch, traffic, answer, store = () => {
  } }) {
    this.#browser = browser2;
    this.#gate = gate;
    this.#ledger = ledger;
    this.#documents = documents;
    this.#tabs = tabs;
    this.#sessions = sessions;
    this.#watch = watch;
    this.#traffic = traffic;
    this.#answer = answer;
    this.#store = store;
  }
  /** @param {any} cmd @param {unknown} port */
  take(cmd, port) {
    const expect = cmd.expect ?? {};
    const order = {
      by: "agent",
      kind: cmd.kind,
      epoch: cmd.epoch,
      port,
      tab: NO_TAB.has(cmd.kind) ? 0 : expect.tab || this.#tabs.active(),
      frame: expect.frame ?? 0,
      document: expect.document ?? "",
      method: cmd.kind === "cdp" ? cmd.method ?? "" : "",
      params: cmd.params ?? {},
      session: cmd.session ?? "",
      monoMs: this.#browser.monoMs() + cmd.left_ms,
      wallMs: this.#browser.wallMs() + cmd.left_ms,
      action: cmd.action,
      seq: cmd.seq,
      effect: cmd.effect,
      script: cmd.script,
      raw: cmd.raw === true
    };
    const fail = (error) => this.#refuse(order, error);
    this.#waiting.add(order);
    if (this.#sessions.shown(order.tab) && !order.effect) this.#tellWaits(order);
    if (order.tab === 0 && !NO_TAB.has(order.kind)) {
      fail(this.#gate.check(order) ?? refuse("not_found", "this lease has no tab", "open one: the verb tabs with op new"));
      return;
    }
    if (order.kind === "console" && this.#watch.listens()) {
      fail(refuse("conflict", "a DevTools client is connected, which listens to the console itself", "ask that client, or disconnect it"));
      return;
    }
    if (order.kind === "barrier") this.#sessions.submit(order, false, () => void this.#barrier(order), fail);
    else this.#sessions.submit(order, NEEDS_DEBUGGER.has(order.kind), () => this.#run(order), fail);
  }
  /** The page in a tab shows a dialog, or none any more. @param {number} tab */
  dialog(tab) {
    for (const order of this.#waiting) if (order.tab === tab) this.#tellWaits(order);
  }
  /** Tells the host why an order is not answered: what answers a dialog itself is. @param {Order} order */
  #tellWaits(order) {
    if (!waitsWithPage(order) || this.#gate.check(order)) return;
    const dialog = this.#dialogOf(order.tab);
    this.#answer(order.port, { t: "cmd.waits", seq: order.seq, ...dialog && { dialog } });
  }
  /** What is told of the dialog in a tab: of one beyond the origins, that it is there. @param {number} tab */
  #dialogOf(tab) {
    const shown2 = this.#sessions.shown(tab);
    if (!shown2) return null;
    const tells2 = this.#tabs.allowed(this.#urlOf(tab)) && this.#tabs.allowed(shown2.url);
    const text = (it) => tells2 ? it.slice(0, MAX_DIALOG_TEXT) : "";
    return { kind: shown2.kind.slice(0, MAX_WORD), message: text(shown2.message), default: text(shown2.default) };
  }
  /** @param {Order} order */
  #run(order) {
    const document2 = order.tab ? this.#documents.current(order.tab) : "";
    if (order.effect && waitsWithPage(order) && this.#sessions.shown(order.tab) && !this.#gate.check(order)) {
      this.#refuse(order, refuse("conflict", "the page shows a dialog", "answer it"), this.#dialogOf(order.tab));
      return;
    }
    const { refused, sent } = this.#gate.dispatch(order);
    if (refused) {
      this.#refuse(order, refused);
      return;
    }
    const counted = order.effect || order.script;
    if (counted) this.#ledger.dispatched(order, document2, this.#gate.grant?.watchMs ?? 0);
    if (order.script && this.#documents.script(order.tab, document2)) this.#store();
    let over = false;
    const once = (end, done = false) => {
      if (over) return;
      over = true;
      this.#sessions.answered(order, done);
      end();
    };
    this.#sessions.dispatched(order, (error) => once(() => this.#fail(order, error)));
    sent.then(
      (result) => once(() => this.#done(order, document2, result, counted), true),
      (error) => once(() => this.#failed(order, this.#sessions.ended(order) ?? fromDebugger(error), counted))
    );
  }
  /** @param {Order} order @param {string} document @param {any} result @param {boolean} counted */
  #done(order, document2, result, counted) {
    switch (order.kind) {
      case "cdp":
        if (order.tab && tells(order, result) && !this.#tabs.allowed(this.#urlOf(order.tab))) {
          if (counted) this.#ledger.settled(order, "answered");
          this.#fail(order, ELSEWHERE);
          return;
        }
        if (order.method === HISTORY) result = this.#ownHistory(result);
        result = within(order.method, result, this.#tabs);
        this.#succeed(order, order.tab, document2, result ?? {});
        if (counted) this.#ledger.settled(order, "answered");
        return;
      case "document":
        void this.#document(order, order.tab, String(order.params.before ?? ""), Number(order.params.ms) || FIRST_DOCUMENT_MS);
        return;
      case "watch":
        void this.#watch.begin(order.epoch).then(() => this.#succeed(order, 0, "", { userAgent: this.#browser.userAgent() }));
        return;
      case "network":
        this.#succeed(order, order.tab, document2, this.#traffic.of(order.tab));
        return;
      case "console":
        if (this.#tabs.allowed(this.#urlOf(order.tab))) this.#succeed(order, order.tab, document2, summary(result));
        else this.#fail(order, ELSEWHERE);
        return;
      case "tabs":
        this.#succeed(order, 0, "", { tabs: this.#list() });
        return;
      case "tab_create":
        if (counted) this.#ledger.settled(order, "answered");
        this.#tabs.put(result);
        this.#tabs.own(result.id);
        void this.#watch.look(result.id);
        void this.#document(order, result.id);
        return;
      default:
        if (counted) this.#ledger.settled(order, "answered");
        this.#succeed(order, order.tab, document2, {});
    }
  }
  /** @param {Order} order @param {Refusal} error @param {boolean} counted */
  #failed(order, error, counted) {
    this.#fail(order, error);
    if (counted) this.#ledger.settled(order, isAnswer(error) ? "refused" : "cut");
  }
  /**
   * A no-op in the expected document, after the input that is queued there. Where the
   * document's own navigation has replaced it, that is the proof instead.
   * @param {Order} order
   */
  async #barrier(order) {
    const { tab, document: document2 } = order;
    const known = () => this.#ledger.get(order.action);
    if (document2 && this.#documents.current(tab) !== document2 && known()?.howRule === "navigated_by_document") {
      const refused2 = this.#gate.check({ ...order, document: "" });
      if (refused2) this.#refuse(order, refused2);
      else this.#navigated(order);
      return;
    }
    const expected = document2 || this.#documents.current(tab);
    while (this.#ledger.busy(expected, this.#documents.current(tab) === expected) && !this.#gate.check(order)) {
      await new Promise((resolve) => setTimeout(resolve, SOON_MS2));
    }
    const tick = this.#ledger.tick();
    const { refused, sent } = this.#gate.dispatch({ ...order, document: expected });
    if (refused) {
      this.#refuse(order, refused);
      return;
    }
    let error = null;
    try {
      if (ranIn(await sent, expected)) {
        this.#ledger.barrier(expected, tick);
        this.#succeed(order, tab, expected, { how_rule: "barrier_in_document" });
        return;
      }
    } catch (cause) {
      error = fromDebugger(cause);
    }
    for (let turn = 0; turn < COMMIT_TURNS && this.#documents.current(tab) === expected; turn++) {
      await this.#documents.refresh(tab);
      await new Promise((resolve) => setTimeout(resolve, SOON_MS2));
    }
    if (known()?.howRule === "navigated_by_document") this.#navigated(order);
    else if (error && this.#documents.current(tab) === expected) this.#fail(order, error);
    else this.#fail(order, refuse("document_changed", "another document came before the barrier", "look the action up"));
  }
  /** @param {Order} order */
  #navigated(order) {
    const document2 = this.#documents.current(order.tab);
    this.#succeed(order, order.tab, document2, { how_rule: "navigated_by_document" });
  }
  /** @param {Order} order @param {number} tab @param {string} [before] @param {number} [ms] */
  async #document(order, tab, before = "", ms = FIRST_DOCUMENT_MS) {
    const document2 = await this.#documents.first(tab, before, Math.min(ms, FIRST_DOCUMENT_MS));
    const shown2 = this.#tabs.get(tab);
    this.#succeed(order, tab, document2, { tab, document: document2, url: this.#urlOf(tab), title: shown2?.title ?? "" });
  }
  /** A lent tab has been elsewhere, too: where, is the person's. @param {any} history */
  #ownHistory(history) {
    const entries = (history?.entries ?? []).map((entry) => this.#tabs.allowed(String(entry.url)) ? entry : { ...entry, url: "", userTypedURL: "", title: "" });
    return { ...history, entries };
  }
  #list() {
    const front = this.#tabs.active();
    return this.#tabs.all().filter(({ tab }) => this.#tabs.visible(tab)).map(({ tab, title }) => {
      const url = this.#urlOf(tab);
      const allowed = this.#tabs.allowed(url);
      return {
        tab,
        document: allowed ? this.#documents.current(tab) : "",
        // A lent tab that has left the origins is listed, not shown.
        url: allowed ? url : "",
        title: allowed ? title : "",
        active: tab === front,
        owned: this.#tabs.owns(tab),
        allowed
      };
    });
  }
  /** @param {number} tab */
  #urlOf(tab) {
    return (this.#documents.url(tab) || this.#tabs.get(tab)?.url || "").slice(0, MAX_URL);
  }
  /** @param {Order} order @param {number} tab @param {string} document @param {unknown} result */
  #succeed(order, tab, document2, result) {
    this.#waiting.delete(order);
    if (this.#stale(order)) return;
    const message = { t: "cmd.result", seq: order.seq, ok: true, dispatched: true, result };
    if (tab) message.observed = order.frame ? { tab, frame: order.frame, document: document2 } : { tab, document: document2 };
    if (tab && order.kind !== "cdp") message.url = this.#urlOf(tab);
    this.#answer(order.port, message);
  }
  /** It was dispatched, and this is how it ended. @param {Order} order @param {Refusal} error */
  #fail(order, error) {
    this.#waiting.delete(order);
    if (this.#stale(order)) return;
    this.#answer(order.port, { t: "cmd.result", seq: order.seq, ok: false, dispatched: true, error });
  }
  /**
   * It was not dispatched.
   * @param {Order} order @param {Refusal} error @param {object | null} [dialog] because of which
   */
  #refuse(order, error, dialog = null) {
    this.#waiting.delete(order);
    this.#answer(order.port, { t: "cmd.result", seq: order.seq, ok: false, dispatched: false, error, ...dialog && { dialog } });
  }
  /**
   * What is observed after a fence, or after a person pressed "Take over", is the
   * next holder's: it is not sent. The ledger's report tells what became of it.
   * @param {Order} order
   */
  #stale(order) {
    return order.epoch < this.#gate.epoch || this.#gate.hold !== null;
  }
};

// documents.js
var LOOK_AGAIN_MS = [0, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4];
var Documents = class {
  /** @type {Map<number, Map<number, Frame>>} */
  #tabs = /* @__PURE__ */ new Map();
  /** @type {Map<string, Known>} */
  #known = /* @__PURE__ */ new Map();
  /** @type {Map<string, number>} tab, by document */
  #scripts = /* @__PURE__ */ new Map();
  /** Of windows that pages opened: the first window of those that can name each other. @type {Map<number, number>} */
  #groups = /* @__PURE__ */ new Map();
  /** Documents that came to count as scripted after the last fence: no daemon knows of them. @type {Set<string>} */
  #unlisted = /* @__PURE__ */ new Set();
  /** Ends that are not told while there is such a document. @type {[string, 'crashed' | 'replaced' | 'closed'][]} */
  #held = [];
  /** Tabs to which a page is on its way that an agent has answered. @type {Set<number>} */
  #answered = /* @__PURE__ */ new Set();
  /** @type {Set<number>} */
  #dead = /* @__PURE__ */ new Set();
  #everScripted = false;
  /** @type {Map<number, Set<() => void>>} */
  #waiting = /* @__PURE__ */ new Map();
  #browser;
  #events;
  /** @param {import('./browser.js').Browser} browser @param {Events} events */
  constructor(browser2, events) {
    this.#browser = browser2;
    this.#events = events;
  }
  /**
   * Learns the frames of a tab that was there before us.
   * @param {number} tab
   */
  async learn(tab) {
    const frames = await this.#browser.frames(tab);
    for (const frame of frames ?? []) {
      const known = this.#tabs.get(tab)?.get(frame.frameId);
      if (!known) this.#put(tab, frame.frameId, frame, frame.errorOccurred === true);
    }
  }
  /** @param {any} details of webNavigation.onCommitted */
  committed(details) {
    const { tabId, frameId } = details;
    if (typeof tabId !== "number" || !details.documentId) return;
    if (details.documentLifecycle && details.documentLifecycle !== "active") return;
    this.#put(tabId, frameId, details, false);
  }
  /**
   * A navigation failed. If it ended in the browser's error page, that is a document
   * of its own which no commit announces.
   * @param {any} details of webNavigation.onErrorOccurred
   */
  async failed(details) {
    if (details.frameId === 0 && details.tabId >= 0) await this.refresh(details.tabId);
  }
  /**
   * Asks what the main document of a tab is, where events may not have said it yet.
   * @param {number} tab
   */
  async refresh(tab) {
    try {
      const frame = await this.#browser.mainFrame(tab);
      if (this.#dead.has(tab)) return;
      if (frame?.documentId && frame.documentId !== this.current(tab)) {
        this.#put(tab, 0, frame, frame.errorOccurred === true);
      }
    } catch (error) {
      note("could not ask what is in a tab", error);
    }
  }
  /** The address changed within one document. @param {any} details */
  moved(details) {
    const frame = this.#tabs.get(details.tabId)?.get(details.frameId);
    if (!frame || details.documentId && details.documentId !== frame.id) return;
    frame.url = details.url;
    const known = this.#known.get(frame.id);
    if (known) known.url = details.url;
  }
  /** @param {number} tab @param {number} [frame] @returns {string} '' if it is not known */
  current(tab, frame = 0) {
    return this.#tabs.get(tab)?.get(frame)?.id ?? "";
  }
  /** @param {number} tab */
  url(tab) {
    const frame = this.#tabs.get(tab)?.get(0);
    if (!frame) return "";
    return frame.error ? "chrome-error://chromewebdata/" : frame.url;
  }
  /** Whether the tab shows the browser's own error page. @param {number} tab */
  failedIn(tab) {
    return this.#tabs.get(tab)?.get(0)?.error ?? false;
  }
  /** What is known of a document, also after it was replaced. @param {string} document */
  known(document2) {
    return this.#known.get(document2);
  }
  /**
   * Waits until a tab has a document, and another one than that which was there before.
   * @param {number} tab @param {string} [before] @param {number} [ms]
   * @returns {Promise<string>} in time: else '', or the one before
   */
  async first(tab, before = "", ms = FIRST_DOCUMENT_MS) {
    const there = () => this.current(tab) !== "" && this.current(tab) !== before;
    if (there()) return this.current(tab);
    if (this.current(tab)) await this.refresh(tab);
    else await this.learn(tab).catch((error) => note("could not look into a new tab", error));
    if (there()) return this.current(tab);
    await new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      const waiting = this.#waiting.get(tab) ?? /* @__PURE__ */ new Set();
      this.#waiting.set(tab, waiting.add(done));
      function done() {
        clearTimeout(timer);
        waiting.delete(done);
        resolve(void 0);
      }
    });
    return this.current(tab);
  }
  /**
   * An agent's own script runs in a document.
   * @param {number} tab @param {string} document
   * @returns {boolean} whether it is the first there
   */
  script(tab, document2) {
    this.#everScripted = true;
    if (!document2 || this.#scripts.has(document2)) return false;
    this.#scripts.set(document2, tab);
    for (const other of this.#tabs.keys()) this.#spread(other);
    return true;
  }
  /**
   * A page opened a tab: the two can name each other's windows.
   * @param {number} tab @param {number} opener
   */
  opened(tab, opener) {
    this.#groups.set(tab, this.#group(opener));
    void this.learn(tab).catch((error) => note("could not look into a new tab", error));
    this.#spread(tab);
  }
  /** @param {number} tab */
  #group(tab) {
    return this.#groups.get(tab) ?? tab;
  }
  /** The origins in a tab, '' for a page that may be of any. @param {number} tab */
  #origins(tab) {
    return new Set([...this.#tabs.get(tab)?.values() ?? []].map(({ url }) => isWeb(url) ? originOf(url) : ""));
  }
  /**
   * What runs in one window can put code into every other that it can name and whose origin it
   * has: a document there counts as one with a script, too.
   * @param {number} tab
   */
  #spread(tab) {
    const document2 = this.current(tab);
    if (!document2 || this.#scripts.has(document2)) return;
    const its = this.#origins(tab);
    for (const from of new Set(this.#scripts.values())) {
      if (from === tab || this.#group(from) !== this.#group(tab)) continue;
      const theirs = this.#origins(from);
      if (!its.has("") && !theirs.has("") && ![...its].some((origin) => theirs.has(origin))) continue;
      this.#unlisted.add(document2);
      this.script(tab, document2);
      this.#events.spread();
      return;
    }
  }
  /** An agent answers a page's load in a tab: what comes there next may be its script's. @param {number} tab */
  answers(tab) {
    this.#answered.add(tab);
  }
  /**
   * A document has come to a tab. One that an agent has answered counts as one with a script,
   * also after a fence, which could not list it.
   * @param {number} tab @param {string} document
   */
  arrived(tab, document2) {
    if (!this.#answered.delete(tab) || this.#scripts.has(document2)) return;
    this.#unlisted.add(document2);
    this.script(tab, document2);
    this.#events.spread();
  }
  /** The list that a fence is answered with: what the daemon knows from here on. */
  list() {
    this.#unlisted.clear();
    this.#tellHeld();
    return this.scripts();
  }
  /** For storing. */
  groups() {
    return [...this.#groups];
  }
  /** @param {string} document */
  scripted(document2) {
    return this.#scripts.has(document2);
  }
  /** Documents with an agent's script that are not known to have ended. Their addresses are not kept: a query may be a secret. */
  scripts() {
    return [...this.#scripts].map(([document2, tab]) => ({ document: document2, tab }));
  }
  /** Whether a script of an agent's has run anywhere in this browser. */
  everScripted() {
    return this.#everScripted;
  }
  /** @param {unknown} stored what a former worker knew @param {unknown} groups the same @param {boolean} ever the same */
  restore(stored, groups, ever) {
    this.#everScripted ||= ever;
    if (Array.isArray(groups)) this.#groups = new Map(groups);
    if (!Array.isArray(stored)) return;
    for (const { document: document2, tab } of stored) {
      if (typeof document2 !== "string" || this.#scripts.has(document2)) continue;
      this.#scripts.set(document2, tab);
      if (this.current(tab) !== document2) this.#look(document2, this.#tabs.has(tab) ? "replaced" : "closed", 0);
    }
    for (const tab of this.#tabs.keys()) this.#spread(tab);
  }
  /**
   * The renderer of a tab's main document was seen to crash.
   * @param {number} tab
   * @returns {Set<string>} the documents that ended with it
   */
  crashed(tab) {
    const gone = /* @__PURE__ */ new Set();
    for (const frame of this.#tabs.get(tab)?.values() ?? []) gone.add(frame.id);
    this.#tabs.delete(tab);
    this.#dead.add(tab);
    for (const id of gone) this.#ended(id, "crashed");
    return gone;
  }
  /** Whether nothing has come into a tab since its renderer crashed. @param {number} tab */
  dead(tab) {
    return this.#dead.has(tab);
  }
  /** @param {number} tab */
  removed(tab) {
    this.#answered.delete(tab);
    const before = this.current(tab);
    this.#tabs.delete(tab);
    this.#groups.delete(tab);
    this.#dead.delete(tab);
    if (before) this.#events.replaced(tab, before, "");
    for (const [document2, its] of this.#scripts) if (its === tab) this.#look(document2, "closed", 0);
  }
  /**
   * @param {number} tab @param {number} frameId
   * @param {{documentId?: string, url: string, parentFrameId?: number}} details @param {boolean} error
   */
  #put(tab, frameId, details, error) {
    if (!details.documentId) return;
    let frames = this.#tabs.get(tab);
    if (!frames) this.#tabs.set(tab, frames = /* @__PURE__ */ new Map());
    const before = frames.get(frameId)?.id ?? "";
    const { documentId: id, url } = details;
    if (frameId === 0) frames.clear();
    frames.set(frameId, { id, url, error });
    if (frames.size > MAX_FRAMES) {
      for (const old of frames.keys()) if (old !== 0 && frames.delete(old)) break;
    }
    this.#remember(id, { tab, root: frameId === 0 ? id : frames.get(0)?.id ?? id, url });
    this.#spread(tab);
    if (frameId !== 0 || before === id) return;
    if (this.#dead.delete(tab)) this.#events.revived(tab);
    if (before) this.#events.replaced(tab, before, id);
    for (const [document2, its] of this.#scripts) {
      if (its === tab && document2 !== id) this.#look(document2, "replaced", 0);
    }
    for (const done of this.#waiting.get(tab) ?? []) done();
    this.#waiting.delete(tab);
  }
  /** @param {string} id @param {Known} known */
  #remember(id, known) {
    this.#known.delete(id);
    this.#known.set(id, known);
    for (const old of this.#known.keys()) {
      if (this.#known.size <= MAX_DOCUMENTS) break;
      this.#known.delete(old);
    }
  }
  /**
   * Says that a document has ended once the browser no longer lists it, and not before.
   * @param {string} document @param {'replaced' | 'closed'} how @param {number} turn
   */
  async #look(document2, how, turn) {
    if (turn > 0) await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS[turn]));
    if (!this.#scripts.has(document2)) return;
    try {
      if (!await this.#browser.frameOf(document2)) {
        this.#ended(document2, how);
        return;
      }
    } catch (error) {
      note("could not ask whether a document is still there", error);
    }
    if (turn + 1 < LOOK_AGAIN_MS.length) await this.#look(document2, how, turn + 1);
  }
  /** @param {string} document @param {'crashed' | 'replaced' | 'closed'} how */
  #ended(document2, how) {
    const scripted = this.#scripts.delete(document2);
    this.#unlisted.delete(document2);
    if (scripted || how === "crashed") this.#held.push([document2, how]);
    if (this.#unlisted.size === 0) this.#tellHeld();
  }
  #tellHeld() {
    for (const [document2, how] of this.#held.splice(0)) this.#events.ended(document2, how);
  }
};

// flood.js
function sizeOf(value) {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 8;
  let size = 0;
  for (const one of Object.values(value)) size += 8 + sizeOf(one);
  return size;
}
var Flood = class {
  /** When the browser was asked what it has not answered yet. @type {number | null} */
  #asked = null;
  /** The weight of what has come of each tab since it last answered in time. @type {Map<number, number>} */
  #came = /* @__PURE__ */ new Map();
  #browser;
  #flooded;
  /** @param {import('./browser.js').Browser} browser @param {(tab: number) => void} flooded */
  constructor(browser2, flooded) {
    this.#browser = browser2;
    this.#flooded = flooded;
  }
  /** @param {number} tab @param {string} method @param {unknown} params */
  event(tab, method, params) {
    const part = method.startsWith("Network.") ? NETWORK_PART : 1;
    const weight2 = (this.#came.get(tab) ?? 0) + part * (EVENT_WEIGHT + sizeOf(params));
    this.#came.set(tab, weight2);
    if (this.#asked === null && weight2 >= FLOOD_WEIGHT / 16) this.#ask();
    if (weight2 < FLOOD_WEIGHT || this.#browser.monoMs() - (this.#asked ?? Infinity) < FLOOD_MS) return;
    this.#came.delete(tab);
    note(`the debugging of tab ${tab} is ended: its events flood the browser`);
    this.#flooded(tab);
  }
  #ask() {
    const asked = this.#browser.monoMs();
    this.#asked = asked;
    const answered = () => {
      this.#asked = null;
      if (this.#browser.monoMs() - asked < FLOOD_MS) this.#came.clear();
    };
    this.#browser.ping().then(answered, answered);
  }
};

// gate.js
var toBlank = ({ method, params }) => method === "Page.navigate" && params.url === "about:blank";
var OUTSIDE = -10;
var isHeld = ({ tab, session, params }, view) => view.paused(tab, session ?? "", params.requestId);
var SYSTEM_COMMANDS = [
  // Settlement: only what ends or releases something. What an agent holds back does not go on.
  ["Fetch.failRequest", () => true],
  ["Fetch.disable", () => true],
  ["Fetch.continueRequest", (order, _, view) => Object.keys(order.params).length === 1 && !isHeld(order, view)],
  [
    "Fetch.continueWithAuth",
    (order, _, view) => ({ CancelAuth: true, Default: !isHeld(order, view) })[String(order.params.authChallengeResponse?.response)] === true
  ],
  ["Page.crash", () => true],
  ["Input.dispatchKeyEvent", ({ params }) => params.type === "keyUp"],
  [
    "Input.dispatchMouseEvent",
    ({ params }) => params.type === "mouseReleased" && params.x === OUTSIDE && params.y === OUTSIDE
  ],
  [
    "Page.handleJavaScriptDialog",
    ({ dialog, params }, state) => state.stopping && dialog === "beforeunload" && params.accept === true || dialog === "ending" && params.accept === false
  ],
  ["Page.stopLoading", () => true],
  // Set-up of a session: what the evidence rests on.
  ["Page.enable", () => true],
  ["Page.getFrameTree", () => true],
  ["Inspector.enable", () => true],
  ["Emulation.setFocusEmulationEnabled", ({ params }) => params.enabled === true]
];
var SYSTEM = new Map(SYSTEM_COMMANDS);
var PROBE_ORDERS = [
  // An empty tab, made out of sight; it is known before it is given a page.
  ["tab_create", ({ params }, { tab }) => tab === 0 && params.url === "about:blank" && params.active === false],
  ["tab_goto", ({ tab, params }, page) => tab === page.tab && params.url === page.url],
  ["text", ({ tab, params }, page) => tab === page.tab && page.selector !== "" && params.selector === page.selector],
  [
    "cdp",
    ({ tab, method, params }, page) => tab === page.tab && method === "Runtime.evaluate" && params.throwOnSideEffect === true && page.expression !== "" && params.expression === page.expression
  ]
];
var PROBE = new Map(PROBE_ORDERS);
var READS = /* @__PURE__ */ new Set(["text", "cdp"]);
var NOT_AGENTS = /* @__PURE__ */ new Set(["tab_goto", "text", "worker_close"]);
var BACK = "Page.navigateToHistoryEntry";
var REVIVES = /* @__PURE__ */ new Set(["Page.navigate", "Page.reload", "tab_activate"]);
var RELEASES = /* @__PURE__ */ new Set(["Runtime.runIfWaitingForDebugger", "Page.handleJavaScriptDialog", "Page.stopLoading"]);
var NO_CODE = /^\s*(\/\/[^\n\r\u2028\u2029]*)?\s*$/;
var ELSEWHERE2 = "https://elsewhere.invalid/";
var isPlace = (url) => url !== "" && !/^(about|data|blob|javascript):/.test(url);
var no = (code, message, hint) => refuse(code, message, hint);
function decideTab(state, order, view) {
  if (!view.visible(order.tab)) {
    return no("not_found", `tab ${order.tab} is not one of this lease's`, "list the tabs, or open one");
  }
  if (order.kind === "tab_close") {
    return view.owns(order.tab) ? null : no("policy", "this tab is lent: it may be used, not closed", "close only tabs opened under this lease");
  }
  const leaving = order.method === "Page.navigate" && !toBlank(order) || order.kind === "tab_activate" || RELEASES.has(order.method);
  if (!leaving && !view.allowed(view.url(order.tab))) {
    return no("policy", "the page in this tab is not within the binding’s origins", "navigate back to one that is");
  }
  if (order.session) {
    const url = view.child(order.tab, order.session);
    if (url === void 0) return no("not_found", "this tab has no such session", "attach again");
    if (isPlace(url) && !leaving && !view.allowed(url)) {
      return no("policy", "that frame is not within the binding’s origins", "act in the page around it");
    }
  }
  if (toBlank(order)) {
    const { frameId } = order.params;
    const main = view.mainFrame(order.tab);
    if (order.session || frameId && main && main !== frameId) {
      return no("policy", "a frame is not navigated to an empty page", "have the page around it do so");
    }
    if (frameId && !main) return no("unavailable", "which frame is the page itself is not known yet", "ask for the frame tree, then send it again");
  }
  if (view.dead(order.tab) && (toBlank(order) || !REVIVES.has(order.method || order.kind))) {
    return no("unavailable", "the page in this tab has crashed", "navigate or reload it");
  }
  if (order.document && view.document(order.tab, order.frame) !== order.document) {
    return no("document_changed", "another document is in this tab now", "observe the page again");
  }
  return null;
}
function decideSetting({ grant }, order, view) {
  const { method, params } = order;
  const allow = grant?.allow ?? [];
  const needs = Object.hasOwn(NEEDS, method) ? NEEDS[method] : "";
  if (!needs) return null;
  if (!allow.includes(needs)) return notAllowed(method, needs);
  if (/^Fetch\.(?!(enable|disable)$)/.test(method) && !isHeld(order, view)) {
    return no("not_found", "no such request is held back", "answer those that Fetch.requestPaused has told of");
  }
  return scope(method, params, view, allow);
}
function decideMethod(state, order, view) {
  if (NOT_AGENTS.has(order.kind)) return no("policy", `${order.kind} is not for an agent`);
  if (order.method === "Page.reload" && order.params.scriptToEvaluateOnLoad) {
    return no("policy", "a reload takes no script with it", "evaluate it when the page has come");
  }
  if (order.method === "Page.addScriptToEvaluateOnNewDocument" && !NO_CODE.test(String(order.params.source ?? "")) && !view.allowed(ELSEWHERE2)) {
    return no(
      "policy",
      "a script for new documents would also run in pages beyond the binding’s origins",
      "evaluate it in each page; a binding without origins allows it"
    );
  }
  if (order.method === "Network.setExtraHTTPHeaders") {
    const names = Object.keys(order.params.headers ?? {});
    if (names.length > 0 && !view.allowed(ELSEWHERE2)) {
      return no(
        "policy",
        "extra headers would also go to websites beyond the binding’s origins, which take them for the page’s own",
        "with --allow interception, Fetch.continueRequest sets the headers of a request to an origin; a binding without origins allows it"
      );
    }
    if (names.some(isCookieHeader) && !state.grant?.allow?.includes("cookies")) return notAllowed("a Cookie header", "cookies");
  }
  if (order.kind === "cdp") {
    const why = Object.hasOwn(METHODS, order.method) ? METHODS[order.method] : "it is not in the table of methods";
    if (why) return no("policy", `${order.method} is not for an agent: ${why}`);
    const withheld = decideSetting(state, order, view);
    if (withheld) return withheld;
  }
  const goes = order.method === "Page.navigate" || order.method === BACK || order.kind === "tab_create";
  const url = String(order.params.url ?? "");
  if (order.method === BACK && !isWeb(url) && url !== "about:blank") {
    return no("policy", "that entry of the history is no website’s");
  }
  if (goes && !isWeb(url) && url !== "about:blank" && !(url === "" && order.kind === "tab_create")) {
    return no("policy", "an agent opens http, https and about:blank only", "use an http or https address");
  }
  if (goes && !view.allowed(url)) {
    return no("policy", "that address is not within the binding’s origins");
  }
  return null;
}
function decideSystem(state, order, view) {
  if (order.epoch !== state.epoch) return no("fenced", `epoch ${order.epoch} has ended`);
  if (order.kind === "barrier") return null;
  if (order.kind === "cdp" && SYSTEM.get(order.method)?.(order, state, view)) return null;
  if (order.kind === "tab_close" && view.probes(order.tab)) return null;
  if (order.kind === "worker_close" && view.listed(order.params.target)) return null;
  const { probe } = state;
  if (probe?.epoch !== order.epoch || !PROBE.get(order.kind)?.(order, probe)) {
    return no("policy", `${order.method || order.kind} is no settlement command, nor part of a probe`);
  }
  if (state.hold) return no("fenced", "a person has taken over");
  if (!state.linked || state.port === null) return no("unavailable", "the link that this came by has ended");
  if (!READS.has(order.kind)) return null;
  if (originOf(view.url(order.tab)) !== originOf(probe.url)) return no("policy", "the page has led to another origin");
  if (!order.document || view.document(order.tab, 0) !== order.document) {
    return no("document_changed", "another document is in this tab now");
  }
  return null;
}
function decide(state, order, view, now) {
  if (!Number.isSafeInteger(order.epoch) || order.epoch < 1 || order.epoch > MAX_EPOCH) {
    return no("fenced", "that is not an epoch");
  }
  if (order.by === "system") {
    const refused = decideSystem(state, order, view);
    if (refused) return refused;
  } else {
    if (!state.linked || state.port === null || order.port !== state.port) {
      return no("unavailable", "the link that this came by has ended");
    }
    if (state.hold) return no("fenced", "a person has taken over");
    if (!state.grant || state.grant.epoch !== order.epoch || state.epoch !== order.epoch) {
      return no("fenced", `epoch ${order.epoch} is not granted here`);
    }
    if (now.monoMs >= state.grant.monoMs || now.wallMs >= state.grant.wallMs) {
      return no("unavailable", "the grant has not been renewed in time", "wait for the daemon");
    }
  }
  if (now.monoMs >= order.monoMs || now.wallMs >= order.wallMs) {
    return no("deadline", "the command was too late to be dispatched");
  }
  if (order.by === "system") return null;
  if ((order.effect || order.script) && !view.room(order.action)) {
    return no("limit", "too many actions are still open", "wait until some are settled");
  }
  return decideMethod(state, order, view) ?? (order.tab === 0 ? null : decideTab(state, order, view));
}
var entryOnly = ({ entryId }) => ({ entryId });
function perform(browser2, order, view) {
  switch (order.kind) {
    case "cdp":
      if (toBlank(order)) return browser2.leaveForBlank(order.tab, view.mainFrame(order.tab));
      return browser2.sendCommand(order.tab, order.method, order.method === BACK ? entryOnly(order.params) : order.params, order.session);
    case "console":
      return browser2.readConsole(order.tab);
    case "barrier":
      return browser2.runNothing(order.tab, order.document);
    case "tab_create":
      return browser2.createTab(order.params.url ?? "about:blank", order.params.active !== false);
    case "tab_close":
      return browser2.closeTab(order.tab);
    case "tab_activate":
      return browser2.activateTab(order.tab);
    case "tab_blank":
      return browser2.blankTab(order.tab);
    case "tab_load":
      return browser2.loadTab(order.tab);
    case "worker_close":
      return browser2.closeWorker(order.params.target);
    case "tab_goto":
      return browser2.gotoTab(order.tab, order.params.url);
    case "text":
      return browser2.readText(order.tab, order.document, order.params.selector);
    default:
      return Promise.resolve();
  }
}
var Gate = class {
  /** @type {unknown} */
  port = null;
  linked = false;
  epoch = 0;
  /** @type {Grant | null} */
  grant = null;
  /** @type {import('./gen/wire.js').Hold | null} */
  hold = null;
  stopping = false;
  /** @type {ProbePage | null} */
  probe = null;
  #browser;
  #view;
  /** @param {Browser} browser @param {View} view */
  constructor(browser2, view) {
    this.#browser = browser2;
    this.#view = view;
  }
  /**
   * Raises the epoch in force, which closes the gate for every lower one.
   * @param {number} epoch
   * @returns {boolean} false for one that is lower, or no epoch at all
   */
  raise(epoch) {
    if (!Number.isSafeInteger(epoch) || epoch < 1 || epoch < this.epoch) return false;
    this.epoch = epoch;
    if (this.grant && this.grant.epoch < epoch) this.grant = null;
    if (this.probe && this.probe.epoch < epoch) this.probe = null;
    return true;
  }
  /** The gate is shut for agents from this turn on. */
  close() {
    this.grant = null;
  }
  /**
   * What dispatch would answer now.
   * @param {Order} order
   * @returns {Refusal | null}
   */
  check(order) {
    const now = { monoMs: this.#browser.monoMs(), wallMs: this.#browser.wallMs() };
    return decide(this, order, this.#view, now);
  }
  /**
   * Decides, and in the same turn acts. `refused` proves that nothing was sent.
   * @param {Order} order
   * @returns {{refused: Refusal, sent?: undefined} | {refused?: undefined, sent: Promise<any>}}
   */
  dispatch(order) {
    const refused = this.check(order);
    if (refused) return { refused };
    try {
      return { sent: perform(this.#browser, order, this.#view) };
    } catch (error) {
      return { refused: refuse("invalid", error instanceof Error ? error.message : String(error)) };
    }
  }
};

// grants.js
var MAX_AGAIN = 3;
var Grants = class {
  #ask = 0;
  #again = 0;
  /** @type {Map<number, Instant>} */
  #asks = /* @__PURE__ */ new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #renewal;
  #browser;
  #pull;
  /**
   * @param {import('./browser.js').Browser} browser
   * @param {(ask: number) => void} pull sends the question
   */
  constructor(browser2, pull) {
    this.#browser = browser2;
    this.#pull = pull;
  }
  /** A new link: its asks count from the beginning, and no older one is answered. */
  reset() {
    this.#ask = 0;
    this.#again = 0;
    this.#asks.clear();
    this.stop();
  }
  /** Renews no longer. */
  stop() {
    clearTimeout(this.#renewal);
    this.#renewal = void 0;
  }
  /** The daemon has something to grant. */
  poked() {
    this.#again = 0;
    this.ask();
  }
  ask() {
    const ask = ++this.#ask;
    this.#asks.set(ask, { monoMs: this.#browser.monoMs(), wallMs: this.#browser.wallMs() });
    for (const old of this.#asks.keys()) {
      if (this.#asks.size <= MAX_ASKS) break;
      this.#asks.delete(old);
    }
    this.#pull(ask);
  }
  /**
   * Takes a grant of an epoch: when does it end? One that comes too late, because the
   * daemon was slow or the machine slept, is asked for again, a few times.
   * @param {{ask: number, ttl_ms: number}} grant
   * @returns {Instant | null} null if nobody asked, or its time is over already
   */
  ends(grant) {
    const asked = this.#asks.get(grant.ask);
    this.#asks.delete(grant.ask);
    if (!asked || !(grant.ttl_ms > 0)) return null;
    const end = { monoMs: asked.monoMs + grant.ttl_ms, wallMs: asked.wallMs + grant.ttl_ms };
    if (this.#browser.monoMs() < end.monoMs && this.#browser.wallMs() < end.wallMs) {
      this.#again = 0;
      return end;
    }
    const younger = [...this.#asks.keys()].some((ask) => ask > grant.ask);
    if (this.#again < MAX_AGAIN && !younger) {
      this.#again++;
      this.ask();
    }
    return null;
  }
  /** @param {number} ttlMs of the grant that was just opened */
  renewWithin(ttlMs) {
    this.stop();
    this.#renewal = setTimeout(() => {
      this.ask();
      this.renewWithin(ttlMs);
    }, ttlMs / 3);
  }
};

// chunks.js
var ChunkError = class extends Error {
};
var MAX_TOTAL = Math.ceil(MAX_MESSAGE / CHUNK_BYTES);
var APPLY_BYTES = 32 << 10;
function toBase64(bytes) {
  let binary = "";
  for (let at = 0; at < bytes.length; at += APPLY_BYTES) {
    binary += String.fromCharCode(...bytes.subarray(at, at + APPLY_BYTES));
  }
  return btoa(binary);
}
function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
function* split(bytes, id) {
  const total = Math.max(1, Math.ceil(bytes.length / CHUNK_BYTES));
  for (let index = 0; index < total; index++) {
    const data = toBase64(bytes.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES));
    yield { t: "chunk", id, index, total, data };
  }
}
var Joiner = class {
  /** @type {{id: number, total: number, parts: Uint8Array[], size: number} | null} */
  #open = null;
  /**
   * @param {Chunk} chunk
   * @returns {unknown} the whole message after its last chunk, else undefined
   * @throws {ChunkError}
   */
  push(chunk) {
    const { id, index, total } = chunk;
    if (!Number.isInteger(total) || total < 1 || total > MAX_TOTAL) {
      throw new ChunkError(`a message of ${total} chunks`);
    }
    if (index === 0) {
      if (this.#open) throw new ChunkError(`message ${id} began inside message ${this.#open.id}`);
      this.#open = { id, total, parts: [], size: 0 };
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
    if (open.parts.length < total) return void 0;
    this.#open = null;
    const whole2 = new Uint8Array(open.size);
    let at = 0;
    for (const piece of open.parts) {
      whole2.set(piece, at);
      at += piece.length;
    }
    try {
      return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(whole2));
    } catch {
      throw new ChunkError(`message ${id} is not JSON in UTF-8`);
    }
  }
};

// link.js
var encoder = new TextEncoder();
function weight(actions) {
  let sum = 0;
  for (const { requests, downloads } of actions) {
    sum += 512;
    for (const { url, error } of requests ?? []) sum += 256 + url.length + error.length;
    for (const name of downloads ?? []) sum += name.length;
  }
  return sum;
}
var Link = class {
  /** @type {chrome.runtime.Port | null} */
  #port = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #nonce = "";
  #welcomed = false;
  #welcomedMs = 0;
  #attempt = 0;
  #chunkId = 0;
  /** What came before anybody was ready for it, in its order; null from then on. @type {(() => void)[] | null} */
  #early = [];
  #browser;
  #events;
  #limit;
  /**
   * @param {import('./browser.js').Browser} browser
   * @param {Events} events
   * @param {number} [limit] bytes of one native message; tests set it lower
   */
  constructor(browser2, events, limit = MAX_FROM_EXTENSION) {
    this.#browser = browser2;
    this.#events = events;
    this.#limit = limit;
  }
  get nonce() {
    return this.#nonce;
  }
  /** Whether the daemon has accepted our hello. */
  get welcomed() {
    return this.#welcomed;
  }
  /** How many starts of the host have come to nothing, for storing. */
  get attempt() {
    return this.#attempt;
  }
  /**
   * Begins, or goes on if nothing is under way. The host takes time to come up: it may
   * be started before anybody is ready for what it says.
   * @param {number} [attempt] where a former worker had got to
   */
  start(attempt) {
    if (this.#port || this.#timer !== void 0) return;
    if (attempt !== void 0) this.#attempt = Math.min(attempt, BACK_OFF_MS.length);
    if (this.#attempt === 0) this.#connect();
    else this.#later();
  }
  /** From here on events are told, those that have come already first. */
  ready() {
    const early = this.#early ?? [];
    this.#early = null;
    for (const tell of early) tell();
  }
  /** @param {() => void} tell */
  #inTurn(tell) {
    if (this.#early) this.#early.push(tell);
    else tell();
  }
  /**
   * Sends a message of a link. One that is too large goes with its reports cut down to
   * what decides: a fence that is not acknowledged is worse than one that says less.
   * Without one it is not sent, and nothing is queued: the
   * next hello tells the daemon all there is.
   * @param {Message} message without its nonce
   * @returns {boolean}
   */
  send(message) {
    if (!this.#port || !this.#nonce) return false;
    const whole2 = { ...message, nonce: this.#nonce };
    const { actions } = message;
    if (!actions) return this.#post(this.#port, whole2);
    if (weight(actions) <= MAX_MESSAGE / 4 && this.#post(this.#port, whole2)) return true;
    note(`${message.t} is too large: sent without its requests`);
    return this.#post(this.#port, { ...whole2, actions: actions.map(brief) });
  }
  /**
   * Sends the answer to a command of the host; it bears no nonce, because the host is
   * at the other end of this very port.
   * @param {unknown} port where the command came from
   * @param {Message} message
   */
  answer(port, message) {
    if (this.#port === null || port !== this.#port) return false;
    if (this.#post(this.#port, message)) return true;
    const { t, seq, dispatched } = message;
    const error = refuse("limit", "the answer is larger than a message may be", "ask for less at once");
    return this.#post(this.#port, { t, seq, ok: false, dispatched, error });
  }
  #connect() {
    let port;
    try {
      port = this.#browser.connectHost();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#inTurn(() => this.#events.down(reason, null));
      this.#later();
      return;
    }
    const joiner = new Joiner();
    this.#port = port;
    port.onMessage.addListener((message) => this.#inTurn(() => this.#receive(port, joiner, message)));
    port.onDisconnect.addListener(() => {
      const reason = this.#browser.lastError() || "the host has ended";
      this.#inTurn(() => {
        if (this.#port === port) this.#lost(reason);
      });
    });
  }
  #later() {
    const wait = BACK_OFF_MS[Math.min(this.#attempt, BACK_OFF_MS.length - 1)];
    this.#attempt++;
    this.#timer = setTimeout(() => {
      this.#timer = void 0;
      this.#connect();
    }, wait);
  }
  /** @param {string} reason */
  #lost(reason) {
    this.#port = null;
    this.#unlink(reason, null);
    this.#later();
  }
  /** @param {string} reason @param {Refusal | null} error */
  #unlink(reason, error) {
    if (this.#welcomed && this.#browser.monoMs() - this.#welcomedMs >= STABLE_MS) this.#attempt = 0;
    this.#nonce = "";
    this.#welcomed = false;
    this.#events.down(reason, error);
  }
  /**
   * @param {chrome.runtime.Port} port @param {Joiner} joiner @param {unknown} raw
   */
  #receive(port, joiner, raw) {
    if (port !== this.#port) return;
    const problem = validate(raw);
    if (problem !== null) {
      note("dropped a message that is not well formed", problem);
      return;
    }
    const message = (
      /** @type {Message} */
      raw
    );
    if (message.t !== "chunk") {
      this.#take(port, message);
      return;
    }
    let whole2;
    try {
      whole2 = joiner.push(
        /** @type {any} */
        message
      );
    } catch (error) {
      if (!(error instanceof ChunkError)) throw error;
      note("closed the port", error);
      port.disconnect();
      this.#lost(error.message);
      return;
    }
    if (whole2 === void 0) return;
    const wrong = validate(whole2);
    if (wrong !== null || /** @type {Message} */
    whole2.t === "chunk") {
      note("dropped a joined message that is not well formed", wrong ?? "a chunk of chunks");
      return;
    }
    this.#take(
      port,
      /** @type {Message} */
      whole2
    );
  }
  /** @param {chrome.runtime.Port} port @param {Message} message */
  #take(port, message) {
    switch (message.t) {
      case "link":
        if (message.up && message.nonce) {
          if (this.#nonce) this.#unlink("another link took its place", null);
          this.#nonce = message.nonce;
          this.#events.up(port, message.nonce);
        } else {
          this.#unlink(message.reason ?? "the daemon cannot be reached", message.error ?? null);
        }
        return;
      case "host.refused":
        this.#unlink(message.error.message, message.error);
        return;
      case "cmd":
        if (!this.#welcomed) {
          const error = refuse("unavailable", "the daemon has not accepted this browser yet");
          this.#post(port, { t: "cmd.result", seq: message.seq, ok: false, dispatched: false, error });
          return;
        }
        break;
      default:
        if (!this.#nonce || message.nonce !== this.#nonce) {
          note(`dropped ${message.t}: it is not of the current link`);
          return;
        }
        if (message.t === "welcome") {
          this.#welcomed = true;
          this.#welcomedMs = this.#browser.monoMs();
        } else if (!this.#welcomed) {
          note(`dropped ${message.t}: it came before welcome`);
          return;
        }
    }
    this.#events.message(message, port);
  }
  /**
   * @param {chrome.runtime.Port} port @param {Message} message
   * @returns {boolean}
   */
  #post(port, message) {
    const text = JSON.stringify(message);
    if (text.length * 3 <= this.#limit) {
      port.postMessage(message);
      return true;
    }
    const bytes = encoder.encode(text);
    if (bytes.length <= this.#limit) {
      port.postMessage(message);
      return true;
    }
    if (bytes.length > MAX_MESSAGE) {
      note(`${message.t} of ${bytes.length} bytes cannot be sent`);
      return false;
    }
    for (const chunk of split(bytes, ++this.#chunkId)) port.postMessage(chunk);
    return true;
  }
};

// people.js
var People = class {
  /** @type {Set<chrome.runtime.Port>} */
  #popups = /* @__PURE__ */ new Set();
  /** @type {Map<number, {verb: string, popup: chrome.runtime.Port, timer: ReturnType<typeof setTimeout>}>} */
  #calls = /* @__PURE__ */ new Map();
  /** @type {LinkState} */
  #state = "starting";
  #reason = "";
  /** @type {Refusal | null} */
  #error = null;
  /** @type {any} */
  #status = null;
  /** What the badge shows; null: not known. @type {string | null} */
  #shown = null;
  #statusMs = 0;
  #slot = "";
  #call = 0;
  /** The hold that was said on this link. @type {import('./gen/wire.js').Hold | null} */
  #told = null;
  /** Popups that wait for pages to end. @type {Map<chrome.runtime.Port, ReturnType<typeof setTimeout>>} */
  #stops = /* @__PURE__ */ new Map();
  #browser;
  #gate;
  #memory;
  #link;
  #ledger;
  #stopList;
  #held;
  /**
   * @param {object} parts
   * @param {import('./browser.js').Browser} parts.browser
   * @param {import('./gate.js').Gate} parts.gate
   * @param {import('./state.js').Memory} parts.memory
   * @param {import('./link.js').Link} parts.link
   * @param {import('./ledger.js').Ledger} parts.ledger
   * @param {() => Promise<(TabRef & {shares: boolean})[]>} parts.stopList tabs that end with "Stop the page"
   * @param {() => void} parts.held in the turn in which a person has taken over
   */
  constructor({ browser: browser2, gate, memory, link, ledger, stopList, held }) {
    this.#browser = browser2;
    this.#gate = gate;
    this.#memory = memory;
    this.#link = link;
    this.#ledger = ledger;
    this.#stopList = stopList;
    this.#held = held;
  }
  /** @param {chrome.runtime.Port} port */
  connect(port) {
    const { sender } = port;
    const url = (sender?.url ?? "").split(/[?#]/)[0];
    if (port.name !== "popup" || sender?.id !== this.#browser.id() || url !== this.#browser.popupURL()) {
      note("refused a connection that is not the popup’s", url);
      port.disconnect();
      return;
    }
    this.#popups.add(port);
    port.onDisconnect.addListener(() => {
      this.#popups.delete(port);
      clearTimeout(this.#stops.get(port));
      this.#stops.delete(port);
    });
    port.onMessage.addListener((message) => this.#hear(port, message));
    port.postMessage(this.#snapshot());
  }
  /** @param {LinkState} state @param {string} [reason] @param {Refusal | null} [error] */
  linkIs(state, reason = "", error = null) {
    if (state !== "up") {
      this.#status = null;
      this.#told = null;
      this.#badge("");
    }
    const keep = state === "down" && !error && this.#error !== null;
    if (!keep) [this.#reason, this.#error] = [reason, error];
    this.#state = state;
    this.changed();
  }
  /** @param {any} status the daemon's */
  show(status) {
    this.#status = status;
    this.#statusMs = this.#browser.monoMs();
    if (typeof status?.slot === "string") this.#slot = status.slot;
    this.#badge(Array.isArray(status?.asks) && status.asks.length > 0 ? "?" : "");
    this.changed();
  }
  /** @param {string} text */
  #badge(text) {
    if (text === this.#shown) return;
    this.#shown = text;
    this.#browser.badge(text);
  }
  changed() {
    if (this.#popups.size === 0) return;
    const snapshot = this.#snapshot();
    for (const popup of this.#popups) popup.postMessage(snapshot);
  }
  /**
   * A person has taken over. Each press is one of its own: a Hand back may have been asked
   * for since the last one, so the answer to that is none to this.
   * @param {number} pressedMs wall clock of the button's event
   * @param {TabRef[]} [stop] tabs whose pages are to end with it
   */
  takeOver(pressedMs, stop) {
    const known = this.#memory.hold;
    const before = known && known === this.#told ? { since_ms: known.since_ms } : known;
    const hold = { since_ms: this.#browser.wallMs(), ...before, id: this.#browser.uuid() };
    const next = stop ? { ...hold, stop_page: true, tabs: stop } : hold;
    this.#gate.hold = next;
    this.#gate.close();
    this.#held();
    if (!known) {
      const heldMs = performance.timeOrigin + performance.now();
      Object.assign(globalThis, { sessiondockLastHold: { pressed_ms: pressedMs, held_ms: heldMs } });
    }
    this.#memory.setHold(next);
    this.#say(next);
    this.changed();
  }
  /**
   * A daemon has accepted this browser: it is told of the hold, unless the hello has.
   * @param {import('./gen/wire.js').Hold | null} carried by the hello of this link
   */
  tell(carried) {
    const { hold } = this.#memory;
    if (!hold) return;
    if (hold === carried) this.#told = hold;
    else this.#say(hold);
    this.changed();
  }
  /** @param {import('./gen/wire.js').Hold} hold */
  #say(hold) {
    if (this.#link.welcomed && this.#link.send({ t: "person.hold", hold })) this.#told = hold;
  }
  /** The daemon had pages ended. @param {number} left those that were not seen to end */
  stopped(left) {
    const error = left ? refuse("outcome_unknown", `${left === 1 ? "A page was" : `${left} pages were`} not seen to end.`, "Stop the browser to be sure") : null;
    for (const popup of [...this.#stops.keys()]) this.#stopReply(popup, error);
  }
  /** @param {chrome.runtime.Port} popup @param {Refusal | null} error */
  #stopReply(popup, error) {
    clearTimeout(this.#stops.get(popup));
    this.#stops.delete(popup);
    this.#tell(popup, { t: "reply", verb: "stop_page", error });
  }
  /**
   * Takes over, and has pages ended. It is done when the daemon has ordered it and the
   * pages were seen to end; until then it is not called so.
   * @param {chrome.runtime.Port} popup @param {number} pressedMs @param {TabRef[]} tabs
   */
  #takeOverAndStop(popup, pressedMs, tabs) {
    this.takeOver(pressedMs, tabs);
    if (this.#told !== this.#memory.hold) {
      this.#stopReply(
        popup,
        refuse(
          "unavailable",
          "You have taken over. The daemon cannot be reached, so no page has been ended: that is done when it is back.",
          "To end them now, close the browser"
        )
      );
      return;
    }
    clearTimeout(this.#stops.get(popup));
    const late = refuse("deadline", "The daemon has not answered. Whether the pages end is not known.");
    this.#stops.set(popup, setTimeout(() => this.#stopReply(popup, late), CALL_MS));
  }
  /** @param {{id: number, error?: Refusal | null}} reply */
  replied({ id, error }) {
    const call = this.#calls.get(id);
    if (!call) return;
    this.#calls.delete(id);
    clearTimeout(call.timer);
    this.#tell(call.popup, { t: "reply", verb: call.verb, error: error ?? null });
  }
  /** @param {chrome.runtime.Port} popup @param {any} message */
  #hear(popup, message) {
    switch (message?.t) {
      case "takeover":
        if (message.from === true) this.#ask(popup, "takeover", { from: true, if_epoch: message.if_epoch });
        else this.takeOver(Number(message.pressed_ms) || 0);
        return;
      case "stop_list":
        this.#stopList().then(
          (tabs) => this.#tell(popup, { t: "stop_list", tabs }),
          (error) => this.#tell(popup, { t: "reply", verb: "stop_page", error: refuse("internal", String(error)) })
        );
        return;
      case "stop_page": {
        const tabs = tabRefs(message.tabs);
        if (this.#status?.authority?.holder?.kind === "human") {
          this.#ask(popup, "stop_page", { tabs, confirm: true, if_epoch: message.if_epoch });
        } else {
          this.#takeOverAndStop(popup, Number(message.pressed_ms) || 0, tabs);
        }
        return;
      }
      case "handback":
        this.#ask(popup, "handback", {
          to: typeof message.to === "string" ? message.to : "",
          confirm: message.confirm === true,
          if_epoch: message.if_epoch
        });
        return;
      default:
        note("the popup said something unknown");
    }
  }
  /**
   * Puts a person's verb to the daemon.
   * @param {chrome.runtime.Port} popup @param {string} verb @param {Record<string, unknown>} fields
   */
  #ask(popup, verb, fields) {
    const id = ++this.#call;
    const ifEpoch = Number.isSafeInteger(fields.if_epoch) ? fields.if_epoch : 0;
    const message = { t: "person.call", id, verb, to: "", confirm: false, from: false, tabs: [], ...fields, if_epoch: ifEpoch };
    if (!this.#link.welcomed || !this.#link.send(message)) {
      const error = refuse("unavailable", "The daemon cannot be reached, so nothing was asked of it.");
      this.#tell(popup, { t: "reply", verb, error });
      return;
    }
    const timer = setTimeout(() => {
      this.#calls.delete(id);
      const error = refuse("deadline", "The daemon has not answered. Whether it did so is not known.");
      this.#tell(popup, { t: "reply", verb, error });
    }, CALL_MS);
    this.#calls.set(id, { verb, popup, timer });
  }
  /** @param {chrome.runtime.Port} popup @param {unknown} message */
  #tell(popup, message) {
    if (this.#popups.has(popup)) popup.postMessage(message);
  }
  /** @returns {Snapshot} */
  #snapshot() {
    const { hold } = this.#memory;
    let open = 0;
    for (const entry of this.#ledger.entries()) open += entry.open;
    return {
      t: "state",
      link: this.#state,
      reason: this.#reason,
      error: this.#error,
      hold: hold && { since_ms: hold.since_ms, told: hold === this.#told, stop: hold.stop_page === true },
      status: this.#status,
      age_ms: this.#status ? this.#browser.monoMs() - this.#statusMs : 0,
      open,
      slot: this.#slot
    };
  }
};
function tabRefs(list) {
  if (!Array.isArray(list)) return [];
  return list.filter((one) => Number.isInteger(one?.tab)).map(({ tab, title, url }) => ({
    tab,
    ...typeof title === "string" && { title: title.slice(0, MAX_TITLE) },
    ...typeof url === "string" && { url: withoutQuery(url) }
  }));
}

// probe.js
var isAnswer2 = ({ state, text = "" }) => state === "seen" || state === "several" || state === "refused" && /^EvalError: Possible side-effect/.test(text);
var EVALUATE_MS = 1e3;
var encoder2 = new TextEncoder();
var Probe = class {
  /** @type {Look | null} */
  #look = null;
  /** Tabs that were made for probes, and those opened from them. @type {Set<number>} */
  #tabs = /* @__PURE__ */ new Set();
  /** A tab is being made. */
  #making = false;
  #browser;
  #gate;
  #documents;
  #sessions;
  #lease;
  #memory;
  #send;
  /**
   * @param {object} parts
   * @param {import('./browser.js').Browser} parts.browser
   * @param {import('./gate.js').Gate} parts.gate
   * @param {import('./documents.js').Documents} parts.documents
   * @param {import('./sessions.js').Sessions} parts.sessions
   * @param {import('./tabs.js').Tabs} parts.tabs
   * @param {import('./state.js').Memory} parts.memory
   * @param {(result: any) => void} parts.send
   */
  constructor({ browser: browser2, gate, documents, sessions, tabs, memory, send }) {
    this.#browser = browser2;
    this.#gate = gate;
    this.#documents = documents;
    this.#sessions = sessions;
    this.#lease = tabs;
    this.#memory = memory;
    this.#send = send;
  }
  /** @param {any} probe the daemon's message */
  take({ probe: id, epoch, url, selector = "", expression = "", wait_ms: waitMs }) {
    this.cut();
    const look = {
      id,
      epoch,
      url,
      selector,
      expression,
      tab: 0,
      last: (
        /** @type {Seen} */
        { state: "silent" }
      ),
      monoMs: this.#browser.monoMs() + waitMs,
      wallMs: this.#browser.wallMs() + waitMs
    };
    this.#look = look;
    this.#gate.probe = { epoch, url, selector, expression, tab: 0 };
    void this.#answer(look, waitMs);
  }
  /** Ends what is under way: its epoch or its link has ended, or another takes its place. */
  cut() {
    this.#look = null;
    this.#gate.probe = null;
    for (const tab of this.#tabs) this.#close(tab);
  }
  /** Whether a tab was made for a probe, or opened from such a one. @param {number} tab */
  mine(tab) {
    return this.#tabs.has(tab);
  }
  tabs() {
    return [...this.#tabs];
  }
  /**
   * Whether a tab that has just come to be is, or may be, a probe's: it is nobody else's
   * to see before that is known.
   * @param {any} tab chrome.tabs.Tab
   */
  made(tab) {
    if (typeof tab.openerTabId === "number" && this.mine(tab.openerTabId)) {
      this.#tabs.add(tab.id);
      return true;
    }
    const { active, openerTabId, pendingUrl, url } = tab;
    return this.#making && !active && openerTabId === void 0 && (pendingUrl || url || "about:blank") === "about:blank";
  }
  /** @param {number} tab */
  removed(tab) {
    this.#tabs.delete(tab);
  }
  /** The browser has given a tab another number. @param {number} added @param {number} removed */
  replaced(added, removed) {
    if (this.mine(removed)) this.#tabs.add(added);
  }
  /** @param {unknown} stored tabs that a former worker left open */
  restore(stored) {
    if (!Array.isArray(stored)) return;
    for (const tab of stored) {
      if (!this.#lease.get(tab)) continue;
      this.#tabs.add(tab);
      this.#lease.setApart(tab);
      this.#close(tab);
    }
  }
  /** @param {Look} look @param {number} waitMs */
  async #answer(look, waitMs) {
    let timer;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, waitMs);
    });
    const refused = (error) => {
      look.last = failed(error);
    };
    await Promise.race([late, this.#read(look).catch(refused)]);
    clearTimeout(timer);
    if (this.#look !== look) return;
    const where = this.#documents.url(look.tab);
    const seen = look.last.text === void 0 ? look.last : { ...look.last, ...clipped(look.last) };
    this.cut();
    this.#send({
      t: "probe.result",
      probe: look.id,
      epoch: look.epoch,
      cut: false,
      ...seen,
      ...isWeb(where) && { url: withoutQuery(where) }
    });
  }
  /** Looks until there is an answer, or the look has ended. @param {Look} look */
  async #read(look) {
    this.#making = true;
    try {
      const tab = await this.#order(look, "tab_create", { params: { url: "about:blank", active: false } });
      this.#tabs.add(tab.id);
      this.#lease.put(tab);
      this.#lease.setApart(tab.id);
      look.tab = tab.id;
    } finally {
      this.#making = false;
    }
    await this.#memory.flush();
    if (this.#look !== look || !this.#gate.probe) {
      this.#close(look.tab);
      return;
    }
    this.#gate.probe.tab = look.tab;
    await this.#order(look, "tab_goto", { params: { url: look.url } });
    let before = "";
    while (this.#look === look) {
      await new Promise((resolve) => setTimeout(resolve, PROBE_LOOK_MS));
      if (this.#look !== look) return;
      const seen = await this.#see(look).catch((error) => {
        if (error.code === "fenced") throw error;
        return failed(error);
      });
      if (!seen) continue;
      look.last = seen;
      const now = JSON.stringify(seen);
      if (isAnswer2(seen) && now === before && this.#lease.get(look.tab)?.loaded) return;
      before = now;
    }
  }
  /**
   * What the page says now.
   * @param {Look} look
   * @returns {Promise<Seen | null>} null if another document came meanwhile
   */
  async #see(look) {
    const document2 = this.#documents.current(look.tab);
    const url = this.#documents.url(look.tab);
    if (!document2 || !isWeb(url)) return { state: "silent" };
    if (originOf(url) !== originOf(look.url)) return { state: "elsewhere" };
    return look.selector ? this.#text(look, document2) : this.#value(look, document2);
  }
  /** @param {Look} look @param {string} document @returns {Promise<Seen | null>} */
  async #text(look, document2) {
    const result = await this.#order(look, "text", { document: document2, params: { selector: look.selector } });
    if (!ranIn(result, document2)) return null;
    const { found, text, cut } = result[0].result ?? { found: -1 };
    if (found < 0) return { state: "refused", text: "that is no selector" };
    if (found > 1) return { state: "several" };
    return found === 1 && text ? { state: "seen", text, cut } : { state: "absent" };
  }
  /** @param {Look} look @param {string} document @returns {Promise<Seen | null>} */
  async #value(look, document2) {
    await this.#sessions.attach(look.tab);
    const { result, exceptionDetails } = await this.#order(look, "cdp", {
      document: document2,
      method: "Runtime.evaluate",
      params: { expression: look.expression, throwOnSideEffect: true, returnByValue: true, silent: true, timeout: EVALUATE_MS }
    });
    await this.#documents.refresh(look.tab);
    if (this.#documents.current(look.tab) !== document2) return null;
    if (exceptionDetails) {
      const text = exceptionDetails.exception?.description ?? exceptionDetails.text;
      return { state: "refused", text: String(text) };
    }
    const { value } = result;
    if (value === void 0 || value === null || value === "") return { state: "absent" };
    return { state: "seen", text: typeof value === "string" ? value : JSON.stringify(value) };
  }
  /**
   * @param {Look} look @param {string} kind @param {Partial<Order>} part
   * @returns {Promise<any>} rejected if it was refused or failed
   */
  async #order(look, kind, part) {
    const { refused, sent } = this.#gate.dispatch({
      ...this.#system(kind, look.epoch),
      tab: look.tab,
      monoMs: look.monoMs,
      wallMs: look.wallMs,
      ...part
    });
    if (refused) throw refused;
    try {
      return await sent;
    } catch (error) {
      throw fromDebugger(error);
    }
  }
  /** Closes a probe's tab, whatever epoch is in force by now. @param {number} tab */
  #close(tab) {
    const { refused, sent } = this.#gate.dispatch({ ...this.#system("tab_close", this.#gate.epoch), tab });
    if (refused) note("could not close a probe’s tab", refused.message);
    sent?.catch((error) => {
      this.#tabs.delete(tab);
      note("a probe’s tab is gone already", error);
    });
  }
  /** @param {string} kind @param {number} epoch @returns {Order} */
  #system(kind, epoch) {
    return {
      by: "system",
      kind,
      epoch,
      port: null,
      tab: 0,
      frame: 0,
      document: "",
      method: "",
      params: {},
      monoMs: Infinity,
      wallMs: Infinity,
      action: "",
      seq: 0,
      effect: false,
      script: false
    };
  }
};
var failed = (error) => ({ state: "refused", text: String(error?.message ?? error) });
function clipped({ text = "", cut = false }) {
  const bytes = encoder2.encode(text);
  if (bytes.length <= MAX_PROBE_TEXT) return { text, cut };
  return { text: new TextDecoder().decode(bytes.subarray(0, MAX_PROBE_TEXT)).replace(/\uFFFD$/, ""), cut: true };
}

// sessions.js
var ALREADY = /already attached/i;
var CLOSED = /^Cannot (access|attach to this target)\b|cannot be scripted/i;
var NOT_OURS = /not attached/i;
var ONE_DAY = 864e5;
var GOES_ON = new Set(["continueRequest", "continueResponse", "continueWithAuth", "failRequest", "fulfillRequest"].map((name) => `Fetch.${name}`));
var ANSWERS_PAGE = /* @__PURE__ */ new Set(["Fetch.continueResponse", "Fetch.fulfillRequest"]);
var pausedKey = (child, requestId) => `${child} ${requestId}`;
function moved(child, frame) {
  if (child && frame && frame.id === child.target) child.url = frame.url;
}
var Sessions = class {
  /** @type {Map<number, Session>} */
  #sessions = /* @__PURE__ */ new Map();
  /** Why the session of an open order was ended. @type {WeakMap<Order, Refusal>} */
  #ended = /* @__PURE__ */ new WeakMap();
  /** What an order lets go on. @type {WeakMap<object, Paused>} */
  #going = /* @__PURE__ */ new WeakMap();
  #browser;
  #gate;
  #documents;
  #events;
  /**
   * @param {import('./browser.js').Browser} browser
   * @param {import('./gate.js').Gate} gate
   * @param {import('./documents.js').Documents} documents
   * @param {Events} events
   */
  constructor(browser2, gate, documents, events) {
    this.#browser = browser2;
    this.#gate = gate;
    this.#documents = documents;
    this.#events = events;
  }
  /**
   * Takes up the sessions that a former life of the worker has left, so that the drain
   * ends them. Chromium does not say whose a session is; a tab that is another's
   * answers that we are not attached.
   */
  async adopt() {
    if (this.#gate.epoch === 0) return;
    for (const { attached, tabId } of await this.#browser.debugTargets()) {
      if (!attached || !tabId || this.#sessions.has(tabId)) continue;
      const session = this.#make(tabId);
      session.attached = true;
      this.#gate.dispatch(this.#order(tabId, "Inspector.enable", {})).sent?.then(
        () => {
          this.#setUp(session);
          void this.#system(tabId, "Fetch.disable", {});
        },
        (error) => {
          if (NOT_OURS.test(String(error)) && this.#sessions.get(tabId) === session) this.#sessions.delete(tabId);
        }
      );
    }
  }
  /** A crashed renderer has refused the set-up, or forgotten it. @param {number} tab */
  revived(tab) {
    const session = this.#sessions.get(tab);
    if (session?.attached) this.#setUp(session);
  }
  /** @param {number} tab */
  attached(tab) {
    return this.#sessions.get(tab)?.attached ?? false;
  }
  /** Whether an agent's script runs in each new document of a tab. @param {number} tab */
  everyDocument(tab) {
    return this.#sessions.get(tab)?.everyDocument ?? false;
  }
  /** The address of a child session's frame or worker, undefined if there is no such session. @param {number} tab @param {string} child */
  child(tab, child) {
    return this.#sessions.get(tab)?.children.get(child)?.url;
  }
  /** The protocol's name of the frame at the top of a tab, '' if not known. @param {number} tab */
  mainFrame(tab) {
    return this.#sessions.get(tab)?.mainFrame ?? "";
  }
  /** The dialog that the page in a tab shows, as far as it is known. @param {number} tab */
  shown(tab) {
    return this.#sessions.get(tab)?.shown ?? null;
  }
  tabs() {
    return [...this.#sessions.values()].filter((session) => session.attached).map((session) => session.tab);
  }
  /**
   * Runs an order in its turn: at once if its tab is attached and nothing waits there.
   * The gate decides again in the turn in which it runs.
   * @param {Order} order @param {boolean} needsDebugger
   * @param {() => void} run @param {(error: Refusal) => void} fail it was not dispatched
   */
  submit(order, needsDebugger, run, fail) {
    const left = this.#sessions.get(order.tab);
    if (left?.leaving) void this.#leave(left);
    const session = this.#sessions.get(order.tab);
    if (session ? session.queue.length === 0 && (session.attached || !needsDebugger) : !needsDebugger) {
      run();
      return;
    }
    const refused = this.#gate.check(order);
    if (refused) {
      fail(refused);
      return;
    }
    const it = session ?? this.#make(order.tab);
    if (it.queue.length >= MAX_QUEUED) {
      fail(refuse("limit", "too many commands wait for this tab"));
      return;
    }
    it.queue.push({ order, run, fail });
    if (it.queue.length === 1) this.#attach(it, order);
  }
  /**
   * Attaches for the system's own work.
   * @param {number} tab
   */
  async attach(tab) {
    const session = this.#sessions.get(tab) ?? this.#make(tab);
    session.leaving = false;
    if (session.attached) return;
    try {
      await this.#attachNow(session);
    } catch (error) {
      if (this.#sessions.get(tab) === session && session.queue.length === 0) this.#sessions.delete(tab);
      throw error;
    }
  }
  /**
   * Notes what a dispatched order leaves held, paused or open.
   * @param {Order} order @param {(error: Refusal) => void} crashed
   */
  dispatched(order, crashed) {
    const session = this.#sessions.get(order.tab);
    if (!session) return;
    session.open.set(order, crashed);
    const { method, params } = order;
    if (method === "Input.dispatchMouseEvent") {
      if (params.type === "mousePressed" && params.button && params.button !== "none") {
        session.buttons.set(params.button, params.modifiers ?? 0);
      } else if (params.type === "mouseReleased") {
        session.buttons.delete(params.button);
      }
    } else if (method === "Input.dispatchKeyEvent") {
      const name = String(params.code || params.key || params.windowsVirtualKeyCode || "");
      if (params.type === "keyDown" || params.type === "rawKeyDown") session.keys.set(name, params);
      else if (params.type === "keyUp") session.keys.delete(name);
    } else if (method === "Page.addScriptToEvaluateOnNewDocument") {
      session.everyDocument = true;
    } else if (method === "Fetch.enable") {
      session.fetching.add(order.session ?? "");
    } else if (method === "Fetch.disable") {
      this.#forgetFetch(session, order.session ?? "");
    } else if (GOES_ON.has(method)) {
      const held = session.paused.get(pausedKey(order.session ?? "", params.requestId));
      if (held) this.#going.set(order, held);
      if (ANSWERS_PAGE.has(method)) {
        session.everyDocument = true;
        if (held?.page) this.#documents.answers(order.tab);
      }
    }
  }
  /** An order's promise has settled. @param {Order} order @param {boolean} [done] */
  answered(order, done = false) {
    const session = this.#sessions.get(order.tab);
    session?.open.delete(order);
    const went = done && this.#going.get(order);
    if (!went) return;
    const key = pausedKey(went.child, went.requestId);
    if (session?.paused.get(key) === went) session.paused.delete(key);
  }
  /** Whether the lease was told of a request that is held back. @param {number} tab @param {string} child @param {unknown} requestId */
  paused(tab, child, requestId) {
    return this.#sessions.get(tab)?.paused.has(pausedKey(child, requestId)) ?? false;
  }
  /**
   * A request is held back. One that is not the lease's to hold goes on.
   * @param {Session} session @param {string} child @param {any} params @param {boolean} auth
   */
  #pause(session, child, { requestId, request, resourceType }, auth) {
    if (session.paused.size < MAX_REQUESTS && this.#events.holds(session.tab, child, String(request?.url))) {
      session.paused.set(pausedKey(child, requestId), { child, requestId, auth, page: resourceType === "Document" });
    } else if (auth) {
      void this.#system(session.tab, "Fetch.continueWithAuth", { requestId, authChallengeResponse: { response: "Default" } }, void 0, child);
    } else {
      void this.#system(session.tab, "Fetch.continueRequest", { requestId }, void 0, child);
    }
  }
  /** @param {Session} session @param {string} child */
  #forgetFetch(session, child) {
    session.fetching.delete(child);
    for (const [key, one] of session.paused) if (one.child === child) session.paused.delete(key);
  }
  /** Fails the requests that an agent holds back, and holds back none from here on. */
  letRequestsGo() {
    for (const { tab, attached, paused, fetching } of this.#sessions.values()) {
      if (!attached) continue;
      for (const { child, requestId, auth } of paused.values()) {
        if (auth) void this.#system(tab, "Fetch.continueWithAuth", { requestId, authChallengeResponse: { response: "CancelAuth" } }, void 0, child);
        else void this.#system(tab, "Fetch.failRequest", { requestId, errorReason: "Aborted" }, void 0, child);
      }
      for (const child of fetching) void this.#system(tab, "Fetch.disable", {}, void 0, child);
      paused.clear();
      fetching.clear();
    }
  }
  /** @param {number} tab @param {string} child @param {string} method @param {any} params */
  event(tab, child, method, params) {
    const session = this.#sessions.get(tab);
    if (!session) return;
    switch (method) {
      case "Inspector.targetCrashed":
        if (child) this.#childEnded(session, child, "the frame’s renderer crashed");
        else this.#crashed(session);
        return;
      case "Target.attachedToTarget":
        session.children.set(params.sessionId, { target: params.targetInfo?.targetId ?? "", url: params.targetInfo?.url ?? "" });
        if (params.targetInfo?.type === "iframe") this.#system(tab, "Page.enable", {}, void 0, params.sessionId);
        return;
      case "Target.detachedFromTarget":
        session.children.delete(params.sessionId);
        this.#forgetFetch(session, params.sessionId);
        this.#childEnded(session, params.sessionId, "the frame or worker has ended");
        return;
      case "Page.frameNavigated":
        if (child) moved(session.children.get(child), params.frame);
        if (!child && params.frame && !params.frame.parentId) session.mainFrame = params.frame.id;
        return;
      case "Page.frameRequestedNavigation":
        if (child || params.disposition && params.disposition !== "currentTab") return;
        if (params.frameId !== session.mainFrame) return;
        this.#events.asked(tab);
        return;
      case "Fetch.requestPaused":
      case "Fetch.authRequired":
        this.#pause(session, child, params, method === "Fetch.authRequired");
        return;
      case "Page.javascriptDialogOpening":
        if (params.type === "beforeunload" && this.#gate.stopping) {
          this.#system(tab, "Page.handleJavaScriptDialog", { accept: true }, "beforeunload");
          return;
        }
        session.shown = { kind: params.type, message: params.message, default: params.defaultPrompt ?? "", url: params.url };
        this.#events.dialog(tab);
        return;
      case "Page.javascriptDialogClosed":
        session.shown = null;
        this.#events.dialog(tab);
        if (session.leaving) void this.#leave(session);
    }
  }
  /** @param {number} tab @param {string} reason of chrome.debugger.onDetach */
  detached(tab, reason) {
    const session = this.#sessions.get(tab);
    this.#sessions.delete(tab);
    if (session) this.#fail(session, refuse("unavailable", `the debugger was detached: ${reason}`));
    if (reason === "canceled_by_user") this.#events.canceled(tab);
  }
  /**
   * Ends one tab's session, in this turn: nothing more comes of it. What was open there is
   * answered by its own promise, in the words that are given here; what becomes of it is
   * not known.
   * @param {number} tab @param {Refusal} why
   */
  async letGo(tab, why) {
    const session = this.#sessions.get(tab);
    if (!session) return;
    this.#release(session);
    for (const order of session.open.keys()) this.#ended.set(order, why);
    this.#drop(session, why);
    await this.#browser.detach(tab).catch((error) => note("detach", error));
  }
  /** Why the session in which an order was open was ended by us, if it was. @param {Order} order */
  ended(order) {
    return this.#ended.get(order);
  }
  /** Lets go of everything that an agent holds down, and fails what Fetch holds back. */
  release() {
    this.letRequestsGo();
    for (const session of this.#sessions.values()) if (session.attached) this.#release(session);
  }
  /** @param {Session} session */
  #release({ tab, keys, buttons }) {
    for (const { key, code, windowsVirtualKeyCode, location } of keys.values()) {
      const up = { type: "keyUp", key, code, windowsVirtualKeyCode, location };
      this.#system(tab, "Input.dispatchKeyEvent", JSON.parse(JSON.stringify(up)));
    }
    for (const button of buttons.keys()) {
      this.#system(tab, "Input.dispatchMouseEvent", { type: "mouseReleased", x: OUTSIDE, y: OUTSIDE, button, clickCount: 0 });
    }
    keys.clear();
    buttons.clear();
  }
  /**
   * Ends the renderer of a tab. It is proved by the crash that is seen, not by this. Chromium
   * does not end a page that is on its way to another, nor one whose dialog keeps it from that.
   * @param {number} tab
   */
  crash(tab) {
    void this.#system(tab, "Page.handleJavaScriptDialog", { accept: false }, "ending");
    void this.#system(tab, "Page.stopLoading", {});
    return this.#system(tab, "Page.crash", {});
  }
  /**
   * Detaches from every tab. One whose page shows a dialog is left when that is closed, or the
   * next agent comes: who attaches later is not told of it, and cannot end the page for a person.
   */
  async detachAll() {
    for (const session of this.#sessions.values()) session.leaving = true;
    await Promise.all([...this.#sessions.values()].filter(({ shown: shown2 }) => !shown2).map((session) => this.#leave(session)));
  }
  /** Detaches from a tab that nobody uses any more. @param {Session} session */
  async #leave(session) {
    this.#drop(session, refuse("fenced", "a person or another lease has this browser now"));
    if (session.attached) await this.#browser.detach(session.tab).catch((error) => note("detach", error));
  }
  /** @param {number} tab @returns {Session} */
  #make(tab) {
    const session = {
      tab,
      attached: false,
      attaching: null,
      mainFrame: "",
      queue: [],
      open: /* @__PURE__ */ new Map(),
      paused: /* @__PURE__ */ new Map(),
      fetching: /* @__PURE__ */ new Set(),
      buttons: /* @__PURE__ */ new Map(),
      keys: /* @__PURE__ */ new Map(),
      children: /* @__PURE__ */ new Map(),
      shown: null,
      leaving: false,
      everyDocument: false
    };
    this.#sessions.set(tab, session);
    return session;
  }
  /** @param {Session} session @param {Order} order the one that needs it */
  async #attach(session, order) {
    try {
      if (isNewTab(this.#documents.url(session.tab))) {
        const blank = { ...order, kind: "tab_blank", document: "", method: "" };
        const { refused, sent } = this.#gate.dispatch(blank);
        if (refused) {
          this.#drop(session, refused);
          return;
        }
        await sent;
      }
      if (this.#mayLackPage(session.tab)) {
        const refused = await this.#load(session, order);
        if (refused) {
          this.#drop(session, refused);
          return;
        }
      }
      await this.#attachNow(session);
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      const refused = CLOSED.test(text) ? refuse("conflict", `the browser lets no debugger into the page that is in this tab: ${text}`, "open another tab") : refuse("unavailable", `the tab cannot be driven now: ${text}`);
      this.#drop(session, refused);
      return;
    }
    if (this.#sessions.get(session.tab) !== session) return;
    for (let next = session.queue.shift(); next; next = session.queue.shift()) next.run();
  }
  /** A crashed page is none that only has to be loaded. @param {number} tab */
  #mayLackPage(tab) {
    return !this.#documents.dead(tab) && (!this.#documents.current(tab) || this.#events.unloaded(tab));
  }
  /**
   * A tab that the browser has restored, or whose page it has discarded, has no renderer:
   * a debugger would be told that it has crashed. Its page comes first, before any command
   * is dispatched there, so that the load is no action's.
   * @param {Session} session @param {Order} order the one that needs it
   * @returns {Promise<Refusal | null>} null: attach
   */
  async #load(session, order) {
    const { tab } = session;
    const before = this.#documents.current(tab);
    const { status, discarded } = await this.#browser.tab(tab);
    const lacks = () => this.#documents.current(tab) === before;
    if (!lacks() || before && !discarded) return null;
    if (status === "unloaded") {
      const { refused, sent } = this.#gate.dispatch({ ...order, kind: "tab_load", document: "", method: "", session: "" });
      if (refused) return refused;
      await sent;
    } else if (status !== "loading") {
      return null;
    }
    const end = this.#browser.monoMs() + LOAD_MS;
    for (; ; ) {
      this.#refuseWaiting(session);
      if (session.queue.length === 0) return refuse("unavailable", "no command waits for this tab any more");
      if (!lacks()) return null;
      if (this.#browser.monoMs() >= end) return refuse("unavailable", "the page in this tab has not been loaded yet", "try again, or use another tab");
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }
  /** What waits for a page to come and may not be dispatched any more is not kept. @param {Session} session */
  #refuseWaiting(session) {
    const waiting = session.queue.splice(0);
    for (const one of waiting) {
      const { monoMs, wallMs } = one.order;
      const refused = this.#gate.check({ ...one.order, monoMs: monoMs - HEARD_MS, wallMs: wallMs - HEARD_MS });
      if (refused) one.fail(refused);
      else session.queue.push(one);
    }
  }
  /** @param {Session} session */
  #attachNow(session) {
    session.attaching ??= this.#attachInTime(session).finally(() => {
      session.attaching = null;
    });
    return session.attaching;
  }
  /** @param {Session} session */
  async #attachInTime(session) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("the browser did not attach in time")), ATTACH_MS);
    });
    try {
      await Promise.race([late, this.#attachOnce(session)]);
    } finally {
      clearTimeout(timer);
    }
  }
  /** @param {Session} session */
  async #attachOnce(session) {
    const { tab } = session;
    try {
      await this.#browser.attach(tab);
    } catch (error) {
      if (!ALREADY.test(error instanceof Error ? error.message : "")) throw error;
      await this.#browser.detach(tab).catch((gone) => note("detach", gone));
      await this.#browser.attach(tab);
    }
    if (this.#sessions.get(tab) !== session) {
      await this.#browser.detach(tab);
      throw new Error("the tab was let go meanwhile");
    }
    session.attached = true;
    this.#setUp(session);
    await Promise.race([this.#browser.ping(), new Promise((resolve) => setTimeout(resolve, TOLD_MS))]);
  }
  /** What the evidence rests on. The agent's own command follows without waiting for it. @param {Session} session */
  #setUp(session) {
    this.#system(session.tab, "Page.enable", {});
    this.#system(session.tab, "Inspector.enable", {});
    this.#system(session.tab, "Emulation.setFocusEmulationEnabled", { enabled: true });
    this.#system(session.tab, "Page.getFrameTree", {}).then((tree) => {
      session.mainFrame ||= tree?.frameTree?.frame?.id ?? "";
    });
  }
  /**
   * The system's own command, under the epoch in force.
   * @param {number} tab @param {string} method @param {Record<string, unknown>} params @param {string} [dialog] @param {string} [child]
   * @returns {Promise<any>} never rejected: its answer decides nothing
   */
  #system(tab, method, params, dialog, child) {
    const { refused, sent } = this.#gate.dispatch({ ...this.#order(tab, method, params, dialog), session: child ?? "" });
    if (refused) {
      note(`${method} was refused`, refused.message);
      return Promise.resolve(void 0);
    }
    return sent.catch((error) => note(method, error));
  }
  /**
   * @param {number} tab @param {string} method @param {Record<string, unknown>} params @param {string} [dialog]
   * @returns {Order}
   */
  #order(tab, method, params, dialog) {
    return {
      by: "system",
      kind: "cdp",
      epoch: this.#gate.epoch,
      port: null,
      tab,
      frame: 0,
      document: "",
      method,
      params,
      monoMs: this.#browser.monoMs() + ONE_DAY,
      wallMs: this.#browser.wallMs() + ONE_DAY,
      action: "",
      seq: 0,
      effect: false,
      script: false,
      dialog
    };
  }
  /** @param {Session} session */
  #crashed(session) {
    if (this.#documents.dead(session.tab)) return;
    const open = [...session.open.values()];
    session.open.clear();
    session.keys.clear();
    session.buttons.clear();
    session.paused.clear();
    session.shown = null;
    for (const crashed of open) crashed(refuse("unavailable", "the page’s renderer crashed"));
    this.#events.crashed(session.tab);
    if (session.leaving) void this.#leave(session);
  }
  /**
   * What was asked of a child that has ended is never answered.
   * @param {Session} session @param {string} child @param {string} why
   */
  #childEnded(session, child, why) {
    for (const [order, ended] of session.open) {
      if (order.session !== child) continue;
      session.open.delete(order);
      ended(refuse("unavailable", why));
    }
  }
  /** @param {Session} session @param {Refusal} error */
  #drop(session, error) {
    if (this.#sessions.get(session.tab) === session) this.#sessions.delete(session.tab);
    this.#fail(session, error);
  }
  /** @param {Session} session @param {Refusal} error */
  #fail(session, error) {
    for (const { fail } of session.queue.splice(0)) fail(error);
  }
};

// state.js
var whole = (value) => Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0;
var Memory = class {
  /** @type {Mark} */
  mark = { epoch: 0, seq: 0, person: false };
  /** @type {Hold | null} */
  hold = null;
  #browser;
  /** What storage.session has, as JSON. */
  #stored = "";
  /** @type {() => Record<string, unknown>} */
  #session = () => ({});
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @param {import('./browser.js').Browser} browser */
  constructor(browser2) {
    this.#browser = browser2;
  }
  /**
   * Reads both storages. A hold that was set while it ran stays: it is the newer one.
   * @returns {Promise<Record<string, any>>} what storage.session had
   */
  async load() {
    const [local, session] = await Promise.all([
      this.#browser.loadLocal(["mark", "hold"]),
      this.#browser.loadSession(["run", "anew", "ledger", "scripts", "groups", "starts", "apart", "probes"])
    ]);
    const mark = (
      /** @type {any} */
      local.mark
    );
    this.mark = {
      epoch: Math.max(this.mark.epoch, whole(mark?.epoch)),
      seq: Math.max(this.mark.seq, whole(mark?.seq)),
      person: mark?.person === true
    };
    const hold = (
      /** @type {any} */
      local.hold
    );
    if (!this.hold && typeof hold?.id === "string" && hold.id) {
      this.hold = session.run === true ? hold : { id: hold.id, since_ms: hold.since_ms };
    }
    return session;
  }
  /**
   * Notes an epoch and the journal entry that came with it; neither goes down.
   * @param {number} epoch @param {number} seq @param {boolean} [person]
   */
  see(epoch, seq, person = this.mark.person) {
    const { mark } = this;
    const next = { epoch: Math.max(mark.epoch, epoch), seq: Math.max(mark.seq, seq), person };
    if (next.epoch === mark.epoch && next.seq === mark.seq && next.person === mark.person) return;
    this.mark = next;
    this.#save(this.#browser.saveLocal({ mark: next }));
  }
  /**
   * Notes a journal entry for this life of the worker; it is stored with the next change
   * of the mark. Another life does not vouch for what this one has forgotten.
   * @param {number} seq
   */
  know(seq) {
    this.mark = { ...this.mark, seq: Math.max(this.mark.seq, seq) };
  }
  /** @param {Hold} hold */
  setHold(hold) {
    this.hold = hold;
    this.#save(this.#browser.saveLocal({ hold }));
  }
  /**
   * Clears the hold that a fence answers, and no other.
   * @param {string | undefined} id
   * @returns {boolean}
   */
  clearHold(id) {
    if (!this.hold || !id || this.hold.id !== id) return false;
    this.hold = null;
    this.#save(this.#browser.saveLocal({ hold: null }));
    return true;
  }
  /** @param {() => Record<string, unknown>} session what to store, asked when it is due */
  keep(session) {
    this.#session = session;
  }
  /** Something of the session's changed; it is stored soon. */
  touch() {
    this.#timer ??= setTimeout(() => {
      this.#timer = void 0;
      this.store();
    }, STORE_MS);
  }
  /** Stores it in this turn, so that it is not lost with the worker. */
  store() {
    const session = this.#session();
    const text = JSON.stringify(session);
    if (text === this.#stored) return;
    this.#stored = text;
    this.#save(this.#browser.saveSession(session));
  }
  /** Stores it now, for what must not be done before. */
  async flush() {
    const session = this.#session();
    this.#stored = JSON.stringify(session);
    await this.#browser.saveSession(session);
  }
  /** @param {Promise<unknown>} write */
  #save(write) {
    write.catch((error) => {
      this.#stored = "";
      note("could not store", error);
    });
  }
};

// traffic.js
var Traffic = class {
  /** @type {Map<number, {seen: Seen[], more: number}>} */
  #tabs = /* @__PURE__ */ new Map();
  /** Requests under way. @type {Map<string, Seen>} */
  #open = /* @__PURE__ */ new Map();
  #epoch = 0;
  #gate;
  #mine;
  /**
   * @param {import('./gate.js').Gate} gate
   * @param {import('./tabs.js').Tabs} tabs
   */
  constructor(gate, tabs) {
    this.#gate = gate;
    this.#mine = tabs;
  }
  /** @param {any} details of webRequest.onBeforeRequest */
  began({ requestId, tabId, type, method, url, initiator, timeStamp }) {
    const epoch = this.#gate.grant?.epoch ?? 0;
    if (epoch !== this.#epoch) this.clear(epoch);
    if (epoch === 0 || !this.#mine.visible(tabId)) return;
    if (type === "main_frame") this.#tabs.set(tabId, { seen: [], more: 0 });
    if (!this.#mine.allowed(type === "main_frame" ? url : initiator ?? url)) return;
    const list = this.#tabs.get(tabId) ?? { seen: [], more: 0 };
    this.#tabs.set(tabId, list);
    if (list.seen.length >= MAX_TRAFFIC) {
      list.seen.shift();
      list.more++;
    }
    const seen = {
      method: String(method).slice(0, MAX_WORD),
      url: String(url).split("#")[0].slice(0, MAX_URL),
      type: String(type).slice(0, MAX_WORD),
      state: "in_flight",
      status: 0,
      error: "",
      at: Math.round(timeStamp),
      ms: 0
    };
    list.seen.push(seen);
    if (this.#open.size < MAX_REQUESTS) this.#open.set(requestId, seen);
    else Object.assign(seen, { state: "failed", error: UNHEARD });
  }
  /** @param {any} details of webRequest.onResponseStarted or onBeforeRedirect */
  answered({ requestId, statusCode, timeStamp }) {
    this.#ended(requestId, timeStamp, { state: "answered", status: statusCode });
  }
  /** @param {any} details of webRequest.onErrorOccurred */
  failed({ requestId, error, timeStamp }) {
    this.#ended(requestId, timeStamp, { state: "failed", error: String(error).slice(0, MAX_ERROR) });
  }
  /** @param {string} requestId @param {number} at @param {Partial<Seen>} end */
  #ended(requestId, at, end) {
    const seen = this.#open.get(requestId);
    if (!seen) return;
    this.#open.delete(requestId);
    Object.assign(seen, end, { ms: Math.max(0, Math.round(at - seen.at)) });
  }
  /** What was seen of a tab's page under the grant in force. @param {number} tab */
  of(tab) {
    const { seen, more } = this.#gate.grant?.epoch === this.#epoch && this.#tabs.get(tab) || { seen: [], more: 0 };
    return { requests: seen, more };
  }
  /** @param {number} [epoch] the one that is kept from here on */
  clear(epoch = 0) {
    this.#epoch = epoch;
    this.#tabs.clear();
    this.#open.clear();
  }
};

// watch.js
var ANYWHERE = /* @__PURE__ */ new Set([
  "Inspector.targetCrashed",
  "Page.frameStartedLoading",
  "Page.frameStoppedLoading",
  "Page.lifecycleEvent",
  "Page.domContentEventFired",
  "Page.loadEventFired",
  "Page.frameDetached",
  "Runtime.executionContextDestroyed",
  "Runtime.executionContextsCleared",
  "Target.detachedFromTarget"
]);
var SECRET_HEADER = /^(cookie2?|set-cookie2?|(proxy-)?authorization)$/i;
var HELD = /* @__PURE__ */ new Set(["Fetch.requestPaused", "Fetch.authRequired"]);
var NAME_TURNS = 50;
var NAME_MS = 20;
function withoutSecrets(headers) {
  if (!headers) return headers;
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !SECRET_HEADER.test(name)));
}
function clean(method, params) {
  switch (method) {
    case "Network.requestWillBeSentExtraInfo":
      return { ...params, headers: withoutSecrets(params.headers), associatedCookies: [] };
    case "Network.responseReceivedExtraInfo":
      return { ...params, headers: withoutSecrets(params.headers), headersText: void 0, blockedCookies: [], exemptedCookies: [] };
    case "Network.webSocketWillSendHandshakeRequest":
      return { ...params, request: { ...params.request, headers: withoutSecrets(params.request?.headers) } };
    case "Network.webSocketHandshakeResponseReceived":
      return {
        ...params,
        response: {
          ...params.response,
          headers: withoutSecrets(params.response?.headers),
          headersText: void 0,
          requestHeaders: withoutSecrets(params.response?.requestHeaders),
          requestHeadersText: void 0
        }
      };
    case "Fetch.requestPaused":
    case "Fetch.authRequired":
      return {
        ...params,
        request: { ...params.request, headers: withoutSecrets(params.request?.headers) },
        ...params.responseHeaders && { responseHeaders: params.responseHeaders.filter((one) => !SECRET_HEADER.test(one.name)) }
      };
    default:
      return params;
  }
}
var Watch = class {
  #epoch = 0;
  /** What was last told of each tab. @type {Map<number, string>} */
  #told = /* @__PURE__ */ new Map();
  /** The browser's names of tabs. @type {Map<number, string>} */
  #names = /* @__PURE__ */ new Map();
  #browser;
  #gate;
  #tabs;
  #documents;
  #sessions;
  #send;
  /**
   * @param {object} parts
   * @param {import('./browser.js').Browser} parts.browser
   * @param {import('./gate.js').Gate} parts.gate
   * @param {import('./tabs.js').Tabs} parts.tabs
   * @param {import('./documents.js').Documents} parts.documents
   * @param {import('./sessions.js').Sessions} parts.sessions
   * @param {(message: any) => void} parts.send
   */
  constructor({ browser: browser2, gate, tabs, documents, sessions, send }) {
    this.#browser = browser2;
    this.#gate = gate;
    this.#tabs = tabs;
    this.#documents = documents;
    this.#sessions = sessions;
    this.#send = send;
  }
  /**
   * A client of this epoch listens. It is told of all tabs, also if one listened before.
   * @param {number} epoch
   */
  async begin(epoch) {
    this.#epoch = epoch;
    this.#told.clear();
    await this.#learn();
    for (const { tab } of this.#tabs.all()) this.#tell(tab);
  }
  /** Whether a client of the epoch in force listens. */
  listens() {
    return this.#open();
  }
  /** Nobody listens any more: a fence, or the end of the link. */
  end() {
    this.#epoch = 0;
    this.#told.clear();
  }
  /** Whether anything may be told in this turn. */
  #open() {
    const { epoch, grant, hold, linked } = this.#gate;
    return this.#epoch !== 0 && linked && !hold && epoch === this.#epoch && grant?.epoch === this.#epoch;
  }
  /**
   * @param {number} tab @param {string} child @param {string} method @param {any} params
   */
  event(tab, child, method, params) {
    if (!this.#open() || !this.#told.has(tab) || !this.#tabs.visible(tab)) return;
    if (!this.#tabs.allowed(this.#url(tab)) && !ANYWHERE.has(method)) {
      if (method !== "Page.frameNavigated") return;
      params = this.#elsewhere(params);
    }
    const frame = child ? this.#sessions.child(tab, child) ?? "" : "";
    if (isPlace(frame) && !this.#tabs.allowed(frame) && !ANYWHERE.has(method)) return;
    if (HELD.has(method) && !this.#sessions.paused(tab, child, params.requestId)) return;
    const message = {
      t: "cdp.event",
      epoch: this.#epoch,
      tab,
      document: this.#documents.current(tab),
      method,
      params: clean(method, params)
    };
    if (child) message.session = child;
    this.#send(message);
  }
  /** What clients had of a tab's debugging has ended. @param {number} tab */
  lost(tab) {
    if (this.#open() && this.#told.has(tab)) this.#send({ t: "cdp.lost", epoch: this.#epoch, tab });
  }
  /**
   * Whether the lease's client may hold back a request: it is told of the page, and the
   * request is for one of the origins.
   * @param {number} tab @param {string} child @param {string} url
   */
  holds(tab, child, url) {
    const { grant } = this.#gate;
    if (!grant || this.#browser.monoMs() >= grant.monoMs || this.#browser.wallMs() >= grant.wallMs) return false;
    if (!this.#open() || !this.#told.has(tab) || !this.#tabs.visible(tab) || !this.#tabs.allowed(this.#url(tab))) return false;
    const frame = child ? this.#sessions.child(tab, child) ?? "" : "";
    return (!isPlace(frame) || this.#tabs.allowed(frame)) && isWeb(url) && this.#tabs.allowed(url);
  }
  /** That a page beyond the origins has come is told, and of its address the origin alone. @param {any} params */
  #elsewhere(params) {
    let origin = "";
    try {
      ({ origin } = new URL(params.frame.url));
    } catch {
    }
    const { id, parentId, loaderId, mimeType } = params.frame;
    return {
      type: params.type,
      frame: {
        id,
        parentId,
        loaderId,
        url: `${origin}/`,
        domainAndRegistry: "",
        securityOrigin: origin,
        mimeType,
        secureContextType: "InsecureScheme",
        crossOriginIsolatedContextType: "NotIsolated",
        gatedAPIFeatures: []
      }
    };
  }
  /**
   * Something of a tab may have changed.
   * @param {number} tab
   */
  async look(tab) {
    if (!this.#open()) return;
    for (let turn = 0; turn < NAME_TURNS && !this.#names.has(tab) && this.#tabs.visible(tab); turn++) {
      if (turn > 0) await new Promise((resolve) => setTimeout(resolve, NAME_MS));
      await this.#learn();
    }
    this.#tell(tab);
  }
  /** @param {number} tab */
  removed(tab) {
    const target = this.#names.get(tab) ?? "";
    this.#names.delete(tab);
    if (!this.#told.delete(tab) || !this.#open()) return;
    this.#send({ t: "cdp.tab", epoch: this.#epoch, tab, target, url: "", title: "", document: "", owned: false, gone: true });
  }
  async #learn() {
    try {
      for (const { id, tabId, type } of await this.#browser.debugTargets()) {
        if (tabId && type === "page") this.#names.set(tabId, id);
      }
    } catch (error) {
      note("could not list debugger targets", error);
    }
  }
  /** @param {number} tab */
  #url(tab) {
    return this.#documents.url(tab) || this.#tabs.get(tab)?.url || "";
  }
  /** @param {number} tab */
  #tell(tab) {
    const target = this.#names.get(tab);
    if (!target || !this.#open() || !this.#tabs.visible(tab)) return;
    const url = this.#url(tab);
    const allowed = this.#tabs.allowed(url);
    if (!allowed && !this.#told.has(tab)) return;
    const message = {
      t: "cdp.tab",
      epoch: this.#epoch,
      tab,
      target,
      url: allowed ? isNewTab(url) || !url ? "about:blank" : url : "",
      title: allowed ? (this.#tabs.get(tab)?.title ?? "").slice(0, MAX_TITLE) : "",
      document: this.#documents.current(tab),
      owned: this.#tabs.owns(tab)
    };
    const opener = this.#names.get(this.#tabs.openerOf(tab));
    if (opener) message.opener = opener;
    const text = JSON.stringify(message);
    if (this.#told.get(tab) === text) return;
    this.#told.set(tab, text);
    this.#send(message);
  }
};

// workers.js
var MADE = /^(blob|data):/;
var named = (id) => `worker:${id}`;
var Workers = class {
  /** Those that were told: the browser's names of them. @type {Set<string>} */
  #told = /* @__PURE__ */ new Set();
  /** @type {ReturnType<typeof setTimeout> | null} */
  #looking = null;
  #browser;
  #gate;
  #found;
  #ended;
  /**
   * @param {import('./browser.js').Browser} browser @param {import('./gate.js').Gate} gate
   * @param {(document: string, url: string) => void} found @param {(document: string) => void} ended
   */
  constructor(browser2, gate, found, ended) {
    this.#browser = browser2;
    this.#gate = gate;
    this.#found = found;
    this.#ended = ended;
  }
  /** @returns {Promise<{id: string, url: string}[]>} */
  async #there() {
    const all = await this.#browser.debugTargets();
    return all.filter(({ type, url }) => type === "worker" && MADE.test(url));
  }
  /**
   * Tells of those that are there now, once more of those that were told.
   * @returns {Promise<boolean>} whether there are new ones
   */
  async tell() {
    const known = this.#told.size;
    for (const { id, url } of await this.#there()) {
      this.#told.add(id);
      this.#found(named(id), withoutQuery(url));
    }
    this.#again();
    return this.#told.size > known;
  }
  /** For storing. */
  names() {
    return [...this.#told];
  }
  /** @param {unknown} stored what a former life of the extension's worker has told */
  restore(stored) {
    if (Array.isArray(stored)) for (const id of stored) this.#told.add(String(id));
    this.#again();
  }
  /** Ends all that were told. That they have gone is seen, not taken for granted. */
  async end() {
    await Promise.all([...this.#told].map((id) => this.#close(id).catch((error) => note("a worker was not ended", error))));
    await this.#look();
  }
  /** The gate decides in the turn in which the worker is told to end. @param {string} id */
  async #close(id) {
    await this.#browser.attachWorker(id);
    const { refused, sent } = this.#gate.dispatch({
      by: "system",
      kind: "worker_close",
      epoch: this.#gate.epoch,
      port: null,
      tab: 0,
      frame: 0,
      document: "",
      method: "",
      params: { target: id },
      monoMs: Infinity,
      wallMs: Infinity,
      action: "",
      seq: 0,
      effect: false,
      script: false
    });
    if (refused) note("a worker was not ended", refused.message);
    const late = new Promise((resolve) => setTimeout(resolve, LEAVE_MS));
    await Promise.race([late, sent]).catch(() => {
    });
    await this.#browser.detachWorker(id).catch(() => {
    });
  }
  #again() {
    if (this.#told.size > 0) this.#looking ??= setTimeout(() => void this.#look(), WORKER_LOOK_MS);
  }
  async #look() {
    if (this.#looking) clearTimeout(this.#looking);
    this.#looking = null;
    const there = await this.#there().catch(() => null);
    if (there) {
      const ids = new Set(there.map(({ id }) => id));
      for (const id of [...this.#told]) {
        if (ids.has(id)) continue;
        this.#told.delete(id);
        this.#ended(named(id));
      }
    }
    this.#again();
  }
};

// dock.js
var CRASH_AGAIN_MS = 500;
var FLOODED = "the page’s events came faster than they could be passed on, so its debugging was ended";
var Dock = class {
  /** One life of the worker. */
  #instance;
  /** The epoch last granted to this life, 0 if none. */
  #granted = 0;
  /** This run of the browser has just begun, or what was known of it is gone, and no daemon has recorded that yet. */
  #anew = false;
  /** The epoch for which the visible tabs were worked out. */
  #lent = 0;
  /** Entries with news, and since when. @type {Map<Entry, number>} */
  #dirty = /* @__PURE__ */ new Map();
  /** The rev of each action that this link's daemon has. @type {Map<string, number>} */
  #told = /* @__PURE__ */ new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #reporting;
  /** The hold that this link's hello carried. @type {import('./gen/wire.js').Hold | null} */
  #helloHold = null;
  /** Tabs that were made before it was known who holds; null from then on. @type {Set<number> | null} */
  #early = /* @__PURE__ */ new Set();
  /** Ends of documents that no daemon has been told. @type {Map<string, string>} */
  #ends = /* @__PURE__ */ new Map();
  #pageStops = 0;
  #browser;
  /** @param {import('./browser.js').Browser} browser */
  constructor(browser2) {
    this.#browser = browser2;
    this.#instance = browser2.uuid();
    this.memory = new Memory(browser2);
    this.tabs = new Tabs();
    this.documents = new Documents(browser2, {
      replaced: (tab, before, after) => this.#replaced(tab, before, after),
      revived: (tab) => this.sessions.revived(tab),
      ended: (document2, how) => this.#documentEnded(document2, how),
      spread: () => this.memory.store()
    });
    this.ledger = new Ledger(browser2.wallMs, (entry) => this.#changed(entry));
    this.gate = new Gate(browser2, {
      visible: (tab) => this.tabs.visible(tab),
      owns: (tab) => this.tabs.owns(tab),
      probes: (tab) => this.probe.mine(tab),
      allowed: (url) => this.tabs.allowed(url),
      dead: (tab) => this.documents.dead(tab),
      url: (tab) => this.documents.url(tab) || this.tabs.get(tab)?.url || "",
      child: (tab, session) => this.sessions.child(tab, session),
      mainFrame: (tab) => this.sessions.mainFrame(tab),
      document: (tab, frame) => this.documents.current(tab, frame),
      domain: (name) => this.tabs.domain(name),
      paused: (tab, session, request) => this.sessions.paused(tab, session, request),
      listed: (target) => this.workers.names().some((one) => one === target),
      room: (action) => this.ledger.room(action)
    });
    this.sessions = new Sessions(browser2, this.gate, this.documents, {
      crashed: (tab) => this.#crashed(tab),
      asked: (tab) => this.ledger.asked(this.documents.current(tab)),
      unloaded: (tab) => this.tabs.get(tab)?.unloaded ?? false,
      dialog: (tab) => this.commands.dialog(tab),
      // Somebody at the browser ended the debugging: that is a person interrupting.
      canceled: () => this.people.takeOver(0),
      holds: (tab, child, url) => this.watch.holds(tab, child, url)
    });
    this.flood = new Flood(browser2, (tab) => {
      this.watch.lost(tab);
      void this.sessions.letGo(tab, refuse("unavailable", FLOODED, "have the page say less, or listen to less of it; the next command attaches anew"));
    });
    this.workers = new Workers(browser2, this.gate, (document2, url) => void this.link.send({ t: "document.found", document: document2, url }), (document2) => this.#endOf(document2, "closed"));
    this.evidence = new Evidence(this.ledger, this.documents);
    this.traffic = new Traffic(this.gate, this.tabs);
    this.link = new Link(browser2, {
      up: (port) => this.#up(port),
      down: (reason, error) => this.#down(reason, error),
      message: (message, port) => this.#receive(message, port)
    });
    this.grants = new Grants(browser2, (ask) => this.link.send({ t: "pull", ask }));
    const { gate, ledger, documents, tabs, sessions, memory, link } = this;
    this.drain = new Drain({ browser: browser2, gate, ledger, documents, tabs, sessions, last: () => this.#tellWorkers() });
    this.probe = new Probe({ browser: browser2, gate, documents, sessions, tabs, memory, send: (result) => void link.send(result) });
    const answer = (port, message) => void this.link.answer(port, message);
    this.watch = new Watch({ browser: browser2, gate, tabs, documents, sessions, send: (message) => void link.send(message) });
    this.commands = new Commands({ browser: browser2, gate, ledger, documents, tabs, sessions, watch: this.watch, traffic: this.traffic, answer, store: () => memory.store() });
    this.people = new People({ browser: browser2, gate, memory, link, ledger, stopList: () => this.#stopList(), held: () => this.sessions.letRequestsGo() });
  }
  /**
   * Registers every listener, in the worker's first turn, and begins.
   * @returns {Promise<void>} when it is ready for a link
   */
  start() {
    const { on } = this.#browser;
    on.alarm(() => void this.#ready.then(() => this.link.start()));
    on.startup(() => {
    });
    on.installed(() => {
    });
    on.connect((port) => this.people.connect(port));
    on.debuggerEvent((tab, child, method, params) => {
      if (this.sessions.attached(tab)) this.flood.event(tab, method, params);
      if (!this.sessions.attached(tab)) return;
      this.sessions.event(tab, child, method, params);
      this.watch.event(tab, child, method, params);
    });
    on.debuggerDetach((tab, reason) => this.sessions.detached(tab, reason));
    on.committed((details) => {
      this.documents.committed(details);
      if (details.frameId !== 0) return;
      this.evidence.committed(details.tabId);
      void this.watch.look(details.tabId);
    });
    on.navigationError((details) => void this.documents.failed(details));
    on.sameDocument((details) => {
      this.documents.moved(details);
      if (details.frameId === 0) void this.watch.look(details.tabId);
    });
    on.navigationTarget(({ sourceTabId, tabId }) => {
      this.evidence.opened(tabId, sourceTabId);
      this.tabs.openedBy(sourceTabId, tabId);
      this.documents.opened(tabId, sourceTabId);
      void this.watch.look(tabId);
    });
    on.tabCreated((tab) => this.#tabCreated(tab));
    on.tabUpdated((_, __, tab) => {
      this.tabs.put(tab);
      void this.watch.look(tab.id ?? 0);
    });
    on.tabRemoved((tab) => this.#tabRemoved(tab));
    on.tabActivated((tab, window) => this.tabs.activated(tab, window));
    on.tabReplaced((added, removed) => {
      if (this.tabs.isApart(removed)) this.tabs.setApart(added);
      this.probe.replaced(added, removed);
      this.#tabRemoved(removed);
      void this.documents.refresh(added);
    });
    on.windowFocused((window) => this.tabs.focused(window));
    on.request((details) => {
      this.evidence.began(details);
      this.traffic.began(details);
    });
    on.redirect((details) => {
      this.evidence.redirected(details);
      this.traffic.answered(details);
    });
    on.response((details) => {
      this.evidence.answered(details);
      this.traffic.answered(details);
    });
    on.requestError((details) => {
      this.evidence.failed(details);
      this.traffic.failed(details);
    });
    on.downloadCreated((item) => this.evidence.downloadBegan(item));
    on.downloadChanged((delta) => this.evidence.downloadChanged(delta));
    this.#ready = this.#prepare();
    return this.#ready;
  }
  #ready = Promise.resolve();
  async #prepare() {
    const begin = (stored2) => {
      this.link.start(Number.isInteger(stored2.starts) ? stored2.starts : 0);
      return stored2;
    };
    const [stored, tabs] = await Promise.all([this.memory.load().then(begin), this.#browser.tabs()]);
    for (const tab of tabs) this.tabs.put(tab);
    const learnt = (error) => note("could not look into a tab", error);
    await Promise.all(this.tabs.all().map(({ tab }) => this.documents.learn(tab).catch(learnt)));
    this.#anew = stored.run !== true || stored.anew === true;
    this.ledger.restore(stored.ledger);
    this.documents.restore(stored.scripts, stored.groups, stored.scripted === true);
    this.workers.restore(stored.workers);
    if (Array.isArray(stored.apart)) for (const tab of stored.apart) this.tabs.setApart(tab);
    if (stored.run === true && this.#personHolds()) for (const tab of this.#early ?? []) this.tabs.setApart(tab);
    this.#early = null;
    this.memory.keep(() => ({
      run: true,
      anew: this.#anew,
      ledger: this.ledger.snapshot(),
      scripts: this.documents.scripts(),
      groups: this.documents.groups(),
      starts: this.link.attempt,
      scripted: this.documents.everScripted(),
      workers: this.workers.names(),
      apart: this.tabs.apart(),
      probes: this.probe.tabs()
    }));
    this.memory.touch();
    this.gate.hold = this.memory.hold;
    if (this.memory.mark.epoch > 0) this.gate.raise(this.memory.mark.epoch);
    this.probe.restore(stored.probes);
    await this.sessions.adopt().catch((error) => note("could not list debugger targets", error));
    await Promise.resolve(this.#browser.wakeEveryHalfMinute()).catch((error) => note("alarm", error));
    this.link.ready();
  }
  // The link.
  /** @param {unknown} port */
  #up(port) {
    this.gate.port = port;
    this.grants.reset();
    this.#dirty.clear();
    this.#told.clear();
    const hello = {
      t: "hello",
      version: VERSION2,
      build: BUILD,
      instance: this.#instance,
      mark: this.memory.mark,
      granted: this.#granted,
      actions: this.ledger.reports().map((action) => this.#tell(action))
    };
    this.#helloHold = this.memory.hold;
    if (this.#helloHold) hello.hold = this.#helloHold;
    if (this.#anew) hello.anew = true;
    this.link.send(hello);
  }
  /** @param {string} reason @param {import('./refusal.js').Refusal | null} error */
  #down(reason, error) {
    this.gate.linked = false;
    this.gate.port = null;
    this.gate.close();
    this.probe.cut();
    this.watch.end();
    this.sessions.letRequestsGo();
    this.grants.reset();
    this.people.linkIs("down", reason, error);
    this.memory.touch();
  }
  /** @param {import('./link.js').Message} message @param {unknown} port */
  #receive(message, port) {
    switch (message.t) {
      case "cmd":
        this.commands.take(message, port);
        return;
      case "welcome":
        this.#welcome(message);
        return;
      case "fence":
        this.#fence(
          /** @type {any} */
          message
        );
        return;
      case "poke":
        this.grants.poked();
        return;
      case "grant":
        this.#grant(message);
        return;
      case "forget":
        this.memory.know(message.seq ?? 0);
        this.ledger.forget(message.actions ?? []);
        for (const action of message.actions ?? []) this.#told.delete(action);
        this.memory.touch();
        return;
      case "probe":
        this.probe.take(message);
        return;
      case "stop.page":
        void this.#stopPage(message);
        return;
      case "stop.prepare":
        void this.#stopPrepare();
        return;
      case "person.reply":
        this.people.replied(
          /** @type {any} */
          message
        );
        return;
      case "ui":
        this.people.show(message.status);
        return;
      default:
        note(`dropped ${message.t}: it is not for the extension`);
    }
  }
  /** @param {any} welcome */
  #welcome({ epoch, seq, apart }) {
    this.gate.linked = true;
    this.gate.raise(epoch);
    this.memory.see(epoch, seq);
    if (apart) for (const { tab } of this.tabs.all()) this.tabs.setApart(tab);
    if (this.#anew) {
      this.#anew = false;
      this.memory.store();
    }
    this.memory.touch();
    this.people.linkIs("up");
    this.people.tell(this.#helloHold);
    const ends = [...this.#ends];
    this.#ends.clear();
    void this.#tellWorkers().then(() => {
      for (const [document2, how] of ends) this.#endOf(document2, how);
    });
  }
  /**
   * Everything up to the answer happens in this one turn: from its end on, nothing
   * of an older epoch can be dispatched (I4).
   * @param {Fence} fence
   */
  #fence(fence) {
    if (!this.gate.raise(fence.epoch)) {
      note(`refused a fence at epoch ${fence.epoch}: it is below ${this.gate.epoch}`);
      return;
    }
    this.gate.close();
    this.probe.cut();
    this.watch.end();
    this.traffic.clear();
    this.grants.stop();
    this.tabs.withdraw();
    this.#lent = 0;
    const answersHold = this.memory.clearHold(fence.hold);
    if (answersHold) this.gate.hold = null;
    this.ledger.fence(fence.epoch, fence.watch_ms);
    const documents = this.drain.begin(fence);
    const actions = this.ledger.unsettled(fence.epoch, (document2) => this.documents.scripted(document2)).map((action) => this.#tell(action));
    this.link.send({
      t: "fenced",
      epoch: fence.epoch,
      instance: this.#instance,
      granted: this.#granted,
      actions,
      documents
    });
    this.memory.see(fence.epoch, fence.seq, fence.person);
    this.people.changed();
    void this.#settle(fence);
  }
  /** @param {Fence} fence */
  async #settle(fence) {
    const documents = await this.drain.settle(fence);
    if (!documents) return;
    const actions = this.ledger.reports(fence.epoch).map((action) => this.#tell(action));
    this.link.send({ t: "drained", epoch: fence.epoch, actions, documents });
    if (this.#pageStops === 0) await this.sessions.detachAll();
  }
  /** @param {any} grant */
  #grant(grant) {
    if (grant.epoch === 0) {
      this.gate.close();
      this.grants.stop();
      return;
    }
    const end = this.grants.ends(grant);
    if (!end) {
      note("dropped a grant: it answers nothing that was asked, or comes too late");
      return;
    }
    if (this.gate.hold || !this.gate.raise(grant.epoch)) {
      note(`refused a grant of epoch ${grant.epoch}`);
      return;
    }
    const before = this.gate.grant;
    this.gate.grant = { epoch: grant.epoch, lease: grant.lease, watchMs: grant.watch_ms, allow: grant.allow ?? [], ...end };
    this.grants.renewWithin(grant.ttl_ms);
    if (before?.epoch === grant.epoch) return;
    this.probe.cut();
    if (this.drain.running) {
      this.drain.cancel();
      this.ledger.lost(grant.epoch);
      void this.sessions.detachAll();
    }
    if (this.#lent !== grant.epoch) this.tabs.lend(grant.origins ?? [], (tab) => this.documents.url(tab));
    this.#lent = this.#granted = grant.epoch;
    this.gate.stopping = false;
    this.memory.see(grant.epoch, 0);
    this.link.send({ t: "granted", epoch: grant.epoch });
  }
  // What is learnt.
  /** @param {Entry} entry */
  #changed(entry) {
    if (!this.#dirty.has(entry)) this.#dirty.set(entry, this.#browser.monoMs());
    this.memory.touch();
    if (entry.how === "barrier" && entry.requests.size > 0 && !this.#told.has(entry.action)) this.#report(entry);
    this.#reporting ??= setTimeout(() => this.#flush(), REPORT_MS);
  }
  /** Without a link there is nobody to tell; the next hello carries all of it. @param {Entry} entry */
  #report(entry) {
    if (!this.link.welcomed || this.ledger.get(entry.action) !== entry) return;
    if (this.#told.get(entry.action) !== entry.rev) this.link.send({ t: "report", action: this.#tell(report(entry)) });
  }
  /** Sends what has changed. An action under way is told of less often: it changes with each step. */
  #flush() {
    this.#reporting = void 0;
    const now = this.#browser.monoMs();
    for (const [entry, since] of this.#dirty) {
      if (entry.how === "open" && now - since < UNDER_WAY_MS) continue;
      this.#dirty.delete(entry);
      if (quiet(entry) && !this.#told.has(entry.action)) continue;
      this.#report(entry);
    }
    if (this.#dirty.size > 0) this.#reporting = setTimeout(() => this.#flush(), REPORT_MS);
    this.people.changed();
  }
  /**
   * Remembers which state of an action the daemon has, so that it is not told twice.
   * @param {import('./ledger.js').ActionReport} action
   */
  #tell(action) {
    this.#told.set(action.action, action.rev);
    return action;
  }
  /** @param {number} tab @param {string} before @param {string} after '' if the tab is gone */
  #replaced(tab, before, after) {
    this.ledger.replaced(tab, before);
    if (!after) return;
    this.documents.arrived(tab, after);
    if (this.sessions.everyDocument(tab) && this.documents.script(tab, after)) this.memory.store();
  }
  /** @param {string} document @param {string} how */
  #documentEnded(document2, how) {
    this.memory.touch();
    void this.#tellWorkers().then(() => this.#endOf(document2, how));
  }
  /** What may run an agent's code without a page. */
  async #tellWorkers() {
    if (!this.link.welcomed || !this.documents.everScripted()) return;
    const more = await this.workers.tell().catch((error) => note("could not list workers", error));
    if (more) this.memory.store();
  }
  /** @param {string} document @param {string} how */
  #endOf(document2, how) {
    if (this.link.welcomed) this.#sendEnd(document2, how);
    else this.#ends.set(document2, how);
  }
  /** @param {string} document @param {string} how */
  #sendEnd(document2, how) {
    this.link.send({ t: "document.ended", document: document2, how });
  }
  /** @param {number} tab */
  #crashed(tab) {
    const gone = this.documents.crashed(tab);
    this.ledger.ended(gone);
    this.drain.ended(gone);
  }
  /** @param {any} tab */
  #tabCreated(tab) {
    this.#early?.add(tab.id);
    const probes = this.probe.made(tab);
    if (probes || this.#personHolds()) {
      this.tabs.setApart(tab.id);
      this.memory.touch();
    }
    this.tabs.created(tab);
    if (typeof tab.openerTabId === "number") this.evidence.opened(tab.id, tab.openerTabId);
    else if (!probes && this.ledger.tabMade(tab.id)) this.tabs.own(tab.id);
    void this.watch.look(tab.id);
  }
  #personHolds() {
    return this.memory.hold !== null || this.memory.mark.person;
  }
  /** @param {number} tab */
  #tabRemoved(tab) {
    this.watch.removed(tab);
    this.tabs.removed(tab);
    this.probe.removed(tab);
    this.evidence.committed(tab);
    this.documents.removed(tab);
  }
  // Stopping.
  /**
   * The tabs that end with the pages that an agent's work reached: these, and those
   * that share a renderer process with them.
   */
  async #stopList() {
    const reached = /* @__PURE__ */ new Set([...this.drain.tabs(), ...this.sessions.tabs()]);
    for (const { tab } of this.documents.scripts()) reached.add(tab);
    for (const tab of this.probe.tabs()) reached.delete(tab);
    const processes = /* @__PURE__ */ new Map();
    await Promise.all(
      this.tabs.all().map(async ({ tab }) => {
        const frames = await this.#browser.frames(tab).catch(() => null);
        processes.set(tab, new Set((frames ?? []).map((frame) => frame.processId)));
      })
    );
    const ending = /* @__PURE__ */ new Set();
    for (const tab of reached) for (const process of processes.get(tab) ?? []) ending.add(process);
    return this.tabs.all().filter(({ tab }) => reached.has(tab) || [...processes.get(tab) ?? []].some((process) => ending.has(process))).map(({ tab, title, url }) => ({
      tab,
      title: title.slice(0, MAX_TITLE),
      url: withoutQuery(url),
      shares: !reached.has(tab)
    }));
  }
  /**
   * Ends the renderers of tabs. All are attached before the first is ended, so that
   * the end of one that shares a process is seen too.
   * @param {any} message
   */
  async #stopPage({ epoch, tabs }) {
    if (epoch !== this.gate.epoch) {
      note(`refused to stop pages under epoch ${epoch}`);
      return;
    }
    const named2 = (tabs ?? []).map((one) => one.tab);
    const scripts = this.documents.scripts().map((one) => one.tab);
    const list = new Set(named2.length ? named2 : [...this.drain.tabs(), ...scripts]);
    this.#pageStops++;
    const workers = named2.length === 0 ? this.workers.end() : Promise.resolve();
    try {
      const attach = (tab) => this.sessions.attach(tab).catch((error) => note("could not attach to stop a page", error));
      await Promise.all([...list].map(attach));
      const ended = (tab) => this.documents.dead(tab);
      for (let waited = 0; waited < CRASH_MS && ![...list].every(ended); waited += LOOK_MS) {
        if (waited % CRASH_AGAIN_MS === 0) {
          for (const tab of list) if (this.sessions.attached(tab) && !ended(tab)) void this.sessions.crash(tab);
        }
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
      await workers;
      this.people.stopped([...list].filter((tab) => !ended(tab)).length + this.workers.names().length);
    } finally {
      this.#pageStops--;
    }
    if (this.gate.epoch === epoch && !this.gate.grant && !this.drain.running && this.#pageStops === 0) {
      await this.sessions.detachAll();
    }
  }
  /** A dialog of beforeunload would keep the browser from a clean end: it is accepted. */
  async #stopPrepare() {
    this.gate.stopping = true;
    this.probe.cut();
    const attach = (tab) => this.sessions.attach(tab).catch((error) => note("could not attach for the stop", error));
    await Promise.all(this.tabs.all().map(({ tab }) => attach(tab)));
    this.link.send({ t: "stop.ready" });
  }
};

// worker.js
new Dock(browser).start().catch((error) => note("could not begin", error));
