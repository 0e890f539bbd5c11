package core_test

import (
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Cases that once went wrong. Each is the shortest way to the fault.

func TestATakeoverIsKeptAlthoughSomethingWasDecidedAboveIt(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	w.must(core.Acquire{Lease: "other", Token: "token-b", CapHash: "c", RequestID: "r-b", Binding: "admin", ForMs: 60_000, WaitMs: 60_000})
	issued := w.slot().Epoch + 1
	w.floor["shop"] = issued // the register has issued it; the record waits in the inbox
	w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
	w.must(core.Takeover{Slot: "shop", Epoch: issued, Surface: "popup", Hold: "h", By: "human:popup"})
	if s := w.slot(); s.Holder.Kind != "human" || s.Epoch <= issued {
		t.Fatalf("holder %+v at epoch %d", s.Holder, s.Epoch)
	}
	w.drain(nonce)
	if got := w.s.Leases["other"].State; got != core.LeaseWaiting {
		t.Fatalf("the waiter is %s while a person holds", got)
	}
}

func TestALateBarrierBeginsTheWatchAnew(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.must(core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
	w.finish(a, "halted", 3, 3)
	w.must(core.Fenced{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Reports: []core.Report{report(a, 1, "open", 3, nil)}})
	w.pass(core.DrainMs + core.DrainGraceMs + 1)
	w.want(a, core.LocalUnknown, core.NoneSeen)
	w.pass(core.DefaultWatchMs + 1)
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 2, "barrier", 0, nil)})
	if got := w.s.Actions[a.Action]; got.Local != core.Finished || got.Watched || got.Closed {
		t.Fatalf("after the late barrier: local %s, watched %v, closed %v", got.Local, got.Watched, got.Closed)
	}
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 3, "barrier", 0, post("in_flight", 0))})
	w.want(a, core.Finished, core.InFlight)
}

func TestAnOverdueActionIsNotSent(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	first, second := w.act(l, core.Write), w.act(l, core.Write)
	w.now.BootMs += 30_001
	w.sent = nil
	w.finish(first, "finished", 3, 3)
	for _, e := range w.sent {
		if s, ok := e.(core.SendAction); ok {
			t.Fatalf("sent after its deadline: %+v", s)
		}
	}
	w.want(second, core.NotDispatched, core.NoneSeen)
	if got := w.s.Actions[second.Action].Authority; got != core.Refused(core.CodeDeadline) {
		t.Fatalf("authority %s", got)
	}
}

func TestNoPhantomTakeoverAfterAStoppedBrowser(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	held := w.slot().Epoch
	w.drain(nonce)
	w.must(core.StopSlot{Slot: "shop", Now: true, By: "human:cli"})
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "stopped"})
	w.must(core.Handback{Slot: "shop", To: "agent-a", By: "human:cli"})
	w.must(core.Resume{Lease: l.ID, Cap: l.CapHash})
	w.launchResumed()
	// The profile still remembers that a person held at that epoch.
	w.must(core.LinkUp{Slot: "shop", Nonce: "n2"})
	w.must(core.Hello{Slot: "shop", Nonce: "n2", Instance: "worker-2", Mark: held, Person: true})
	if h := w.slot().Holder; h.Kind != "agent" {
		t.Fatalf("holder %+v: nobody took over", h)
	}
}

// launchResumed answers the StartLaunch of a resumed lease.
func (w *world) launchResumed() {
	l := core.LaunchID(w.id("launch"))
	w.must(core.LaunchStarting{Slot: "shop", Generation: w.slot().Generation + 1, Launch: l, SecretHash: "s"})
	w.must(core.LaunchRunning{Slot: "shop", Launch: l, Identity: core.Identity{Containment: "weak", KeeperPID: 10, KeeperStart: 20}})
}

func TestTwoRestartsDoNotLoseAnUnrecordedTakeover(t *testing.T) {
	w := prepared(t)
	w.acquire("token-a")
	fenced := w.slot().Epoch + 1
	for range 2 {
		w.s.Links = map[core.SlotName]core.LinkState{}
		w.must(core.Restarted{})
	}
	w.must(core.LinkUp{Slot: "shop", Nonce: "n2"})
	w.must(core.Hello{Slot: "shop", Nonce: "n2", Instance: instance, Mark: fenced, Person: true})
	if h := w.slot().Holder; h.Kind != "human" {
		t.Fatalf("holder %+v", h)
	}
}

