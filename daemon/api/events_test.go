package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/engine/enginetest"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/store"
)

// served is a daemon's two doors on real sockets, over a database that the next daemon
// can open again.
type served struct {
	t    *testing.T
	dir  string
	eng  *engine.Engine
	db   *store.Store
	stop func()
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{t: t, dir: t.TempDir()}
	if err := os.Chmod(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(func() { s.stop() })
	s.must(core.CreateSlot{Name: "shop", By: "human:cli"})
	s.must(core.Bind{Spec: core.BindingSpec{Name: "admin", Slot: "shop", Account: "none"}, By: "human:cli"})
	s.must(core.CreateSlot{Name: "desk", By: "human:cli"})
	s.must(core.Bind{Spec: core.BindingSpec{Name: "desk-b", Slot: "desk", Account: "none"}, By: "human:cli"})
	return s
}

func (s *served) start() {
	s.t.Helper()
	s.eng, s.db = enginetest.Open(s.t, filepath.Join(s.dir, "state.db"), &enginetest.Launches{}, nil)
	srv := &Server{Engine: s.eng, Log: enginetest.Log(), BodyKey: make([]byte, 32), DataDir: s.dir, Health: Health{OK: true}}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for name, h := range map[string]http.Handler{"control": srv.People(), "api": srv.Agents()} {
		l, err := peer.Listen(filepath.Join(s.dir, name+".sock"), 0o600)
		if err != nil {
			s.t.Fatal(err)
		}
		group.Go(func() {
			if err := srv.Serve(ctx, l, h); err != nil {
				s.t.Error(err)
			}
		})
	}
	s.stop = func() {
		cancel()
		group.Wait()
		s.eng.Close()
		if err := s.db.Close(); err != nil {
			s.t.Error(err)
		}
	}
}

func (s *served) must(in core.Input) core.Result {
	s.t.Helper()
	res := s.eng.Submit(s.t.Context(), in)
	if res.Refusal != nil {
		s.t.Fatalf("%T: %v", in, res.Refusal)
	}
	return res
}

// write adds n entries to the journal, some of one slot and some of the other.
func (s *served) write(n int) {
	s.t.Helper()
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for range n / 4 {
				id := engine.NewID()
				s.eng.Submit(s.t.Context(), core.Delegate{ID: core.DelegationID(id), Hash: id,
					Binding: []core.BindingName{"admin", "desk-b"}[w%2], Agent: "agent-a", By: "human:cli"})
			}
		})
	}
	group.Wait()
}

func (s *served) last() int64 {
	s.t.Helper()
	k, err := s.db.Kept()
	if err != nil {
		s.t.Fatal(err)
	}
	return k.Last
}

// trim trims the journal up to an entry.
func (s *served) trim(upTo int64) {
	s.t.Helper()
	for {
		got, err := s.db.Trim(upTo, 100)
		if err != nil {
			s.t.Fatal(err)
		}
		if got.Entries == 0 {
			return
		}
	}
}

// stream asks a door for a stream.
func (s *served) stream(ctx context.Context, door, path, bearer string, last int64) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.dir, door+".sock"))
		},
	}}
	r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost"+path, nil)
	if err != nil {
		return nil, err
	}
	if last >= 0 {
		r.Header.Set("Last-Event-ID", strconv.FormatInt(last, 10))
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	return client.Do(r)
}

// next reads the next event with data, and checks that its id is its number. An event
// that was cut short, without the blank line at its end, has not come.
func next(lines *bufio.Scanner) (row wire.EventRow, ok bool) {
	var id, data string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "id":
			id = value
		case field == "data":
			data = value
		case lines.Text() == "" && data != "":
			if err := json.Unmarshal([]byte(data), &row); err != nil || id != strconv.FormatInt(row.Seq, 10) {
				row.Kind = fmt.Sprintf("broken event: id %s, %s, %v", id, data, err)
			}
			return row, true
		}
	}
	return row, false
}

