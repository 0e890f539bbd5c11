package stream

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipeSize is the most that the kernel gives an ordinary user's pipe. A pipe holds
// 64 KiB unless it is asked for more: a picture of 20 MB would take 320 changes of
// process.
const pipeSize = 1 << 20

// Open returns a descriptor that this process was started with. Pipes and sockets
// become a Stream; our end of a pipe is ours alone, so nobody else is surprised by its
// not blocking. Anything else is read and written as it comes.
func Open(fd int, name string) io.ReadWriter {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewFile(uintptr(fd), name)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize) // where more is not allowed, it does
	case unix.S_IFSOCK:
	default:
		return os.NewFile(uintptr(fd), name)
	}
	if unix.SetNonblock(fd, true) != nil {
		return os.NewFile(uintptr(fd), name)
	}
	f := os.NewFile(uintptr(fd), name)
	if s, err := New(f); err == nil {
		return s
	}
	return f
}

// Stream reads and writes a descriptor that does not block. It waits in the runtime's
// poller, and makes its calls of the kernel without telling the scheduler: the usual
// way wakes the scheduler's watchdog thread at each call, in case it blocks, and on a
// link of small messages that costs more than the messages.
type Stream struct{ c syscall.RawConn }

// New returns a Stream of a file or connection that does not block.
func New(c syscall.Conn) (*Stream, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Stream{raw}, nil
}

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var n int
	var errno syscall.Errno
	err := s.c.Read(func(fd uintptr) bool {
		n, errno = again(read, fd, p)
		return errno != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, os.NewSyscallError("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// TryWrite writes as much as there is room for now, and does not wait for more.
func (s *Stream) TryWrite(p []byte) (int, error) {
	var n int
	var errno syscall.Errno
	err := s.c.Write(func(fd uintptr) bool {
		if n, errno = again(write, fd, p); errno == unix.EAGAIN {
			n, errno = 0, 0
		}
		return true
	})
	if err == nil && errno != 0 {
		err = os.NewSyscallError("write", errno)
	}
	return n, err
}

// Write implements io.Writer. A deadline for writing on the connection holds.
func (s *Stream) Write(p []byte) (int, error) {
	var done int
	var errno syscall.Errno
	err := s.c.Write(func(fd uintptr) bool {
		for done < len(p) {
			var n int
			if n, errno = again(write, fd, p[done:]); errno != 0 {
				return errno != unix.EAGAIN
			}
			done += n
		}
		return true
	})
	if err == nil && errno != 0 && done < len(p) {
		err = os.NewSyscallError("write", errno)
	}
	return done, err
}

// again calls the kernel, once more if a signal came between.
func again(call func(int, []byte) (int, syscall.Errno), fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, errno := call(int(fd), p)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return 0, errno
		}
		return n, 0
	}
}
