package e2e

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/e2e/browser"
	"sessiondock.dev/sessiondock/extension"
	"sessiondock.dev/sessiondock/manifests"
)

// The third gate alone: the real extension in a real Chromium, under a host without
// a second gate and a daemon that admits everything. Both are this test: the host
// program only carries frames between the extension and the test's socket.

const (
	openHostName = "gate-open-host"
	openHostVar  = "GATE_OPEN_HOST_SOCKET"
)

// runOpenHost is the host program: no gate, no daemon.
func runOpenHost() error {
	conn, err := net.Dial("unix", os.Getenv(openHostVar))
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	pass := func(to io.Writer, from io.Reader) {
		r := bufio.NewReader(from)
		for {
			body, err := wire.ReadFrame(r, binary.NativeEndian, wire.MaxFromExtension)
			if err == nil {
				_, err = to.Write(wire.AppendFrame(nil, binary.NativeEndian, body))
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}
	go pass(conn, os.Stdin)
	go pass(os.Stdout, conn)
	return <-ended
}

// forger speaks to the extension as host and daemon in one.
type forger struct {
	t      *testing.T
	conn   net.Conn
	r      *bufio.Reader
	nonce  core.Nonce
	seq    int64
	doc    core.Expect
	hello  wire.Hello
	b      *browser.Browser
	listen *net.UnixListener
}

func openForger(t *testing.T, url string) *forger {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "gate")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	ext := filepath.Join(dir, "extension")
	key, err := extension.OpenKey(filepath.Join(dir, "key.pem"))
	must(t, err)
	must(t, extension.Write(ext, key, 0))
	self, err := os.Executable()
	must(t, err)
	host := filepath.Join(dir, openHostName)
	must(t, os.Symlink(self, host))
	f := &forger{t: t, nonce: "forged-1"}
	socket := filepath.Join(dir, "s")
	f.listen, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	must(t, err)
	t.Cleanup(func() { f.listen.Close() })
	f.b, err = browser.Start(browser.Options{
		Extension: ext, Pipe: true, URL: url, Env: []string{openHostVar + "=" + socket},
		Prepare: func(profile string) error {
			dir := filepath.Join(profile, "NativeMessagingHosts")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, manifests.HostName+".json"), manifests.NativeHost(host, key.ID), 0o600)
		},
	})
	must(t, err)
	t.Cleanup(func() { f.b.Close() })
	f.accept()
	return f
}

// accept takes the extension's connection and brings the link up to its fence.
func (f *forger) accept() {
	f.t.Helper()
	must(f.t, f.listen.SetDeadline(time.Now().Add(30*time.Second)))
	var err error
	f.conn, err = f.listen.Accept()
	must(f.t, err)
	f.r = bufio.NewReader(f.conn)
	must(f.t, f.conn.SetDeadline(time.Now().Add(90*time.Second)))
	f.send(wire.Link{Up: true, Nonce: f.nonce})
	f.hello = await[wire.Hello](f, "hello")
	f.send(wire.Welcome{Nonce: f.nonce, Epoch: max(5, f.hello.Mark.Epoch), Seq: 1})
}

func (f *forger) send(msg any) {
	f.t.Helper()
	body, err := wire.Marshal(msg)
	must(f.t, err)
	f.raw(body)
}

func (f *forger) raw(body []byte) {
	f.t.Helper()
	_, err := f.conn.Write(wire.AppendFrame(nil, binary.NativeEndian, body))
	must(f.t, err)
}

func await[T any](f *forger, kind string) T {
	f.t.Helper()
	var v T
	for {
		body, err := wire.ReadFrame(f.r, binary.NativeEndian, wire.MaxFrame)
		if err != nil {
			f.t.Fatalf("waiting for %s: %v", kind, err)
		}
		if got, _ := wire.Type(body); got == kind {
			must(f.t, json.Unmarshal(body, &v))
			return v
		}
	}
}

