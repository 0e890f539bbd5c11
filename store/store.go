package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"sessiondock.dev/sessiondock/daemon/core"
)

const (
	// MaxEvents is the most that Events returns at once.
	MaxEvents = 1000
	// maxReaders bounds the connections of those who read the journal.
	maxReaders = 4
)

// Store is an open database. Its methods may be called from any goroutine; writes
// follow one another.
type Store struct {
	path string
	lock *os.File

	mu         sync.Mutex  // of the writer; whoever commits has it for as long as the disk takes
	writer     *sql.DB     // of one connection
	w          *writer     // that connection's statements
	open       bool        // a transaction is under way
	mustReopen atomic.Bool // after a failed COMMIT, or without a connection
	closed     atomic.Bool
	damage     atomic.Pointer[core.Error] // what makes the database corrupt
	damaged    chan struct{}              // closed with it

	readerMu sync.RWMutex // never held while the disk is waited for
	reader   *sql.DB      // nil without a connection
}

var syscallsOnce sync.Once

// Open opens the database at path, or makes it. It refuses with conflict if another
// process serves it or it is another program's, with version_skew if it is newer
// than this daemon, and with unavailable if it is corrupt or cannot be used.
func Open(path string) (*Store, error) {
	syscallsOnce.Do(chooseSyscalls)
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	held, err := lock(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, lock: held, damaged: make(chan struct{})}
	if err := createFile(path); err != nil {
		held.Close()
		return nil, err
	}
	if err := s.connect(); err != nil {
		held.Close()
		return nil, err
	}
	return s, nil
}

// Path returns the database's real path.
func (s *Store) Path() string { return s.path }

func (s *Store) connect() error {
	db, reader, err := connect(s.path)
	if err != nil {
		return s.refusal(err)
	}
	s.writer = db
	s.setReader(reader)
	// Its statements are prepared now: a database that lacks what they need is refused
	// before it is served.
	if err := s.onWriter(func(*writer) error { return nil }); err != nil {
		_ = s.disconnect()
		return s.refusal(err)
	}
	return nil
}

// setReader puts another reader in the place of the present one, and closes that.
func (s *Store) setReader(r *sql.DB) error {
	s.readerMu.Lock()
	old := s.reader
	s.reader = r
	s.readerMu.Unlock()
	if old == nil {
		return nil
	}
	return old.Close()
}

func (s *Store) disconnect() error {
	if s.writer == nil {
		return nil
	}
	if s.w != nil {
		s.w.finalize()
	}
	errReader := s.setReader(nil)
	// The writer is last, so that its close can merge the log into the database.
	err := s.writer.Close()
	s.writer, s.w, s.open = nil, nil, false
	if err == nil {
		err = errReader
	}
	return err
}

// writable refuses what would be written.
func (s *Store) writable() error {
	if err := s.ready(); err != nil {
		return err
	}
	if e := s.damage.Load(); e != nil {
		return e
	}
	return nil
}

// ready refuses work that the store cannot answer for.
func (s *Store) ready() error {
	switch {
	case s.closed.Load():
		return core.Refuse(core.CodeUnavailable, "the store is closed", "the daemon is stopping")
	case s.mustReopen.Load():
		return ErrMustReopen
	}
	return nil
}

// Reopen closes every connection and opens the database again, under the same
// lock. After ErrUncertain it is the only way on; Load then says what was written.
// If it fails, the store goes on refusing and Reopen may be called again. A database that
// is known to be corrupt is not opened again: what can be read of it still is.
func (s *Store) Reopen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return s.ready()
	}
	if e := s.damage.Load(); e != nil {
		return e
	}
	s.mustReopen.Store(true)
	// What closing says does not matter: what counts is what the file holds.
	_ = s.disconnect()
	if err := s.connect(); err != nil {
		return err
	}
	s.mustReopen.Store(false)
	return nil
}

