package engine_test

import (
	"path/filepath"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine/enginetest"
)

// TestAWayRoundTheFenceIsRecordedOnce: the supervisor sees it at every look.
func TestAWayRoundTheFenceIsRecordedOnce(t *testing.T) {
	launches := &enginetest.Launches{}
	e, db := enginetest.Open(t, filepath.Join(t.TempDir(), "state.db"), launches, nil)
	r := &rig{t: t, e: e, ctx: t.Context()}
	t.Cleanup(func() { e.Close(); db.Close() })
	r.must(core.CreateSlot{Name: "shop", By: "human:test"})
	r.must(core.StartSlot{Slot: "shop", By: "human:test"})
	r.until(func(s *core.State) bool { l := s.Slots["shop"].Launch; return l != nil && l.State == "running" })
	launches.Open(map[core.SlotName][]string{"shop": {"a port"}})
	r.until(func(s *core.State) bool { return len(s.Slots["shop"].Launch.Bypasses) == 1 })
	launches.Open(map[core.SlotName][]string{"shop": {"a switch"}})
	r.until(func(s *core.State) bool { return len(s.Slots["shop"].Launch.Bypasses) == 2 })
	if n := len(r.slot().Reasons); n != 1 {
		t.Errorf("%d reasons: %+v", n, r.slot().Reasons)
	}
}
