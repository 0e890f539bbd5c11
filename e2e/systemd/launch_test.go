package systemd

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/supervise"
	"sessiondock.dev/sessiondock/e2e/manager"
	"sessiondock.dev/sessiondock/e2e/standin"
)

func TestALaunchIsAUnitOfItsOwn(t *testing.T) {
	f := setup(t, standin.Polite)
	l := f.start()
	if want := fmt.Sprintf("sessiondock-my-shop-g%d-%s.service", l.Generation, l.ID); l.Unit != want {
		t.Errorf("unit %s, want %s", l.Unit, want)
	}
	show := func(property string) string { return systemctl(t, "show", "--value", "-p", property, l.Unit) }
	for property, want := range map[string]string{
		"InvocationID": l.InvocationID, "ControlGroup": l.ControlGroup, "MainPID": strconv.Itoa(l.KeeperPID),
		"Slice": `sessiondock-my\x2dshop.slice`, "KillMode": "mixed", "KillSignal": "2", "Transient": "yes",
	} {
		if got := show(property); got != want || got == "" {
			t.Errorf("%s is %q, recorded is %q", property, got, want)
		}
	}
	if l.Containment != "full" || l.GroupID == 0 || l.CreatedUs == 0 || l.Browser != "Stand-in 1.0" || l.Extension != "b1" {
		t.Errorf("recorded: %+v", l.Identity)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(peer.GroupRoot, l.ControlGroup), &st); err != nil || st.Ino != l.GroupID {
		t.Errorf("the group's number is %d, recorded is %d (%v)", st.Ino, l.GroupID, err)
	}
	for _, p := range tagged(t, l.ID) {
		if path, err := peer.GroupPath(p.PID); err == nil && path != l.ControlGroup {
			t.Errorf("%v is in %s", p, path)
		}
	}
	e := f.s.Stop(f.ctx(), f.slot, l, supervise.StopClean)
	f.mustEnd(e, "full")
	if !strings.Contains(e.How, "SIGINT") {
		t.Errorf("How %q does not name the signal that sufficed", e.How)
	}
	if _, err := os.Stat(filepath.Join(peer.GroupRoot, l.ControlGroup)); err == nil {
		t.Error("the control group is left")
	}
	if state := show("LoadState"); state != "not-found" {
		t.Errorf("the unit is left: %s", state)
	}
	// The same end is told for ever, and the slot is free.
	f.mustEnd(f.s.Stop(f.ctx(), f.slot, l, supervise.StopNow), "full")
	_, err := f.s.Adopt(f.ctx(), f.slot, l)
	mustCode(t, err, core.CodeNotFound)
	f.mustEnd(f.s.Stop(f.ctx(), f.slot, f.start(), supervise.StopNow), "full")
}

func TestABrowserThatEndsByItself(t *testing.T) {
	f := setup(t, `sleep 300 & sleep 0.3; rm "$P/SingletonLock"; exit 3`+"\n")
	l := f.start()
	e := f.s.Wait(f.ctx(), f.slot, l)
	f.mustEnd(e, "full")
	if !strings.Contains(e.How, "exit code 3") {
		t.Errorf("How %q does not tell the exit code", e.How)
	}
	if left := tagged(t, l.ID); len(left) != 0 {
		t.Errorf("the browser's child outlived the launch: %v", left)
	}
}

func TestTheNextDaemonAdopts(t *testing.T) {
	f := setup(t, standin.Polite)
	l := f.start()
	next := supervise.NewSystemd(f.cfg)
	defer next.Close()
	id, err := next.Adopt(f.ctx(), f.slot, l)
	if err != nil || id != l.Identity {
		t.Fatalf("adopted %+v, %v; recorded %+v", id, err, l.Identity)
	}
	bare := core.Launch{ID: l.ID, BootID: l.BootID, Identity: core.Identity{Unit: l.Unit}} // the daemon died before it could record more
	id, err = next.Adopt(f.ctx(), f.slot, bare)
	id.Browser, id.Extension, id.Packaging = l.Browser, l.Extension, l.Packaging // these only the start can tell
	if err != nil || id != l.Identity {
		t.Fatalf("adopted %+v, %v; recorded %+v", id, err, l.Identity)
	}
	f.mustEnd(next.Stop(f.ctx(), f.slot, bare, supervise.StopNow), "full")
}

