package core_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

var update = flag.Bool("update", false, "write testdata/grid.txt anew; read the difference before you commit it")

// gridStates are the states a slot can be in, as far as control goes. Each builder
// returns the world and a lease to speak of (which may have ended).
var gridStates = []struct {
	name  string
	build func(*testing.T) (*world, *core.Lease)
}{
	{"stopped", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		w.must(core.StopSlot{Slot: "shop", By: "human:cli"})
		w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "stopped"})
		return w, nil
	}},
	{"free", func(t *testing.T) (*world, *core.Lease) { return prepared(t), nil }},
	{"granted", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		w.must(core.Acquire{Lease: "l", Token: "token-a", CapHash: "cap-l", RequestID: "r", Binding: "admin", ForMs: 60_000})
		return w, w.s.Leases["l"]
	}},
	{"active", func(t *testing.T) (*world, *core.Lease) { w := prepared(t); return w, w.acquire("token-a") }},
	{"acting", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		l := w.acquire("token-a")
		w.act(l, core.Write)
		return w, l
	}},
	{"asking", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		l := w.acquire("token-a")
		w.must(core.AskPerson{Lease: l.ID, Cap: l.CapHash, Reason: "sign in"})
		w.must(core.Retain{Lease: l.ID, Cap: l.CapHash, ID: "ret-0", ForMs: 60_000_000, Reason: "long work"})
		return w, w.s.Leases[l.ID]
	}},
	{"retained", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		l := w.acquire("token-a")
		w.must(core.Retain{Lease: l.ID, Cap: l.CapHash, ID: "ret-0", ForMs: 60_000_000, Reason: "long work"})
		w.must(core.DecideRetention{Lease: l.ID, ID: "ret-0", Approved: true, By: "human:cli"})
		return w, w.s.Leases[l.ID]
	}},
	{"keyed", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		w.must(core.Acquire{Lease: "l", Token: "token-a", CapHash: "cap-l", RequestID: "r", Binding: "admin", ForMs: 60_000, Keys: []string{"shop:1"}})
		w.must(core.Claim{Lease: "l", Cap: "cap-l"})
		return w, w.s.Leases["l"]
	}},
	{"stopped-granted", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		w.must(core.StopSlot{Slot: "shop", By: "human:cli"})
		w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, How: "stopped"})
		w.must(core.Acquire{Lease: "l", Token: "token-a", CapHash: "cap-l", RequestID: "r", Binding: "admin", ForMs: 60_000})
		return w, w.s.Leases["l"]
	}},
	{"taken-pending", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		l := w.acquire("token-a")
		w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
		return w, l
	}},
	{"taken-drained", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		l := w.acquire("token-a")
		w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
		w.drain(nonce)
		return w, l
	}},
	{"suspended", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		l := w.acquire("token-a")
		w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"})
		w.connect(nonce, instance)
		return w, l
	}},
	{"released-pending", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		l := w.acquire("token-a")
		w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
		return w, l
	}},
	{"unacknowledged", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		l := w.acquire("token-a")
		w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
		w.pass(core.FenceAckMs + 1)
		return w, l
	}},
	{"quarantined", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		l := w.acquire("token-a")
		a := w.act(l, core.Write)
		w.must(core.Release{Lease: l.ID, Cap: l.CapHash})
		w.finish(a, "unknown", 1, 3)
		r := report(a, 1, "lost", 1, nil)
		w.drain(nonce, r)
		return w, l
	}},
	{"launch-unknown", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: false, How: "two processes could not be accounted for"})
		return w, nil
	}},
	{"regression", func(t *testing.T) (*world, *core.Lease) {
		w := prepared(t)
		w.must(core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"})
		w.must(core.LinkUp{Slot: "shop", Nonce: nonce})
		w.must(core.Hello{Slot: "shop", Nonce: nonce, Instance: instance, Mark: w.slot().Ceiling + 1})
		return w, nil
	}},
	{"looking", func(t *testing.T) (*world, *core.Lease) {
		w := withProbe(t)
		w.waits("l")
		return w, w.s.Leases["l"]
	}},
	{"looking-asked", func(t *testing.T) (*world, *core.Lease) {
		w := withProbe(t)
		l := w.acquire("token-a")
		w.must(core.RunProbe{Binding: "verified", By: "human:cli"})
		return w, l
	}},
	{"mismatched", func(t *testing.T) (*world, *core.Lease) {
		w := withProbe(t)
		w.must(core.RunProbe{Binding: "verified", By: "human:cli"})
		w.must(seen(w.looking(), "eve@shop.example"))
		return w, nil
	}},
	{"untold", func(t *testing.T) (*world, *core.Lease) {
		w, a := unknownSave(t)
		w.waits("m")
		w.must(core.RunProbe{Binding: "verified", Action: a.Action, By: "human:cli"})
		return w, w.s.Leases["m"]
	}},
	{"removed", func(t *testing.T) (*world, *core.Lease) {
		w := newWorld(t)
		w.must(core.CreateSlot{Name: "shop", By: "human:cli"})
		w.must(core.RemoveSlot{Name: "shop", By: "human:cli"})
		return w, nil
	}},
}

