package core

import (
	"fmt"
	"slices"
)

// What comes over an attested link. Everything names the link's nonce; what names
// another belongs to a link that has ended and is dropped.

// linked says whether a message belongs to the slot's link.
func (t *tx) linked(slot SlotName, nonce Nonce) bool {
	return nonce != "" && t.link(slot).Nonce == nonce
}

func stale(slot SlotName) *Error {
	return Refuse(CodeConflict, fmt.Sprintf("message of a link of slot %s that has ended", slot), "")
}

// linkUp makes a new link the slot's. What the host kept may come before the hello.
func (t *tx) linkUp(in LinkUp) *Error {
	s := t.seeSlot(in.Slot)
	if s == nil || s.Removed {
		return noSlot(in.Slot)
	}
	if !s.Launch.Live() {
		return Refuse(CodeConflict, fmt.Sprintf("a host of slot %s, whose launch has ended", s.Name), "")
	}
	if !s.Launch.Linked {
		s = t.slot(s.Name)
		s.Launch.Linked = true
		t.log("linked", s, "", "", fmt.Sprintf("a host of launch %d was attested", s.Launch.Generation))
	}
	t.setLink(s.Name, LinkState{Nonce: in.Nonce})
	return nil
}

// hello is the extension's first message on a link. It is fenced at once: from
// there on it knows the slot's epoch, and what it kept is reconciled.
func (t *tx) hello(in Hello) *Error {
	t.by = "extension"
	s := t.slot(in.Slot)
	if s == nil || s.Removed {
		return noSlot(in.Slot)
	}
	if !t.linked(in.Slot, in.Nonce) {
		return stale(in.Slot)
	}
	t.setLink(s.Name, LinkState{Nonce: in.Nonce, Instance: in.Instance, Mark: in.Mark, MarkSeq: in.MarkSeq})
	told := s.Told
	if told == 0 {
		told = t.s.Seq // of a database that did not keep it
	}
	regressed := in.Mark > s.Ceiling || in.MarkSeq > max(told, s.SeqAdopted)
	what := fmt.Sprintf("extension instance %s, mark %d", clip(string(in.Instance), 40), in.Mark)
	if l := s.Launch; l != nil && (regressed || in.Anew && l.ScriptOf != "") {
		t.anyPage(s, regressed)
		what += "; which pages hold whose script is forgotten"
	}
	// One that had been served in this launch has also forgotten which tabs a person opened.
	apart := in.Anew && s.Launch != nil && (s.Launch.Served || regressed)
	if apart {
		what += "; which tabs are a person's is forgotten, so all that are open are"
	}
	t.log("hello", s, "", "", what)
	t.emit(SendWelcome{Slot: s.Name, Apart: apart})
	if regressed {
		t.regressed(s, in, told)
		return nil
	}
	for _, r := range in.Reports {
		t.merge(r.Action, s.Name, r)
	}
	switch {
	case in.Hold != "" && in.Hold != s.LastHold:
		t.takenUnseen(s, in.Hold, "its hold came with the extension's hello")
		if in.StopPage {
			t.emit(SendStopPage{Slot: s.Name, Epoch: s.Epoch, Tabs: in.Tabs})
			t.log("stop page", s, "", "", "asked for with the hold")
		}
		return nil
	case in.Person && in.Mark > s.PersonUntil && s.Holder.Kind != "human":
		t.takenUnseen(s, "", fmt.Sprintf("the extension was fenced at epoch %d by a takeover that was not recorded", in.Mark))
		return nil
	}
	t.fence(s, in.Hold, false)
	return nil
}

// someAgent is nobody's name.
const someAgent AgentName = "some agent"

// anyPage takes every page of the slot's launch for one with an agent's script: the
// extension was loaded anew while the launch went on, or the database is a copy from before,
// which does not know whose scripts came since. Scripts run in more documents than actions
// name (a DevTools client has one run in each new document), so nothing but the launch's end
// shows that none is left.
func (t *tx) anyPage(s *Slot, regressed bool) {
	agent := s.Launch.ScriptOf
	if regressed {
		agent = someAgent
	}
	s.Scripts = []DocNow{{Why: "agent_script", Agent: agent}}
}

// regressed closes a slot whose browser has seen more than this database, until a person
// adopts it.
func (t *tx) regressed(s *Slot, in Hello, told int64) {
	const why = "its browser has seen more than this database"
	t.suspend(s, why)
	t.cutProbe(s.Name, why)
	t.addReason(s, "epoch_regression",
		fmt.Sprintf("its browser has seen epoch %d and journal entry %d, this database knows %d and %d: it was restored from an older copy", in.Mark, in.MarkSeq, s.Ceiling, told),
		"sessiondock slot adopt "+string(s.Name)+" --note TEXT")
	for _, id := range t.openActions(s.Name) {
		t.action(id).Copied = true
	}
	if in.Mark < MaxEpoch-EpochChunk {
		// What this database gives out next is above all that was given out before (I1).
		s.Epoch = max(s.Epoch, in.Mark)
		t.raise(s)
		if s.Holder.Kind == "human" {
			s.PersonUntil = s.Epoch
		}
	}
	if in.Hold != "" && in.Hold != s.LastHold {
		t.takenUnseen(s, in.Hold, "its hold came with the extension's hello") // answered by the adoption
	}
	s.Fence.State = "unacknowledged"
}

