//go:build !race

package stream

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func read(fd int, p []byte) (int, syscall.Errno)  { return raw(unix.SYS_READ, fd, p) }
func write(fd int, p []byte) (int, syscall.Errno) { return raw(unix.SYS_WRITE, fd, p) }

func raw(trap uintptr, fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}
