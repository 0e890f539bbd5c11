package wire

import (
	"encoding/json"

	"sessiondock.dev/sessiondock/daemon/core"
)

// A message is one JSON object whose member "t" names its type. Unknown members
// are ignored, so that a newer peer may send more; unknown types are dropped and
// logged. Links:
//
//	D  daemon      host.sock, frames of a 4-byte little-endian length and JSON
//	H  host        Native Messaging, 4-byte native-endian length and JSON
//	X  extension
//
// What D and X say to each other passes through H unchanged; H looks at `grant`
// and `fence` (the second gate) and answers `action` itself.
//
// Every message between D and X carries the nonce of the current link. A message
// with another nonce is dropped: it belongs to a link that has ended.

// HostHello opens host.sock (H to D). What it says is routing evidence; the
// daemon attests the peer by its credentials, its descent and the secret.
type HostHello struct {
	Version int           `json:"version"`
	Build   string        `json:"build"`
	Slot    core.SlotName `json:"slot"`
	Launch  core.LaunchID `json:"launch"`
	Secret  string        `json:"secret"`
	Origin  string        `json:"origin"` // argv[1]: chrome-extension://ID/
}

// HostWelcome answers HostHello (D to H).
type HostWelcome struct {
	Nonce core.Nonce    `json:"nonce"`
	Slot  core.SlotName `json:"slot"`
}

// HostRefused answers HostHello or ends a link (D to H, and H to X as it is).
// The connection is closed after it.
type HostRefused struct {
	Error core.Error `json:"error"`
}

// Link tells the extension that its host has, or has lost, an attested link to
// the daemon (H to X). Losing it clears the grant in that turn. After an up the
// extension sends Hello.
type Link struct {
	Up     bool        `json:"up"`
	Nonce  core.Nonce  `json:"nonce,omitempty"`
	Reason string      `json:"reason,omitempty"`
	Error  *core.Error `json:"error,omitempty"`
}

// Chunk is a piece of a message that is too large for one Native Messaging frame
// (both ways between H and X). Data is base64 of up to ChunkBytes of the UTF-8
// JSON of the whole message. Chunks of one message come in order; those of two
// messages do not interleave.
type Chunk struct {
	ID    int64  `json:"id"`
	Index int    `json:"index"`
	Total int    `json:"total"`
	Data  string `json:"data"`
}

// Hello is the extension's first message on a link (X to D).
type Hello struct {
	Nonce    core.Nonce      `json:"nonce"`
	Version  int             `json:"version"`
	Build    string          `json:"build"` // hash of the extension's files, in its code
	Instance core.InstanceID `json:"instance"`
	Mark     Mark            `json:"mark"`
	Hold     *Hold           `json:"hold,omitempty"`
	Granted  core.Epoch      `json:"granted"`        // the epoch last granted to this instance, 0 if none
	Anew     bool            `json:"anew,omitempty"` // it remembers nothing of this run of the browser: that has just begun, or the extension was loaded anew
	Actions  []ActionReport  `json:"actions"`        // every action not yet forgotten
}

// Mark is the extension's high-water mark, kept in storage.local of the profile.
type Mark struct {
	Epoch  core.Epoch `json:"epoch"` // the highest epoch this profile ever saw
	Seq    int64      `json:"seq"`   // the journal's sequence that came with it
	Person bool       `json:"person"`
}

// Hold is a person's press of "Take over". From the turn in which the worker
// learns of it nothing of an agent is dispatched.
type Hold struct {
	ID       core.HoldID `json:"id"`
	SinceMs  int64       `json:"since_ms"` // wall clock, unix milliseconds
	StopPage bool        `json:"stop_page,omitempty"`
	Tabs     []TabRef    `json:"tabs,omitempty"` // with stop_page: the tabs to end
}

// TabRef names a tab for a person.
type TabRef struct {
	Tab   core.TabID `json:"tab"`
	Title string     `json:"title,omitempty"`
	URL   string     `json:"url,omitempty"`
}

