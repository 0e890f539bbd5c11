package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/fence"
	"sessiondock.dev/sessiondock/host/gate"
)

const (
	slot    core.SlotName    = "shop"
	binding core.BindingName = "b"
	launch  core.LaunchID    = "launch"
	hold    core.HoldID      = "press"
	boot                     = "boot"

	leaseMs  = 100_000
	actionMs = 30_000
	jumpMs   = 33_000 // longer than every deadline but the lease's
)

// Bounds say how often something may happen. Everything else is unbounded.
type Bounds struct {
	Acts      int `json:"acts"`      // of each agent, writes
	Resumes   int `json:"resumes"`   // of each agent
	Releases  int `json:"releases"`  // of each agent
	Takeovers int `json:"takeovers"` // at the terminal, or pressed
	Handbacks int `json:"handbacks"`
	Restarts  int `json:"restarts"`
	Faults    int `json:"faults"` // of the link: a message lost, doubled or swapped with the next, a cut
	Jumps     int `json:"jumps"`  // of time, beyond every deadline of fence, drain, claim, grant and action
}

// auth is a state of the authority, with its canonical form.
type auth struct {
	*core.State
	key string
}

// register is a state of the fence register.
type register struct {
	*fence.Register
	key string
}

func keyed(r *fence.Register) *register { return &register{r, r.String()} }

// input waits for the writer.
type input struct {
	in  core.Input
	key string
}

// message is one on its way up, as the host passes it on.
type message struct {
	in   core.Input // nil: a press
	hold core.HoldID
	key  string
}

// run is the action that the host carries out.
type run struct {
	action  core.ActionID
	epoch   core.Epoch
	endMs   int64
	written bool // its one command has been given to the extension
}

// agent is what an agent may still do.
type agent struct{ acquires, acts, resumes, releases int }

// node is a state of the world. It is a value; what it points to is never changed.
type node struct {
	nowMs  int64
	left   Bounds // what may still happen
	agents [2]agent

	// The daemon.
	up      bool
	begun   bool // the first commit of its life has been made
	stage   int  // of the writer: idle, decided, committed
	state   *auth
	seen    *auth // committed
	disk    *auth
	reg     *register
	delta   *core.Delta
	effects []core.Effect
	said    string // the effects, canonical
	inbox   []input

	// The link: the daemon's end and the host's.
	nonces       int
	conn         core.Nonce // the daemon's, empty without one
	hostConn     core.Nonce // the host's
	daemonGone   bool       // the host's connection has no daemon any more
	hostGone     bool       // the daemon's has no host any more
	down         []Down
	upward       []message
	gate         gate.Gate
	open         core.Epoch // what the last grant or fence allows, kept beside the gate to judge it
	run          run
	begunActions []core.ActionID
	kept         []core.Done
	out          []Down // not yet written to the extension
	pipe         []Down // written, not yet read there

	ext  Extension
	page []core.ActionID // commands that the page has not come to

	truth truth
}

const (
	idle = iota
	decided
	committed
)

// truth is what has really happened, kept where it happens.
type truth struct {
	dispatched []core.ActionID
	landed     []core.ActionID
	fenced     core.Epoch   // the highest that the extension has acknowledged
	opened     core.Epoch   // the highest for which its gate has opened
	handed     core.Epoch   // at which a person last gave the slot back
	taken      []core.Epoch // numbers that a takeover was given
	issued     string       // each epoch that a grant was committed for, and to whom
}

// violation is thrown where something must not have happened.
type violation struct{ text string }

func violated(rule, format string, args ...any) {
	panic(violation{rule + ": " + fmt.Sprintf(format, args...)})
}

func (n *node) now() core.Now {
	return core.Now{BootID: boot, BootMs: n.nowMs, WallMs: 1_700_000_000_000 + n.nowMs}
}

func push[T any](list []T, v ...T) []T { return append(list[:len(list):len(list)], v...) }

// The daemon.

func (n *node) submit(in core.Input) {
	n.inbox = push(n.inbox, input{in, fmt.Sprintf("%T%+v", in, canonical(in))})
}

// step decides, as the writer does, until no takeover has taken a number that it wants.
func (n *node) step(in core.Input, own core.Epoch, between func()) core.Result {
	for try := 0; ; try++ {
		if try > 4 {
			violated("liveness", "the writer decides %T for ever", in)
		}
		before := n.state.State
		res := core.Step(before, n.now(), n.reg.Floor(), in)
		if between != nil {
			between()
			between = nil
		}
		reg := n.reg.Clone()
		if !reg.Claim(before.Slots, &res.Delta, own) {
			continue
		}
		n.reg = keyed(reg)
		n.apply(before, in, &res.Delta)
		return res
	}
}

