package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/host/act"
	"sessiondock.dev/sessiondock/host/gate"
	"sessiondock.dev/sessiondock/host/native"
)

const (
	firstRetry   = 50 * time.Millisecond
	lastRetry    = 2 * time.Second
	refusedRetry = 30 * time.Second
	// fenceFirst is how long the acknowledgement of a fence goes before the last words on
	// clients' commands.
	fenceFirst = 200 * time.Millisecond
	// stableLink is how long a link must have lived for the waits to begin anew.
	stableLink = 5 * time.Second
)

// Host is the broker. Its mutex guards the gate and what hangs on it; nothing is
// waited for under it.
type Host struct {
	log    *slog.Logger
	origin string
	out    *outbox
	exec   *act.Executor

	mu      sync.Mutex
	gate    gate.Gate
	link    *daemonLink // nil while there is none
	running map[core.ActionID]*underway
	stopped map[core.ActionID]bool // to be refused when they come
	fencing chan struct{}          // closed once the extension has acknowledged the last fence; nil before the first
	steps   map[int64]*act.Step
	seq     int64
	ledger  ledger
	downs   string // the reason last told to the extension
}

// newHost returns a host that is linked to nothing.
func newHost(origin string, log *slog.Logger) *Host {
	h := &Host{
		log: log, origin: origin, out: newOutbox(),
		running: map[core.ActionID]*underway{}, stopped: map[core.ActionID]bool{}, steps: map[int64]*act.Step{},
	}
	h.exec = act.NewExecutor(h)
	return h
}

// toExtension and toDaemon hold the types that pass through unchanged.
var toExtension, toDaemon = func() (map[string]bool, map[string]bool) {
	x, d := map[string]bool{}, map[string]bool{}
	for _, m := range wire.Messages {
		switch {
		case m.From == "D" && m.To == "X":
			x[m.T] = true
		case m.From == "X" && m.To == "D":
			d[m.T] = true
		}
	}
	return x, d
}()

// ---- From the extension --------------------------------------------------------

// readExtension reads until the browser ends the link; that is io.EOF.
func (h *Host) readExtension(in io.Reader) error {
	r := native.NewReader(in)
	for {
		body, err := r.Next()
		if err != nil {
			return err
		}
		h.fromExtension(body)
		if len(body) > bigMessage {
			freeSoon()
		}
	}
}

func (h *Host) fromExtension(body []byte) {
	m, err := readHead(body)
	if err != nil {
		h.log.Warn("dropped a message of the extension", "err", err)
		return
	}
	switch {
	case m.t == "cmd.result":
		h.answer(body)
	case m.t == "cmd.waits":
		h.waits(body)
	case toDaemon[m.t]:
		h.mu.Lock()
		link := h.link
		h.mu.Unlock()
		if link == nil || m.nonce != link.nonce {
			h.log.Info("dropped a message of a link that has ended", "t", m.t)
			return
		}
		if m.t == "cdp.event" {
			h.passEvent(link, body)
			return
		}
		link.send(body)
		if m.t == "fenced" {
			h.acknowledged()
		}
	default:
		h.log.Warn("dropped a message of an unknown type", "t", m.t, "from", "extension")
	}
}

