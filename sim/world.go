package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
)

// world is one schedule: the daemon, its disk, the slots with their browsers, agents,
// people, the website and the clocks. Nothing in it is concurrent; what is concurrent
// outside is the order in which its happenings are chosen, and they are chosen by the
// seed alone.
type world struct {
	seed   uint64
	rng    *rand.Rand
	script *script
	count  *counts
	trace  *strings.Builder // nil: nobody reads along

	boot       int // which boot of the machine this is
	bootID     string
	bootMs     int64
	wallMs     int64
	asleepMs   int64 // of this boot, spent in suspend: the monotonic clock did not count it
	setBack    bool  // the wall clock was set back after a suspend could have stopped the other
	calm       bool  // no faults: a scene is being set, or brought to its end
	faultsLeft int
	capacity   core.Capacity // of browsers, as the daemon is told when it starts
	weights    []int         // of the rows, in this schedule
	favourite  string        // what agents do half of the time in this schedule; "": nothing

	disk   *disk
	daemon *daemon // nil while there is none
	slots  []*slot
	agents []*agent
	truth  truth
	ids    int
	broken error // the first violation
}

// slot is what a slot is outside the daemon: a profile on the disk, and the browsers
// that were started on it.
type slot struct {
	name     core.SlotName
	bindings []core.BindingName
	local    map[string]string // storage.local of the profile
	browsers []*browser        // those that may still run, the last is the newest
}

func newWorld(seed uint64, script *script, count *counts) *world {
	w := &world{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0x5e551040)), script: script, count: count,
		boot: 1, bootID: "boot-1", bootMs: 100_000, wallMs: 1_700_000_000_000, disk: newDisk(), truth: newTruth(),
	}
	return w
}

func (w *world) now() core.Now {
	return core.Now{BootID: w.bootID, BootMs: w.bootMs, WallMs: w.wallMs}
}

func (w *world) mono() int64 { return w.bootMs - w.asleepMs }

// one says yes once in n times.
func (w *world) one(n int) bool { return w.rng.IntN(n) == 0 }

func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

func (w *world) id(prefix string) string {
	w.ids++
	return fmt.Sprintf("%s%05d", prefix, w.ids)
}

func (w *world) logf(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%8d  ", w.bootMs)
		fmt.Fprintf(w.trace, format, args...)
		w.trace.WriteByte('\n')
	}
}

// violated notes the first thing that must not have happened.
func (w *world) violated(rule, format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf("%s: %s", rule, fmt.Sprintf(format, args...))
		w.logf("VIOLATION %v", w.broken)
	}
}

// pass lets time go by. Timers that a worker sets meanwhile may ring within it, up to a
// few times: a worker is not always scheduled when it could be.
func (w *world) pass(ms int64) {
	hops := int64(1)
	if ms > 20 {
		hops = 3
	}
	for i := range hops {
		step := ms*(i+1)/hops - ms*i/hops
		w.bootMs += step
		w.wallMs += step
		w.ring()
	}
}

// ring lets everything that waits for the clock, but for the daemon, look at it.
func (w *world) ring() {
	for _, s := range w.slots {
		for _, b := range s.browsers {
			if b.host != nil {
				b.host.deadlines()
			}
			if b.worker != nil {
				b.worker.ring()
			}
		}
	}
}

func (w *world) slotOf(name core.SlotName) *slot {
	for _, s := range w.slots {
		if s.name == name {
			return s
		}
	}
	return nil
}
