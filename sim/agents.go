package main

import (
	"fmt"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// agent is a program with one delegation for each binding.
type agent struct {
	name    core.AgentName
	tokens  map[core.BindingName]string
	leases  []*lease
	actions []*asked
	n       int
}

// lease is what an agent knows of one.
type lease struct {
	id      core.LeaseID
	cap     string
	binding core.BindingName
	slot    core.SlotName
	request string
	over    bool
}

// asked is an action that an agent has asked for.
type asked struct {
	in    core.Act
	act   wire.Act
	lease *lease
}

// submit asks the daemon, if there is one.
func (w *world) submit(in core.Input, reply func(core.Result)) {
	if w.daemon != nil {
		w.daemon.submit(in, reply)
	}
}

func (w *world) acquire(a *agent, binding core.BindingName, slot core.SlotName, waitMs int64) {
	l := &lease{id: core.LeaseID(w.id("lease-")), binding: binding, slot: slot, request: w.id("r-")}
	l.cap = "cap-" + string(l.id)
	in := core.Acquire{
		Lease: l.id, Token: a.tokens[binding], CapHash: l.cap, RequestID: l.request, Binding: binding,
		ForMs: int64(pick(w, []int{4_000, 20_000, 30_000})), WaitMs: waitMs,
	}
	w.submit(in, func(res core.Result) {
		if res.Refusal != nil {
			l.over = true
		}
	})
	a.leases = append(a.leases, l)
}

// again asks once more with the same request, as a client does whose answer was lost.
func (w *world) again(a *agent, l *lease) {
	id := core.LeaseID(w.id("lease-"))
	fresh := "cap-" + string(id)
	w.submit(core.Acquire{
		Lease: id, Token: a.tokens[l.binding], CapHash: fresh, RequestID: l.request, Binding: l.binding, ForMs: 20_000, WaitMs: 10_000,
	}, func(res core.Result) {
		if res.Refusal == nil && res.Lease != nil {
			l.id, l.cap, l.over = res.Lease.ID, fresh, false
		}
	})
}

// act asks for one action.
func (w *world) act(a *agent, l *lease, verb string) {
	if w.daemon == nil {
		return
	}
	s := w.disk.slots[l.slot]
	epoch := s.Epoch
	switch w.rng.IntN(30) {
	case 0:
		epoch-- // one that has ended
	case 1:
		epoch = pick(w, []core.Epoch{epoch + 1, core.MaxEpoch, 1<<64 - 1, 0})
	}
	a.n++
	info, _ := wire.Verb(verb)
	class := core.Read
	if info.Write {
		class = core.Write
	}
	in := core.Act{
		Action: core.ActionID(w.id("A")), Lease: l.id, Cap: l.cap, ID: core.ClientID(fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ6%s%05d", a.letter(), a.n)), Epoch: epoch,
		Verb: verb, Class: class, Summary: verb, BodyHash: verb, NeedsDoc: info.Doc,
		DeadlineMs: int64(pick(w, []int{500, 30_000, 30_000})),
	}
	if verb == "navigate" {
		in.URL = page
	}
	w.askFor(a, &asked{in, wire.Act{Verb: verb}, l})
}

func (a *agent) letter() string { return string("ABCDEFGH"[len(a.name)%8]) }

// ask sends it, and looks at the answer.
func (w *world) askFor(a *agent, q *asked) {
	d := w.daemon
	if d == nil {
		return
	}
	if len(a.actions) == 0 || a.actions[len(a.actions)-1] != q {
		a.actions = append(a.actions, q)
		w.truth.asked(q.in, q.lease.slot, a.name, q.lease.binding)
	}
	d.asked[q.in.Action] = q.act
	d.submit(q.in, func(res core.Result) {
		if res.Repeat || res.Refusal != nil {
			delete(d.asked, q.in.Action)
		}
	})
}

// repeat sends the same request again: the same identifier, a new one of the daemon's.
func (w *world) repeat(a *agent, q *asked) {
	if w.daemon == nil {
		return
	}
	again := *q
	again.in.Action = core.ActionID(w.id("A"))
	again.in.Lease, again.in.Cap = q.lease.id, q.lease.cap
	if s := w.disk.slots[q.lease.slot]; w.one(2) {
		again.in.Epoch = s.Epoch
	}
	if w.one(4) {
		again.in.BodyHash = "another"
	}
	w.askFor(a, &again)
}

// look reads what an action has seen, as its lease may while its epoch lasts.
func (w *world) look(q *asked) {
	d := w.daemon
	if d == nil {
		return
	}
	a := w.disk.actions[q.in.Action]
	if a == nil || a.Lease != q.lease.id {
		return
	}
	if a.Over || !d.reg.Grants(a.Slot, a.Epoch) {
		d.forget(a.Action)
		return
	}
	if seen := d.kept[a.Action]; len(seen) > 0 {
		w.count.told++
		w.truth.told(w, a, string(seen))
	}
}
