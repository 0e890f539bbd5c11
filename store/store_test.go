package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sessiondock.dev/sessiondock/daemon/core"
)

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func commit(t testing.TB, s *Store, d *core.Delta) {
	t.Helper()
	if err := s.Commit(d); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, s *Store) *core.State {
	t.Helper()
	state, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// text is what of a state is kept, in a form in which two can be compared.
func text(s *core.State) string {
	return mustJSON(map[string]any{
		"slots": s.Slots, "bindings": s.Bindings, "delegations": s.Delegations,
		"leases": s.Leases, "actions": s.Actions, "past": s.Past, "seq": s.Seq,
	})
}

func wantCode(t testing.TB, err error, code core.Code, text string) {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a refusal with %s", err, code)
	}
	if e.Code != code || !strings.Contains(e.Message, text) {
		t.Fatalf("got %v, want %s with %q", err, code, text)
	}
	if e.Hint == "" {
		t.Fatalf("%v has no hint", err)
	}
}

func testSlot(name core.SlotName, epoch core.Epoch) *core.Slot {
	return &core.Slot{Name: name, Epoch: epoch, Ceiling: epoch + 100, Generation: 3, Holder: core.Holder{Kind: "none"}}
}

func testBinding(name core.BindingName, slot core.SlotName) *core.Binding {
	return &core.Binding{BindingSpec: core.BindingSpec{Name: name, Slot: slot, Origins: []string{"https://shop.test"}}}
}

func testDelegation(id core.DelegationID, binding core.BindingName) *core.Delegation {
	return &core.Delegation{ID: id, Binding: binding, Agent: "agent", Hash: "hash of " + string(id)}
}

func testLease(id core.LeaseID, state core.LeaseState, epoch core.Epoch) *core.Lease {
	return &core.Lease{ID: id, Slot: "work", Binding: "shop", Delegation: "d1", Agent: "agent", State: state, Epoch: epoch}
}

func testAction(id core.ActionID, client core.ClientID, lease core.LeaseID, epoch core.Epoch) *core.Action {
	return &core.Action{
		Record: core.Record{
			Action: id, ID: client, Lease: lease, Slot: "work", Epoch: epoch, Verb: "click", Summary: `click on "Save"`,
			Class: core.Write, Authority: core.Admitted, Local: core.Running, Remote: core.NoneSeen, Evidence: []core.Evidence{},
		},
		Agent: "agent", Binding: "shop", BodyHash: "0123456789abcdef",
	}
}

func entry(seq int64, d *core.Delta) core.Entry {
	e := core.Entry{Seq: seq, AtMs: 1_700_000_000_000 + seq, Kind: "test", Principal: "system"}
	if d != nil {
		change, err := json.Marshal(d)
		if err != nil {
			panic(err)
		}
		e.Change = change
	}
	return e
}

// step is a delta whose first journal entry carries it.
func step(seq int64, d *core.Delta) *core.Delta {
	d.Journal = []core.Entry{entry(seq, d)}
	return d
}

// world opens a store with one slot at epoch 5, its binding, a delegation, an
// active lease and an action.
func world(t testing.TB) *Store {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "sessiondock.db"))
	commit(t, s, step(1, &core.Delta{
		Slots:       []*core.Slot{testSlot("work", 5)},
		Bindings:    []*core.Binding{testBinding("shop", "work")},
		Delegations: []*core.Delegation{testDelegation("d1", "shop")},
		Leases:      []*core.Lease{testLease("l1", core.LeaseActive, 5)},
		Actions:     []*core.Action{testAction("a1", "c1", "l1", 5)},
	}))
	return s
}

