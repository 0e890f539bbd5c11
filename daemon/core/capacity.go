package core

import (
	"cmp"
	"fmt"
	"slices"
)

// Capacity bounds the browsers that run at a time. Zero is no bound.
type Capacity struct {
	Browsers int
	MemoryMB int64
}

// running names the slots whose browser runs, may run or is about to be started.
func (t *tx) running() []SlotName {
	var out []SlotName
	for _, name := range t.s.index.running {
		if t.seeSlot(name).runs() {
			out = append(out, name)
		}
	}
	for _, s := range t.res.Delta.Slots {
		if s.runs() && !slices.Contains(out, s.Name) {
			out = append(out, s.Name)
		}
	}
	return out
}

func (s *Slot) runs() bool { return s.Launch.Live() || s.Starting != "" }

// full says why no further browser may be started for a slot now, or "".
func (t *tx) full(s *Slot) string {
	bound := t.s.Capacity
	if s.runs() || bound == (Capacity{}) {
		return ""
	}
	running := t.running()
	if bound.Browsers > 0 && len(running) >= bound.Browsers {
		return fmt.Sprintf("capacity: %d of %d browsers running", len(running), bound.Browsers)
	}
	if bound.MemoryMB > 0 {
		memory, used := t.s.MemoryMB, int64(0)
		if t.res.Delta.MemoryMB != nil {
			memory = t.res.Delta.MemoryMB
		}
		for _, name := range running {
			used += cmp.Or(memory[name], LaunchMB)
		}
		if len(running) > 0 && used+LaunchMB > bound.MemoryMB {
			return fmt.Sprintf("capacity: browsers use %d of %d MB, and another needs about %d", used, bound.MemoryMB, LaunchMB)
		}
	}
	return ""
}

// room says whether a browser may be started for a slot. If not, one that is idle and
// clean is stopped to make room, one at a time.
func (t *tx) room(s *Slot) bool {
	if t.full(s) == "" {
		return true
	}
	var idle *Slot
	for _, name := range t.running() {
		v := t.seeSlot(name)
		if v.Launch.Live() && v.Launch.State == "stopping" {
			return false // one is on its way out already
		}
		if t.idle(v) && (idle == nil || v.Fence.SinceMs < idle.Fence.SinceMs || v.Fence.SinceMs == idle.Fence.SinceMs && v.Name < idle.Name) {
			idle = v
		}
	}
	if idle != nil {
		v := t.slot(idle.Name)
		t.stopLaunch(v, false)
		t.log("stop", v, "", "", "idle; to make room for slot "+string(s.Name))
	}
	return false
}

// leaving is a slot whose browser is being stopped, "" if there is none.
func (t *tx) leaving() SlotName {
	for _, name := range t.running() {
		if l := t.seeSlot(name).Launch; l.Live() && l.State == "stopping" {
			return name
		}
	}
	return ""
}

// idle says whether a slot's browser may be stopped for another's sake: nobody has it
// or waits for it, nothing is open, and no person started it.
func (t *tx) idle(s *Slot) bool {
	if s.Launch == nil || s.Launch.State != "running" || s.Launch.ByPerson || s.Holder.Kind != "none" ||
		s.Lease != "" || s.Interrupted != "" || s.Fence.State != "drained" || len(s.Reasons) > 0 || len(t.openActions(s.Name)) > 0 || t.probing(s.Name) != nil {
		return false
	}
	for range t.queue(s.Name) {
		return false
	}
	return true
}

// yield looks at the other queues once a slot's browser could make room for them.
func (t *tx) yield(name SlotName) {
	if t.s.Capacity != (Capacity{}) && t.idle(t.seeSlot(name)) {
		t.wakeAll()
	}
}

// measured takes what the running browsers use of the machine's memory.
func (t *tx) measured(in Measured) *Error {
	t.by = "system"
	t.res.Delta.MemoryMB = in.MemoryMB
	t.wakeAll()
	return nil
}

// wakeAll looks at every queue again, those first whose head stands first.
func (t *tx) wakeAll() {
	var heads []*Lease
	for _, name := range t.s.index.queues() {
		for l := range t.queue(name) {
			heads = append(heads, l)
			break
		}
	}
	slices.SortFunc(heads, rank)
	for _, l := range heads {
		t.again(l.Slot)
	}
}
