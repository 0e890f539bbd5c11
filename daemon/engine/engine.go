package engine

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/fence"
	"sessiondock.dev/sessiondock/daemon/supervise"
)

// Store makes decisions durable. What Write takes is durable with the next Commit. A
// Commit or a Trim that answers an error may or may not have happened: the engine then
// reopens and reads.
type Store interface {
	LoadOpen() (*core.State, error)
	Write(*core.Delta) error
	Commit(*core.Delta) error
	Reopen() error
	Trim(upTo int64, limit int) (core.Trimmed, error)

	// Readers, which do not keep the writer waiting.
	Action(core.ActionID) (*core.Action, error)
	Actions(slot core.SlotName, before core.ActionID, limit int) ([]*core.Action, error)
	Events(core.EventQuery) (core.EventPage, error)
	Kept() (core.Kept, error)
	Cut(beforeMs, bytes int64) (int64, error)
}

// Link is the daemon's end of one attested connection to a slot's host. Carry must
// not block: it queues, and closes the link if the queue is full.
type Link interface {
	Nonce() core.Nonce
	Carry(core.Effect, Context)
	StopPrepare() <-chan struct{} // closed when the extension is ready for a clean stop
	Show(*core.Status)            // for the popup
	Close(reason string)
}

// Context is what an effect needs besides itself.
type Context struct {
	Seq     int64        // of the journal's last durable entry
	Action  *core.Action // of SendAction
	Payload any          // of SendAction: what the client asked for
	LeftMs  int64        // of SendAction: until its deadline
}

const (
	maxInbox  = 4096
	maxBatch  = 256
	tickEvery = 100 * time.Millisecond
	// measureEvery is how often the memory of browsers is looked at: reading it costs
	// milliseconds a browser, and it changes slowly.
	measureEvery = 5 * time.Second
	// gather is how long a change that nobody waits for may stay in memory, so that it
	// shares the next one's commit: an agent's next action follows its last within
	// that time, and would otherwise wait behind the disk for the outcome of that one.
	gather     = 5 * time.Millisecond
	reopenWait = time.Second
)

// Engine is the one writer of one database.
type Engine struct {
	store Store
	sup   supervise.Supervisor
	clock Clock
	log   *slog.Logger
	opts  Options

	inbox chan request
	reg   *fence.Register

	state *core.State // with what is decided and not committed yet: the writer's own

	mu        sync.RWMutex // guards seen and watch
	seen      *core.State  // what is committed: all that anybody else sees
	watch     map[core.SlotName]chan struct{}
	attaching sync.Mutex // held for the whole of an Attach
	linksMu   sync.Mutex
	links     map[core.SlotName]Link
	payloads  payloads
	waiting   waiting
	acks      acks
	held      []request // the writer's own: what came while the database was closed
	trim      trimmer
	pulse     pulse

	stopped chan struct{}
	group   sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc
}

// Options are of one daemon.
type Options struct {
	Debug    string // debugging switches of launches, for demonstrations and tests
	Capacity core.Capacity
}

type request struct {
	in    core.Input
	reply chan core.Result // buffered; nil if nobody waits
}

// New loads the state and makes it that of a restarted daemon: every epoch raised,
// every lease suspended, what was open unknown.
func New(store Store, sup supervise.Supervisor, clock Clock, log *slog.Logger, opts Options) (*Engine, error) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Engine{
		sup: sup, clock: clock, log: log, opts: opts,
		inbox: make(chan request, maxInbox), reg: fence.New(),
		watch: map[core.SlotName]chan struct{}{}, links: map[core.SlotName]Link{},
		payloads: newPayloads(), waiting: waiting{by: map[core.ActionID][]chan *core.Action{}},
		acks: acks{by: map[ackKey]chan *core.Status{}}, stopped: make(chan struct{}), ctx: ctx, cancel: cancel,
	}
	e.store = watchedStore{store, &e.pulse}
	if err := e.load(); err != nil {
		cancel()
		return nil, err
	}
	res := core.Step(e.state, e.clock(), nil, core.Restarted{})
	if err := e.store.Commit(&res.Delta); err != nil {
		cancel()
		return nil, err
	}
	e.state.Apply(&res.Delta)
	e.seen = e.state.Clone()
	e.reg.Sync(slices.Collect(maps.Values(e.state.Slots)))
	for _, s := range e.state.Slots {
		if s.Launch.Live() {
			e.adopt(s.Name, *s.Launch)
		}
	}
	e.group.Go(e.loop)
	e.group.Go(e.tick)
	if opts.Capacity.MemoryMB > 0 {
		e.group.Go(e.measure)
	}
	for _, eff := range res.Effects {
		e.carry(eff) // a stop that the former daemon did not finish
	}
	return e, nil
}

