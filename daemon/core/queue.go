package core

import (
	"cmp"
	"iter"
	"slices"
)

// rank orders waiters, of one slot or of several: the higher priority first, then who
// came first.
func rank(a, b *Lease) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.ID, b.ID))
}

func before(a, b *Lease) bool { return rank(a, b) < 0 }

// queue lists a slot's waiters in their order, with the step's own changes.
func (t *tx) queue(slot SlotName) iter.Seq[*Lease] {
	var fresh []*Lease
	for _, l := range t.res.Delta.Leases {
		if _, old := t.s.Leases[l.ID]; !old && l.Slot == slot && l.State == LeaseWaiting {
			fresh = append(fresh, l)
		}
	}
	slices.SortFunc(fresh, rank)
	return func(yield func(*Lease) bool) {
		fresh := fresh
		for _, id := range t.s.index.waiting[slot] {
			l := t.seeLease(id)
			if l.State != LeaseWaiting {
				continue
			}
			for len(fresh) > 0 && before(fresh[0], l) {
				if !yield(fresh[0]) {
					return
				}
				fresh = fresh[1:]
			}
			if !yield(l) {
				return
			}
		}
		for _, l := range fresh {
			if !yield(l) {
				return
			}
		}
	}
}

// serve grants the slot to the first of its queue that can have it. A waiter is only
// ever granted its own binding's slot (I9). One that waits for a conflict key may be
// passed, a bounded number of times; nothing else passes anybody, but who asks for a
// binding that is signed in as somebody else is refused, and who waits for what only a
// person can tell keeps nobody waiting.
func (t *tx) serve(name SlotName) {
	s := t.seeSlot(name)
	if s == nil {
		return
	}
	t.unwanted(s)
	if s = t.seeSlot(name); s.Holder.Kind != "none" || len(t.blocks(s, "")) > 0 {
		return
	}
	var passed []LeaseID
	for l := range t.queue(name) {
		if d := t.s.Delegations[l.Delegation]; d != nil && d.Expires.Passed(t.now) {
			t.waitIsOver(l)
			continue
		}
		if len(t.blocks(s, l.Agent)) > 0 {
			return
		}
		if t.unconfirmed(l.Binding) != nil {
			continue // only a person can tell
		}
		if len(t.keyBlocks(l)) > 0 {
			if l.Passed >= MaxPassed {
				return
			}
			passed = append(passed, l.ID)
			continue
		}
		if err := t.unchecked(s, l.Binding); err != nil {
			switch {
			case err.Code == CodeAccountMismatch:
				t.refuse(t.lease(l.ID), err)
			case err.Code == CodeBusy && t.look(s, l):
				return
			}
			continue
		}
		if l.Start && !t.room(s) {
			return
		}
		for _, id := range passed {
			t.lease(id).Passed++
		}
		t.grant(t.slot(name), t.lease(l.ID))
		return
	}
}

// refuse ends a request that waited, with the refusal that it would get now.
func (t *tx) refuse(l *Lease, err *Error) {
	t.endLease(l, err.Message)
	l.Refusal = err
	t.log("refused", t.seeSlot(l.Slot), l.ID, "", err.Message)
}

// Place is where a request stands in its slot's queue, and why it still waits.
type Place struct {
	Position int      `json:"position"` // 1 is next
	Of       int      `json:"of"`
	Priority int      `json:"priority,omitempty"`
	WaitMs   int64    `json:"wait_ms"` // left
	Why      []string `json:"why"`
	Passed   int      `json:"passed,omitempty"` // by others, because of its conflict keys
}

// waiterBlocks lists what a waiter waits for, besides those before it.
func (t *tx) waiterBlocks(l *Lease) []block {
	s := t.seeSlot(l.Slot)
	out := append(t.blocks(s, l.Agent), t.keyBlocks(l)...)
	if err := t.unconfirmed(l.Binding); err != nil {
		out = append(out, block{err.Code, err.Message, err.Message, false})
	}
	if err := t.unchecked(s, l.Binding); err != nil {
		out = append(out, block{err.Code, err.Message, err.Message, err.Code == CodeBusy})
	}
	if text := t.full(s); text != "" && l.Start {
		out = append(out, block{CodeCapacity, text, text, true})
	}
	return out
}

// PlaceOf tells a waiter's place, as its own agent may see it; nil if it does not wait.
func PlaceOf(s *State, now Now, id LeaseID) *Place {
	t := &tx{s: s, now: now}
	l := s.Leases[id]
	if l == nil || l.State != LeaseWaiting {
		return nil
	}
	p := &Place{Priority: l.Priority, WaitMs: l.WaitUntil.LeftMs(now), Why: publicly(t.waiterBlocks(l)), Passed: l.Passed}
	for w := range t.queue(l.Slot) {
		p.Of++
		if w.ID == id {
			p.Position = p.Of
		}
	}
	return p
}
