package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/install"
	"sessiondock.dev/sessiondock/manifests"
)

func (a *app) uninstallCmd() *cobra.Command {
	var dryRun, purge bool
	c := &cobra.Command{
		Use:   "uninstall [--dry-run] [--purge]",
		Short: "Remove what was installed for this user",
		Long: `Ends the daemon and removes what the installation's receipt names, and nothing else:
a file that was changed since is left, and named. Slots with their logins and the
database stay, unless --purge is given. A slot whose browser runs is to be stopped
first.`,
		Example: `  sessiondock uninstall --dry-run`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.isPerson(c.Context()); err != nil {
				return err
			}
			return a.uninstall(c.Context(), dryRun, purge)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be removed")
	c.Flags().BoolVar(&purge, "purge", false, "also remove all slots, with their logins, and the database")
	return c
}

// uninstallReport is what --json prints.
type uninstallReport struct {
	Schema string   `json:"schema"`
	DryRun bool     `json:"dry_run"`
	Remove []string `json:"remove"`
	Leave  []string `json:"leave"` // changed by a person
	Data   string   `json:"data"`  // "kept", "removed" or "none"
}

func (a *app) uninstall(ctx context.Context, dryRun, purge bool) error {
	paths, err := a.paths()
	if err != nil {
		return err
	}
	running, err := install.RunningSlots(paths)
	if err != nil {
		return err
	}
	if len(running) > 0 && !dryRun {
		return core.Refuse(core.CodeConflict, "a browser runs in "+strings.Join(running, ", "),
			"stop it first: sessiondock slot stop "+running[0])
	}
	if !dryRun {
		if undone, err := install.Recover(paths.State); err != nil {
			return err
		} else if undone {
			a.say("an installation that was cut short has been undone")
		}
	}
	m, err := install.Unmake(paths.State)
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeNotFound {
		m = &install.Removal{Remove: []string{}, Leave: []string{}}
		if !a.json {
			a.say("%s", e.Message)
		}
	} else if err != nil {
		return err
	}
	r := uninstallReport{Schema: schema, DryRun: dryRun, Remove: m.Remove, Leave: m.Leave, Data: "none"}
	switch {
	case purge:
		r.Data = "removed"
	case install.HasSlots(paths):
		r.Data = "kept"
	}
	if !dryRun {
		if err := a.remove(ctx, paths, m, r.Data); err != nil {
			return err
		}
	}
	return a.show(r, func() error {
		for _, path := range r.Remove {
			fmt.Fprintln(a.out, "remove  ", path)
		}
		for _, path := range r.Leave {
			fmt.Fprintln(a.out, "leave   ", path, " (changed since it was installed)")
		}
		switch r.Data {
		case "kept":
			a.say("slots and database stay in %s and %s; --purge removes them too", paths.Data, paths.State)
		case "removed":
			a.say("slots, logins and database are removed")
		}
		if dryRun {
			a.say("nothing was done: --dry-run")
		}
		return nil
	})
}

// remove ends the daemon, and then removes the files and what belongs to them.
func (a *app) remove(ctx context.Context, paths client.Paths, m *install.Removal, data string) error {
	manager, err := install.FindManager(ctx)
	reachable := err == nil
	if reachable && len(m.Remove) > 0 {
		// Units that were never loaded are no error of an uninstallation.
		_, _ = manager.Do(ctx, "stop", manifests.SocketUnit, manifests.ServiceUnit)
	}
	if err := a.endDaemon(ctx, paths); err != nil {
		return err
	}
	rest := func() error { return nil }
	switch data {
	case "removed":
		rest = func() error { return install.Purge(paths) }
	case "none":
		rest = func() error { return install.Forget(paths) }
	}
	if m.Empty() {
		err = rest()
	} else {
		err = m.Apply(rest)
	}
	if err == nil && reachable {
		_, err = manager.Do(ctx, "daemon-reload")
	}
	return err
}

// endDaemon ends a daemon that runs, however it was started.
func (a *app) endDaemon(ctx context.Context, paths client.Paths) error {
	proc, err := client.PeerProcess(ctx, paths.ControlSocket())
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeUnavailable {
		return nil
	}
	if err != nil {
		return err
	}
	defer proc.Close()
	if _, err := client.New(paths.ControlSocket()).Health(ctx); err != nil {
		return err
	}
	if err := proc.Terminate(); err != nil {
		return err
	}
	return proc.WaitGone(downWithin)
}
