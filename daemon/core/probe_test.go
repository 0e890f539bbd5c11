package core_test

import (
	"slices"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// probeOf declares both probes of the shop, with a pattern of the account.
func probeOf(account string) *core.ProbeSpec {
	return &core.ProbeSpec{
		Account: &core.AccountProbe{ProbePage: core.ProbePage{URL: "https://shop.example/me", Selector: "#email"}, Pattern: account},
		Effect: &core.EffectProbe{
			ProbePage: core.ProbePage{URL: "https://shop.example/changes?of=42", Selector: "#changes"},
			Applied:   "[1-9][0-9]* changes?", NotApplied: "no changes?",
		},
	}
}

// withProbe is a prepared world with a binding that declares both probes.
func withProbe(t *testing.T) *world {
	w := prepared(t)
	w.declareProbe()
	return w
}

func (w *world) declareProbe() {
	w.do(core.Bind{Spec: core.BindingSpec{Name: "verified", Slot: "shop", Account: "ada@shop.example", Origins: []string{"https://shop.example"}, Probe: probeOf("ada@shop\\.example")}, By: "human:test"})
	w.do(core.Delegate{ID: "d3", Hash: "token-p", Binding: "verified", Agent: "agent-p", By: "human:test"})
}

// checked is what status shows of the probed binding's account.
func (w *world) checked() *core.AccountNow {
	for _, v := range core.StatusOf(w.s, w.now, "shop").SignIns {
		if v.Binding == "verified" && v.Probe {
			return v.Checked
		}
	}
	w.t.Fatalf("status does not show the binding's sign-in")
	return nil
}

// waits puts a request of the probed binding into the queue.
func (w *world) waits(id string) {
	w.must(core.Acquire{Lease: core.LeaseID(id), Token: "token-p", CapHash: "cap-" + id, RequestID: id, Binding: "verified", ForMs: 600_000, WaitMs: 120_000})
}

// looking returns the probe that is under way, and wants one.
func (w *world) looking() core.Probing {
	p := w.s.Probes["shop"]
	if p == nil || p.Running == nil {
		w.t.Fatalf("no probe is under way: %s", dump(p))
	}
	if last, ok := w.sent[len(w.sent)-1].(core.SendProbe); !ok || last.Probe != p.Running.Probe || last.Epoch != w.slot().Epoch {
		w.t.Fatalf("what was sent last is %#v", w.sent[len(w.sent)-1])
	}
	return *p.Running
}

func (w *world) idle() {
	if p := w.s.Probes["shop"]; p != nil && p.Running != nil {
		w.t.Fatalf("a probe is under way: %s", dump(p.Running))
	}
}

func seen(p core.Probing, text string) core.ProbeDone {
	return core.ProbeDone{Slot: "shop", Nonce: nonce, Probe: p.Probe, Epoch: p.Epoch, State: "seen", Text: text, URL: "https://shop.example/me"}
}

func unseen(p core.Probing, state string) core.ProbeDone {
	return core.ProbeDone{Slot: "shop", Nonce: nonce, Probe: p.Probe, Epoch: p.Epoch, State: state}
}

func (w *world) verdict(id core.ProbeID, want string) core.Probed {
	got := w.s.ProbeResult("shop", id)
	if got == nil || got.Verdict != want {
		w.t.Fatalf("probe %s: want %s, got %s", id, want, dump(got))
	}
	return *got
}

func TestALeaseIsGrantedOnceItsAccountMatches(t *testing.T) {
	w := withProbe(t)
	epoch := w.slot().Epoch
	w.waits("l")
	p := w.looking()
	w.wantState("l", core.LeaseWaiting)
	if why := core.PlaceOf(w.s, w.now, "l").Why; !strings.Contains(why[0], "looks at the account of binding verified") {
		t.Fatalf("it waits for %q", why)
	}
	if p.AskedBy != "system" || p.Epoch != epoch || w.slot().Epoch != epoch {
		t.Fatalf("%s at epoch %d: a probe raises none", dump(p), w.slot().Epoch)
	}
	w.must(seen(p, "  ada@shop.example\n"))
	w.wantState("l", core.LeaseGranted)
	w.idle()
	w.verdict(p.Probe, "match")
	w.must(core.Claim{Lease: "l", Cap: "cap-l"})

	// The same binding's next lease rests on it, another binding's agent ends that.
	w.release("l")
	w.drain(nonce)
	w.waits("again")
	w.wantState("again", core.LeaseGranted)
	w.must(core.Claim{Lease: "again", Cap: "cap-again"})
	w.release("again")
	w.drain(nonce)
	other := w.acquire("token-a")
	w.must(core.Release{Lease: other.ID, Cap: other.CapHash})
	w.drain(nonce)
	w.waits("third")
	w.wantState("third", core.LeaseWaiting)
	w.looking()
	id := w.checked()
	if id.Counts || id.State != "match" || id.Past != "agent-a has had the slot since, for binding admin" {
		t.Fatalf("status shows %s", dump(id))
	}
}

// A session at a website ends by itself, so a match is not for ever; nor is it another
// launch's.
func TestAMatchGrowsOld(t *testing.T) {
	w := withProbe(t)
	w.waits("l")
	w.must(seen(w.looking(), "ada@shop.example"))
	w.must(core.Claim{Lease: "l", Cap: "cap-l"})
	w.pass(core.AccountMs + 1) // the lease's own time is over too
	w.drain(nonce)
	w.waits("late")
	w.must(seen(w.looking(), "ada@shop.example"))
	w.must(core.Claim{Lease: "late", Cap: "cap-late"})
	w.release("late")
	w.drain(nonce)

	w.must(core.StopSlot{Slot: "shop", By: "human:cli"})
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "stopped"})
	w.launch()
	w.connect(nonce, instance)
	w.waits("other launch")
	w.looking()
	if id := w.checked(); id.Counts || !id.BeforeRestart {
		t.Fatalf("status shows %s", dump(id))
	}
}

