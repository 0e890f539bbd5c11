package core

import (
	"maps"
	"slices"
)

// Result is what a step yields.
type Result struct {
	Delta   Delta
	Effects []Effect
	Refusal *Error
	Lease   *Lease  // of a lease's verb
	Action  *Action // of an action's verb
	Probe   ProbeID // of a probe that was begun
	Repeat  bool    // the request was seen before; nothing was done again
}

// tx gathers one step's changes over an unchanged state.
type tx struct {
	s   *State
	now Now
	in  Input
	by  string // the principal, for the journal
	res Result

	floor  map[SlotName]Epoch      // from the fence register: a number to stay above
	forget map[SlotName][]ActionID // closed actions whose reports the extension may drop

	slots   map[SlotName]*Slot
	leases  map[LeaseID]*Lease
	actions map[ActionID]*Action
	links   map[SlotName]LinkState
	touched map[SlotName]bool // slots whose queue is to be looked at
	order   []SlotName
	letGo   map[LeaseID]bool // waiters for whom keys are not kept any more: others were looked at
}

// slot returns the step's own copy of a slot, or nil.
func (t *tx) slot(name SlotName) *Slot {
	if v, ok := t.slots[name]; ok {
		return v
	}
	old, ok := t.s.Slots[name]
	if !ok {
		return nil
	}
	v := *old
	v.Scripts = slices.Clone(old.Scripts)
	v.Pending = slices.Clone(old.Pending)
	v.Reasons = slices.Clone(old.Reasons)
	v.Accounts = slices.Clone(old.Accounts)
	if old.Launch != nil {
		l := *old.Launch
		v.Launch = &l
	}
	t.putSlot(&v)
	return &v
}

func (t *tx) putSlot(v *Slot) {
	t.slots[v.Name] = v
	t.res.Delta.Slots = append(t.res.Delta.Slots, v)
}

// lease returns the step's own copy of a lease, or nil.
func (t *tx) lease(id LeaseID) *Lease {
	if v, ok := t.leases[id]; ok {
		return v
	}
	old, ok := t.s.Leases[id]
	if !ok {
		return nil
	}
	v := *old
	t.putLease(&v)
	return &v
}

func (t *tx) putLease(v *Lease) {
	t.leases[v.ID] = v
	t.res.Delta.Leases = append(t.res.Delta.Leases, v)
}

// action returns the step's own copy of an action, or nil.
func (t *tx) action(id ActionID) *Action {
	if v, ok := t.actions[id]; ok {
		return v
	}
	old, ok := t.s.Actions[id]
	if !ok {
		return nil
	}
	v := *old
	v.Evidence = slices.Clone(old.Evidence)
	v.Requests = maps.Clone(old.Requests)
	t.putAction(&v)
	return &v
}

func (t *tx) putAction(v *Action) {
	if v.Requests == nil {
		v.Requests = map[string]SeenCall{}
	}
	t.actions[v.Action] = v
	t.res.Delta.Actions = append(t.res.Delta.Actions, v)
}

// Looking without copying: what the step has changed, else the state's.

func (t *tx) seeSlot(name SlotName) *Slot {
	if v, ok := t.slots[name]; ok {
		return v
	}
	return t.s.Slots[name]
}

func (t *tx) seeLease(id LeaseID) *Lease {
	if v, ok := t.leases[id]; ok {
		return v
	}
	return t.s.Leases[id]
}

func (t *tx) seeAction(id ActionID) *Action {
	if v, ok := t.actions[id]; ok {
		return v
	}
	return t.s.Action(id)
}

// work returns the step's own copy of what goes on in a slot.
func (t *tx) work(name SlotName) *Work {
	if v, ok := t.res.Delta.Work[name]; ok {
		return v
	}
	v := Work{Seen: map[TabID]DocumentID{}}
	if old := t.s.Work[name]; old != nil {
		v = Work{Lane: slices.Clone(old.Lane), Seen: maps.Clone(old.Seen), LastTab: old.LastTab, Recent: slices.Clone(old.Recent)}
	}
	return t.setWork(name, v)
}

func (t *tx) setWork(name SlotName, v Work) *Work {
	if t.res.Delta.Work == nil {
		t.res.Delta.Work = map[SlotName]*Work{}
	}
	t.res.Delta.Work[name] = &v
	return &v
}

