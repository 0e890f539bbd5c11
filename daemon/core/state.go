package core

import "slices"

// What is stored leaves out what is zero: an entity is written, twice, at each change.

// State is everything the authority knows. Only Apply changes it; the tables of
// package store hold the same entities.
type State struct {
	Slots       map[SlotName]*Slot
	Bindings    map[BindingName]*Binding
	Delegations map[DelegationID]*Delegation
	Leases      map[LeaseID]*Lease
	Actions     map[ActionID]*Action
	Past        map[ActionID]*Past      // the closed ones, of a state that keeps only open ones
	Links       map[SlotName]LinkState  // of this daemon's life, never stored
	Work        map[SlotName]*Work      // of this daemon's life, never stored
	Probes      map[SlotName]*ProbesNow // of this daemon's life, never stored
	MemoryMB    map[SlotName]int64      // of running browsers, as last measured; never stored
	Capacity    Capacity                // of this daemon; never stored
	Seq         int64                   // of the journal's last entry

	index    index
	onlyOpen bool
}

// NewState returns an empty state.
func NewState() *State {
	return &State{
		Slots:       map[SlotName]*Slot{},
		Bindings:    map[BindingName]*Binding{},
		Delegations: map[DelegationID]*Delegation{},
		Leases:      map[LeaseID]*Lease{},
		Actions:     map[ActionID]*Action{},
		Past:        map[ActionID]*Past{},
		Links:       map[SlotName]LinkState{},
		Work:        map[SlotName]*Work{},
		Probes:      map[SlotName]*ProbesNow{},
		MemoryMB:    map[SlotName]int64{},
		index:       newIndex(),
	}
}

// Slot is one browser workspace. It owns the epoch.
type Slot struct {
	Name    SlotName `json:"name"`
	Display string   `json:"display,omitzero"` // headless, window
	Created int64    `json:"created,omitzero"` // unix milliseconds
	Removed bool     `json:"removed,omitzero"` // a tombstone keeps the epoch (I1)

	Epoch   Epoch `json:"epoch"`
	Ceiling Epoch `json:"ceiling"` // durable: no epoch above it has been issued

	Holder      Holder   `json:"holder"`
	Lease       LeaseID  `json:"lease,omitzero"`       // the holder's, if an agent
	Interrupted LeaseID  `json:"interrupted,omitzero"` // what a person's takeover interrupted
	LastHold    HoldID   `json:"last_hold,omitzero"`   // the hold that the last takeover answered
	Fence       FenceNow `json:"fence"`

	Launch     *Launch `json:"launch,omitzero"`
	Generation int64   `json:"generation,omitzero"` // of the last launch
	// Scripts are documents with an agent's script, not known to have ended. One without an
	// identifier stands for every document of the launch.
	Scripts []DocNow `json:"scripts,omitzero"`
	Pending []DocNow `json:"pending,omitzero"` // documents with input pending, during a drain
	Reasons []Reason `json:"reasons,omitzero"` // of quarantine, apart from the actions themselves
	// PersonUntil is the highest epoch up to which what people did is recorded. An
	// extension that was fenced for a person above it tells of a takeover that a daemon
	// did not live to record.
	PersonUntil Epoch `json:"person_until,omitzero"`
	// Told is the journal sequence that the slot's extension was last given. It is written
	// before it is told, so an extension that names a higher one was told it by a database
	// that this one is an older copy of, however much has been written here since.
	Told int64 `json:"told,omitzero"`
	// SeqAdopted is the journal sequence of an extension's mark that a person has
	// accepted although this journal is behind it.
	SeqAdopted int64      `json:"seq_adopted,omitzero"`
	LastAgent  AgentName  `json:"last_agent,omitzero"` // the last agent that held the slot
	Keys       []KeyClaim `json:"keys,omitempty"`      // conflict keys that the slot holds, by name
	// Starting: a browser is wanted and its launch is not recorded yet. A launch that
	// nobody wants any more is not started.
	Starting string `json:"starting,omitempty"` // "", lease, person
	// Unclean is the last end of its browser, if that was not a clean one.
	Unclean *UncleanEnd `json:"unclean,omitempty"`
	// Accounts is what was found about the accounts that its bindings expect, by name.
	Accounts []AccountFound `json:"accounts,omitempty"`
}

// FenceNow is the slot's last fence.
type FenceNow struct {
	State    string   `json:"state"` // pending, acknowledged, draining, drained, unacknowledged
	SinceMs  int64    `json:"since,omitzero"`
	Deadline Deadline `json:"deadline,omitzero"`
}

// Answered says whether the extension has told what it lists at this fence.
func (f FenceNow) Answered() bool { return f.State != "pending" && f.State != "unacknowledged" }

// LinkState is the attested connection to the slot's extension.
type LinkState struct {
	Nonce    Nonce
	Instance InstanceID // empty until its hello was accepted
	Granted  Epoch      // the epoch whose grant the extension confirmed
	Mark     Epoch      // the high-water mark that its hello told, and the
	MarkSeq  int64      // journal sequence that came with it
}

// Up says whether the extension has said hello on this link.
func (l LinkState) Up() bool { return l.Instance != "" }