func TestTheHoldOfAHelloStopsThePageToo(t *testing.T) {
	w := prepared(t)
	w.acquire("token-a")
	w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"})
	w.must(core.LinkUp{Slot: "shop", Nonce: "n2"})
	w.sent = nil
	w.must(core.Hello{Slot: "shop", Nonce: "n2", Instance: instance, Hold: "h", StopPage: true, Tabs: []core.Tab{{Tab: 7}}})
	for _, e := range w.sent {
		if s, ok := e.(core.SendStopPage); ok && s.Epoch == w.slot().Epoch && len(s.Tabs) == 1 {
			return
		}
	}
	t.Fatalf("sent %s", dump(w.sent))
}

func TestAStopIsFinishedByTheNextDaemon(t *testing.T) {
	w := prepared(t)
	w.must(core.StopSlot{Slot: "shop", Now: true, By: "human:cli"})
	w.s.Links = map[core.SlotName]core.LinkState{}
	w.sent = nil
	w.must(core.Restarted{})
	for _, e := range w.sent {
		if s, ok := e.(core.StopLaunch); ok && s.Now && s.Launch == w.slot().Launch.ID {
			return
		}
	}
	t.Fatalf("sent %s", dump(w.sent))
}

func TestARemovedBindingTakesItsDelegationsWithIt(t *testing.T) { // I9
	w := prepared(t)
	w.must(core.CreateSlot{Name: "bank", By: "human:test"})
	w.must(core.RemoveBinding{Name: "admin", By: "human:test"})
	w.must(core.Bind{Spec: core.BindingSpec{Name: "admin", Slot: "bank", Account: "none"}, By: "human:test"})
	w.refused(core.CodeDenied, core.Acquire{Lease: "l", Token: "token-a", CapHash: "c", RequestID: "r", Binding: "admin", ForMs: 1000})
}

func TestRefusalsTellAnAgentNothingOfAnother(t *testing.T) { // I10
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.finish(a, "unknown", 1, 3)
	doc := core.DocNow{Document: "D1", Tab: 1, URL: "https://bank.example/private", Why: "agent_script"}
	w.must(core.Fenced{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Reports: []core.Report{report(a, 1, "lost", 1, nil)}, Documents: []core.DocNow{doc}})
	w.must(core.Drained{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Reports: []core.Report{report(a, 1, "lost", 1, nil)}})
	w.must(core.Handback{Slot: "shop", Confirm: true, By: "human:cli"})
	w.drain(nonce, report(a, 1, "lost", 1, nil))
	res := w.refused(core.CodeQuarantined, core.Acquire{Lease: "o", Token: "token-b", CapHash: "c", RequestID: "r", Binding: "admin", ForMs: 1000})
	if text := dump(res.Refusal); strings.Contains(text, "bank.example") || strings.Contains(text, "#save") {
		t.Fatalf("agent-b is told %s", text)
	}
}

func TestAdoptionHolds(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	w.must(core.LinkUp{Slot: "shop", Nonce: "n2"})
	w.must(core.Hello{Slot: "shop", Nonce: "n2", Instance: instance, Mark: w.slot().Ceiling + 5, MarkSeq: w.s.Seq + 500})
	w.must(core.Adopt{Slot: "shop", Note: "restored on purpose", By: "human:cli"})
	if got := w.s.Leases[l.ID].State; got != core.LeaseEnded {
		t.Fatalf("lease is %s after an adoption", got)
	}
	w.drain("n2")
	w.must(core.LinkLost{Slot: "shop", Nonce: "n2", Why: "EOF"})
	w.must(core.LinkUp{Slot: "shop", Nonce: "n3"})
	w.must(core.Hello{Slot: "shop", Nonce: "n3", Instance: instance, Mark: w.slot().Epoch, MarkSeq: w.s.Seq + 400})
	for _, r := range w.slot().Reasons {
		if r.Code == "epoch_regression" {
			t.Fatal("adopted, and a regression again at the next hello")
		}
	}
}