// TestWriteWaitsForCommit: what was written is durable with the next commit, and nothing
// of it is kept when what comes with that is refused.
func TestWriteWaitsForCommit(t *testing.T) {
	s := world(t)
	before := text(load(t, s))
	write := func(seq int64, d *core.Delta) error { return s.Write(step(seq, d)) }
	slot := func(epoch core.Epoch) *core.Delta { return &core.Delta{Slots: []*core.Slot{testSlot("work", epoch)}} }

	if err := write(2, slot(6)); err != nil {
		t.Fatal(err)
	}
	if page, err := s.Events(core.EventQuery{After: 1, Limit: 10}); err != nil || len(page.Entries) != 0 {
		t.Fatalf("a reader sees what is not committed: %v, %v", page, err)
	}
	wantCode(t, s.Commit(step(3, slot(5))), core.CodeInternal, "take back")
	if got := text(load(t, s)); got != before {
		t.Fatalf("after a refused commit:\n%s", got)
	}

	if err := write(2, slot(6)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, write(3, slot(5)), core.CodeInternal, "take back")
	commit(t, s, step(2, slot(7))) // the number is free: nothing of the former is kept

	if err := write(3, slot(8)); err != nil {
		t.Fatal(err)
	}
	commit(t, s, &core.Delta{})
	if err := write(4, slot(9)); err != nil {
		t.Fatal(err)
	}
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	if got := load(t, s); got.Slots["work"].Epoch != 8 || got.Seq != 3 {
		t.Fatalf("epoch %d, sequence %d", got.Slots["work"].Epoch, got.Seq)
	}
}

func TestCommitIsThereAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "a b?c#d%25", "sessiondock.db")
	s := open(t, path)
	d := step(1, &core.Delta{Slots: []*core.Slot{testSlot("work", 5)}, Bindings: []*core.Binding{testBinding("shop", "work")}})
	d.Journal = append(d.Journal, core.Entry{
		Seq: 2, AtMs: 3, Kind: "denied", Slot: "work", Epoch: 5, Lease: "l", Action: "a", Principal: "agent:x", Reason: "why",
	})
	commit(t, s, d)
	want := core.NewState()
	want.Apply(d)
	for _, reopen := range []func(){
		func() {},
		func() {
			if err := s.Reopen(); err != nil {
				t.Fatal(err)
			}
		},
		func() {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, path)
		},
	} {
		reopen()
		if diff := cmp.Diff(text(want), text(load(t, s))); diff != "" {
			t.Fatal(diff)
		}
		got, err := s.Journal(0, 10)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d.Journal, got); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestFilesAreThePersonsAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, filepath.Join(dir, "sessiondock.db"))
	commit(t, s, step(1, &core.Delta{Slots: []*core.Slot{testSlot("work", 1)}}))
	for path, want := range map[string]os.FileMode{
		dir: 0o700, s.Path(): 0o600, s.Path() + "-wal": 0o600, s.Path() + "-shm": 0o600, s.Path() + ".lock": 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestEveryConnectionIsSetUp(t *testing.T) {
	s := world(t)
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "recursive_triggers": "1", "busy_timeout": "5000", "auto_vacuum": "2",
		"user_version": fmt.Sprint(len(migrations)), "application_id": fmt.Sprint(applicationID),
	} {
		var got string
		if err := s.writer.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", pragma, got, err, want)
		}
	}
	if _, err := s.reader.Exec("DELETE FROM bindings"); err == nil {
		t.Error("a reader wrote")
	}
}

