package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) delegateCmd() *cobra.Command {
	var (
		to       string
		forDur   time.Duration
		priority int
	)
	c := &cobra.Command{
		Use:   "delegate BINDING",
		Short: "Make a token with which an agent may acquire one binding",
		Long: `Prints a token, once. Whoever has it may acquire this binding, and no other, until
it expires. Give it to the agent in its environment or in a file, never as an
argument. A higher priority is granted before a lower one, and does not end a lease
that is held. See also: sessiondock delegation list.`,
		Example: `  export SESSIONDOCK_DELEGATION=$(sessiondock delegate shop-admin --to claude)
  sessiondock delegate shop-admin --to nightly --for 12h --priority -10`,
		Args: names("BINDING"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := atLeast(c, "for", forDur, time.Second); err != nil {
				return err
			}
			door, err := a.control()
			if err != nil {
				return err
			}
			d, err := door.Delegate(c.Context(), core.BindingName(args[0]), wire.DelegateRequest{
				To: core.AgentName(to), ForMs: forDur.Milliseconds(), Priority: priority,
			})
			if err != nil {
				return err
			}
			return a.show(d, func() error {
				a.say("agent %s may acquire %s for %s; the token is shown once", d.Agent, d.Binding, left(d.ExpiresInMs))
				_, err := fmt.Fprintln(a.out, d.Token)
				return err
			})
		},
	}
	c.Flags().StringVar(&to, "to", "agent", "the agent's name, as people will read it")
	c.Flags().DurationVar(&forDur, "for", 0, "how long the token is good (default 24h)")
	c.Flags().IntVar(&priority, "priority", 0, "`N` from -100 to 100: the higher is granted first")
	return c
}
