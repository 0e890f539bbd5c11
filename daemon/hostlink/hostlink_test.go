package hostlink

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/engine/enginetest"
	"sessiondock.dev/sessiondock/daemon/supervise"
	"sessiondock.dev/sessiondock/daemon/wire"
)

const extensionID = "abcdefghijklmnopabcdefghijklmnop"

type rig struct {
	t        *testing.T
	e        *engine.Engine
	launches *enginetest.Launches
	path     string
	hello    wire.HostHello
}

// newRig serves host.sock for a slot whose launch has started.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, launches: &enginetest.Launches{Secrets: map[core.SlotName]supervise.Spec{}}}
	r.e = enginetest.New(t, r.launches)
	r.must(core.CreateSlot{Name: "shop", By: "human:test"})
	r.must(core.StartSlot{Slot: "shop", By: "human:test"})
	r.until(func(s *core.State) bool { l := s.Slots["shop"].Launch; return l != nil && l.KeeperPID != 0 })
	spec := r.launches.Secrets["shop"]
	r.hello = wire.HostHello{
		Version: wire.Version, Slot: "shop", Launch: spec.Launch, Secret: spec.Secret,
		Origin: "chrome-extension://" + extensionID + "/",
	}
	r.path = filepath.Join(t.TempDir(), "h.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Engine: r.e, Supervisor: r.launches, ExtensionID: extensionID, ExtensionBuild: "b1", Log: enginetest.Log()}
	done := make(chan struct{})
	go func() { s.Serve(t.Context(), l); close(done) }()
	t.Cleanup(func() { l.Close(); <-done }) // the test's context has ended by then
	return r
}

func (r *rig) must(in core.Input) {
	r.t.Helper()
	if res := r.e.Submit(r.t.Context(), in); res.Refusal != nil {
		r.t.Fatalf("%T: %v", in, res.Refusal)
	}
}

func (r *rig) until(f func(*core.State) bool) {
	r.t.Helper()
	if !r.e.Wait(r.t.Context(), "shop", 5*time.Second, func(s *core.State, _ core.Now) bool { return f(s) }) {
		r.t.Fatal("did not come to pass")
	}
}

type conn struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (r *rig) dial() *conn {
	r.t.Helper()
	c, err := net.Dial("unix", r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(60 * time.Second))
	return &conn{c, r.t, bufio.NewReader(c)}
}

func (c *conn) send(msg any) {
	c.t.Helper()
	body, err := wire.Marshal(msg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.raw(wire.AppendFrame(nil, binary.LittleEndian, body))
}

func (c *conn) raw(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next message of type t, and drops others.
func next[T any](c *conn, t string) T {
	c.t.Helper()
	var v T
	for {
		body, err := wire.ReadFrame(c.r, binary.LittleEndian, wire.MaxFrame)
		if err != nil {
			c.t.Fatalf("waiting for %s: %v", t, err)
		}
		if got, _ := wire.Type(body); got == t {
			if err := json.Unmarshal(body, &v); err != nil {
				c.t.Fatal(err)
			}
			return v
		}
	}
}

// closed waits for the daemon to close the connection.
func (c *conn) closed() {
	c.t.Helper()
	for {
		if _, err := wire.ReadFrame(c.r, binary.LittleEndian, wire.MaxFrame); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				c.t.Fatal("the connection is still open")
			}
			return
		}
	}
}

// up brings a link up to the extension's hello.
func (r *rig) up() (*conn, core.Nonce) {
	r.t.Helper()
	c := r.dial()
	c.send(r.hello)
	nonce := next[wire.HostWelcome](c, "host.welcome").Nonce
	c.send(wire.Hello{Nonce: nonce, Version: wire.Version, Build: "b1", Instance: "worker-1", Actions: []wire.ActionReport{}})
	next[wire.Welcome](c, "welcome")
	return c, nonce
}

func TestAHostIsAttestedAndFencedBeforeAnything(t *testing.T) {
	r := newRig(t)
	c, nonce := r.up()
	f := next[wire.Fence](c, "fence")
	if f.Nonce != nonce || f.Epoch == 0 {
		t.Fatalf("%+v", f)
	}
	c.send(wire.Fenced{Nonce: nonce, Epoch: f.Epoch, Instance: "worker-1"})
	c.send(wire.Drained{Nonce: nonce, Epoch: f.Epoch})
	r.until(func(s *core.State) bool { return s.Slots["shop"].Fence.State == "drained" })
	c.Close()
	r.until(func(s *core.State) bool { return !s.Links["shop"].Up() && s.Slots["shop"].Fence.State == "pending" })
}

