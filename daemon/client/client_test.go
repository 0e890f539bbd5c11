package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// serve answers at a real unix socket and returns a client of it.
func serve(t *testing.T, h http.Handler) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(l)
	c := New(socket)
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

func reply(w http.ResponseWriter, v any) { json.NewEncoder(w).Encode(v) }

// drop ends the connection after the request was read, without an answer.
func drop(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

func wantCode(t *testing.T, err error, code core.Code) *core.Error {
	t.Helper()
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
	return e
}

func TestRefusalKeepsItsHintAndDetail(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(409)
		reply(w, wire.ErrorBody{Error: core.Error{Code: core.CodeHeld, Message: "held by agent b", Hint: "wait", Detail: map[string]any{"until": "soon"}}})
	}))
	_, err := c.Status(t.Context(), "shop")
	if e := wantCode(t, err, core.CodeHeld); e.Hint != "wait" || e.Detail["until"] != "soon" {
		t.Errorf("hint %q, detail %v", e.Hint, e.Detail)
	}
}

func TestUnreachableDaemonIsUnavailable(t *testing.T) {
	c := New(filepath.Join(t.TempDir(), "none.sock"))
	epoch := core.Epoch(1)
	_, err := c.Act(t.Context(), "L", "cap", wire.ActRequest{ID: "A", Epoch: &epoch, Act: wire.Act{Verb: "back"}})
	if e := wantCode(t, err, core.CodeUnavailable); e.Hint != "sessiondock up --detach" {
		t.Errorf("hint %q", e.Hint)
	}
}

// TestLostAnswerIsUnknown is I6 at the client: once a change may have reached the
// daemon no transport error is a failure, and nothing is sent a second time.
func TestLostAnswerIsUnknown(t *testing.T) {
	short := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, `{"action":"X","local":"fin`)
	})
	garbage := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
	proxy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "bad gateway", 502) })
	for name, h := range map[string]http.HandlerFunc{"dropped": drop, "cut short": short, "no JSON": garbage, "no refusal": proxy} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { calls.Add(1); h(w, r) }))
			epoch := core.Epoch(3)
			_, err := c.Act(t.Context(), "L", "cap", wire.ActRequest{ID: "A1", Epoch: &epoch, Act: wire.Act{Verb: "click"}})
			if e := wantCode(t, err, core.CodeOutcomeUnknown); !strings.Contains(e.Hint, "A1") {
				t.Errorf("the hint does not name the action: %q", e.Hint)
			}
			_, err = c.Acquire(t.Context(), "", wire.AcquireRequest{RequestID: "R1", Binding: "b"})
			if e := wantCode(t, err, core.CodeOutcomeUnknown); !strings.Contains(e.Hint, "R1") {
				t.Errorf("the hint does not name the request: %q", e.Hint)
			}
			_, err = c.Change(t.Context(), "shop", Takeover, wire.ChangeRequest{})
			wantCode(t, err, core.CodeOutcomeUnknown)
			_, err = c.Resolve(t.Context(), "X", wire.ResolveRequest{Verdict: core.Applied})
			wantCode(t, err, core.CodeOutcomeUnknown)
			if n := calls.Load(); n != 4 {
				t.Errorf("%d requests for 4 calls", n)
			}
		})
	}
}

func TestLostAnswerOfAReadIsUnavailable(t *testing.T) {
	c := serve(t, http.HandlerFunc(drop))
	_, err := c.Slots(t.Context())
	wantCode(t, err, core.CodeUnavailable)
}

func TestEndedContextAfterSendingIsUnknown(t *testing.T) {
	started := make(chan struct{}, 1)
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		started <- struct{}{}
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	epoch := core.Epoch(3)
	_, err := c.Act(ctx, "L", "cap", wire.ActRequest{ID: "A1", Epoch: &epoch, Act: wire.Act{Verb: "click"}})
	wantCode(t, err, core.CodeOutcomeUnknown)

	ctx, cancel = context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	_, err = c.Slots(ctx)
	wantCode(t, err, core.CodeDeadline)
}

// TestDaemonGoneBetweenCalls: a connection kept from an earlier call is closed;
// the change was never sent, and that is proved.
func TestDaemonGoneBetweenCalls(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reply(w, []string{}) })}
	go srv.Serve(l)
	c := New(socket)
	if _, err := c.Slots(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Close()
	time.Sleep(50 * time.Millisecond) // until the kept connection was seen to close
	_, err = c.Change(t.Context(), "shop", Start, wire.ChangeRequest{})
	wantCode(t, err, core.CodeUnavailable)
}

