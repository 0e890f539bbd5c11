package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/store"
)

// ledger is what the daemon has acknowledged, and who was seen to hold which epoch. It is
// the clients' own memory: nothing of it comes from the database.
type ledger struct {
	mu      sync.Mutex
	acks    []*ack
	holders map[turn]string
	high    map[core.SlotName]core.Epoch // the highest epoch seen
	read    map[string]int               // sightings that were taken in, by slot
	lost    []string
	reused  []string
}

// ack is one acknowledged change. Missing says what of it is not in a database, or "".
type ack struct {
	what    string
	missing func(*evidence) string
	lost    bool
	// untold is a takeover that the extension has acknowledged and the database does not
	// have: the extension's next hello makes up for it.
	untold bool
	slot   core.SlotName
	epoch  core.Epoch
}

type turn struct {
	slot  core.SlotName
	epoch core.Epoch
}

func newLedger() *ledger {
	return &ledger{holders: map[turn]string{}, high: map[core.SlotName]core.Epoch{}, read: map[string]int{}}
}

// evidence is a database as it was found.
type evidence struct {
	state    *core.State
	snapshot *core.State                  // what the trimmed part of the journal led to
	kept     []core.Entry                 // the journal, from there on
	entries  []core.Entry                 // all that was ever seen of it
	rows     map[string]int               // how often there is an entry of a kind about something
	told     map[core.SlotName]core.Epoch // the last takeover of which an extension told
}

func row(kind string, about ...any) string { return kind + fmt.Sprint(about...) }

// newEvidence puts what was found to what was seen before. Of the journal it must go on
// from that: what was trimmed meanwhile is known from there.
func newEvidence(before *evidence, state, snapshot *core.State, kept []core.Entry) (*evidence, error) {
	e := &evidence{state: state, snapshot: snapshot, kept: kept, rows: map[string]int{}, told: map[core.SlotName]core.Epoch{}}
	if before != nil {
		e.entries = before.entries
	}
	seen := int64(len(e.entries))
	for i, v := range kept {
		switch {
		case v.Seq != snapshot.Seq+int64(i)+1:
			return nil, fmt.Errorf("the snapshot ends at %d, and entry %d after it has number %d", snapshot.Seq, i+1, v.Seq)
		case v.Seq > seen+1:
			return nil, fmt.Errorf("entries %d to %d were trimmed before anybody saw them", seen+1, v.Seq-1)
		case v.Seq <= seen && !same(e.entries[v.Seq-1], v):
			return nil, fmt.Errorf("entry %d is another one than it was", v.Seq)
		case v.Seq > seen:
			e.entries = append(e.entries, v)
			seen++
		}
	}
	if last := snapshot.Seq + int64(len(kept)); last < seen {
		return nil, fmt.Errorf("the journal ends at %d, and ended at %d", last, seen)
	}
	for _, v := range e.entries {
		e.rows[row("by ", v.Principal)]++
		e.rows[row(v.Kind, " of slot ", v.Slot)]++
		e.rows[row(v.Kind, " of slot ", v.Slot, " at ", v.Epoch)]++
		e.rows[row(v.Kind, " of lease ", v.Lease)]++
		e.rows[row(v.Kind, " of lease ", v.Lease, " at ", v.Epoch)]++
		if v.Kind == "takeover" && v.Principal == "extension" {
			e.told[v.Slot] = max(e.told[v.Slot], v.Epoch)
		}
	}
	return e, nil
}

// goesOn wants that nothing final has changed since a former state.
func (l *ledger) goesOn(before, now *core.State) {
	for name, old := range before.Slots {
		if v := now.Slots[name]; v == nil || v.Epoch < old.Epoch || v.Ceiling < old.Ceiling {
			l.again("slot %s was at epoch %d of %d, and is %+v", name, old.Epoch, old.Ceiling, v)
		}
	}
	for id, old := range before.Actions {
		if v := now.Actions[id]; v == nil || old.Closed && (!v.Closed || v.Local != old.Local || v.Remote != old.Remote) || old.Sent && !v.Sent {
			l.gone("action "+string(id), fmt.Errorf("it was %+v, and is %+v", old, v))
		}
	}
	for id, old := range before.Leases {
		if v := now.Leases[id]; v == nil || old.State == core.LeaseEnded && v.State != core.LeaseEnded {
			l.gone("lease "+string(id), fmt.Errorf("it was %+v, and is %+v", old, v))
		}
	}
}

