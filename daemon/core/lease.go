package core

import (
	"crypto/subtle"
	"fmt"
)

func (t *tx) acquire(in Acquire) *Error {
	t.by = in.By
	if in.RequestID == "" || len(in.RequestID) > 128 {
		return Refuse(CodeInvalid, "request_id is missing or longer than 128 bytes", "choose one, and use the same one if you have to ask again")
	}
	if in.ForMs == 0 {
		in.ForMs = DefaultLeaseMs
	}
	if in.ForMs < 1000 || in.ForMs > MaxLeaseMs {
		return Refuse(CodeInvalid, "for_ms is out of range", "1000 to seven days")
	}
	if in.WaitMs < 0 || in.WaitMs > MaxWaitMs {
		return Refuse(CodeInvalid, "wait_ms is out of range", "0 to one day")
	}
	if in.Priority < -MaxPriority || in.Priority > MaxPriority {
		return Refuse(CodeInvalid, "priority is out of range", fmt.Sprintf("-%d to %d", MaxPriority, MaxPriority))
	}
	if len(in.Task) > 1024 {
		return Refuse(CodeLimit, "task is longer than 1024 bytes", "shorten it")
	}
	delegation, err := t.permit(&in)
	if err != nil {
		return err
	}
	t.by = "agent:" + string(in.Agent)
	b := t.s.Bindings[in.Binding]
	if b == nil || b.Removed {
		return noBinding(in.Binding)
	}
	if in.ForMs > t.maxLifetime(b.Name) {
		return Refuse(CodeLimit, fmt.Sprintf("for_ms is longer than the binding's maximum lifetime of %s", span(t.maxLifetime(b.Name))),
			"ask for less, or a person raises the binding's --max-lifetime").With("max_lifetime_ms", t.maxLifetime(b.Name))
	}
	if id, ok := t.s.index.request[requestKey{delegation, b.Name, in.RequestID}]; ok {
		return t.acquireAgain(id, in)
	}
	keys, err := parseKeys(b.Keys, in.Keys)
	if err != nil {
		return err
	}
	s := t.seeSlot(b.Slot)
	if s == nil || s.Removed {
		return noSlot(b.Slot)
	}
	if len(t.s.index.waiting[s.Name]) >= MaxWaiters {
		return Refuse(CodeLimit, fmt.Sprintf("%d requests wait for slot %s", MaxWaiters, s.Name), "ask again later")
	}
	l := &Lease{
		ID: in.Lease, Slot: s.Name, Binding: b.Name, Delegation: delegation, Agent: in.Agent, Task: in.Task,
		RequestID: in.RequestID, CapHash: in.CapHash, State: LeaseWaiting, ForMs: in.ForMs,
		WaitUntil: t.waitUntil(delegation, in.WaitMs), Arrived: t.s.Seq + 1, Priority: in.Priority, Keys: keys, Start: in.WaitMs > 0,
	}
	if err := t.unconfirmed(b.Name); err != nil {
		t.log("refused", s, "", "", "acquire: "+err.Message)
		return err
	}
	if err := t.unchecked(s, b.Name); err != nil && err.Code == CodeAccountMismatch {
		t.log("refused", s, "", "", "acquire: "+err.Message)
		return err
	}
	if in.WaitMs == 0 {
		bs := t.waiterBlocks(l)
		if n := t.aheadOf(l); len(bs) == 0 && n > 0 {
			text := waitBefore(n)
			bs = []block{{CodeBusy, text, text, true}}
		}
		if len(bs) > 0 {
			if len(bs) == 1 && t.unchecked(s, b.Name) != nil && bs[0].code == CodeBusy {
				t.look(s, l) // for the next request: this one does not wait
			}
			t.log("refused", s, "", "", "acquire: "+bs[0].text)
			return refuseBlocked(s, bs)
		}
	}
	t.putLease(l)
	t.res.Lease = l
	t.log("acquire", s, l.ID, "", fmt.Sprintf("agent %s asks for binding %s", l.Agent, l.Binding))
	t.touch(s.Name)
	return nil
}

// aheadOf counts the waiters of the slot that stand before a request, but for those
// that wait for what only a person can tell.
func (t *tx) aheadOf(l *Lease) int {
	n := 0
	for w := range t.queue(l.Slot) {
		if err := t.unchecked(t.seeSlot(l.Slot), w.Binding); before(w, l) && t.unconfirmed(w.Binding) == nil && (err == nil || err.Code != CodeUnavailable) {
			n++
		}
	}
	return n
}

