package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"sessiondock.dev/sessiondock/daemon/core"
)

const (
	// trimBytes bounds what one Trim reads of the journal, apart from an entry that is
	// larger by itself.
	trimBytes = 64 << 10
	// vacuumPages is how many pages one Trim moves to give space back to the file system.
	// Each is a page read and two written, so it is a bound of time.
	vacuumPages = 16
	// sparePart of the database may be free pages: what is written next uses them again.
	sparePart = 8
)

// Kept tells what the journal holds. It reads two entries.
func (s *Store) Kept() (core.Kept, error) {
	var k core.Kept
	err := s.read(func(tx *sql.Tx) (err error) {
		k, err = kept(tx)
		return err
	})
	return k, err
}

func kept(tx *sql.Tx) (core.Kept, error) {
	first, err := entryFrom(tx, 0)
	if err != nil || first.seq == 0 {
		return core.Kept{}, err
	}
	k := core.Kept{First: first.seq, OldestMs: first.atMs}
	err = tx.QueryRow(`SELECT seq, total - ? FROM journal ORDER BY seq DESC LIMIT 1`, first.total).Scan(&k.Last, &k.Bytes)
	return k, err
}

// mark is one entry's place in the journal.
type mark struct{ seq, atMs, total int64 }

// entryFrom finds the first entry from a sequence number on; its seq is 0 if there is none.
func entryFrom(tx *sql.Tx, seq int64) (m mark, err error) {
	err = tx.QueryRow(`SELECT seq, at, total FROM journal WHERE seq >= ? ORDER BY seq LIMIT 1`, seq).Scan(&m.seq, &m.atMs, &m.total)
	if err == sql.ErrNoRows {
		err = nil
	}
	return m, err
}

// Cut finds up to which entry the journal is to be trimmed so that what stays was
// written at beforeMs or later and takes no more than bytes. The newest entry always
// stays. It reads a handful of entries, however many there are.
func (s *Store) Cut(beforeMs, bytes int64) (upTo int64, err error) {
	err = s.read(func(tx *sql.Tx) error {
		k, err := kept(tx)
		if err != nil || k.First == k.Last {
			return err
		}
		newest, err := entryFrom(tx, k.Last)
		if err != nil {
			return err
		}
		stays := sort.Search(int(k.Last-k.First), func(i int) bool {
			m, e := entryFrom(tx, k.First+int64(i))
			if e != nil {
				err = e
			}
			return m.atMs >= beforeMs && newest.total-m.total < bytes
		})
		upTo = k.First + int64(stays) - 1
		return err
	})
	return upTo, err
}

