package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// TestMain makes this program a keeper, or enter, when it is started as one. Browsers are
// not started as root, so root runs the tests as a uid that nobody uses; that it
// has no name in the password file is part of the test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(KeeperMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "enter" {
		os.Exit(EnterMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "hide" {
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	if len(os.Args) > 1 && (os.Args[1] == "stay" || os.Args[1] == "listen") {
		os.Exit(plant(os.Args[1]))
	}
	if os.Geteuid() == 0 {
		os.Exit(asOrdinaryUser())
	}
	os.Exit(m.Run())
}

// plant stands for a process of a browser that can be driven round the fence. It says
// beside the profile that it is ready.
func plant(what string) int {
	if what == "listen" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 1
		}
		defer l.Close()
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("P"), "..", "settled"), nil, 0o600); err != nil {
		return 1
	}
	time.Sleep(time.Minute)
	return 0
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func asOrdinaryUser() int {
	uid := uint32(61000 + os.Getpid()%4000)
	dir, err := os.MkdirTemp("/tmp", "sdsup")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "supervise.test")
	if err := errors.Join(copyFile(binary, "/proc/self/exe"), os.Chmod(binary, 0o755), os.Chown(dir, int(uid), int(uid))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var args []string
	for _, a := range os.Args[1:] {
		if !strings.HasPrefix(a, "-test.testlogfile=") { // root's, not writable there
			args = append(args, a)
		}
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "XDG_RUNTIME_DIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "as uid %d: %v\n", uid, err)
		return 1
	}
	return 0
}

func copyFile(to, from string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// preamble makes a shell script behave like a browser as far as the supervisor
// looks: it says its version and locks its profile. A script that has traps to set says
// lock when it has: from then on it counts as started.
const preamble = `#!/bin/sh
for a in "$@"; do case $a in
--version) echo "Stand-in 1.0"; exit 0;;
--user-data-dir=*) export P=${a#*=};;
esac; done
lock() { ln -s "$(uname -n)-$$" "$P/SingletonLock"; }
`

// fixture is a slot in directories of its own.
type fixture struct {
	t    testing.TB
	cfg  Config
	dir  string
	d    *Direct
	slot core.SlotName
}

var launches atomic.Int64

// setup makes a fixture. At the end of the test no goroutine and no process of
// its launches may be left.
func setup(t testing.TB, script string) *fixture {
	t.Helper()
	before := runtime.NumGoroutine()
	dir, err := os.MkdirTemp("/tmp", "sds")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: dir, slot: "shop"}
	f.cfg = Config{
		Dirs: Dirs{
			DataDir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "run"),
			StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
		},
		HostBinary: "/bin/false", KeeperBinary: exe, HostSocket: filepath.Join(dir, "run", "host.sock"),
		ExtensionID: "abcdefghijklmnopabcdefghijklmnop", ExtensionBuild: "b1",
		WriteExtension: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "manifest.json"),
				[]byte(`{"manifest_version":3,"name":"stand-in","version":"1"}`), 0o600)
		},
	}
	if !strings.Contains(script, "lock\n") {
		script = "lock\n" + script
	}
	if script != "lock\n" {
		f.cfg.Browser = filepath.Join(dir, "browser")
		if err := os.WriteFile(f.cfg.Browser, []byte(preamble+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f.d = New(f.cfg)
	t.Cleanup(func() {
		if t.Failed() {
			for _, log := range []string{"keeper.log", "browser.log"} {
				t.Logf("%s:\n%s", log, tail(filepath.Join(f.cfg.Dirs.StateDir, "slots", "shop", log)))
			}
		}
		for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				buf := make([]byte, 1<<20)
				t.Errorf("goroutines are left: %s", buf[:runtime.Stack(buf, true)])
				break
			}
		}
		os.RemoveAll(dir)
	})
	return f
}

func (f *fixture) places() places { return f.cfg.Dirs.places(f.slot) }

func (f *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), 60*time.Second)
	f.t.Cleanup(cancel)
	return ctx
}

func (f *fixture) spec() Spec {
	n := launches.Add(1)
	return Spec{Slot: f.slot, Launch: core.LaunchID(fmt.Sprintf("L%d-%d", os.Getpid(), n)), Generation: n,
		Secret: "s3cret", Display: "headless"}
}

// start starts a launch, and at the end of the test makes sure that it is gone.
func (f *fixture) start(s Spec) core.Launch {
	f.t.Helper()
	st, err := f.d.Start(f.ctx(), s)
	if err != nil {
		var e *core.Error
		if errors.As(err, &e) {
			f.t.Logf("detail: %v", e.Detail)
		}
		f.t.Fatal(err)
	}
	if st.Containment != "weak" || st.KeeperPID == 0 || st.KeeperStart == 0 || st.Browser == "" || st.Extension == "" {
		f.t.Errorf("started as %+v", st)
	}
	boot, err := bootID()
	if err != nil {
		f.t.Fatal(err)
	}
	l := core.Launch{ID: s.Launch, Generation: s.Generation, Identity: st, BootID: boot}
	f.t.Cleanup(func() {
		New(f.cfg).Stop(context.Background(), f.slot, l, StopNow)
		for _, p := range tagged(f.t, l.ID) {
			f.t.Errorf("left behind: %v", p)
		}
	})
	return l
}

// tagged finds living processes of a launch without the code under test: all
// that have its tag in their environment.
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

func (f *fixture) mustEnd(e Ended) {
	f.t.Helper()
	if !e.Verified || e.Containment != "weak" || e.How == "" || len(e.Left) != 0 {
		f.t.Errorf("ended as %+v", e)
	}
}

// adopt drops what an adoption that must fail has found.
func adopt(_ core.Identity, err error) error { return err }

// cred is what Direct looks at of a peer.
func cred(pid int) peer.Cred { return peer.Cred{PID: pid} }

func mustCode(t *testing.T, err error, code core.Code) *core.Error {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) || e.Code != code || e.Hint == "" {
		t.Fatalf("got %v, want %s with a hint", err, code)
	}
	return e
}

// eventually waits for something that another process does.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// startIn starts a process of no launch in a directory.
func startIn(t *testing.T, dir string) peer.Proc {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	p, err := peer.Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