func TestAMismatchRefusesAndSaysWhatWasExpected(t *testing.T) { // psd401/aistudio#1234
	w := withProbe(t)
	w.waits("l")
	w.waits("m")
	p := w.looking()
	const secret = "eve@shop.example"
	w.must(seen(p, secret))
	for _, id := range []string{"l", "m"} {
		l := w.s.Leases[core.LeaseID(id)]
		if l.State != core.LeaseEnded || l.Refusal == nil || l.Refusal.Code != core.CodeAccountMismatch || !strings.Contains(l.Refusal.Message, "ada@shop.example") {
			t.Fatalf("lease %s", dump(l))
		}
		res := w.refused(core.CodeAccountMismatch, core.Acquire{Lease: "x", Token: "token-p", CapHash: "c", RequestID: id, Binding: "verified", WaitMs: 1000})
		if strings.Contains(dump(res.Refusal), secret) {
			t.Fatalf("an agent is told what was seen: %s", dump(res.Refusal))
		}
	}
	if got := w.verdict(p.Probe, "mismatch"); got.Seen != secret || w.s.SeenInstead("shop", "verified") != secret {
		t.Fatalf("a person is not told what was seen: %s", dump(got))
	}
	w.never(secret)

	// Who asks in a loop does not load the page in one; other bindings are served.
	for range 3 {
		w.refused(core.CodeAccountMismatch, core.Acquire{Lease: "x", Token: "token-p", CapHash: "c", RequestID: w.id("r"), Binding: "verified", WaitMs: 1000})
		w.idle()
	}
	a := w.acquire("token-a")
	w.must(core.Release{Lease: a.ID, Cap: a.CapHash})
	w.drain(nonce)
	w.pass(core.ProbeAgainMs)
	w.waits("later")
	w.must(seen(w.looking(), "ada@shop.example"))
	w.wantState("later", core.LeaseGranted)
}

// never wants a text to be in nothing that is stored.
func (w *world) never(secret string) {
	for _, v := range []any{w.s.Slots, w.s.Bindings, w.s.Leases, w.s.Actions, w.journal} {
		if strings.Contains(dump(v), secret) {
			w.t.Fatalf("what a page said is stored: %s", dump(v))
		}
	}
}

