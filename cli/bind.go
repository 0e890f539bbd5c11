package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) bindCmd() *cobra.Command {
	var (
		r                wire.BindingRequest
		slot             string
		lifetime, window time.Duration
	)
	c := &cobra.Command{
		Use:   "bind NAME --slot SLOT",
		Short: "Declare what a slot may be used for",
		Long: `A binding is what a person delegates: one slot, for one project, environment and
account, within certain origins. An agent gets the binding it was delegated and no
other.`,
		Example: `  sessiondock bind shop-admin --slot shop --origin https://shop.example \
      --start https://shop.example/admin --account none --max-lifetime 2h`,
		Args: names("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if slot == "" {
				return usage(c, "--slot is missing")
			}
			if lifetime < 0 || window < 0 {
				return usage(c, "a duration cannot be negative")
			}
			r.Name, r.Slot = core.BindingName(args[0]), core.SlotName(slot)
			r.MaxLifetimeMs, r.WatchMs = lifetime.Milliseconds(), window.Milliseconds()
			if r.Worktree != "" {
				dir, err := filepath.Abs(r.Worktree)
				if err != nil {
					return err
				}
				r.Worktree = dir
			}
			door, err := a.control()
			if err != nil {
				return err
			}
			b, err := door.Bind(c.Context(), r)
			if err != nil {
				return err
			}
			return a.show(b, func() error {
				_, err := fmt.Fprintf(a.out, "binding %s of slot %s\n", b.Name, b.Slot)
				return err
			})
		},
	}
	f := c.Flags()
	f.StringVar(&slot, "slot", "", "the slot it is for (required)")
	f.StringVar(&r.Project, "project", "", "the project it is for")
	f.StringVar(&r.Worktree, "worktree", "", "the git worktree it is for")
	f.StringVar(&r.Environment, "environment", "", "the environment, such as staging")
	f.StringVar(&r.Account, "account", "", "none: no sign-in is needed (another account cannot be confirmed in this version, and is refused)")
	f.StringVar(&r.Tenant, "tenant", "", "the tenant that the account must be in")
	f.StringVar(&r.Start, "start", "", "the page to open with")
	f.StringArrayVar(&r.Origins, "origin", nil, "an origin the agent may use, repeatable (default: any)")
	f.DurationVar(&lifetime, "max-lifetime", 0, "the longest a lease may live with renewals (default 8h)")
	f.DurationVar(&window, "watch", 0, "how long requests are watched after an action (default 5s)")
	f.StringVar(&r.Owner, "owner", "", "who answers for it")
	f.StringVar(&r.RecoveryOwner, "recovery-owner", "", "who is asked to recover it")
	f.StringVar(&r.CostOwner, "cost-owner", "", "who pays for it")
	return c
}
