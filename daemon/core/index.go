package core

import (
	"cmp"
	"maps"
	"slices"
)

// index holds what can be derived from the entities and would be slow to search
// for. Its slices are sorted, so that nothing depends on the order of a map.
type index struct {
	tokens   map[string]DelegationID    // by the token's hash
	clients  map[clientKey]ActionID     // by binding and client's identifier (I7)
	open     map[SlotName][]ActionID    // actions not closed, oldest first
	keyed    map[SlotName][]ActionID    // of these, the writes of leases that name conflict keys
	live     map[SlotName][]LeaseID     // leases not ended that do not wait, in order of arrival
	waiting  map[SlotName][]LeaseID     // leases that wait, in the order of the queue
	wanting  map[string][]LeaseID       // leases that wait, by conflict key, in that order
	holding  map[string][]SlotName      // slots that hold a conflict key
	running  []SlotName                 // slots whose browser runs or is about to
	bindings map[SlotName][]BindingName // bindings not removed
	request  map[requestKey]LeaseID     // acquire's idempotency
	spent    map[LeaseID]Spent          // of a lease's budget
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
		tokens:   map[string]DelegationID{},
		clients:  map[clientKey]ActionID{},
		open:     map[SlotName][]ActionID{},
		keyed:    map[SlotName][]ActionID{},
		live:     map[SlotName][]LeaseID{},
		waiting:  map[SlotName][]LeaseID{},
		wanting:  map[string][]LeaseID{},
		holding:  map[string][]SlotName{},
		bindings: map[SlotName][]BindingName{},
		request:  map[requestKey]LeaseID{},
		spent:    map[LeaseID]Spent{},
	}
}

// member puts v into a sorted slice, or takes it out.
func member[T any](list []T, v T, in bool, order func(a, b T) int) []T {
	at, found := slices.BinarySearchFunc(list, v, order)
	switch {
	case in && !found:
		return slices.Insert(list, at, v)
	case !in && found:
		return slices.Delete(list, at, at+1)
	}
	return list
}

// keep does the same for one list of several, and drops a list that is empty.
func keep[K comparable, T any](lists map[K][]T, key K, v T, in bool, order func(a, b T) int) {
	if list := member(lists[key], v, in, order); len(list) > 0 {
		lists[key] = list
	} else {
		delete(lists, key)
	}
}

func (x *index) delegation(d *Delegation) { x.tokens[d.Hash] = d.ID }

func (x *index) binding(b *Binding) { keep(x.bindings, b.Slot, b.Name, !b.Removed, cmp.Compare) }

// slot takes the place of old, which may be nil.
func (x *index) slot(old, s *Slot) {
	if old != nil {
		for _, c := range old.Keys {
			if _, ok := claimOf(s.Keys, c.Key); !ok {
				keep(x.holding, c.Key, s.Name, false, cmp.Compare)
			}
		}
	}
	for _, c := range s.Keys {
		keep(x.holding, c.Key, s.Name, true, cmp.Compare)
	}
	x.running = member(x.running, s.Name, s.runs(), cmp.Compare)
}

// action takes the place of old, which may be nil. Keyed says whether its lease names
// conflict keys.
func (x *index) action(old, a *Action, keyed bool) {
	x.clients[clientKey{a.Binding, a.ID}] = a.Action
	keep(x.open, a.Slot, a.Action, !a.Closed, cmp.Compare)
	keep(x.keyed, a.Slot, a.Action, !a.Closed && keyed && a.Class == Write, cmp.Compare)
	spent := x.spent[a.Lease]
	if old == nil {
		spent.Actions++
		spent.Bytes += a.Bytes
	} else {
		spent.Bytes += a.Bytes - old.Bytes
	}
	x.spent[a.Lease] = spent
}

// past does for an action of which only that is at hand.
func (x *index) past(id ActionID, binding BindingName, p *Past) {
	x.clients[clientKey{binding, p.ID}] = id
	spent := x.spent[p.Lease]
	spent.Actions++
	spent.Bytes += p.Bytes
	x.spent[p.Lease] = spent
}

// lease takes in a lease that is in the state already.
func (s *State) indexLease(l *Lease) {
	x := &s.index
	if l.RequestID != "" {
		x.request[requestKey{l.Delegation, l.Binding, l.RequestID}] = l.ID
	}
	arrival := func(a, b LeaseID) int {
		return cmp.Or(cmp.Compare(s.Leases[a].Arrived, s.Leases[b].Arrived), cmp.Compare(a, b))
	}
	inQueue := func(a, b LeaseID) int { return rank(s.Leases[a], s.Leases[b]) }
	waits := l.State == LeaseWaiting
	keep(x.live, l.Slot, l.ID, !waits && l.State != LeaseEnded, arrival)
	keep(x.waiting, l.Slot, l.ID, waits, inQueue)
	for _, c := range l.Keys {
		keep(x.wanting, c.Key, l.ID, waits, inQueue)
	}
}

// queues names the slots somebody waits for, sorted.
func (x *index) queues() []SlotName { return slices.Sorted(maps.Keys(x.waiting)) }

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

// WaitingOf returns the requests that wait of the delegation with this token (its
// SHA-256), in order of arrival, and whether there is such a delegation.
func (s *State) WaitingOf(token string) ([]*Lease, bool) {
	d := s.Delegations[s.index.tokens[token]]
	if token == "" || d == nil || d.Revoked {
		return nil, false
	}
	var out []*Lease
	if b := s.Bindings[d.Binding]; b != nil {
		for _, id := range s.index.waiting[b.Slot] {
			if l := s.Leases[id]; l.Delegation == d.ID {
				out = append(out, l)
			}
		}
	}
	return out, true
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
	return s.Action(s.index.clients[clientKey{b, id}])
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

// LiveLeases returns the slot's leases that have not ended: those that have or keep
// it, then those that wait, in their order.
func (s *State) LiveLeases(slot SlotName) []*Lease {
	var out []*Lease
	for _, id := range s.index.live[slot] {
		out = append(out, s.Leases[id])
	}
	for _, id := range s.index.waiting[slot] {
		out = append(out, s.Leases[id])
	}
	return out
}
