package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/e2e/manager"
)

const (
	// cellWithin bounds one cell. The longest waits until the sign-in is on the disk.
	cellWithin = 10 * time.Minute
	// tabWithin is how long a tab that comes back may take to load.
	tabWithin = 30 * time.Second
)

// cell is one way in which a browser's run ends, on one display.
type cell struct {
	way     way
	display string
}

func (c cell) name() string { return c.way.id + "-" + c.display }

// outcome is what a cell came to.
type outcome struct {
	cell
	notRun string
	site   visit // what the site says after the browser is there again
	tab    bool  // the tab came back by itself
	said   said
	line   string // of `sessiondock status`
}

// said is what the product's status says of the sign-in.
type said struct {
	lent     bool // an agent would be lent the slot as signed in
	prepared bool
	lost     bool
	crash    bool // that the browser's last end was not a clean one
}

func (s said) String() string {
	var words []string
	switch {
	case s.lost:
		words = append(words, "may be lost")
	case s.prepared:
		words = append(words, "prepared")
	case s.lent:
		words = append(words, "confirmed, not on the disk yet")
	default:
		words = append(words, "not confirmed")
	}
	if s.crash {
		words = append(words, "not a clean end")
	}
	return strings.Join(words, "; ")
}

// wrong says what is wrong with an outcome, or "".
func (o outcome) wrong() string {
	switch {
	case o.notRun != "":
		return ""
	case o.said.lent && !o.site.signedIn():
		return "status takes the slot for signed in, and the site does not"
	case o.said.prepared && !o.site.whole():
		return "status says prepared, and not everything came back"
	case o.way.keeps && !o.site.whole():
		return "the sign-in should have stayed"
	case o.way.keeps && !(o.said.lent && o.said.prepared):
		return "the sign-in stayed, and status does not say so"
	case o.said.crash == o.way.clean:
		return "status says the contrary of how the browser ended"
	case !o.tab:
		return "the tab did not come back"
	}
	return ""
}

// play is one cell while it runs: a slot with two bindings, one for the agent that types
// for the person, and one whose sign-in the person confirms.
type play struct {
	cell
	home    manager.Home
	product *manager.Product
	site    *site
	secret  client.Secret // of the agent's delegation
}

const (
	typing core.BindingName = "typing"
	signed core.BindingName = "signed"
)

func (p *play) slot() core.SlotName { return core.SlotName(p.name()) }

func (p *play) binding(b core.BindingName) core.BindingName {
	return b + "-" + core.BindingName(p.name())
}

// run plays the cell.
func (p *play) run(ctx context.Context) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, cellWithin)
	defer cancel()
	o.cell = p.cell
	if err := p.open(ctx); err != nil {
		return o, err
	}
	if err := p.signIn(ctx); err != nil {
		return o, fmt.Errorf("sign in: %w", err)
	}
	if _, err := p.product.Control.Confirm(ctx, p.binding(signed), wire.ConfirmRequest{}); err != nil {
		return o, err
	}
	before := len(p.site.seen(p.name()))
	if err := p.way.happens(ctx, p); err != nil {
		return o, fmt.Errorf("%s: %w", p.way.name, err)
	}
	if err := p.start(ctx); err != nil {
		return o, fmt.Errorf("start again: %w", err)
	}
	if o.said, o.line, err = p.says(ctx); err != nil {
		return o, err
	}
	o.tab = p.visited(ctx, before, tabWithin)
	before = len(p.site.seen(p.name()))
	if err := p.act(ctx, wire.Act{Verb: "navigate", URL: p.site.url(p.name(), "home")}); err != nil {
		return o, fmt.Errorf("ask the site: %w", err)
	}
	if !p.visited(ctx, before, tabWithin) {
		return o, errors.New("the site was not asked")
	}
	seen := p.site.seen(p.name())
	o.site = seen[len(seen)-1]
	after, _, err := p.says(ctx)
	if err == nil && after.lent != o.said.lent {
		err = fmt.Errorf("status said %v before the site was asked, and %v after", o.said, after)
	}
	return o, errors.Join(err, p.stop(ctx))
}

func (p *play) open(ctx context.Context) error {
	p.site.expect(p.name(), p.way.asks)
	control := p.product.Control
	if _, err := control.CreateSlot(ctx, wire.SlotRequest{Slot: p.slot(), Display: p.display}); err != nil {
		return err
	}
	for b, account := range map[core.BindingName]string{typing: "none", signed: user} {
		if _, err := control.Bind(ctx, wire.BindingRequest{BindingSpec: core.BindingSpec{
			Name: p.binding(b), Slot: p.slot(), Account: account, Origins: []string{p.site.origin()},
		}}); err != nil {
			return err
		}
	}
	given, err := control.Delegate(ctx, p.binding(typing), wire.DelegateRequest{To: "hands", ForMs: 3_600_000})
	if err != nil {
		return err
	}
	p.secret = client.Secret(given.Token)
	return p.start(ctx)
}

// start starts the browser unless it runs, and waits until it is connected.
func (p *play) start(ctx context.Context) error {
	if _, err := p.product.Control.Change(ctx, p.slot(), client.Start, wire.ChangeRequest{}); err != nil {
		return err
	}
	return p.until(ctx, "the browser to be connected", func(st *core.Status) bool {
		l := st.Local.Launch
		return l != nil && l.Link == "up" && st.Authority.Fence == "drained"
	})
}

