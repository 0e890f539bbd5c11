package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/cli/confine"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

const (
	// renewals is how often a lease is renewed within its time, so that one that fails
	// can be tried again before it is over.
	renewals = 3
	// endPatience is how long a command may take to end on SIGTERM.
	endPatience = 5 * time.Second
	// startTimeout bounds the opening of the binding's start page.
	startTimeout = time.Minute
	// askTimeout bounds one request to the daemon while the command runs.
	askTimeout = 10 * time.Second
)

func (a *app) runCmd() *cobra.Command {
	var (
		r             wire.AcquireRequest
		binding       string
		agent         string
		forDur, wait  time.Duration
		stopWithLease bool
		confined      bool
		ports         []uint
	)
	c := &cobra.Command{
		Use:   "run [--binding BINDING] -- CMD [ARG]...",
		Short: "Delegate a binding to a command for as long as it runs",
		Long: `Acquires a lease, starts the command with it in its environment
(SESSIONDOCK_LEASE, SESSIONDOCK_CAPABILITY, SESSIONDOCK_EPOCH, SESSIONDOCK_SOCKET,
and SESSIONDOCK_CDP_URL for Playwright, Puppeteer and other DevTools clients),
renews the lease while the command lives and releases it at its end. Signals and
the exit code are passed on.

The command and all that it starts are an agent: a person's verbs (takeover,
handback, resolve, and the rest of the person's socket) are refused to them.

When a person takes the slot over the command loses control at once and goes on
running; with --stop-with-lease it is ended when the lease has ended.

With --confine the command sees no slot's files, not the database, no socket
but the agents' own, nothing of the desktop and of the service manager, and cannot
look into other processes. It may connect to TCP ports 53, 80 and 443, to its own
DevTools address and to what --allow-port names; so not to another program's
DevTools port. The rest of the file system is open to it.`,
		Example: `  sessiondock run --binding shop-admin --for 10m --wait 1m -- node order.mjs
  sessiondock run --binding shop-admin -- sh -c "sessiondock act snapshot"`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(c, "the command is missing")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case forDur < time.Second:
				return usage(c, "--for is at least 1s")
			case wait < 0:
				return usage(c, "--wait cannot be negative")
			case len(ports) > 0 && !confined:
				return usage(c, "--allow-port is for --confine: without it every port is open")
			}
			for _, port := range ports {
				if port < 1 || port > 65535 {
					return usage(c, "--allow-port %d is no port", port)
				}
			}
			d := &delegated{app: a, args: args, stopWithLease: stopWithLease}
			if confined {
				var err error
				if d.plan, err = a.confinement(ports); err != nil {
					return err
				}
			}
			door, err := a.control()
			if err != nil {
				return err
			}
			if _, err := door.Health(c.Context()); err != nil {
				return err
			}
			if binding == "" {
				here, err := a.bindingHere(c.Context(), door)
				if err != nil {
					return err
				}
				binding = string(here)
			}
			path, err := exec.LookPath(args[0])
			if err != nil {
				return core.Refuse(core.CodeNotFound, fmt.Sprintf("%s cannot be run: %v", args[0], err), "give a program that is in PATH, or its path")
			}
			r.Binding, r.Agent = core.BindingName(binding), core.AgentName(agent)
			if agent == "" {
				r.Agent = agentName(args[0])
			}
			r.ForMs, r.WaitMs = forDur.Milliseconds(), wait.Milliseconds()
			d.request, d.path = r, path
			return a.delegateTo(c.Context(), d)
		},
	}
	f := c.Flags()
	f.StringVar(&binding, "binding", "", "the binding to delegate (default: the one of this git worktree)")
	f.DurationVar(&forDur, "for", 10*time.Minute, "the lease's time; it is renewed while the command runs, within the binding's maximum")
	f.DurationVar(&wait, "wait", time.Minute, "how long to wait in the queue and for the browser")
	f.StringVar(&r.Task, "task", "", "what it is for, as people will read it")
	f.StringVar(&agent, "agent", "", "the agent's name (default: the program's)")
	f.StringArrayVar(&r.Keys, "key", nil, "take the conflict key `KEY[:shared]` too, repeatable")
	f.BoolVar(&stopWithLease, "stop-with-lease", false, "end the command, verified, when the lease has ended")
	f.BoolVar(&confined, "confine", false, "keep slots, the person's door and other programs' DevTools ports from the command")
	f.UintSliceVar(&ports, "allow-port", nil, "with --confine, let it connect to this TCP port too, repeatable")
	f.SetInterspersed(false)
	return c
}

