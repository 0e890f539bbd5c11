package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func TestHello(t *testing.T) {
	r := newRig(t)
	r.start()
	got := r.accept()
	if got.Build == "" {
		t.Error("hello names no build")
	}
	got.Build = ""
	want := wire.HostHello{Version: wire.Version, Slot: "shop", Launch: "L1", Secret: "s3cret", Origin: origin}
	if got != want {
		t.Fatalf("hello %+v, want %+v", got, want)
	}
	r.welcome()
}

// What passes through is not touched: not its blanks, not its unknown members.
func TestPassesUnchanged(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(0)
	for _, body := range []string{
		`{"t":"poke","nonce":"n1"}`,
		"{ \"nonce\" : \"n1\",\n\"grease\":[{\"t\":\"fence\"},1e400,\"\\ud800\"], \"t\":\"ui\" }",
	} {
		r.daemonSendsRaw([]byte(body))
		if got := <-r.x; string(got) != body {
			t.Fatalf("to the extension: %s, want %s", got, body)
		}
	}
	for _, body := range []string{
		`{"t":"pull","nonce":"n1","ask":1}`,
		"{\"more\":{\"nonce\":\"other\"} ,\"t\":\"report\", \"nonce\":\"n1\"}",
	} {
		r.extensionSendsRaw([]byte(body))
		if got := <-r.d; string(got) != body {
			t.Fatalf("to the daemon: %s, want %s", got, body)
		}
	}
}

func TestDropsWhatIsNotOfThisLink(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(0)
	for _, body := range []string{
		`{"t":"hello","nonce":"n0"}`, `{"t":"hello"}`, `{"t":"grant","nonce":"n1"}`, `{"t":"nonsense","nonce":"n1"}`,
		`{"t":"report","nonce":"n0","nonce":"n1"}`, `[]`, `{"t":`, `{"t":"report","nonce":"n1"} {}`,
	} {
		r.extensionSendsRaw([]byte(body))
	}
	silence(t, "daemon", r.d)
	for _, body := range []string{
		`{"t":"ui","nonce":"n0"}`, `{"t":"cmd","nonce":"n1"}`, `{"t":"nonsense","nonce":"n1"}`, `{"t":"grant","nonce":"n0","epoch":5}`,
	} {
		r.daemonSendsRaw([]byte(body))
	}
	silence(t, "extension", r.x)
	// The link lives, and the grant of another link opened nothing.
	r.evaluate("a", 5)
	if d := r.getDone(); d.State != "refused" || d.Error.Code != core.CodeFenced {
		t.Fatalf("%+v", d)
	}
}

