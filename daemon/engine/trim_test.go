package engine_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
)

// ran lets n actions of lease-1 be asked for, carried out and closed; each has an
// identifier of its own.
func (r *rig) ran(from, n int) {
	r.t.Helper()
	for i := from; i < from+n; i++ {
		id := core.ActionID(fmt.Sprintf("action-%06d", i))
		res := r.e.Act(r.ctx, core.Act{
			Action: id, Lease: "lease-1", Cap: "cap", ID: clientID(i), Epoch: r.slot().Epoch,
			Verb: "snapshot", Class: core.Read, Summary: "snapshot", BodyHash: "h", DeadlineMs: 10_000,
		}, "payload")
		if res.Refusal != nil {
			r.t.Fatal(res.Refusal)
		}
		r.e.Done(core.Done{Slot: "shop", Nonce: r.l.nonce, Action: id, Epoch: res.Action.Epoch, State: "finished", URL: "https://shop.example/orders"}, nil)
	}
	r.until(func(s *core.State) bool { return len(s.OpenActions("shop")) <= 1 })
}

func clientID(n int) core.ClientID { return core.ClientID(fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ7%06d", n)) }

func (r *rig) kept() core.Kept {
	r.t.Helper()
	k, err := r.st.Kept()
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

// trimmed waits until trimming under these bounds has come to its end, and returns the
// entry that says so.
func (r *rig) trimmed(k engine.Keep) core.Entry {
	r.t.Helper()
	before := r.kept()
	r.e.KeepJournal(k)
	for range 500 {
		time.Sleep(10 * time.Millisecond)
		page, err := r.e.Events(core.EventQuery{After: before.Last, Limit: 1000})
		if err != nil {
			r.t.Fatal(err)
		}
		var upTo int64
		for _, e := range page.Entries {
			if _, err := fmt.Sscanf(e.Reason, "entries up to %d:", &upTo); e.Kind == "trimmed" && err == nil && page.Trimmed == upTo {
				return e
			}
		}
	}
	r.t.Fatalf("not trimmed: %+v", r.kept())
	return core.Entry{}
}

// TestTheJournalIsKeptWithinItsSize: the oldest entries go, and with them what closed
// actions had beyond their outcome; authority, open actions and identifiers do not.
func TestTheJournalIsKeptWithinItsSize(t *testing.T) {
	r := newRig(t)
	r.lease()
	unsettled := r.e.Act(r.ctx, core.Act{
		Action: "action-open", Lease: "lease-1", Cap: "cap", ID: clientID(999), Epoch: r.slot().Epoch,
		Verb: "dialog", Class: core.Write, Beside: true, BodyHash: "h", DeadlineMs: 10_000,
	}, "payload").Action // the host does not answer it: it stays open
	r.ran(0, 100)
	before, slot := r.kept(), *r.slot()
	bound := before.Bytes / 4
	time.Sleep(150 * time.Millisecond) // what was done until now is checkpointed
	checkpoints := r.st.checkpoints.Load()
	e := r.trimmed(engine.Keep{Bytes: bound})
	if e.Principal != "system" || !strings.Contains(e.Reason, "bytes") {
		t.Errorf("the entry says %+v", e)
	}
	if k := r.kept(); k.Bytes > bound || k.First <= before.First || k.Last <= before.Last {
		t.Errorf("kept %+v of %+v, bound %d", k, before, bound)
	}
	if got := *r.slot(); got.Epoch != slot.Epoch || got.Holder != slot.Holder || got.Lease != slot.Lease {
		t.Errorf("trimming moved control: %+v, was %+v", got, slot)
	}
	r.known(unsettled)
	for start := time.Now(); r.st.checkpoints.Load() == checkpoints; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("what trimming freed is not given back")
		}
	}

	// The next daemon knows the same.
	r.e.Close()
	r.st.Close()
	r.e, r.st = open(t, r.path)
	r.known(unsettled)
	var whole int
	r.e.View(func(s *core.State, _ core.Now) { whole = len(s.Actions) })
	if whole != 1 {
		t.Errorf("%d actions are whole in memory, one is open", whole)
	}
}

// known asks for a trimmed action, one that is not, and an open one.
func (r *rig) known(open *core.Action) {
	r.t.Helper()
	old, young := r.action("action-000000"), r.action("action-000099")
	if !old.Trimmed || old.Local != core.Finished || old.URL != "" || len(old.Evidence) != 0 || old.BodyHash != "h" || old.Agent != "agent-a" || old.ID != clientID(0) {
		r.t.Errorf("a trimmed action is %+v", old)
	}
	if young.Trimmed || young.URL == "" {
		r.t.Errorf("a young action is %+v", young)
	}
	if a := r.action(open.Action); a.Trimmed || a.Closed || a.ID != open.ID {
		r.t.Errorf("the open action is %+v", a)
	}
	all, err := r.e.Actions("shop", "", 1000)
	if err != nil || len(all) != 101 || !slices.IsSortedFunc(all, func(a, b *core.Action) int { return cmp.Compare(a.Action, b.Action) }) {
		r.t.Errorf("%d actions listed, %v", len(all), err)
	}
	if page, err := r.e.Actions("shop", "action-000050", 3); err != nil || len(page) != 3 || page[0].Action != "action-000047" {
		r.t.Errorf("the page before action 50: %v %v", page, err)
	}
}

// TestATrimmedActionNeverRunsAgain: I7 outlives the journal.
func TestATrimmedActionNeverRunsAgain(t *testing.T) {
	r := newRig(t)
	r.lease()
	r.ran(0, 60)
	r.trimmed(engine.Keep{Bytes: 2000})
	sent := func() int {
		return r.l.count(func(e core.Effect) bool { _, ok := e.(core.SendAction); return ok })
	}
	before := sent()
	again := func(hash string) core.Result {
		return r.e.Act(r.ctx, core.Act{
			Action: "action-new", Lease: "lease-1", Cap: "cap", ID: clientID(0), Epoch: r.slot().Epoch,
			Verb: "snapshot", Class: core.Read, Summary: "snapshot", BodyHash: hash, DeadlineMs: 10_000,
		}, "payload")
	}
	if res := again("h"); res.Refusal != nil || !res.Repeat || res.Action.Action != "action-000000" {
		t.Errorf("the same request: %+v", res)
	} else if a, err := r.e.Settled(r.ctx, res.Action, time.Second); err != nil || !a.Trimmed || a.Local != core.Finished {
		t.Errorf("it reads %+v, %v", a, err)
	}
	if res := again("other"); res.Refusal == nil || res.Refusal.Code != core.CodeConflict {
		t.Errorf("the same identifier for something else: %+v", res)
	}
	if n := sent(); n != before {
		t.Errorf("%d actions were sent to the browser", n-before)
	}
}

// BenchmarkTakeover is what a person waits for, from the press to the answer, with the
// extension's acknowledgement coming at once: while nothing else happens, and while the
// journal is being trimmed.
func BenchmarkTakeover(b *testing.B) {
	for _, trimming := range []bool{false, true} {
		b.Run(fmt.Sprintf("trimming=%v", trimming), func(b *testing.B) {
			r := newRig(b)
			r.l = &link{nonce: "link-1"}
			l := &answering{link: r.l, r: r}
			r.e.Attach("shop", l)
			r.must(core.Hello{Slot: "shop", Nonce: "link-1", Instance: "worker-1"})
			if trimming {
				r.drain()
				r.lease()
				r.ran(0, 3000)
				r.e.KeepJournal(engine.Keep{Bytes: 1})
			}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if res, _ := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "cli", FromPerson: true, By: "human:cli"}); res.Refusal != nil {
					b.Fatal(res.Refusal)
				}
				took = append(took, time.Since(began))
				time.Sleep(2 * time.Millisecond) // a person is not that quick; trimming goes on
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
			b.ReportMetric(float64(r.kept().Last-r.kept().First), "entries-left")
		})
	}
}

// answering is a link whose extension acknowledges every fence at once.
type answering struct {
	*link
	r *rig
}

func (l *answering) Carry(e core.Effect, c engine.Context) {
	if f, ok := e.(core.SendFence); ok {
		go l.r.e.Fenced(core.Fenced{Slot: "shop", Nonce: l.nonce, Epoch: f.Epoch})
	}
	l.link.Carry(e, c)
}
