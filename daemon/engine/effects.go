package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/failpoint"
	"sessiondock.dev/sessiondock/daemon/supervise"
)

// carry carries one effect out. It is idempotent, and an effect of an epoch that
// the register has left behind is dropped.
func (e *Engine) carry(eff core.Effect) {
	switch eff := eff.(type) {
	case core.SendWelcome:
		on := e.send(eff.Slot, eff, Context{})
		e.linksMu.Lock()
		e.welcomed[eff.Slot] = on
		e.linksMu.Unlock()
	case core.SendFence:
		if l := e.link(eff.Slot); l != nil && e.reg.Due(eff.Slot, eff.Epoch, l.Nonce()) {
			// Should the daemon die before a takeover is recorded, the extension tells of it.
			eff.Person = eff.Person || e.reg.Person(eff.Slot)
			e.send(eff.Slot, eff, Context{})
		}
	case core.SendPoke:
		if e.reg.Grants(eff.Slot, eff.Epoch) {
			e.send(eff.Slot, eff, Context{})
		}
	case core.SendGrant:
		if eff.Epoch != 0 && !e.reg.Grants(eff.Slot, eff.Epoch) {
			eff.Epoch = 0
		}
		e.send(eff.Slot, eff, Context{})
	case core.SendAction:
		payload, ok := e.payloads.take(eff.Action)
		if !e.reg.Grants(eff.Slot, eff.Epoch) {
			return // the drain will show that it was never dispatched
		}
		c := Context{Payload: payload}
		e.View(func(s *core.State, now core.Now) {
			if c.Action = s.Actions[eff.Action]; c.Action != nil { // else it is closed already
				c.LeftMs = c.Action.Deadline.LeftMs(now)
			}
		})
		if !ok || c.LeftMs <= 0 {
			e.enqueueLater(core.Overdue{Action: eff.Action}) // a commit took longer than it had
			return
		}
		e.send(eff.Slot, eff, c)
	case core.SendForget:
		e.send(eff.Slot, eff, Context{})
	case core.SendStopPage:
		if e.reg.Current(eff.Slot, eff.Epoch) {
			e.send(eff.Slot, eff, Context{})
		}
	case core.TrimJournal:
		e.beginTrim(eff.UpTo)
	case core.SendProbe:
		if e.reg.Current(eff.Slot, eff.Epoch) {
			e.send(eff.Slot, eff, Context{})
		}
	case core.StartLaunch:
		e.background(func() { e.start(eff) })
	case core.StopLaunch:
		e.background(func() { e.stop(eff) })
	}
}

// send gives an effect to the slot's link, if there is one, and says which that was.
func (e *Engine) send(slot core.SlotName, eff core.Effect, c Context) core.Nonce {
	e.linksMu.Lock()
	l := e.links[slot]
	e.linksMu.Unlock()
	if l == nil {
		return ""
	}
	e.mu.RLock()
	if s := e.seen.Slots[slot]; s != nil {
		c.Seq = s.Told
	}
	e.mu.RUnlock()
	l.Carry(eff, c)
	return l.Nonce()
}

// hears says whether the extension on a link was welcomed: what comes to it before that it
// drops.
func (e *Engine) hears(slot core.SlotName, link core.Nonce) bool {
	e.linksMu.Lock()
	defer e.linksMu.Unlock()
	return e.welcomed[slot] == link
}

// Attach makes a link the slot's. A former one is closed first.
func (e *Engine) Attach(slot core.SlotName, l Link) {
	e.attaching.Lock() // what two hosts say of one slot is told in the order it happened
	defer e.attaching.Unlock()
	e.linksMu.Lock()
	old := e.links[slot]
	e.links[slot] = l
	e.linksMu.Unlock()
	if old != nil {
		old.Close("another host of this launch has taken the link")
		e.Enqueue(core.LinkLost{Slot: slot, Nonce: old.Nonce(), Why: "replaced by a new host"})
	}
	e.Enqueue(core.LinkUp{Slot: slot, Nonce: l.Nonce()})
}

// Detach ends a link that was lost.
func (e *Engine) Detach(slot core.SlotName, l Link, why string) {
	e.linksMu.Lock()
	if e.links[slot] == l {
		delete(e.links, slot)
	}
	e.linksMu.Unlock()
	e.Enqueue(core.LinkLost{Slot: slot, Nonce: l.Nonce(), Why: why})
}

func (e *Engine) link(slot core.SlotName) Link {
	e.linksMu.Lock()
	defer e.linksMu.Unlock()
	return e.links[slot]
}

// recordWait is how long a takeover waits for its record before it is noted; and, once the
// extension has acknowledged it, before the person is told that control is theirs and the
// record not written.
const recordWait = 100 * time.Millisecond

