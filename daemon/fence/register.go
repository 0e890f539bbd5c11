package fence

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Register is the fence register: for each slot the highest epoch issued, whether
// or not it is recorded yet. It is in memory; what makes its numbers safe to issue
// is the ceiling, which is durable. It may be used from several goroutines.
type Register struct {
	mu    sync.Mutex
	slots map[core.SlotName]*entry
	over  map[core.SlotName]chan struct{} // closed, and taken out, with the next epoch
}

// New returns a register that knows no slot.
func New() *Register { return &Register{slots: map[core.SlotName]*entry{}} }

type entry struct {
	epoch   core.Epoch
	ceiling core.Epoch // durable
	holder  core.Holder
	hold    core.HoldID // the last hold that was answered
	ahead   bool        // epoch is not in the state yet
	removed bool        // the slot is, in the state
	// record is the takeover that took the number, until it is in the state. A database
	// that cannot be written does not lose it.
	record *core.Takeover
	// fenced is the link whose extension has been sent the fence of epoch already.
	fenced core.Nonce
	// acknowledged: the extension has answered the fence of epoch.
	acknowledged bool
}

// issue enters a newer epoch.
func (r *Register) issue(slot core.SlotName, e *entry, epoch core.Epoch) {
	e.epoch, e.fenced, e.acknowledged = epoch, "", false
	if over, ok := r.over[slot]; ok {
		close(over)
		delete(r.over, slot)
	}
}

// Over returns a channel that is closed once an epoch is not the slot's newest any more.
func (r *Register) Over(slot core.SlotName, epoch core.Epoch) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.slots[slot]; e == nil || e.epoch != epoch {
		over := make(chan struct{})
		close(over)
		return over
	}
	over, ok := r.over[slot]
	if !ok {
		over = make(chan struct{})
		if r.over == nil {
			r.over = map[core.SlotName]chan struct{}{}
		}
		r.over[slot] = over
	}
	return over
}

// Sync takes over what the state says, after a commit or a load. A number that was
// issued and is not in the state yet stays.
func (r *Register) Sync(slots []*core.Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range slots {
		e := r.slots[s.Name]
		if e == nil {
			e = &entry{}
			r.slots[s.Name] = e
		}
		e.ceiling = max(e.ceiling, s.Ceiling)
		// Of a slot that was removed meanwhile no record will come.
		if e.removed = s.Removed; e.removed || e.record != nil && s.PersonUntil >= e.record.Epoch {
			e.record = nil
		}
		if s.Epoch < e.epoch {
			continue
		}
		if s.Epoch > e.epoch {
			r.issue(s.Name, e, s.Epoch)
		}
		e.ahead = false
		if e.record == nil {
			e.holder, e.hold = s.Holder, s.LastHold
		}
	}
}

// Floor returns the slots whose register is ahead of the state.
func (r *Register) Floor() map[core.SlotName]core.Epoch {
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

// Claim enters the epochs that a step wants to issue. It refuses, and nothing is
// entered, if a takeover issued one of them, or a higher one, in the meantime: the step
// is then decided again. Own is the number that the register itself gave to the step's
// input, 0 if none: of several takeovers that are out each is recorded under its own.
func (r *Register) Claim(before map[core.SlotName]*core.Slot, d *core.Delta, own core.Epoch) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range d.Slots {
		old, e := before[s.Name], r.slots[s.Name]
		if old != nil && e != nil && s.Epoch > old.Epoch && e.ahead && s.Epoch <= e.epoch && s.Epoch != own {
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
			r.issue(s.Name, e, s.Epoch)
			if e.record == nil {
				e.holder = s.Holder
			}
		}
	}
	return true
}

// Current says whether an epoch is the slot's newest.
func (r *Register) Current(slot core.SlotName, epoch core.Epoch) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.slots[slot]
	return e != nil && e.epoch == epoch
}

