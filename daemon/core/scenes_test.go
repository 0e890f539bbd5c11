package core_test

import (
	"fmt"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// The handoffs that the product exists for, on the core alone.

func TestLateAnswerBecomesEvidenceAndReachesNoAgent(t *testing.T) { // I4, I6, I10
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.finish(a, "finished", 3, 3)
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 1, "barrier", 0, post("in_flight", 0))})
	w.want(a, core.Finished, core.InFlight)
	w.must(core.Takeover{Slot: "shop", Surface: "popup", Hold: "hold-1", By: "human:popup"})
	w.refused(core.CodeFenced, core.Act{
		Action: "x", Lease: l.ID, Cap: l.CapHash, ID: w.clientID(), Epoch: l.Epoch, Verb: "click", Class: core.Write, DeadlineMs: 1000,
	})
	w.drain(nonce, report(a, 2, "barrier", 0, post("in_flight", 0)))
	w.want(a, core.Finished, core.InFlight)
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 3, "barrier", 0, post("answered", 200))})
	w.want(a, core.Finished, "answered:200")
	if e := w.s.Actions[a.Action].Evidence; e[len(e)-1].Kind != "answer" || e[len(e)-1].Rule != "document" {
		t.Fatalf("evidence: %s", dump(e))
	}
	// Once it is closed, nothing is open; that is not to say that nothing was asked for.
	w.pass(core.DefaultWatchMs + 1)
	if st := core.StatusOf(w.s, w.now, "shop"); st.Remote.State != "none_seen" || !strings.Contains(st.Sentences.Remote, "sessiondock actions shop") {
		t.Fatalf("remote %s: %s", st.Remote.State, st.Sentences.Remote)
	}
}

func TestSameReasonIsSaidOnce(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	for range 3 {
		w.finish(w.act(l, core.Write), "finished", 1, 1)
	}
	w.must(core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
	w.drain(nonce)
	w.must(core.Handback{Slot: "shop", Confirm: true, By: "human:popup"})
	w.drain(nonce)
	err := w.do(core.Acquire{Lease: "x", Token: "token-b", CapHash: "c", RequestID: "r-b", Binding: "admin", ForMs: 60_000}).Refusal
	if err == nil || strings.Count(err.Message, "earlier action") != 1 || !strings.Contains(err.Message, "(3 of them)") {
		t.Fatalf("%v", err)
	}
}

func TestQueuedClickIsFinishedOnlyAfterTheBarrier(t *testing.T) { // I5, I6
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	waiter := core.LeaseID("waiter")
	w.must(core.Acquire{Lease: waiter, Token: "token-b", CapHash: "c", RequestID: "r-b", Binding: "admin", ForMs: 60_000, WaitMs: 60_000})
	w.must(core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
	w.finish(a, "halted", 3, 3)
	w.must(core.Fenced{
		Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Reports: []core.Report{report(a, 1, "open", 3, nil)},
		Documents: []core.DocNow{{Document: "D1", Tab: 1, Why: "input_pending"}},
	})
	w.want(a, core.Running, core.NoneSeen)
	st := core.StatusOf(w.s, w.now, "shop")
	if len(st.Sentences.Warnings) == 0 || !strings.Contains(st.Sentences.Warnings[0], "click may still land") {
		t.Fatalf("warnings: %q", st.Sentences.Warnings)
	}
	w.must(core.Drained{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Reports: []core.Report{report(a, 2, "barrier", 0, post("in_flight", 0))}})
	w.want(a, core.Finished, core.InFlight)
	w.must(core.Handback{Slot: "shop", Confirm: true, By: "human:popup"})
	w.drain(nonce, report(a, 3, "barrier", 0, post("in_flight", 0)))
	if w.s.Leases[waiter].State != core.LeaseWaiting {
		t.Fatal("granted while a request was in flight")
	}
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 4, "barrier", 0, post("answered", 200))})
	if got := w.s.Leases[waiter].State; got != core.LeaseGranted {
		t.Fatalf("waiter is %s after everything settled; why not: %v", got, core.StatusOf(w.s, w.now, "shop").Offer.Why)
	}
}

