package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/core"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == browserName {
		main()
		return
	}
	os.Exit(demo.RunTests(m, prepare))
}

// TestCrash is `make crash` in small (D1).
func TestCrash(t *testing.T) {
	home, _ := demo.InHome()
	r, err := crash(t.Context(), home, 20, 0, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if err := r.verdict(); err != nil {
		t.Error(err)
	}
}

// TestAnOlderDatabaseIsNoticed puts a copy of some rounds ago in the database's place,
// which is to lose all that was acknowledged since. Were it not noticed, TestCrash would
// notice nothing.
func TestAnOlderDatabaseIsNoticed(t *testing.T) {
	home, _ := demo.InHome()
	r := newRun(home, 1, t.Output())
	r.lives = 1000
	rounds := func(n int) {
		t.Helper()
		for range n {
			if err := r.round(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.end(context.Background()); err != nil {
			t.Error(err)
		}
	})
	files := func(do func(path, copied string) error) {
		t.Helper()
		for _, suffix := range []string{"", "-wal"} {
			path := r.place.paths.Database() + suffix
			if err := do(path, filepath.Join(r.place.dir, "kept"+suffix)); err != nil {
				t.Fatal(err)
			}
		}
	}
	copyFile := func(from, to string) error {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	}
	for r.before == nil || len(r.before.entries) == 0 {
		rounds(1)
	}
	files(copyFile)
	for n := len(r.ledger.acks); len(r.ledger.acks) == n; {
		rounds(1)
	}
	files(func(path, copied string) error { return os.Rename(path, copied+".new") })
	files(func(path, copied string) error { return copyFile(copied, path) })
	if n := len(r.ledger.lost); n > 0 {
		t.Fatalf("lost before anything was taken away: %v", r.ledger.lost)
	}
	if err := r.look(); err != nil {
		t.Fatal(err)
	}
	if len(r.ledger.lost) == 0 {
		t.Error("an older database was taken for the newer one")
	}
	files(func(path, copied string) error { return os.Rename(copied+".new", path) })
	r.before = nil
	if err := r.look(); err != nil {
		t.Fatal(err)
	}
}

func TestAnEpochHasOneHolder(t *testing.T) {
	l := newLedger()
	l.holds("desk", 5, "human")
	l.holds("desk", 5, "human")
	l.holds("till", 5, "lease")
	l.holds("desk", 6, "lease")
	l.holds("desk", 5, "")
	if len(l.reused) != 0 || l.highest("desk") != 6 {
		t.Fatalf("%v, highest %d", l.reused, l.highest("desk"))
	}
	l.holds("desk", 6, "another lease")
	if len(l.reused) != 1 {
		t.Errorf("two holders of one epoch: %v", l.reused)
	}
	if err := l.witness("desk", []byte(`{"kind":"fence","epoch":7}`+"\n"+`{"kind":"grant","epoch":6,"lease":"another lease"}`+"\n"+`{"kind":"fe`)); err != nil {
		t.Fatal(err)
	}
	if len(l.reused) != 2 || l.highest("desk") != 7 {
		t.Errorf("a grant below a fence: %v", l.reused)
	}
}

func TestWhatIsMissing(t *testing.T) {
	state := core.NewState()
	state.Apply(&core.Delta{
		Slots:  []*core.Slot{{Name: "desk", Epoch: 7, Ceiling: 107, Holder: core.Holder{Kind: "none"}}},
		Leases: []*core.Lease{{ID: "l1", Slot: "desk", State: core.LeaseSuspended, Epoch: 5, CapHash: "other"}},
	})
	entries := []core.Entry{
		{Seq: 1, Kind: "takeover", Slot: "desk", Epoch: 7, Principal: "human:p1"},
		{Seq: 2, Kind: "granted", Slot: "desk", Lease: "l1", Epoch: 5, Principal: "agent:ada"},
		{Seq: 3, Kind: "takeover", Slot: "desk", Epoch: 108, Principal: "extension"},
	}
	e, err := newEvidence(nil, state, core.NewState(), entries[:2])
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	l.takeover("desk", 7, "p1")
	l.takeover("desk", 8, "p2")
	l.add("a change of p3", want(1, row("by human:", "p3")))
	l.add("the end of l1", hasEnded("l1"))
	l.add("a binding", hasBinding("b", false))
	l.holds("desk", 200, "human")
	l.check(nil, e)
	if got := strings.Join(l.lost, "; "); len(l.lost) < 3 || !strings.Contains(got, "p3") || !strings.Contains(got, "the end of l1") || !strings.Contains(got, "a binding") {
		t.Errorf("lost: %v", l.lost)
	}
	if len(l.reused) != 1 || !strings.Contains(l.reused[0], "above its ceiling") {
		t.Errorf("reused: %v", l.reused)
	}
	if u := l.untold(); len(u) != 1 || u[0].epoch != 8 {
		t.Errorf("untold: %v", u)
	}
	snapshot := core.NewState()
	snapshot.Seq = 1
	told, err := newEvidence(e, state, snapshot, entries[1:])
	if err != nil {
		t.Fatal(err)
	}
	l.check(nil, told)
	if u := l.untold(); len(u) != 0 {
		t.Errorf("still untold: %v", fmt.Sprint(u))
	}
	changed := []core.Entry{entries[1], entries[2]}
	changed[0].Epoch++
	far := core.NewState()
	far.Seq = 3
	for name, of := range map[string]struct {
		before   *evidence
		snapshot *core.State
		kept     []core.Entry
	}{
		"a journal that is shorter":            {told, core.NewState(), entries[:2]},
		"a journal with another entry":         {told, snapshot, changed},
		"a journal with a gap":                 {e, core.NewState(), entries[1:]},
		"a journal that was trimmed too early": {e, far, []core.Entry{{Seq: 4, Kind: "late"}}},
	} {
		if _, err := newEvidence(of.before, state, of.snapshot, of.kept); err == nil {
			t.Errorf("%s is taken for a good one", name)
		}
	}
}