// TestAnotherInvocationIsLeftAlone: whoever started the unit anew has a unit of the same
// name; it is not the launch.
func TestAnotherInvocationIsLeftAlone(t *testing.T) { // I12
	f := setup(t, standin.Polite)
	l := f.start()
	stale := l
	stale.InvocationID = strings.Repeat("0", 32)
	next := supervise.NewSystemd(f.cfg)
	defer next.Close()
	if _, err := next.Adopt(f.ctx(), f.slot, stale); mustCode(t, err, core.CodeUnavailable).Message == "" {
		t.Error("no reason")
	}
	if e := next.Stop(f.ctx(), f.slot, stale, supervise.StopNow); e.Verified || !strings.Contains(e.How, "left alone") {
		t.Errorf("stopped as %+v", e)
	}
	stale = l
	stale.GroupID++
	if _, err := next.Adopt(f.ctx(), f.slot, stale); err == nil {
		t.Error("a control group of another number was adopted")
	}
	if _, err := next.Adopt(f.ctx(), f.slot, l); err != nil {
		t.Errorf("the launch did not survive: %v", err)
	}
}

// TestInactiveIsNotGone is C1: the manager has no record of the unit, and the group that
// was recorded has processes.
func TestInactiveIsNotGone(t *testing.T) {
	f := setup(t, standin.Polite)
	l := f.start()
	f.mustEnd(f.s.Stop(f.ctx(), f.slot, l, supervise.StopNow), "full")
	exec.Command("systemd-run", "--user", "--unit=app-survivor", "sleep", "300").Run()
	defer exec.Command("systemctl", "--user", "stop", "app-survivor").Run()
	path := systemctl(t, "show", "--value", "-p", "ControlGroup", "app-survivor")
	g, err := peer.GroupAt(path)
	if err != nil {
		t.Fatal(err)
	}
	l.ControlGroup, l.GroupID = g.Path, g.ID
	next := supervise.NewSystemd(f.cfg)
	defer next.Close()
	_, err = next.Adopt(f.ctx(), f.slot, l)
	e := mustCode(t, err, core.CodeUnavailable)
	if left := fmt.Sprint(e.Detail["left"]); !strings.Contains(left, "sleep") || !strings.Contains(left, "populated") {
		t.Errorf("left: %s", left)
	}
	f.mustEnd(next.Stop(f.ctx(), f.slot, l, supervise.StopNow), "full")
	eventually(t, "the survivor's end", func() bool { return systemctl(t, "show", "--value", "-p", "MainPID", "app-survivor") == "0" })
}

// TestNoManager is C8: without the manager nothing is called ended.
func TestNoManager(t *testing.T) {
	f := setup(t, standin.Polite)
	l := f.start()
	cfg := f.cfg
	cfg.Bus = "unix:path=/nowhere"
	lost := supervise.NewSystemd(cfg)
	defer lost.Close()
	_, err := lost.Adopt(f.ctx(), f.slot, l)
	mustCode(t, err, core.CodeUnavailable)
	if e := lost.Stop(f.ctx(), f.slot, l, supervise.StopNow); e.Verified {
		t.Errorf("stopped as %+v", e)
	}
	kill(t, l.KeeperPID, unix.SIGKILL)
	eventually(t, "the launch's end", func() bool { return len(tagged(t, l.ID)) == 0 })
	if e := lost.Wait(f.ctx(), f.slot, l); e.Verified || len(e.Left) == 0 {
		t.Errorf("waited for as %+v", e)
	}
	_, err = lost.Start(f.ctx(), f.spec())
	if e := mustCode(t, err, core.CodeUnavailable); e.Detail["verified_ended"] != true {
		t.Errorf("%v", e.Detail)
	}
}

func TestAKilledKeeper(t *testing.T) {
	f := setup(t, "trap '' INT TERM\nsetsid sleep 300 & \nwhile :; do sleep 1; done\n")
	l := f.start()
	ended := make(chan supervise.Ended, 1)
	go func() { ended <- f.s.Wait(f.ctx(), f.slot, l) }()
	time.Sleep(50 * time.Millisecond)
	kill(t, l.KeeperPID, unix.SIGKILL)
	f.mustEnd(<-ended, "weak") // descent can no longer be known
	if left := tagged(t, l.ID); len(left) != 0 {
		t.Errorf("the control group did not hold %v", left)
	}
}

