package peer

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// The values of Cred.Strength.
const (
	// StrengthPidfd: the kernel handed over a descriptor of the process that
	// connected (SO_PEERPIDFD, Linux 6.5).
	StrengthPidfd = "pidfd"
	// StrengthRecheck: the descriptor was opened by PID after the connection; the
	// start time was looked at before and after. A process that ended and whose
	// PID was used again before the first look is not noticed.
	StrengthRecheck = "recheck"
)

// Cred is the process that connected. Close it when the connection ends.
type Cred struct {
	UID, PID  int
	StartTime uint64 // clock ticks since boot
	PidFD     int    // readable once the process has ended
	Strength  string // StrengthPidfd or StrengthRecheck
}

// Close closes the descriptor of the process.
func (c Cred) Close() error { return unix.Close(c.PidFD) }

// Alive says whether the process that connected still runs. While it does, its
// PID is its own.
func (c Cred) Alive() bool { return alive(c.PidFD) }

// FromConn asks the kernel who is at the other end. On a connection that was
// dialled it names the process that listened.
func FromConn(conn *net.UnixConn) (Cred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Cred{}, err
	}
	var c Cred
	var inner error
	if err := raw.Control(func(fd uintptr) { c, inner = fromFD(int(fd), unix.GetsockoptInt) }); err != nil {
		return Cred{}, err
	}
	return c, inner
}

// fromFD takes getsockopt as an argument so that the way of older kernels can be
// tested on a newer one.
func fromFD(fd int, getsockopt func(fd, level, opt int) (int, error)) (Cred, error) {
	u, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Cred{}, fmt.Errorf("SO_PEERCRED: %w", err)
	}
	if u.Pid <= 0 {
		return Cred{}, errors.New("peer: the process at the other end is of another PID namespace")
	}
	c := Cred{UID: int(u.Uid), PID: int(u.Pid), PidFD: -1}
	switch pidfd, err := getsockopt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD); {
	case err == nil:
		c.PidFD, c.Strength = pidfd, StrengthPidfd
		unix.CloseOnExec(pidfd)
	case errors.Is(err, unix.ENOPROTOOPT):
		c.Strength = StrengthRecheck
	default: // the peer has ended and left nothing to refer to
		return Cred{}, fmt.Errorf("pid %d: %w (%v)", c.PID, ErrGone, err)
	}
	if err := c.complete(); err != nil {
		if c.PidFD >= 0 {
			unix.Close(c.PidFD)
		}
		return Cred{}, err
	}
	return c, nil
}

func (c *Cred) complete() error {
	first, err := Read(c.PID)
	if err != nil {
		return err
	}
	if c.PidFD < 0 {
		if c.PidFD, err = unix.PidfdOpen(c.PID, 0); err != nil {
			return fmt.Errorf("pid %d: %w", c.PID, err)
		}
		second, err := Read(c.PID)
		if err != nil {
			return err
		}
		if !second.Same(first) {
			return fmt.Errorf("pid %d was used again: %w", c.PID, ErrGone)
		}
	}
	// As long as the descriptor's process runs, what was read under its PID was
	// read of it.
	if !alive(c.PidFD) {
		return fmt.Errorf("pid %d: %w", c.PID, ErrGone)
	}
	c.StartTime = first.StartTime
	return nil
}

func alive(pidfd int) bool {
	p := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n == 0
	}
}

// SameUID refuses a peer of another user.
func SameUID(c Cred) *core.Error {
	if c.UID == os.Geteuid() {
		return nil
	}
	return core.Refuse(core.CodeDenied, fmt.Sprintf("a process of uid %d may not connect here", c.UID),
		"connect as the user who runs sessiondockd")
}
