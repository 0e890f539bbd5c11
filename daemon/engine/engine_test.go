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

func TestTakeoverDoesNotWaitForTheDisk(t *testing.T) { // L9
	r := newRig(t)
	r.lease()
	epoch := r.slot().Epoch
	hang := make(chan struct{})
	r.st.mu.Lock()
	r.st.hang = hang
	r.st.mu.Unlock()
	done := make(chan core.Result, 2)
	go func() { done <- r.e.Submit(r.ctx, core.Renew{Lease: "lease-1", Cap: "cap", ForMs: 30_000}) }() // hangs in its commit
	time.Sleep(20 * time.Millisecond)
	before, start := len(r.l.fences()), time.Now()
	told := make(chan *core.Status, 1)
	go func() {
		res, st := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
		told <- st
		done <- res
	}()
	for len(r.l.fences()) == before {
		if time.Since(start) > 10*time.Second { // the disk would hang for ever
			t.Fatal("a takeover waits for a hung disk")
		}
		time.Sleep(time.Millisecond)
	}
	if f := r.l.fences()[before]; f.Epoch != epoch+1 || !f.Person {
		t.Fatalf("fence %+v after epoch %d", f, epoch)
	}
	// The extension's answer reaches the person although nothing can be recorded.
	r.e.Fenced(core.Fenced{Slot: "shop", Nonce: r.l.nonce, Epoch: epoch + 1})
	st := <-told
	if st == nil || st.Authority.Fence != "acknowledged" || st.Authority.Epoch != epoch+1 || st.Local.State != "unknown" {
		t.Fatalf("told %+v", st)
	}
	r.st.mu.Lock()
	r.st.hang = nil
	r.st.mu.Unlock()
	close(hang)
	<-done
	<-done
	if fences := r.l.fences()[before:]; len(fences) != 1 {
		t.Fatalf("one takeover sent %d fences: %+v", len(fences), fences)
	}
	r.until(func(s *core.State) bool {
		return s.Slots["shop"].Holder.Kind == "human" && s.Slots["shop"].Epoch == epoch+1
	})
}

// A takeover that is acknowledged is answered with what the extension listed, whether
// or not its commit is done.
func TestTakeoverIsAnsweredByItsAcknowledgement(t *testing.T) {
	r := newRig(t)
	r.lease()
	before := len(r.l.fences())
	told := make(chan *core.Status, 1)
	go func() {
		_, st := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
		told <- st
	}()
	for len(r.l.fences()) == before {
		time.Sleep(time.Millisecond)
	}
	r.until(func(s *core.State) bool { return s.Slots["shop"].Holder.Kind == "human" })
	r.e.Fenced(core.Fenced{Slot: "shop", Nonce: r.l.nonce, Epoch: r.l.fences()[before].Epoch,
		Documents: []core.DocNow{{Document: "d", URL: "https://shop.example/", Why: "agent_script"}}})
	if st := <-told; st != nil && len(st.Local.Documents) != 1 { // nil: the record was first
		t.Fatalf("told %+v", st)
	}
	r.until(func(s *core.State) bool { return s.Slots["shop"].Fence.State == "draining" })
}