// Welcome accepts a Hello (D to X).
type Welcome struct {
	Nonce core.Nonce `json:"nonce"`
	Epoch core.Epoch `json:"epoch"`
	Seq   int64      `json:"seq"`
	Apart bool       `json:"apart,omitempty"` // the tabs that are open now are the person's: none is lent
}

// Fence raises the extension's epoch (D to X; H raises its own first). Everything
// of an older epoch is refused from then on. It is answered by Fenced at once
// and by Drained when the drain has ended.
type Fence struct {
	Nonce      core.Nonce  `json:"nonce"`
	Epoch      core.Epoch  `json:"epoch"`
	Seq        int64       `json:"seq"`
	Person     bool        `json:"person"`         // a person holds under this epoch
	FromPerson bool        `json:"from_person"`    // a person held until now: drain the active tab of every window too
	Hold       core.HoldID `json:"hold,omitempty"` // the hold that this fence answers: clear it
	DeadlineMs int64       `json:"deadline_ms"`    // for the drain
	WatchMs    int64       `json:"watch_ms"`
}

// Fenced acknowledges Fence (X to D): I4 holds from here on. Actions lists every
// action of an older epoch with something unsettled, and every one whose script
// may still run.
type Fenced struct {
	Nonce     core.Nonce      `json:"nonce"`
	Epoch     core.Epoch      `json:"epoch"`
	Instance  core.InstanceID `json:"instance"`
	Granted   core.Epoch      `json:"granted"` // the last epoch granted to this instance
	Actions   []ActionReport  `json:"actions"`
	Documents []Document      `json:"documents"` // agent_script and input_pending
}

// Drained ends the drain of Fence (X to D). Documents says how each affected one
// came to rest. Actions is every report of an older epoch not yet forgotten: an
// action that was sent and is not among them was never dispatched by this
// instance.
type Drained struct {
	Nonce     core.Nonce     `json:"nonce"`
	Epoch     core.Epoch     `json:"epoch"`
	Actions   []ActionReport `json:"actions"`
	Documents []Document     `json:"documents"`
}

// Document is a document that an agent's input or script reached.
type Document struct {
	Document core.DocumentID `json:"document"`
	Tab      core.TabID      `json:"tab"`
	URL      string          `json:"url"`
	Why      string          `json:"why" enum:"agent_script,input_pending"`
	// How it came to rest: barrier (our barrier ran in it after the last input),
	// ended (its renderer is verified gone), lost (neither), open (not yet).
	How string `json:"how" enum:"barrier,ended,lost,open"`
}

// DocumentFound reports a shared worker that may run an agent's code (X to D): it outlives
// the page that made it. It is listed as a document with an agent's script is, and its end is
// a DocumentEnded. It is told again with each drain.
type DocumentFound struct {
	Nonce    core.Nonce      `json:"nonce"`
	Document core.DocumentID `json:"document"` // worker:NAME
	URL      string          `json:"url"`
}

// DocumentEnded reports that a document with an agent's script is gone (X to D).
type DocumentEnded struct {
	Nonce    core.Nonce      `json:"nonce"`
	Document core.DocumentID `json:"document"`
	How      string          `json:"how" enum:"crashed,replaced,closed"`
}

// ActionReport is all that the extension knows of one action. It is sent whole
// whenever it changes (Report), and in Hello, Fenced and Drained; a report with a
// lower rev than one seen before is ignored. It is kept until Forget.
type ActionReport struct {
	Action     core.ActionID   `json:"action"`
	Epoch      core.Epoch      `json:"epoch"`
	Rev        int64           `json:"rev"`
	Dispatched int             `json:"dispatched"` // effect commands given to sendCommand
	Open       int             `json:"open"`       // of those, not settled
	Tab        core.TabID      `json:"tab"`
	Document   core.DocumentID `json:"document"`
	Script     bool            `json:"script"` // the agent's own script ran in the main world
	// How its document came to rest after its last effect, as in Document.How.
	How string `json:"how" enum:"barrier,ended,lost,open"`
	// HowRule says what a barrier rests on: barrier_in_document, navigated_by_document
	// (the last input was answered while the document was current, and the document
	// itself asked for the navigation that replaced it), or answered (no input was
	// among the commands, and each was answered without an error).
	HowRule   string          `json:"how_rule,omitempty"`
	Requests  []RequestReport `json:"requests"`
	More      int             `json:"more"` // requests beyond MaxEvidence, counted only
	Downloads []string        `json:"downloads"`
}