// takenUnseen records a takeover that the daemon did not see or did not live to
// record.
func (t *tx) takenUnseen(s *Slot, hold HoldID, why string) {
	if s.Holder.Kind == "human" {
		t.fence(s, hold, false)
		s.LastHold = hold
		return
	}
	t.interrupt(s)
	t.change(s, Holder{Kind: "human", Name: "popup"}, "", 0, hold)
	if hold != "" {
		s.LastHold = hold
	}
	t.log("takeover", s, s.Interrupted, "", why)
}

// linkLost closes the slot's link. Nobody watches its actions now.
func (t *tx) linkLost(in LinkLost) *Error {
	t.by = "system"
	s := t.slot(in.Slot)
	if s == nil || !t.linked(in.Slot, in.Nonce) {
		return stale(in.Slot)
	}
	t.setLink(s.Name, LinkState{})
	t.log("link lost", s, "", "", in.Why)
	t.blind(s)
	if s.Holder.Kind == "agent" {
		t.suspend(s, "the link to the slot's extension was lost")
	} else {
		t.fence(s, "", false)
	}
	t.touch(s.Name)
	return nil
}

// blind marks what nobody watches any more.
func (t *tx) blind(s *Slot) {
	for _, id := range t.openActions(s.Name) {
		if a := t.seeAction(id); a.Sent && !a.Blind {
			a = t.action(id)
			a.Blind = true
			t.settle(a)
		}
	}
}

// fenced is the acknowledgement: from here on I4 holds for this launch.
func (t *tx) fenced(in Fenced) *Error {
	t.by = "extension"
	if !t.linked(in.Slot, in.Nonce) {
		return stale(in.Slot)
	}
	s := t.slot(in.Slot)
	for _, r := range in.Reports {
		t.merge(r.Action, s.Name, r)
	}
	if s.Launch != nil {
		s.Launch.Served = true
	}
	if in.Epoch != s.Epoch || s.Fence.State == "drained" {
		return nil // of an older fence; the newer one is on its way
	}
	t.dropReason(s, "fence_unacknowledged", "acknowledged late")
	s.Fence.State = "draining"
	s.Fence.Deadline = t.now.In(DrainMs + DrainGraceMs)
	s.Pending = nil
	// Workers are not in the fence's list: their ends are told.
	scripts := slices.DeleteFunc(slices.Clone(s.Scripts), func(d DocNow) bool { return d.Document != "" && !d.isWorker() })
	for _, d := range in.Documents {
		if d.Why == "agent_script" {
			d.Agent = t.scriptAgent(s, d.Document)
			scripts = append(scripts, d)
		} else {
			s.Pending = append(s.Pending, d)
		}
	}
	s.Scripts = scripts
	t.log("fenced", s, "", "", fmt.Sprintf("acknowledged, %d reports, %d documents", len(in.Reports), len(in.Documents)))
	t.touch(s.Name)
	return nil
}

// scriptAgent names the agent whose script ran in a document.
func (t *tx) scriptAgent(s *Slot, doc DocumentID) AgentName {
	for _, d := range s.Scripts {
		if d.Document == doc {
			return d.Agent
		}
	}
	if l := t.seeLease(s.Interrupted); l != nil {
		return l.Agent
	}
	for _, id := range slices.Backward(t.openActions(s.Name)) {
		if a := t.seeAction(id); a.Script && a.Document == doc {
			return a.Agent
		}
	}
	return s.LastAgent
}