// fence raises the extension's epoch and waits for the drain.
func (f *forger) fence(epoch core.Epoch) {
	f.t.Helper()
	f.send(wire.Fence{Nonce: f.nonce, Epoch: epoch, Seq: 1, DeadlineMs: 30_000, WatchMs: 1000})
	if got := await[wire.Fenced](f, "fenced"); got.Epoch != epoch {
		f.t.Fatalf("fenced at %d, asked for %d", got.Epoch, epoch)
	}
	await[wire.Drained](f, "drained")
}

// grant opens the gate for an epoch, as an honest daemon would.
func (f *forger) grant(epoch core.Epoch, ttlMs int64) {
	f.t.Helper()
	f.send(wire.Poke{Nonce: f.nonce})
	ask := await[wire.Pull](f, "pull").Ask
	f.send(wire.Grant{Nonce: f.nonce, Ask: ask, Epoch: epoch, Lease: "lease", TTLMs: ttlMs, WatchMs: 1000})
	await[wire.Granted](f, "granted")
	// In the tab of the first grant: a person's press of the popup opens others.
	r := f.cmd(wire.Cmd{Kind: "document", Epoch: epoch, Class: core.Read, Expect: core.Expect{Tab: f.doc.Tab}})
	if !r.OK || r.Observed == nil {
		f.t.Fatalf("under an open gate: %+v", r)
	}
	f.doc = *r.Observed
}

