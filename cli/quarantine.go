package main

import (
	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
)

func (a *app) quarantineCmd() *cobra.Command {
	return group("quarantine", "Slots that are closed because something is unknown", "  sessiondock quarantine list",
		a.quarantineListCmd(),
		a.changeCmd(change{
			use: "lift", short: "Open a quarantined slot again, on your word", verb: client.LiftQuarantine, note: true,
			long: `Opens a slot to agents again although something about it stays unknown. Resolve its
actions first where you can; the note is kept in the journal with your name.`,
			example: `  sessiondock quarantine lift shop --note "looked at the shop: nothing was saved"`,
		}))
}

func (a *app) quarantineListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the quarantined slots, why, and what mends it",
		Example: "  sessiondock quarantine list",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			slots, err := door.Quarantined(c.Context())
			if err != nil {
				return err
			}
			return a.show(slots, func() error { return a.printStatuses(slots, "no slot is quarantined") })
		},
	}
}
