package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/e2e/programs"
)

// report is the one line that the command prints last.
type report struct {
	Rounds       int    `json:"rounds"`
	Failpoints   int    `json:"failpoints"` // different ones at which the daemon was ended
	Acknowledged int    `json:"acknowledged"`
	Lost         int    `json:"lost"`
	Reused       int    `json:"reused"` // epochs given out twice, or not above what was seen
	Seed         uint64 `json:"seed"`
}

func main() {
	if filepath.Base(os.Args[0]) == browserName {
		if err := browse(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	rounds := flag.Int("rounds", 500, "how often the daemon is killed")
	seed := flag.Uint64("seed", 0, "of what is drawn; 0: by chance")
	flag.Parse()
	code, err := play(*rounds, *seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = 1
	}
	os.Exit(code)
}

func play(rounds int, seed uint64) (int, error) {
	home, in := demo.InHome()
	if !in {
		return demo.Rehome(demo.Run{Args: os.Args[1:], Prepare: prepare})
	}
	r, err := crash(context.Background(), home, rounds, seed, os.Stderr)
	if err != nil {
		return 1, err
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 1, err
	}
	return 0, r.verdict()
}

// prepare builds the daemon with its failpoints, and puts this program there as the
// browser.
func prepare(bin string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Symlink(filepath.Base(self), filepath.Join(bin, browserName)); err != nil {
		return err
	}
	return programs.BuildWith(bin, "-tags=failpoint")
}

// From enough rounds on everything that matters is to be acknowledged. On a machine that is
// busy with others a round's daemon comes to less; then there are more rounds, up to so many.
const (
	enough = 20
	more   = 200
)

// crash plays so many rounds.
func crash(ctx context.Context, home demo.Home, rounds int, seed uint64, log io.Writer) (report, error) {
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	r := newRun(home, seed, log)
	out := report{Rounds: rounds, Seed: seed}
	begun := time.Now()
	for played := 0; played < rounds || rounds >= enough && r.missing() != "" && played < rounds+more; {
		n := roundsPerLife
		if played < rounds {
			n = min(n, rounds-played)
		}
		if err := r.life(ctx, n); err != nil {
			return out, fmt.Errorf("seed %d: %w", seed, err)
		}
		played += n
		out.Rounds = played
		fmt.Fprintf(log, "%d rounds in %.0f s: %d changes acknowledged, %d lost, %d epochs reused; %d takeovers were told by the extension\n",
			played, time.Since(begun).Seconds(), r.acknowledged, r.lost, r.reused, r.told)
	}
	fmt.Fprintln(log, "acknowledged:", r.kinds)
	fmt.Fprintln(log, "the daemon was ended at:")
	for name, n := range r.ends {
		if name == random {
			name = "(any moment)"
		} else {
			out.Failpoints++
		}
		fmt.Fprintf(log, "  %-14s %d\n", name, n)
	}
	out.Acknowledged, out.Lost, out.Reused = r.acknowledged, r.lost, r.reused
	if kind := r.missing(); rounds >= enough && kind != "" {
		return out, fmt.Errorf("no %s was ever acknowledged: not all is tried that should be", kind)
	}
	return out, nil
}

// missing is a kind of change that matters and was not acknowledged yet, or "".
func (r *run) missing() string {
	for _, kind := range []string{"takeover", "grant", "action"} {
		if r.kinds[kind] == 0 {
			return kind
		}
	}
	return ""
}

func (r report) verdict() error {
	switch {
	case r.Lost+r.Reused > 0:
		return fmt.Errorf("%d acknowledged changes are lost, %d epochs were reused", r.Lost, r.Reused)
	case r.Acknowledged == 0:
		return errors.New("nothing was acknowledged: nothing was tried")
	}
	return nil
}
