package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/fence"
	"sessiondock.dev/sessiondock/daemon/heard"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// daemon is one life of the daemon: the rules of package engine, with every place where
// it can die marked by point. What it decides, core.Step decides; which numbers are out,
// the fence register knows.
type daemon struct {
	w       *world
	state   *core.State // with what is decided and not committed
	seen    *core.State // what is committed
	reg     *fence.Register
	inbox   []ask
	held    []ask
	closed  bool // the database is to be opened again
	conns   map[core.SlotName]*conn
	asked   map[core.ActionID]wire.Act
	kept    map[core.ActionID]json.RawMessage
	jobs    []*job
	ticking bool
}

type ask struct {
	in    core.Input
	reply func(core.Result) // nil: nobody waits
}

// conn is one attested connection of a host.
type conn struct {
	slot       *slot
	host       *host
	nonce      core.Nonce
	down, up   []string // to the host, to the daemon
	daemonGone bool     // the daemon's end is closed
	hostGone   bool
	welcomed   bool // a welcome was sent on it
}

func (c *conn) post(m any) { c.up = append(c.up, encode(m)) }

// job is something that the daemon does beside its writer: a launch being started,
// watched or stopped. It dies with the daemon.
type job struct {
	wait func() bool // not yet; nil: at any time
	do   func()
}

// crashed is thrown where the daemon dies.
type crashed struct{ where string }

// point is a place where the daemon can die, and where a person can come between.
func (d *daemon) point(where string) {
	w := d.w
	w.count.points[where]++
	if w.calm || w.faultsLeft == 0 {
		return
	}
	switch w.rng.IntN(60) {
	case 0:
		w.faultsLeft--
		w.count.crashes[where]++
		panic(crashed{where})
	case 1, 2:
		if s := pick(w, w.slots); w.one(2) {
			d.takeover(core.Takeover{Slot: s.name, Surface: "cli", By: "human:cli"}, nil)
		}
	}
}

// startDaemon starts a daemon on what is on the disk.
func (w *world) startDaemon() {
	w.logf("daemon starts")
	state, err := w.disk.load()
	if err != nil {
		w.violated("I14", "the journal cannot be read: %v", err)
		return
	}
	state.Capacity = w.capacity
	d := &daemon{
		w: w, state: state, reg: fence.New(), conns: map[core.SlotName]*conn{},
		asked: map[core.ActionID]wire.Act{}, kept: map[core.ActionID]json.RawMessage{},
	}
	before := d.copied()
	res := core.Step(d.state, w.now(), nil, core.Restarted{})
	w.count.step(d.state, core.Restarted{}, res)
	d.point("start: before commit")
	if w.disk.commit(&res.Delta, true) != nil {
		w.logf("daemon cannot write, and ends")
		return
	}
	w.daemon = d
	d.state.Apply(&res.Delta)
	d.checked(before, core.Restarted{})
	d.seen = d.state.Clone()
	w.truth.committed(w, &res.Delta)
	w.truth.reopened(d.state)
	w.truth.restarted(w, d.state)
	d.reg.Sync(slices.Collect(maps.Values(d.state.Slots)))
	for _, name := range sorted(d.state.Slots) {
		if s := d.state.Slots[name]; s.Launch.Live() {
			d.adopt(w.slotOf(name), *s.Launch)
		}
	}
	d.point("start: after commit")
	d.effects(res.Effects)
}

func sorted[K ~string, V any](m map[K]V) []K {
	keys := slices.Collect(maps.Keys(m))
	slices.Sort(keys)
	return keys
}

// copied is the state before a step, as far as the invariants compare.
func (d *daemon) copied() *core.State {
	return &core.State{Slots: maps.Clone(d.state.Slots), Actions: maps.Clone(d.state.Actions), Leases: maps.Clone(d.state.Leases), Seq: d.state.Seq}
}

func (d *daemon) checked(before *core.State, in core.Input) {
	d.w.truth.step(d.w, before, d.state, in)
	if err := core.CheckInvariants(before, d.state); err != nil {
		d.w.violated("invariant", "after %T %+v: %v", in, in, err)
	}
}

