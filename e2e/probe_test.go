package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// withProbe declares a binding of the desk's slot that expects ada, and returns its name
// and a terminal of an agent that it is delegated to.
func (k *desk) withProbe(name string, p core.ProbeSpec) (binding string, agent *terminal) {
	k.t.Helper()
	binding = k.name + "-" + name
	text, err := json.Marshal(p)
	must(k.t, err)
	file := filepath.Join(k.t.TempDir(), "probe.json")
	must(k.t, os.WriteFile(file, text, 0o600))
	k.person().types("bind", binding, "--slot", k.name, "--account", "ada", "--origin", k.site.Origin(), "--probe", file)
	return binding, k.person().agent("ben", binding)
}

// accountProbe reads who is signed in.
func (k *desk) accountProbe(query string) *core.AccountProbe {
	return &core.AccountProbe{ProbePage: core.ProbePage{URL: k.site.URL(k.name, "account", query), Selector: "#account"}, Pattern: "ada"}
}

// signIn signs the slot's browser in, as the desk's agent can.
func (k *desk) signIn(as string) {
	k.t.Helper()
	k.do(wire.Act{Verb: "navigate", URL: k.site.URL(k.name, "signin", "as="+as)})
	k.do(wire.Act{Verb: "navigate", URL: k.page})
}

// probes asks for a probe, and wants it to say so.
func (k *desk) probes(binding string, action core.ActionID, verdict string) *wire.ProbeReply {
	k.t.Helper()
	r, err := k.d.Control.Probe(k.ctx, core.BindingName(binding), wire.ProbeRequest{Action: action})
	must(k.t, err)
	if r.Verdict != verdict {
		k.t.Fatalf("the probe says %+v, want %s", *r, verdict)
	}
	return r
}

// pages lists the tabs of the slot's browser as the browser itself does.
func (k *desk) pages() []string {
	k.t.Helper()
	k.dial()
	targets, err := k.hand.Pipe().Targets(k.ctx)
	must(k.t, err)
	var urls []string
	for _, v := range targets {
		if v.Type == "page" && !strings.HasPrefix(v.URL, "chrome-extension:") {
			urls = append(urls, v.URL)
		}
	}
	return urls
}