func TestStoppedPageLeavesEndedAndQuarantine(t *testing.T) { // I8
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.must(core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
	w.finish(a, "halted", 3, 3)
	w.must(core.Fenced{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Reports: []core.Report{report(a, 1, "open", 3, nil)}})
	w.must(core.StopPage{Slot: "shop", By: "human:popup"})
	w.must(core.Drained{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Reports: []core.Report{report(a, 2, "ended", 0, nil)}})
	w.want(a, core.Ended, core.NoneSeen)
	w.pass(core.DefaultWatchMs + 1)
	w.refused(core.CodeConflict, core.Handback{Slot: "shop", By: "human:popup"})
	q := core.StatusOf(w.s, w.now, "shop").Quarantine
	if len(q) != 1 || q[0].Action != a.Action || !strings.Contains(q[0].Resolve, string(a.Action)) {
		t.Fatalf("quarantine: %s", dump(q))
	}
	w.must(core.Resolve{Action: a.Action, Verdict: core.NotApplied, Note: "the site counts 0", By: "human:cli"})
	w.must(core.Handback{Slot: "shop", By: "human:popup"})
}

func TestScriptKeepsTheSlotFromOtherAgents(t *testing.T) { // I8
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.finish(a, "finished", 1, 1)
	r := report(a, 1, "barrier", 0, nil)
	r.Script = true
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: r})
	w.must(core.Acquire{Lease: "other", Token: "token-b", CapHash: "c", RequestID: "r-b", Binding: "admin", ForMs: 60_000, WaitMs: 3_600_000})
	w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
	doc := core.DocNow{Document: "D1", Tab: 1, URL: "http://shop/", Why: "agent_script"}
	w.must(core.Fenced{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Reports: []core.Report{r}, Documents: []core.DocNow{doc}})
	w.must(core.Drained{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Reports: []core.Report{r}})
	w.pass(core.DefaultWatchMs + 1)
	if got := w.s.Leases["other"].State; got != core.LeaseWaiting {
		t.Fatalf("other agent is %s beside a script of agent-a", got)
	}
	if d := w.slot().Scripts; len(d) != 1 || d[0].Agent != "agent-a" {
		t.Fatalf("scripts: %s", dump(d))
	}
	e := w.refused(core.CodeBusy, core.Acquire{Lease: "third", Token: "token-b", CapHash: "d", RequestID: "r-c", Binding: "admin", ForMs: 60_000}).Refusal
	if !strings.Contains(e.Hint, "sessiondock status shop") || !strings.Contains(e.Hint, "--stop-page") || strings.Contains(e.Error(), "http://shop/") {
		t.Errorf("what to do, without the other's page: %v (%s)", e, e.Hint)
	}
	w.must(core.DocumentEnded{Slot: "shop", Nonce: nonce, Document: "D1", How: "replaced"})
	if got := w.s.Leases["other"].State; got != core.LeaseGranted {
		t.Fatalf("other agent is %s after the document ended", got)
	}
}

// An extension that is loaded anew cannot list what it has forgotten, and not every script
// is told of before a fence: from then on any page of that browser may hold one.
func TestAnExtensionLoadedAnewForgetsNoScript(t *testing.T) { // I8
	w := prepared(t)
	l := w.acquire("token-a")
	res := w.must(core.Act{
		Action: "script", Lease: l.ID, Cap: l.CapHash, ID: w.clientID(), Epoch: w.slot().Epoch,
		Verb: "evaluate", Class: core.Write, Summary: "evaluate", BodyHash: "h", DeadlineMs: 30_000,
	})
	w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "the extension is loaded anew"})
	w.must(core.LinkUp{Slot: "shop", Nonce: "link-2"})
	w.must(core.Hello{Slot: "shop", Nonce: "link-2", Instance: "worker-2", Anew: true})
	w.drain("link-2")
	w.must(core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
	w.drain("link-2")
	if st := core.StatusOf(w.s, w.now, "shop"); !strings.Contains(dump(st.Sentences.Warnings), "Stop the browser before you type a secret: sessiondock slot stop shop") {
		t.Fatalf("warnings: %s", dump(st.Sentences.Warnings))
	}
	w.refused(core.CodeConflict, core.StopPage{Slot: "shop", By: "human:popup"}) // which, nobody knows
	w.must(core.Resolve{Action: res.Action.Action, Verdict: core.NotApplied, By: "human:cli"})
	w.must(core.Handback{Slot: "shop", By: "human:popup"})
	w.drain("link-2")
	w.must(core.DocumentEnded{Slot: "shop", Nonce: "link-2", Document: "", How: "closed"})
	w.must(core.Acquire{Lease: "other", Token: "token-b", CapHash: "c", RequestID: "r-b", Binding: "admin", ForMs: 60_000, WaitMs: 3_600_000})
	if got := w.s.Leases["other"].State; got != core.LeaseWaiting {
		t.Fatalf("another agent is %s in a browser whose pages may hold a script of agent-a", got)
	}
	if why := core.StatusOf(w.s, w.now, "shop").Queue[0].Reasons; !strings.Contains(why[0], "slot stop shop") {
		t.Fatalf("it waits because: %q", why)
	}
	err := w.do(core.Acquire{Lease: "now", Token: "token-b", CapHash: "c", RequestID: "r-now", Binding: "admin", ForMs: 60_000}).Refusal
	if err == nil || !strings.Contains(err.Message, "any page may still hold") || !strings.Contains(err.Hint, "slot stop shop") {
		t.Fatalf("an agent is told: %v", err)
	}
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, Clean: true, How: "stopped"})
	if got := w.s.Leases["other"].State; got != core.LeaseGranted {
		t.Fatalf("the other agent is %s after the browser has ended", got)
	}
	// The next browser has just begun: nothing is forgotten, and nothing was there.
	w.launch()
	w.must(core.LinkUp{Slot: "shop", Nonce: "link-3"})
	w.must(core.Hello{Slot: "shop", Nonce: "link-3", Instance: "worker-3", Anew: true})
	if d := w.slot().Scripts; len(d) != 0 {
		t.Fatalf("scripts of a new browser: %s", dump(d))
	}
}