// die ends the daemon, wherever it is.
func (d *daemon) die(where string) {
	w := d.w
	w.logf("daemon dies: %s", where)
	w.truth.died()
	for _, name := range sorted(d.conns) {
		d.conns[name].daemonGone = true
	}
	w.daemon = nil
}

// enqueue submits what nobody waits for.
func (d *daemon) enqueue(in core.Input) { d.inbox = append(d.inbox, ask{in: in}) }

// submit asks for something and hears the answer.
func (d *daemon) submit(in core.Input, reply func(core.Result)) {
	if reply == nil {
		reply = func(core.Result) {}
	}
	d.inbox = append(d.inbox, ask{in, reply})
}

type decided struct {
	ask
	res core.Result
}

// batch is one round of the writer.
func (d *daemon) batch() {
	w := d.w
	if d.closed {
		d.open()
		return
	}
	n := 1
	if len(d.inbox) > 1 && w.one(3) {
		n = 1 + w.rng.IntN(min(len(d.inbox), 4))
	}
	take := slices.Clone(d.inbox[:n])
	d.inbox = slices.Clone(d.inbox[n:])
	d.carryOut(take)
}

func (d *daemon) carryOut(take []ask) {
	w := d.w
	var all []decided
	var delta core.Delta
	for _, r := range take {
		res := d.decide(r.in)
		delta.Merge(&res.Delta)
		all = append(all, decided{r, res})
	}
	d.point("before a commit")
	if !delta.Empty() {
		if err := w.disk.commit(&delta, w.one(2)); err != nil {
			w.logf("commit fails")
			for _, x := range all {
				d.putOff(x.ask)
			}
			d.closed = true
			return
		}
		w.truth.committed(w, &delta)
	}
	d.point("after a commit")
	d.reg.Sync(delta.Slots)
	for i := range all {
		d.show(&all[i].res.Delta)
	}
	for _, x := range all {
		d.effects(x.res.Effects)
		if x.reply != nil {
			x.reply(x.res)
		}
	}
}

func (d *daemon) show(delta *core.Delta) {
	d.seen.Apply(delta)
	for _, a := range delta.Actions {
		if a.Over {
			d.forget(a.Action)
		}
	}
}

func (d *daemon) forget(id core.ActionID) {
	delete(d.asked, id)
	delete(d.kept, id)
}

// decide steps the state, again if a takeover took a number that the step wanted.
func (d *daemon) decide(in core.Input) core.Result {
	w := d.w
	var own core.Epoch
	if taken, ok := in.(core.Takeover); ok {
		own = taken.Epoch
	}
	for try := 0; ; try++ {
		if try > 50 {
			w.violated("liveness", "the writer decides %T for ever", in)
			return core.Result{}
		}
		floor := d.reg.Floor()
		res := core.Step(d.state, w.now(), floor, in)
		if w.faultsLeft > 0 && !w.calm {
			// A person comes between the decision and its numbers, most of all if it has some.
			slot, often := pick(w, w.slots).name, 40
			for _, s := range res.Delta.Slots {
				if old := d.state.Slots[s.Name]; old != nil && s.Epoch > old.Epoch {
					slot, often = s.Name, 12
				}
			}
			if w.one(often) {
				w.count.points["between step and claim"]++
				d.takeover(core.Takeover{Slot: slot, Surface: "cli", By: "human:cli"}, nil)
			}
		}
		if !d.reg.Claim(d.state.Slots, &res.Delta, own) {
			w.count.points["decided again"]++
			continue
		}
		w.count.step(d.state, in, res)
		if w.trace != nil {
			w.logf("step %T %s", in, describe(in, res))
		}
		before := d.copied()
		d.state.Apply(&res.Delta)
		d.checked(before, in)
		return res
	}
}

func describe(in core.Input, res core.Result) string {
	text, _ := json.Marshal(in)
	out := string(text)
	if res.Refusal != nil {
		out += " refused: " + string(res.Refusal.Code) + " " + res.Refusal.Message
	}
	for _, s := range res.Delta.Slots {
		out += fmt.Sprintf(" [%s epoch %d %s %s %s]", s.Name, s.Epoch, s.Holder.Kind, s.Holder.Name, s.Fence.State)
	}
	for _, a := range res.Delta.Actions {
		out += fmt.Sprintf(" [%s %s %s]", a.Action, a.Local, a.Remote)
	}
	for _, e := range res.Effects {
		out += fmt.Sprintf(" %T", e)
	}
	return out
}

