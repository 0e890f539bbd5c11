package core

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Class says whether an action can have an effect on a website.
type Class string

const (
	Read  Class = "read"
	Write Class = "write"
)

// Expect names the document in which an action is to run. Tab 0 is the active
// tab; an empty Document is the one last reported to this agent for that tab.
type Expect struct {
	Tab      TabID      `json:"tab,omitempty"`
	Frame    int64      `json:"frame,omitempty"`
	Document DocumentID `json:"document,omitempty"`
}

// Steps counts the effect commands of an action.
type Steps struct {
	Dispatched int `json:"dispatched"`
	Total      int `json:"total"`
}

// Authority is what was decided about an action: admitted, or refused:CODE.
type Authority string

// Admitted is the authority of every action that passed the first gate.
const Admitted Authority = "admitted"

// Refused makes the authority of a refused action.
func Refused(c Code) Authority { return Authority("refused:" + string(c)) }

// Local is what is known of an action's local work.
type Local string

const (
	NotDispatched Local = "not_dispatched" // proved
	Running       Local = "running"
	Interrupted   Local = "interrupted" // some steps of several, each at rest
	Finished      Local = "finished"    // for input: a barrier in the same document passed after it
	Failed        Local = "failed"      // an error of the closed table proves that it did not execute
	Ended         Local = "ended"       // its renderer or launch is verified gone; whether it ran is not known
	LocalUnknown  Local = "unknown"
)

// Remote is what is known of an action's result on the website.
type Remote string

const (
	NoneSeen       Remote = "none_seen" // so far, or until WatchedUntil
	InFlight       Remote = "in_flight"
	AbortedLocally Remote = "aborted_locally"
	RemoteUnknown  Remote = "unknown"
	Applied        Remote = "applied"
	NotApplied     Remote = "not_applied"
)

// Answered makes the remote value of an answer with an HTTP status.
func Answered(status int) Remote { return Remote(fmt.Sprintf("answered:%d", status)) }

// Status returns the HTTP status of an answered value, or 0.
func (r Remote) Status() int {
	var s int
	if rest, ok := strings.CutPrefix(string(r), "answered:"); ok {
		fmt.Sscanf(rest, "%d", &s)
	}
	return s
}

// Evidence is one observation about an action. Rule says how it was attributed.
type Evidence struct {
	Kind   string `json:"kind"`   // request, answer, failure, local, download, probe
	AtMs   int64  `json:"at"`     // unix milliseconds
	Source string `json:"source"` // extension, host, supervisor, daemon
	Rule   string `json:"rule"`
	Method string `json:"method,omitempty"`
	URL    string `json:"url,omitempty"`
	Status int    `json:"status,omitempty"`
	Text   string `json:"text,omitempty"`
	// AfterFence: it began after the epoch of its action had ended.
	AfterFence bool `json:"after_fence,omitempty"`
}

// Resolution is a person's (or a probe's) verdict on an action.
type Resolution struct {
	By      string `json:"by"`                 // the person, or system
	AskedBy string `json:"asked_by,omitempty"` // who asked the system
	Rule    string `json:"rule,omitempty"`     // probe, or none: somebody looked
	AtMs    int64  `json:"at"`
	Verdict Remote `json:"verdict"` // applied or not_applied
	Note    string `json:"note,omitempty"`
}

// Times of an action, unix milliseconds, 0 if not yet.
type Times struct {
	Admitted   int64 `json:"admitted"`
	Dispatched int64 `json:"dispatched,omitempty"`
	Settled    int64 `json:"settled,omitempty"`
}