// TestSecondGate fails if the host passes on what only the other two gates would
// stop: here there is no other gate.
func TestSecondGate(t *testing.T) {
	refused := func(t *testing.T, r *rig, id core.ActionID, epoch core.Epoch) {
		t.Helper()
		r.evaluate(id, epoch)
		d := r.getDone()
		if d.Action != id || d.State != "refused" || d.Error.Code != core.CodeFenced || d.Steps.Dispatched != 0 {
			t.Fatalf("epoch %d: %+v, error %v", epoch, d, d.Error)
		}
		if d.Error.Detail["epoch"] == nil || d.Error.Detail["your_epoch"] == nil {
			t.Fatalf("the refusal does not name both epochs: %v", d.Error.Detail)
		}
		silence(t, "extension", r.x)
	}
	t.Run("another epoch", func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.link(0)
		refused(t, r, "before any grant", 7)
		r.grant(7)
		for i, epoch := range []core.Epoch{6, 8, 0, core.MaxEpoch, core.MaxEpoch + 1, 1<<64 - 1} {
			refused(t, r, core.ActionID(fmt.Sprint("r", i)), epoch)
		}
		// Nothing of that moved the gate.
		r.evaluate("good", 7)
		r.ok(r.getCmd(), two)
		if d := r.getDone(); d.State != "finished" || string(d.Result) != `{"value":2}` {
			t.Fatalf("%+v", d)
		}
	})
	t.Run("a fence", func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.link(7)
		r.evaluate("open", 7)
		c := r.getCmd()
		r.daemonSends(wire.Fence{Nonce: r.nonce, Epoch: 8, Person: true})
		begun := time.Now()
		d := r.getDone()
		if took := time.Since(begun); took > 200*time.Millisecond {
			t.Errorf("a fenced action ended after %v", took)
		}
		if d.State != "halted" || d.Error.Code != core.CodeOutcomeUnknown || d.Steps != (core.Steps{Dispatched: 1, Total: 1}) {
			t.Fatalf("%+v, error %v", d, d.Error)
		}
		if want := "epoch 7 has ended; the slot is at epoch 8; 1 of 1 steps had been dispatched"; d.Error.Message != want {
			t.Errorf("the reason is %q, want %q", d.Error.Message, want)
		}
		if got := d.Error.Detail; got["epoch"] != 8.0 || got["your_epoch"] != 7.0 {
			t.Errorf("the detail is %v", got)
		}
		r.extensionGets("fence")
		r.ok(c, two) // too late: dropped
		refused(t, r, "old", 7)
		refused(t, r, "new, not granted", 8)
		r.daemonSends(wire.Grant{Nonce: r.nonce, Epoch: 7, TTLMs: 15000}) // a stale grant
		refused(t, r, "after a stale grant", 7)
	})
	t.Run("a probe", func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.link(7)
		look := func(epoch core.Epoch) {
			r.daemonSends(wire.Probe{Nonce: r.nonce, Probe: "p", Epoch: epoch, URL: "https://shop.example/me", Selector: "#email", WaitMs: 1000})
		}
		for _, epoch := range []core.Epoch{6, 8, 0, core.MaxEpoch + 1} {
			look(epoch)
		}
		silence(t, "extension", r.x)
		look(7) // the holder's
		r.extensionGets("probe")
		r.daemonSends(wire.Fence{Nonce: r.nonce, Epoch: 8})
		r.extensionGets("fence")
		look(7)
		silence(t, "extension", r.x)
		look(8) // nobody's: no grant is needed
		r.extensionGets("probe")
	})
	t.Run("the steps of a fenced action", func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.link(7)
		r.daemonSends(wire.Action{Action: "c", Epoch: 7, DeadlineMs: 20000, Expect: core.Expect{Tab: 1, Document: "D1"},
			Act: wire.Act{Verb: "click", Selector: "#save"}})
		r.ok(r.getCmd(), `{"frameTree":{"frame":{"id":"F"}}}`)
		r.ok(r.getCmd(), `{"executionContextId":4}`)
		find := r.getCmd()
		r.daemonSends(wire.Fence{Nonce: r.nonce, Epoch: 8})
		r.extensionGets("fence")
		r.ok(find, `{"result":{"type":"object","value":{"ok":true,"x":1,"y":2,"n":1}}}`)
		d := r.getDone()
		if d.State != "refused" || d.Error.Code != core.CodeFenced || d.Steps != (core.Steps{Total: 3}) {
			t.Fatalf("%+v, error %v", d, d.Error)
		}
		silence(t, "extension", r.x)
	})
	t.Run("a lost daemon", func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.link(7)
		r.conn.Close()
		r.extensionGets("link")
		r.link(0)
		refused(t, r, "of the former link", 7)
	})
}

// A fence goes before waiting steps, and between the chunks of a large one.
func TestFenceOvertakesALargeStep(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	big := strings.Repeat("x", 12<<20)
	r.daemonSends(wire.Action{Action: "big", Epoch: 7, DeadlineMs: 20000, Expect: core.Expect{Tab: 1, Document: "D1"},
		Act: wire.Act{Verb: "evaluate", Expression: big}})
	r.daemonSends(wire.Fence{Nonce: r.nonce, Epoch: 8})
	// The joiner gives the plain fence out before the large message is whole, or the
	// step was withheld and never comes.
	r.extensionGets("fence")
	if d := r.getDone(); d.Error == nil || d.State == "finished" || (d.State == "refused") != (d.Error.Code == core.CodeFenced) {
		t.Fatalf("%+v", d)
	}
}

