package main

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sessiondock.dev/sessiondock/daemon/core"
)

// counts is what was tried, over many schedules.
type counts struct {
	schedules, steps, faults, told, rested int64
	happenings                             map[string]int64
	deeds                                  map[string]int64 // what came of actions, and what was done in the browser
	points, crashes                        map[string]int64
	grid                                   map[string]map[string]int64 // input, state of its slot: how often
	refusals                               map[string]int64            // input and code
}

func newCounts() *counts {
	return &counts{
		happenings: map[string]int64{}, deeds: map[string]int64{}, points: map[string]int64{}, crashes: map[string]int64{},
		grid: map[string]map[string]int64{}, refusals: map[string]int64{},
	}
}

func (c *counts) add(o *counts) {
	c.schedules += o.schedules
	c.steps += o.steps
	c.faults += o.faults
	c.told += o.told
	c.rested += o.rested
	for _, p := range []struct{ to, from map[string]int64 }{{c.happenings, o.happenings}, {c.deeds, o.deeds}, {c.points, o.points}, {c.crashes, o.crashes}, {c.refusals, o.refusals}} {
		for k, v := range p.from {
			p.to[k] += v
		}
	}
	for in, states := range o.grid {
		if c.grid[in] == nil {
			c.grid[in] = map[string]int64{}
		}
		for s, n := range states {
			c.grid[in][s] += n
		}
	}
}

// shape is what counting reads of an input's type.
type shape struct {
	name        string // without its package
	slot, lease []int  // where its fields of these names are, if it has them
}

var shapes sync.Map // of reflect.Type: *shape

func shapeOf(in core.Input) *shape {
	t := reflect.TypeOf(in)
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	s := &shape{name: t.Name()}
	if f, ok := t.FieldByName("Slot"); ok {
		s.slot = f.Index
	}
	if f, ok := t.FieldByName("Lease"); ok && f.Type.Kind() == reflect.String {
		s.lease = f.Index
	}
	shapes.Store(t, s)
	return s
}

// slotOfInput finds the slot that an input is about, or the first.
func (f *shape) slotOfInput(s *core.State, in core.Input) *core.Slot {
	if f.slot != nil {
		if slot := s.Slots[core.SlotName(reflect.ValueOf(in).FieldByIndex(f.slot).String())]; slot != nil {
			return slot
		}
	}
	if f.lease != nil {
		if l := s.Leases[core.LeaseID(reflect.ValueOf(in).FieldByIndex(f.lease).String())]; l != nil {
			return s.Slots[l.Slot]
		}
	}
	return s.Slots["shop"]
}

// stateOf names the state of a slot as far as control goes: who holds, how the fence
// stands, whether a browser runs.
func stateOf(s *core.Slot) string {
	if s == nil {
		return "no slot"
	}
	holder, launch := s.Holder.Kind, "stopped"
	if holder == "none" && s.Lease != "" {
		holder = "kept"
	}
	switch {
	case s.Launch == nil || s.Launch.State == "ended":
	case s.Launch.State == "unknown":
		launch = "unknown"
	case s.Launch.State == "stopping":
		launch = "stopping"
	default:
		launch = "live"
	}
	if len(s.Reasons) > 0 {
		holder += "/quarantined"
	}
	return holder + " " + s.Fence.State + " " + launch
}

func (c *counts) step(s *core.State, in core.Input, res core.Result) {
	shape := shapeOf(in)
	name := shape.name
	states := c.grid[name]
	if states == nil {
		states = map[string]int64{}
		c.grid[name] = states
	}
	states[stateOf(shape.slotOfInput(s, in))]++
	for _, a := range res.Delta.Actions {
		if a.Closed || a.Over && s.Actions[a.Action] != nil && !s.Actions[a.Action].Over {
			what := "over: "
			if a.Closed {
				what = "closed: "
			}
			c.deeds[what+string(a.Class)+" "+string(a.Local)+" "+string(a.Remote)]++
		}
	}
	if res.Refusal != nil {
		c.refusals[name+" "+string(res.Refusal.Code)]++
	}
}

// print shows what was covered.
func (c *counts) print(out io.Writer) {
	fmt.Fprintf(out, "schedules %d, steps %d (%.1f a schedule), faults %d (%.2f a schedule), results read %d, came to rest %d\n",
		c.schedules, c.steps, ratio(c.steps, c.schedules), c.faults, ratio(c.faults, c.schedules), c.told, c.rested)
	list(out, "happenings", c.happenings)
	list(out, "deeds and claims", c.deeds)
	list(out, "places where the daemon could die", c.points)
	list(out, "places where it died", c.crashes)
	list(out, "refusals", c.refusals)
	states := map[string]int64{}
	cells := 0
	for _, row := range c.grid {
		for s, n := range row {
			states[s] += n
			cells++
		}
	}
	fmt.Fprintf(out, "inputs x states: %d inputs, %d states, %d cells met\n", len(c.grid), len(states), cells)
	for _, in := range slices.Sorted(maps.Keys(c.grid)) {
		total := int64(0)
		for _, n := range c.grid[in] {
			total += n
		}
		fmt.Fprintf(out, "  %-15s %9d times in %3d states\n", in, total, len(c.grid[in]))
	}
}

func ratio(a, b int64) float64 { return float64(a) / float64(max(b, 1)) }

func list(out io.Writer, title string, m map[string]int64) {
	fmt.Fprintf(out, "%s:\n", title)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(out, "  %-34s %9d\n", strings.ReplaceAll(k, "core.", ""), m[k])
	}
}
