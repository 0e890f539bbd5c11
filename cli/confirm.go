package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) confirmCmd() *cobra.Command {
	var (
		r       wire.ConfirmRequest
		ifEpoch uint64
	)
	c := &cobra.Command{
		Use:   "confirm BINDING",
		Short: "Attest that a slot is signed in as its binding says",
		Long: `Records your word that the slot's browser, which you have looked at, is signed in to
the account (and tenant) that the binding names. Without it an agent is refused a
lease of the binding (account_mismatch), unless its account is none. The word is of
one run of the browser: after a restart it is shown as older than that.`,
		Example: `  sessiondock confirm stock --note "signed in as ops, tenant north"`,
		Args:    names("BINDING"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("if-epoch") {
				epoch := core.Epoch(ifEpoch)
				r.IfEpoch = &epoch
			}
			r.By = surface
			door, err := a.control()
			if err != nil {
				return err
			}
			b, err := door.Confirm(c.Context(), core.BindingName(args[0]), r)
			if err != nil {
				return err
			}
			return a.show(b, func() error {
				_, err := fmt.Fprint(a.out, wrap("", "binding "+string(b.Name)+": "+signIn(b.Account, b.Confirmed, false)))
				return err
			})
		},
	}
	c.Flags().StringVar(&r.Note, "note", "", "what you looked at")
	c.Flags().Uint64Var(&ifEpoch, "if-epoch", 0, "only if the slot's epoch is still this one (default: whatever it is)")
	return c
}

// signIn says what is known of a binding's sign-in.
func signIn(account string, v *core.Confirmation, beforeRestart bool) string {
	who := "the sign-in"
	if account != "" {
		who += " as " + account
	}
	if v == nil {
		return who + " is not confirmed"
	}
	text := fmt.Sprintf("%s was confirmed by %s at %s", who, v.By, clock(v.AtMs))
	if beforeRestart {
		text += ", before the last restart of the browser"
	}
	if v.Note != "" {
		text += " (" + v.Note + ")"
	}
	return text
}