// RequestReport is one request attributed to an action.
type RequestReport struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	URL    string `json:"url"`  // origin and path, no query
	Type   string `json:"type"` // chrome.webRequest's resource type
	State  string `json:"state" enum:"in_flight,answered,failed"`
	Status int    `json:"status"` // when answered
	Error  string `json:"error"`  // when failed: Chromium's net:: error
	// Rule of attribution: document (webRequest named the document), navigation
	// (same tab and frame, between dispatch and the next commit), worker_origin
	// (a service worker of the document's origin: weak).
	Rule       string `json:"rule" enum:"document,navigation,worker_origin"`
	AfterFence bool   `json:"after_fence"`
	BeganMs    int64  `json:"began_ms"` // wall clock, unix milliseconds
	EndedMs    int64  `json:"ended_ms"` // 0 while in flight
}

// Report is a settlement or evidence, at any time, of any epoch (X to D).
type Report struct {
	Nonce  core.Nonce   `json:"nonce"`
	Action ActionReport `json:"action"`
}

// Forget lets the extension drop its reports of these actions (D to X): nothing
// more is expected of them. Seq is the journal entry that says so at the latest: a
// database that does not have it must not be believed about them, for the extension
// has nothing left to say against it.
type Forget struct {
	Nonce   core.Nonce      `json:"nonce"`
	Seq     int64           `json:"seq,omitempty"` // missing: of a daemon that did not tell it
	Actions []core.ActionID `json:"actions"`
}

// Poke asks the extension to pull a grant (D to X).
type Poke struct {
	Nonce core.Nonce `json:"nonce"`
}

// Pull asks for the grant (X to D). The deadline of what comes back counts from
// when the extension sent this.
type Pull struct {
	Nonce core.Nonce `json:"nonce"`
	Ask   int64      `json:"ask"` // counts up on each link
}

// Grant opens the dispatch gate for one epoch (D to X; H opens its own). Epoch 0
// means that nothing is granted.
type Grant struct {
	Nonce   core.Nonce   `json:"nonce"`
	Ask     int64        `json:"ask"`
	Epoch   core.Epoch   `json:"epoch"`
	Lease   core.LeaseID `json:"lease"`
	TTLMs   int64        `json:"ttl_ms"`
	Origins []string     `json:"origins"`         // empty: any http(s) origin
	Allow   []string     `json:"allow,omitempty"` // what the binding allows beyond pages
	WatchMs int64        `json:"watch_ms"`
}

// Granted confirms that the gate is open (X to D).
type Granted struct {
	Nonce core.Nonce `json:"nonce"`
	Epoch core.Epoch `json:"epoch"`
}

// Action asks the host for one action (D to H).
type Action struct {
	Action     core.ActionID `json:"action"`
	Epoch      core.Epoch    `json:"epoch"`
	Class      core.Class    `json:"class"`
	DeadlineMs int64         `json:"deadline_ms"`
	Expect     core.Expect   `json:"expect"`
	UploadDir  string        `json:"upload_dir,omitempty"`
	Origins    []string      `json:"origins,omitempty"` // of the binding, for the verb cdp
	Allow      []string      `json:"allow,omitempty"`   // the same
	Act        Act           `json:"act"`
	// Raw: a command of a DevTools client, as it is: method and params of Act, answered by
	// CDPAnswer before ActionDone. It leaves in the order in which it came. Without a
	// method: from here on the events of the lease's tabs are sent.
	Raw     bool   `json:"raw,omitempty"`
	Session string `json:"session,omitempty"` // raw: a child session of the tab in Expect
}