// gridInputs is every kind of input, as an honest party would send it in that state.
func gridInputs(w *world, l *core.Lease) []core.Input {
	if l == nil {
		l = &core.Lease{ID: "none", CapHash: "none"}
	}
	s := w.slot()
	launch := core.LaunchID("none")
	if s.Launch != nil {
		launch = s.Launch.ID
	}
	action := core.ActionID("none")
	var epoch core.Epoch
	if as := w.s.OpenActions("shop"); len(as) > 0 {
		action, epoch = as[0].Action, as[0].Epoch
	}
	probe := core.ProbeDone{Slot: "shop", Nonce: nonce, Probe: "none", Epoch: s.Epoch, State: "seen", Text: "ada@shop.example"}
	if p := w.s.Probes["shop"]; p != nil && p.Running != nil {
		if probe.Probe = p.Running.Probe; p.Running.Kind == "effect" {
			probe.Text = "1 change"
		}
	}
	return []core.Input{
		core.CreateSlot{Name: "shop", By: "human:cli"},
		core.RemoveSlot{Name: "shop", By: "human:cli"},
		core.Bind{Spec: core.BindingSpec{Name: "other", Slot: "shop", Account: "none"}, By: "human:cli"},
		core.RemoveBinding{Name: "admin", By: "human:cli"},
		core.RevokeDelegation{ID: "d1", By: "human:cli"},
		core.Confirm{Binding: "admin", By: "human:cli"},
		core.Confirm{Binding: "signed", By: "human:cli"},
		core.AskPerson{Lease: l.ID, Cap: l.CapHash, Reason: "a second factor"},
		core.AnswerAsk{Lease: l.ID, Granted: true, By: "human:cli"},
		core.Retain{Lease: l.ID, Cap: l.CapHash, ID: "ret", ForMs: 60_000, Reason: "more to do"},
		core.DecideRetention{Lease: l.ID, ID: "ret-0", Approved: true, By: "human:cli"},
		core.Acknowledge{Lease: l.ID, Cap: l.CapHash, ID: "ret-0"},
		core.RunProbe{Binding: "verified", By: "human:cli"},
		core.RunProbe{Binding: "verified", Action: action, By: "human:cli"},
		probe,
		core.Acquire{Lease: "new", Token: "token-p", CapHash: "c", RequestID: "r9", Binding: "verified", ForMs: 60_000, WaitMs: 60_000},
		core.Measured{MemoryMB: map[core.SlotName]int64{"shop": 500}},
		core.Bypassed{Slot: "shop", Launch: launch, Ways: []string{"a port"}},
		core.Overdue{Action: action},
		core.Delegate{ID: "d9", Hash: "h9", Binding: "admin", Agent: "agent-c", By: "human:cli"},
		core.Acquire{Lease: "new", Token: "token-b", CapHash: "c", RequestID: "r9", Binding: "admin", ForMs: 60_000},
		core.Claim{Lease: l.ID, Cap: l.CapHash},
		core.Renew{Lease: l.ID, Cap: l.CapHash, ForMs: 60_000},
		core.Release{Lease: l.ID, Cap: l.CapHash},
		core.Resume{Lease: l.ID, Cap: l.CapHash},
		core.Revoke{Lease: l.ID, By: "human:cli"},
		core.CancelWait{Lease: l.ID, Why: "gone"},
		core.Act{Action: "new", Lease: l.ID, Cap: l.CapHash, ID: "01ARZ3NDEKTSV4RRFFQ6999999", Epoch: s.Epoch, Verb: "click", Class: core.Write, DeadlineMs: 1000},
		core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"},
		core.Handback{Slot: "shop", By: "human:cli"},
		core.Handback{Slot: "shop", To: "agent-a", Confirm: true, By: "human:cli"},
		core.StopPage{Slot: "shop", By: "human:cli"},
		core.StartSlot{Slot: "shop", By: "human:cli"},
		core.StopSlot{Slot: "shop", By: "human:cli"},
		core.Resolve{Action: action, Verdict: core.Applied, By: "human:cli"},
		core.Lift{Slot: "shop", Note: "looked", By: "human:cli"},
		core.Adopt{Slot: "shop", Note: "restored", By: "human:cli"},
		core.LinkUp{Slot: "shop", Nonce: "n2"},
		core.Hello{Slot: "shop", Nonce: nonce, Instance: instance},
		core.LinkLost{Slot: "shop", Nonce: nonce, Why: "EOF"},
		core.Fenced{Slot: "shop", Nonce: nonce, Epoch: s.Epoch},
		core.Drained{Slot: "shop", Nonce: nonce, Epoch: s.Epoch},
		core.DocumentEnded{Slot: "shop", Nonce: nonce, Document: "D1", How: "closed"},
		core.Reported{Slot: "shop", Nonce: nonce, Report: core.Report{Action: action, Rev: 9, How: "open"}},
		core.Pull{Slot: "shop", Nonce: nonce, Ask: 1},
		core.Granted{Slot: "shop", Nonce: nonce, Epoch: s.Epoch},
		core.Done{Slot: "shop", Nonce: nonce, Action: action, Epoch: epoch, State: "finished"},
		core.LaunchStarting{Slot: "shop", Generation: s.Generation + 1, Launch: "new", SecretHash: "s"},
		core.LaunchRunning{Slot: "shop", Launch: launch, Identity: core.Identity{Containment: "weak"}},
		core.LaunchEnded{Slot: "shop", Launch: launch, Verified: true, How: "ended"},
		core.LaunchEnded{Slot: "shop", Launch: launch, Verified: true, Clean: true, How: "ended at SIGINT"},
		core.Saved{Slot: "shop", Launch: launch, Binding: "signed", How: "written"},
		core.LaunchEnded{Slot: "shop", Launch: launch, Verified: false, How: "not known"},
		core.Trim{UpTo: 1, Why: "older than 90 days"},
		core.Restarted{},
		core.Tick{},
	}
}