// Takeover gives a slot to a person: number and fence first, the record after. It
// returns once that is durable, or once the extension has acknowledged the fence, with
// the status at that moment: should the daemon die before the record is written, a note or
// the extension's next hello tells of the takeover.
func (e *Engine) Takeover(ctx context.Context, in core.Takeover) (core.Result, *core.Status) {
	return e.takeover(ctx, in, 0)
}

// TakeoverAnswered does the same, and returns no sooner than the extension has answered
// the fence, if it does within d. What it listed is then in the status, which is told when
// it is decided: with many commands open, writing that down takes longer than the answer.
func (e *Engine) TakeoverAnswered(ctx context.Context, in core.Takeover, d time.Duration) (core.Result, *core.Status) {
	return e.takeover(ctx, in, d)
}

func (e *Engine) takeover(ctx context.Context, in core.Takeover, patience time.Duration) (core.Result, *core.Status) {
	var up core.Nonce
	watchMs := int64(core.DefaultWatchMs)
	e.View(func(s *core.State, _ core.Now) {
		if l := s.Links[in.Slot]; l.Up() && e.hears(in.Slot, l.Nonce) {
			up = l.Nonce // otherwise the record sends the fence once more, after the welcome
		}
		watchMs = core.WatchMs(s, in.Slot)
	})
	out, err := e.reg.Takeover(in, up)
	if err != nil {
		return core.Result{Refusal: err}, nil
	}
	fence := core.SendFence{
		Slot: in.Slot, Epoch: out.Epoch, Person: true, FromPerson: out.FromHuman, Hold: in.Hold, WatchMs: watchMs,
	}
	if out.Again {
		// It was answered before, and its answer was lost. Who holds the slot by now is not
		// changed by that: an agent that was granted it since pulls its grant anew.
		fence.Person = e.reg.Person(in.Slot)
		e.send(in.Slot, fence, Context{})
		if !fence.Person {
			e.send(in.Slot, core.SendPoke{Slot: in.Slot, Epoch: out.Epoch}, Context{})
		}
		return core.Result{Repeat: true}, nil
	}
	acknowledged, leave := e.acks.join(in.Slot, out.Epoch)
	defer leave()
	// The record goes into the inbox before the fence goes out, so that it is decided
	// before the extension's answer. With a full inbox the fence does not wait for it.
	r := request{out.Takeover, make(chan core.Result, 1)}
	select {
	case e.inbox <- r:
		e.send(in.Slot, fence, Context{})
		e.wakeLoop() // this goroutine may not hang with the disk
	default:
		e.send(in.Slot, fence, Context{})
		// What the register has issued is recorded whoever still waits for it.
		e.background(func() {
			select {
			case e.inbox <- r:
				e.wakeLoop()
			case <-e.ctx.Done():
			}
		})
	}
	slow := time.After(recordWait)
	var late <-chan time.Time
	for {
		select {
		case st := <-acknowledged:
			if st != nil {
				e.noteNow() // should its browser end before the next daemon has heard of it
				return core.Result{}, st
			}
			late = time.After(recordWait)
		case res := <-r.reply:
			if res.Refusal != nil && res.Refusal.Detail["fence_sent"] == true {
				res.Refusal = e.unwritten(in.Slot, res.Refusal)
			}
			if res.Refusal == nil && patience > 0 {
				return res, e.answered(ctx, in.Slot, out.Epoch, acknowledged, patience)
			}
			return res, nil
		case <-slow:
			e.noteNow() // a disk that hangs may never answer
		case <-late:
			e.noteNow()
			return core.Result{}, e.Status(in.Slot)
		case <-ctx.Done():
			e.noteNow()
			return e.result(ctx, r), nil
		case <-e.stopped:
			e.noteNow()
			return e.result(ctx, r), nil
		}
	}
}

// answered waits until the extension's answer to the fence of a recorded epoch is decided,
// or is not waited for any more, and returns the slot's status.
func (e *Engine) answered(ctx context.Context, slot core.SlotName, epoch core.Epoch, acknowledged <-chan *core.Status, d time.Duration) *core.Status {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		changed := e.Changed(slot)
		pending := false
		e.View(func(s *core.State, _ core.Now) {
			v := s.Slots[slot]
			// Something decided above the takeover's number has given it a higher one.
			pending = v.Epoch >= epoch && v.Holder.Kind == "human" && v.Fence.State == "pending"
		})
		if !pending {
			return e.Status(slot)
		}
		select {
		case st := <-acknowledged:
			if st != nil {
				return st
			}
		case <-changed:
		case <-timer.C:
			return e.Status(slot)
		case <-ctx.Done():
			return e.Status(slot)
		case <-e.ctx.Done():
			return e.Status(slot)
		}
	}
}