// endWork forgets what went on under an epoch that has ended.
func (t *tx) endWork(name SlotName) { t.setWork(name, Work{Seen: map[TabID]DocumentID{}}) }

func (t *tx) link(name SlotName) LinkState {
	if v, ok := t.links[name]; ok {
		return v
	}
	return t.s.Links[name]
}

func (t *tx) setLink(name SlotName, l LinkState) {
	t.links[name] = l
	if t.res.Delta.Links == nil {
		t.res.Delta.Links = map[SlotName]LinkState{}
	}
	t.res.Delta.Links[name] = l
}

// openActions lists the slot's actions that are not closed, with the step's own
// changes, oldest first.
func (t *tx) openActions(slot SlotName) []ActionID {
	var out []ActionID
	for _, id := range t.s.index.open[slot] {
		if a := t.seeAction(id); !a.Closed {
			out = append(out, id)
		}
	}
	for _, a := range t.res.Delta.Actions {
		if _, old := t.s.Actions[a.Action]; !old && a.Slot == slot && !a.Closed {
			out = append(out, a.Action)
		}
	}
	return out
}

// liveLeases lists the slot's leases that have or keep it, in order of arrival.
func (t *tx) liveLeases(slot SlotName) []LeaseID {
	var out []LeaseID
	for _, id := range t.s.index.live[slot] {
		if l := t.seeLease(id); l.State != LeaseEnded {
			out = append(out, id)
		}
	}
	for _, l := range t.res.Delta.Leases {
		old := t.s.Leases[l.ID]
		if (old == nil || old.State == LeaseWaiting) && l.Slot == slot && l.State != LeaseEnded && l.State != LeaseWaiting {
			out = append(out, l.ID)
		}
	}
	return out
}

// waiters lists the slot's leases that wait, in the order of the queue.
func (t *tx) waiters(slot SlotName) []LeaseID {
	var out []LeaseID
	for l := range t.queue(slot) {
		out = append(out, l.ID)
	}
	return out
}

func (t *tx) emit(e ...Effect) { t.res.Effects = append(t.res.Effects, e...) }

// touch asks for the slot's queue to be looked at when the step ends.
func (t *tx) touch(name SlotName) {
	if !t.touched[name] {
		t.touched[name] = true
		t.order = append(t.order, name)
	}
}

// again asks for it although the step may have looked at it already.
func (t *tx) again(name SlotName) { t.order = append(t.order, name) }

// log adds a journal entry.
func (t *tx) log(kind string, slot *Slot, lease LeaseID, action ActionID, reason string) {
	e := Entry{
		Seq:  t.s.Seq + int64(len(t.res.Delta.Journal)) + 1,
		AtMs: t.now.WallMs, Kind: kind, Lease: lease, Action: action,
		Principal: t.by, Reason: reason,
	}
	if slot != nil {
		e.Slot, e.Epoch = slot.Name, slot.Epoch
	}
	t.res.Delta.Journal = append(t.res.Delta.Journal, e)
}

// finish puts the step's whole change into its first journal entry.
func (t *tx) finish() {
	d := &t.res.Delta
	if len(d.Journal) == 0 {
		t.dropUnchanged()
	}
	if len(d.Slots)+len(d.Bindings)+len(d.Delegations)+len(d.Leases)+len(d.Actions) == 0 {
		return
	}
	t.outcomes()
	if len(d.Journal) == 0 {
		t.note()
	}
	change, err := d.change()
	if err != nil {
		panic("core: a delta that cannot be encoded: " + err.Error())
	}
	d.Journal[0].Change = change
}

// raise gives the slot its next epoch (I1): above the recorded one, above what the
// fence register has issued, never above the durable ceiling.
func (t *tx) raise(s *Slot) {
	s.Epoch = max(s.Epoch, t.floor[s.Name]) + 1
	t.reserve(s)
}

// reserve keeps the ceiling ahead of the epoch.
func (t *tx) reserve(s *Slot) {
	if s.Epoch+EpochChunk/2 > s.Ceiling {
		s.Ceiling = s.Epoch + EpochChunk
	}
}
