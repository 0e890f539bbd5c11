package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) leaseAcquireCmd() *cobra.Command {
	var (
		r                        wire.AcquireRequest
		binding, agent, delegate string
		forDur, wait             time.Duration
	)
	c := &cobra.Command{
		Use:   "acquire --binding BINDING",
		Short: "Acquire a lease and print it as shell exports",
		Long: `Acquires exclusive control of the binding's slot and prints shell exports for eval.
With a delegation (SESSIONDOCK_DELEGATION or --delegation-file) it asks at the
agents' socket; without one it asks at the person's, and delegates and acquires in
one step. The capability is shown once; with it anyone can act under this lease.

While it waits (--wait) it says on standard error which place it has in the queue
and why, as often as that changes. Without --wait a browser that is stopped is not
started by the grant: the first action starts it, and waits for it.`,
		Example: `  eval "$(sessiondock lease acquire --binding shop-admin --for 30m --wait 1m)"
  eval "$(sessiondock lease acquire --binding stock --key shop:product/43)"`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case binding == "":
				return usage(c, "--binding is missing")
			case wait < 0:
				return usage(c, "--wait cannot be negative")
			}
			if err := atLeast(c, "for", forDur, time.Second); err != nil {
				return err
			}
			token, err := a.secret(delegate, envDelegation)
			if err != nil {
				return err
			}
			if token != "" && c.Flags().Changed("priority") {
				return usage(c, "--priority is a person's: an agent has its delegation's (sessiondock delegate --priority)")
			}
			door, err := a.doorFor(token)
			if err != nil {
				return err
			}
			r.Binding, r.Agent = core.BindingName(binding), core.AgentName(agent)
			r.ForMs, r.WaitMs = forDur.Milliseconds(), wait.Milliseconds()
			l, err := a.acquire(c.Context(), door, token, r)
			if err != nil {
				if l != nil && l.Capability != "" {
					a.say("lease %s was granted but could not be claimed", l.Lease)
				}
				return err
			}
			return a.printGrant(l)
		},
	}
	f := c.Flags()
	f.StringVar(&binding, "binding", "", "the binding to acquire (required)")
	f.DurationVar(&forDur, "for", 0, "how long (default 10m)")
	f.DurationVar(&wait, "wait", 0, "how long to wait in the queue (default: not at all)")
	f.StringArrayVar(&r.Keys, "key", nil, "take the conflict key `KEY[:shared]` too, repeatable")
	f.IntVar(&r.Priority, "priority", 0, "`N` from -100 to 100; a person's (an agent has its delegation's)")
	f.StringVar(&r.Task, "task", "", "what it is for, as people will read it")
	f.StringVar(&agent, "agent", "", "the agent's name (default: the delegation's)")
	f.StringVar(&r.RequestID, "request-id", "", "identifier of this wish: the same one returns the same lease (default: a new one)")
	f.StringVar(&delegate, "delegation-file", "", "file with the delegation's token")
	return c
}

// acquire asks for a lease, and tells where that stands while it waits.
func (a *app) acquire(ctx context.Context, door *client.Client, token client.Secret, r wire.AcquireRequest) (*wire.LeaseReply, error) {
	if r.RequestID == "" {
		r.RequestID = client.NewID()
	}
	if r.WaitMs > 0 {
		defer a.tellPlace(ctx, door, token, r.RequestID)()
	}
	return door.Acquire(ctx, token, r)
}

// lookEvery is how often a waiting acquire looks where it stands.
const lookEvery = 500 * time.Millisecond

