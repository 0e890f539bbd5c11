package hostlink

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/failpoint"
	"sessiondock.dev/sessiondock/daemon/heard"
	"sessiondock.dev/sessiondock/daemon/stream"
	"sessiondock.dev/sessiondock/daemon/wire"
)

const (
	queueLen   = 4096 // more than the commands of a lease that may be without an answer
	writeWait  = 10 * time.Second
	lookEvery  = 50 * time.Millisecond  // how often a change is looked at
	showEvery  = 250 * time.Millisecond // how often what agents do is shown
	largeFrame = 4 << 20                // after one of these memory is given back
)

// link is one attested connection. It is the engine's Link.
type link struct {
	s     *Server
	slot  core.SlotName
	nonce core.Nonce
	conn  *net.UnixConn
	w     *stream.Stream // of conn

	sending sync.Mutex
	waits   bool        // the writer is at work: what is posted goes behind it
	out     chan []byte // to the writer: frames, and the rest of one that was begun

	closing sync.Once
	done    chan struct{}
	why     string

	stopMu sync.Mutex
	stop   chan struct{} // closed by stop.ready
}

func newLink(s *Server, conn *net.UnixConn, w *stream.Stream, slot core.SlotName, nonce core.Nonce) *link {
	return &link{s: s, slot: slot, nonce: nonce, conn: conn, w: w, out: make(chan []byte, queueLen), done: make(chan struct{})}
}

func (l *link) Nonce() core.Nonce { return l.nonce }

// Close ends the link once.
func (l *link) Close(reason string) {
	l.closing.Do(func() {
		l.why = reason
		close(l.done)
		l.conn.Close()
	})
}

// run carries the link until it ends and says why it did.
func (l *link) run(ctx context.Context, r *bufio.Reader) string {
	var group sync.WaitGroup
	group.Go(l.write)
	group.Go(func() { l.show(ctx) })
	for {
		body, err := wire.ReadFrame(r, binary.LittleEndian, wire.MaxFrame)
		if err != nil {
			l.Close("read: " + err.Error())
			break
		}
		if err := l.take(ctx, body); err != nil {
			l.Close(err.Error())
			break
		}
		if len(body) > largeFrame {
			body = nil
			debug.FreeOSMemory()
		}
	}
	group.Wait()
	return l.why
}

// write writes what post could not write at once.
func (l *link) write() {
	for {
		select {
		case <-l.done:
			return
		case frame := <-l.out:
			l.conn.SetWriteDeadline(time.Now().Add(writeWait))
			failpoint.Hit("before-effect")
			if _, err := l.w.Write(frame); err != nil {
				l.Close("write: " + err.Error())
				return
			}
			failpoint.Hit("after-effect")
			l.sending.Lock()
			if len(l.out) == 0 {
				l.waits = false
				l.conn.SetWriteDeadline(time.Time{})
			}
			l.sending.Unlock()
		}
	}
}

// post sends a message: at once as far as there is room, which is nearly always, and
// the rest by the writer. A host that does not read is cut off, not waited for.
func (l *link) post(msg any) {
	body, err := wire.Marshal(msg)
	if err != nil {
		l.s.Log.Error("message cannot be encoded", "err", err)
		return
	}
	frame := wire.AppendFrame(make([]byte, 0, len(body)+4), binary.LittleEndian, body)
	l.sending.Lock()
	defer l.sending.Unlock()
	if !l.waits {
		failpoint.Hit("before-effect")
		n, err := l.w.TryWrite(frame)
		if err != nil {
			l.Close("write: " + err.Error())
			return
		}
		failpoint.Hit("after-effect")
		if frame = frame[n:]; len(frame) == 0 {
			return
		}
	}
	l.waits = true
	select {
	case l.out <- frame:
	case <-l.done:
	default:
		l.Close("the host does not read what it is sent")
	}
}

