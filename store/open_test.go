package store

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"sessiondock.dev/sessiondock/daemon/core"
)

// crashed copies an open store's files, as a crash would leave them: with a log
// that is not yet merged into the database.
func crashed(t *testing.T, s *Store) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "crashed.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(s.Path() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// cutShort makes a database in which the statements were committed and another program
// was then stopped in the middle of a change, with its rollback journal left.
func cutShort(t *testing.T, committed ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "whole.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(DELETE)&_pragma=cache_size(5)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, stmt := range append(committed, "BEGIN", "CREATE TABLE half (x TEXT)", "INSERT INTO half VALUES (hex(zeroblob(100000)))") {
		if _, err := db.Exec(stmt); err != nil {
			t.Fatal(err)
		}
	}
	cut := filepath.Join(t.TempDir(), "cut.db")
	for _, suffix := range []string{"", "-journal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil || len(data) == 0 {
			t.Fatalf("%v: %d bytes of %q", err, len(data), suffix)
		}
		if err := os.WriteFile(cut+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cut
}

// TestNewDatabaseThatWasCutShortIsMadeAgain: a kill while the very first database is made
// must not keep every later daemon from starting.
func TestNewDatabaseThatWasCutShortIsMadeAgain(t *testing.T) {
	onePage := []string{"PRAGMA auto_vacuum = 2", "PRAGMA user_version = 0"}
	for name, prepare := range map[string]func(*testing.T) string{
		"the first change":  func(t *testing.T) string { return cutShort(t) },
		"the second change": func(t *testing.T) string { return cutShort(t, onePage...) },
		"a journal that was not written yet": func(t *testing.T) string {
			path := cutShort(t, onePage...)
			if err := os.Truncate(path, 4096); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+"-journal", bytes.Repeat([]byte("noise "), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, prepare(t))
			if got := load(t, s); got.Seq != 0 || len(got.Slots) != 0 {
				t.Fatal(text(got))
			}
			commit(t, s, step(1, &core.Delta{Slots: []*core.Slot{testSlot("work", 5)}}))
		})
	}
}

// contents are the hashes of the database and its logs.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, suffix := range []string{"", "-wal", "-journal"} {
		data, err := os.ReadFile(path + suffix)
		switch {
		case os.IsNotExist(err):
			data = nil // as good as an empty log
		case err != nil:
			t.Fatal(err)
		}
		out[suffix] = fmt.Sprintf("%d bytes, %x", len(data), sha256.Sum256(data))
	}
	return out
}

func TestLogOfACrashIsRecovered(t *testing.T) {
	s := world(t)
	path := crashed(t, s)
	if diff := cmp.Diff(text(load(t, s)), text(load(t, open(t, path)))); diff != "" {
		t.Fatal(diff)
	}
}

