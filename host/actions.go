package main

import (
	"context"
	"encoding/json"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/host/act"
)

// underway is an action that is being carried out.
type underway struct {
	epoch  core.Epoch
	raw    bool
	cancel context.CancelCauseFunc
}

// Bounds of what is remembered of actions.
const (
	maxKept = 256  // last words that the daemon may not have taken
	maxSeen = 4096 // identifiers that must not run again
)

// ledger remembers which actions this host has begun, and how they ended until
// the daemon says that nothing more is expected of them. Results are not kept: a
// link that is lost ends the epoch for which they were observed.
type ledger struct {
	ended    map[core.ActionID]wire.ActionDone
	endOrder []core.ActionID
	seen     map[core.ActionID]bool
	order    []core.ActionID
}

// begin notes an action, and says whether it is new here.
func (l *ledger) begin(id core.ActionID) bool {
	if l.seen[id] {
		return false
	}
	if l.seen == nil {
		l.seen = map[core.ActionID]bool{}
	}
	l.seen[id] = true
	if l.order = append(l.order, id); len(l.order) > maxSeen {
		delete(l.seen, l.order[0])
		l.order = append(l.order[:0:0], l.order[1:]...)
	}
	return true
}

func (l *ledger) keep(d wire.ActionDone) {
	if l.ended == nil {
		l.ended = map[core.ActionID]wire.ActionDone{}
	}
	d.Result = nil
	l.ended[d.Action] = d
	l.endOrder = append(l.endOrder, d.Action)
	for len(l.endOrder) > maxKept {
		delete(l.ended, l.endOrder[0])
		l.endOrder = l.endOrder[1:]
	}
}

func (l *ledger) forget(id core.ActionID) {
	delete(l.ended, id)
	for i, e := range l.endOrder {
		if e == id {
			l.endOrder = append(l.endOrder[:i], l.endOrder[i+1:]...)
			return
		}
	}
}

// kept returns the last words not yet forgotten, oldest first.
func (l *ledger) kept() []wire.ActionDone {
	var out []wire.ActionDone
	for _, id := range l.endOrder {
		if d, ok := l.ended[id]; ok {
			out = append(out, d)
		}
	}
	return out
}

