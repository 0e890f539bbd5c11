package core

import (
	"encoding/json"
	"maps"
	"slices"
)

// Delta is what one step changes: whole entities after the change, and the
// journal entries that say why. It is written in one transaction before any
// effect of the step is carried out.
type Delta struct {
	Slots       []*Slot       `json:"slots,omitempty"`
	Bindings    []*Binding    `json:"bindings,omitempty"`
	Delegations []*Delegation `json:"delegations,omitempty"`
	Leases      []*Lease      `json:"leases,omitempty"`
	Actions     []*Action     `json:"actions,omitempty"`
	Journal     []Entry       `json:"-"`

	// Of this daemon's life: applied, never written.
	Links    map[SlotName]LinkState  `json:"-"`
	Work     map[SlotName]*Work      `json:"-"`
	Probes   map[SlotName]*ProbesNow `json:"-"`
	MemoryMB map[SlotName]int64      `json:"-"` // nil: as before

	// written holds the entities' JSON as the journal has it, by their pointers.
	written map[any]json.RawMessage
}

// JSON is an entity of the delta as it is stored: the same text as in the journal.
func (d *Delta) JSON(entity any) (json.RawMessage, error) {
	if text, ok := d.written[entity]; ok {
		return text, nil
	}
	return json.Marshal(entity)
}

// change is the JSON of the delta. It keeps each entity's, so that the store need not
// encode them a second time.
func (d *Delta) change() (json.RawMessage, error) {
	n := len(d.Slots) + len(d.Bindings) + len(d.Delegations) + len(d.Leases) + len(d.Actions)
	c := change{text: []byte{'{'}, written: make(map[any]json.RawMessage, n)}
	members(&c, "slots", d.Slots)
	members(&c, "bindings", d.Bindings)
	members(&c, "delegations", d.Delegations)
	members(&c, "leases", d.Leases)
	members(&c, "actions", d.Actions)
	d.written = c.written
	return append(c.text, '}'), c.err
}

type change struct {
	text    []byte
	written map[any]json.RawMessage
	err     error
}

// members adds one of a delta's lists, if it has entities.
func members[T any](c *change, name string, entities []T) {
	for i, v := range entities {
		text, err := json.Marshal(v)
		if err != nil && c.err == nil {
			c.err = err
		}
		switch {
		case i > 0:
			c.text = append(c.text, ',')
		case len(c.text) > 1:
			c.text = append(c.text, `,"`+name+`":[`...)
		default:
			c.text = append(c.text, `"`+name+`":[`...)
		}
		c.text = append(c.text, text...)
		c.written[v] = text
	}
	if len(entities) > 0 {
		c.text = append(c.text, ']')
	}
}

// Empty says whether there is nothing to write; links are not written.
func (d *Delta) Empty() bool {
	return len(d.Slots)+len(d.Bindings)+len(d.Delegations)+len(d.Leases)+len(d.Actions)+len(d.Journal) == 0
}

// Entry is one row of the append-only journal. The first entry of a step carries
// the step's whole delta in Change, so that replaying the journal from the
// beginning gives the state.
type Entry struct {
	Seq       int64           `json:"seq"`
	AtMs      int64           `json:"at"` // unix milliseconds
	Kind      string          `json:"kind"`
	Slot      SlotName        `json:"slot,omitempty"`
	Epoch     Epoch           `json:"epoch,omitempty"`
	Lease     LeaseID         `json:"lease,omitempty"`
	Action    ActionID        `json:"action,omitempty"`
	Principal string          `json:"principal"`
	Reason    string          `json:"reason,omitempty"`
	Change    json.RawMessage `json:"change,omitempty"`
}

// Apply puts the delta into the state. The entities become the state's own: a
// delta is applied once.
func (s *State) Apply(d *Delta) {
	for k, v := range d.Links {
		s.Links[k] = v
	}
	for k, v := range d.Work {
		s.Work[k] = v
	}
	for k, v := range d.Probes {
		s.Probes[k] = v
	}
	if d.MemoryMB != nil {
		s.MemoryMB = d.MemoryMB
	}
	for _, v := range d.Slots {
		s.index.slot(s.Slots[v.Name], v)
		s.Slots[v.Name] = v
	}
	for _, v := range d.Bindings {
		s.Bindings[v.Name] = v
		s.index.binding(v)
	}
	for _, v := range d.Delegations {
		s.Delegations[v.ID] = v
		s.index.delegation(v)
	}
	for _, v := range d.Leases {
		s.Leases[v.ID] = v
		s.indexLease(v)
	}
	for _, v := range d.Actions {
		l := s.Leases[v.Lease]
		s.index.action(s.Actions[v.Action], v, l != nil && len(l.Keys) > 0)
		s.Actions[v.Action] = v
		s.retire(v)
	}
	for _, e := range d.Journal {
		s.Seq = max(s.Seq, e.Seq)
	}
}

// Clone returns a state of its own with the same entities, which never change.
func (s *State) Clone() *State {
	c := NewState()
	for _, v := range s.Slots {
		c.Apply(&Delta{Slots: []*Slot{v}})
	}
	for _, v := range s.Bindings {
		c.Apply(&Delta{Bindings: []*Binding{v}})
	}
	for _, v := range s.Delegations {
		c.Apply(&Delta{Delegations: []*Delegation{v}})
	}
	for _, v := range s.Leases {
		c.Apply(&Delta{Leases: []*Lease{v}})
	}
	for _, v := range s.Actions {
		c.Apply(&Delta{Actions: []*Action{v}})
	}
	for k, v := range s.Links {
		c.Links[k] = v
	}
	for k, v := range s.Work {
		c.Work[k] = v
	}
	for id, p := range s.Past {
		c.Remember(id, p)
	}
	c.onlyOpen = s.onlyOpen
	for k, v := range s.Probes {
		c.Probes[k] = v
	}
	c.Seq, c.Capacity, c.MemoryMB = s.Seq, s.Capacity, s.MemoryMB
	return c
}

// Merge adds a later step's delta. Of an entity that both have, the later one
// stays.
func (d *Delta) Merge(o *Delta) {
	d.Slots = merge(d.Slots, o.Slots, func(v *Slot) SlotName { return v.Name })
	d.Bindings = merge(d.Bindings, o.Bindings, func(v *Binding) BindingName { return v.Name })
	d.Delegations = merge(d.Delegations, o.Delegations, func(v *Delegation) DelegationID { return v.ID })
	d.Leases = merge(d.Leases, o.Leases, func(v *Lease) LeaseID { return v.ID })
	d.Actions = merge(d.Actions, o.Actions, func(v *Action) ActionID { return v.Action })
	d.Journal = append(d.Journal, o.Journal...)
	if d.written == nil {
		d.written = make(map[any]json.RawMessage, len(o.written))
	}
	maps.Copy(d.written, o.written)
}

func merge[T any, K comparable](old, later []T, key func(T) K) []T {
	if len(old) == 0 {
		return slices.Clone(later) // the later step's delta stays its own
	}
	at := make(map[K]int, len(old)+len(later))
	for i, v := range old {
		at[key(v)] = i
	}
	for _, v := range later {
		if i, ok := at[key(v)]; ok {
			old[i] = v
			continue
		}
		at[key(v)] = len(old)
		old = append(old, v)
	}
	return old
}
