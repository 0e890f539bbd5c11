package native

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/stream"
)

// Claim takes standard output for frames alone: it returns a private duplicate
// and points descriptor 1 at standard error. A stray print, of ours or of a
// library, would otherwise be read by the browser as a frame's length, and the
// link would be lost.
func Claim() (io.Writer, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("duplicate standard output: %w", err)
	}
	if _, err := unix.FcntlInt(2, unix.F_GETFD, 0); err != nil {
		// The browser may start us with standard error closed. Descriptor 2 must
		// not be given to the next file that is opened: a panic would write there.
		if err := openNullAs(2); err != nil {
			return nil, err
		}
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return nil, fmt.Errorf("point standard output at standard error: %w", err)
	}
	return stream.Open(fd, "native-messaging"), nil
}

func openNullAs(fd int) error {
	null, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	if null == fd {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		return err
	}
	defer unix.Close(null)
	return unix.Dup3(null, fd, 0)
}
