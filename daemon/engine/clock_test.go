package engine_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/engine/enginetest"
	"sessiondock.dev/sessiondock/store"
)

// hands is a clock whose hands a test can move.
type hands struct {
	mu  sync.Mutex
	now core.Now
}

func (h *hands) clock() core.Now {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hands) set(f func(*core.Now)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.now)
}

// machine is a daemon on a clock of the test's, and its database.
type machine struct {
	t    *testing.T
	h    *hands
	path string
	e    *engine.Engine
	db   *store.Store

	links int // so many were connected
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, path: filepath.Join(t.TempDir(), "state.db"), h: &hands{now: core.Now{BootID: "first", BootMs: 5_000_000, WallMs: 1_790_000_000_000}}}
	m.start()
	t.Cleanup(m.stop)
	m.must(core.CreateSlot{Name: "shop", By: "human:test"})
	m.must(core.Bind{Spec: core.BindingSpec{Name: "admin", Slot: "shop", Account: "none"}, By: "human:test"})
	m.must(core.Acquire{Lease: "l", Person: true, CapHash: "cap", RequestID: "r", Binding: "admin", ForMs: 600_000, WaitMs: 1000, By: "human:cli"})
	if !m.e.Wait(t.Context(), "shop", 5*time.Second, func(s *core.State, _ core.Now) bool {
		l := s.Slots["shop"].Launch
		return l != nil && l.State == "running"
	}) {
		t.Fatal("no launch")
	}
	m.must(core.Claim{Lease: "l", Cap: "cap"})
	return m
}

func (m *machine) start() {
	m.t.Helper()
	var err error
	if m.db, err = store.Open(m.path); err != nil {
		m.t.Fatal(err)
	}
	if m.e, err = engine.New(m.db, &enginetest.Launches{}, m.h.clock, enginetest.Log(), engine.Options{}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) stop() {
	m.e.Close()
	m.db.Close()
}

func (m *machine) must(in core.Input) {
	m.t.Helper()
	if res := m.e.Submit(m.t.Context(), in); res.Refusal != nil {
		m.t.Fatalf("%T: %v", in, res.Refusal)
	}
}

func (m *machine) refused(code core.Code, in core.Input) {
	m.t.Helper()
	if res := m.e.Submit(m.t.Context(), in); res.Refusal == nil || res.Refusal.Code != code {
		m.t.Errorf("%T: want %s, got %v", in, code, res.Refusal)
	}
}

// lease reads the lease with what is left of it, and its slot.
func (m *machine) lease() (l core.Lease, leftMs int64, s core.Slot) {
	m.e.View(func(st *core.State, now core.Now) {
		l, s = *st.Leases["l"], *st.Slots["shop"]
		leftMs = l.Expires.LeftMs(now)
	})
	return l, leftMs, s
}

// TestTheWallClockMovesNoLease (L6): it is for people to read.
func TestTheWallClockMovesNoLease(t *testing.T) {
	m := newMachine(t)
	day := int64(24 * time.Hour / time.Millisecond)
	now := m.h.clock().WallMs
	for what, wall := range map[string]int64{
		"a day back": now - day, "a day on": now + day, "1970": 0, "after 2038": 1 << 41, "before 1970": -day,
	} {
		m.h.set(func(n *core.Now) { n.WallMs = wall })
		m.must(core.Tick{})
		if l, left, _ := m.lease(); l.State != core.LeaseActive || left != 600_000 {
			t.Errorf("%s: lease %s with %d ms left: %s", what, l.State, left, l.Why)
		}
		m.stop()
		m.start()
		if l, left, _ := m.lease(); l.State != core.LeaseSuspended || left != 600_000 {
			t.Errorf("%s, and a restart: lease %s with %d ms left: %s", what, l.State, left, l.Why)
		}
		m.must(core.Tick{})
		s := m.reconnect()
		m.must(core.Resume{Lease: "l", Cap: "cap"})
		if l, left, _ := m.lease(); l.State != core.LeaseActive || left != 600_000 || l.Epoch <= s.Epoch {
			t.Errorf("%s, and resumed: lease %s at epoch %d with %d ms left", what, l.State, l.Epoch, left)
		}
	}
}

// reconnect is the browser's extension that finds the new daemon.
func (m *machine) reconnect() core.Slot {
	m.t.Helper()
	m.links++
	nonce := core.Nonce(fmt.Sprintf("link-%d", m.links))
	m.e.Attach("shop", &link{nonce: nonce})
	m.must(core.Hello{Slot: "shop", Nonce: nonce, Instance: "worker"})
	_, _, s := m.lease()
	m.must(core.Fenced{Slot: "shop", Nonce: nonce, Epoch: s.Epoch})
	m.must(core.Drained{Slot: "shop", Nonce: nonce, Epoch: s.Epoch})
	return s
}

// TestASuspendCounts (L7): the time in which the machine slept is gone.
func TestASuspendCounts(t *testing.T) {
	m := newMachine(t)
	m.h.set(func(n *core.Now) { n.BootMs += 2 * 3_600_000 })
	m.refused(core.CodeExpired, core.Renew{Lease: "l", Cap: "cap", ForMs: 60_000})
	m.must(core.Tick{})
	if l, _, s := m.lease(); l.State != core.LeaseEnded || s.Holder.Kind != "none" {
		t.Errorf("lease %s, holder %+v", l.State, s.Holder)
	}
}

// TestAnotherBootVoidsEverything (L8): no deadline of another boot is in the future,
// whatever its number, and no process of it is left.
func TestAnotherBootVoidsEverything(t *testing.T) {
	m := newMachine(t)
	_, _, before := m.lease()
	m.stop()
	m.h.set(func(n *core.Now) { n.BootID, n.BootMs = "second", 1000 }) // far below every deadline's number
	m.start()
	l, left, s := m.lease()
	if l.State != core.LeaseEnded || left != 0 {
		t.Errorf("lease %s with %d ms left", l.State, left)
	}
	if s.Launch.State != "ended" || s.Holder.Kind != "none" || s.Epoch <= before.Epoch {
		t.Errorf("launch %s, holder %+v, epoch %d after %d", s.Launch.State, s.Holder, s.Epoch, before.Epoch)
	}
	m.refused(core.CodeExpired, core.Resume{Lease: "l", Cap: "cap"})
	m.refused(core.CodeExpired, core.Act{Action: "a", Lease: "l", Cap: "cap", ID: "01ARZ3NDEKTSV4RRFFQ6000001", Epoch: l.Epoch, Verb: "click", Class: core.Write, DeadlineMs: 1000})
}
