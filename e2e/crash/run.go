package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/store"
)

const (
	// roundsPerLife is after how many rounds a new installation is begun: so the making of a
	// database is killed too, and a round does not grow slower and slower.
	roundsPerLife = 25
	// longest is how long a round may go on, beyond what a start takes, before the daemon is
	// killed where it stands, because its failpoint was not passed so often.
	longest = 1500 * time.Millisecond
)

// plans are the failpoints of a round and how often each may be passed at most before it
// ends the daemon. A commit that fails is followed by a kill while the database is opened
// again, or by none.
var plans = []struct {
	point string
	most  int
	then  string
}{
	{point: "before-commit", most: 30},
	{point: "after-commit", most: 30},
	{point: "before-effect", most: 30},
	{point: "after-effect", most: 30},
	{point: "before-trim", most: 8},
	{point: "after-trim", most: 8},
	// Under load the writer is never idle for as long as a checkpoint waits for.
	{point: "before-checkpoint", most: 30, then: ",eager-checkpoint:1"},
	{point: "after-checkpoint", most: 30, then: ",eager-checkpoint:1"},
	{point: "commit-lost", most: 20},
	{point: "commit-kept", most: 20},
	{point: "commit-lost", most: 20, then: ",before-reopen:1"},
	{point: "commit-kept", most: 20, then: ",before-reopen:1"},
	{point: "commit-lost", most: 20, then: ",during-reopen:1"},
	{point: "commit-kept", most: 20, then: ",during-reopen:1"},
	{point: "commit-kept", most: 20, then: ",before-commit:2"},
	// On a slow disk takeovers are acknowledged before they are written.
	{point: "before-commit", most: 20, then: ",slow-disk:1"},
	{point: "before-commit", most: 20, then: ",slow-disk:1"},
	{point: "after-effect", most: 30, then: ",slow-disk:1"},
}

// random is the plan of a kill at any moment.
const random = ""

// run is one run of the test.
type run struct {
	home demo.Home
	rng  *rand.Rand
	log  io.Writer

	place  place
	ledger *ledger
	crew   *crew
	before *evidence // the database as the last round left it
	lives  int
	serves time.Duration // from a start until the daemon served, the last time

	kinds                      map[string]int // of acknowledged changes
	ends                       map[string]int // how rounds ended: by a failpoint's name, or random
	acknowledged, lost, reused int
	told                       int
}

func newRun(home demo.Home, seed uint64, log io.Writer) *run {
	return &run{home: home, rng: rand.New(rand.NewPCG(seed, 0)), log: log, ends: map[string]int{}, kinds: map[string]int{}}
}

// life is one installation, from its first start to a stop in order.
func (r *run) life(ctx context.Context, rounds int) error {
	if err := r.begin(); err != nil {
		return err
	}
	for n := range rounds {
		if err := r.round(ctx); err != nil {
			return fmt.Errorf("life %d, round %d: %w", r.lives, n+1, err)
		}
	}
	if err := r.end(ctx); err != nil {
		return fmt.Errorf("the end of life %d: %w", r.lives, err)
	}
	r.acknowledged += len(r.ledger.acks)
	for _, a := range r.ledger.acks {
		kind, _, _ := strings.Cut(a.what, " ")
		r.kinds[kind]++
	}
	r.lost += len(r.ledger.lost)
	r.reused += len(r.ledger.reused)
	for _, text := range slices.Concat(r.ledger.lost, r.ledger.reused) {
		fmt.Fprintln(r.log, "  life", r.lives, text)
	}
	return os.RemoveAll(r.place.dir)
}

func (r *run) begin() (err error) {
	r.lives++
	r.place, err = newPlace(r.home, r.lives)
	r.ledger = newLedger()
	r.crew = newCrew(r.ledger, r.rng)
	r.before = nil
	return err
}

// round starts the daemon, looks at what it says, lets the crew work, kills it and looks
// at what is on the disk.
func (r *run) round(ctx context.Context) error {
	point, until := r.plan()
	if r.before == nil && r.rng.IntN(3) == 0 {
		point, until = "before-key:1", r.serves+longest // there is no installation yet
	}
	d, err := start(r.home, r.place, point)
	if err != nil {
		return err
	}
	begun := time.Now()
	kill := time.AfterFunc(until, func() { _ = d.cmd.Process.Kill() })
	defer kill.Stop()
	up, err := d.serving(ctx)
	if err == nil && up {
		r.serves = time.Since(begun)
		if err = r.afterStart(ctx, d); err == nil {
			err = r.crew.work(ctx, d)
		}
	}
	if err := errors.Join(err, d.kill()); err != nil {
		return err
	}
	r.ends[d.point()]++
	return r.look()
}

// plan draws how a round ends: half of them at a failpoint, half at any moment.
func (r *run) plan() (point string, until time.Duration) {
	if r.rng.IntN(2) == 0 {
		return []string{random, random, "slow-disk:1"}[r.rng.IntN(3)], time.Duration(r.rng.Int64N(int64(r.serves + longest)))
	}
	p := plans[r.rng.IntN(len(plans))]
	n := 1 + r.rng.IntN(p.most)
	if strings.HasPrefix(p.point, "commit-") {
		n++ // the first is the start's own: a daemon that cannot write it does not serve
	}
	return fmt.Sprintf("%s:%d%s", p.point, n, p.then), r.serves + longest
}

