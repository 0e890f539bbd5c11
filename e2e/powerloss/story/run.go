package story

import (
	"fmt"

	"sessiondock.dev/sessiondock/store"
)

// Run plays the story of a seed on the database at path. It calls did after everything
// that can be told from what the database holds: each step of what comes before chapter
// n, and then its commit.
func Run(path string, seed uint64, chapters int, did func(n int, c Chapter, committed bool, db *store.Store) error) error {
	db, err := store.Open(path)
	if err != nil {
		return err
	}
	tale := New(seed)
	for n := 1; n <= chapters; n++ {
		upTo := tale.State.Seq / 2
		c := tale.Tell()
		switch c.Before {
		case Reopen:
			err = db.Reopen()
		case Restart:
			if err = db.Close(); err == nil {
				db, err = store.Open(path)
			}
		case Merge:
			err = db.Checkpoint()
		case Trim:
			err = trim(db, upTo, func() error { return did(n, c, false, db) })
		}
		if err != nil {
			return fmt.Errorf("before chapter %d: %w", n, err)
		}
		if err := did(n, c, false, db); err != nil {
			return err
		}
		if err := c.Commit(db); err != nil {
			return fmt.Errorf("chapter %d: %w", n, err)
		}
		if err := did(n, c, true, db); err != nil {
			return err
		}
	}
	return db.Close()
}

// Commit writes a chapter.
func (c Chapter) Commit(db *store.Store) error {
	if c.Written != nil {
		if err := db.Write(c.Written); err != nil {
			return err
		}
	}
	return db.Commit(c.Delta)
}

// trim lets the journal go up to an entry, piece by piece, and then some of the file's
// free pages, as the engine does when it has nothing else to do.
func trim(db *store.Store, upTo int64, did func() error) error {
	const piece = 64
	for {
		t, err := db.Trim(upTo, piece)
		if err != nil || t.Entries == 0 && t.Freed == 0 {
			return err
		}
		if err := did(); err != nil {
			return err
		}
	}
}