func TestSecondDaemonIsRefused(t *testing.T) {
	s := world(t)
	link := filepath.Join(t.TempDir(), "other-name.db")
	if err := os.Symlink(s.Path(), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{s.Path(), link} {
		_, err := Open(path)
		wantCode(t, err, core.CodeConflict, fmt.Sprintf("process %d", os.Getpid()))
	}
	commit(t, s, step(2, &core.Delta{Slots: []*core.Slot{testSlot("other", 1)}}))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if next := load(t, open(t, s.Path())); len(next.Slots) != 2 {
		t.Fatalf("the next daemon sees %d slots", len(next.Slots))
	}
}

func TestEpochOutlivesItsSlot(t *testing.T) { // I1
	s := world(t)
	gone := testSlot("work", 9)
	gone.Removed = true
	commit(t, s, step(2, &core.Delta{Slots: []*core.Slot{gone}}))
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	if v := load(t, s).Slots["work"]; v == nil || !v.Removed || v.Epoch != 9 || v.Ceiling != 109 {
		t.Fatalf("the tombstone is %+v", v)
	}
	wantCode(t, s.Commit(step(3, &core.Delta{Slots: []*core.Slot{testSlot("work", 1)}})), core.CodeInternal, "take back")
	if v := load(t, s); v.Slots["work"].Epoch != 9 || v.Seq != 2 {
		t.Fatalf("epoch %d, seq %d after a refused change", v.Slots["work"].Epoch, v.Seq)
	}
}

// TestCommitRefuses: each change breaks one rule; nothing of it is written, and
// the store goes on.
func TestCommitRefuses(t *testing.T) {
	slot := func(change func(*core.Slot)) *core.Delta {
		v := testSlot("work", 6)
		change(v)
		return &core.Delta{Slots: []*core.Slot{v}}
	}
	action := func(change func(*core.Action)) *core.Delta {
		v := testAction("a1", "c1", "l1", 5)
		change(v)
		return &core.Delta{Actions: []*core.Action{v}}
	}
	done := func(change func(*core.Action)) *core.Delta {
		v := testAction("a1", "c1", "l1", 5)
		v.Sent, v.Host, v.Over = true, "finished", true
		change(v)
		return &core.Delta{Actions: []*core.Action{v}}
	}
	for name, c := range map[string]struct {
		d    *core.Delta
		text string
	}{
		"lower epoch":             {slot(func(v *core.Slot) { v.Epoch = 4 }), "take back"},
		"lower ceiling":           {slot(func(v *core.Slot) { v.Ceiling = 50 }), "take back"},
		"lower generation":        {slot(func(v *core.Slot) { v.Generation = 2 }), "never go back"},
		"epoch above the ceiling": {slot(func(v *core.Slot) { v.Epoch = v.Ceiling + 1 }), "CHECK"},
		"ceiling above 2^53-1":    {slot(func(v *core.Slot) { v.Ceiling = core.MaxEpoch + 1 }), "CHECK"},
		"epoch below zero":        {slot(func(v *core.Slot) { v.Name, v.Epoch, v.Ceiling = "new", 1<<63, 1<<63 }), "CHECK"},
		"unknown holder":          {slot(func(v *core.Slot) { v.Holder.Kind = "robot" }), "CHECK"},
		"slot without a name":     {slot(func(v *core.Slot) { v.Name = "" }), "CHECK"},
		"back within one commit": {
			&core.Delta{Slots: []*core.Slot{testSlot("work", 8), testSlot("work", 7)}}, "take back"},
		"binding of no slot": {&core.Delta{Bindings: []*core.Binding{testBinding("other", "nowhere")}}, "FOREIGN KEY"},
		"delegation of no binding": {
			&core.Delta{Delegations: []*core.Delegation{testDelegation("d2", "nothing")}}, "FOREIGN KEY"},
		"delegation for another agent": {&core.Delta{Delegations: []*core.Delegation{
			{ID: "d1", Binding: "shop", Agent: "other", Hash: "hash of d1"}}}, "take back"},
		"one token twice": {&core.Delta{Delegations: []*core.Delegation{
			{ID: "d2", Binding: "shop", Agent: "agent", Hash: "hash of d1"}}}, "UNIQUE"},
		"second live lease": { // I2
			&core.Delta{Leases: []*core.Lease{testLease("l2", core.LeaseGranted, 5)}}, "UNIQUE"},
		"unknown lease state":   {&core.Delta{Leases: []*core.Lease{testLease("l1", "paused", 5)}}, "CHECK"},
		"lease of a past epoch": {&core.Delta{Leases: []*core.Lease{testLease("l1", core.LeaseActive, 4)}}, "take back"},
		"lease of no epoch":     {&core.Delta{Leases: []*core.Lease{testLease("l2", core.LeaseWaiting, 6)}}, "never issued"},
		"one identifier twice": { // I7
			&core.Delta{Actions: []*core.Action{testAction("a2", "c1", "l1", 5)}}, "UNIQUE"},
		"action of no epoch":       {&core.Delta{Actions: []*core.Action{testAction("a2", "c2", "l1", 6)}}, "never issued"},
		"action of no lease":       {&core.Delta{Actions: []*core.Action{testAction("a2", "c2", "l9", 5)}}, "FOREIGN KEY"},
		"action under a new epoch": {action(func(v *core.Action) { v.Epoch = 4 }), "take back"},
		"action with a new name":   {action(func(v *core.Action) { v.ID = "c9" }), "take back"},
		"action made harmless":     {action(func(v *core.Action) { v.Class = core.Read }), "take back"},
		"unknown local":            {action(func(v *core.Action) { v.Local = "probably" }), "CHECK"},
		"unknown remote":           {action(func(v *core.Action) { v.Remote = "answered:" }), "CHECK"},
		"unknown authority":        {action(func(v *core.Action) { v.Action, v.ID, v.Authority = "a2", "c2", "refused:" }), "CHECK"},
		"journal entry again":      {&core.Delta{Journal: []core.Entry{entry(1, nil)}}, "only grows"},
		"journal entry of no kind": {&core.Delta{Journal: []core.Entry{{Seq: 9, Principal: "system"}}}, "CHECK"},
		"journal out of order":     {&core.Delta{Journal: []core.Entry{entry(9, nil), entry(8, nil)}}, "only grows"},
		// The same for rows that are known to be there.
		"done under a new epoch":    {done(func(v *core.Action) { v.Epoch = 4 }), "take back"},
		"done with a new name":      {done(func(v *core.Action) { v.ID = "c9" }), "take back"},
		"done for another lease":    {done(func(v *core.Action) { v.Lease = "l9" }), "take back"},
		"done with another body":    {done(func(v *core.Action) { v.BodyHash = "other" }), "take back"},
		"done and made harmless":    {done(func(v *core.Action) { v.Class = core.Read }), "take back"},
		"done and never sent":       {done(func(v *core.Action) { v.Sent = false }), "never unsent"},
		"done with unknown local":   {done(func(v *core.Action) { v.Local = "probably" }), "CHECK"},
		"done of no lease, and new": {done(func(v *core.Action) { v.Action, v.ID, v.Lease = "a2", "c2", "l9" }), "FOREIGN KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(t)
			sent := testAction("a1", "c1", "l1", 5)
			sent.Sent = true
			commit(t, s, &core.Delta{Actions: []*core.Action{sent}})
			before := text(load(t, s))
			// A good change beside the bad one must go with it.
			d := c.d
			d.Bindings = append([]*core.Binding{testBinding("beside", "work")}, d.Bindings...)
			wantCode(t, s.Commit(d), core.CodeInternal, c.text)
			if diff := cmp.Diff(before, text(load(t, s))); diff != "" {
				t.Fatalf("a refused change was written:\n%s", diff)
			}
			commit(t, s, step(2, &core.Delta{Slots: []*core.Slot{testSlot("work", 6)}}))
		})
	}
}