// afterStart holds a daemon that has just started against what was acknowledged before it:
// nobody has control but a person, and every epoch is above all that were seen.
func (r *run) afterStart(ctx context.Context, d *daemon) error {
	for _, name := range desks {
		slot := core.SlotName(name)
		high := r.ledger.highest(slot)
		st, err := d.control.Status(ctx, slot)
		if err != nil {
			if code(err) == core.CodeNotFound && high > 0 {
				r.ledger.gone("slot "+name, err)
			}
			continue
		}
		if st.Authority.Epoch <= high {
			r.ledger.again("after a start slot %s is at epoch %d, and was seen at %d", name, st.Authority.Epoch, high)
		}
		if st.Authority.Holder.Kind == "agent" {
			r.ledger.again("after a start slot %s is an agent's: %+v", name, st.Authority)
		}
	}
	leases, err := d.control.Leases(ctx)
	if err != nil {
		return r.unlessKilled(d, err)
	}
	for _, l := range leases {
		if l.State != core.LeaseSuspended && l.State != core.LeaseInterrupted {
			r.ledger.again("after a start lease %s is %s", l.Lease, l.State)
		}
	}
	for _, a := range r.ledger.untold() {
		if err := r.tell(ctx, d, a); err != nil {
			return r.unlessKilled(d, err)
		}
	}
	return nil
}

// toldWithin is how long an extension has to tell of a takeover: its host has to find the
// new daemon first.
const toldWithin = 20 * time.Second

// tell waits until the extension or the daemon's own note has told of a takeover that was
// answered and is in no database.
func (r *run) tell(ctx context.Context, d *daemon, a *ack) error {
	for end := time.Now().Add(toldWithin); ; time.Sleep(5 * time.Millisecond) {
		st, err := d.control.Status(ctx, a.slot)
		if err != nil {
			return err
		}
		if st.Authority.Holder.Kind == "human" && st.Authority.Epoch > a.epoch {
			r.told++
			return nil
		}
		if time.Now().After(end) {
			r.ledger.fail(a, fmt.Sprintf("nobody has told of it: %+v", st.Authority))
			return nil
		}
	}
}

// unlessKilled passes an error of a daemon that was killed meanwhile.
func (r *run) unlessKilled(d *daemon, err error) error {
	select {
	case <-d.ended:
		return nil
	case <-time.After(100 * time.Millisecond): // it may be about to end
	}
	select {
	case <-d.ended:
		return nil
	default:
		return err
	}
}

// look reads a copy of the database that a dead daemon has left, with what the browsers
// have seen, and holds both against the ledger.
func (r *run) look() error {
	for _, name := range desks {
		text, err := r.place.sightings(name)
		if err != nil {
			return err
		}
		if err := r.ledger.witness(name, text); err != nil {
			return err
		}
	}
	f, err := r.read()
	if err != nil {
		return err
	}
	now, err := newEvidence(r.before, f.state, f.snapshot, f.kept)
	if err != nil {
		r.ledger.gone("the journal", err)
		return nil
	}
	r.ledger.check(r.before, now)
	r.before = now
	return nil
}

// found is what a database holds.
type found struct {
	state, snapshot *core.State
	kept            []core.Entry
}

func (r *run) read() (f *found, err error) {
	dir := filepath.Join(r.place.dir, "copy")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "sessiondock.db")
	for _, suffix := range []string{"", "-wal", "-journal"} {
		text, err := os.ReadFile(r.place.paths.Database() + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(path+suffix, text, 0o600); err != nil {
			return nil, err
		}
	}
	s, err := store.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the database that the daemon left: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	state, err := s.Load()
	if err != nil {
		return nil, err
	}
	snapshot, err := s.Snapshot()
	if err != nil {
		return nil, err
	}
	var kept []core.Entry
	for at := snapshot.Seq; ; at += store.MaxEvents {
		more, err := s.Journal(at, store.MaxEvents)
		if err != nil {
			return nil, err
		}
		kept = append(kept, more...)
		if len(more) < store.MaxEvents {
			return &found{state, snapshot, kept}, nil
		}
	}
}

// end stops everything in order, and lets SQLite itself look at a copy of the database.
func (r *run) end(ctx context.Context) error {
	d, err := start(r.home, r.place, random)
	if err != nil {
		return err
	}
	up, err := d.serving(ctx)
	if err != nil || !up {
		return fmt.Errorf("the last start: %v", err)
	}
	if err := r.afterStart(ctx, d); err != nil {
		return err
	}
	for _, name := range desks {
		if err := r.close(ctx, d, core.SlotName(name)); err != nil {
			return err
		}
	}
	if err := d.stop(); err != nil {
		return err
	}
	if err := r.look(); err != nil {
		return err
	}
	text, err := os.ReadFile(r.place.paths.Database())
	if err != nil {
		return err
	}
	path := filepath.Join(r.place.dir, "last.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("integrity_check: %s", verdict)
	}
	return nil
}

// close ends a slot's browser, and wants its end verified.
func (r *run) close(ctx context.Context, d *daemon, slot core.SlotName) error {
	st, err := d.control.Status(ctx, slot)
	if code(err) == core.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Local.Launch == nil || st.Local.Launch.State == "ended" {
		return nil
	}
	if st, err = d.control.Change(ctx, slot, client.Stop, wire.ChangeRequest{StopNow: true}); err != nil {
		return err
	}
	if st.Local.Launch.State != "ended" {
		return fmt.Errorf("the browser of slot %s was not verified to have ended: %+v", slot, st.Local.Launch)
	}
	return nil
}
