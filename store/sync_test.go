package store

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func tempFile(t testing.TB) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "sync")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