// agentName makes a name of a program's: what is not allowed in one becomes a dash.
func agentName(program string) core.AgentName {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, filepath.Base(program))
	name = strings.TrimLeft(name, "._-")
	if name == "" {
		name = "agent"
	}
	return core.AgentName(name[:min(len(name), 63)])
}

// delegated is one command under one lease.
type delegated struct {
	*app
	request       wire.AcquireRequest
	path          string
	args          []string
	stopWithLease bool
	plan          *confine.Plan // nil: it is not confined

	person, agents *client.Client
	lease          *wire.LeaseReply
	cmd            *exec.Cmd
	said           string // what was last told about the lease
}

func (d *delegated) capability() client.Secret { return client.Secret(d.lease.Capability) }

func (a *app) delegateTo(ctx context.Context, d *delegated) error {
	var err error
	if d.person, err = a.control(); err != nil {
		return err
	}
	if d.agents, err = a.agents(); err != nil {
		return err
	}
	// What is left behind by the command becomes this process's child, so that it is
	// still known whose it is.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return core.Refuse(core.CodeUnavailable, "what the command leaves behind could not be kept track of: "+err.Error(), "")
	}
	// Signals that come while it waits in the queue end the wait.
	waiting, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	if d.lease, err = a.acquire(waiting, d.person, "", d.request); err != nil {
		if d.lease == nil {
			return err
		}
		d.release()
		return err
	}
	defer d.release()
	// The last of a person's verbs: from here on this process and its children are an
	// agent's.
	if err := d.declare(waiting); err != nil {
		return err
	}
	a.say("lease %s: slot %s, epoch %d", d.lease.Lease, d.lease.Slot, d.lease.Epoch)
	if d.openStart(waiting); waiting.Err() != nil {
		return core.Refuse(core.CodeUnavailable, "interrupted before the command began", "")
	}
	stop()
	return d.run()
}

// openStart opens the binding's start page, as the agent's first action. Where it cannot be
// opened the command is told, and begins all the same.
func (d *delegated) openStart(ctx context.Context) {
	if d.lease.Start == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	r, err := d.agents.OpenStart(ctx, d.lease.Lease, d.capability(), d.lease.Epoch, d.lease.Start)
	switch {
	case err != nil:
		d.say("the start page was not opened: %v", err)
	case r.Local == core.NotDispatched && r.Error != nil:
		d.say("the start page %s was not opened: %v", d.lease.Start, r.Error)
	case r.Local != core.Finished:
		d.say("the start page %s: local %s; look at the page before you act in it, or look it up: sessiondock act %s --look-up %s", d.lease.Start, r.Local, d.lease.Lease, r.ID)
	}
	d.renew() // it may have taken long
}

func (d *delegated) declare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return d.person.DeclareAgent(ctx)
}

