package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// desks are the slots with a browser; spares are made and removed over and over, so that
// their epochs have to outlive them.
var (
	desks  = []string{"desk", "till"}
	spares = []string{"spare", "attic"}
)

// crew is everybody who works against a daemon, and outlives it.
type crew struct {
	ledger  *ledger
	agents  []*agent
	persons []*person
	clerks  []*clerk
	drawn   atomic.Int64
}

func newCrew(l *ledger, rng *rand.Rand) *crew {
	c := &crew{ledger: l}
	for _, slot := range desks {
		for _, name := range []string{"ada", "bob"} {
			c.agents = append(c.agents, &agent{member: c.member(slot, rng), name: core.AgentName(name)})
		}
		c.persons = append(c.persons, &person{c.member(slot, rng)})
	}
	for _, slot := range spares {
		c.clerks = append(c.clerks, &clerk{member: c.member(slot, rng)})
	}
	return c
}

func (c *crew) member(slot string, rng *rand.Rand) member {
	return member{crew: c, slot: core.SlotName(slot), rng: rand.New(rand.NewPCG(rng.Uint64(), 0))}
}

// work lets everybody work until ctx ends or the daemon has ended.
func (c *crew) work(ctx context.Context, d *daemon) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	var group sync.WaitGroup
	errs := make(chan error, len(c.agents)+len(c.persons)+len(c.clerks))
	begin := func(turn func(context.Context, *daemon) error) {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := judge(turn(ctx, d)); err != nil {
					errs <- err
					cancel()
					return
				}
			}
		})
	}
	for _, a := range c.agents {
		begin(a.turn)
	}
	for _, p := range c.persons {
		begin(p.turn)
	}
	for _, k := range c.clerks {
		begin(k.turn)
	}
	group.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// judge passes the refusals that a busy daemon, or one that dies, may give, and no others.
func judge(err error) error {
	var e *core.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case core.CodeInternal, core.CodeInvalid, core.CodeVersionSkew, core.CodeEpochRegression, core.CodeDenied, core.CodeAccountMismatch:
		return err
	}
	return nil
}

func code(err error) core.Code {
	var e *core.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// member is one of the crew.
type member struct {
	*crew
	slot core.SlotName
	rng  *rand.Rand
}

// by draws a surface's name that nobody has used before, so that the journal shows that
// very change.
func (m *member) by() string { return fmt.Sprintf("p%d", m.drawn.Add(1)) }

func (m *member) name(what string) string { return fmt.Sprintf("%s-%d", what, m.drawn.Add(1)) }

func (m *member) pause(ctx context.Context, most time.Duration) {
	select {
	case <-time.After(time.Duration(m.rng.Int64N(int64(most)))):
	case <-ctx.Done():
	}
}

func bootMs() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err)
	}
	return ts.Nano() / int64(time.Millisecond)
}

// agent acquires, acts and lets go, with what it was given and no more.
type agent struct {
	member
	name       core.AgentName
	binding    core.BindingName
	token      client.Secret
	lease      *wire.LeaseReply
	capability client.Secret
	forMs      int64
	renewals   int
}

func (a *agent) turn(ctx context.Context, d *daemon) error {
	switch {
	case a.token == "" || a.lease == nil && a.rng.IntN(20) == 0:
		return a.delegated(ctx, d)
	case a.lease == nil:
		return a.acquire(ctx, d)
	}
	defer a.pause(ctx, 15*time.Millisecond)
	id := a.lease.Lease
	var err error
	switch draw := a.rng.IntN(100); {
	case draw < 45:
		err = a.act(ctx, d)
	case draw < 65:
		var r *wire.LeaseReply
		promised := bootMs() + a.forMs
		if r, err = d.api.Renew(ctx, id, a.capability, wire.RenewRequest{ForMs: a.forMs}); err == nil {
			a.renewals++
			a.ledger.lease(r)
			a.ledger.add("renewal of "+string(id), lastsUntil(id, promised, a.renewals))
		}
	case draw < 75:
		var r *wire.LeaseReply
		if r, err = d.api.Lease(ctx, id, a.capability); err == nil {
			a.ledger.lease(r)
			if r.State == core.LeaseEnded {
				a.lease = nil
			}
		}
	case draw < 85:
		if _, err = d.api.Release(ctx, id, a.capability); err == nil {
			a.ledger.add("release of "+string(id), hasEnded(id))
			a.lease = nil
		}
	default:
		err = a.resume(ctx, d)
	}
	return a.lostControl(err)
}

// lostControl follows a refusal: what was taken from an agent is not its own any more.
func (a *agent) lostControl(err error) error {
	switch code(err) {
	case core.CodeExpired:
		a.lease = nil
	case core.CodeUnauthenticated:
		a.ledger.gone("the capability of lease "+string(a.lease.Lease), err)
		a.lease = nil
	}
	return err
}