// Carry turns an effect into its message.
func (l *link) Carry(eff core.Effect, c engine.Context) {
	switch eff := eff.(type) {
	case core.SendWelcome:
		var epoch core.Epoch
		l.s.Engine.View(func(s *core.State, _ core.Now) { epoch = s.Slots[l.slot].Epoch })
		l.post(wire.Welcome{Nonce: l.nonce, Epoch: epoch, Seq: c.Seq, Apart: eff.Apart})
	case core.SendFence:
		l.post(wire.Fence{
			Nonce: l.nonce, Epoch: eff.Epoch, Seq: c.Seq, Person: eff.Person, FromPerson: eff.FromPerson, Hold: eff.Hold,
			DeadlineMs: core.DrainMs, WatchMs: eff.WatchMs,
		})
	case core.SendPoke:
		l.post(wire.Poke{Nonce: l.nonce})
	case core.SendGrant:
		if eff.Nonce != l.nonce {
			return
		}
		l.post(wire.Grant{Nonce: l.nonce, Ask: eff.Ask, Epoch: eff.Epoch, Lease: eff.Lease, TTLMs: eff.TTLMs, Origins: eff.Origins, Allow: eff.Allow, WatchMs: eff.WatchMs})
	case core.SendAction:
		ask := c.Payload.(wire.Asked)
		l.post(wire.Action{
			Action: eff.Action, Epoch: eff.Epoch, Class: c.Action.Class, DeadlineMs: c.LeftMs,
			Expect: c.Action.Expect, UploadDir: ask.UploadDir, Origins: ask.Origins, Allow: ask.Allow, Act: ask.Act, Raw: ask.Raw, Session: ask.Session,
		})
	case core.SendStopWaiting:
		l.post(wire.ActionStop{Action: eff.Action, Epoch: eff.Epoch})
	case core.SendForget:
		l.post(wire.Forget{Nonce: l.nonce, Seq: c.Seq, Actions: eff.Actions})
	case core.SendStopPage:
		l.post(wire.StopPage{Nonce: l.nonce, Epoch: eff.Epoch, Tabs: tabRefs(eff.Tabs)})
	case core.SendProbe:
		l.post(wire.Probe{
			Nonce: l.nonce, Probe: eff.Probe, Epoch: eff.Epoch,
			URL: eff.URL, Selector: eff.Selector, Expression: eff.Expression, WaitMs: eff.WaitMs,
		})
	}
}

// StopPrepare asks the extension to ready its pages for a clean stop.
func (l *link) StopPrepare() <-chan struct{} {
	l.stopMu.Lock()
	defer l.stopMu.Unlock()
	if l.stop == nil {
		l.stop = make(chan struct{})
	}
	l.post(wire.StopPrepare{Nonce: l.nonce})
	return l.stop
}

func (l *link) stopReady() {
	l.stopMu.Lock()
	defer l.stopMu.Unlock()
	if l.stop != nil {
		select {
		case <-l.stop:
		default:
			close(l.stop)
		}
	}
}

// Show gives the popup its state.
func (l *link) Show(st *core.Status) { l.post(wire.UI{Nonce: l.nonce, Status: st}) }

// show keeps the popup's state fresh: a change of control at once, what agents do in
// between only a few times a second.
func (l *link) show(ctx context.Context) {
	var shown core.AuthorityNow
	var at time.Time
	for {
		changed := l.s.Engine.Changed(l.slot)
		now, up := l.s.Engine.Authority(l.slot, l.nonce)
		now.ExpiresInMs = 0
		var later <-chan time.Time
		if up && (now != shown || time.Since(at) >= showEvery) {
			l.Show(l.s.Engine.Status(l.slot))
			shown, at = now, time.Now()
		} else if up {
			later = time.After(showEvery - time.Since(at))
		}
		select {
		case <-changed:
		case <-later:
		case <-l.done:
			return
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(lookEvery):
		case <-l.done:
			return
		}
	}
}

