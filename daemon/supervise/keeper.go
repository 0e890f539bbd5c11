package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// containment is what a keeper can promise; package doc says what it lacks.
const containment = "weak"

const (
	// maxSpec bounds the specification on standard input.
	maxSpec = 1 << 20
	// aliveWithin is how long a browser may take to lock its profile before it is
	// called started without that sign. One that cannot start ends sooner.
	aliveWithin = 3 * time.Second
	// stopWithin is when a stop is answered with "not verified", at the latest.
	stopWithin = intWithin + termWithin + lingerWithin + killWithin + 2*time.Second
	// goodbyeWithin is what the last answers get before the keeper exits.
	goodbyeWithin = 2 * time.Second
	// maxBrowserLog is when the browser's log is emptied.
	maxBrowserLog = 4 << 20
	logCheckEvery = 30 * time.Second
	// againAfter lies between attempts to verify an end that could not be.
	againAfter = time.Second
	// lockWithin is how long a keeper tries to take its slot's lock: a daemon that
	// looks whether it is held holds it for that moment.
	lockWithin = time.Second
)

// keeperSpec is what a keeper is told. It comes on standard input because it
// holds the launch's secret, within Env.
type keeperSpec struct {
	Slot       core.SlotName `json:"slot"`
	Launch     core.LaunchID `json:"launch"`
	Generation int64         `json:"generation"`
	Lock       string        `json:"lock"`
	Profile    string        `json:"profile"`
	RunDir     string        `json:"run_dir"`
	LogDir     string        `json:"log_dir"`
	WorkDir    string        `json:"work_dir"`
	Temp       string        `json:"temp"`
	Hostnames  []string      `json:"hostnames"`
	Argv       []string      `json:"argv"`
	Env        []string      `json:"env"`
	Pipe       bool          `json:"pipe"`
	Over       *overlay      `json:"over,omitempty"` // nil: the browser sees what everybody sees

	version   chromium.Version // for the daemon's record
	packaging Packaging
}

// report is the keeper's one word to the daemon that started it.
type report struct {
	PID   int         `json:"pid,omitempty"`
	Error *core.Error `json:"error,omitempty"`
}

// keeper is the process of one launch.
type keeper struct {
	spec keeperSpec
	log  *slog.Logger
	self peer.Proc

	pidfd     int // of the browser
	exited    chan struct{}
	exit      syscall.WaitStatus // of the browser, once exited is closed
	childless chan struct{}
	reported  chan struct{}

	stops chan StopMode // to the end of the launch; only its owner receives
	talks sync.WaitGroup

	done   chan struct{}
	result Ended // once done is closed

	mu    sync.Mutex
	phase string
	left  []string // of the last attempt to verify
}

// KeeperMain is the program of a keeper: `sessiondockd keeper SLOT`. The argument
// is for people who read a list of processes; everything else comes on standard
// input. Standard output takes one line, the report, and standard error what goes
// wrong before there is a log. It returns an exit code.
func KeeperMain(args []string) int {
	text, err := io.ReadAll(io.LimitReader(os.Stdin, maxSpec))
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		return 2
	}
	k := &keeper{
		pidfd: -1, phase: "starting",
		exited: make(chan struct{}), childless: make(chan struct{}),
		reported: make(chan struct{}), done: make(chan struct{}),
		stops: make(chan StopMode, 8),
	}
	if err := json.Unmarshal(text, &k.spec); err != nil {
		fmt.Fprintln(os.Stderr, "error: keeper is started by sessiondockd, with a specification on standard input:", err)
		return 2
	}
	to := os.Stdout
	defer to.Close()
	if err := k.run(to); err != nil {
		// Every error of run comes before there is a browser.
		k.tell(to, report{Error: asError(err).With("verified_ended", true)})
		fmt.Fprintln(os.Stderr, "error: keeper:", err)
		return 1
	}
	return 0
}

// run keeps one launch from its start to its verified end. An error means that no
// browser was started.
func (k *keeper) run(to *os.File) error {
	if err := k.detach(); err != nil {
		return err
	}
	lock, err := k.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	logFile, err := openLog(filepath.Join(k.spec.LogDir, "keeper.log"))
	if err != nil {
		return err
	}
	defer logFile.Close()
	k.log = slog.New(slog.NewTextHandler(logFile, nil)).
		With("slot", k.spec.Slot, "launch", k.spec.Launch, "generation", k.spec.Generation)

	pruneRecords(k.spec.LogDir)
	l, err := peer.Listen(k.socket(), 0o600)
	if err != nil {
		return err
	}
	go k.serve(l)

	browserLog, err := os.OpenFile(k.browserLog(), os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		l.Close()
		return err
	}
	defer browserLog.Close()
	browser, stopRelay, err := k.launch(browserLog)
	if err != nil {
		k.log.Error("browser not started", "err", err)
		close(k.childless) // nothing was forked
		k.verify()
		k.finish(l, lock, "the browser was never started")
		return err
	}
	defer stopRelay()
	k.log.Info("browser started", "pid", browser, "argv", k.spec.Argv)
	go k.reap(browser)
	go k.watchStart(to, browser)

	how := k.untilEnd(browserLog)
	k.verify()
	k.finish(l, lock, how)
	<-k.reported
	return nil
}

