package fence

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
)

// For explorers, which go from one state of the register in several ways. The daemon
// calls neither.

// Clone returns a register of its own that knows the same.
func (r *Register) Clone() *Register {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Register{slots: make(map[core.SlotName]*entry, len(r.slots))}
	for name, e := range r.slots {
		same := *e
		if e.record != nil {
			record := *e.record
			same.record = &record
		}
		c.slots[name] = &same
	}
	return c
}

// String says all that the register knows; two that say the same behave the same.
func (r *Register) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out strings.Builder
	for _, name := range names(r.slots) {
		e := *r.slots[name]
		if e.record != nil {
			fmt.Fprintf(&out, "out %d %s %s;", e.record.Epoch, e.record.Surface, e.record.Hold)
			e.record = nil
		}
		fmt.Fprintf(&out, "%s %+v;", name, e)
	}
	return out.String()
}

func names(slots map[core.SlotName]*entry) []core.SlotName {
	return slices.Sorted(maps.Keys(slots))
}
