package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/engine/enginetest"
	"sessiondock.dev/sessiondock/store"
)

// The engine runs here on the real core and the real store. The browser's side is
// played by a link that records what it is given, and a supervisor whose launches
// are only names: what they do is tested where they live.

type link struct {
	nonce core.Nonce
	hang  chan struct{} // nil, or Carry waits for it, which it must not
	mu    sync.Mutex
	got   []core.Effect
	at    []time.Time
}

func (l *link) Nonce() core.Nonce { return l.nonce }
func (l *link) Carry(e core.Effect, _ engine.Context) {
	if l.hang != nil {
		<-l.hang
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, e)
	l.at = append(l.at, time.Now())
}
func (l *link) StopPrepare() <-chan struct{} { c := make(chan struct{}); close(c); return c }
func (l *link) Show(*core.Status)            {}
func (l *link) Close(string)                 {}

func (l *link) fences() []core.SendFence {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []core.SendFence
	for _, e := range l.got {
		if f, ok := e.(core.SendFence); ok {
			out = append(out, f)
		}
	}
	return out
}

func (l *link) count(match func(core.Effect) bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(slices.Collect(func(yield func(core.Effect) bool) {
		for _, e := range l.got {
			if match(e) && !yield(e) {
				return
			}
		}
	}))
}

// gated is the real store with a commit that can be made to hang or fail.
type gated struct {
	*store.Store
	mu   sync.Mutex
	hang chan struct{}
	hung atomic.Int64 // commits that have come to a hang
	fail bool
	kept bool // the failing commit is on the disk all the same
	down int  // so many reopenings fail
	done int  // commits that are on the disk
	// hangAt lets the commit of such a change hang until hang is closed.
	hangAt      func(*core.Delta) bool
	checkpoints atomic.Int64
}

func (g *gated) Checkpoint() error {
	g.checkpoints.Add(1)
	return g.Store.Checkpoint()
}

func (g *gated) commits() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done
}

func (g *gated) Reopen() error {
	g.mu.Lock()
	down := g.down
	g.down = max(0, down-1)
	g.mu.Unlock()
	if down > 0 {
		return errors.New("disk I/O error")
	}
	return g.Store.Reopen()
}

func (g *gated) Commit(d *core.Delta) error {
	g.mu.Lock()
	hang, fail, kept := g.hang, g.fail, g.kept
	g.fail = false
	if g.hangAt != nil && !g.hangAt(d) {
		hang = nil
	}
	g.mu.Unlock()
	if hang != nil {
		g.hung.Add(1)
		<-hang
	}
	if fail && !kept {
		return errors.New("disk I/O error")
	}
	if err := g.Store.Commit(d); err != nil {
		return err
	}
	g.mu.Lock()
	g.done++
	g.mu.Unlock()
	if fail {
		return errors.New("disk I/O error, after the write")
	}
	return nil
}

type rig struct {
	t    testing.TB
	e    *engine.Engine
	st   *gated
	l    *link
	ctx  context.Context
	path string
}

func open(t testing.TB, path string) (*engine.Engine, *gated) {
	t.Helper()
	var g *gated
	e, _ := enginetest.Open(t, path, &enginetest.Launches{}, func(db *store.Store) engine.Store {
		g = &gated{Store: db}
		return g
	})
	return e, g
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "state.db"), ctx: t.Context()}
	r.e, r.st = open(t, r.path)
	t.Cleanup(func() { r.e.Close(); r.st.Close() })
	r.must(core.CreateSlot{Name: "shop", By: "human:test"})
	r.must(core.Bind{Spec: core.BindingSpec{Name: "admin", Slot: "shop", Account: "none"}, By: "human:test"})
	r.must(core.Delegate{ID: "d", Hash: "token", Binding: "admin", Agent: "agent-a", By: "human:test"})
	r.must(core.StartSlot{Slot: "shop", By: "human:test"})
	r.until(func(s *core.State) bool { l := s.Slots["shop"].Launch; return l != nil && l.State == "running" })
	r.connect("link-1")
	return r
}

func (r *rig) connect(n core.Nonce) {
	r.l = &link{nonce: n}
	r.e.Attach("shop", r.l)
	r.must(core.Hello{Slot: "shop", Nonce: n, Instance: "worker-1"})
	r.drain()
}

