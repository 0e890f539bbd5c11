// Package systemd tests the supervisor of the user's service manager with a real
// manager, which is started for these tests.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/supervise"
	"sessiondock.dev/sessiondock/e2e/manager"
	"sessiondock.dev/sessiondock/e2e/programs"
	"sessiondock.dev/sessiondock/e2e/standin"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "keeper":
			os.Exit(supervise.KeeperMain(os.Args[2:]))
		case "dial": // stands for a host
			os.Exit(dial(os.Args[2]))
		}
	}
	os.Exit(manager.RunTests(m, programs.Build))
}

// fixture is a slot in directories of its own.
type fixture struct {
	t    testing.TB
	cfg  supervise.Config
	dir  string
	s    *supervise.Systemd
	slot core.SlotName
}

var launches atomic.Int64

func setup(t *testing.T, script string) *fixture {
	t.Helper()
	manager.Need(t)
	dir, err := os.MkdirTemp("/tmp", "sds")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: dir, slot: "my-shop"}
	if f.cfg, err = standin.Config(dir); err != nil {
		t.Fatal(err)
	}
	if err := standin.Write(f.cfg.Browser, script); err != nil {
		t.Fatal(err)
	}
	f.s = supervise.NewSystemd(f.cfg)
	t.Cleanup(func() {
		f.s.Close()
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "state", "slots", string(f.slot), "keeper.log"))
			t.Logf("keeper.log:\n%s", text)
		}
		os.RemoveAll(dir)
	})
	return f
}

func (f *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	f.t.Cleanup(cancel)
	return ctx
}

func (f *fixture) slotDir() string { return filepath.Join(f.cfg.Dirs.DataDir, "slots", string(f.slot)) }

func (f *fixture) spec() supervise.Spec {
	n := launches.Add(1)
	return supervise.Spec{Slot: f.slot, Launch: core.LaunchID(fmt.Sprintf("L%d-%d", os.Getpid(), n)), Generation: n,
		Secret: "s3cret", Display: "headless"}
}

// start starts a launch, and at the end of the test makes sure that it is gone.
func (f *fixture) start() core.Launch {
	f.t.Helper()
	spec := f.spec()
	id, err := f.s.Start(f.ctx(), spec)
	if err != nil {
		f.t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		f.t.Fatal(err)
	}
	l := core.Launch{ID: spec.Launch, Generation: spec.Generation, Identity: id, BootID: strings.TrimSpace(string(boot)), State: "running"}
	f.t.Cleanup(func() {
		s := supervise.NewSystemd(f.cfg)
		defer s.Close()
		if e := s.Stop(context.Background(), f.slot, l, supervise.StopNow); !e.Verified {
			f.t.Errorf("cannot be ended: %+v", e)
		}
		for _, p := range tagged(f.t, l.ID) {
			f.t.Errorf("left behind: %v", p)
		}
	})
	return l
}

// tagged finds living processes of a launch without the code under test.
func tagged(t testing.TB, l core.LaunchID) []peer.Proc {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var out []peer.Proc
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err != nil || !strings.Contains("\x00"+string(env), "\x00SESSIONDOCK_LAUNCH="+string(l)+"\x00") {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
		if p, err := peer.Read(pid); err == nil && !p.Dead {
			out = append(out, p)
		}
	}
	return out
}

func (f *fixture) mustEnd(e supervise.Ended, containment string) {
	f.t.Helper()
	if !e.Verified || e.Containment != containment || e.How == "" || len(e.Left) != 0 {
		f.t.Errorf("ended as %+v, want verified and %s", e, containment)
	}
}

func mustCode(t *testing.T, err error, code core.Code) *core.Error {
	t.Helper()
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Code != code || e.Hint == "" {
		t.Fatalf("got %v, want %s with a hint", err, code)
	}
	return e
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if err := standin.Eventually(ok); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// systemctl asks the manager, without the code under test.
func systemctl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemctl %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func kill(t testing.TB, pid int, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}
