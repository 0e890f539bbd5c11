package core

import (
	"fmt"
	"slices"
	"strings"
)

// Launches: what the supervisor says of the slot's browser.

func (t *tx) startSlot(in StartSlot) *Error {
	s, err := t.persons(in.Slot, in.By, in.IfEpoch)
	if err != nil {
		return err
	}
	switch {
	case s.Launch.Live() && s.Launch.State == "stopping":
		return Refuse(CodeBusy, fmt.Sprintf("the browser of slot %s is being stopped", s.Name), "ask again shortly")
	case s.Launch.Live() && s.Launch.State == "unknown":
		return Refuse(CodeConflict, fmt.Sprintf("it is not known whether the former browser of slot %s has ended", s.Name), "sessiondock slot stop "+string(s.Name)+" --now")
	case s.Launch.Live():
		return nil // it runs
	}
	if text := t.full(s); text != "" && !t.room(s) {
		if going := t.leaving(); going != "" {
			return Refuse(CodeBusy, fmt.Sprintf("slot %s: %s, and the one of slot %s is being stopped", s.Name, text, going), "ask again shortly")
		}
		return Refuse(CodeCapacity, fmt.Sprintf("slot %s: %s", s.Name, text), "stop a browser that is not needed (sessiondock slot list), or raise the bound (sessiondockd --max-browsers)")
	}
	t.startLaunch(s, "person")
	t.log("start", s, "", "", "a person wants it")
	return nil
}

func (t *tx) stopSlot(in StopSlot) *Error {
	s, err := t.persons(in.Slot, in.By, in.IfEpoch)
	if err != nil {
		return err
	}
	if s.Holder.Kind == "agent" {
		return Refuse(CodeHeld, fmt.Sprintf("slot %s is held by agent %s", s.Name, s.Holder.Name), "take it over first: sessiondock takeover "+string(s.Name)+" --stop-browser").With("holder", s.Holder)
	}
	if !s.Launch.Live() {
		if s.Starting != "" {
			s.Starting = ""
			t.log("stop", s, "", "", "before it was started")
			t.wakeAll()
		}
		return nil
	}
	t.stopLaunch(s, in.Now)
	t.log("stop", s, "", "", fmt.Sprintf("launch %d, now %v", s.Launch.Generation, in.Now))
	return nil
}

// stopLaunch asks for the end of the slot's browser; what becomes of it the supervisor
// says.
func (t *tx) stopLaunch(s *Slot, now bool) {
	s.Launch.State = "stopping"
	s.Launch.StopAsked = true
	s.Launch.StopNow = s.Launch.StopNow || now
	t.emit(StopLaunch{Slot: s.Name, Launch: s.Launch.ID, Now: now})
	t.touch(s.Name)
}

func (t *tx) launchStarting(in LaunchStarting) *Error {
	t.by = "supervisor"
	s := t.slot(in.Slot)
	if s == nil || s.Removed {
		return noSlot(in.Slot)
	}
	if s.Launch.Live() || in.Generation != s.Generation+1 {
		return Refuse(CodeConflict, fmt.Sprintf("generation %d of slot %s is not the next", in.Generation, s.Name), "")
	}
	if s.Starting == "" {
		return Refuse(CodeConflict, fmt.Sprintf("nobody wants the browser of slot %s any more", s.Name), "")
	}
	s.Generation = in.Generation
	byPerson := s.Starting == "person"
	s.Starting = ""
	s.Launch = &Launch{
		ByPerson: byPerson, ID: in.Launch, Generation: in.Generation, State: "starting", Identity: Identity{Unit: in.Unit, Containment: "weak"},
		SecretHash: in.SecretHash, Debug: in.Debug, BootID: t.now.BootID, StartedMs: t.now.WallMs,
	}
	t.log("launch starting", s, "", "", fmt.Sprintf("generation %d", in.Generation))
	return nil
}

