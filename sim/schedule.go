package main

import (
	"fmt"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
)

const (
	minSteps = 30
	maxSteps = 60
)

// play plays one schedule and returns the first violation.
func play(seed uint64, script *script, count *counts, trace *strings.Builder) error {
	w := newWorld(seed, script, count)
	w.trace = trace
	w.guarded("set the scene", func() { w.scene() })
	w.mood()
	w.faultsLeft = w.rng.IntN(5)
	had := w.faultsLeft
	steps := minSteps + w.rng.IntN(maxSteps-minSteps+1)
	for range steps {
		if w.broken != nil {
			break
		}
		w.step()
	}
	if w.broken == nil && w.one(4) {
		w.guarded("come to rest", w.rest)
	}
	count.schedules++
	count.faults += int64(had - w.faultsLeft)
	return w.broken
}

// mood makes each schedule one of its own kind: some of what people, agents, pages and
// faults can do does not occur in it, and some of it often. In every other schedule one
// thing, and in every other one fault, comes up again and again: what shows itself only
// where two rare things meet would hardly ever be met otherwise. What goes on by itself
// stays as it is.
func (w *world) mood() {
	w.weights = make([]int, len(rows))
	for i := range rows {
		r := &rows[i]
		w.weights[i] = r.weight
		if !calmRows[r.name] && r.name != "a moment" && r.name != "things go on" && r.name != "a worker reads again" {
			w.weights[i] *= pick(w, []int{0, 0, 1, 1, 2, 5})
		}
	}
	var things, faults []int
	for i := range rows {
		switch r := &rows[i]; {
		case r.fault:
			faults = append(faults, i)
		case !calmRows[r.name]:
			things = append(things, i)
		}
	}
	if w.one(4) {
		w.favourite = pick(w, []string{"navigate", "evaluate", "evaluate"})
	}
	if w.one(4) {
		t := pick(w, themes)
		w.favourite = t.verb
		for i := range rows {
			if n, ok := t.weights[rows[i].name]; ok {
				w.weights[i] = n
			}
		}
	}
	for _, of := range [][]int{things, faults} {
		if i := pick(w, of); w.one(2) {
			w.weights[i] = often
		}
	}
}

// themes are things that show something only together: every fourth schedule is about one.
var themes = []struct {
	verb    string // which agents like best
	weights map[string]int
}{
	// An agent's code in a page, and all that may forget it before another one comes.
	{"evaluate", map[string]int{"act": often, "release": often, "acquire": often, "the extension is loaded anew": often, "worker is killed": often}},
	// A grant that comes late, and a command behind it.
	{"navigate", map[string]int{"act": often, "a worker reads nothing for a while": often, "claim": often, "tick": 1}},
	// A page that is left while input is queued in it of which nothing will be heard.
	{"click", map[string]int{
		"act": often, "a page is busy": often, "a person ends the debugging of a busy page": often,
		"a page is free again": 1, "a page comes to what is queued": 1, "a person reloads": 1,
	}},
}

// often is the weight of what a schedule is about.
const often = 40

// guarded does something in which the daemon may die.
func (w *world) guarded(what string, f func()) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case crashed:
			if w.daemon != nil {
				w.daemon.die(r.where)
			} else {
				w.logf("daemon dies: %s", r.where)
			}
		default:
			if w.trace != nil {
				panic(r)
			}
			w.violated("panic", "in %s: %v", what, r)
		}
	}()
	f()
}

// step lets one thing happen.
func (w *world) step() {
	w.guarded("a step", func() { w.happen(func(*row) bool { return true }) })
}

// happen chooses one thing among those that are possible, and lets it happen.
func (w *world) happen(among func(*row) bool) bool {
	var can [128]int
	total := 0
	for i := range rows {
		r := &rows[i]
		if w.weights[i] == 0 || r.fault && (w.faultsLeft == 0 || w.calm) || !among(r) {
			continue
		}
		if can[i] = r.can(w); can[i] > 0 {
			total += w.weights[i]
		}
	}
	if total == 0 {
		return false
	}
	n := w.rng.IntN(total)
	for i := range rows {
		r := &rows[i]
		if can[i] == 0 {
			continue
		}
		if n -= w.weights[i]; n >= 0 {
			continue
		}
		if r.fault {
			w.faultsLeft--
		}
		w.count.steps++
		w.count.happenings[r.name]++
		if w.trace != nil {
			w.logf("-- %s", r.name)
		}
		r.do(w, w.rng.IntN(can[i]))
		return true
	}
	return false
}

// goOn lets what is under way go on for a while, undisturbed.
func (w *world) goOn() {
	for range 1 + w.rng.IntN(24) {
		if w.broken != nil || !w.happen(func(r *row) bool { return calmRows[r.name] }) {
			return
		}
	}
}

