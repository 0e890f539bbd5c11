package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// change moves control of a slot. The epoch rises, whatever was asked under the
// older one is over, and the fence goes out. Everything that ends somebody's
// control comes through here.
func (t *tx) change(s *Slot, to Holder, lease LeaseID, epoch Epoch, hold HoldID) {
	fromPerson := s.Holder.Kind == "human"
	if epoch != 0 {
		s.Epoch = epoch
		t.reserve(s)
	} else {
		t.raise(s)
	}
	t.endWork(s.Name)
	for _, id := range t.openActions(s.Name) {
		if !t.seeAction(id).Over {
			a := t.action(id)
			a.Over = true
			t.settle(a)
		}
	}
	if fromPerson || to.Kind == "human" {
		s.PersonUntil = s.Epoch
	}
	if to.Kind == "human" {
		s.pastAccounts("a person has had the slot since", func(*AccountFound) bool { return false })
	} else if fromPerson {
		// What a person attested while they had it was said for afterwards.
		s.pastAccounts("a person has had the slot since", func(id *AccountFound) bool { return id.By != "system" })
	}
	s.Holder, s.Lease = to, lease
	if s.Starting == "lease" && to.Kind == "none" && lease == "" {
		s.Starting = "" // nobody wants it any more
		t.wakeAll()
	}
	t.fence(s, hold, fromPerson)
	t.touch(s.Name)
}

// fence sends the slot's epoch to its extension. Where no browser can be running
// there is nothing to fence.
func (t *tx) fence(s *Slot, hold HoldID, fromPerson bool) {
	t.cutProbe(s.Name, "a fence ended it")
	link := t.link(s.Name)
	if !s.Launch.Live() && !link.Up() {
		s.Fence = FenceNow{State: "drained", SinceMs: t.now.WallMs}
		return
	}
	if s.Launch.Live() && !s.Launch.Linked {
		// No host of this launch was ever attested, so nothing was dispatched by it; its
		// hello will be fenced.
		s.Fence = FenceNow{State: "drained", SinceMs: t.now.WallMs}
		return
	}
	s.Fence = FenceNow{State: "pending", SinceMs: t.now.WallMs, Deadline: t.now.In(FenceAckMs)}
	if !link.Up() || s.has("epoch_regression") {
		return
	}
	link.Granted = 0
	t.setLink(s.Name, link)
	t.tell(s)
	t.emit(SendFence{
		Slot: s.Name, Epoch: s.Epoch, Person: s.Holder.Kind == "human",
		// The fence that first answered a press may have been overtaken by this one.
		FromPerson: fromPerson, Hold: cmp.Or(hold, s.LastHold), WatchMs: t.watchMs(s),
	})
}

// tell gives the slot's extension this step's number in the journal, with what the step
// sends it.
func (t *tx) tell(s *Slot) { s.Told = t.s.Seq + 1 }

// watchMs is how long the requests of what is open are watched after the slot's
// fence.
func (t *tx) watchMs(s *Slot) int64 {
	ms := int64(DefaultWatchMs)
	for _, id := range t.openActions(s.Name) {
		ms = max(ms, t.seeAction(id).WatchMs)
	}
	return ms
}

// WatchMs is the same for a fence that goes out before the step that records it.
func WatchMs(s *State, slot SlotName) int64 {
	v := s.Slots[slot]
	if v == nil {
		return DefaultWatchMs
	}
	return (&tx{s: s}).watchMs(v)
}

// has says whether the slot is quarantined for a reason of its own.
func (s *Slot) has(code string) bool {
	return slices.ContainsFunc(s.Reasons, func(r Reason) bool { return r.Code == code })
}

// addReason quarantines the slot, once for each code.
func (t *tx) addReason(s *Slot, code, text, resolve string) {
	if s.has(code) {
		return
	}
	s.Reasons = append(s.Reasons, Reason{Code: code, Text: text, SinceMs: t.now.WallMs, Resolve: resolve})
	t.log("quarantined", s, "", "", code+": "+text)
}

// dropReason ends a quarantine for a reason that evidence has settled.
func (t *tx) dropReason(s *Slot, code, why string) {
	if !s.has(code) {
		return
	}
	s.Reasons = slices.DeleteFunc(s.Reasons, func(r Reason) bool { return r.Code == code })
	t.log("quarantine left", s, "", "", code+": "+why)
}