func TestWhatCannotBeToldIsUnknown(t *testing.T) {
	for state, why := range map[string]string{
		"absent": "no such text", "several": "more than one", "elsewhere": "another origin", "silent": "did not answer", "refused": "did not carry it out", "new": "did not carry it out",
	} {
		w := withProbe(t)
		w.waits("l")
		p := w.looking()
		w.must(unseen(p, state))
		w.wantState("l", core.LeaseWaiting)
		if got := w.verdict(p.Probe, "unknown"); !strings.Contains(got.Why, why) {
			t.Errorf("%s: %q", state, got.Why)
		}
		place := core.PlaceOf(w.s, w.now, "l")
		if !strings.Contains(place.Why[0], "not known") || core.WhyWaiting(w.s, w.now, "l").Code != core.CodeUnavailable {
			t.Errorf("%s: it waits for %q", state, place.Why)
		}
		// It keeps nobody else waiting.
		a := w.acquire("token-a")
		w.must(core.Release{Lease: a.ID, Cap: a.CapHash})
		w.drain(nonce)
		w.must(seen(w.looking(), "ada@shop.example")) // another had the slot: it is looked at anew
		w.wantState("l", core.LeaseGranted)
	}
}

func TestNoAnswerIsUnknownAndIsAskedAgain(t *testing.T) {
	w := withProbe(t)
	w.waits("l")
	p := w.looking()
	w.pass(core.ProbeWaitMs + core.ProbeGraceMs + 1)
	w.idle()
	w.verdict(p.Probe, "unknown")
	w.refused(core.CodeConflict, seen(p, "ada@shop.example")) // too late
	w.wantState("l", core.LeaseWaiting)
	w.pass(core.ProbeAgainMs)
	if again := w.looking(); again.Probe == p.Probe {
		t.Fatal("the number of a probe is used twice")
	}
	w.must(seen(w.looking(), "ada@shop.example"))
	w.wantState("l", core.LeaseGranted)
}

// Without an answer the person decides.
func TestAPersonsWordWhereAProbeCannotTell(t *testing.T) {
	w := withProbe(t)
	w.waits("l")
	w.must(unseen(w.looking(), "silent"))
	w.must(core.Confirm{Binding: "verified", By: "human:cli"})
	w.wantState("l", core.LeaseGranted)

	// What a person attests while they have the slot is said for afterwards; what a
	// probe found meanwhile is not.
	w = withProbe(t)
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.drain(nonce)
	w.must(core.RunProbe{Binding: "verified", By: "human:cli"})
	w.must(seen(w.looking(), "ada@shop.example"))
	w.waits("l")
	w.must(core.Handback{Slot: "shop", By: "human:cli"})
	w.drain(nonce)
	w.must(unseen(w.looking(), "absent"))
	w.wantState("l", core.LeaseWaiting)
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.drain(nonce)
	w.must(core.Confirm{Binding: "verified", By: "human:cli"})
	w.must(core.Handback{Slot: "shop", By: "human:cli"})
	w.drain(nonce)
	w.wantState("l", core.LeaseGranted)
}

func TestARequestThatDoesNotWaitHasTheAccountChecked(t *testing.T) {
	w := withProbe(t)
	now := func() core.Acquire {
		return core.Acquire{Lease: core.LeaseID(w.id("l")), Token: "token-p", CapHash: "c", RequestID: w.id("r"), Binding: "verified", ForMs: 60_000}
	}
	res := w.refused(core.CodeBusy, now())
	if !strings.Contains(res.Refusal.Message, "is to be checked first") {
		t.Fatal(res.Refusal.Message)
	}
	p := w.looking()
	w.refused(core.CodeBusy, now())
	w.must(seen(p, "ada@shop.example"))
	if res := w.must(now()); res.Lease.State != core.LeaseGranted {
		t.Fatalf("lease %s", dump(res.Lease))
	}
}

