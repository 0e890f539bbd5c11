package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// lock takes the lock file beside the database and writes the process's number
// into it. The lock is the kernel's: it ends with the process, however that ends,
// and the file's presence alone means nothing. The file is never removed, since
// that would let two processes lock two files of one name.
func lock(database string) (*os.File, error) {
	path := database + ".lock"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, unavailable("the lock file cannot be opened", path, err)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		defer f.Close()
		return nil, taken(f, database)
	case err != nil:
		f.Close()
		return nil, unavailable("the lock file cannot be locked", path, err)
	}
	if err := writePID(f); err != nil {
		f.Close()
		return nil, unavailable("the lock file cannot be written", path, err)
	}
	return f, nil
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

// taken names the holder of the lock, as far as the file says.
func taken(f *os.File, database string) error {
	who := "another process"
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		who = "process " + pid
	}
	return core.Refuse(core.CodeConflict,
		fmt.Sprintf("%s already serves the database %s", who, database),
		"use the daemon that is running, or stop it first").With("path", database).With("holder", who)
}
