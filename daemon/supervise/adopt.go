package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// standing is what is known of a recorded launch.
type standing int

const (
	answering standing = iota // its keeper answers
	ended                     // verified, by record or by restart of the machine
	silent                    // its keeper lives, or may live, and does not answer
	orphaned                  // its keeper is gone and left no record
)

// whereabouts is a standing and what goes with it.
type whereabouts struct {
	standing
	end       Ended     // if ended
	why       error     // if silent
	successor peer.Proc // if orphaned: the keeper that has the slot now, if any
}

// find establishes where a launch stands.
func (d *Direct) find(ctx context.Context, slot core.SlotName, l core.Launch) whereabouts {
	p := d.cfg.Dirs.places(slot)
	if otherBoot(l) {
		end := Ended{Verified: true, Containment: containment, How: "the machine has been restarted since the launch began"}
		if r, there, err := readRecord(p.logs, l.ID); err == nil && there {
			end.Clean = r.Clean
		}
		return whereabouts{standing: ended, end: end}
	}
	known := d.keeperOf(l)
	ask, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	_, who, err := call(ask, filepath.Join(p.run, "keeper.sock"), known, request{Op: opStatus, Launch: l.ID})
	if err == nil {
		d.remember(l.ID, who)
		return whereabouts{standing: answering}
	}
	// The lock was another keeper's to take only when ours had gone.
	replaced := errors.Is(err, errOtherLaunch)
	alive := known.PID != 0 && runs(known)
	if !alive && !replaced {
		lock, lerr := takeLock(p.lock)
		switch {
		case lerr == nil:
			lock.Close()
		case errors.Is(lerr, unix.EWOULDBLOCK):
			alive = true // a keeper, maybe one that was started and not recorded
		case !errors.Is(lerr, os.ErrNotExist):
			return whereabouts{standing: silent, why: lerr}
		}
	}
	// Read last: a keeper writes its record before it goes.
	r, there, rerr := readRecord(p.logs, l.ID)
	switch {
	case there:
		d.forget(l.ID)
		return whereabouts{standing: ended, end: r.ended()}
	case alive:
		return whereabouts{standing: silent, why: fmt.Errorf("the launch's keeper does not answer: %w", err)}
	case rerr != nil:
		return whereabouts{standing: silent, why: rerr}
	}
	f := whereabouts{standing: orphaned}
	if replaced {
		f.successor = who
	}
	return f
}

// Adopt finds a launch of an earlier daemon.
func (d *Direct) Adopt(ctx context.Context, slot core.SlotName, l core.Launch) (core.Identity, error) {
	if e := checkLaunch(slot, l); e != nil {
		return core.Identity{}, e
	}
	f := d.find(ctx, slot, l)
	switch f.standing {
	case answering:
		return d.met(l), nil
	case ended:
		return core.Identity{}, notRunning(slot, f.end)
	case silent:
		return core.Identity{}, unclear(f.why)
	}
	return core.Identity{}, notRunning(slot, d.lookForOrphans(ctx, d.scope(slot, l, f.successor)))
}

// met is a launch's identity with the keeper that answered for it.
func (d *Direct) met(l core.Launch) core.Identity {
	id, keeper := l.Identity, d.keeperOf(l)
	id.KeeperPID, id.KeeperStart = keeper.PID, keeper.StartTime
	return id
}

// notRunning refuses the adoption of a launch that has ended, or may have.
func notRunning(slot core.SlotName, e Ended) *core.Error {
	if e.Verified {
		return core.Refuse(core.CodeNotFound, "the launch has ended: "+e.How, "start the slot again").With("clean", e.Clean)
	}
	return core.Refuse(core.CodeUnavailable, e.How, "stop the slot: sessiondock slot stop "+string(slot)).With("left", e.Left)
}

func unclear(why error) *core.Error {
	return core.Refuse(core.CodeUnavailable, "nothing can be said of the launch: "+why.Error(), "try again, or stop the slot")
}

