package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// waiting holds those who wait for the host's last word on an action. They are told
// as soon as it is decided, before it is on the disk: an outcome gives nobody control,
// and should the daemon die in between, the host, which keeps its last word until it
// is told to forget it, says it again. See docs/decisions/0009.
type waiting struct {
	mu sync.Mutex
	by map[core.ActionID][]chan *core.Action
	// dialogs are what actions wait for in their pages. They are content: kept here only.
	dialogs map[core.ActionID]*core.Dialog
}

// tell wakes those who wait for these actions.
func (e *Engine) tell(actions []*core.Action) {
	e.waiting.mu.Lock()
	defer e.waiting.mu.Unlock()
	for _, a := range actions {
		if a.Host == "" {
			continue
		}
		for _, c := range e.waiting.by[a.Action] {
			c <- a // buffered, and told once
		}
		delete(e.waiting.by, a.Action)
	}
}

// Waits takes the host's word that an action waits for a dialog of its page, or with nil
// that it does not any more. Neither comes after the host's last word on it.
func (e *Engine) Waits(slot core.SlotName, epoch core.Epoch, action core.ActionID, d *core.Dialog) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.seen.Actions[action]
	if a == nil || a.Slot != slot || a.Epoch != epoch || a.Host != "" || a.Over {
		return
	}
	e.waiting.mu.Lock()
	if e.waiting.dialogs[action] = d; d == nil {
		delete(e.waiting.dialogs, action)
	}
	e.waiting.mu.Unlock()
	e.changed(slot)
}

func (e *Engine) forgetDialog(action core.ActionID) {
	e.waiting.mu.Lock()
	defer e.waiting.mu.Unlock()
	delete(e.waiting.dialogs, action)
}

// Dialog is what an action waits for in its page, to be told as a result is.
func (e *Engine) Dialog(a *core.Action) *core.Dialog {
	e.waiting.mu.Lock()
	defer e.waiting.mu.Unlock()
	if a.Host != "" || a.Over || !e.reg.Grants(a.Slot, a.Epoch) {
		return nil
	}
	return e.waiting.dialogs[a.Action]
}

// Settled waits for the host's last word on an action, for a dialog that it waits for, for
// the end of its epoch, or for d, and returns what is known then. None of the four is
// turned into another.
func (e *Engine) Settled(ctx context.Context, a *core.Action, d time.Duration) (*core.Action, error) {
	done := make(chan *core.Action, 1)
	e.waiting.mu.Lock()
	e.waiting.by[a.Action] = append(e.waiting.by[a.Action], done)
	e.waiting.mu.Unlock()
	defer e.leave(a.Action, done)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		changed := e.Changed(a.Slot)
		e.View(func(s *core.State, _ core.Now) { a = s.Action(a.Action) })
		if a.Host != "" || a.Over {
			return e.whole(a)
		}
		if e.Dialog(a) != nil {
			return a, nil
		}
		select {
		case a = <-done:
			return a, nil
		case <-changed:
		case <-timer.C:
			return a, nil
		case <-ctx.Done():
			return a, nil
		case <-e.ctx.Done():
			return a, nil
		}
	}
}

func (e *Engine) leave(id core.ActionID, done chan *core.Action) {
	e.waiting.mu.Lock()
	defer e.waiting.mu.Unlock()
	rest := e.waiting.by[id][:0:0]
	for _, c := range e.waiting.by[id] {
		if c != done {
			rest = append(rest, c)
		}
	}
	if len(rest) == 0 {
		delete(e.waiting.by, id)
		return
	}
	e.waiting.by[id] = rest
}

// acks holds those who wait for the acknowledgement of a fence. They too are told
// before it is on the disk: it is the extension's word, and it will give it again.
type acks struct {
	mu   sync.Mutex
	by   map[ackKey][]chan *core.Status
	last map[core.SlotName]acked
}

// acked is the last fence that a slot's extension has acknowledged, and on which link.
type acked struct {
	epoch core.Epoch
	on    core.Nonce
}

type ackKey struct {
	slot  core.SlotName
	epoch core.Epoch
}

// join returns a channel on which nil comes once the extension has acknowledged the
// fence of an epoch, and the slot's status once that is decided too. Several wait where
// a person has taken over twice before the first was recorded.
func (a *acks) join(slot core.SlotName, epoch core.Epoch) (<-chan *core.Status, func()) {
	key, c := ackKey{slot, epoch}, make(chan *core.Status, 2)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by[key] = append(a.by[key], c)
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.by[key] = slices.DeleteFunc(a.by[key], func(other chan *core.Status) bool { return other == c })
		if len(a.by[key]) == 0 {
			delete(a.by, key)
		}
	}
}

// Fenced takes the extension's answer to a fence. That it came is known at once, also
// while the disk hangs and nothing can be decided.
func (e *Engine) Fenced(in core.Fenced) {
	if l := e.link(in.Slot); l != nil && l.Nonce() == in.Nonce {
		e.reg.Acknowledge(in.Slot, in.Epoch)
		e.acks.note(in.Slot, acked{in.Epoch, in.Nonce})
		e.acks.tell(ackKey{in.Slot, in.Epoch}, nil)
		e.mu.Lock()
		e.changed(in.Slot)
		e.mu.Unlock()
	}
	e.Enqueue(in)
}

// acknowledged tells whoever waits for a fence what the slot's state is, now that its
// acknowledgement is decided. It is the writer's own.
func (e *Engine) acknowledged(in core.Fenced) {
	if s := e.state.Slots[in.Slot]; s != nil && s.Epoch == in.Epoch && s.Fence.State == "draining" {
		e.acks.tell(ackKey{in.Slot, in.Epoch}, core.StatusOf(e.state, e.clock(), in.Slot))
	}
}

func (a *acks) note(slot core.SlotName, last acked) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = map[core.SlotName]acked{}
	}
	a.last[slot] = last
}

// answers says whether the extension that a slot has now has acknowledged the fence of an
// epoch, whatever is on the disk.
func (e *Engine) answers(slot core.SlotName, epoch core.Epoch) bool {
	l := e.link(slot)
	if l == nil {
		return false
	}
	e.acks.mu.Lock()
	defer e.acks.mu.Unlock()
	return e.acks.last[slot] == acked{epoch, l.Nonce()}
}

func (a *acks) tell(key ackKey, st *core.Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.by[key] {
		select {
		case c <- st:
		default: // an extension answers more than once
		}
	}
}