func TestAStoppedKeeper(t *testing.T) {
	f := setup(t, "trap '' INT TERM\nwhile :; do sleep 1; done\n")
	l := f.start()
	kill(t, l.KeeperPID, unix.SIGSTOP) // the manager sends SIGCONT with its signal
	f.mustEnd(f.s.Stop(f.ctx(), f.slot, l, supervise.StopNow), "full")
}

func TestABrowserThatCannotStart(t *testing.T) {
	f := setup(t, "echo no library; exit 127\n")
	if err := os.WriteFile(f.cfg.Browser, []byte("#!/bin/sh\necho no library; exit 127\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	spec := f.spec()
	_, err := f.s.Start(f.ctx(), spec)
	if e := mustCode(t, err, core.CodeUnavailable); e.Detail["log"] != "no library" {
		t.Errorf("%v %v", e, e.Detail)
	}
	f.mustEnd(f.s.Stop(f.ctx(), f.slot, core.Launch{ID: spec.Launch, Identity: core.Identity{Unit: f.s.Unit(spec.Slot, spec.Generation, spec.Launch)}}, supervise.StopNow), "full")
	if err := standin.Write(f.cfg.Browser, standin.Polite); err != nil {
		t.Fatal(err)
	}
	f.start() // nothing is in the way
}

// TestWhoIsAttested: each peer that is not the launch's is refused for its own reason.
func TestWhoIsAttested(t *testing.T) {
	f := setup(t, `"$SDTEST" dial "$SDSOCK" & `+"\n"+standin.Polite)
	socket := filepath.Join(f.dir, "door")
	door, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SDTEST", exe)
	t.Setenv("SDSOCK", socket)
	accept := func() peer.Cred {
		t.Helper()
		door.SetDeadline(time.Now().Add(time.Minute))
		conn, err := door.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		cred, err := peer.FromConn(conn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(); cred.Close() })
		return cred
	}
	l := f.start()
	host := accept()
	if e := f.s.Owns(l, host); e != nil {
		t.Errorf("the launch's own host: %v", e)
	}
	f.slot = "other"
	other := f.start()
	stranger := accept()
	impostor := exec.Command(exe, "dial", socket)
	impostor.Env = append(os.Environ(), "SESSIONDOCK_LAUNCH="+string(l.ID))
	if err := impostor.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { impostor.Process.Kill(); impostor.Wait() }()
	outside := accept()
	renewed := l
	renewed.InvocationID = strings.Repeat("0", 32)
	for _, c := range []struct {
		name string
		l    core.Launch
		who  peer.Cred
		want string
	}{
		{"a host of another slot", l, stranger, "is in unit " + other.Unit + ", which is another launch's"},
		{"an impostor of the same uid", l, outside, "outside of the launch's unit"},
		{"a launch whose unit was started anew", renewed, host, "somebody else has started it anew"},
	} {
		if e := f.s.Owns(c.l, c.who); e == nil || e.Code != core.CodeDenied || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: %v, want %q", c.name, e, c.want)
		}
	}
	f.mustEnd(f.s.Stop(f.ctx(), "my-shop", l, supervise.StopNow), "full")
	if e := f.s.Owns(l, host); e == nil || !strings.Contains(e.Message, "has ended") {
		t.Errorf("a host of an ended launch: %v", e)
	}
}

// dial connects and stays.
func dial(socket string) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	conn.Read(make([]byte, 1))
	return 0
}

func TestChoice(t *testing.T) {
	f := setup(t, standin.Polite)
	ctx := context.Background()
	c, err := supervise.Choose(ctx, f.cfg, "")
	if err != nil || c.Name() != "systemd" || c.Why() != "" {
		t.Errorf("%v %v", c, err)
	}
	defer c.Close()
	// A launch outlives the choice.
	l := f.start()
	d, err := supervise.Choose(ctx, f.cfg, "direct")
	if err != nil || d.Name() != "direct" {
		t.Fatalf("%v %v", d, err)
	}
	defer d.Close()
	if _, err := d.Adopt(f.ctx(), f.slot, l); err != nil {
		t.Error(err)
	}
	f.mustEnd(d.Stop(f.ctx(), f.slot, l, supervise.StopClean), "full")
	for _, bus := range []string{"", "unix:path=/nowhere", "nonsense"} {
		cfg := f.cfg
		cfg.Bus = bus
		c, err := supervise.Choose(ctx, cfg, "")
		if err != nil || c.Name() != "direct" || !strings.Contains(c.Why(), "D-Bus session bus") {
			t.Errorf("bus %q: %v %v", bus, c.Why(), err)
		}
		_, err = supervise.Choose(ctx, cfg, "systemd")
		mustCode(t, err, core.CodeUnavailable)
	}
	_, err = supervise.Choose(ctx, f.cfg, "upstart")
	mustCode(t, err, core.CodeInvalid)
}

