package core

import (
	"fmt"
	"regexp"
)

// Epoch numbers the periods of control of one slot. It is raised at every
// change of control, never lowered and never issued twice (I1). The largest
// one fits a JavaScript number exactly.
type Epoch uint64

// MaxEpoch is the largest epoch: the last integer that JavaScript, and so the
// extension, represents exactly.
const MaxEpoch Epoch = 1<<53 - 1

// Named identifiers. They are opaque strings on the wire; the types keep one
// from being passed for another.
type (
	SlotName     string // a slot's name, chosen by a person
	BindingName  string // a binding's name, chosen by a person
	AgentName    string // an agent's name, as its delegation gives it
	LeaseID      string // ULID
	ActionID     string // ULID: the daemon's global identifier of an action
	ClientID     string // the client's own identifier of an action (ULID or UUID)
	DelegationID string // ULID
	RetentionID  string // ULID
	ProbeID      string // of one probe, numbered by the journal
	LaunchID     string // ULID: one run of a slot's browser
	DocumentID   string // Chromium's documentId of one document
	InstanceID   string // one life of the extension's service worker
	HoldID       string // one press of "Take over", made by the extension
	Nonce        string // one attested connection of a host to the daemon
)

// TabID is the extension's number of a tab; it is valid for one launch.
type TabID int64

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// CheckName refuses a slot, binding or agent name that could not be a path
// element or would be unclear in a message.
func CheckName(what, name string) *Error {
	if nameRE.MatchString(name) {
		return nil
	}
	return Refuse(CodeInvalid, fmt.Sprintf("%s name %q is not valid", what, clip(name, 80)),
		"use 1 to 63 of a-z 0-9 . _ - and begin with a letter or digit")
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