func TestADrainWithoutAnAcknowledgementProvesNothing(t *testing.T) { // I5
	w := prepared(t)
	l := w.acquire("token-a")
	w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
	w.must(core.Drained{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
	if got := w.slot().Fence.State; got != "pending" {
		t.Fatalf("fence is %s", got)
	}
}

func TestAHostsRefusalAgainstTheExtensionIsNoProof(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 1, "open", 1, post("in_flight", 0))})
	w.finish(a, "refused", 0, 3)
	w.want(a, core.Running, core.InFlight)
}

func TestASettledActionIsNotResolvedAgain(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.finish(a, "refused", 0, 3)
	w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
	w.refused(core.CodeConflict, core.Resolve{Action: a.Action, Verdict: core.Applied, By: "human:cli"})
}

func TestARetriedAcquireIsNotCancelledByItsFirstConnection(t *testing.T) {
	w := prepared(t)
	w.acquire("token-a")
	in := core.Acquire{Lease: "first", Token: "token-b", CapHash: "cap-1", RequestID: "same", Binding: "admin", ForMs: 60_000, WaitMs: 60_000}
	w.must(in)
	in.Lease, in.CapHash = "second", "cap-2"
	w.must(in)
	w.must(core.CancelWait{Lease: "first", Cap: "cap-1", Why: "its client went away"})
	if got := w.s.Leases["first"].State; got != core.LeaseWaiting {
		t.Fatalf("the retried request is %s", got)
	}
}

func TestAnActionAtWorkIsNotResolved(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.finish(a, "halted", 3, 3)
	w.must(core.Fenced{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch, Reports: []core.Report{report(a, 1, "open", 3, nil)}})
	w.refused(core.CodeConflict, core.Resolve{Action: a.Action, Verdict: core.NotApplied, By: "human:cli"})
}

func TestWithoutAWatcherNothingIsSaidToBeUnseen(t *testing.T) {
	w := prepared(t)
	w.acquire("token-a")
	if st := core.StatusOf(w.s, w.now, "shop"); st.Remote.State != "none_seen" {
		t.Fatalf("remote %s with a link", st.Remote.State)
	}
	w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"})
	st := core.StatusOf(w.s, w.now, "shop")
	if st.Remote.State != "unknown" || !strings.Contains(st.Sentences.Remote, "Not known") {
		t.Fatalf("remote %s: %s", st.Remote.State, st.Sentences.Remote)
	}
}

func TestALoadThatFailedLeavesTheSlotClean(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.finish(a, "finished", 1, 1)
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 1, "barrier", 0, map[string]core.SeenCall{
		"1": {Method: "GET", Type: "main_frame", State: "failed", Error: "net::ERR_UNSAFE_REDIRECT", Rule: "navigation"},
	})})
	w.want(a, core.Finished, core.AbortedLocally)
	w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
	w.drain(nonce)
	if st := core.StatusOf(w.s, w.now, "shop"); !st.Offer.Available {
		t.Fatalf("not offered: %v", st.Offer.Why)
	}
}

func TestNoneSeenSaysWhetherItIsStillWatched(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.finish(a, "finished", 3, 3)
	if got := w.s.Actions[a.Action]; !got.Watching || got.WatchedUntil != 0 {
		t.Fatalf("just after: watching %v, until %d", got.Watching, got.WatchedUntil)
	}
	w.pass(core.DefaultWatchMs + 1)
	if got := w.s.Actions[a.Action]; got.Watching || got.WatchedUntil == 0 {
		t.Fatalf("after the window: watching %v, until %d", got.Watching, got.WatchedUntil)
	}
}

func TestStopPageWithNothingToStopSaysSo(t *testing.T) {
	w := prepared(t)
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.pass(core.FenceAckMs + 1)
	w.must(core.StopPage{Slot: "shop", By: "human:cli"}) // only the extension knows, and it has not answered
	w.drain(nonce)
	w.refused(core.CodeConflict, core.StopPage{Slot: "shop", By: "human:cli"})
	w.must(core.StopPage{Slot: "shop", Tabs: []core.Tab{{Tab: 3}}, By: "human:popup"})
}

