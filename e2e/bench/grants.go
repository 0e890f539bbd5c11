package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/supervise"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/store"
)

// Leases without a browser: a request that does not wait is granted a stopped slot as
// it is, and the browser is started when something is asked of it.

const (
	// agents ask at the same time, each for a slot of its own.
	agents = 64
	// pairsEach is how often each is granted its slot and releases it.
	pairsEach = 100
	// inventory is how many slots a large system has, and waitersEach how many wait
	// for each.
	inventory   = 1000
	waitersEach = 10
	// atOnce is how many requests set such a system up at a time.
	atOnce = 32
)

// apart runs f with a daemon's directories of its own, below the run's.
func (b *bench) apart(name string, f func() error) (err error) {
	for variable, dir := range map[string]string{
		"XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_DATA_HOME": "data", "XDG_CACHE_HOME": "cache", "XDG_RUNTIME_DIR": "run",
	} {
		former := os.Getenv(variable)
		path := filepath.Join(b.home.Dir, name, dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		if err := os.Setenv(variable, path); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Setenv(variable, former)) }()
	}
	return f()
}

// each calls f for 0 to n-1, atOnce at a time.
func each(n int, f func(int) error) error {
	var group sync.WaitGroup
	errs := make([]error, atOnce)
	for k := range atOnce {
		group.Go(func() {
			for i := k; i < n && errs[k] == nil; i += atOnce {
				errs[k] = f(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func numbered(i int) string { return fmt.Sprintf("s%04d", i) }

// slotsOf makes slots with a binding each, and returns a delegation of each.
func slotsOf(ctx context.Context, d *demo.Daemon, n int) ([]client.Secret, error) {
	out := make([]client.Secret, n)
	return out, each(n, func(i int) error {
		name := numbered(i)
		if _, err := d.Control.CreateSlot(ctx, wire.SlotRequest{Slot: core.SlotName(name), Display: "headless"}); err != nil {
			return err
		}
		_, err := d.Control.Bind(ctx, wire.BindingRequest{BindingSpec: core.BindingSpec{
			Name: core.BindingName(name), Slot: core.SlotName(name), Account: "none", Keys: []string{"shop:" + name},
		}})
		if err != nil {
			return err
		}
		r, err := d.Control.Delegate(ctx, core.BindingName(name), wire.DelegateRequest{To: "ada"})
		if err != nil {
			return err
		}
		out[i] = client.Secret(r.Token)
		return nil
	})
}

// pair is a grant, which is claimed, and its release, and how long the two took.
func pair(ctx context.Context, api *client.Client, binding core.BindingName, delegation client.Secret) (took time.Duration, err error) {
	start := time.Now()
	l, err := api.Acquire(ctx, delegation, wire.AcquireRequest{Binding: binding})
	if err != nil {
		return 0, err
	}
	_, err = api.Release(ctx, l.Lease, client.Secret(l.Capability))
	return time.Since(start), err
}

// measureGrants has many agents acquire and release at the same time, by the API. The
// measure is what the same disk can do: a page of a log, written and synced.
func measureGrants(ctx context.Context, b *bench) (figures []Figure, err error) {
	err = b.apart("g", func() (err error) {
		d, err := demo.StartDaemon(ctx, b.home, "")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Stop()) }()
		delegations, err := slotsOf(ctx, d, agents)
		if err != nil {
			return err
		}
		var pairs []time.Duration
		var took time.Duration
		cpu, err := splitOf("one grant and release", agents*pairsEach,
			processes{pids: map[string]int{"daemon": d.PID(), "clients": os.Getpid()}}, processes{},
			func() (err error) { pairs, took, err = atTheSameTime(ctx, d, delegations); return err })
		if err != nil {
			return err
		}
		b.splits = append(b.splits, cpu)
		syncs, err := bareSyncs(filepath.Dir(d.Paths.Database()), agents*10)
		if err != nil {
			return err
		}
		var all time.Duration
		for _, s := range syncs {
			all += s
		}
		perSecond := Figure{
			Name: "grants_per_s", Value: round(float64(len(pairs)) / took.Seconds()), Unit: "1/s",
			Baseline: "a page written and synced, one after another", BaselineValue: round(float64(len(syncs)) / all.Seconds()), N: len(pairs),
		}
		perSecond.Ratio = ratio(perSecond.Value, perSecond.BaselineValue)
		p99 := figure("grant_p99_ms", "a page written and synced", 99, pairs, syncs)
		figures = []Figure{perSecond, p99}
		return nil
	})
	return figures, err
}

// atTheSameTime has each agent acquire and release, and returns how long each pair took
// and all of it.
func atTheSameTime(ctx context.Context, d *demo.Daemon, delegations []client.Secret) (pairs []time.Duration, took time.Duration, err error) {
	all := make([][]time.Duration, agents)
	errs := make([]error, agents)
	var group sync.WaitGroup
	start := time.Now()
	for i := range agents {
		group.Go(func() {
			api := client.New(d.Paths.APISocket())
			defer api.Close()
			for range pairsEach {
				one, err := pair(ctx, api, core.BindingName(numbered(i)), delegations[i])
				if err != nil {
					errs[i] = err
					return
				}
				all[i] = append(all[i], one)
			}
		})
	}
	group.Wait()
	return slices.Concat(all...), time.Since(start), errors.Join(errs...)
}

// bareSyncs appends pages to a file and syncs each.
func bareSyncs(dir string, n int) (took []time.Duration, err error) {
	f, err := os.CreateTemp(dir, "syncs-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	page := make([]byte, 4096)
	for range n {
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			return nil, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// measureScaling holds a grant in a system of a thousand slots, for which ten thousand
// requests wait, against one in an empty system: the engine with its store, without the
// sockets, which would not take as many clients.
func measureScaling(ctx context.Context, b *bench) (figures []Figure, err error) {
	large, err := b.engine("large")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, large.close()) }()
	empty, err := b.engine("empty")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, empty.close()) }()
	if err := large.fill(ctx); err != nil {
		return nil, err
	}
	for _, e := range []*engineOnly{large, empty} {
		if err := e.slot(ctx, "free"); err != nil {
			return nil, err
		}
	}
	ours, theirs, err := inTurns(warmUp, rounds, func() error { return large.pair(ctx) }, func() error { return empty.pair(ctx) })
	if err != nil {
		return nil, err
	}
	return []Figure{figure("grant_scaling", "a grant, its claim and its release in an empty system", 50, ours, theirs)}, nil
}

// engineOnly is the daemon's engine with a database of its own.
type engineOnly struct {
	*engine.Engine
	db *store.Store
	n  int
}

func (b *bench) engine(name string) (*engineOnly, error) {
	db, err := store.Open(filepath.Join(b.home.Dir, name, "sessiondock.db"))
	if err != nil {
		return nil, err
	}
	clock, err := engine.SystemClock()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// No browser is started, so the supervisor is told of no directory.
	e, err := engine.New(db, supervise.New(supervise.Config{}), clock, slog.New(slog.NewTextHandler(io.Discard, nil)), engine.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &engineOnly{Engine: e, db: db}, nil
}

func (e *engineOnly) close() error {
	e.Engine.Close()
	return e.db.Close()
}

func (e *engineOnly) submit(ctx context.Context, inputs ...core.Input) error {
	for _, in := range inputs {
		if res := e.Submit(ctx, in); res.Refusal != nil {
			return fmt.Errorf("%T: %w", in, res.Refusal)
		}
	}
	return nil
}

// slot makes a slot with a binding and a delegation of the same name.
func (e *engineOnly) slot(ctx context.Context, name string) error {
	return e.submit(ctx,
		core.CreateSlot{Name: core.SlotName(name), Display: "headless", By: "human:bench"},
		core.Bind{Spec: core.BindingSpec{Name: core.BindingName(name), Slot: core.SlotName(name), Account: "none", Keys: []string{"shop:" + name}}, By: "human:bench"},
		core.Delegate{ID: core.DelegationID(name), Hash: "token-" + name, Binding: core.BindingName(name), Agent: "ada", By: "human:bench"})
}

func acquire(slot, id string, waitMs int64) core.Acquire {
	return core.Acquire{
		Lease: core.LeaseID(id), Token: "token-" + slot, CapHash: "cap-" + id, RequestID: id, Binding: core.BindingName(slot), WaitMs: waitMs,
	}
}

// fill makes an inventory of held slots for each of which requests wait.
func (e *engineOnly) fill(ctx context.Context) error {
	return each(inventory, func(i int) error {
		slot := numbered(i)
		holder := slot + "-holder"
		err := e.slot(ctx, slot)
		if err == nil {
			err = e.submit(ctx, acquire(slot, holder, 0), core.Claim{Lease: core.LeaseID(holder), Cap: "cap-" + holder})
		}
		for j := 0; j < waitersEach && err == nil; j++ {
			err = e.submit(ctx, acquire(slot, fmt.Sprintf("%s-%d", slot, j), core.MaxWaitMs))
		}
		return err
	})
}

func (e *engineOnly) pair(ctx context.Context) error {
	e.n++
	id := fmt.Sprintf("l%08d", e.n)
	return e.submit(ctx, acquire("free", id, 0), core.Claim{Lease: core.LeaseID(id), Cap: "cap-" + id}, core.Release{Lease: core.LeaseID(id), Cap: "cap-" + id})
}

// measureInventory reads the memory of a daemon with a thousand slots, started anew,
// after grants of them all, and that of one with a single slot after as many.
func measureInventory(ctx context.Context, b *bench) ([]Figure, error) {
	mb := map[int]float64{}
	for _, n := range []int{1, inventory} {
		err := b.apart(fmt.Sprintf("i%d", n), func() (err error) {
			d, err := demo.StartDaemon(ctx, b.home, "")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.Stop()) }()
			delegations, err := slotsOf(ctx, d, n)
			if err == nil {
				err = d.Stop()
			}
			if err == nil {
				err = d.Start(ctx)
			}
			if err != nil {
				return err
			}
			for i := range inventory {
				if _, err := pair(ctx, d.API, core.BindingName(numbered(i%n)), delegations[i%n]); err != nil {
					return err
				}
			}
			mb[n], err = rssMB(d.PID())
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return []Figure{{
		Name: "daemon_1000_slots_rss_mb", Value: mb[inventory], Unit: "MB", Baseline: "the daemon with one slot, after as many grants",
		BaselineValue: mb[1], Ratio: ratio(mb[inventory], mb[1]), N: inventory,
	}}, nil
}
