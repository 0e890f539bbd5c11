package core

import "fmt"

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