// drain answers the slot's fence as an extension with nothing to tell.
func (r *rig) drain() {
	r.e.Submit(r.ctx, core.Fenced{Slot: "shop", Nonce: r.l.nonce, Epoch: r.slot().Epoch})
	r.e.Submit(r.ctx, core.Drained{Slot: "shop", Nonce: r.l.nonce, Epoch: r.slot().Epoch})
}

func (r *rig) must(in core.Input) core.Result {
	r.t.Helper()
	res := r.e.Submit(r.ctx, in)
	if res.Refusal != nil {
		r.t.Fatalf("%T: %v", in, res.Refusal)
	}
	return res
}

func (r *rig) until(f func(*core.State) bool) {
	r.t.Helper()
	if !r.e.Wait(r.ctx, "shop", 5*time.Second, func(s *core.State, _ core.Now) bool { return f(s) }) {
		r.t.Fatal("did not come to pass")
	}
}

func (r *rig) slot() *core.Slot {
	var s *core.Slot
	r.e.View(func(st *core.State, _ core.Now) { s = st.Slots["shop"] })
	return s
}

func (r *rig) lease() *core.Lease {
	res := r.must(core.Acquire{Lease: "lease-1", Token: "token", CapHash: "cap", RequestID: "r1", Binding: "admin", ForMs: 60_000})
	r.must(core.Granted{Slot: "shop", Nonce: r.l.nonce, Epoch: r.slot().Epoch})
	r.must(core.Claim{Lease: "lease-1", Cap: "cap"})
	return res.Lease
}

func (r *rig) act(action core.ActionID) core.Result {
	return r.e.Act(r.ctx, core.Act{
		Action: action, Lease: "lease-1", Cap: "cap", ID: "01ARZ3NDEKTSV4RRFFQ6000001", Epoch: r.slot().Epoch,
		Verb: "click", Class: core.Write, BodyHash: "h", DeadlineMs: 10_000,
	}, "payload")
}

// The log is copied into the database by a writer that has nothing else to do.
func TestCheckpointWhenIdle(t *testing.T) {
	r := newRig(t)
	r.lease()
	for range 80 {
		r.must(core.Renew{Lease: "lease-1", Cap: "cap", ForMs: 30_000})
		if n := r.st.checkpoints.Load(); n != 0 && r.st.commits() < 64 {
			t.Fatalf("%d checkpoints after %d commits", n, r.st.commits())
		}
	}
	for start := time.Now(); r.st.checkpoints.Load() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("the log is not copied")
		}
	}
	r.must(core.Renew{Lease: "lease-1", Cap: "cap", ForMs: 30_000})
}

// What nobody waits for shares the next commit.
func TestOutcomesShareACommit(t *testing.T) {
	r := newRig(t)
	r.lease()
	if res := r.act("action-1"); res.Refusal != nil {
		t.Fatal(res.Refusal)
	}
	before := r.st.commits()
	for rev := range int64(20) {
		r.e.Enqueue(core.Reported{Slot: "shop", Nonce: r.l.nonce, Report: core.Report{Action: "action-1", Rev: rev + 1, Dispatched: 1}})
		time.Sleep(time.Millisecond)
	}
	r.must(core.Claim{Lease: "lease-1", Cap: "cap"})
	if n := r.st.commits() - before; n > 15 {
		t.Errorf("20 reports in 20 ms took %d commits", n)
	}
	// And is written soon although nothing follows.
	r.e.Enqueue(core.Reported{Slot: "shop", Nonce: r.l.nonce, Report: core.Report{Action: "action-1", Rev: 100, Dispatched: 7}})
	r.until(func(s *core.State) bool { return s.Actions["action-1"].Reported == 7 })
}

// action reads an action from where it is kept.
func (r *rig) action(id core.ActionID) *core.Action {
	r.t.Helper()
	a, err := r.e.Action(id)
	if err != nil || a == nil {
		r.t.Fatalf("action %s: %v", id, err)
	}
	return a
}