func TestDaemonRestartIsUnknownUntilTheWatcherReports(t *testing.T) { // I1, I14
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.finish(a, "finished", 3, 3)
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 1, "barrier", 0, post("in_flight", 0))})
	epoch, ceiling := w.slot().Epoch, w.slot().Ceiling
	w.s.Links = map[core.SlotName]core.LinkState{}
	w.must(core.Restarted{})
	if w.slot().Epoch <= ceiling {
		t.Fatalf("epoch %d after a restart, the ceiling was %d", w.slot().Epoch, ceiling)
	}
	w.want(a, core.Finished, core.RemoteUnknown)
	w.refused(core.CodeFenced, core.Act{Action: "x", Lease: l.ID, Cap: l.CapHash, ID: w.clientID(), Epoch: epoch, Verb: "click", Class: core.Write, DeadlineMs: 1000})
	w.connect("link-2", instance, report(a, 2, "barrier", 0, post("answered", 200)))
	w.want(a, core.Finished, "answered:200")
	w.must(core.Resume{Lease: l.ID, Cap: l.CapHash})
	if got := w.s.Leases[l.ID]; got.State != core.LeaseActive || got.Epoch <= ceiling || got.Expires != l.Expires {
		t.Fatalf("resumed lease: %s", dump(got))
	}
}

func TestBrowserDeathIsUnknownUntilAPersonResolves(t *testing.T) { // I6, I8, I11
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 1, "open", 1, post("in_flight", 0))})
	w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"})
	w.want(a, core.LocalUnknown, core.RemoteUnknown)
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "killed"})
	w.want(a, core.LocalUnknown, core.RemoteUnknown)
	w.refused(core.CodeQuarantined, core.Resume{Lease: l.ID, Cap: l.CapHash})
	w.refused(core.CodeHeld, core.Acquire{Lease: "o", Token: "token-b", CapHash: "c", RequestID: "r", Binding: "admin", ForMs: 1000})
	w.must(core.Resolve{Action: a.Action, Verdict: core.Applied, By: "human:cli"})
	w.want(a, core.LocalUnknown, core.Applied)
	w.must(core.Resume{Lease: l.ID, Cap: l.CapHash})
}

func TestUnackedFenceQuarantinesUntilTheLaunchHasEnded(t *testing.T) { // I5
	w := prepared(t)
	w.acquire("token-a")
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.pass(core.FenceAckMs + 1)
	if w.slot().Fence.State != "unacknowledged" {
		t.Fatalf("fence is %s", w.slot().Fence.State)
	}
	w.refused(core.CodeConflict, core.Lift{Slot: "shop", Note: "looks fine", By: "human:cli"})
	w.must(core.Handback{Slot: "shop", Confirm: true, By: "human:cli"})
	w.refused(core.CodeQuarantined, core.Acquire{Lease: "o", Token: "token-b", CapHash: "c", RequestID: "r", Binding: "admin", ForMs: 1000})
	w.must(core.StopSlot{Slot: "shop", Now: true, By: "human:cli"})
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "killed"})
	w.must(core.Acquire{Lease: "o2", Token: "token-b", CapHash: "c", RequestID: "r2", Binding: "admin", ForMs: 1000})
}