// putOff answers a request that cannot be recorded now. What links and the supervisor
// have seen is kept: it happened.
func (d *daemon) putOff(r ask) {
	if r.reply == nil {
		if _, tick := r.in.(core.Tick); !tick {
			d.held = append(d.held, r)
		}
		return
	}
	r.reply(core.Result{Refusal: core.Refuse(core.CodeUnavailable, "the database cannot be written", "")})
}

// open reads the database anew after a commit that failed, as after a restart, with the
// takeovers that are out already.
func (d *daemon) open() {
	w := d.w
	for _, r := range d.inbox {
		d.putOff(r)
	}
	d.inbox = nil
	if w.disk.full {
		return
	}
	state, err := w.disk.load()
	if err != nil {
		w.violated("I14", "the journal cannot be read: %v", err)
		return
	}
	state.Links, state.Probes, state.MemoryMB, state.Capacity = maps.Clone(d.seen.Links), maps.Clone(d.seen.Probes), d.seen.MemoryMB, w.capacity
	d.state = state
	inputs := []core.Input{core.Restarted{}}
	for _, taken := range d.reg.Unrecorded() {
		inputs = append(inputs, taken)
	}
	var delta core.Delta
	var effects []core.Effect
	for _, in := range inputs {
		before := d.copied()
		res := core.Step(d.state, w.now(), d.reg.Floor(), in)
		w.count.step(d.state, in, res)
		if w.trace != nil {
			w.logf("step %T %s", in, describe(in, res))
		}
		d.state.Apply(&res.Delta)
		d.checked(before, in)
		delta.Merge(&res.Delta)
		effects = append(effects, res.Effects...)
	}
	d.point("reopen: before commit")
	if w.disk.commit(&delta, w.one(2)) != nil {
		return
	}
	w.truth.committed(w, &delta)
	w.truth.reopened(d.state)
	d.closed = false
	d.seen = d.state.Clone()
	d.reg.Sync(slices.Collect(maps.Values(d.state.Slots)))
	d.effects(effects)
	held := d.held
	d.held = nil
	for i, r := range held {
		if d.closed {
			d.held = append(d.held, held[i:]...)
			return
		}
		d.carryOut([]ask{r})
	}
}

func (d *daemon) effects(effects []core.Effect) {
	for _, eff := range effects {
		d.point(fmt.Sprintf("before %T", eff))
		d.carry(eff)
		d.point(fmt.Sprintf("after %T", eff))
	}
}

