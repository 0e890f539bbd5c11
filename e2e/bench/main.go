package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/e2e/bench/relay"
	"sessiondock.dev/sessiondock/e2e/manager"
	"sessiondock.dev/sessiondock/e2e/programs"
)

const (
	// wholeRun bounds a run of everything.
	wholeRun = 20 * time.Minute
	// rounds and warmUp are how often each thing is measured, and not counted before.
	rounds = 500
	warmUp = 50
	// launches is how often a browser is started for launch_vs_plain.
	launches = 10
	// presses is how often the popup is pressed.
	presses = 100
	// lines is the file of figures, in a run's home and in build/.
	lines = "bench.jsonl"
)

// part measures some figures; parts that share a set-up are one.
type part struct {
	names   []string
	product bool // needs SessionDock's own programs
	measure func(context.Context, *bench) ([]Figure, error)
}

var parts = []part{
	{[]string{"relay_vs_direct"}, false, measureRelay},
	{[]string{"evaluate_vs_relay", "evaluate_vs_recorded_relay", "evaluate_vs_direct", "click_vs_direct", "takeover_idle_ms", "takeover_idle_p99_ms"}, true, measureActions},
	{[]string{"host_rss_mb", "daemon_rss_mb"}, true, measureMemory},
	{[]string{"launch_vs_plain", "launch_vs_relay"}, true, measureLaunch},
	{[]string{"popup_hold_ms"}, true, measurePopup},
	{[]string{"grants_per_s", "grant_p99_ms"}, true, measureGrants},
	{[]string{"grant_scaling"}, false, measureScaling},
	{[]string{"daemon_1000_slots_rss_mb"}, true, measureInventory},
	{[]string{"playwright_vs_direct"}, true, measurePlaywright},
	{[]string{"fence_100_inflight_p99_ms"}, true, measureInFlight},
	{[]string{"mcp_click_vs_best", "mcp_evaluate_vs_best", "mcp_navigate_vs_best", "mcp_snapshot_vs_best", "mcp_navigate_vs_load", "mcp_snapshot_kb"}, true, measureTools},
}

func main() {
	if relay.IsHost() {
		if err := relay.RunHost(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	if relay.IsRecorder() {
		if err := relay.RunRecorder(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == answerArg {
		if err := answerOnce(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	manager.Stage()
	if len(os.Args) > 1 {
		usage()
		os.Exit(2)
	}
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = 1
	}
	os.Exit(code)
}

func run() (int, error) {
	if home, in := manager.Inside(); in {
		return 0, runUnits(home)
	}
	home, in := demo.InHome()
	if !in {
		return withUnits(demo.Rehome(demo.Run{Args: os.Args[1:], Prepare: buildPrograms, Finish: keepLines}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), wholeRun)
	defer cancel()
	site, err := demo.OpenSite()
	if err != nil {
		return 0, err
	}
	defer site.Close()
	b := &bench{home: home, site: site}
	var figures []Figure
	var failed []error
	for _, p := range parts {
		if !wanted(p.names) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s\n", strings.Join(p.names, ", "))
		got, err := p.measure(ctx, b)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", strings.Join(p.names, ", "), err))
		}
		for _, f := range got {
			if f.judge(); wanted([]string{f.Name}) {
				figures = append(figures, f)
			}
		}
	}
	out, err := os.Create(filepath.Join(home.Dir, lines))
	if err != nil {
		return 0, err
	}
	if err := errors.Join(writeLines(out, figures), out.Close()); err != nil {
		return 0, err
	}
	printTable(os.Stdout, figures)
	for _, s := range b.splits {
		s.print(os.Stdout)
	}
	return 0, errors.Join(failed...)
}

// usage names what can be measured. There are no arguments.
func usage() {
	fmt.Fprintln(os.Stderr, "usage: make bench, or ONLY=FIGURE,... make bench; the figures are:")
	for _, p := range parts {
		fmt.Fprintln(os.Stderr, "  "+strings.Join(p.names, " "))
	}
	fmt.Fprintln(os.Stderr, "  "+strings.Join(unitFigures, " "))
}

// wanted says whether ONLY names one of the figures, or nothing.
func wanted(names []string) bool {
	only := os.Getenv("ONLY")
	if only == "" {
		return true
	}
	for name := range strings.SplitSeq(only, ",") {
		if slices.Contains(names, strings.TrimSpace(name)) {
			return true
		}
	}
	return false
}

// buildPrograms builds what is measured, and puts this program there a second time
// as the bare relay's host.
func buildPrograms(bin string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Symlink(filepath.Base(self), filepath.Join(bin, relay.HostName)); err != nil {
		return err
	}
	if !slices.ContainsFunc(parts, func(p part) bool { return p.product && wanted(p.names) }) {
		return nil
	}
	for to, from := range map[string]string{rivalsDir: "e2e/bench/rivals", clientsDir: "e2e/clients"} {
		if _, err := os.Stat(filepath.Join(from, "node_modules")); err != nil {
			continue // told by the part that needs them
		}
		if err := os.CopyFS(filepath.Join(bin, to), os.DirFS(from)); err != nil {
			return err
		}
	}
	return programs.Build(bin)
}

// keepLines takes the figures out of the run's home.
func keepLines(home demo.Home) error {
	text, err := os.ReadFile(filepath.Join(home.Dir, lines))
	if err != nil {
		return err
	}
	if err := os.MkdirAll("build", 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("build", lines), text, 0o644)
}