func TestAcquireClaimsItsGrant(t *testing.T) {
	claimed := false
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/leases", func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer token" {
			t.Errorf("Authorization %q", got)
		}
		var req wire.AcquireRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.RequestID == "" {
			t.Errorf("request %+v, %v", req, err)
		}
		reply(w, wire.LeaseReply{Lease: "L", State: core.LeaseGranted, Epoch: 4, Capability: "cap"})
	})
	mux.HandleFunc("POST /v1/leases/L/resume", func(w http.ResponseWriter, r *http.Request) {
		reply(w, wire.LeaseReply{Lease: "L", State: core.LeaseGranted, Epoch: 5})
	})
	mux.HandleFunc("GET /v1/leases/L", func(w http.ResponseWriter, r *http.Request) {
		claimed = r.Header.Get("Authorization") == "Bearer cap"
		reply(w, wire.LeaseReply{Lease: "L", State: core.LeaseActive, Epoch: 4})
	})
	c := serve(t, mux)
	got, err := c.Acquire(t.Context(), "token", wire.AcquireRequest{Binding: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if !claimed || got.State != core.LeaseActive || got.Capability != "cap" {
		t.Errorf("claimed %v, reply %+v", claimed, got)
	}
	claimed = false
	got, err = c.Resume(t.Context(), "L", "cap", wire.ResumeRequest{})
	if err != nil || !claimed || got.State != core.LeaseActive {
		t.Errorf("a resumed grant: claimed %v, reply %+v, %v", claimed, got, err)
	}
}

func TestTooLargeARequestIsNotSent(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("sent") }))
	epoch := core.Epoch(1)
	_, err := c.Act(t.Context(), "L", "cap", wire.ActRequest{ID: "A", Epoch: &epoch,
		Act: wire.Act{Verb: "evaluate", Expression: strings.Repeat("x", wire.MaxBody)}})
	wantCode(t, err, core.CodeLimit)
}

func TestNamesAreEscapedInPaths(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `"`+r.URL.EscapedPath()+`"`) }))
	var path string
	if err := c.do(t.Context(), call{method: "GET", path: slotPath("a/../b?c", "/status")}, &path); err != nil {
		t.Fatal(err)
	}
	if want := "/v1/slots/a%2F..%2Fb%3Fc/status"; path != want {
		t.Errorf("path %s, want %s", path, want)
	}
}

func TestFollowReadsRows(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("after") != "6" || r.URL.Query().Get("follow") != "1" {
			t.Errorf("query %s", r.URL.RawQuery)
		}
		io.WriteString(w, ": hello\n\nid: 7\ndata: {\"seq\":7,\"kind\":\"takeover\"}\n\nid: 8\ndata: {\"seq\":8,\ndata: \"kind\":\"grant\"}\n\nid: 12\n: still here\n\nid: 13\ndata: {\"seq\":13")
	}))
	var seen []string
	q := EventQuery{After: 6}
	err := c.Follow(t.Context(), &q, func(e wire.EventRow) error {
		seen = append(seen, fmt.Sprintf("%d %s", e.Seq, e.Kind))
		return nil
	})
	wantCode(t, err, core.CodeUnavailable) // the stream ended, and that is said
	if got := strings.Join(seen, ", "); got != "7 takeover, 8 grant" {
		t.Errorf("rows %s", got)
	}
	if q.After != 12 { // an event that was cut short has not come
		t.Errorf("it would go on after %d", q.After)
	}
}

func TestALeaseIsFollowedWithItsCapability(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/leases/l%2F1/events" || r.Header.Get("Authorization") != "Bearer secret" || r.URL.Query().Get("after") != "4" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		io.WriteString(w, "id: 5\ndata: {\"seq\":5,\"kind\":\"takeover\"}\n\n")
	}))
	q := EventQuery{After: 4}
	seen := 0
	err := c.FollowLease(t.Context(), "l/1", "secret", &q, func(wire.EventRow) error { seen++; return nil })
	wantCode(t, err, core.CodeUnavailable)
	if seen != 1 || q.After != 5 {
		t.Errorf("%d rows, on after %d", seen, q.After)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: {\"seq\":1}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Follow(ctx, &EventQuery{}, func(wire.EventRow) error { cancel(); return nil }); err != nil {
		t.Error(err)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	if got := fmt.Sprintf("%v %s %#v %+v", Secret("abc"), Secret("abc"), Secret("abc"), struct{ S Secret }{"abc"}); strings.Contains(got, "abc") {
		t.Error(got)
	}
}
