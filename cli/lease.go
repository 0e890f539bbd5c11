package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) leaseCmd() *cobra.Command {
	return group("lease", "Acquire, renew, resume and release control; ask a person", `  eval "$(sessiondock lease acquire --binding shop-admin --for 30m)"
  sessiondock act click '#save'
  sessiondock lease release`,
		a.leaseAcquireCmd(), a.leaseResumeCmd(), a.leaseRenewCmd(), a.leaseReleaseCmd(), a.leaseListCmd(), a.leaseShowCmd(),
		a.leaseAskCmd(), a.leaseAnswerCmd())
}

// doorFor is the agents' socket for whoever has a delegation, else the person's.
func (a *app) doorFor(token client.Secret) (*client.Client, error) {
	if token != "" {
		return a.agents()
	}
	return a.control()
}

// printGrant prints a lease for eval. Exports without a capability (a resume) leave
// the caller's own in place.
func (a *app) printGrant(l *wire.LeaseReply) error {
	return a.show(l, func() error {
		a.say("lease %s: slot %s, epoch %d, for %s", l.Lease, l.Slot, l.Epoch, left(l.ExpiresInMs))
		vars := []struct{ name, value string }{
			{envLease, string(l.Lease)},
			{envCapability, l.Capability},
			{envEpoch, strconv.FormatUint(uint64(l.Epoch), 10)},
			{envCDPURL, l.CDPURL},
		}
		for _, v := range vars {
			if v.value == "" {
				continue
			}
			if _, err := fmt.Fprintf(a.out, "export %s=%s\n", v.name, shellQuote(v.value)); err != nil {
				return err
			}
		}
		return nil
	})
}

// shellQuote quotes a value for eval by a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// leaseOf is the lease of the command line, else of the environment.
func (a *app) leaseOf(c *cobra.Command, args []string) (core.LeaseID, error) {
	if len(args) > 0 {
		return core.LeaseID(args[0]), nil
	}
	if lease := a.getenv(envLease); lease != "" {
		return core.LeaseID(lease), nil
	}
	return "", usage(c, "LEASE is missing, and %s is not set", envLease)
}

func capabilityFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "capability-file", "", "file with the lease's capability (default: "+envCapability+")")
}

func (a *app) leaseResumeCmd() *cobra.Command {
	var (
		file string
		wait time.Duration
	)
	c := &cobra.Command{
		Use:   "resume [LEASE]",
		Short: "Take a suspended lease up again, at a new epoch",
		Long: `After a restart of the daemon or a takeover a lease goes on only when its holder
resumes it. The epoch is new, so observe the page again before you act on it.`,
		Example: `  eval "$(sessiondock lease resume --wait 1m)"`,
		Args:    optional("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			if wait < 0 {
				return usage(c, "--wait cannot be negative")
			}
			lease, err := a.leaseOf(c, args)
			if err != nil {
				return err
			}
			return a.withCapability(file, func(door *client.Client, capability client.Secret) error {
				l, err := door.Resume(c.Context(), lease, capability, wire.ResumeRequest{WaitMs: wait.Milliseconds()})
				if err != nil {
					return err
				}
				return a.printGrant(l)
			})
		},
	}
	c.Flags().DurationVar(&wait, "wait", 0, "how long to wait until it can be resumed (default: not at all)")
	capabilityFlag(c, &file)
	return c
}

func (a *app) withCapability(file string, do func(*client.Client, client.Secret) error) error {
	capability, err := a.capability(file)
	if err != nil {
		return err
	}
	door, err := a.agents()
	if err != nil {
		return err
	}
	return do(door, capability)
}

