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
	return group("lease", "Acquire, renew, resume and release control of a slot", `  eval "$(sessiondock lease acquire --binding shop-admin --for 30m)"
  sessiondock act click '#save'
  sessiondock lease release "$SESSIONDOCK_LEASE"`,
		a.leaseAcquireCmd(), a.leaseResumeCmd(), a.leaseRenewCmd(), a.leaseReleaseCmd(), a.leaseListCmd(), a.leaseShowCmd())
}

func (a *app) leaseAcquireCmd() *cobra.Command {
	var (
		r                        wire.AcquireRequest
		binding, agent, delegate string
		forDur, wait             time.Duration
	)
	c := &cobra.Command{
		Use:   "acquire --binding BINDING",
		Short: "Acquire a lease and print it as shell exports",
		Long: `Acquires exclusive control of the binding's slot and prints shell exports for eval.
With a delegation (SESSIONDOCK_DELEGATION or --delegation-file) it asks at the
agents' socket; without one it asks at the person's, and delegates and acquires in
one step. The capability is shown once; with it anyone can act under this lease.`,
		Example: `  eval "$(sessiondock lease acquire --binding shop-admin --for 30m --wait 1m)"`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case binding == "":
				return usage(c, "--binding is missing")
			case forDur < 0 || wait < 0:
				return usage(c, "a duration cannot be negative")
			}
			token, err := a.secret(delegate, envDelegation)
			if err != nil {
				return err
			}
			door, err := a.doorFor(token)
			if err != nil {
				return err
			}
			r.Binding, r.Agent = core.BindingName(binding), core.AgentName(agent)
			r.ForMs, r.WaitMs = forDur.Milliseconds(), wait.Milliseconds()
			l, err := door.Acquire(c.Context(), token, r)
			if err != nil {
				if l != nil && l.Capability != "" {
					a.say("lease %s was granted but could not be claimed", l.Lease)
				}
				return err
			}
			return a.printGrant(l)
		},
	}
	f := c.Flags()
	f.StringVar(&binding, "binding", "", "the binding to acquire (required)")
	f.DurationVar(&forDur, "for", 0, "how long (default 10m)")
	f.DurationVar(&wait, "wait", 0, "how long to wait in the queue (default: not at all)")
	f.StringVar(&r.Task, "task", "", "what it is for, as people will read it")
	f.StringVar(&agent, "agent", "", "the agent's name (default: the delegation's)")
	f.StringVar(&r.RequestID, "request-id", "", "identifier of this wish: the same one returns the same lease (default: a new one)")
	f.StringVar(&delegate, "delegation-file", "", "file with the delegation's token")
	return c
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

func capabilityFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "capability-file", "", "file with the lease's capability (default: "+envCapability+")")
}

func (a *app) leaseResumeCmd() *cobra.Command {
	var (
		file string
		wait time.Duration
	)
	c := &cobra.Command{
		Use:   "resume LEASE",
		Short: "Take a suspended lease up again, at a new epoch",
		Long: `After a restart of the daemon or a takeover a lease goes on only when its holder
resumes it. The epoch is new, so observe the page again before you act on it.`,
		Example: `  eval "$(sessiondock lease resume "$SESSIONDOCK_LEASE" --wait 1m)"`,
		Args:    names("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			if wait < 0 {
				return usage(c, "--wait cannot be negative")
			}
			return a.withCapability(file, func(door *client.Client, capability client.Secret) error {
				l, err := door.Resume(c.Context(), core.LeaseID(args[0]), capability, wire.ResumeRequest{WaitMs: wait.Milliseconds()})
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
		Use:     "renew LEASE",
		Short:   "Extend a lease within its maximum lifetime",
		Example: `  sessiondock lease renew "$SESSIONDOCK_LEASE" --for 30m`,
		Args:    names("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			if forDur < 0 {
				return usage(c, "--for cannot be negative")
			}
			return a.withCapability(file, func(door *client.Client, capability client.Secret) error {
				l, err := door.Renew(c.Context(), core.LeaseID(args[0]), capability, wire.RenewRequest{ForMs: forDur.Milliseconds()})
				if err != nil {
					return err
				}
				return a.show(l, func() error { return a.printLease(l) })
			})
		},
	}
	c.Flags().DurationVar(&forDur, "for", 10*time.Minute, "how long from now")
	capabilityFlag(c, &file)
	return c
}

func (a *app) leaseReleaseCmd() *cobra.Command {
	var (
		file   string
		revoke bool
	)
	c := &cobra.Command{
		Use:   "release LEASE",
		Short: "End a lease",
		Long: `Ends a lease by its holder, with its capability. A person may end any lease with
--revoke, at the person's socket and without a capability.`,
		Example: `  sessiondock lease release "$SESSIONDOCK_LEASE"
  sessiondock lease release 01JZ8M3T6V4Q0W9YB2C7D5E1FG --revoke`,
		Args: names("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			lease := core.LeaseID(args[0])
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
				return done(door.Revoke(c.Context(), lease, wire.ChangeRequest{By: surface}))
			}
			return a.withCapability(file, func(door *client.Client, capability client.Secret) error {
				return done(door.Release(c.Context(), lease, capability))
			})
		},
	}
	c.Flags().BoolVar(&revoke, "revoke", false, "as a person, end it without its capability")
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
					rows = append(rows, []string{string(l.Lease), string(l.Slot), string(l.Agent), string(l.State),
						strconv.FormatUint(uint64(l.Epoch), 10), left(l.ExpiresInMs), clip(l.Task, 24)})
				}
				return a.table([]string{"LEASE", "SLOT", "AGENT", "STATE", "EPOCH", "LEFT", "TASK"}, rows, "no leases")
			})
		},
	}
}

func (a *app) leaseShowCmd() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "show LEASE",
		Short: "Show a lease",
		Long: `With the lease's capability it asks at the agents' socket, without one at the
person's.`,
		Example: `  sessiondock lease show "$SESSIONDOCK_LEASE"`,
		Args:    names("LEASE"),
		RunE: func(c *cobra.Command, args []string) error {
			capability, err := a.secret(file, envCapability)
			if err != nil {
				return err
			}
			door, err := a.doorFor(capability)
			if err != nil {
				return err
			}
			l, err := door.Lease(c.Context(), core.LeaseID(args[0]), capability)
			if err != nil {
				return err
			}
			return a.show(l, func() error { return a.printLease(l) })
		},
	}
	capabilityFlag(c, &file)
	return c
}

func (a *app) printLease(l *wire.LeaseReply) error {
	var b strings.Builder
	fmt.Fprintf(&b, "lease %s: %s\n", l.Lease, l.State)
	fmt.Fprintf(&b, "  slot %s, binding %s, agent %s, epoch %d\n", l.Slot, l.Binding, clean(string(l.Agent)), l.Epoch)
	if l.State != core.LeaseEnded {
		fmt.Fprintf(&b, "  %s left, at most %s with renewals\n", left(l.ExpiresInMs), left(l.MaxLifetimeMs))
	}
	if l.Task != "" {
		b.WriteString(wrap("  task: ", l.Task))
	}
	if l.Why != "" {
		b.WriteString(wrap("  why: ", l.Why))
	}
	_, err := a.out.Write([]byte(b.String()))
	return err
}
