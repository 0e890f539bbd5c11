package store

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// BenchmarkCommit is one durable commit of what the daemon writes most: an action
// and its journal entry, with the whole change in it.
func BenchmarkCommit(b *testing.B) {
	for _, actions := range []int{1, 16} {
		b.Run(fmt.Sprintf("actions=%d", actions), func(b *testing.B) {
			s := world(b)
			n := int64(1)
			for b.Loop() {
				d := &core.Delta{}
				for range actions {
					n++
					one := &core.Delta{Actions: []*core.Action{
						testAction(core.ActionID(fmt.Sprintf("01J%023d", n)), core.ClientID(fmt.Sprintf("c%d", n)), "l1", 5)}}
					d.Actions = append(d.Actions, one.Actions...)
					d.Journal = append(d.Journal, entry(n, one))
				}
				commit(b, s, d)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*actions), "µs/action")
		})
	}
}

// BenchmarkSync is the floor under it: the same bytes appended to a file and
// synced, without a database.
func BenchmarkSync(b *testing.B) {
	f := tempFile(b)
	body, err := json.Marshal(testAction("a", "c", "l1", 5))
	if err != nil {
		b.Fatal(err)
	}
	page := make([]byte, 4*4096)
	copy(page, body)
	for b.Loop() {
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := datasync(f); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens and loads a database of ten thousand actions.
func BenchmarkOpen(b *testing.B) {
	s := world(b)
	for i := range 100 {
		d := &core.Delta{}
		for j := range 100 {
			n := int64(2 + i*100 + j)
			v := testAction(core.ActionID(fmt.Sprintf("01J%023d", n)), core.ClientID(fmt.Sprintf("c%d", n)), "l1", 5)
			v.Closed = true
			d.Actions = append(d.Actions, v)
			d.Journal = append(d.Journal, entry(n, nil))
		}
		commit(b, s, d)
	}
	for b.Loop() {
		if err := s.Reopen(); err != nil {
			b.Fatal(err)
		}
		if n := len(load(b, s).Actions); n != 10_001 {
			b.Fatalf("%d actions in %s", n, filepath.Base(s.Path()))
		}
	}
}

// BenchmarkTakeover is the commit of a takeover with a hundred commands in the page: each
// of their rows changes, and one entry of the journal holds all of it.
func BenchmarkTakeover(b *testing.B) {
	s := world(b)
	n := int64(1)
	var actions []*core.Action
	for i := range 100 {
		n++
		actions = append(actions, testAction(core.ActionID(fmt.Sprintf("01J%023d", n)), core.ClientID(fmt.Sprintf("k%d", i)), "l1", 5))
		one := &core.Delta{Actions: actions[i:]}
		one.Journal = []core.Entry{entry(n, one)}
		commit(b, s, one)
		actions[i].Over = true
	}
	for b.Loop() {
		n++
		d := &core.Delta{Actions: actions}
		d.Journal = []core.Entry{entry(n, d)}
		commit(b, s, d)
	}
}