// TestFollowersSeeEachEntryOnce: readers that come, go and come back at random, while
// many entries are written and the daemon is replaced, see every entry once and
// in order.
func TestFollowersSeeEachEntryOnce(t *testing.T) {
	s := serve(t)
	const followers, entries = 5, 1200
	var last int64 // known once everything is written
	written := make(chan struct{})
	var group sync.WaitGroup
	for i := range followers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 7))
			at, streams := int64(0), 0
			for {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Duration(random.IntN(2000))*time.Millisecond)
				resp, err := s.stream(ctx, "control", "/v1/events?follow=1", "", at)
				if err != nil { // no daemon just now
					cancel()
					time.Sleep(5 * time.Millisecond)
					continue
				}
				streams++
				lines := bufio.NewScanner(resp.Body)
				for stay := 1 + random.IntN(200); stay > 0; stay-- {
					e, ok := next(lines)
					if !ok {
						break
					}
					if e.Seq != at+1 {
						t.Errorf("reader %d: entry %d (%s) after %d", i, e.Seq, e.Kind, at)
						cancel()
						return
					}
					at = e.Seq
					if random.IntN(300) == 0 {
						time.Sleep(50 * time.Millisecond) // it falls behind
					}
				}
				resp.Body.Close()
				cancel()
				select {
				case <-written:
					if at == last {
						if streams < 3 {
							t.Errorf("reader %d came back only %d times", i, streams)
						}
						return
					}
				default:
				}
			}
		})
	}
	s.write(entries / 2)
	s.stop()
	s.start()
	s.write(entries / 2)
	last = s.last()
	close(written)
	group.Wait()
	if last < entries {
		t.Errorf("%d entries", last)
	}
}

// TestAReaderIsToldOfWhatIsNotKept: whoever asks for an entry that has been trimmed
// learns that, and where the journal goes on. Nothing is skipped in silence.
func TestAReaderIsToldOfWhatIsNotKept(t *testing.T) {
	s := serve(t)
	s.write(100)
	s.trim(40)
	first := func(after int64) []wire.EventRow {
		resp, err := s.stream(t.Context(), "control", "/v1/events?follow=1", "", after)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		var rows []wire.EventRow
		for range 2 {
			e, _ := next(lines)
			rows = append(rows, e)
		}
		return rows
	}
	for after, want := range map[int64][2]int64{-1: {40, 41}, 0: {40, 41}, 7: {40, 41}, 39: {40, 41}, 40: {41, 42}, 60: {61, 62}} {
		rows := first(after)
		if rows[0].Seq != want[0] || rows[1].Seq != want[1] {
			t.Errorf("after %d: entries %d and %d, want %v", after, rows[0].Seq, rows[1].Seq, want)
		}
		if told := rows[0].Kind == core.NotKept; told != (after < 40) {
			t.Errorf("after %d: the first row is %+v", after, rows[0])
		}
	}
	if e := first(7)[0]; e.Principal != "system" || e.Reason != "entries 8 to 40 are not kept any more" || e.AtMs == 0 {
		t.Errorf("the row says %+v", e)
	}
	// A number that this journal never gave out is refused, not waited for.
	resp, err := s.stream(t.Context(), "control", "/v1/events?follow=1", "", s.last()+1)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusConflict || !strings.Contains(string(body), fmt.Sprintf(`"last":%d`, s.last())) {
		t.Errorf("beyond the end: %d %s", resp.StatusCode, body)
	}
}