// detach makes the keeper independent of the daemon: a session of its own, the
// subreaper of all that will descend from it, deaf to hang-ups.
func (k *keeper) detach() error {
	if _, err := unix.Setsid(); err != nil && unix.Getpgrp() != os.Getpid() {
		return fmt.Errorf("setsid: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_CHILD_SUBREAPER: %w", err)
	}
	unix.Umask(0o077)
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// Received and dropped, not ignored: what is ignored stays ignored in the
	// browser.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, unix.SIGHUP, unix.SIGPIPE)
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM, unix.SIGINT)
	go func() {
		for range term { // a logout, a shutdown, the unit's stop: the login is to be kept
			k.stop(StopClean)
		}
	}()
	var err error
	k.self, err = peer.Read(os.Getpid())
	return err
}

func (k *keeper) lock() (*os.File, error) {
	for end := time.Now().Add(lockWithin); ; time.Sleep(5 * time.Millisecond) {
		lock, err := takeLock(k.spec.Lock)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return lock, err
		}
	}
}

// launch forks the browser. It does not use os/exec, whose wait for the one
// child would compete with the wait for all of them.
func (k *keeper) launch(log *os.File) (pid int, stopRelay func(), err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), log.Fd(), log.Fd()}
	stopRelay = func() {}
	if k.spec.Pipe {
		ours, theirs, l, err := k.openRelay()
		if err != nil {
			return 0, nil, err
		}
		defer theirs[0].Close()
		defer theirs[1].Close()
		files = append(files, theirs[0].Fd(), theirs[1].Fd()) // become 3 and 4
		go ours.pump()
		go ours.serve(l)
		stopRelay = func() { l.Close() }
	}
	argv := k.spec.Argv
	// A group of its own, so that killing it does not reach the keeper.
	sys := &syscall.SysProcAttr{PidFD: &k.pidfd, Setpgid: true}
	if k.spec.Over != nil {
		argv = k.spec.Over.wrap("/proc/self/exe", argv)
		k.spec.Over.namespaces(sys)
	}
	pid, err = syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: k.spec.WorkDir, Env: k.spec.Env, Files: files, Sys: sys,
	})
	if err == nil && k.pidfd < 0 {
		// It cannot be waited for by anyone but us, so its PID is still its own.
		k.pidfd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		stopRelay()
		return 0, nil, core.Refuse(core.CodeUnavailable, fmt.Sprintf("%s cannot be started: %v", k.spec.Argv[0], err),
			"check that the browser is installed and may be run by this user")
	}
	return pid, stopRelay, nil
}

func (k *keeper) openRelay() (*relay, [2]*os.File, *net.UnixListener, error) {
	var none [2]*os.File
	l, err := peer.Listen(filepath.Join(k.spec.RunDir, "pipe.sock"), 0o600)
	if err != nil {
		return nil, none, nil, err
	}
	toR, toW, err := os.Pipe()
	if err != nil {
		l.Close()
		return nil, none, nil, err
	}
	fromR, fromW, err := os.Pipe()
	if err != nil {
		l.Close()
		toR.Close()
		toW.Close()
		return nil, none, nil, err
	}
	return newRelay(toW, fromR), [2]*os.File{toR, fromW}, l, nil
}

// reap collects every child, adopted ones included, until the kernel says that
// there is none left. After that there never is one again: only children fork
// children of ours, and the keeper forks no second time.
func (k *keeper) reap(browser int) {
	defer close(k.childless)
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
		case err != nil: // ECHILD
			return
		case pid == browser:
			k.exit = syscall.WaitStatus(ws)
			close(k.exited)
		}
	}
}

// watchStart reports once: that the browser has locked its profile and so runs,
// or that it has ended before it did.
func (k *keeper) watchStart(to *os.File, browser int) {
	defer close(k.reported)
	defer to.Close()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(aliveWithin)
	defer late.Stop()
	for {
		select {
		case <-k.exited:
			// The end is verified first, so that the refusal can say so.
			t := time.NewTimer(killWithin)
			defer t.Stop()
			select {
			case <-k.done:
			case <-t.C:
			}
			k.tell(to, report{Error: k.earlyExit()})
			return
		case <-tick.C:
			if _, _, locked := readLock(k.spec.Profile); !locked {
				continue
			}
		case <-late.C:
		}
		k.mu.Lock()
		if k.phase == "starting" {
			k.phase = "running"
		}
		k.mu.Unlock()
		k.tell(to, report{PID: browser})
		return
	}
}

func (k *keeper) tell(to *os.File, r report) {
	// The daemon may have gone; the next one asks on the socket.
	if err := json.NewEncoder(to).Encode(r); err != nil && k.log != nil {
		k.log.Info("report not delivered", "err", err)
	}
}