func TestABrowserIsStartedToLook(t *testing.T) {
	w := withProbe(t)
	w.must(core.StopSlot{Slot: "shop", By: "human:cli"})
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "stopped"})
	w.refused(core.CodeBusy, core.Acquire{Lease: "x", Token: "token-p", CapHash: "c", RequestID: "x", Binding: "verified"})
	w.waits("l")
	if w.slot().Starting != "lease" {
		t.Fatalf("no browser is started: %s", dump(w.slot()))
	}
	// Who waits no longer wants none.
	w.must(core.CancelWait{Lease: "l", Why: "gone"})
	if w.slot().Starting != "" {
		t.Fatal("a browser is wanted by nobody")
	}
	w.waits("m")
	l := core.LaunchID(w.id("launch"))
	w.must(core.LaunchStarting{Slot: "shop", Generation: w.slot().Generation + 1, Launch: l, SecretHash: "s"})
	w.must(core.LaunchRunning{Slot: "shop", Launch: l, Identity: core.Identity{Containment: "weak"}})
	w.wantState("m", core.LeaseWaiting)
	w.connect(nonce, instance)
	w.must(seen(w.looking(), "ada@shop.example"))
	w.wantState("m", core.LeaseGranted)
}

func TestATakeoverCutsAProbeOff(t *testing.T) {
	w := withProbe(t)
	w.waits("l")
	p := w.looking()
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.idle()
	w.verdict(p.Probe, "cut_off")
	w.refused(core.CodeConflict, seen(p, "ada@shop.example"))
	w.wantState("l", core.LeaseWaiting)
	if id := w.checked(); id != nil {
		t.Fatalf("a look that was cut off says something: %s", dump(id))
	}
	w.drain(nonce)
	w.must(core.Handback{Slot: "shop", By: "human:cli"})
	w.drain(nonce)
	w.must(seen(w.looking(), "ada@shop.example"))
	w.wantState("l", core.LeaseGranted)

	// So do the end of the link, of the browser, and the daemon's own.
	for name, end := range map[string]func(*world){
		"link": func(w *world) { w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"}) },
		"launch": func(w *world) {
			w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "crash"})
		},
		"unknown": func(w *world) { w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, How: "not known"}) },
		"daemon":  func(w *world) { w.must(core.Restarted{}) },
	} {
		w := withProbe(t)
		w.must(core.RunProbe{Binding: "verified", By: "human:cli"})
		p := w.looking()
		end(w)
		w.idle()
		if got := w.s.ProbeResult("shop", p.Probe); got.Verdict != "cut_off" {
			t.Errorf("%s: %s", name, dump(got))
		}
	}
}

// After a handback the agent's account is looked at before it goes on: the person may
// have signed in otherwise.
func TestAResumeHasTheAccountChecked(t *testing.T) {
	w := withProbe(t)
	w.waits("l")
	w.must(seen(w.looking(), "ada@shop.example"))
	w.must(core.Claim{Lease: "l", Cap: "cap-l"})
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.drain(nonce)
	w.must(core.Handback{Slot: "shop", To: "agent-p", By: "human:cli"})
	w.drain(nonce)
	w.refused(core.CodeBusy, core.Resume{Lease: "l", Cap: "cap-l"})
	p := w.looking()
	w.refused(core.CodeBusy, core.Resume{Lease: "l", Cap: "cap-l"})
	w.must(seen(p, "eve@shop.example"))
	w.refused(core.CodeAccountMismatch, core.Resume{Lease: "l", Cap: "cap-l"})
	w.must(core.RunProbe{Binding: "verified", By: "human:cli"}) // the person has seen to it
	w.must(seen(w.looking(), "ada@shop.example"))
	w.must(core.Resume{Lease: "l", Cap: "cap-l"})
	w.wantState("l", core.LeaseActive)
}