func TestQueuedActionsAreNotDispatchedAtATakeover(t *testing.T) { // L12
	w := prepared(t)
	l := w.acquire("token-a")
	first, second := w.act(l, core.Write), w.act(l, core.Write)
	w.must(core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
	w.want(second, core.NotDispatched, core.NoneSeen)
	if !w.s.Actions[second.Action].Closed {
		t.Fatal("an action that never left is still open")
	}
	w.want(first, core.Running, core.NoneSeen)
	w.finish(first, "halted", 1, 3)
	r := report(first, 1, "barrier", 0, nil)
	r.Dispatched = 1
	w.drain(nonce, r)
	w.want(first, core.Interrupted, core.NoneSeen)
}

func TestNotDispatchedNeedsTheInstanceThatHadTheGrant(t *testing.T) {
	for _, same := range []bool{true, false} {
		w := prepared(t)
		l := w.acquire("token-a")
		a := w.act(l, core.Write)
		w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"})
		who := instance
		if !same {
			who = "worker-2"
		}
		w.connect("link-2", who)
		if same {
			w.want(a, core.NotDispatched, core.NoneSeen)
		} else {
			w.want(a, core.LocalUnknown, core.RemoteUnknown)
		}
	}
}

func TestUnrecordedTakeoverIsFoundInTheHello(t *testing.T) { // FAULTS: fsync hung, takeover, SIGKILL, restart
	w := prepared(t)
	l := w.acquire("token-a")
	fenced := w.slot().Epoch + 1 // issued by the register of a daemon that died before the record
	w.s.Links = map[core.SlotName]core.LinkState{}
	w.must(core.Restarted{})
	w.must(core.LinkUp{Slot: "shop", Nonce: "link-2"})
	w.must(core.Hello{Slot: "shop", Nonce: "link-2", Instance: instance, Mark: fenced, Person: true})
	if h := w.slot().Holder; h.Kind != "human" {
		t.Fatalf("holder is %+v", h)
	}
	w.drain("link-2")
	w.refused(core.CodeHeld, core.Resume{Lease: l.ID, Cap: l.CapHash})
}

func TestRestoredDatabaseIsNotServed(t *testing.T) { // L14
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"})
	w.must(core.LinkUp{Slot: "shop", Nonce: "link-2"})
	mark := w.slot().Ceiling + 5
	w.must(core.Hello{Slot: "shop", Nonce: "link-2", Instance: instance, Mark: mark})
	if w.slot().Epoch <= mark { // I1
		t.Errorf("epoch %d, the browser has seen %d", w.slot().Epoch, mark)
	}
	w.refused(core.CodeQuarantined, core.Resume{Lease: l.ID, Cap: l.CapHash})
	w.refused(core.CodeEpochRegression, core.Lift{Slot: "shop", Note: "n", By: "human:cli"})
	w.must(core.Adopt{Slot: "shop", Note: "restored on purpose", By: "human:cli"})
	w.drain("link-2")
	// The extension says nothing of the action: it may have been told to forget it by what
	// was written after the copy.
	w.want(a, core.LocalUnknown, core.RemoteUnknown)
	w.must(core.Resolve{Action: a.Action, Verdict: core.Applied, Note: "looked", By: "human:cli"})
	w.must(core.Lift{Slot: "shop", Note: "looked at the site", By: "human:cli"})
	// Which scripts came after the copy was made nobody knows.
	for _, token := range []string{"token-a", "token-b"} {
		w.refused(core.CodeBusy, core.Acquire{Lease: "no", Token: token, CapHash: "c", RequestID: "r-" + token, Binding: "admin", ForMs: 1000})
	}
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, Clean: true, How: "stopped"})
	w.must(core.Acquire{Lease: "o2", Token: "token-b", CapHash: "c", RequestID: "r2", Binding: "admin", ForMs: 1000})
}

