package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// eventsAgain is how long a reader that has lost the daemon waits before it looks again.
const eventsAgain = 500 * time.Millisecond

func (a *app) eventsCmd() *cobra.Command {
	var (
		follow bool
		slot   string
		after  int64
		limit  int
	)
	c := &cobra.Command{
		Use:   "events",
		Short: "The journal: every change of control and every outcome",
		Long: `Shows the journal: what was decided, by whom, under which epoch and why. Without
--after it shows the newest entries, with it the next ones after that number.
--follow goes on as entries are written, and through a restart of the daemon,
without a gap or a repeat. Entries that are too old are not kept (see
sessiondockd --help); a row "not kept" stands for them.`,
		Example: `  sessiondock events --limit 20
  sessiondock events --slot shop --follow --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if after < 0 || limit < 1 || limit > wire.MaxEvents {
				return usage(c, "--after must be at least 0, and --limit 1 to %d", wire.MaxEvents)
			}
			q := client.EventQuery{After: after, Slot: core.SlotName(slot)}
			if !c.Flags().Changed("after") {
				q.Newest = limit
			}
			door, err := a.control()
			if err != nil {
				return err
			}
			if follow {
				return a.followEvents(c.Context(), door, q)
			}
			q.Limit = limit
			rows, err := door.Journal(c.Context(), q)
			if err != nil {
				return err
			}
			if q.Newest == 0 && len(rows) >= limit {
				a.say("there may be more: --after %d", rows[len(rows)-1].Seq)
			}
			return a.show(rows, func() error {
				for _, e := range rows {
					if err := a.printEvent(e); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on as events happen, until interrupted")
	c.Flags().StringVar(&slot, "slot", "", "only events of this slot")
	c.Flags().Int64Var(&after, "after", 0, "only after this sequence number; 0: from the oldest that is kept")
	c.Flags().IntVar(&limit, "limit", 100, "at most this many; with --follow, so many to begin with")
	return c
}

// followEvents prints events until it is interrupted. A daemon that has gone away is
// waited for: the next one goes on where that one ended.
func (a *app) followEvents(ctx context.Context, door *client.Client, q client.EventQuery) error {
	if _, err := door.Health(ctx); err != nil {
		return err // there is none to begin with
	}
	told := false
	for {
		err := door.Follow(ctx, &q, func(e wire.EventRow) error {
			told = false
			if a.json {
				return json.NewEncoder(a.out).Encode(e)
			}
			return a.printEvent(e)
		})
		if e, ok := errors.AsType[*core.Error](err); !ok || e.Code != core.CodeUnavailable {
			return err
		}
		if !told {
			a.say("the daemon has gone away; waiting for the next one")
			told = true
		}
		select {
		case <-time.After(eventsAgain):
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *app) printEvent(e wire.EventRow) error {
	text := fmt.Sprintf("%6d  %s  %-22s", e.Seq, clock(e.AtMs), clean(e.Kind))
	if e.Slot != "" {
		text += fmt.Sprintf(" %s epoch %d", e.Slot, e.Epoch)
	}
	text += " by " + clean(e.Principal)
	if e.Reason != "" {
		text += ": " + clean(e.Reason)
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}
