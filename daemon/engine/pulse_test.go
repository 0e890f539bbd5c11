package engine_test

import (
	"sync"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// TestAliveWithAHungDisk: takeovers work then, so nobody may end the daemon for it.
func TestAliveWithAHungDisk(t *testing.T) {
	r := newRig(t)
	soon := func(what string, so func() bool) {
		t.Helper()
		for start := time.Now(); !so(); time.Sleep(time.Millisecond) {
			if time.Since(start) > 10*time.Second {
				t.Fatal(what)
			}
		}
	}
	soon("a writer that has nothing to do is not alive", func() bool { return r.e.Alive(time.Nanosecond) })
	hang := make(chan struct{})
	r.st.mu.Lock()
	r.st.hang = hang
	r.st.mu.Unlock()
	done := make(chan core.Result, 1)
	go func() { done <- r.e.Submit(r.ctx, core.CreateSlot{Name: "x", By: "human:test"}) }()
	soon("the writer has not come to the disk", func() bool { return r.st.hung.Load() > 0 })
	for range 20 {
		time.Sleep(time.Millisecond)
		if !r.e.Alive(time.Nanosecond) {
			t.Fatal("a writer that waits for the disk is not alive")
		}
	}
	before := len(r.l.fences())
	taken := make(chan core.Result, 1)
	go func() {
		res, _ := r.e.Takeover(r.ctx, core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
		taken <- res
	}()
	for start := time.Now(); len(r.l.fences()) == before; time.Sleep(time.Millisecond) {
		if time.Since(start) > 5*time.Second {
			t.Error("no fence while the disk hangs")
			break
		}
	}
	r.st.mu.Lock()
	r.st.hang = nil
	r.st.mu.Unlock()
	close(hang)
	for _, c := range []chan core.Result{done, taken} {
		if res := <-c; res.Refusal != nil {
			t.Error(res.Refusal)
		}
	}
}

// TestAHungWriterIsNotAlive: it waits for something that is not the disk.
func TestAHungWriterIsNotAlive(t *testing.T) {
	r := newRig(t)
	hang := make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	defer release()
	r.l.hang = hang
	go r.e.Submit(r.ctx, core.Acquire{Lease: "lease-1", Token: "token", CapHash: "cap", RequestID: "r", Binding: "admin", ForMs: 60_000})
	for start := time.Now(); r.e.Alive(20 * time.Millisecond); time.Sleep(time.Millisecond) {
		if time.Since(start) > 5*time.Second {
			t.Fatal("a writer that hangs is called alive")
		}
	}
	release()
	for start := time.Now(); !r.e.Alive(20 * time.Millisecond); time.Sleep(time.Millisecond) {
		if time.Since(start) > 5*time.Second {
			t.Fatal("a writer that works again is not alive")
		}
	}
}
