package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Verb is the first argument of the program that a confined command begins as.
const Verb = "confined"

// exitConfined is how it ends if it cannot become the command.
const exitConfined = 126

// The versions of Landlock (the kernel's own count) that are needed for ports, and for
// abstract sockets and signals.
const (
	abiPorts  = 4 // Linux 6.7
	abiScoped = 6 // Linux 6.12
)

// Plan is what a command is kept from.
type Plan struct {
	// Hide are directories that are empty for it. One that is not there needs no hiding.
	Hide []string `json:"hide"`
	// Show are directories below them that are there all the same, and can be written.
	Show []string `json:"show"`
	// Ports are the TCP ports that it may connect to, on whatever machine.
	Ports []uint16 `json:"ports"`
}

// Check says why no command can be confined here, or nil. The text is what is not kept
// from the command all the same; it is empty on Linux 6.12 and later.
func Check() (open string, err error) {
	abi, err := llsyscall.LandlockGetABIVersion()
	switch {
	case err != nil:
		return "", core.Refuse(core.CodeUnavailable, "this kernel has no Landlock, so nothing keeps a command from other programs' DevTools ports: "+err.Error(),
			"Linux 6.7 or later, with landlock among lsm= of the kernel's command line; or run it without --confine")
	case abi < abiPorts:
		return "", core.Refuse(core.CodeUnavailable, fmt.Sprintf("this kernel's Landlock (version %d) knows no ports, so nothing keeps a command from other programs' DevTools ports", abi),
			"Linux 6.7 or later; or run it without --confine")
	case abi < abiScoped:
		return "abstract sockets, among them X11's, are not kept from it: that takes Linux 6.12", nil
	}
	return "", nil
}

// Argv is what this very program is to be started with, to become path with argv.
func (p Plan) Argv(path string, argv []string) ([]string, error) {
	plan, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return append([]string{"sessiondock", Verb, string(plan), path}, argv...), nil
}

// Namespaces adds to attr what Main needs of its process.
func Namespaces(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // within the new namespace, and gone before the command begins
}

// Environ is env without what leads to the desktop and the service manager.
func Environ(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(desktop, name)
	})
}

// desktop are the variables that lead to a person's desktop and to their service
// manager, which would start anything outside.
var desktop = []string{"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS"}

// Main is the program "sessiondock confined PLAN PATH ARGV0 [ARG]...". It does not return
// unless it fails.
func Main(args []string) int {
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, "error: confined is started by sessiondock run --confine")
		return 2
	}
	var p Plan
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		fmt.Fprintln(os.Stderr, "error: the plan of a confinement cannot be read:", err)
		return 2
	}
	// Capabilities are a thread's: the one that gives them up must be the one that
	// becomes the command.
	runtime.LockOSThread()
	if err := p.become(args[1], args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "error: the command was not started, because it cannot be confined:", err)
	}
	return exitConfined
}

func (p Plan) become(path string, argv []string) error {
	if err := p.cover(); err != nil {
		return err
	}
	if err := p.restrict(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if err := filter(); err != nil {
		return fmt.Errorf("filter of system calls: %w", err)
	}
	if err := giveUp(); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	// What was opened before leads round all of that.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	if err := syscall.Exec(path, argv, os.Environ()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// giveUp lets no capability pass to the command: with one it could take away what covers.
func giveUp() error {
	if os.Getuid() == 0 {
		// Without this a command of uid 0 is given all of them.
		const noRoot = 1<<0 | 1<<1 // SECBIT_NOROOT, and locked
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0); err != nil {
			return err
		}
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// cover puts an empty directory over each of those to hide, and those to show back into
// their places.
func (p Plan) cover() error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	// Nothing that is mounted here may reach the namespace outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	shown := map[string]int{}
	for _, dir := range p.Show {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		defer unix.Close(fd)
		shown[dir] = fd
	}
	hide := slices.Clone(p.Hide)
	slices.Sort(hide) // what lies below another comes after it
	pinned := map[string]bool{}
	for _, dir := range hide {
		if err := pin(dir, pinned); err != nil {
			return fmt.Errorf("keep the way to %s: %w", dir, err)
		}
	}
	var covered []string
	for _, dir := range hide {
		fi, err := os.Stat(dir)
		if err != nil || !fi.IsDir() || slices.ContainsFunc(covered, func(over string) bool { return Below(dir, over) }) {
			continue
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64k"); err != nil {
			return fmt.Errorf("cover %s: %w", dir, err)
		}
		covered = append(covered, dir)
	}
	for _, dir := range covered {
		for _, show := range p.Show {
			if !Below(show, dir) {
				continue
			}
			if err := os.MkdirAll(show, 0o700); err != nil {
				return err
			}
			if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", shown[show]), show, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("show %s: %w", show, err)
			}
		}
		// What is covered stays empty: a tool that writes there is told, and loses nothing.
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("make %s read-only: %w", dir, err)
		}
	}
	// The directory that it begins in may lie under one that was mounted since, where
	// nothing is covered: it is entered anew, by its name.
	return os.Chdir(here)
}

// pin mounts every directory and every link on the way to a directory onto itself, as far as
// the user could rename it: what is mounted on cannot be renamed, replaced or removed within
// this mount namespace, and filter keeps the command in it. A way that could be changed
// would lead a later confinement past what it is to cover.
func pin(dir string, pinned map[string]bool) error {
	at, left := "/", strings.Split(dir, "/")
	for links := 0; len(left) > 0; {
		name, parent := left[0], at
		if left = left[1:]; name == "" {
			continue
		}
		at = filepath.Join(parent, name) // parent has no links left in it
		fi, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		link := fi.Mode()&fs.ModeSymlink != 0
		if !pinned[at] && (link || len(left) > 0) && changeable(parent) {
			if err := onto(at); err != nil {
				return err
			}
			pinned[at] = true
		}
		if !link {
			continue
		}
		to, err := os.Readlink(at)
		if links++; err != nil || links > maxLinks {
			return errors.Join(err, fmt.Errorf("%s: too many links", at))
		}
		left = append(strings.Split(to, "/"), left...)
		if at = parent; filepath.IsAbs(to) {
			at = "/"
		}
	}
	return nil
}

// maxLinks is how many links the kernel follows on one way.
const maxLinks = 40

// changeable says whether the user can rename what is in a directory, or can make it so.
func changeable(dir string) bool {
	fi, err := os.Stat(dir)
	return err != nil || int(fi.Sys().(*syscall.Stat_t).Uid) == os.Getuid() || unix.Access(dir, unix.W_OK) == nil
}

// onto mounts a directory, or a link, with all that is mounted in it onto itself.
func onto(path string) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Below says whether a path is a directory, or in it.
func Below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// restrict has Landlock refuse connections to other ports. A process under any such
// restriction cannot look into one that is not; with abiScoped it reaches neither
// its abstract sockets nor the process itself by a signal.
func (p Plan) restrict() error {
	abi, err := llsyscall.LandlockGetABIVersion()
	if err != nil {
		return err
	}
	rules := make([]landlock.Rule, 0, len(p.Ports))
	for _, port := range p.Ports {
		rules = append(rules, landlock.ConnectTCP(port))
	}
	var connect landlock.AccessNetSet = llsyscall.AccessNetConnectTCP
	if abi < abiScoped {
		c, err := landlock.NewConfig(connect)
		if err != nil {
			return err
		}
		return c.Restrict(rules...)
	}
	c, err := landlock.NewConfig(connect, landlock.ScopedSet(llsyscall.ScopeAbstractUnixSocket|llsyscall.ScopeSignal))
	if err != nil {
		return err
	}
	return c.Restrict(rules...)
}
