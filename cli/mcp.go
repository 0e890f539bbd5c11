package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/cli/mcp"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) mcpCmd() *cobra.Command {
	var (
		binding, file string
		forDur, wait  time.Duration
	)
	c := &cobra.Command{
		Use:   "mcp [--binding BINDING]",
		Short: "Serve a lease as browser tools over the Model Context Protocol",
		Long: `Speaks the Model Context Protocol on standard input and output, for an agent that
starts it: browser_navigate, browser_snapshot, browser_click and their like, and
session_status, session_acquire, session_release, session_ask_person and
session_action.

With a delegation (SESSIONDOCK_DELEGATION or --delegation-file) it acquires a lease
of the binding when the first tool needs one, renews it while it runs, and releases
it at its end. Under "sessiondock run" it serves the lease of its environment.

When a person takes the slot over, the next call says so at once, with who has it
and what became of the last action; session_ask_person waits for the handback.`,
		Example: `  sessiondock mcp config claude --binding shop-admin
  sessiondock run --binding shop-admin -- my-agent --mcp "sessiondock mcp"`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case forDur < time.Second:
				return usage(c, "--for is at least 1s")
			case wait < 0:
				return usage(c, "--wait cannot be negative")
			}
			cfg := mcp.Config{
				Binding: core.BindingName(binding), For: forDur, Wait: wait, Build: readVersion().Version,
				Log: slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
			}
			var err error
			if cfg.Agents, err = a.agents(); err != nil {
				return err
			}
			if err := a.leaseToServe(c, &cfg, file); err != nil {
				return err
			}
			if err := mcp.Serve(c.Context(), cfg, mcp.Stdio(os.Stdin, os.Stdout)); err != nil && c.Context().Err() == nil {
				return core.Refuse(core.CodeUnavailable, "the client's stream ended: "+err.Error(), "")
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&binding, "binding", "", "the binding that the delegation is for")
	f.StringVar(&file, "delegation-file", "", "file with the delegation's token")
	f.DurationVar(&forDur, "for", 10*time.Minute, "the lease's time; it is renewed while this runs, within the binding's maximum")
	f.DurationVar(&wait, "wait", time.Minute, "how long to wait in the queue and for the browser")
	c.AddCommand(a.mcpConfigCmd())
	return c
}

// leaseToServe takes the lease that is in the environment, as under "sessiondock run",
// else the delegation for one: to acquire another would be to wait for oneself.
func (a *app) leaseToServe(c *cobra.Command, cfg *mcp.Config, file string) (err error) {
	if cfg.Lease = core.LeaseID(a.getenv(envLease)); cfg.Lease != "" {
		if cfg.Capability, err = a.capability(""); err != nil {
			return err
		}
		epoch, err := strconv.ParseUint(a.getenv(envEpoch), 10, 53)
		if err != nil {
			return usage(c, "%s is not an epoch", envEpoch)
		}
		cfg.Epoch = core.Epoch(epoch)
		return nil
	}
	if cfg.Delegation, err = a.secret(file, envDelegation); err != nil {
		return err
	}
	switch {
	case cfg.Delegation == "":
		return core.Refuse(core.CodeUnauthenticated, "neither a lease nor a delegation was given",
			"a person prints the client's configuration with one: sessiondock mcp config CLIENT --binding BINDING")
	case cfg.Binding == "":
		return usage(c, "--binding is missing: a delegation is for one")
	}
	return nil
}

// mcpClients are the programs whose configuration is known, and where each keeps it.
var mcpClients = []struct {
	name, where string
	render      func(server mcpServer) (string, error)
}{
	{"claude", ".mcp.json of the project, or: claude mcp add-json sessiondock 'SERVER'", mcpServers("mcpServers")},
	{"codex", "~/.codex/config.toml", codexServer},
	{"cursor", "~/.cursor/mcp.json, or .cursor/mcp.json of the project", mcpServers("mcpServers")},
	{"vscode", ".vscode/mcp.json of the project", mcpServers("servers")},
}

