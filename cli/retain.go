package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) retainCmd() *cobra.Command {
	c := group("retain", "Keep a lease beyond its maximum lifetime", `  sessiondock retain request --for 1h --reason "the import is not done"
  sessiondock retain list
  sessiondock retain approve 01JZ8M3T6V4Q0W9YB2C7D5E1FG
  sessiondock retain acknowledge`,
		a.retainRequestCmd(), a.retainDecideCmd(true), a.retainDecideCmd(false), a.retainAcknowledgeCmd(), a.retainListCmd())
	c.Long = `A renewal stays within the maximum lifetime that a person set; a retention raises
it. The agent asks, a person approves, and the agent acknowledges: all three before
the lease's time is over, or it ends when it would have.`
	return c
}

func (a *app) retainRequestCmd() *cobra.Command {
	var (
		file, reason string
		forDur       time.Duration
	)
	c := &cobra.Command{
		Use:   "request [LEASE] --for D --reason TEXT",
		Short: "As the agent, ask for more time than the binding's maximum",
		Long: `Asks a person for time from their approval on. Nothing is kept by asking: look with
"lease show" whether it was approved, then acknowledge.`,
		Example: `  sessiondock retain request --for 1h --reason "the import is not done"`,
		Args:    optional("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case !c.Flags().Changed("for"):
				return usage(c, "--for is missing: how much time")
			case reason == "":
				return usage(c, "--reason is missing: a person decides on it")
			}
			if err := atLeast(c, "for", forDur, time.Second); err != nil {
				return err
			}
			lease, err := a.leaseOf(c, args)
			if err != nil {
				return err
			}
			return a.withCapability(file, func(door *client.Client, capability client.Secret) error {
				l, err := door.Retain(c.Context(), lease, capability, wire.RetainRequest{ForMs: forDur.Milliseconds(), Reason: reason})
				if err != nil {
					return err
				}
				return a.show(l, func() error { return a.printLease(l) })
			})
		},
	}
	c.Flags().DurationVar(&forDur, "for", 0, "how long from the approval on (required)")
	c.Flags().StringVar(&reason, "reason", "", "why more time is needed (required)")
	capabilityFlag(c, &file)
	return c
}

func (a *app) retainDecideCmd(approve bool) *cobra.Command {
	var (
		v       = verdict{yes: approve, no: !approve}
		request string
	)
	verb, short := "approve", "As a person, allow a lease more time"
	long := `Raises the lease's maximum; the agent then acknowledges, which gives it the time.
Too late is refused: a lease whose time is over has ended.`
	if !approve {
		verb, short = "refuse", "As a person, allow no more time"
		long = "The lease ends when it would have."
	}
	c := &cobra.Command{
		Use: verb + " LEASE", Short: short, Long: long,
		Example: "  sessiondock retain " + verb + ` 01JZ8M3T6V4Q0W9YB2C7D5E1FG --note "go on until noon"`,
		Args:    names("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := v.request(c)
			if err != nil {
				return err
			}
			door, err := a.control()
			if err != nil {
				return err
			}
			lease, id := core.LeaseID(args[0]), core.RetentionID(request)
			if id == "" {
				if id, err = a.asked(c, door, lease); err != nil {
					return err
				}
			}
			l, err := door.Decide(c.Context(), lease, id, r)
			if err != nil {
				return err
			}
			return a.show(l, func() error { return a.printLease(l) })
		},
	}
	c.Flags().StringVar(&request, "request", "", "only this request (default: the lease's last)")
	v.flags(c)
	return c
}

// asked is the request of a lease that a person decides on.
func (a *app) asked(c *cobra.Command, door *client.Client, lease core.LeaseID) (core.RetentionID, error) {
	l, err := door.Lease(c.Context(), lease, "")
	if err != nil {
		return "", err
	}
	if l.Retention == nil {
		return "", core.Refuse(core.CodeConflict, fmt.Sprintf("lease %s has not asked for more time", lease), "sessiondock retain list")
	}
	return l.Retention.ID, nil
}

func (a *app) retainAcknowledgeCmd() *cobra.Command {
	var file, request string
	c := &cobra.Command{
		Use:     "acknowledge [LEASE]",
		Short:   "As the agent, take up the time that was approved",
		Example: "  sessiondock retain acknowledge",
		Args:    optional("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			lease, err := a.leaseOf(c, args)
			if err != nil {
				return err
			}
			return a.withCapability(file, func(door *client.Client, capability client.Secret) error {
				id := core.RetentionID(request)
				if id == "" {
					l, err := door.Lease(c.Context(), lease, capability)
					if err != nil {
						return err
					}
					if l.Retention == nil {
						return core.Refuse(core.CodeConflict, "this lease has not asked for more time", "sessiondock retain request --for 1h --reason TEXT")
					}
					id = l.Retention.ID
				}
				l, err := door.Acknowledge(c.Context(), lease, capability, id)
				if err != nil {
					return err
				}
				return a.show(l, func() error { return a.printLease(l) })
			})
		},
	}
	c.Flags().StringVar(&request, "request", "", "only this request (default: the lease's last)")
	capabilityFlag(c, &file)
	return c
}

func (a *app) retainListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "As a person, list the leases that ask for more time",
		Example: "  sessiondock retain list",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			leases, err := door.Leases(c.Context())
			if err != nil {
				return err
			}
			asking := []wire.LeaseReply{}
			var rows [][]string
			for _, l := range leases {
				r := l.Retention
				if r == nil {
					continue
				}
				asking = append(asking, l)
				rows = append(rows, []string{string(l.Lease), string(l.Slot), string(l.Agent), r.State, left(r.ForMs), left(l.ExpiresInMs), clip(r.Reason, 60)})
			}
			return a.show(asking, func() error {
				return a.table([]string{"LEASE", "SLOT", "AGENT", "STATE", "WANTS", "LEFT", "REASON"}, rows, "no lease asks for more time")
			})
		},
	}
}