func (a *app) leaseRenewCmd() *cobra.Command {
	var (
		file   string
		forDur time.Duration
	)
	c := &cobra.Command{
		Use:     "renew [LEASE]",
		Short:   "Extend a lease within its maximum lifetime",
		Example: `  sessiondock lease renew --for 30m`,
		Args:    optional("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := atLeast(c, "for", forDur, time.Second); err != nil {
				return err
			}
			lease, err := a.leaseOf(c, args)
			if err != nil {
				return err
			}
			return a.withCapability(file, func(door *client.Client, capability client.Secret) error {
				l, err := door.Renew(c.Context(), lease, capability, wire.RenewRequest{ForMs: forDur.Milliseconds()})
				if err != nil {
					return err
				}
				return a.show(l, func() error { return a.printLease(l) })
			})
		},
	}
	c.Flags().DurationVar(&forDur, "for", 10*time.Minute, "how long from now; a lease that has more keeps it")
	capabilityFlag(c, &file)
	return c
}

func (a *app) leaseReleaseCmd() *cobra.Command {
	var (
		file    string
		revoke  bool
		ifEpoch uint64
	)
	c := &cobra.Command{
		Use:   "release [LEASE]",
		Short: "End a lease",
		Long: `Ends a lease by its holder, with its capability. A person may end any lease with
--revoke, at the person's socket and without a capability.`,
		Example: `  sessiondock lease release
  sessiondock lease release 01JZ8M3T6V4Q0W9YB2C7D5E1FG --revoke --if-epoch 7`,
		Args: optional("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			byEpoch := c.Flags().Changed("if-epoch")
			if byEpoch && !revoke {
				return usage(c, "--if-epoch goes with --revoke: a capability is of one lease")
			}
			lease, err := a.leaseOf(c, args)
			if err != nil {
				return err
			}
			done := func(l *wire.LeaseReply, err error) error {
				if err != nil {
					return err
				}
				return a.show(l, func() error { return a.printLease(l) })
			}
			if revoke {
				door, err := a.control()
				if err != nil {
					return err
				}
				r := wire.ChangeRequest{By: surface}
				if byEpoch {
					epoch := core.Epoch(ifEpoch)
					r.IfEpoch = &epoch
				}
				return done(door.Revoke(c.Context(), lease, r))
			}
			return a.withCapability(file, func(door *client.Client, capability client.Secret) error {
				return done(door.Release(c.Context(), lease, capability))
			})
		},
	}
	c.Flags().BoolVar(&revoke, "revoke", false, "as a person, end it without its capability")
	c.Flags().Uint64Var(&ifEpoch, "if-epoch", 0, "with --revoke: only if the slot's epoch is still this one (default: whatever it is)")
	capabilityFlag(c, &file)
	return c
}

func (a *app) leaseListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the leases",
		Example: "  sessiondock lease list",
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
			return a.show(leases, func() error {
				var rows [][]string
				for _, l := range leases {
					rest := l.ExpiresInMs
					if l.Place != nil {
						rest = l.Place.WaitMs
					}
					rows = append(rows, []string{string(l.Lease), string(l.Slot), string(l.Agent), string(l.State),
						strconv.FormatUint(uint64(l.Epoch), 10), left(rest), clip(about(&l), 60)})
				}
				return a.table([]string{"LEASE", "SLOT", "AGENT", "STATE", "EPOCH", "LEFT", "ABOUT"}, rows, "no leases")
			})
		},
	}
}

func (a *app) leaseShowCmd() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "show [LEASE]",
		Short: "Show a lease",
		Long: `With the lease's capability it asks at the agents' socket, without one at the
person's.`,
		Example: "  sessiondock lease show",
		Args:    optional("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			lease, err := a.leaseOf(c, args)
			if err != nil {
				return err
			}
			capability, err := a.secret(file, envCapability)
			if err != nil {
				return err
			}
			door, err := a.doorFor(capability)
			if err != nil {
				return err
			}
			l, err := door.Lease(c.Context(), lease, capability)
			if err != nil {
				return err
			}
			return a.show(l, func() error { return a.printLease(l) })
		},
	}
	capabilityFlag(c, &file)
	return c
}