// quiet lets everything that is under way come to its end, in order and without a fault.
func (w *world) quiet(limit int) {
	for range limit {
		moved := false
		for i := range rows {
			r := &rows[i]
			if !calmRows[r.name] {
				continue
			}
			for r.can(w) > 0 && limit > 0 && w.broken == nil {
				limit--
				w.count.steps++
				r.do(w, 0)
				moved = true
			}
		}
		if !moved {
			return
		}
	}
}

// rest lets the world come to rest without further faults: what was waited for must
// then have been settled, or be said to be unknown. Nothing may hang for ever.
func (w *world) rest() {
	w.logf("-- everything comes to rest")
	w.calm = true
	w.disk.torn, w.disk.full, w.disk.hung = false, false, false
	for _, h := range hostsThat(func(h *host) bool { return h.unread })(w) {
		h.unread = false
	}
	for range 3 {
		w.quiet(400)
		w.pass(core.DrainMs + core.DrainGraceMs + 1)
	}
	w.quiet(400)
	if w.broken != nil || w.daemon == nil {
		return
	}
	w.count.rested++
	now := w.now()
	for _, name := range sorted(w.daemon.state.Slots) {
		s := w.daemon.state.Slots[name]
		up := w.daemon.state.Links[name].Up()
		served := up && len(s.Reasons) == 0
		if served && s.Fence.State != "drained" {
			w.violated("rest", "slot %s: the fence of epoch %d is still %s", name, s.Epoch, s.Fence.State)
		}
		if of := w.slotOf(name).browsers; served && len(of) > 0 && of[0].worker != nil && of[0].held() {
			w.violated("rest", "slot %s: a person's press was never answered", name)
		}
		for _, l := range w.daemon.state.LiveLeases(name) {
			if l.Expires.Passed(now) {
				w.violated("L5", "lease %s is %s, %d ms after its time", l.ID, l.State, now.BootMs-l.Expires.BootMs)
			}
		}
		for _, a := range w.daemon.state.OpenActions(name) {
			// A script whose promise was cut off may go on for as long as its page does.
			if a.Over && a.Local == core.Running && up && !(a.Script && a.Open > 0) {
				w.violated("rest", "action %s is over and still said to run", a.Action)
			}
		}
	}
}

// calmRows are what goes on by itself.
var calmRows = map[string]bool{
	"batch": true, "daemon starts": true, "host reads": true, "host sees the link's end": true, "host writes": true, "worker reads": true,
	"host hears": true, "daemon reads": true, "daemon sees the link's end": true, "host dials": true, "supervisor": true, "worker wakes": true,
	"tick": true, "there is room again": true, "a page comes to what is queued": true, "a page is free again": true, "a navigation commits": true,
	"a former document ends": true, "a request arrives": true, "a request is answered": true,
}

// scene makes one or two slots with agents, and mostly a browser that runs and a lease
// that is in use: what is interesting begins there.
func (w *world) scene() {
	w.calm = true
	defer func() { w.calm = false }()
	names := []core.SlotName{"shop", "desk"}
	if !w.one(4) {
		names = names[:1]
	}
	for _, name := range names {
		s := &slot{name: name, local: map[string]string{}, bindings: []core.BindingName{core.BindingName("b-" + name)}}
		w.slots = append(w.slots, s)
	}
	for i := range 2 {
		w.agents = append(w.agents, &agent{name: core.AgentName(fmt.Sprintf("agent-%s", "ab"[:i+1])), tokens: map[core.BindingName]string{}})
	}
	if w.one(4) {
		w.capacity = pick(w, []core.Capacity{{Browsers: 1}, {MemoryMB: 1_000}})
	}
	w.startDaemon()
	for _, s := range w.slots {
		w.submit(core.CreateSlot{Name: s.name, By: person}, nil)
		for _, b := range s.bindings {
			w.bind(s, b)
			for _, a := range w.agents {
				w.delegate(a, b)
			}
		}
		if !w.one(10) {
			w.submit(core.StartSlot{Slot: s.name, By: person}, nil)
		}
	}
	w.quiet(300)
	if s := w.slots[0]; !w.one(4) && w.broken == nil {
		a := pick(w, w.agents)
		w.acquire(a, s.bindings[0], s.name, 10_000)
		w.quiet(100)
		w.submit(core.Claim{Lease: a.leases[0].id, Cap: a.leases[0].cap}, nil)
		w.quiet(20)
		w.act(a, a.leases[0], "snapshot")
		w.quiet(40)
		if w.one(4) {
			w.act(a, a.leases[0], "evaluate") // its page has an agent's code from the beginning
			w.quiet(40)
		}
	}
}
