package engine

import (
	"slices"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// bypassEvery is how often launches are looked at for a way round the fence. A slot
// that has one is closed within a second.
const bypassEvery = 500 * time.Millisecond

// guard tells the core of ways round the fence that have been opened in a launch.
func (e *Engine) guard() {
	ticker := time.NewTicker(bypassEvery)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
		}
		running := map[core.SlotName]core.Launch{}
		e.View(func(s *core.State, _ core.Now) {
			for name, v := range s.Slots {
				if v.Launch != nil && v.Launch.State == "running" {
					running[name] = *v.Launch
				}
			}
		})
		if len(running) == 0 {
			continue
		}
		for slot, ways := range e.sup.Bypasses(running) {
			// What was seen once stays recorded: whoever used it may still be connected.
			all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(running[slot].Bypasses, ways))))
			if len(ways) > 0 && !slices.Equal(all, running[slot].Bypasses) {
				e.log.Warn("a way round the fence", "slot", slot, "ways", ways)
				e.Submit(e.ctx, core.Bypassed{Slot: slot, Launch: running[slot].ID, Ways: all})
			}
		}
	}
}
