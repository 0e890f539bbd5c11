package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// applicationID marks a database as ours; the first migration writes it.
const applicationID = 1396985699

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration brings a database from version number-1 to number. There is no way
// back: an older daemon refuses the newer database instead of guessing.
type migration struct {
	number int
	name   string
	sql    string
}

var migrations = must(readMigrations(migrationFiles))

// readMigrations refuses a gap or a double number, which would leave two
// databases of one version with different schemas.
func readMigrations(fsys fs.FS) ([]migration, error) {
	names, err := fs.Glob(fsys, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var out []migration
	for _, path := range names {
		name := strings.TrimPrefix(path, "migrations/")
		digits, _, ok := strings.Cut(name, "_")
		number, err := strconv.Atoi(digits)
		if !ok || err != nil || len(digits) != 4 || number != len(out)+1 {
			return nil, fmt.Errorf("migration %s: want the name %04d_name.sql", name, len(out)+1)
		}
		text, err := fs.ReadFile(fsys, path)
		if err != nil {
			return nil, err
		}
		out = append(out, migration{number, name, string(text)})
	}
	return out, nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// migrate applies the steps above version, each with its number in one transaction.
func migrate(db *sql.DB, version int, steps []migration) error {
	for _, m := range steps {
		if m.number <= version {
			continue
		}
		if err := apply(db, m); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
	}
	return nil
}

func apply(db *sql.DB, m migration) error {
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // of no effect after Commit
	if _, err := tx.Exec(m.sql); err != nil {
		return err
	}
	if _, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", m.number)); err != nil {
		return err
	}
	return tx.Commit()
}
