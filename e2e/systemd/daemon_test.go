package systemd

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/e2e/manager"
)

func install(t *testing.T, flags ...string) *manager.Product {
	t.Helper()
	home := manager.Need(t)
	p, err := manager.Install(home, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", p.Log())
			logs, _ := filepath.Glob(filepath.Join(p.Paths.State, "slots", "*", "*.log"))
			for _, path := range logs {
				text, _ := os.ReadFile(path)
				t.Logf("%s:\n%s", path, text)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

func ctx(t *testing.T) context.Context {
	c, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return c
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func show(t *testing.T, unit, property string) string {
	t.Helper()
	return systemctl(t, "show", "--value", "-p", property, unit)
}

func TestTheFirstRequestStartsTheDaemon(t *testing.T) {
	p := install(t)
	if s := show(t, "sessiondock.service", "ActiveState"); s != "inactive" {
		t.Fatalf("before the first request the service is %s", s)
	}
	begin := time.Now()
	h := must(p.Control.Health(ctx(t)))(t)
	t.Logf("answered after %v", time.Since(begin))
	if !h.OK || h.Supervisor != "systemd" || h.Why != "" {
		t.Errorf("%+v", h)
	}
	if s := show(t, "sessiondock.service", "ActiveState"); s != "active" {
		t.Errorf("the service is %s", s)
	}
}

func TestWithoutTheManagerTheReasonIsShown(t *testing.T) {
	p := install(t, "--supervisor", "direct")
	if h := must(p.Control.Health(ctx(t)))(t); h.Supervisor != "direct" || h.Why == "" {
		t.Errorf("%+v", h)
	}
}

// TestARestartLosesNoConnection: whoever connects while the daemon is away waits for the
// next one; and what the old one has accepted it answers.
func TestARestartLosesNoConnection(t *testing.T) {
	p := install(t)
	first := must(p.Control.Health(ctx(t)))(t).PID
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // each request is a connection
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", p.Paths.ControlSocket())
		},
	}, Timeout: 20 * time.Second}
	var group sync.WaitGroup
	var answered, lost atomic.Int64
	done := make(chan struct{})
	for range 6 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				resp, err := c.Get("http://localhost/v1/slots")
				if err != nil || resp.StatusCode != 200 {
					lost.Add(1)
					t.Errorf("lost: %v", err)
					return
				}
				resp.Body.Close()
				answered.Add(1)
			}
		})
	}
	for range 5 {
		systemctl(t, "restart", "sessiondock.service")
		now := answered.Load()
		eventually(t, "requests are answered", func() bool { return answered.Load() > now+20 || lost.Load() > 0 })
	}
	close(done)
	group.Wait()
	if last := must(p.Control.Health(ctx(t)))(t).PID; last == first {
		t.Error("it was never restarted")
	}
	t.Logf("%d answered, %d lost", answered.Load(), lost.Load())
}

// TestACrashLoopDoesNotEndTheSockets is C9's first half: a daemon that ends at every start
// is started again and again, and the request that waits is answered once it is mended.
func TestACrashLoopDoesNotEndTheSockets(t *testing.T) {
	p := install(t)
	if err := p.DropIn("[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=20ms\n"); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := p.Control.Health(ctx(t))
		answer <- err
	}()
	eventually(t, "many failed starts", func() bool { return len(show(t, "sessiondock.service", "NRestarts")) >= 2 }) // ten or more
	if s := show(t, "sessiondock.socket", "ActiveState"); s != "active" {
		t.Errorf("the socket is %s", s)
	}
	select {
	case err := <-answer:
		t.Fatalf("answered by nobody: %v", err)
	default:
	}
	if err := p.DropIn(""); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("after it was mended: %v", err)
	}
}

// TestWatchdog: a daemon that hangs is started anew; one whose disk hangs is not.
func TestWatchdog(t *testing.T) {
	p := install(t)
	if err := p.DropIn("[Service]\nWatchdogSec=3s\n"); err != nil {
		t.Fatal(err)
	}
	pid := must(p.Control.Health(ctx(t)))(t).PID
	time.Sleep(5 * time.Second)
	if h := must(p.Control.Health(ctx(t)))(t); h.PID != pid {
		t.Fatal("a daemon that works was ended")
	}
	kill(t, pid, unix.SIGSTOP)
	eventually(t, "another daemon", func() bool { return show(t, "sessiondock.service", "NRestarts") == "1" })
	next := must(p.Control.Health(ctx(t)))(t).PID
	if next == pid {
		t.Fatal("the same daemon")
	}
	strace := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-p", show(t, "sessiondock.service", "MainPID"),
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=5000000")
	if err := strace.Start(); err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	defer func() { strace.Process.Signal(unix.SIGINT); strace.Wait() }()
	eventually(t, "the tracer", func() bool {
		text, err := exec.Command("grep", "TracerPid", "/proc/"+show(t, "sessiondock.service", "MainPID")+"/status").Output()
		return err == nil && !strings.Contains(string(text), "\t0\n")
	})
	begin := time.Now()
	if _, err := p.Control.CreateSlot(ctx(t), wire.SlotRequest{Slot: "shop", Display: "headless"}); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d < 4*time.Second {
		t.Fatalf("the disk did not hang: %v", d)
	}
	if h := must(p.Control.Health(ctx(t)))(t); h.PID != next {
		t.Errorf("a daemon whose disk hung was ended: %d, then %d", next, h.PID)
	}
}

