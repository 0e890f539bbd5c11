package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"sessiondock.dev/sessiondock/daemon/core"
)

// quickCheckBytes is up to what size a database is checked page by page when it is
// opened: about a tenth of a second. A larger one is checked by CheckLarge while it is
// served; until then its damage is found when it is read, and Load reads every table but
// the journal.
const quickCheckBytes = 16 << 20

// autoCheckpointPages is how long the log grows before a commit has to wait until it is
// copied into the database. That is the writer's to do before, when it is idle: Checkpoint.
const autoCheckpointPages = 4000

// Pragmas stand in the DSN, so that every connection of a pool has them.
func writerDSN(path string) string {
	q := url.Values{"_txlock": {"immediate"}}
	q["_pragma"] = []string{
		"busy_timeout(5000)",
		fmt.Sprintf("auto_vacuum(%d)", incrementalVacuum), // heeded while the database is empty
		"journal_mode(WAL)",
		fmt.Sprintf("synchronous(%d)", synchronous),
		"foreign_keys(1)",       // off unless asked for, on each connection
		"recursive_triggers(1)", // else REPLACE deletes without asking the triggers
		fmt.Sprintf("wal_autocheckpoint(%d)", autoCheckpointPages),
		"journal_size_limit(33554432)", // twice that of a full log: one that a slow reader made grow shrinks again
	}
	return dsn(path, q)
}

func readerDSN(path string) string {
	return dsn(path, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)", "query_only(1)"}})
}

func dsn(path string, q url.Values) string {
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

// resolve makes the directory (0700) if it is missing, and returns the database's
// real path: two names of one file must meet at one lock.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := makeDir(filepath.Dir(abs)); err != nil {
		return "", unavailable("the directory of the database cannot be made", abs, err)
	}
	if _, err := os.Lstat(abs); errors.Is(err, fs.ErrNotExist) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
		if err != nil {
			return "", unavailable("the directory of the database cannot be read", abs, err)
		}
		return filepath.Join(dir, filepath.Base(abs)), nil
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", unavailable("the database cannot be read", abs, err)
	}
	return real, nil
}

// makeDir makes a directory and those above it that are missing. Each is synced into the
// one above: SQLite syncs the directory of its own files only, and a database whose
// directory is lost with the power is lost with it.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: dir, Err: unix.ENOTDIR}
		}
		return err
	}
	if err != nil {
		return err
	}
	above, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer above.Close()
	return above.Sync()
}

// createFile makes the database's file before SQLite does, because SQLite takes
// the mode of its other files from it. It is called under the lock and before the
// first connection: closing the file later would drop SQLite's own locks.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return unavailable("the database cannot be opened", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return unavailable("the database cannot be read", path, err)
	case !info.Mode().IsRegular():
		return core.Refuse(core.CodeInvalid, path+" is not a file", "name the database's file")
	case info.Mode().Perm()&0o077 != 0:
		// It holds hashes of capabilities and what agents did.
		if err := f.Chmod(0o600); err != nil {
			return unavailable("the database's mode cannot be set", path, err)
		}
	}
	return nil
}

// inspect looks at a database without being able to write to it, and returns its
// version: 0 is an empty one. Whatever this daemon cannot serve is refused here,
// before a connection exists that would recover, migrate or checkpoint it.
func inspect(path string) (version int, err error) {
	db, err := sql.Open("sqlite", readerDSN(path))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)

	var tables, application int
	if err := db.QueryRow(`SELECT (SELECT count(*) FROM sqlite_schema), (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version)`).Scan(&tables, &application, &version); err != nil {
		return 0, err
	}
	switch {
	case version == 0 && tables == 0:
		return 0, nil
	case application != applicationID:
		return 0, core.Refuse(core.CodeConflict, path+" is a database of another program",
			"name another file; this one was left as it is").With("path", path)
	case version > len(migrations):
		return 0, core.Refuse(core.CodeVersionSkew,
			fmt.Sprintf("the database %s has version %d; this daemon knows up to %d", path, version, len(migrations)),
			"start the newer daemon that wrote it; it was left as it is").With("path", path)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > quickCheckBytes {
		return version, err
	}
	if err := quickCheck(context.Background(), db, path); err != nil {
		return 0, err
	}
	return version, nil
}

