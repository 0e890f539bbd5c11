package main

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	_ "modernc.org/sqlite"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/e2e/powerloss/story"
	"sessiondock.dev/sessiondock/store"
)

// database is the database's path below the root. Its directories are the program's own to
// make, so that their names can be lost too.
const database = "state/sessiondock/sessiondock.db"

// page is what the store holds after a chapter.
type page struct {
	chapter story.Chapter
	seq     int64
	// sums are of the states in which it may be found: before what precedes the next
	// chapter, and after that, which may have trimmed the journal.
	sums   [][sha256.Size]byte
	epochs map[core.SlotName]epochs
}

type epochs struct{ epoch, ceiling core.Epoch }

// book is the whole story: book[n] is the store after n chapters.
type book []page

// write plays the story undisturbed, in a directory of its own, and keeps what the store
// says after each step of it. That this is what the core decided, the store's own tests
// show.
func write(dir string, seed uint64, chapters int) (book, error) {
	b := make(book, chapters+1)
	err := story.Run(filepath.Join(dir, database), seed, chapters, func(n int, c story.Chapter, committed bool, db *store.Store) error {
		s, err := db.Load()
		if err != nil {
			return err
		}
		if !committed {
			n-- // still the chapter before
		} else {
			b[n].chapter = c
		}
		p := &b[n]
		p.seq, p.sums, p.epochs = s.Seq, append(p.sums, sum(s)), map[core.SlotName]epochs{}
		for _, v := range s.Slots {
			p.epochs[v.Name] = epochs{v.Epoch, v.Ceiling}
		}
		return nil
	})
	return b, err
}

// sum is a hash of all that is kept of a state.
func sum(s *core.State) [sha256.Size]byte {
	text, err := json.Marshal([]any{s.Slots, s.Bindings, s.Delegations, s.Leases, s.Actions, s.Seq})
	if err != nil {
		panic(err)
	}
	return sha256.Sum256(text)
}

// found is what the store makes of an image.
type found struct {
	chapter int    // how many are there
	corrupt string // what is wrong with them, if anything is
}

// look writes an image into an empty directory, opens the database in it as the daemon
// would, and goes on with it.
func (b book) look(dir string, m image) (f found, err error) {
	if err := lay(dir, m); err != nil {
		return f, err
	}
	path := filepath.Join(dir, database)
	s, err := store.Open(path)
	if err != nil {
		return found{0, "it cannot be opened: " + err.Error()}, nil
	}
	f = b.read(s)
	if err := s.Close(); err != nil && f.corrupt == "" {
		f.corrupt = "it cannot be closed: " + err.Error()
	}
	if f.corrupt == "" {
		f.corrupt, err = check(path)
	}
	return f, err
}

func (b book) read(s *store.Store) found {
	state, err := s.Load()
	if err != nil {
		return found{0, "it cannot be read: " + err.Error()}
	}
	n, ok := slices.BinarySearchFunc(b, state.Seq, func(p page, seq int64) int { return int(p.seq - seq) })
	switch {
	case !ok:
		return found{max(0, n-1), fmt.Sprintf("half of a commit: the journal ends at %d", state.Seq)}
	case !slices.Contains(b[n].sums, sum(state)):
		return found{n, fmt.Sprintf("the tables are not those of journal entry %d", state.Seq)}
	}
	if why := replays(s, state); why != "" {
		return found{n, why}
	}
	if n+1 < len(b) {
		if err := b[n+1].chapter.Commit(s); err != nil {
			return found{n, "the next change is refused: " + err.Error()}
		}
	}
	return found{chapter: n}
}

// replays says why snapshot and journal do not lead to what the tables hold, or "".
func replays(s *store.Store, state *core.State) string {
	replayed, err := s.Snapshot()
	if err != nil {
		return "the snapshot: " + err.Error()
	}
	for {
		more, err := s.Journal(replayed.Seq, store.MaxEvents)
		if err != nil {
			return "the journal: " + err.Error()
		}
		if len(more) == 0 {
			break
		}
		if replayed, err = store.Replay(replayed, more); err != nil {
			return err.Error()
		}
	}
	if sum(replayed) != sum(state) {
		return "snapshot and journal do not lead to what the tables hold"
	}
	return ""
}

// check asks SQLite itself, once the store has let go of the file.
func check(path string) (string, error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return "", err
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil {
		return "integrity_check: " + err.Error(), nil
	}
	if verdict != "ok" {
		return "integrity_check: " + verdict, nil
	}
	return "", nil
}

// lay writes an image into an empty directory.
func lay(dir string, m image) error {
	for _, path := range slices.Sorted(maps.Keys(m)) { // a directory comes before what is in it
		var err error
		switch full := filepath.Join(dir, path); {
		case path == ".":
		case m[path] == nil:
			err = os.Mkdir(full, 0o700)
		default:
			err = os.WriteFile(full, m[path], 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lost says how what was found falls short of what was acknowledged, or "".
func (b book) lost(f found, acknowledged int) string {
	if f.chapter >= acknowledged {
		return ""
	}
	for name, want := range b[acknowledged].epochs {
		if got := b[f.chapter].epochs[name]; got.epoch < want.epoch || got.ceiling < want.ceiling {
			return fmt.Sprintf("%d changes were acknowledged, %d are there; slot %s is back at epoch %d of %d",
				acknowledged, f.chapter, name, got.epoch, want.epoch)
		}
	}
	return fmt.Sprintf("%d changes were acknowledged, %d are there", acknowledged, f.chapter)
}

var errEmpty = errors.New("the trace shows no acknowledgement")