func (e *Engine) load() error {
	s, err := e.store.LoadOpen()
	if err != nil {
		return err
	}
	s.Capacity = e.opts.Capacity
	if e.state != nil {
		s.Links, s.Probes, s.MemoryMB = e.state.Links, e.state.Probes, e.state.MemoryMB // of this life, not of the database
	}
	e.state = s
	return nil
}

// Close ends the engine. Browsers go on.
func (e *Engine) Close() {
	e.cancel()
	e.group.Wait()
}

// Submit lets one input be decided and returns once what was decided is durable.
func (e *Engine) Submit(ctx context.Context, in core.Input) core.Result {
	r := request{in, make(chan core.Result, 1)}
	select {
	case e.inbox <- r:
	case <-ctx.Done():
		return core.Result{Refusal: core.Refuse(core.CodeUnavailable, "the daemon is busy; the request was not looked at", "ask again")}
	case <-e.ctx.Done():
		return core.Result{Refusal: core.Refuse(core.CodeUnavailable, "the daemon is ending", "ask again")}
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
// It blocks while the inbox is full. A refusal is logged.
func (e *Engine) Enqueue(in core.Input) {
	select {
	case e.inbox <- request{in: in}:
	case <-e.ctx.Done():
	}
}

func (e *Engine) loop() {
	defer close(e.stopped)
	for {
		select {
		case <-e.ctx.Done():
			return
		case r := <-e.inbox:
			e.batch(r)
			e.pulse.rest()
		case <-e.trim.due:
			e.trimSome()
			e.pulse.rest()
		}
	}
}

type decided struct {
	request
	res core.Result
}

// batch decides on what has come in, commits it as one transaction, then carries
// out the effects and answers.
func (e *Engine) batch(first request) {
	var all []decided
	var delta core.Delta // decided and not written
	waited := false
	var late <-chan time.Time
	for r, more := first, true; more; {
		d := decided{r, e.decide(r.in)}
		delta.Merge(&d.res.Delta)
		all = append(all, d)
		waited = waited || d.waitedFor()
		if len(all) == maxBatch {
			break
		}
		select {
		case r = <-e.inbox:
			continue
		default:
		}
		if waited {
			break
		}
		// Nobody waits for what has come so far, so it is written while that is so; what
		// it shares its commit with will find less to do. Whoever was just told goes first.
		runtime.Gosched()
		if err := e.store.Write(&delta); err != nil {
			e.uncertain(all, err)
			return
		}
		delta = core.Delta{}
		if late == nil {
			late = time.After(gather)
		}
		select {
		case r = <-e.inbox:
		case <-late:
			more = false
		case <-e.ctx.Done():
			more = false
		}
	}
	if err := e.store.Commit(&delta); err != nil {
		e.uncertain(all, err)
		return
	}
	e.reg.Sync(delta.Slots) // a decision that moves a slot is waited for: all are in here
	e.show(all)
	for _, d := range all {
		for _, eff := range d.res.Effects {
			e.carry(eff)
		}
		if d.reply != nil {
			d.reply <- d.res
		} else if d.res.Refusal != nil {
			e.log.Info("not accepted", "input", fmt.Sprintf("%T", d.in), "why", d.res.Refusal.Message)
		}
	}
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

// uncertain answers a batch whose commit failed. Whether it is on the disk is not
// known, so nothing of it is carried out; the database is opened anew and what it
// says is taken as after a restart, with the takeovers that were out already.
func (e *Engine) uncertain(all []decided, err error) {
	e.log.Error("commit failed", "err", err)
	for _, d := range all {
		e.putOff(d.request)
	}
	for e.ctx.Err() == nil {
		err := e.reopen()
		if err == nil {
			e.log.Info("database opened again")
			held := e.held
			e.held = nil
			for _, r := range held {
				e.batch(r)
			}
			return
		}
		e.log.Error("database cannot be opened again", "err", err)
		e.putOffFor(reopenWait)
		e.pulse.beat()
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
	var all []decided
	var delta core.Delta
	inputs := []core.Input{core.Restarted{}}
	for _, taken := range e.reg.Unrecorded() {
		inputs = append(inputs, taken)
	}
	for _, in := range inputs {
		res := core.Step(e.state, e.clock(), e.reg.Floor(), in)
		e.state.Apply(&res.Delta)
		delta.Merge(&res.Delta)
		all = append(all, decided{res: res})
	}
	if err := e.store.Commit(&delta); err != nil {
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
	if _, taken := r.in.(core.Takeover); taken {
		refusal = core.Refuse(core.CodeUnavailable, "the slot is yours and the fence is out, but the database cannot be written: the record follows when it can",
			"look at the disk").With("fence_sent", true)
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

// later submits an input from within the writer itself, which must not wait for its
// own inbox.
func (e *Engine) later(in core.Input) { e.group.Go(func() { e.Enqueue(in) }) }

// measure tells the core what running browsers use of the memory, where that is
// bounded.
func (e *Engine) measure() {
	ticker := time.NewTicker(measureEvery)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
		}
		running := map[core.SlotName]core.Launch{}
		e.View(func(s *core.State, _ core.Now) {
			for name, v := range s.Slots {
				if v.Launch != nil && v.Launch.State == "running" {
					running[name] = *v.Launch
				}
			}
		})
		used := map[core.SlotName]int64{}
		for name, l := range running {
			used[name] = e.sup.MemoryMB(l)
		}
		e.Submit(e.ctx, core.Measured{MemoryMB: used})
	}
}

func (e *Engine) tick() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
			due := false
			e.View(func(s *core.State, now core.Now) { due = core.Due(s, now) })
			if due {
				e.Submit(e.ctx, core.Tick{})
			}
		}
	}
}

// View reads the committed state. The function must not keep what it is given beyond its end,
// except single entities, which never change once applied.
func (e *Engine) View(read func(s *core.State, now core.Now)) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	read(e.seen, e.clock())
}

// Status tells a slot's three answers, or nil.
func (e *Engine) Status(slot core.SlotName) *core.Status {
	var st *core.Status
	e.View(func(s *core.State, now core.Now) { st = core.StatusOf(s, now, slot) })
	if taken, acknowledged := e.reg.Taken(slot); st != nil && taken != nil {
		// The fence is out and the record is not written: the person has control, whatever
		// the disk says.
		st.Authority = core.AuthorityNow{Holder: core.Holder{Kind: "human", Name: taken.Surface}, Epoch: taken.Epoch, Fence: "pending"}
		if acknowledged {
			st.Authority.Fence = "acknowledged"
		}
		st.Offer = core.Offer{Why: []string{"held by a person (" + taken.Surface + ")"}}
		st.Local.State = "unknown"
		st.Sentences.Authority = fmt.Sprintf("Control is yours (epoch %d). The record of it is not written yet.", taken.Epoch)
		st.Sentences.Local = "What may still run is not known until the record is written."
	}
	return st
}

// Changed returns a channel that is closed at the slot's next change. Take it
// before looking.
func (e *Engine) Changed(slot core.SlotName) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.watch[slot]
	if !ok {
		c = make(chan struct{})
		e.watch[slot] = c
	}
	return c
}

