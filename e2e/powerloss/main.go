package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"

	"sessiondock.dev/sessiondock/e2e/powerloss/story"
)

// report is the one line that the command prints last.
type report struct {
	States      int    `json:"states"`
	Lost        int    `json:"lost"`
	Corrupt     int    `json:"corrupt"`
	ControlLost int    `json:"control_lost"`
	Seed        uint64 `json:"seed"`
}

func main() {
	z := size{}
	flag.IntVar(&z.states, "states", 100_000, "distinct states of the disk that are judged; the control has a tenth as many, and at least 500")
	flag.IntVar(&z.chapters, "chapters", story.Long, "commits of the traced program")
	flag.Uint64Var(&z.seed, "seed", 0, "of the changes and of what is drawn; 0: by chance")
	flag.Parse()
	debug.SetGCPercent(400) // every state is garbage once it was judged
	if z.seed == 0 {
		z.seed = rand.Uint64N(1 << 32)
	}
	r, err := run(z, os.Stderr)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err == nil {
		err = r.verdict()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run tries the store, and its control.
func run(z size, log io.Writer) (report, error) {
	r := report{Seed: z.seed}
	dir, err := os.MkdirTemp("", "powerloss-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	for _, control := range []bool{false, true} {
		program, err := build(dir, control)
		if err != nil {
			return r, err
		}
		if control {
			z.states = max(leastControl, z.states/10)
		}
		t, err := try(program, z, log)
		if err != nil {
			return r, err
		}
		fmt.Fprintf(log, "%s: %d system calls, %d moments, %d states: %d lost, %d corrupt\n",
			filepath.Base(program), t.calls, t.points, t.states, t.lost, t.corrupt)
		if t.first != "" {
			fmt.Fprintln(log, "  for example", t.first)
		}
		if control {
			r.ControlLost = t.lost
		} else {
			r.States, r.Lost, r.Corrupt = t.states, t.lost, t.corrupt
		}
	}
	return r, nil
}

// leastControl is how many states the control judges at least: some of them are lost.
const leastControl = 500

func (r report) verdict() error {
	switch {
	case r.Lost+r.Corrupt > 0:
		return fmt.Errorf("%d states of %d are lost and %d corrupt", r.Lost, r.States, r.Corrupt)
	case r.ControlLost == 0:
		return errors.New("the control lost nothing: this test cannot see a loss")
	}
	return nil
}