// delegated gets a delegation of a new binding from a person.
func (a *agent) delegated(ctx context.Context, d *daemon) error {
	known := a.ledger.highest(a.slot) > 0
	if _, err := d.control.Slot(ctx, a.slot); code(err) == core.CodeNotFound {
		if known {
			a.ledger.gone("slot "+string(a.slot), err)
		}
		st, err := d.control.CreateSlot(ctx, wire.SlotRequest{Slot: a.slot})
		if err != nil {
			return err // another may have been first
		}
		a.ledger.status(&st.Status)
		a.ledger.add("slot "+string(a.slot), want(1, row("slot created of slot ", a.slot)))
	}
	name := core.BindingName(a.member.name(string(a.slot)))
	// A short watch, so that what was done is soon settled.
	if _, err := d.control.Bind(ctx, wire.BindingRequest{BindingSpec: core.BindingSpec{Name: name, Slot: a.slot, Account: "none", WatchMs: 1}}); err != nil {
		return err
	}
	a.ledger.add("binding "+string(name), hasBinding(name, false))
	r, err := d.control.Delegate(ctx, name, wire.DelegateRequest{To: a.name})
	if code(err) == core.CodeNotFound {
		a.ledger.gone("binding "+string(name), err)
	}
	if err != nil {
		return err
	}
	a.ledger.add("delegation "+string(r.Delegation), hasDelegation(r))
	a.binding, a.token = name, client.Secret(r.Token)
	return nil
}

func (a *agent) acquire(ctx context.Context, d *daemon) error {
	a.forMs = []int64{2000, 600_000}[a.rng.IntN(2)]
	r, err := d.api.Acquire(ctx, a.token, wire.AcquireRequest{Binding: a.binding, ForMs: a.forMs, WaitMs: 800})
	if code(err) == core.CodeUnauthenticated && r == nil {
		a.ledger.gone("the delegation of binding "+string(a.binding), err)
		a.token = ""
	}
	if r == nil {
		a.pause(ctx, 20*time.Millisecond)
		return err
	}
	a.ledger.lease(r)
	a.ledger.add(fmt.Sprintf("grant of %s at epoch %d", r.Lease, r.Epoch), hasLease(r, r.Capability))
	a.lease, a.capability, a.renewals = r, client.Secret(r.Capability), 0
	return nil
}

func (a *agent) resume(ctx context.Context, d *daemon) error {
	r, err := d.api.Resume(ctx, a.lease.Lease, a.capability, wire.ResumeRequest{WaitMs: 200})
	if r == nil {
		return err
	}
	a.ledger.lease(r)
	if r.State == core.LeaseActive && r.Epoch != a.lease.Epoch {
		a.ledger.add(fmt.Sprintf("resume of %s at epoch %d", r.Lease, r.Epoch), hasLease(r, ""))
	}
	a.lease = r
	return err
}

func (a *agent) act(ctx context.Context, d *daemon) error {
	epoch := a.lease.Epoch
	act := wire.Act{Verb: "screenshot"}
	if a.rng.IntN(2) == 0 {
		act = wire.Act{Verb: "evaluate", Expression: "1+1"}
	}
	r, err := d.api.Act(ctx, a.lease.Lease, a.capability, wire.ActRequest{
		ID: core.ClientID(client.NewID()), Epoch: &epoch, DeadlineMs: 5000, Expect: &core.Expect{Tab: 1, Document: "D1"}, Act: act,
	})
	if code(err) == core.CodeFenced || code(err) == core.CodeBusy {
		return a.resume(ctx, d)
	}
	if err != nil {
		return err
	}
	if r.Authority == core.Admitted {
		a.ledger.holds(r.Slot, r.Epoch, string(r.Lease))
	}
	a.ledger.add("action "+string(r.Action), hasAction(r))
	return nil
}

// person takes over and hands back, revokes, stops, settles what is unknown.
type person struct{ member }

func (p *person) turn(ctx context.Context, d *daemon) error {
	defer p.pause(ctx, 80*time.Millisecond)
	st, err := d.control.Status(ctx, p.slot)
	if err != nil {
		return err // the slot may not be there yet
	}
	p.ledger.status(st)
	for _, r := range st.Quarantine {
		if r.Code == "epoch_regression" {
			p.ledger.again("slot %s: %s", p.slot, r.Text)
		}
	}
	switch draw := p.rng.IntN(100); {
	case st.Authority.Holder.Kind == "human":
		return p.handback(ctx, d)
	case draw < 40:
		by := p.by()
		st, err := d.control.Change(ctx, p.slot, client.Takeover, wire.ChangeRequest{By: by})
		if err != nil {
			return err
		}
		p.ledger.status(st)
		if st.Authority.Holder == (core.Holder{Kind: "human", Name: by}) {
			p.ledger.takeover(p.slot, st.Authority.Epoch, by)
		}
	case draw < 50:
		return p.revoke(ctx, d)
	case draw < 70:
		return p.settle(ctx, d)
	case draw < 75:
		return p.change(ctx, d, client.LiftQuarantine, wire.ChangeRequest{Note: "seen"})
	case draw < 77 && st.Authority.Holder.Kind == "none":
		return p.change(ctx, d, client.Stop, wire.ChangeRequest{StopNow: true})
	}
	return nil
}