// TestRefusedDatabaseIsLeftAsItIs: nothing that this daemon cannot serve is
// recovered, migrated, checkpointed or repaired by it.
func TestRefusedDatabaseIsLeftAsItIs(t *testing.T) {
	sqlCase := func(stmts ...string) func(*testing.T) string {
		return func(t *testing.T) string {
			s := world(t)
			for _, stmt := range stmts {
				if _, err := s.writer.Exec(stmt); err != nil {
					t.Fatal(err)
				}
			}
			return crashed(t, s)
		}
	}
	// damaged is a whole database, closed, and then written over.
	damaged := func(damage func(data []byte) []byte) func(*testing.T) string {
		return func(t *testing.T) string {
			s := world(t)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(s.Path())
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "damaged.db")
			if err := os.WriteFile(path, damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	for name, c := range map[string]struct {
		prepare func(*testing.T) string
		code    core.Code
		text    string
	}{
		"newer": {sqlCase("PRAGMA user_version = 99"), core.CodeVersionSkew, "has version 99"},
		"another program's": {
			sqlCase("PRAGMA application_id = 7"), core.CodeConflict, "another program"},
		"another program's, without numbers": {
			sqlCase("PRAGMA application_id = 0", "PRAGMA user_version = 0"), core.CodeConflict, "another program"},
		"another program's, in mid-change": {func(t *testing.T) string {
			return cutShort(t, "CREATE TABLE theirs (x TEXT)", "INSERT INTO theirs VALUES ('kept')")
		}, core.CodeUnavailable, "cannot be used"},
		"not a database": {damaged(func([]byte) []byte {
			return []byte(strings.Repeat("not a database, but long enough to have a header\n", 100))
		}), core.CodeUnavailable, "corrupt"},
		"truncated": {damaged(func(data []byte) []byte { return data[:len(data)/2] }), core.CodeUnavailable, "corrupt"},
		"page of noise": {damaged(func(data []byte) []byte {
			for i := 4096; i < 2*4096; i++ {
				data[i] = byte(i * 131)
			}
			return data
		}), core.CodeUnavailable, "corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.prepare(t)
			before := contents(t, path)
			for range 2 {
				_, err := Open(path)
				wantCode(t, err, c.code, c.text)
			}
			if diff := cmp.Diff(before, contents(t, path)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestUnusablePathsAreRefused(t *testing.T) {
	file := tempFile(t).Name()
	_, err := Open(filepath.Join(file, "sessiondock.db"))
	wantCode(t, err, core.CodeUnavailable, "directory")
	_, err = Open(t.TempDir())
	wantCode(t, err, core.CodeUnavailable, "cannot be opened")
	missing := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nowhere", missing); err != nil {
		t.Fatal(err)
	}
	_, err = Open(missing)
	wantCode(t, err, core.CodeUnavailable, "cannot be read")
}

func TestLooseModeIsTightened(t *testing.T) {
	s := world(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.Path(), 0o644); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.Path())
	if info, err := os.Stat(s.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
}

func TestMigrationIsAllOrNothing(t *testing.T) {
	s := world(t)
	next := migration{len(migrations) + 1, "bad", "CREATE TABLE half (x TEXT) STRICT; INSERT INTO nowhere VALUES (1);"}
	if err := migrate(s.writer, len(migrations), []migration{next}); err == nil {
		t.Fatal("a migration that fails was taken for good")
	}
	var half, version int
	if err := s.writer.QueryRow(`SELECT (SELECT count(*) FROM sqlite_schema WHERE name = 'half'),
		(SELECT user_version FROM pragma_user_version)`).Scan(&half, &version); err != nil {
		t.Fatal(err)
	}
	if half != 0 || version != len(migrations) {
		t.Fatalf("half of it is there: %d tables, version %d", half, version)
	}
	next.sql = "CREATE TABLE whole (x TEXT) STRICT; INSERT INTO whole VALUES ('kept');"
	for range 2 { // the second time it is not applied again
		if err := s.writer.QueryRow("SELECT user_version FROM pragma_user_version").Scan(&version); err != nil {
			t.Fatal(err)
		}
		if err := migrate(s.writer, version, append(migrations[:len(migrations):len(migrations)], next)); err != nil {
			t.Fatal(err)
		}
	}
	load(t, s)
}

// TestFirstVersionIsMigrated: a database of the first version is brought to this one
// with all that it holds, and can be trimmed then.
func TestFirstVersionIsMigrated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	old, err := sql.Open("sqlite", dsn(path, url.Values{"_pragma": {"journal_mode(WAL)"}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate(old, 0, migrations[:1]); err != nil {
		t.Fatal(err)
	}
	first := step(1, &core.Delta{Slots: []*core.Slot{testSlot("work", 5)}})
	body, err := json.Marshal(first.Slots[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, stmt := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO slots VALUES ('work', 0, 5, 105, 'none', '', 3, ?)`, []any{string(body)}},
		{`INSERT INTO journal VALUES (1, 1000, 'made', 'work', 5, '', '', 'human:cli', 'why', ?)`, []any{string(first.Journal[0].Change)}},
		{`INSERT INTO journal VALUES (2, 2000, 'seen', 'work', 5, '', '', 'system', 'because', NULL)`, nil},
	} {
		if _, err := old.Exec(stmt.text, stmt.args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}

	s := open(t, path)
	want := core.NewState()
	want.Apply(first)
	want.Seq = 2
	if diff := cmp.Diff(text(want), text(load(t, s))); diff != "" {
		t.Fatal(diff)
	}
	var vacuum int
	if err := s.writer.QueryRow("PRAGMA auto_vacuum").Scan(&vacuum); err != nil || vacuum != incrementalVacuum {
		t.Fatalf("auto_vacuum %d, %v", vacuum, err)
	}
	if k, err := s.Kept(); err != nil || k != (core.Kept{First: 1, Last: 2, OldestMs: 1000, Bytes: entryOverhead + int64(len("because"))}) {
		t.Fatalf("kept %+v, %v", k, err)
	}
	if got, err := s.Trim(1, 10); err != nil || got.Entries != 1 {
		t.Fatalf("trimmed %+v, %v", got, err)
	}
	state, err := s.Snapshot()
	if err != nil || state.Slots["work"].Epoch != 5 || state.Seq != 1 {
		t.Fatalf("%+v, %v", state, err)
	}
}

func TestMigrationsAreNumberedWithoutGaps(t *testing.T) {
	for _, names := range [][]string{
		{"0002_x.sql"}, {"0001_x.sql", "0003_y.sql"}, {"0001_x.sql", "0001_y.sql"}, {"1_x.sql"}, {"0001.sql"}, {"x_y.sql"},
	} {
		fsys := fstest.MapFS{}
		for _, n := range names {
			fsys["migrations/"+n] = &fstest.MapFile{Data: []byte("SELECT 1;")}
		}
		if m, err := readMigrations(fsys); err == nil {
			t.Errorf("%v were read as %v", names, m)
		}
	}
}

// TestTablesAreStrict: in a table that is not, TEXT could become an epoch.
func TestTablesAreStrict(t *testing.T) {
	s := world(t)
	var loose sql.NullString
	if err := s.writer.QueryRow(`SELECT group_concat(name) FROM pragma_table_list
		WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' AND NOT strict`).Scan(&loose); err != nil {
		t.Fatal(err)
	}
	if loose.String != "" {
		t.Fatalf("not STRICT: %s", loose.String)
	}
}
