package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/engine/enginetest"
	"sessiondock.dev/sessiondock/store"
)

// full is the real store on a disk that is full from some moment on.
type full struct {
	*store.Store
	now chan struct{} // closed when it is full
}

func (f full) Commit(d *core.Delta) error {
	select {
	case <-f.now:
		return errors.New("the disk is full")
	default:
		return f.Store.Commit(d)
	}
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
	st := full{Store: db, now: make(chan struct{})}
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
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(note); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the note of a takeover that is recorded stays")
		}
	}
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
	for name, text := range map[string]string{"no JSON": "{", "no name": `[{"slot":"../x","epoch":1,"surface":"cli"}]`} {
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