// takeAction begins an action, or refuses it.
func (h *Host) takeAction(body []byte) {
	var a wire.Action
	if err := json.Unmarshal(body, &a); err != nil || a.Action == "" {
		// With an identifier it is answered all the same: what was malformed was
		// not begun.
		h.log.Error("an action that cannot be read", "err", err)
		// Its epoch, as far as that can be read: the daemon takes no answer without it.
		var id struct {
			Action core.ActionID   `json:"action"`
			Epoch  json.RawMessage `json:"epoch"`
		}
		if json.Unmarshal(body, &id) == nil && id.Action != "" {
			var epoch core.Epoch
			_ = json.Unmarshal(id.Epoch, &epoch)
			h.finish(refusedAction(wire.Action{Action: id.Action, Epoch: epoch},
				core.Refuse(core.CodeInvalid, "the action cannot be read", "see the table of verbs for the arguments")))
		}
		return
	}
	h.mu.Lock()
	refused := h.gate.Check(a.Epoch)
	if refused == nil && h.full(a.Raw) {
		refused = core.Refuse(core.CodeBusy, "too many actions run in this browser", "wait until one of them ends")
	}
	if refused == nil && h.stopped[a.Action] {
		refused = nobodyWaits
	}
	delete(h.stopped, a.Action)
	if refused != nil {
		h.mu.Unlock()
		h.finish(refusedAction(a, refused))
		return
	}
	if !h.ledger.begin(a.Action) {
		again, ended := h.ledger.ended[a.Action]
		_, running := h.running[a.Action]
		h.mu.Unlock()
		switch {
		case ended:
			h.finish(act.Done{ActionDone: again})
		case !running:
			h.finish(act.Done{ActionDone: wire.ActionDone{
				Action: a.Action, Epoch: a.Epoch, State: "unknown",
				Error: core.Refuse(core.CodeOutcomeUnknown, "this action ran before and what became of it is no longer known here", "look it up; do not send it again"),
			}})
		}
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	h.running[a.Action] = &underway{a.Epoch, a.Raw, cancel}
	h.mu.Unlock()
	wait := func() act.Done { return h.exec.Run(ctx, a) }
	if a.Raw {
		wait = h.exec.Begin(ctx, a, func(seen act.Answer) { h.tellClient(a, seen) })
	}
	go func() {
		defer cancel(nil)
		done := wait()
		if a.Raw {
			h.behindFence()
		}
		h.mu.Lock()
		delete(h.running, a.Action)
		for seq, s := range h.steps {
			if s.Cmd.Action == a.Action {
				delete(h.steps, seq)
			}
		}
		h.mu.Unlock()
		h.finish(done)
		if len(body) > bigMessage {
			freeSoon()
		}
	}()
}

// stopAction ends the wait for one action. What was dispatched is not taken back.
func (h *Host) stopAction(body []byte) {
	var m wire.ActionStop
	if err := json.Unmarshal(body, &m); err != nil {
		h.log.Error("a message that cannot be read", "t", "action.stop", "err", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.running[m.Action]; u != nil && u.epoch == m.Epoch {
		u.cancel(nobodyWaits)
	} else if h.gate.Check(m.Epoch) == nil && !h.ledger.seen[m.Action] && len(h.stopped) < maxRaw {
		// It is still on its way here.
		h.stopped[m.Action] = true
	}
}

var nobodyWaits = core.Refuse(core.CodeUnavailable, "the client that asked has gone away", "look the action up; do not send it again")

// maxRaw is how many commands of DevTools clients may be unanswered at a time.
const maxRaw = 4096

// full says whether one more action would be too many. The caller holds the mutex.
func (h *Host) full(raw bool) bool {
	n := 0
	for _, u := range h.running {
		if u.raw == raw {
			n++
		}
	}
	if raw {
		return n >= maxRaw
	}
	return n >= act.MaxRunning
}

// tellClient passes the answer to a raw command on. It is called by the reader of the
// browser's stream, so that answers and events keep their order.
func (h *Host) tellClient(a wire.Action, seen act.Answer) {
	m := wire.CDPAnswer{Action: a.Action, Epoch: a.Epoch}
	if seen.Observed != nil {
		m.Observed = *seen.Observed
	}
	if !seen.OK {
		m.Error = act.ClientError(a.Class, seen)
	}
	h.mu.Lock()
	link := h.link
	refused := h.gate.Check(a.Epoch)
	h.mu.Unlock()
	if link == nil || refused != nil {
		return // what was seen under an epoch that has ended is nobody's
	}
	body, err := wire.Marshal(m)
	if err != nil {
		panic("host: " + err.Error())
	}
	if !seen.OK || len(seen.Result) == 0 {
		link.send(body)
		return
	}
	link.send(append(body[:len(body)-1], `,"result":`...), seen.Result, []byte("}"))
}

func refusedAction(a wire.Action, e *core.Error) act.Done {
	return act.Done{ActionDone: wire.ActionDone{Action: a.Action, Epoch: a.Epoch, State: "refused", Error: e}}
}

// stopRunning ends the actions for which why gives a reason. The caller holds the
// mutex.
func (h *Host) stopRunning(why func(*underway) *core.Error) {
	for _, u := range h.running {
		if e := why(u); e != nil {
			u.cancel(e)
		}
	}
}

// everyone ends every action for one reason.
func everyone(e *core.Error) func(*underway) *core.Error {
	return func(*underway) *core.Error { return e }
}

// finish gives the daemon an action's last word, and keeps it until it is forgotten.
func (h *Host) finish(d act.Done) {
	h.mu.Lock()
	if _, again := h.ledger.ended[d.Action]; !again {
		h.ledger.keep(d.ActionDone)
	}
	link := h.link
	h.mu.Unlock()
	h.log.Debug("action ended", "action", d.Action, "epoch", d.Epoch, "state", d.State)
	if link != nil {
		link.send(doneMessage(d)...)
	}
}

// doneMessage encodes an action's last word, in pieces, so that the result is not
// copied.
func doneMessage(d act.Done) [][]byte {
	d.ActionDone.Result = nil
	body, err := wire.Marshal(d.ActionDone)
	if err != nil {
		panic("host: " + err.Error())
	}
	if len(d.Result) == 0 {
		return [][]byte{body}
	}
	out := make([][]byte, 0, len(d.Result)+2)
	out = append(out, append(body[:len(body)-1], `,"result":`...))
	out = append(out, d.Result...)
	return append(out, []byte("}"))
}
