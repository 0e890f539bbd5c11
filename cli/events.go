package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) eventsCmd() *cobra.Command {
	var (
		follow bool
		after  int64
		limit  int
	)
	c := &cobra.Command{
		Use:   "events",
		Short: "The journal: every change of control and every outcome",
		Example: `  sessiondock events --limit 20
  sessiondock events --follow --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if after < 0 || limit < 1 {
				return usage(c, "--after must be at least 0, and --limit at least 1")
			}
			door, err := a.control()
			if err != nil {
				return err
			}
			if follow {
				return door.Follow(c.Context(), after, func(e wire.EventRow) error {
					if a.json {
						return json.NewEncoder(a.out).Encode(e)
					}
					return a.printEvent(e)
				})
			}
			rows, err := door.Events(c.Context(), after, limit)
			if err != nil {
				return err
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
	c.Flags().Int64Var(&after, "after", 0, "only after this sequence number")
	c.Flags().IntVar(&limit, "limit", 100, "at most this many")
	return c
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
