package engine_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine/enginetest"
)

// TestAStopDuringTheStart: a launch that is told to end while it is being started is
// called ended only once it was up and was told then, or its start has failed.
func TestAStopDuringTheStart(t *testing.T) { // I11
	for name, fails := range map[string]error{"it comes up": nil, "it does not": errors.New("no display")} {
		t.Run(name, func(t *testing.T) {
			begun, goOn, told := make(chan bool), make(chan bool), make(chan core.Launch, 8)
			e, db := enginetest.Open(t, filepath.Join(t.TempDir(), "state.db"), &enginetest.Launches{
				Begin: func() error { begun <- true; <-goOn; return fails },
				Told:  func(l core.Launch) { told <- l },
			}, nil)
			up := sync.OnceFunc(func() { close(goOn) })
			t.Cleanup(func() { up(); e.Close(); db.Close() })
			r := &rig{t: t, e: e, ctx: t.Context()}
			r.must(core.CreateSlot{Name: "shop", By: "human:test"})
			r.must(core.StartSlot{Slot: "shop", By: "human:test"})
			<-begun
			r.must(core.StopSlot{Slot: "shop", Now: true, By: "human:test"})
			time.Sleep(50 * time.Millisecond) // for a stop that does not wait
			if l := r.slot().Launch; l.State != "stopping" || len(told) != 0 {
				t.Fatalf("%d told to end; the launch is %s: %s", len(told), l.State, l.How)
			}
			up()
			r.until(func(s *core.State) bool { return s.Slots["shop"].Launch.State == "ended" })
			if l := <-told; (l.KeeperPID != 0) != (fails == nil) {
				t.Errorf("told to end: %+v", l)
			}
			if l := r.slot().Launch; len(told) != 0 || (l.KeeperPID != 0) != (fails == nil) {
				t.Errorf("told %d times more; the launch: %+v", len(told), l)
			}
		})
	}
}
