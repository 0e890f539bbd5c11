package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

const (
	maxInbox = 4096
	maxBatch = 256
	// gather is how long a change that nobody waits for may stay undurable, so that it
	// shares the next one's commit: an agent's next action follows its last within
	// that time, and would otherwise wait behind the disk for the outcome of that one.
	gather = 5 * time.Millisecond
	// writeAfter is when such a change is written, so that the commit which it shares has
	// less to do: later than its client is told of it, sooner than its client asks again.
	writeAfter = 300 * time.Microsecond
	reopenWait = time.Second
	// checkpointAfter is after how many commits the store's log is copied into the
	// database, once nothing has been committed for quietFor: it takes as long as some
	// ten commits, and the record of a takeover is not to wait behind it.
	checkpointAfter = 64
	quietFor        = 50 * time.Millisecond
)

// writer is what the one writer has. The writer is whoever has the turn: the goroutine
// that submits an input takes it if it is free, because to hand an input to another
// goroutine and wait for that one costs more than to decide on it. One that may not
// wait for the disk, such as a link's reader, only decides, and leaves the commit to
// the loop.
type writer struct {
	inbox   chan request
	turn    sync.Mutex
	wake    chan struct{} // holds one token while there is something for the loop to do
	stopped chan struct{}

	// Of whoever has the turn.
	state    *core.State // with what is decided and not committed yet
	batch    batch
	held     []request   // what came while the database was closed
	failed   bool        // the database has to be opened anew
	why      error       // why, as it was last logged
	reopened time.Time   // when that was last done
	later    *time.Timer // wakes the loop for a batch that nobody waits for
	quiet    *time.Timer // wakes the loop for a checkpoint
	commits  int         // since the last one
	trim     trimmer
}

