package main

import (
	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) leaseAskCmd() *cobra.Command {
	var file, reason string
	c := &cobra.Command{
		Use:   "ask [LEASE] --reason TEXT",
		Short: "Ask a person: for a sign-in, a second factor, a decision",
		Long: `Shows your reason to the person, in the browser's popup and in "sessiondock status",
until they answer, take over, or the lease ends. After a takeover wait for the
handback: "lease resume --wait". Otherwise "lease show" tells the answer.`,
		Example: `  sessiondock lease ask --reason "the shop wants a second factor"`,
		Args:    optional("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return usage(c, "--reason is missing: say in one sentence what a person is needed for")
			}
			lease, err := a.leaseOf(c, args)
			if err != nil {
				return err
			}
			return a.withCapability(file, func(door *client.Client, capability client.Secret) error {
				l, err := door.Ask(c.Context(), lease, capability, reason)
				if err != nil {
					return err
				}
				return a.show(l, func() error { return a.printLease(l) })
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "what a person is needed for (required)")
	capabilityFlag(c, &file)
	return c
}

func (a *app) leaseAnswerCmd() *cobra.Command {
	var v verdict
	c := &cobra.Command{
		Use:   "answer LEASE --approve | --decline",
		Short: "Answer what an agent asks, without taking over",
		Long: `Answers what a lease has asked, as a person. It holds for the epoch at which it was
asked: after a change of control the agent asks again. To do in the browser what is
asked for, take over instead, and hand back with --to.`,
		Example: `  sessiondock lease answer 01JZ8M3T6V4Q0W9YB2C7D5E1FG --approve --note "go on"`,
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
			l, err := door.Answer(c.Context(), core.LeaseID(args[0]), r)
			if err != nil {
				return err
			}
			return a.show(l, func() error { return a.printLease(l) })
		},
	}
	c.Flags().BoolVar(&v.yes, "approve", false, "yes")
	c.Flags().BoolVar(&v.no, "decline", false, "no")
	v.flags(c)
	return c
}

// verdict is a person's yes or no on the command line.
type verdict struct {
	yes, no bool
	note    string
	ifEpoch uint64
}

func (v *verdict) flags(c *cobra.Command) {
	c.Flags().StringVar(&v.note, "note", "", "what the agent and the journal are told")
	c.Flags().Uint64Var(&v.ifEpoch, "if-epoch", 0, "only if the slot's epoch is still this one (default: that of the asking)")
}

func (v *verdict) request(c *cobra.Command) (wire.AnswerRequest, error) {
	r := wire.AnswerRequest{Approve: &v.yes, Note: v.note, By: surface}
	if v.yes == v.no {
		return r, usage(c, "say either --approve or --decline")
	}
	if c.Flags().Changed("if-epoch") {
		epoch := core.Epoch(v.ifEpoch)
		r.IfEpoch = &epoch
	}
	return r, nil
}