// CDPAnswer is what a raw command saw (H to D), in its order among the events. Without
// a result it carries the browser's own error, or the gate's refusal.
type CDPAnswer struct {
	Action   core.ActionID   `json:"action"`
	Epoch    core.Epoch      `json:"epoch"`
	Observed core.Expect     `json:"observed"` // the tab and its main document then
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *CDPError       `json:"error,omitempty"`
}

// CDPError is an error as the DevTools protocol words it.
type CDPError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// CDPLost says that events came faster than they could be passed on: a client that goes by
// them must begin anew. The host says so where it has dropped some (Tab is absent), the
// extension where it has ended the debugging of a tab, so that no more come.
type CDPLost struct {
	Nonce core.Nonce `json:"nonce"`
	Epoch core.Epoch `json:"epoch"`
	Tab   core.TabID `json:"tab,omitempty"`
}

// CDPEvent is an event of a tab's debugging session (X to D), under the epoch in which
// it was seen. After a fence, or a press of "Take over", none is sent (I10).
type CDPEvent struct {
	Nonce    core.Nonce      `json:"nonce"`
	Epoch    core.Epoch      `json:"epoch"`
	Tab      core.TabID      `json:"tab"`
	Session  string          `json:"session,omitempty"` // of a child: a frame of another process, a worker
	Document core.DocumentID `json:"document"`          // in the tab's main frame now, as far as is known
	Method   string          `json:"method"`
	Params   json.RawMessage `json:"params"`
}

// CDPTab tells of a tab of the lease's when a client watches (X to D): when it comes,
// when its document or address changes, and when it is gone.
type CDPTab struct {
	Nonce    core.Nonce      `json:"nonce"`
	Epoch    core.Epoch      `json:"epoch"`
	Tab      core.TabID      `json:"tab"`
	Target   string          `json:"target"`           // the browser's own name of it
	Opener   string          `json:"opener,omitempty"` // the target that opened it
	URL      string          `json:"url"`              // empty outside the origins
	Title    string          `json:"title"`
	Document core.DocumentID `json:"document"`
	Owned    bool            `json:"owned"` // made under the lease: it may be closed
	Gone     bool            `json:"gone,omitempty"`
}

// ActionStop says that nobody waits for an action's answer any more (D to H). The host
// gives its last word on it at once, with what is known then.
type ActionStop struct {
	Action core.ActionID `json:"action"`
	Epoch  core.Epoch    `json:"epoch"`
}

// ActionDone is the host's last word on an action (H to D). It is kept by the
// host until a daemon has taken it, and sent again on a new link.
type ActionDone struct {
	Action core.ActionID `json:"action"`
	Epoch  core.Epoch    `json:"epoch"`
	// State: finished (all steps, and for input the barrier in the same document),
	// failed (an error of the closed table proves that nothing was executed),
	// refused (nothing was dispatched; Error says why), halted (a fence, a
	// deadline or a lost link stopped it; Steps says how far it came; what was
	// dispatched is settled by the extension's reports), unknown.
	State    string          `json:"state" enum:"finished,failed,refused,halted,unknown"`
	Error    *core.Error     `json:"error,omitempty"`
	Steps    core.Steps      `json:"steps"`
	Observed *core.Expect    `json:"observed,omitempty"` // the document the agent now has seen
	URL      string          `json:"url,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
}

// Cmd is one step (H to X). The dispatch gate decides on it in the same turn of
// the event loop in which it is carried out.
type Cmd struct {
	Seq    int64         `json:"seq"` // counts up, per host
	Action core.ActionID `json:"action"`
	Epoch  core.Epoch    `json:"epoch"`
	// Kind: cdp (Method, Params, by chrome.debugger), barrier (a no-op by
	// chrome.scripting in the expected document), document (which document is in
	// the tab), network and console (what the page there has asked for, and said), tabs (list), tab_create, tab_close, tab_activate, watch (from here on
	// CDPTab and CDPEvent are sent).
	Kind string `json:"kind" enum:"cdp,barrier,document,network,console,tabs,tab_create,tab_close,tab_activate,watch"`
	// Expect.Tab 0 means the active tab; an empty Expect.Document means that any
	// document will do (a navigation, or a look).
	Expect core.Expect     `json:"expect"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	// Session names a child session of the tab's: a frame of another process, a worker.
	Session string     `json:"session,omitempty"`
	Effect  bool       `json:"effect"` // it can change the page: counted as a step
	Script  bool       `json:"script"` // it runs the agent's own script in the main world
	Class   core.Class `json:"class"`
	// Raw: of a DevTools client, which hears of dialogs by itself.
	Raw bool `json:"raw,omitempty"`
	// LeftMs is how long from the receipt the command may still be dispatched.
	LeftMs int64 `json:"left_ms"`
}