// Act asks for an action and returns once it has been admitted or refused. The
// payload is kept in memory until it is sent.
func (e *Engine) Act(ctx context.Context, in core.Act, payload any) core.Result {
	e.payloads.ask(in.Action, payload)
	res := e.Submit(ctx, in)
	if res.Repeat || res.Refusal != nil && res.Refusal.Code != core.CodeOutcomeUnknown {
		e.payloads.take(in.Action) // it was not admitted
	}
	return res
}

// ActInOrder asks for an action as Act does, and returns without waiting for the answer:
// actions that are asked for one after another are decided, and leave, in that order.
func (e *Engine) ActInOrder(in core.Act, payload any) <-chan core.Result {
	e.payloads.ask(in.Action, payload)
	r := request{in, make(chan core.Result, 1)}
	if refusal := e.enqueueNow(r); refusal != nil {
		e.payloads.take(in.Action)
		r.reply <- core.Result{Refusal: refusal}
	}
	return r.reply
}

// StopWaiting tells the host of an action that nobody waits for its answer any more.
func (e *Engine) StopWaiting(slot core.SlotName, epoch core.Epoch, action core.ActionID) {
	if e.reg.Grants(slot, epoch) {
		e.send(slot, core.SendStopWaiting{Slot: slot, Epoch: epoch, Action: action}, Context{})
	}
}

// Grants says whether something may be told to an agent under an epoch, whatever is on
// the disk: it is the slot's newest and no person has taken over since.
func (e *Engine) Grants(slot core.SlotName, epoch core.Epoch) bool { return e.reg.Grants(slot, epoch) }

// Over returns a channel that is closed once an epoch is not the slot's newest any more,
// before that is on the disk.
func (e *Engine) Over(slot core.SlotName, epoch core.Epoch) <-chan struct{} {
	return e.reg.Over(slot, epoch)
}

// Done takes the host's last word on an action. What was seen is kept only while
// the action's epoch is in force (I10).
func (e *Engine) Done(in core.Done, result json.RawMessage) {
	if e.reg.Grants(in.Slot, in.Epoch) {
		e.payloads.keep(in.Action, result)
	}
	e.Enqueue(in)
}

// Result returns what an action saw, to be given only to its own lease while its
// epoch lasts.
func (e *Engine) Result(a *core.Action) json.RawMessage {
	if a.Over || !e.reg.Grants(a.Slot, a.Epoch) {
		e.payloads.forget(a.Action)
		return nil
	}
	return e.payloads.result(a.Action)
}

// secret draws 256 random bits, hexadecimal.
func secret() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// NewID draws an identifier that sorts by time.
func NewID() string { return ulid.Make().String() }

// NewSecret draws a secret and its hash.
func NewSecret() (plain, hash string) {
	plain = secret()
	return plain, HashSecret(plain)
}

// HashSecret is how secrets are kept: they are random, so one SHA-256 is enough.
func HashSecret(plain string) string {
	h := sha256.Sum256([]byte(plain))
	return hex.EncodeToString(h[:])
}

// startPages are the pages that a launch opens with: those of the binding whose lease
// it is for, else those of the slot's bindings.
func startPages(s *core.State, slot *core.Slot) []string {
	if l := s.Leases[slot.Lease]; l != nil {
		if b := s.Bindings[l.Binding]; b != nil && b.Start != "" {
			return []string{b.Start}
		}
	}
	for _, l := range s.LiveLeases(slot.Name) {
		// Nobody has the slot: the browser is to show whether it is signed in for this one.
		if b := s.Bindings[l.Binding]; l.State == core.LeaseWaiting && b != nil && b.Start != "" {
			return []string{b.Start}
		}
	}
	var pages []string
	for _, b := range s.Bindings {
		if b.Slot == slot.Name && !b.Removed && b.Start != "" {
			pages = append(pages, b.Start)
		}
	}
	slices.Sort(pages)
	return slices.Compact(pages)
}

// insist submits what the supervisor has seen until it is recorded: it happened,
// whether or not the database can be written.
func (e *Engine) insist(in core.Input) {
	for e.ctx.Err() == nil {
		res := e.Submit(e.ctx, in)
		if res.Refusal == nil || res.Refusal.Code != core.CodeUnavailable {
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-e.ctx.Done():
		}
	}
}

