package core_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// forgery is an input as somebody would send it who may not, or who is behind.
type forgery struct {
	what string
	in   core.Input
}

func forgeries(w *world, l *core.Lease) []forgery {
	if l == nil {
		l = &core.Lease{ID: "none", CapHash: "none"}
	}
	s := w.slot()
	ahead, behind := s.Epoch+1, s.Epoch-1
	action, epoch := core.ActionID("none"), core.Epoch(1)
	if as := w.s.OpenActions("shop"); len(as) > 0 {
		action, epoch = as[0].Action, as[0].Epoch
	}
	act := core.Act{Action: "new", Lease: l.ID, Cap: l.CapHash, ID: "01ARZ3NDEKTSV4RRFFQ6999999", Epoch: s.Epoch, Verb: "click", Class: core.Write, DeadlineMs: 1000}
	with := func(change func(*core.Act)) core.Act { a := act; change(&a); return a }
	acquire := func(change func(*core.Acquire)) core.Acquire {
		a := core.Acquire{Lease: "new", Token: "token-b", CapHash: "c", RequestID: "r9", Binding: "admin", ForMs: 60_000}
		change(&a)
		return a
	}
	return []forgery{
		{"claim, another's capability", core.Claim{Lease: l.ID, Cap: "guessed"}},
		{"claim, no capability", core.Claim{Lease: l.ID}},
		{"renew, another's capability", core.Renew{Lease: l.ID, Cap: "guessed", ForMs: 60_000}},
		{"renew, for ever", core.Renew{Lease: l.ID, Cap: l.CapHash, ForMs: core.MaxLeaseMs + 1}},
		{"release, another's capability", core.Release{Lease: l.ID, Cap: "guessed"}},
		{"resume, another's capability", core.Resume{Lease: l.ID, Cap: "guessed"}},
		{"ask, another's capability", core.AskPerson{Lease: l.ID, Cap: "guessed", Reason: "let me"}},
		{"retain, another's capability", core.Retain{Lease: l.ID, Cap: "guessed", ID: "ret", ForMs: 60_000, Reason: "more"}},
		{"acknowledge, another's capability", core.Acknowledge{Lease: l.ID, Cap: "guessed", ID: "ret-0"}},
		{"leave the queue, another's capability", core.CancelWait{Lease: l.ID, Cap: "guessed", Why: "gone"}},
		{"act, another's capability", with(func(a *core.Act) { a.Cap = "guessed" })},
		{"act, an epoch to come", with(func(a *core.Act) { a.Epoch = ahead })},
		{"act, an epoch that has ended", with(func(a *core.Act) { a.Epoch = behind })},
		{"act, no identifier", with(func(a *core.Act) { a.ID = "" })},
		{"acquire, no delegation", acquire(func(a *core.Acquire) { a.Token = "" })},
		{"acquire, a delegation that was never made", acquire(func(a *core.Acquire) { a.Token = "guessed" })},
		{"acquire, another binding", acquire(func(a *core.Acquire) { a.Binding = "signed" })},
		{"acquire, another's name", acquire(func(a *core.Acquire) { a.Agent = "agent-a" })},
		{"acquire, longer than may be", acquire(func(a *core.Acquire) { a.ForMs = core.MaxLeaseMs })},
		{"takeover, at another epoch", core.Takeover{Slot: "shop", Surface: "cli", IfEpoch: &ahead, By: "human:cli"}},
		{"handback, at another epoch", core.Handback{Slot: "shop", IfEpoch: &behind, Confirm: true, By: "human:cli"}},
		{"stop, at another epoch", core.StopSlot{Slot: "shop", IfEpoch: &behind, By: "human:cli"}},
		{"start, at another epoch", core.StartSlot{Slot: "shop", IfEpoch: &behind, By: "human:cli"}},
		{"lift, at another epoch", core.Lift{Slot: "shop", Note: "looked", IfEpoch: &behind, By: "human:cli"}},
		{"adopt, at another epoch", core.Adopt{Slot: "shop", Note: "restored", IfEpoch: &behind, By: "human:cli"}},
		{"revoke, at another epoch", core.Revoke{Lease: l.ID, IfEpoch: &behind, By: "human:cli"}},
		{"resolve, at another epoch", core.Resolve{Action: action, Verdict: core.Applied, IfEpoch: &behind, By: "human:cli"}},
		{"resolve, no verdict of a person's", core.Resolve{Action: action, Verdict: core.InFlight, By: "human:cli"}},
		{"hello, a link that has ended", core.Hello{Slot: "shop", Nonce: "old", Instance: instance}},
		{"link lost, a link that has ended", core.LinkLost{Slot: "shop", Nonce: "old", Why: "EOF"}},
		{"fenced, a link that has ended", core.Fenced{Slot: "shop", Nonce: "old", Epoch: s.Epoch}},
		{"fenced, an epoch to come", core.Fenced{Slot: "shop", Nonce: nonce, Epoch: ahead}},
		{"fenced, an epoch that has ended", core.Fenced{Slot: "shop", Nonce: nonce, Epoch: behind}},
		{"drained, a link that has ended", core.Drained{Slot: "shop", Nonce: "old", Epoch: s.Epoch}},
		{"drained, an epoch that has ended", core.Drained{Slot: "shop", Nonce: nonce, Epoch: behind}},
		{"document ended, a link that has ended", core.DocumentEnded{Slot: "shop", Nonce: "old", Document: "D1", How: "closed"}},
		{"report, a link that has ended", core.Reported{Slot: "shop", Nonce: "old", Report: core.Report{Action: action, Rev: 9, How: "barrier"}}},
		{"report, of no action", core.Reported{Slot: "shop", Nonce: nonce, Report: core.Report{Action: "none", Rev: 9, How: "barrier"}}},
		{"pull, a link that has ended", core.Pull{Slot: "shop", Nonce: "old", Ask: 1}},
		{"granted, a link that has ended", core.Granted{Slot: "shop", Nonce: "old", Epoch: s.Epoch}},
		{"done, a link that has ended", core.Done{Slot: "shop", Nonce: "old", Action: action, Epoch: epoch, State: "finished"}},
		{"done, another epoch's", core.Done{Slot: "shop", Nonce: nonce, Action: action, Epoch: epoch + 1, State: "finished"}},
		{"probe done, another's", core.ProbeDone{Slot: "shop", Nonce: nonce, Probe: "guessed", Epoch: s.Epoch, State: "seen", Text: "ada@shop.example"}},
		{"starting, a generation to come", core.LaunchStarting{Slot: "shop", Generation: s.Generation + 2, Launch: "new", SecretHash: "s"}},
		{"running, a launch that was never made", core.LaunchRunning{Slot: "shop", Launch: "guessed", Identity: core.Identity{Containment: "full"}}},
		{"ended, a launch that was never made", core.LaunchEnded{Slot: "shop", Launch: "guessed", Verified: true, How: "ended"}},
		{"a slot's name with a path in it", core.CreateSlot{Name: "../shop", By: "human:cli"}},
		{"a binding without a slot", core.Bind{Spec: core.BindingSpec{Name: "other", Slot: "nowhere", Account: "none"}, By: "human:cli"}},
	}
}