func TestAPersonsProbe(t *testing.T) {
	w := withProbe(t)
	for name, in := range map[core.Code]core.RunProbe{
		core.CodeNotFound: {Binding: "none", By: "human:cli"},
		core.CodeConflict: {Binding: "signed", By: "human:cli"}, // declares none
	} {
		w.refused(name, in)
	}
	stale := w.slot().Epoch - 1
	w.refused(core.CodeConflict, core.RunProbe{Binding: "verified", IfEpoch: &stale, By: "human:cli"})
	w.refused(core.CodeNotFound, core.RunProbe{Binding: "verified", Action: "none", By: "human:cli"})

	// Under an agent's epoch it moves nothing, and says what it found.
	l := w.acquire("token-a")
	epoch := w.slot().Epoch
	id := w.must(core.RunProbe{Binding: "verified", By: "human:cli"}).Probe
	w.refused(core.CodeBusy, core.RunProbe{Binding: "verified", By: "human:cli"})
	p := w.looking()
	if p.Probe != id || p.Epoch != epoch || p.AskedBy != "human:cli" {
		t.Fatalf("%s", dump(p))
	}
	w.act(l, core.Read) // goes on beside it
	w.must(seen(p, "eve@shop.example"))
	w.verdict(id, "mismatch")
	if w.slot().Epoch != epoch || w.s.Leases[l.ID].State != core.LeaseActive {
		t.Fatal("a probe moved control")
	}
	w.pass(2000)
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.refused(core.CodeBusy, core.RunProbe{Binding: "verified", By: "human:cli"}) // its work is being drained
	w.pass(core.FenceAckMs + 1)
	w.refused(core.CodeUnavailable, core.RunProbe{Binding: "verified", By: "human:cli"}) // unacknowledged
}

