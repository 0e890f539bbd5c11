package store

import (
	"context"
	"os"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// large makes a database that is too large to be checked when it is opened, and destroys
// pages of its journal.
func large(t *testing.T) string {
	t.Helper()
	s := world(t)
	d := &core.Delta{}
	for i := range int64(5000) {
		d.Journal = append(d.Journal, core.Entry{Seq: 2 + i, AtMs: 1, Kind: "noted", Slot: "work", Epoch: 5, Principal: "human:test", Reason: strings.Repeat("x", 4000)})
	}
	commit(t, s, d)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= quickCheckBytes {
		t.Fatalf("%d bytes, %v", info.Size(), err)
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("\xff", 400*pageBytes)), info.Size()/2/pageBytes*pageBytes); err != nil {
		t.Fatal(err)
	}
	return s.Path()
}

func next(t *testing.T, s *Store) *core.Delta {
	t.Helper()
	state, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return step(state.Seq+1, &core.Delta{Slots: []*core.Slot{testSlot("work", 6)}})
}

// TestALargeDatabaseIsCheckedWhileItIsServed: damage that was not looked for when it was
// opened ends the writing, and not the reading.
func TestALargeDatabaseIsCheckedWhileItIsServed(t *testing.T) {
	s := open(t, large(t))
	d := next(t, s)
	if err := s.CheckLarge(context.Background()); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("the check says %v", err)
	}
	<-s.Damaged()
	wantCode(t, s.Damage(), core.CodeUnavailable, s.Path()+" is corrupt")
	wantCode(t, s.Commit(d), core.CodeUnavailable, "is corrupt")
	wantCode(t, s.Reopen(), core.CodeUnavailable, "is corrupt")
	if _, err := s.Load(); err != nil {
		t.Errorf("what is whole is not read: %v", err)
	}
}

// TestDamageThatIsReadEndsTheWriting: whoever meets it first.
func TestDamageThatIsReadEndsTheWriting(t *testing.T) {
	s := open(t, large(t))
	d := next(t, s)
	var err error
	for after := int64(0); err == nil && after < 5000; after += MaxEvents {
		_, err = s.Journal(after, MaxEvents)
	}
	wantCode(t, err, core.CodeUnavailable, "is corrupt")
	wantCode(t, s.Commit(d), core.CodeUnavailable, "is corrupt")
}