// acknowledged lets the last words go that were held back for the fence's sake.
func (h *Host) acknowledged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fencing != nil && !isClosed(h.fencing) {
		close(h.fencing)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// behindFence holds the last word on a client's command back while a fence is under way,
// and not for long: there may be a thousand of them, and a person waits for the
// acknowledgement.
func (h *Host) behindFence() {
	h.mu.Lock()
	fencing := h.fencing
	h.mu.Unlock()
	if fencing == nil {
		return
	}
	select {
	case <-fencing:
	case <-time.After(fenceFirst):
	}
}

// passEvent passes an event on, unless the daemon is far behind: what settles actions
// must not be lost because a page talks faster than anybody listens. The clients are
// told then, once a gap, that they have missed something.
func (h *Host) passEvent(l *daemonLink, body []byte) {
	if l.room() {
		l.behind = false
		l.send(body)
		return
	}
	if l.behind {
		return
	}
	l.behind = true
	h.mu.Lock()
	epoch := h.gate.Granted()
	h.mu.Unlock()
	h.log.Warn("events of pages come faster than the daemon takes them")
	lost, err := wire.Marshal(wire.CDPLost{Nonce: l.nonce, Epoch: epoch})
	if err != nil {
		panic("host: " + err.Error())
	}
	l.send(lost)
}

func (h *Host) answer(body []byte) {
	seq, a, err := readResult(body)
	if err != nil {
		h.log.Warn("dropped an answer", "err", err)
		return
	}
	h.mu.Lock()
	s := h.steps[seq]
	delete(h.steps, seq)
	h.mu.Unlock()
	if s == nil {
		// Its action has ended; the extension's report says what became of it.
		h.log.Debug("dropped a late answer", "seq", seq)
		return
	}
	s.Resolve(a)
}

// waits passes on that a step waits for a dialog.
func (h *Host) waits(body []byte) {
	var m wire.CmdWaits
	if err := json.Unmarshal(body, &m); err != nil {
		h.log.Warn("dropped a message of the extension", "t", "cmd.waits", "err", err)
		return
	}
	h.mu.Lock()
	s := h.steps[m.Seq]
	h.mu.Unlock()
	if s != nil {
		s.Waits(m.Dialog)
	}
}

// Waits implements act.Port.
func (h *Host) Waits(m wire.ActionWaits) {
	h.mu.Lock()
	link := h.link
	refused := h.gate.Check(m.Epoch)
	h.mu.Unlock()
	if link == nil || refused != nil {
		return // what was seen under an epoch that has ended is nobody's
	}
	body, err := wire.Marshal(m)
	if err != nil {
		panic("host: " + err.Error())
	}
	link.send(body)
}

// ---- To the extension ----------------------------------------------------------

// Send implements act.Port.
func (h *Host) Send(s *act.Step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	s.Cmd.Seq = h.seq
	body, err := wire.Marshal(s.Cmd)
	if err != nil {
		s.Refuse(core.Refuse(core.CodeInternal, "the step cannot be encoded", "report this"))
		return
	}
	if len(body) > wire.MaxMessage {
		s.Refuse(core.Refuse(core.CodeLimit, "the step is larger than a message may be", "send less at once"))
		return
	}
	h.steps[s.Cmd.Seq] = s
	h.out.step(s, body)
}

// pass is the second gate, at the last moment: the writer asks it immediately
// before each step. A step that does not pass is withheld, which is final.
func (h *Host) pass(s *act.Step) bool {
	h.mu.Lock()
	refused := h.gate.Check(s.Cmd.Epoch)
	if refused == nil && s.Claim() {
		h.mu.Unlock()
		return true
	}
	delete(h.steps, s.Cmd.Seq)
	h.mu.Unlock()
	if refused != nil {
		s.Refuse(refused)
	}
	return false
}

// tell sends one of the host's own messages to the extension.
func (h *Host) tell(msg any) {
	body, err := wire.Marshal(msg)
	if err != nil {
		panic("host: " + err.Error())
	}
	if h.out.relay(body) != nil {
		h.log.Error("the extension does not read: dropped what waited for it")
		h.out.only(body)
	}
}

// tellDown says once that there is no daemon, and why.
func (h *Host) tellDown(err error) {
	var e *core.Error
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		e = &refused.reason
	case !errors.As(err, &e):
		e = core.Refuse(core.CodeUnavailable, "the link to the daemon is down: "+err.Error(), "it is tried again by itself")
	}
	h.mu.Lock()
	same := h.downs == e.Message
	h.downs = e.Message
	h.mu.Unlock()
	if same {
		return
	}
	h.log.Info("no daemon", "err", err)
	h.tell(wire.Link{Up: false, Reason: e.Message, Error: e})
	if refused != nil {
		if err := h.out.relay(refused.body); err != nil {
			h.log.Error("dropped a message to the extension", "err", err)
		}
	}
}

// ---- The daemon ----------------------------------------------------------------