// TestTriggersRefuse writes past Commit, as a fault in it would.
func TestTriggersRefuse(t *testing.T) {
	s := world(t)
	commit(t, s, step(2, &core.Delta{Actions: []*core.Action{func() *core.Action {
		v := testAction("a1", "c1", "l1", 5)
		v.Sent, v.Closed = true, true
		return v
	}()}}))
	gone := testAction("a0", "c0", "l1", 5)
	gone.Sent, gone.Closed = true, true
	commit(t, s, step(3, &core.Delta{Actions: []*core.Action{gone}}))
	commit(t, s, step(4, &core.Delta{Slots: []*core.Slot{testSlot("work", 6)}}))
	if _, err := s.Trim(2, 10); err != nil { // a1 goes into the snapshot, a0 stays in the journal
		t.Fatal(err)
	}
	for stmt, want := range map[string]string{
		"UPDATE slots SET epoch = 4":                                    "never go back",
		"UPDATE slots SET ceiling = ceiling - 1":                        "never go back",
		"UPDATE slots SET name = 'other'":                               "nor does its name change",
		"UPDATE slots SET epoch = ceiling + 1":                          "CHECK",
		"UPDATE slots SET ceiling = 9007199254740992":                   "CHECK",
		"UPDATE slots SET epoch = NULL":                                 "NOT NULL",
		"UPDATE slots SET epoch = 'six'":                                "cannot store TEXT",
		"DELETE FROM slots":                                             "never deleted",
		"REPLACE INTO slots VALUES ('work',0,1,100,'none','',0,'{}')":   "never deleted",
		"DELETE FROM actions":                                           "never deleted",
		"UPDATE actions SET sent = 0":                                   "never unsent",
		"UPDATE journal SET reason = 'another'":                         "only appended",
		"DELETE FROM journal WHERE seq = 3":                             "only appended",
		"REPLACE INTO journal SELECT * FROM journal WHERE seq = 3":      "only grows",
		"INSERT INTO journal VALUES (0,1,'k','',0,'','','p','',NULL,9)": "only grows",
		"INSERT INTO journal VALUES (2,1,'k','',0,'','','p','',NULL,9)": "only grows",
		"DELETE FROM snapshot":                                          "never deleted",
		"DELETE FROM snapshot_entities":                                 "never deleted",
		"UPDATE snapshot SET seq = 0":                                   "only goes forward",
		"INSERT INTO snapshot VALUES (2,0,0)":                           "CHECK",
		"UPDATE actions SET local = 'unknown'":                          "is final",
		"UPDATE actions SET closed = 0":                                 "is final",
		"DELETE FROM past":                                              "never deleted",
		"UPDATE past SET body = ''":                                     "is final",
		"REPLACE INTO past SELECT * FROM past":                          "never deleted",
		"INSERT INTO actions SELECT 'a9', binding, client, lease, slot, 5, 'read', 'admitted', 'running', 'none_seen', 0, 0, '{}', '', 0 FROM past": "used before",
		"DELETE FROM bindings":                                            "FOREIGN KEY",
		"INSERT INTO bindings VALUES ('new','work',2,'{}')":               "CHECK",
		"UPDATE leases SET binding = 'nothing'":                           "FOREIGN KEY",
		"UPDATE leases SET epoch = -1":                                    "CHECK",
		"INSERT INTO delegations VALUES ('d2','shop','agent','h',0,NULL)": "NOT NULL",
	} {
		_, err := s.writer.Exec(stmt)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", stmt, err, want)
		}
	}
}