// CmdResult answers Cmd (X to H). Dispatched false proves that sendCommand was not
// called. After a fence the answer of an older command is not sent: its report is.
type CmdResult struct {
	Seq        int64           `json:"seq"`
	OK         bool            `json:"ok"`
	Dispatched bool            `json:"dispatched"`
	Observed   *core.Expect    `json:"observed,omitempty"` // tab and document it ran in
	URL        string          `json:"url,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      *core.Error     `json:"error,omitempty"`
	Dialog     *core.Dialog    `json:"dialog,omitempty"` // the page shows one: an effect is not dispatched behind it
}

// CmdWaits says that the page shows a dialog, and that Cmd is answered when that has been
// (X to H). Without a dialog: it shows none any more.
type CmdWaits struct {
	Seq    int64        `json:"seq"`
	Dialog *core.Dialog `json:"dialog,omitempty"` // texts of at most MaxDialogText; without them for a page beyond the origins
}

// ActionWaits says that an action goes on when a dialog of its page has been answered (H
// to D). Without a dialog: it goes on.
type ActionWaits struct {
	Action core.ActionID `json:"action"`
	Epoch  core.Epoch    `json:"epoch"`
	Dialog *core.Dialog  `json:"dialog,omitempty"`
}

// StopPage ends the renderers of tabs by Page.crash (D to X), a settlement command.
type StopPage struct {
	Nonce core.Nonce `json:"nonce"`
	Epoch core.Epoch `json:"epoch"`
	Tabs  []TabRef   `json:"tabs"` // empty: every tab with an affected document
}

// Probe has the extension read one page in a background tab of its own (D to X). H
// passes it on under the epoch in force only: the highest that it was granted or fenced
// at. A later fence, another probe and a lost link end it, unanswered.
type Probe struct {
	Nonce      core.Nonce   `json:"nonce"`
	Probe      core.ProbeID `json:"probe"`
	Epoch      core.Epoch   `json:"epoch"`
	URL        string       `json:"url"`
	Selector   string       `json:"selector,omitempty"`   // the one element whose text is read
	Expression string       `json:"expression,omitempty"` // or an expression without side effects
	WaitMs     int64        `json:"wait_ms"`              // how long the page may take
}

// ProbeResult answers Probe (X to D).
type ProbeResult struct {
	Nonce core.Nonce   `json:"nonce"`
	Probe core.ProbeID `json:"probe"`
	Epoch core.Epoch   `json:"epoch"`
	// State: seen (Text is what was read, the same twice), absent (no such element or
	// value came, or an empty one), several (the selector names more than one element),
	// elsewhere (the page led to another origin, where nothing was read), silent (no
	// page, or one that does not answer), refused (a gate or the browser did not let it
	// through, or the expression failed or has a side effect; Text says which).
	State string `json:"state" enum:"seen,absent,several,elsewhere,silent,refused"`
	Text  string `json:"text,omitempty"` // at most MaxProbeText bytes
	Cut   bool   `json:"cut"`            // there was more
	URL   string `json:"url,omitempty"`  // where the page was: origin and path
}

// StopPrepare readies the browser for a clean stop (D to X): the extension answers
// beforeunload dialogs from here on. Answered by StopReady.
type StopPrepare struct {
	Nonce core.Nonce `json:"nonce"`
}

// StopReady answers StopPrepare (X to D).
type StopReady struct {
	Nonce core.Nonce `json:"nonce"`
}

// PersonHold tells the daemon of a hold (X to D). It becomes one takeover by its
// identifier, however often it comes.
type PersonHold struct {
	Nonce core.Nonce `json:"nonce"`
	Hold  Hold       `json:"hold"`
}

// PersonCall is another verb of the popup (X to D), answered by PersonReply.
type PersonCall struct {
	Nonce   core.Nonce     `json:"nonce"`
	ID      int64          `json:"id"`
	Verb    string         `json:"verb" enum:"handback,stop_page,takeover"`
	IfEpoch core.Epoch     `json:"if_epoch"`
	To      core.AgentName `json:"to"`      // handback: the interrupted agent, or empty for the queue
	Confirm bool           `json:"confirm"` // handback although something is listed as open
	From    bool           `json:"from"`    // takeover from another person's surface
	Tabs    []TabRef       `json:"tabs"`
}

// PersonReply answers PersonCall (D to X).
type PersonReply struct {
	Nonce core.Nonce  `json:"nonce"`
	ID    int64       `json:"id"`
	Error *core.Error `json:"error,omitempty"`
}

// UI is what the popup shows (D to X), sent whole at each change.
type UI struct {
	Nonce  core.Nonce   `json:"nonce"`
	Status *core.Status `json:"status"`
}

// Message names every message type: the value of "t" and its Go type.
var Messages = []struct {
	T     string
	From  string // D, H or X, the sender
	To    string
	Value any
}{
	{"host.hello", "H", "D", HostHello{}},
	{"host.welcome", "D", "H", HostWelcome{}},
	{"host.refused", "D", "H", HostRefused{}},
	{"link", "H", "X", Link{}},
	{"chunk", "HX", "XH", Chunk{}},
	{"hello", "X", "D", Hello{}},
	{"welcome", "D", "X", Welcome{}},
	{"fence", "D", "X", Fence{}},
	{"fenced", "X", "D", Fenced{}},
	{"drained", "X", "D", Drained{}},
	{"document.found", "X", "D", DocumentFound{}},
	{"document.ended", "X", "D", DocumentEnded{}},
	{"report", "X", "D", Report{}},
	{"forget", "D", "X", Forget{}},
	{"poke", "D", "X", Poke{}},
	{"pull", "X", "D", Pull{}},
	{"grant", "D", "X", Grant{}},
	{"granted", "X", "D", Granted{}},
	{"action", "D", "H", Action{}},
	{"action.done", "H", "D", ActionDone{}},
	{"action.stop", "D", "H", ActionStop{}},
	{"action.waits", "H", "D", ActionWaits{}},
	{"cdp.answer", "H", "D", CDPAnswer{}},
	{"cdp.lost", "X", "D", CDPLost{}}, // and from H
	{"cdp.event", "X", "D", CDPEvent{}},
	{"cdp.tab", "X", "D", CDPTab{}},
	{"cmd", "H", "X", Cmd{}},
	{"cmd.result", "X", "H", CmdResult{}},
	{"cmd.waits", "X", "H", CmdWaits{}},
	{"stop.page", "D", "X", StopPage{}},
	{"probe", "D", "X", Probe{}},
	{"probe.result", "X", "D", ProbeResult{}},
	{"stop.prepare", "D", "X", StopPrepare{}},
	{"stop.ready", "X", "D", StopReady{}},
	{"person.hold", "X", "D", PersonHold{}},
	{"person.call", "X", "D", PersonCall{}},
	{"person.reply", "D", "X", PersonReply{}},
	{"ui", "D", "X", UI{}},
}