// show lets others see what has been committed, and wakes those who watch it.
func (e *Engine) show(all []decided) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range all {
		e.seen.Apply(&all[i].res.Delta)
		for _, a := range all[i].res.Delta.Actions {
			if a.Over {
				e.payloads.forget(a.Action) // nothing of it is typed or told any more
			}
		}
	}
	wake := func(slot core.SlotName) {
		if c, ok := e.watch[slot]; ok {
			close(c)
			delete(e.watch, slot)
		}
	}
	for _, d := range all {
		for _, s := range d.res.Delta.Slots {
			wake(s.Name)
		}
		for _, l := range d.res.Delta.Leases {
			wake(l.Slot)
		}
		for _, a := range d.res.Delta.Actions {
			wake(a.Slot)
		}
		for name := range d.res.Delta.Links {
			wake(name)
		}
		for name := range d.res.Delta.Probes {
			wake(name)
		}
	}
	if slices.ContainsFunc(all, func(d decided) bool { return len(d.res.Delta.Journal) > 0 }) {
		wake("") // those who follow the journal
	}
}

// Wait blocks until ready says so about the state, the slot has not changed for the
// rest of d, or ctx ends. It returns whether it was ready.
func (e *Engine) Wait(ctx context.Context, slot core.SlotName, d time.Duration, ready func(*core.State, core.Now) bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		changed := e.Changed(slot)
		ok := false
		e.View(func(s *core.State, now core.Now) { ok = ready(s, now) })
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		case <-e.ctx.Done():
			return false
		}
	}
}
