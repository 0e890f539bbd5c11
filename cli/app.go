package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// app is one run of the program: where it writes and what it was told by flags
// that every command takes.
type app struct {
	out, err io.Writer
	getenv   func(string) string
	colour   bool
	json     bool
}

// Groups of commands in the help text.
const (
	groupDaemon = "daemon"
	groupSlots  = "slots"
	groupAgent  = "agent"
	groupPerson = "person"
)

// run carries out one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exit](err); ok {
		return e.code
	}
	e, ok := errors.AsType[*core.Error](err)
	if !ok { // only cobra's own errors are left: the command line was wrong
		e = core.Refuse(core.CodeInvalid, err.Error(), "sessiondock --help")
	}
	fmt.Fprintf(a.err, "error: %s: %s\n", e.Code, e.Message)
	if e.Hint != "" {
		fmt.Fprintf(a.err, "hint: %s\n", e.Hint)
	}
	return e.Code.Info().Exit
}

// exit ends the program with a code after everything was said.
type exit struct{ code int }

func (e *exit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sessiondock",
		Short: "Lend a browser to an agent, and take it back at any moment",
		Long: `SessionDock lends persistent Chromium workspaces to software agents, and takes
them back at any moment. Of each it answers three questions, separately: who may
act now, what local work might still be running, and what is known about the
result on the website.`,
		Example: `  sessiondock up --detach
  sessiondock slot create shop --display window
  sessiondock status shop`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              noArgs,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print data as JSON (see: sessiondock help output)")
	root.PersistentFlags().Bool("no-input", false, "never ask; accepted for scripts, as no command asks")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(c, "%v", err) })
	root.AddGroup(
		&cobra.Group{ID: groupDaemon, Title: "The daemon:"},
		&cobra.Group{ID: groupSlots, Title: "Workspaces and what they may be used for:"},
		&cobra.Group{ID: groupAgent, Title: "Working under a lease:"},
		&cobra.Group{ID: groupPerson, Title: "Control and what is known:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupDaemon, a.upCmd(), a.downCmd(), a.installCmd(), a.uninstallCmd(), a.doctorCmd(), a.demoCmd(), a.versionCmd())
	add(groupSlots, a.slotCmd(), a.bindCmd(), a.bindingCmd(), a.confirmCmd(), a.delegateCmd(), a.delegationCmd())
	add(groupAgent, a.runCmd(), a.mcpCmd(), a.leaseCmd(), a.actCmd(), a.retainCmd())
	add(groupPerson, a.statusCmd(), a.takeoverCmd(), a.handbackCmd(), a.actionsCmd(), a.resolveCmd(), a.probeCmd(), a.quarantineCmd(), a.eventsCmd())
	root.AddCommand(a.stageCmd())
	root.AddCommand(exitCodesTopic(), outputTopic(), environmentTopic())
	ownErrors(root)
	return root
}

// ownErrors makes every error that a command itself returns a *core.Error, so that
// what is left is cobra's complaint about the command line.
func ownErrors(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			err := run(c, args)
			if err == nil {
				return nil
			}
			if _, ok := errors.AsType[*core.Error](err); ok {
				return err
			}
			if _, ok := errors.AsType[*exit](err); ok {
				return err
			}
			return core.Refuse(core.CodeInternal, err.Error(), "")
		}
	}
	for _, sub := range c.Commands() {
		ownErrors(sub)
	}
}

// group is a command that only holds others.
func group(use, short, example string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Example: example,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(subs...)
	return c
}

// usage is the error of a wrong command line.
func usage(c *cobra.Command, format string, args ...any) error {
	return core.Refuse(core.CodeInvalid, fmt.Sprintf(format, args...), c.CommandPath()+" --help")
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		c.SuggestionsMinimumDistance = 2
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			return usage(c, "there is no command %q; did you mean %q?", args[0], near[0])
		}
		return usage(c, "there is no command %q, or it is one argument too many", args[0])
	}
	return nil
}