// mcpServer is how a client starts the server.
type mcpServer struct {
	Type    string   `json:"type"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

func mcpServers(key string) func(mcpServer) (string, error) {
	return func(s mcpServer) (string, error) {
		text, err := json.MarshalIndent(map[string]any{key: map[string]mcpServer{"sessiondock": s}}, "", "  ")
		return string(text), err
	}
}

// codexServer writes TOML, whose basic strings are quoted as JSON's are.
func codexServer(s mcpServer) (string, error) {
	command, err := json.Marshal(s.Command)
	if err != nil {
		return "", err
	}
	args, err := json.Marshal(s.Args)
	return fmt.Sprintf("[mcp_servers.sessiondock]\ncommand = %s\nargs = %s", command, args), err
}

func clientNames() string {
	var names []string
	for _, c := range mcpClients {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

func (a *app) mcpConfigCmd() *cobra.Command {
	var (
		binding, to string
		forDur      time.Duration
	)
	c := &cobra.Command{
		Use:   "config CLIENT [--binding BINDING]",
		Short: "Delegate a binding to an agent, and print what its configuration needs",
		Long: `Makes a delegation, keeps its token in a file that only you can read, and prints
what the client's configuration needs to start "sessiondock mcp" with it. The
configuration itself holds no secret.

CLIENT is one of ` + clientNames() + `.`,
		Example: `  sessiondock mcp config claude --binding shop-admin --for 168h`,
		Args:    names("CLIENT"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := atLeast(c, "for", forDur, time.Second); err != nil {
				return err
			}
			for _, client := range mcpClients {
				if client.name == args[0] {
					return a.mcpConfig(c, client.where, client.render, core.BindingName(binding), cmp.Or(to, client.name), forDur)
				}
			}
			return usage(c, "%q is not a client whose configuration is known: %s", args[0], clientNames())
		},
	}
	c.Flags().StringVar(&binding, "binding", "", "the binding to delegate (default: the one of this git worktree)")
	c.Flags().StringVar(&to, "to", "", "the agent's name, as people will read it (default: the client's)")
	c.Flags().DurationVar(&forDur, "for", 0, "how long the delegation is good (default 24h)")
	return c
}

func (a *app) mcpConfig(c *cobra.Command, where string, render func(mcpServer) (string, error), binding core.BindingName, to string, d time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return core.Refuse(core.CodeUnavailable, "where this program lies is not known: "+err.Error(), "")
	}
	paths, err := a.paths()
	if err != nil {
		return err
	}
	door, err := a.control()
	if err != nil {
		return err
	}
	if binding == "" {
		if binding, err = a.bindingHere(c.Context(), door); err != nil {
			return err
		}
	}
	got, err := door.Delegate(c.Context(), binding, wire.DelegateRequest{To: core.AgentName(to), ForMs: d.Milliseconds()})
	if err != nil {
		return err
	}
	file := filepath.Join(paths.Config, "delegations", string(binding)+"."+to)
	if err := keepSecret(file, client.Secret(got.Token)); err != nil {
		return core.Refuse(core.CodeUnavailable, "the token could not be kept: "+err.Error(), "the delegation can be taken back: sessiondock delegation list")
	}
	text, err := render(mcpServer{Type: "stdio", Command: self, Args: []string{"mcp", "--binding", string(binding), "--delegation-file", file}})
	if err != nil {
		return err
	}
	a.say("agent %s may acquire %s for %s; its token is in %s", got.Agent, got.Binding, left(got.ExpiresInMs), file)
	a.say("put this into %s", where)
	_, err = fmt.Fprintln(a.out, text)
	return err
}

// keepSecret writes a token where only this user can read it, whole or not at all.
func keepSecret(file string, token client.Secret) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.WriteString(string(token) + "\n"); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