// TestALateRequestTakesItsKeysBack: an action was clean and its key free; then its page
// asked for an effect after all, and how that ended is not known.
func TestALateRequestTakesItsKeysBack(t *testing.T) {
	late := map[string]core.SeenCall{
		"1": {Method: "GET", URL: "https://shop.test/token", Type: "xmlhttprequest", State: "answered", Status: 200, Rule: "document"},
		"2": {Method: "POST", URL: "https://shop.test/save", Type: "xmlhttprequest", State: "failed", Error: "net::ERR_ABORTED", Rule: "document", AfterFence: true},
	}
	for name, taken := range map[string]bool{"free": false, "another's": true} {
		t.Run(name, func(t *testing.T) {
			w := prepared(t)
			w.must(core.CreateSlot{Name: "desk", By: "human:cli"})
			w.must(core.Bind{Spec: core.BindingSpec{Name: "desk", Slot: "desk", Account: "none", Keys: []string{"stock"}}, By: "human:cli"})
			w.must(core.Delegate{ID: "d3", Hash: "token-desk", Binding: "desk", Agent: "agent-c", By: "human:cli"})
			w.must(core.Acquire{Lease: "first", Token: "token-a", CapHash: "c1", RequestID: "r1", Binding: "admin", Keys: []string{"stock"}, ForMs: 60_000})
			w.must(core.Granted{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
			w.must(core.Claim{Lease: "first", Cap: "c1"})
			l := w.s.Leases["first"]
			a := w.act(l, core.Write)
			w.finish(a, "finished", 3, 3)
			w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 1, "barrier", 0, map[string]core.SeenCall{"1": late["1"]})})
			w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
			w.drain(nonce)
			if keys := w.slot().Keys; len(keys) != 0 {
				t.Fatalf("after a clean end the slot holds %v", keys)
			}
			if taken {
				w.must(core.Acquire{Lease: "second", Token: "token-desk", CapHash: "c2", RequestID: "r2", Binding: "desk", ForMs: 60_000})
			}
			w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 2, "barrier", 0, late)})
			want := 1
			if taken {
				want = 0
			}
			if keys := w.slot().Keys; len(keys) != want {
				t.Fatalf("the slot holds %v", keys)
			}
		})
	}
}

// TestACopyThatHasGrownIsStillACopy: a restored copy of the database goes on writing before
// the slot's browser comes back, and its journal is soon longer than the one it replaced.
func TestACopyThatHasGrownIsStillACopy(t *testing.T) {
	w := prepared(t)
	restored := w.s.Clone()
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.drain(nonce)
	mark, seq := w.slot().Epoch, w.slot().Told
	if seq <= restored.Slots["shop"].Told {
		t.Fatalf("a fence was sent, and the extension told of entry %d", seq)
	}
	restored.Links = map[core.SlotName]core.LinkState{} // a daemon that begins has none
	w.s, w.lean = restored, restored.Clone()
	w.lean.KeepOnlyOpen()
	w.must(core.Restarted{})
	for i := range 20 {
		w.must(core.CreateSlot{Name: core.SlotName("s" + strings.Repeat("x", i+1)), By: "human:cli"})
	}
	if w.s.Seq < seq {
		t.Fatalf("the copy's journal ends at %d, the extension was told of %d", w.s.Seq, seq)
	}
	w.must(core.LinkUp{Slot: "shop", Nonce: "n2"})
	w.must(core.Hello{Slot: "shop", Nonce: "n2", Instance: instance, Mark: mark, MarkSeq: seq})
	if s := w.slot(); len(s.Reasons) != 1 || s.Reasons[0].Code != "epoch_regression" {
		t.Fatalf("the slot is served: %+v", s.Reasons)
	}
}

