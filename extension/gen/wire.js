// Written by daemon/wire/gen from package wire. Do not edit.

export const VERSION = 1;

/** Sizes in bytes, counts, and times in milliseconds. */
export const LIMITS = Object.freeze({
  MaxToExtension: 1048576,
  MaxFromExtension: 67108864,
  ChunkBytes: 655360,
  MaxMessage: 100663296,
  MaxFrame: 100663296,
  MaxBody: 16777216,
  MaxEvidence: 64,
  MaxEvents: 1000,
  MaxActions: 1000,
  MaxURL: 2048,
  MaxProbeText: 4096,
  MaxQueuedActions: 64,
  GrantTTL: 15000,
  FenceAck: 2000,
  DrainDeadline: 30000,
  WatchWindow: 5000,
  ClaimWithin: 5000,
  ActionDeadline: 30000,
  MaxActionDeadline: 600000,
  ProbeWait: 10000,
  HelloWithin: 5000,
});

const MAX_STRING = 65536;
const MAX_ARRAY = 4096;

const STRUCTS = Object.freeze({
  Refusal: {
    code: { kind: 'string' },
    message: { kind: 'string' },
    hint: { kind: 'string', optional: true },
    detail: { kind: 'map', optional: true, nullable: true, element: { kind: 'any' } },
  },
  Mark: {
    epoch: { kind: 'uint' },
    seq: { kind: 'int' },
    person: { kind: 'bool' },
  },
  Hold: {
    id: { kind: 'string' },
    since_ms: { kind: 'int' },
    stop_page: { kind: 'bool', optional: true },
    tabs: { kind: 'array', optional: true, nullable: true, element: { kind: 'object', struct: 'TabRef' } },
  },
  TabRef: {
    tab: { kind: 'int' },
    title: { kind: 'string', optional: true },
    url: { kind: 'string', optional: true },
  },
  ActionReport: {
    action: { kind: 'string' },
    epoch: { kind: 'uint' },
    rev: { kind: 'int' },
    dispatched: { kind: 'int' },
    open: { kind: 'int' },
    tab: { kind: 'int' },
    document: { kind: 'string' },
    script: { kind: 'bool' },
    how: { kind: 'string', enum: ['barrier', 'ended', 'lost', 'open'] },
    how_rule: { kind: 'string', optional: true },
    requests: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'RequestReport' } },
    more: { kind: 'int' },
    downloads: { kind: 'array', nullable: true, element: { kind: 'string' } },
  },
  RequestReport: {
    id: { kind: 'string' },
    method: { kind: 'string' },
    url: { kind: 'string' },
    type: { kind: 'string' },
    state: { kind: 'string', enum: ['in_flight', 'answered', 'failed'] },
    status: { kind: 'int' },
    error: { kind: 'string' },
    rule: { kind: 'string', enum: ['document', 'navigation', 'worker_origin'] },
    after_fence: { kind: 'bool' },
    began_ms: { kind: 'int' },
    ended_ms: { kind: 'int' },
  },
  Document: {
    document: { kind: 'string' },
    tab: { kind: 'int' },
    url: { kind: 'string' },
    why: { kind: 'string', enum: ['agent_script', 'input_pending'] },
    how: { kind: 'string', enum: ['barrier', 'ended', 'lost', 'open'] },
  },
  Expect: {
    tab: { kind: 'int', optional: true },
    frame: { kind: 'int', optional: true },
    document: { kind: 'string', optional: true },
  },
  Act: {
    verb: { kind: 'string' },
    selector: { kind: 'string', optional: true },
    ref: { kind: 'string', optional: true },
    text: { kind: 'string', optional: true },
    role: { kind: 'string', optional: true },
    name: { kind: 'string', optional: true },
    to_selector: { kind: 'string', optional: true },
    to_ref: { kind: 'string', optional: true },
    url: { kind: 'string', optional: true },
    value: { kind: 'string', optional: true, nullable: true, max: 16777216 },
    key: { kind: 'string', optional: true },
    checked: { kind: 'bool', optional: true, nullable: true },
    dx: { kind: 'number', optional: true },
    dy: { kind: 'number', optional: true },
    expression: { kind: 'string', optional: true, max: 16777216 },
    files: { kind: 'array', optional: true, nullable: true, element: { kind: 'string' } },
    state: { kind: 'string', optional: true },
    full_page: { kind: 'bool', optional: true },
    accept: { kind: 'bool', optional: true, nullable: true },
    op: { kind: 'string', optional: true },
    method: { kind: 'string', optional: true },
    params: { kind: 'any', optional: true },
  },
  Steps: {
    dispatched: { kind: 'int' },
    total: { kind: 'int' },
  },
  Status: {
    slot: { kind: 'string' },
    at: { kind: 'int' },
    binding: { kind: 'string' },
    authority: { kind: 'object', struct: 'AuthorityNow' },
    local: { kind: 'object', struct: 'LocalNow' },
    remote: { kind: 'object', struct: 'RemoteNow' },
    offer: { kind: 'object', struct: 'Offer' },
    quarantine: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'Reason' } },
    interrupted: { kind: 'object', optional: true, nullable: true, struct: 'Interrupt' },
    queue: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'Waiter' } },
    keys: { kind: 'array', optional: true, nullable: true, element: { kind: 'string' } },
    asks: { kind: 'array', optional: true, nullable: true, element: { kind: 'object', struct: 'AskNow' } },
    retentions: { kind: 'array', optional: true, nullable: true, element: { kind: 'object', struct: 'RetentionNow' } },
    sign_ins: { kind: 'array', optional: true, nullable: true, element: { kind: 'object', struct: 'SignIn' } },
    unclean: { kind: 'object', optional: true, nullable: true, struct: 'UncleanEnd' },
    probing: { kind: 'object', optional: true, nullable: true, struct: 'Probing' },
    sentences: { kind: 'object', struct: 'Sentences' },
  },
  AuthorityNow: {
    holder: { kind: 'object', struct: 'Holder' },
    epoch: { kind: 'uint' },
    lease: { kind: 'string', optional: true },
    expires_in_ms: { kind: 'int', optional: true },
    fence: { kind: 'string' },
    ready: { kind: 'bool' },
  },
  Holder: {
    kind: { kind: 'string' },
    name: { kind: 'string' },
  },
  LocalNow: {
    state: { kind: 'string' },
    commands: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'CommandNow' } },
    documents: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'DocNow' } },
    downloads: { kind: 'array', nullable: true, element: { kind: 'string' } },
    launch: { kind: 'object', optional: true, nullable: true, struct: 'LaunchNow' },
  },
  CommandNow: {
    action: { kind: 'string' },
    summary: { kind: 'string' },
    running_ms: { kind: 'int' },
    local: { kind: 'string' },
  },
  DocNow: {
    document: { kind: 'string' },
    tab: { kind: 'int' },
    url: { kind: 'string' },
    why: { kind: 'string' },
    agent: { kind: 'string' },
  },
  LaunchNow: {
    launch: { kind: 'string' },
    generation: { kind: 'int' },
    unit: { kind: 'string', optional: true },
    invocation_id: { kind: 'string', optional: true },
    containment: { kind: 'string' },
    state: { kind: 'string' },
    link: { kind: 'string' },
    debug: { kind: 'string', optional: true },
    packaging: { kind: 'string', optional: true },
    unprotected: { kind: 'string', optional: true },
  },
  RemoteNow: {
    state: { kind: 'string' },
    requests: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'RequestNow' } },
  },
  RequestNow: {
    action: { kind: 'string' },
    method: { kind: 'string' },
    url: { kind: 'string' },
    state: { kind: 'string' },
  },
  Offer: {
    available: { kind: 'bool' },
    why: { kind: 'array', nullable: true, element: { kind: 'string' } },
  },
  Reason: {
    code: { kind: 'string' },
    text: { kind: 'string' },
    since: { kind: 'int' },
    action: { kind: 'string', optional: true },
    resolve: { kind: 'string' },
  },
  Interrupt: {
    lease: { kind: 'string' },
    agent: { kind: 'string' },
    expires_in_ms: { kind: 'int' },
    ask: { kind: 'object', optional: true, nullable: true, struct: 'Ask' },
  },
  Ask: {
    reason: { kind: 'string' },
    at: { kind: 'int' },
    epoch: { kind: 'uint' },
    state: { kind: 'string' },
    by: { kind: 'string', optional: true },
    note: { kind: 'string', optional: true },
    answered: { kind: 'int', optional: true },
  },
  Waiter: {
    lease: { kind: 'string' },
    agent: { kind: 'string' },
    binding: { kind: 'string' },
    task: { kind: 'string', optional: true },
    priority: { kind: 'int', optional: true },
    position: { kind: 'int' },
    wait_ms: { kind: 'int' },
    reasons: { kind: 'array', nullable: true, element: { kind: 'string' } },
  },
  AskNow: {
    lease: { kind: 'string' },
    agent: { kind: 'string' },
    reason: { kind: 'string' },
    at: { kind: 'int' },
    epoch: { kind: 'uint' },
    state: { kind: 'string' },
    by: { kind: 'string', optional: true },
    note: { kind: 'string', optional: true },
    answered: { kind: 'int', optional: true },
  },
  RetentionNow: {
    lease: { kind: 'string' },
    agent: { kind: 'string' },
    retention: { kind: 'string' },
    for_ms: { kind: 'int' },
    reason: { kind: 'string' },
    epoch: { kind: 'uint' },
    at: { kind: 'int' },
    state: { kind: 'string' },
    by: { kind: 'string', optional: true },
    note: { kind: 'string', optional: true },
    decided: { kind: 'int', optional: true },
    acknowledged: { kind: 'int', optional: true },
    until: { kind: 'object', struct: 'Deadline' },
  },
  Deadline: {
    boot_id: { kind: 'string' },
    boot_ms: { kind: 'int' },
  },
  SignIn: {
    binding: { kind: 'string' },
    account: { kind: 'string', optional: true },
    confirmed: { kind: 'object', nullable: true, struct: 'Confirmation' },
    before_restart: { kind: 'bool', optional: true },
    prepared: { kind: 'bool' },
    probe: { kind: 'bool', optional: true },
    checked: { kind: 'object', optional: true, nullable: true, struct: 'AccountNow' },
  },
  Confirmation: {
    by: { kind: 'string' },
    at: { kind: 'int' },
    account: { kind: 'string', optional: true },
    launch: { kind: 'string' },
    generation: { kind: 'int' },
    note: { kind: 'string', optional: true },
    saved: { kind: 'int', optional: true },
    lost: { kind: 'int', optional: true },
  },
  AccountNow: {
    binding: { kind: 'string' },
    state: { kind: 'string' },
    at: { kind: 'int' },
    launch: { kind: 'string' },
    generation: { kind: 'int' },
    by: { kind: 'string' },
    asked_by: { kind: 'string', optional: true },
    why: { kind: 'string' },
    until: { kind: 'object', struct: 'Deadline' },
    past: { kind: 'string', optional: true },
    counts: { kind: 'bool' },
    before_restart: { kind: 'bool', optional: true },
  },
  UncleanEnd: {
    launch: { kind: 'string' },
    generation: { kind: 'int' },
    at: { kind: 'int' },
    how: { kind: 'string' },
  },
  Probing: {
    probe: { kind: 'string' },
    kind: { kind: 'string' },
    binding: { kind: 'string' },
    action: { kind: 'string', optional: true },
    epoch: { kind: 'uint' },
    asked_by: { kind: 'string' },
    deadline: { kind: 'object', struct: 'Deadline' },
  },
  Sentences: {
    authority: { kind: 'string' },
    local: { kind: 'string' },
    remote: { kind: 'string' },
    warnings: { kind: 'array', nullable: true, element: { kind: 'string' } },
  },
});