// grant gives the slot to a lease, at a new epoch.
func (t *tx) grant(s *Slot, l *Lease) {
	t.raise(s)
	fresh := l.State == LeaseWaiting
	l.Epoch, l.Why = s.Epoch, ""
	t.endWork(s.Name)
	if fresh {
		l.State = LeaseGranted
		l.WaitUntil = Deadline{}
		l.MaxUntil = t.now.In(t.maxLifetime(l.Binding))
		l.Expires = earlier(t.now.In(l.ForMs), l.MaxUntil)
		t.takeKeys(s, l)
		if !l.Start && !s.Launch.Live() {
			l.ClaimBy = t.now.In(ClaimMs) // no browser has to come up first
		}
		t.log("granted", s, l.ID, "", fmt.Sprintf("to agent %s for binding %s", l.Agent, l.Binding))
	} else {
		l.State = LeaseActive
		t.log("resumed", s, l.ID, "", fmt.Sprintf("by agent %s", l.Agent))
	}
	s.pastAccounts(fmt.Sprintf("%s has had the slot since, for binding %s", l.Agent, l.Binding), func(id *AccountFound) bool { return id.Binding == l.Binding })
	s.Holder = Holder{Kind: "agent", Name: string(l.Agent)}
	s.Lease, s.Interrupted, s.LastAgent = l.ID, "", l.Agent
	switch {
	case !s.Launch.Live() && l.Start:
		t.startLaunch(s, "lease")
	case t.link(s.Name).Up():
		t.emit(SendPoke{Slot: s.Name, Epoch: s.Epoch})
	}
}

// startLaunch asks for the slot's browser. Until its launch is recorded the wish can
// be taken back.
func (t *tx) startLaunch(s *Slot, by string) {
	if s.Starting == "" {
		t.emit(StartLaunch{Slot: s.Name, Generation: s.Generation + 1})
	}
	if s.Starting != "person" {
		s.Starting = by
	}
}

func (t *tx) maxLifetime(b BindingName) int64 {
	if v := t.s.Bindings[b]; v != nil && v.MaxLifetimeMs > 0 {
		return v.MaxLifetimeMs
	}
	return DefaultMaxMs
}

func earlier(a, b Deadline) Deadline {
	if b.BootMs < a.BootMs {
		return b
	}
	return a
}

// block is one reason why a slot cannot be granted now.
type block struct {
	code   Code
	text   string // for people
	public string // for agents: nothing of another's pages or actions (I10)
	// itself: it will pass without a person's doing.
	itself bool
}