// change carries out a verb whose journal entry is the person's own.
func (p *person) change(ctx context.Context, d *daemon, verb client.Change, q wire.ChangeRequest) error {
	q.By = p.by()
	stops := verb == client.Stop
	if st, err := d.control.Status(ctx, p.slot); stops && (err != nil || !running(st)) {
		return err
	}
	st, err := d.control.Change(ctx, p.slot, verb, q)
	if err != nil {
		return err
	}
	p.ledger.status(st)
	if !stops { // another may have ended the browser first
		p.ledger.add(fmt.Sprintf("%s of %s by %s", verb, p.slot, q.By), want(1, row("by human:", q.By)))
	}
	return nil
}

func running(st *core.Status) bool {
	return st.Local.Launch != nil && st.Local.Launch.State == "running"
}

func (p *person) handback(ctx context.Context, d *daemon) error {
	to := []core.AgentName{"", "", "ada", "bob"}[p.rng.IntN(4)]
	return p.change(ctx, d, client.Handback, wire.ChangeRequest{To: to, Confirm: true})
}

func (p *person) revoke(ctx context.Context, d *daemon) error {
	leases, err := d.control.Leases(ctx)
	if err != nil {
		return err
	}
	for _, l := range leases {
		p.ledger.lease(&l)
		if l.Slot != p.slot || l.State == core.LeaseWaiting {
			continue
		}
		if _, err := d.control.Revoke(ctx, l.Lease, wire.ChangeRequest{By: p.by()}); err != nil {
			return err
		}
		p.ledger.add("revocation of "+string(l.Lease), hasEnded(l.Lease))
	}
	return nil
}

func (p *person) settle(ctx context.Context, d *daemon) error {
	open, err := d.control.Actions(ctx, p.slot, true)
	if err != nil {
		return err
	}
	for _, a := range open {
		verdict := []core.Remote{core.Applied, core.NotApplied}[p.rng.IntN(2)]
		if _, err := d.control.Resolve(ctx, a.Action, wire.ResolveRequest{Verdict: verdict, By: p.by()}); err == nil {
			p.ledger.add("verdict on "+string(a.Action), hasVerdict(a.Action, verdict))
		} else if code(err) != core.CodeConflict {
			return err
		}
	}
	return nil
}

// clerk makes a slot and removes it, with a binding and a delegation. Nobody else touches
// it, so it knows what must be there.
type clerk struct {
	member
	made, removed int
}

func (k *clerk) turn(ctx context.Context, d *daemon) error {
	defer k.pause(ctx, 100*time.Millisecond)
	before := k.ledger.highest(k.slot)
	st, err := d.control.CreateSlot(ctx, wire.SlotRequest{Slot: k.slot})
	switch code(err) {
	case "":
		k.made++
		if st.Status.Authority.Epoch <= before {
			k.ledger.again("slot %s was made again at epoch %d, and was at %d", k.slot, st.Status.Authority.Epoch, before)
		}
		k.ledger.status(&st.Status)
		k.ledger.add(fmt.Sprintf("making %d of %s", k.made, k.slot), want(1, row("slot created of slot ", k.slot, " at ", st.Status.Authority.Epoch)))
	case core.CodeConflict: // it is there: an answer was lost
	default:
		return err
	}
	name := core.BindingName(k.name(string(k.slot)))
	if _, err := d.control.Bind(ctx, wire.BindingRequest{BindingSpec: core.BindingSpec{Name: name, Slot: k.slot, Account: "none"}}); err != nil {
		if code(err) == core.CodeNotFound {
			k.ledger.gone("slot "+string(k.slot), err)
		}
		return err
	}
	k.ledger.add("binding "+string(name), hasBinding(name, false))
	r, err := d.control.Delegate(ctx, name, wire.DelegateRequest{To: "ada"})
	if err != nil {
		return err
	}
	k.ledger.add("delegation "+string(r.Delegation), hasDelegation(r))
	return k.clear(ctx, d)
}

// clear removes the slot, and first whatever bindings it has: one of them may be from a
// life in which its making was not answered.
func (k *clerk) clear(ctx context.Context, d *daemon) error {
	bindings, err := d.control.Bindings(ctx)
	if err != nil {
		return err
	}
	for _, b := range bindings {
		if b.Slot != k.slot {
			continue
		}
		if err := d.control.RemoveBinding(ctx, b.Name); err != nil {
			return err
		}
		k.ledger.add("removal of binding "+string(b.Name), hasBinding(b.Name, true))
	}
	if err := d.control.RemoveSlot(ctx, k.slot); err != nil {
		return err
	}
	k.removed++
	k.ledger.add(fmt.Sprintf("removal %d of %s", k.removed, k.slot), want(k.removed, row("slot removed of slot ", k.slot)))
	return nil
}
