package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/e2e/bench/relay"
	"sessiondock.dev/sessiondock/e2e/browser"
)

// slot is the name of every part's slot, and the scope of its pages.
const slot = "bench"

// bench is what the parts share. Each part starts what it needs and ends it.
type bench struct {
	home   demo.Home
	site   *demo.Site
	splits []split
}

func (b *bench) page(name string) string { return b.site.URL(slot, name, "") }

func (b *bench) relay(ctx context.Context, page string) (*relay.Relay, error) {
	dir, err := os.MkdirTemp(b.home.Dir, "relay-")
	if err != nil {
		return nil, err
	}
	return b.relayIn(ctx, page, dir)
}

func (b *bench) relayIn(ctx context.Context, page, dir string) (*relay.Relay, error) {
	return relay.Start(ctx, filepath.Join(b.home.Bin(), relay.HostName), b.page(page), dir)
}

// measureRelay holds the bare relay against the direct socket of its own browser:
// what any relay costs.
func measureRelay(ctx context.Context, b *bench) (figures []Figure, err error) {
	r, err := b.relay(ctx, "button")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	d, err := b.direct(ctx, r.Browser.Profile, "button")
	if err != nil {
		return nil, err
	}
	defer d.close()
	i := 0
	ours, theirs, err := inTurns(warmUp, rounds,
		func() error { i++; return r.Call(ctx, "Runtime.evaluate", evaluateParams(i), nil) },
		func() error { i++; return d.call(ctx, "Runtime.evaluate", evaluateParams(i), nil) })
	if err != nil {
		return nil, err
	}
	return []Figure{figure("relay_vs_direct", "evaluate by a direct DevTools socket", 50, ours, theirs)}, nil
}

func (b *bench) direct(ctx context.Context, profile, page string) (*direct, error) {
	devtools, err := browser.DevTools(ctx, profile)
	if err != nil {
		return nil, err
	}
	return dialDirect(ctx, devtools, b.page(page))
}

// product is SessionDock with one slot and an agent that holds it.
type product struct {
	*demo.Daemon
	agent *demo.Agent
}

func (b *bench) product(ctx context.Context, debug, page string) (*product, error) {
	d, err := demo.StartDaemon(ctx, b.home, debug)
	if err != nil {
		return nil, err
	}
	p := &product{Daemon: d}
	if err := p.prepare(ctx, b, page); err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	return p, nil
}

// prepare makes the slot, or starts it again if an earlier part has made it.
func (p *product) prepare(ctx context.Context, b *bench, page string) error {
	slots, err := p.Control.Slots(ctx)
	if err != nil {
		return err
	}
	if len(slots) > 0 {
		err = p.StartSlot(ctx, slot)
	} else {
		err = p.NewSlot(ctx, slot, "headless", b.site.Origin(), b.page(page))
	}
	if err != nil {
		return err
	}
	if p.agent, err = p.NewAgent(ctx, "ada", slot); err != nil {
		return err
	}
	if err := p.agent.Acquire(ctx, "measure", 30*time.Second); err != nil {
		return err
	}
	return p.act(ctx, wire.Act{Verb: "navigate", URL: b.page(page)})
}

func (p *product) act(ctx context.Context, a wire.Act) error {
	r, err := p.agent.Act(ctx, client.NewID(), a, 0)
	if err == nil && r.Local != core.Finished {
		err = fmt.Errorf("%s: local %s, %v", r.Summary, r.Local, r.Error)
	}
	return err
}

func (p *product) evaluate(ctx context.Context, i int) error {
	return p.act(ctx, wire.Act{Verb: "evaluate", Expression: fmt.Sprintf("%d+1", i)})
}

// profile is the slot's, for what looks at its browser from outside.
func (p *product) profile() string { return filepath.Join(p.Paths.SlotDir(slot), "profile") }

// host is the process of the slot's host.
func (p *product) host(b *bench) (int, error) {
	return processOf(filepath.Join(b.home.Bin(), "sessiondock-host"))
}

func (p *product) close(ctx context.Context) error {
	var errs []error
	if p.agent != nil && p.agent.Lease != nil {
		errs = append(errs, p.agent.Release(ctx))
		// A browser that ends while requests are still watched for leaves the outcome unknown,
		// and the next part a slot in quarantine.
		time.Sleep((core.DefaultWatchMs + 500) * time.Millisecond)
	}
	return errors.Join(append(errs, p.stopSlot(ctx, true), p.Stop())...)
}

// stopSlot ends the slot's browser and waits until that is verified.
func (p *product) stopSlot(ctx context.Context, now bool) error {
	if _, err := p.Control.Change(ctx, slot, client.Stop, wire.ChangeRequest{By: "bench", StopNow: now}); err != nil {
		return err
	}
	_, err := p.WaitStatus(ctx, slot, "the browser's end", func(s *core.Status) bool {
		return s.Local.Launch == nil || s.Local.Launch.State == "ended"
	})
	return err
}