// Trim lets go of the journal's oldest entries: those up to a sequence number, at most
// limit of them at once. In one transaction what they made goes into the snapshot, closed
// actions among it as their Brief, and the entries are deleted. Slots, and so epochs, and
// open actions stay as they are in their tables. Once there is nothing to trim it gives
// space back to the file system, some pages at a time, as long as much of the file is free.
func (s *Store) Trim(upTo int64, limit int) (core.Trimmed, error) {
	var t core.Trimmed
	err := s.inTransaction(func(tx *sql.Tx) error {
		var d core.Delta
		atMs, err := oldest(tx, upTo, limit, &d, &t)
		switch {
		case err != nil:
			return err
		case t.Entries == 0:
			t.Freed, err = vacuum(tx)
			return err
		}
		if err := absorb(tx, &d); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE snapshot SET seq = ?, at = ?`, t.Seq, atMs); err != nil {
			return err
		}
		_, err = tx.Exec(`DELETE FROM journal WHERE seq <= ?`, t.Seq)
		return err
	})
	return t, err
}

// oldest gathers what the journal's oldest entries changed, and tells when the last of
// them was written.
func oldest(tx *sql.Tx, upTo int64, limit int, d *core.Delta, t *core.Trimmed) (atMs int64, err error) {
	rows, err := tx.Query(`SELECT seq, at, change FROM journal WHERE seq <= ? ORDER BY seq LIMIT ?`, upTo, limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for read := 0; read < trimBytes && rows.Next(); t.Entries++ {
		var change sql.RawBytes
		if err := rows.Scan(&t.Seq, &atMs, &change); err != nil {
			return 0, err
		}
		read += len(change)
		if change == nil {
			continue
		}
		var step core.Delta
		if err := json.Unmarshal(change, &step); err != nil {
			return 0, fmt.Errorf("journal entry %d: %w", t.Seq, err)
		}
		d.Merge(&step)
	}
	return atMs, rows.Err()
}

// absorb puts entities into the snapshot. Closed actions go into past, which is part of
// it, and leave their table; what is open as of these entries has its own form there still.
func absorb(tx *sql.Tx, d *core.Delta) error {
	var open []*core.Action
	for _, v := range d.Actions {
		if !v.Closed {
			open = append(open, v)
			continue
		}
		body, err := json.Marshal(v.Brief())
		if err != nil {
			return err
		}
		what := "action " + string(v.Action)
		if err := execOne(tx, what, `INSERT INTO past (id, binding, client, slot, lease, hash, bytes, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			v.Action, v.Binding, v.ID, v.Slot, v.Lease, v.BodyHash, v.Bytes, string(body)); err != nil {
			return err
		}
		if err := execOne(tx, what, `DELETE FROM actions WHERE id = ? AND closed = 1`, v.Action); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM snapshot_entities WHERE kind = 'action' AND id = ?`, v.Action); err != nil {
			return err
		}
	}
	return errors.Join(
		putAll(tx, "slot", d.Slots, func(v *core.Slot) string { return string(v.Name) }),
		putAll(tx, "binding", d.Bindings, func(v *core.Binding) string { return string(v.Name) }),
		putAll(tx, "delegation", d.Delegations, func(v *core.Delegation) string { return string(v.ID) }),
		putAll(tx, "lease", d.Leases, func(v *core.Lease) string { return string(v.ID) }),
		putAll(tx, "action", open, func(v *core.Action) string { return string(v.Action) }),
	)
}

func putAll[T any](tx *sql.Tx, kind string, all []*T, id func(*T) string) error {
	for _, v := range all {
		body, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := execOne(tx, kind+" "+id(v), `INSERT INTO snapshot_entities (kind, id, body) VALUES (?, ?, ?)
ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body`, kind, id(v), string(body)); err != nil {
			return err
		}
	}
	return nil
}

// execOne carries out a statement that must affect exactly one row.
func execOne(tx *sql.Tx, what, stmt string, args ...any) error {
	res, err := tx.Exec(stmt, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	n, err := res.RowsAffected()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case n != 1:
		return goesBack(what)
	}
	return nil
}

// vacuum gives free pages back to the file system, and tells how many, if more than a
// part of the database is free.
func vacuum(tx *sql.Tx) (int, error) {
	var pages, before, after int
	if err := tx.QueryRow("SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count)").
		Scan(&pages, &before); err != nil || before*sparePart <= pages {
		return 0, err
	}
	if _, err := tx.Exec(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages)); err != nil {
		return 0, err
	}
	err := tx.QueryRow("PRAGMA freelist_count").Scan(&after)
	return before - after, err
}

// Snapshot reads the state that the trimmed entries made, from the snapshot alone.
func (s *Store) Snapshot() (*core.State, error) {
	state := core.NewState()
	err := s.read(func(tx *sql.Tx) error {
		d := &core.Delta{}
		entitiesOf := func(kind string) string {
			return `SELECT body FROM snapshot_entities WHERE kind = '` + kind + `' ORDER BY id`
		}
		if err := errors.Join(
			bodies(tx, entitiesOf("slot"), &d.Slots),
			bodies(tx, entitiesOf("binding"), &d.Bindings),
			bodies(tx, entitiesOf("delegation"), &d.Delegations),
			bodies(tx, entitiesOf("lease"), &d.Leases),
			bodies(tx, entitiesOf("action"), &d.Actions),
		); err != nil {
			return err
		}
		state.Apply(d)
		if err := loadPast(tx, state); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT seq FROM snapshot`).Scan(&state.Seq)
	})
	return state, err
}
