package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// overlay is a directory that one process tree sees in the place of another. It is how
// a slot's browser reads a policy of its own without root: the keeper forks it into a
// user namespace and a mount namespace of its own, where this very program, as
// "enter", binds the directory and then becomes the browser. The process identifier
// stays, and so do the uid and everything else under /.
type overlay struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// wrap gives the command line by which program, an enter of ours, runs argv.
func (o overlay) wrap(program string, argv []string) []string {
	return append([]string{program, "enter", o.From, o.To, "--"}, argv...)
}

// namespaces adds to attr what enter needs. The capability is one within the new user
// namespace, and is gone before the browser begins.
func (o overlay) namespaces(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
}

// exitEnter is how enter ends if it cannot become the browser.
const exitEnter = 126

// EnterMain is the program "sessiondockd enter FROM TO -- PROGRAM ARGS...". It does
// not return unless it fails.
func EnterMain(args []string) int {
	if len(args) < 4 || args[2] != "--" {
		fmt.Fprintln(os.Stderr, "error: enter is started by sessiondockd")
		return 2
	}
	// Capabilities are a thread's: the one that gives them up must be the one that
	// becomes the browser.
	runtime.LockOSThread()
	if err := enter(args[0], args[1], args[3:]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %s could not be put over %s: %v\n", args[0], args[1], err)
	}
	return exitEnter
}

func enter(from, to string, argv []string) error {
	// Nothing that is mounted here may reach the namespace outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, to, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make read-only: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return syscall.Exec(argv[0], argv, os.Environ())
}

// probeWithin bounds the trial of an overlay.
const probeWithin = 5 * time.Second

// errUnsure says of a trial that it did not come to its end.
var errUnsure = errors.New("it could not be found out whether a user namespace can be made")

// passing says whether a trial failed for what a busy machine lacks at a moment: room for
// a process, or a process that somebody killed.
func passing(err error) bool {
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return !e.Exited()
	}
	for _, e := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// try says why an overlay cannot be made here, or nil. program is the very program
// that will make it: some systems allow user namespaces by program.
func (o overlay) try(ctx context.Context, program string) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	argv := o.wrap(program, []string{"/proc/self/exe", "enter"}) // which then says how it is used
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	o.namespaces(cmd.SysProcAttr)
	said, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 2 {
		return nil
	}
	if ctx.Err() != nil || passing(err) {
		return fmt.Errorf("%w: %w", errUnsure, err)
	}
	return core.Refuse(core.CodeUnavailable, fmt.Sprintf("no user namespace with a mount of its own: %v: %s", err, strings.TrimSpace(string(said))),
		"allow user namespaces to ordinary users: sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces above 0")
}
