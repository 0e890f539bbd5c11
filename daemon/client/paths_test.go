package client

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

func env(vars map[string]string) func(string) string {
	return func(k string) string { return vars[k] }
}

func TestPathsFollowXDG(t *testing.T) {
	p, err := FindPaths(env(map[string]string{
		"HOME": "/home/u", "XDG_STATE_HOME": "/state", "XDG_DATA_HOME": "relative", "XDG_RUNTIME_DIR": "/run/u",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		p.Config:          "/home/u/.config/sessiondock",
		p.Database():      "/state/sessiondock/sessiondock.db",
		p.SlotDir("shop"): "/home/u/.local/share/sessiondock/slots/shop", // a relative value counts as unset
		p.Cache:           "/home/u/.cache/sessiondock",
		p.ControlSocket(): "/run/u/sessiondock/control.sock",
		p.APISocket():     "/run/u/sessiondock/api/api.sock",
		p.HostSocket():    "/run/u/sessiondock/host.sock",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if p.RuntimeFallback {
		t.Error("XDG_RUNTIME_DIR was set")
	}
}

func TestPathsWithoutRuntimeDir(t *testing.T) {
	p, err := FindPaths(env(map[string]string{"HOME": "/home/u"}))
	if err != nil {
		t.Fatal(err)
	}
	uid := os.Getuid()
	want := fmt.Sprintf("/tmp/sessiondock-%d", uid)
	if checkOwnDir(fmt.Sprintf("/run/user/%d", uid)) == nil {
		want = fmt.Sprintf("/run/user/%d/sessiondock", uid)
	}
	if p.Runtime != want || p.RuntimeFallback != strings.HasPrefix(want, "/tmp") {
		t.Errorf("%s (fallback %v), want %s", p.Runtime, p.RuntimeFallback, want)
	}
}

func TestPathsRefusals(t *testing.T) {
	_, err := FindPaths(env(nil))
	wantCode(t, err, core.CodeInvalid)

	// control.sock is the longest: 107 bytes pass, 108 do not.
	room := MaxSocketPath - len("/sessiondock/control.sock")
	if _, err := FindPaths(env(map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": "/" + strings.Repeat("r", room-1)})); err != nil {
		t.Error(err)
	}
	_, err = FindPaths(env(map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": "/" + strings.Repeat("r", room)}))
	wantCode(t, err, core.CodeLimit)
}

func TestCheckRuntimeRefusesAnOpenOrForeignDirectory(t *testing.T) {
	base := t.TempDir()
	p := Paths{Runtime: filepath.Join(base, "ok")}
	for range 2 { // it may exist already
		if err := p.CheckRuntime(); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Dir(p.APISocket())); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
	if err := os.Symlink(p.Runtime, filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	wantCode(t, Paths{Runtime: filepath.Join(base, "link")}.CheckRuntime(), core.CodeDenied)
	if err := os.Chmod(p.Runtime, 0o755); err != nil {
		t.Fatal(err)
	}
	wantCode(t, p.CheckRuntime(), core.CodeDenied)
	if os.Getuid() == 0 {
		if err := os.Chmod(p.Runtime, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p.Runtime, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		wantCode(t, p.CheckRuntime(), core.CodeDenied)
	}
}

// listenEnv makes this test binary listen at a socket until a signal ends it.
const listenEnv = "SESSIONDOCK_TEST_LISTEN"

func TestMain(m *testing.M) {
	if socket := os.Getenv(listenEnv); socket != "" {
		if _, err := net.Listen("unix", socket); err != nil {
			panic(err)
		}
		time.Sleep(time.Minute)
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func TestPeerProcessEndsTheListenerAndNoOther(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), listenEnv+"="+socket)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Process.Kill()
	var p *Process
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if p, err = PeerProcess(t.Context(), socket); err == nil {
			break
		}
		wantCode(t, err, core.CodeUnavailable)
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	defer p.Close()
	if p.PID != child.Process.Pid {
		t.Fatalf("peer is %d, the child is %d", p.PID, child.Process.Pid)
	}
	wantCode(t, p.WaitGone(20*time.Millisecond), core.CodeDeadline)
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitGone(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() == 3 {
		t.Errorf("the child ended by itself: %v", child.ProcessState)
	}
}