// TestEscapes plants a process that outlives its browser, in each known way. It is ended
// with the launch, or it is named and the end is unknown; it is never missed.
func TestEscapes(t *testing.T) {
	manager.Need(t)
	systemctl(t, "reset-failed")
	if out, err := exec.Command("systemd-run", "--user", "--unit=app-elsewhere", "sleep", "1000").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer exec.Command("systemctl", "--user", "stop", "app-elsewhere").Run()
	group := systemctl(t, "show", "--value", "-p", "ControlGroup", "app-elsewhere")
	for _, mode := range []supervise.StopMode{supervise.StopClean, supervise.StopNow} {
		for _, e := range standin.Escapes(group) {
			t.Run(string(mode)+"/"+e.Name, func(t *testing.T) {
				f := setup(t, "")
				if err := standin.WriteEscape(f.cfg.Browser, e); err != nil {
					t.Fatal(err)
				}
				l := f.start()
				escaped, err := standin.Escaped(f.slotDir())
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				said := f.s.Stop(f.ctx(), f.slot, l, mode)
				t.Logf("after %v: %s", time.Since(begin), said.How)
				if err := standin.Judge(e, said, escaped); err != nil {
					t.Error(err)
				}
				if !e.Foreign {
					return
				}
				if _, err := f.s.Adopt(f.ctx(), f.slot, l); err == nil {
					t.Error("adopted")
				} else if e := mustCode(t, err, core.CodeUnavailable); !strings.Contains(fmt.Sprint(e.Detail["left"]), "run-") {
					t.Errorf("left %v", e.Detail["left"])
				}
				kill(t, escaped.PID, unix.SIGKILL)
				eventually(t, "the end of what escaped", func() bool { return !standin.Runs(escaped) })
				systemctl(t, "reset-failed")
				f.mustEnd(f.s.Stop(f.ctx(), f.slot, l, mode), "full")
			})
		}
	}
}

// TestATaggedProcessIsFoundWithoutTheKeeper: one that keeps the launch's tag is found without
// the keeper, wherever it went.
func TestATaggedProcessIsFoundWithoutTheKeeper(t *testing.T) {
	f := setup(t, standin.Polite)
	l := f.start()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), "SESSIONDOCK_LAUNCH="+string(l.ID))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	kill(t, l.KeeperPID, unix.SIGKILL)
	if e := f.s.Wait(f.ctx(), f.slot, l); e.Verified || !strings.Contains(fmt.Sprint(e.Left), strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("waited for as %+v", e)
	}
	go cmd.Wait() // so that nothing is left of it once it has been killed
	f.mustEnd(f.s.Stop(f.ctx(), f.slot, l, supervise.StopNow), "weak")
}

// TestAStopWhileItIsPrepared: a launch whose unit is not there yet may still come up, as
// long as its slot is being prepared. It is called ended only after that.
func TestAStopWhileItIsPrepared(t *testing.T) {
	f := setup(t, standin.Polite)
	f.mustEnd(f.s.Stop(f.ctx(), f.slot, f.start(), supervise.StopNow), "full") // the slot is there
	l := core.Launch{ID: "L-prepared", Generation: 9}
	l.Unit = f.s.Unit(f.slot, l.Generation, l.ID)
	lock, err := os.Open(filepath.Join(f.slotDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	told := make(chan supervise.Ended, 1)
	go func() { told <- f.s.Stop(f.ctx(), f.slot, l, supervise.StopNow) }()
	select {
	case e := <-told:
		t.Fatalf("while it is being prepared: %+v", e)
	case <-time.After(2 * time.Second):
	}
	lock.Close()
	if e := <-told; !e.Verified || strings.Contains(e.How, "group is empty") {
		t.Errorf("afterwards: %+v", e)
	}
}
