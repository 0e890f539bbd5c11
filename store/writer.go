package store

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// writer is the one connection that writes, with its statements. It speaks to the
// driver itself: what package sql does for pools, for calls that are called off and for
// values of every type costs about as much as the rows do.
type writer struct {
	conn                                            driver.Conn
	begin, commit, rollback, checkpoint             statement
	slot, binding, delegation, lease, action, entry statement
	changed                                         statement // of an action that is there
	all                                             []statement
	named                                           []driver.NamedValue // of one run, used again
}

// statement is a prepared one that takes values as they are.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
}

func newWriter(conn driver.Conn) (*writer, error) {
	w := &writer{conn: conn}
	for _, p := range []struct {
		to   *statement
		text string
	}{
		{&w.begin, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.rollback, "ROLLBACK"},
		{&w.checkpoint, "PRAGMA wal_checkpoint(PASSIVE)"},
		{&w.slot, upsertSlot},
		{&w.binding, upsertBinding},
		{&w.delegation, upsertDelegation},
		{&w.lease, upsertLease},
		{&w.action, upsertAction},
		{&w.changed, updateAction},
		{&w.entry, insertEntry},
	} {
		stmt, err := conn.Prepare(p.text)
		if err != nil {
			w.finalize()
			return nil, err
		}
		*p.to = stmt.(statement) // the driver's only kind
		w.all = append(w.all, *p.to)
	}
	return w, nil
}

// finalize ends the statements. Closing a connection that still has some does not
// close it.
func (w *writer) finalize() {
	for _, s := range w.all {
		s.Close() // what it says, the last execution has said before
	}
}

// run carries out a statement. It has no deadline: a write is never called off.
func (w *writer) run(s statement, args ...driver.Value) (rows int64, err error) {
	w.named = w.named[:0]
	for i, v := range args {
		w.named = append(w.named, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	res, err := s.ExecContext(context.Background(), w.named)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// change updates an action's row, if it is there and may become this one.
func (w *writer) change(v row) (rows int64, err error) {
	var args [len(ofUpdate)]driver.Value
	for i, from := range ofUpdate {
		args[i] = v.args[from]
	}
	return w.run(w.changed, args[:]...)
}

func (w *writer) write(r *rows) error {
	for _, group := range []struct {
		stmt statement
		rows []row
	}{
		{w.slot, r.slots},
		{w.binding, r.bindings},
		{w.delegation, r.delegations},
		{w.lease, r.over},
		{w.lease, r.leases},
		{w.action, r.actions},
		{w.entry, r.journal},
	} {
		for _, v := range group.rows {
			var n int64
			var err error
			if v.old {
				n, err = w.change(v)
			}
			if n == 0 && err == nil {
				n, err = w.run(group.stmt, v.args...) // which also says why not
			}
			switch {
			case err != nil:
				return fmt.Errorf("%s: %w", v, err)
			case n != 1:
				return goesBack(v.String())
			}
		}
	}
	return nil
}
