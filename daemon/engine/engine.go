package engine

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
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
	Checkpoint() error

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
	Seq     int64        // the journal's, as it is to be told to the slot's extension: durable
	Action  *core.Action // of SendAction
	Payload any          // of SendAction: what the client asked for
	LeftMs  int64        // of SendAction: until its deadline
}

const (
	tickEvery = 100 * time.Millisecond
	// measureEvery is how often the memory of browsers is looked at: reading it costs
	// milliseconds a browser, and it changes slowly.
	measureEvery = 5 * time.Second
)

// Engine is the one writer of one database.
type Engine struct {
	store Store
	sup   supervise.Supervisor
	clock Clock
	log   *slog.Logger
	opts  Options

	reg  *fence.Register
	note note
	writer

	mu        sync.RWMutex // guards seen and watch
	seen      *core.State  // what is committed: all that anybody else sees
	watch     map[core.SlotName]chan struct{}
	attaching sync.Mutex // held for the whole of an Attach
	linksMu   sync.Mutex
	links     map[core.SlotName]Link
	welcomed  map[core.SlotName]core.Nonce // the link that was last sent a welcome
	starts    sync.Map                     // core.LaunchID of every start that is under way
	payloads  payloads
	waiting   waiting
	acks      acks
	starting  sync.Mutex // of what runs in the background
	pulse     pulse

	group  sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
}

// Options are of one daemon.
type Options struct {
	Debug    string // debugging switches of launches, for demonstrations and tests
	Capacity core.Capacity
	Note     string // the file of takeovers that are not recorded yet
}

// New loads the state and makes it that of a restarted daemon: every epoch raised,
// every lease suspended, what was open unknown.
func New(store Store, sup supervise.Supervisor, clock Clock, log *slog.Logger, opts Options) (*Engine, error) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Engine{
		sup: sup, clock: clock, log: log, opts: opts,
		reg: fence.New(), note: note{path: opts.Note, pending: make(chan struct{}, 1)}, writer: newWriter(),
		watch: map[core.SlotName]chan struct{}{}, links: map[core.SlotName]Link{}, welcomed: map[core.SlotName]core.Nonce{},
		payloads: newPayloads(), waiting: waiting{by: map[core.ActionID][]chan *core.Action{}, dialogs: map[core.ActionID]*core.Dialog{}},
		acks: acks{by: map[ackKey][]chan *core.Status{}}, ctx: ctx, cancel: cancel,
	}
	e.store = watchedStore{store, &e.pulse}
	if err := e.load(); err != nil {
		cancel()
		return nil, err
	}
	var inputs []core.Input
	for _, taken := range e.remembered() {
		inputs = append(inputs, taken)
	}
	// It comes last: it numbers above what was issued, and gives the hosts time to come back.
	inputs = append(inputs, core.Restarted{Clean: e.endedBefore()})
	all, err := e.decideAnew(inputs)
	if err != nil {
		cancel()
		return nil, err
	}
	e.seen = e.state.Clone()
	e.reg.Sync(slices.Collect(maps.Values(e.state.Slots)))
	for _, s := range e.state.Slots {
		if s.Launch.Live() {
			e.adopt(s.Name, *s.Launch)
		}
	}
	e.group.Go(e.loop)
	e.group.Go(e.tick)
	e.group.Go(e.guard)
	e.group.Go(e.prepare)
	e.group.Go(e.keepNote)
	e.note.pending <- struct{}{} // what the former one noted is recorded
	if opts.Capacity.MemoryMB > 0 {
		e.group.Go(e.measure)
	}
	for _, d := range all {
		for _, eff := range d.res.Effects {
			e.carry(eff) // a stop that the former daemon did not finish
		}
	}
	return e, nil
}

// endedBefore names the slots whose browser ended cleanly before the machine's restart.
func (e *Engine) endedBefore() map[core.SlotName]bool {
	clean := map[core.SlotName]bool{}
	boot := e.clock().BootID
	for name, s := range e.state.Slots {
		if s.Launch.Live() && s.Launch.BootID != boot {
			_, err := e.sup.Adopt(e.ctx, name, *s.Launch)
			clean[name] = err != nil && notFound(err).Clean
		}
	}
	return clean
}

