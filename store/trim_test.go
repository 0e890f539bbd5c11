package store

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// lived is an action as a busy page leaves it behind, in one of the three forms that
// the journal sees: admitted, done, closed.
func lived(n, form int) *core.Action {
	a := testAction(core.ActionID(fmt.Sprintf("01J%023d", n)), core.ClientID(fmt.Sprintf("01K%023d", n)), "l1", 5)
	a.BodyHash = fmt.Sprintf("%032x", n)
	a.Deadline = core.Deadline{BootID: "6c1b0e2c-5d7a-4f8e-9d64-2f8f0e6f2a11", BootMs: 30_000}
	a.Instance = "74192460-2f8c-49bb-9563-a01967ff5c31"
	if form == 0 {
		return a
	}
	a.Sent, a.Host, a.Local = true, "finished", core.Finished
	a.Remote = core.Answered(200)
	a.Document, a.Tab = "8D3C3B7F0A0C4A39B6B0F1C9F2D1E0AA", 7
	a.Requests = map[string]core.SeenCall{}
	for i := range 4 {
		url := fmt.Sprintf("https://shop.test/api/orders/%d/lines", i)
		a.Requests[fmt.Sprint(i)] = core.SeenCall{Method: "POST", URL: url, Type: "xmlhttprequest", State: "answered", Status: 200, Rule: "document"}
		a.Evidence = append(a.Evidence, core.Evidence{Kind: "request", AtMs: 1_700_000_000_000, Source: "extension", Rule: "document", Method: "POST", URL: url},
			core.Evidence{Kind: "answer", AtMs: 1_700_000_000_000, Source: "extension", Rule: "document", Method: "POST", URL: url, Status: 200})
	}
	a.Closed = form == 2
	return a
}

// busy lets n more actions live and close.
func busy(t testing.TB, s *Store, n int) {
	t.Helper()
	seq := load(t, s).Seq
	for done := 0; done < n; {
		d := &core.Delta{}
		for ; done < n && len(d.Journal) < 300; done++ {
			for form := range 3 {
				seq++
				one := &core.Delta{Actions: []*core.Action{lived(int(seq)-form, form)}}
				d.Merge(&core.Delta{Actions: one.Actions, Journal: []core.Entry{entry(seq, one)}})
			}
		}
		commit(t, s, d)
	}
}

// BenchmarkTrim is one piece of trimming: for how long it holds the writer, to be
// compared with BenchmarkCommit, and how many entries it takes.
func BenchmarkTrim(b *testing.B) {
	for _, limit := range []int{8, 16, 32} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			s := world(b)
			var longest time.Duration
			entries, pieces := 0, 0
			for b.Loop() {
				if k, err := s.Kept(); err != nil || k.Last-k.First < 100 {
					b.StopTimer()
					busy(b, s, 1000)
					b.StartTimer()
				}
				began := time.Now()
				got, err := s.Trim(1<<40, limit)
				if err != nil {
					b.Fatal(err)
				}
				longest = max(longest, time.Since(began))
				entries, pieces = entries+got.Entries, pieces+1
			}
			b.ReportMetric(float64(entries)/float64(pieces), "entries/op")
			b.ReportMetric(float64(longest.Microseconds()), "µs-longest")
		})
	}
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// perAction is what a loaded state takes in memory, for each of n actions.
func perAction(t testing.TB, n int, load func() (*core.State, error)) int64 {
	t.Helper()
	before := heap()
	state, err := load()
	if err != nil {
		t.Fatal(err)
	}
	took := heap() - before
	runtime.KeepAlive(state)
	return took / int64(n)
}

// TestClosedActionsAreSmall: in memory a closed action takes about what I7 needs of it,
// and on the disk, once the journal's entries about it are gone, no more than its brief.
func TestClosedActionsAreSmall(t *testing.T) {
	const n = 4000
	s := world(t)
	busy(t, s, n)
	whole, kept := perAction(t, n, s.Load), perAction(t, n, s.LoadOpen)
	full := fileSize(t, s)
	trimAll(t, s)
	trimmed := perAction(t, n, s.LoadOpen)
	small := fileSize(t, s)
	t.Logf("in memory: whole %d bytes an action, kept %d, kept after trimming %d; on the disk: %d, %d", whole, kept, trimmed, full/n, small/n)
	if kept > 500 || trimmed > 500 || kept > whole/4 {
		t.Errorf("a closed action takes %d bytes of memory, %d once it is trimmed; whole it takes %d", kept, trimmed, whole)
	}
	if small/n > 1200 || small > full/4 {
		t.Errorf("the file has %d bytes an action, and had %d", small/n, full/n)
	}
}

// trimAll trims all but the newest entry, and shrinks the file as far as that goes.
func trimAll(t testing.TB, s *Store) {
	t.Helper()
	k, err := s.Kept()
	if err != nil {
		t.Fatal(err)
	}
	for {
		got, err := s.Trim(k.Last-1, 100)
		if err != nil {
			t.Fatal(err)
		}
		if got == (core.Trimmed{}) {
			return
		}
	}
}

// fileSize is the database's, with what its log still holds.
func fileSize(t testing.TB, s *Store) int64 {
	t.Helper()
	if _, err := s.writer.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