// A probe that a takeover has overtaken does not leave.
func TestAProbeOfAnOvertakenEpochIsDropped(t *testing.T) { // I4
	r := newRig(t)
	page := core.ProbePage{URL: "https://shop.example/me", Selector: "#email"}
	r.must(core.Bind{Spec: core.BindingSpec{Name: "b", Slot: "shop", Probe: &core.ProbeSpec{Account: &core.AccountProbe{ProbePage: page, Pattern: "ada"}}}, By: "human:test"})
	probes := func() int {
		return r.l.count(func(e core.Effect) bool { _, ok := e.(core.SendProbe); return ok })
	}
	hang := make(chan struct{})
	r.st.mu.Lock()
	r.st.hang = hang
	r.st.mu.Unlock()
	begun := make(chan core.Result, 1)
	go func() { begun <- r.e.Submit(r.ctx, core.RunProbe{Binding: "b", By: "human:test"}) }()
	time.Sleep(20 * time.Millisecond) // decided, and hanging in its commit
	taken := make(chan core.Result, 1)
	go func() {
		res, _ := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
		taken <- res
	}()
	time.Sleep(20 * time.Millisecond)
	r.st.mu.Lock()
	r.st.hang = nil
	r.st.mu.Unlock()
	close(hang)
	res := <-begun
	<-taken
	r.until(func(s *core.State) bool {
		p := s.ProbeResult("shop", res.Probe)
		return p != nil && p.Verdict == "cut_off"
	})
	if n := probes(); n != 0 {
		t.Fatalf("%d probes were sent although the person took over before their commit was done", n)
	}
	r.drain()
	if res := r.must(core.RunProbe{Binding: "b", By: "human:test"}); res.Probe == "" || probes() != 1 {
		t.Fatalf("the person's own probe: %+v, %d sent", res, probes())
	}
}

func TestEffectsOfAnOvertakenEpochAreDropped(t *testing.T) { // I4
	r := newRig(t)
	r.lease()
	hang := make(chan struct{})
	r.st.mu.Lock()
	r.st.hang = hang
	r.st.mu.Unlock()
	acted := make(chan core.Result, 1)
	go func() { acted <- r.act("action-1") }()
	time.Sleep(20 * time.Millisecond) // decided, and hanging in its commit
	taken := make(chan core.Result, 1)
	go func() {
		res, _ := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
		taken <- res
	}()
	time.Sleep(20 * time.Millisecond)
	r.st.mu.Lock()
	r.st.hang = nil
	r.st.mu.Unlock()
	close(hang)
	<-acted
	<-taken
	if n := r.l.count(func(e core.Effect) bool { _, ok := e.(core.SendAction); return ok }); n != 0 {
		t.Fatalf("%d actions sent although the person took over before their commit was done", n)
	}
	r.drain()
	r.until(func(s *core.State) bool { return s.Action("action-1").Closed })
	if a := r.action("action-1"); a.Local != core.NotDispatched {
		t.Fatalf("local %s", a.Local)
	}
}

func TestFailedCommitIsUnknownAndReadAgain(t *testing.T) {
	for _, kept := range []bool{false, true} {
		r := newRig(t)
		r.lease()
		epoch := r.slot().Epoch
		r.st.mu.Lock()
		r.st.fail, r.st.kept = true, kept
		r.st.mu.Unlock()
		if res := r.act("action-1"); res.Refusal == nil || res.Refusal.Code != core.CodeUnavailable {
			t.Fatalf("kept %v: %v", kept, res.Refusal)
		}
		if n := r.l.count(func(e core.Effect) bool { _, ok := e.(core.SendAction); return ok }); n != 0 {
			t.Fatalf("kept %v: sent without a commit", kept)
		}
		r.until(func(s *core.State) bool {
			return s.Slots["shop"].Epoch > epoch && s.Leases["lease-1"].State == core.LeaseSuspended
		})
		var a *core.Action
		r.e.View(func(s *core.State, _ core.Now) { a = s.Action("action-1") })
		if (a != nil) != kept {
			t.Fatalf("kept %v: the state says %v", kept, a)
		}
	}
}

