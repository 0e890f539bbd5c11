package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/host/act"
)

// recorder keeps the types of the frames that are written to it. After the first
// it calls then, while the writer waits.
type recorder struct {
	then  func()
	types []string
	left  int
	done  chan struct{}
}

func (r *recorder) Write(frame []byte) (int, error) {
	kind, err := wire.Type(frame[4:])
	if err != nil {
		return 0, err
	}
	if r.types = append(r.types, kind); len(r.types) == 1 && r.then != nil {
		r.then()
	}
	if r.left--; r.left == 0 {
		close(r.done)
	}
	return len(frame), nil
}

// typesWritten returns the types of the next n frames, in order.
func typesWritten(t *testing.T, o *outbox, n int, then func()) string {
	t.Helper()
	r := &recorder{then: then, left: n, done: make(chan struct{})}
	go o.run(r, func(*act.Step) bool { return true })
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatalf("fewer than %d frames were written", n)
	}
	return strings.Join(r.types, " ")
}

func TestOutboxOrder(t *testing.T) {
	o := newOutbox()
	big := []byte(`{"t":"cmd","x":"` + strings.Repeat("x", 4*wire.ChunkBytes) + `"}`)
	o.step(&act.Step{}, big)
	o.step(&act.Step{}, []byte(`{"t":"cmd"}`))
	got := typesWritten(t, o, 8, func() {
		for _, kind := range []string{"poke", "fence"} {
			if err := o.relay([]byte(`{"t":"` + kind + `"}`)); err != nil {
				t.Error(err)
			}
		}
	})
	if want := "chunk poke fence chunk chunk chunk chunk cmd"; got != want {
		t.Fatalf("wrote %s, want %s", got, want)
	}
}

func TestOutboxIsBounded(t *testing.T) {
	o := newOutbox()
	n := 0
	for o.relay([]byte(`{"t":"ui"}`)) == nil {
		if n++; n > maxRelayed {
			t.Fatal("the queue has no end")
		}
	}
	o.only([]byte(`{"t":"link","up":false}`))
	if got := typesWritten(t, o, 1, nil); got != "link" {
		t.Fatalf("wrote %s", got)
	}
	if o = newOutbox(); o.relay(make([]byte, maxRelayedBytes)) != nil || o.relay([]byte("{}")) == nil {
		t.Fatal("the queue does not count bytes")
	}
}

// Removing the question at the last moment must fail here.
func TestOutboxAsksBeforeEachStep(t *testing.T) {
	o := newOutbox()
	for i := range 3 {
		o.step(&act.Step{Cmd: wire.Cmd{Seq: int64(i)}}, fmt.Appendf(nil, `{"t":"cmd%d"}`, i))
	}
	r, w := io.Pipe()
	defer r.Close()
	go o.run(w, func(s *act.Step) bool { return s.Cmd.Seq == 2 })
	body, err := wire.ReadFrame(bufio.NewReader(r), binary.NativeEndian, wire.MaxToExtension)
	if err != nil || string(body) != `{"t":"cmd2"}` {
		t.Fatalf("wrote %s, %v", body, err)
	}
}