// blocks lists why the slot cannot be granted to an agent now. With an empty agent
// only what stands against every agent is listed. The order is the order in which
// a person would want to know.
func (t *tx) blocks(s *Slot, agent AgentName) []block {
	var out []block
	add := func(code Code, itself bool, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		out = append(out, block{code, text, text, itself})
	}
	private := func(code Code, itself bool, public, format string, args ...any) {
		out = append(out, block{code, fmt.Sprintf(format, args...), public, itself})
	}
	switch {
	case s.Removed:
		add(CodeNotFound, false, "the slot was removed")
	case s.Holder.Kind == "human":
		add(CodeHeld, false, "held by a person (%s)", s.Holder.Name)
	case s.Holder.Kind == "agent":
		l := t.seeLease(s.Lease)
		add(CodeHeld, true, "held by %s for %s more", s.Holder.Name, span(l.Expires.LeftMs(t.now)))
	case s.Lease != "":
		l := t.seeLease(s.Lease)
		add(CodeHeld, true, "kept for %s, whose lease can be resumed for %s more", l.Agent, span(l.Expires.LeftMs(t.now)))
	}
	if p := t.probing(s.Name); p != nil && s.Holder.Kind == "none" {
		add(CodeBusy, true, "a probe looks at the %s of binding %s", p.Kind, p.Binding)
	}
	for _, r := range s.Reasons {
		private(CodeQuarantined, false, "quarantined: "+r.Code, "quarantined: %s", r.Text)
	}
	switch s.Fence.State {
	case "pending":
		add(CodeBusy, true, "the extension has not acknowledged the fence of epoch %d yet", s.Epoch)
	case "unacknowledged":
		if len(s.Reasons) == 0 {
			add(CodeQuarantined, false, "quarantined: the extension has not acknowledged the fence of epoch %d", s.Epoch)
		}
	case "acknowledged", "draining":
		add(CodeBusy, true, "local work of the former holder is being drained")
	}
	if s.Launch != nil {
		switch s.Launch.State {
		case "unknown":
			if !s.has("launch_unknown") {
				add(CodeQuarantined, false, "quarantined: it is not known whether the browser has ended")
			}
		case "stopping":
			add(CodeBusy, true, "the browser is being stopped")
		}
	}
	for _, id := range t.openActions(s.Name) {
		a := t.seeAction(id)
		if !a.Over || a.Class != Write || a.clean() {
			continue
		}
		if a.canSettle(t.now) {
			watched := ""
			if a.Remote == NoneSeen && a.WatchEnds != (Deadline{}) {
				watched = fmt.Sprintf(" so far, watched for %s more", span(a.WatchEnds.LeftMs(t.now)))
			}
			private(CodeBusy, true, "an earlier action is not settled yet", "%s (%s): local %s, remote %s%s", a.Summary, a.Action, a.Local, a.Remote, watched)
		} else {
			private(CodeQuarantined, false, "quarantined: the outcome of an earlier action is not known", "quarantined: %s (%s): local %s, remote %s", a.Summary, a.Action, a.Local, a.Remote)
		}
	}
	if agent != "" {
		for _, d := range s.Scripts {
			if d.Agent != agent {
				if d.Document == "" {
					private(CodeBusy, false, anyPageMay, "any page may still hold a script of %s, in which is not known any more; stop the browser: sessiondock slot stop %s", d.Agent, s.Name)
				} else {
					private(CodeBusy, false, "a page with another agent's script is still open", "%s; %s", d.held(), d.mend(s.Name))
				}
			}
		}
	}
	return out
}

// isWorker says whether it is no page, but a worker that outlives pages.
func (d DocNow) isWorker() bool { return strings.HasPrefix(string(d.Document), "worker:") }

// held says where an agent's script may still run.
func (d DocNow) held() string {
	if d.isWorker() {
		return fmt.Sprintf("a worker with a script of %s is still there: %s", d.Agent, d.URL)
	}
	return fmt.Sprintf("a page with a script of %s is still open: %s", d.Agent, d.URL)
}

// mend says how that ends.
func (d DocNow) mend(slot SlotName) string {
	end := fmt.Sprintf("sessiondock takeover %s --stop-page", slot)
	if d.isWorker() {
		return "stop it: " + end
	}
	return "reload or close it, or stop it: " + end
}

// anyPageMay is what an agent is told of another's scripts where nobody knows any more in
// which pages they are.
const anyPageMay = "any page may still hold another agent's script"

// publicly is what an agent is told of blocks: the same reason once, with how often.
func publicly(bs []block) []string {
	texts, times := []string{}, map[string]int{}
	for _, b := range bs {
		if times[b.public]++; times[b.public] == 1 {
			texts = append(texts, b.public)
		}
	}
	for i, text := range texts {
		if n := times[text]; n > 1 {
			texts[i] = fmt.Sprintf("%s (%d of them)", text, n)
		}
	}
	return texts
}

// refuseBlocked turns blocks into one refusal for an agent; the first names the code.
func refuseBlocked(s *Slot, bs []block) *Error {
	texts := publicly(bs)
	hint := "ask again with a longer wait"
	switch bs[0].code {
	case CodeBusy:
		if bs[0].public == anyPageMay {
			hint = "waiting alone does not help: a person stops the browser: sessiondock slot stop " + string(s.Name)
		} else if !bs[0].itself {
			hint = fmt.Sprintf("waiting alone does not help: a person reloads or closes that page, which sessiondock status %s names, or stops it: sessiondock takeover %[1]s --stop-page", s.Name)
		}
	case CodeQuarantined:
		hint = "a person settles it: sessiondock quarantine list"
	case CodeHeld:
		hint = "wait (wait_ms, --wait), or ask the holder"
	case CodeCapacity:
		hint = "wait (wait_ms, --wait), or a person stops a browser that is not needed: sessiondock slot list"
	case CodeAccountMismatch:
		hint = "a person signs in and confirms it: sessiondock confirm BINDING"
	case CodeUnavailable:
		hint = "wait (wait_ms, --wait) until it can be told, or a person looks and confirms it: sessiondock confirm BINDING"
	}
	return Refuse(bs[0].code, fmt.Sprintf("slot %s: %s", s.Name, texts[0]), hint).
		With("slot", s.Name).With("holder", s.Holder).With("why", texts)
}