func (n *node) apply(before *core.State, in core.Input, d *core.Delta) {
	after := before.Clone()
	after.Apply(d)
	if err := core.CheckInvariants(before, after); err != nil {
		violated("invariant", "after %T %+v: %v", in, in, err)
	}
	if old := before.Slots[slot]; old.Holder.Kind == "human" && after.Slots[slot].Holder.Kind != "human" {
		n.truth.handed = after.Slots[slot].Epoch
	}
	n.state = authKeyed(after)
}

// decide takes what is first in the inbox.
func (n *node) decide(between func()) {
	in := n.inbox[0].in
	n.inbox = n.inbox[1:]
	var own core.Epoch
	if taken, ok := in.(core.Takeover); ok {
		own = taken.Epoch
	}
	n.decidedOn(n.step(in, own, between))
}

func (n *node) decidedOn(res core.Result) {
	n.stage, n.delta, n.effects = decided, &res.Delta, res.Effects
	n.said = ""
	for _, e := range res.Effects {
		n.said += fmt.Sprintf("%T%+v", e, e)
	}
	if res.Delta.Empty() {
		n.stage = committed
		n.seen = n.state
		n.settleStage()
	}
	if n.left.Restarts > 0 || n.left.Takeovers > 0 {
		return
	}
	// Nothing can come between any more: the writer goes through.
	if n.stage == decided {
		n.commit()
	}
	if n.stage == committed {
		n.carryOut()
	}
}

// passOn lets the host read what nothing can happen to any more, and what changes nothing
// but its gate: with no action at the host, it makes no difference when it does.
func (n *node) passOn() {
	for n.left.Faults == 0 && n.hostConn != "" && len(n.down) > 0 && n.down[0].T != "action" && n.run.action == "" && len(n.out) == 0 {
		n.take()
	}
}

func (n *node) settleStage() {
	if n.stage == committed && len(n.effects) == 0 {
		n.stage, n.delta, n.said = idle, nil, ""
	}
}

func (n *node) commit() {
	n.disk, n.seen = n.state, n.state
	reg := n.reg.Clone()
	if n.begun {
		reg.Sync(n.delta.Slots)
	} else {
		reg.Sync(slices.Collect(maps.Values(n.state.Slots)))
		n.begun = true
	}
	n.reg = keyed(reg)
	n.claims(n.delta)
	n.stage = committed
	n.settleStage()
}

func (n *node) carryOut() {
	for _, e := range n.effects {
		n.carry(e)
	}
	n.stage, n.delta, n.effects, n.said = idle, nil, nil, ""
}

// carry carries one effect out, unless the register has left its epoch behind.
func (n *node) carry(e core.Effect) {
	switch e := e.(type) {
	case core.SendWelcome:
		n.send(Down{T: "welcome", Epoch: n.seen.Slots[slot].Epoch, Seq: n.seen.Slots[slot].Told})
	case core.SendFence:
		if n.conn != "" && n.reg.Due(slot, e.Epoch, n.conn) {
			n.sendFence(e.Epoch, e.Person || n.reg.Person(slot), e.FromPerson, e.Hold)
		}
	case core.SendPoke:
		if n.reg.Grants(slot, e.Epoch) {
			n.send(Down{T: "poke"})
		}
	case core.SendGrant:
		if e.Epoch != 0 && !n.reg.Grants(slot, e.Epoch) {
			e.Epoch = 0
		}
		if e.Nonce == n.conn {
			n.send(Down{T: "grant", Ask: e.Ask, Epoch: e.Epoch, Lease: e.Lease, TTLMs: e.TTLMs})
		}
	case core.SendAction:
		if n.reg.Grants(slot, e.Epoch) {
			n.send(Down{T: "action", Action: e.Action, Epoch: e.Epoch})
		}
	case core.SendForget:
		for _, a := range e.Actions {
			n.send(Down{T: "forget", Action: a, Seq: n.seen.Slots[slot].Told})
		}
	default:
		panic(fmt.Sprintf("explore: effect %T is not carried out", e))
	}
}

func (n *node) send(m Down) {
	if n.conn == "" || n.hostGone {
		return
	}
	m.Nonce = n.conn
	n.down = push(n.down, m)
}

func (n *node) sendFence(epoch core.Epoch, person, from bool, hold core.HoldID) {
	n.send(Down{T: "fence", Epoch: epoch, Seq: n.seen.Slots[slot].Told, Person: person, FromPerson: from, Hold: hold, DrainMs: core.DrainMs})
}