// A press of "Take over" that comes with the hello of a browser whose database was
// restored is not lost: whoever pressed has control, and the adoption's fence says so.
func TestAPressBeforeTheAdoption(t *testing.T) { // L14
	w := prepared(t)
	w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"})
	w.must(core.LinkUp{Slot: "shop", Nonce: "link-2"})
	w.must(core.Hello{Slot: "shop", Nonce: "link-2", Instance: instance, Mark: w.slot().Ceiling + 5, Hold: "press"})
	if s := w.slot(); s.Holder.Kind != "human" || s.Fence.State != "unacknowledged" {
		t.Fatalf("held by %+v, fence %s", s.Holder, s.Fence.State)
	}
	w.must(core.Adopt{Slot: "shop", Note: "restored on purpose", By: "human:cli"})
	if s := w.slot(); s.Holder.Kind != "human" || s.LastHold != "press" || s.Fence.State != "pending" {
		t.Errorf("held by %+v, the last hold %q, fence %s", s.Holder, s.LastHold, s.Fence.State)
	}
	w.drain("link-2")
	w.must(core.Handback{Slot: "shop", Confirm: true, By: "human:cli"})
}

// What a browser was granted for a lease lasts as long as the lease had: a renewal for
// less leaves it as it is.
func TestARenewalTakesNoTime(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	before := w.s.Leases[l.ID].Expires
	w.must(core.Renew{Lease: l.ID, Cap: l.CapHash, ForMs: 1000})
	if after := w.s.Leases[l.ID].Expires; after != before {
		t.Errorf("a renewal for a second: %+v, before it %+v", after, before)
	}
	w.must(core.Renew{Lease: l.ID, Cap: l.CapHash, ForMs: before.LeftMs(w.now) + 1000})
	if after := w.s.Leases[l.ID].Expires; after.BootMs != before.BootMs+1000 {
		t.Errorf("a renewal for a second more: %+v, before it %+v", after, before)
	}
}

func TestServerErrorQuarantinesOnlyAfterAnUnsafeMethod(t *testing.T) {
	for method, clean := range map[string]bool{"GET": true, "POST": false} {
		w := prepared(t)
		l := w.acquire("token-a")
		a := w.act(l, core.Write)
		w.finish(a, "finished", 3, 3)
		w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 1, "barrier", 0, map[string]core.SeenCall{
			"1": {Method: method, Type: "main_frame", State: "answered", Status: 503, Rule: "navigation"},
		})})
		w.want(a, core.Finished, "answered:503")
		w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
		w.drain(nonce)
		if got := core.StatusOf(w.s, w.now, "shop").Offer.Available; got != clean {
			t.Errorf("%s answered 503: offered %v, want %v (%v)", method, got, clean, core.StatusOf(w.s, w.now, "shop").Offer.Why)
		}
	}
}

func TestActionIDsRunOnce(t *testing.T) { // I7
	w := prepared(t)
	l := w.acquire("token-a")
	in := core.Act{
		Action: "a-1", Lease: l.ID, Cap: l.CapHash, ID: w.clientID(), Epoch: w.slot().Epoch,
		Verb: "click", Class: core.Write, BodyHash: "one", DeadlineMs: 1000,
	}
	w.must(in)
	w.sent = nil
	again := in
	again.Action = "a-2"
	if res := w.must(again); res.Action.Action != "a-1" || !res.Repeat || len(w.sent) > 0 {
		t.Fatalf("sent again: %s", dump(res))
	}
	again.BodyHash = "two"
	w.refused(core.CodeConflict, again)
}

// TestFirstGate: what a request says of its epoch admits nothing and moves nothing (L11).
func TestFirstGate(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	for _, e := range []core.Epoch{0, 1, w.slot().Epoch + 1, core.MaxEpoch, 1<<64 - 1} {
		epoch := w.slot().Epoch
		w.sent = nil
		w.refused(core.CodeFenced, core.Act{Action: "x", Lease: l.ID, Cap: l.CapHash, ID: w.clientID(), Epoch: e, Verb: "click", Class: core.Write, DeadlineMs: 1000})
		if w.slot().Epoch != epoch || len(w.sent) > 0 {
			t.Fatalf("epoch %d of a request moved something", e)
		}
	}
}