/** The fields of every message, by its type. */
export const MESSAGES = Object.freeze({
  'host.hello': {
    version: { kind: 'int' },
    build: { kind: 'string' },
    slot: { kind: 'string' },
    launch: { kind: 'string' },
    secret: { kind: 'string' },
    origin: { kind: 'string' },
  },
  'host.welcome': {
    nonce: { kind: 'string' },
    slot: { kind: 'string' },
  },
  'host.refused': {
    error: { kind: 'object', struct: 'Refusal' },
  },
  'link': {
    up: { kind: 'bool' },
    nonce: { kind: 'string', optional: true },
    reason: { kind: 'string', optional: true },
    error: { kind: 'object', optional: true, nullable: true, struct: 'Refusal' },
  },
  'chunk': {
    id: { kind: 'int' },
    index: { kind: 'int' },
    total: { kind: 'int' },
    data: { kind: 'string', max: 100663296 },
  },
  'hello': {
    nonce: { kind: 'string' },
    version: { kind: 'int' },
    build: { kind: 'string' },
    instance: { kind: 'string' },
    mark: { kind: 'object', struct: 'Mark' },
    hold: { kind: 'object', optional: true, nullable: true, struct: 'Hold' },
    granted: { kind: 'uint' },
    actions: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'ActionReport' } },
  },
  'welcome': {
    nonce: { kind: 'string' },
    epoch: { kind: 'uint' },
    seq: { kind: 'int' },
  },
  'fence': {
    nonce: { kind: 'string' },
    epoch: { kind: 'uint' },
    seq: { kind: 'int' },
    person: { kind: 'bool' },
    from_person: { kind: 'bool' },
    hold: { kind: 'string', optional: true },
    deadline_ms: { kind: 'int' },
    watch_ms: { kind: 'int' },
  },
  'fenced': {
    nonce: { kind: 'string' },
    epoch: { kind: 'uint' },
    instance: { kind: 'string' },
    granted: { kind: 'uint' },
    actions: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'ActionReport' } },
    documents: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'Document' } },
  },
  'drained': {
    nonce: { kind: 'string' },
    epoch: { kind: 'uint' },
    actions: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'ActionReport' } },
    documents: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'Document' } },
  },
  'document.ended': {
    nonce: { kind: 'string' },
    document: { kind: 'string' },
    how: { kind: 'string', enum: ['crashed', 'replaced', 'closed'] },
  },
  'report': {
    nonce: { kind: 'string' },
    action: { kind: 'object', struct: 'ActionReport' },
  },
  'forget': {
    nonce: { kind: 'string' },
    seq: { kind: 'int', optional: true },
    actions: { kind: 'array', nullable: true, element: { kind: 'string' } },
  },
  'poke': {
    nonce: { kind: 'string' },
  },
  'pull': {
    nonce: { kind: 'string' },
    ask: { kind: 'int' },
  },
  'grant': {
    nonce: { kind: 'string' },
    ask: { kind: 'int' },
    epoch: { kind: 'uint' },
    lease: { kind: 'string' },
    ttl_ms: { kind: 'int' },
    origins: { kind: 'array', nullable: true, element: { kind: 'string' } },
    watch_ms: { kind: 'int' },
  },
  'granted': {
    nonce: { kind: 'string' },
    epoch: { kind: 'uint' },
  },
  'action': {
    action: { kind: 'string' },
    epoch: { kind: 'uint' },
    class: { kind: 'string' },
    deadline_ms: { kind: 'int' },
    expect: { kind: 'object', struct: 'Expect' },
    upload_dir: { kind: 'string', optional: true },
    act: { kind: 'object', struct: 'Act' },
  },
  'action.done': {
    action: { kind: 'string' },
    epoch: { kind: 'uint' },
    state: { kind: 'string', enum: ['finished', 'failed', 'refused', 'halted', 'unknown'] },
    error: { kind: 'object', optional: true, nullable: true, struct: 'Refusal' },
    steps: { kind: 'object', struct: 'Steps' },
    observed: { kind: 'object', optional: true, nullable: true, struct: 'Expect' },
    url: { kind: 'string', optional: true },
    result: { kind: 'any', optional: true },
  },
  'cmd': {
    seq: { kind: 'int' },
    action: { kind: 'string' },
    epoch: { kind: 'uint' },
    kind: { kind: 'string', enum: ['cdp', 'barrier', 'document', 'tabs', 'tab_create', 'tab_close', 'tab_activate'] },
    expect: { kind: 'object', struct: 'Expect' },
    method: { kind: 'string', optional: true },
    params: { kind: 'any', optional: true },
    effect: { kind: 'bool' },
    script: { kind: 'bool' },
    class: { kind: 'string' },
    left_ms: { kind: 'int' },
  },
  'cmd.result': {
    seq: { kind: 'int' },
    ok: { kind: 'bool' },
    dispatched: { kind: 'bool' },
    observed: { kind: 'object', optional: true, nullable: true, struct: 'Expect' },
    url: { kind: 'string', optional: true },
    result: { kind: 'any', optional: true },
    error: { kind: 'object', optional: true, nullable: true, struct: 'Refusal' },
  },
  'stop.page': {
    nonce: { kind: 'string' },
    epoch: { kind: 'uint' },
    tabs: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'TabRef' } },
  },
  'probe': {
    nonce: { kind: 'string' },
    probe: { kind: 'string' },
    epoch: { kind: 'uint' },
    url: { kind: 'string' },
    selector: { kind: 'string', optional: true },
    expression: { kind: 'string', optional: true },
    wait_ms: { kind: 'int' },
  },
  'probe.result': {
    nonce: { kind: 'string' },
    probe: { kind: 'string' },
    epoch: { kind: 'uint' },
    state: { kind: 'string', enum: ['seen', 'absent', 'several', 'elsewhere', 'silent', 'refused'] },
    text: { kind: 'string', optional: true },
    cut: { kind: 'bool' },
    url: { kind: 'string', optional: true },
  },
  'stop.prepare': {
    nonce: { kind: 'string' },
  },
  'stop.ready': {
    nonce: { kind: 'string' },
  },
  'person.hold': {
    nonce: { kind: 'string' },
    hold: { kind: 'object', struct: 'Hold' },
  },
  'person.call': {
    nonce: { kind: 'string' },
    id: { kind: 'int' },
    verb: { kind: 'string', enum: ['handback', 'stop_page', 'takeover'] },
    if_epoch: { kind: 'uint' },
    to: { kind: 'string' },
    confirm: { kind: 'bool' },
    from: { kind: 'bool' },
    tabs: { kind: 'array', nullable: true, element: { kind: 'object', struct: 'TabRef' } },
  },
  'person.reply': {
    nonce: { kind: 'string' },
    id: { kind: 'int' },
    error: { kind: 'object', optional: true, nullable: true, struct: 'Refusal' },
  },
  'ui': {
    nonce: { kind: 'string' },
    status: { kind: 'any', nullable: true },
  },
});

