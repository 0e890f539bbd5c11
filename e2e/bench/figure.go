package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figure is one line of build/bench.jsonl.
type Figure struct {
	Name          string  `json:"name"`
	Value         float64 `json:"value"`
	Unit          string  `json:"unit"`
	Baseline      string  `json:"baseline"`
	BaselineValue float64 `json:"baseline_value"`
	Ratio         float64 `json:"ratio"` // value / baseline_value
	N             int     `json:"n"`     // measurements of each
	Asked         *asked  `json:"asked,omitempty"`
}

// asked is what a figure is to be: at most, or at least, so much.
type asked struct {
	Of    string  `json:"of"` // value or ratio
	Most  float64 `json:"most,omitempty"`
	Least float64 `json:"least,omitempty"`
	Met   bool    `json:"met"`
}

// targets are what is asked of the product, by figure.
var targets = map[string]asked{
	"takeover_idle_ms":          {Of: "value", Most: 3},
	"grants_per_s":              {Of: "value", Least: 2000},
	"grant_p99_ms":              {Of: "value", Most: 50},
	"grant_scaling":             {Of: "ratio", Most: 2},
	"daemon_1000_slots_rss_mb":  {Of: "value", Most: 64},
	"playwright_vs_direct":      {Of: "ratio", Most: 1.3},
	"fence_100_inflight_p99_ms": {Of: "value", Most: 15},
	"mcp_click_vs_best":         {Of: "ratio", Most: 0.2},
	"mcp_evaluate_vs_best":      {Of: "ratio", Most: 0.2},
	"mcp_navigate_vs_best":      {Of: "ratio", Most: 0.6},
	"mcp_snapshot_vs_best":      {Of: "ratio", Most: 0.5},
	"mcp_snapshot_kb":           {Of: "value", Most: 40},
}

// judge holds a figure against what is asked of it.
func (f *Figure) judge() {
	a, ok := targets[f.Name]
	if !ok {
		return
	}
	got := f.Value
	if a.Of == "ratio" {
		got = f.Ratio
	}
	a.Met = (a.Most == 0 || got <= a.Most) && got >= a.Least
	f.Asked = &a
}

func (a *asked) String() string {
	if a == nil {
		return ""
	}
	text := fmt.Sprintf("%s ≤ %g", a.Of, a.Most)
	if a.Least > 0 {
		text = fmt.Sprintf("%s ≥ %g", a.Of, a.Least)
	}
	if !a.Met {
		text += " SHORT"
	}
	return text
}

// figure makes the line of two series of durations, each summed up by its
// percentile p (50 is the median).
func figure(name, baseline string, p float64, ours, theirs []time.Duration) Figure {
	f := Figure{
		Name: name, Unit: "ms", Baseline: baseline, N: len(ours),
		Value: millis(percentile(ours, p)), BaselineValue: millis(percentile(theirs, p)),
	}
	f.Ratio = ratio(f.Value, f.BaselineValue)
	return f
}

func millis(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }

func ratio(value, baseline float64) float64 {
	if baseline == 0 {
		return 0
	}
	return round(value / baseline)
}

// round keeps three digits after the point.
func round(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 3, 64), 64)
	if err != nil {
		panic(err) // it was formatted just now
	}
	return y
}

// percentile is the smallest value that p percent of the series do not exceed.
func percentile(ds []time.Duration, p float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	i := int(p/100*float64(len(sorted))+0.9999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// inTurns measures two things alternately, so that what else the machine does
// meets both, after some rounds that are not counted.
func inTurns(warmUp, n int, ours, theirs func() error) (a, b []time.Duration, err error) {
	for i := range warmUp + n {
		pair := [2]time.Duration{}
		// Which one goes first changes, too.
		for k := range 2 {
			which, do := k, ours
			if (k+i)%2 == 1 {
				which, do = 1, theirs
			} else {
				which = 0
			}
			start := time.Now()
			if err := do(); err != nil {
				return nil, nil, err
			}
			pair[which] = time.Since(start)
		}
		if i >= warmUp {
			a, b = append(a, pair[0]), append(b, pair[1])
		}
	}
	return a, b, nil
}

// rssMB is the resident memory of a process.
func rssMB(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kb float64
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				return 0, err
			}
			return round(kb / 1024), nil
		}
	}
	return 0, fmt.Errorf("process %d has no resident memory", pid)
}

func writeLines(w io.Writer, figures []Figure) error {
	enc := json.NewEncoder(w)
	for _, f := range figures {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func printTable(w io.Writer, figures []Figure) {
	fmt.Fprintf(w, "\n%-24s %10s %10s %-5s %7s %6s  %-20s %s\n", "figure", "value", "baseline", "unit", "ratio", "n", "asked", "against")
	for _, f := range figures {
		fmt.Fprintf(w, "%-24s %10.3f %10.3f %-5s %7.2f %6d  %-20s %s\n", f.Name, f.Value, f.BaselineValue, f.Unit, f.Ratio, f.N, f.Asked, f.Baseline)
	}
}