// Identity is what the supervisor recorded of a launch when it was started (I12). It is
// compared before every stop and every adoption.
type Identity struct {
	Unit         string `json:"unit,omitzero"` // of the user manager; empty with the direct supervisor
	InvocationID string `json:"invocation_id,omitzero"`
	Containment  string `json:"containment,omitzero"`
	KeeperPID    int    `json:"keeper_pid,omitzero"`
	KeeperStart  uint64 `json:"keeper_start,omitzero"` // start time, clock ticks since boot
	// ControlGroup is where the unit's processes are, below the mount of control groups;
	// GroupID is the kernel's number of that very group.
	ControlGroup string `json:"control_group,omitempty"`
	GroupID      uint64 `json:"group_id,omitempty"`
	CreatedUs    uint64 `json:"created_us,omitempty"` // when the unit was started, by CLOCK_MONOTONIC
	Browser      string `json:"browser,omitempty"`    // what the browser calls itself
	Extension    string `json:"extension,omitempty"`  // the build of it that was loaded
	Packaging    string `json:"packaging,omitempty"`  // how it was put into the browser: policy, external or load
}

// Launch is one run of the slot's browser.
type Launch struct {
	ID         LaunchID `json:"id"`
	Generation int64    `json:"generation"`
	State      string   `json:"state"` // starting, running, stopping, ended, unknown
	Identity
	SecretHash string `json:"secret_hash,omitzero"`
	Debug      string `json:"debug,omitzero"` // debugging switches of a test launch
	// Bypasses are the ways round the fence that were seen open in it.
	Bypasses  []string  `json:"bypasses,omitempty"`
	BootID    string    `json:"boot_id,omitzero"`
	Linked    bool      `json:"linked,omitzero"` // a host of it was attested
	StartedMs int64     `json:"started,omitzero"`
	EndedMs   int64     `json:"ended,omitzero"`
	ByPerson  bool      `json:"by_person,omitzero"`  // a person started it; it is not stopped for another's sake
	StopAsked bool      `json:"stop_asked,omitzero"` // a person asked for its end
	StopNow   bool      `json:"stop_now,omitzero"`   // at once, not cleanly
	Served    bool      `json:"served,omitzero"`     // its extension has acknowledged a fence
	ScriptOf  AgentName `json:"script_of,omitzero"`  // the agent that last sent it what may leave code in pages
	How       string    `json:"how,omitzero"`        // how its end was verified, or why not
}

// anyPage says whether any page of the launch may hold an agent's script.
func (s *Slot) anyPage() bool {
	return slices.ContainsFunc(s.Scripts, func(d DocNow) bool { return d.Document == "" })
}

// Live says whether the launch may have running processes.
func (l *Launch) Live() bool { return l != nil && l.State != "ended" }

// BindingSpec is what a person declares.
type BindingSpec struct {
	Name          BindingName `json:"name"`
	Slot          SlotName    `json:"slot"`
	Project       string      `json:"project,omitempty"`
	Worktree      string      `json:"worktree,omitempty"`
	Environment   string      `json:"environment,omitempty"`
	Account       string      `json:"account,omitempty"`
	Tenant        string      `json:"tenant,omitempty"`
	Start         string      `json:"start,omitempty"`
	Origins       []string    `json:"origins,omitempty"`
	Allow         []string    `json:"allow,omitempty"` // what DevTools commands may use beyond pages: names of Settings
	Keys          []string    `json:"keys,omitempty"`
	MaxLifetimeMs int64       `json:"max_lifetime_ms,omitempty"` // 0: eight hours
	WatchMs       int64       `json:"watch_ms,omitempty"`        // 0: five seconds
	Budget        Budget      `json:"budget,omitzero"`           // of each lease
	Owner         string      `json:"owner,omitempty"`
	RecoveryOwner string      `json:"recovery_owner,omitempty"`
	CostOwner     string      `json:"cost_owner,omitempty"`
	Probe         *ProbeSpec  `json:"probe,omitempty"` // how the system can check the account and results
}

// Binding is a declared context for a slot.
type Binding struct {
	BindingSpec
	Created   int64         `json:"created"`
	Removed   bool          `json:"removed"`
	Confirmed *Confirmation `json:"confirmed,omitempty"` // the last that a person gave
}

// Delegation is a person's permission for an agent to acquire one binding.
type Delegation struct {
	ID      DelegationID `json:"id"`
	Hash    string       `json:"hash"` // SHA-256 of the token, hexadecimal
	Binding BindingName  `json:"binding"`
	Agent   AgentName    `json:"agent"`
	By      string       `json:"by"`
	Expires Deadline     `json:"expires"`
	Revoked bool         `json:"revoked"`
	// Priority of the requests that are made with it: a higher one is granted first.
	Priority int `json:"priority,omitempty"`
}

// LeaseState is where a lease stands.
type LeaseState string

