package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/stream"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/host/native"
)

// leaveWithin is how long the end of the browser's link may take us: the daemon
// gets the last words of what was under way, and then we are gone.
const leaveWithin = 80 * time.Millisecond

// Memory: a host lives as long as its browser, mostly idle.
const (
	gcPercent  = 50
	bigMessage = 1 << 20
)

// environment is what a launch gives to its host.
type environment struct {
	slot   core.SlotName
	launch core.LaunchID
	secret string
	socket string
}

func readEnvironment() (environment, *core.Error) {
	e := environment{
		slot:   core.SlotName(os.Getenv("SESSIONDOCK_SLOT")),
		launch: core.LaunchID(os.Getenv("SESSIONDOCK_LAUNCH")),
		secret: os.Getenv("SESSIONDOCK_SECRET"),
		socket: os.Getenv("SESSIONDOCK_HOST_SOCKET"),
	}
	if e.slot == "" || e.launch == "" || e.secret == "" || e.socket == "" {
		return e, core.Refuse(core.CodeUnavailable, "this browser was not started from a slot",
			"start it with: sessiondock slot start NAME")
	}
	return e, nil
}

func main() {
	// A host waits, mostly, and passes on. A second processor would only have its
	// threads hand messages to each other, which costs more than what is done to them.
	runtime.GOMAXPROCS(1)
	out, err := native.Claim()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sessiondock-host:", err)
		os.Exit(1)
	}
	os.Exit(run(os.Args[1:], stream.Open(0, "native-messaging"), out))
}

// run is the program after standard output was taken.
func run(args []string, in io.Reader, out io.Writer) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("part", "host")
	debug.SetGCPercent(gcPercent)
	// A closed standard error must not kill us by a signal at the next log line.
	signal.Ignore(syscall.SIGPIPE)
	if err := endWithParent(); err != nil {
		log.Warn("the browser's end is noticed by its link only", "err", err)
	}
	origin := ""
	if len(args) > 0 {
		origin = args[0]
	}
	h := newHost(origin, log)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	ended := make(chan error, 2)
	go func() { ended <- h.out.run(out, h.pass) }()
	env, missing := readEnvironment()
	if missing != nil {
		h.tellDown(missing)
	} else {
		go h.serveDaemon(ctx, env)
	}
	go func() { ended <- h.readExtension(in) }()

	err := <-ended
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) {
		h.leave()
		return 0
	}
	log.Error("the link to the extension has ended", "err", err)
	h.tell(wire.Link{Up: false, Reason: err.Error(),
		Error: core.Refuse(core.CodeInternal, "the link to the extension broke: "+err.Error(), "it is opened again by itself")})
	h.leave()
	return 1
}

// leave ends what is under way and lets its last words out, within leaveWithin.
func (h *Host) leave() {
	h.mu.Lock()
	h.gate.Close()
	h.stopRunning(everyone(lostExtension))
	h.mu.Unlock()
	written := make(chan struct{})
	go func() {
		h.out.flushed()
		close(written)
	}()
	for end := time.Now().Add(leaveWithin); time.Now().Before(end); time.Sleep(time.Millisecond) {
		h.mu.Lock()
		quiet := len(h.running) == 0 && (h.link == nil || h.link.flushed())
		h.mu.Unlock()
		select {
		case <-written:
		default:
			quiet = false
		}
		if quiet {
			return
		}
	}
}

var lostExtension = core.Refuse(core.CodeUnavailable, "the link to the extension has ended", "look the action up; do not send it again")

// endWithParent ends this process when its browser does, even if something else
// keeps the link's pipe open. It does not use PR_SET_PDEATHSIG: the kernel sends
// that signal when the *thread* that started us ends, and the browser starts hosts
// from a pool of threads, of which none is bound to live as long as the browser. A
// host killed so would leave its actions unknown for nothing. A descriptor of the
// parent names the process.
func endWithParent() error {
	parent := os.Getppid()
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return fmt.Errorf("open the parent: %w", err)
	}
	if os.Getppid() != parent {
		// It ended before it was opened; the number may be another's by now.
		os.Exit(0)
	}
	go func() {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if n, err := unix.Poll(fds, -1); n > 0 && err == nil {
				os.Exit(0)
			} else if err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return nil
}

var freePending atomic.Bool

// freeSoon gives the memory of a large message back once it is through. Several at
// once are freed together.
func freeSoon() {
	if !freePending.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(300*time.Millisecond, func() {
		freePending.Store(false)
		debug.FreeOSMemory()
	})
}

// revision is set by the build.
var revision = ""

// build names this build to the daemon.
func build() string {
	if revision != "" {
		return revision
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unversioned"
}
