package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
)

// disk is what outlives the daemon: the journal, and nothing else. Everything that the
// daemon knows after a start comes from reading it.
type disk struct {
	base    []byte // what the entries that were trimmed came to, as a delta; nil: nothing
	journal []core.Entry
	full    bool // it cannot be written, until somebody makes room
	torn    bool // the next commit answers an error
	hung    bool // nothing that is to be written comes to its end, until it goes on
	// actions is the latest committed form of each action, for the judge.
	actions map[core.ActionID]*core.Action
	slots   map[core.SlotName]*core.Slot
	leases  map[core.LeaseID]*core.Lease
	// read is what each entry's change was found to say, by where its text lies: a daemon
	// that starts reads every text, and the same text says the same again.
	read map[*byte]*core.Delta
}

func newDisk() *disk {
	return &disk{
		actions: map[core.ActionID]*core.Action{}, slots: map[core.SlotName]*core.Slot{}, leases: map[core.LeaseID]*core.Lease{},
		read: map[*byte]*core.Delta{},
	}
}

var errDisk = errors.New("input/output error")

// commit writes a delta, or fails. With torn the answer is an error, and whether it is
// on the disk all the same is for the caller to find out.
func (k *disk) commit(d *core.Delta, written bool) error {
	if k.full {
		return errDisk
	}
	torn := k.torn
	k.torn = false
	if torn && !written {
		return errDisk
	}
	k.journal = append(k.journal, d.Journal...)
	k.index(d)
	if torn {
		return errDisk
	}
	return nil
}

func (k *disk) index(d *core.Delta) {
	for _, a := range d.Actions {
		k.actions[a.Action] = a
	}
	for _, s := range d.Slots {
		k.slots[s.Name] = s
	}
	for _, l := range d.Leases {
		k.leases[l.ID] = l
	}
}

// load reads the journal from its beginning, into a state as the daemon keeps it.
func (k *disk) load() (*core.State, error) {
	s, err := k.replay()
	if err == nil {
		s.KeepOnlyOpen()
	}
	return s, err
}

// replay applies every entry's change, which is the state: nothing else is written.
func (k *disk) replay() (*core.State, error) { return k.until(len(k.journal)) }

// until applies the base and the first n entries.
func (k *disk) until(n int) (*core.State, error) {
	s := core.NewState()
	if k.base != nil {
		var d core.Delta
		if err := json.Unmarshal(k.base, &d); err != nil {
			return nil, fmt.Errorf("base: %w", err)
		}
		s.Apply(&d)
	}
	for _, e := range k.journal[:n] {
		d, err := k.decoded(e)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", e.Seq, err)
		}
		s.Apply(d)
	}
	return s, nil
}

// decoded is what an entry says. Entities never change, so that states may share them.
func (k *disk) decoded(e core.Entry) (*core.Delta, error) {
	d := &core.Delta{Journal: []core.Entry{e}}
	if len(e.Change) == 0 {
		return d, nil
	}
	if was := k.read[&e.Change[0]]; was != nil {
		return was, nil
	}
	if err := json.Unmarshal(e.Change, d); err != nil {
		return nil, err
	}
	k.read[&e.Change[0]] = d
	return d, nil
}

// trim lets go of the entries up to a sequence number; what they came to stays.
func (k *disk) trim(upTo int64) error {
	n := 0
	for i, e := range k.journal[:max(0, len(k.journal)-1)] {
		// Whole steps: the next one begins with a change of its own.
		if e.Seq <= upTo && len(k.journal[i+1].Change) > 0 {
			n = i + 1
		}
	}
	s, err := k.until(n)
	if err != nil || n == 0 {
		return err
	}
	var d core.Delta
	for _, name := range sorted(s.Slots) {
		d.Slots = append(d.Slots, s.Slots[name])
	}
	for _, name := range sorted(s.Bindings) {
		d.Bindings = append(d.Bindings, s.Bindings[name])
	}
	for _, id := range sorted(s.Delegations) {
		d.Delegations = append(d.Delegations, s.Delegations[id])
	}
	for _, id := range sorted(s.Leases) {
		d.Leases = append(d.Leases, s.Leases[id])
	}
	for _, id := range sorted(s.Actions) {
		d.Actions = append(d.Actions, s.Actions[id])
	}
	if k.base, err = json.Marshal(&d); err != nil {
		return err
	}
	k.journal = slices.Clone(k.journal[n:])
	return nil
}

// restore puts an older copy in the place of the journal: its first n entries, which come
// to this state.
func (k *disk) restore(n int, s *core.State) {
	k.journal = k.journal[:n:n]
	k.actions, k.slots, k.leases = s.Actions, s.Slots, s.Leases
}