// pageWith waits until the browser has a page, or has it no more.
func (k *desk) pageWith(text string, there bool) {
	k.t.Helper()
	for strings.Contains(strings.Join(k.pages(), " "), text) != there {
		if k.ctx.Err() != nil {
			k.t.Fatalf("the browser's pages: %v; %q there: want %v", k.pages(), text, there)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestALeaseWaitsForItsAccount: the system looks before the grant; another account is
// refused by name, and who is refused is not told what was seen.
func TestALeaseWaitsForItsAccount(t *testing.T) { // psd401/aistudio#1234
	t.Parallel()
	k := openDesk(t, "product", "")
	binding, agent := k.withProbe("acct", core.ProbeSpec{Account: k.accountProbe("")})
	person := k.person()
	person.shows([]string{"binding", "show", binding}, "its probe has not looked yet", "account probe the text of #account at "+k.site.URL(k.name, "account", ""))
	k.signIn("ada")
	before := len(k.pages())
	must(t, k.Release(k.ctx))

	agent.acquires("lease", "acquire", "--binding", binding, "--wait", "30s")
	if n := len(k.pages()); n != before {
		t.Errorf("%d pages before the probe, %d after it: %v", before, n, k.pages())
	}
	person.shows([]string{"status", k.name}, "binding "+binding+": signed in as expected (ada), by a probe at ", ", launch 1")
	agent.types("act", "navigate", k.page)
	agent.types("lease", "release")

	// Somebody else signs in otherwise, and a page that prints the expected name elsewhere
	// does not help.
	must(t, k.Acquire(k.ctx, "test", 20*time.Second))
	k.signIn("mallory")
	must(t, k.Release(k.ctx))
	k.status("the drain", func(s *core.Status) bool { return s.Offer.Available })
	says, liar := k.withProbe("says", core.ProbeSpec{Account: k.accountProbe("say=ada")})
	for _, c := range []struct {
		binding string
		agent   *terminal
	}{{binding, agent}, {says, liar}} {
		r := c.agent.begins("lease", "acquire", "--binding", c.binding, "--wait", "30s")
		r.ends(1)
		if errs := r.errs.String(); !strings.Contains(errs, "error: account_mismatch: ") || !strings.Contains(errs, "(ada)") || strings.Contains(errs, "mallory") {
			t.Errorf("the agent is told:\n%s", errs)
		}
		// A person who asks for the same is told what was seen.
		person.refused(1, `its page says "mallory"`, "lease", "acquire", "--binding", c.binding, "--wait", "30s")
	}
	person.shows([]string{"status", k.name}, "binding "+binding+": not signed in as expected (ada), by a probe at ")
	if r := k.probes(binding, "", "mismatch"); r.Seen != "mallory" || r.Expected != "ada" || r.URL != k.site.URL(k.name, "account", "") {
		t.Errorf("the person is told %+v", *r)
	}
	person.refused(1, "", "probe", binding)

	// Two elements, of which one says so, are no answer.
	two := k.accountProbe("say=ada")
	two.Selector = ".user"
	several, _ := k.withProbe("several", core.ProbeSpec{Account: two})
	if r := k.probes(several, "", "unknown"); !strings.Contains(r.Why, "more than one") || r.Seen != "" {
		t.Errorf("%+v", *r)
	}

	// What a page said is in no record.
	k.nowhere("mallory")
}

// nowhere wants a text to be in no record of the slot.
func (k *desk) nowhere(text string) {
	k.t.Helper()
	for _, args := range [][]string{{"events", "--json"}, {"status", k.name, "--json"}, {"binding", "list", "--json"}, {"actions", k.name, "--json"}} {
		out := k.person().types(args...)
		out = strings.ReplaceAll(out, "as="+text, "") // the agent's own navigation
		if strings.Contains(out, text) {
			k.t.Errorf("%q tells what a page said: %s", args, out)
		}
	}
	for _, file := range []string{k.d.Paths.Database(), k.d.Paths.Database() + "-wal"} {
		if raw, err := os.ReadFile(file); err == nil && strings.Contains(string(raw), `"`+text+`"`) {
			k.t.Errorf("%s holds what a page said", filepath.Base(file))
		}
	}
}

// TestAnAccountThatCannotBeTold: no answer is unknown, who waits is told what to do, and
// a person's word is enough.
func TestAnAccountThatCannotBeTold(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	k.signIn("ada")
	must(t, k.Release(k.ctx))
	slow, agent := k.withProbe("slow", core.ProbeSpec{Account: k.accountProbe("slow=10000"), WaitMs: 800})
	person := k.person()
	person.refused(15, "", "probe", slow)
	person.shows([]string{"binding", "show", slow}, "not known whether signed in as expected (ada)", "the page did not answer in time")
	agent.refused(10, "it is not known whether slot "+k.name+" is signed in as binding "+slow+" expects", "lease", "acquire", "--binding", slow, "--wait", "1s")
	waiting := agent.begins("lease", "acquire", "--binding", slow, "--wait", "60s")
	waiting.says("it is not known whether slot " + k.name)
	person.types("confirm", slow)
	waiting.ends(0)
	waiting.exported()
	person.shows([]string{"binding", "show", slow}, "signed in as expected (ada), by human:cli at ")
	agent.types("lease", "release")

	// A page that is not there, and one that leads to another origin.
	gone := k.accountProbe("")
	gone.URL = k.site.URL(k.name, "nothing", "")
	b, _ := k.withProbe("gone", core.ProbeSpec{Account: gone, WaitMs: 5000})
	if r := k.probes(b, "", "unknown"); !strings.Contains(r.Why, "no such text") {
		t.Errorf("%+v", *r)
	}
	refused := k.accountProbe("")
	refused.URL = "http://127.0.0.1:9/me" // nobody listens
	b = k.name + "-refused"
	_, err := k.d.Control.Bind(k.ctx, wire.BindingRequest{BindingSpec: core.BindingSpec{Name: core.BindingName(b), Slot: k.slot(), Probe: &core.ProbeSpec{Account: refused, WaitMs: 800}}})
	must(t, err)
	if r := k.probes(b, "", "unknown"); !strings.Contains(r.Why, "did not answer") {
		t.Errorf("%+v", *r)
	}
	away := k.accountProbe("")
	away.URL = k.site.URLAt("a.localhost", k.name, "away", "")
	b = k.name + "-away"
	_, err = k.d.Control.Bind(k.ctx, wire.BindingRequest{BindingSpec: core.BindingSpec{Name: core.BindingName(b), Slot: k.slot(), Probe: &core.ProbeSpec{Account: away, WaitMs: 1500}}})
	must(t, err)
	if r := k.probes(b, "", "unknown"); !strings.Contains(r.Why, "another origin") || r.Seen != "" {
		t.Errorf("%+v", *r)
	}
	k.pageWith("/account", false)
}

// TestAProbeByExpression reads what a script of the page knows, and changes nothing.
func TestAProbeByExpression(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	k.signIn("ada")
	must(t, k.Release(k.ctx))
	for _, c := range []struct{ expression, want, why string }{
		{"account.name", "match", ""},
		{"document.querySelector('#account').textContent", "match", ""},
		{"document.querySelector('#account').innerText", "match", ""},
		{"account.name + '!'", "mismatch", ""},
		{"(account.name = 'ada')", "unknown", "side effect"},
		{"(seen++, 'ada')", "unknown", "side effect"},
		{"(document.title = 'x', 'ada')", "unknown", "side effect"},
		{"fetch('save?kind=timer', {method: 'POST'}) && 'ada'", "unknown", "side effect"},
		{"nothing.at.all", "unknown", "failed"},
		{"null", "unknown", "no such text"},
		{"(() => {for (;;);})()", "unknown", ""},
	} {
		p := k.accountProbe("")
		p.Selector, p.Expression = "", c.expression
		b := core.BindingName(k.name + "-x")
		_, err := k.d.Control.Bind(k.ctx, wire.BindingRequest{BindingSpec: core.BindingSpec{Name: b, Slot: k.slot(), Probe: &core.ProbeSpec{Account: p, WaitMs: 4000}}})
		must(t, err)
		if r, err := k.d.Control.Probe(k.ctx, b, wire.ProbeRequest{}); err != nil || r.Verdict != c.want || !strings.Contains(r.Why, c.why) {
			t.Errorf("%s: want %s, got %v %+v", c.expression, c.want, err, r)
		}
		must(t, k.d.Control.RemoveBinding(k.ctx, b))
	}
	if n := k.site.Count(k.name).Total; n != 0 {
		t.Errorf("the site counts %d saves", n)
	}
	k.pageWith("/account", false)
}

// effectProbe reads how many changes the site has.
func (k *desk) effectProbe() core.ProbeSpec {
	return core.ProbeSpec{Effect: &core.EffectProbe{
		ProbePage: core.ProbePage{URL: k.site.URL(k.name, "changes", ""), Selector: "#changes"},
		Applied:   `[1-9][0-9]* change\(s\)`, NotApplied: "no changes",
	}}
}

// unknownSave lets an agent of a binding with a probe press Save, and ends the browser
// before the outcome is known. It starts the browser again, and returns the action, that
// quarantines the slot.
func unknownSave(t *testing.T, page, query string) (*desk, string, core.ActionID) {
	k := openDesk(t, page, query)
	must(t, k.Release(k.ctx))
	k.status("the drain", func(s *core.Status) bool { return s.Offer.Available })
	spec := k.effectProbe()
	binding := k.name + "-effect"
	_, err := k.d.Control.Bind(k.ctx, wire.BindingRequest{BindingSpec: core.BindingSpec{
		Name: core.BindingName(binding), Slot: k.slot(), Account: "none", Origins: []string{k.site.Origin()}, Probe: &spec,
	}})
	must(t, err)
	k.Agent, err = k.d.NewAgent(k.ctx, "ben", binding)
	must(t, err)
	must(t, k.Acquire(k.ctx, "test", 20*time.Second))
	k.do(wire.Act{Verb: "navigate", URL: k.page})
	id := client.NewID()
	go k.Act(k.ctx, id, wire.Act{Verb: "click", Selector: "#save"}, 0)
	r := k.settled(id, "the dispatch", func(r *core.Record) bool { return r.Times.Dispatched != 0 })
	if page == "product" {
		k.site.WaitSaves(k.ctx, k.name, 1)
		k.settled(id, "the request to be seen", func(r *core.Record) bool { return r.Remote == core.InFlight })
	}
	_, err = k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{StopNow: true})
	must(t, err)
	_, err = k.d.Control.Change(k.ctx, k.slot(), client.Handback, wire.ChangeRequest{Confirm: true})
	must(t, err)
	must(t, k.d.StartSlot(k.ctx, k.name))
	st := k.status("the quarantine", func(s *core.Status) bool { return len(s.Quarantine) == 1 })
	if st.Offer.Available || !strings.Contains(st.Quarantine[0].Resolve, "sessiondock probe "+binding+" --action "+string(r.Action)) {
		t.Fatalf("%+v", st.Quarantine)
	}
	return k, binding, r.Action
}

// TestAProbeSettlesAnUnknownSave, that was applied and whose answer was lost.
func TestAProbeSettlesAnUnknownSave(t *testing.T) { // qpilot#8
	t.Parallel()
	k, binding, action := unknownSave(t, "product", "delay=10000")
	k.person().shows([]string{"probe", binding, "--action", string(action)}, "effect of binding "+binding+": applied", "seen 1 change(s)",
		"remote applied", "resolved applied by a probe of the system's, asked for by human:cli at ")
	k.status("the slot to be offered again", func(s *core.Status) bool { return s.Offer.Available && len(s.Quarantine) == 0 })
	r, err := k.d.Control.Action(k.ctx, action)
	must(t, err)
	if r.Remote != core.Applied || r.Resolution.By != "system" || r.Resolution.Rule != "probe" || r.Resolution.AskedBy != "human:cli" {
		t.Errorf("%+v %+v", r.Remote, r.Resolution)
	}
	if n := k.site.Count(k.name).Total; n != 1 {
		t.Errorf("the site counts %d", n)
	}
	k.person().refused(1, "the action is settled", "probe", binding, "--action", string(action))
}

// TestAProbeSettlesASaveThatNeverCame: the click waited behind a busy page when its
// browser ended.
func TestAProbeSettlesASaveThatNeverCame(t *testing.T) {
	t.Parallel()
	k, binding, action := unknownSave(t, "busy", "busy=10000")
	if r := k.probes(binding, action, "not_applied"); r.Action == nil || r.Action.Remote != core.NotApplied || r.Action.Local != core.Ended {
		t.Errorf("%+v", *r)
	}
	k.status("the slot to be offered again", func(s *core.Status) bool { return s.Offer.Available })
	if n := k.site.Count(k.name).Total; n != 0 {
		t.Errorf("the site counts %d", n)
	}
}

// TestATakeoverCutsAProbeOff: it does not wait for the page, and the tab is gone.
func TestATakeoverCutsAProbeOff(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	must(t, k.Release(k.ctx))
	slow, _ := k.withProbe("slow", core.ProbeSpec{Account: k.accountProbe("slow=10000"), WaitMs: 30_000})
	for _, take := range []func(){
		func() { k.press(demo.ButtonTakeover) },
		func() {
			_, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{FromPerson: true})
			must(t, err)
		},
	} {
		tabs := len(k.pages())
		said := make(chan *wire.ProbeReply, 1)
		go func() {
			r, err := k.d.Control.Probe(k.ctx, core.BindingName(slow), wire.ProbeRequest{})
			if err != nil {
				t.Error(err)
			}
			said <- r
		}()
		k.status("the probe", func(s *core.Status) bool { return s.Probing != nil })
		for len(k.pages()) == tabs { // its tab is made in that moment
			time.Sleep(10 * time.Millisecond)
			if k.ctx.Err() != nil {
				t.Fatal("the probe made no tab")
			}
		}
		begun := time.Now()
		take()
		r := <-said
		if r == nil || r.Verdict != "cut_off" {
			t.Fatalf("the probe says %+v", r)
		}
		if took := time.Since(begun); took > 8*time.Second {
			t.Errorf("a takeover waited %v for a probe", took)
		}
		st := k.status("the takeover", func(s *core.Status) bool { return s.Authority.Holder.Kind == "human" && s.Authority.Fence == "drained" })
		if st.Probing != nil {
			t.Errorf("a probe goes on: %+v", *st.Probing)
		}
		for len(k.pages()) != tabs {
			if k.ctx.Err() != nil {
				t.Fatalf("the probe's tab stays: %v", k.pages())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	if n := k.site.Count(k.name).Total; n != 0 {
		t.Errorf("the site counts %d", n)
	}
}

// TestAnAgentSeesNothingOfAProbe that a person has asked for under its epoch.
func TestAnAgentSeesNothingOfAProbe(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	k.signIn("ada")
	tabs := func() string { return string(k.do(wire.Act{Verb: "tabs"}).Result) }
	before, epoch := tabs(), k.Lease.Epoch
	slow, _ := k.withProbe("slow", core.ProbeSpec{Account: k.accountProbe("slow=3000"), WaitMs: 20_000})
	said := make(chan *wire.ProbeReply, 1)
	go func() {
		r, err := k.d.Control.Probe(k.ctx, core.BindingName(slow), wire.ProbeRequest{})
		if err != nil {
			t.Error(err)
		}
		said <- r
	}()
	k.status("the probe", func(s *core.Status) bool { return s.Probing != nil })
	most := 0
	for done := false; !done; {
		most = max(most, len(k.pages()))
		if now := tabs(); now != before {
			t.Fatalf("the agent's tabs were\n%s and are\n%s", before, now)
		}
		k.do(wire.Act{Verb: "evaluate", Expression: "document.title"}) // its own work goes on
		select {
		case r := <-said:
			if r == nil || r.Verdict != "match" || r.Seen != "ada" || r.Epoch != epoch {
				t.Errorf("the probe says %+v", r)
			}
			done = true
		default:
		}
	}
	if most < 2 {
		t.Error("the probe's tab was never there")
	}
	// The tab of a probe that was closed is not lent at the next grant either.
	must(t, k.Release(k.ctx))
	must(t, k.Acquire(k.ctx, "again", 20*time.Second))
	if now := tabs(); strings.Contains(now, "/account") {
		t.Errorf("the agent's tabs are %s", now)
	}
	if rec, err := k.d.Control.Actions(k.ctx, k.slot(), false); err == nil {
		for _, a := range rec {
			for _, e := range a.Evidence {
				if strings.Contains(e.URL, "slow=") || e.Kind == "probe" {
					t.Errorf("%s has evidence of the probe: %+v", a.Summary, e)
				}
			}
		}
	}
}
