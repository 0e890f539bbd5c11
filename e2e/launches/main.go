package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"time"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/e2e/manager"
	"sessiondock.dev/sessiondock/e2e/programs"
)

const (
	slot = core.SlotName("shop")
	// within bounds one launch or stop.
	within = time.Minute
)

// result is the last line. Launches are timed from the request until the extension is
// connected and fenced, stops until the end is verified.
type result struct {
	Launches    int            `json:"launches"`
	Left        map[string]int `json:"left"` // kinds of things that were left, and how many in all
	LaunchP50Ms int64          `json:"launch_p50_ms"`
	LaunchP99Ms int64          `json:"launch_p99_ms"`
	StopP50Ms   int64          `json:"stop_p50_ms"`
	StopP99Ms   int64          `json:"stop_p99_ms"`
	Unclean     int            `json:"unclean"`    // ends that were not clean ones
	DaemonFDs   [2]int         `json:"daemon_fds"` // before the first and after the last
}

func main() {
	manager.Stage()
	n := flag.Int("n", 200, "how many launches are started and stopped")
	flag.Parse()
	if *n < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "error: launches takes -n, at least 1, and no arguments\nhint: launches -n=200")
		os.Exit(2)
	}
	home, in := manager.Inside()
	if !in {
		why := manager.Missing()
		if _, err := exec.LookPath("chromium"); why == "" && err != nil {
			why = "chromium is missing: make deps"
		}
		if why != "" {
			fmt.Fprintln(os.Stderr, "NOT RUN:", why)
			os.Exit(1)
		}
		code, err := manager.Rerun(manager.Run{Args: os.Args[1:], Prepare: programs.Build})
		if err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			code = 1
		}
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := run(ctx, home, *n, func(format string, v ...any) { fmt.Fprintf(os.Stderr, format+"\n", v...) })
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if len(r.Left) > 0 || r.Unclean > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, home manager.Home, n int, say func(string, ...any)) (r result, err error) {
	p, err := manager.Install(home)
	if err != nil {
		return r, err
	}
	defer func() {
		if e := p.Remove(context.WithoutCancel(ctx)); err == nil {
			err = e
		}
	}()
	if _, err := p.Control.CreateSlot(ctx, wire.SlotRequest{Slot: slot, Display: "headless"}); err != nil {
		return r, err
	}
	// The first one makes the slot's directories and the extension's package, which stay.
	if _, _, err := once(ctx, p); err != nil {
		return r, fmt.Errorf("%w; the daemon's log:\n%s", err, p.Log())
	}
	w, err := newWatch(ctx, p)
	if err != nil {
		return r, err
	}
	r = result{Launches: n, Left: map[string]int{}}
	r.DaemonFDs[0] = w.fds()
	var launches, stops []time.Duration
	for i := range n {
		launch, end, err := once(ctx, p)
		if err != nil {
			return r, fmt.Errorf("launch %d: %w; the daemon's log:\n%s", i+1, err, p.Log())
		}
		launches, stops = append(launches, launch), append(stops, end)
		left, err := w.left(ctx)
		if err != nil {
			return r, err
		}
		for kind, what := range left {
			r.Left[kind] += len(what)
			say("after launch %d: left: %s %v", i+1, kind, what)
		}
		st, err := p.Control.Status(ctx, slot)
		if err != nil {
			return r, err
		}
		if st.Unclean != nil {
			r.Unclean++
			say("launch %d: %s", i+1, st.Unclean.How)
		}
		if (i+1)%20 == 0 {
			say("%d of %d", i+1, n)
		}
	}
	r.DaemonFDs[1] = w.fds()
	if r.DaemonFDs[1] > r.DaemonFDs[0]+spareFDs {
		r.Left["daemon_fd"] = r.DaemonFDs[1] - r.DaemonFDs[0]
	}
	r.LaunchP50Ms, r.LaunchP99Ms = share(launches)
	r.StopP50Ms, r.StopP99Ms = share(stops)
	return r, nil
}

// share returns the median and the 99th percentile, in milliseconds.
func share(of []time.Duration) (p50, p99 int64) {
	slices.Sort(of)
	return of[len(of)/2].Milliseconds(), of[len(of)*99/100].Milliseconds()
}

// once starts the browser and stops it, and says how long each took.
func once(ctx context.Context, p *manager.Product) (launch, end time.Duration, err error) {
	launch, err = change(ctx, p, client.Start, func(st *core.Status) bool {
		return st.Local.Launch != nil && st.Local.Launch.Link == "up" && st.Authority.Fence == "drained"
	})
	if err != nil {
		return 0, 0, err
	}
	end, err = change(ctx, p, client.Stop, func(st *core.Status) bool { return st.Local.Launch.State == "ended" })
	return launch, end, err
}

// change asks for a verb and waits until the slot is as it should be after it.
func change(ctx context.Context, p *manager.Product, verb client.Change, good func(*core.Status) bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	begin := time.Now()
	if _, err := p.Control.Change(ctx, slot, verb, wire.ChangeRequest{}); err != nil {
		return 0, err
	}
	for {
		st, err := p.Control.Status(ctx, slot)
		if err != nil {
			return 0, fmt.Errorf("after %s: %w", verb, err)
		}
		if good(st) {
			return time.Since(begin), nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}
