package store

import (
	"database/sql"

	"sessiondock.dev/sessiondock/daemon/core"
)

// MaxActions is the most that Actions returns at once.
const MaxActions = 1000

// Action reads one action as it was last written, or nil if there is none.
func (s *Store) Action(id core.ActionID) (*core.Action, error) {
	var out []*core.Action
	err := s.read(func(tx *sql.Tx) error {
		return bodies(tx, `SELECT body FROM actions WHERE id = ?`, &out, id)
	})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return out[0], nil
}

// Actions reads a slot's newest actions, or the newest before one: at most limit of
// them and never more than MaxActions, oldest first.
func (s *Store) Actions(slot core.SlotName, before core.ActionID, limit int) ([]*core.Action, error) {
	var out []*core.Action
	err := s.read(func(tx *sql.Tx) error {
		return bodies(tx, `SELECT body FROM (
  SELECT id, body FROM actions WHERE slot = ? AND (? = '' OR id < ?) ORDER BY id DESC LIMIT ?
) ORDER BY id`, &out, slot, before, before, min(max(limit, 0), MaxActions))
	})
	return out, err
}
