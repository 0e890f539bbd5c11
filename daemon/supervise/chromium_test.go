package supervise

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/core"
)

// withChromium sets a slot up with the real browser, an extension that connects to
// its native host, and a host that writes down what it was given.
func withChromium(t testing.TB) *fixture {
	t.Helper()
	browser, err := chromium.Find("")
	if err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	f := setup(t, "")
	f.cfg.Browser = browser
	f.cfg.HostBinary = filepath.Join(f.dir, "host")
	host := fmt.Sprintf("#!/bin/sh\nenv > %[1]s/env\necho $$ > %[1]s/pid.new; mv %[1]s/pid.new %[1]s/pid\ncat >/dev/null\n", f.dir)
	if err := os.WriteFile(f.cfg.HostBinary, []byte(host), 0o700); err != nil {
		t.Fatal(err)
	}
	// Without a key the extension's ID is made from its path.
	sum := sha256.Sum256([]byte(filepath.Join(f.cfg.Dirs.DataDir, "extension", "b1")))
	f.cfg.ExtensionID = strings.Map(func(r rune) rune {
		n, _ := strconv.ParseInt(string(r), 16, 8)
		return 'a' + rune(n)
	}, hex.EncodeToString(sum[:16]))
	f.cfg.WriteExtension = func(dir string) error {
		for name, text := range map[string]string{
			"manifest.json": `{"manifest_version":3,"name":"t","version":"1","permissions":["nativeMessaging"],"background":{"service_worker":"w.js"}}`,
			"w.js":          `chrome.runtime.connectNative("dev.sessiondock.host")`,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	f.d = New(f.cfg)
	return f
}

func TestChromiumStartAdoptCleanStop(t *testing.T) {
	f := withChromium(t)
	s := f.spec()
	begin := time.Now()
	l := f.start(s)
	t.Logf("started after %v", time.Since(begin))
	eventually(t, "the host", func() bool { _, err := os.Stat(f.dir + "/pid"); return err == nil })
	t.Logf("host there after %v", time.Since(begin))

	env, err := os.ReadFile(f.dir + "/env")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SESSIONDOCK_SLOT=shop", "SESSIONDOCK_LAUNCH=" + string(l.ID), "SESSIONDOCK_SECRET=s3cret",
		"SESSIONDOCK_HOST_SOCKET=" + f.cfg.HostSocket} {
		if !strings.Contains("\n"+string(env), "\n"+want+"\n") {
			t.Errorf("the host was not given %s", want)
		}
	}
	text, err := os.ReadFile(f.dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	host, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	next := New(f.cfg)
	if _, err := next.Adopt(f.ctx(), f.slot, l); err != nil {
		t.Fatal(err)
	}
	if err := next.Owns(l, cred(host)); err != nil {
		t.Errorf("the browser's own host: %v", err)
	}
	for _, p := range tagged(t, l.ID) {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && (strings.Contains(string(args), "no-sandbox\x00") || strings.Contains(string(args), s.Secret)) {
			t.Errorf("arguments of %v: %q", p, args)
		}
	}

	begin = time.Now()
	e := next.Stop(f.ctx(), f.slot, l, StopClean)
	f.mustEnd(e)
	t.Logf("stopped after %v: %s", time.Since(begin), e.How)
	if !strings.Contains(e.How, "SIGINT") || !strings.Contains(e.How, "exit code 0") {
		t.Errorf("How %q", e.How)
	}
	if got := exitType(f.places().profile); got != "Normal" || !e.Clean {
		t.Errorf("exit_type %q, clean %v", got, e.Clean)
	}
}

// pipeClient is a client of pipe.sock.
type pipeClient struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

func (f *fixture) dialPipe() *pipeClient {
	f.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(f.places().run, "pipe.sock"))
	if err != nil {
		f.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &pipeClient{f.t, conn, bufio.NewReader(conn)}
}

// ask sends one command and returns its answer, past any events.
func (c *pipeClient) ask(id int, method string) string {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.conn, "{\"id\":%d,\"method\":%q}\x00", id, method); err != nil {
		c.t.Fatal(err)
	}
	for {
		msg, err := c.r.ReadString(0)
		if err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
		if strings.HasPrefix(msg, fmt.Sprintf(`{"id":%d,`, id)) {
			return msg
		}
	}
}

func TestChromiumPipeAndCrash(t *testing.T) {
	f := withChromium(t)
	s := f.spec()
	s.Debug = "pipe"
	l := f.start(s)
	c := f.dialPipe()
	if v := c.ask(1, "Browser.getVersion"); !strings.Contains(v, "Chrome/") {
		t.Errorf("version %q", v)
	}
	second := f.dialPipe()
	if _, err := second.r.ReadByte(); err == nil {
		t.Error("a second client was served")
	}
	second.conn.Close()
	// Leaving in the middle of a message harms neither the browser nor the next.
	if _, err := c.conn.Write([]byte(`{"id":2,"meth`)); err != nil {
		t.Fatal(err)
	}
	c.conn.Close()
	var again *pipeClient
	eventually(t, "the place of the first client", func() bool {
		again = f.dialPipe()
		fmt.Fprint(again.conn, "{\"id\":3,\"method\":\"Browser.getVersion\"}\x00")
		_, err := again.r.Peek(1)
		return err == nil
	})
	if n := pages(again.ask(4, "Target.getTargets")); n != 1 {
		t.Errorf("%d pages in a new profile", n)
	}
	// Chromium writes the session some seconds after a change.
	eventually(t, "a saved session", func() bool { return !fresh(f.places().profile) })
	time.Sleep(3 * time.Second)
	again.conn.Close()

	e := f.d.Stop(f.ctx(), f.slot, l, StopNow)
	f.mustEnd(e)
	if e.Clean {
		t.Error("a kill is called a clean end")
	}
	if _, _, locked := readLock(f.places().profile); !locked {
		t.Error("a killed browser leaves its lock; this one did not, so the test shows nothing")
	}

	s = f.spec()
	s.Debug = "pipe"
	l = f.start(s)
	c = f.dialPipe()
	eventually(t, "the tab of before the kill", func() bool { return pages(c.ask(5, "Target.getTargets")) > 0 })
	time.Sleep(time.Second)
	if n := pages(c.ask(6, "Target.getTargets")); n != 1 {
		t.Errorf("%d pages after a kill and a restart, want the one of before", n)
	}
	c.conn.Close()
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopClean))
}