func TestHostsAreRefusedByName(t *testing.T) { // S7
	r := newRig(t)
	for name, change := range map[string]func(*wire.HostHello){
		"version_skew: version":   func(h *wire.HostHello) { h.Version = 99 },
		"not_found: slot":         func(h *wire.HostHello) { h.Slot = "nowhere" },
		"denied: another launch":  func(h *wire.HostHello) { h.Launch = "01ARZ3NDEKTSV4RRFFQ69G5FAV" },
		"denied: secret":          func(h *wire.HostHello) { h.Secret = strings.Repeat("0", 64) },
		"denied: no secret":       func(h *wire.HostHello) { h.Secret = "" },
		"denied: other extension": func(h *wire.HostHello) { h.Origin = "chrome-extension://ponmlkjihgfedcbaponmlkjihgfedcba/" },
	} {
		h := r.hello
		change(&h)
		c := r.dial()
		c.send(h)
		got := next[wire.HostRefused](c, "host.refused")
		if want, _, _ := strings.Cut(name, ":"); string(got.Error.Code) != want || got.Error.Message == "" {
			t.Errorf("%s: %+v", name, got.Error)
		}
		c.closed()
	}
	r.launches.Refuse = core.Refuse(core.CodeDenied, "not a descendant of the launch", "")
	c := r.dial()
	c.send(r.hello)
	if got := next[wire.HostRefused](c, "host.refused"); got.Error.Code != core.CodeDenied {
		t.Errorf("impostor: %+v", got.Error)
	}
	r.e.View(func(s *core.State, _ core.Now) {
		if s.Links["shop"].Nonce != "" {
			t.Error("a refused host left a link")
		}
	})
}