// run starts the command, keeps the lease while it runs and passes its end on.
func (d *delegated) run() error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGCONT, unix.SIGTSTP, unix.SIGWINCH)
	defer signal.Stop(signals)

	orphans := make(chan os.Signal, 1) // one more to come is enough to look again
	signal.Notify(orphans, unix.SIGCHLD)
	defer signal.Stop(orphans)

	d.cmd = exec.Command(d.path, d.args[1:]...)
	d.cmd.Args[0] = d.args[0]
	d.cmd.Stdin, d.cmd.Stdout, d.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	d.cmd.Env = append(withoutDelegation(os.Environ()),
		wire.AgentVariable+"="+string(d.lease.Agent),
		envLease+"="+string(d.lease.Lease),
		envCapability+"="+d.lease.Capability,
		envEpoch+"="+strconv.FormatUint(uint64(d.lease.Epoch), 10),
		envCDPURL+"="+d.lease.CDPURL,
		envSocket+"="+d.agents.Socket(),
	)
	d.cmd.SysProcAttr = ownGroup()
	if d.plan != nil {
		if err := d.confine(); err != nil {
			return err
		}
	}
	if err := d.cmd.Start(); err != nil {
		if d.plan != nil {
			return core.Refuse(core.CodeUnavailable, "the command cannot be confined here: "+err.Error(),
				"sessiondock doctor says what user namespaces need; or run it without --confine")
		}
		return core.Refuse(core.CodeUnavailable, "the command did not start: "+err.Error(), "")
	}
	group := d.cmd.Process.Pid
	done := make(chan error, 1)
	go func() { done <- d.cmd.Wait() }()

	every := time.NewTicker(max(time.Second, time.Duration(d.request.ForMs)*time.Millisecond/renewals))
	defer every.Stop()
	look := time.NewTicker(time.Second) // whether the lease has ended
	defer look.Stop()
	if !d.stopWithLease {
		look.Stop()
	}
	for {
		select {
		case err := <-done:
			passTerminal(group, unix.Getpgrp())
			return d.ended(err)
		case <-orphans:
			reap(group)
		case s := <-signals:
			if s == unix.SIGTSTP {
				d.pause()
				continue
			}
			if s == unix.SIGCONT {
				passTerminal(unix.Getpgrp(), group) // a shell has brought us to the foreground
			}
			_ = unix.Kill(-d.cmd.Process.Pid, s.(unix.Signal)) // a group that has ended needs none
		case <-every.C:
			d.renew()
		case <-look.C:
			if d.over() {
				d.say("the lease has ended: the command is ended too")
				err := d.end(done)
				passTerminal(group, unix.Getpgrp())
				return d.ended(err)
			}
		}
	}
}

// withoutDelegation keeps a person's delegation from the command: with it the command
// could acquire again after its lease has ended.
func withoutDelegation(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, envDelegation+"=") })
}

// renew asks for more time. What a person did meanwhile is told once, in words.
func (d *delegated) renew() {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	_ = d.person.DeclareAgent(ctx) // a daemon that was restarted has forgotten it; the renewal tells of a failure
	_, err := d.agents.Renew(ctx, d.lease.Lease, d.capability(), wire.RenewRequest{ForMs: d.request.ForMs})
	d.tell(err)
}

func (d *delegated) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
		if e, ok := errors.AsType[*core.Error](err); ok {
			text = e.Message
			if e.Hint != "" {
				text += " (" + e.Hint + ")"
			}
		}
	}
	if text != "" && text != d.said {
		d.say("lease %s: %s", d.lease.Lease, text)
	}
	d.said = text
}

// over says whether the lease has ended for good. A daemon that cannot be reached has
// not said so.
func (d *delegated) over() bool {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	l, err := d.agents.Lease(ctx, d.lease.Lease, d.capability())
	return err == nil && l.State == core.LeaseEnded
}

// end ends the command and everything that it has left, and says so only once nothing
// of it runs.
func (d *delegated) end(done <-chan error) error {
	_ = unix.Kill(-d.cmd.Process.Pid, unix.SIGTERM)
	var err error
	select {
	case err = <-done:
	case <-time.After(endPatience):
		_ = unix.Kill(-d.cmd.Process.Pid, unix.SIGKILL)
		err = <-done
	}
	return err
}

// ended ends what the command left behind where that was asked for, and turns its end
// into ours.
func (d *delegated) ended(err error) error {
	reap(0)
	if left := descendants(os.Getpid()); len(left) > 0 {
		if d.stopWithLease {
			left = endAll(left)
		}
		if len(left) > 0 {
			d.say("%d processes that the command started still run; the lease is released", len(left))
		}
	}
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return core.Refuse(core.CodeInternal, "how the command ended is not known: "+err.Error(), "")
	}
	if status, ok := e.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &exit{128 + int(status.Signal())}
	}
	return &exit{e.ExitCode()}
}

func (d *delegated) release() {
	if d.lease == nil || d.lease.Capability == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	_, err := d.agents.Release(ctx, d.lease.Lease, d.capability())
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeExpired {
		err = nil // it has ended already
	}
	if err != nil {
		d.say("lease %s could not be released: %v; it ends at its time", d.lease.Lease, err)
	}
}
