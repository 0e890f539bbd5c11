package wire

import "sessiondock.dev/sessiondock/daemon/core"

// The JSON of the HTTP API. Durations are milliseconds. A request with an unknown
// member is refused: a misspelt if_epoch must not be ignored.

// AcquireRequest: POST /v1/leases.
type AcquireRequest struct {
	RequestID string           `json:"request_id"` // the same one returns the same lease
	Binding   core.BindingName `json:"binding"`
	ForMs     int64            `json:"for_ms"`          // 0: ten minutes
	WaitMs    int64            `json:"wait_ms"`         // 0: granted now or refused, and a stopped browser is started when something is asked of it
	Keys      []string         `json:"keys,omitempty"`  // conflict keys besides the binding's: KEY or KEY:shared
	Agent     core.AgentName   `json:"agent,omitempty"` // must be the delegation's, if given
	Task      string           `json:"task,omitempty"`
	Priority  int              `json:"priority,omitempty"` // of a person's own request; an agent has its delegation's
}

// LeaseReply answers acquire, renew, resume, release and GET of a lease.
type LeaseReply struct {
	Lease         core.LeaseID     `json:"lease"`
	RequestID     string           `json:"request_id"` // of the acquire that it answers
	Slot          core.SlotName    `json:"slot"`
	Binding       core.BindingName `json:"binding"`
	Agent         core.AgentName   `json:"agent"`
	Task          string           `json:"task,omitempty"`
	State         core.LeaseState  `json:"state"`
	Epoch         core.Epoch       `json:"epoch"`
	Capability    string           `json:"capability,omitempty"` // once, in the answer to acquire
	CDPURL        string           `json:"cdp_url,omitempty"`
	ExpiresInMs   int64            `json:"expires_in_ms"`
	MaxLifetimeMs int64            `json:"max_lifetime_ms"`
	Start         string           `json:"start,omitempty"` // the binding's start page: run and mcp open it when the lease begins
	Allow         []string         `json:"allow,omitempty"` // what the binding allows DevTools commands beyond pages
	UploadDir     string           `json:"upload_dir,omitempty"`
	Why           string           `json:"why,omitempty"` // why it ended or waits
	Keys          []core.KeyClaim  `json:"keys,omitempty"`
	Place         *core.Place      `json:"place,omitempty"` // while it waits
	Budget        core.Budget      `json:"budget,omitzero"`
	Spent         core.Spent       `json:"spent,omitzero"`
	Ask           *core.Ask        `json:"ask,omitempty"`       // what it last asked of a person, and the answer
	Retention     *core.Retention  `json:"retention,omitempty"` // the last longer lifetime it asked for
}

// AgentVariable is set for what `sessiondock run` and `sessiondock mcp` start. A process
// with it among its ancestors gets no person's verb.
const AgentVariable = "SESSIONDOCK_AGENT"

// AgentReply answers POST /v1/agents: the process that is an agent's from now on, with
// all that descends from it.
type AgentReply struct {
	PID int `json:"pid"`
}

// QueueRow is a row of GET /v1/queue: a request of this delegation that waits.
type QueueRow struct {
	RequestID string `json:"request_id"`
	core.Place
}

// AskRequest: POST /v1/leases/{lease}/ask.
type AskRequest struct {
	Reason string `json:"reason"`
}

// RetainRequest: POST /v1/leases/{lease}/retain.
type RetainRequest struct {
	ForMs  int64  `json:"for_ms"` // from the approval on
	Reason string `json:"reason"`
}

// AnswerRequest is a person's yes or no: POST /v1/leases/{lease}/answer and
// /v1/leases/{lease}/retain/{retention}/decide.
type AnswerRequest struct {
	Approve *bool       `json:"approve"`
	Note    string      `json:"note,omitempty"`
	IfEpoch *core.Epoch `json:"if_epoch,omitempty"`
	By      string      `json:"by,omitempty"`
}

// ConfirmRequest: POST /v1/bindings/{binding}/confirm.
type ConfirmRequest struct {
	Note    string      `json:"note,omitempty"`
	IfEpoch *core.Epoch `json:"if_epoch,omitempty"`
	By      string      `json:"by,omitempty"`
}

// ProbeRequest: POST /v1/bindings/{binding}/probe.
type ProbeRequest struct {
	Action  core.ActionID `json:"action,omitempty"` // what became of it? Without one: is the account the expected one?
	IfEpoch *core.Epoch   `json:"if_epoch,omitempty"`
	By      string        `json:"by,omitempty"`
}

