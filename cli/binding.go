package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) bindingCmd() *cobra.Command {
	return group("binding", "List, show and remove bindings", "  sessiondock binding list",
		a.bindingListCmd(), a.bindingShowCmd(), a.bindingRemoveCmd())
}

func (a *app) bindingListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the bindings",
		Example: "  sessiondock binding list",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			bindings, err := door.Bindings(c.Context())
			if err != nil {
				return err
			}
			return a.show(bindings, func() error {
				var rows [][]string
				for _, b := range bindings {
					rows = append(rows, []string{string(b.Name), string(b.Slot), b.Project, b.Environment, b.Account, clip(strings.Join(b.Keys, " "), 30), clip(strings.Join(b.Origins, " "), 40)})
				}
				return a.table([]string{"BINDING", "SLOT", "PROJECT", "ENVIRONMENT", "ACCOUNT", "KEYS", "ORIGINS"}, rows,
					"no bindings yet: sessiondock bind NAME --slot SLOT")
			})
		},
	}
}

func (a *app) bindingShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a binding",
		Example: "  sessiondock binding show shop-admin",
		Args:    names("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			b, err := door.Binding(c.Context(), core.BindingName(args[0]))
			if err != nil {
				return err
			}
			return a.show(b, func() error { return a.printBinding(b) })
		},
	}
}

func (a *app) printBinding(b *wire.BindingInfo) error {
	var out strings.Builder
	var sign, account, effect string
	if b.SignIn != nil {
		sign = signIns(*b.SignIn)
	}
	if b.Probe != nil && b.Probe.Account != nil {
		account = probeText(b.Probe.Account.ProbePage, b.Expected("account"))
	}
	if b.Probe != nil && b.Probe.Effect != nil {
		effect = probeText(b.Probe.Effect.ProbePage, b.Expected("effect"))
	}
	for _, f := range []struct{ name, value string }{
		{"binding", string(b.Name)}, {"slot", string(b.Slot)}, {"project", b.Project}, {"worktree", b.Worktree},
		{"environment", b.Environment}, {"account", b.Account}, {"tenant", b.Tenant}, {"sign-in", sign}, {"account probe", account}, {"effect probe", effect}, {"start", b.Start},
		{"origins", strings.Join(b.Origins, " ")}, {"allows", strings.Join(b.Allow, " ")}, {"keys", strings.Join(b.Keys, " ")},
		{"budget", budget(b.Budget, nil)}, {"max lifetime", orDefault(b.MaxLifetimeMs)}, {"watch", orDefault(b.WatchMs)},
		{"owner", b.Owner}, {"recovery owner", b.RecoveryOwner}, {"cost owner", b.CostOwner},
		{"created", clock(b.Created)},
	} {
		if f.value != "" {
			out.WriteString(wrap(fmt.Sprintf("%-15s ", f.name), f.value))
		}
	}
	_, err := a.out.Write([]byte(out.String()))
	return err
}

func orDefault(ms int64) string {
	if ms == 0 {
		return ""
	}
	return left(ms)
}

func (a *app) bindingRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a binding and its delegations",
		Example: "  sessiondock binding remove shop-admin",
		Args:    names("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			if err := door.RemoveBinding(c.Context(), core.BindingName(args[0])); err != nil {
				return err
			}
			a.say("binding %s removed", args[0])
			return nil
		},
	}
}
