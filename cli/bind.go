package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) bindCmd() *cobra.Command {
	var (
		r                wire.BindingRequest
		slot, probe      string
		lifetime, window time.Duration
	)
	c := &cobra.Command{
		Use:   "bind NAME --slot SLOT",
		Short: "Declare what a slot may be used for",
		Long: `A binding is what a person delegates: one slot, for one project, environment and
account, within certain origins. An agent gets the binding it was delegated and no
other.

A conflict key (--key) names something that is shared beyond this browser, such as
one product: a lease takes all of its keys or waits, and one that is exclusive is
held by one slot at a time. A budget (--max-actions and others) is each lease's own.

An agent's DevTools commands are refused what touches more than its pages. --allow
opens some of it within the binding's origins (without --origin that is every
website), repeatable or with commas:

` + allowed() + `

An account other than none must be confirmed before a lease: sessiondock confirm.
With --probe the system looks at the website instead, before each lease that its
last look does not cover: sessiondock probe --help.`,
		Example: `  sessiondock bind shop-admin --slot shop --origin https://shop.example \
      --start https://shop.example/admin --account none --max-lifetime 2h
  sessiondock bind stock --slot shop --account ops@shop.example \
      --key shop:product/42 --key shop:stock:shared --max-actions 500`,
		Args: names("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if slot == "" {
				return usage(c, "--slot is missing")
			}
			if err := atLeast(c, "max-lifetime", lifetime, time.Second); err != nil {
				return err
			}
			if err := atLeast(c, "watch", window, time.Millisecond); err != nil {
				return err
			}
			if err := boundsGiven(c, "max-actions", "max-per-minute", "max-bytes"); err != nil {
				return err
			}
			r.Name, r.Slot = core.BindingName(args[0]), core.SlotName(slot)
			r.MaxLifetimeMs, r.WatchMs = lifetime.Milliseconds(), window.Milliseconds()
			if r.Worktree != "" {
				dir, err := filepath.Abs(r.Worktree)
				if err != nil {
					return err
				}
				if info, err := os.Stat(dir); err != nil || !info.IsDir() {
					return core.Refuse(core.CodeInvalid, fmt.Sprintf("the worktree %s is not a directory", dir), "make it first: git worktree add "+dir)
				}
				r.Worktree = dir
			}
			if probe != "" {
				var err error
				if r.Probe, err = readProbe(probe); err != nil {
					return err
				}
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
	f.StringVar(&r.Worktree, "worktree", "", "the directory it is for: of a git worktree, or a plain one")
	f.StringVar(&r.Environment, "environment", "", "the environment, such as staging")
	f.StringVar(&r.Account, "account", "", "the account that a person confirms, or a probe checks; or none")
	f.StringVar(&r.Tenant, "tenant", "", "the tenant that the account must be in")
	f.StringVar(&probe, "probe", "", "how account and results are checked, a JSON `FILE`")
	f.StringVar(&r.Start, "start", "", "the page to open with: a browser that is started, and each lease of run and mcp")
	f.StringArrayVar(&r.Origins, "origin", nil, "an origin the agent may use, repeatable (default: any)")
	f.StringSliceVar(&r.Allow, "allow", nil, "let the agent use `WORDS`: "+strings.Join(core.SettingNames(), ", ")+" (default: none)")
	f.StringArrayVar(&r.Keys, "key", nil, "each lease takes the conflict key `KEY[:shared]`, repeatable")
	f.Int64Var(&r.Budget.Actions, "max-actions", 0, "a lease may ask for `N` actions (default: no bound)")
	f.Int64Var(&r.Budget.PerMinute, "max-per-minute", 0, "and for `N` in any minute, counted anew from each grant and resume (default: no bound)")
	f.Int64Var(&r.Budget.Bytes, "max-bytes", 0, "its requests and results may have `N` bytes (default: no bound)")
	f.DurationVar(&lifetime, "max-lifetime", 0, "the longest a lease may live with renewals (default 8h)")
	f.DurationVar(&window, "watch", 0, "how long requests are watched after an action (default 5s)")
	f.StringVar(&r.Owner, "owner", "", "who answers for it")
	f.StringVar(&r.RecoveryOwner, "recovery-owner", "", "who is asked to recover it")
	f.StringVar(&r.CostOwner, "cost-owner", "", "who pays for it")
	return c
}

func allowed() (text string) {
	for _, s := range core.Settings {
		text += wrap(fmt.Sprintf("  %-13s ", s.Name), s.Help)
	}
	return strings.TrimSuffix(text, "\n")
}