func measureActions(ctx context.Context, b *bench) (figures []Figure, err error) {
	p, err := b.product(ctx, "port", "button")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	r, err := b.relay(ctx, "button")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	d, err := b.direct(ctx, p.profile(), "button")
	if err != nil {
		return nil, err
	}
	defer d.close()
	i := 0
	ours := func() error { i++; return p.evaluate(ctx, i) }
	throughRelay := func() error { i++; return r.Call(ctx, "Runtime.evaluate", evaluateParams(i), nil) }
	if wanted([]string{"evaluate_vs_relay"}) {
		host, err := p.host(b)
		if err != nil {
			return figures, err
		}
		var a, t []time.Duration
		cpu, err := splitOf("one evaluate", warmUp+rounds,
			processes{p.profile(), map[string]int{"daemon": p.PID(), "host": host}},
			processes{r.Browser.Profile, map[string]int{"host": r.HostPID}},
			func() (err error) { a, t, err = inTurns(warmUp, rounds, ours, throughRelay); return err })
		if err != nil {
			return figures, err
		}
		b.splits = append(b.splits, cpu)
		figures = append(figures, figure("evaluate_vs_relay", "evaluate through a bare relay", 50, a, t))
	}
	if wanted([]string{"evaluate_vs_recorded_relay"}) {
		recorded, err := r.Recorded(b.home.Dir)
		if err != nil {
			return figures, err
		}
		a, t, err := inTurns(warmUp, rounds, ours,
			func() error { i++; return recorded.Call(ctx, "Runtime.evaluate", evaluateParams(i), nil) })
		if err := errors.Join(err, recorded.Close()); err != nil {
			return figures, err
		}
		figures = append(figures, figure("evaluate_vs_recorded_relay", "evaluate through a bare relay that records", 50, a, t))
	}
	if wanted([]string{"evaluate_vs_direct"}) {
		a, t, err := inTurns(warmUp, rounds, ours,
			func() error { i++; return d.call(ctx, "Runtime.evaluate", evaluateParams(i), nil) })
		if err != nil {
			return figures, err
		}
		figures = append(figures, figure("evaluate_vs_direct", "evaluate by a direct DevTools socket", 50, a, t))
	}
	if wanted([]string{"click_vs_direct"}) {
		at, err := d.button(ctx)
		if err != nil {
			return figures, err
		}
		a, t, err := inTurns(warmUp, rounds,
			func() error { return p.act(ctx, wire.Act{Verb: "click", Selector: "#press"}) },
			func() error { return d.click(ctx, at) })
		if err != nil {
			return figures, err
		}
		figures = append(figures, figure("click_vs_direct", "move, press and release one after another, direct", 50, a, t))
	}
	if wanted([]string{"takeover_idle_ms", "takeover_idle_p99_ms"}) {
		a, t, err := p.takeovers(ctx, throughRelay)
		if err != nil {
			return figures, err
		}
		figures = append(figures,
			figure("takeover_idle_ms", "evaluate through a bare relay", 50, a, t),
			figure("takeover_idle_p99_ms", "evaluate through a bare relay", 99, a, t))
	}
	return figures, nil
}

// takeovers measures a person's takeover of an idle slot, to the acknowledgement
// of the fence. What brings the slot back to the agent is not measured.
func (p *product) takeovers(ctx context.Context, other func() error) (ours, theirs []time.Duration, err error) {
	for i := range warmUp/5 + rounds {
		took, err := p.takeOver(ctx)
		if err != nil {
			return nil, nil, err
		}
		start := time.Now()
		if err := other(); err != nil {
			return nil, nil, err
		}
		if i >= warmUp/5 {
			ours, theirs = append(ours, took), append(theirs, time.Since(start))
		}
	}
	return ours, theirs, nil
}

func acknowledged(s *core.Status) bool {
	switch s.Authority.Fence {
	case "acknowledged", "draining", "drained":
		return s.Authority.Holder.Kind == "human"
	}
	return false
}

// memoryActions is how many actions go before a process's memory is read.
const memoryActions = 1000

// measureMemory reads the resident memory of the host and of the daemon after
// memoryActions actions and a screenshot of some 20 MB; the bare relay's host has
// done the same.
func measureMemory(ctx context.Context, b *bench) (figures []Figure, err error) {
	p, err := b.product(ctx, "port", "noise")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	r, err := b.relay(ctx, "noise")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for i := range memoryActions {
		if err := p.evaluate(ctx, i); err != nil {
			return nil, err
		}
		if err := r.Call(ctx, "Runtime.evaluate", evaluateParams(i), nil); err != nil {
			return nil, err
		}
	}
	if err := p.act(ctx, wire.Act{Verb: "screenshot", FullPage: true}); err != nil {
		return nil, err
	}
	var shot struct {
		Data string `json:"data"`
	}
	if err := r.Call(ctx, "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": 2780, "height": 2900, "scale": 1}}, &shot); err != nil {
		return nil, err
	}
	if mb := len(shot.Data) * 3 / 4 >> 20; mb < 18 {
		return nil, fmt.Errorf("the screenshot has only %d MB", mb)
	}
	host, err := p.host(b)
	if err != nil {
		return nil, err
	}
	base, err := rssMB(r.HostPID)
	if err != nil {
		return nil, err
	}
	for name, pid := range map[string]int{"host_rss_mb": host, "daemon_rss_mb": p.PID()} {
		mb, err := rssMB(pid)
		if err != nil {
			return nil, err
		}
		figures = append(figures, Figure{
			Name: name, Value: mb, Unit: "MB", Baseline: "host of a bare relay, after the same",
			BaselineValue: base, Ratio: ratio(mb, base), N: memoryActions,
		})
	}
	return figures, nil
}