// drained ends the drain: what it did not settle is unknown.
func (t *tx) drained(in Drained) *Error {
	t.by = "extension"
	link := t.link(in.Slot)
	if !t.linked(in.Slot, in.Nonce) {
		return stale(in.Slot)
	}
	s := t.slot(in.Slot)
	listed := map[ActionID]bool{}
	for _, r := range in.Reports {
		listed[r.Action] = true
		t.merge(r.Action, s.Name, r)
	}
	if in.Epoch != s.Epoch || s.Fence.State != "draining" {
		return nil // without an acknowledgement a drain proves nothing (I5)
	}
	for _, id := range t.openActions(s.Name) {
		a := t.seeAction(id)
		if !a.Over || !a.Sent {
			continue
		}
		a = t.action(id)
		a.Drained = true
		if a.Class == Write && a.Reported == 0 && !a.Copied && (!listed[id] && a.Instance == link.Instance || listed[id] && a.Open == 0) {
			a.How = "none"
		}
		t.settle(a)
	}
	s.Pending = nil
	for _, d := range in.Documents {
		if d.Why == "input_pending" {
			s.Pending = append(s.Pending, d)
		}
	}
	s.Fence = FenceNow{State: "drained", SinceMs: t.now.WallMs}
	t.log("drained", s, "", "", fmt.Sprintf("%d reports, %d documents still open", len(in.Reports), len(in.Documents)))
	if s.Holder.Kind == "agent" {
		t.emit(SendPoke{Slot: s.Name, Epoch: s.Epoch})
	}
	t.touch(s.Name)
	return nil
}

// maxScripts bounds the list of what may hold an agent's script.
const maxScripts = 1024

// documentFound lists a worker with the pages that hold an agent's script.
func (t *tx) documentFound(in DocumentFound) *Error {
	t.by = "extension"
	if !t.linked(in.Slot, in.Nonce) {
		return stale(in.Slot)
	}
	s := t.seeSlot(in.Slot)
	if in.Document == "" || len(s.Scripts) >= maxScripts || slices.ContainsFunc(s.Scripts, func(d DocNow) bool { return d.Document == in.Document }) {
		return nil
	}
	s = t.slot(in.Slot)
	s.Scripts = append(s.Scripts, DocNow{Document: in.Document, URL: in.URL, Why: "agent_script", Agent: t.scriptAgent(s, in.Document)})
	t.log("document found", s, "", "", "a worker that may run an agent's code")
	t.touch(s.Name)
	return nil
}

func (t *tx) documentEnded(in DocumentEnded) *Error {
	t.by = "extension"
	if !t.linked(in.Slot, in.Nonce) {
		return stale(in.Slot)
	}
	s := t.slot(in.Slot)
	gone := func(d DocNow) bool { return d.Document == in.Document && d.Document != "" }
	s.Scripts = slices.DeleteFunc(s.Scripts, gone)
	s.Pending = slices.DeleteFunc(s.Pending, gone)
	for _, id := range t.openActions(s.Name) {
		a := t.seeAction(id)
		open := a.Local == Running || a.Local == LocalUnknown
		if a.Document == in.Document && open && (a.Script && a.Over || in.How == "crashed") {
			a = t.action(id)
			a.How = "ended"
			t.settle(a)
		}
	}
	t.log("document ended", s, "", "", in.How)
	t.touch(s.Name)
	return nil
}

func (t *tx) reported(in Reported) *Error {
	t.by = "extension"
	if !t.linked(in.Slot, in.Nonce) {
		return stale(in.Slot)
	}
	t.merge(in.Report.Action, in.Slot, in.Report)
	return nil
}

// pull answers with what the extension may dispatch under now.
func (t *tx) pull(in Pull) *Error {
	link := t.link(in.Slot)
	if !t.linked(in.Slot, in.Nonce) || !link.Up() {
		return stale(in.Slot)
	}
	s := t.seeSlot(in.Slot)
	g := SendGrant{Slot: s.Name, Nonce: in.Nonce, Ask: in.Ask}
	if l := t.seeLease(s.Lease); l != nil && s.Holder.Kind == "agent" && s.Fence.State == "drained" &&
		l.Epoch == s.Epoch && !l.Expires.Passed(t.now) && len(s.Reasons) == 0 {
		b := t.s.Bindings[l.Binding]
		g.Epoch, g.Lease, g.WatchMs = s.Epoch, l.ID, DefaultWatchMs
		g.TTLMs = min(GrantTTLMs, l.Expires.LeftMs(t.now))
		if b != nil {
			g.Origins, g.Allow = b.Origins, b.Allow
			if b.WatchMs > 0 {
				g.WatchMs = b.WatchMs
			}
		}
	}
	t.emit(g)
	return nil
}

// granted notes that the extension's gate is open: the lease can be used.
func (t *tx) granted(in Granted) *Error {
	link := t.link(in.Slot)
	if !t.linked(in.Slot, in.Nonce) {
		return stale(in.Slot)
	}
	s := t.seeSlot(in.Slot)
	if in.Epoch != s.Epoch || s.Holder.Kind != "agent" || link.Granted == in.Epoch {
		return nil
	}
	link.Granted = in.Epoch
	t.setLink(s.Name, link)
	if l := t.seeLease(s.Lease); l.State == LeaseGranted && l.ClaimBy == (Deadline{}) {
		l = t.lease(l.ID)
		l.ClaimBy = t.now.In(ClaimMs)
		t.by = "extension"
		t.log("ready", s, l.ID, "", "to be claimed within "+span(ClaimMs))
	}
	return nil
}