// unknownSave is a save of the probed binding whose result nobody knows.
func unknownSave(t *testing.T) (*world, *core.Action) {
	w := withProbe(t)
	w.waits("l")
	w.must(seen(w.looking(), "ada@shop.example"))
	w.must(core.Pull{Slot: "shop", Nonce: nonce, Ask: 1})
	w.must(core.Granted{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
	w.must(core.Claim{Lease: "l", Cap: "cap-l"})
	a := w.act(w.s.Leases["l"], core.Write)
	w.refused(core.CodeConflict, core.RunProbe{Binding: "verified", Action: a.Action, By: "human:cli"}) // its lease has control
	w.finish(a, "unknown", 1, 3)
	w.release("l")
	w.drain(nonce, report(a, 1, "lost", 1, nil))
	if st := core.StatusOf(w.s, w.now, "shop"); len(st.Quarantine) != 1 || !strings.Contains(st.Quarantine[0].Resolve, "sessiondock probe verified --action "+string(a.Action)) {
		t.Fatalf("quarantine %s", dump(st.Quarantine))
	}
	return w, a
}

func TestAProbeResolvesAnUnknownEffect(t *testing.T) {
	for text, want := range map[string]core.Remote{"3 changes": core.Applied, "no changes": core.NotApplied, "no\n  change": core.NotApplied} {
		w, a := unknownSave(t)
		w.must(core.RunProbe{Binding: "verified", Action: a.Action, By: "human:cli"})
		p := w.looking()
		w.must(seen(p, text))
		w.want(a, core.LocalUnknown, want)
		w.verdict(p.Probe, string(want))
		got := w.s.Actions[a.Action]
		r := got.Resolution
		if r.By != "system" || r.AskedBy != "human:cli" || r.Rule != "probe" || r.AtMs != w.now.WallMs || r.Note == "" {
			t.Errorf("resolution %s", dump(r))
		}
		row := got.Evidence[slices.IndexFunc(got.Evidence, func(e core.Evidence) bool { return e.Kind == "probe" })]
		if row.URL != "https://shop.example/changes" || row.Rule != "probe" || row.Source != "extension" {
			t.Errorf("evidence %s", dump(row))
		}
		if !core.StatusOf(w.s, w.now, "shop").Offer.Available {
			t.Errorf("still quarantined: %s", dump(core.StatusOf(w.s, w.now, "shop").Offer))
		}
		w.refused(core.CodeConflict, core.RunProbe{Binding: "verified", Action: a.Action, By: "human:cli"}) // it is settled
	}
}

func TestAProbeThatCannotTellLeavesAnEffectUnknown(t *testing.T) {
	both := probeOf("x").Effect
	both.NotApplied = ".*"
	for _, in := range []func(core.Probing) core.ProbeDone{
		func(p core.Probing) core.ProbeDone { return seen(p, "the shop is closed") },
		func(p core.Probing) core.ProbeDone { return seen(p, "3 changes, and more") },
		func(p core.Probing) core.ProbeDone { return unseen(p, "silent") },
		func(p core.Probing) core.ProbeDone { return unseen(p, "several") },
	} {
		w, a := unknownSave(t)
		w.must(core.RunProbe{Binding: "verified", Action: a.Action, By: "human:cli"})
		p := w.looking()
		w.must(in(p))
		w.want(a, core.LocalUnknown, core.NoneSeen)
		w.verdict(p.Probe, "unknown")
		got := w.s.Actions[a.Action]
		if got.Resolution != nil || len(core.StatusOf(w.s, w.now, "shop").Quarantine) != 1 {
			t.Errorf("%s", dump(got))
		}
		if last := got.Evidence[len(got.Evidence)-1]; last.Kind != "probe" || !strings.HasPrefix(last.Text, "unknown: ") {
			t.Errorf("it is not said that it stays unknown: %s", dump(last))
		}
		w.never("the shop is closed")
	}
	w, a := unknownSave(t)
	b := *w.s.Bindings["verified"]
	b.Probe = &core.ProbeSpec{Effect: both}
	w.s.Bindings["verified"] = &b
	w.must(core.RunProbe{Binding: "verified", Action: a.Action, By: "human:cli"})
	w.must(seen(w.looking(), "1 change"))
	if got := w.s.Actions[a.Action]; got.Resolution != nil {
		t.Errorf("both patterns match, and the verdict is %s", dump(got.Resolution))
	}
}

// A person may have decided while the page was being looked at.
func TestAPersonsVerdictStandsBeforeAProbes(t *testing.T) {
	w, a := unknownSave(t)
	w.must(core.RunProbe{Binding: "verified", Action: a.Action, By: "human:cli"})
	p := w.looking()
	w.must(core.Resolve{Action: a.Action, Verdict: core.Applied, By: "human:cli"})
	w.must(seen(p, "no changes"))
	if r := w.s.Actions[a.Action].Resolution; r.By != "human:cli" || r.Verdict != core.Applied {
		t.Errorf("resolution %s", dump(r))
	}
	if got := w.verdict(p.Probe, "not_applied"); !strings.Contains(got.Why, "is settled") {
		t.Errorf("why: %q", got.Why)
	}
}

// What is still on its way is not judged by what the website shows before it has
// arrived.
func TestAnEffectThatMaySettleIsNotProbed(t *testing.T) {
	w := withProbe(t)
	w.waits("l")
	w.must(seen(w.looking(), "ada@shop.example"))
	w.must(core.Pull{Slot: "shop", Nonce: nonce, Ask: 1})
	w.must(core.Granted{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
	w.must(core.Claim{Lease: "l", Cap: "cap-l"})
	a := w.act(w.s.Leases["l"], core.Write)
	w.finish(a, "finished", 3, 3)
	w.release("l")
	w.drain(nonce, report(a, 1, "barrier", 0, post("in_flight", 0)))
	w.want(a, core.Finished, core.InFlight)
	w.refused(core.CodeBusy, core.RunProbe{Binding: "verified", Action: a.Action, By: "human:cli"})
}

func TestPatternsMatchTheWholeText(t *testing.T) {
	for text, want := range map[string]string{
		"ada@shop.example": "match", " \tada@shop.example\n": "match", "nada@shop.example": "mismatch", "ada@shop.example.evil": "mismatch",
		"ada@shopxexample": "mismatch", "eve ada@shop.example": "mismatch", "": "mismatch",
	} {
		w := withProbe(t)
		id := w.must(core.RunProbe{Binding: "verified", By: "human:cli"}).Probe
		w.must(seen(w.looking(), text))
		w.verdict(id, want)
	}
	// More than is compared may have gone on otherwise.
	w := withProbe(t)
	id := w.must(core.RunProbe{Binding: "verified", By: "human:cli"}).Probe
	long := seen(w.looking(), "ada@shop.example"+strings.Repeat(" ", core.MaxProbeText))
	long.Cut = true
	w.must(long)
	if got := w.verdict(id, "unknown"); len(got.Seen) > core.MaxProbeShown+10 {
		t.Errorf("%d bytes are shown", len(got.Seen))
	}
}

func TestProbesAreCheckedWhenTheyAreDeclared(t *testing.T) {
	page := core.ProbePage{URL: "https://shop.example/me", Selector: "#email"}
	account := func(p core.ProbePage, pattern string) *core.ProbeSpec {
		return &core.ProbeSpec{Account: &core.AccountProbe{ProbePage: p, Pattern: pattern}}
	}
	at := func(url string) core.ProbePage { return core.ProbePage{URL: url, Selector: "#email"} }
	for name, c := range map[string]struct {
		code core.Code
		spec *core.ProbeSpec
	}{
		"nothing":            {core.CodeInvalid, &core.ProbeSpec{}},
		"no pattern":         {core.CodeInvalid, account(page, "")},
		"a bad pattern":      {core.CodeInvalid, account(page, "ada(")},
		"a pattern's escape": {core.CodeInvalid, account(page, "a)|(.*")},
		"a long pattern":     {core.CodeLimit, account(page, strings.Repeat("a", core.MaxProbePattern+1))},
		"no selector":        {core.CodeInvalid, account(core.ProbePage{URL: page.URL}, "a")},
		"both":               {core.CodeInvalid, account(core.ProbePage{URL: page.URL, Selector: "#a", Expression: "1"}, "a")},
		"a long selector":    {core.CodeLimit, account(core.ProbePage{URL: page.URL, Selector: strings.Repeat("a", core.MaxProbeCode+1)}, "a")},
		"another origin":     {core.CodePolicy, account(at("https://bank.example/me"), "a")},
		"no website":         {core.CodeInvalid, account(at("about:blank"), "a")},
		"a file":             {core.CodeInvalid, account(at("file:///etc/passwd"), "a")},
		"a password":         {core.CodeInvalid, account(at("https://ada:pw@shop.example/me"), "a")},
		"a long wait":        {core.CodeInvalid, &core.ProbeSpec{Account: account(page, "a").Account, WaitMs: core.MaxProbeWaitMs + 1}},
		"no effect pattern":  {core.CodeInvalid, &core.ProbeSpec{Effect: &core.EffectProbe{ProbePage: page}}},
	} {
		w := withProbe(t)
		res := w.do(core.Bind{Spec: core.BindingSpec{Name: "new", Slot: "shop", Origins: []string{"https://shop.example"}, Probe: c.spec}, By: "human:cli"})
		if res.Refusal == nil || res.Refusal.Code != c.code {
			t.Errorf("%s: want %s, got %v", name, c.code, res.Refusal)
		}
	}
	w := withProbe(t)
	w.refused(core.CodeInvalid, core.Bind{Spec: core.BindingSpec{Name: "new", Slot: "shop", Account: "none", Probe: account(page, "a")}, By: "human:cli"})
	w.must(core.Bind{Spec: core.BindingSpec{Name: "new", Slot: "shop", Probe: account(page, "a")}, By: "human:cli"})
	w.must(core.Bind{Spec: core.BindingSpec{Name: "new", Slot: "shop", Probe: account(page, "a")}, By: "human:cli"}) // the same again
	w.refused(core.CodeConflict, core.Bind{Spec: core.BindingSpec{Name: "new", Slot: "shop", Probe: account(page, "b")}, By: "human:cli"})
	w.must(core.RemoveBinding{Name: "verified", By: "human:cli"})
}

// A browser that turns out to have seen more than the database while it is looked at: the
// look is over with the epoch that it was made under.
func TestAProbeEndsWithARegression(t *testing.T) {
	w := withProbe(t)
	w.must(core.RunProbe{Binding: "verified", By: "human:cli"})
	w.looking()
	w.must(core.Hello{Slot: "shop", Nonce: nonce, Instance: instance, Mark: w.slot().Ceiling + 5})
	if p := w.s.Probes["shop"]; p != nil && p.Running != nil {
		t.Errorf("it goes on: %s", dump(p))
	}
}