// TestAWayRoundTheFenceClosesTheSlot: in a real browser, within a second.
func TestAWayRoundTheFenceClosesTheSlot(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("NOT RUN: chromium is missing: make deps")
	}
	p := install(t)
	c := ctx(t)
	must(p.Control.CreateSlot(c, wire.SlotRequest{Slot: "shop", Display: "headless"}))(t)
	must(p.Control.Change(c, "shop", client.Start, wire.ChangeRequest{}))(t)
	eventually(t, "the browser", func() bool { return must(p.Control.Status(c, "shop"))(t).Local.Launch.Link == "up" })
	time.Sleep(2 * time.Second)
	if st := must(p.Control.Status(c, "shop"))(t); len(st.Quarantine) != 0 {
		t.Fatalf("a browser as it is started: %+v", st.Quarantine)
	}
	if err := os.WriteFile(filepath.Join(p.Paths.SlotDir("shop"), "profile", "DevToolsActivePort"), []byte("1\n/x"), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	eventually(t, "the quarantine", func() bool { return len(must(p.Control.Status(c, "shop"))(t).Quarantine) > 0 })
	t.Logf("closed after %v", time.Since(begin))
	if st := must(p.Control.Status(c, "shop"))(t); st.Offer.Available || !strings.Contains(st.Quarantine[0].Text, "DevToolsActivePort") {
		t.Errorf("%+v", st)
	}
	if _, err := p.Control.Change(c, "shop", client.LiftQuarantine, wire.ChangeRequest{Note: "looked"}); err == nil {
		t.Error("lifted while it is open")
	}
	must(p.Control.Change(c, "shop", client.Stop, wire.ChangeRequest{}))(t)
	eventually(t, "the browser's end", func() bool { return must(p.Control.Status(c, "shop"))(t).Local.Launch.State == "ended" })
	must(p.Control.Change(c, "shop", client.LiftQuarantine, wire.ChangeRequest{Note: "looked"}))(t)
}

// TestBrowsersOutliveTheDaemon: a real browser, adopted and attested again; its agent
// resumes at a higher epoch.
func TestBrowsersOutliveTheDaemon(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("NOT RUN: chromium is missing: make deps")
	}
	p := install(t)
	c := ctx(t)
	must(p.Control.CreateSlot(c, wire.SlotRequest{Slot: "shop", Display: "headless"}))(t)
	must(p.Control.Bind(c, wire.BindingRequest{BindingSpec: core.BindingSpec{Name: "demo", Slot: "shop", Account: "none"}}))(t)
	must(p.Control.Change(c, "shop", client.Start, wire.ChangeRequest{}))(t)
	given := must(p.Control.Delegate(c, "demo", wire.DelegateRequest{To: "a"}))(t)
	lease := must(p.API.Acquire(c, client.Secret(given.Token), wire.AcquireRequest{RequestID: client.NewID(), Binding: "demo", WaitMs: 60_000}))(t)
	capability := client.Secret(lease.Capability)
	look := func(epoch core.Epoch) {
		t.Helper()
		r := must(p.API.Act(c, lease.Lease, capability, wire.ActRequest{ID: core.ClientID(client.NewID()), Epoch: &epoch, Act: wire.Act{Verb: "tabs"}}))(t)
		if r.Local != core.Finished {
			t.Errorf("%+v", r)
		}
	}
	look(lease.Epoch)
	before := must(p.Control.Status(c, "shop"))(t).Local.Launch
	if before.Containment != "full" || before.Unit == "" || before.InvocationID == "" || before.Link != "up" {
		t.Errorf("%+v", before)
	}
	// Chromium would leave for a scope of its own if it could reach the bus.
	text, err := os.ReadFile(filepath.Join(peer.GroupRoot, show(t, before.Unit, "ControlGroup"), "cgroup.procs"))
	if n := len(strings.Fields(string(text))); err != nil || n < 6 {
		t.Errorf("%d processes in the launch's control group, %v", n, err)
	}
	for _, how := range []string{"restart", "kill"} {
		if how == "restart" {
			systemctl(t, "restart", "sessiondock.service")
		} else {
			old := show(t, "sessiondock.service", "MainPID")
			systemctl(t, "kill", "--signal=KILL", "sessiondock.service")
			eventually(t, "the daemon's end", func() bool { return show(t, "sessiondock.service", "MainPID") != old })
		}
		epoch := lease.Epoch
		lease = must(p.API.Resume(c, lease.Lease, capability, wire.ResumeRequest{WaitMs: 30_000}))(t)
		if lease.Epoch <= epoch {
			t.Errorf("%s: epoch %d after %d", how, lease.Epoch, epoch)
		}
		look(lease.Epoch)
		after := must(p.Control.Status(c, "shop"))(t).Local.Launch
		if after.InvocationID != before.InvocationID || after.State != "running" || after.Containment != "full" {
			t.Errorf("%s: %+v, was %+v", how, after, before)
		}
	}
	must(p.API.Release(c, lease.Lease, capability))(t)
	must(p.Control.Change(c, "shop", client.Stop, wire.ChangeRequest{}))(t)
	eventually(t, "the browser's end", func() bool {
		l := must(p.Control.Status(c, "shop"))(t).Local.Launch
		return l.State == "ended" && l.Containment == "full"
	})
	if units := systemctl(t, "list-units", "--all", "--no-legend", "sessiondock-*"); strings.Contains(units, ".service") {
		t.Errorf("left: %s", units)
	}
}
