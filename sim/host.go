package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/host/gate"
)

// host is the native host of one port: it relays, carries actions out in steps, and has
// the second gate, which is the host's own file.
type host struct {
	b    *browser
	by   *worker
	port int64
	gate gate.Gate
	open core.Epoch // what the last grant or fence allows, kept beside the gate to judge it
	conn *conn      // nil while there is no daemon

	running []*run
	steps   map[int64]*step
	seq     int64
	seen    map[core.ActionID]bool
	kept    []wire.ActionDone // last words that the daemon may not have taken

	out  []outgoing // not yet written to the extension
	pipe []string   // written, not yet read there
	// unread: nothing of it is read for a while.
	unread bool
	up     []said // from the extension, not yet read here
}

// said is a message of the extension, with what a host looks at in it.
type said struct {
	text  string
	t     string
	nonce core.Nonce
	epoch core.Epoch
}

// outgoing is a message to the extension: one of the daemon's, or a step.
type outgoing struct {
	text string
	step *step
}

// step is one command of an action: written once, or never.
type step struct {
	cmd        wire.Cmd
	run        *run
	written    bool
	withheld   bool
	answered   bool
	ok         bool
	dispatched bool
	err        *core.Error
}

func (s *step) mayHaveRun() bool { return s.written && (!s.answered || s.dispatched) }

// run is one action under way.
type run struct {
	a        wire.Action
	deadline int64
	phases   [][]wire.Cmd // sent one after another; the steps of a phase at once
	phase    []*step
	effects  []*step
	planned  int
	proved   int
	unproved bool
	reached  bool
	barrier  bool
	observed *core.Expect
	result   json.RawMessage
	err      *core.Error
}

// connectHost starts a host for a new port.
func (b *browser) connectHost(by *worker) int64 {
	b.ports++
	b.host = &host{b: b, by: by, port: b.ports, steps: map[int64]*step{}, seen: map[core.ActionID]bool{}}
	return b.ports
}

// posted is what the extension writes to a port.
func (b *browser) posted(port int64, m said) {
	if b.host == nil || b.host.port != port {
		return
	}
	// In the turn in which the extension said it.
	switch m.t {
	case "fenced":
		b.fenced = max(b.fenced, m.epoch)
		if m.epoch == b.taken {
			b.persons = max(b.persons, m.epoch)
		}
	case "granted":
		b.w.truth.accepted(b, m.epoch)
	}
	b.host.up = append(b.host.up, m)
}

// die ends the host: both of its links end with it.
func (h *host) die() {
	if h.b.host != h {
		return
	}
	h.b.w.logf("%s: host ends", h.b.launch)
	h.b.host = nil
	if h.conn != nil {
		h.conn.hostGone = true
		h.conn = nil
	}
	if h.by == h.b.worker && h.by != nil && !h.by.dead {
		by := h.by
		h.b.later(by, func() { by.do("drop", h.port) })
	}
}

// linked is a daemon's welcome.
func (h *host) linked(c *conn) {
	h.gate.Close()
	h.open = 0
	h.conn = c
	h.tell(wire.Link{Up: true, Nonce: c.nonce})
	for _, d := range h.kept {
		c.post(d)
	}
}

// lost is the end of the link to the daemon, as the host learns of it.
func (h *host) lost() {
	h.conn = nil
	h.gate.Close()
	h.open = 0
	h.tell(wire.Link{Up: false, Reason: "the daemon has ended"})
	h.stop(func(*run) *core.Error {
		return core.Refuse(core.CodeUnavailable, "the link to the daemon was lost", "")
	})
}

func encode(m any) string {
	body, err := wire.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(body)
}

func (h *host) tell(m any) { h.out = append(h.out, outgoing{text: encode(m)}) }

// write writes what is first to the extension. A step passes the second gate here, at
// the last moment.
func (h *host) write() {
	o := h.out[0]
	h.out = h.out[1:]
	if s := o.step; s != nil {
		if s.withheld {
			return
		}
		if refused := h.gate.Check(s.cmd.Epoch); refused != nil {
			s.withheld, s.answered, s.err = true, true, refused
			delete(h.steps, s.cmd.Seq)
			h.proceed(s.run)
			return
		}
		s.written = true
		if s.cmd.Epoch != h.open {
			h.b.w.violated("second gate", "a host wrote a step of epoch %d, and was granted %d", s.cmd.Epoch, h.open)
		}
		o.text = encode(s.cmd)
	}
	h.pipe = append(h.pipe, o.text)
}