// Wait returns when the launch has ended or can no longer be watched.
func (d *Direct) Wait(ctx context.Context, slot core.SlotName, l core.Launch) Ended {
	if e := checkLaunch(slot, l); e != nil {
		return unverified(e.Message)
	}
	socket := filepath.Join(d.cfg.Dirs.places(slot).run, "keeper.sock")
	for {
		f := d.find(ctx, slot, l)
		switch f.standing {
		case ended:
			return f.end
		case orphaned:
			return d.lookForOrphans(ctx, d.scope(slot, l, f.successor))
		case answering:
			a, _, err := call(ctx, socket, d.keeperOf(l), request{Op: opWait, Launch: l.ID})
			if err == nil && a.Ended != nil {
				d.forget(l.ID)
				return *a.Ended
			}
		}
		if !sleep(ctx, watchEvery) {
			return unverified("the wait was ended before the launch")
		}
	}
}

// Stop ends the launch. If ctx has no deadline, it takes one of its own.
func (d *Direct) Stop(ctx context.Context, slot core.SlotName, l core.Launch, mode StopMode) Ended {
	if e := checkLaunch(slot, l); e != nil {
		return unverified(e.Message)
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, stopWithin+answerWithin)
	defer cancel()
	socket := filepath.Join(d.cfg.Dirs.places(slot).run, "keeper.sock")
	for {
		f := d.find(ctx, slot, l)
		switch f.standing {
		case ended:
			return f.end
		case orphaned:
			e := endOrphans(ctx, d.scope(slot, l, f.successor), mode)
			if e.Verified {
				d.forget(l.ID)
			}
			return e
		case answering:
			a, _, cerr := call(ctx, socket, d.keeperOf(l), request{Op: opStop, Launch: l.ID, Mode: mode})
			if cerr == nil && a.Ended != nil {
				if a.Ended.Verified {
					d.forget(l.ID)
				}
				return *a.Ended
			}
			f.why = cerr
		case silent:
			// One that has only just been started is given time to listen.
			if mode == StopNow && time.Since(begin) >= patience {
				d.endKeeper(ctx, l)
			}
		}
		if !sleep(ctx, watchEvery) {
			return unverified(fmt.Sprintf("the launch could not be ended in time: %v", f.why))
		}
	}
}

// endKeeper takes away a keeper that does not answer, so that what it kept can
// be ended as orphans. Its children are killed first, while descent shows them.
func (d *Direct) endKeeper(ctx context.Context, l core.Launch) {
	keeper, err := peer.Read(d.keeperOf(l).PID)
	if err != nil || keeper.Dead || !keeper.Same(d.keeperOf(l)) {
		return
	}
	// A stopped keeper cannot be raced by children that it would collect.
	if sendSignal(keeper, unix.SIGSTOP) != nil {
		return
	}
	for end := time.Now().Add(lingerWithin); len(killTree(keeper)) > 0 && time.Now().Before(end); {
		if !sleep(ctx, 5*time.Millisecond) {
			break
		}
	}
	sendSignal(keeper, unix.SIGKILL)
	waitGone(ctx, keeper, lingerWithin)
}

// lookForOrphans says whether anything is left of a launch without a keeper.
func (d *Direct) lookForOrphans(ctx context.Context, s scope) Ended {
	e := orphansEnded(s.lookTwice(ctx), "nothing was ended by this look")
	if e.Verified {
		d.forget(s.launch)
	}
	return e
}

func unverified(how string) Ended { return Ended{Containment: containment, How: how} }

// checkLaunch refuses what could not have been started here.
func checkLaunch(slot core.SlotName, l core.Launch) *core.Error {
	if e := core.CheckName("slot", string(slot)); e != nil {
		return e
	}
	if l.ID == "" || strings.ContainsAny(string(l.ID), "/\x00") {
		return core.Refuse(core.CodeInvalid, fmt.Sprintf("launch %q cannot name a file", l.ID), "use a ULID")
	}
	return nil
}

// otherBoot says whether the machine has been restarted since a launch began.
func otherBoot(l core.Launch) bool {
	boot, err := bootID()
	return err == nil && l.BootID != "" && l.BootID != boot
}

func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}