// cmd sends one command, filling in what is not given, and returns the answer.
func (f *forger) cmd(c wire.Cmd) wire.CmdResult {
	f.t.Helper()
	f.seq++
	c.Seq = f.seq
	if c.Action == "" {
		c.Action = core.ActionID(fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ6%06d", f.seq))
	}
	if c.LeftMs == 0 {
		c.LeftMs = 20_000
	}
	if c.Class == "" {
		c.Class = core.Write
	}
	f.send(c)
	for {
		if r := await[wire.CmdResult](f, "cmd.result"); r.Seq == c.Seq {
			return r
		}
	}
}

// save is the forged effect: a script that posts to the site.
func (f *forger) save(epoch core.Epoch) wire.Cmd {
	params, _ := json.Marshal(map[string]any{"expression": `document.querySelector('#save').click()`, "userGesture": true})
	return wire.Cmd{Kind: "cdp", Method: "Runtime.evaluate", Params: params, Epoch: epoch, Expect: f.doc, Effect: true, Script: true}
}

func (f *forger) refused(what string, c wire.Cmd, codes ...core.Code) {
	f.t.Helper()
	r := f.cmd(c)
	code := core.Code("")
	if r.Error != nil {
		code = r.Error.Code
	}
	if r.OK || r.Dispatched || !strings.Contains(fmt.Sprint(codes), string(code)) || code == "" {
		f.t.Errorf("%s: ok %v, dispatched %v, %v; want %v", what, r.OK, r.Dispatched, r.Error, codes)
	}
}

func TestThirdGateAlone(t *testing.T) {
	t.Parallel()
	site, err := demo.OpenSite()
	must(t, err)
	defer site.Close()
	f := openForger(t, site.URL("gate", "product", "delay=10"))
	count := func() int { return site.Count("gate").Total }

	f.refused("before any fence or grant", f.save(5), core.CodeFenced)
	f.fence(10)
	f.refused("after a fence, without a grant", f.save(10), core.CodeFenced)
	f.send(wire.Grant{Nonce: f.nonce, Ask: 999, Epoch: 10, Lease: "l", TTLMs: 60_000})
	f.refused("a grant that answers nothing", f.save(10), core.CodeFenced)
	f.send(wire.Grant{Nonce: "other", Ask: 1, Epoch: 10, Lease: "l", TTLMs: 60_000})
	f.refused("a grant of another link", f.save(10), core.CodeFenced)
	f.grant(10, 60_000)
	for _, e := range []core.Epoch{1, 9, 11, core.MaxEpoch} {
		f.refused(fmt.Sprintf("epoch %d under a grant of 10", e), f.save(e), core.CodeFenced)
	}
	for _, epoch := range []string{"-1", "0", "1.5", "9007199254740992", `"10"`, "null", "1e300"} {
		f.raw(fmt.Appendf(nil, `{"t":"cmd","seq":7777,"action":"a","epoch":%s,"kind":"cdp","method":"Runtime.evaluate","params":{"expression":"document.querySelector('#save').click()"},"expect":{},"effect":true,"script":true,"class":"write","left_ms":1000}`, epoch))
	}
	wrong := f.save(10)
	wrong.Expect.Document = "0123456789ABCDEF0123456789ABCDEF"
	f.refused("another document", wrong, core.CodeDocumentChanged)
	wrong = f.save(10)
	wrong.Expect.Tab = 987654
	f.refused("a tab that is not the lease's", wrong, core.CodeNotFound)
	wrong = f.save(10)
	wrong.Kind, wrong.Method, wrong.Params = "cdp", "Page.navigate", json.RawMessage(`{"url":"chrome://settings"}`)
	f.refused("a forbidden address", wrong, core.CodePolicy)
	wrong = f.save(10)
	wrong.Method, wrong.Params = "Page.crash", nil
	f.refused("a settlement command from an agent", wrong, core.CodePolicy)
	f.send(wire.Fence{Nonce: f.nonce, Epoch: 3, Seq: 1, DeadlineMs: 1000})
	f.fence(11)
	f.refused("the fenced epoch", f.save(10), core.CodeFenced)
	f.refused("the new epoch, not granted", f.save(11), core.CodeFenced)
	f.grant(11, 700)
	time.Sleep(900 * time.Millisecond)
	f.refused("a grant whose time is over", f.save(11), core.CodeUnavailable, core.CodeFenced)
	if n := count(); n != 0 {
		t.Fatalf("the site counts %d saves of refused commands", n)
	}

	// A person presses: nothing passes from that turn on, whatever the daemon says.
	f.fence(12)
	f.grant(12, 60_000)
	hand, err := demo.NewHand(context.Background(), f.b.Pipe, "chrome-extension://")
	must(t, err)
	must(t, hand.Press(context.Background(), demo.ButtonTakeover))
	hold := await[wire.PersonHold](f, "person.hold").Hold
	f.refused("under a hold", f.save(12), core.CodeFenced)
	f.send(wire.Poke{Nonce: f.nonce})
	f.send(wire.Grant{Nonce: f.nonce, Ask: 50, Epoch: 13, Lease: "l", TTLMs: 60_000})
	f.refused("a grant does not clear a hold", f.save(13), core.CodeFenced)
	f.send(wire.Fence{Nonce: f.nonce, Epoch: 13, Seq: 1, Hold: "another-hold", DeadlineMs: 1000})
	await[wire.Drained](f, "drained")
	f.refused("a fence that answers another hold", f.save(13), core.CodeFenced)

	// The port is lost: the gate closes by itself, and the hold outlives the link.
	f.conn.Close()
	f.nonce = "forged-2"
	f.accept()
	if f.hello.Hold == nil || f.hello.Hold.ID != hold.ID || f.hello.Mark.Epoch < 13 {
		t.Errorf("the hello after a lost link: %+v", f.hello)
	}
	f.refused("after a lost link", f.save(13), core.CodeFenced)
	f.send(wire.Fence{Nonce: f.nonce, Epoch: 14, Seq: 1, Hold: hold.ID, DeadlineMs: 1000})
	await[wire.Drained](f, "drained")
	if n := count(); n != 0 {
		t.Fatalf("the site counts %d saves of refused commands", n)
	}

	// The test can fail: under an honest grant the same command does save.
	f.grant(14, 60_000)
	r := f.cmd(f.save(14))
	if !r.OK || !r.Dispatched || strings.Contains(string(r.Result), "exceptionDetails") {
		t.Fatalf("an honest command: %+v %s", r, r.Result)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if !site.WaitSaves(ctx, "gate", 1) {
		params, _ := json.Marshal(map[string]any{"expression": `location.href + " " + document.body.innerText`, "returnByValue": true})
		look := f.cmd(wire.Cmd{Kind: "cdp", Method: "Runtime.evaluate", Params: params, Epoch: 14, Expect: f.doc, Class: core.Read})
		t.Fatalf("an honest save did not reach the site; the page: %s %v", look.Result, look.Error)
	}
}
