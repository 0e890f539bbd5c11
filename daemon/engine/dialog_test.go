package engine_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Whoever waits for an action is told at once of a dialog that it waits for. What that says
// is told while the epoch lasts, and is in no file.
func TestADialogIsToldAndNotStored(t *testing.T) {
	r := newRig(t)
	r.lease()
	a := r.act("action-1").Action
	epoch := r.slot().Epoch
	dialog := &core.Dialog{Kind: "confirm", Message: "really-delete-it?"}

	told := make(chan *core.Action, 1)
	go func() {
		now, _ := r.e.Settled(r.ctx, a, time.Minute)
		told <- now
	}()
	// Words of another slot, of another epoch, of no action.
	r.e.Waits("other", epoch, a.Action, dialog)
	r.e.Waits("shop", epoch+1, a.Action, dialog)
	r.e.Waits("shop", epoch, "none", dialog)
	select {
	case now := <-told:
		t.Fatalf("told %+v", now)
	case <-time.After(50 * time.Millisecond):
	}
	r.e.Waits("shop", epoch, a.Action, dialog)
	now := <-told
	if now.Over || now.Host != "" || r.e.Dialog(now) != dialog {
		t.Fatalf("told %+v, which waits for %v", now, r.e.Dialog(now))
	}
	r.e.Waits("shop", epoch, a.Action, nil)
	if d := r.e.Dialog(now); d != nil {
		t.Errorf("it goes on, and waits for %v", d)
	}
	r.e.Waits("shop", epoch, a.Action, dialog)
	r.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	r.until(func(s *core.State) bool { return s.Action(a.Action).Over })
	if d := r.e.Dialog(now); d != nil {
		t.Errorf("after the takeover the agent is told %v", d)
	}
	r.e.Waits("shop", epoch, a.Action, dialog)
	if n := r.e.Dialogs(); n != 0 {
		t.Errorf("%d dialogs of ended actions are remembered", n)
	}
	for _, name := range []string{r.path, r.path + "-wal"} {
		b, err := os.ReadFile(name)
		if err == nil && bytes.Contains(b, []byte(dialog.Message)) {
			t.Errorf("%s has it", name)
		}
	}
}