func same(x, y core.Entry) bool {
	return x.Seq == y.Seq && x.Kind == y.Kind && x.Slot == y.Slot && x.Epoch == y.Epoch && x.Lease == y.Lease &&
		x.Action == y.Action && x.Principal == y.Principal && x.Reason == y.Reason && bytes.Equal(x.Change, y.Change)
}

// want wants an entry, so often.
func want(n int, name string) func(*evidence) string {
	return func(e *evidence) string {
		if e.rows[name] < n {
			return fmt.Sprintf("the journal has %d of %d entries %q", e.rows[name], n, name)
		}
		return ""
	}
}

// add takes an acknowledged change in.
func (l *ledger) add(what string, missing func(*evidence) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, &ack{what: what, missing: missing})
}

// takeover takes one in. The answer may have been the extension's word: then the journal
// has it either by the person, or by the extension that told of it later.
func (l *ledger) takeover(slot core.SlotName, epoch core.Epoch, by string) {
	a := &ack{what: fmt.Sprintf("takeover of %s at epoch %d", slot, epoch), slot: slot, epoch: epoch}
	a.missing = func(e *evidence) string {
		a.untold = e.rows[row("by human:", by)] == 0 && e.told[slot] <= epoch
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, a)
}

// untold lists the takeovers that an extension has yet to tell of.
func (l *ledger) untold() []*ack {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.acks), func(a *ack) bool { return !a.untold })
}

// fail counts an acknowledged change as lost, once.
func (l *ledger) fail(a *ack, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !a.lost {
		a.lost = true
		l.lost = append(l.lost, a.what+": "+why)
	}
}

// gone counts something as lost that an answer says is not there.
func (l *ledger) gone(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = append(l.lost, fmt.Sprintf("%s: %v", what, err))
}

// again counts an epoch that was given out twice, or is not above what was seen.
func (l *ledger) again(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reused = append(l.reused, fmt.Sprintf(format, args...))
}

// holds takes in who holds a slot at an epoch. An epoch has one holder, for ever.
func (l *ledger) holds(slot core.SlotName, epoch core.Epoch, holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.high[slot] = max(l.high[slot], epoch)
	if holder == "" {
		return
	}
	at := turn{slot, epoch}
	if old, ok := l.holders[at]; ok && old != holder {
		l.reused = append(l.reused, fmt.Sprintf("epoch %d of slot %s is %s's, and was %s's", epoch, slot, holder, old))
	}
	l.holders[at] = holder
}

func (l *ledger) highest(slot core.SlotName) core.Epoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.high[slot]
}

func (l *ledger) status(st *core.Status) {
	holder := st.Authority.Holder.Kind
	if holder == "agent" {
		holder = string(st.Authority.Lease)
	}
	l.holds(st.Slot, st.Authority.Epoch, holder)
}

func (l *ledger) lease(r *wire.LeaseReply) {
	if r.State == core.LeaseGranted || r.State == core.LeaseActive {
		l.holds(r.Slot, r.Epoch, string(r.Lease))
	}
}

// witness takes in what a slot's browser has written down since the last time.
func (l *ledger) witness(slot string, text []byte) error {
	name := core.SlotName(slot)
	lines := bytes.SplitAfter(text, []byte("\n"))
	var last core.Epoch
	for i, line := range lines {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		var s sighting
		if err := json.Unmarshal(line, &s); err != nil {
			return err
		}
		if s.Epoch < last {
			l.again("the browser of slot %s was given epoch %d after %d", slot, s.Epoch, last)
		}
		last = s.Epoch
		if i < l.read[slot] {
			continue
		}
		l.read[slot] = i + 1
		switch {
		case s.Kind == "fence" && s.Person:
			l.holds(name, s.Epoch, "human")
		case s.Kind == "grant":
			l.holds(name, s.Epoch, string(s.Lease))
		default:
			l.holds(name, s.Epoch, "")
		}
	}
	return nil
}

