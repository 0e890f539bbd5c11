package core

import "slices"

// tick carries out what has become due. It is level-triggered: a tick that comes
// late, or twice, does the same.
func (t *tx) tick() *Error {
	for _, name := range t.s.slotNames() {
		s := t.seeSlot(name)
		if s.Removed {
			continue
		}
		for _, id := range t.s.index.waiting[name] {
			if l := t.seeLease(id); l.State == LeaseWaiting {
				t.waitIsOver(l)
			}
		}
		for _, id := range t.liveLeases(name) {
			l := t.seeLease(id)
			switch {
			case l.State == LeaseGranted && l.ClaimBy.Passed(t.now):
				t.withdraw(t.slot(name), t.lease(id), "nobody claimed the grant")
			case l.Expires.Passed(t.now):
				t.expire(t.slot(name), t.lease(id))
			}
		}
		if p := t.probing(name); p != nil && p.Deadline.Passed(t.now) {
			t.endProbe(name, "unknown", "no answer came in time", "", "")
		}
		if len(t.s.index.waiting[name]) > 0 {
			t.lookAgain(t.seeSlot(name))
		}
		if f := t.seeSlot(name).Fence; f.Deadline.Passed(t.now) {
			t.fenceDue(t.slot(name))
		}
		for _, id := range t.openActions(name) {
			a := t.seeAction(id)
			if !a.Watched && !a.Blind && !a.Gone && a.WatchEnds.Passed(t.now) {
				a = t.action(id)
				a.Watched, a.WatchedUntil = true, t.now.WallMs
				t.settle(a)
				t.touch(name)
			}
			if !a.Sent && !a.Over && a.Deadline.Passed(t.now) {
				t.overdue(t.action(id))
			}
		}
	}
	return nil
}

// expire ends a lease whose time is over, by whatever state it is in.
func (t *tx) expire(s *Slot, l *Lease) { t.endControl(l, "its time is over", "expired") }

// fenceDue is what the absence of an answer means: not that the fence failed, but
// that it is not known whether it holds (I5).
func (t *tx) fenceDue(s *Slot) {
	switch s.Fence.State {
	case "pending":
		s.Fence.State, s.Fence.Deadline = "unacknowledged", Deadline{}
		t.addReason(s, "fence_unacknowledged", "its extension has not acknowledged the fence; a command may still be dispatched there",
			"sessiondock slot stop "+string(s.Name)+" --now")
	case "draining":
		for _, id := range t.openActions(s.Name) {
			if a := t.seeAction(id); a.Over && a.Sent && !a.Drained {
				a = t.action(id)
				a.Drained = true
				t.settle(a)
			}
		}
		s.Fence = FenceNow{State: "drained", SinceMs: t.now.WallMs}
		t.log("drained", s, "", "", "the deadline passed; what was open is unknown")
		if s.Holder.Kind == "agent" {
			t.emit(SendPoke{Slot: s.Name, Epoch: s.Epoch})
		}
	default:
		s.Fence.Deadline = Deadline{}
	}
	t.touch(s.Name)
}

// notSent refuses an action that was admitted, and whose deadline came before the
// engine could hand it over.
func (t *tx) notSent(in Overdue) *Error {
	a := t.seeAction(in.Action)
	if a == nil || a.Over || a.Host != "" {
		return nil
	}
	a = t.action(in.Action)
	a.Host = "refused"
	a.Authority = Refused(CodeDeadline)
	a.Error = Refuse(CodeDeadline, "its deadline came before it could be handed to the browser; it was not dispatched", "ask again with a longer deadline_ms")
	t.settle(a)
	t.next(a)
	return nil
}

// overdue refuses an action that waited for its turn beyond its deadline.
func (t *tx) overdue(a *Action) {
	w := t.work(a.Slot)
	w.Lane = slices.DeleteFunc(w.Lane, func(id ActionID) bool { return id == a.Action })
	a.Over = true
	a.Authority = Refused(CodeDeadline)
	a.Error = Refuse(CodeDeadline, "its turn did not come before its deadline; it was not dispatched", "the page or an earlier action is busy")
	t.settle(a)
	t.log("refused", t.seeSlot(a.Slot), a.Lease, a.Action, "deadline in the lane")
}

// Due says whether a tick would do anything now, so that an idle daemon writes and
// copies nothing.
func Due(s *State, now Now) bool {
	for name, slot := range s.Slots {
		if slot.Removed {
			continue
		}
		if slot.Fence.Deadline.Passed(now) || len(s.index.waiting[name]) > 0 && slot.tooOld(now) {
			return true
		}
		if p := s.Probes[name]; p != nil && p.Running != nil && p.Running.Deadline.Passed(now) {
			return true
		}
		for _, id := range s.index.live[name] {
			if l := s.Leases[id]; l.ClaimBy.Passed(now) || l.Expires.Passed(now) {
				return true
			}
		}
		for _, id := range s.index.waiting[name] {
			if s.Leases[id].WaitUntil.Passed(now) {
				return true
			}
		}
		for _, id := range s.index.open[name] {
			a := s.Actions[id]
			if !a.Watched && !a.Blind && !a.Gone && a.WatchEnds.Passed(now) || !a.Sent && !a.Over && a.Deadline.Passed(now) {
				return true
			}
		}
	}
	return false
}
