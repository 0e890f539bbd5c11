package core

import "fmt"

// Ask is what an agent asks of a person: to sign in, to enter a second factor, to
// decide. It waits visibly until a person answers it, takes the slot over, or the
// lease ends.
type Ask struct {
	Reason   string `json:"reason"`
	AtMs     int64  `json:"at"`
	Epoch    Epoch  `json:"epoch"` // at which it was asked: an answer is for this epoch
	State    string `json:"state"` // open, granted, declined, taken_over
	By       string `json:"by,omitempty"`
	Note     string `json:"note,omitempty"`
	AnswerMs int64  `json:"answered,omitempty"`
}

func (t *tx) askPerson(in AskPerson) *Error {
	l, err := t.holding(in.Lease, in.Cap)
	if err != nil {
		return err
	}
	if in.Reason == "" || len(in.Reason) > 1024 {
		return Refuse(CodeInvalid, "reason is missing or longer than 1024 bytes", "say in one sentence what a person is needed for")
	}
	t.res.Lease = l
	if l.Ask != nil && l.Ask.State == "open" && l.Ask.Epoch == l.Epoch && l.Ask.Reason == in.Reason {
		t.res.Repeat = true
		return nil
	}
	l = t.lease(l.ID)
	l.Ask = &Ask{Reason: in.Reason, AtMs: t.now.WallMs, Epoch: l.Epoch, State: "open"}
	t.res.Lease = l
	t.log("asked", t.seeSlot(l.Slot), l.ID, "", in.Reason)
	return nil
}

// holding returns a lease that has control now.
func (t *tx) holding(id LeaseID, cap string) (*Lease, *Error) {
	l, err := t.authenticated(id, cap)
	switch {
	case err != nil:
		return nil, err
	case l.State != LeaseActive:
		return nil, t.lost(l, l.Epoch)
	case l.Expires.Passed(t.now):
		return nil, Refuse(CodeExpired, "the lease's time is over", "acquire a new one")
	}
	return l, nil
}

// answerAsk records a person's answer. One that was asked under another epoch is past:
// the page that it was about may be another.
func (t *tx) answerAsk(in AnswerAsk) *Error {
	t.by = in.By
	l, err := t.personsLease(in.Lease, in.IfEpoch, in.Note)
	if err != nil {
		return err
	}
	switch {
	case l.Ask == nil || l.Ask.State != "open":
		return Refuse(CodeConflict, "nothing that this lease asked waits for an answer", "sessiondock lease show "+string(l.ID))
	case l.Ask.Epoch != t.seeSlot(l.Slot).Epoch:
		return Refuse(CodeConflict, fmt.Sprintf("it was asked at epoch %d, and slot %s is at %d", l.Ask.Epoch, l.Slot, t.seeSlot(l.Slot).Epoch),
			"what was asked is past; the agent can ask again").With("epoch", t.seeSlot(l.Slot).Epoch)
	}
	state := "declined"
	if in.Granted {
		state = "granted"
	}
	l = t.lease(l.ID)
	t.closeAsk(l, state, in.By, in.Note)
	t.res.Lease = l
	t.log("ask "+state, t.seeSlot(l.Slot), l.ID, "", l.Ask.Reason+noted(in.Note))
	return nil
}

// closeAsk ends what a lease asked, if that is open. The lease is the step's own.
func (t *tx) closeAsk(l *Lease, state, by, note string) {
	if l.Ask == nil || l.Ask.State != "open" {
		return
	}
	a := *l.Ask
	a.State, a.By, a.Note, a.AnswerMs = state, by, note, t.now.WallMs
	l.Ask = &a
}

// personsLease returns the lease that a person decides on, at the epoch of its slot
// that they saw.
func (t *tx) personsLease(id LeaseID, ifEpoch *Epoch, note string) (*Lease, *Error) {
	l := t.seeLease(id)
	switch {
	case l == nil:
		return nil, Refuse(CodeNotFound, fmt.Sprintf("there is no lease %q", clip(string(id), 80)), "sessiondock lease list")
	case len(note) > 4096:
		return nil, Refuse(CodeLimit, "note is longer than 4096 bytes", "shorten it")
	case l.State == LeaseEnded:
		return nil, Refuse(CodeExpired, "the lease has ended: "+l.Why, "sessiondock lease list")
	}
	return l, t.seeSlot(l.Slot).at(ifEpoch)
}