// span writes milliseconds for a person.
func span(ms int64) string {
	switch {
	case ms < 60_000:
		return fmt.Sprintf("%d s", (ms+999)/1000)
	case ms < 3_600_000:
		return fmt.Sprintf("%d min", (ms+59_999)/60_000)
	}
	return fmt.Sprintf("%d h %d min", ms/3_600_000, ms/60_000%60)
}

// takeover gives the slot to a person. With an Epoch the fence register has
// decided already and the fence is out: the record follows and cannot refuse.
func (t *tx) takeover(in Takeover) *Error {
	t.by = in.By
	s := t.slot(in.Slot)
	if s == nil || s.Removed {
		return noSlot(in.Slot)
	}
	if in.Epoch == 0 {
		if err := CheckTakeover(s.Name, s.Holder, s.Epoch, in.IfEpoch, in.FromPerson); err != nil {
			return err
		}
	} else if in.Epoch <= s.Epoch {
		// Something was decided above the number that this takeover was issued before
		// its record came. The person was told that control is theirs: it is.
		if s.Holder.Kind == "human" {
			s.LastHold = cmp.Or(in.Hold, s.LastHold)
			return nil
		}
		in.Epoch = 0
	}
	t.interrupt(s)
	t.change(s, Holder{Kind: "human", Name: in.Surface}, "", in.Epoch, in.Hold)
	if in.Hold != "" {
		s.LastHold = in.Hold
	}
	t.log("takeover", s, s.Interrupted, "", "by a person at "+in.Surface)
	return nil
}

// CheckTakeover says whether a person may take a slot over from its holder. The
// engine asks the same of the fence register before it sends the fence.
func CheckTakeover(slot SlotName, holder Holder, epoch Epoch, ifEpoch *Epoch, fromPerson bool) *Error {
	if ifEpoch != nil && *ifEpoch != epoch {
		return wrongEpoch(slot, *ifEpoch, epoch)
	}
	if holder.Kind == "human" && !fromPerson {
		return Refuse(CodeHeld, fmt.Sprintf("slot %s is held by a person already (%s)", slot, holder.Name),
			"if that is you, or to take it from that person, say so: --from-person").With("holder", holder)
	}
	return nil
}

// persons returns the slot of a person's verb, at the epoch the person decided on.
func (t *tx) persons(slot SlotName, by By, ifEpoch *Epoch) (*Slot, *Error) {
	t.by = by
	s := t.slot(slot)
	if s == nil || s.Removed {
		return nil, noSlot(slot)
	}
	return s, s.at(ifEpoch)
}

// at refuses a verb that a person decided on at another epoch than the slot's.
func (s *Slot) at(ifEpoch *Epoch) *Error {
	if ifEpoch != nil && *ifEpoch != s.Epoch {
		return wrongEpoch(s.Name, *ifEpoch, s.Epoch)
	}
	return nil
}

func wrongEpoch(slot SlotName, asked, is Epoch) *Error {
	return Refuse(CodeConflict, fmt.Sprintf("slot %s is at epoch %d, not %d", slot, is, asked),
		"look at its status and decide again").With("epoch", is).With("if_epoch", asked)
}

func noSlot(name SlotName) *Error {
	return Refuse(CodeNotFound, fmt.Sprintf("there is no slot %q", clip(string(name), 80)), "sessiondock slot list")
}

// interrupt marks the lease that loses control to a person.
func (t *tx) interrupt(s *Slot) {
	l := t.seeLease(s.Lease)
	if l == nil || l.State == LeaseEnded {
		return
	}
	l = t.lease(s.Lease)
	l.State, l.Why, l.ClaimBy = LeaseInterrupted, "a person took over", Deadline{}
	t.closeAsk(l, "taken_over", t.by, "")
	s.Interrupted = l.ID
}