func newWriter() writer {
	return writer{
		inbox: make(chan request, maxInbox), wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		later: stoppedTimer(), quiet: stoppedTimer(), trim: trimmer{due: stoppedTimer()},
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// batch is what has been decided and is not committed.
type batch struct {
	all    []decided
	delta  core.Delta // of it, what is not written
	waited bool       // somebody waits for the commit
	since  time.Time  // of its first decision
}

type request struct {
	in    core.Input
	reply chan core.Result // buffered; nil if nobody waits
}

type decided struct {
	request
	res core.Result
}

// Submit lets one input be decided and returns once what was decided is durable. If ctx
// ends first it says that it does not know, unless it is the one that waits for the disk.
func (e *Engine) Submit(ctx context.Context, in core.Input) core.Result {
	r := request{in, make(chan core.Result, 1)}
	select {
	case e.inbox <- r:
	case <-ctx.Done():
		return core.Result{Refusal: core.Refuse(core.CodeUnavailable, "the daemon is busy; the request was not looked at", "ask again")}
	case <-e.ctx.Done():
		return core.Result{Refusal: core.Refuse(core.CodeUnavailable, "the daemon is ending", "ask again")}
	}
	if e.turn.TryLock() {
		if e.decideAll(); len(e.batch.all) > 0 {
			e.commit()
		}
		e.pass()
	}
	return e.result(ctx, r)
}

// result waits for the answer to a request that is in the inbox.
func (e *Engine) result(ctx context.Context, r request) core.Result {
	select {
	case res := <-r.reply:
		return res
	case <-ctx.Done():
		return core.Result{Refusal: core.Refuse(core.CodeOutcomeUnknown, "the answer did not come in time; the request may still be carried out", "look before you ask again")}
	case <-e.stopped:
		select {
		case res := <-r.reply:
			return res
		default:
			return core.Result{Refusal: core.Refuse(core.CodeOutcomeUnknown, "the daemon ended before it answered", "look before you ask again")}
		}
	}
}

// Enqueue submits an input whose result nobody waits for, in the order of the calls.
// It blocks while the inbox is full, and never for the disk. A refusal is logged.
func (e *Engine) Enqueue(in core.Input) {
	select {
	case e.inbox <- request{in: in}:
		e.decideNow()
	case <-e.ctx.Done():
	}
}

// enqueueNow takes a request in, or says why not. It never blocks.
func (e *Engine) enqueueNow(r request) *core.Error {
	if e.ctx.Err() != nil {
		return core.Refuse(core.CodeUnavailable, "the daemon is ending", "ask again")
	}
	select {
	case e.inbox <- r:
		e.decideNow()
		return nil
	default:
		return core.Refuse(core.CodeBusy, "the daemon is busy; the request was not looked at", "ask again")
	}
}

// decideNow decides on what has come in, if nobody else is at it.
func (e *Engine) decideNow() {
	if e.turn.TryLock() {
		e.decideAll()
		e.pass()
	}
}

// pass gives the turn up. What is left to do is the loop's: whoever found the turn
// taken has put his input into the inbox before.
func (e *Engine) pass() {
	now := e.failed || e.batch.waited
	if len(e.batch.all) > 0 && !now && e.batch.since.IsZero() {
		e.batch.since = time.Now()
		e.later.Reset(writeAfter)
	}
	e.pulse.rest()
	e.turn.Unlock()
	if now || len(e.inbox) > 0 {
		e.wakeLoop()
	}
}

func (e *Engine) wakeLoop() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// loop does what nobody is there to do, or may not wait for.
func (e *Engine) loop() {
	for {
		trim, quiet := false, false
		select {
		case <-e.ctx.Done():
			return
		case <-e.wake:
		case <-e.later.C:
		case <-e.quiet.C:
			quiet = true
		case <-e.trim.due.C:
			trim = true
		}
		e.turn.Lock()
		e.recover()
		e.decideAll()
		switch b := &e.batch; {
		case b.waited || !b.since.IsZero() && time.Since(b.since) >= gather:
			e.commit()
		case !b.since.IsZero() && time.Since(b.since) >= writeAfter:
			e.write()
		case trim && len(b.all) == 0:
			e.trimSome()
			trim = false
		case quiet && e.commits >= checkpointAfter && len(b.all) == 0 && !e.failed:
			e.checkpoint()
		}
		if trim {
			e.trim.due.Reset(gather)
		}
		e.pass()
	}
}

// decideAll decides on what has come in.
func (e *Engine) decideAll() {
	for !e.failed && len(e.batch.all) < maxBatch {
		select {
		case r := <-e.inbox:
			e.take(r)
		default:
			return
		}
	}
}

// take decides on one input and adds it to the batch.
func (e *Engine) take(r request) {
	d := decided{r, e.decide(r.in)}
	b := &e.batch
	b.delta.Merge(&d.res.Delta)
	b.all = append(b.all, d)
	b.waited = b.waited || d.waitedFor() || len(b.all) >= maxBatch
}

// waitedFor says whether anything or anybody waits for the commit of a decision. What
// a host or an extension tells of an action only adds to its record, unless it lets
// another action begin or moves a slot or a lease.
func (d *decided) waitedFor() bool {
	switch d.in.(type) {
	case core.Done, core.Reported:
	default:
		return true
	}
	delta := &d.res.Delta
	return d.reply != nil || len(delta.Slots)+len(delta.Leases) > 0 ||
		slices.ContainsFunc(d.res.Effects, func(e core.Effect) bool { _, ok := e.(core.SendForget); return !ok })
}

// decide steps the state. If a takeover took a number that the step wanted, it is
// decided again above it.
func (e *Engine) decide(in core.Input) core.Result {
	e.pulse.beat()
	var own core.Epoch
	if taken, ok := in.(core.Takeover); ok {
		own = taken.Epoch
	}
	for {
		floor := e.reg.Floor()
		res := core.Step(e.state, e.clock(), floor, in)
		if e.reg.Claim(e.state.Slots, &res.Delta, own) {
			e.state.Apply(&res.Delta)
			switch in := in.(type) {
			case core.Done:
				e.tell(res.Delta.Actions)
			case core.Fenced:
				e.acknowledged(in)
			}
			return res
		}
	}
}

// write writes the batch, whose commit is still to come.
func (e *Engine) write() {
	if err := e.store.Write(&e.batch.delta); err != nil {
		e.uncertain(err)
		return
	}
	e.batch.delta = core.Delta{}
	e.later.Reset(max(0, gather-time.Since(e.batch.since)))
}

// commit makes the batch durable, then carries out the effects and answers.
func (e *Engine) commit() {
	e.later.Stop()
	if err := e.store.Commit(&e.batch.delta); err != nil {
		e.uncertain(err)
		return
	}
	if e.commits++; e.commits >= checkpointAfter {
		e.quiet.Reset(quietFor)
	}
	b := e.batch
	e.batch = batch{}
	e.reg.Sync(b.delta.Slots) // a decision that moves a slot is waited for: all are in here
	e.show(b.all)
	for _, d := range b.all {
		for _, eff := range d.res.Effects {
			e.carry(eff)
		}
		if act, ok := d.in.(core.Act); ok && (d.res.Repeat || d.res.Refusal != nil) {
			e.payloads.take(act.Action) // it was not admitted, whoever still waits for the answer
		}
		if d.reply != nil {
			d.reply <- d.res
		} else if d.res.Refusal != nil {
			e.log.Info("not accepted", "input", fmt.Sprintf("%T", d.in), "why", d.res.Refusal.Message)
		}
	}
}

// checkpoint has the store copy its log. Nothing is decided and not committed.
func (e *Engine) checkpoint() {
	e.commits = 0
	e.quiet.Stop()
	if err := e.store.Checkpoint(); err != nil {
		e.log.Error("the log was not copied into the database", "err", err)
	}
}

// uncertain answers a batch whose commit failed. Whether it is on the disk is not
// known, so nothing of it is carried out; the loop opens the database anew.
func (e *Engine) uncertain(err error) {
	e.log.Error("commit failed", "err", err)
	e.why = err
	for _, d := range e.batch.all {
		e.putOff(d.request)
	}
	e.later.Stop()
	e.batch, e.failed = batch{}, true
}

// recover opens the database anew, if that is needed. What it says is taken as after a restart, with the
// takeovers that were out already.
func (e *Engine) recover() {
	for e.failed && e.ctx.Err() == nil {
		if time.Since(e.reopened) < reopenWait {
			// It was opened a moment ago and the first that was written has failed again: each
			// further opening would raise every epoch.
			e.putOffFor(reopenWait)
			e.pulse.beat()
		}
		err := e.reopen()
		e.reopened = time.Now()
		if err != nil {
			if e.why == nil || e.why.Error() != err.Error() {
				e.log.Error("database cannot be opened again", "err", err)
			}
			e.why = err
			e.putOffFor(reopenWait)
			e.pulse.beat()
			continue
		}
		e.log.Info("database opened again")
		e.failed, e.why = false, nil
		held := e.held
		e.held = nil
		for _, r := range held {
			e.take(r)
		}
	}
}

// reopen reads the database anew and makes its state that of a restarted daemon.
func (e *Engine) reopen() error {
	if err := e.store.Reopen(); err != nil {
		return err
	}
	if err := e.load(); err != nil {
		return err
	}
	inputs := []core.Input{core.Restarted{}}
	for _, taken := range e.reg.Unrecorded() {
		inputs = append(inputs, taken)
	}
	all, err := e.decideAnew(inputs)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.seen = e.state.Clone()
	e.mu.Unlock()
	e.reg.Sync(slices.Collect(maps.Values(e.state.Slots)))
	e.show(all)
	for _, d := range all {
		for _, eff := range d.res.Effects {
			e.carry(eff)
		}
	}
	return nil
}

// decideAnew decides on what comes first after the database was read, and commits it.
func (e *Engine) decideAnew(inputs []core.Input) (all []decided, err error) {
	var delta core.Delta
	for _, in := range inputs {
		res := core.Step(e.state, e.clock(), e.reg.Floor(), in)
		e.state.Apply(&res.Delta)
		delta.Merge(&res.Delta)
		all = append(all, decided{res: res})
	}
	return all, e.store.Commit(&delta)
}

// maxHeld bounds what is kept for a database that cannot be written.
const maxHeld = 10_000

// putOff answers a request that cannot be recorded now. What links and the supervisor
// have seen is kept and decided later: it happened.
func (e *Engine) putOff(r request) {
	if r.reply == nil {
		if _, tick := r.in.(core.Tick); !tick && len(e.held) < maxHeld {
			e.held = append(e.held, r)
		}
		return
	}
	refusal := core.Refuse(core.CodeUnavailable, "the database cannot be written", "look at the disk; a takeover works all the same")
	if why, ok := errors.AsType[*core.Error](e.why); ok && why.Detail["corrupt"] == true {
		refusal = core.Refuse(core.CodeUnavailable, why.Message, why.Hint).With("corrupt", true)
	}
	if act, ok := r.in.(core.Act); ok {
		e.payloads.take(act.Action)
	}
	if _, taken := r.in.(core.Takeover); taken {
		refusal = refusal.With("fence_sent", true) // who waits for it words it
	}
	r.reply <- core.Result{Refusal: refusal}
}

// putOffFor does so for a while.
func (e *Engine) putOffFor(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-e.ctx.Done():
			return
		case r := <-e.inbox:
			e.putOff(r)
		}
	}
}

// enqueueLater submits an input from within the writer itself, which must not wait for
// its own inbox.
func (e *Engine) enqueueLater(in core.Input) { e.background(func() { e.Enqueue(in) }) }