// read lets the extension read what is first in the pipe.
func (h *host) read() {
	text := h.pipe[0]
	h.pipe = h.pipe[1:]
	if h.by == h.b.worker {
		var fence wire.Fence
		if err := json.Unmarshal([]byte(text), &fence); err == nil && fence.Person {
			h.b.taken = max(h.b.taken, fence.Epoch)
		}
		h.by.do("say", h.port, text)
		h.b.check()
	}
}

// hear takes what is first from the extension.
func (h *host) hear() {
	m := h.up[0]
	h.up = h.up[1:]
	if m.t == "cmd.result" {
		h.answer(m.text)
		return
	}
	if h.conn == nil || m.nonce != h.conn.nonce {
		return // of a link that has ended
	}
	h.conn.up = append(h.conn.up, m.text)
}

// take takes what is first from the daemon.
func (h *host) take(text string) {
	var m struct {
		T     string          `json:"t"`
		Nonce core.Nonce      `json:"nonce"`
		Epoch core.Epoch      `json:"epoch"`
		Acts  []core.ActionID `json:"actions"`
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		panic(err)
	}
	if m.T == "action" {
		var a wire.Action
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			panic(err)
		}
		h.begin(a)
		return
	}
	if m.Nonce != h.conn.nonce {
		return
	}
	checked := func(r *run) *core.Error { return h.gate.Check(r.a.Epoch) }
	switch m.T {
	case "grant":
		h.open = m.Epoch
		if h.gate.Grant(m.Epoch) != nil {
			return
		}
		h.stop(checked)
	case "fence":
		h.open = 0
		refused := h.gate.Fence(m.Epoch)
		h.stop(checked)
		if refused != nil {
			return
		}
	case "forget":
		h.kept = slices.DeleteFunc(h.kept, func(d wire.ActionDone) bool { return slices.Contains(m.Acts, d.Action) })
	}
	h.out = append(h.out, outgoing{text: text})
}

func cmd(kind, method, params string, effect, script bool) wire.Cmd {
	return wire.Cmd{Kind: kind, Method: method, Params: json.RawMessage(params), Effect: effect, Script: script}
}

// plan is how a verb becomes steps, in the shape that host/act gives them.
func plan(a wire.Action) [][]wire.Cmd {
	mark := func(n int) string { return fmt.Sprintf(`"sim":"%s#%d"`, a.Action, n) }
	switch a.Act.Verb {
	case "navigate":
		return [][]wire.Cmd{
			{cmd("cdp", "Page.navigate", `{"url":"`+page+`",`+mark(0)+`}`, true, false)},
			{cmd("document", "", `{}`, false, false)},
		}
	case "evaluate":
		return [][]wire.Cmd{{cmd("cdp", "Runtime.evaluate", `{"expression":"effect()",`+mark(0)+`}`, true, true)}}
	case "snapshot":
		return [][]wire.Cmd{{cmd("cdp", "Runtime.evaluate", `{"expression":"look()",`+mark(0)+`}`, false, false)}}
	}
	mouse := func(what string, n int) wire.Cmd {
		return cmd("cdp", "Input.dispatchMouseEvent", `{"type":"`+what+`","x":5,"y":5,"button":"left",`+mark(n)+`}`, true, false)
	}
	return [][]wire.Cmd{{mouse("mousePressed", 0), mouse("mouseReleased", 1)}, {cmd("barrier", "", `{}`, false, false)}}
}

// effectsOf counts the effect commands that a verb has.
func effectsOf(verb string) int {
	n := 0
	for _, phase := range plan(wire.Action{Act: wire.Act{Verb: verb}}) {
		for _, c := range phase {
			if c.Effect {
				n++
			}
		}
	}
	return n
}

// begin begins an action, or refuses it.
func (h *host) begin(a wire.Action) {
	if refused := h.gate.Check(a.Epoch); refused != nil {
		h.finish(wire.ActionDone{Action: a.Action, Epoch: a.Epoch, State: "refused", Error: refused})
		return
	}
	if h.seen[a.Action] {
		for _, d := range h.kept {
			if d.Action == a.Action {
				h.finish(d)
			}
		}
		return
	}
	h.seen[a.Action] = true
	r := &run{a: a, deadline: h.b.w.mono() + a.DeadlineMs, phases: plan(a), planned: effectsOf(a.Act.Verb)}
	h.running = append(h.running, r)
	h.send(r)
}