// tellPlace says where a waiting request stands and why, each time that changes. After
// the function that it returns it says no more.
func (a *app) tellPlace(ctx context.Context, door *client.Client, token client.Secret, request string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		said := ""
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			// If it cannot be seen, the acquire itself will say what is wrong.
			p, err := placeOf(ctx, door, token, request)
			if err != nil || p == nil || ctx.Err() != nil {
				continue
			}
			if text := place(p); untimed(text) != said {
				a.say("waiting: %s", text)
				said = untimed(text)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// placeOf finds a request's place: an agent by its delegation, a person among all.
func placeOf(ctx context.Context, door *client.Client, token client.Secret, request string) (*core.Place, error) {
	if token != "" {
		rows, err := door.Queue(ctx, token)
		for _, row := range rows {
			if row.RequestID == request {
				return &row.Place, nil
			}
		}
		return nil, err
	}
	leases, err := door.Leases(ctx)
	for _, l := range leases {
		if l.RequestID == request {
			return l.Place, nil
		}
	}
	return nil, err
}

// place says where a request stands in its queue.
func place(p *core.Place) string {
	text := fmt.Sprintf("place %d of %d", p.Position, p.Of)
	if p.Passed > 0 {
		text += fmt.Sprintf(", passed %d times because of its keys", p.Passed)
	}
	return clean(text + because(p.Why))
}

// spans are what the daemon writes for a rest of time. They count down by themselves,
// and nobody wants to be told of each second.
var spans = regexp.MustCompile(`\b\d+ (h \d+ min|min|s)\b`)

func untimed(text string) string { return spans.ReplaceAllString(text, "some time") }

// about is what matters most about a lease, in a list.
func about(l *wire.LeaseReply) string {
	switch {
	case l.Place != nil:
		return place(l.Place)
	case l.Ask != nil && l.Ask.State == "open":
		return "asks for a person: " + l.Ask.Reason
	case l.Retention != nil && l.Retention.State == "requested":
		return fmt.Sprintf("asks to keep it for %s more: %s", left(l.Retention.ForMs), l.Retention.Reason)
	case l.Why != "" && l.State != core.LeaseActive:
		return l.Why
	}
	return l.Task
}

func (a *app) printLease(l *wire.LeaseReply) error {
	var b strings.Builder
	fmt.Fprintf(&b, "lease %s: %s\n", l.Lease, l.State)
	fmt.Fprintf(&b, "  slot %s, binding %s, agent %s, epoch %d\n", l.Slot, l.Binding, clean(string(l.Agent)), l.Epoch)
	switch {
	case l.Place != nil:
		b.WriteString(wrap("  waits: ", fmt.Sprintf("%s; %s left to wait", place(l.Place), left(l.Place.WaitMs))))
	case l.State != core.LeaseEnded:
		fmt.Fprintf(&b, "  %s left, at most %s with renewals\n", left(l.ExpiresInMs), left(l.MaxLifetimeMs))
	}
	if l.Task != "" {
		b.WriteString(wrap("  task: ", l.Task))
	}
	if l.Why != "" {
		b.WriteString(wrap("  why: ", l.Why))
	}
	if len(l.Keys) > 0 {
		b.WriteString(wrap("  keys: ", keys(l.Keys)))
	}
	if len(l.Allow) > 0 {
		b.WriteString(wrap("  may use: ", strings.Join(l.Allow, ", ")))
	}
	if text := budget(l.Budget, &l.Spent); text != "" {
		b.WriteString(wrap("  used: ", text))
	}
	if l.Ask != nil {
		b.WriteString(wrap("  asked: ", l.Ask.Reason+", at "+clock(l.Ask.AtMs)+answered(l.Ask.State, l.Ask.By, l.Ask.AnswerMs, l.Ask.Note)))
	}
	if r := l.Retention; r != nil {
		b.WriteString(wrap("  wants: ", fmt.Sprintf("%s from the approval on: %s, at %s%s", left(r.ForMs), r.Reason, clock(r.AtMs), answered(r.State, r.By, r.DecidedMs, r.Note))))
		if r.State == "approved" && l.State != core.LeaseEnded {
			b.WriteString(wrap("    take it up: ", "sessiondock retain acknowledge "+string(l.Lease)))
		}
	}
	_, err := a.out.Write([]byte(b.String()))
	return err
}

// answered says what became of something that was asked of a person.
func answered(state, by string, atMs int64, note string) string {
	text := "; " + strings.ReplaceAll(state, "_", " ")
	if by != "" {
		text += " by " + by
	}
	if atMs != 0 {
		text += " at " + clock(atMs)
	}
	if note != "" {
		text += " (" + note + ")"
	}
	return text
}

func keys(claims []core.KeyClaim) string {
	texts := make([]string, len(claims))
	for i, c := range claims {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

// budget says what a lease may do, and with spent what of it is used; "" if it is
// bounded by nothing.
func budget(b core.Budget, spent *core.Spent) string {
	var parts []string
	add := func(bound, used int64, what string) {
		switch {
		case bound > 0 && spent != nil:
			parts = append(parts, fmt.Sprintf("%d of %d %s", used, bound, what))
		case bound > 0:
			parts = append(parts, fmt.Sprintf("%d %s", bound, what))
		case used > 0:
			parts = append(parts, fmt.Sprintf("%d %s", used, what))
		}
	}
	var used core.Spent
	if spent != nil {
		used = *spent
	}
	add(b.Actions, used.Actions, "actions")
	add(b.Bytes, used.Bytes, "bytes")
	if b.PerMinute > 0 {
		parts = append(parts, fmt.Sprintf("at most %d a minute", b.PerMinute))
	}
	return strings.Join(parts, ", ")
}
