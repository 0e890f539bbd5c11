package core

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var clientIDRE = regexp.MustCompile(`^([0-7][0-9A-HJKMNP-TV-Z]{25}|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})$`)

// act is the first gate: capability, lease, epoch, readiness, policy. What it
// admits is durable before it leaves.
func (t *tx) act(in Act) *Error {
	if !clientIDRE.MatchString(string(in.ID)) {
		return Refuse(CodeInvalid, fmt.Sprintf("id %q is neither a ULID nor a UUID", clip(string(in.ID), 80)), "make a new one for each action; send the same one only to ask about it again")
	}
	l, err := t.authenticated(in.Lease, in.Cap)
	if err != nil {
		return err
	}
	if old := t.s.ActionByClient(l.Binding, in.ID); old != nil {
		if old.Agent != l.Agent || old.BodyHash != in.BodyHash {
			return Refuse(CodeConflict, fmt.Sprintf("id %s was used for another action of this binding", in.ID), "make a new id for each action")
		}
		t.res.Action, t.res.Repeat = old, true
		return nil
	}
	s := t.seeSlot(l.Slot)
	if err := t.admit(s, l, in); err != nil {
		t.log("refused", s, l.ID, "", fmt.Sprintf("%s at epoch %d: %s", in.Verb, min(in.Epoch, MaxEpoch), err.Code))
		return err
	}
	w := t.work(s.Name)
	expect, err := t.expect(w, in)
	if err == nil {
		err = t.budget(l, w, in)
	}
	if err != nil {
		t.log("refused", s, l.ID, "", fmt.Sprintf("%s: %s", in.Verb, err.Code))
		return err
	}
	a := &Action{
		Record: Record{
			Action: in.Action, ID: in.ID, Lease: l.ID, Slot: s.Name, Epoch: s.Epoch, Verb: in.Verb,
			Summary: in.Summary, Class: in.Class, Authority: Admitted, Local: NotDispatched, Remote: NoneSeen,
			Evidence: []Evidence{}, Expect: expect, Times: Times{Admitted: t.now.WallMs},
		},
		Agent: l.Agent, Binding: l.Binding, BodyHash: in.BodyHash,
		Deadline: t.now.In(in.DeadlineMs), Bytes: in.Bytes, Instance: t.link(s.Name).Instance, WatchMs: DefaultWatchMs,
	}
	if b := t.s.Bindings[l.Binding]; b != nil && b.WatchMs > 0 {
		a.WatchMs = b.WatchMs
	}
	t.putAction(a)
	t.res.Action = a
	t.log("admitted", s, l.ID, a.Action, cmp.Or(in.Summary, in.Verb))
	switch {
	case in.Beside:
		t.send(a)
	case len(w.Lane) == 0:
		w.Lane = append(w.Lane, a.Action)
		t.send(a)
	default:
		w.Lane = append(w.Lane, a.Action)
	}
	return nil
}

func (t *tx) admit(s *Slot, l *Lease, in Act) *Error {
	switch {
	case in.Epoch > s.Epoch:
		return Refuse(CodeFenced, fmt.Sprintf("epoch %d was never issued for slot %s", min(in.Epoch, MaxEpoch), s.Name), "use the epoch that came with the lease").
			With("epoch", s.Epoch).With("your_epoch", in.Epoch).With("forged", true)
	case in.Epoch != s.Epoch || l.Epoch != s.Epoch || l.State != LeaseActive || s.Lease != l.ID:
		return t.lost(l, in.Epoch)
	case l.Expires.Passed(t.now):
		return Refuse(CodeExpired, "the lease's time is over", "acquire a new one")
	case !s.Launch.Live() && s.Starting == "":
		if text := t.full(s); text != "" && !t.room(s) {
			return refuseBlocked(s, []block{{CodeCapacity, text, text, true}})
		}
		t.startLaunch(t.slot(s.Name), "lease")
		return Refuse(CodeBusy, "the slot's browser is being started for this lease", "ask again shortly").With("slot", s.Name).With("not_dispatched", true)
	case t.link(s.Name).Granted != s.Epoch:
		return Refuse(CodeBusy, "the slot's browser is not ready for this epoch yet", "ask again shortly").With("slot", s.Name).With("not_dispatched", true)
	case len(t.work(s.Name).Lane) >= MaxLane && !in.Beside:
		return Refuse(CodeLimit, fmt.Sprintf("%d actions of this lease wait already", MaxLane), "wait for their answers")
	case in.Verb == "navigate":
		if b := t.s.Bindings[l.Binding]; b != nil {
			return checkAddress(in.URL, b.Origins)
		}
	}
	return nil
}