func TestDaemonLost(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	r.evaluate("taken", 7)
	r.ok(r.getCmd(), two)
	r.getDone()
	r.evaluate("forgotten", 7)
	r.ok(r.getCmd(), two)
	r.getDone()
	r.daemonSends(wire.Forget{Nonce: r.nonce, Actions: []core.ActionID{"forgotten"}})
	r.extensionGets("forget")
	r.evaluate("open", 7)
	c := r.getCmd()
	r.listener.Close()
	r.conn.Close()
	var down wire.Link
	begun := time.Now()
	into(t, r.extensionGets("link"), &down)
	if took := time.Since(begun); down.Up || down.Error == nil || down.Error.Hint == "" || took > 100*time.Millisecond {
		t.Fatalf("%+v after %v", down, took)
	}
	r.ok(c, two) // nobody waits for it any more
	// A daemon that is away for a while is one more message, not one a try.
	into(t, r.extensionGets("link"), &down)
	if down.Up {
		t.Fatalf("%+v", down)
	}
	time.Sleep(400 * time.Millisecond)
	silence(t, "extension", r.x)

	r.listen()
	r.link(0)
	var states []string
	for range 2 {
		d := r.getDone()
		states = append(states, string(d.Action)+" "+d.State)
		if d.State == "halted" && d.Error.Code != core.CodeOutcomeUnknown {
			t.Errorf("%s was dispatched, and is said to be %s", d.Action, d.Error.Code)
		}
		if d.Result != nil {
			t.Errorf("%s: a result outlived its link: %s", d.Action, d.Result)
		}
	}
	if got := strings.Join(states, ", "); got != "taken finished, open halted" {
		t.Fatalf("on the new link: %s", got)
	}
	// The same action is not run a second time.
	r.grant(9)
	r.daemonSends(wire.Action{Action: "open", Epoch: 9, Act: wire.Act{Verb: "evaluate", Expression: "1"}})
	if d := r.getDone(); d.Action != "open" || d.State != "halted" {
		t.Fatalf("%+v", d)
	}
	silence(t, "extension", r.x)
}

func TestAnActionRunsOnce(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	r.evaluate("a", 7)
	c := r.getCmd()
	r.evaluate("a", 7) // running: not a second time
	silence(t, "extension", r.x)
	r.ok(c, two)
	r.getDone()
	r.daemonSends(wire.Forget{Nonce: r.nonce, Actions: []core.ActionID{"a"}})
	r.extensionGets("forget")
	r.evaluate("a", 7)
	if d := r.getDone(); d.State != "unknown" || d.Error.Code != core.CodeOutcomeUnknown {
		t.Fatalf("%+v", d)
	}
	silence(t, "extension", r.x)
}

func TestMalformedActionIsAnswered(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	for id, body := range map[core.ActionID]string{
		"m1": `{"t":"action","action":"m1","epoch":-1,"act":{"verb":"click"}}`,
		"m2": `{"t":"action","action":"m2","epoch":7,"deadline_ms":9,"act":{"verb":"fly"}}`,
		"m3": `{"t":"action","action":"m3","epoch":7,"deadline_ms":9,"act":{"verb":"click"}}`,
		"m4": `{"t":"action","action":"m4","epoch":7,"deadline_ms":"soon","act":{"verb":"click"}}`,
	} {
		r.daemonSendsRaw([]byte(body))
		want := core.Epoch(7)
		if id == "m1" {
			want = 0 // that is no number of an epoch
		}
		if d := r.getDone(); d.Action != id || d.Epoch != want || d.State != "refused" || d.Error.Code != core.CodeInvalid {
			t.Fatalf("%+v, error %v", d, d.Error)
		}
	}
}

func TestTooManyActions(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	for i := range 17 {
		r.evaluate(core.ActionID(fmt.Sprint(i)), 7)
	}
	if d := r.getDone(); d.Action != "16" || d.State != "refused" || d.Error.Code != core.CodeBusy {
		t.Fatalf("%+v", d)
	}
}

func TestBigMessages(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(0)
	for _, n := range []int{900 << 10, 1075 << 10, 4 << 20, 20 << 20} {
		data := strings.Repeat("é", n/2)
		down := []byte(`{"t":"ui","nonce":"n1","data":"` + data + `"}`)
		go r.daemonSendsRaw(down)
		if got := r.extensionGets("ui"); !bytes.Equal(got, down) {
			t.Fatalf("%d bytes to the extension: %d came", len(down), len(got))
		}
		up := []byte(`{"t":"report","nonce":"n1","data":"` + data + `"}`)
		go r.extensionSendsRaw(up)
		if got := r.daemonGets("report"); !bytes.Equal(got, up) {
			t.Fatalf("%d bytes to the daemon: %d came", len(up), len(got))
		}
	}
}

