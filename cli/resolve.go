package main

import (
	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) resolveCmd() *cobra.Command {
	var (
		applied, notApplied bool
		note                string
		ifEpoch             uint64
	)
	c := &cobra.Command{
		Use:   "resolve ACTION... --applied | --not-applied",
		Short: "Record what an action of unknown outcome did on the website",
		Long: `Records your verdict, after you have looked at the website itself. It is kept with
who, when and why. Say only what you have seen: another try of an action that was
applied is done twice. Of several actions it is the verdict on each.`,
		Example: `  sessiondock resolve 01JZ8M3T6V4Q0W9YB2C7D5E1FG --applied --note "saved once"
  sessiondock resolve 01JZ8M3T6V4Q0W9YB2C7D5E1FG --not-applied --if-epoch 7`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(c, "ACTION is missing")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if applied == notApplied {
				return usage(c, "say either --applied or --not-applied")
			}
			verdict := core.NotApplied
			if applied {
				verdict = core.Applied
			}
			r := wire.ResolveRequest{Verdict: verdict, Note: note, By: surface}
			if c.Flags().Changed("if-epoch") {
				epoch := core.Epoch(ifEpoch)
				r.IfEpoch = &epoch
			}
			door, err := a.control()
			if err != nil {
				return err
			}
			records := make([]*core.Record, 0, len(args))
			for _, action := range args {
				record, err := door.Resolve(c.Context(), core.ActionID(action), r)
				if err != nil {
					if len(args) > 1 {
						a.say("%d of %d were resolved before %s was not", len(records), len(args), action)
					}
					return err
				}
				records = append(records, record)
			}
			if len(args) == 1 {
				return a.show(records[0], func() error { return a.printRecord(records[0]) })
			}
			return a.show(records, func() error {
				for _, record := range records {
					if err := a.printRecord(record); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&applied, "applied", false, "the website shows its effect")
	c.Flags().BoolVar(&notApplied, "not-applied", false, "the website shows no effect of it")
	c.Flags().StringVar(&note, "note", "", "what you looked at")
	c.Flags().Uint64Var(&ifEpoch, "if-epoch", 0, "only if the slot's epoch is still this one (default: whatever it is)")
	return c
}