// permit checks the delegation that came with an acquire and settles the agent's
// name. A person on control.sock needs none.
func (t *tx) permit(in *Acquire) (DelegationID, *Error) {
	if in.Person {
		if in.Agent == "" {
			in.Agent = "person"
		}
		return "", CheckName("agent", string(in.Agent))
	}
	d := t.s.Delegations[t.s.index.tokens[in.Token]]
	if in.Token == "" || d == nil {
		return "", Refuse(CodeUnauthenticated, "no valid delegation came with the request",
			"a person makes one: sessiondock delegate BINDING --to NAME; send it as Authorization: Bearer TOKEN")
	}
	t.by = "agent:" + string(d.Agent)
	switch {
	case d.Revoked:
		return "", Refuse(CodeDenied, "the delegation was revoked", "ask a person for a new one")
	case d.Expires.Passed(t.now):
		return "", Refuse(CodeExpired, "the delegation has expired", "ask a person for a new one")
	case d.Binding != in.Binding:
		t.log("denied", nil, "", "", fmt.Sprintf("delegation for %s used for %s", d.Binding, clip(string(in.Binding), 80)))
		return "", Refuse(CodeDenied, fmt.Sprintf("the delegation is for binding %s, not %q", d.Binding, clip(string(in.Binding), 80)), "ask for the delegated binding")
	case in.Agent != "" && in.Agent != d.Agent:
		return "", Refuse(CodeDenied, fmt.Sprintf("the delegation is for agent %s, not %q", d.Agent, clip(string(in.Agent), 80)), "leave agent out")
	}
	in.Agent, in.Priority = d.Agent, d.Priority
	return d.ID, nil
}

// acquireAgain answers a request that came before. A capability is shown once; if
// nobody has used it yet, the answer may have been lost, and a new one is given.
func (t *tx) acquireAgain(id LeaseID, in Acquire) *Error {
	l := t.seeLease(id)
	t.res.Repeat = true
	switch l.State {
	case LeaseEnded:
		if l.Refusal != nil {
			return l.Refusal
		}
		return Refuse(CodeExpired, "the lease of this request has ended: "+l.Why, "acquire with a new request_id")
	case LeaseWaiting, LeaseGranted:
		l = t.lease(id)
		l.CapHash = in.CapHash
		if l.State == LeaseWaiting {
			l.WaitUntil = t.waitUntil(l.Delegation, in.WaitMs)
			l.Start = l.Start || in.WaitMs > 0
		}
	default:
		return Refuse(CodeConflict, fmt.Sprintf("the lease of this request is in use (%s)", l.ID), "use the capability that came with it, or a new request_id").With("lease", l.ID)
	}
	t.res.Lease = l
	t.log("acquire again", t.seeSlot(l.Slot), l.ID, "", "the request came again; a new capability took the place of the first")
	t.touch(l.Slot)
	return nil
}

// waitUntil is when a request stops waiting: after the time that it gave, and with the
// delegation that it was made with.
func (t *tx) waitUntil(id DelegationID, ms int64) Deadline {
	until := t.now.In(ms)
	if d := t.s.Delegations[id]; d != nil {
		until = earlier(until, d.Expires)
	}
	return until
}

// waitIsOver ends a request whose time to wait is over, and says whether it was.
func (t *tx) waitIsOver(l *Lease) bool {
	why := "its wait ended"
	if d := t.s.Delegations[l.Delegation]; d != nil && d.Expires.Passed(t.now) {
		why = "its delegation has expired"
	} else if !l.WaitUntil.Passed(t.now) {
		return false
	}
	t.cancelWait(CancelWait{Lease: l.ID, Why: why})
	return true
}

// cancelWait ends a waiter whose client has gone.
func (t *tx) cancelWait(in CancelWait) *Error {
	l := t.seeLease(in.Lease)
	if l == nil || l.State != LeaseWaiting && l.State != LeaseGranted || in.Cap != "" && in.Cap != l.CapHash {
		return nil
	}
	l = t.lease(in.Lease)
	s := t.slot(l.Slot)
	if l.State == LeaseGranted {
		t.withdraw(s, l, in.Why)
		return nil
	}
	t.endLease(l, in.Why)
	t.log("left the queue", s, l.ID, "", in.Why)
	t.touch(s.Name) // a browser may have been wanted for it
	return nil
}

