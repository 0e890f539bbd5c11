package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
)

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status [SLOT]",
		Short: "The three answers: who may act, what may still run, what is known",
		Long: `Answers three questions about a slot, or about all of them. They are separate:
that control is yours says nothing about work that was sent before, and that all
local work is over says nothing about the website.`,
		Example: "  sessiondock status shop",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(c, "%q is one argument too many", args[1])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				st, err := door.Status(c.Context(), core.SlotName(args[0]))
				if err != nil {
					return err
				}
				return a.show(st, func() error {
					h, err := door.Health(c.Context())
					if err == nil {
						a.warnDatabase(h)
					}
					return errors.Join(err, a.printStatus(st))
				})
			}
			slots, err := door.Slots(c.Context())
			if err != nil {
				return err
			}
			all := make([]core.Status, 0, len(slots))
			for _, s := range slots {
				all = append(all, s.Status)
			}
			return a.show(all, func() error {
				if err := a.printStatuses(all, "no slots yet: sessiondock slot create NAME"); err != nil {
					return err
				}
				h, err := door.Health(c.Context())
				if err == nil {
					a.say("%s", held(h))
					a.warnDatabase(h)
				}
				return err
			})
		},
	}
}

// warnDatabase says that the daemon's database is corrupt.
func (a *app) warnDatabase(h *client.Health) {
	if h.Database != "" {
		a.say("warning: nothing is written any more: %s\nhint: %s", h.Database, h.Hint)
	}
}

// held says what holds the browsers that are started from now on.
func held(h *client.Health) string {
	if h.Supervisor == "systemd" {
		return "note: the user's service manager holds new browsers, each in a control group of its own (containment full)"
	}
	return fmt.Sprintf("note: a small process holds each new browser (containment weak), not the user's service manager: %s", orElse(h.Why, "it was not asked for"))
}

