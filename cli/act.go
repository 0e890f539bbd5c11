package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// actFlags is what `act` takes besides its positional arguments.
type actFlags struct {
	act                   wire.Act
	value, params, accept string
	checked               bool
	id, document, file    string
	tab, frame            int64
	epoch                 uint64
	deadline              time.Duration
	output, lookUp        string
}

func (a *app) actCmd() *cobra.Command {
	f := new(actFlags)
	c := &cobra.Command{
		Use:   "act [LEASE] VERB [ARGUMENTS]",
		Short: "Do one thing in the browser, under a lease",
		Long: "Asks for one action and prints its record: authority, local work, website.\n" +
			"Exit code 0 says that the local work has finished and nothing is unknown yet. The\n" +
			"website's answer may be on its way (remote in_flight) and can become unknown: look\n" +
			"the action up by its id. 15 says that something is unknown: look it up, do not send\n" +
			"it again. LEASE may be left out if SESSIONDOCK_LEASE is set.\n\n" +
			"Give --epoch, or SESSIONDOCK_EPOCH as `lease acquire` prints it: a command from\n" +
			"before a takeover is then refused. Without it the lease's present epoch is used.\n\n" +
			"Verbs:\n" + verbTable() +
			"\nWhere SELECTOR stands, --ref, --text or --role with --name can be given instead.",
		Example: `  sessiondock act navigate https://shop.example/product/42
  sessiondock act snapshot
  sessiondock act fill '#price' 19.90
  sessiondock act click --role button --name Save
  sessiondock act screenshot -o page.png
  sessiondock act --look-up 01JZ8M3T6V4Q0W9YB2C7D5E1FG`,
		RunE: func(c *cobra.Command, args []string) error { return a.act(c, f, args) },
	}
	f.bind(c)
	return c
}

// bind declares the flags on the command.
func (f *actFlags) bind(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.act.Selector, "selector", "", "the element, by CSS selector")
	fl.StringVar(&f.act.Ref, "ref", "", "the element, by its reference in a snapshot of this document")
	fl.StringVar(&f.act.Text, "text", "", "the element, by its visible text")
	fl.StringVar(&f.act.Role, "role", "", "the element, by ARIA role")
	fl.StringVar(&f.act.Name, "name", "", "with --role: its accessible name")
	fl.StringVar(&f.act.ToSelector, "to-selector", "", "drag: where to drop, by CSS selector")
	fl.StringVar(&f.act.ToRef, "to-ref", "", "drag: where to drop, by reference")
	fl.StringVar(&f.act.URL, "url", "", "navigate: the address")
	fl.StringVar(&f.value, "value", "", "fill, type, select: the text; dialog: the prompt's answer")
	fl.StringVar(&f.act.Key, "key", "", "press: the key, such as Enter or Control+A")
	fl.BoolVar(&f.checked, "checked", true, "check: false unchecks")
	fl.Float64Var(&f.act.DX, "dx", 0, "scroll: CSS pixels to the right")
	fl.Float64Var(&f.act.DY, "dy", 0, "scroll: CSS pixels down")
	fl.StringVar(&f.act.Expression, "expression", "", "evaluate: JavaScript; a promise is awaited")
	fl.StringArrayVar(&f.act.Files, "file", nil, "upload: a name in the lease's upload directory, repeatable")
	fl.StringVar(&f.act.State, "state", "", "wait: visible, hidden or load (default visible). snapshot: load waits for that first, for half of the action's time")
	fl.Int64Var(&f.act.SettleMs, "settle-ms", 0, "snapshot: what changes within so many milliseconds is told as it is then, at most 1000")
	fl.BoolVar(&f.act.FullPage, "full-page", false, "screenshot: the whole page")
	fl.StringVar(&f.accept, "accept", "", "dialog: true or false")
	fl.StringVar(&f.act.Op, "op", "", "tabs: list, new, close or select (default list)")
	fl.StringVar(&f.act.Method, "method", "", "cdp: the method")
	fl.StringVar(&f.params, "params", "", "cdp: its parameters, a JSON object")
	fl.Int64Var(&f.tab, "tab", 0, "the tab (default: the active one)")
	fl.Int64Var(&f.frame, "frame", 0, "the frame (default: the top one)")
	fl.StringVar(&f.document, "expect-document", "", "act only in this document (default: the one last reported)")
	fl.StringVar(&f.id, "id", "", "the action's identifier, a ULID or UUID (default: a new one)")
	fl.Uint64Var(&f.epoch, "epoch", 0, "the epoch it is meant for (default: "+envEpoch+", else the present one)")
	fl.DurationVar(&f.deadline, "deadline", 0, "when to stop it (default 30s)")
	fl.StringVarP(&f.output, "output", "o", "", "write the result to this file: a picture or a text as such, else JSON")
	fl.StringVar(&f.lookUp, "look-up", "", "print the record of an earlier action by its identifier")
	capabilityFlag(c, &f.file)
}

