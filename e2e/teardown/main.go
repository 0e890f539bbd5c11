// Command teardown ends many launches under a real user manager, in most of which a
// process has escaped from its browser, and holds what is said of each end against what
// became of that process: `go run ./e2e/teardown -n=1000`. Its last line is one of JSON;
// it fails if an escape was called clean.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/supervise"
	"sessiondock.dev/sessiondock/e2e/manager"
	"sessiondock.dev/sessiondock/e2e/standin"
)

// maxP99 is how long 99 of 100 teardowns may take at most, verification included.
const maxP99 = 3 * time.Second

// result is the last line.
type result struct {
	Teardowns    int            `json:"teardowns"`
	Planted      map[string]int `json:"planted"` // by the way of escape; "none" is a launch without one
	CalledClean  int            `json:"called_clean"`
	CleanUnknown int            `json:"clean_unknown"` // launches that left nothing, and of whose end nothing was verified
	Unknown      int            `json:"unknown"`
	Other        int            `json:"other_faults"`
	Control      int            `json:"control_caught"` // of the launches without a wall, those whose escape was noticed
	P50          int64          `json:"p50_ms"`
	P99          int64          `json:"p99_ms"`
	Seed         uint64         `json:"seed"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(supervise.KeeperMain(os.Args[2:]))
	}
	manager.Stage()
	n := flag.Int("n", 1000, "how many launches are ended")
	seed := flag.Uint64("seed", 0, "what their order is drawn from (0: by chance)")
	workers := flag.Int("workers", 4, "how many at a time")
	flag.Parse()
	if _, in := manager.Inside(); !in {
		if why := manager.Missing(); why != "" {
			fmt.Fprintln(os.Stderr, "NOT RUN:", why)
			os.Exit(1)
		}
		code, err := manager.Rerun(manager.Run{Args: os.Args[1:]})
		if err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			code = 1
		}
		os.Exit(code)
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	r, err := run(*n, *seed, *workers)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if r.CalledClean+r.CleanUnknown+r.Other > 0 || r.Control != controls || r.P99 > maxP99.Milliseconds() {
		os.Exit(1)
	}
}

// work is one launch to be ended.
type work struct {
	escape *standin.Escape // nil: none
	mode   supervise.StopMode
	n      int
	// control: without the wall, which lets every process escape that the service
	// manager starts. If that is not noticed, nothing here is.
	control bool
}

// controls is how many of those are run.
const controls = 5

func run(n int, seed uint64, workers int) (result, error) {
	group, err := elsewhere()
	if err != nil {
		return result{}, err
	}
	ways := standin.Escapes(group)
	rng := rand.New(rand.NewPCG(seed, 0))
	var bunches [2][]work // what lets the manager start a process comes last, and one at a time
	for i := range n {
		w := work{n: i, mode: []supervise.StopMode{supervise.StopClean, supervise.StopNow}[rng.IntN(2)]}
		if k := i % (len(ways) + 1); k < len(ways) {
			w.escape = &ways[k]
		}
		b := 0
		if w.escape != nil && w.escape.Foreign {
			b = 1
		}
		bunches[b] = append(bunches[b], w)
	}
	r := result{Teardowns: n, Planted: map[string]int{}, Seed: seed}
	var took []time.Duration
	var mu sync.Mutex
	for b, bunch := range bunches {
		rng.Shuffle(len(bunch), func(i, j int) { bunch[i], bunch[j] = bunch[j], bunch[i] })
		todo := make(chan work)
		var group sync.WaitGroup
		at := workers
		if b == 1 {
			at = 1 // two such units could not be told apart: each would count against both launches
		}
		for range at {
			group.Go(func() {
				for w := range todo {
					d, said, err := tearDown(w)
					mu.Lock()
					r.count(w, said, err)
					took = append(took, d)
					if len(took)%50 == 0 {
						fmt.Fprintf(os.Stderr, "%d of %d\n", len(took), n)
					}
					mu.Unlock()
				}
			})
		}
		for _, w := range bunch {
			todo <- w
		}
		close(todo)
		group.Wait()
	}
	for i := range controls {
		way := ways[slices.IndexFunc(ways, func(e standin.Escape) bool { return e.Foreign })]
		_, _, err := tearDown(work{escape: &way, mode: supervise.StopNow, n: n + i, control: true})
		if err != nil && errors.Is(err, standin.ErrCalledClean) {
			r.Control++
		} else {
			fmt.Fprintf(os.Stderr, "control %d was not caught: %v\n", i, err)
		}
	}
	slices.Sort(took)
	r.P50, r.P99 = took[len(took)/2].Milliseconds(), took[len(took)*99/100].Milliseconds()
	return r, nil
}

func (r *result) count(w work, said supervise.Ended, err error) {
	name := "none"
	if w.escape != nil {
		name = w.escape.Name
	}
	r.Planted[name]++
	if !said.Verified {
		r.Unknown++
	}
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "launch %d (%s): %v\n", w.n, name, err)
	switch {
	case errors.Is(err, standin.ErrCalledClean):
		r.CalledClean++
	case w.escape == nil:
		r.CleanUnknown++
	default:
		r.Other++
	}
}

// tearDown starts a launch, ends it, and returns how long the end took, what was said of
// it, and what was wrong with that.
func tearDown(w work) (took time.Duration, said supervise.Ended, err error) {
	dir, err := os.MkdirTemp("/tmp", "sdt")
	if err != nil {
		return 0, said, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg, err := standin.Config(dir)
	if err != nil {
		return 0, said, err
	}
	if w.escape != nil {
		err = standin.WriteEscape(cfg.Browser, *w.escape)
	} else {
		err = standin.Write(cfg.Browser, standin.Polite)
	}
	if err != nil {
		return 0, said, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var s supervise.Supervisor = supervise.New(cfg)
	if !w.control {
		held := supervise.NewSystemd(cfg)
		defer held.Close()
		s = held
	}
	const slot = "shop"
	spec := supervise.Spec{Slot: slot, Launch: core.LaunchID(fmt.Sprintf("L%d", w.n)), Generation: 1, Secret: "s", Display: "headless"}
	id, err := s.Start(ctx, spec)
	if err != nil {
		return 0, said, err
	}
	l := core.Launch{ID: spec.Launch, Generation: 1, Identity: id}
	var escaped peer.Proc
	if w.escape != nil {
		if escaped, err = standin.Escaped(filepath.Join(cfg.Dirs.DataDir, "slots", slot)); err != nil {
			return 0, said, err
		}
	}
	begin := time.Now()
	said = s.Stop(ctx, slot, l, w.mode)
	took = time.Since(begin)
	if w.escape == nil {
		if !said.Verified {
			err = fmt.Errorf("unknown, and nothing was planted: %+v", said)
		}
		return took, said, err
	}
	if err = standin.Judge(*w.escape, said, escaped); !standin.Runs(escaped) {
		return took, said, err
	}
	// What was rightly left is ended, and the end is verified then.
	if e := unix.Kill(escaped.PID, unix.SIGKILL); e != nil {
		return took, said, errors.Join(err, e)
	}
	if e := standin.Eventually(func() bool { return !standin.Runs(escaped) }); e != nil {
		return took, said, errors.Join(err, e)
	}
	if out, e := exec.Command("systemctl", "--user", "reset-failed").CombinedOutput(); e != nil {
		return took, said, errors.Join(err, fmt.Errorf("%w: %s", e, out))
	}
	if again := s.Stop(ctx, slot, l, w.mode); !again.Verified {
		err = errors.Join(err, fmt.Errorf("unknown after what had escaped was gone: %+v", again))
	}
	return took, said, err
}

// elsewhere makes a unit that is nobody's, for processes to be moved into.
func elsewhere() (string, error) {
	if out, err := exec.Command("systemd-run", "--user", "--unit=app-elsewhere", "sleep", "infinity").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	out, err := exec.Command("systemctl", "--user", "show", "--value", "-p", "ControlGroup", "app-elsewhere").Output()
	return strings.TrimSpace(string(out)), err
}