// Writing down what an extension listed, with a hundred commands open, takes longer than
// its answer: who waits for that is told when it is decided.
func TestTakeoverIsAnsweredBeforeTheListIsWritten(t *testing.T) {
	r := newRig(t)
	r.lease()
	hang := make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	t.Cleanup(release)
	r.st.mu.Lock()
	r.st.hang = hang
	r.st.hangAt = func(d *core.Delta) bool {
		return slices.ContainsFunc(d.Slots, func(s *core.Slot) bool { return s.Fence.State == "draining" })
	}
	r.st.mu.Unlock()
	told := make(chan *core.Status, 1)
	go func() {
		_, st := r.e.TakeoverAnswered(r.ctx, core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"}, time.Minute)
		told <- st
	}()
	r.until(func(s *core.State) bool { return s.Slots["shop"].Holder.Kind == "human" })
	time.Sleep(20 * time.Millisecond)
	select {
	case st := <-told:
		t.Fatalf("answered before the extension: %+v", st)
	default:
	}
	r.e.Fenced(core.Fenced{Slot: "shop", Nonce: r.l.nonce, Epoch: r.slot().Epoch,
		Documents: []core.DocNow{{Document: "d", URL: "https://shop.example/", Why: "agent_script"}}})
	select {
	case st := <-told:
		if st == nil || st.Authority.Fence != "draining" || len(st.Local.Documents) != 1 {
			t.Fatalf("told %+v", st)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the answer waits for the disk")
	}
	// Who asks meanwhile is told what is known of it.
	if st := r.e.Status("shop"); st.Authority.Fence != "acknowledged" || st.Local.State != "unknown" || strings.Contains(st.Sentences.Local, "not answered") {
		t.Errorf("status: %+v, local %+v: %s", st.Authority, st.Local, st.Sentences.Local)
	}
	if a, _ := r.e.Authority("shop", r.l.nonce); a.Fence != "acknowledged" {
		t.Errorf("the popup is told %+v", a)
	}
	// Another link's extension has not acknowledged anything.
	r.e.Detach("shop", r.l, "its browser crashed")
	if st := r.e.Status("shop"); st.Authority.Fence != "pending" {
		t.Errorf("without a link the fence is %s", st.Authority.Fence)
	}
	release()
	r.until(func(s *core.State) bool { return s.Slots["shop"].Fence.State == "pending" && !s.Links["shop"].Up() })
}

// A takeover whose number was overtaken by what was decided before its record waits for
// the answer to the fence of the number that it was given then.
func TestTakeoverThatWasOvertakenIsAnswered(t *testing.T) {
	r := newRig(t)
	r.lease()
	before := len(r.l.fences())
	hang := make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	t.Cleanup(release)
	r.st.mu.Lock()
	r.st.hang = hang
	r.st.mu.Unlock()
	done := make(chan core.Result, 2)
	go func() { done <- r.e.Submit(r.ctx, core.Renew{Lease: "lease-1", Cap: "cap", ForMs: 30_000}) }()
	for r.st.hung.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { done <- r.e.Submit(r.ctx, core.Release{Lease: "lease-1", Cap: "cap"}) }()
	time.Sleep(20 * time.Millisecond)
	told := make(chan *core.Status, 1)
	go func() {
		_, st := r.e.TakeoverAnswered(r.ctx, core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"}, 10*time.Second)
		told <- st
	}()
	for len(r.l.fences()) == before {
		time.Sleep(time.Millisecond)
	}
	first := r.l.fences()[before].Epoch
	r.st.mu.Lock()
	r.st.hang = nil
	r.st.mu.Unlock()
	release()
	<-done
	<-done
	r.until(func(s *core.State) bool { return s.Slots["shop"].Holder.Kind == "human" })
	if r.slot().Epoch <= first {
		t.Fatalf("it was not overtaken: epoch %d, issued %d", r.slot().Epoch, first)
	}
	select {
	case st := <-told:
		t.Fatalf("answered before the extension: %+v", st.Authority)
	case <-time.After(50 * time.Millisecond):
	}
	r.e.Fenced(core.Fenced{Slot: "shop", Nonce: r.l.nonce, Epoch: r.slot().Epoch})
	if st := <-told; st.Authority.Fence != "draining" {
		t.Errorf("told %+v", st.Authority)
	}
}

// An extension that says nothing is waited for no longer than the caller wants to.
func TestTakeoverOfASilentExtensionIsAnswered(t *testing.T) {
	r := newRig(t)
	r.lease()
	res, st := r.e.TakeoverAnswered(r.ctx, core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"}, 50*time.Millisecond)
	if res.Refusal != nil || st == nil || st.Authority.Fence != "pending" || st.Authority.Holder.Kind != "human" {
		t.Fatalf("%+v, told %+v", res.Refusal, st)
	}
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

func TestHoldIsOneTakeover(t *testing.T) {
	r := newRig(t)
	r.lease()
	for range 3 {
		if res, _ := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "popup", Hold: "hold-1", By: "human:popup"}); res.Refusal != nil {
			t.Fatal(res.Refusal)
		}
	}
	epochs := map[core.Epoch]bool{}
	for _, f := range r.l.fences() {
		if f.Hold == "hold-1" {
			epochs[f.Epoch] = true
		}
	}
	if len(epochs) != 1 {
		t.Fatalf("one hold, epochs %v", epochs)
	}
	if res, _ := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"}); res.Refusal == nil || res.Refusal.Code != core.CodeHeld {
		t.Fatalf("a second person: %v", res.Refusal)
	}
}

// TestTakeoversAndGrantsInterleaved has people and agents change control as fast as
// they can: every epoch belongs to one of them only (L13).
func TestTakeoversAndGrantsInterleaved(t *testing.T) {
	r := newRig(t)
	var group sync.WaitGroup
	var takeovers atomic.Int64
	for range 4 {
		group.Go(func() {
			for range 50 {
				taken, _ := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
				if taken.Refusal == nil {
					takeovers.Add(1)
				}
				r.e.Submit(r.ctx, core.Handback{Slot: "shop", Confirm: true, By: "human:popup"})
				r.drain()
			}
		})
		group.Go(func() {
			for range 50 {
				id, cap := engine.NewID(), engine.NewID()
				r.e.Submit(r.ctx, core.Acquire{Lease: core.LeaseID(id), Token: "token", CapHash: cap, RequestID: id, Binding: "admin", ForMs: 60_000})
				r.e.Submit(r.ctx, core.Release{Lease: core.LeaseID(id), Cap: cap})
				r.drain()
			}
		})
	}
	group.Wait()
	var rows []core.Entry
	for {
		more, err := r.e.Events(core.EventQuery{After: int64(len(rows)), Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if rows = append(rows, more.Entries...); len(more.Entries) == 0 {
			break
		}
	}
	owner := map[core.Epoch]string{}
	for _, e := range rows {
		if e.Kind != "granted" && e.Kind != "takeover" && e.Kind != "handback" {
			continue
		}
		who := e.Kind
		if who == "granted" {
			who += string(e.Lease)
		}
		if was, ok := owner[e.Epoch]; ok && was != who {
			t.Fatalf("epoch %d belongs to %s and to %s", e.Epoch, was, who)
		}
		owner[e.Epoch] = who
	}
	recorded := int64(0)
	for _, who := range owner {
		if who == "takeover" {
			recorded++
		}
	}
	if recorded != takeovers.Load() {
		t.Fatalf("%d takeovers were answered, %d are recorded", takeovers.Load(), recorded)
	}
	if len(owner) < 50 {
		t.Fatalf("only %d changes of control happened", len(owner))
	}
}

// TestATakeoverOutlivesAFailedCommit: the fence was out, so the person has the slot
// once the database can be written again (D4).
func TestATakeoverOutlivesAFailedCommit(t *testing.T) {
	for _, kept := range []bool{false, true} {
		r := newRig(t)
		r.lease()
		r.st.mu.Lock()
		r.st.fail, r.st.kept, r.st.down = true, kept, 1
		r.st.mu.Unlock()
		res, _ := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "popup", Hold: "h", By: "human:popup"})
		if res.Refusal == nil || res.Refusal.Code != core.CodeUnavailable || res.Refusal.Detail["fence_sent"] != true {
			t.Fatalf("kept %v: the person is told %v", kept, res.Refusal)
		}
		// What the link tells while the database is closed is not lost.
		r.e.Enqueue(core.Reported{Slot: "shop", Nonce: r.l.nonce, Report: core.Report{Action: "none"}})
		r.until(func(s *core.State) bool { return s.Slots["shop"].Holder.Kind == "human" })
		if res := r.e.Submit(r.ctx, core.Resume{Lease: "lease-1", Cap: "cap"}); res.Refusal == nil || res.Refusal.Code != core.CodeHeld {
			t.Fatalf("kept %v: the agent resumes: %v", kept, res.Refusal)
		}
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

// TestAnAnsweredHoldThatComesAgainMovesNobody: an agent that was granted the slot since
// keeps it, and the extension is not told that a person holds.
func TestAnAnsweredHoldThatComesAgainMovesNobody(t *testing.T) {
	r := newRig(t)
	press := core.Takeover{Slot: "shop", Surface: "popup", Hold: "h", By: "human:popup"}
	r.e.Takeover(r.ctx, press)
	r.drain()
	r.must(core.Handback{Slot: "shop", By: "human:popup"})
	r.drain()
	r.lease()
	epoch := r.slot().Epoch
	if res, _ := r.e.Takeover(r.ctx, press); res.Refusal != nil || !res.Repeat {
		t.Fatalf("%+v", res)
	}
	fences := r.l.fences()
	if last := fences[len(fences)-1]; last.Person || last.Epoch != epoch || last.Hold != "h" {
		t.Fatalf("the last fence is %+v", last)
	}
	if s := r.slot(); s.Holder.Kind != "agent" || s.Epoch != epoch {
		t.Fatalf("holder %+v at epoch %d", s.Holder, s.Epoch)
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

// With a hung disk and no room for one more input a takeover is fenced all the same, and
// recorded once the disk is back.
func TestATakeoverThatFindsNoRoomIsRecorded(t *testing.T) {
	r := newRig(t)
	r.lease()
	epoch := r.slot().Epoch
	release := r.hangDisk()
	t.Cleanup(release)
	done := make(chan core.Result, 1)
	go func() { done <- r.e.Submit(r.ctx, core.Renew{Lease: "lease-1", Cap: "cap", ForMs: 30_000}) }() // hangs in its commit
	ctx, cancel := context.WithCancel(r.ctx)
	var group sync.WaitGroup
	for range 4200 {
		group.Go(func() { r.e.Submit(ctx, core.Tick{}) })
	}
	time.Sleep(300 * time.Millisecond) // the inbox is full
	before := len(r.l.fences())
	out := make(chan core.Result, 1)
	go func() {
		res, _ := r.e.Takeover(ctx, core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
		out <- res
	}()
	for end := time.Now().Add(10 * time.Second); len(r.l.fences()) == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no fence")
		}
	}
	cancel() // and whoever took over has gone
	if res := <-out; res.Refusal == nil || res.Refusal.Code != core.CodeOutcomeUnknown {
		t.Fatalf("who goes while it is not recorded is told %+v", res)
	}
	release()
	<-done
	group.Wait()
	r.until(func(s *core.State) bool {
		return s.Slots["shop"].Holder.Kind == "human" && s.Slots["shop"].Epoch == epoch+1
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

// An extension drops what comes before its welcome: a takeover in that moment is fenced once
// more.
func TestATakeoverBeforeTheWelcomeIsFencedAfterIt(t *testing.T) {
	r := newRig(t)
	l := &link{nonce: "link-2"}
	done := make(chan core.Result, 1)
	r.e.Attach("shop", &early{l, func() {
		go func() {
			res, _ := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
			done <- res
		}()
		for len(l.fences()) == 0 {
			time.Sleep(time.Millisecond)
		}
	}})
	r.must(core.Hello{Slot: "shop", Nonce: "link-2", Instance: "worker-1"})
	if res := <-done; res.Refusal != nil {
		t.Fatal(res.Refusal)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	welcome := slices.IndexFunc(l.got, func(e core.Effect) bool { _, ok := e.(core.SendWelcome); return ok })
	if !slices.ContainsFunc(l.got[welcome:], func(e core.Effect) bool { f, ok := e.(core.SendFence); return ok && f.Person }) {
		t.Errorf("sent: %+v", l.got)
	}
}

// Two takeovers of a slot before the first is recorded have one epoch, and both hear that
// it was acknowledged.
func TestTwoTakeoversHearTheirAcknowledgement(t *testing.T) {
	r := newRig(t)
	r.lease()
	release := r.hangDisk()
	t.Cleanup(release)
	done := make(chan core.Result, 1)
	go func() { done <- r.e.Submit(r.ctx, core.Renew{Lease: "lease-1", Cap: "cap", ForMs: 30_000}) }()
	time.Sleep(20 * time.Millisecond)
	before := len(r.l.fences())
	told := make(chan *core.Status, 2)
	for i, in := range []core.Takeover{{Slot: "shop", Surface: "cli", By: "human:cli"}, {Slot: "shop", Surface: "popup", Hold: "h", By: "human:popup"}} {
		go func() {
			_, st := r.e.Takeover(r.ctx, in)
			told <- st
		}()
		for len(r.l.fences()) == before+i {
			time.Sleep(time.Millisecond)
		}
	}
	sent := r.l.fences()[before:]
	if sent[0].Epoch != sent[1].Epoch {
		t.Fatalf("they have epochs %d and %d", sent[0].Epoch, sent[1].Epoch)
	}
	r.e.Fenced(core.Fenced{Slot: "shop", Nonce: r.l.nonce, Epoch: sent[1].Epoch})
	for range 2 {
		select {
		case st := <-told:
			if st == nil || st.Authority.Fence != "acknowledged" {
				t.Fatalf("told %+v", st)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("one of them does not hear of it")
		}
	}
	release()
	<-done
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
