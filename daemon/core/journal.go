package core

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
