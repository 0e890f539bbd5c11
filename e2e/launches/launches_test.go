package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/e2e/manager"
	"sessiondock.dev/sessiondock/e2e/programs"
)

func TestMain(m *testing.M) { os.Exit(manager.RunTests(m, programs.Build)) }

// TestLaunchesLeaveNothing, a few times; make launches does it 200 times.
func TestLaunchesLeaveNothing(t *testing.T) {
	home := manager.Need(t)
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("NOT RUN: chromium is missing: make deps")
	}
	const n = 3
	r, err := run(t.Context(), home, n, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if r.Launches != n || len(r.Left) > 0 || r.Unclean > 0 || r.LaunchP50Ms == 0 || r.StopP50Ms == 0 {
		t.Errorf("%+v", r)
	}
}

// TestTheWatchSees each kind of thing that a launch could leave.
func TestTheWatchSees(t *testing.T) {
	home := manager.Need(t)
	p, err := manager.Install(home)
	must(t, err)
	t.Cleanup(func() { must(t, p.Remove(context.Background())) })
	dir := p.Paths.SlotDir(slot)
	profile, run, temp := filepath.Join(dir, "profile"), filepath.Join(p.Paths.Runtime, "slots", string(slot)), filepath.Join(p.Paths.Cache, "tmp", "x")
	for _, d := range []string{profile, run, temp} {
		must(t, os.MkdirAll(d, 0o700))
	}
	lock := filepath.Join(dir, "lock")
	must(t, os.WriteFile(lock, nil, 0o600))
	w, err := newWatch(t.Context(), p)
	must(t, err)
	if left, err := w.left(t.Context()); err != nil || len(left) > 0 {
		t.Fatalf("before anything was left: %v, %v", left, err)
	}

	sleep := exec.Command("sleep", "60")
	must(t, sleep.Start())
	t.Cleanup(func() { sleep.Process.Kill(); sleep.Wait() })
	l, err := net.Listen("unix", filepath.Join(run, "keeper.sock"))
	must(t, err)
	t.Cleanup(func() { l.Close() })
	must(t, os.Symlink("somebody-1", filepath.Join(profile, "SingletonLock")))
	held, err := os.Open(lock)
	must(t, err)
	t.Cleanup(func() { held.Close() })
	must(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))
	must(t, os.WriteFile(filepath.Join(temp, ".org.chromium.x"), nil, 0o600))
	must(t, manager.Systemctl("set-environment", "A=b")) // a change of the manager's that leaves nothing
	out, err := exec.Command("systemd-run", "--user", "--unit=sessiondock-left", "sleep", "60").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { must(t, manager.Systemctl("stop", "sessiondock-left.service")) })

	left, err := w.left(t.Context())
	must(t, err)
	for kind, n := range map[string]int{"process": 2, "socket": 2, "lock": 2, "temporary_file": 1, "unit": 1, "control_group": 1} {
		if len(left[kind]) != n {
			t.Errorf("%s: %v, want %d", kind, left[kind], n)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