// stop ends the browser cleanly.
func (p *play) stop(ctx context.Context) error {
	if _, err := p.product.Control.Change(ctx, p.slot(), client.Stop, wire.ChangeRequest{}); err != nil {
		return err
	}
	return p.ended(ctx)
}

func (p *play) ended(ctx context.Context) error {
	return p.until(ctx, "the browser's end", func(st *core.Status) bool { return st.Local.Launch.State == "ended" })
}

// until waits until the slot's status is as wanted. A daemon that is being started anew
// is waited for.
func (p *play) until(ctx context.Context, what string, good func(*core.Status) bool) error {
	for {
		st, err := p.product.Control.Status(ctx, p.slot())
		if err == nil && good(st) {
			return nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return fmt.Errorf("waited in vain for %s: %w; the last status: %+v", what, errors.Join(err, ctx.Err()), st)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// signIn types what a person would.
func (p *play) signIn(ctx context.Context) error {
	value := func(s string) *string { return &s }
	who := p.name()
	if err := p.act(ctx,
		wire.Act{Verb: "navigate", URL: p.site.url(who, "login")},
		wire.Act{Verb: "fill", Selector: "#name", Value: value(user)},
		wire.Act{Verb: "fill", Selector: "#password", Value: value(password)},
		wire.Act{Verb: "click", Selector: "#go"},
		wire.Act{Verb: "wait", Selector: "#code"},
	); err != nil {
		_, refused := p.site.codeOf(who)
		return fmt.Errorf("%w; the site has said: %q", err, refused)
	}
	code, _ := p.site.codeOf(who)
	if err := p.act(ctx,
		wire.Act{Verb: "snapshot"},
		wire.Act{Verb: "fill", Selector: "#code", Value: &code},
		wire.Act{Verb: "click", Selector: "#go"},
		wire.Act{Verb: "wait", Selector: "#touch"},
		wire.Act{Verb: "snapshot"},
		// Only a page that was touched may ask whether it may be left.
		wire.Act{Verb: "click", Selector: "#touch"},
	); err != nil {
		return err
	}
	if !p.visited(ctx, 0, tabWithin) || !p.site.seen(who)[0].whole() {
		return fmt.Errorf("the site has seen %+v", p.site.seen(who))
	}
	return nil
}

// act carries actions out under a lease of its own, which is given back.
func (p *play) act(ctx context.Context, acts ...wire.Act) error {
	api := p.product.API
	lease, err := api.Acquire(ctx, p.secret, wire.AcquireRequest{RequestID: client.NewID(), Binding: p.binding(typing), WaitMs: 30_000})
	if err != nil {
		return err
	}
	capability := client.Secret(lease.Capability)
	for _, act := range acts {
		r, err := p.one(ctx, lease, act)
		if err != nil {
			return fmt.Errorf("%s: %w", act.Verb, err)
		}
		if r.Local != core.Finished {
			return fmt.Errorf("%s: local %s, remote %s: %s", act.Verb, r.Local, r.Remote, r.Result)
		}
	}
	// A lease that ends with a click still watched would leave the slot in a drain.
	if _, err := api.Release(ctx, lease.Lease, capability); err != nil {
		return err
	}
	return p.until(ctx, "the end of the lease's work", func(st *core.Status) bool {
		return st.Authority.Fence == "drained" && st.Offer.Available
	})
}

// one carries one action out. A read that the page's going away has cut short is made
// again: it has changed nothing.
func (p *play) one(ctx context.Context, lease *wire.LeaseReply, act wire.Act) (*core.Record, error) {
	for {
		r, err := p.product.API.Act(ctx, lease.Lease, client.Secret(lease.Capability),
			wire.ActRequest{ID: core.ClientID(client.NewID()), Epoch: &lease.Epoch, Act: act, DeadlineMs: 20_000})
		if err != nil || r.Class != core.Read || r.Local == core.Finished || !sleep(ctx, 100*time.Millisecond) {
			return r, err
		}
	}
}

// visited waits for a load of the page after the first n.
func (p *play) visited(ctx context.Context, n int, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for len(p.site.seen(p.name())) <= n {
		if !sleep(ctx, 20*time.Millisecond) {
			return false
		}
	}
	return true
}

// says reads what status says of the sign-in, and the line that a person reads.
func (p *play) says(ctx context.Context) (said, string, error) {
	st, err := p.product.Control.Status(ctx, p.slot())
	if err != nil {
		return said{}, "", err
	}
	if len(st.SignIns) != 1 {
		return said{}, "", fmt.Errorf("status has %d sign-ins", len(st.SignIns))
	}
	in := st.SignIns[0]
	s := said{lent: in.Confirmed != nil && !in.Confirmed.Lost(), prepared: in.Prepared, lost: in.Confirmed.Lost(), crash: st.Unclean != nil}
	cmd := exec.CommandContext(ctx, filepath.Join(p.home.Bin(), "sessiondock"), "status", string(p.slot()))
	out, err := cmd.Output()
	if err != nil {
		return s, "", fmt.Errorf("sessiondock status: %w", err)
	}
	_, text, _ := strings.Cut(string(out), "Sign-ins:")
	return s, strings.Join(strings.Fields(text), " "), nil
}