func TestEpochSurvivesTheDaemon(t *testing.T) { // I1
	r := newRig(t)
	r.lease()
	var last core.Epoch
	for range 5 {
		if e := r.slot().Epoch; e <= last {
			t.Fatalf("epoch %d after %d", e, last)
		} else {
			last = e
		}
		r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "cli", FromPerson: true, By: "human:cli"})
		if e := r.slot().Epoch; e <= last {
			t.Fatalf("epoch %d after %d", e, last)
		} else {
			last = e
		}
		r.e.Close()
		r.st.Close()
		r.e, r.st = open(t, r.path)
	}
}

func TestWhatWasSeenReachesNobodyAfterTheFence(t *testing.T) { // I10
	r := newRig(t)
	r.lease()
	a := r.act("action-1").Action
	r.e.Done(core.Done{Slot: "shop", Nonce: r.l.nonce, Action: "action-1", Epoch: a.Epoch, State: "finished"}, json.RawMessage(`{"value":"secret"}`))
	r.until(func(s *core.State) bool { a = s.Actions["action-1"]; return a.Host != "" })
	if string(r.e.Result(a)) == "" {
		t.Fatal("the holder does not see its own result")
	}
	r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
	if got := r.e.Result(a); got != nil {
		t.Fatalf("after the takeover: %s", got)
	}
}

func TestWhatALinkTellsWhileTheDatabaseIsClosedIsDecidedLater(t *testing.T) {
	r := newRig(t)
	r.st.mu.Lock()
	r.st.fail, r.st.down = true, 1
	r.st.mu.Unlock()
	r.e.Submit(r.ctx, core.CreateSlot{Name: "x", By: "human:test"}) // the commit that fails
	r.e.Detach("shop", r.l, "EOF")
	r.until(func(s *core.State) bool { return s.Links["shop"].Nonce == "" })
}

// TestAHelloThatIsNotRecordedHasSaidNothing: its commit fails, and the database is read
// again. No fence goes to a browser that may have seen more than this database knows.
func TestAHelloThatIsNotRecordedHasSaidNothing(t *testing.T) {
	r := newRig(t)
	l := &link{nonce: "link-2"}
	r.e.Attach("shop", l)
	r.until(func(s *core.State) bool { return s.Links["shop"].Nonce == l.nonce })
	r.st.mu.Lock()
	r.st.fail = true
	r.st.mu.Unlock()
	r.e.Enqueue(core.Hello{Slot: "shop", Nonce: l.nonce, Instance: "worker-1", Mark: r.slot().Epoch, MarkSeq: r.slot().Told + 1})
	r.until(func(s *core.State) bool { return len(s.Slots["shop"].Reasons) > 0 })
	if got := r.slot().Reasons[0].Code; got != "epoch_regression" {
		t.Errorf("the slot is quarantined for %s", got)
	}
	if n := len(l.fences()); n > 0 {
		t.Errorf("%d fences were sent to it", n)
	}
}

// TestAClientThatLeavesDoesNotWedgeItsLease: the action was admitted, so it is sent.
func TestAClientThatLeavesDoesNotWedgeItsLease(t *testing.T) {
	r := newRig(t)
	r.lease()
	hang := make(chan struct{})
	r.st.mu.Lock()
	r.st.hang = hang
	r.st.mu.Unlock()
	ctx, leave := context.WithCancel(r.ctx)
	in := core.Act{
		Action: "action-1", Lease: "lease-1", Cap: "cap", ID: "01ARZ3NDEKTSV4RRFFQ6000001", Epoch: r.slot().Epoch,
		Verb: "click", Class: core.Write, BodyHash: "h", DeadlineMs: 10_000,
	}
	go r.e.Submit(r.ctx, core.CreateSlot{Name: "x", By: "human:test"}) // hangs in its commit
	time.Sleep(20 * time.Millisecond)
	done := make(chan core.Result, 1)
	go func() { done <- r.e.Act(ctx, in, "payload") }()
	time.Sleep(20 * time.Millisecond)
	leave()
	if res := <-done; res.Refusal == nil || res.Refusal.Code != core.CodeOutcomeUnknown {
		t.Fatalf("the client that left is told %v", res.Refusal)
	}
	r.st.mu.Lock()
	r.st.hang = nil
	r.st.mu.Unlock()
	close(hang)
	sent := func() int { return r.l.count(func(e core.Effect) bool { _, ok := e.(core.SendAction); return ok }) }
	for start := time.Now(); sent() == 0 && time.Since(start) < 5*time.Second; {
		time.Sleep(time.Millisecond)
	}
	if n := sent(); n != 1 {
		t.Fatalf("%d actions sent", n)
	}
}