func TestFramesThatEndTheConnection(t *testing.T) { // B4
	good, err := wire.Marshal(wire.Pull{Nonce: "n", Ask: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"length 0":           {0, 0, 0, 0},
		"length 2^32-1":      {0xff, 0xff, 0xff, 0xff},
		"invalid UTF-8":      wire.AppendFrame(nil, binary.LittleEndian, []byte("{\"t\":\"pull\xff\"}")),
		"not JSON":           wire.AppendFrame(nil, binary.LittleEndian, []byte("pull")),
		"no type":            wire.AppendFrame(nil, binary.LittleEndian, []byte(`{}`)),
		"negative epoch":     wire.AppendFrame(nil, binary.LittleEndian, []byte(`{"t":"granted","epoch":-1}`)),
		"wrong type":         wire.AppendFrame(nil, binary.LittleEndian, []byte(`{"t":"pull","ask":"x"}`)),
		"epoch above 2^64":   wire.AppendFrame(nil, binary.LittleEndian, []byte(`{"t":"fenced","epoch":18446744073709551616}`)),
		"hello, no instance": wire.AppendFrame(nil, binary.LittleEndian, []byte(`{"t":"hello","version":1,"build":"b1"}`)),
		"hello, wrong build": wire.AppendFrame(nil, binary.LittleEndian, []byte(`{"t":"hello","version":1,"build":"b0","instance":"i"}`)),
	} {
		r := newRig(t)
		first := r.dial()
		first.raw(raw) // before host.hello
		first.closed()
		c, _ := r.up()
		c.raw(raw)
		c.closed()
		// The daemon goes on: the next host is served.
		c, _ = r.up()
		c.raw(wire.AppendFrame(nil, binary.LittleEndian, good)) // of another nonce: dropped
		c.raw(wire.AppendFrame(nil, binary.LittleEndian, []byte(`{"t":"grease.9"}`)))
		if f := next[wire.Fence](c, "fence"); f.Epoch == 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestATruncatedFrameAndASilentPeer(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	c.raw([]byte{200, 0, 0, 0, '{'})
	c.Conn.(*net.UnixConn).CloseWrite()
	c.closed()
	c = r.dial()
	start := time.Now()
	c.closed() // says nothing
	if d := time.Since(start); d > wire.HelloWithin+2*time.Second {
		t.Fatalf("a silent peer was kept for %v", d)
	}
}

func TestManyFramesInOneWriteAndOneFrameInManyWrites(t *testing.T) {
	r := newRig(t)
	c, nonce := r.up()
	f := next[wire.Fence](c, "fence")
	fenced, _ := wire.Marshal(wire.Fenced{Nonce: nonce, Epoch: f.Epoch, Instance: "worker-1"})
	drained, _ := wire.Marshal(wire.Drained{Nonce: nonce, Epoch: f.Epoch})
	both := wire.AppendFrame(wire.AppendFrame(nil, binary.LittleEndian, fenced), binary.LittleEndian, drained)
	c.raw(both)
	r.until(func(s *core.State) bool { return s.Slots["shop"].Fence.State == "drained" })
	pull, _ := wire.Marshal(wire.Pull{Nonce: nonce, Ask: 7})
	for _, b := range wire.AppendFrame(nil, binary.LittleEndian, pull) {
		c.raw([]byte{b})
	}
	if g := next[wire.Grant](c, "grant"); g.Ask != 7 || g.Epoch != 0 {
		t.Fatalf("%+v", g)
	}
}

func TestForgedMessagesMoveNothing(t *testing.T) {
	r := newRig(t)
	c, nonce := r.up()
	next[wire.Fence](c, "fence")
	before := r.e.Status("shop").Authority
	for _, msg := range []any{
		wire.Granted{Nonce: nonce, Epoch: before.Epoch + 1},
		wire.Granted{Nonce: nonce, Epoch: 1<<64 - 1},
		wire.Granted{Nonce: "other", Epoch: before.Epoch},
		wire.Drained{Nonce: "other", Epoch: before.Epoch},
		wire.Drained{Nonce: nonce, Epoch: before.Epoch + 7},
		wire.Fenced{Nonce: nonce, Epoch: before.Epoch + 7, Instance: "worker-1"},
		wire.ActionDone{Action: "none", Epoch: before.Epoch, State: "finished"},
		wire.Report{Nonce: nonce, Action: wire.ActionReport{Action: "none", Epoch: before.Epoch}},
		wire.PersonHold{Nonce: "other", Hold: wire.Hold{ID: "h"}},
		wire.PersonCall{Nonce: "other", ID: 1, Verb: "takeover"},
	} {
		c.send(msg)
	}
	c.send(wire.Pull{Nonce: nonce, Ask: 9})
	if g := next[wire.Grant](c, "grant"); g.Epoch != 0 {
		t.Fatalf("granted epoch %d", g.Epoch)
	}
	after := r.e.Status("shop").Authority
	after.Fence, before.Fence = "", ""
	if after != before {
		t.Fatalf("from %+v to %+v", before, after)
	}
}

func TestTheSecondHostOfALaunchTakesTheLink(t *testing.T) {
	r := newRig(t)
	first, _ := r.up()
	second, nonce := r.up()
	first.closed()
	r.until(func(s *core.State) bool { return s.Links["shop"].Nonce == nonce })
	if f := next[wire.Fence](second, "fence"); f.Nonce != nonce {
		t.Fatalf("%+v", f)
	}
}

// A probe goes to the slot's extension and what it saw comes back, cut at its bound;
// the state and the journal have the verdict alone.
func TestAProbeAndItsAnswer(t *testing.T) {
	r := newRig(t)
	page := core.ProbePage{URL: "https://shop.example/me", Selector: "#email"}
	r.must(core.Bind{By: "human:test", Spec: core.BindingSpec{
		Name: "b", Slot: "shop", Origins: []string{"https://shop.example"},
		Probe: &core.ProbeSpec{Account: &core.AccountProbe{ProbePage: page, Pattern: "ada@shop\\.example"}, WaitMs: 1234},
	}})
	c, nonce := r.up()
	f := next[wire.Fence](c, "fence")
	c.send(wire.Fenced{Nonce: nonce, Epoch: f.Epoch, Instance: "worker-1"})
	c.send(wire.Drained{Nonce: nonce, Epoch: f.Epoch})
	r.until(func(s *core.State) bool { return s.Slots["shop"].Fence.State == "drained" })
	for text, want := range map[string]string{
		" ada@shop.example": "match", "eve@shop.example": "mismatch",
		"ada@shop.example" + strings.Repeat(" ", wire.MaxProbeText) + "or not": "unknown", // longer than is compared
	} {
		res := r.e.Submit(t.Context(), core.RunProbe{Binding: "b", By: "human:test"})
		if res.Refusal != nil {
			t.Fatal(res.Refusal)
		}
		p := next[wire.Probe](c, "probe")
		if p.Nonce != nonce || p.Epoch != f.Epoch || p.Probe != res.Probe || p.URL != page.URL || p.Selector != page.Selector || p.WaitMs != 1234 {
			t.Fatalf("%+v", p)
		}
		c.send(wire.ProbeResult{Nonce: "other", Probe: p.Probe, Epoch: p.Epoch, State: "seen", Text: "ada@shop.example"})
		c.send(wire.ProbeResult{Nonce: nonce, Probe: "other", Epoch: p.Epoch, State: "seen", Text: "ada@shop.example"})
		c.send(wire.ProbeResult{Nonce: nonce, Probe: p.Probe, Epoch: p.Epoch + 1, State: "seen", Text: "ada@shop.example"})
		c.send(wire.ProbeResult{Nonce: nonce, Probe: p.Probe, Epoch: p.Epoch, State: "seen", Text: text, URL: page.URL + "?token=1"})
		var got core.Probed
		r.until(func(s *core.State) bool {
			v := s.ProbeResult("shop", p.Probe)
			if v != nil {
				got = *v
			}
			return v != nil
		})
		if got.Verdict != want || got.URL != page.URL || !strings.HasPrefix(text, strings.TrimSuffix(got.Seen, "…")) {
			t.Errorf("%.20q: %+v", text, got)
		}
	}
	rows, err := r.e.Events(core.EventQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(rows)
	if !strings.Contains(string(text), "mismatch") || strings.Contains(string(text), "eve@") {
		t.Errorf("the journal: %s", text)
	}
}
