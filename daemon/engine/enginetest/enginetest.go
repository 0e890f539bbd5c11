package enginetest

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/supervise"
	"sessiondock.dev/sessiondock/store"
)

// Launches is a supervisor whose launches start at once, last until the end of the
// test and end when they are told to.
type Launches struct {
	Secrets map[core.SlotName]supervise.Spec // what each slot's launch was started with
	Refuse  *core.Error                      // what Owns answers
	Begin   func() error                     // if set: a start takes as long as it does, and fails with it
	Told    func(core.Launch)                // if set: hears of every launch that is told to end

	mu       sync.Mutex
	bypasses map[core.SlotName][]string
}

// Open lets the launches of slots be driven round the fence.
func (l *Launches) Open(bypasses map[core.SlotName][]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bypasses = bypasses
}

func (l *Launches) Bypasses(map[core.SlotName]core.Launch) map[core.SlotName][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bypasses
}

func (*Launches) Name() string { return "test" }

func (*Launches) Unit(core.SlotName, int64, core.LaunchID) string { return "" }

func (l *Launches) Start(_ context.Context, s supervise.Spec) (core.Identity, error) {
	if l.Secrets != nil {
		l.Secrets[s.Slot] = s
	}
	if l.Begin != nil {
		if err := l.Begin(); err != nil {
			return core.Identity{}, err
		}
	}
	return core.Identity{Containment: "weak", KeeperPID: 1, KeeperStart: 1}, nil
}

func (*Launches) Adopt(_ context.Context, _ core.SlotName, l core.Launch) (core.Identity, error) {
	return l.Identity, nil
}

func (*Launches) Wait(ctx context.Context, _ core.SlotName, _ core.Launch) supervise.Ended {
	<-ctx.Done()
	return supervise.Ended{}
}

func (l *Launches) Stop(_ context.Context, _ core.SlotName, launch core.Launch, _ supervise.StopMode) supervise.Ended {
	if l.Told != nil {
		l.Told(launch)
	}
	return supervise.Ended{Verified: true, How: "told to end"}
}

// Stored is an empty profile that nobody writes to.
func (*Launches) Stored(core.SlotName) supervise.Stored { return supervise.Stored{} }

func (*Launches) MemoryMB(core.Launch) int64 { return 0 }

func (l *Launches) Owns(core.Launch, peer.Cred) *core.Error { return l.Refuse }

// Log is where the engine's messages go in tests: nowhere.
func Log() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// Open opens an engine on the store at path, wrapped by wrap if it is not nil. The
// caller closes both.
func Open(t testing.TB, path string, l *Launches, wrap func(*store.Store) engine.Store) (*engine.Engine, *store.Store) {
	t.Helper()
	db, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	clock, err := engine.SystemClock()
	if err != nil {
		t.Fatal(err)
	}
	var st engine.Store = db
	if wrap != nil {
		st = wrap(db)
	}
	e, err := engine.New(st, l, clock, Log(), engine.Options{})
	if err != nil {
		db.Close()
		t.Fatal(err)
	}
	return e, db
}

// New opens an engine on a new store; both are closed at the test's end.
func New(t testing.TB, l *Launches) *engine.Engine {
	t.Helper()
	e, db := Open(t, filepath.Join(t.TempDir(), "state.db"), l, nil)
	t.Cleanup(func() { e.Close(); db.Close() })
	return e
}