// TestForgeries meets every state with inputs that are somebody else's, of a link or an
// epoch that has ended, or of one to come: none moves control, settles an action or has
// anything carried out (I1 to I7). How each is answered stands in testdata/forged.txt.
func TestForgeries(t *testing.T) {
	answers := map[string]map[string]bool{}
	var order []string
	for _, state := range gridStates {
		w, l := state.build(t)
		for i := range forgeries(w, l) {
			w, l := state.build(t)
			f := forgeries(w, l)[i]
			before, sent := standing(w), len(w.sent)
			res := w.do(f.in)
			answer := "nothing"
			if res.Refusal != nil {
				if answer = string(res.Refusal.Code); res.Refusal.Message == "" {
					t.Errorf("%s, %s: refused without a word", state.name, f.what)
				}
			}
			if got := standing(w); got != before {
				t.Errorf("%s, %s (%s):\nbefore %s\nafter  %s", state.name, f.what, answer, before, got)
			}
			for _, e := range w.sent[sent:] {
				if g, pulled := e.(core.SendGrant); !pulled || g.Epoch != 0 {
					t.Errorf("%s, %s (%s): %T is carried out", state.name, f.what, answer, e)
				}
			}
			if answers[f.what] == nil {
				answers[f.what] = map[string]bool{}
				order = append(order, f.what)
			}
			answers[f.what][answer] = true
		}
	}
	var out strings.Builder
	for _, what := range order {
		fmt.Fprintf(&out, "%-45s %s\n", what, strings.Join(slices.Sorted(maps.Keys(answers[what])), " "))
	}
	const file = "testdata/forged.txt"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != out.String() {
		t.Errorf("%v: want\n%s\ngot\n%s", err, want, out.String())
	}
}

// standing is who may act, what runs and what is known of it.
func standing(w *world) string {
	s := w.slot()
	text := fmt.Sprintf("epoch %d, %+v, lease %q, interrupted %q, fence %s, wanted %q, %d reasons", s.Epoch, s.Holder, s.Lease, s.Interrupted, s.Fence.State, s.Starting, len(s.Reasons))
	if l := s.Launch; l != nil {
		text += fmt.Sprintf(", launch %s %s", l.ID, l.State)
	}
	for _, id := range slices.Sorted(maps.Keys(w.s.Leases)) {
		l := w.s.Leases[id]
		state := l.State
		if state == core.LeaseGranted {
			state = core.LeaseActive // its own capability claims it, whatever else is asked with it
		}
		text += fmt.Sprintf(", lease %s %s %d", id, state, l.Expires.BootMs)
	}
	for _, id := range slices.Sorted(maps.Keys(w.s.Actions)) {
		a := w.s.Actions[id]
		text += fmt.Sprintf(", action %s %s %s", id, a.Local, a.Remote)
	}
	return text
}