// check holds the ledger against a database, and the database against itself and against
// what it was.
func (l *ledger) check(before, now *evidence) {
	l.mu.Lock()
	acks := slices.Clone(l.acks)
	l.mu.Unlock()
	for _, a := range acks {
		if why := a.missing(now); why != "" {
			l.fail(a, why)
		}
	}
	for slot, high := range l.high {
		if s := now.state.Slots[slot]; s == nil {
			l.again("slot %s and its epochs are gone", slot)
		} else if high > s.Ceiling {
			l.again("slot %s was seen at epoch %d, above its ceiling of %d", slot, high, s.Ceiling)
		}
	}
	// Between the two lie many steps, of which the invariants of a single one do not speak.
	if err := core.CheckInvariants(nil, now.state); err != nil {
		l.gone("an invariant", err)
	}
	if before != nil {
		l.goesOn(before.state, now.state)
	}
	replayed, err := store.Replay(now.snapshot, now.kept)
	if err != nil {
		l.gone("the journal", err)
	} else if !bytes.Equal(stored(replayed), stored(now.state)) {
		l.gone("the journal", fmt.Errorf("does not lead to what the tables hold"))
	}
}

// stored is what of a state is stored, in a form in which two can be compared.
func stored(s *core.State) []byte {
	text, err := json.Marshal([]any{s.Slots, s.Bindings, s.Delegations, s.Leases, s.Actions, s.Seq})
	if err != nil {
		panic(err)
	}
	return text
}

// The shapes of acknowledged changes.

func hasLease(r *wire.LeaseReply, secret string) func(*evidence) string {
	return func(e *evidence) string {
		switch v := e.state.Leases[r.Lease]; {
		case v == nil:
			return "there is no such lease"
		case secret != "" && v.CapHash != engine.HashSecret(secret):
			return "its capability is another one"
		case v.Epoch < r.Epoch:
			return fmt.Sprintf("it is back at epoch %d", v.Epoch)
		case e.rows[row("granted of lease ", r.Lease, " at ", r.Epoch)]+e.rows[row("resumed of lease ", r.Lease, " at ", r.Epoch)] == 0:
			return fmt.Sprintf("the journal has no grant of it at epoch %d", r.Epoch)
		}
		return ""
	}
}

func hasEnded(id core.LeaseID) func(*evidence) string {
	return func(e *evidence) string {
		if v := e.state.Leases[id]; v == nil || v.State != core.LeaseEnded {
			return fmt.Sprintf("the lease is %+v", v)
		}
		return ""
	}
}

// lastsUntil wants a lease that has not ended to last as long as a renewal promised.
func lastsUntil(id core.LeaseID, bootMs int64, n int) func(*evidence) string {
	return func(e *evidence) string {
		if have := e.rows[row("renewed of lease ", id)]; have < n {
			return fmt.Sprintf("the journal has %d of %d renewals", have, n)
		}
		v := e.state.Leases[id]
		if v == nil || v.State != core.LeaseEnded && v.Expires.BootMs < min(bootMs, v.MaxUntil.BootMs) {
			return fmt.Sprintf("it was promised until %d: %+v", bootMs, v)
		}
		return ""
	}
}

func hasBinding(name core.BindingName, removed bool) func(*evidence) string {
	return func(e *evidence) string {
		if v := e.state.Bindings[name]; v == nil || removed && !v.Removed {
			return fmt.Sprintf("the binding is %+v", v)
		}
		return ""
	}
}

func hasDelegation(r *wire.DelegateReply) func(*evidence) string {
	return func(e *evidence) string {
		if v := e.state.Delegations[r.Delegation]; v == nil || v.Hash != engine.HashSecret(r.Token) {
			return fmt.Sprintf("the delegation is %+v", v)
		}
		return ""
	}
}

func hasAction(r *core.Record) func(*evidence) string {
	return func(e *evidence) string {
		v := e.state.Actions[r.Action]
		if v == nil || v.ID != r.ID || v.Lease != r.Lease || v.Epoch != r.Epoch || strings.HasPrefix(string(v.Authority), "refused") && v.Authority != r.Authority && !v.Over {
			return fmt.Sprintf("the action is %+v", v)
		}
		return ""
	}
}

func hasVerdict(id core.ActionID, verdict core.Remote) func(*evidence) string {
	return func(e *evidence) string {
		if v := e.state.Actions[id]; v == nil || v.Resolution == nil || v.Resolution.Verdict != verdict {
			return fmt.Sprintf("the action is %+v", v)
		}
		return ""
	}
}
