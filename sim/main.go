package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	n := flag.Int64("n", 20_000, "how many schedules; 1: one, with its transcript")
	seed := flag.Uint64("seed", 1, "of the first schedule, the others follow it; 0: by chance")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "how many at a time")
	stop := flag.Int("stop", 1, "end after so many violations")
	which := flag.String("plants", "all", "which of the deliberate faults are planted afterwards: all, some, none, or those with this text")
	each := flag.Int64("each", 40_000, "in how many schedules at most a fault is looked for")
	tableFile := flag.String("table", "", "a file for the table of the faults that were planted, as Markdown")
	size := flag.String("explore", "", "go through every state instead: small, middle, deaths, link, both, time or whole")
	quiet := flag.Bool("quiet", false, "print violations alone")
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(rand.Uint32())
	}
	// Schedules make much that lives shortly, and little that stays (a few MB): what is
	// dead is collected when it is worth it, and nobody looks at where it was made.
	debug.SetGCPercent(3_000)
	runtime.MemProfileRate = 0
	if *size != "" {
		if err := exploreAll(*size, *which, *quiet); err != nil {
			fmt.Fprintln(os.Stderr, "sim:", err)
			os.Exit(1)
		}
		return
	}
	if err := simulate(*n, *seed, *workers, *stop, *which, *each, *tableFile, *quiet); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

// report is the last line that is printed.
type report struct {
	Schedules  int64  `json:"schedules"`
	Violations int    `json:"violations"`
	Planted    int    `json:"planted"`
	Caught     int    `json:"caught"`
	Seed       uint64 `json:"seed"`
}

func simulate(n int64, seed uint64, workers, stop int, which string, each int64, tableFile string, quiet bool) error {
	program, err := bundle()
	if err != nil {
		return err
	}
	if n == 1 {
		return replay(program, seed)
	}
	all, bad, err := many(program, n, seed, workers, stop, quiet)
	if err != nil {
		return err
	}
	if !quiet {
		all.print(os.Stdout)
	}
	for _, f := range bad {
		fmt.Println(line(f))
	}
	out := report{Schedules: all.schedules, Violations: len(bad), Seed: seed}
	if chosen := choose(which); len(chosen) > 0 && len(bad) == 0 && !quiet {
		hunt := func(p plant, binary string) (planted, error) { return p.hunt(binary, each, seed) }
		found, err := plantAll(".", chosen, hunt, func(so []planted) error {
			if tableFile == "" {
				return nil
			}
			var text strings.Builder
			table(&text, so)
			return os.WriteFile(tableFile, []byte(text.String()), 0o644)
		})
		if err != nil {
			return err
		}
		out.Planted, out.Caught = len(found), table(os.Stdout, found)
	}
	fmt.Println(line(out))
	switch {
	case len(bad) > 0:
		return fmt.Errorf("%d violations; a seed alone reproduces one: go run ./sim -n 1 -seed %d", len(bad), bad[0].Seed)
	case out.Caught < out.Planted:
		return fmt.Errorf("%d planted faults were not found", out.Planted-out.Caught)
	}
	return nil
}

func line(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// choose selects deliberate faults.
func choose(which string) []plant {
	var out []plant
	for _, p := range plants {
		if which == "all" || which == "some" && p.quick || strings.Contains(p.file+" "+p.why, which) {
			out = append(out, p)
		}
	}
	return out
}

// replay plays one schedule and prints all that happens.
func replay(program *program, seed uint64) error {
	s, err := newScript(program)
	if err != nil {
		return err
	}
	var transcript strings.Builder
	s.noted = func(text string) { fmt.Fprintf(&transcript, "%10s%s\n", "", text) }
	broken := play(seed, s, newCounts(), &transcript)
	fmt.Print(transcript.String())
	violations := 0
	if broken != nil {
		violations = 1
	}
	fmt.Println(line(report{Schedules: 1, Violations: violations, Seed: seed}))
	return broken
}

// many plays schedules until there are enough of them, or of violations.
func many(program *program, n int64, seed uint64, workers, stop int, quiet bool) (*counts, []found, error) {
	var (
		next  atomic.Int64
		ended atomic.Bool
		group sync.WaitGroup
		mu    sync.Mutex // guards what follows
		all   = newCounts()
		bad   []found
		first error
	)
	begun := time.Now()
	for range workers {
		group.Go(func() {
			count := newCounts()
			s, err := newScript(program)
			for err == nil && !ended.Load() {
				i := next.Add(1) - 1
				if i >= n {
					break
				}
				if i%10_000 == 0 && i > 0 && !quiet {
					fmt.Fprintf(os.Stderr, "%d schedules in %.0f s\n", i, time.Since(begun).Seconds())
				}
				before := count.steps
				if broken := play(seed+uint64(i), s, count, nil); broken != nil {
					mu.Lock()
					bad = append(bad, found{seed + uint64(i), count.steps - before, broken.Error()})
					fmt.Fprintln(os.Stderr, line(bad[len(bad)-1])) // a long run tells it at once
					ended.Store(len(bad) >= stop)
					mu.Unlock()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(count)
			if first == nil {
				first = err
			}
		})
	}
	group.Wait()
	return all, bad, first
}

// found is a violation, and how to see it again.
type found struct {
	Seed      uint64 `json:"seed"`
	Step      int64  `json:"step"`
	Violation string `json:"violation"`
}