const (
	LeaseWaiting     LeaseState = "waiting"     // in the queue
	LeaseGranted     LeaseState = "granted"     // holds the slot, not yet claimed
	LeaseActive      LeaseState = "active"      // holds the slot
	LeaseSuspended   LeaseState = "suspended"   // a restart or a lost link: its agent may resume
	LeaseInterrupted LeaseState = "interrupted" // a person took over: may return at a handback
	LeaseEnded       LeaseState = "ended"
)

// Lease is an agent's control of a slot, or its place in the queue.
type Lease struct {
	ID         LeaseID      `json:"id"`
	Slot       SlotName     `json:"slot"`
	Binding    BindingName  `json:"binding"`
	Delegation DelegationID `json:"delegation,omitzero"`
	Agent      AgentName    `json:"agent,omitzero"`
	Task       string       `json:"task,omitzero"`
	RequestID  string       `json:"request_id,omitzero"`
	CapHash    string       `json:"cap_hash,omitzero"` // SHA-256 of the capability
	State      LeaseState   `json:"state"`
	Why        string       `json:"why,omitzero"`      // why it ended
	Refusal    *Error       `json:"refusal,omitempty"` // what its request was answered, if it was refused while it waited
	Epoch      Epoch        `json:"epoch"`
	Arrived    int64        `json:"arrived,omitzero"` // the journal's sequence: order in the queue
	Priority   int          `json:"priority,omitempty"`
	Keys       []KeyClaim   `json:"keys,omitempty"`   // the binding's and its own, by name
	Passed     int          `json:"passed,omitempty"` // how often others were granted first because of its keys
	Start      bool         `json:"start,omitempty"`  // its grant starts a stopped browser
	ForMs      int64        `json:"for_ms,omitzero"`
	WaitUntil  Deadline     `json:"wait_until,omitzero"`
	ClaimBy    Deadline     `json:"claim_by,omitzero"`
	Expires    Deadline     `json:"expires,omitzero"`
	MaxUntil   Deadline     `json:"max_until,omitzero"`
	Ask        *Ask         `json:"ask,omitempty"`       // what its agent last asked of a person
	Retention  *Retention   `json:"retention,omitempty"` // the last asked for
}

// Work is what goes on under a slot's epoch. It ends with the epoch, and an epoch
// ends with the daemon: so it is never written.
type Work struct {
	Lane    []ActionID           // admitted, not yet done, in order
	Seen    map[TabID]DocumentID // the document last reported to this agent, by tab
	LastTab TabID
	Recent  []int64 // when actions of the last minute were admitted, boot milliseconds
}

// Action is one entry of the ledger.
type Action struct {
	Record
	Agent    AgentName   `json:"agent,omitzero"`
	Binding  BindingName `json:"binding,omitzero"`
	BodyHash string      `json:"body_hash,omitzero"`
	Deadline Deadline    `json:"deadline,omitzero"`
	Bytes    int64       `json:"bytes,omitempty"` // asked for and answered, for the lease's budget
	Sent     bool        `json:"sent,omitzero"`   // handed to the host
	Over     bool        `json:"over,omitzero"`   // its epoch's control has ended
	Closed   bool        `json:"closed,omitzero"`
	Instance InstanceID  `json:"instance,omitzero"` // the worker that had the grant

	Host      string              `json:"host,omitzero"` // the host's last word: "", or the state of its action.done
	Rev       int64               `json:"rev,omitzero"`  // of the extension's last report
	How       string              `json:"how,omitzero"`  // how its document came to rest
	HowRule   string              `json:"how_rule,omitempty"`
	Open      int                 `json:"open,omitzero"`     // commands dispatched and not settled
	Reported  int                 `json:"reported,omitzero"` // effect commands that the extension dispatched
	Document  DocumentID          `json:"document,omitzero"`
	Tab       TabID               `json:"tab,omitzero"`
	Script    bool                `json:"script,omitzero"`
	Requests  map[string]SeenCall `json:"requests,omitempty"`
	More      int                 `json:"more,omitzero"` // requests that were only counted
	WatchMs   int64               `json:"watch_ms,omitzero"`
	WatchEnds Deadline            `json:"watch_ends,omitzero"`
	Watched   bool                `json:"watched,omitzero"` // the watch window passed with the watcher there
	// Blind: the watcher was lost (link, daemon or launch). What was running or in
	// flight is unknown until the same watcher reports again.
	Blind bool `json:"blind,omitzero"`
	// Copied: it is known from an older copy of the database. Its extension may have been
	// told to forget it, so that its silence proves nothing.
	Copied bool `json:"copied,omitzero"`
	// Drained: the drain after its epoch has ended, and this is what it left.
	Drained bool `json:"drained,omitzero"`
	// Gone: its launch has ended. Nothing more will be heard.
	Gone bool `json:"gone,omitzero"`
	// IsPast: only its identity is here; the rest is in the store.
	IsPast bool `json:"-"`
}

// SeenCall is one request attributed to an action.
type SeenCall struct {
	Method     string `json:"method"`
	URL        string `json:"url"`
	Type       string `json:"type"`
	State      string `json:"state"` // in_flight, answered, failed
	Status     int    `json:"status,omitempty"`
	Error      string `json:"error,omitempty"`
	Rule       string `json:"rule"`
	AfterFence bool   `json:"after_fence,omitempty"`
}