// expect fills in the document that an action is to run in.
func (t *tx) expect(w *Work, in Act) (Expect, *Error) {
	e := in.Expect
	if e.Frame != 0 {
		return e, Refuse(CodeInvalid, "expect.frame: only the main frame, 0, can be named", "leave frame out")
	}
	if e.Tab == 0 {
		e.Tab = w.LastTab
	}
	if !in.NeedsDoc || e.Document != "" {
		return e, nil
	}
	e.Document = w.Seen[e.Tab]
	if e.Document == "" {
		return e, Refuse(CodeDocumentChanged, "no document of this tab has been reported to this agent under this epoch",
			"look first: snapshot, wait or navigate; or name the document (expect.document, --expect-document)")
	}
	return e, nil
}

// send hands an action to the host.
func (t *tx) send(a *Action) {
	a.Sent = true
	a.Local = Running
	if s := t.seeSlot(a.Slot); a.leavesCode() && s.Launch != nil && s.Launch.ScriptOf != a.Agent {
		t.slot(a.Slot).Launch.ScriptOf = a.Agent
	}
	t.emit(SendAction{Slot: a.Slot, Epoch: a.Epoch, Action: a.Action})
}

// leavesCode says whether code of the action's agent may stay in a page.
func (a *Action) leavesCode() bool {
	return a.Class == Write && (a.Verb == "evaluate" || a.Verb == "cdp")
}

// gateCodes are the refusals by which the second or the third gate speaks about
// authority. Others (an element that is not there) are about the page.
var gateCodes = []Code{CodeFenced, CodePolicy, CodeDocumentChanged, CodeDeadline, CodeHeld, CodeExpired}

// done takes the host's last word on an action.
func (t *tx) done(in Done) *Error {
	t.by = "host"
	a := t.seeAction(in.Action)
	if a != nil && a.Closed {
		return nil // it was heard before
	}
	if a == nil || a.Slot != in.Slot || a.Epoch != in.Epoch || !a.Sent || !t.linked(in.Slot, in.Nonce) {
		return Refuse(CodeConflict, fmt.Sprintf("action.done for %q, which this link was not given", clip(string(in.Action), 60)), "")
	}
	if a.Host != "" {
		return nil
	}
	a = t.action(in.Action)
	a.Bytes += in.Bytes
	a.Host, a.Steps, a.Error, a.URL = in.State, in.Steps, in.Error, in.URL
	if a.Times.Dispatched == 0 && in.State != "refused" {
		a.Times.Dispatched = t.now.WallMs // not later than this
	}
	if in.State == "refused" && in.Error != nil && slices.Contains(gateCodes, in.Error.Code) {
		a.Authority = Refused(in.Error.Code)
	}
	t.settle(a)
	if a.Over {
		return nil
	}
	w := t.work(a.Slot)
	if in.Observed != nil && in.Observed.Document != "" {
		o := *in.Observed
		a.Observed = &o
		w.Seen[o.Tab] = o.Document
		w.LastTab = o.Tab
	}
	t.next(a)
	return nil
}

// next takes an action out of its lane and sends the one that is first then. One whose
// deadline has passed meanwhile is refused, not sent.
func (t *tx) next(a *Action) {
	w := t.work(a.Slot)
	at := slices.Index(w.Lane, a.Action)
	if at < 0 {
		return
	}
	w.Lane = slices.Delete(w.Lane, at, at+1)
	for at == 0 && len(w.Lane) > 0 {
		first := t.action(w.Lane[0])
		if !first.Deadline.Passed(t.now) {
			t.send(first)
			return
		}
		t.overdue(first)
	}
}