// TestASlowReaderHoldsNobody: while one reader does not read, entries are written and
// trimmed; when it reads again it is told what it missed.
func TestASlowReaderHoldsNobody(t *testing.T) {
	s := serve(t)
	s.write(2400)
	resp, err := s.stream(t.Context(), "control", "/v1/events?follow=1", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	time.Sleep(200 * time.Millisecond) // the socket is full
	s.write(200)
	end := s.last()
	s.trim(end - 10)
	lines := bufio.NewScanner(resp.Body)
	at, missed := int64(0), int64(0)
	for at < end {
		e, ok := next(lines)
		switch {
		case !ok:
			t.Fatalf("the stream ended after %d of %d", at, end)
		case e.Kind == core.NotKept && e.Seq > at:
			missed += e.Seq - at
		case e.Seq != at+1:
			t.Fatalf("entry %d (%s) after %d", e.Seq, e.Kind, at)
		}
		at = e.Seq
	}
	if missed == 0 {
		t.Error("the reader was not slow: the test tries too little")
	}
}

// TestALeaseSeesItsOwnEntries: an agent follows what happens to its lease, and nothing of
// anybody else's (I10).
func TestALeaseSeesItsOwnEntries(t *testing.T) {
	s := serve(t)
	acquire := func(lease core.LeaseID, binding core.BindingName, agent string) (capability string) {
		token := engine.NewID()
		s.must(core.Delegate{ID: core.DelegationID(token), Hash: token, Binding: binding, Agent: core.AgentName(agent), By: "human:cli"})
		capability, hash := engine.NewSecret()
		s.must(core.Acquire{Lease: lease, Token: token, CapHash: hash, RequestID: string(lease), Binding: binding, ForMs: 60_000, WaitMs: 60_000})
		return capability
	}
	s.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"}) // they wait
	s.must(core.Takeover{Slot: "desk", Surface: "cli", By: "human:cli"})
	other := acquire("lease-other", "admin", "bob")
	mine := acquire("lease-mine", "admin", "ada")
	third := acquire("lease-third", "desk-b", "eve")
	resp, err := s.stream(t.Context(), "api", "/v1/leases/lease-mine/events", mine, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	var kinds []string
	see := func(kind string) int64 {
		t.Helper()
		e, ok := next(lines)
		if !ok || e.Kind != kind || e.Lease != "lease-mine" || e.Slot != "shop" || e.Principal == "" || e.Epoch == 0 {
			t.Fatalf("want %s, got %+v %v, after %v", kind, e, ok, kinds)
		}
		if text := e.Reason; strings.Contains(text, "bob") || strings.Contains(text, "eve") || strings.Contains(text, "desk") {
			t.Errorf("it tells of others: %+v", e)
		}
		kinds = append(kinds, kind)
		return e.Seq
	}
	see("acquire")
	s.must(core.Handback{Slot: "desk", By: "human:cli"}) // eve's
	s.must(core.Handback{Slot: "shop", By: "human:cli"}) // bob's
	s.must(core.Release{Lease: "lease-other", Cap: engine.HashSecret(other)})
	granted := see("granted")
	s.must(core.Takeover{Slot: "shop", Surface: "popup", By: "human:popup"})
	see("takeover")
	s.must(core.Revoke{Lease: "lease-mine", By: "human:cli"})
	see("revoked")

	// It can be looked at after its end, and resumed from an entry.
	resp, err = s.stream(t.Context(), "api", "/v1/leases/lease-mine/events", mine, granted)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines = bufio.NewScanner(resp.Body)
	see("takeover")
	see("revoked")

	for _, c := range []struct {
		path, bearer string
		want         int
	}{
		{"/v1/leases/lease-mine/events", "", 401}, {"/v1/leases/lease-mine/events", third, 401}, {"/v1/leases/lease-mine/events", other, 401},
		{"/v1/leases/none/events", mine, 401}, {"/v1/leases/lease-mine/events?after=x", mine, 400}, {"/v1/events", mine, 404},
		{"/v1/leases/lease-mine/events?follow=0", mine, 200},
	} {
		resp, err := s.stream(t.Context(), "api", c.path, c.bearer, -1)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d: %s", c.path, resp.StatusCode, c.want, body)
		}
		if c.want == 200 && strings.Count(string(body), `"lease":"lease-mine"`) != len(kinds)-2 {
			t.Errorf("the list: %s", body)
		}
	}
}

// TestFollowersAreBounded: however many there are, the door has room for a person.
func TestFollowersAreBounded(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range maxFollowers + 1 {
		resp, err := s.stream(ctx, "control", "/v1/events?follow=1&slot=shop", "", -1)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if want := i < maxFollowers; (resp.StatusCode == 200) != want {
			t.Fatalf("reader %d: %d", i, resp.StatusCode)
		}
	}
	resp, err := s.stream(t.Context(), "control", "/v1/events?newest=1", "", -1)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("a list: %v %+v", err, resp)
	}
	resp.Body.Close()
}

// TestASlotsEventsAndTheNewest: the two ways to ask for less.
func TestASlotsEventsAndTheNewest(t *testing.T) {
	s := serve(t)
	s.write(40)
	list := func(path string) (rows []wire.EventRow) {
		t.Helper()
		resp, err := s.stream(t.Context(), "control", path, "", -1)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for _, e := range list("/v1/events?slot=desk") {
		if e.Slot != "desk" {
			t.Errorf("%+v is not of that slot", e)
		}
	}
	if rows := list("/v1/events?slot=desk&limit=3&after=10"); len(rows) != 3 || rows[0].Seq <= 10 {
		t.Errorf("three after 10: %+v", rows)
	}
	if rows := list("/v1/events?newest=5"); len(rows) != 5 || rows[4].Seq != s.last() || rows[0].Seq != s.last()-4 {
		t.Errorf("the newest five: %+v", rows)
	}
	resp, err := s.stream(t.Context(), "control", "/v1/events?slot=nowhere", "", -1)
	if err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("a slot that never was: %v %v", err, resp.Status)
	}
	resp.Body.Close()
}