// withdraw takes a grant back that nobody claimed; its epoch is burned.
func (t *tx) withdraw(s *Slot, l *Lease, why string) {
	t.endLease(l, why)
	t.change(s, Holder{Kind: "none"}, "", 0, "")
	t.log("withdrawn", s, l.ID, "", why)
}

func (t *tx) endLease(l *Lease, why string) {
	l.State, l.Why = LeaseEnded, why
	t.closeAsk(l, "declined", t.by, "the lease has ended: "+why)
}

// authenticated returns the step's copy of a lease whose capability was shown. The
// comparison takes the same time whatever differs.
func (t *tx) authenticated(id LeaseID, cap string) (*Lease, *Error) {
	l := t.seeLease(id)
	hash := ""
	if l != nil {
		hash = l.CapHash
	}
	same := subtle.ConstantTimeCompare([]byte(hash), []byte(cap)) == 1
	if l == nil || !same || cap == "" {
		return nil, Refuse(CodeUnauthenticated, "no lease with this capability", "send the lease's own capability as Authorization: Bearer CAPABILITY")
	}
	t.by = "agent:" + string(l.Agent)
	if l.State == LeaseEnded {
		return nil, Refuse(CodeExpired, "the lease has ended: "+l.Why, "acquire a new one").With("lease", l.ID)
	}
	if l.State == LeaseGranted {
		l = t.lease(id)
		l.State, l.ClaimBy = LeaseActive, Deadline{}
		t.log("claimed", t.seeSlot(l.Slot), l.ID, "", "its capability was used")
	}
	return l, nil
}

func (t *tx) claim(in Claim) *Error {
	l, err := t.authenticated(in.Lease, in.Cap)
	if err != nil && err.Code == CodeExpired {
		t.res.Lease = t.seeLease(in.Lease) // its end may be looked at
		return nil
	}
	t.res.Lease = l
	return err
}

func (t *tx) renew(in Renew) *Error {
	if in.ForMs == 0 {
		in.ForMs = DefaultLeaseMs
	}
	if in.ForMs < 1000 || in.ForMs > MaxLeaseMs {
		return Refuse(CodeInvalid, "for_ms is out of range", "1000 to seven days")
	}
	l, err := t.holding(in.Lease, in.Cap)
	if err != nil {
		return err
	}
	l = t.lease(l.ID)
	// Never less than it has: what the browser was granted for it cannot be taken back.
	until := earlier(t.now.In(in.ForMs), l.MaxUntil)
	if until.LeftMs(t.now) > l.Expires.LeftMs(t.now) {
		l.Expires = until
	}
	t.log("renewed", t.seeSlot(l.Slot), l.ID, "", "for "+span(l.Expires.LeftMs(t.now)))
	t.res.Lease = l
	return nil
}

// lost refuses what needs control that the lease does not have (any more).
func (t *tx) lost(l *Lease, epoch Epoch) *Error { return lostControl(t.seeSlot(l.Slot), l, epoch) }

// WhyLost says why a lease has no control under an epoch, or nil if it has.
func WhyLost(s *State, now Now, id LeaseID, epoch Epoch) *Error {
	l := s.Leases[id]
	switch {
	case l == nil:
		return Refuse(CodeNotFound, "there is no such lease", "acquire one")
	case l.State == LeaseEnded:
		return Refuse(CodeExpired, "the lease has ended: "+l.Why, "acquire a new one")
	}
	v := s.Slots[l.Slot]
	holds := l.State == LeaseActive || l.State == LeaseGranted
	if !holds || l.Epoch != epoch || v.Epoch != epoch || v.Lease != id {
		return lostControl(v, l, epoch)
	}
	if l.Expires.Passed(now) {
		return Refuse(CodeExpired, "the lease's time is over", "acquire a new one")
	}
	return nil
}

