package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
)

// What a person is told, and when: with a disk that hangs, fails or is full.

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
