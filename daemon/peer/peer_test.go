package peer

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// TestMain lets a test run this program as another process: one that connects to
// a socket and stays until its standard input ends.
func TestMain(m *testing.M) {
	if path := os.Getenv("PEER_TEST_DIAL"); path != "" {
		conn, err := net.Dial("unix", path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("connected")
		bufio.NewReader(os.Stdin).ReadByte()
		conn.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// shortDir returns a directory whose path leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sdpeer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// accept starts another process that connects, and returns our end.
func accept(t *testing.T) (*net.UnixConn, *exec.Cmd, func()) {
	t.Helper()
	path := filepath.Join(shortDir(t), "s")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "PEER_TEST_DIAL="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			stdin.Close()
			cmd.Wait()
		}
	}
	t.Cleanup(func() { end(); conn.Close() })
	return conn, cmd, end
}

func TestFromConnNamesTheProcess(t *testing.T) {
	conn, cmd, end := accept(t)
	c, err := FromConn(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.PID != cmd.Process.Pid || c.UID != os.Geteuid() {
		t.Errorf("got pid %d uid %d, want %d and %d", c.PID, c.UID, cmd.Process.Pid, os.Geteuid())
	}
	if p, err := Read(c.PID); err != nil || p.StartTime != c.StartTime {
		t.Errorf("start time %d, /proc says %d (%v)", c.StartTime, p.StartTime, err)
	}
	if !c.Alive() {
		t.Error("alive, and said to be dead")
	}
	end()
	if c.Alive() {
		t.Error("dead, and said to be alive")
	}
	if _, err := FromConn(conn); err == nil {
		t.Error("a peer that has ended was believed")
	}
}

func TestFromConnOnAnOlderKernel(t *testing.T) {
	conn, cmd, end := accept(t)
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	older := func(fd, level, opt int) (int, error) { return 0, unix.ENOPROTOOPT }
	look := func() (c Cred, err error) {
		raw.Control(func(fd uintptr) { c, err = fromFD(int(fd), older) })
		return
	}
	c, err := look()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Strength != StrengthRecheck || c.PID != cmd.Process.Pid || !c.Alive() {
		t.Errorf("got %+v", c)
	}
	end()
	if _, err := look(); !errors.Is(err, ErrGone) {
		t.Errorf("a peer that has ended: %v", err)
	}
}

func TestSameUID(t *testing.T) {
	if err := SameUID(Cred{UID: os.Geteuid()}); err != nil {
		t.Error(err)
	}
	if err := SameUID(Cred{UID: os.Geteuid() + 1}); err == nil || err.Code != core.CodeDenied {
		t.Errorf("another uid: %v", err)
	}
}

func TestAncestry(t *testing.T) {
	_, cmd, end := accept(t)
	chain, err := Ancestry(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if chain[0].PID != cmd.Process.Pid || chain[1].PID != os.Getpid() {
		t.Errorf("chain %v does not lead from the child to us", chain)
	}
	if last := chain[len(chain)-1]; last.PPID != 0 {
		t.Errorf("chain ends at %v, not at init", last)
	}
	end()
	if _, err := Ancestry(cmd.Process.Pid); !errors.Is(err, ErrGone) {
		t.Errorf("of an ended process: %v", err)
	}
	for _, pid := range []int{0, -1} {
		if _, err := Ancestry(pid); err == nil {
			t.Errorf("pid %d has no ancestry", pid)
		}
	}
}

func TestWalkRefusesChainsThatCannotBe(t *testing.T) {
	table := func(procs ...Proc) func(int) (Proc, error) {
		return func(pid int) (Proc, error) {
			for _, p := range procs {
				if p.PID == pid {
					return p, nil
				}
			}
			return Proc{}, ErrGone
		}
	}
	long := func(pid int) (Proc, error) { return Proc{PID: pid, PPID: pid + 1, StartTime: 1}, nil }
	cases := []struct {
		name string
		read func(int) (Proc, error)
		want string
	}{
		{"loop", table(Proc{PID: 5, PPID: 6, StartTime: 9}, Proc{PID: 6, PPID: 5, StartTime: 9}), "loop"},
		{"younger parent", table(Proc{PID: 5, PPID: 6, StartTime: 9}, Proc{PID: 6, PPID: 1, StartTime: 10}), "younger"},
		{"too long", long, "more than"},
		{"parent gone", table(Proc{PID: 5, PPID: 6, StartTime: 9}), "ended"},
	}
	for _, c := range cases {
		if _, err := walk(5, c.read); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	line := func(comm, state string, threads int) []byte {
		return fmt.Appendf(nil, "42 (%s) %s 7 41 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 %d 0 123456 0 0", comm, state, threads)
	}
	p, err := parseStat(line("a) S 9 (b\n", "S", 3))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Proc{PID: 42, PPID: 7, StartTime: 123456, Group: 41, Comm: "a) S 9 (b\n"}); p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	if p, _ := parseStat(line("z", "Z", 1)); !p.Dead {
		t.Error("a zombie is dead")
	}
	if p, _ := parseStat(line("t", "T", 1)); !p.Stopped {
		t.Error("a stopped process is stopped")
	}
	if p, _ := parseStat(line("z", "Z", 2)); p.Dead {
		t.Error("a process whose first thread alone has ended is not dead")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (a) S 0 1"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, text []byte) { parseStat(text) })
}

func refused(t *testing.T, err error, code core.Code) {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) || e.Code != code || e.Hint == "" {
		t.Errorf("got %v, want %s with a hint", err, code)
	}
}

func TestListen(t *testing.T) {
	path := filepath.Join(shortDir(t), "a", "b", "s")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700, filepath.Dir(filepath.Dir(path)): 0o700} {
		if st, err := os.Stat(p); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", p, st.Mode(), err, want)
		}
	}

	_, err = Listen(path, 0o600)
	refused(t, err, core.CodeConflict) // somebody answers

	l.SetUnlinkOnClose(false) // as a killed process leaves it
	l.Close()
	l, err = Listen(path, 0o600)
	if err != nil {
		t.Fatalf("a stale socket was not replaced: %v", err)
	}
	l.Close()

	if err := os.WriteFile(path, []byte("keep me"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Listen(path, 0o600)
	refused(t, err, core.CodeConflict)
	if text, _ := os.ReadFile(path); string(text) != "keep me" {
		t.Error("a file that is no socket was removed")
	}
}

func TestListenPathLength(t *testing.T) {
	dir := shortDir(t)
	fits := filepath.Join(dir, strings.Repeat("x", MaxSocketPath-len(dir)-1))
	l, err := Listen(fits, 0o600)
	if err != nil {
		t.Fatalf("%d bytes: %v", len(fits), err)
	}
	l.Close()
	_, err = Listen(fits+"x", 0o600)
	refused(t, err, core.CodeLimit)
	_, err = Listen("relative", 0o600)
	refused(t, err, core.CodeInvalid)
}

func TestListenRefusesAnUnsafeDirectory(t *testing.T) {
	dir := shortDir(t)
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o750); err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(dir, "real")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{open, link, file} {
		_, err := Listen(filepath.Join(d, "s"), 0o600)
		refused(t, err, core.CodeDenied)
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: a directory of another uid can only be made by root")
	}
	foreign := filepath.Join(dir, "foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(foreign, 61234, 61234); err != nil {
		t.Fatal(err)
	}
	_, err := Listen(filepath.Join(foreign, "s"), 0o600)
	refused(t, err, core.CodeDenied)
}