// Record is an action as clients read it.
type Record struct {
	Action       ActionID        `json:"action"`
	ID           ClientID        `json:"id"`
	Lease        LeaseID         `json:"lease"`
	Slot         SlotName        `json:"slot"`
	Epoch        Epoch           `json:"epoch"`
	Verb         string          `json:"verb"`
	Summary      string          `json:"summary"`
	Class        Class           `json:"class"`
	Authority    Authority       `json:"authority"`
	Local        Local           `json:"local"`
	Steps        Steps           `json:"steps"`
	Remote       Remote          `json:"remote"`
	WatchedUntil int64           `json:"watched_until,omitempty"` // none_seen holds until then
	Watching     bool            `json:"watching,omitempty"`      // the watch window is open: none_seen means "so far"
	Evidence     []Evidence      `json:"evidence"`
	Resolution   *Resolution     `json:"resolution"`
	Expect       Expect          `json:"expect"`
	Observed     *Expect         `json:"observed,omitempty"`
	URL          string          `json:"url,omitempty"`
	Times        Times           `json:"times"`
	Trimmed      bool            `json:"trimmed,omitempty"` // its details are no longer kept: evidence, addresses, documents
	Error        *Error          `json:"error,omitempty"`
	Result       json.RawMessage `json:"result,omitempty"` // only to the lease that made it, while its epoch lasts
	Dialog       *Dialog         `json:"dialog,omitempty"` // it goes on when this is answered; told as Result is
}

// Dialog is what a page shows a person and waits with: whatever is asked of the page
// meanwhile is answered afterwards.
type Dialog struct {
	Kind    string `json:"kind"` // alert, confirm, prompt, beforeunload
	Message string `json:"message"`
	Default string `json:"default,omitempty"` // prompt: the text that stands there
}

// Status is a slot's state in the three answers. It is what status, the popup and
// the API show.
type Status struct {
	Slot        SlotName       `json:"slot"`
	AtMs        int64          `json:"at"`
	Binding     BindingName    `json:"binding"`
	Authority   AuthorityNow   `json:"authority"`
	Local       LocalNow       `json:"local"`
	Remote      RemoteNow      `json:"remote"`
	Offer       Offer          `json:"offer"`
	Quarantine  []Reason       `json:"quarantine"`
	Interrupted *Interrupt     `json:"interrupted,omitempty"`
	Queue       []Waiter       `json:"queue"`
	Allow       []string       `json:"allow,omitempty"` // what its binding allows beyond pages
	Keys        []string       `json:"keys,omitempty"`  // conflict keys that the slot holds
	Asks        []AskNow       `json:"asks,omitempty"`
	Retentions  []RetentionNow `json:"retentions,omitempty"`
	SignIns     []SignIn       `json:"sign_ins,omitempty"`
	Unclean     *UncleanEnd    `json:"unclean,omitempty"` // the browser's last end, if that was not a clean one
	Probing     *Probing       `json:"probing,omitempty"` // a look of the system's at a page
	Sentences   Sentences      `json:"sentences"`
}

// AskNow is what an agent asks of a person and nobody has answered.
type AskNow struct {
	Lease LeaseID   `json:"lease"`
	Agent AgentName `json:"agent"`
	Ask
}

// RetentionNow is a longer maximum lifetime that an agent asks for.
type RetentionNow struct {
	Lease LeaseID   `json:"lease"`
	Agent AgentName `json:"agent"`
	Retention
}

// SignIn is what is known of the account that a binding expects.
type SignIn struct {
	Binding       BindingName   `json:"binding"`
	Account       string        `json:"account,omitempty"`
	Confirmed     *Confirmation `json:"confirmed"`
	BeforeRestart bool          `json:"before_restart,omitempty"` // the browser was started again since
	Prepared      bool          `json:"prepared"`                 // confirmed, on the disk, and not known to be lost
	Probe         bool          `json:"probe,omitempty"`          // the binding declares how to check it
	Checked       *AccountNow   `json:"checked,omitempty"`        // what was last found by that
}

// AuthorityNow answers: who may act now?
type AuthorityNow struct {
	Holder      Holder  `json:"holder"`
	Epoch       Epoch   `json:"epoch"`
	Lease       LeaseID `json:"lease,omitempty"`
	ExpiresInMs int64   `json:"expires_in_ms,omitempty"`
	Fence       string  `json:"fence"` // pending, acknowledged, draining, drained, unacknowledged
	Ready       bool    `json:"ready"` // the holder's grant is open in the extension
	// Unrecorded: a person has taken over, and the database does not have it yet.
	Unrecorded bool `json:"unrecorded,omitempty"`
}