func TestExpiryEndsControl(t *testing.T) { // L1, L7
	w := prepared(t)
	l := w.acquire("token-a")
	epoch := w.slot().Epoch
	w.now.BootMs += 600_001 // the wall clock stands still, as in a suspend that it slept through
	w.refused(core.CodeExpired, core.Act{Action: "x", Lease: l.ID, Cap: l.CapHash, ID: w.clientID(), Epoch: epoch, Verb: "click", Class: core.Write, DeadlineMs: 1000})
	w.do(core.Tick{})
	if w.slot().Holder.Kind != "none" || w.slot().Epoch <= epoch {
		t.Fatalf("holder %+v at epoch %d", w.slot().Holder, w.slot().Epoch)
	}
}

func TestUnclaimedGrantIsWithdrawn(t *testing.T) {
	w := prepared(t)
	w.must(core.Acquire{Lease: "l", Token: "token-a", CapHash: "c", RequestID: "r", Binding: "admin", ForMs: 60_000})
	w.must(core.Granted{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
	epoch := w.slot().Epoch
	w.pass(core.ClaimMs + 1)
	if w.s.Leases["l"].State != core.LeaseEnded || w.slot().Epoch <= epoch {
		t.Fatalf("lease %s, epoch %d", w.s.Leases["l"].State, w.slot().Epoch)
	}
}

func TestWallClockChangesNothing(t *testing.T) { // L6
	w := prepared(t)
	l := w.acquire("token-a")
	for _, wall := range []int64{-86_400_000, 0, 4_102_444_800_000, 1} {
		w.now.WallMs = wall
		w.do(core.Tick{})
		if got := w.s.Leases[l.ID]; got.State != core.LeaseActive {
			t.Fatalf("wall clock %d: lease is %s", wall, got.State)
		}
	}
}

func TestAnotherBootVoidsLeasesAndLaunches(t *testing.T) { // L8
	w := prepared(t)
	l := w.acquire("token-a")
	w.s.Links = map[core.SlotName]core.LinkState{}
	w.now.BootID, w.now.BootMs = "boot-2", 5
	w.must(core.Restarted{})
	if got := w.s.Leases[l.ID]; got.State != core.LeaseEnded {
		t.Fatalf("lease is %s", got.State)
	}
	if w.slot().Launch.State != "ended" {
		t.Fatalf("launch is %s", w.slot().Launch.State)
	}
}

func TestRemovedSlotKeepsItsEpoch(t *testing.T) { // I1
	w := newWorld(t)
	w.must(core.CreateSlot{Name: "shop", By: "human:test"})
	w.must(core.RemoveSlot{Name: "shop", By: "human:test"})
	epoch := w.slot().Epoch
	w.must(core.CreateSlot{Name: "shop", By: "human:test"})
	if w.slot().Epoch <= epoch {
		t.Fatalf("epoch %d after %d", w.slot().Epoch, epoch)
	}
}

func TestFenceRegisterIsStayedAbove(t *testing.T) { // I1: a number that is not recorded yet
	w := prepared(t)
	w.floor["shop"] = w.slot().Epoch + 7
	w.must(core.Acquire{Lease: "l", Token: "token-a", CapHash: "c", RequestID: "r", Binding: "admin", ForMs: 60_000})
	if w.slot().Epoch != w.floor["shop"]+1 {
		t.Fatalf("granted at %d, the register has issued %d", w.slot().Epoch, w.floor["shop"])
	}
}

// An action whose requests find no room: one that asks for an effect takes the place of one
// that does not, and where that place is not to be had no answer stands for all of them.
func TestMoreRequestsThanAreKept(t *testing.T) {
	call := func(method, state string, status int) core.SeenCall {
		return core.SeenCall{Method: method, URL: "http://shop/save", Type: "xmlhttprequest", State: state, Status: status, Rule: "document"}
	}
	calls := func(n int, method string) map[string]core.SeenCall {
		out := map[string]core.SeenCall{}
		for i := range n {
			out[fmt.Sprint(method, i)] = call(method, "answered", 200)
		}
		return out
	}
	for name, c := range map[string]struct {
		first, then map[string]core.SeenCall
		more        int
		want        core.Remote
	}{
		"a POST after many GETs":             {calls(core.MaxSeenRequests, "GET"), map[string]core.SeenCall{"post": call("POST", "answered", 201)}, 1, core.Answered(201)},
		"a POST after many GETs, unanswered": {calls(core.MaxSeenRequests, "GET"), map[string]core.SeenCall{"post": call("POST", "in_flight", 0)}, 1, core.InFlight},
		"a POST and more than is kept":       {calls(1, "POST"), calls(core.MaxSeenRequests-1, "GET"), 9, core.Answered(200)},
		"as many POSTs as are kept":          {calls(core.MaxSeenRequests, "POST"), nil, 0, core.Answered(200)},
		"more POSTs than are kept":           {calls(core.MaxSeenRequests, "POST"), nil, 1, core.RemoteUnknown},
		"GETs alone, more than are kept":     {calls(core.MaxSeenRequests, "GET"), nil, 1, core.RemoteUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := prepared(t)
			a := w.act(w.acquire("token-a"), core.Write)
			for i, requests := range []map[string]core.SeenCall{c.first, c.then} {
				r := report(a, int64(i+1), "barrier", 0, requests)
				r.More = c.more
				w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: r})
			}
			w.finish(a, "finished", 3, 3)
			w.want(a, core.Finished, c.want)
			if n := len(w.s.Actions[a.Action].Requests); n > core.MaxSeenRequests {
				t.Errorf("%d requests are kept", n)
			}
		})
	}
}

