package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/engine/enginetest"
	"sessiondock.dev/sessiondock/store"
)

// full is the real store on a disk that is full from some moment on, or hangs.
type full struct {
	*store.Store
	now  chan struct{} // closed when it is full
	hang *sync.Mutex   // held while it hangs
}

func (f full) Commit(d *core.Delta) error {
	f.hang.Lock()
	defer f.hang.Unlock()
	select {
	case <-f.now:
		return errors.New("the disk is full")
	default:
		return f.Store.Commit(d)
	}
}

// eventually waits for what has to come to pass.
func eventually(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ready(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in vain: " + what)
		}
	}
}

func has(path, text string) bool {
	b, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(b), text)
}

func openNoted(t *testing.T, path, note string) (*engine.Engine, full) {
	t.Helper()
	db, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	clock, err := engine.SystemClock()
	if err != nil {
		t.Fatal(err)
	}
	st := full{Store: db, now: make(chan struct{}), hang: new(sync.Mutex)}
	e, err := engine.New(st, &enginetest.Launches{}, clock, enginetest.Log(), engine.Options{Note: note})
	if err != nil {
		db.Close()
		t.Fatal(err)
	}
	return e, st
}

// A takeover of a slot without a browser, on a full disk: the next daemon learns of it from
// the note.
func TestATakeoverWithoutARecordIsNoted(t *testing.T) {
	dir := t.TempDir()
	path, note := filepath.Join(dir, "state.db"), filepath.Join(dir, "takeovers.json")
	e, st := openNoted(t, path, note)
	for _, in := range []core.Input{
		core.CreateSlot{Name: "shop", By: "human:test"},
		core.Bind{Spec: core.BindingSpec{Name: "admin", Slot: "shop", Account: "none"}, By: "human:test"},
		core.Delegate{ID: "d", Hash: "token", Binding: "admin", Agent: "agent-a", ForMs: 3_600_000, By: "human:test"},
		core.Acquire{Lease: "lease-1", Token: "token", CapHash: "cap", RequestID: "r1", Binding: "admin", ForMs: 600_000},
		core.Claim{Lease: "lease-1", Cap: "cap"},
	} {
		if res := e.Submit(t.Context(), in); res.Refusal != nil {
			t.Fatalf("%T: %v", in, res.Refusal)
		}
	}
	close(st.now)
	res, _ := e.Takeover(t.Context(), core.Takeover{Slot: "shop", Surface: "cli", By: "human:test"})
	if res.Refusal == nil || res.Refusal.Detail["fence_sent"] != true || res.Refusal.Detail["noted"] == false {
		t.Fatalf("answered %+v", res.Refusal)
	}
	if a := e.Status("shop").Authority; !a.Unrecorded || a.Holder.Kind != "human" {
		t.Errorf("the status says %+v", a)
	}
	e.Close()
	st.Close()

	e, st = openNoted(t, path, note)
	holder := func() core.AuthorityNow { return e.Status("shop").Authority }
	if a := holder(); a.Holder != (core.Holder{Kind: "human", Name: "cli"}) || a.Unrecorded {
		t.Errorf("after a restart the slot is %+v", a)
	}
	if res := e.Submit(t.Context(), core.Resume{Lease: "lease-1", Cap: "cap"}); res.Refusal == nil || res.Refusal.Code != core.CodeHeld {
		t.Errorf("the agent resumes: %v", res.Refusal)
	}
	eventually(t, "the note of a takeover that is recorded to be removed", func() bool {
		_, err := os.Stat(note)
		return errors.Is(err, os.ErrNotExist)
	})
	// An old note that came back says nothing new: it is recorded.
	if res := e.Submit(t.Context(), core.Handback{Slot: "shop", By: "human:test"}); res.Refusal != nil {
		t.Fatal(res.Refusal)
	}
	e.Close()
	st.Close()
	if err := os.WriteFile(note, []byte(`[{"slot":"shop","epoch":1,"surface":"cli","by":"human:test"},{"slot":"gone","epoch":1,"surface":"cli","by":"human:test"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	e, st = openNoted(t, path, note)
	defer st.Close()
	defer e.Close()
	if a := holder(); a.Holder.Kind != "none" {
		t.Errorf("a note of a recorded takeover gives the slot to %+v", a.Holder)
	}
}

// Where the note cannot be written either, nobody is told that the slot is theirs for good.
func TestATakeoverThatNothingRemembersSaysSo(t *testing.T) {
	dir := t.TempDir()
	e, st := openNoted(t, filepath.Join(dir, "state.db"), filepath.Join(dir, "missing", "takeovers.json"))
	defer st.Close()
	defer e.Close()
	if res := e.Submit(t.Context(), core.CreateSlot{Name: "shop", By: "human:test"}); res.Refusal != nil {
		t.Fatal(res.Refusal)
	}
	close(st.now)
	res, _ := e.Takeover(t.Context(), core.Takeover{Slot: "shop", Surface: "cli", By: "human:test"})
	if r := res.Refusal; r == nil || r.Detail["noted"] != false || !strings.Contains(r.Message, "as long as this daemon runs") {
		t.Errorf("answered %+v", r)
	}
	if s := e.Status("shop").Sentences.Authority; !strings.Contains(s, "as long as this daemon runs") {
		t.Errorf("the status says %q", s)
	}
}

// A note that cannot be read is set aside, and the daemon serves.
func TestABrokenNoteIsSetAside(t *testing.T) {
	for name, text := range map[string]string{"no JSON": "{", "no list": `{"slot":"shop"}`} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			note := filepath.Join(dir, "takeovers.json")
			if err := os.WriteFile(note, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			e, st := openNoted(t, filepath.Join(dir, "state.db"), note)
			defer st.Close()
			defer e.Close()
			if kept, err := os.ReadFile(note + ".bad"); err != nil || string(kept) != text {
				t.Errorf("set aside: %q, %v", kept, err)
			}
		})
	}
}

// Whatever a note says, the daemon starts, and one entry that cannot be meant costs nobody
// else the slot.
func TestAnEntryThatCannotBeMeantIsLeftOut(t *testing.T) {
	for name, entry := range map[string]string{
		"no name":       `{"slot":"../x","epoch":1,"surface":"cli"}`,
		"no entry":      `7`,
		"no epoch":      `{"slot":"other","surface":"cli"}`,
		"no integer":    `{"slot":"other","epoch":18446744073709551616,"surface":"cli"}`,
		"no slot's":     `{"slot":"other","epoch":18446744073709551615,"surface":"cli"}`,
		"not reserved":  `{"slot":"other","epoch":9007199254740991,"surface":"cli"}`,
		"a hold's name": `{"slot":"other","epoch":2,"surface":"cli","hold":"' \u0000","by":"\u0000"}`,
		"no such slot":  `{"slot":"gone","epoch":2,"surface":"cli"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, note := filepath.Join(dir, "state.db"), filepath.Join(dir, "takeovers.json")
			e, st := openNoted(t, path, note)
			for _, slot := range []core.SlotName{"other", "shop"} {
				if res := e.Submit(t.Context(), core.CreateSlot{Name: slot, By: "human:test"}); res.Refusal != nil {
					t.Fatal(res.Refusal)
				}
			}
			e.Close()
			st.Close()
			if err := os.WriteFile(note, []byte("["+entry+`,{"slot":"shop","epoch":2,"surface":"cli"}]`), 0o600); err != nil {
				t.Fatal(err)
			}
			e, st = openNoted(t, path, note)
			defer st.Close()
			defer e.Close()
			if a := e.Status("shop").Authority; a.Holder.Kind != "human" {
				t.Errorf("the slot that was taken over is %+v", a)
			}
			eventually(t, "the note to be removed", func() bool {
				_, err := os.Stat(note)
				return errors.Is(err, os.ErrNotExist)
			})
		})
	}
}

