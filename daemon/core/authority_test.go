package core_test

import (
	"fmt"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// estate is several stopped slots, each with a binding of its name and a delegation
// "token-SLOT" for agent "agent-SLOT".
func estate(t *testing.T, slots ...core.SlotName) *world {
	w := newWorld(t)
	for _, name := range slots {
		w.must(core.CreateSlot{Name: name, By: "human:test"})
		w.must(core.Bind{Spec: core.BindingSpec{Name: core.BindingName(name), Slot: name, Account: "none"}, By: "human:test"})
		w.must(core.Delegate{ID: core.DelegationID(name), Hash: "token-" + string(name), Binding: core.BindingName(name), Agent: core.AgentName("agent-" + name), By: "human:test"})
	}
	return w
}

// ask acquires without a browser; the lease's ID is its request's.
func (w *world) ask(slot core.SlotName, id string, wait int64, keys ...string) *core.Lease {
	w.must(core.Acquire{
		Lease: core.LeaseID(id), Token: "token-" + string(slot), CapHash: "cap-" + id, RequestID: id, Binding: core.BindingName(slot),
		ForMs: 600_000, WaitMs: wait, Keys: keys,
	})
	return w.s.Leases[core.LeaseID(id)]
}

func (w *world) release(id string) {
	w.must(core.Release{Lease: core.LeaseID(id), Cap: "cap-" + id})
}

func (w *world) state(id string) core.LeaseState { return w.s.Leases[core.LeaseID(id)].State }

func (w *world) wantState(id string, want core.LeaseState) {
	if got := w.state(id); got != want {
		w.t.Fatalf("lease %s is %s, want %s; %s", id, got, want, dump(core.PlaceOf(w.s, w.now, core.LeaseID(id))))
	}
}

func TestAKeyIsHeldOnceAcrossSlots(t *testing.T) { // I2
	w := estate(t, "a", "b", "c")
	w.ask("a", "la", 0, "shop:product/42")
	w.claim("la")
	res := w.refused(core.CodeHeld, core.Acquire{Lease: "x", Token: "token-b", CapHash: "c", RequestID: "x", Binding: "b", ForMs: 60_000, Keys: []string{"shop:product/42"}})
	if !strings.Contains(res.Refusal.Message, "key shop:product/42 held by agent-a") {
		t.Fatalf("the refusal does not say who: %s", res.Refusal.Message)
	}
	w.ask("b", "lb", 60_000, "shop:product/42:shared")
	w.wantState("lb", core.LeaseWaiting)
	w.ask("c", "lc", 60_000, "shop:product/42:shared")
	w.release("la")
	w.wantState("lb", core.LeaseGranted) // shared keys are held together
	w.wantState("lc", core.LeaseGranted)
}

func (w *world) claim(id string) {
	w.must(core.Claim{Lease: core.LeaseID(id), Cap: "cap-" + id})
}

func TestKeysOfABindingGoWithEachLease(t *testing.T) {
	w := estate(t, "a", "b")
	w.must(core.Bind{Spec: core.BindingSpec{Name: "keyed", Slot: "a", Account: "none", Keys: []string{"till", "stock:shared"}}, By: "human:test"})
	w.must(core.Delegate{ID: "dk", Hash: "token-keyed", Binding: "keyed", Agent: "agent-k", By: "human:test"})
	w.must(core.Acquire{Lease: "l", Token: "token-keyed", CapHash: "c", RequestID: "r", Binding: "keyed", ForMs: 60_000, Keys: []string{"stock"}})
	if got := dump(w.s.Slots["a"].Keys); got != `[{"key":"stock"},{"key":"till"}]` {
		t.Fatalf("the slot holds %s", got)
	}
	for _, bad := range []string{"", " ", "a b", "käse", strings.Repeat("x", 300)} {
		w.refused(core.CodeInvalid, core.Acquire{Lease: "x", Token: "token-b", CapHash: "c", RequestID: "x", Binding: "b", Keys: []string{bad}})
	}
}

// Several keys are taken all at once, so two that want the same in another order do
// not wait for each other.
func TestSeveralKeysDoNotDeadlock(t *testing.T) {
	w := estate(t, "a", "b", "c")
	w.ask("a", "la", 0, "k1", "k2")
	w.claim("la")
	w.ask("b", "lb", 60_000, "k2", "k1")
	w.ask("c", "lc", 60_000, "k1", "k2")
	w.release("la")
	w.wantState("lb", core.LeaseGranted)
	w.wantState("lc", core.LeaseWaiting)
	w.claim("lb")
	w.release("lb")
	w.wantState("lc", core.LeaseGranted)
}

// One that wants two keys is not starved by those that take turns at one of them.
func TestSeveralKeysDoNotStarve(t *testing.T) {
	w := estate(t, "both", "one", "two")
	w.ask("one", "one-0", 0, "k1")
	w.claim("one-0")
	w.ask("two", "two-0", 0, "k2")
	w.claim("two-0")
	w.ask("both", "both-0", 600_000, "k1", "k2")
	turns := 0
	for ; w.state("both-0") == core.LeaseWaiting; turns++ {
		if turns > 3*core.MaxPassed {
			t.Fatalf("passed for ever: %s", dump(w.s.Leases["both-0"]))
		}
		// The next of one is there before the former one ends, so the key never rests.
		slot, key := core.SlotName("one"), "k1"
		if turns%2 == 1 {
			slot, key = "two", "k2"
		}
		former := fmt.Sprintf("%s-%d", slot, turns/2)
		next := fmt.Sprintf("%s-%d", slot, turns/2+1)
		w.ask(slot, next, 600_000, key)
		w.release(former)
		if w.state(next) == core.LeaseGranted {
			w.claim(next)
		} else {
			break // it is held back: the key is kept
		}
	}
	if got := w.s.Leases["both-0"].Passed; got != core.MaxPassed {
		t.Fatalf("passed %d times, want %d", got, core.MaxPassed)
	}
	for id, l := range w.s.Leases {
		if id != "both-0" && (l.State == core.LeaseActive || l.State == core.LeaseGranted) {
			w.release(string(id))
		}
	}
	w.wantState("both-0", core.LeaseGranted)
}

func TestABlockedHeadIsPassedABoundedNumberOfTimes(t *testing.T) {
	w := estate(t, "a", "b")
	w.ask("b", "holder", 0, "k")
	w.claim("holder")
	w.ask("a", "head", 600_000, "k")
	for i := range core.MaxPassed + 2 {
		id := fmt.Sprintf("free-%d", i)
		w.ask("a", id, 600_000)
		if i < core.MaxPassed {
			w.wantState(id, core.LeaseGranted)
			w.claim(id)
			w.release(id)
		} else {
			w.wantState(id, core.LeaseWaiting)
		}
	}
	w.release("holder")
	w.wantState("head", core.LeaseGranted)
}

// Keys stay with the slot through a takeover and as long as an outcome is open (I8).
func TestKeysPassToThePersonAndStayWithAnOpenOutcome(t *testing.T) {
	w := prepared(t)
	w.must(core.CreateSlot{Name: "b", By: "human:test"})
	w.must(core.Bind{Spec: core.BindingSpec{Name: "b", Slot: "b", Account: "none", Keys: []string{"k"}}, By: "human:test"})
	w.must(core.Delegate{ID: "db", Hash: "token-b2", Binding: "b", Agent: "agent-b", By: "human:test"})
	w.must(core.Acquire{Lease: "l", Token: "token-a", CapHash: "cap-l", RequestID: "r", Binding: "admin", ForMs: 600_000, Keys: []string{"k"}})
	w.must(core.Granted{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
	w.must(core.Claim{Lease: "l", Cap: "cap-l"})
	a := w.act(w.s.Leases["l"], core.Write)
	w.must(core.Acquire{Lease: "w", Token: "token-b2", CapHash: "cap-w", RequestID: "w", Binding: "b", ForMs: 60_000, WaitMs: 3_600_000})
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.wantState("w", core.LeaseWaiting)
	if why := core.PlaceOf(w.s, w.now, "w").Why; len(why) != 1 || !strings.Contains(why[0], "key k held by a person") {
		t.Fatalf("the waiter is told %q", why)
	}
	// A takeover never waits for a key, it warns.
	w.must(core.Takeover{Slot: "b", Surface: "cli", By: "human:cli"})
	if got := core.StatusOf(w.s, w.now, "b").Sentences.Warnings; len(got) != 1 || !strings.Contains(got[0], "Key k is held by a person") {
		t.Fatalf("warnings %q", got)
	}
	w.must(core.Handback{Slot: "b", By: "human:cli"})
	w.finish(a, "unknown", 1, 3)
	w.drain(nonce, report(a, 1, "lost", 1, nil))
	w.must(core.Handback{Slot: "shop", Confirm: true, By: "human:cli"})
	w.drain(nonce, report(a, 1, "lost", 1, nil))
	w.wantState("w", core.LeaseWaiting)
	w.must(core.Resolve{Action: a.Action, Verdict: core.NotApplied, By: "human:cli"})
	w.wantState("w", core.LeaseGranted)
}

func TestPriorityThenArrival(t *testing.T) {
	w := estate(t, "a")
	for _, d := range []struct {
		id       string
		priority int
	}{{"low", -1}, {"high", 5}, {"high2", 5}} {
		w.must(core.Delegate{ID: core.DelegationID(d.id), Hash: "token-" + d.id, Binding: "a", Agent: core.AgentName(d.id), Priority: d.priority, By: "human:test"})
	}
	w.ask("a", "holder", 0)
	w.claim("holder")
	for _, id := range []string{"low", "a", "high", "high2"} {
		w.must(core.Acquire{Lease: core.LeaseID(id), Token: "token-" + id, CapHash: "cap-" + id, RequestID: id, Binding: "a", ForMs: 60_000, WaitMs: 600_000, Priority: 90})
	}
	var order []string
	for _, q := range core.StatusOf(w.s, w.now, "a").Queue {
		order = append(order, string(q.Lease))
	}
	if got := strings.Join(order, " "); got != "high high2 a low" { // what a request says of itself is not asked
		t.Fatalf("the queue is %s", got)
	}
	if p := core.PlaceOf(w.s, w.now, "a"); p.Position != 3 || p.Of != 4 || len(p.Why) != 1 || !strings.HasPrefix(p.Why[0], "held by agent-a for") {
		t.Fatalf("place %s", dump(p))
	}
	w.must(core.RevokeDelegation{ID: "high", By: "human:cli"})
	w.wantState("high", core.LeaseEnded)
	w.release("holder")
	w.wantState("high2", core.LeaseGranted)
	w.refused(core.CodeDenied, core.Acquire{Lease: "again", Token: "token-high", CapHash: "c", RequestID: "again", Binding: "a", ForMs: 60_000})
}

// run starts a slot's browser as the supervisor would, once it is wanted.
func (w *world) run(slot core.SlotName) {
	id := core.LaunchID("launch-" + string(slot) + w.id(""))
	w.must(core.LaunchStarting{Slot: slot, Generation: w.s.Slots[slot].Generation + 1, Launch: id, SecretHash: "s"})
	w.must(core.LaunchRunning{Slot: slot, Launch: id, Identity: core.Identity{Containment: "weak"}})
}

func (w *world) end(slot core.SlotName) {
	w.must(core.LaunchEnded{Slot: slot, Launch: w.s.Slots[slot].Launch.ID, Verified: true, How: "ended"})
}

func TestCapacityMakesRoomOfWhatIsIdleAndClean(t *testing.T) {
	w := estate(t, "a", "b", "c")
	w.s.Capacity = core.Capacity{Browsers: 1}
	w.ask("a", "la", 60_000)
	w.run("a")
	w.claim("la")
	w.ask("b", "lb", 600_000)
	w.wantState("lb", core.LeaseWaiting)
	if why := core.PlaceOf(w.s, w.now, "lb").Why; len(why) != 1 || why[0] != "capacity: 1 of 1 browsers running" {
		t.Fatalf("why: %q", why)
	}
	if w.s.Slots["a"].Launch.State != "running" {
		t.Fatal("a held browser was stopped to make room")
	}
	w.release("la")
	if w.s.Slots["a"].Launch.State != "stopping" {
		t.Fatalf("the idle browser is %s", w.s.Slots["a"].Launch.State)
	}
	w.wantState("lb", core.LeaseWaiting)
	w.end("a")
	w.wantState("lb", core.LeaseGranted)
	w.run("b")
	w.claim("lb")
	// A person's own start does not go over the bound, and is told what stands in the way.
	w.refused(core.CodeCapacity, core.StartSlot{Slot: "c", By: "human:cli"})
	w.release("lb")
	w.refused(core.CodeBusy, core.StartSlot{Slot: "c", By: "human:cli"}) // b is on its way out
	w.end("b")
	w.must(core.StartSlot{Slot: "c", By: "human:cli"})
	w.run("c")
	// What a person started is not stopped for another's sake.
	w.ask("a", "la2", 600_000)
	if w.s.Slots["c"].Launch.State != "running" {
		t.Fatal("a person's browser was stopped to make room")
	}
	w.must(core.StopSlot{Slot: "c", By: "human:cli"})
	w.end("c")
	w.wantState("la2", core.LeaseGranted)
}

func TestCapacityCountsMemory(t *testing.T) {
	w := estate(t, "a", "b")
	w.s.Capacity = core.Capacity{MemoryMB: 1000}
	w.ask("a", "la", 60_000)
	w.run("a")
	w.must(core.Measured{MemoryMB: map[core.SlotName]int64{"a": 700}})
	w.ask("b", "lb", 600_000)
	w.wantState("lb", core.LeaseWaiting)
	w.must(core.Measured{MemoryMB: map[core.SlotName]int64{"a": 500}})
	w.wantState("lb", core.LeaseGranted)
}

func TestAQuarantinedBrowserIsNotStoppedToMakeRoom(t *testing.T) {
	w := prepared(t)
	w.must(core.CreateSlot{Name: "b", By: "human:test"})
	w.must(core.Bind{Spec: core.BindingSpec{Name: "b", Slot: "b", Account: "none"}, By: "human:test"})
	w.s.Capacity = core.Capacity{Browsers: 1}
	w.slot().Launch.ByPerson = false
	l := w.acquire("token-a")
	a := w.act(l, core.Write)
	w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
	w.finish(a, "unknown", 1, 3)
	w.drain(nonce, report(a, 1, "lost", 1, nil))
	w.must(core.Acquire{Lease: "lb", Person: true, CapHash: "c", RequestID: "r", Binding: "b", ForMs: 60_000, WaitMs: 600_000, By: "human:cli"})
	if w.slot().Launch.State != "running" {
		t.Fatal("a quarantined browser was stopped to make room")
	}
	w.must(core.Lift{Slot: "shop", Note: "looked", By: "human:cli"})
	if w.slot().Launch.State != "stopping" {
		t.Fatal("nothing makes room after the quarantine was lifted")
	}
}

// A grant without a wait starts no browser; what is asked of it then does. One that
// nobody wants any more is not started.
func TestABrowserIsStartedWhenItIsWanted(t *testing.T) {
	started := func(w *world) int {
		n := 0
		for _, e := range w.sent {
			if _, ok := e.(core.StartLaunch); ok {
				n++
			}
		}
		return n
	}
	w := estate(t, "a")
	l := w.ask("a", "l1", 0)
	w.claim("l1")
	if started(w) != 0 {
		t.Fatal("a grant without a wait started a browser")
	}
	act := core.Act{Action: "x", Lease: l.ID, Cap: "cap-l1", ID: w.clientID(), Epoch: w.s.Slots["a"].Epoch, Verb: "click", Class: core.Write, DeadlineMs: 1000}
	w.refused(core.CodeBusy, act)
	w.refused(core.CodeBusy, act)
	if started(w) != 1 {
		t.Fatalf("%d starts for one browser", started(w))
	}
	w.release("l1")
	w.refused(core.CodeConflict, core.LaunchStarting{Slot: "a", Generation: 1, Launch: "late", SecretHash: "s"})
	w.ask("a", "l2", 60_000)
	if started(w) != 2 {
		t.Fatal("a grant within a wait starts the browser")
	}
	// A person's wish outlives the lease's.
	w.must(core.StartSlot{Slot: "a", By: "human:cli"})
	w.must(core.Release{Lease: "l2", Cap: "cap-l2"})
	w.run("a")
	if !w.s.Slots["a"].Launch.ByPerson {
		t.Fatal("the person's start was forgotten")
	}
}

func TestRetentionIsApprovedBeforeTheEndOrNot(t *testing.T) { // I13
	begin := func(t *testing.T) (*world, *core.Lease) {
		w := estate(t, "a")
		w.must(core.Bind{Spec: core.BindingSpec{Name: "short", Slot: "a", Account: "none", MaxLifetimeMs: 10_000}, By: "human:test"})
		w.must(core.Acquire{Lease: "l", Person: true, CapHash: "cap-l", RequestID: "r", Binding: "short", ForMs: 10_000, By: "human:cli"})
		w.claim("l")
		w.must(core.Retain{Lease: "l", Cap: "cap-l", ID: "ret", ForMs: 60_000, Reason: "the import is not done"})
		return w, w.s.Leases["l"]
	}
	t.Run("in time", func(t *testing.T) {
		w, l := begin(t)
		w.refused(core.CodeConflict, core.Acknowledge{Lease: "l", Cap: "cap-l", ID: "ret"})
		w.must(core.DecideRetention{Lease: "l", ID: "ret", Approved: true, By: "human:cli"})
		w.must(core.Renew{Lease: "l", Cap: "cap-l", ForMs: 50_000}) // the receiver has not taken it up
		if got := w.s.Leases["l"]; got.Expires != l.Expires || got.MaxUntil != l.MaxUntil {
			t.Fatalf("an approval alone gave %d of %d ms", got.Expires.LeftMs(w.now), got.MaxUntil.LeftMs(w.now))
		}
		w.must(core.Acknowledge{Lease: "l", Cap: "cap-l", ID: "ret"})
		if got := w.s.Leases["l"]; got.Expires.LeftMs(w.now) != 60_000 || got.MaxUntil != got.Expires {
			t.Fatalf("the acknowledgement gave %d of %d ms", got.Expires.LeftMs(w.now), got.MaxUntil.LeftMs(w.now))
		}
		w.pass(50_000)
		w.wantState("l", core.LeaseActive)
		w.pass(11_000)
		w.wantState("l", core.LeaseEnded)
	})
	t.Run("asked again", func(t *testing.T) {
		w, _ := begin(t)
		again := core.Retain{Lease: "l", Cap: "cap-l", ID: "other", ForMs: 60_000, Reason: "the import is not done"}
		if res := w.must(again); !res.Repeat || res.Lease.Retention.ID != "ret" {
			t.Fatalf("%+v", res)
		}
		w.must(core.DecideRetention{Lease: "l", ID: "ret", Approved: true, By: "human:cli"})
		if res := w.must(again); !res.Repeat || res.Lease.Retention.State != "approved" {
			t.Fatalf("after the approval: %+v", res)
		}
		again.ForMs = 90_000
		w.refused(core.CodeConflict, again) // the approval is not lost by it
		w.must(core.Acknowledge{Lease: "l", Cap: "cap-l", ID: "ret"})
		w.must(again)
	})
	t.Run("not acknowledged", func(t *testing.T) {
		w, _ := begin(t)
		w.must(core.DecideRetention{Lease: "l", ID: "ret", Approved: true, By: "human:cli"})
		w.pass(10_001)
		w.wantState("l", core.LeaseEnded)
	})
	t.Run("late", func(t *testing.T) {
		w, _ := begin(t)
		w.now.BootMs += 10_001 // over, and no tick has noticed
		w.refused(core.CodeExpired, core.DecideRetention{Lease: "l", ID: "ret", Approved: true, By: "human:cli"})
		w.refused(core.CodeExpired, core.Acknowledge{Lease: "l", Cap: "cap-l", ID: "ret"})
	})
	t.Run("another epoch", func(t *testing.T) {
		w, _ := begin(t)
		w.must(core.Takeover{Slot: "a", Surface: "cli", By: "human:cli"})
		w.refused(core.CodeConflict, core.DecideRetention{Lease: "l", ID: "ret", Approved: true, By: "human:cli"})
		one := core.Epoch(1)
		w.refused(core.CodeConflict, core.DecideRetention{Lease: "l", ID: "ret", Approved: true, IfEpoch: &one, By: "human:cli"})
	})
	t.Run("asked again at another epoch", func(t *testing.T) {
		w, l := begin(t)
		w.must(core.Takeover{Slot: "a", Surface: "cli", By: "human:cli"})
		w.must(core.Handback{Slot: "a", To: l.Agent, By: "human:cli"})
		w.must(core.Resume{Lease: "l", Cap: "cap-l"})
		w.claim("l")
		if st := core.StatusOf(w.s, w.now, "a").Retentions; len(st) != 0 {
			t.Fatalf("a request of before the takeover is shown as if it could be approved: %s", dump(st))
		}
		w.must(core.Retain{Lease: "l", Cap: "cap-l", ID: "again", ForMs: 60_000, Reason: "the import is not done"})
		if res := w.must(core.DecideRetention{Lease: "l", ID: "again", Approved: true, By: "human:cli"}); res.Lease.Retention.State != "approved" {
			t.Fatalf("%s", dump(res.Lease.Retention))
		}
	})
	t.Run("refused at another epoch", func(t *testing.T) {
		w, _ := begin(t)
		w.must(core.Takeover{Slot: "a", Surface: "cli", By: "human:cli"})
		w.must(core.DecideRetention{Lease: "l", ID: "ret", By: "human:cli"})
	})
	t.Run("refused", func(t *testing.T) {
		w, _ := begin(t)
		w.must(core.DecideRetention{Lease: "l", ID: "ret", By: "human:cli"})
		w.refused(core.CodeConflict, core.DecideRetention{Lease: "l", ID: "ret", Approved: true, By: "human:cli"})
		w.refused(core.CodeConflict, core.Acknowledge{Lease: "l", Cap: "cap-l", ID: "ret"})
	})
}

func TestAnAskWaitsVisiblyAndIsAnsweredAtItsEpoch(t *testing.T) {
	w := estate(t, "a")
	w.ask("a", "l", 0)
	w.must(core.AskPerson{Lease: "l", Cap: "cap-l", Reason: "the shop wants a second factor"})
	st := core.StatusOf(w.s, w.now, "a")
	if len(st.Asks) != 1 || st.Asks[0].Agent != "agent-a" || len(st.Sentences.Warnings) != 1 {
		t.Fatalf("status shows %s, %q", dump(st.Asks), st.Sentences.Warnings)
	}
	w.must(core.AnswerAsk{Lease: "l", Granted: true, Note: "entered", By: "human:cli"})
	if got := w.s.Leases["l"].Ask; got.State != "granted" || got.By != "human:cli" {
		t.Fatalf("%s", dump(got))
	}
	w.must(core.AskPerson{Lease: "l", Cap: "cap-l", Reason: "again"})
	w.must(core.Takeover{Slot: "a", Surface: "cli", By: "human:cli"})
	if got := w.s.Leases["l"].Ask.State; got != "taken_over" {
		t.Fatalf("after a takeover the ask is %s", got)
	}
	if i := core.StatusOf(w.s, w.now, "a").Interrupted; i == nil || i.Ask == nil || i.Ask.Reason != "again" {
		t.Fatalf("the person no longer sees what was asked: %s", dump(i))
	}
	w.refused(core.CodeConflict, core.AnswerAsk{Lease: "l", Granted: true, By: "human:cli"})
	w.refused(core.CodeFenced, core.AskPerson{Lease: "l", Cap: "cap-l", Reason: "still there?"})
	w.must(core.Handback{Slot: "a", To: "agent-a", By: "human:cli"})
	w.must(core.Resume{Lease: "l", Cap: "cap-l"})
	w.must(core.Takeover{Slot: "a", Surface: "cli", By: "human:cli"})
	if i := core.StatusOf(w.s, w.now, "a").Interrupted; i.Ask != nil {
		t.Fatalf("an ask of before is shown again: %s", dump(i))
	}
}

func TestASignInIsConfirmedByAPersonAndOfOneLaunch(t *testing.T) {
	w := prepared(t)
	w.must(core.Delegate{ID: "ds", Hash: "token-s", Binding: "signed", Agent: "agent-s", By: "human:test"})
	in := core.Acquire{Lease: "l", Token: "token-s", CapHash: "c", RequestID: "r", Binding: "signed", ForMs: 60_000, WaitMs: 1000}
	w.refused(core.CodeAccountMismatch, in)
	w.must(core.Confirm{Binding: "signed", Note: "looked at the account page", By: "human:cli"})
	w.must(in)
	w.must(core.Release{Lease: "l", Cap: "c"})
	if st := core.StatusOf(w.s, w.now, "shop").SignIns; len(st) != 1 || st[0].Confirmed == nil || st[0].BeforeRestart {
		t.Fatalf("%s", dump(st))
	}
	w.drain(nonce)
	w.must(core.StopSlot{Slot: "shop", By: "human:cli"})
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "stopped"})
	w.refused(core.CodeConflict, core.Confirm{Binding: "signed", By: "human:cli"}) // nobody can have looked
	w.launch()
	if st := core.StatusOf(w.s, w.now, "shop").SignIns; !st[0].BeforeRestart {
		t.Fatalf("after a restart: %s", dump(st))
	}
}

func TestALeaseHasABudget(t *testing.T) {
	w := prepared(t)
	w.must(core.Bind{Spec: core.BindingSpec{Name: "tight", Slot: "shop", Account: "none", Budget: core.Budget{Actions: 3, PerMinute: 2, Bytes: 1000}}, By: "human:test"})
	w.must(core.Acquire{Lease: "l", Person: true, CapHash: "cap-l", RequestID: "r", Binding: "tight", ForMs: 600_000, By: "human:cli"})
	w.must(core.Granted{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
	act := func(bytes int64) core.Act {
		return core.Act{Action: core.ActionID(w.id("action")), Lease: "l", Cap: "cap-l", ID: w.clientID(), Epoch: w.slot().Epoch, Verb: "click", Class: core.Read, DeadlineMs: 1000, Bytes: bytes}
	}
	w.must(act(10))
	w.must(act(10))
	res := w.refused(core.CodeLimit, act(10))
	if res.Refusal.Detail["retry_after_ms"] != int64(60_000) {
		t.Fatalf("detail %s", dump(res.Refusal.Detail))
	}
	w.now.BootMs += 60_001
	w.refused(core.CodeLimit, act(990))
	w.must(act(10))
	w.now.BootMs += 60_001
	w.refused(core.CodeLimit, act(1)) // three are three
	if got := w.s.SpentBy("l"); got.Actions != 3 || got.Bytes != 30 {
		t.Fatalf("spent %s", dump(got))
	}
}

// A key that is kept for a waiter which has been passed often enough is free again when
// that one goes, or could not have its slot: nobody waits for nothing.
func TestAKeyIsKeptForNobodyWhoCannotHaveIt(t *testing.T) { // I2
	for name, leave := range map[string]func(w *world){
		"its client has gone":       func(w *world) { w.must(core.CancelWait{Lease: "both-0", Why: "gone"}) },
		"its delegation is revoked": func(w *world) { w.must(core.RevokeDelegation{ID: "both", By: "human:cli"}) },
		"its slot is taken over":    func(w *world) { w.must(core.Takeover{Slot: "both", Surface: "cli", By: "human:cli"}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := estate(t, "both", "one", "two")
			w.ask("one", "one-0", 0, "k1")
			w.claim("one-0")
			w.ask("two", "two-0", 0, "k2")
			w.claim("two-0")
			w.ask("both", "both-0", 3_600_000, "k1", "k2")
			last := ""
			for i := range core.MaxPassed + 1 {
				last = fmt.Sprintf("one-%d", i+1)
				w.ask("one", last, 3_600_000, "k1")
				w.release(fmt.Sprintf("one-%d", i))
				if w.state(last) == core.LeaseWaiting {
					break
				}
				w.claim(last)
			}
			w.wantState(last, core.LeaseWaiting) // k1 is free, and kept
			leave(w)
			w.wantState(last, core.LeaseGranted)
		})
	}
}

func TestAKeyIsKeptForNobodyWhomOnlyAPersonCanLetIn(t *testing.T) {
	w := estate(t, "both", "one", "two")
	w.ask("two", "two-0", 0, "k2")
	w.claim("two-0")
	w.ask("both", "both-0", 3_600_000, "k1", "k2")
	for i := range core.MaxPassed {
		id := fmt.Sprintf("one-%d", i)
		w.ask("one", id, 0, "k1")
		w.claim(id)
		w.release(id)
	}
	w.refused(core.CodeBusy, core.Acquire{Lease: "kept", Token: "token-one", CapHash: "c", RequestID: "kept", Binding: "one", ForMs: 60_000, Keys: []string{"k1"}})
	lost := *w.s.Bindings["both"]
	lost.Account = "ada@shop.example" // and nobody has confirmed it
	w.s.Bindings["both"] = &lost
	w.ask("one", "next", 0, "k1")
	w.wantState("next", core.LeaseGranted)
}

// A press that is recorded while a person holds the slot already is the one that fences answer.
func TestTheLastPressIsTheOneAnswered(t *testing.T) { // I3
	w := prepared(t)
	w.must(core.Takeover{Slot: "shop", Surface: "popup", Hold: "first", By: "human:popup"})
	w.must(core.Takeover{Slot: "shop", Epoch: w.slot().Epoch, Surface: "popup", Hold: "second", By: "human:popup"})
	w.sent = nil
	w.must(core.Handback{Slot: "shop", Confirm: true, By: "human:cli"})
	for _, e := range w.sent {
		if f, ok := e.(core.SendFence); ok && f.Hold != "second" {
			t.Errorf("the fence of the handback answers press %q", f.Hold)
		}
	}
}

// A takeover may be given a number while its slot is being removed: no record of it comes,
// and a daemon that is started again does not know of it.
func TestASlotThatIsMadeAgainIsNumberedAboveWhatWasOut(t *testing.T) { // I1
	w := estate(t, "a")
	w.must(core.RemoveBinding{Name: "a", By: "human:cli"})
	w.must(core.RemoveSlot{Name: "a", By: "human:cli"})
	given := w.s.Slots["a"].Ceiling
	w.refused(core.CodeNotFound, core.Takeover{Slot: "a", Epoch: given, Surface: "cli", By: "human:cli"})
	w.must(core.Restarted{})
	w.must(core.CreateSlot{Name: "a", By: "human:cli"})
	if got := w.s.Slots["a"].Epoch; got <= given {
		t.Errorf("it is at epoch %d, and a person was given %d", got, given)
	}
}

func TestAWaitEndsWithItsDelegation(t *testing.T) {
	w := estate(t, "a")
	w.must(core.Delegate{ID: "short", Hash: "token-short", Binding: "a", Agent: "brief", ForMs: 10_000, By: "human:test"})
	w.ask("a", "holder", 0)
	w.claim("holder")
	w.must(core.Acquire{Lease: "w", Token: "token-short", CapHash: "cap-w", RequestID: "w", Binding: "a", ForMs: 600_000, WaitMs: 3_600_000})
	w.pass(9_000)
	w.wantState("w", core.LeaseWaiting)
	w.now.BootMs += 2_000 // and no tick has come
	w.release("holder")
	w.wantState("w", core.LeaseEnded)
	if why := w.s.Leases["w"].Why; why != "its delegation has expired" {
		t.Errorf("it ended because %s", why)
	}
}

func TestRevokedIsNoBrowserWantedFor(t *testing.T) {
	w := newWorld(t)
	w.must(core.CreateSlot{Name: "shop", By: "human:test"})
	w.declareProbe()
	w.must(core.Acquire{Lease: "l", Token: "token-p", CapHash: "c", RequestID: "r", Binding: "verified", ForMs: 60_000, WaitMs: 600_000})
	if w.slot().Starting == "" {
		t.Fatal("no browser is wanted for the look at the account")
	}
	for id := range w.s.Delegations {
		w.must(core.RevokeDelegation{ID: id, By: "human:cli"})
	}
	w.wantState("l", core.LeaseEnded)
	if got := w.slot().Starting; got != "" {
		t.Errorf("a browser is still wanted for %q, and nobody waits", got)
	}
}