// take handles one message. An error ends the link: a peer of ours that sends what
// is not a message is not one to go on with.
func (l *link) take(ctx context.Context, body []byte) error {
	t, err := wire.Type(body)
	if err != nil {
		return fmt.Errorf("malformed message: %w", err)
	}
	handle, ok := handlers[t]
	if !ok && !json.Valid(body) {
		return errors.New("malformed message")
	}
	if !ok {
		l.s.Log.Info("unknown message dropped", "slot", l.slot, "type", t)
		return nil
	}
	if err := handle(l, ctx, body); err != nil {
		return fmt.Errorf("%s: %w", t, err)
	}
	return nil
}

// handlers is the one table of what a host may send.
var handlers = map[string]func(*link, context.Context, []byte) error{
	"hello":          on((*link).hello),
	"fenced":         on((*link).fenced),
	"drained":        on((*link).drained),
	"document.found": on((*link).documentFound),
	"document.ended": on((*link).documentEnded),
	"report":         on((*link).report),
	"pull":           on((*link).pull),
	"granted":        on((*link).granted),
	"action.done":    on((*link).actionDone),
	"action.waits":   on((*link).actionWaits),
	"cdp.answer":     on((*link).cdpAnswer),
	"cdp.lost":       on((*link).cdpLost),
	"cdp.event":      on((*link).cdpEvent),
	"cdp.tab":        on((*link).cdpTab),
	"probe.result":   on((*link).probeResult),
	"stop.ready":     on(func(l *link, _ context.Context, _ *wire.StopReady) *core.Error { l.stopReady(); return nil }),
	"person.hold":    on((*link).personHold),
	"person.call":    on((*link).personCall),
}

// on decodes a message for its handler. A refusal by the handler ends the link.
func on[T any](f func(*link, context.Context, *T) *core.Error) func(*link, context.Context, []byte) error {
	return func(l *link, ctx context.Context, body []byte) error {
		m := new(T)
		if err := json.Unmarshal(body, m); err != nil {
			return err
		}
		if err := f(l, ctx, m); err != nil {
			return err
		}
		return nil
	}
}

func (l *link) hello(_ context.Context, m *wire.Hello) *core.Error {
	if m.Version != wire.Version || m.Build != l.s.ExtensionBuild {
		e := core.Refuse(core.CodeVersionSkew, fmt.Sprintf("the extension is build %s, the daemon expects %s", m.Build, l.s.ExtensionBuild),
			"stop the slot and start it again, so that its browser loads the daemon's extension")
		l.post(wire.HostRefused{Error: *e})
		time.Sleep(50 * time.Millisecond) // let it be written before the link ends
		return e
	}
	if m.Instance == "" || len(m.Instance) > 128 {
		return core.Refuse(core.CodeInvalid, "hello without an instance", "")
	}
	l.s.Engine.Enqueue(heard.Hello(l.slot, m))
	return nil
}

func (l *link) fenced(_ context.Context, m *wire.Fenced) *core.Error {
	l.s.Engine.Fenced(heard.Fenced(l.slot, m))
	return nil
}

func (l *link) drained(_ context.Context, m *wire.Drained) *core.Error {
	l.s.Engine.Enqueue(heard.Drained(l.slot, m))
	return nil
}

func (l *link) documentFound(_ context.Context, m *wire.DocumentFound) *core.Error {
	l.s.Engine.Enqueue(heard.DocumentFound(l.slot, m))
	return nil
}

func (l *link) documentEnded(_ context.Context, m *wire.DocumentEnded) *core.Error {
	l.s.Engine.Enqueue(heard.DocumentEnded(l.slot, m))
	return nil
}

func (l *link) report(_ context.Context, m *wire.Report) *core.Error {
	l.s.Engine.Enqueue(heard.Reported(l.slot, m))
	return nil
}

func (l *link) pull(_ context.Context, m *wire.Pull) *core.Error {
	l.s.Engine.Enqueue(heard.Pull(l.slot, m))
	return nil
}

func (l *link) granted(_ context.Context, m *wire.Granted) *core.Error {
	l.s.Engine.Enqueue(heard.Granted(l.slot, m))
	return nil
}

func (l *link) probeResult(_ context.Context, m *wire.ProbeResult) *core.Error {
	l.s.Engine.Enqueue(heard.ProbeDone(l.slot, m))
	return nil
}