// handback ends a person's hold.
func (t *tx) handback(in Handback) *Error {
	s, err := t.persons(in.Slot, in.By, in.IfEpoch)
	if err != nil {
		return err
	}
	if s.Holder.Kind != "human" {
		return Refuse(CodeConflict, fmt.Sprintf("slot %s is not held by a person", s.Name), "only a person's hold is handed back")
	}
	var back *Lease
	if in.To != "" {
		l := t.seeLease(s.Interrupted)
		if l == nil || l.State != LeaseInterrupted || l.Agent != in.To {
			return Refuse(CodeConflict, fmt.Sprintf("no lease of %s was interrupted on slot %s, or it has expired", in.To, s.Name),
				"hand back to the queue: leave --to out")
		}
		back = l
	}
	if !in.Confirm {
		var open []string
		for _, b := range t.blocks(s, "") {
			if b.code != CodeHeld {
				open = append(open, b.text)
			}
		}
		if len(open) > 0 {
			return Refuse(CodeConflict, "not everything is settled: "+open[0],
				"wait a moment, decide it (sessiondock resolve ACTION), or hand back all the same (--confirm): nobody gets the slot before it is settled").With("open", open)
		}
	}
	lease := LeaseID("")
	if back != nil {
		l := t.lease(back.ID)
		l.State, l.Why = LeaseSuspended, "handed back: resume to go on"
		lease = l.ID
	} else if l := t.seeLease(s.Interrupted); l != nil && l.State == LeaseInterrupted {
		t.endLease(t.lease(l.ID), "a person took over and handed the slot to the queue")
	}
	s.Interrupted = ""
	t.change(s, Holder{Kind: "none"}, lease, 0, "")
	to := "the queue"
	if back != nil {
		to = string(in.To)
	}
	t.log("handback", s, lease, "", "to "+to)
	return nil
}

// working says whether an action of the slot is still at work in a page.
func (t *tx) working(s *Slot) bool {
	for _, id := range t.openActions(s.Name) {
		if t.seeAction(id).Local == Running {
			return true
		}
	}
	return false
}

// stopPage ends renderers, at the word of the person who holds the slot.
func (t *tx) stopPage(in StopPage) *Error {
	s, err := t.persons(in.Slot, in.By, in.IfEpoch)
	if err != nil {
		return err
	}
	if s.Holder.Kind != "human" {
		return Refuse(CodeConflict, fmt.Sprintf("slot %s is not held by a person", s.Name), "take it over first")
	}
	if !t.link(s.Name).Up() {
		return Refuse(CodeUnavailable, "the slot's extension is not connected", "stop the browser: sessiondock slot stop "+string(s.Name))
	}
	named := slices.ContainsFunc(s.Scripts, func(d DocNow) bool { return d.Document != "" })
	// Before its fence is answered only the extension knows which pages those are.
	if len(in.Tabs) == 0 && len(s.Pending) == 0 && !named && !t.working(s) && s.Fence.Answered() {
		return Refuse(CodeConflict, "no page of this slot is known to hold an agent's work", "name the tab in the popup, or end the browser: sessiondock slot stop "+string(s.Name))
	}
	t.emit(SendStopPage{Slot: s.Name, Epoch: s.Epoch, Tabs: in.Tabs})
	t.log("stop page", s, "", "", fmt.Sprintf("%d tabs named", len(in.Tabs)))
	return nil
}

// WhyWaiting says why a lease still waits, or nil.
func WhyWaiting(s *State, now Now, id LeaseID) *Error {
	t := &tx{s: s, now: now}
	l := s.Leases[id]
	if l == nil || l.State != LeaseWaiting {
		return nil
	}
	bs := t.waiterBlocks(l)
	if n := t.aheadOf(l); len(bs) == 0 && n > 0 {
		text := waitBefore(n)
		bs = append(bs, block{CodeBusy, text, text, true})
	}
	if len(bs) == 0 {
		return nil
	}
	return refuseBlocked(s.Slots[l.Slot], bs)
}

func waitBefore(n int) string {
	if n == 1 {
		return "1 request waits before this one"
	}
	return fmt.Sprintf("%d requests wait before this one", n)
}