func (t *tx) launchRunning(in LaunchRunning) *Error {
	t.by = "supervisor"
	s := t.slot(in.Slot)
	if s == nil || s.Launch == nil || s.Launch.ID != in.Launch {
		return Refuse(CodeConflict, "a launch of another generation", "")
	}
	l := s.Launch
	l.Identity = in.Identity
	t.log("launch running", s, "", "", fmt.Sprintf("generation %d, containment %s", l.Generation, l.Containment))
	switch {
	case l.State == "starting":
		l.State = "running"
	case l.State == "ended":
		// Its end was verified too early. What runs is to end, and is seen until it has.
		l.EndedMs = 0
		s.Starting = "" // no other can be started beside it
		t.launchUnknown(s, "it came up after its end had been verified")
		t.stopLaunch(s, true)
		l.State = "unknown"
	case l.StopAsked:
		// What was told to end before it ran may not have heard of it.
		t.emit(StopLaunch{Slot: s.Name, Launch: l.ID, Now: l.StopNow})
	}
	return nil
}

// launchEnded takes the supervisor's word on a launch's end (I11): verified, or
// unknown and still in the inventory.
func (t *tx) launchEnded(in LaunchEnded) *Error {
	t.by = "supervisor"
	s := t.slot(in.Slot)
	if s == nil || s.Launch == nil || s.Launch.ID != in.Launch {
		return Refuse(CodeConflict, "a launch of another generation", "")
	}
	l := s.Launch
	if l.State == "ended" {
		return nil
	}
	if !in.Verified {
		t.launchUnknown(s, in.How)
		return nil
	}
	l.How = in.How
	t.cutProbe(s.Name, "the browser has ended")
	ran := l.State != "starting"
	l.State, l.EndedMs = "ended", t.now.WallMs
	if in.Containment != "" {
		l.Containment = in.Containment
	}
	how := in.How
	if ran && !in.Clean {
		how += "; not a clean end"
	}
	t.log("launch ended", s, "", "", how)
	if ran {
		t.signInsAfter(s, in)
	}
	t.setLink(s.Name, LinkState{})
	t.dropReason(s, "launch_unknown", "verified to have ended")
	t.dropReason(s, "fence_unacknowledged", "the launch is verified to have ended")
	s.Scripts, s.Pending = nil, nil
	if s.Holder.Kind == "agent" {
		t.suspend(s, "the slot's browser ended")
	}
	s.Fence = FenceNow{State: "drained", SinceMs: t.now.WallMs}
	defer t.wakeAll() // there is room for another
	for _, id := range t.openActions(s.Name) {
		a := t.seeAction(id)
		if !a.Sent || a.Gone {
			continue
		}
		a = t.action(id)
		a.Gone = true
		if l.StopAsked && a.Over && (a.Local == Running || a.Local == LocalUnknown) {
			a.How = "ended" // a person chose this boundary, and it is verified
		}
		t.settle(a)
	}
	t.touch(s.Name)
	return nil
}

// launchUnknown keeps a launch in the inventory of which it is not known whether it has
// ended.
func (t *tx) launchUnknown(s *Slot, how string) {
	s.Launch.State, s.Launch.How = "unknown", how
	t.cutProbe(s.Name, "it is not known whether the browser has ended")
	t.blind(s)
	t.suspend(s, "it is not known whether the slot's browser has ended")
	t.addReason(s, "launch_unknown", "it is not known whether its browser has ended: "+how, "sessiondock slot stop "+string(s.Name)+" --now")
	t.touch(s.Name)
}

// bypassed closes a slot whose browser can be driven round the gates. Its agent is
// stopped too: what happens in that browser from now on is not its doing alone.
func (t *tx) bypassed(in Bypassed) *Error {
	t.by = "supervisor"
	s := t.seeSlot(in.Slot)
	switch {
	case s == nil || !s.Launch.Live() || s.Launch.ID != in.Launch:
		return Refuse(CodeConflict, "a launch of another generation", "")
	case slices.Equal(s.Launch.Bypasses, in.Ways):
		return nil
	}
	s = t.slot(in.Slot)
	s.Launch.Bypasses = slices.Clone(in.Ways)
	t.suspend(s, "the slot's browser can be driven round the fence")
	t.addReason(s, "bypassed", "its browser can be driven round the fence: "+strings.Join(in.Ways, "; "),
		"sessiondock slot stop "+string(s.Name)+"; then sessiondock quarantine lift "+string(s.Name)+" --note TEXT")
	t.touch(s.Name)
	return nil
}