// untilEnd waits for the browser's end or a stop, takes the steps of a stop, and
// words what happened.
func (k *keeper) untilEnd(log *os.File) string {
	tick := time.NewTicker(logCheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-k.exited:
			k.setPhase("stopping")
			k.linger()
			return "the browser ended by itself, " + describeExit(k.exit)
		case <-tick.C:
			if st, err := log.Stat(); err == nil && st.Size() > maxBrowserLog {
				log.Truncate(0)
			}
		case mode := <-k.stops:
			k.setPhase("stopping")
			return k.steps(mode)
		}
	}
}

// steps takes the browser down as hard as needed. What survives is verify's.
func (k *keeper) steps(mode StopMode) string {
	for _, step := range []struct {
		sig    unix.Signal
		within time.Duration
	}{{unix.SIGINT, intWithin}, {unix.SIGTERM, termWithin}} {
		if mode == StopNow {
			break
		}
		if err := unix.PidfdSendSignal(k.pidfd, step.sig, nil, 0); err != nil {
			k.log.Info("signal not sent", "signal", step.sig, "err", err)
		}
		if mode = k.awaitExit(step.within); mode == "" {
			k.linger()
			return fmt.Sprintf("the browser ended at %s, %s", unix.SignalName(step.sig), describeExit(k.exit))
		}
	}
	return "the launch was ended with SIGKILL"
}

// awaitExit returns "" when the browser has exited; else the mode to go on with.
func (k *keeper) awaitExit(within time.Duration) StopMode {
	t := time.NewTimer(within)
	defer t.Stop()
	for {
		select {
		case <-k.exited:
			return ""
		case <-t.C:
			return StopClean
		case m := <-k.stops:
			if m == StopNow {
				return StopNow
			}
		}
	}
}

// linger gives the browser's children time to follow it.
func (k *keeper) linger() {
	t := time.NewTimer(lingerWithin)
	defer t.Stop()
	for {
		select {
		case <-k.childless:
			return
		case <-t.C:
			return
		case m := <-k.stops:
			if m == StopNow {
				return
			}
		}
	}
}

// verify ends what is left and returns once two looks agree that nothing is. A
// keeper that cannot verify stays, so that the launch stays in the inventory.
func (k *keeper) verify() {
	r := remains{childless: k.childless, scope: scope{
		launch: k.spec.Launch, profile: k.spec.Profile, hostnames: k.spec.Hostnames,
		since: k.self.StartTime, keeper: k.self,
	}}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), killWithin)
		left := r.settle(ctx)
		cancel()
		k.mu.Lock()
		k.left = left
		k.mu.Unlock()
		if left == nil {
			return
		}
		k.log.Warn("end not verified", "left", left)
		time.Sleep(againAfter)
	}
}

// finish makes the end known: the record first, then the socket and the lock, so
// that whoever is told can start the slot again at once; then the answers.
func (k *keeper) finish(l *net.UnixListener, lock *os.File, how string) {
	k.result = Ended{
		Verified: true, Containment: containment, Clean: k.endedClean(),
		How: fmt.Sprintf("%s; its keeper has no descendant left, and two looks %d ms apart found no process with the launch's tag or its profile",
			how, agreeAfter.Milliseconds()),
	}
	rec := endRecord{
		Launch: k.spec.Launch, Generation: k.spec.Generation, AtMs: time.Now().UnixMilli(),
		Exit: k.describeExit(), Containment: k.result.Containment, Clean: k.result.Clean, How: k.result.How,
	}
	if err := writeRecord(k.spec.LogDir, rec); err != nil {
		k.log.Error("end record not written", "err", err)
	}
	os.Remove(filepath.Join(k.spec.RunDir, "pipe.sock"))
	// Nobody is left who could use it, and nobody else can yet.
	if err := os.RemoveAll(k.spec.Temp); err != nil {
		k.log.Warn("temporary files are left", "err", err)
	}
	l.Close()
	lock.Close()
	close(k.done)
	k.log.Info("ended", "how", k.result.How)
	told := make(chan struct{})
	go func() { k.talks.Wait(); close(told) }()
	select {
	case <-told:
	case <-time.After(goodbyeWithin):
	}
}

func (k *keeper) stop(mode StopMode) {
	select {
	case k.stops <- mode:
	default: // enough are waiting to be heard
	}
}

func (k *keeper) state() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.phase
}

func (k *keeper) setPhase(p string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.phase = p
}

// unverified is the answer to a stop that has not come to its end in time.
func (k *keeper) unverified() *Ended {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &Ended{Containment: containment, Left: k.left,
		How: "the launch was told to end, and it could not be verified yet that nothing is left of it"}
}

func (k *keeper) socket() string { return filepath.Join(k.spec.RunDir, "keeper.sock") }

func (k *keeper) browserLog() string { return filepath.Join(k.spec.LogDir, "browser.log") }