// Holder is who has control.
type Holder struct {
	Kind string `json:"kind"` // none, human, agent
	Name string `json:"name"` // the agent's name, or the person's surface
}

// LocalNow answers: what local work might still be running?
type LocalNow struct {
	State     string       `json:"state"` // idle, running, unknown
	Commands  []CommandNow `json:"commands"`
	Documents []DocNow     `json:"documents"`
	Downloads []string     `json:"downloads"`
	Launch    *LaunchNow   `json:"launch,omitempty"`
}

// CommandNow is an action whose local work is not known to be over.
type CommandNow struct {
	Action    ActionID `json:"action"`
	Summary   string   `json:"summary"`
	RunningMs int64    `json:"running_ms"`
	Local     Local    `json:"local"`
}

// DocNow is a document in which an agent's input is pending or its script may run.
type DocNow struct {
	Document DocumentID `json:"document"`
	Tab      TabID      `json:"tab"`
	URL      string     `json:"url"`
	Why      string     `json:"why"` // agent_script, input_pending
	Agent    AgentName  `json:"agent"`
}

// LaunchNow is the slot's browser.
type LaunchNow struct {
	Launch       LaunchID `json:"launch"`
	Generation   int64    `json:"generation"`
	Unit         string   `json:"unit,omitempty"`
	InvocationID string   `json:"invocation_id,omitempty"`
	Containment  string   `json:"containment"` // full, weak
	State        string   `json:"state"`       // starting, running, ended, unknown
	Link         string   `json:"link"`        // up, down: is the extension connected and attested
	Debug        string   `json:"debug,omitempty"`
	Packaging    string   `json:"packaging,omitempty"`   // how the extension was put into it: policy, external, load
	Unprotected  string   `json:"unprotected,omitempty"` // what that packaging leaves open; empty: nothing that another would close
}

// RemoteNow answers: what is known about the result on the website?
type RemoteNow struct {
	State    string       `json:"state"` // of the actions that are not closed: none_seen, in_flight, answered, unknown
	Requests []RequestNow `json:"requests"`
}

// RequestNow is a request of an action that is not closed.
type RequestNow struct {
	Action ActionID `json:"action"`
	Method string   `json:"method"`
	URL    string   `json:"url"`
	State  string   `json:"state"`
}

// Offer says whether the slot can be granted to an agent now, and if not, why.
type Offer struct {
	Available bool     `json:"available"`
	Why       []string `json:"why"`
}

// Reason is one reason of a quarantine.
type Reason struct {
	Code    string   `json:"code"`
	Text    string   `json:"text"`
	SinceMs int64    `json:"since"`
	Action  ActionID `json:"action,omitempty"`
	Resolve string   `json:"resolve"` // the command that leaves it
}

// Interrupt is the lease that a person's takeover interrupted.
type Interrupt struct {
	Lease       LeaseID   `json:"lease"`
	Agent       AgentName `json:"agent"`
	ExpiresInMs int64     `json:"expires_in_ms"`
	Ask         *Ask      `json:"ask,omitempty"` // what it asked of the person who took over
}

// Waiter is a place in the slot's queue.
type Waiter struct {
	Lease    LeaseID     `json:"lease"`
	Agent    AgentName   `json:"agent"`
	Binding  BindingName `json:"binding"`
	Task     string      `json:"task,omitempty"`
	Priority int         `json:"priority,omitempty"`
	Position int         `json:"position"` // 1 is next
	WaitMs   int64       `json:"wait_ms"`  // left
	Reasons  []string    `json:"reasons"`
}

// Sentences says the three answers in plain words, for a person.
type Sentences struct {
	Authority string   `json:"authority"`
	Local     string   `json:"local"`
	Remote    string   `json:"remote"`
	Warnings  []string `json:"warnings"`
}