// After a restart with a note the slot's host has as long to come back as without one.
func TestANoteLeavesTheHostTimeToComeBack(t *testing.T) {
	dir := t.TempDir()
	path, note := filepath.Join(dir, "state.db"), filepath.Join(dir, "takeovers.json")
	e, st := openNoted(t, path, note)
	for _, in := range []core.Input{core.CreateSlot{Name: "shop", By: "human:test"}, core.StartSlot{Slot: "shop", By: "human:test"}} {
		if res := e.Submit(t.Context(), in); res.Refusal != nil {
			t.Fatal(res.Refusal)
		}
	}
	if !e.Wait(t.Context(), "shop", 5*time.Second, func(s *core.State, _ core.Now) bool {
		l := s.Slots["shop"].Launch
		return l != nil && l.State == "running"
	}) {
		t.Fatal("the browser did not start")
	}
	e.Attach("shop", &link{nonce: "link-1"})
	if res := e.Submit(t.Context(), core.Hello{Slot: "shop", Nonce: "link-1", Instance: "worker-1"}); res.Refusal != nil {
		t.Fatal(res.Refusal)
	}
	epoch := e.Status("shop").Authority.Epoch
	e.Close()
	st.Close()
	if err := os.WriteFile(note, fmt.Appendf(nil, `[{"slot":"shop","epoch":%d,"surface":"cli"}]`, epoch+1), 0o600); err != nil {
		t.Fatal(err)
	}
	e, st = openNoted(t, path, note)
	defer st.Close()
	defer e.Close()
	e.View(func(s *core.State, now core.Now) {
		v := s.Slots["shop"]
		if left := v.Fence.Deadline.LeftMs(now); v.Holder.Kind != "human" || v.Fence.State != "pending" || left <= core.FenceAckMs {
			t.Errorf("held by %+v; the fence is %s, and has %d ms left", v.Holder, v.Fence.State, left)
		}
	})
}

