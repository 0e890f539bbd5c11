package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// command is `run` from the moment at which it has its lease; nobody is asked anything
// while it runs.
func command(path string, args ...string) *delegated {
	return &delegated{
		app: &app{out: io.Discard, err: os.Stderr, getenv: os.Getenv}, agents: client.New("/nowhere"),
		lease: &wire.LeaseReply{}, request: wire.AcquireRequest{ForMs: time.Hour.Milliseconds()},
		path: path, args: append([]string{path}, args...),
	}
}

// TestHelpersOfACommandAreWaitedFor: what a long command leaves behind, and has ended,
// does not stay until the command ends.
func TestHelpersOfACommandAreWaitedFor(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	over := make(chan error, 1)
	go func() {
		over <- command("/bin/sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.2 &); done; sleep 3; exit 7").run()
	}()
	met, dead := map[int]bool{}, 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		dead = 0
		for _, pid := range peer.Children(os.Getpid()) {
			met[pid] = true
			if p, err := peer.Read(pid); err == nil && p.Dead {
				dead++
			}
		}
	}
	if len(met) < 6 || dead > 0 {
		t.Errorf("%d children were met, and %d that have ended are kept", len(met), dead)
	}
	if e, ok := (<-over).(*exit); !ok || e.code != 7 {
		t.Errorf("the command's own end: %v", e)
	}
}

// TestATerminalIsPassedOnByTheForegroundOnly: a command has the terminal while it runs if
// we had it, and never takes it from the shell that has put us in the background.
func TestATerminalIsPassedOnByTheForegroundOnly(t *testing.T) {
	ours, theirs, err := terminal()
	if err != nil {
		t.Skipf("NOT RUN: there is no terminal here: %v", err)
	}
	defer ours.Close()
	defer theirs.Close()
	var out bytes.Buffer
	cmd := exec.Command("at-terminal", "shell")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	want := "command in the foreground true\nthe terminal is where it was true\n" +
		"command in the foreground false\nthe terminal is where it was true\n"
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}

// atTerminal is a shell with one job in the foreground and one in the background, either
// job, or the command of one.
func atTerminal() {
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	before, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	must(err)
	self, err := exec.LookPath("at-terminal")
	must(err)
	switch os.Args[1] {
	case "command":
		fmt.Println("command in the foreground", before == unix.Getpgrp())
	case "job":
		must(command(self, "command").run())
		after, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
		must(err)
		fmt.Println("the terminal is where it was", after == before)
	case "shell":
		for _, front := range []bool{true, false} {
			job := exec.Command(self, "job")
			job.Stdin, job.Stdout, job.Stderr = os.Stdin, os.Stdout, os.Stderr
			job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: front}
			must(job.Run())
			passTerminal(job.Process.Pid, unix.Getpgrp())
		}
	}
}

// terminal is a new pseudo-terminal, its two ends.
func terminal() (ours, theirs *os.File, err error) {
	if ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	var n int
	if err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err == nil {
		n, err = unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	}
	if err == nil {
		theirs, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		ours.Close()
	}
	return ours, theirs, err
}
