// @ts-check

/**
 * What the popup says, from what the worker told it. Nothing here touches the page,
 * so that every state's words can be read and tested in one place.
 *
 * What the daemon said is shown only while its link is up. Without it the popup says
 * what this browser knows by itself, and that the rest is not known.
 */

/** @typedef {import('./people.js').Snapshot} Snapshot */

/**
 * @typedef {object} View
 * @property {'starting' | 'down' | 'held' | 'agent' | 'person' | 'nobody'} state
 * @property {string} pill
 * @property {string} notice
 * @property {string} hint
 * @property {string} slot
 * @property {string} binding
 * @property {string} authority
 * @property {string} local
 * @property {string} remote
 * @property {string} holder
 * @property {string} epoch
 * @property {string} ask what an agent asks of the person, and what to press
 * @property {string[]} warnings
 * @property {Row[]} commands
 * @property {Row[]} documents
 * @property {Row[]} requests
 * @property {string} offer '' to show nothing about the next agent
 * @property {Row[]} reasons
 * @property {{label: string, enabled: boolean, from: boolean} | null} takeover
 * @property {{value: string, label: string}[] | null} handback the choices; null: not now
 * @property {boolean} stop whether "Stop the page" makes sense
 */

/** @typedef {{text: string, small: string}} Row */

/** @param {unknown} list @returns {any[]} */
const rows = (list) => (Array.isArray(list) ? list : []);

/** @param {number} ms */
export function span(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  // No-break spaces: a figure is not torn from its unit.
  if (s >= 3600) return `${Math.floor(s / 3600)}\u00a0h ${Math.floor((s % 3600) / 60)}\u00a0min`;
  if (s >= 60) return `${Math.floor(s / 60)}\u00a0min ${String(s % 60).padStart(2, '0')}\u00a0s`;
  return `${s}\u00a0s`;
}

/** Where the time that is left stands now. @param {any} status @param {number} ageMs @returns {number | null} */
export function left(status, ageMs) {
  const ms = status?.authority?.expires_in_ms;
  return typeof ms === 'number' && ms > 0 ? Math.max(0, ms - ageMs) : null;
}

/**
 * The daemon's sentence with the time left as it is now: a figure that no longer
 * holds would be shown as if it did.
 * @param {any} status @param {number} ageMs
 */
export function authorityNow(status, ageMs) {
  const text = String(status?.sentences?.authority ?? '');
  const ms = left(status, ageMs);
  if (ms === null) return text;
  return text.replace(/ for [^()]*? more\b/, ms > 0 ? ` for ${span(ms)} more` : ' for no time more');
}

/** @param {number} n @param {string} what */
const count = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;

/** The most of an agent's words that the popup repeats; `sessiondock status` has all. */
const MAX_REASON = 280;

/** An agent's own words, marked as such. @param {unknown} reason */
function quote(reason) {
  const text = String(reason ?? '');
  return `“${text.length > MAX_REASON ? `${text.slice(0, MAX_REASON)}…` : text}”`;
}

/**
 * What an agent asks of the person in front of this browser, in one sentence with what
 * to press; after the takeover, what it was, so that it can be done.
 * @param {any} status @param {boolean} human
 */
function asked(status, human) {
  const open = rows(status.asks)[0];
  if (open && !human) return `${open.agent} asks for you: ${quote(open.reason)}. Press “Take over”, see to it, then hand back to ${open.agent}.`;
  const {agent, ask} = status.interrupted ?? {};
  if (ask && human) return `${agent} asked for you: ${quote(ask.reason)}. When it is done, choose “Back to ${agent}” and press “Hand back”.`;
  return '';
}

/** Who waits, and for what. @param {any} status @returns {{text: string, rows: Row[]}} */
function queued(status) {
  const all = rows(status.queue);
  if (all.length === 0) return {text: '', rows: []};
  return {
    text: `${count(all.length, 'agent')} waiting; the next is ${all[0].agent}.`,
    rows: all.slice(0, 3).map((w) => ({text: `${w.position}. ${w.agent}${w.task ? `: ${w.task}` : ''}`, small: rows(w.reasons).join('; ')})),
  };
}

/** @param {Snapshot} it @returns {Pick<View, 'local' | 'remote'>} what this browser knows by itself */
function alone(it) {
  return {
    local: it.open
      ? `${count(it.open, 'command')} sent earlier ${it.open === 1 ? 'has' : 'have'} not been seen to end.`
      : 'This browser has seen every command that it sent end. Whether pages have come to rest is not known.',
    remote: 'Not known while the daemon cannot be reached.',
  };
}

/** @type {View} */
const EMPTY = {
  state: 'starting', pill: 'Connecting', notice: '', hint: '', slot: 'SessionDock', binding: '',
  authority: 'Not known yet.', local: 'Not known yet.', remote: 'Not known yet.', holder: '—', epoch: '—',
  ask: '', warnings: [], commands: [], documents: [], requests: [], offer: '', reasons: [],
  takeover: {label: 'Take over', enabled: true, from: false}, handback: null, stop: false,
};

/**
 * @param {Snapshot | null} it null: the worker has not said anything
 * @param {number} ageMs of the daemon's status
 * @returns {View}
 */