// Nobody may have been told the capability of a grant that was not claimed.
func TestAnUnclaimedGrantDoesNotKeepItsSlot(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"its browser ended": func(w *world) {
			w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "exit 1"})
		},
		"its link was lost":    func(w *world) { w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"}) },
		"the daemon restarted": func(w *world) { w.must(core.Restarted{}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := prepared(t)
			w.must(core.Acquire{Lease: "l", Token: "token-a", CapHash: "c", RequestID: "r", Binding: "admin", ForMs: 600_000, WaitMs: 1000})
			granted := w.slot().Epoch
			lose(w)
			w.wantState("l", core.LeaseEnded)
			if s := w.slot(); s.Lease != "" || s.Holder.Kind != "none" || s.Epoch <= granted {
				t.Fatalf("the slot is kept for %q at epoch %d", s.Lease, s.Epoch)
			}
		})
	}
}

// A request that a person has not confirmed waits, and lets the others pass.
func TestAnUnconfirmedRequestKeepsNobodyWaiting(t *testing.T) {
	w := prepared(t)
	w.must(core.Delegate{ID: "ds", Hash: "token-s", Binding: "signed", Agent: "agent-s", By: "human:test"})
	w.must(core.Confirm{Binding: "signed", By: "human:cli"})
	holder := w.acquire("token-a")
	w.must(core.Acquire{Lease: "first", Token: "token-s", CapHash: "c1", RequestID: "r1", Binding: "signed", ForMs: 60_000, WaitMs: 60_000})
	w.must(core.Acquire{Lease: "second", Token: "token-b", CapHash: "c2", RequestID: "r2", Binding: "admin", ForMs: 60_000, WaitMs: 60_000})
	anew := *w.s.Bindings["signed"]
	anew.Confirmed = nil // as if it had been bound anew
	w.s.Bindings["signed"] = &anew
	w.must(core.Release{Lease: holder.ID, Cap: holder.CapHash})
	w.drain(nonce)
	w.wantState("first", core.LeaseWaiting)
	w.wantState("second", core.LeaseGranted)
}

func TestALaunchThatComesUpAfterItsEndIsEndedInSight(t *testing.T) { // I11
	w := prepared(t)
	l := w.acquire("token-a")
	id := w.slot().Launch.ID
	stops := func() (n int) {
		for _, e := range w.sent {
			if s, ok := e.(core.StopLaunch); ok && s.Launch == id && s.Now {
				n++
			}
		}
		return n
	}
	running := core.LaunchRunning{Slot: "shop", Launch: id, Identity: core.Identity{Containment: "full", GroupID: 7}}
	w.must(core.LaunchEnded{Slot: "shop", Launch: id, Verified: true, How: "two looks found nothing"})
	w.must(core.Resume{Lease: l.ID, Cap: l.CapHash}) // another is wanted
	w.sent = nil
	w.must(running)
	s := w.slot()
	if s.Launch.State != "unknown" || s.Launch.EndedMs != 0 || s.Launch.GroupID != 7 || s.Starting != "" || stops() != 1 {
		t.Fatalf("launch %+v, starting %q, %d stops", s.Launch, s.Starting, stops())
	}
	if len(s.Reasons) != 1 || s.Reasons[0].Code != "launch_unknown" || s.Holder.Kind != "none" {
		t.Fatalf("reasons %+v, holder %+v", s.Reasons, s.Holder)
	}
	w.refused(core.CodeConflict, core.LaunchStarting{Slot: "shop", Generation: s.Generation + 1, Launch: "new", SecretHash: "s"})
	w.must(core.LaunchEnded{Slot: "shop", Launch: id, Verified: true, How: "stopped"})
	if s := w.slot(); s.Launch.State != "ended" || len(s.Reasons) != 0 {
		t.Fatalf("launch %+v, reasons %+v", s.Launch, s.Reasons)
	}
}

