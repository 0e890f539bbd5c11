package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) probeCmd() *cobra.Command {
	var (
		r       wire.ProbeRequest
		action  string
		ifEpoch uint64
	)
	c := &cobra.Command{
		Use:   "probe BINDING [--action ACTION]",
		Short: "Look at the website: is the account right, was a change applied",
		Long: `Opens the page that the binding declares (bind --probe FILE) in a background tab
of its own, reads one text there and compares it. It takes control from nobody,
and no agent sees its tab. Without --action it checks the account; a lease of the
binding is granted only after a match, for which the system looks by itself where
needed. With --action it settles an action whose result is not known: applied,
not_applied or, where the patterns do not tell, still unknown.

FILE is JSON. Either account or effect may be missing. A selector must name one
element; instead of it an expression without side effects may stand:

  {"account": {"url": "https://shop.example/me", "selector": "#email",
               "pattern": "ada@shop\\.example"},
   "effect":  {"url": "https://shop.example/product/42", "selector": "#stock",
               "applied": "11 in stock", "not_applied": "12 in stock"},
   "wait_ms": 10000}

A pattern is RE2 and must match the whole text. What a page says is shown to you and
kept nowhere.`,
		Example: `  sessiondock probe stock
  sessiondock probe stock --action 01JZ8M3T6V4Q0W9YB2C7D5E1FG`,
		Args: names("BINDING"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("if-epoch") {
				epoch := core.Epoch(ifEpoch)
				r.IfEpoch = &epoch
			}
			r.Action, r.By = core.ActionID(action), surface
			door, err := a.control()
			if err != nil {
				return err
			}
			reply, err := door.Probe(c.Context(), core.BindingName(args[0]), r)
			if err != nil {
				return err
			}
			if err := a.show(reply, func() error { return a.printProbe(reply) }); err != nil {
				return err
			}
			switch reply.Verdict {
			case "match", string(core.Applied), string(core.NotApplied):
				return nil
			case "mismatch":
				return &exit{core.CodeAccountMismatch.Info().Exit}
			}
			return &exit{core.CodeOutcomeUnknown.Info().Exit}
		},
	}
	c.Flags().StringVar(&action, "action", "", "the action whose result is not known")
	c.Flags().Uint64Var(&ifEpoch, "if-epoch", 0, "only if the slot's epoch is still this one (default: whatever it is)")
	return c
}

func (a *app) printProbe(p *wire.ProbeReply) error {
	var b strings.Builder
	colour := green
	switch p.Verdict {
	case "mismatch":
		colour = yellow
	case "unknown", "cut_off":
		colour = red
	}
	fmt.Fprintf(&b, "%s of binding %s: %s\n", p.Kind, p.Binding, a.paint(colour, p.Verdict))
	b.WriteString(wrap("  why        ", p.Why))
	if p.Expected != "" {
		b.WriteString(wrap("  expected   ", p.Expected))
	}
	if p.Seen != "" {
		b.WriteString(wrap("  seen       ", p.Seen))
	}
	if p.URL != "" {
		b.WriteString(wrap("  page       ", p.URL))
	}
	fmt.Fprintf(&b, "  at         %s, launch %d, epoch %d\n", clock(p.AtMs), p.Generation, p.Epoch)
	if _, err := a.out.Write([]byte(b.String())); err != nil || p.Action == nil {
		return err
	}
	return a.printRecord(p.Action)
}

// probeText says in one line what a probe reads.
func probeText(p core.ProbePage, expected string) string {
	what := "the text of " + p.Selector
	if p.Selector == "" {
		what = "the value of " + p.Expression
	}
	return fmt.Sprintf("%s at %s; %s", what, p.URL, expected)
}

// maxProbeFile bounds a probe's file: what it may hold is a few kilobytes.
const maxProbeFile = 64 << 10

// readProbe reads what a person declares. A misspelt member would be a probe that
// checks something else, so it is refused.
func readProbe(file string) (*core.ProbeSpec, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, core.Refuse(core.CodeInvalid, err.Error(), "")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProbeFile+1))
	if err != nil {
		return nil, core.Refuse(core.CodeInvalid, err.Error(), "")
	}
	p := new(core.ProbeSpec)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, core.Refuse(core.CodeInvalid, fmt.Sprintf("%s does not declare a probe: %v", file, err), "sessiondock probe --help shows one")
	}
	if d.More() || len(data) > maxProbeFile {
		return nil, core.Refuse(core.CodeInvalid, file+" holds more than one probe", "sessiondock probe --help shows one")
	}
	return p, nil
}