// TestMemory sees that a large message does not stay. The host's budget, 16 MB, is
// measured by make bench; what is resident at an instant is partly the kernel's affair,
// so here the bound is what one kept copy of the picture would break.
func TestMemory(t *testing.T) {
	const budgetMB = 32
	r := newRig(t)
	r.start()
	r.link(7)
	begun := time.Now()
	for i := range 1000 {
		r.evaluate(core.ActionID(fmt.Sprint("a", i)), 7)
		r.ok(r.getCmd(), two)
		if d := r.getDone(); d.State != "finished" {
			t.Fatalf("%+v", d)
		}
	}
	t.Logf("%v an action, test at both ends", time.Since(begun)/1000)
	r.daemonSends(wire.Action{Action: "shot", Epoch: 7, DeadlineMs: 20000, Act: wire.Act{Verb: "screenshot"}})
	c := r.getCmd()
	picture := strings.Repeat("A", 20<<20/3*4)
	go r.extensionSendsRaw([]byte(fmt.Sprintf(`{"t":"cmd.result","seq":%d,"ok":true,"dispatched":true,"result":{"data":"%s"}}`, c.Seq, picture)))
	d := r.getDone()
	var got struct{ Mime, Data string }
	into(t, d.Result, &got)
	if d.State != "finished" || got.Mime != "image/png" || got.Data != picture {
		t.Fatalf("%s, %s, %d bytes", d.State, got.Mime, len(got.Data))
	}
	var rss float64
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if rss = rssMB(t, r.cmd.Process.Pid); rss <= budgetMB {
			break
		}
	}
	t.Logf("%.1f MB resident after 1,000 actions and a picture of 20 MB", rss)
	if rss > budgetMB {
		t.Errorf("the host holds %.1f MB, at most %d", rss, budgetMB)
	}
}

func TestNotFromASlot(t *testing.T) {
	r := newRig(t)
	r.start("HOME=/nonexistent")
	var down wire.Link
	into(t, r.extensionGets("link"), &down)
	if down.Up || down.Error == nil || down.Error.Code != core.CodeUnavailable || down.Error.Hint == "" {
		t.Fatalf("%+v", down)
	}
	silence(t, "extension", r.x)
	select {
	case err := <-r.exited:
		t.Fatalf("the host ended: %v", err)
	default:
	}
	r.endsWithInput(0)
}

// endsWithInput closes the browser's end and expects the host to be gone.
func (r *rig) endsWithInput(code int) {
	r.t.Helper()
	begun := time.Now()
	r.stdin.Close()
	r.endsWithin(begun, 100*time.Millisecond, code)
}

func (r *rig) endsWithin(begun time.Time, limit time.Duration, code int) {
	r.t.Helper()
	for range r.x { //nolint:revive // drained, so that the reader comes to the end
	}
	select {
	case <-r.exited:
		if took := time.Since(begun); took > limit {
			r.t.Errorf("the host ended after %v, want %v at most", took, limit)
		}
		if got := r.cmd.ProcessState.ExitCode(); got != code {
			r.t.Errorf("exit code %d, want %d", got, code)
		}
	case <-time.After(patience):
		r.t.Fatal("the host did not end")
	}
}

func TestEndsWithTheBrowser(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	r.evaluate("open", 7)
	r.getCmd()
	r.endsWithInput(0)
	if d := r.getDone(); d.State != "halted" || d.Error.Code != core.CodeOutcomeUnknown {
		t.Fatalf("%+v", d)
	}
}

// The browser's process ends while something else holds the pipe open.
func TestEndsWithItsParent(t *testing.T) {
	r := newRig(t)
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer hold.Close()
	parent := exec.Command("/bin/sh", "-c", `"$0" x <&3 >/dev/null & echo $!; wait`, hostProgram)
	parent.Env = []string{"SESSIONDOCK_SLOT=shop", "SESSIONDOCK_LAUNCH=L1", "SESSIONDOCK_SECRET=s", "SESSIONDOCK_HOST_SOCKET=" + r.socket()}
	parent.ExtraFiles = []*os.File{in}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	fmt.Fscan(out, &pid)
	r.accept()
	parent.Process.Kill()
	parent.Wait()
	// The link closes with the process that held it.
	select {
	case _, open := <-r.d:
		if open {
			t.Fatal("the host sent something")
		}
	case <-time.After(patience):
		syscall.Kill(pid, syscall.SIGKILL)
		t.Fatal("the host outlived its parent")
	}
}