func TestALaunchThatWasToldToEndWhileItStartedIsToldAgain(t *testing.T) {
	w := prepared(t)
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "stopped"})
	w.must(core.StartSlot{Slot: "shop", By: "human:cli"})
	w.must(core.LaunchStarting{Slot: "shop", Generation: w.slot().Generation + 1, Launch: "late", SecretHash: "s"})
	w.must(core.StopSlot{Slot: "shop", By: "human:cli"})
	for _, unknown := range []bool{false, true} {
		if unknown {
			w.must(core.LaunchEnded{Slot: "shop", Launch: "late", How: "its keeper does not answer"})
		}
		was := w.slot().Launch.State
		w.sent = nil
		w.must(core.LaunchRunning{Slot: "shop", Launch: "late", Identity: core.Identity{Containment: "full", GroupID: 7}})
		told := false
		for _, e := range w.sent {
			s, ok := e.(core.StopLaunch)
			told = told || ok && s.Launch == "late"
		}
		if got := w.slot().Launch; !told || got.State != was || got.GroupID != 7 {
			t.Errorf("told %v, launch %+v, was %s", told, got, was)
		}
	}
}

// A press that came with a hello, and a handback before its fence was sent: the fence that
// is sent answers the press.
func TestAPressIsAnsweredByWhateverFenceIsSent(t *testing.T) {
	w := prepared(t)
	w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"})
	w.must(core.LinkUp{Slot: "shop", Nonce: "link-2"})
	w.must(core.Hello{Slot: "shop", Nonce: "link-2", Instance: instance, Hold: "press", Mark: 1})
	w.sent = nil
	w.must(core.Handback{Slot: "shop", Confirm: true, By: "human:cli"})
	answered := false
	for _, e := range w.sent {
		if f, ok := e.(core.SendFence); ok {
			answered = f.Hold == "press" && f.Epoch == w.slot().Epoch
		}
	}
	if !answered {
		t.Fatalf("sent: %s", dump(w.sent))
	}
}

// An older copy is restored under a running browser, and what its extension had lost comes
// in a report: no drain of this database will settle that.
func TestWhatIsLostUnderAnOlderCopyIsUnknown(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	restored := w.s.Clone()
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	mark, seq := w.slot().Epoch, w.slot().Told
	restored.Links = map[core.SlotName]core.LinkState{}
	w.s, w.lean = restored, restored.Clone()
	w.lean.KeepOnlyOpen()
	w.must(core.Restarted{})
	w.must(core.LinkUp{Slot: "shop", Nonce: "n2"})
	w.must(core.Hello{Slot: "shop", Nonce: "n2", Instance: instance, Mark: mark, MarkSeq: seq + 100})
	if s := w.slot(); len(s.Reasons) != 1 || s.Reasons[0].Code != "epoch_regression" {
		t.Fatalf("no regression: %+v", s.Reasons)
	}
	lost := report(a, 5, "lost", 0, nil)
	w.must(core.Drained{Slot: "shop", Nonce: "n2", Epoch: mark, Reports: []core.Report{lost}})
	w.want(a, core.LocalUnknown, core.NoneSeen)
}

// An extension that was served in this launch and remembers nothing of it has forgotten
// which tabs a person opened: those that are open now are not lent.
func TestTabsOfAForgetfulExtensionStayThePersons(t *testing.T) {
	w := newWorld(t)
	w.must(core.CreateSlot{Name: "shop", By: "human:test"})
	apart := func(n core.Nonce, anew bool) (apart bool) {
		t.Helper()
		w.sent = nil
		w.must(core.LinkUp{Slot: "shop", Nonce: n})
		w.must(core.Hello{Slot: "shop", Nonce: n, Instance: instance, Anew: anew})
		for _, e := range w.sent {
			if welcome, ok := e.(core.SendWelcome); ok {
				return welcome.Apart
			}
		}
		t.Fatal("no welcome")
		return false
	}
	w.launch()
	for _, it := range []struct {
		n          core.Nonce
		anew, want bool
		why        string
	}{
		{"n1", true, false, "the browser has just begun"},
		{"n2", true, false, "it was not served yet: its first welcome was lost"},
		{"n3", false, false, "it remembers"},
		{"n4", true, true, "it was loaded anew"},
	} {
		if got := apart(it.n, it.anew); got != it.want {
			t.Errorf("%s: apart %v", it.why, got)
		}
		if it.n != "n1" {
			w.drain(it.n)
		}
	}
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "exit 0"})
	w.launch()
	if apart("n5", true) {
		t.Error("the tabs that the next browser came with are kept from its agents")
	}
}
