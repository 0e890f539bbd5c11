package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// HomeVar names the home in the environment of a program that runs in one.
const HomeVar = "SESSIONDOCK_DEMO_HOME"

// maxRuntimeDir bounds XDG_RUNTIME_DIR: below it lie sockets whose whole path must
// fit in the 108 bytes of a socket address. The longest is Chromium's own, in
// sessiondock/tmp/LAUNCH/org.chromium.Chromium.XXXXXX/SingletonSocket.
const maxRuntimeDir = 33

// endWithin is how long a program in a home has, after a signal was passed on to
// it, to end by itself.
const endWithin = 20 * time.Second

// Home is the directory of one run: a home, the XDG directories, a temporary
// directory and copies of the programs that the run needs. It is removed at the end.
type Home struct{ Dir string }

// InHome returns the home in which this program runs.
func InHome() (Home, bool) {
	dir := os.Getenv(HomeVar)
	return Home{dir}, dir != ""
}

// Bin is where the run's programs lie.
func (h Home) Bin() string { return filepath.Join(h.Dir, "bin") }

// Runtime is the run's XDG_RUNTIME_DIR.
func (h Home) Runtime() string { return filepath.Join(h.Dir, "run") }

func (h Home) dirs() map[string]string {
	return map[string]string{
		"HOME":            filepath.Join(h.Dir, "home"),
		"XDG_CONFIG_HOME": filepath.Join(h.Dir, "config"),
		"XDG_STATE_HOME":  filepath.Join(h.Dir, "state"),
		"XDG_DATA_HOME":   filepath.Join(h.Dir, "data"),
		"XDG_CACHE_HOME":  filepath.Join(h.Dir, "cache"),
		"XDG_RUNTIME_DIR": h.Runtime(),
		"TMPDIR":          filepath.Join(h.Dir, "tmp"),
	}
}

// Run says what Rehome runs.
type Run struct {
	Args []string // of the second run, without the program's name
	// Prepare puts the programs that the run needs into bin; nil: none.
	Prepare func(bin string) error
	// Finish takes out of the home what is to stay; nil: nothing. Both are called
	// in the first run, with its rights.
	Finish func(Home) error
}

// Rehome runs the current program once more, in a fresh home and, when it is run
// as root, under an ordinary uid that nobody else uses: as root Chromium would want
// its sandbox off. The second run finds itself in a home (InHome) and does the
// work; the first waits for it, ends every process that it left behind, removes the
// home and returns the exit code.
func Rehome(run Run) (code int, err error) {
	root := os.Getuid() == 0
	uid := os.Getuid()
	if root {
		if uid, err = freeUID(); err != nil {
			return 0, err
		}
	}
	home, err := makeHome()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home.Dir)) }()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	copied := filepath.Join(home.Bin(), filepath.Base(self))
	if err := copyFile(self, copied, 0o755); err != nil {
		return 0, err
	}
	if run.Prepare != nil {
		if err := run.Prepare(home.Bin()); err != nil {
			return 0, err
		}
	}
	cmd := exec.Command(copied, run.Args...)
	cmd.Env = home.environ(os.Environ())
	cmd.Dir = home.dirs()["HOME"]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if root {
		if err := giveAway(home.Dir, uid); err != nil {
			return 0, err
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	if code, err = runToTheEnd(cmd); err != nil {
		return 0, err
	}
	if run.Finish != nil {
		err = run.Finish(home)
	}
	return code, err
}

func makeHome() (Home, error) {
	// A long TMPDIR would make the sockets' paths too long, so /tmp is the second try.
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		dir, err := os.MkdirTemp(parent, "sd-")
		if err != nil {
			continue
		}
		h := Home{dir}
		if len(h.Runtime()) > maxRuntimeDir {
			if err := os.Remove(dir); err != nil {
				return Home{}, err
			}
			continue
		}
		for _, d := range h.dirs() {
			if err := os.Mkdir(d, 0o700); err != nil {
				return Home{}, errors.Join(err, os.RemoveAll(dir))
			}
		}
		if err := os.Mkdir(h.Bin(), 0o755); err != nil {
			return Home{}, errors.Join(err, os.RemoveAll(dir))
		}
		return h, nil
	}
	return Home{}, fmt.Errorf("no temporary directory can be made in %s or /tmp", os.TempDir())
}