func pages(answer string) int { return strings.Count(answer, `"type":"page"`) }

func TestChromiumThatCannotStart(t *testing.T) {
	for _, c := range []struct {
		name, script string
		code         core.Code
		says         string
	}{
		{"locked by another host", "exit 21", core.CodeConflict, "another host"},
		{"handed over", "exit 0", core.CodeConflict, "another browser"},
		{"broken", "echo missing library >&2; exit 127", core.CodeUnavailable, "127"},
		{"not a program", "", core.CodeUnavailable, "cannot be started"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t, polite)
			if err := os.WriteFile(f.cfg.Browser, []byte(preamble+c.script), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.script == "" {
				if err := os.WriteFile(f.cfg.Browser, []byte("#!/nowhere/sh\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			s := f.spec()
			_, err := f.d.Start(f.ctx(), s)
			e := mustCode(t, err, c.code)
			if !strings.Contains(e.Message, c.says) || e.Detail["verified_ended"] != true {
				t.Errorf("%v %v", e, e.Detail)
			}
			if c.name == "broken" && e.Detail["log"] != "missing library" {
				t.Errorf("log %q", e.Detail["log"])
			}
			// Nothing of it is in the way of the next.
			lock, err := takeLock(f.places().lock)
			if err != nil {
				t.Fatalf("the slot stays locked: %v", err)
			}
			lock.Close()
		})
	}
}

// BenchmarkLaunch measures from the launch to the connected host, of a slot that
// exists, with the supervisor and without.
func BenchmarkLaunch(b *testing.B) {
	bench := func(run func(f *fixture) (end func())) func(b *testing.B) {
		return func(b *testing.B) {
			f := withChromium(b)
			once := func() {
				os.Remove(f.dir + "/pid")
				b.StartTimer()
				end := run(f)
				eventually(b, "the host", func() bool { _, err := os.Stat(f.dir + "/pid"); return err == nil })
				b.StopTimer()
				end()
			}
			once() // makes the profile
			b.ResetTimer()
			for range b.N {
				once()
			}
		}
	}
	b.Run("plain", bench(func(f *fixture) func() {
		b.StopTimer()
		spec, err := f.d.prepare(f.spec())
		if err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
		cmd.Env = spec.Env
		b.StartTimer()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		return func() {
			cmd.Process.Signal(os.Interrupt)
			cmd.Wait()
			eventually(b, "the end", func() bool { return len(tagged(b, spec.Launch)) == 0 })
		}
	}))
	b.Run("supervised", bench(func(f *fixture) func() {
		s := f.spec()
		st, err := f.d.Start(f.ctx(), s)
		if err != nil {
			b.Fatal(err)
		}
		l := core.Launch{ID: s.Launch, Identity: st}
		return func() { f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopClean)) }
	}))
}
