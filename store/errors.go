package store

import (
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"sessiondock.dev/sessiondock/daemon/core"
)

// ErrUncertain marks the error of a COMMIT. Whether the delta was written is not
// known: it may be there after Reopen, or not. The refusal that it wraps says what
// SQLite answered.
var ErrUncertain = errors.New("whether the commit was written is not known")

// ErrMustReopen answers everything after ErrUncertain, or after the connection was
// lost, until Reopen. Nothing was done.
var ErrMustReopen = errors.New("the store must be reopened before it is used again")

// uncertain is what Commit returns for a failed COMMIT.
type uncertain struct{ cause error }

func (e *uncertain) Error() string        { return ErrUncertain.Error() + ": " + e.cause.Error() }
func (e *uncertain) Is(target error) bool { return target == ErrUncertain }
func (e *uncertain) Unwrap() error        { return e.cause }

// Uncertain lets a caller that does not import this package tell the case apart.
func (e *uncertain) Uncertain() bool { return true }

// primary is SQLite's result code of an error without its extension, or 0.
func primary(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// refusal turns an error of SQLite into one that a person can act on. It keeps a
// refusal that it is given.
func refusal(path string, err error) error {
	var e *core.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	switch primary(err) {
	case sqlite3.SQLITE_FULL:
		return unavailable("the disk of the database is full", path, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return corrupt(path, err.Error())
	case sqlite3.SQLITE_CONSTRAINT:
		r := core.Refuse(core.CodeInternal, fmt.Sprintf("the database refused a change: %v", err),
			"this is a fault of the daemon; its log and the journal show what it was about to do")
		return r.With("path", path)
	default:
		return unavailable("the database cannot be used", path, err)
	}
}

func unavailable(what, path string, err error) error {
	return core.Refuse(core.CodeUnavailable, fmt.Sprintf("%s: %v", what, err),
		"check the space, the permissions and the health of the file system").With("path", path)
}

func corrupt(path, what string) error {
	what = strings.Join(strings.Fields(what), " ") // a verdict of SQLite's has several lines
	return core.Refuse(core.CodeUnavailable, fmt.Sprintf("the database %s is corrupt: %s", path, what),
		"it was left as it is. Stop the daemon, move it aside together with its -wal and -shm files, and put a backup there; "+
			"each slot whose browser knows a higher epoch must then be adopted by a person").With("path", path).With("corrupt", true)
}
