package stream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pipe returns both ends of a pipe, its reading end as a Stream.
func pipe(t *testing.T) (io.ReadWriter, *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(fds[1]), "w")
	t.Cleanup(func() { w.Close() })
	r := Open(fds[0], "r")
	if _, ok := r.(*Stream); !ok {
		t.Fatalf("a pipe is read as a %T", r)
	}
	return r, w
}

func TestStreamReadsToTheEnd(t *testing.T) {
	r, w := pipe(t)
	sent := bytes.Repeat([]byte("0123456789"), 300<<10) // more than the pipe holds
	go func() {
		w.Write(sent[:7])
		time.Sleep(20 * time.Millisecond) // the reader waits
		w.Write(sent[7:])
		w.Close()
	}()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(sent), err)
	}
}

func TestStreamWrites(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	w := Open(fds[1], "w")
	r := os.NewFile(uintptr(fds[0]), "r")
	sent := bytes.Repeat([]byte("x"), 5<<20)
	got := make(chan int)
	go func() {
		time.Sleep(20 * time.Millisecond) // the pipe fills, and the writer waits
		n, _ := io.Copy(io.Discard, io.LimitReader(r, int64(len(sent))))
		got <- int(n)
	}()
	if n, err := w.Write(sent); n != len(sent) || err != nil {
		t.Fatalf("%d of %d written, %v", n, len(sent), err)
	}
	if n := <-got; n != len(sent) {
		t.Fatalf("%d of %d arrived", n, len(sent))
	}
	r.Close()
	if _, err := w.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Fatalf("nobody reads, and writing says %v", err)
	}
}

// TestTryWriteTakesWhatThereIsRoomFor: it never waits, also with a full pipe.
func TestTryWriteTakesWhatThereIsRoomFor(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	w := Open(fds[1], "w").(*Stream)
	sent := bytes.Repeat([]byte("x"), 5<<20)
	n, err := w.TryWrite(sent)
	if err != nil || n == 0 || n == len(sent) {
		t.Fatalf("%d written, %v", n, err)
	}
	if more, err := w.TryWrite(sent); err != nil || more != 0 {
		t.Fatalf("%d more into a full pipe, %v", more, err)
	}
	r := os.NewFile(uintptr(fds[0]), "r")
	if got, err := io.ReadFull(r, make([]byte, n)); err != nil {
		t.Fatalf("%d of %d arrived, %v", got, n, err)
	}
	r.Close()
	if _, err := w.TryWrite([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Fatalf("nobody reads, and writing says %v", err)
	}
}

// A peer that does not read is noticed at the deadline, and no earlier.
func TestStreamDeadline(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := New(c.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := s.Write(make([]byte, 32<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d written, %v", n, err)
	}
	c.Close()
	if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Fatalf("a closed connection reads as %v", err)
	}
}

func TestOtherFilesAreLeftAsTheyAre(t *testing.T) {
	fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := Open(fd, "null")
	if _, ok := f.(*os.File); !ok {
		t.Fatalf("%s is read as a %T", os.DevNull, f)
	}
	if n, err := f.Write([]byte("x")); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}