// send hands the steps of the next phase over.
func (h *host) send(r *run) {
	cmds := r.phases[0]
	r.phases = r.phases[1:]
	r.phase = nil
	for _, c := range cmds {
		h.seq++
		c.Seq, c.Action, c.Epoch, c.Class = h.seq, r.a.Action, r.a.Epoch, r.a.Class
		c.Expect, c.LeftMs = r.a.Expect, max(0, r.deadline-h.b.w.mono())
		if r.a.Act.Verb == "navigate" {
			c.Expect.Document = ""
		}
		s := &step{cmd: c, run: r}
		r.barrier = r.barrier || c.Kind == "barrier"
		r.phase = append(r.phase, s)
		if c.Effect {
			r.effects = append(r.effects, s)
		}
		h.steps[h.seq] = s
		h.out = append(h.out, outgoing{step: s})
	}
}

// answer is the extension's answer to a step.
func (h *host) answer(text string) {
	var m wire.CmdResult
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		panic(err)
	}
	s := h.steps[m.Seq]
	delete(h.steps, m.Seq)
	if s == nil {
		return
	}
	s.answered, s.ok, s.dispatched, s.err = true, m.OK, m.Dispatched, m.Error
	r := s.run
	if m.OK && bytes.Contains(m.Result, []byte("errorText")) {
		// The navigation was begun, and another took its place.
		s.ok, s.err = false, core.Refuse(core.CodeConflict, "net::ERR_ABORTED", "")
	}
	if m.OK && s.cmd.Kind != "barrier" && m.Observed != nil {
		r.observed = m.Observed
	}
	if m.OK && s.cmd.Kind == "cdp" && !s.cmd.Effect {
		r.result = m.Result
	}
	if !m.OK && s.cmd.Effect && m.Dispatched {
		// The closed table of host/act, as far as this browser has errors of it.
		if code, _ := m.Error.Detail["cdp_code"].(float64); code == -32602 {
			r.proved++
		} else {
			r.unproved = true
		}
	}
	h.proceed(r)
}

// proceed goes on with an action once every step of its phase is answered.
func (h *host) proceed(r *run) {
	if !slices.Contains(h.running, r) {
		return
	}
	var failed *core.Error
	for _, s := range r.phase {
		if !s.answered {
			return
		}
		r.reached = r.reached || s.mayHaveRun()
		if !s.ok && failed == nil {
			failed = s.err
		}
	}
	switch {
	case failed != nil:
		h.end(r, failed, false)
	case len(r.phases) > 0:
		h.send(r)
	default:
		h.end(r, nil, false)
	}
}

// stop ends the actions for which why gives a reason, at once.
func (h *host) stop(why func(*run) *core.Error) {
	for _, r := range slices.Clone(h.running) {
		if e := why(r); e != nil {
			h.end(r, e, true)
		}
	}
}

// deadlines ends the actions whose time is over.
func (h *host) deadlines() {
	now := h.b.w.mono()
	h.stop(func(r *run) *core.Error {
		if now < r.deadline {
			return nil
		}
		return core.Refuse(core.CodeDeadline, "the action's deadline passed", "")
	})
}

// end says what is known of an action, by the rules of host/act.
func (h *host) end(r *run, e *core.Error, stopped bool) {
	h.running = slices.DeleteFunc(h.running, func(o *run) bool { return o == r })
	d := wire.ActionDone{Action: r.a.Action, Epoch: r.a.Epoch, State: "finished", Observed: r.observed, Error: e}
	for _, s := range r.phase {
		r.reached = r.reached || s.mayHaveRun()
		if !s.written {
			s.withheld = true
		}
		delete(h.steps, s.cmd.Seq)
	}
	for _, s := range r.effects {
		if s.mayHaveRun() {
			d.Steps.Dispatched++
		}
	}
	d.Steps.Total = max(r.planned, len(r.effects))
	switch {
	case e == nil:
		d.Result = r.result
	case d.Steps.Dispatched == 0 && r.a.Class == core.Read && r.reached:
		d.State = "halted"
	case d.Steps.Dispatched == 0:
		d.State = "refused"
	case stopped || r.barrier:
		d.State = "halted"
	case r.unproved:
		d.State = "unknown"
	case r.proved == d.Steps.Dispatched:
		d.State = "failed"
	default:
		d.State = "halted"
	}
	h.finish(d)
}

// finish gives the daemon an action's last word, and keeps it without what was seen.
func (h *host) finish(d wire.ActionDone) {
	h.b.w.logf("%s: host says %s of %s (%d of %d)", h.b.launch, d.State, d.Action, d.Steps.Dispatched, d.Steps.Total)
	again := slices.ContainsFunc(h.kept, func(o wire.ActionDone) bool { return o.Action == d.Action })
	kept := d
	kept.Result = nil
	if !again {
		h.kept = append(h.kept, kept)
	}
	if h.conn != nil {
		h.conn.post(d)
	}
}