// environ is the run's environment. The person's own session bus and user manager
// are left out, so that a demonstration starts and leaves nothing there; the
// display is kept, for runs that show a window.
func (h Home) environ(old []string) []string {
	ours := h.dirs()
	ours[HomeVar] = h.Dir
	ours["PATH"] = h.Bin() + string(os.PathListSeparator) + os.Getenv("PATH")
	if w := os.Getenv("WAYLAND_DISPLAY"); w != "" && !filepath.IsAbs(w) && os.Getenv("XDG_RUNTIME_DIR") != "" {
		ours["WAYLAND_DISPLAY"] = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), w)
	}
	if auth := xauthority(); auth != "" {
		mine := filepath.Join(h.Dir, "xauthority")
		if copyFile(auth, mine, 0o600) == nil {
			ours["XAUTHORITY"] = mine
		}
	}
	var env []string
	for _, v := range old {
		name, _, _ := strings.Cut(v, "=")
		if _, set := ours[name]; set || name == "DBUS_SESSION_BUS_ADDRESS" || name == "USER" || name == "LOGNAME" ||
			strings.HasPrefix(name, "XDG_") {
			continue
		}
		env = append(env, v)
	}
	for name, v := range ours {
		env = append(env, name+"="+v)
	}
	return env
}

func xauthority() string {
	if os.Getenv("DISPLAY") == "" {
		return ""
	}
	if a := os.Getenv("XAUTHORITY"); a != "" {
		return a
	}
	return filepath.Join(os.Getenv("HOME"), ".Xauthority")
}

// freeUID finds a uid that has no name and no process. Chromium's sandbox needs no
// entry in the password file.
func freeUID() (int, error) {
	const first, last = 59000, 59999
	busy, err := uidsInUse()
	if err != nil {
		return 0, err
	}
	for i := range last - first + 1 {
		uid := first + (os.Getpid()+i)%(last-first+1)
		if _, err := user.LookupId(strconv.Itoa(uid)); err == nil || busy[uint32(uid)] {
			continue
		}
		return uid, nil
	}
	return 0, fmt.Errorf("no free uid between %d and %d", first, last)
}

func uidsInUse() (map[uint32]bool, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	used := map[uint32]bool{}
	for _, d := range dirs {
		var st unix.Stat_t
		if unix.Stat(d, &st) == nil {
			used[st.Uid] = true
		}
	}
	return used, nil
}

// giveAway makes the uid and the group of the same number own everything in dir.
func giveAway(dir string, uid int) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, uid)
	})
}

// CopyPrograms copies programs that lie beside each other in dir into bin.
func CopyPrograms(dir, bin string, names ...string) error {
	for _, n := range names {
		if err := copyFile(filepath.Join(dir, n), filepath.Join(bin, n), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string, mode os.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// runToTheEnd starts cmd and returns its exit code when neither it nor any process
// that came from it is left. This process becomes their reaper, so that those
// whose parent has died are still ours to end, by process IDs that cannot have
// been given to another because nobody else can reap them.
func runToTheEnd(cmd *exec.Cmd) (code int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("become the reaper of the run: %w", err)
	}
	// The death signal is tied to the thread that starts the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan struct{})
	go passOn(signals, cmd.Process.Pid, done)
	status, err := reapUntil(cmd.Process.Pid)
	close(done)
	if err != nil {
		return 0, err
	}
	if err := endOrphans(); err != nil {
		return 0, err
	}
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

func passOn(signals <-chan os.Signal, pid int, done <-chan struct{}) {
	var late <-chan time.Time
	for {
		select {
		case s := <-signals:
			// The program may have ended in this moment; then there is nothing to do.
			_ = unix.Kill(pid, s.(syscall.Signal))
			late = time.After(endWithin)
		case <-late:
			_ = unix.Kill(pid, unix.SIGKILL)
		case <-done:
			return
		}
	}
}

// reapUntil reaps children, adopted ones too, until pid has ended.
func reapUntil(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case got == pid:
			return status, nil
		}
	}
}

// endOrphans ends every child until there is none. Killing one hands its own
// children over to this process, so the loop ends with the last descendant.
func endOrphans() error {
	for end := time.Now().Add(endWithin); time.Now().Before(end); {
		children, err := childrenOf(os.Getpid())
		if err != nil {
			return err
		}
		for _, pid := range children {
			_ = unix.Kill(pid, unix.SIGKILL) // a zombie takes no signal, and needs none
		}
		got, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case got == 0:
			time.Sleep(time.Millisecond)
		}
	}
	return fmt.Errorf("processes of the run are left after %v", endWithin)
}

func childrenOf(parent int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it ended meanwhile
		}
		// The name in parentheses may hold anything; the parent is the second field after it.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			if err != nil {
				return nil, err
			}
			children = append(children, pid)
		}
	}
	return children, nil
}

// RunTests is for a TestMain: it runs the tests in a home and under an ordinary
// uid, and returns the exit code. Prepare is as in Run.
func RunTests(m interface{ Run() int }, prepare func(bin string) error) int {
	if _, in := InHome(); in {
		return m.Run()
	}
	var args []string
	for _, a := range os.Args[1:] {
		// The file is the go command's, which the ordinary uid cannot write. Without
		// it the go command only does not cache the result.
		if !strings.HasPrefix(a, "-test.testlogfile=") {
			args = append(args, a)
		}
	}
	code, err := Rehome(Run{Args: args, Prepare: prepare})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return code
}