// carry carries one effect out, unless the register has left its epoch behind.
func (d *daemon) carry(eff core.Effect) {
	switch eff := eff.(type) {
	case core.SendWelcome:
		d.send(eff.Slot, func(c *conn) any {
			c.welcomed = true
			return wire.Welcome{Nonce: c.nonce, Epoch: d.seen.Slots[eff.Slot].Epoch, Seq: d.seen.Slots[eff.Slot].Told, Apart: eff.Apart}
		})
	case core.SendFence:
		if c := d.conns[eff.Slot]; c != nil && d.reg.Due(eff.Slot, eff.Epoch, c.nonce) {
			eff.Person = eff.Person || d.reg.Person(eff.Slot)
			d.sendFence(eff)
		}
	case core.SendPoke:
		if d.reg.Grants(eff.Slot, eff.Epoch) {
			d.send(eff.Slot, func(c *conn) any { return wire.Poke{Nonce: c.nonce} })
		}
	case core.SendGrant:
		if eff.Epoch != 0 && !d.reg.Grants(eff.Slot, eff.Epoch) {
			eff.Epoch = 0
		}
		d.send(eff.Slot, func(c *conn) any {
			if c.nonce != eff.Nonce {
				return nil
			}
			return wire.Grant{Nonce: c.nonce, Ask: eff.Ask, Epoch: eff.Epoch, Lease: eff.Lease, TTLMs: eff.TTLMs, Origins: eff.Origins, Allow: eff.Allow, WatchMs: eff.WatchMs}
		})
	case core.SendAction:
		act, ok := d.asked[eff.Action]
		delete(d.asked, eff.Action)
		if !d.reg.Grants(eff.Slot, eff.Epoch) {
			return
		}
		a := d.seen.Actions[eff.Action]
		left := a.Deadline.LeftMs(d.w.now())
		if !ok || left <= 0 {
			d.enqueue(core.Overdue{Action: eff.Action})
			return
		}
		d.send(eff.Slot, func(*conn) any {
			return wire.Action{Action: eff.Action, Epoch: eff.Epoch, Class: a.Class, DeadlineMs: left, Expect: a.Expect, Act: act}
		})
	case core.SendForget:
		d.send(eff.Slot, func(c *conn) any {
			return wire.Forget{Nonce: c.nonce, Seq: d.seen.Slots[eff.Slot].Told, Actions: eff.Actions}
		})
	case core.SendStopPage:
		if d.reg.Current(eff.Slot, eff.Epoch) {
			d.send(eff.Slot, func(c *conn) any { return wire.StopPage{Nonce: c.nonce, Epoch: eff.Epoch, Tabs: refs(eff.Tabs)} })
		}
	case core.SendProbe:
		if d.reg.Current(eff.Slot, eff.Epoch) {
			d.send(eff.Slot, func(c *conn) any {
				return wire.Probe{
					Nonce: c.nonce, Probe: eff.Probe, Epoch: eff.Epoch,
					URL: eff.URL, Selector: eff.Selector, Expression: eff.Expression, WaitMs: eff.WaitMs,
				}
			})
		}
	case core.TrimJournal:
		if err := d.w.disk.trim(eff.UpTo); err != nil {
			d.w.violated("I14", "the journal cannot be trimmed: %v", err)
		}
	case core.StartLaunch:
		d.start(eff)
	case core.StopLaunch:
		d.stop(eff)
	default:
		panic(fmt.Sprintf("sim: effect %T is not carried out", eff))
	}
}

func refs(tabs []core.Tab) []wire.TabRef {
	out := make([]wire.TabRef, len(tabs))
	for i, t := range tabs {
		out[i] = wire.TabRef{Tab: t.Tab}
	}
	return out
}

func (d *daemon) send(name core.SlotName, make func(*conn) any) {
	c := d.conns[name]
	if c == nil || c.daemonGone {
		return
	}
	if m := make(c); m != nil {
		c.down = append(c.down, encode(m))
	}
}

func (d *daemon) sendFence(eff core.SendFence) {
	d.send(eff.Slot, func(c *conn) any {
		return wire.Fence{
			Nonce: c.nonce, Epoch: eff.Epoch, Seq: d.seen.Slots[eff.Slot].Told, Person: eff.Person, FromPerson: eff.FromPerson, Hold: eff.Hold,
			DeadlineMs: core.DrainMs, WatchMs: eff.WatchMs,
		}
	})
}

// takeover gives a slot to a person: number and fence first, the record after.
func (d *daemon) takeover(in core.Takeover, reply func(core.Result)) {
	if reply == nil {
		reply = func(core.Result) {}
	}
	var up core.Nonce
	watchMs := int64(core.DefaultWatchMs)
	if d.seen != nil {
		if l, c := d.seen.Links[in.Slot], d.conns[in.Slot]; l.Up() && c != nil && c.nonce == l.Nonce && c.welcomed {
			up = l.Nonce
		}
		watchMs = core.WatchMs(d.seen, in.Slot)
	}
	had := d.reg.Person(in.Slot)
	out, err := d.reg.Takeover(in, up)
	if err != nil {
		reply(core.Result{Refusal: err})
		return
	}
	d.w.truth.took(d.w, out, had)
	d.w.logf("takeover of %s issues epoch %d, again %v", in.Slot, out.Epoch, out.Again)
	f := core.SendFence{Slot: in.Slot, Epoch: out.Epoch, Person: true, FromPerson: out.FromHuman, Hold: in.Hold, WatchMs: watchMs}
	if out.Again {
		f.Person = d.reg.Person(in.Slot)
		d.sendFence(f)
		if !f.Person {
			d.send(in.Slot, func(c *conn) any { return wire.Poke{Nonce: c.nonce} })
		}
		reply(core.Result{Repeat: true})
		return
	}
	d.submit(out.Takeover, reply)
	d.sendFence(f)
}

