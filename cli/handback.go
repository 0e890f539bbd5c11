package main

import (
	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) handbackCmd() *cobra.Command {
	var (
		to      string
		confirm bool
		ifEpoch uint64
	)
	c := &cobra.Command{
		Use:   "handback SLOT",
		Short: "Give control back",
		Long: `Gives control to the agent that the takeover interrupted (--to), which then resumes
its lease; without --to that lease ends, and whoever is next in the queue is granted
the slot. Your own last click or key may still be queued in the page: a grant waits
until it is not. If something is not settled the handback is refused; with --confirm
you let go all the same, and nobody is granted the slot before it is settled.`,
		Example: `  sessiondock handback shop --to claude`,
		Args:    names("SLOT"),
		RunE: func(c *cobra.Command, args []string) error {
			slot := core.SlotName(args[0])
			door, err := a.control()
			if err != nil {
				return err
			}
			before, err := door.Status(c.Context(), slot)
			if err != nil {
				return err
			}
			epoch := before.Authority.Epoch
			if c.Flags().Changed("if-epoch") {
				epoch = core.Epoch(ifEpoch)
			}
			st, err := door.Change(c.Context(), slot, client.Handback, wire.ChangeRequest{
				IfEpoch: &epoch, By: surface, To: core.AgentName(to), Confirm: confirm,
			})
			if err != nil {
				return err
			}
			if i := before.Interrupted; i != nil && to == "" {
				a.say("note: this has ended the lease of %s (%s), which your takeover had interrupted; to let an agent go on instead: sessiondock handback %s --to %s",
					clean(string(i.Agent)), i.Lease, slot, clean(string(i.Agent)))
			}
			return a.show(st, func() error { return a.printStatus(st) })
		},
	}
	c.Flags().StringVar(&to, "to", "", "the interrupted agent, whose lease goes on (default: the queue)")
	c.Flags().BoolVar(&confirm, "confirm", false, "although something is not settled")
	ifEpochFlag(c, &ifEpoch)
	return c
}
