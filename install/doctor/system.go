package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/install"
)

func user(context.Context, Machine) Check {
	if os.Geteuid() == 0 {
		return ill("run it as an ordinary user", "this is root: Chromium's sandbox does not work there, and the daemon refuses to run")
	}
	return well("uid %d", os.Geteuid())
}

// minFree is what a slot's profile and the database need before things go wrong.
const minFree = 512 << 20

func disk(_ context.Context, m Machine) Check {
	if m.PathErr != nil {
		return noPaths(m)
	}
	var least uint64 = 1 << 62
	for _, dir := range []string{m.Paths.State, m.Paths.Data, m.Paths.Cache} {
		for !exists(dir) {
			dir = filepath.Dir(dir)
		}
		if err := unix.Access(dir, unix.W_OK); err != nil {
			return ill("make it writable, or set the XDG variables to directories of yours", "%s cannot be written: %v", dir, err)
		}
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return ill("look at the disk", "%s: %v", dir, err)
		}
		free := st.Bavail * uint64(st.Bsize)
		if free < minFree {
			return ill("make room: profiles and the database need it", "%d MB are free below %s, less than %d", free>>20, dir, minFree>>20)
		}
		least = min(least, free)
	}
	return well("%d MB free", least>>20)
}

// minYear is before any version of this program.
const minYear = 2025

func clock(context.Context, Machine) Check {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return ill("use a kernel with CLOCK_BOOTTIME", "the clock that leases are measured by cannot be read: %v", err)
	}
	if now := time.Now(); now.Year() < minYear {
		return ill("set the clock: timedatectl set-ntp true", "the wall clock says %s", now.Format(time.DateOnly))
	}
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err == nil && state == timeError {
		return well("leases are measured from boot on; the wall clock is not synchronised (records carry its time)")
	}
	return well("leases are measured from boot on")
}

// timeError is TIME_ERROR of adjtimex: the clock is not synchronised.
const timeError = 5

func userNamespaces(ctx context.Context, m Machine) Check {
	const fix = "sudo sysctl "
	for _, s := range []struct{ path, bad, set string }{
		{"/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"},
	} {
		if text, err := os.ReadFile(m.file(s.path)); err == nil && strings.TrimSpace(string(text)) == s.bad {
			return ill(fix+s.set, "%s is %s", s.path, s.bad)
		}
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", ":")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		set := "user.max_user_namespaces=10000"
		if exists(m.file("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")) {
			set = "kernel.apparmor_restrict_unprivileged_userns=0"
		}
		return ill(fix+set, "an ordinary user may not make one: %v", err)
	}
	_ = cmd.Wait() // that it began is the answer
	return well("an ordinary user may make them")
}

func controlGroups(_ context.Context, m Machine) Check {
	const fix = "boot with systemd.unified_cgroup_hierarchy=1"
	root := m.file("/sys/fs/cgroup")
	if !exists(filepath.Join(root, "cgroup.controllers")) {
		if exists(filepath.Join(root, "unified", "cgroup.controllers")) || exists(filepath.Join(root, "memory")) {
			return ill(fix, "control groups of version 1: a launch's processes cannot be held together")
		}
		return ill("mount them: mount -t cgroup2 none /sys/fs/cgroup", "there are no control groups of version 2 at /sys/fs/cgroup")
	}
	uid := strconv.Itoa(os.Getuid())
	own := filepath.Join(root, "user.slice", "user-"+uid+".slice", "user@"+uid+".service")
	text, err := os.ReadFile(filepath.Join(own, "cgroup.controllers"))
	if err != nil {
		return ill("log in by a session of systemd, or: sudo loginctl enable-linger "+userName(), "this user's manager has no control group of its own")
	}
	have := strings.Fields(string(text))
	for _, want := range []string{"memory", "pids"} {
		found := false
		for _, c := range have {
			found = found || c == want
		}
		if !found {
			return ill("sudo systemctl edit user@.service: [Service] Delegate=cpu memory pids", "version 2, and %s is not delegated to this user", want)
		}
	}
	return well("version 2, delegated: %s", strings.Join(have, " "))
}

func userManager(ctx context.Context, m Machine) Check {
	if _, err := exec.LookPath("systemctl"); err != nil {
		return ill("use a system with systemd for full containment", "there is no systemd: browsers are held by a keeper each, containment is weak")
	}
	if _, err := install.FindManager(ctx); err != nil {
		return ill("log in by a session of systemd, or: sudo loginctl enable-linger "+userName()+"; XDG_RUNTIME_DIR must be /run/user/"+strconv.Itoa(os.Getuid()),
			"this user's service manager cannot be reached: containment is weak. %s", short(message(err)))
	}
	dir := m.Getenv("XDG_RUNTIME_DIR")
	if m.Getenv("DBUS_SESSION_BUS_ADDRESS") == "" && !exists(filepath.Join(dir, "bus")) {
		return ill("install dbus-user-session and log in again", "the service manager answers, and there is no bus at %s/bus to reach it by", dir)
	}
	return well("it answers: browsers are units of their own, containment is full")
}

// peerIdentity asks for what the daemon asks of every peer.
func peerIdentity(context.Context, Machine) Check {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ill("", "no pair of sockets: %v", err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	pidfd, err := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return ill("use Linux 6.5 or newer", "the kernel does not hand over a peer's process: it is found by its number and looked at twice")
	}
	if err != nil {
		return ill("use Linux 6.5 or newer", "the kernel does not hand over a peer's process: %v", err)
	}
	unix.Close(pidfd)
	return well("the kernel hands over the process of a peer")
}

func linger(_ context.Context, m Machine) Check {
	name := userName()
	if exists(m.file(filepath.Join("/var/lib/systemd/linger", name))) {
		return well("the service manager goes on after a logout")
	}
	return ill("sudo loginctl enable-linger "+name, "browsers and daemon end when %s logs out", name)
}

func desktop(_ context.Context, m Machine) Check {
	for _, name := range []string{"WAYLAND_DISPLAY", "DISPLAY"} {
		if v := m.Getenv(name); v != "" {
			return well("%s=%s: slots can have a window on it", name, v)
		}
	}
	return ill("run it within the desktop session", "there is no display: only slots without a window (--display headless)")
}

func privateDisplay(context.Context, Machine) Check {
	var missing []string
	for _, p := range []string{"weston", "Xvnc"} {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return ill("apt-get install weston tigervnc-standalone-server", "%s not found: no desktop of a slot's own", strings.Join(missing, " and "))
	}
	return well("Weston and Xvnc are there")
}

// confinement looks for what run --confine needs besides user namespaces.
func confinement(context.Context, Machine) Check {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno != 0:
		return ill("Linux 6.7 or later, with landlock among lsm= of its command line", "the kernel has no Landlock (%v): sessiondock run --confine does not work", errno)
	case abi < 4:
		return ill("Linux 6.7 or later", "the kernel's Landlock (version %d) knows no ports: sessiondock run --confine does not work", abi)
	case abi < 6:
		return ill("Linux 6.12 or later", "run --confine works, but abstract sockets, among them X11's, stay open to its command")
	}
	return well("run --confine works")
}

func userName() string {
	if u, err := osuser.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// short is one line of a message, for a detail.
func short(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	const most = 160
	if len(line) > most {
		line = line[:most]
	}
	return line
}

func noPaths(m Machine) Check {
	return ill("see runtime-path", "not looked at: %v", fmt.Sprint(m.PathErr))
}