// Links.

// attach takes a host's connection for the slot's link.
func (d *daemon) attach(h *host) {
	w := d.w
	name := h.b.slot.name
	c := &conn{slot: h.b.slot, host: h, nonce: core.Nonce(w.id("nonce-"))}
	if old := d.conns[name]; old != nil {
		old.daemonGone = true
		d.enqueue(core.LinkLost{Slot: name, Nonce: old.nonce, Why: "replaced by a new host"})
	}
	d.conns[name] = c
	d.enqueue(core.LinkUp{Slot: name, Nonce: c.nonce})
	h.linked(c)
}

// detach is the end of a link, as the daemon learns of it.
func (d *daemon) detach(c *conn, why string) {
	c.daemonGone = true
	if d.conns[c.slot.name] == c {
		delete(d.conns, c.slot.name)
	}
	d.enqueue(core.LinkLost{Slot: c.slot.name, Nonce: c.nonce, Why: why})
}

// hear takes what is first from a host.
func (d *daemon) hear(c *conn) {
	text := []byte(c.up[0])
	c.up = c.up[1:]
	kind, err := wire.Type(text)
	if err != nil {
		panic(err)
	}
	name := c.slot.name
	switch kind {
	case "hello":
		d.enqueue(heard.Hello(name, decode[wire.Hello](text)))
	case "fenced":
		in := heard.Fenced(name, decode[wire.Fenced](text))
		if in.Nonce == c.nonce {
			d.reg.Acknowledge(in.Slot, in.Epoch)
		}
		d.enqueue(in)
	case "drained":
		d.enqueue(heard.Drained(name, decode[wire.Drained](text)))
	case "document.found":
		d.enqueue(heard.DocumentFound(name, decode[wire.DocumentFound](text)))
	case "document.ended":
		d.enqueue(heard.DocumentEnded(name, decode[wire.DocumentEnded](text)))
	case "report":
		d.enqueue(heard.Reported(name, decode[wire.Report](text)))
	case "pull":
		d.enqueue(heard.Pull(name, decode[wire.Pull](text)))
	case "granted":
		d.enqueue(heard.Granted(name, decode[wire.Granted](text)))
	case "probe.result":
		d.enqueue(heard.ProbeDone(name, decode[wire.ProbeResult](text)))
	case "action.done":
		m := decode[wire.ActionDone](text)
		if d.reg.Grants(name, m.Epoch) && len(m.Result) > 0 && d.kept[m.Action] == nil {
			d.kept[m.Action] = m.Result
		}
		d.enqueue(heard.Done(name, c.nonce, m))
	case "person.hold":
		m := decode[wire.PersonHold](text)
		if m.Nonce != c.nonce {
			return
		}
		d.takeover(core.Takeover{Slot: name, Surface: "popup", Hold: m.Hold.ID, By: "human:popup"}, func(res core.Result) {
			if res.Refusal == nil && !res.Repeat && m.Hold.StopPage {
				d.submit(core.StopPage{Slot: name, Tabs: heard.Tabs(m.Hold.Tabs), By: "human:popup"}, nil)
			}
		})
	case "person.call":
		m := decode[wire.PersonCall](text)
		if m.Nonce == c.nonce {
			d.call(c, m)
		}
	}
}

func decode[T any](text []byte) *T {
	m := new(T)
	if err := json.Unmarshal(text, m); err != nil {
		panic(err)
	}
	return m
}

// call is a verb of the popup.
func (d *daemon) call(c *conn, m *wire.PersonCall) {
	const by = "human:popup"
	name := c.slot.name
	ifEpoch := &m.IfEpoch
	if m.IfEpoch == 0 {
		ifEpoch = nil
	}
	reply := func(res core.Result) {
		if !c.daemonGone {
			c.down = append(c.down, encode(wire.PersonReply{Nonce: c.nonce, ID: m.ID, Error: res.Refusal}))
		}
	}
	switch m.Verb {
	case "handback":
		d.submit(core.Handback{Slot: name, To: m.To, IfEpoch: ifEpoch, Confirm: m.Confirm, By: by}, reply)
	case "stop_page":
		d.submit(core.StopPage{Slot: name, IfEpoch: ifEpoch, Tabs: heard.Tabs(m.Tabs), By: by}, reply)
	case "takeover":
		d.takeover(core.Takeover{Slot: name, Surface: "popup", IfEpoch: ifEpoch, FromPerson: m.From, By: by}, reply)
	}
}

