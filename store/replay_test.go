package store

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sessiondock.dev/sessiondock/daemon/core"
)

// history draws steps that a correct core could have made, and keeps the state
// that they make.
type history struct {
	t       *rapid.T
	state   *core.State
	actions int
	leases  int
}

func (h *history) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(h.t, label) }

// step draws one change to a copy of the entities that it touches.
func (h *history) step() *core.Delta {
	d := &core.Delta{}
	slot := core.SlotName(fmt.Sprintf("slot%d", h.pick("slot", 3)))
	binding := core.BindingName("of-" + slot)
	s := copied(h.state.Slots[slot])
	if s == nil {
		d.Slots = []*core.Slot{testSlot(slot, 1)}
		d.Bindings = []*core.Binding{testBinding(binding, slot)}
		d.Delegations = []*core.Delegation{testDelegation(core.DelegationID(binding), binding)}
		return d
	}
	switch h.pick("kind", 6) {
	case 0: // a person takes over
		h.endLeases(d, slot)
		s.Epoch += core.Epoch(1 + h.pick("leap", 3))
		s.Ceiling = max(s.Ceiling, s.Epoch+100)
		s.Holder = core.Holder{Kind: "human", Name: "popup"}
		s.Scripts = []core.DocNow{{Document: "doc", URL: "https://shop.test/ü\u2028", Why: "agent_script"}}
		d.Slots = append(d.Slots, s)
	case 1: // an agent gets the slot
		h.endLeases(d, slot)
		s.Epoch++
		s.Ceiling = max(s.Ceiling, s.Epoch+100)
		s.Holder = core.Holder{Kind: "agent", Name: "agent"}
		h.leases++
		l := testLease(core.LeaseID(fmt.Sprintf("l%d", h.leases)), core.LeaseGranted, s.Epoch)
		l.Slot, l.Binding, l.Delegation = slot, binding, core.DelegationID(binding)
		s.Lease = l.ID
		d.Slots, d.Leases = append(d.Slots, s), append(d.Leases, l)
	case 2: // an action is admitted
		if h.state.Leases[s.Lease] == nil {
			break
		}
		h.actions++
		a := testAction(core.ActionID(fmt.Sprintf("a%d", h.actions)), core.ClientID(fmt.Sprintf("c%d", h.actions)), s.Lease, s.Epoch)
		a.Slot, a.Binding = slot, binding
		a.Result = json.RawMessage(`{"text":"\u2028<&>","n":1.50}`)
		d.Actions = append(d.Actions, a)
	case 3: // something is learnt of an action
		for _, id := range sortedKeys(h.state.Actions) {
			if h.state.Actions[id].Closed || h.pick("settle", 3) > 0 {
				continue
			}
			a := copied(h.state.Actions[id])
			a.Sent, a.Closed, a.Local = true, true, core.Finished
			a.Remote = core.Answered(200 + h.pick("status", 300))
			a.Requests = map[string]core.SeenCall{"r": {Method: "POST", URL: "https://shop.test/save", State: "answered", Status: 201}}
			d.Actions = append(d.Actions, a)
		}
	case 4: // the slot is removed, or comes back
		s.Removed = !s.Removed
		s.Epoch++
		s.Ceiling = max(s.Ceiling, s.Epoch)
		d.Slots = append(d.Slots, s)
	case 5: // only the journal
	}
	return d
}

func (h *history) endLeases(d *core.Delta, slot core.SlotName) {
	for _, id := range sortedKeys(h.state.Leases) {
		if l := h.state.Leases[id]; l.Slot == slot && l.State != core.LeaseEnded {
			l = copied(l)
			l.State, l.Why = core.LeaseEnded, "taken over"
			d.Leases = append(d.Leases, l)
		}
	}
}

// record gives the step its journal entries and applies it.
func (h *history) record(d *core.Delta) {
	seq := h.state.Seq + 1
	if len(d.Slots)+len(d.Leases)+len(d.Actions) == 0 {
		d.Journal = []core.Entry{entry(seq, nil)}
	} else {
		d.Journal = []core.Entry{entry(seq, d), entry(seq+1, nil)}
	}
	h.state.Apply(d)
}