// processOf finds the one process that runs the program. Here it only reads.
func processOf(program string) (int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if first, _, _ := strings.Cut(string(line), "\x00"); err == nil && first == program {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("no process runs %s", program)
}

// measureLaunch starts a slot that exists, to its extension's readiness; the same
// Chromium with a profile of its own, to its first answer; and one with the bare relay in
// it, to its host's first word.
func measureLaunch(ctx context.Context, b *bench) (figures []Figure, err error) {
	p, err := b.product(ctx, "", "button")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	if err := p.agent.Release(ctx); err != nil {
		return nil, err
	}
	p.agent = nil
	profile, err := os.MkdirTemp("", "plain-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(profile)
	dir, err := os.MkdirTemp(b.home.Dir, "relay-")
	if err != nil {
		return nil, err
	}
	var ours, theirs, relays []time.Duration
	for i := range launches + 1 {
		if err := p.stopSlot(ctx, false); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := p.StartSlot(ctx, slot); err != nil {
			return nil, err
		}
		took := time.Since(start)
		plain, err := b.plainLaunch(ctx, profile)
		if err != nil {
			return nil, err
		}
		start = time.Now()
		r, err := b.relayIn(ctx, "button", dir)
		if err != nil {
			return nil, err
		}
		relayed := time.Since(start)
		if err := r.Close(); err != nil {
			return nil, err
		}
		if i > 0 { // the first makes the other profiles
			ours, theirs, relays = append(ours, took), append(theirs, plain), append(relays, relayed)
		}
	}
	return []Figure{
		figure("launch_vs_plain", "the same Chromium, to its first DevTools answer", 50, ours, theirs),
		figure("launch_vs_relay", "the same Chromium with a bare relay, to its host's first word", 50, ours, relays),
	}, nil
}

func (b *bench) plainLaunch(ctx context.Context, profile string) (took time.Duration, err error) {
	start := time.Now()
	c, err := browser.Start(browser.Options{Profile: profile, Pipe: true, URL: b.page("button")})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	err = c.Pipe.Call(ctx, "", "Browser.getVersion", nil, nil)
	return time.Since(start), err
}

// measurePopup presses the popup's Take over and reads from the worker how long the
// press took to become a hold.
func measurePopup(ctx context.Context, b *bench) (figures []Figure, err error) {
	p, err := b.product(ctx, "pipe", "button")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	hand, err := demo.DialHand(ctx, b.home.Runtime(), slot)
	if err != nil {
		return nil, err
	}
	defer hand.Close()
	var ours, theirs []time.Duration
	for range presses {
		hold, message, err := p.press(ctx, hand)
		if err != nil {
			return nil, err
		}
		ours, theirs = append(ours, hold), append(theirs, message)
	}
	return []Figure{figure("popup_hold_ms", "a port from the popup to the worker, to the first message on it", 99, ours, theirs)}, nil
}

// pressWithin bounds one press of the popup and what brings the slot back.
const pressWithin = 30 * time.Second

// press takes over by the popup, and gives the slot back to the agent.
func (p *product) press(ctx context.Context, hand *demo.Hand) (hold, message time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, pressWithin)
	defer cancel()
	if err := hand.Press(ctx, demo.ButtonTakeover); err != nil {
		return 0, 0, err
	}
	st, err := p.WaitStatus(ctx, slot, "the takeover", func(s *core.Status) bool {
		return s.Authority.Holder.Kind == "human" && s.Authority.Fence == "drained"
	})
	if err != nil {
		return 0, 0, err
	}
	// Both are wall-clock milliseconds: of the button's event, and of the hold.
	var held struct {
		Pressed float64 `json:"pressed_ms"`
		Held    float64 `json:"held_ms"`
	}
	if err := hand.Pipe().Eval(ctx, hand.Worker(), "globalThis.sessiondockLastHold", &held); err != nil {
		return 0, 0, err
	}
	if message, err = hand.Message(ctx); err != nil {
		return 0, 0, err
	}
	epoch := st.Authority.Epoch
	if _, err := p.Control.Change(ctx, slot, client.Handback, wire.ChangeRequest{By: "bench", IfEpoch: &epoch, To: p.agent.Name, Confirm: true}); err != nil {
		return 0, 0, err
	}
	return time.Duration((held.Held - held.Pressed) * float64(time.Millisecond)), message, p.agent.Resume(ctx, 20*time.Second)
}