// positions names, for each verb, what its positional arguments are. A "?" may be
// missing, a "+" takes all that are left. SELECTOR is not counted if the element is
// given by a flag.
var positions = map[string]string{
	"navigate": "url", "click": "selector", "fill": "selector value", "type": "selector? value",
	"press": "key", "select": "selector value", "check": "selector", "hover": "selector",
	"drag": "selector to_selector", "upload": "selector file+", "wait": "selector?",
	"evaluate": "expression", "dialog": "accept", "tabs": "op?", "cdp": "method params?",
}

func verbTable() string {
	var b strings.Builder
	for _, v := range wire.Verbs {
		var args []string
		for _, p := range strings.Fields(positions[v.Verb]) {
			name := strings.ToUpper(strings.TrimRight(p, "?+"))
			switch {
			case strings.HasSuffix(p, "?"):
				name = "[" + name + "]"
			case strings.HasSuffix(p, "+"):
				name += "..."
			}
			args = append(args, name)
		}
		b.WriteString(wrap(fmt.Sprintf("  %-29s ", strings.TrimSpace(v.Verb+" "+strings.Join(args, " "))), v.Help))
	}
	return b.String()
}

// take puts the positional arguments of a verb where they belong.
func (f *actFlags) take(c *cobra.Command, verb string, args []string) error {
	var want []string
	byFlag := f.act.Ref != "" || f.act.Text != "" || f.act.Role != "" || f.act.Selector != ""
	for _, p := range strings.Fields(positions[verb]) {
		name := strings.TrimRight(p, "?+")
		if (name == "selector" && byFlag) || (name == "to_selector" && f.act.ToRef != "") || f.given(c, name) {
			continue
		}
		want = append(want, p)
	}
	spare := len(args) - len(want) // below 0: that many optional ones are left out
	for _, p := range want {
		name := strings.TrimRight(p, "?+")
		switch {
		case strings.HasSuffix(p, "?") && spare < 0:
			spare++
			continue
		case len(args) == 0:
			return usage(c, "%s: %s is missing", verb, strings.ToUpper(name))
		case strings.HasSuffix(p, "+"):
			f.act.Files = append(f.act.Files, args...)
			args = nil
			continue
		}
		if err := f.set(c, name, args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	if len(args) > 0 {
		return usage(c, "%s: %q is one argument too many", verb, args[0])
	}
	return nil
}

func (f *actFlags) given(c *cobra.Command, name string) bool {
	return c.Flags().Changed(strings.ReplaceAll(name, "_", "-"))
}

func (f *actFlags) set(c *cobra.Command, name, value string) error {
	return c.Flags().Set(strings.ReplaceAll(name, "_", "-"), value)
}

// finish turns the flags that are not plain fields into the act.
func (f *actFlags) finish(c *cobra.Command) error {
	if c.Flags().Changed("value") {
		f.act.Value = &f.value
	}
	if c.Flags().Changed("checked") {
		f.act.Checked = &f.checked
	}
	if c.Flags().Changed("accept") {
		yes, ok := map[string]bool{"accept": true, "true": true, "dismiss": false, "false": false}[f.accept]
		if !ok {
			return usage(c, "dialog: say accept or dismiss, not %q", f.accept)
		}
		f.act.Accept = &yes
	}
	if f.params != "" {
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(f.params), &object); err != nil {
			return usage(c, "--params is not a JSON object: %v", err)
		}
		f.act.Params = json.RawMessage(f.params)
	}
	if f.deadline < 0 || f.deadline > wire.MaxActionDeadline {
		return usage(c, "--deadline must lie between 0 and %s", wire.MaxActionDeadline)
	}
	return nil
}

// lease takes the lease off the front of the arguments, or from the environment.
// A ULID is never the name of a verb.
func (a *app) lease(c *cobra.Command, args []string) (core.LeaseID, []string, error) {
	fromEnv := core.LeaseID(a.getenv(envLease))
	verbFirst := len(args) == 0
	if len(args) > 0 {
		_, verbFirst = wire.Verb(args[0])
	}
	switch {
	case !verbFirst && !isULID(args[0]):
		_, err := wire.CheckAct(wire.Act{Verb: args[0]}) // it lists the verbs
		return "", nil, err
	case !verbFirst:
		return core.LeaseID(args[0]), args[1:], nil
	case fromEnv == "":
		return "", nil, usage(c, "LEASE is missing, and %s is not set", envLease)
	}
	return fromEnv, args, nil
}

// isULID says whether an argument has the form of a lease's identifier.
func isULID(s string) bool {
	return len(s) == 26 && strings.Trim(s, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

func (a *app) act(c *cobra.Command, f *actFlags, args []string) error {
	lease, args, err := a.lease(c, args)
	if err != nil {
		return err
	}
	if f.lookUp != "" {
		if len(args) > 0 {
			return usage(c, "--look-up takes no verb")
		}
		return a.withCapability(f.file, func(door *client.Client, capability client.Secret) error {
			return a.printAct(door.LookUp(c.Context(), lease, capability, core.ClientID(f.lookUp)))
		})
	}
	if len(args) == 0 {
		return usage(c, "VERB is missing")
	}
	f.act.Verb = args[0]
	if err := f.take(c, f.act.Verb, args[1:]); err != nil {
		return err
	}
	if err := f.finish(c); err != nil {
		return err
	}
	// The daemon would refuse it too; here it costs no lease and no epoch.
	if _, err := wire.CheckAct(f.act); err != nil {
		return err
	}
	r := wire.ActRequest{ID: core.ClientID(f.id), DeadlineMs: f.deadline.Milliseconds(), Act: f.act}
	if f.tab != 0 || f.frame != 0 || f.document != "" {
		r.Expect = &core.Expect{Tab: core.TabID(f.tab), Frame: f.frame, Document: core.DocumentID(f.document)}
	}
	return a.withCapability(f.file, func(door *client.Client, capability client.Secret) error {
		if r.Epoch, err = a.actEpoch(c.Context(), c, f, door, lease, capability); err != nil {
			return err
		}
		if r.ID == "" {
			// Said before it is sent: it is what a lost answer is looked up by.
			r.ID = core.ClientID(client.NewID())
			a.say("id: %s", r.ID)
		}
		rec, err := door.Act(c.Context(), lease, capability, r)
		if err != nil {
			return err
		}
		if f.output == "" || len(rec.Result) == 0 {
			return a.printAct(rec, nil)
		}
		saveErr := saveResult(f.output, rec.Result)
		if saveErr == nil {
			a.say("result: %s", f.output)
			rec.Result = nil
		}
		// The record comes first: what the action did matters more than the file.
		if err := a.printAct(rec, nil); err != nil {
			if saveErr != nil {
				a.say("note: %v", saveErr)
			}
			return err
		}
		return saveErr
	})
}

// actEpoch is the epoch of the flag, of the environment, or the lease's present one.
func (a *app) actEpoch(ctx context.Context, c *cobra.Command, f *actFlags, door *client.Client, lease core.LeaseID, capability client.Secret) (*core.Epoch, error) {
	epoch := core.Epoch(f.epoch)
	switch text := a.getenv(envEpoch); {
	case c.Flags().Changed("epoch"):
	case text != "":
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, usage(c, "%s is not a number: %q", envEpoch, text)
		}
		epoch = core.Epoch(n)
	default:
		l, err := door.Lease(ctx, lease, capability)
		if err != nil {
			return nil, err
		}
		epoch = l.Epoch
	}
	return &epoch, nil
}