// TestGrid meets every state with every input. What comes of each stands in
// testdata/grid.txt, so that a change of any of them is seen and has to be meant.
func TestGrid(t *testing.T) {
	var out strings.Builder
	for _, state := range gridStates {
		build := func() (*world, *core.Lease) {
			w, l := state.build(t)
			w.declareProbe() // refused if it is there already, or the slot is not
			return w, l
		}
		w, l := build()
		for i := range gridInputs(w, l) {
			w, l := build()
			in := gridInputs(w, l)[i]
			epoch, sent := w.slot().Epoch, len(w.sent)
			res := w.do(in)
			verdict := "ok"
			if res.Refusal != nil {
				verdict = string(res.Refusal.Code)
			}
			var effects []string
			for _, e := range w.sent[sent:] {
				effects = append(effects, strings.TrimPrefix(fmt.Sprintf("%T", e), "core."))
			}
			s := w.slot()
			launch := "none"
			if s.Launch != nil {
				launch = s.Launch.State
			}
			fmt.Fprintf(&out, "%-17s %-15s %-17s epoch+%d holder=%-5s fence=%-14s launch=%-8s offer=%-5v %s\n", state.name,
				strings.TrimPrefix(fmt.Sprintf("%T", in), "core."), verdict, s.Epoch-epoch, s.Holder.Kind, s.Fence.State, launch,
				core.StatusOf(w.s, w.now, "shop").Offer.Available, strings.Join(effects, " "))
		}
	}
	const file = "testdata/grid.txt"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantLines, gotLines := strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")
	if len(wantLines) != len(gotLines) {
		t.Errorf("%d rows, the file has %d", len(gotLines), len(wantLines))
	}
	for i := range min(len(wantLines), len(gotLines)) {
		if wantLines[i] != gotLines[i] {
			t.Errorf("want %s\n got %s", wantLines[i], gotLines[i])
		}
	}
}