func TestBadFrameEndsTheHost(t *testing.T) {
	for name, in := range map[string][]byte{
		"length 0":           {0, 0, 0, 0},
		"length 2^32-1":      {0xff, 0xff, 0xff, 0xff},
		"chunk out of order": wire.AppendFrame(nil, binary.NativeEndian, []byte(`{"t":"chunk","id":1,"index":1,"total":2,"data":""}`)),
		"noise":              []byte("Warning: something\n"),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.start()
			r.link(7)
			begun := time.Now()
			r.stdin.Write(in)
			var down wire.Link
			into(t, r.extensionGets("link"), &down)
			if down.Up || down.Error == nil {
				t.Fatalf("%+v", down)
			}
			r.endsWithin(begun, time.Second, 1)
		})
	}
}

func TestDaemonIsChecked(t *testing.T) {
	tests := map[string]func(t *testing.T, r *rig) string{
		"directory open to others": func(t *testing.T, r *rig) string {
			if err := os.Chmod(r.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			return r.socket()
		},
		"directory is a link": func(t *testing.T, r *rig) string {
			link := filepath.Join(filepath.Dir(r.dir), "link")
			if err := os.Symlink(r.dir, link); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(link, "host.sock")
		},
		"directory of another user": func(t *testing.T, r *rig) string {
			if os.Geteuid() != 0 {
				notRun(t, "only root can give a directory away")
			}
			if err := os.Chown(r.dir, 1, -1); err != nil {
				t.Fatal(err)
			}
			return r.socket()
		},
		"not absolute": func(t *testing.T, r *rig) string { return "host.sock" },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			socket := prepare(t, r)
			r.start("SESSIONDOCK_SLOT=shop", "SESSIONDOCK_LAUNCH=L1", "SESSIONDOCK_SECRET=s3cret", "SESSIONDOCK_HOST_SOCKET="+socket)
			var down wire.Link
			into(t, r.extensionGets("link"), &down)
			if down.Up || down.Error.Code != core.CodeDenied {
				t.Fatalf("%+v", down)
			}
			r.listener.SetDeadline(time.Now().Add(300 * time.Millisecond))
			if _, err := r.listener.Accept(); err == nil {
				t.Fatal("the host connected all the same")
			}
		})
	}
}

func notRun(t *testing.T, why string) {
	t.Helper()
	fmt.Printf("NOT RUN: %s: %s\n", t.Name(), why)
	if os.Getenv("CI") == "true" {
		t.Fatalf("NOT RUN: %s", why)
	}
	t.Skip("NOT RUN: " + why)
}

func TestRefused(t *testing.T) {
	r := newRig(t)
	r.start()
	r.accept()
	r.daemonSends(wire.HostRefused{Error: *core.Refuse(core.CodeVersionSkew, "host of another build", "sessiondock install")})
	r.conn.Close()
	var down wire.Link
	into(t, r.extensionGets("link"), &down)
	if down.Up || down.Error.Code != core.CodeVersionSkew || down.Error.Hint != "sessiondock install" {
		t.Fatalf("%+v", down)
	}
	r.extensionGets("host.refused")
	r.listener.SetDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := r.listener.Accept(); err == nil {
		t.Fatal("the host asked again although it is of another build")
	}
}

func FuzzReadHead(f *testing.F) {
	f.Add([]byte(`{"t":"report","nonce":"n"}`))
	f.Add([]byte(`{"nonce":"n","x":[{"t":1}],"t":"a"} `))
	f.Add([]byte(`{"t":"a","t":"b"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := readHead(body)
		if err != nil {
			return
		}
		// What is accepted must read the same to any other reader of JSON.
		var want map[string]json.RawMessage
		if json.Unmarshal(body, &want) != nil {
			t.Fatalf("%q was taken and is no JSON object", body)
		}
		var name string
		if json.Unmarshal(want["t"], &name) != nil || name != got.t {
			t.Fatalf("%q: type %q, want %q", body, got.t, name)
		}
	})
}
