//go:build race

package stream

import "syscall"

// The race detector knows of package syscall's reads and writes that what is read was
// written before. Of raw calls it knows nothing, and would find races where there are none.

func read(fd int, p []byte) (int, syscall.Errno)  { return told(syscall.Read(fd, p)) }
func write(fd int, p []byte) (int, syscall.Errno) { return told(syscall.Write(fd, p)) }

func told(n int, err error) (int, syscall.Errno) {
	errno, _ := err.(syscall.Errno)
	return n, errno
}