// Launches.

// insist submits what the supervisor has seen until it is recorded.
func (d *daemon) insist(in core.Input) {
	d.submit(in, func(res core.Result) {
		if res.Refusal != nil && res.Refusal.Code == core.CodeUnavailable && !d.w.isOver(d) {
			d.jobs = append(d.jobs, &job{do: func() { d.insist(in) }})
		}
	})
}

func (w *world) isOver(d *daemon) bool { return w.daemon != d }

// start starts a launch: recorded, started, recorded, watched.
func (d *daemon) start(eff core.StartLaunch) {
	w := d.w
	s := w.slotOf(eff.Slot)
	id := core.LaunchID(w.id("launch-"))
	launch := func() {
		// One that a restored copy does not know may still have the profile. Chromium does not
		// run twice on one.
		if len(s.browsers) > 0 || !w.calm && w.one(12) {
			d.insist(core.LaunchEnded{Slot: eff.Slot, Launch: id, Verified: true, Containment: "weak", How: "it did not start"})
			return
		}
		b := w.startBrowser(s, id, eff.Generation)
		d.insist(core.LaunchRunning{Slot: eff.Slot, Launch: id, Identity: identity})
		d.watch(s, b, id)
	}
	d.jobs = append(d.jobs, &job{do: func() {
		d.submit(core.LaunchStarting{Slot: eff.Slot, Generation: eff.Generation, Launch: id, SecretHash: "s"}, func(res core.Result) {
			if res.Refusal == nil && !w.isOver(d) {
				d.jobs = append(d.jobs, &job{do: launch})
			}
		})
	}})
}

// watch reports a launch's end, once it has ended. Now and then the supervisor cannot
// tell what is left of it.
func (d *daemon) watch(s *slot, b *browser, id core.LaunchID) {
	d.jobs = append(d.jobs, &job{
		wait: func() bool { return slices.Contains(s.browsers, b) },
		do:   func() { d.launchEnded(s, id, d.w.calm || !d.w.one(6), "it ended by itself") },
	})
}

// adopt finds a launch again that a former daemon had started.
func (d *daemon) adopt(s *slot, l core.Launch) {
	d.jobs = append(d.jobs, &job{do: func() {
		b := s.running(l.ID)
		if b == nil {
			d.launchEnded(s, l.ID, d.w.calm || !d.w.one(6), "its keeper was not found")
			return
		}
		if l.State == "starting" {
			d.insist(core.LaunchRunning{Slot: s.name, Launch: l.ID, Identity: identity})
		}
		d.watch(s, b, l.ID)
	}})
}

// identity is what the supervisor tells of every launch here.
var identity = core.Identity{Containment: "weak", KeeperPID: 10, KeeperStart: 20}

func (s *slot) running(id core.LaunchID) *browser {
	for _, b := range s.browsers {
		if b.launch == id {
			return b
		}
	}
	return nil
}

func (d *daemon) launchEnded(s *slot, id core.LaunchID, verified bool, how string) {
	d.insist(core.LaunchEnded{Slot: s.name, Launch: id, Verified: verified, Containment: "weak", Clean: how == "stopped", How: how})
}

// stop ends a launch. Now and then it cannot be verified that it has ended, and then it
// may go on.
func (d *daemon) stop(eff core.StopLaunch) {
	w := d.w
	s := w.slotOf(eff.Slot)
	d.jobs = append(d.jobs, &job{do: func() {
		l := d.seen.Slots[eff.Slot].Launch
		if l == nil || l.ID != eff.Launch {
			return // a stale stop
		}
		b := s.running(eff.Launch)
		verified := w.calm || !w.one(5)
		if b != nil && (verified || w.one(2)) {
			b.quit()
		}
		d.launchEnded(s, eff.Launch, verified, "stopped")
	}})
}