func (l *link) actionDone(_ context.Context, m *wire.ActionDone) *core.Error {
	l.s.Engine.Done(heard.Done(l.slot, l.nonce, m), m.Result)
	if l.s.Clients != nil {
		l.s.Clients.Done(l.slot, m)
	}
	return nil
}

func (l *link) actionWaits(_ context.Context, m *wire.ActionWaits) *core.Error {
	l.s.Engine.Waits(l.slot, m.Epoch, m.Action, m.Dialog)
	return nil
}

func (l *link) cdpAnswer(_ context.Context, m *wire.CDPAnswer) *core.Error {
	if l.s.Clients != nil {
		l.s.Clients.Answer(l.slot, m)
	}
	return nil
}

func (l *link) cdpLost(_ context.Context, m *wire.CDPLost) *core.Error {
	if l.s.Clients != nil && m.Nonce == l.nonce {
		l.s.Clients.Lost(l.slot, m)
	}
	return nil
}

func (l *link) cdpEvent(_ context.Context, m *wire.CDPEvent) *core.Error {
	if l.s.Clients != nil && m.Nonce == l.nonce {
		l.s.Clients.Event(l.slot, m)
	}
	return nil
}

func (l *link) cdpTab(_ context.Context, m *wire.CDPTab) *core.Error {
	if l.s.Clients != nil && m.Nonce == l.nonce {
		l.s.Clients.Tab(l.slot, m)
	}
	return nil
}

// personHold and personCall do not wait in the reader: a takeover's record may be
// slow, and what the extension says meanwhile is needed to settle it.

func (l *link) personHold(ctx context.Context, m *wire.PersonHold) *core.Error {
	if m.Nonce != l.nonce {
		return nil
	}
	l.s.group.Go(func() {
		res, _ := l.s.Engine.Takeover(ctx, core.Takeover{Slot: l.slot, Surface: "popup", Hold: m.Hold.ID, By: "human:popup"})
		if res.Refusal == nil && !res.Repeat && m.Hold.StopPage {
			res = l.s.Engine.Submit(ctx, core.StopPage{Slot: l.slot, Tabs: heard.Tabs(m.Hold.Tabs), By: "human:popup"})
		}
		if res.Refusal != nil {
			l.s.Log.Warn("takeover", "slot", l.slot, "why", res.Refusal.Message)
		}
	})
	return nil
}

func (l *link) personCall(ctx context.Context, m *wire.PersonCall) *core.Error {
	if m.Nonce != l.nonce {
		return nil
	}
	l.s.group.Go(func() {
		l.post(wire.PersonReply{Nonce: l.nonce, ID: m.ID, Error: l.call(ctx, m)})
	})
	return nil
}

func (l *link) call(ctx context.Context, m *wire.PersonCall) *core.Error {
	const by = "human:popup"
	ifEpoch := &m.IfEpoch
	if m.IfEpoch == 0 {
		ifEpoch = nil
	}
	switch m.Verb {
	case "handback":
		return l.s.Engine.Submit(ctx, core.Handback{Slot: l.slot, To: m.To, IfEpoch: ifEpoch, Confirm: m.Confirm, By: by}).Refusal
	case "stop_page":
		return l.s.Engine.Submit(ctx, core.StopPage{Slot: l.slot, IfEpoch: ifEpoch, Tabs: heard.Tabs(m.Tabs), By: by}).Refusal
	case "takeover":
		res, _ := l.s.Engine.Takeover(ctx, core.Takeover{Slot: l.slot, Surface: "popup", IfEpoch: ifEpoch, FromPerson: m.From, By: by})
		return res.Refusal
	}
	return core.Refuse(core.CodeInvalid, fmt.Sprintf("verb %q is not known", m.Verb), "")
}

func tabRefs(ts []core.Tab) []wire.TabRef {
	out := make([]wire.TabRef, len(ts))
	for i, t := range ts {
		out[i] = wire.TabRef{Tab: t.Tab, Title: t.Title, URL: t.URL}
	}
	return out
}
