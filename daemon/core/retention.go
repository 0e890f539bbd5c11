package core

import "fmt"

// Retention is an agent's wish to keep its lease beyond the maximum that a person set
// (I13). A person approves it before the lease's time is over, which says how
// long it may be; the agent then acknowledges it, which is what gives it the time and the
// maximum. An agent that has gone keeps nothing.
type Retention struct {
	ID     RetentionID `json:"retention"`
	ForMs  int64       `json:"for_ms"` // from the approval on
	Reason string      `json:"reason"`
	Epoch  Epoch       `json:"epoch"` // at which it was asked
	AtMs   int64       `json:"at"`
	State  string      `json:"state"` // requested, approved, refused, acknowledged
	By     string      `json:"by,omitempty"`
	Note   string      `json:"note,omitempty"`
	// DecidedMs and AcknowledgedMs are of the wall clock, for people.
	DecidedMs      int64    `json:"decided,omitempty"`
	AcknowledgedMs int64    `json:"acknowledged,omitempty"`
	Until          Deadline `json:"until"` // what was approved
}

func (t *tx) retain(in Retain) *Error {
	l, err := t.holding(in.Lease, in.Cap)
	if err != nil {
		return err
	}
	t.res.Lease = l
	switch {
	case in.ForMs < 1000 || in.ForMs > MaxLeaseMs:
		return Refuse(CodeInvalid, "for_ms is out of range", "1000 to seven days")
	case in.Reason == "" || len(in.Reason) > 1024:
		return Refuse(CodeInvalid, "reason is missing or longer than 1024 bytes", "say why more time is needed: a person decides on it")
	case l.Retention != nil && l.Retention.Epoch == l.Epoch && (l.Retention.State == "requested" || l.Retention.State == "approved"):
		switch r := l.Retention; {
		case r.ForMs == in.ForMs && r.Reason == in.Reason:
			t.res.Repeat = true
			return nil
		case r.State == "approved":
			return Refuse(CodeConflict, "an earlier request of this lease was approved", "acknowledge it: sessiondock retain acknowledge").With("retention", r.ID)
		}
		return Refuse(CodeConflict, "an earlier request of this lease waits for a person", "wait for its answer").With("retention", l.Retention.ID)
	}
	l = t.lease(l.ID)
	l.Retention = &Retention{ID: in.ID, ForMs: in.ForMs, Reason: in.Reason, Epoch: l.Epoch, AtMs: t.now.WallMs, State: "requested"}
	t.res.Lease = l
	t.log("retention requested", t.seeSlot(l.Slot), l.ID, "", fmt.Sprintf("for %s: %s", span(in.ForMs), in.Reason))
	return nil
}

// decideRetention is a person's. Late is refused: a lease whose time is over has ended,
// whether or not that was noticed yet.
func (t *tx) decideRetention(in DecideRetention) *Error {
	t.by = in.By
	l, err := t.personsLease(in.Lease, in.IfEpoch, in.Note)
	if err != nil {
		return err
	}
	r := l.Retention
	switch {
	case r == nil || r.ID != in.ID:
		return Refuse(CodeNotFound, fmt.Sprintf("lease %s has no request %q", l.ID, clip(string(in.ID), 80)), "sessiondock retain list")
	case r.State != "requested":
		return Refuse(CodeConflict, "the request was "+r.State+" before", "sessiondock retain list")
	case l.Expires.Passed(t.now) || l.MaxUntil.Passed(t.now):
		return Refuse(CodeExpired, "the lease's time was over before the approval", "the agent acquires a new lease")
	case in.Approved && r.Epoch != t.seeSlot(l.Slot).Epoch:
		return Refuse(CodeConflict, fmt.Sprintf("it was asked at epoch %d, and slot %s is at %d", r.Epoch, l.Slot, t.seeSlot(l.Slot).Epoch),
			"the agent can ask again").With("epoch", t.seeSlot(l.Slot).Epoch)
	}
	l = t.lease(l.ID)
	v := *r
	v.By, v.Note, v.DecidedMs, v.State = in.By, in.Note, t.now.WallMs, "refused"
	if in.Approved {
		v.State, v.Until = "approved", t.now.In(v.ForMs)
	}
	l.Retention = &v
	t.res.Lease = l
	t.log("retention "+v.State, t.seeSlot(l.Slot), l.ID, "", fmt.Sprintf("for %s", span(v.ForMs))+noted(in.Note))
	return nil
}

// acknowledge gives the agent the time that was approved.
func (t *tx) acknowledge(in Acknowledge) *Error {
	l, err := t.holding(in.Lease, in.Cap)
	if err != nil {
		return err
	}
	t.res.Lease = l
	r := l.Retention
	switch {
	case r == nil || r.ID != in.ID:
		return Refuse(CodeNotFound, fmt.Sprintf("this lease has no request %q", clip(string(in.ID), 80)), "look at the lease: sessiondock lease show")
	case r.State == "acknowledged":
		t.res.Repeat = true
		return nil
	case r.State != "approved":
		return Refuse(CodeConflict, "no person has approved it: it is "+r.State, "wait, or finish before the lease ends")
	}
	l = t.lease(l.ID)
	v := *r
	v.State, v.AcknowledgedMs = "acknowledged", t.now.WallMs
	l.Retention = &v
	if l.MaxUntil.BootMs < v.Until.BootMs {
		l.MaxUntil = v.Until
	}
	if l.Expires.BootMs < v.Until.BootMs {
		l.Expires = v.Until
	}
	t.res.Lease = l
	t.log("retention acknowledged", t.seeSlot(l.Slot), l.ID, "", "until its time is over: "+span(l.Expires.LeftMs(t.now)))
	return nil
}
