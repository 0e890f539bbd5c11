package store

import (
	"context"
	"database/sql"
	"errors"
	"os"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Damage is what makes the database corrupt, or nil. From then on nothing is written, as
// long as the store is open: what is read may be wrong, and a write could make it worse.
func (s *Store) Damage() *core.Error { return s.damage.Load() }

// Damaged is closed once there is some.
func (s *Store) Damaged() <-chan struct{} { return s.damaged }

// refusal turns an error of SQLite into a refusal, and remembers that of a corrupt database.
func (s *Store) refusal(err error) error {
	err = refusal(s.path, err)
	if e, ok := errors.AsType[*core.Error](err); ok && e.Detail["corrupt"] == true && s.damage.CompareAndSwap(nil, e) {
		close(s.damaged)
	}
	return err
}

// CheckLarge checks a database page by page that was too large for that when it was opened.
// It takes seconds, and keeps nobody waiting. Damage that it finds is remembered.
func (s *Store) CheckLarge(ctx context.Context) error {
	info, err := os.Stat(s.path)
	if err != nil || info.Size() <= quickCheckBytes {
		return err
	}
	db, err := sql.Open("sqlite", readerDSN(s.path))
	if err != nil {
		return err
	}
	defer db.Close()
	err = quickCheck(ctx, db, s.path)
	if ctx.Err() != nil {
		return nil
	}
	return s.refusal(err)
}

func quickCheck(ctx context.Context, db *sql.DB, path string) error {
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return corrupt(path, verdict)
	}
	return nil
}
