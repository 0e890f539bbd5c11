package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) actionsCmd() *cobra.Command {
	var open bool
	c := &cobra.Command{
		Use:   "actions SLOT | --action ACTION",
		Short: "The ledger: what was asked of the browser, and what is known of it",
		Example: `  sessiondock actions shop --open
  sessiondock actions --action 01JZ8M3T6V4Q0W9YB2C7D5E1FG`,
	}
	var one, before string
	c.RunE = func(c *cobra.Command, args []string) error {
		door, err := a.control()
		if err != nil {
			return err
		}
		if one != "" {
			if err := noArgs(c, args); err != nil {
				return err
			}
			r, err := door.Action(c.Context(), core.ActionID(one))
			if err != nil {
				return err
			}
			return a.show(r, func() error { return a.printRecord(r) })
		}
		if err := names("SLOT")(c, args); err != nil {
			return err
		}
		slot := core.SlotName(args[0])
		var records []core.Record
		if before != "" {
			records, err = door.ActionsBefore(c.Context(), slot, core.ActionID(before))
		} else {
			records, err = door.Actions(c.Context(), slot, open)
		}
		if err != nil {
			return err
		}
		if !open && len(records) >= wire.MaxActions {
			a.say("there may be older ones: --before %s", records[0].Action)
		}
		return a.show(records, func() error {
			var rows [][]string
			for _, r := range records {
				rows = append(rows, []string{string(r.Action), strconv.FormatUint(uint64(r.Epoch), 10), clip(r.Summary, 32),
					string(r.Authority), string(r.Local), string(r.Remote)})
			}
			return a.table([]string{"ACTION", "EPOCH", "SUMMARY", "AUTHORITY", "LOCAL", "REMOTE"}, rows, "no actions")
		})
	}
	c.Flags().BoolVar(&open, "open", false, "only those whose outcome is not closed")
	c.Flags().StringVar(&before, "before", "", "older ones: those before this action")
	c.Flags().StringVar(&one, "action", "", "show one action with its evidence")
	return c
}