// resolve records a person's verdict on an action.
func (t *tx) resolve(in Resolve) *Error {
	t.by = in.By
	if in.Verdict != Applied && in.Verdict != NotApplied {
		return Refuse(CodeInvalid, fmt.Sprintf("verdict %q is not known", clip(string(in.Verdict), 40)), "use applied or not_applied")
	}
	if len(in.Note) > 4096 {
		return Refuse(CodeLimit, "note is longer than 4096 bytes", "shorten it")
	}
	a := t.seeAction(in.Action)
	if a == nil {
		return Refuse(CodeNotFound, fmt.Sprintf("there is no action %q", clip(string(in.Action), 80)), "sessiondock actions SLOT")
	}
	if err := t.seeSlot(a.Slot).at(in.IfEpoch); err != nil {
		return err
	}
	if err := t.resolvable(a); err != nil {
		return err
	}
	a = t.action(in.Action)
	t.resolved(a, Resolution{By: in.By, Verdict: in.Verdict, Note: in.Note})
	t.res.Action = a
	return nil
}

// resolvable refuses a verdict on an action that needs none, or is not over.
func (t *tx) resolvable(a *Action) *Error {
	switch {
	case !a.Over && !a.Closed:
		return Refuse(CodeConflict, "the action's lease still has control", "it may settle by itself; take the slot over first").With("action", a.Action)
	case a.Closed:
		return Refuse(CodeConflict, "the action is settled", "nothing is left to resolve; look at it: sessiondock actions --action "+string(a.Action)).With("action", a.Action)
	case a.Local == Running:
		return Refuse(CodeConflict, "the action is still at work in the browser: what it does on the website is yet to come",
			"wait until it has come to rest, or stop its page or the browser: sessiondock takeover "+string(a.Slot)+" --from-person --stop-page").With("action", a.Action)
	case a.Class == Read:
		return Refuse(CodeConflict, "the action only looked at the page: there is nothing to resolve", "")
	}
	return nil
}

// resolved gives an action a verdict, by a person or by a probe.
func (t *tx) resolved(a *Action, r Resolution) {
	r.AtMs = t.now.WallMs
	a.Resolution = &r
	t.settle(a)
	t.touch(a.Slot)
	t.log("resolved", t.seeSlot(a.Slot), a.Lease, a.Action, string(r.Verdict)+noted(r.Note))
}

func noted(note string) string {
	if note == "" {
		return ""
	}
	return ": " + note
}

// lift ends a quarantine at a person's word: what is unknown stays unknown in the
// record, and no longer closes the slot.
func (t *tx) lift(in Lift) *Error {
	s, err := t.persons(in.Slot, in.By, in.IfEpoch)
	if err != nil {
		return err
	}
	if in.Note == "" {
		return Refuse(CodeInvalid, "a note is missing", "say what you checked: --note TEXT")
	}
	if len(in.Note) > 4096 {
		return Refuse(CodeLimit, "note is longer than 4096 bytes", "shorten it")
	}
	if s.has("epoch_regression") {
		return Refuse(CodeEpochRegression, "the slot's browser has seen higher epochs than this daemon knows", "sessiondock slot adopt "+string(s.Name)+" --note TEXT")
	}
	if s.Launch.Live() && (s.Launch.State == "unknown" || s.Fence.State == "unacknowledged") {
		return Refuse(CodeConflict, "a browser that has not acknowledged the fence may still act", "end it first: sessiondock slot stop "+string(s.Name)+" --now")
	}
	if s.Launch.Live() && len(s.Launch.Bypasses) > 0 {
		return Refuse(CodeConflict, "the slot's browser can be driven round the fence: "+strings.Join(s.Launch.Bypasses, "; "),
			"end it first: sessiondock slot stop "+string(s.Name))
	}
	lifted := len(s.Reasons)
	s.Reasons = nil
	for _, id := range t.openActions(s.Name) {
		a := t.seeAction(id)
		if a.Over && a.Class == Write && !a.clean() && !a.canSettle(t.now) {
			a = t.action(id)
			a.Resolution = &Resolution{By: in.By, AtMs: t.now.WallMs, Verdict: RemoteUnknown, Note: in.Note}
			t.settle(a)
			lifted++
		}
	}
	if lifted == 0 {
		return Refuse(CodeConflict, fmt.Sprintf("slot %s is not quarantined", s.Name), "sessiondock status "+string(s.Name))
	}
	t.log("quarantine lifted", s, "", "", in.Note)
	t.touch(s.Name)
	return nil
}
