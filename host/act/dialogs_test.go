package act

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// A dialog of the page: what has not begun does not begin, and says in its result, which
// nobody stores, what is shown; what has begun is said to wait, and goes on.
func TestDialogs(t *testing.T) {
	d := &core.Dialog{Kind: "confirm", Message: "Really?"}
	for name, c := range map[string]struct {
		act    wire.Act
		class  core.Class
		method string // what the dialog leaves unanswered
		held   int    // of those
		state  string
	}{
		"an input that has not begun": {clickSave, core.Write, "Runtime.evaluate", 1, "refused"},
		"an input that has begun":     {clickSave, core.Write, "Input.dispatchMouseEvent", 3, "finished"},
		"a look":                      {wire.Act{Verb: "screenshot"}, core.Read, "Page.captureScreenshot", 1, "halted"},
		"a script":                    {wire.Act{Verb: "evaluate", Expression: "1"}, core.Write, "Runtime.evaluate", 1, "finished"},
	} {
		t.Run(name, func(t *testing.T) {
			var held []*Step
			var answered atomic.Bool
			p := &holding{hold: func(cmd wire.Cmd) bool { return cmd.Method == c.method && !answered.Load() }, held: &held}
			a := actionOf(c.act)
			a.Class, a.DeadlineMs = c.class, 60_000
			done := make(chan Done, 1)
			go func() { done <- NewExecutor(p).Run(context.Background(), a) }()
			for end := time.Now().Add(30 * time.Second); p.count() < c.held; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the step was never sent")
				}
			}
			held[0].Waits(d)
			if c.state == "finished" {
				if want := (wire.ActionWaits{Action: "a", Epoch: 7, Dialog: d}); len(p.waits) != 1 || p.waits[0] != want {
					t.Fatalf("said to wait: %+v", p.waits)
				}
				held[0].Waits(nil)
				if len(p.waits) != 2 || p.waits[1].Dialog != nil {
					t.Fatalf("said to go on: %+v", p.waits)
				}
				answered.Store(true)
				for _, s := range held {
					s.Resolve(good(`{"result":{"type":"number","value":1}}`))
				}
			}
			got := <-done
			if got.State != c.state {
				t.Fatalf("%s: %v", got.State, got.Error)
			}
			if c.state == "finished" {
				return
			}
			if got.Error.Code != core.CodeConflict || got.Error.Hint == "" || strings.Contains(got.Error.Error(), "Really") || got.Error.Detail != nil {
				t.Errorf("the error, which is stored: %+v", got.Error)
			}
			if string(bytes.Join(got.Result, nil)) != `{"dialog":{"kind":"confirm","message":"Really?"}}` || len(p.waits) != 0 {
				t.Errorf("the result: %s; said to wait: %v", got.Result, p.waits)
			}
		})
	}
}

// An effect that the extension does not put behind a dialog: the action is refused, and its
// result says what is shown; where a part of it had been done before, it is not.
func TestAnEffectBehindADialog(t *testing.T) {
	d := &core.Dialog{Kind: "alert", Message: "Late"}
	behind := Answer{Error: core.Refuse(core.CodeConflict, "the page shows a dialog", "answer it"), Dialog: d}
	for name, c := range map[string]struct {
		after int // so many effects are done
		state string
	}{"the first": {0, "refused"}, "the second": {1, "halted"}} {
		t.Run(name, func(t *testing.T) {
			effects := 0
			p := &peer{rules: func(cmd wire.Cmd) (Answer, bool) {
				if cmd.Effect {
					if effects++; effects > c.after {
						return behind, true
					}
				}
				return willing(cmd)
			}}
			got := execute(t, p, clickSave)
			if got.State != c.state || got.Steps.Dispatched != c.after || len(p.waits) != 0 {
				t.Fatalf("%s, %+v, %v; said to wait: %v", got.State, got.Steps, got.Error, p.waits)
			}
			result := string(bytes.Join(got.Result, nil))
			if c.after == 0 && (got.Error.Code != core.CodeConflict || !strings.Contains(got.Error.Hint, "dialog") || result != `{"dialog":{"kind":"alert","message":"Late"}}`) {
				t.Errorf("%v (%s), result %s", got.Error, got.Error.Hint, result)
			}
			if c.after > 0 && (got.Error.Code != core.CodeOutcomeUnknown || result != "") {
				t.Errorf("%v, result %s", got.Error, result)
			}
		})
	}
}
