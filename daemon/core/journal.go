package core

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// EventQuery asks for entries of the journal, oldest first.
type EventQuery struct {
	After  int64 // a sequence number
	Limit  int
	Newest bool     // the last Limit entries instead of the first
	Slot   SlotName // only this slot's; empty: all
	Lease  LeaseID  // only this lease's; empty: all
}

// EventPage is the journal's answer. The next page begins after Next.
type EventPage struct {
	Entries []Entry // without Change
	Next    int64
	// Trimmed is the entry up to which the journal has been trimmed, and TrimmedMs when
	// that one was written. A reader that asked for entries after a lower one has missed
	// what lay between.
	Trimmed   int64
	TrimmedMs int64
	Last      int64 // the journal's last entry
}

// NotKept is the kind of a row that stands where entries have been trimmed.
const NotKept = "not kept"

// Kept is what the journal holds now.
type Kept struct {
	First, Last int64 // sequence numbers; 0 if there is no entry
	OldestMs    int64 // when First was written, unix milliseconds
	Bytes       int64
}

// Trimmed is what one piece of work on the journal has done.
type Trimmed struct {
	Seq     int64 // the last entry that has left the journal, 0 if none has
	Entries int   // how many have
	Freed   int   // pages given back to the file system
}

// Trim lets go of the journal's oldest entries, up to one, for a reason. What they say of
// epochs, open actions and identifiers stays in the state.
type Trim struct {
	UpTo int64
	Why  string
}

func (Trim) input() {}

// TrimJournal carries a Trim out, a piece at a time.
type TrimJournal struct{ UpTo int64 }

func (TrimJournal) effect() {}

func (t *tx) trim(in Trim) *Error {
	if in.UpTo < 1 || in.UpTo > t.s.Seq {
		return Refuse(CodeInvalid, fmt.Sprintf("the journal has no entry %d", in.UpTo), "")
	}
	t.log("trimmed", nil, "", "", fmt.Sprintf("entries up to %d: %s", in.UpTo, in.Why))
	t.emit(TrimJournal{UpTo: in.UpTo})
	return nil
}

// dropUnchanged takes out of the step what it only looked at, so that a step which
// decides nothing writes nothing.
func (t *tx) dropUnchanged() {
	d := &t.res.Delta
	d.Slots = slices.DeleteFunc(d.Slots, func(v *Slot) bool { return reflect.DeepEqual(v, t.s.Slots[v.Name]) })
	d.Leases = slices.DeleteFunc(d.Leases, func(v *Lease) bool { return reflect.DeepEqual(v, t.s.Leases[v.ID]) })
	d.Actions = slices.DeleteFunc(d.Actions, func(v *Action) bool { return reflect.DeepEqual(v, t.s.Actions[v.Action]) })
}

// outcomes gives every action whose outcome the step has changed an entry of its own,
// unless one names it already.
func (t *tx) outcomes() {
	d := &t.res.Delta
	if len(d.Actions) == 0 {
		return
	}
	named := map[ActionID]bool{}
	for _, e := range d.Journal {
		named[e.Action] = true
	}
	for _, a := range d.Actions {
		old := t.s.Actions[a.Action]
		known := old != nil && old.Authority == a.Authority && old.Local == a.Local && old.Remote == a.Remote && old.Closed == a.Closed
		if !known && !named[a.Action] {
			t.logAction("settled", a)
		}
	}
}

// logAction adds an entry about an action and what is known of it.
func (t *tx) logAction(kind string, a *Action) {
	reason := a.Summary + ": local " + string(a.Local) + ", remote " + string(a.Remote)
	if a.Authority != Admitted {
		reason += ", " + string(a.Authority)
	}
	t.log(kind, t.seeSlot(a.Slot), a.Lease, a.Action, strings.TrimPrefix(reason, ": "))
}

// note adds the entry of a step that changed something and has none.
func (t *tx) note() {
	d := &t.res.Delta
	var slot *Slot
	var lease LeaseID
	switch {
	case len(d.Actions) > 0:
		t.logAction("evidence", d.Actions[0])
		return
	case len(d.Leases) > 0:
		slot, lease = t.seeSlot(d.Leases[0].Slot), d.Leases[0].ID
	case len(d.Slots) > 0:
		slot = d.Slots[0]
	}
	t.log("noted", slot, lease, "", words(strings.TrimPrefix(fmt.Sprintf("%T", t.in), "core.")))
}

// words writes the name of an input, such as LinkUp, as words.
func words(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
