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
				_, err := fmt.Fprint(a.out, wrap("", "binding "+string(b.Name)+": "+signIn(core.SignIn{Binding: b.Name, Account: b.Account, Confirmed: b.Confirmed})))
				return err
			})
		},
	}
	c.Flags().StringVar(&r.Note, "note", "", "what you looked at")
	c.Flags().Uint64Var(&ifEpoch, "if-epoch", 0, "only if the slot's epoch is still this one (default: whatever it is)")
	return c
}

// signIns says what is known of the account that a binding expects, by a person's word
// and by its probe, and what to do if that is nothing.
func signIns(in core.SignIn) string {
	if !in.Probe {
		return signIn(in)
	}
	id := in.Checked
	if id == nil {
		return "its probe has not looked yet: it does before a lease, or now: sessiondock probe " + string(in.Binding)
	}
	text := map[string]string{
		"match": "signed in as expected", "mismatch": "not signed in as expected", "unknown": "not known whether signed in as expected",
	}[id.State]
	if in.Account != "" {
		text += " (" + in.Account + ")"
	}
	by := "a probe"
	if id.By != "system" {
		by = id.By
	}
	text += fmt.Sprintf(", by %s at %s, launch %d", by, clock(id.AtMs), id.Generation)
	if id.State == "unknown" {
		text += ": " + id.Why
	}
	switch {
	case id.BeforeRestart:
		text += "; the browser was started again since: it is checked anew before a lease"
	case id.Past != "":
		text += "; " + id.Past + ": it is checked anew before a lease"
	case !id.Counts:
		text += "; that is too long ago: it is checked anew before a lease"
	}
	return text
}

// signIn says what is known of a binding's sign-in.
func signIn(in core.SignIn) string {
	who := "the sign-in"
	if in.Account != "" {
		who += " as " + in.Account
	}
	v := in.Confirmed
	if v == nil {
		return who + " is not confirmed: sessiondock confirm " + string(in.Binding)
	}
	text := fmt.Sprintf("%s was confirmed by %s at %s", who, v.By, clock(v.AtMs))
	if in.BeforeRestart {
		text += ", before the last restart of the browser"
	}
	if v.Note != "" {
		text += " (" + v.Note + ")"
	}
	switch {
	case v.Lost():
		text += fmt.Sprintf("; it may be LOST: the browser ended without a clean stop at %s, before it had reached the disk. Look, sign in again, and then: sessiondock confirm %s", clock(v.LostMs), in.Binding)
	case v.Prepared():
		text += "; on the disk since " + clock(v.SavedMs)
	default:
		text += "; not on the disk yet: for about a minute a crash would lose it, a clean stop saves it"
	}
	return text
}
