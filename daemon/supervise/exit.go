package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

const (
	// exitProfileInUse is Chromium's exit code when its profile's lock names a
	// process of another host.
	exitProfileInUse = 21
	// tailBytes is how much of the browser's log a refusal shows.
	tailBytes = 2 << 10
	// maxKeeperLog is when the keeper's log is put aside.
	maxKeeperLog = 1 << 20
)

// earlyExit words the end of a browser that ended before it ran.
func (k *keeper) earlyExit() *core.Error {
	log := tail(k.browserLog())
	e := core.Refuse(core.CodeUnavailable, "the browser ended as it was started: "+describeExit(k.exit),
		"see "+k.browserLog())
	switch {
	case k.exit.Exited() && k.exit.ExitStatus() == exitProfileInUse:
		e = core.Refuse(core.CodeConflict, "the browser refused: its profile is locked by a process of another host",
			"stop that browser; if this machine's name has changed and none runs, remove "+k.spec.Profile+"/SingletonLock")
	case k.exit.Exited() && k.exit.ExitStatus() == 0:
		e = core.Refuse(core.CodeConflict, "the browser ended at once: another browser seems to use its profile",
			"close the browser that was started on "+k.spec.Profile)
	}
	verified := false
	select {
	case <-k.done:
		verified = true
	default:
	}
	return e.With("log", log).With("exit", describeExit(k.exit)).With("verified_ended", verified)
}

// describeExit is for the record, where the browser may never have begun.
func (k *keeper) describeExit() string {
	select {
	case <-k.exited:
		return describeExit(k.exit)
	default:
		return "never started"
	}
}

// endedClean says whether the browser has written all that it had: it ended of its own
// accord, and its profile says that nothing kept it from that. Before it has run for a
// while a profile still says so of the run before.
func (k *keeper) endedClean() bool {
	select {
	case <-k.exited:
		return k.exit.Exited() && k.exit.ExitStatus() == 0 && exitType(k.spec.Profile) == "Normal"
	default:
		return false
	}
}

func describeExit(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "killed by " + unix.SignalName(ws.Signal())
	}
	return fmt.Sprintf("with exit code %d", ws.ExitStatus())
}

// tail returns the last whole lines of a file.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	cut := false
	if st, err := f.Stat(); err == nil && st.Size() > tailBytes {
		_, err = f.Seek(-tailBytes, io.SeekEnd)
		cut = err == nil
	}
	text, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return ""
	}
	s := strings.ToValidUTF8(string(text), "?")
	if cut {
		_, s, _ = strings.Cut(s, "\n")
	}
	return strings.TrimSpace(s)
}

// openLog opens a log to append to, and puts a large one aside first.
func openLog(path string) (*os.File, error) {
	if st, err := os.Stat(path); err == nil && st.Size() > maxKeeperLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// asError gives any error the form in which a person sees it.
func asError(err error) *core.Error {
	var e *core.Error
	if errors.As(err, &e) {
		return e
	}
	return core.Refuse(core.CodeUnavailable, err.Error(), "see the slot's keeper.log")
}
