package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// dialTimeout bounds the connection to a socket: the kernel answers at once
// unless the daemon's backlog is full.
const dialTimeout = 5 * time.Second

// dial connects to a daemon's socket and refuses a peer of another user: whoever
// squats on the path must not be given a capability.
func dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	conn := c.(*net.UnixConn)
	cred, err := peerCred(conn)
	if err == nil && int(cred.Uid) != os.Getuid() {
		err = core.Refuse(core.CodeDenied, fmt.Sprintf("%s is served by user %d, not by you", socket, cred.Uid),
			"stop that process or set XDG_RUNTIME_DIR to your own directory")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func peerCred(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	ctlErr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return cred, errors.Join(ctlErr, err)
}

// Process is the process that listens at a socket, held by a pidfd: it cannot be
// mistaken for a later one with the same number.
type Process struct {
	PID int
	fd  int
}

// PeerProcess returns the process that listens at the socket, by the credentials
// of a connection to it. Close it.
func PeerProcess(ctx context.Context, socket string) (*Process, error) {
	conn, err := dial(ctx, socket)
	if err != nil {
		return nil, unreachable(socket, err)
	}
	defer conn.Close()
	cred, err := peerCred(conn)
	if err != nil {
		return nil, core.Refuse(core.CodeInternal, "no credentials of the daemon's socket: "+err.Error(), "")
	}
	fd, err := peerPidfd(conn, int(cred.Pid))
	if err != nil {
		return nil, core.Refuse(core.CodeUnavailable,
			fmt.Sprintf("no handle of the daemon's process %d: %v", cred.Pid, err), "it may just have ended; ask again")
	}
	return &Process{PID: int(cred.Pid), fd: fd}, nil
}

// peerPidfd asks the socket itself where the kernel can (from 6.5); else it opens
// the number that the credentials name, while the connection shows it alive.
func peerPidfd(conn *net.UnixConn, pid int) (fd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	ctlErr := raw.Control(func(s uintptr) {
		if fd, err = unix.GetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			return
		}
		fd, err = unix.PidfdOpen(pid, 0)
	})
	return fd, errors.Join(ctlErr, err)
}

// Close gives the handle up; the process goes on.
func (p *Process) Close() error { return unix.Close(p.fd) }

// Terminate asks the process to end (SIGTERM).
func (p *Process) Terminate() error {
	return unix.PidfdSendSignal(p.fd, unix.SIGTERM, nil, 0)
}

// WaitGone returns nil once the process has ended, or core.CodeDeadline.
func (p *Process) WaitGone(within time.Duration) error {
	deadline := time.Now().Add(within)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return core.Refuse(core.CodeDeadline, fmt.Sprintf("process %d has not ended within %s", p.PID, within),
				"it may still end; look at its log")
		}
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(left.Milliseconds())+1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return core.Refuse(core.CodeInternal, "waiting for the daemon's end: "+err.Error(), "")
		case n > 0:
			return nil
		}
	}
}
