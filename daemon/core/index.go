package core

import (
	"slices"
	"strings"
)

// index holds what can be derived from the entities and would be slow to search
// for. Its slices are sorted, so that nothing depends on the order of a map.
type index struct {
	tokens  map[string]DelegationID // by the token's hash
	clients map[clientKey]ActionID  // by binding and client's identifier (I7)
	open    map[SlotName][]ActionID // actions not closed, oldest first
	live    map[SlotName][]LeaseID  // leases not ended, in order of arrival
	request map[requestKey]LeaseID  // acquire's idempotency
	arrived map[LeaseID]int64       // of the leases in live
}

type clientKey struct {
	binding BindingName
	id      ClientID
}

type requestKey struct {
	delegation DelegationID
	binding    BindingName
	request    string
}

func newIndex() index {
	return index{
		tokens:  map[string]DelegationID{},
		clients: map[clientKey]ActionID{},
		open:    map[SlotName][]ActionID{},
		live:    map[SlotName][]LeaseID{},
		request: map[requestKey]LeaseID{},
		arrived: map[LeaseID]int64{},
	}
}

func (x *index) delegation(d *Delegation) { x.tokens[d.Hash] = d.ID }

func (x *index) action(a *Action) {
	x.clients[clientKey{a.Binding, a.ID}] = a.Action
	open := x.open[a.Slot]
	at, found := slices.BinarySearch(open, a.Action)
	switch {
	case a.Closed && found:
		x.open[a.Slot] = slices.Delete(slices.Clone(open), at, at+1)
	case !a.Closed && !found:
		x.open[a.Slot] = slices.Insert(slices.Clone(open), at, a.Action)
	}
}

func (x *index) lease(l *Lease) {
	if l.RequestID != "" {
		x.request[requestKey{l.Delegation, l.Binding, l.RequestID}] = l.ID
	}
	live := x.live[l.Slot]
	at := slices.Index(live, l.ID)
	switch {
	case l.State == LeaseEnded && at >= 0:
		x.live[l.Slot] = slices.Delete(slices.Clone(live), at, at+1)
		delete(x.arrived, l.ID)
	case l.State != LeaseEnded && at < 0:
		x.arrived[l.ID] = l.Arrived
		live = append(slices.Clone(live), l.ID)
		slices.SortFunc(live, func(a, b LeaseID) int {
			if d := x.arrived[a] - x.arrived[b]; d != 0 {
				return int(max(-1, min(1, d)))
			}
			return strings.Compare(string(a), string(b))
		})
		x.live[l.Slot] = live
	}
}

// delegationsOf returns a binding's delegations, sorted.
func (s *State) delegationsOf(b BindingName) []DelegationID {
	var out []DelegationID
	for id, d := range s.Delegations {
		if d.Binding == b && !d.Revoked {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// slotNames returns the slots' names, sorted.
func (s *State) slotNames() []SlotName {
	names := make([]SlotName, 0, len(s.Slots))
	for n := range s.Slots {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// ActionByClient finds an action by its binding and the client's identifier.
func (s *State) ActionByClient(b BindingName, id ClientID) *Action {
	return s.Actions[s.index.clients[clientKey{b, id}]]
}

// OpenActions returns the slot's actions that are not closed, oldest first.
func (s *State) OpenActions(slot SlotName) []*Action {
	ids := s.index.open[slot]
	out := make([]*Action, len(ids))
	for i, id := range ids {
		out[i] = s.Actions[id]
	}
	return out
}

// LiveLeases returns the slot's leases that have not ended, in order of arrival.
func (s *State) LiveLeases(slot SlotName) []*Lease {
	ids := s.index.live[slot]
	out := make([]*Lease, len(ids))
	for i, id := range ids {
		out[i] = s.Leases[id]
	}
	return out
}
