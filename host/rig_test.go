package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/host/native"
)

// hostProgram is the real program, built once for these tests.
var hostProgram string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sessiondock-host-")
	if err != nil {
		panic(err)
	}
	hostProgram = filepath.Join(dir, "sessiondock-host")
	if out, err := exec.Command("go", "build", "-o", hostProgram, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the host: %v\n%s", err, out)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const (
	patience = 60 * time.Second
	origin   = "chrome-extension://abcdefghijklmnopabcdefghijklmnop/"
)

// rig is a host with the test at both of its ends: as the daemon on a real socket,
// and as the browser on its pipes.
type rig struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *os.File    // not a buffer: it is read while the host may still write
	x      chan []byte // messages to the extension; closed at the end
	exited chan error

	dir      string
	listener *net.UnixListener
	conn     *net.UnixConn
	d        chan []byte // messages to the daemon on the present connection
	nonce    core.Nonce
	nonces   int
}

// newRig makes the daemon's directory and socket; start starts the host.
func newRig(t testing.TB) *rig {
	t.Helper()
	// A short path: socket names have room for 108 bytes.
	top, err := os.MkdirTemp("", "sdh-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	r := &rig{t: t, dir: filepath.Join(top, "run")}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if r.stderr, err = os.Create(filepath.Join(top, "stderr")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.stderr.Close() })
	r.listen()
	return r
}

func (r *rig) socket() string { return filepath.Join(r.dir, "host.sock") }

func (r *rig) listen() {
	r.t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.socket(), Net: "unix"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.listener = l
	r.t.Cleanup(func() { l.Close() })
}

func (r *rig) start(env ...string) {
	r.t.Helper()
	if env == nil {
		env = []string{"SESSIONDOCK_SLOT=shop", "SESSIONDOCK_LAUNCH=L1", "SESSIONDOCK_SECRET=s3cret", "SESSIONDOCK_HOST_SOCKET=" + r.socket()}
	}
	r.cmd = exec.Command(hostProgram, origin)
	r.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	r.cmd.Stderr = r.stderr
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.stdin, r.x, r.exited = stdin, make(chan []byte, 4096), make(chan error, 1)
	go func() {
		in := native.NewReader(stdout)
		for {
			body, err := in.Next()
			if err != nil {
				close(r.x)
				r.exited <- r.cmd.Wait()
				return
			}
			r.x <- body
		}
	}()
	r.t.Cleanup(func() {
		r.cmd.Process.Kill()
		stdin.Close()
		if r.t.Failed() {
			said, _ := os.ReadFile(r.stderr.Name())
			r.t.Logf("host said:\n%s", said)
		}
	})
}

// accept takes the host's next connection and reads its hello.
func (r *rig) accept() wire.HostHello {
	r.t.Helper()
	r.listener.SetDeadline(time.Now().Add(patience))
	conn, err := r.listener.AcceptUnix()
	if err != nil {
		r.t.Fatalf("the host did not connect: %v", err)
	}
	r.conn, r.d = conn, make(chan []byte, 4096)
	r.t.Cleanup(func() { conn.Close() })
	go func(to chan []byte) {
		in := bufio.NewReader(conn)
		for {
			body, err := wire.ReadFrame(in, binary.LittleEndian, wire.MaxFrame)
			if err != nil {
				close(to)
				return
			}
			to <- body
		}
	}(r.d)
	var hello wire.HostHello
	into(r.t, r.daemonGets("host.hello"), &hello)
	return hello
}

// link brings the link up, and grants an epoch unless it is 0.
func (r *rig) link(epoch core.Epoch) {
	r.t.Helper()
	r.accept()
	r.welcome()
	if epoch != 0 {
		r.grant(epoch)
	}
}

func (r *rig) welcome() {
	r.t.Helper()
	r.nonces++
	r.nonce = core.Nonce("n" + strconv.Itoa(r.nonces))
	r.daemonSends(wire.HostWelcome{Nonce: r.nonce, Slot: "shop"})
	var up wire.Link
	into(r.t, r.extensionGets("link"), &up)
	if !up.Up || up.Nonce != r.nonce {
		r.t.Fatalf("link %+v, want up with nonce %s", up, r.nonce)
	}
}

func (r *rig) grant(epoch core.Epoch) {
	r.t.Helper()
	r.daemonSends(wire.Grant{Nonce: r.nonce, Epoch: epoch, TTLMs: 15000, Origins: []string{}})
	r.extensionGets("grant")
}

func (r *rig) daemonSends(msg any) { r.t.Helper(); r.daemonSendsRaw(marshal(r.t, msg)) }

func (r *rig) daemonSendsRaw(body []byte) {
	r.t.Helper()
	r.conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := r.conn.Write(wire.AppendFrame(nil, binary.LittleEndian, body)); err != nil {
		r.t.Fatalf("daemon: %v", err)
	}
}

func (r *rig) extensionSends(msg any) { r.t.Helper(); r.extensionSendsRaw(marshal(r.t, msg)) }

func (r *rig) extensionSendsRaw(body []byte) {
	r.t.Helper()
	if _, err := r.stdin.Write(wire.AppendFrame(nil, binary.NativeEndian, body)); err != nil {
		r.t.Fatalf("extension: %v", err)
	}
}

// extensionGets returns the next message, which must be of that type.
func (r *rig) extensionGets(want string) []byte {
	r.t.Helper()
	return gets(r.t, "extension", r.x, want)
}

func (r *rig) daemonGets(want string) []byte { r.t.Helper(); return gets(r.t, "daemon", r.d, want) }

func gets(t testing.TB, who string, from chan []byte, want string) []byte {
	t.Helper()
	select {
	case body, ok := <-from:
		if !ok {
			t.Fatalf("%s: the host closed the link, want %s", who, want)
		}
		if got, _ := wire.Type(body); got != want {
			t.Fatalf("%s got %.300s, want %s", who, body, want)
		}
		return body
	case <-time.After(patience):
		t.Fatalf("%s got nothing, want %s", who, want)
		return nil
	}
}

// silence checks that nothing comes for a while.
func silence(t testing.TB, who string, from chan []byte) {
	t.Helper()
	select {
	case body, ok := <-from:
		if ok {
			t.Fatalf("%s got %.300s, want nothing", who, body)
		}
	case <-time.After(100 * time.Millisecond):
	}
}

func marshal(t testing.TB, msg any) []byte {
	t.Helper()
	body, err := wire.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func into(t testing.TB, body []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(body, v); err != nil {
		t.Fatalf("%.300s: %v", body, err)
	}
}

// evaluate asks for a script under an epoch.
func (r *rig) evaluate(id core.ActionID, epoch core.Epoch) {
	r.t.Helper()
	r.daemonSends(wire.Action{Action: id, Epoch: epoch, Class: core.Write, DeadlineMs: 20000,
		Expect: core.Expect{Tab: 1, Document: "D1"}, Act: wire.Act{Verb: "evaluate", Expression: "1+1"}})
}

func (r *rig) getCmd() wire.Cmd {
	r.t.Helper()
	var c wire.Cmd
	into(r.t, r.extensionGets("cmd"), &c)
	return c
}

func (r *rig) getDone() wire.ActionDone {
	r.t.Helper()
	var d wire.ActionDone
	into(r.t, r.daemonGets("action.done"), &d)
	return d
}

// ok answers a step as the extension does when all is well.
func (r *rig) ok(c wire.Cmd, result string) {
	r.t.Helper()
	r.extensionSends(wire.CmdResult{Seq: c.Seq, OK: true, Dispatched: true,
		Observed: &core.Expect{Tab: 1, Document: "D1"}, Result: json.RawMessage(result)})
}

const two = `{"result":{"type":"number","value":2}}`

// rssMB reads the resident memory of a process.
func rssMB(t testing.TB, pid int) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return float64(kb) / 1024
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