// TestLeaseChangesHandsInOneCommit: the order within a delta must not matter to
// the rule of one live lease.
func TestLeaseChangesHandsInOneCommit(t *testing.T) {
	s := world(t)
	commit(t, s, step(2, &core.Delta{
		Slots:  []*core.Slot{testSlot("work", 6), testSlot("work", 7)},
		Leases: []*core.Lease{testLease("l2", core.LeaseWaiting, 0), testLease("l2", core.LeaseGranted, 7), testLease("l1", core.LeaseEnded, 5)},
	}))
	got := load(t, s)
	if got.Slots["work"].Epoch != 7 || got.Leases["l1"].State != core.LeaseEnded || got.Leases["l2"].State != core.LeaseGranted {
		t.Fatal(text(got))
	}
}

func TestPersonsLeaseNeedsNoDelegation(t *testing.T) {
	s := world(t)
	v := testLease("l2", core.LeaseWaiting, 0)
	v.Delegation = ""
	commit(t, s, step(2, &core.Delta{Leases: []*core.Lease{v}}))
	v.Why = "changed"
	commit(t, s, step(3, &core.Delta{Leases: []*core.Lease{v}}))
	if got := load(t, s).Leases["l2"]; got.Delegation != "" || got.Why != "changed" {
		t.Fatalf("%+v", got)
	}
}

// TestRefusedActionStaysRefused: a later gate may refuse what was admitted, and
// nothing admits it again.
func TestRefusedActionStaysRefused(t *testing.T) {
	s := world(t)
	v := testAction("a1", "c1", "l1", 5)
	v.Authority, v.Local = core.Refused(core.CodeFenced), core.NotDispatched
	commit(t, s, step(2, &core.Delta{Actions: []*core.Action{v}}))
	wantCode(t, s.Commit(step(3, &core.Delta{Actions: []*core.Action{testAction("a1", "c1", "l1", 5)}})), core.CodeInternal, "take back")
	if got := load(t, s).Actions["a1"].Authority; got != core.Refused(core.CodeFenced) {
		t.Fatal(got)
	}
}