export function view(it, ageMs) {
  if (!it) return {...EMPTY, takeover: {label: 'Take over', enabled: false, from: false}};
  const slot = it.slot || 'SessionDock';
  if (it.link === 'starting' && !it.hold) return {...EMPTY, slot};
  if (it.link === 'down') {
    return {
      ...EMPTY, ...alone(it), state: 'down', pill: 'Not connected', slot,
      notice: it.error ? it.error.message : 'The daemon cannot be reached.',
      hint: it.error?.hint ?? 'Check it with: sessiondock doctor',
      authority: it.hold
        ? 'You have taken over. Nothing of the agent is sent from this browser; the daemon will be told when it is back.' +
          (it.hold.stop ? ' The pages that you want ended go on until then.' : '')
        : 'Nothing of an agent is sent from this browser. Who has control is not known.',
      takeover: it.hold
        ? {label: 'You have taken over', enabled: false, from: false}
        : {label: 'Take over', enabled: true, from: false},
    };
  }
  const {status} = it;
  if (!status) {
    return {
      ...EMPTY, slot, pill: it.link === 'up' ? 'Connected' : 'Connecting', state: it.hold ? 'held' : 'starting',
      authority: it.hold
        ? 'You have taken over. Nothing of the agent is sent from this browser.'
        : 'The daemon has not told this slot’s state yet.',
      takeover: it.hold ? {label: 'Taking over…', enabled: false, from: false} : EMPTY.takeover,
    };
  }
  return connected(it, status, ageMs, slot);
}

/** @param {Snapshot} it @param {any} status @param {number} ageMs @param {string} slot @returns {View} */
function connected(it, status, ageMs, slot) {
  const {kind = 'none', name = ''} = status.authority?.holder ?? {};
  const human = kind === 'human';
  const elsewhere = human && name !== 'popup';
  const commands = rows(status.local?.commands).map((c) => ({
    text: String(c.summary),
    small: c.local === 'unknown' ? 'Whether it ran is not known' : `Running for ${span(c.running_ms + ageMs)}`,
  }));
  const documents = rows(status.local?.documents).map((d) => ({
    text: d.document ? String(d.url || 'A page') : 'Any page',
    small: d.why === 'agent_script' ? `${d.document ? 'Holds' : 'May hold'} a script of ${d.agent || 'an agent'}` : 'Input may still be queued here',
  }));
  const requests = rows(status.remote?.requests).map((r) => ({
    text: `${r.method} ${r.url}`,
    small: `${String(r.state).replace('in_flight', 'Not answered yet').replace(/^answered:(\d+)$/, 'Answered with $1')}`,
  }));
  const quarantine = rows(status.quarantine).map((q) => ({text: String(q.text), small: `To settle it: ${q.resolve}`}));
  const why = rows(status.offer?.why).map((text) => ({text: String(text), small: ''}));
  const queue = queued(status);
  // The daemon says an ask among its warnings too; here it stands by itself.
  const asks = rows(status.asks).map((a) => `${a.agent} asks for a person: ${a.reason}`);
  const warnings = rows(status.sentences?.warnings).map(String).filter((text) => !asks.includes(text));
  for (const r of rows(status.retentions)) {
    warnings.push(`${r.agent} asks to keep its lease for ${span(r.for_ms)} more: ${quote(r.reason)}. To allow it: sessiondock retain approve ${r.lease}`);
  }
  /** @type {View} */
  const out = {
    ...EMPTY, slot, pill: 'Connected', binding: status.binding ? `Lent as ${status.binding}` : '',
    state: human ? 'person' : kind === 'agent' ? 'agent' : 'nobody',
    authority: authorityNow(status, ageMs),
    local: String(status.sentences?.local ?? ''), remote: String(status.sentences?.remote ?? ''),
    holder: human ? (elsewhere ? `You, by ${name}` : 'You') : kind === 'agent' ? String(name) : 'Nobody',
    epoch: String(status.authority?.epoch ?? '—'),
    ask: asked(status, human), warnings,
    commands, documents, requests,
    stop: commands.length + documents.length > 0 || kind === 'agent',
    reasons: quarantine.length ? quarantine : why,
  };
  const waiting = queue.text ? `${queue.text} ` : '';
  if (status.offer?.available) out.offer = `${waiting}An agent can be given this browser.`;
  else if (quarantine.length) out.offer = `${waiting}No agent gets this browser until this is settled:`;
  else if (!human && kind !== 'agent' && why.length) out.offer = `${waiting}No agent can be given this browser now:`;
  else [out.offer, out.reasons] = [queue.text, queue.rows];

  if (it.hold) {
    return {
      ...out, state: 'held', handback: null,
      authority: it.hold.told
        ? 'You have taken over. Nothing of the agent is sent; waiting for the daemon to confirm.'
        : 'You have taken over. Nothing of the agent is sent; the daemon has not been told yet.',
      takeover: {label: 'Taking over…', enabled: false, from: false},
    };
  }
  if (human) {
    const agent = status.interrupted?.agent;
    const next = rows(status.queue)[0]?.agent;
    const queueLabel = next ? `The next in the queue (${next})` : 'The next in the queue';
    out.takeover = elsewhere ? {label: `Take over from ${name}`, enabled: true, from: true} : null;
    out.handback = agent
      ? [
          {value: String(agent), label: `Back to ${agent}`},
          {value: '', label: queueLabel},
        ]
      : [{value: '', label: queueLabel}];
  }
  return out;
}
