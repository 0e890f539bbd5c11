package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Load reads the whole state, as of one moment, from the tables.
func (s *Store) Load() (*core.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return nil, err
	}
	state, err := s.load()
	return state, refusal(s.path, err)
}

func (s *Store) load() (*core.State, error) {
	tx, err := s.writer.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // nothing was written

	d := &core.Delta{}
	if err := bodies(tx, `SELECT body FROM slots ORDER BY name`, &d.Slots); err != nil {
		return nil, err
	}
	if err := bodies(tx, `SELECT body FROM bindings ORDER BY name`, &d.Bindings); err != nil {
		return nil, err
	}
	if err := bodies(tx, `SELECT body FROM delegations ORDER BY id`, &d.Delegations); err != nil {
		return nil, err
	}
	if err := bodies(tx, `SELECT body FROM leases ORDER BY id`, &d.Leases); err != nil {
		return nil, err
	}
	if err := bodies(tx, `SELECT body FROM actions ORDER BY id`, &d.Actions); err != nil {
		return nil, err
	}
	if err := s.epochsAgree(tx, d.Slots); err != nil {
		return nil, err
	}
	state := core.NewState()
	state.Apply(d)
	// Only the number matters of the journal's last entry.
	err = tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM journal`).Scan(&state.Seq)
	return state, err
}

// bodies appends every row's entity.
func bodies[T any](tx *sql.Tx, query string, to *[]*T) error {
	rows, err := tx.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var body sql.RawBytes
		if err := rows.Scan(&body); err != nil {
			return err
		}
		v := new(T)
		if err := json.Unmarshal(body, v); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		*to = append(*to, v)
	}
	return rows.Err()
}

// epochsAgree compares the entity with the columns that the triggers watch. If
// they differ, somebody has written past them, and no epoch can be relied on.
func (s *Store) epochsAgree(tx *sql.Tx, slots []*core.Slot) error {
	rows, err := tx.Query(`SELECT name, epoch, ceiling FROM slots ORDER BY name`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for _, v := range slots {
		var name core.SlotName
		var epoch, ceiling int64
		if !rows.Next() {
			break
		}
		if err := rows.Scan(&name, &epoch, &ceiling); err != nil {
			return err
		}
		if name != v.Name || core.Epoch(epoch) != v.Epoch || core.Epoch(ceiling) != v.Ceiling {
			return corrupt(s.path, fmt.Sprintf("slot %s says one epoch in its row and another in its body", name))
		}
	}
	return rows.Err()
}

// Events returns the journal's entries after the given sequence number, oldest
// first: at most limit of them and never more than MaxEvents. It reads on
// connections of its own, so that a reader does not keep the writer waiting.
func (s *Store) Events(after int64, limit int) ([]core.Entry, error) {
	s.mu.RLock()
	reader, err := s.reader, s.ready()
	s.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	entries, err := events(reader, after, min(max(limit, 0), MaxEvents))
	return entries, refusal(s.path, err)
}

func events(db *sql.DB, after int64, limit int) ([]core.Entry, error) {
	rows, err := db.Query(`SELECT seq, at, kind, slot, epoch, lease, action, principal, reason, change
FROM journal WHERE seq > ? ORDER BY seq LIMIT ?`, after, limit)
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

// Replay rebuilds the state from the whole journal, first entry first. It is what
// proves that the journal is complete, and the way back if a table were lost.
func Replay(journal []core.Entry) (*core.State, error) {
	state := core.NewState()
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