func (e *Engine) load() error {
	s, err := e.store.LoadOpen()
	if err != nil {
		return err
	}
	s.Capacity = e.opts.Capacity
	if e.seen != nil {
		// Of this life, not of the database. What was decided of them and not committed is
		// decided again: a hello that is not recorded has said nothing yet.
		s.Links, s.Probes, s.MemoryMB = maps.Clone(e.seen.Links), maps.Clone(e.seen.Probes), e.seen.MemoryMB
	}
	e.state = s
	return nil
}

// background runs f beside the writer, unless the engine is ending.
func (e *Engine) background(f func()) {
	e.starting.Lock()
	defer e.starting.Unlock()
	if e.ctx.Err() == nil {
		e.group.Go(f)
	}
}

// Close ends the engine. Browsers go on.
func (e *Engine) Close() {
	e.cancel()
	e.starting.Lock() // whoever begins something has begun it: nothing is added to what is waited for
	e.starting.Unlock()
	e.group.Wait()
	e.turn.Lock() // for good: whoever has it now was the last one
	close(e.stopped)
}

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
	if st != nil {
		e.Amend(st)
	}
	return st
}

// Amend makes a status say what is known and not in the state yet: a takeover, and the
// extension's answer to a fence.
func (e *Engine) Amend(st *core.Status) {
	if slot := st.Slot; e.taken(slot, &st.Authority) {
		st.Offer = core.Offer{Why: []string{"held by a person (" + st.Authority.Holder.Name + ")"}}
		st.Local.State = "unknown"
		st.Sentences.Authority = fmt.Sprintf("Control is yours (epoch %d). The record of it is not written yet.", st.Authority.Epoch)
		if taken, acknowledged := e.reg.Taken(slot); taken != nil && !acknowledged && !e.note.has(taken) {
			st.Sentences.Authority += " Nothing else remembers it: it lasts as long as this daemon runs."
		}
		st.Sentences.Local = "What may still run is not known until the record is written."
	} else if st.Authority.Fence == "pending" && e.answers(slot, st.Authority.Epoch) {
		st.Authority.Fence, st.Local.State = "acknowledged", "unknown"
		st.Sentences.Local = "The browser refuses what is older than this epoch. What may still run there is not known until its answer is written."
	}
}

// Authority tells who has control of a slot, and whether the slot's extension has said
// hello on a link.
func (e *Engine) Authority(slot core.SlotName, link core.Nonce) (a core.AuthorityNow, up bool) {
	e.View(func(s *core.State, now core.Now) {
		if v := s.Slots[slot]; v != nil {
			a = core.AuthorityOf(s, now, v)
			up = s.Links[slot].Nonce == link && s.Links[slot].Up()
		}
	})
	if !e.taken(slot, &a) && a.Fence == "pending" && e.answers(slot, a.Epoch) {
		a.Fence = "acknowledged"
	}
	return a, up
}

// taken looks for a takeover whose fence is out and whose record is not written: the
// person has control, whatever the disk says.
func (e *Engine) taken(slot core.SlotName, a *core.AuthorityNow) bool {
	taken, acknowledged := e.reg.Taken(slot)
	if taken == nil {
		return false
	}
	*a = core.AuthorityNow{Holder: core.Holder{Kind: "human", Name: taken.Surface}, Epoch: taken.Epoch, Fence: "pending", Unrecorded: true}
	if acknowledged {
		a.Fence = "acknowledged"
	}
	return true
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
			if a.Over || a.Host != "" {
				e.forgetDialog(a.Action)
			}
		}
	}
	for _, d := range all {
		for _, s := range d.res.Delta.Slots {
			e.changed(s.Name)
		}
		for _, l := range d.res.Delta.Leases {
			e.changed(l.Slot)
		}
		for _, a := range d.res.Delta.Actions {
			e.changed(a.Slot)
		}
		for name := range d.res.Delta.Links {
			e.changed(name)
		}
		for name := range d.res.Delta.Probes {
			e.changed(name)
		}
	}
	if slices.ContainsFunc(all, func(d decided) bool { return len(d.res.Delta.Journal) > 0 }) {
		e.changed("") // those who follow the journal
	}
}

// changed wakes those who watch a slot. The caller holds e.mu.
func (e *Engine) changed(slot core.SlotName) {
	if c, ok := e.watch[slot]; ok {
		close(c)
		delete(e.watch, slot)
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