// TestReplayEqualsTables: after any history, committed in groups of any size, with
// the daemon starting again and the journal being trimmed at any point, the tables,
// the snapshot with the journal, and the state in memory say the same.
func TestReplayEqualsTables(t *testing.T) {
	dir, runs := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		s, err := Open(filepath.Join(dir, fmt.Sprintf("%d.db", runs)))
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		h := &history{t: rt, state: core.NewState()}
		for range rapid.IntRange(1, 12).Draw(rt, "commits") {
			group := &core.Delta{}
			for range rapid.IntRange(1, 5).Draw(rt, "steps") {
				d := h.step()
				h.record(d)
				group.Slots = append(group.Slots, d.Slots...)
				group.Bindings = append(group.Bindings, d.Bindings...)
				group.Delegations = append(group.Delegations, d.Delegations...)
				group.Leases = append(group.Leases, d.Leases...)
				group.Actions = append(group.Actions, d.Actions...)
				group.Journal = append(group.Journal, d.Journal...)
			}
			if err := s.Commit(group); err != nil {
				rt.Fatal(err)
			}
			if h.pick("restart", 4) == 0 {
				if err := s.Reopen(); err != nil {
					rt.Fatal(err)
				}
			}
			if h.pick("trim", 3) == 0 {
				trimSome(rt, s, h.state.Seq-int64(h.pick("keep", 9)), 1+h.pick("at once", 6))
			}
		}
		same(rt, s, h.state)
	})
}

// trimSome trims and looks that nothing else has changed: what the snapshot and the
// journal make together, and the rows of slots.
func trimSome(rt *rapid.T, s *Store, upTo int64, limit int) {
	kept := func() (rows string) {
		if err := s.reader.QueryRow(`SELECT json_group_array(json_array(name, epoch, ceiling, body)) FROM slots`).Scan(&rows); err != nil {
			rt.Fatal(err)
		}
		var open string
		if err := s.reader.QueryRow(`SELECT json_group_array(json_array(id, body)) FROM actions WHERE closed = 0`).Scan(&open); err != nil {
			rt.Fatal(err)
		}
		return rows + open
	}
	before := kept()
	got, err := s.Trim(upTo, limit)
	if err != nil {
		rt.Fatal(err)
	}
	if got.Entries > limit || got.Seq > max(upTo, 0) {
		rt.Fatalf("trimmed %+v, asked for %d up to %d", got, limit, upTo)
	}
	if diff := cmp.Diff(before, kept()); diff != "" {
		rt.Fatalf("trimming touched a slot or an open action:\n%s", diff)
	}
}

// stored is a state as the store has it after some trimming: of a closed action that has
// left the journal only what stays of it is there.
func stored(rt *rapid.T, s *Store, state *core.State) *core.State {
	c := state.Clone()
	for id, a := range state.Actions {
		var past bool
		if err := s.reader.QueryRow(`SELECT EXISTS (SELECT 1 FROM past WHERE id = ?)`, id).Scan(&past); err != nil {
			rt.Fatal(err)
		}
		if past {
			p := &core.Past{Lease: a.Lease, ID: a.ID, BodyHash: a.BodyHash, Bytes: a.Bytes}
			c.Actions[id] = p.Action(id, state.Leases[a.Lease])
			copied(a).Brief().Fill(c.Actions[id])
		}
		read, err := s.Action(id)
		if err != nil || read == nil {
			rt.Fatalf("action %s: %v", id, err)
		}
		if diff := cmp.Diff(mustJSON(c.Actions[id]), mustJSON(read)); diff != "" {
			rt.Fatalf("action %s is read as something else:\n%s", id, diff)
		}
	}
	return c
}

func mustJSON(v any) string {
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return string(out)
}

func same(rt *rapid.T, s *Store, state *core.State) {
	want := stored(rt, s, state)
	replayed, err := s.Snapshot()
	if err != nil {
		rt.Fatal(err)
	}
	for {
		// A small page, so that the pages' borders are crossed.
		page, err := s.Journal(replayed.Seq, 7)
		if err != nil {
			rt.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		if replayed, err = Replay(replayed, page); err != nil {
			rt.Fatal(err)
		}
	}
	tables, err := s.Load()
	if err != nil {
		rt.Fatal(err)
	}
	for name, got := range map[string]*core.State{"tables": tables, "snapshot and journal": replayed} {
		if diff := cmp.Diff(text(want), text(got)); diff != "" {
			rt.Fatalf("the %s differ from what was committed:\n%s", name, diff)
		}
	}
	open, err := s.LoadOpen()
	if err != nil {
		rt.Fatal(err)
	}
	want.KeepOnlyOpen()
	if diff := cmp.Diff(text(want), text(open)); diff != "" {
		rt.Fatalf("what a daemon keeps differs from what was committed:\n%s", diff)
	}
}

func TestReplayRefusesADisorderlyJournal(t *testing.T) {
	for name, journal := range map[string][]core.Entry{
		"twice":     {entry(1, nil), entry(1, nil)},
		"backwards": {entry(2, nil), entry(1, nil)},
		"not JSON":  {{Seq: 1, Change: json.RawMessage("{")}},
	} {
		if _, err := Replay(core.NewState(), journal); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func copied[T any](v *T) *T {
	if v == nil {
		return nil
	}
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	out := new(T)
	if err := json.Unmarshal(body, out); err != nil {
		panic(err)
	}
	return out
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