// Grants says whether something may go out to an agent under an epoch: it is the
// slot's newest, and no person has taken over whose record is still to come.
func (r *Register) Grants(slot core.SlotName, epoch core.Epoch) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.slots[slot]
	return e != nil && e.epoch == epoch && e.record == nil
}

// Issued is a number that a person's takeover was given.
type Issued struct {
	core.Takeover
	Again     bool // this very hold was answered before: nothing is to be recorded
	FromHuman bool // a person held the slot until now
}

// Takeover issues an epoch to a person and notes the record that has to follow. Up is
// the link whose extension the caller sends the fence to, if it has said hello on it.
func (r *Register) Takeover(in core.Takeover, up core.Nonce) (Issued, *core.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.slots[in.Slot]
	if e == nil || e.removed {
		return Issued{}, core.Refuse(core.CodeNotFound, fmt.Sprintf("there is no slot %q", in.Slot), "sessiondock slot list")
	}
	if in.Hold != "" && in.Hold == e.hold {
		in.Epoch = e.epoch
		return Issued{Takeover: in, Again: true}, nil
	}
	pressed := in.Hold != "" && e.holder.Kind == "human" // by a person who has control already
	// Above a takeover whose record is to come an agent may have been granted a number. It
	// can do nothing with it, and it is not the person's: the press gets one of its own.
	agents := e.record != nil && e.epoch > e.record.Epoch
	if pressed && !agents {
		// As far as the register knows. What is still in the inbox may end that, so the
		// press is recorded all the same, after it.
		in.Epoch, e.hold = e.epoch, in.Hold
		return Issued{Takeover: in}, nil
	}
	if !pressed {
		if err := core.CheckTakeover(in.Slot, e.holder, e.epoch, in.IfEpoch, in.FromPerson); err != nil {
			return Issued{}, err
		}
	}
	if e.epoch+1 > e.ceiling {
		return Issued{}, core.Refuse(core.CodeUnavailable, "no more epochs are reserved: the database cannot be written",
			"stop the browser: sessiondock slot stop "+string(in.Slot)+" --now; then look at the disk")
	}
	out := Issued{Takeover: in, FromHuman: e.holder.Kind == "human"}
	r.issue(in.Slot, e, e.epoch+1)
	out.Epoch = e.epoch
	e.holder = core.Holder{Kind: "human", Name: in.Surface}
	e.ahead, e.fenced = true, up
	if in.Hold != "" {
		e.hold = in.Hold
	}
	e.record = &out.Takeover
	return out, nil
}

// Due says whether a fence is still to be sent: it is of the slot's newest epoch, and
// a takeover has not sent it on this very link before.
func (r *Register) Due(slot core.SlotName, epoch core.Epoch, link core.Nonce) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.slots[slot]
	return e != nil && e.epoch == epoch && (e.fenced == "" || e.fenced != link)
}

// Person says whether a person holds the slot, recorded or not.
func (r *Register) Person(slot core.SlotName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.slots[slot]
	return e != nil && e.holder.Kind == "human"
}

// Acknowledge notes the extension's answer to a fence, before the writer has seen it.
func (r *Register) Acknowledge(slot core.SlotName, epoch core.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.slots[slot]; e != nil && e.epoch == epoch {
		e.acknowledged = true
	}
}

// Taken returns the slot's takeover that is out and not in the state, or nil, and
// whether its fence was acknowledged.
func (r *Register) Taken(slot core.SlotName) (*core.Takeover, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.slots[slot]; e != nil && e.record != nil {
		t := *e.record
		return &t, e.acknowledged && e.epoch == t.Epoch
	}
	return nil, false
}

// Unrecorded returns the takeovers that are out and not in the state, by slot.
func (r *Register) Unrecorded() []core.Takeover {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []core.Takeover
	for _, e := range r.slots {
		if e.record != nil {
			out = append(out, *e.record)
		}
	}
	slices.SortFunc(out, func(a, b core.Takeover) int { return strings.Compare(string(a.Slot), string(b.Slot)) })
	return out
}