// takeover gives the slot to a person: number and fence first, the record after.
func (n *node) takeover(in core.Takeover) {
	var up core.Nonce
	if l := n.seen.Links[slot]; l.Up() {
		up = l.Nonce
	}
	reg := n.reg.Clone()
	out, refused := reg.Takeover(in, up)
	if refused != nil {
		return
	}
	n.reg = keyed(reg)
	if out.Again {
		person := n.reg.Person(slot)
		n.sendFence(out.Epoch, person, out.FromHuman, in.Hold)
		if !person {
			n.send(Down{T: "poke"})
		}
		return
	}
	if out.Epoch > n.lastTaken() {
		n.truth.taken = push(n.truth.taken, out.Epoch)
	}
	n.submit(out.Takeover)
	n.sendFence(out.Epoch, true, out.FromHuman, in.Hold)
}

func (n *node) lastTaken() core.Epoch {
	if len(n.truth.taken) == 0 {
		return 0
	}
	return n.truth.taken[len(n.truth.taken)-1]
}

// die is the daemon's sudden end, wherever it is.
func (n *node) die() {
	n.up, n.begun, n.stage = false, false, idle
	n.state, n.seen, n.reg, n.delta, n.effects, n.said, n.inbox = nil, nil, nil, nil, nil, "", nil
	n.daemonGone = n.hostConn != ""
	n.conn, n.hostGone, n.upward = "", false, nil
}

// start starts a daemon on what is on the disk.
func (n *node) start() {
	s := core.NewState()
	d := core.Delta{
		Slots:       slices.Collect(maps.Values(n.disk.Slots)),
		Bindings:    slices.Collect(maps.Values(n.disk.Bindings)),
		Delegations: slices.Collect(maps.Values(n.disk.Delegations)),
	}
	// In a fixed order: the state's own lists depend on it.
	for _, id := range slices.Sorted(maps.Keys(n.disk.Leases)) {
		d.Leases = append(d.Leases, n.disk.Leases[id])
	}
	for _, id := range slices.Sorted(maps.Keys(n.disk.Actions)) {
		d.Actions = append(d.Actions, n.disk.Actions[id])
	}
	s.Apply(&d)
	s.Seq = n.disk.Seq
	n.up, n.state, n.seen, n.reg = true, authKeyed(s), authKeyed(s), keyed(fence.New())
	res := core.Step(s, n.now(), nil, core.Restarted{})
	n.apply(s, core.Restarted{}, &res.Delta)
	n.decidedOn(res)
}

// Links.

func (n *node) attach() {
	n.nonces++
	old := n.conn
	n.conn, n.hostConn = core.Nonce(fmt.Sprint("n", n.nonces)), core.Nonce(fmt.Sprint("n", n.nonces))
	n.daemonGone, n.hostGone, n.down, n.upward = false, false, nil, nil
	if old != "" {
		n.submit(core.LinkLost{Slot: slot, Nonce: old, Why: "replaced"})
	}
	n.submit(core.LinkUp{Slot: slot, Nonce: n.conn})
	n.gate.Close()
	n.open = 0
	n.forward(Down{T: "link", Up: true, Nonce: n.hostConn})
	for _, d := range n.kept {
		n.done(d)
	}
}

func (n *node) detach() {
	nonce := n.conn
	n.conn, n.hostGone = "", false
	n.submit(core.LinkLost{Slot: slot, Nonce: nonce, Why: "it ended"})
}

// hear takes what is first from the host.
func (n *node) hear() {
	m := n.upward[0]
	n.upward = n.upward[1:]
	if m.in == nil {
		n.takeover(core.Takeover{Slot: slot, Surface: "popup", Hold: m.hold, By: "human:popup"})
		return
	}
	in := m.in
	switch v := in.(type) {
	case core.Fenced:
		if v.Nonce == n.conn {
			reg := n.reg.Clone()
			reg.Acknowledge(slot, v.Epoch)
			n.reg = keyed(reg)
		}
	case core.Done:
		v.Nonce = n.conn
		in = v
	}
	n.submit(in)
}

// The host.

func (n *node) lost() {
	n.hostConn, n.daemonGone, n.down = "", false, nil
	n.gate.Close()
	n.open = 0
	n.forward(Down{T: "link"})
	n.stop(func(core.Epoch) bool { return true })
}

// forward hands a message over to be written to the extension, after what is to be
// written before it.
func (n *node) forward(m Down) {
	if len(n.out) == 0 {
		n.pipe = push(n.pipe, m)
		return
	}
	n.out = push(n.out, m)
}

