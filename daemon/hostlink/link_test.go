package hostlink

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine/enginetest"
	"sessiondock.dev/sessiondock/daemon/stream"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// TestFramesArriveWholeAndInOrder: posted by several, faster than the host reads, so
// that some go at once, some in part, and some behind others.
func TestFramesArriveWholeAndInOrder(t *testing.T) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	host, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	conn, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	w, err := stream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	l := newLink(&Server{Log: enginetest.Log()}, conn, w, "shop", "nonce")
	var group sync.WaitGroup
	group.Go(l.write)
	defer group.Wait()
	defer l.Close("the test has ended")

	const posters, each = 4, 60
	for p := range posters {
		group.Go(func() {
			for i := range each {
				l.post(wire.StopPage{Nonce: core.Nonce(strings.Repeat("x", 1+i*300)), Epoch: core.Epoch(p*each + i + 1)})
			}
		})
	}
	host.SetReadDeadline(time.Now().Add(60 * time.Second))
	r := bufio.NewReader(host)
	next := [posters]int{}
	for n := range posters * each {
		if n%16 == 0 {
			time.Sleep(time.Millisecond)
		}
		body, err := wire.ReadFrame(r, binary.LittleEndian, wire.MaxFrame)
		if err != nil {
			t.Fatal(err)
		}
		var m wire.StopPage
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		p, i := (int(m.Epoch)-1)/each, (int(m.Epoch)-1)%each
		if i != next[p] || len(m.Nonce) != 1+i*300 {
			t.Fatalf("poster %d: message %d of %d bytes came, %d was next", p, i, len(m.Nonce), next[p])
		}
		next[p]++
	}
}
