package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// MaxSocketPath is the longest path of a unix socket, in bytes: sockaddr_un has
// 108, and one ends it.
const MaxSocketPath = 107

// probeWithin bounds the question whether a socket found is answered. A local
// connect is made or refused at once.
const probeWithin = time.Second

// CheckSocketPath refuses a path that the kernel would refuse or cut short.
func CheckSocketPath(path string) *core.Error {
	if !filepath.IsAbs(path) {
		return core.Refuse(core.CodeInvalid, fmt.Sprintf("socket path %q is not absolute", path),
			"give the full path")
	}
	if len(path) > MaxSocketPath {
		return core.Refuse(core.CodeLimit,
			fmt.Sprintf("socket path %s has %d bytes; a unix socket's may have %d", path, len(path), MaxSocketPath),
			"set XDG_RUNTIME_DIR to a shorter directory, or use a shorter slot name")
	}
	return nil
}

// Listen makes a unix socket of the given mode in a directory that only this
// user can enter, and makes the directory if there is none.
//
// A socket left by a process that has ended is replaced; one that is answered is
// refused with core.CodeConflict. The caller holds the lock that makes it the
// only one to listen there: between the question and the replacement nobody else
// may begin to.
func Listen(path string, mode os.FileMode) (*net.UnixListener, error) {
	if err := CheckSocketPath(path); err != nil {
		return nil, err
	}
	if err := OwnDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := clearStale(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// Until here the directory alone keeps others out.
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// OwnDir makes sure that path is a directory which only this user can enter. It
// is made, with missing parents, if there is none; a link, another user's
// directory or an open one is refused and left as it is.
func OwnDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// The directory is looked at through a descriptor, so that it cannot be
	// exchanged between the looks.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return unsafeDir(path, "is a link or not a directory")
	}
	if errors.Is(err, unix.EACCES) {
		return unsafeDir(path, "cannot be opened by this user")
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	switch perm := st.Mode & 0o777; {
	case int(st.Uid) != os.Geteuid():
		return unsafeDir(path, fmt.Sprintf("belongs to uid %d", st.Uid))
	case perm&0o077 != 0:
		return unsafeDir(path, fmt.Sprintf("has mode %04o, open to others", perm))
	}
	return nil
}

func unsafeDir(path, why string) error {
	return core.Refuse(core.CodeDenied, fmt.Sprintf("directory %s %s", path, why),
		"it must be a directory of this user with mode 0700; move it away, or chmod 700 it")
}

func clearStale(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket {
		return core.Refuse(core.CodeConflict, path+" is there and is not a socket", "move it away")
	}
	conn, err := net.DialTimeout("unix", path, probeWithin)
	if err == nil {
		conn.Close()
		return core.Refuse(core.CodeConflict, "another process answers on "+path,
			"stop the other daemon first, or use it")
	}
	// Only a refusal proves that nobody listens. A full backlog, for one, is a
	// sign of life.
	if !errors.Is(err, unix.ECONNREFUSED) {
		return core.Refuse(core.CodeConflict, fmt.Sprintf("cannot tell whether %s is in use: %v", path, err),
			"see which process has it open: ss -xlp")
	}
	return os.Remove(path)
}
