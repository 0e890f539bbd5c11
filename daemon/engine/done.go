package engine

import (
	"context"
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

// Settled waits for the host's last word on an action, for the end of its epoch, or
// for d, and returns what is known then. None of the three is turned into another.
func (e *Engine) Settled(ctx context.Context, a *core.Action, d time.Duration) *core.Action {
	done := make(chan *core.Action, 1)
	e.waiting.mu.Lock()
	e.waiting.by[a.Action] = append(e.waiting.by[a.Action], done)
	e.waiting.mu.Unlock()
	defer e.leave(a.Action, done)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		changed := e.Changed(a.Slot)
		e.View(func(s *core.State, _ core.Now) { a = s.Actions[a.Action] })
		if a.Host != "" || a.Over {
			return a
		}
		select {
		case a = <-done:
			return a
		case <-changed:
		case <-timer.C:
			return a
		case <-ctx.Done():
			return a
		case <-e.ctx.Done():
			return a
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