// Close ends the store and gives the lock back. A second call does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return nil
	}
	s.closed.Store(true)
	err := s.disconnect()
	if e := s.lock.Close(); err == nil {
		err = e
	}
	return err
}

// Write adds a delta to the transaction under way, or begins one. It is not durable
// before the next Commit, and nobody who reads sees it. An error, here or of the Commit,
// means that nothing which was written since the last Commit is kept.
func (s *Store) Write(d *core.Delta) error {
	return s.change(func(w *writer) error { return s.put(w, d) })
}

// Commit writes the delta and ends the transaction under way; a nil error means that
// both are on disk. The delta may be several steps' in one: of an entity that occurs
// more than once the last form is written. It takes no context: a COMMIT is never
// called off.
func (s *Store) Commit(d *core.Delta) error {
	return s.change(func(w *writer) error {
		if err := s.put(w, d); err != nil || !s.open {
			return err
		}
		s.open = false
		if _, err := w.run(w.commit); err != nil {
			s.mustReopen.Store(true)
			return &uncertain{s.refusal(err)}
		}
		return nil
	})
}

// Checkpoint copies what is in the log into the database, so that the log can be written
// again from its beginning. It is for a writer that has nothing else to do: a commit that
// met a full log would have to. Between Write and Commit it does nothing. It does not wait
// for who reads, and copies less then.
func (s *Store) Checkpoint() error {
	return s.change(func(w *writer) error {
		if s.open {
			return nil
		}
		_, err := w.run(w.checkpoint)
		return err
	})
}

func (s *Store) put(w *writer, d *core.Delta) error {
	if d.Empty() {
		return nil
	}
	rows, err := encode(d)
	if err == nil && !s.open {
		if _, err = w.run(w.begin); err == nil {
			s.open = true
		}
	}
	if err == nil {
		err = w.write(rows)
	}
	if err == nil || !s.open {
		return err
	}
	// Without a COMMIT nothing is written, whatever ROLLBACK says. SQLite has
	// rolled back by itself after some errors, and then ROLLBACK fails.
	s.open = false
	if _, e := w.run(w.rollback); e != nil {
		return &broken{err}
	}
	return err
}

// broken is an error after which the connection is not used any more.
type broken struct{ error }

func (e *broken) Unwrap() error { return e.error }

// change lets f use the writer.
func (s *Store) change(f func(*writer) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	err := s.onWriter(f)
	if _, ok := err.(*broken); ok {
		s.replace()
	}
	return s.refusal(err)
}

// onWriter lets f use the writer, prepared for the connection that it has now.
func (s *Store) onWriter(f func(*writer) error) error {
	conn, err := s.writer.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close() // it goes back to its pool of one
	return conn.Raw(func(c any) error {
		if dc := c.(driver.Conn); s.w == nil || s.w.conn != dc {
			if s.open {
				return &broken{errors.New("the writer's connection was lost in mid-transaction")}
			}
			if s.w, err = newWriter(dc); err != nil {
				return err
			}
		}
		return f(s.w)
	})
}

// inTransaction runs f in one transaction of the writer, between those of Commit.
func (s *Store) inTransaction(f func(*sql.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	if s.open {
		return core.Refuse(core.CodeBusy, "a transaction is under way", "ask again after its Commit")
	}
	tx, err := s.writer.BeginTx(context.Background(), nil)
	if err != nil {
		return s.refusal(err)
	}
	if err := f(tx); err != nil {
		// Without a COMMIT nothing is written, whatever ROLLBACK says. SQLite has
		// rolled back by itself after some errors, and then ROLLBACK fails; the
		// connection is replaced before it is used again.
		if tx.Rollback() != nil {
			s.replace()
		}
		return s.refusal(err)
	}
	if err := tx.Commit(); err != nil {
		s.mustReopen.Store(true)
		return &uncertain{s.refusal(err)}
	}
	return nil
}

// replace opens new connections; if that fails, the store waits for Reopen.
func (s *Store) replace() {
	_ = s.disconnect()
	s.mustReopen.Store(s.connect() != nil)
}