// take takes what is first from the daemon.
func (n *node) take() {
	m := n.down[0]
	n.down = n.down[1:]
	checked := func(epoch core.Epoch) bool { return n.gate.Check(epoch) != nil }
	switch m.T {
	case "action":
		n.begin(m)
		return
	case "grant":
		n.open = m.Epoch
		if n.gate.Grant(m.Epoch) != nil {
			return
		}
		n.stop(checked)
	case "fence":
		n.open = 0
		refused := n.gate.Fence(m.Epoch)
		n.stop(checked)
		if refused != nil {
			return
		}
	case "forget":
		n.kept = slices.DeleteFunc(slices.Clone(n.kept), func(d core.Done) bool { return d.Action == m.Action })
	}
	n.forward(m)
}

func (n *node) begin(m Down) {
	if n.gate.Check(m.Epoch) != nil {
		n.done(core.Done{Slot: slot, Action: m.Action, Epoch: m.Epoch, State: "refused", Error: core.Refuse(core.CodeFenced, "refused", "")})
		return
	}
	if slices.Contains(n.begunActions, m.Action) {
		for _, d := range n.kept {
			if d.Action == m.Action {
				n.done(d)
			}
		}
		return
	}
	n.begunActions = push(n.begunActions, m.Action)
	n.run = run{action: m.Action, epoch: m.Epoch, endMs: n.nowMs + actionMs}
	n.out = push(n.out, Down{T: "cmd", Action: m.Action, Epoch: m.Epoch})
}

// write writes what is first to the extension; a command passes the second gate here.
func (n *node) write() {
	m := n.out[0]
	n.out = n.out[1:]
	if m.T == "cmd" {
		if n.gate.Check(m.Epoch) != nil {
			n.ends("refused")
			return
		}
		if m.Epoch != n.open {
			violated("second gate", "a host wrote a command of epoch %d, and was granted %d", m.Epoch, n.open)
		}
		n.run.written = true
	}
	n.pipe = push(n.pipe, m)
}

// stop ends the action that is under way, for a reason.
func (n *node) stop(why func(core.Epoch) bool) {
	if n.run.action == "" || !why(n.run.epoch) {
		return
	}
	if n.run.written {
		n.ends("halted")
		return
	}
	n.out = slices.DeleteFunc(slices.Clone(n.out), func(m Down) bool { return m.T == "cmd" })
	n.ends("refused")
}

func (n *node) ends(state string) {
	d := core.Done{Slot: slot, Action: n.run.action, Epoch: n.run.epoch, State: state}
	d.Steps.Total = 1
	if state != "refused" {
		d.Steps.Dispatched = 1
	}
	if state != "finished" {
		d.Error = core.Refuse(core.CodeFenced, "stopped", "")
	}
	n.run = run{}
	n.kept = push(n.kept, d)
	n.done(d)
}

func (n *node) done(d core.Done) {
	if n.hostConn != "" && !n.daemonGone {
		n.upward = push(n.upward, message{in: d, key: "done" + string(d.Action) + d.State})
	}
}

// The extension and its page.

// read lets the extension read what is first in the pipe.
func (n *node) read() {
	m := n.pipe[0]
	n.pipe = n.pipe[1:]
	had := len(n.ext.Ledger)
	told := n.ext.Hear(m, n.nowMs)
	if m.T == "cmd" && len(n.ext.Ledger) > had {
		n.dispatched(m)
	}
	if n.ext.Seq > n.disk.Slots[slot].Told {
		violated("I1", "the extension was told of journal entry %d, and the disk knows of %d", n.ext.Seq, n.disk.Slots[slot].Told)
	}
	n.post(told)
}

// post takes what the extension has said to its host.
func (n *node) post(told []Up) {
	for _, u := range told {
		switch {
		case u.Refused != "":
			if n.run.action == u.Refused {
				n.ends("refused")
			}
			continue
		case u.Answered != "":
			if n.run.action == u.Answered {
				n.ends("finished")
			}
			continue
		}
		switch in := u.In.(type) {
		case core.Fenced:
			n.truth.fenced = max(n.truth.fenced, in.Epoch)
		case core.Granted:
			n.truth.opened = max(n.truth.opened, in.Epoch)
		}
		if n.hostConn == "" || n.daemonGone || n.ext.Nonce != n.hostConn {
			continue // of a link that has ended
		}
		m := message{in: u.In, hold: u.Hold, key: "press"}
		if u.In != nil {
			m.key = fmt.Sprintf("%T%+v", u.In, canonical(u.In))
		}
		n.upward = push(n.upward, m)
	}
}

