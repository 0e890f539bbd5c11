package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The command of `run` has a process group of its own, so that a signal reaches all of
// it and nothing else. At a terminal that group is in the foreground, as a shell's job
// would be.

func ownGroup() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if isTerminal(os.Stdin) {
		attr.Foreground, attr.Ctty = true, int(os.Stdin.Fd())
	}
	return attr
}

// takeTerminal makes our own group the foreground one again.
func takeTerminal() {
	if !isTerminal(os.Stdin) {
		return
	}
	// A background group that takes the terminal is stopped by this signal.
	signal.Ignore(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
}

// pause stops the command and ourselves, and goes on with it.
func (d *delegated) pause() {
	_ = unix.Kill(-d.cmd.Process.Pid, unix.SIGSTOP)
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	_ = unix.Kill(-d.cmd.Process.Pid, unix.SIGCONT)
}

// descendants lists the processes below one, as the kernel keeps them.
func descendants(pid int) []int {
	var out []int
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		tasks, err := filepath.Glob("/proc/" + strconv.Itoa(todo[0]) + "/task/*/children")
		if err != nil {
			continue
		}
		for _, t := range tasks {
			text, err := os.ReadFile(t)
			if err != nil {
				continue // it has ended
			}
			for _, f := range strings.Fields(string(text)) {
				if n, err := strconv.Atoi(f); err == nil && !slices.Contains(out, n) {
					out, todo = append(out, n), append(todo, n)
				}
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
		reap()
		if left = descendants(os.Getpid()); len(left) == 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return left
}

// reap takes the status of every child that has ended. It is called once the command
// itself has been waited for.
func reap() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
