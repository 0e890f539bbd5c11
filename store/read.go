package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Load reads the whole state, as of one moment, from the tables.
func (s *Store) Load() (*core.State, error) { return s.load(loadActions) }

// LoadOpen reads the state with only the open actions whole: what a daemon keeps in
// memory (see core.State.KeepOnlyOpen).
func (s *Store) LoadOpen() (*core.State, error) { return s.load(loadOpenActions) }

func (s *Store) load(actions func(*sql.Tx, *core.State) error) (*core.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return nil, err
	}
	tx, err := s.writer.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, s.refusal(err)
	}
	defer tx.Rollback() // nothing was written

	d := &core.Delta{}
	state := core.NewState()
	if err := errors.Join(
		bodies(tx, `SELECT body FROM slots ORDER BY name`, &d.Slots),
		bodies(tx, `SELECT body FROM bindings ORDER BY name`, &d.Bindings),
		bodies(tx, `SELECT body FROM delegations ORDER BY id`, &d.Delegations),
		bodies(tx, `SELECT body FROM leases ORDER BY id`, &d.Leases),
		s.epochsAgree(tx, d.Slots),
	); err != nil {
		return nil, s.refusal(err)
	}
	state.Apply(d)
	if err := actions(tx, state); err != nil {
		return nil, s.refusal(err)
	}
	// Only the number matters of the journal's last entry.
	err = tx.QueryRow(`SELECT max(seq, (SELECT coalesce(max(seq), 0) FROM journal)) FROM snapshot`).Scan(&state.Seq)
	return state, s.refusal(err)
}

func loadActions(tx *sql.Tx, state *core.State) error {
	d := &core.Delta{}
	if err := bodies(tx, `SELECT body FROM actions ORDER BY id`, &d.Actions); err != nil {
		return err
	}
	state.Apply(d)
	return loadPast(tx, state)
}

func loadOpenActions(tx *sql.Tx, state *core.State) error {
	state.KeepOnlyOpen()
	d := &core.Delta{}
	if err := bodies(tx, `SELECT body FROM actions WHERE closed = 0 ORDER BY id`, &d.Actions); err != nil {
		return err
	}
	state.Apply(d)
	return eachPast(tx, `SELECT id, client, lease, hash, bytes, NULL FROM actions WHERE closed = 1
UNION ALL SELECT id, client, lease, hash, bytes, NULL FROM past`, func(id core.ActionID, p *core.Past, _ []byte) error {
		p.Lease = state.Leases[p.Lease].ID // one string for all of a lease's actions
		state.Remember(id, p)
		return nil
	})
}

// loadPast loads the actions that have left the journal whole, that is as what stays of
// them.
func loadPast(tx *sql.Tx, state *core.State) error {
	return eachPast(tx, selectPast+` ORDER BY id`, func(id core.ActionID, p *core.Past, brief []byte) error {
		a, err := pastAction(id, p, state.Leases[p.Lease], brief)
		if err == nil {
			state.Apply(&core.Delta{Actions: []*core.Action{a}})
		}
		return err
	})
}

const selectPast = `SELECT id, client, lease, hash, bytes, body FROM past`

func eachPast(tx *sql.Tx, query string, each func(core.ActionID, *core.Past, []byte) error, args ...any) error {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id core.ActionID
		var p core.Past
		var brief sql.RawBytes
		if err := rows.Scan(&id, &p.ID, &p.Lease, &p.BodyHash, &p.Bytes, &brief); err != nil {
			return err
		}
		if err := each(id, &p, brief); err != nil {
			return fmt.Errorf("action %s: %w", id, err)
		}
	}
	return rows.Err()
}

func pastAction(id core.ActionID, p *core.Past, l *core.Lease, brief []byte) (*core.Action, error) {
	var b core.Brief
	if err := json.Unmarshal(brief, &b); err != nil {
		return nil, err
	}
	a := p.Action(id, l)
	b.Fill(a)
	return a, nil
}

// bodies appends every row's entity.
func bodies[T any](tx *sql.Tx, query string, to *[]*T, args ...any) error {
	rows, err := tx.Query(query, args...)
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
