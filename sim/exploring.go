package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/sim/explore"
)

// explored are the deliberate faults that the explorer has to find: takeover, fence and
// grant are what it knows.
var explored = []string{
	"a change of control sends no fence",
	"a step takes the number that a takeover has taken",
	"a fence does not close the host's gate",
}

// exploreAll goes through every state within named bounds, and then through those with a
// deliberate fault, which it has to find.
func exploreAll(size, which string, quiet bool) error {
	bounds, ok := explore.Sizes[size]
	if !ok {
		return fmt.Errorf("there are no bounds %q: small, middle, deaths, link, both, time or whole", size)
	}
	progress := io.Writer(os.Stderr)
	if quiet {
		progress = io.Discard
	}
	r, err := explore.Explore(bounds, progress)
	if err != nil {
		return err
	}
	fmt.Println(line(r))
	if r.Violations > 0 {
		return fmt.Errorf("%s, after: %s", r.Violation, strings.Join(r.Trace, "; "))
	}
	if which == "none" || quiet {
		return nil
	}
	var chosen []plant
	for _, p := range plants {
		if slices.Contains(explored, p.why) {
			chosen = append(chosen, p)
		}
	}
	found, err := plantAll(".", chosen, plant.exploreWith, func([]planted) error { return nil })
	if err != nil {
		return err
	}
	for _, p := range found {
		fmt.Println(line(map[string]any{"planted": p.why, "found": p.found, "states": p.tried, "violation": p.violation}))
		if !p.found {
			err = fmt.Errorf("the explorer does not find: %s", p.why)
		}
	}
	return err
}

// exploreWith looks for a fault in the middle bounds.
func (p plant) exploreWith(binary string) (planted, error) {
	run := exec.Command(binary, "-quiet", "-explore", "middle")
	var text, problems bytes.Buffer
	run.Stdout, run.Stderr = &text, &problems
	failed := run.Run()
	var r explore.Result
	if err := json.Unmarshal(text.Bytes(), &r); err != nil {
		return planted{plant: p}, fmt.Errorf("%v: %s%s", failed, text.String(), problems.String())
	}
	return planted{plant: p, found: r.Violations > 0, tried: r.States, violation: r.Violation, step: int64(len(r.Trace))}, nil
}
