package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/peer"
)

// The command of `run` has a process group of its own, so that a signal reaches all of
// it and nothing else. At a terminal that group is in the foreground as long as we are
// where it is, as a shell's job would be: a job in the background stays there.

func ownGroup() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if inForeground(unix.Getpgrp()) {
		attr.Foreground, attr.Ctty = true, int(os.Stdin.Fd())
	}
	return attr
}

// inForeground says whether a process group has the terminal.
func inForeground(group int) bool {
	now, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && now == group
}

// passTerminal makes one group the foreground one, if another is that now, or one that
// has ended. A terminal that a living third has is left to it.
func passTerminal(from, to int) {
	fd := int(os.Stdin.Fd())
	now, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil || now != from && unix.Kill(-now, 0) != unix.ESRCH {
		return
	}
	// A background group that takes the terminal is stopped by this signal.
	signal.Ignore(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, to)
}

// pause stops the command and ourselves, and goes on with it.
func (d *delegated) pause() {
	_ = unix.Kill(-d.cmd.Process.Pid, unix.SIGSTOP)
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	_ = unix.Kill(-d.cmd.Process.Pid, unix.SIGCONT)
}

// descendants lists the processes below one.
func descendants(pid int) []int {
	var out []int
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		for _, n := range peer.Children(todo[0]) {
			if !slices.Contains(out, n) {
				out, todo = append(out, n), append(todo, n)
			}
		}
	}
	return out
}

// endAll ends processes that have become our descendants and returns those that it
// could not see ended.
func endAll(left []int) []int {
	for range 50 { // what forks meanwhile is met by the next look
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		reap(0)
		if left = descendants(os.Getpid()); len(left) == 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return left
}

// reap takes the status of every child that has ended, but of the command, which is
// waited for by itself.
func reap(command int) {
	for _, pid := range peer.Children(os.Getpid()) {
		if pid != command {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}