// What was sent to a browser that has ended is at work nowhere, also when another runs.
func TestWhatEndedWithItsBrowserIsNotAtWork(t *testing.T) {
	w := prepared(t)
	a := w.act(w.acquire("token-a"), core.Write)
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 1, "open", 1, nil)})
	w.end("shop")
	w.want(a, core.LocalUnknown, core.RemoteUnknown)
	for _, when := range []string{"after the end", "in the next browser"} {
		st := core.StatusOf(w.s, w.now, "shop")
		if len(st.Local.Commands) > 0 || strings.Contains(st.Sentences.Local, "come to rest") || len(st.Quarantine) != 1 {
			t.Errorf("%s: %+v, %q, quarantine %v", when, st.Local.Commands, st.Sentences.Local, st.Quarantine)
		}
		if when == "after the end" {
			w.must(core.StartSlot{Slot: "shop", By: "human:test"})
			w.run("shop")
		}
	}
}

// A slot that is offered says for whom it is not.
func TestAnOfferSaysWhoWaitsForAPage(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.finish(a, "finished", 1, 1)
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 1, "barrier", 0, nil)})
	w.pass(core.DefaultWatchMs + 1)
	w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
	doc := core.DocNow{Document: "D1", Tab: 1, URL: "http://shop/", Agent: l.Agent, Why: "agent_script"}
	w.must(core.Fenced{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Documents: []core.DocNow{doc}})
	w.must(core.Drained{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Documents: []core.DocNow{doc}})
	st := core.StatusOf(w.s, w.now, "shop")
	if !st.Offer.Available || len(st.Offer.Why) != 1 || !strings.Contains(st.Offer.Why[0], "not to other agents yet: a page with a script of agent-a is still open: http://shop/; reload or close it") {
		t.Errorf("offered: %+v", st.Offer)
	}
	w.must(core.DocumentEnded{Slot: "shop", Nonce: nonce, Document: "D1", How: "replaced"})
	if st := core.StatusOf(w.s, w.now, "shop"); !st.Offer.Available || len(st.Offer.Why) != 0 {
		t.Errorf("offered: %+v", st.Offer)
	}
}

// A worker that outlives the page of an agent keeps others out as that page does.
func TestAWorkerIsListedAsAPageIs(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
	found := core.DocumentFound{Slot: "shop", Nonce: nonce, Document: "worker:W1", URL: "blob:http://shop"}
	w.must(core.Fenced{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
	w.must(found)
	w.must(found)
	w.must(core.Drained{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
	w.do(core.DocumentFound{Slot: "shop", Nonce: "old", Document: "worker:W2"})
	st := core.StatusOf(w.s, w.now, "shop")
	if len(st.Local.Documents) != 1 || st.Local.State != "running" || !strings.Contains(st.Offer.Why[0], "a worker with a script of agent-a is still there: blob:http://shop") {
		t.Fatalf("local %+v, offer %+v", st.Local, st.Offer)
	}
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.must(core.Fenced{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
	w.must(core.StopPage{Slot: "shop", By: "human:cli"})
	w.must(core.DocumentEnded{Slot: "shop", Nonce: nonce, Document: "worker:W1", How: "closed"})
	if st := core.StatusOf(w.s, w.now, "shop"); len(st.Local.Documents) != 0 {
		t.Errorf("still listed: %+v", st.Local.Documents)
	}
}