// adopt lets a person take on a slot whose browser knows more than the database.
// Its epochs go on above everything that either has seen.
func (t *tx) adopt(in Adopt) *Error {
	s, err := t.persons(in.Slot, in.By, in.IfEpoch)
	if err != nil {
		return err
	}
	if in.Note == "" {
		return Refuse(CodeInvalid, "a note is missing", "say why: --note TEXT")
	}
	if !s.has("epoch_regression") {
		return Refuse(CodeConflict, fmt.Sprintf("slot %s needs no adoption", s.Name), "sessiondock status "+string(s.Name))
	}
	mark := t.link(s.Name).Mark
	if mark == 0 {
		return Refuse(CodeUnavailable, "the slot's browser is not connected, so its high-water mark is not known", "start it: sessiondock slot start "+string(s.Name))
	}
	if mark >= MaxEpoch-EpochChunk {
		return Refuse(CodeEpochRegression, "the browser's mark leaves no epochs", "make a new slot")
	}
	for _, id := range t.liveLeases(s.Name) {
		t.endLease(t.lease(id), "the slot was adopted after an older database was restored")
	}
	s.Interrupted = ""
	s.Epoch = max(s.Epoch, mark)
	s.Ceiling = max(s.Ceiling, s.Epoch)
	s.SeqAdopted = t.link(s.Name).MarkSeq
	t.dropReason(s, "epoch_regression", "adopted: "+in.Note)
	t.addReason(s, "adopted", "adopted after an older database was restored; what happened since that copy is not known", "sessiondock quarantine lift "+string(s.Name)+" --note TEXT")
	s.pastAccounts("an older database was restored", func(*AccountFound) bool { return false })
	holder := Holder{Kind: "none"}
	if s.Holder.Kind == "human" {
		holder = s.Holder // whoever took over meanwhile has control
	}
	t.change(s, holder, "", 0, "")
	t.log("adopted", s, "", "", in.Note)
	return nil
}

// restarted makes the state of a daemon that has just loaded its journal: nobody
// has control, epochs go on above the ceiling, and what was open is unknown until
// its watcher is attested again (I14).
func (t *tx) restarted(in Restarted) *Error {
	for _, name := range t.s.slotNames() {
		s := t.slot(name)
		if s.Removed {
			continue
		}
		t.endWork(name)
		before := s.Epoch
		s.Epoch = s.Ceiling + 1
		t.reserve(s)
		if s.Holder.Kind == "human" {
			s.PersonUntil = s.Epoch
		}
		rebooted := s.Launch.Live() && s.Launch.BootID != t.now.BootID
		for _, id := range t.openActions(name) {
			a := t.action(id)
			a.Over = true
			a.Blind = a.Sent
			t.settle(a)
		}
		s.Starting = ""
		for _, id := range t.waiters(name) {
			t.endLease(t.lease(id), "the daemon restarted while it waited")
		}
		for _, id := range t.liveLeases(name) {
			l := t.lease(id)
			l.ClaimBy = Deadline{}
			switch {
			case l.Expires.Passed(t.now):
				t.expire(s, l)
			case l.State == LeaseGranted:
				t.endLease(l, "the daemon restarted before the grant was claimed")
				s.Lease = ""
			case l.State == LeaseActive:
				l.State, l.Why = LeaseSuspended, "the daemon restarted"
			}
		}
		if s.Holder.Kind == "agent" {
			s.Holder = Holder{Kind: "none"}
		}
		t.log("restarted", s, "", "", fmt.Sprintf("epochs go on above %d", before))
		if rebooted {
			t.launchEnded(LaunchEnded{Slot: name, Launch: s.Launch.ID, Verified: true, Clean: in.Clean[name], How: "the machine was rebooted"})
			t.by = "system"
		}
		if s.Launch.Live() && s.Launch.StopAsked {
			t.emit(StopLaunch{Slot: name, Launch: s.Launch.ID, Now: s.Launch.StopNow})
		}
		t.fence(s, "", false)
		if s.Fence.State == "pending" {
			// The host needs a moment to find the new daemon.
			s.Fence.Deadline = t.now.In(RejoinMs)
		}
		t.touch(name)
	}
	return nil
}