// TestAnOverdueActionIsRefusedByTheEngine: its commit took longer than it had.
func TestAnOverdueActionIsRefusedByTheEngine(t *testing.T) {
	r := newRig(t)
	r.lease()
	hang := make(chan struct{})
	r.st.mu.Lock()
	r.st.hang = hang
	r.st.mu.Unlock()
	done := make(chan core.Result, 1)
	go func() {
		done <- r.e.Act(r.ctx, core.Act{
			Action: "action-1", Lease: "lease-1", Cap: "cap", ID: "01ARZ3NDEKTSV4RRFFQ6000001", Epoch: r.slot().Epoch,
			Verb: "click", Class: core.Write, BodyHash: "h", DeadlineMs: 50,
		}, "payload")
	}()
	time.Sleep(120 * time.Millisecond)
	r.st.mu.Lock()
	r.st.hang = nil
	r.st.mu.Unlock()
	close(hang)
	<-done
	r.until(func(s *core.State) bool {
		a := s.Action("action-1")
		return a != nil && a.Closed
	})
	if a := r.action("action-1"); a.Local != core.NotDispatched || a.Authority != core.Refused(core.CodeDeadline) {
		t.Fatalf("local %s, authority %s", a.Local, a.Authority)
	}
	if n := r.l.count(func(e core.Effect) bool { _, ok := e.(core.SendAction); return ok }); n != 0 {
		t.Fatalf("%d actions sent", n)
	}
}

// hangDisk makes commits hang until the function that it returns is called.
func (r *rig) hangDisk() (release func()) {
	hang := make(chan struct{})
	r.st.mu.Lock()
	r.st.hang = hang
	r.st.mu.Unlock()
	return sync.OnceFunc(func() {
		r.st.mu.Lock()
		r.st.hang = nil
		r.st.mu.Unlock()
		close(hang)
	})
}

// early is a link on which something happens just before the welcome.
type early struct {
	*link
	before func()
}

func (l *early) Carry(e core.Effect, c engine.Context) {
	if _, ok := e.(core.SendWelcome); ok {
		l.before()
	}
	l.link.Carry(e, c)
}

// A database that is corrupt is written to no more, and who asks is told what to do.
func TestNothingIsWrittenToACorruptDatabase(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	clock, err := engine.SystemClock()
	if err != nil {
		t.Fatal(err)
	}
	st := broken{db, new(atomic.Bool)}
	e, err := engine.New(st, &enginetest.Launches{}, clock, enginetest.Log(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if res := e.Submit(t.Context(), core.CreateSlot{Name: "taken", By: "human:test"}); res.Refusal != nil {
		t.Fatal(res.Refusal)
	}
	st.now.Store(true)
	for range 3 { // the first that meets it, and those after it
		res := e.Submit(t.Context(), core.CreateSlot{Name: "shop", By: "human:test"})
		if r := res.Refusal; r == nil || r.Code != core.CodeUnavailable || r.Message != "it is corrupt" || r.Hint != "move it aside" {
			t.Errorf("answered %+v", r)
		}
	}
	res, _ := e.Takeover(t.Context(), core.Takeover{Slot: "taken", Surface: "cli", By: "human:test"})
	if r := res.Refusal; r == nil || r.Detail["fence_sent"] != true || !strings.Contains(r.Message, "it is corrupt") || r.Hint != "move it aside" {
		t.Errorf("a takeover is answered %+v", r)
	}
}

// broken is the real store, whose database turns out to be corrupt.
type broken struct {
	*store.Store
	now *atomic.Bool
}

func (b broken) damage() error {
	if !b.now.Load() {
		return nil
	}
	return core.Refuse(core.CodeUnavailable, "it is corrupt", "move it aside").With("corrupt", true)
}

func (b broken) Commit(d *core.Delta) error {
	if err := b.damage(); err != nil {
		return err
	}
	return b.Store.Commit(d)
}

func (b broken) Reopen() error {
	if err := b.damage(); err != nil {
		return err
	}
	return b.Store.Reopen()
}
