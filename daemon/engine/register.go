package engine

import (
	"fmt"
	"sync"

	"sessiondock.dev/sessiondock/daemon/core"
)

// register is the fence register: for each slot the highest epoch issued, whether
// or not it is recorded yet. It is in memory; what makes its numbers safe to issue
// is the ceiling, which is durable.
type register struct {
	mu    sync.Mutex
	slots map[core.SlotName]*entry
}

type entry struct {
	epoch   core.Epoch
	ceiling core.Epoch // durable
	holder  core.Holder
	hold    core.HoldID // the last hold that was answered
	ahead   bool        // epoch is not in the state yet
}

// sync takes over what the state says, after a commit or a load. A number that was
// issued and is not in the state yet stays.
func (r *register) sync(slots []*core.Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range slots {
		e := r.slots[s.Name]
		if e == nil {
			e = &entry{}
			r.slots[s.Name] = e
		}
		e.ceiling = max(e.ceiling, s.Ceiling)
		if s.Epoch >= e.epoch {
			e.epoch, e.holder, e.ahead = s.Epoch, s.Holder, false
			e.hold = s.LastHold
		}
	}
}

// floor returns the slots whose register is ahead of the state.
func (r *register) floor() map[core.SlotName]core.Epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out map[core.SlotName]core.Epoch
	for name, e := range r.slots {
		if e.ahead {
			if out == nil {
				out = map[core.SlotName]core.Epoch{}
			}
			out[name] = e.epoch
		}
	}
	return out
}

// claim enters the epochs that a step wants to issue. It refuses, and nothing is
// entered, if a takeover issued one of them in the meantime: the step is then
// decided again.
func (r *register) claim(before map[core.SlotName]*core.Slot, d *core.Delta) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range d.Slots {
		old, e := before[s.Name], r.slots[s.Name]
		if old != nil && e != nil && s.Epoch > old.Epoch && e.ahead && s.Epoch < e.epoch {
			return false
		}
		if old != nil && e != nil && s.Epoch > old.Epoch && s.Epoch == e.epoch && e.ahead && s.Holder.Kind != "human" {
			return false
		}
	}
	for _, s := range d.Slots {
		e := r.slots[s.Name]
		if e == nil {
			r.slots[s.Name] = &entry{epoch: s.Epoch, holder: s.Holder}
			continue
		}
		if s.Epoch > e.epoch {
			e.epoch, e.holder = s.Epoch, s.Holder
		}
	}
	return true
}

// current says whether an epoch is the slot's newest.
func (r *register) current(slot core.SlotName, epoch core.Epoch) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.slots[slot]
	return e != nil && e.epoch == epoch
}

// takeover issues an epoch to a person. Again is set if this very hold was answered
// before; the epoch is then the one in force.
func (r *register) takeover(slot core.SlotName, surface string, hold core.HoldID, ifEpoch *core.Epoch, fromPerson bool) (epoch core.Epoch, again bool, err *core.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.slots[slot]
	if e == nil {
		return 0, false, core.Refuse(core.CodeNotFound, fmt.Sprintf("there is no slot %q", slot), "sessiondock slot list")
	}
	if hold != "" && (hold == e.hold || e.holder.Kind == "human") {
		return e.epoch, true, nil // answered, or the person has control already
	}
	if err := core.CheckTakeover(slot, e.holder, e.epoch, ifEpoch, fromPerson); err != nil {
		return 0, false, err
	}
	if e.epoch+1 > e.ceiling {
		return 0, false, core.Refuse(core.CodeUnavailable, "no more epochs are reserved: the database cannot be written",
			"stop the browser: sessiondock slot stop "+string(slot)+" --now; then look at the disk")
	}
	e.epoch++
	e.holder = core.Holder{Kind: "human", Name: surface}
	e.ahead = true
	if hold != "" {
		e.hold = hold
	}
	return e.epoch, false, nil
}