// lands: the page comes to its first command.
func (n *node) lands() {
	id := n.page[0]
	n.page = n.page[1:]
	n.truth.landed = push(n.truth.landed, id)
	if a := n.disk.Actions[id]; a != nil && settled(a.Local) {
		violated("I6", "%s landed after the ledger said %s", id, a.Local)
	}
	told := n.ext.Land(id)
	n.post(append(told, n.ext.Drain(n.nowMs)...))
}

func settled(l core.Local) bool {
	return slices.Contains([]core.Local{core.NotDispatched, core.Failed, core.Finished, core.Ended, core.Interrupted}, l)
}

// jump lets time go by, beyond every deadline but the lease's.
func (n *node) jump() {
	n.nowMs += jumpMs
	n.stop(func(core.Epoch) bool { return n.nowMs >= n.run.endMs })
	n.post(append(n.ext.Drain(n.nowMs), n.ext.Renew(n.nowMs)...))
}

// What must be true.

func (n *node) dispatched(m Down) {
	a := n.disk.Actions[m.Action]
	switch {
	case a == nil:
		violated("commit before effect", "%s was dispatched and is not on the disk", m.Action)
	case slices.Contains(n.truth.dispatched, m.Action):
		violated("I7", "%s was dispatched again", m.Action)
	case a.Epoch < n.truth.fenced:
		violated("I4", "%s of epoch %d was dispatched after the extension had acknowledged %d", m.Action, a.Epoch, n.truth.fenced)
	case n.ext.Hold != "":
		violated("I3", "%s was dispatched although a person had pressed Take over", m.Action)
	case settled(a.Local):
		violated("I6", "%s was dispatched after the ledger said %s", m.Action, a.Local)
	}
	if s := n.disk.Slots[slot]; s.Holder.Kind == "agent" && s.Lease != a.Lease && s.Epoch > a.Epoch {
		violated("I5", "%s of lease %s was dispatched after %s had been granted the slot", m.Action, a.Lease, s.Lease)
	}
	if l := n.disk.Leases[a.Lease]; l.Expires.Passed(n.now()) {
		violated("L7", "%s was dispatched after its lease's time", m.Action)
	}
	n.truth.dispatched = push(n.truth.dispatched, m.Action)
	n.page = push(n.page, m.Action)
}

// claims compares what has been written with what has happened.
func (n *node) claims(d *core.Delta) {
	for _, a := range d.Actions {
		sent, landed := slices.Contains(n.truth.dispatched, a.Action), slices.Contains(n.truth.landed, a.Action)
		switch {
		case a.Local == core.NotDispatched && sent:
			violated("I6", "the ledger says that %s was not dispatched; it was", a.Action)
		case a.Local == core.Finished && !landed, a.Local == core.Interrupted && sent && !landed, a.Local == core.Failed && landed:
			violated("I6", "the ledger says of %s %s; dispatched %v, landed %v", a.Action, a.Local, sent, landed)
		}
	}
	for _, s := range d.Slots {
		if s.Holder.Kind != "agent" {
			continue
		}
		if slices.Contains(n.truth.taken, s.Epoch) {
			violated("I1", "epoch %d was issued to a person, and then to %s", s.Epoch, s.Lease)
		}
		who := fmt.Sprintf("%d:%s;", s.Epoch, s.Lease)
		if strings.Contains(n.truth.issued, who) {
			continue
		}
		if strings.Contains(n.truth.issued, fmt.Sprintf("%d:", s.Epoch)) {
			violated("I1", "epoch %d was issued to %s, and before to another (%s)", s.Epoch, s.Lease, n.truth.issued)
		}
		n.truth.issued += who
		n.granted(s)
	}
}

// granted looks at a slot that is given to an agent: nothing of another's may be at work
// there any more, and no person may have it.
func (n *node) granted(s *core.Slot) {
	t := n.truth
	if t.opened > 0 && t.opened >= t.fenced && t.opened < s.Epoch {
		violated("I5", "granted at epoch %d; the extension has acknowledged no fence since it was granted %d", s.Epoch, t.opened)
	}
	if out, _ := n.reg.Taken(slot); out == nil && n.state.Links[slot].Up() && n.ext.Person && n.ext.Mark > t.handed {
		violated("I14", "granted at epoch %d; the extension knows of a person who took over at %d and handed nothing back", s.Epoch, n.ext.Mark)
	}
	for _, id := range n.page {
		if a := n.state.Actions[id]; a == nil || a.Resolution == nil {
			violated("I8", "granted at epoch %d; %s is still to land", s.Epoch, id)
		}
	}
}