// names refuses a command line whose arguments are not those named, in order.
func names(want ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(want):
			return usage(c, "%s is missing", want[len(args)])
		case len(args) > len(want):
			return usage(c, "%q is one argument too many", args[len(want)])
		}
		return nil
	}
}

// optional lets one argument be left out.
func optional(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage(c, "%q is one argument too many: %s is the only one", args[1], name)
		}
		return nil
	}
}

// atLeast refuses a duration that was given and is shorter than the shortest that
// means anything: the daemon would take 0 for its default.
func atLeast(c *cobra.Command, flag string, d, shortest time.Duration) error {
	if c.Flags().Changed(flag) && d < shortest {
		return usage(c, "--%s must be at least %s", flag, shortest)
	}
	return nil
}

// boundsGiven refuses a bound below 1, which the daemon would take for none.
func boundsGiven(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if n, err := c.Flags().GetInt64(name); err == nil && c.Flags().Changed(name) && n < 1 {
			return usage(c, "--%s must be at least 1; leave it out for no bound", name)
		}
	}
	return nil
}

// paths and the two doors.

func (a *app) paths() (client.Paths, error) { return client.FindPaths(a.getenv) }

func (a *app) control() (*client.Client, error) {
	if a.getenv(envConfined) != "" {
		return nil, core.Refuse(core.CodeDenied, "this command runs confined (sessiondock run --confine): the person's door is closed here",
			"ask the person, who runs it in a terminal of their own: sessiondock lease ask --reason TEXT")
	}
	p, err := a.paths()
	if err != nil {
		return nil, err
	}
	return client.New(p.ControlSocket()), nil
}

func (a *app) agents() (*client.Client, error) {
	if socket := a.getenv(envSocket); socket != "" {
		return client.New(socket), nil
	}
	p, err := a.paths()
	if err != nil {
		return nil, err
	}
	return client.New(p.APISocket()), nil
}

// isPerson refuses an agent what is a person's and is not asked at their socket. Where no
// daemon runs that could tell, the environment does.
func (a *app) isPerson(ctx context.Context) error {
	if a.getenv(wire.AgentVariable) != "" {
		return core.Refuse(core.CodeDenied, "a person's verb is not an agent's: it was started with "+wire.AgentVariable, "ask the person")
	}
	door, err := a.control()
	if err != nil {
		return err
	}
	_, err = door.Slots(ctx)
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeDenied {
		return e
	}
	return nil // what else is wrong, the command itself says
}

// maxSecret bounds a secret's file; a token is some fifty bytes.
const maxSecret = 4096

// secret reads a delegation or a capability from a file, else from a variable of
// the environment. Both may be absent: then it is empty.
func (a *app) secret(file, variable string) (client.Secret, error) {
	if file == "" {
		return client.Secret(strings.TrimSpace(a.getenv(variable))), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", core.Refuse(core.CodeInvalid, err.Error(), "")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", core.Refuse(core.CodeInvalid, err.Error(), "")
	}
	text := strings.TrimSpace(string(data))
	if text == "" || len(data) > maxSecret || strings.ContainsAny(text, " \t\r\n") {
		return "", core.Refuse(core.CodeInvalid, file+" does not hold one token", "write the token and nothing else into it")
	}
	return client.Secret(text), nil
}

const (
	envLease      = "SESSIONDOCK_LEASE"
	envEpoch      = "SESSIONDOCK_EPOCH"
	envCapability = "SESSIONDOCK_CAPABILITY"
	envCDPURL     = "SESSIONDOCK_CDP_URL"
	envDelegation = "SESSIONDOCK_DELEGATION"
	envSocket     = "SESSIONDOCK_SOCKET"
	envConfined   = "SESSIONDOCK_CONFINED"
)

// capability is secret() for a command that cannot do without it.
func (a *app) capability(file string) (client.Secret, error) {
	s, err := a.secret(file, envCapability)
	if err == nil && s == "" {
		err = core.Refuse(core.CodeInvalid, "no capability: it proves that the lease is yours",
			"set "+envCapability+" or give --capability-file; `sessiondock lease acquire` prints it")
	}
	return s, err
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