/**
 * Says whether msg is a well-formed message. Unknown members are tolerated, so
 * that a newer peer may send more; a known one must be exactly as described.
 * @param {unknown} msg
 * @returns {string | null} null, or what is wrong with the first wrong field
 */
export function validate(msg) {
  if (!isObject(msg)) return 'message: not an object';
  const t = Object.hasOwn(msg, 't') ? msg.t : undefined;
  if (typeof t !== 'string') return 't: not a string';
  if (!Object.hasOwn(MESSAGES, t)) return `t: unknown type ${JSON.stringify(t.slice(0, 64))}`;
  return checkFields(msg, MESSAGES[t], '');
}

function checkFields(value, fields, path) {
  for (const name of Object.keys(fields)) {
    const field = fields[name];
    const at = path === '' ? name : `${path}.${name}`;
    const v = Object.hasOwn(value, name) ? value[name] : undefined;
    if (v === undefined) {
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
    case 'any':
      return null;
    case 'string':
      if (typeof v !== 'string') return `${at}: not a string`;
      if (v.length > (field.max ?? MAX_STRING)) return `${at}: longer than ${field.max ?? MAX_STRING}`;
      if (field.enum && !field.enum.includes(v)) return `${at}: not one of ${field.enum.join(', ')}`;
      return null;
    case 'bool':
      return typeof v === 'boolean' ? null : `${at}: not a boolean`;
    case 'number':
      return Number.isFinite(v) ? null : `${at}: not a number`;
    case 'int':
    case 'uint':
      if (typeof v !== 'number') return `${at}: not a number`;
      if (!Number.isInteger(v)) return `${at}: not an integer`;
      if (field.kind === 'uint' && v < 0) return `${at}: negative`;
      if (v > Number.MAX_SAFE_INTEGER) return `${at}: above 2^53-1`;
      if (v < Number.MIN_SAFE_INTEGER) return `${at}: below -(2^53-1)`;
      return null;
    case 'object':
      return isObject(v) ? checkFields(v, STRUCTS[field.struct], at) : `${at}: not an object`;
    case 'array':
      if (!Array.isArray(v)) return `${at}: not an array`;
      if (v.length > MAX_ARRAY) return `${at}: more than ${MAX_ARRAY} elements`;
      for (let i = 0; i < v.length; i++) {
        const wrong = checkValue(v[i], field.element, `${at}[${i}]`);
        if (wrong !== null) return wrong;
      }
      return null;
    case 'map': {
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
  return typeof v === 'object' && v !== null && !Array.isArray(v);
}