func lostControl(s *Slot, l *Lease, epoch Epoch) *Error {
	hint := "wait, or resume the lease once it is offered again"
	why := fmt.Sprintf("epoch %d has ended; slot %s is at epoch %d", epoch, s.Name, s.Epoch)
	switch l.State {
	case LeaseInterrupted:
		why += ": a person took over"
		hint = "a person holds the slot; resume after they hand it back"
	case LeaseSuspended:
		why += ": " + l.Why
		hint = "resume the lease: sessiondock lease resume " + string(l.ID)
	case LeaseWaiting:
		return Refuse(CodeBusy, "the lease waits for its slot", "wait for the grant")
	}
	return Refuse(CodeFenced, why, hint).With("epoch", s.Epoch).With("your_epoch", epoch).With("holder", s.Holder)
}

func (t *tx) release(in Release) *Error {
	l, err := t.authenticated(in.Lease, in.Cap)
	if err != nil {
		return err
	}
	t.endControl(t.lease(l.ID), "released by its agent", "released")
	return nil
}

func (t *tx) revoke(in Revoke) *Error {
	t.by = in.By
	l := t.seeLease(in.Lease)
	if l == nil {
		return Refuse(CodeNotFound, fmt.Sprintf("there is no lease %q", clip(string(in.Lease), 80)), "sessiondock lease list")
	}
	if l.State == LeaseEnded {
		t.res.Lease = l
		return nil
	}
	if err := t.seeSlot(l.Slot).at(in.IfEpoch); err != nil {
		return err
	}
	t.endControl(t.lease(l.ID), "revoked by a person"+noted(in.Note), "revoked")
	return nil
}

// endControl ends a lease and, if it holds or keeps the slot, its control.
func (t *tx) endControl(l *Lease, why, kind string) {
	s := t.slot(l.Slot)
	holds := s.Lease == l.ID
	t.endLease(l, why)
	t.res.Lease = l
	if s.Interrupted == l.ID {
		s.Interrupted = ""
	}
	if holds && s.Holder.Kind == "agent" {
		t.change(s, Holder{Kind: "none"}, "", 0, "")
	} else if holds {
		s.Lease = ""
	}
	t.touch(s.Name)
	t.log(kind, s, l.ID, "", why)
}

// suspend takes control from an agent through no doing of its own. The slot is
// kept for it until its time is over.
func (t *tx) suspend(s *Slot, why string) {
	l := t.seeLease(s.Lease)
	if s.Holder.Kind != "agent" || l == nil {
		return
	}
	l = t.lease(l.ID)
	if l.State == LeaseGranted {
		// Nobody may ever have been told its capability: it must not keep the slot.
		t.withdraw(s, l, why+" before the grant was claimed")
		return
	}
	l.State, l.Why, l.ClaimBy = LeaseSuspended, why, Deadline{}
	t.change(s, Holder{Kind: "none"}, l.ID, 0, "")
	t.log("suspended", s, l.ID, "", why)
}

// resume gives a suspended lease its slot again, at a new epoch, never for longer
// than was granted.
func (t *tx) resume(in Resume) *Error {
	l, err := t.authenticated(in.Lease, in.Cap)
	if err != nil {
		return err
	}
	s := t.seeSlot(l.Slot)
	t.res.Lease = l
	switch {
	case l.State == LeaseActive:
		return nil // it holds the slot already
	case l.State == LeaseInterrupted:
		return Refuse(CodeHeld, fmt.Sprintf("a person holds slot %s (%s)", s.Name, s.Holder.Name), "wait until they hand it back").With("holder", s.Holder)
	case l.State != LeaseSuspended || s.Lease != l.ID:
		return t.lost(l, l.Epoch)
	case l.Expires.Passed(t.now):
		return Refuse(CodeExpired, "the lease's time is over", "acquire a new one")
	}
	s, l = t.slot(l.Slot), t.lease(l.ID)
	t.res.Lease = l
	l.Start = true // its agent is there and wants to go on
	kept := s.Lease
	s.Lease = "" // what keeps the slot for this lease does not stand against it
	bs := t.blocks(s, l.Agent)
	s.Lease = kept
	if err := t.unchecked(s, l.Binding); len(bs) == 0 && err != nil {
		if err.Code == CodeBusy {
			t.look(s, l)
		}
		return err
	}
	if text := t.full(s); len(bs) == 0 && l.Start && text != "" && !t.room(s) {
		bs = []block{{CodeCapacity, text, text, true}}
	}
	if len(bs) > 0 {
		return refuseBlocked(s, bs)
	}
	t.grant(s, l)
	return nil
}
