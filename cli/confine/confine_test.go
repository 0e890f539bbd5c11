package confine

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Verb {
		os.Exit(Main(os.Args[2:]))
	}
	if len(os.Args) == 3 && (os.Args[1] == "fastopen" || os.Args[1] == "mptcp") {
		os.Exit(sneak(os.Args[1], os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == "namespace" {
		os.Exit(another(os.Args[2]))
	}
	if len(os.Args) == 2 && os.Args[1] == "type" {
		typeIn()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// sneak reaches a port of this machine in a way that is no connect() of TCP: 0 if it could.
func sneak(how, port string) int {
	n, err := strconv.Atoi(port)
	if err != nil {
		return 2
	}
	proto := unix.IPPROTO_TCP
	if how == "mptcp" {
		proto = mptcp
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, proto)
	if err != nil {
		return 1
	}
	to := &unix.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 1}}
	if how == "mptcp" {
		err = unix.Connect(fd, to)
	} else {
		err = unix.Sendto(fd, []byte("x"), fastOpen, to)
	}
	if err != nil {
		return 1
	}
	return 0
}

// another begins a program in a namespace of its own, in one of the ways: 0 if it could. Of
// those that take more to be of use it asks only whether they are refused from the outset.
func another(way string) int {
	var attr syscall.SysProcAttr
	switch way {
	case "users":
		attr.Cloneflags = unix.CLONE_NEWUSER
	case "clone":
		attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	case "unshare":
		attr.Unshareflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	case "clone3":
		if _, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); errno == unix.ENOSYS {
			return 1
		}
		return 0
	case "setns":
		if err := unix.Setns(-1, 0); err == unix.EPERM {
			return 1
		}
		return 0
	default:
		return 2
	}
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &attr
	if err := cmd.Run(); err != nil {
		return 1
	}
	return 0
}

// confined runs a shell script under a plan, and returns what it says and how it ended.
// The files are its descriptors from 3 on, unless they are kept from it.
func confined(t *testing.T, p Plan, script string, files ...*os.File) (string, error) {
	t.Helper()
	cmd := command(t, p, script)
	cmd.ExtraFiles = files
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// command is a shell script under a plan, to be started.
func command(t *testing.T, p Plan, script string) *exec.Cmd {
	t.Helper()
	if _, err := Check(); err != nil {
		t.Skip("NOT RUN: ", err)
	}
	argv, err := p.Argv("/bin/sh", []string{"a name of its own", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = argv
	cmd.Env = Environ(append(os.Environ(), "DISPLAY=:0", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1/bus"))
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	Namespaces(cmd.SysProcAttr)
	return cmd
}

// TestConfined tries, from inside, what a plan keeps from a command; and outside, with the
// same script, that each of these could be done.
func TestConfined(t *testing.T) {
	dir, err := os.MkdirTemp("", "confine")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, d := range []string{"slots", "run/api", "work", "home/share/slots", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../elsewhere", filepath.Join(dir, "home/state")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"home/share/slots/cookies", "elsewhere/database", "slots/cookies", "run/control", "run/api/shown", "work/file"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("read\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	devtools, own := listen(t), listen(t)
	// Another process of the same user, whose environment holds a secret.
	other := exec.CommandContext(t.Context(), "/bin/sleep", "60")
	other.Env = []string{"SECRET=hers"}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		other.Process.Kill()
		other.Wait()
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`cd %s
yes() { echo "$1 yes"; }
[ -e slots/cookies ] && yes slots
[ -e run/control ] && yes control
[ "$(cat run/api/shown 2>/dev/null)" = read ] && yes api
echo new > work/file && yes work
{ echo x > slots/mine; } 2>/dev/null && yes write
(exec 3<>/dev/tcp/127.0.0.1/%d) 2>/dev/null && yes devtools
(exec 3<>/dev/tcp/127.0.0.1/%d) 2>/dev/null && yes own
grep -q SECRET /proc/%d/environ 2>/dev/null && yes environ
kill -0 %[4]d 2>/dev/null && yes signal
umount %[1]s/slots 2>/dev/null && yes umount
[ -n "$DISPLAY$DBUS_SESSION_BUS_ADDRESS" ] && yes desktop
[ -e home/state/database ] && yes link
mv home home2 2>/dev/null && mv home2 home && yes "rename far above"
mv home/share home/share2 2>/dev/null && mv home/share2 home/share && yes "rename above"
mv home/state home/state2 2>/dev/null && mv home/state2 home/state && yes "rename a link"
ln -sfn ../work home/state 2>/dev/null && ln -sfn ../elsewhere home/state && yes "replace a link"
mv elsewhere elsewhere2 2>/dev/null && mv elsewhere2 elsewhere && yes "rename what a link leads to"
%[5]s fastopen %[2]d && yes fastopen
%[5]s mptcp %[2]d && yes mptcp
for way in users clone unshare clone3 setns; do %[5]s namespace $way && yes "namespace $way"; done
true`, dir, devtools, own, other.Process.Pid, self)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("NOT RUN: bash is missing, whose /dev/tcp connects")
	}
	script = "exec " + bash + " -c '" + strings.ReplaceAll(script, "'", `'\''`) + "'"
	p := Plan{
		Hide: []string{filepath.Join(dir, "slots"), filepath.Join(dir, "home/share/slots"), filepath.Join(dir, "home/state"), filepath.Join(dir, "run"), filepath.Join(dir, "not there")},
		Show: []string{filepath.Join(dir, "run", "api")}, Ports: []uint16{own},
	}
	got, err := confined(t, p, script)
	if want := "api yes\nwork yes\nown yes\nnamespace users yes\n"; err != nil || got != want {
		t.Errorf("confined: %v, it could\n%swant\n%s", err, got, want)
	}
	t.Chdir(filepath.Join(dir, "home"))
	got, err = confined(t, p, "ls share/slots state/; cd share; ls slots")
	if err != nil || strings.Contains(got, "cookies") || strings.Contains(got, "database") {
		t.Errorf("from a directory on the way: %v\n%s", err, got)
	}
	open, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", script).CombinedOutput()
	const ways = "link yes\nrename far above yes\nrename above yes\nrename a link yes\nreplace a link yes\nrename what a link leads to yes\nfastopen yes\nmptcp yes\n" +
		"namespace users yes\nnamespace clone yes\nnamespace unshare yes\nnamespace clone3 yes\nnamespace setns yes\n"
	if want := "slots yes\ncontrol yes\napi yes\nwork yes\nwrite yes\ndevtools yes\nown yes\nenviron yes\nsignal yes\n"; err != nil || !strings.HasPrefix(string(open), want) || !strings.HasSuffix(string(open), ways) {
		t.Errorf("not confined: %v, it could\n%swant\n%s...%s", err, open, want, ways)
	}
}

// A directory that was opened before would lead round what is hidden.
func TestNoDescriptorIsLeft(t *testing.T) {
	hidden, err := os.MkdirTemp("", "confine")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(hidden)
	if err := os.WriteFile(filepath.Join(hidden, "cookies"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(hidden)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	const script = "cd /proc/self/fd/3/ && ls"
	if got, err := confined(t, Plan{Hide: []string{hidden}}, script, dir); err == nil {
		t.Errorf("confined, it saw %s", got)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.ExtraFiles = []*os.File{dir}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "cookies\n" {
		t.Errorf("not confined: %v %s", err, out)
	}
}

// typeIn puts a letter into its terminal as if a person had typed it, in each of the ways, and
// says what became of it. The upper half of a request is nothing to the kernel.
func typeIn() {
	letter := [...]byte{'x'}
	for _, request := range []uintptr{unix.TIOCSTI, unix.TIOCSTI | 1<<32, tioclinux} {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, request, uintptr(unsafe.Pointer(&letter)))
		fmt.Println(unix.ErrnoName(errno))
	}
}

// What a command types into its terminal would be run outside, after it.
func TestNothingIsTyped(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	says := func(cmd *exec.Cmd) string {
		t.Helper()
		ours, theirs := terminal(t)
		defer ours.Close()
		defer theirs.Close()
		cmd.Stdin, cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = theirs, true, true
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if got := says(command(t, Plan{}, self+" type")); got != "EPERM\nEPERM\nEPERM\n" {
		t.Errorf("confined, it was told\n%s", got)
	}
	// A kernel may refuse that to everybody, and by another word; a pty is no console.
	open := exec.CommandContext(t.Context(), self, "type")
	open.SysProcAttr = &syscall.SysProcAttr{}
	if got := says(open); got != "\n\nENOTTY\n" && got != "EIO\nEIO\nENOTTY\n" {
		t.Errorf("not confined, it was told\n%s", got)
	}
}

// terminal opens a pty.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err == nil {
		n, err = unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	}
	if err == nil {
		theirs, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// A command that cannot be confined is not started.
func TestNotStartedUnlessConfined(t *testing.T) {
	dir := t.TempDir()
	out, err := confined(t, Plan{Show: []string{filepath.Join(dir, "not there")}}, "touch "+dir+"/started")
	if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != exitConfined || !strings.Contains(out, "was not started") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
		t.Error("it was started")
	}
}

// Its exit code and the signal that ends it are the command's: nothing stands in between.
func TestItIsTheCommand(t *testing.T) {
	p := Plan{}
	if _, err := confined(t, p, "exit 7"); err.(*exec.ExitError).ExitCode() != 7 {
		t.Error(err)
	}
	if _, err := confined(t, p, "kill -TERM $$; sleep 60"); err.(*exec.ExitError).Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Error(err)
	}
}

func listen(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(time.Minute))
			c.Close()
		}
	}()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}