func (a *app) printStatuses(all []core.Status, none string) error {
	if len(all) == 0 {
		a.say("%s", none)
	}
	for i := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(a.out); err != nil {
				return err
			}
		}
		if err := a.printStatus(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// printStatus writes the three answers. The words are the daemon's own sentences,
// the same that the popup shows; the fields stand below them.
func (a *app) printStatus(s *core.Status) error {
	p := &page{a: a, said: map[string]bool{}}
	p.title(string(s.Slot), s.Binding)
	p.authority(s)
	p.local(s)
	p.remote(s)
	p.offer(s)
	_, err := a.out.Write([]byte(p.b.String()))
	return err
}

// page builds the text of one status.
type page struct {
	a    *app
	b    strings.Builder
	said map[string]bool // warnings that stand in it
}

func (p *page) head(text string) { p.b.WriteString(p.a.paint(bold, text) + "\n") }
func (p *page) line(text string) { p.b.WriteString(wrap("  ", text)) }
func (p *page) item(format string, v ...any) {
	p.b.WriteString(wrap("    - ", fmt.Sprintf(format, v...)))
}

// atOnce is how many of one list a person is shown at once.
const atOnce = 10

// some writes the items of a list, and where it is a long one how to see all.
func (p *page) some(s *core.Status, n int, item func(i int)) {
	for i := range min(n, atOnce) {
		item(i)
	}
	if n > atOnce {
		p.item("and %d more: sessiondock actions %s --open, or this with --json", n-atOnce, s.Slot)
	}
}

// warn writes what a person must not miss.
func (p *page) warn(text string) {
	p.said[text] = true
	p.b.WriteString(p.a.paint(yellow, strings.TrimRight(wrap("  ! ", text), "\n")) + "\n")
}

func (p *page) title(slot string, binding core.BindingName) {
	text := "Slot " + clean(slot)
	if binding != "" {
		text += ", binding " + clean(string(binding))
	}
	p.head(text)
}

func (p *page) authority(s *core.Status) {
	p.head("Who may act now?")
	au := s.Authority
	p.line(orElse(s.Sentences.Authority, holder(au.Holder)+" has control."))
	facts := []string{fmt.Sprintf("epoch %d", au.Epoch)}
	if au.Fence != "" {
		facts = append(facts, "fence "+au.Fence)
	}
	if au.Lease != "" {
		facts = append(facts, fmt.Sprintf("lease %s, %s left", au.Lease, left(au.ExpiresInMs)))
		if !au.Ready {
			facts = append(facts, "not ready yet")
		}
	}
	p.line(strings.Join(facts, "; "))
	if i := s.Interrupted; i != nil {
		p.line(fmt.Sprintf("interrupted: %s, lease %s, %s left; to let it go on: sessiondock handback %s --to %s", i.Agent, i.Lease, left(i.ExpiresInMs), s.Slot, i.Agent))
		if i.Ask != nil {
			p.line(fmt.Sprintf("%s had asked: %s", i.Agent, i.Ask.Reason))
		}
	}
	if len(s.Allow) > 0 {
		p.line("beyond pages the binding allows: " + strings.Join(s.Allow, ", "))
	}
	if len(s.Keys) > 0 {
		p.line("conflict keys: " + strings.Join(s.Keys, ", "))
	}
	for _, q := range s.Asks {
		p.warn(fmt.Sprintf("%s asks for a person: %s", q.Agent, q.Reason))
		p.item("take over, then hand back to it: sessiondock takeover %s", s.Slot)
		p.item("or only answer: sessiondock lease answer %s --approve | --decline", q.Lease)
	}
	for _, r := range s.Retentions {
		p.warn(fmt.Sprintf("%s asks to keep its lease for %s more: %s", r.Agent, left(r.ForMs), r.Reason))
		p.item("while it lives: sessiondock retain approve %s (or refuse)", r.Lease)
	}
	for _, w := range s.Queue {
		priority := ""
		if w.Priority != 0 {
			priority = fmt.Sprintf(", priority %d", w.Priority)
		}
		p.item("waiting, place %d: %s for binding %s%s, %s left to wait%s", w.Position, w.Agent, w.Binding, priority, left(w.WaitMs), because(w.Reasons))
	}
}

func (p *page) local(s *core.Status) {
	p.head("What local work might still be running?")
	p.answer(s.Local.State, s.Sentences.Local)
	p.some(s, len(s.Local.Commands), func(i int) {
		c := s.Local.Commands[i]
		p.item("%s: %s for %s (action %s)", c.Summary, c.Local, left(c.RunningMs), c.Action)
	})
	for _, d := range s.Local.Documents {
		if d.Document == "" {
			p.item("any page: a script of %s may still run in it; in which is not known any more", d.Agent)
			continue
		}
		why := d.Why
		switch d.Why {
		case "agent_script":
			why = "a script of the agent may still run in it"
		case "input_pending":
			why = "an input may still land in it"
		}
		what := "page"
		if strings.HasPrefix(string(d.Document), "worker:") {
			what = "worker"
		}
		p.item("%s %s: %s", what, orElse(d.URL, string(d.Document)), why)
	}
	for _, d := range s.Local.Downloads {
		p.item("download %s", d)
	}
	if l := s.Local.Launch; l != nil {
		text := fmt.Sprintf("browser: %s, launch %d, containment %s", l.State, l.Generation, l.Containment)
		if l.Link != "" {
			text += ", link " + l.Link
		}
		if l.Packaging != "" {
			text += ", extension by " + l.Packaging
		}
		if l.Debug != "" {
			text += ", with debugging by " + l.Debug
		}
		p.line(text)
		if l.Unprotected != "" {
			p.item("not protected: %s", l.Unprotected)
		}
	}
}

func (p *page) remote(s *core.Status) {
	p.head("What is known about the result on the website?")
	p.answer(s.Remote.State, s.Sentences.Remote)
	p.some(s, len(s.Remote.Requests), func(i int) {
		r := s.Remote.Requests[i]
		p.item("%s %s: %s (action %s)", r.Method, r.URL, r.State, r.Action)
	})
}

// answer is a state in the daemon's words; the state itself is added where the
// sentence does not name an unknown.
func (p *page) answer(state, sentence string) {
	text := wrap("  ", orElse(sentence, state))
	if state == "unknown" {
		if !strings.Contains(strings.ToLower(sentence), "unknown") {
			text = wrap("  ", "UNKNOWN. "+sentence)
		}
		text = p.a.paint(red, strings.TrimRight(text, "\n")) + "\n"
	}
	p.b.WriteString(text)
}

func (p *page) offer(s *core.Status) {
	for _, w := range s.Sentences.Warnings {
		if !p.said[w] {
			p.warn(w)
		}
	}
	if s.Offer.Available {
		p.head("Offered to agents: " + p.a.paint(green, "yes"))
	} else {
		p.head("Offered to agents: no")
	}
	p.some(s, len(s.Offer.Why), func(i int) { p.item("%s", s.Offer.Why[i]) })
	p.some(s, len(s.Quarantine), func(i int) {
		q := s.Quarantine[i]
		p.item("quarantined since %s: %s", clock(q.SinceMs), q.Text)
		if q.Resolve != "" {
			p.b.WriteString(wrap("      mend: ", q.Resolve))
		}
	})
	if len(s.Quarantine) > atOnce {
		p.item("several that you know the same of: sessiondock resolve ACTION ACTION... ; or let all be unknown: sessiondock quarantine lift %s --note WHY", s.Slot)
	}
	if len(s.SignIns) > 0 {
		p.head("Sign-ins:")
	}
	for _, in := range s.SignIns {
		p.item("binding %s: %s", in.Binding, signIns(in))
	}
	if v := s.Probing; v != nil {
		p.item("a probe looks at the %s of binding %s, in a tab of its own", v.Kind, v.Binding)
	}
}

func holder(h core.Holder) string {
	switch h.Kind {
	case "", "none":
		return "nobody"
	case "human":
		if h.Name != "" {
			return "a person (" + clean(h.Name) + ")"
		}
		return "a person"
	}
	return h.Kind + " " + clean(h.Name)
}

func because(reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return ": " + strings.Join(reasons, "; ")
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
