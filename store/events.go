package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
)

// read runs f in one transaction of a reader: all that it sees is of one moment, and
// neither waits for the writer nor keeps it waiting. A corrupt database is never opened
// again: what can be read of it is read as it is.
func (s *Store) read(f func(*sql.Tx) error) error {
	damage := s.damage.Load()
	if err := s.ready(); err != nil && (damage == nil || !errors.Is(err, ErrMustReopen)) {
		return err
	}
	s.readerMu.RLock()
	reader := s.reader
	s.readerMu.RUnlock()
	if reader == nil && damage != nil {
		return damage
	}
	if reader == nil {
		return ErrMustReopen // it is being opened again
	}
	tx, err := reader.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.refusal(err)
	}
	defer tx.Rollback() // nothing was written
	return s.refusal(f(tx))
}

// Events returns entries of the journal without what they changed: at most q.Limit of
// them and never more than MaxEvents.
func (s *Store) Events(q core.EventQuery) (core.EventPage, error) {
	var page core.EventPage
	limit := min(max(q.Limit, 0), MaxEvents)
	err := s.read(func(tx *sql.Tx) error {
		if err := tx.QueryRow(`SELECT seq, at, coalesce((SELECT max(seq) FROM journal), seq) FROM snapshot`).
			Scan(&page.Trimmed, &page.TrimmedMs, &page.Last); err != nil {
			return err
		}
		where, args := "seq > ?", []any{q.After}
		if q.Slot != "" {
			where, args = where+" AND slot = ?", append(args, q.Slot)
		}
		if q.Lease != "" {
			where, args = where+" AND lease = ?", append(args, q.Lease)
		}
		order := "ASC"
		if q.Newest {
			order = "DESC"
		}
		var err error
		page.Entries, err = entries(tx, "NULL", where+" ORDER BY seq "+order+" LIMIT ?", append(args, limit)...)
		return err
	})
	if q.Newest {
		slices.Reverse(page.Entries)
	}
	page.Next = page.Last // everything up to it was looked at
	if n := len(page.Entries); n == limit && !q.Newest {
		page.Next = q.After
		if n > 0 {
			page.Next = page.Entries[n-1].Seq
		}
	}
	return page, err
}

// Journal returns the entries after a sequence number with what they changed, oldest
// first: at most limit of them and never more than MaxEvents.
func (s *Store) Journal(after int64, limit int) ([]core.Entry, error) {
	var out []core.Entry
	err := s.read(func(tx *sql.Tx) (err error) {
		out, err = entries(tx, "change", "seq > ? ORDER BY seq LIMIT ?", after, min(max(limit, 0), MaxEvents))
		return err
	})
	return out, err
}

func entries(tx *sql.Tx, change, where string, args ...any) ([]core.Entry, error) {
	rows, err := tx.Query(`SELECT seq, at, kind, slot, epoch, lease, action, principal, reason, `+change+`
FROM journal WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []core.Entry
	for rows.Next() {
		var e core.Entry
		var epoch int64
		var change []byte
		if err := rows.Scan(&e.Seq, &e.AtMs, &e.Kind, &e.Slot, &epoch, &e.Lease, &e.Action, &e.Principal, &e.Reason, &change); err != nil {
			return nil, err
		}
		e.Epoch, e.Change = core.Epoch(epoch), change
		out = append(out, e)
	}
	return out, rows.Err()
}

// Replay applies the journal's entries, first entry first, to the state that the
// snapshot holds, or to an empty one where the journal is whole. It is what proves that
// snapshot and journal are complete, and the way back if a table were lost.
func Replay(state *core.State, journal []core.Entry) (*core.State, error) {
	for _, e := range journal {
		if e.Seq <= state.Seq {
			return nil, fmt.Errorf("journal entry %d comes after %d", e.Seq, state.Seq)
		}
		d := &core.Delta{}
		if e.Change != nil {
			if err := json.Unmarshal(e.Change, d); err != nil {
				return nil, fmt.Errorf("journal entry %d: %w", e.Seq, err)
			}
		}
		d.Journal = []core.Entry{e}
		state.Apply(d)
	}
	return state, nil
}