// begun says whether inspect failed because the making of a new database was cut short:
// until it is in WAL mode, SQLite keeps a rollback journal, and one that is left has to be
// played back by a writer. Before, the database was empty, or had the one page in which
// there is no table yet: playing it back takes nothing from anybody.
func begun(path string, err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) || e.Code() != sqlite3.SQLITE_READONLY_ROLLBACK {
		return false
	}
	journal, err := os.Open(path + "-journal")
	if err != nil {
		return false
	}
	defer journal.Close()
	// The magic, the number of records, a nonce, and the database's size before, in pages.
	var head [20]byte
	_, err = io.ReadFull(journal, head[:])
	if err == nil && string(head[:8]) == "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" {
		return binary.BigEndian.Uint32(head[16:]) <= 1
	}
	// The journal was not written yet, and so not the database either: it is as it was.
	info, err := os.Stat(path)
	return err == nil && info.Size() <= pageBytes
}

// pageBytes is the size of SQLite's pages, unless a database says otherwise.
const pageBytes = 4096

// playBack lets SQLite undo what was begun.
func playBack(path string) error {
	db, err := sql.Open("sqlite", dsn(path, nil))
	if err != nil {
		return err
	}
	defer db.Close()
	var tables int
	return db.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables)
}

// connect opens the writer's connection and the readers' pool.
func connect(path string) (writer, reader *sql.DB, err error) {
	version, err := inspect(path)
	if begun(path, err) {
		if err := playBack(path); err != nil {
			return nil, nil, err
		}
		version, err = inspect(path)
	}
	if err != nil {
		return nil, nil, err
	}
	writer, err = sql.Open("sqlite", writerDSN(path))
	if err != nil {
		return nil, nil, err
	}
	// One connection is the one writer, and keeps its prepared statements.
	writer.SetMaxOpenConns(1)
	writer.SetMaxIdleConns(1)
	if err := setUp(path, writer, version); err != nil {
		writer.Close()
		return nil, nil, err
	}
	reader, err = sql.Open("sqlite", readerDSN(path))
	if err != nil {
		writer.Close()
		return nil, nil, err
	}
	reader.SetMaxOpenConns(maxReaders)
	reader.SetMaxIdleConns(1)
	return writer, reader, nil
}

func setUp(path string, writer *sql.DB, version int) error {
	var mode string
	var sync int
	if err := writer.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if err := writer.QueryRow("PRAGMA synchronous").Scan(&sync); err != nil {
		return err
	}
	if mode != "wal" || sync != synchronous {
		return core.Refuse(core.CodeUnavailable,
			fmt.Sprintf("the database %s cannot be made durable: journal_mode %s, synchronous %d", path, mode, sync),
			"put it on a local file system").With("path", path)
	}
	if err := migrate(writer, version, migrations); err != nil {
		return err
	}
	makeShrinkable(writer)
	return nil
}

// makeShrinkable turns incremental vacuum on in a database that was made without it,
// which takes writing it anew, once. Where that cannot be done now, for want of space
// perhaps, the database is served as it is, and its free pages are used again.
func makeShrinkable(writer *sql.DB) {
	var mode int
	if err := writer.QueryRow("PRAGMA auto_vacuum").Scan(&mode); err != nil || mode == incrementalVacuum {
		return
	}
	_, _ = writer.Exec(fmt.Sprintf("PRAGMA auto_vacuum = %d; VACUUM", incrementalVacuum))
}

// incrementalVacuum is SQLite's number of the mode in which free pages stay in the file
// until PRAGMA incremental_vacuum gives some of them back.
const incrementalVacuum = 2

// chooseSyscalls switches SQLite, before its first file is opened, to locks that a
// stray close elsewhere in the process cannot drop, and to fdatasync, which does
// not wait for the file's timestamps. Where the platform has neither, SQLite's
// defaults are correct too.
func chooseSyscalls() {
	_, _ = sqlite.OFDLocking(true)
	_, _ = sqlite.Fdatasync(true)
}