// A disk that hangs answers nobody, and the takeover of a slot without a browser is noted
// all the same: while it waits, when nobody waits any more, and at the daemon's end.
func TestATakeoverIsNotedWhileTheDiskHangs(t *testing.T) {
	dir := t.TempDir()
	note := filepath.Join(dir, "takeovers.json")
	e, st := openNoted(t, filepath.Join(dir, "state.db"), note)
	defer st.Close()
	end := sync.OnceFunc(e.Close)
	defer end()
	slots := []core.SlotName{"waits", "leaves", "late"}
	for _, slot := range slots {
		if res := e.Submit(t.Context(), core.CreateSlot{Name: slot, By: "human:test"}); res.Refusal != nil {
			t.Fatal(res.Refusal)
		}
	}
	take := func(ctx context.Context, slot core.SlotName) {
		e.Takeover(ctx, core.Takeover{Slot: slot, Surface: "cli", By: "human:test"})
	}
	st.hang.Lock()
	release := sync.OnceFunc(st.hang.Unlock)
	defer release()
	var group sync.WaitGroup
	group.Go(func() { take(t.Context(), "waits") })
	eventually(t, "the note of a takeover that waits for its record", func() bool { return has(note, `"waits"`) })
	left, cancel := context.WithCancel(t.Context())
	cancel()
	take(left, "leaves")
	if !has(note, `"leaves"`) {
		t.Error("a takeover that nobody waits for is not noted")
	}
	release()
	group.Wait()
	end()
	take(t.Context(), "late")
	if !has(note, `"late"`) {
		t.Error("a takeover at the daemon's end is not noted")
	}
}

// A note that somebody removes is written anew, and where that fails the status says so.
func TestANoteThatIsRemovedIsWrittenAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(dir, "takeovers.json")
	e, st := openNoted(t, filepath.Join(t.TempDir(), "state.db"), note)
	defer st.Close()
	defer e.Close()
	if res := e.Submit(t.Context(), core.CreateSlot{Name: "shop", By: "human:test"}); res.Refusal != nil {
		t.Fatal(res.Refusal)
	}
	close(st.now)
	e.Takeover(t.Context(), core.Takeover{Slot: "shop", Surface: "cli", By: "human:test"})
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the note to be written anew", func() bool { return has(note, `"shop"`) })
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the status to say that nothing remembers the takeover", func() bool {
		return strings.Contains(e.Status("shop").Sentences.Authority, "as long as this daemon runs")
	})
}