// serveDaemon keeps a link to the daemon, for as long as ctx lives.
func (h *Host) serveDaemon(ctx context.Context, e environment) {
	wait := firstRetry
	for ctx.Err() == nil {
		begun := time.Now()
		err := h.oneLink(ctx, e)
		h.tellDown(err)
		var refused *refusedError
		switch {
		case errors.As(err, &refused) && refused.reason.Code == core.CodeVersionSkew:
			// Another build will not become the right one by asking again.
			return
		case errors.As(err, &refused):
			wait = refusedRetry
		case time.Since(begun) > stableLink || wait > lastRetry:
			wait = firstRetry
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		if wait < refusedRetry {
			wait = min(2*wait, lastRetry)
		}
	}
}

// oneLink connects and relays until the link is lost. It always returns an error.
func (h *Host) oneLink(ctx context.Context, e environment) error {
	l, err := dialDaemon(e, h.origin)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, l.close)
	defer stop()
	defer l.close()
	h.linkUp(l)
	go func() {
		if err := l.write(); err != nil && !errors.Is(err, io.EOF) {
			h.log.Debug("the writer to the daemon ended", "err", err)
		}
	}()
	err = h.readDaemon(l)
	h.linkDown(l)
	if errors.Is(err, io.EOF) {
		return core.Refuse(core.CodeUnavailable, "the daemon has ended", "it is tried again by itself; or start it: sessiondock up")
	}
	return err
}

func (h *Host) linkUp(l *daemonLink) {
	h.mu.Lock()
	h.gate.Close()
	h.link = l
	h.downs = ""
	kept := h.ledger.kept()
	h.mu.Unlock()
	h.tell(wire.Link{Up: true, Nonce: l.nonce})
	for _, d := range kept {
		l.send(doneMessage(act.Done{ActionDone: d})...)
	}
	h.log.Info("linked to the daemon", "nonce", l.nonce, "kept", len(kept))
}

// linkDown closes the gate and ends every action: who may act is not known here
// any more.
func (h *Host) linkDown(l *daemonLink) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.link != l {
		return
	}
	h.link = nil
	h.gate.Close()
	h.stopRunning(everyone(lostDaemon))
}

var lostDaemon = core.Refuse(core.CodeUnavailable, "the link to the daemon was lost", "look the action up when the daemon is back; do not send it again")

// readDaemon reads until the connection ends.
func (h *Host) readDaemon(l *daemonLink) error {
	for {
		body, err := wire.ReadFrame(l.r, binary.LittleEndian, wire.MaxFrame)
		if err != nil {
			return err
		}
		if err := h.fromDaemon(l, body); err != nil {
			return err
		}
		if len(body) > bigMessage {
			freeSoon()
		}
	}
}

// fromDaemon handles one message; an error ends the link.
func (h *Host) fromDaemon(l *daemonLink, body []byte) error {
	m, err := readHead(body)
	if err != nil {
		return err
	}
	switch {
	case m.t == "action":
		h.takeAction(body)
		return nil
	case m.t == "action.stop":
		h.stopAction(body)
		return nil
	case m.t == "host.refused":
		return refusal(body)
	case !toExtension[m.t]:
		h.log.Warn("dropped a message of an unknown type", "t", m.t, "from", "daemon")
		return nil
	case m.nonce != l.nonce:
		h.log.Warn("dropped a message with another nonce", "t", m.t)
		return nil
	}
	if refused := h.observe(m.t, body); refused != nil {
		h.log.Error("did not pass a message on", "t", m.t, "err", refused)
		return nil
	}
	return h.out.relay(body)
}

// observe lets the gate see what concerns it, before the message is passed on.
func (h *Host) observe(t string, body []byte) error {
	switch t {
	case "grant":
		var g wire.Grant
		if err := json.Unmarshal(body, &g); err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if refused := h.gate.Grant(g.Epoch); refused != nil {
			return refused
		}
		h.stopRunning(func(u *underway) *core.Error { return h.gate.Check(u.epoch) })
	case "fence":
		var f wire.Fence
		err := json.Unmarshal(body, &f)
		h.mu.Lock()
		defer h.mu.Unlock()
		if err != nil {
			// What it was to say is not known, but it was to close the gate.
			h.gate.Close()
			return err
		}
		refused := h.gate.Fence(f.Epoch)
		clear(h.stopped)
		if h.fencing == nil || isClosed(h.fencing) {
			h.fencing = make(chan struct{})
		}
		h.stopRunning(func(u *underway) *core.Error { return h.gate.Check(u.epoch) })
		if refused != nil {
			return refused
		}
	case "probe":
		var p wire.Probe
		if err := json.Unmarshal(body, &p); err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if refused := h.gate.System(p.Epoch); refused != nil {
			return refused
		}
	case "forget":
		var f wire.Forget
		if err := json.Unmarshal(body, &f); err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, id := range f.Actions {
			h.ledger.forget(id)
		}
	}
	return nil
}
