package store

import (
	"cmp"
	"database/sql"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
)

// MaxActions is the most that Actions returns at once.
const MaxActions = 1000

// Action reads one action, or returns nil if there is none.
func (s *Store) Action(id core.ActionID) (*core.Action, error) {
	var out []*core.Action
	err := s.read(func(tx *sql.Tx) (err error) {
		out, err = actions(tx, 1, "id = ?", id)
		return err
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
	err := s.read(func(tx *sql.Tx) (err error) {
		out, err = actions(tx, min(max(limit, 0), MaxActions), "slot = ? AND (? = '' OR id < ?)", slot, before, before)
		return err
	})
	return out, err
}

// actions reads the newest actions that a condition picks, whether the journal has their
// entries still or not, oldest first.
func actions(tx *sql.Tx, limit int, where string, args ...any) ([]*core.Action, error) {
	where += " ORDER BY id DESC LIMIT ?"
	args = append(args, limit)
	var out []*core.Action
	if err := bodies(tx, `SELECT body FROM actions WHERE `+where, &out, args...); err != nil {
		return nil, err
	}
	err := eachPast(tx, selectPast+` WHERE `+where, func(id core.ActionID, p *core.Past, brief []byte) error {
		var leases []*core.Lease
		if err := bodies(tx, `SELECT body FROM leases WHERE id = ?`, &leases, p.Lease); err != nil {
			return err
		}
		a, err := pastAction(id, p, leases[0], brief)
		out = append(out, a)
		return err
	}, args...)
	slices.SortFunc(out, func(a, b *core.Action) int { return cmp.Compare(a.Action, b.Action) })
	return out[max(0, len(out)-limit):], err
}
