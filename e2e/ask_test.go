package e2e

import (
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// TestAnAgentAsksAndGoesOnAfterwards: the popup shows what is asked and what to press;
// the person takes over, does it, and hands back to that agent, which resumes at a new
// epoch.
func TestAnAgentAsksAndGoesOnAfterwards(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	before := k.Lease.Epoch
	agent, person := k.agents(), k.person()
	agent.types("lease", "ask", "--reason", "the shop wants a second factor")
	k.dial()
	text, err := k.hand.WaitText(k.ctx, "ada asks for you")
	must(t, err)
	want := "ada asks for you: “the shop wants a second factor”. Press “Take over”, see to it, then hand back to ada."
	if !strings.Contains(text, want) || strings.Contains(text, "ada asks for a person") {
		t.Errorf("the popup says:\n%s", text)
	}
	k.picture("ask")
	var mark string
	must(t, k.hand.Pipe().Eval(k.ctx, k.hand.Worker(), `chrome.action.getBadgeText({})`, &mark))
	if mark != "?" {
		t.Errorf("the toolbar button shows %q", mark)
	}
	person.shows([]string{"status", k.name}, "! ada asks for a person: the shop wants a second factor",
		"sessiondock lease answer "+string(k.Lease.Lease)+" --approve")
	must(t, k.hand.PressByKeyboard(k.ctx, demo.ButtonTakeover))
	text, err = k.hand.WaitText(k.ctx, "ada asked for you")
	must(t, err)
	if !strings.Contains(text, "choose “Back to ada” and press “Hand back”") {
		t.Errorf("after the takeover the popup says:\n%s", text)
	}
	k.status("the drain", func(s *core.Status) bool { return s.Authority.Holder.Kind == "human" && s.Authority.Fence == "drained" })
	k.picture("ask-taken")
	agent.shows([]string{"lease", "show"}, "the shop wants a second factor", "taken over by human:popup")
	agent.refused(13, "held", "lease", "resume")
	must(t, k.hand.Choose(k.ctx, demo.SelectHandbackTo, "ada"))
	must(t, k.hand.PressByKeyboard(k.ctx, demo.ButtonHandback))
	must(t, k.Resume(k.ctx, time.Minute))
	if k.Lease.Epoch <= before+1 {
		t.Errorf("resumed at epoch %d, asked at %d", k.Lease.Epoch, before)
	}
	person.refused(1, "nothing that this lease asked waits for an answer", "lease", "answer", string(k.Lease.Lease), "--approve")
	k.do(wire.Act{Verb: "snapshot"})
	saved := k.do(wire.Act{Verb: "click", Selector: "#save"})
	k.settled(string(saved.ID), "the answer", func(r *core.Record) bool { return r.Remote == core.Answered(200) })
	if n := k.site.Count(k.name).Total; n != 1 {
		t.Errorf("the site counts %d", n)
	}
	// An answer without a takeover.
	agent = k.agents()
	agent.types("lease", "ask", "--reason", "may I order ten?")
	person.types("lease", "answer", string(k.Lease.Lease), "--decline", "--note", "five are enough")
	agent.shows([]string{"lease", "show"}, "may I order ten?", "declined by human:cli", "(five are enough)")
}
