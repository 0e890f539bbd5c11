package supervise

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/peer"
)

// How long each step of an end is given.
const (
	// intWithin is SIGINT's: Chromium saves its cookies and goes, in some 150 ms
	// unless a page asks whether it may be left.
	intWithin = 5 * time.Second
	// termWithin is SIGTERM's: Chromium goes, and may lose its last cookies.
	termWithin = 3 * time.Second
	// lingerWithin is what the browser's children get to go by themselves after
	// it, the host among them.
	lingerWithin = time.Second
	// killWithin bounds the killing and the looks before "not verified" is said.
	killWithin = 10 * time.Second
	// agreeAfter lies between the two looks that must both find nothing.
	agreeAfter = 200 * time.Millisecond
	// idlePasses are a few milliseconds of looking at the keeper's tree.
	idlePasses = 32
	// maxLeft is how many processes a report names.
	maxLeft = 20
)

// remains is what is to be ended: everything that the scope finds, and for the
// keeper also its tree.
type remains struct {
	scope
	// childless is closed by the reaper once the kernel says that the keeper has
	// no child, living or dead: as it is their subreaper, no descendant is left.
	// Nil where there is no keeper.
	childless <-chan struct{}
}

// settle ends every process of the launch and looks until two looks, agreeAfter
// apart, find nothing. It returns what was left when ctx ended; nil is verified.
func (r remains) settle(ctx context.Context) []string {
	var clear time.Time // of the first look that found nothing
	var left []string
	for {
		killed := r.killAll(ctx)
		found, err := r.lookDeep()
		switch {
		case err != nil:
			left, clear = []string{"the processes could not be listed: " + err.Error()}, time.Time{}
		case len(found) > 0:
			left, clear = describe(found), time.Time{}
		case !r.isChildless():
			left, clear = []string{"the keeper still has children"}, time.Time{}
		case clear.IsZero() || killed:
			left, clear = []string{"the second look was not taken"}, time.Now()
		case time.Since(clear) >= agreeAfter:
			return nil
		}
		pause := 10 * time.Millisecond
		if !clear.IsZero() {
			pause = agreeAfter - time.Since(clear)
		}
		if !sleep(ctx, pause) {
			return left
		}
	}
}

func (r remains) isChildless() bool {
	if r.childless == nil {
		return true
	}
	select {
	case <-r.childless:
		return true
	default:
		return false
	}
}

// processID is what stays of a process while it dies.
type processID struct {
	pid   int
	start uint64
}

// killAll sends SIGKILL until no process of the launch is found that did not get
// it already. It says whether there were any.
func (r remains) killAll(ctx context.Context) bool {
	any := false
	if r.keeper.PID != 0 {
		// Passes over the tree alone are quick enough to catch processes that do
		// nothing but fork and end. One pass may miss them all, so some in a row
		// must find nobody new before the slower look takes its turn.
		sent := map[processID]bool{}
		for idle := 0; idle < idlePasses && ctx.Err() == nil && !r.isChildless(); idle++ {
			fresh := false
			for _, p := range killTree(r.keeper) {
				id := processID{p.PID, p.StartTime}
				fresh = fresh || !sent[id]
				sent[id] = true
			}
			if fresh {
				any, idle = true, -1
			}
		}
	}
	found, err := r.look()
	if err != nil {
		return any
	}
	for _, f := range found {
		if f.kind == ours && sendSignal(f.proc, unix.SIGKILL) == nil {
			any = true
		}
	}
	return any
}

// endOrphans ends a launch whose keeper is gone.
func endOrphans(ctx context.Context, s scope, mode StopMode) Ended {
	if mode == StopClean {
		if b, ok := s.browser(); ok {
			for _, step := range []struct {
				sig    unix.Signal
				within time.Duration
			}{{unix.SIGINT, intWithin}, {unix.SIGTERM, termWithin}} {
				if sendSignal(b, step.sig) == nil && waitGone(ctx, b, step.within) {
					break
				}
			}
			s.waitQuiet(ctx, lingerWithin)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, killWithin)
	defer cancel()
	left := remains{scope: s}.settle(ctx)
	return orphansEnded(left, "everything that carried its tag was ended")
}

// orphansEnded words the end of a launch without a keeper.
func orphansEnded(left []string, how string) Ended {
	e := Ended{Containment: containment, Left: left}
	if len(left) > 0 {
		e.How = "the launch's keeper is gone, and processes that may be the launch's are left"
		return e
	}
	e.Verified = true
	e.How = fmt.Sprintf("the launch's keeper is gone and left no record; %s; "+
		"two looks %d ms apart found no process with the launch's tag or its profile", how, agreeAfter.Milliseconds())
	return e
}

// lookTwice looks without ending anything.
func (s scope) lookTwice(ctx context.Context) []string {
	for range 2 {
		found, err := s.lookDeep()
		if err != nil {
			return []string{"the processes could not be listed: " + err.Error()}
		}
		if len(found) > 0 {
			return describe(found)
		}
		if !sleep(ctx, agreeAfter) {
			return []string{"the second look was not taken"}
		}
	}
	return nil
}

// browser finds the browser among tagged processes: the one that the profile's
// lock names.
func (s scope) browser() (peer.Proc, bool) {
	_, pid, ok := readLock(s.profile)
	found, err := s.look()
	if !ok || err != nil {
		return peer.Proc{}, false
	}
	i := slices.IndexFunc(found, func(f finding) bool { return f.kind == ours && f.proc.PID == pid })
	if i < 0 {
		return peer.Proc{}, false
	}
	return found[i].proc, true
}

// waitQuiet waits until nothing of the launch is left, or the time is over.
func (s scope) waitQuiet(ctx context.Context, within time.Duration) {
	for end := time.Now().Add(within); time.Now().Before(end); {
		found, err := s.look()
		if err == nil && !slices.ContainsFunc(found, func(f finding) bool { return f.kind == ours }) {
			return
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
}

func waitGone(ctx context.Context, p peer.Proc, within time.Duration) bool {
	for end := time.Now().Add(within); runs(p); {
		if time.Now().After(end) || !sleep(ctx, 20*time.Millisecond) {
			return false
		}
	}
	return true
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func describe(found []finding) []string {
	var out []string
	for i, f := range found {
		if i == maxLeft {
			return append(out, fmt.Sprintf("and %d more", len(found)-maxLeft))
		}
		out = append(out, f.String())
	}
	return out
}
