package client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// counted serves and counts the connections that were made.
func counted(t *testing.T, h http.Handler) (*Client, *atomic.Int32) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var made atomic.Int32
	srv := &http.Server{Handler: h, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	c := New(socket)
	t.Cleanup(c.Close)
	return c, &made
}

func TestCallsFollowOneAnotherOnAConnection(t *testing.T) {
	c, made := counted(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			http.Error(w, `{"error":{"code":"held","message":"m"}}`, http.StatusConflict)
			return
		}
		reply(w, []string{})
	}))
	for range 10 {
		if _, err := c.Slots(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := c.Change(t.Context(), "shop", Start, wire.ChangeRequest{})
		wantCode(t, err, core.CodeHeld)
	}
	if n := made.Load(); n != 1 {
		t.Errorf("20 calls took %d connections", n)
	}
}

// TestAnswersAreNotTakenForOneAnother: a call that was given up must not leave its
// answer to the next call of the connection.
func TestAnswersAreNotTakenForOneAnother(t *testing.T) {
	slow := make(chan struct{})
	c, _ := counted(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/slots/slow/status" {
			slow <- struct{}{}
			<-slow
		}
		reply(w, map[string]any{"slot": r.URL.Path})
	}))
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-slow; cancel(); slow <- struct{}{} }()
		if st, err := c.Status(ctx, "slow"); err == nil && st.Slot != "/v1/slots/slow/status" {
			t.Fatalf("got the answer of %s", st.Slot)
		}
		st, err := c.Status(t.Context(), "next")
		if err != nil || st.Slot != "/v1/slots/next/status" {
			t.Fatalf("got the answer of %+v, %v", st, err)
		}
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	c, _ := counted(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reply(w, map[string]any{"slot": r.URL.Path}) }))
	var group sync.WaitGroup
	for i := range 4 * maxIdle {
		group.Go(func() {
			for j := range 20 {
				name := core.SlotName(fmt.Sprintf("s%d-%d", i, j))
				st, err := c.Status(t.Context(), name)
				if err != nil || st.Slot != "/v1/slots/"+name+"/status" {
					t.Errorf("%s got %+v, %v", name, st, err)
				}
			}
		})
	}
	group.Wait()
	if n := len(c.t.idle); n > maxIdle {
		t.Errorf("%d connections are kept", n)
	}
}