// ProbeReply says what a probe found. What the page said is for the person who asked,
// and stored nowhere.
type ProbeReply struct {
	Probe      core.ProbeID     `json:"probe"`
	Kind       string           `json:"kind" enum:"account,effect"`
	Binding    core.BindingName `json:"binding"`
	Slot       core.SlotName    `json:"slot"`
	Epoch      core.Epoch       `json:"epoch"`      // under which it looked
	Generation int64            `json:"generation"` // of the launch
	AtMs       int64            `json:"at"`
	// Verdict: match, mismatch (of account); applied, not_applied (of effect); unknown;
	// cut_off (a takeover, or the end of the link or the browser, ended it).
	Verdict  string       `json:"verdict" enum:"match,mismatch,applied,not_applied,unknown,cut_off"`
	Why      string       `json:"why"`
	Expected string       `json:"expected,omitempty"`
	Seen     string       `json:"seen,omitempty"`   // what the page said, shortened
	URL      string       `json:"url,omitempty"`    // where that was
	Action   *core.Record `json:"action,omitempty"` // of effect: its record now
}

// BindingInfo answers GET /v1/bindings/{binding}.
type BindingInfo struct {
	core.Binding
	SignIn *core.SignIn `json:"sign_in,omitempty"` // what is known of the account, if it needs one
}

// DelegationRow is a row of GET /v1/delegations. The token is never shown again.
type DelegationRow struct {
	Delegation  core.DelegationID `json:"delegation"`
	Binding     core.BindingName  `json:"binding"`
	Agent       core.AgentName    `json:"agent"`
	Priority    int               `json:"priority,omitempty"`
	By          string            `json:"by"`
	ExpiresInMs int64             `json:"expires_in_ms"` // 0: it has expired
	Revoked     bool              `json:"revoked"`
}

// RenewRequest: POST /v1/leases/{lease}/renew. A lease that has more left than for_ms
// keeps it: to end one sooner, release it.
type RenewRequest struct {
	ForMs int64 `json:"for_ms"`
}

// ResumeRequest: POST /v1/leases/{lease}/resume.
type ResumeRequest struct {
	WaitMs int64 `json:"wait_ms"`
}

// ActRequest: POST /v1/leases/{lease}/actions. The verb and its arguments are flat.
type ActRequest struct {
	ID         core.ClientID `json:"id"`
	Epoch      *core.Epoch   `json:"epoch"`
	Expect     *core.Expect  `json:"expect,omitempty"`
	DeadlineMs int64         `json:"deadline_ms,omitempty"`
	Act
}

// SlotRequest: POST /v1/slots.
type SlotRequest struct {
	Slot    core.SlotName `json:"slot"`
	Display string        `json:"display"` // headless or window
}

// BindingRequest: POST /v1/bindings. Slot and Name are required.
type BindingRequest struct {
	core.BindingSpec
}

// DelegateRequest: POST /v1/bindings/{binding}/delegate.
type DelegateRequest struct {
	To       core.AgentName `json:"to"`
	ForMs    int64          `json:"for_ms"`             // 0: one day
	Priority int            `json:"priority,omitempty"` // of its requests; a higher one is granted first
}

// DelegateReply carries the token, which is shown once.
type DelegateReply struct {
	Delegation  core.DelegationID `json:"delegation"`
	Binding     core.BindingName  `json:"binding"`
	Agent       core.AgentName    `json:"agent"`
	Token       string            `json:"token"`
	ExpiresInMs int64             `json:"expires_in_ms"`
}

// ChangeRequest is the body of a person's verb on a slot: POST
// /v1/slots/{slot}/takeover, handback, start, stop, stop-page, adopt, quarantine/lift.
type ChangeRequest struct {
	IfEpoch    *core.Epoch    `json:"if_epoch,omitempty"`
	By         string         `json:"by,omitempty"`          // the person's surface; default "cli"
	FromPerson bool           `json:"from_person,omitempty"` // takeover from another person
	StopPage   bool           `json:"stop_page,omitempty"`
	StopNow    bool           `json:"stop_browser,omitempty"`
	To         core.AgentName `json:"to,omitempty"`
	Confirm    bool           `json:"confirm,omitempty"`
	Note       string         `json:"note,omitempty"`
}

// ResolveRequest: POST /v1/actions/{action}/resolve.
type ResolveRequest struct {
	Verdict core.Remote `json:"verdict"` // applied or not_applied
	Note    string      `json:"note,omitempty"`
	IfEpoch *core.Epoch `json:"if_epoch,omitempty"`
	By      string      `json:"by,omitempty"`
}

// SlotInfo is a row of GET /v1/slots.
type SlotInfo struct {
	Slot    core.SlotName `json:"slot"`
	Display string        `json:"display"`
	Status  core.Status   `json:"status"`
}

// EventRow is one entry of the journal. A row of kind "not kept" is none: it stands where
// entries have been trimmed, and carries the number of the last of them.
type EventRow struct {
	Seq       int64         `json:"seq"`
	AtMs      int64         `json:"at"`
	Kind      string        `json:"kind"`
	Slot      core.SlotName `json:"slot,omitempty"`
	Epoch     core.Epoch    `json:"epoch,omitempty"`
	Lease     core.LeaseID  `json:"lease,omitempty"`
	Action    core.ActionID `json:"action,omitempty"`
	Principal string        `json:"principal"`
	Reason    string        `json:"reason,omitempty"`
}

// ErrorBody is every refusal of the API.
type ErrorBody struct {
	Error core.Error `json:"error"`
}