func TestEventsAreBounded(t *testing.T) {
	s := world(t)
	d := &core.Delta{}
	for seq := int64(2); seq <= MaxEvents+10; seq++ {
		d.Journal = append(d.Journal, entry(seq, nil))
	}
	commit(t, s, d)
	for _, c := range []struct {
		after int64
		limit int
		want  int
		first int64
	}{
		{0, 3, 3, 1}, {5, 2, 2, 6}, {0, MaxEvents * 2, MaxEvents, 1}, {MaxEvents + 8, 10, 2, MaxEvents + 9},
		{MaxEvents + 10, 10, 0, 0}, {0, 0, 0, 0}, {0, -1, 0, 0},
	} {
		page, err := s.Events(core.EventQuery{After: c.after, Limit: c.limit})
		got := page.Entries
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != c.want || (c.want > 0 && got[0].Seq != c.first) {
			t.Errorf("after %d limit %d: %d entries", c.after, c.limit, len(got))
		}
	}
}

// TestReaderDoesNotHoldTheWriter: a reader in the middle of a long read sees its
// moment, and commits go on.
func TestReaderDoesNotHoldTheWriter(t *testing.T) {
	s := world(t)
	tx, err := s.reader.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	count := func() (n int) {
		if err := tx.QueryRow("SELECT count(*) FROM journal").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 1 {
		t.Fatalf("%d entries", n)
	}
	commit(t, s, step(2, &core.Delta{Slots: []*core.Slot{testSlot("work", 6)}}))
	if n := count(); n != 1 {
		t.Fatalf("the reader's moment moved: %d entries", n)
	}
}

func TestTamperedEpochIsNotServed(t *testing.T) {
	s := world(t)
	if _, err := s.writer.Exec("UPDATE slots SET body = json_set(body, '$.epoch', 4)"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Load()
	wantCode(t, err, core.CodeUnavailable, "slot work")
}

func TestClosedStoreRefuses(t *testing.T) {
	s := world(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, errLoad := s.Load()
	_, errEvents := s.Events(core.EventQuery{Limit: 1})
	for _, err := range []error{errLoad, errEvents, s.Reopen(), s.Commit(step(2, &core.Delta{}))} {
		wantCode(t, err, core.CodeUnavailable, "closed")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReadersDoNotWaitForTheWriter: whoever asks for the journal while a COMMIT waits for
// the disk is answered.
func TestReadersDoNotWaitForTheWriter(t *testing.T) {
	s := world(t)
	s.mu.Lock() // as for a COMMIT
	defer s.mu.Unlock()
	read := make(chan error, 1)
	go func() {
		_, err := s.Events(core.EventQuery{Limit: 10})
		read <- err
	}()
	select {
	case err := <-read:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a reader waits for the writer")
	}
}

// TestCheckpoint: what was committed is in the database itself afterwards, and what is
// only written stays as it is.
func TestCheckpoint(t *testing.T) {
	s := world(t)
	commit(t, s, step(2, &core.Delta{Slots: []*core.Slot{testSlot("work", 6)}}))
	alone := func() core.Epoch {
		body, err := os.ReadFile(s.Path())
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "alone.db")
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
		if len(body) <= 4096 {
			return 0 // nothing is in it yet
		}
		if v := load(t, open(t, path)).Slots["work"]; v != nil {
			return v.Epoch
		}
		return 0
	}
	if e := alone(); e == 6 {
		t.Fatal("the commit is in the database before a checkpoint")
	}
	if err := s.Write(step(3, &core.Delta{Slots: []*core.Slot{testSlot("work", 7)}})); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	commit(t, s, &core.Delta{})
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if e := alone(); e != 7 {
		t.Errorf("without its log the database has epoch %d, not 7", e)
	}
	s.Close()
	wantCode(t, s.Checkpoint(), core.CodeUnavailable, "")
}
