package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) delegationCmd() *cobra.Command {
	return group("delegation", "List and revoke delegations", "  sessiondock delegation list",
		a.delegationListCmd(), a.delegationRevokeCmd())
}

func (a *app) delegationListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the delegations; their tokens are not shown again",
		Example: "  sessiondock delegation list",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			all, err := door.Delegations(c.Context())
			if err != nil {
				return err
			}
			return a.show(all, func() error {
				var rows [][]string
				for _, d := range all {
					rows = append(rows, []string{string(d.Delegation), string(d.Binding), string(d.Agent), strconv.Itoa(d.Priority), d.By, standing(d)})
				}
				return a.table([]string{"DELEGATION", "BINDING", "AGENT", "PRIORITY", "BY", "GOOD FOR"}, rows,
					"no delegations yet: sessiondock delegate BINDING --to NAME")
			})
		},
	}
}

func standing(d wire.DelegationRow) string {
	switch {
	case d.Revoked:
		return "revoked"
	case d.ExpiresInMs == 0:
		return "expired"
	}
	return left(d.ExpiresInMs)
}

func (a *app) delegationRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke DELEGATION",
		Short: "Take a delegation back",
		Long: `Nobody acquires with it any more, and what waits in the queue because of it leaves.
Leases that were made with it go on: end those with "lease release --revoke" or a
takeover.`,
		Example: "  sessiondock delegation revoke 01JZ8M3T6V4Q0W9YB2C7D5E1FG",
		Args:    names("DELEGATION"),
		RunE: func(c *cobra.Command, args []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			d, err := door.RevokeDelegation(c.Context(), core.DelegationID(args[0]))
			if err != nil {
				return err
			}
			return a.show(d, func() error {
				_, err := fmt.Fprintf(a.out, "delegation %s of %s to agent %s is revoked\n", d.Delegation, d.Binding, clean(string(d.Agent)))
				return err
			})
		},
	}
}