// start starts a launch: recorded, started, recorded, watched.
func (e *Engine) start(eff core.StartLaunch) {
	id := core.LaunchID(NewID())
	plain, hash := NewSecret()
	var display string
	var pages []string
	e.View(func(s *core.State, _ core.Now) {
		display = s.Slots[eff.Slot].Display
		pages = startPages(s, s.Slots[eff.Slot])
	})
	unit := e.sup.Unit(eff.Slot, eff.Generation, id)
	e.starts.Store(id, true) // before anybody can ask for its end
	defer e.starts.Delete(id)
	res := e.Submit(e.ctx, core.LaunchStarting{Slot: eff.Slot, Generation: eff.Generation, Launch: id, SecretHash: hash, Debug: e.opts.Debug, Unit: unit})
	if res.Refusal != nil {
		return // another start was first
	}
	launch := core.Launch{ID: id, Generation: eff.Generation, SecretHash: hash, Identity: core.Identity{Unit: unit}}
	failpoint.Hit("before-effect")
	started, err := e.sup.Start(e.ctx, supervise.Spec{
		Slot: eff.Slot, Launch: id, Generation: eff.Generation, Secret: plain, Display: display, StartURLs: pages, Debug: e.opts.Debug,
	})
	failpoint.Hit("after-effect")
	if err != nil {
		e.log.Error("browser did not start", "slot", eff.Slot, "err", err)
		ended := e.sup.Stop(context.WithoutCancel(e.ctx), eff.Slot, launch, supervise.StopNow)
		e.starts.Delete(id) // who asks from here on has not been answered by this
		e.ended(eff.Slot, id, supervise.Ended{Verified: ended.Verified, Containment: ended.Containment, How: "it did not start: " + withHint(err)})
		return
	}
	launch.Identity = started
	e.insist(core.LaunchRunning{Slot: eff.Slot, Launch: id, Identity: started})
	e.starts.Delete(id)
	e.watchLaunch(eff.Slot, launch)
}

// adopt finds a launch again that a former daemon started.
func (e *Engine) adopt(slot core.SlotName, l core.Launch) {
	e.background(func() {
		found, err := e.sup.Adopt(e.ctx, slot, l)
		if err != nil {
			ended := notFound(err)
			e.ended(slot, l.ID, ended)
			return
		}
		if l.State == "starting" {
			// The former daemon started it and did not live to record that.
			l.Identity = found
			e.insist(core.LaunchRunning{Slot: slot, Launch: l.ID, Identity: found})
		}
		e.watchLaunch(slot, l)
	})
}

// notFound is what the refusal of an adoption says of the launch's end.
func notFound(err error) supervise.Ended {
	ended := supervise.Ended{How: err.Error()}
	if ce, ok := err.(*core.Error); ok && ce.Code == core.CodeNotFound {
		ended.Verified = true
		ended.Clean, _ = ce.Detail["clean"].(bool)
	}
	return ended
}

// watchLaunch reports a launch's end.
func (e *Engine) watchLaunch(slot core.SlotName, l core.Launch) {
	ended := e.sup.Wait(e.ctx, slot, l)
	if e.ctx.Err() == nil {
		e.ended(slot, l.ID, ended)
	}
}

func (e *Engine) ended(slot core.SlotName, id core.LaunchID, ended supervise.Ended) {
	e.insist(core.LaunchEnded{Slot: slot, Launch: id, Verified: ended.Verified, Containment: ended.Containment, Clean: ended.Clean, How: ended.How})
	if l := e.link(slot); ended.Verified && l != nil {
		l.Close("the launch has ended")
	}
}

// stop ends a launch. For a clean end the extension first readies the pages, whose
// beforeunload dialogs would otherwise keep the browser.
//
// Of a launch that is still being started nothing can be verified: it would come up after
// its end. It is told once its start is recorded, for which the core asks again; a start
// that fails ends it.
func (e *Engine) stop(eff core.StopLaunch) {
	_, starts := e.starts.Load(eff.Launch)
	var l core.Launch
	e.View(func(s *core.State, _ core.Now) {
		if v := s.Slots[eff.Slot].Launch; v != nil {
			l = *v
		}
	})
	if l.ID != eff.Launch || starts && l.KeeperPID == 0 {
		return // a stale stop, or one that comes again
	}
	mode := supervise.StopClean
	if eff.Now {
		mode = supervise.StopNow
	} else if link := e.link(eff.Slot); link != nil {
		select {
		case <-link.StopPrepare():
		case <-time.After(time.Second):
		case <-e.ctx.Done():
			return
		}
	}
	e.ended(eff.Slot, l.ID, e.sup.Stop(context.WithoutCancel(e.ctx), eff.Slot, l, mode))
}

// withHint words an error with what mends it.
func withHint(err error) string {
	if e, ok := errors.AsType[*core.Error](err); ok && e.Hint != "" {
		return e.Message + " (" + e.Hint + ")"
	}
	return err.Error()
}
