package core_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"sessiondock.dev/sessiondock/daemon/core"
)

// TestInvariantsHoldUnderAnyOrder throws random inputs, with honest, stale and
// forged values, at the core; world.do checks every invariant after each step.
func TestInvariantsHoldUnderAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: rt, s: core.NewState(), lean: lean(), now: core.Now{BootID: "boot-1", BootMs: 1000, WallMs: 1_000_000}, floor: map[core.SlotName]core.Epoch{}}
		for _, name := range []core.SlotName{"shop", "desk"} {
			w.must(core.CreateSlot{Name: name, By: "human:test"})
			w.must(core.Bind{Spec: core.BindingSpec{Name: core.BindingName("b-" + name), Slot: name, Account: "none", Budget: core.Budget{Actions: 20, PerMinute: 10}, Probe: &core.ProbeSpec{Effect: probeOf("none").Effect}}, By: "human:test"})
			w.must(core.Bind{Spec: core.BindingSpec{Name: core.BindingName("p-" + name), Slot: name, Account: "ada@shop.example", Probe: probeOf("ada@shop\\.example")}, By: "human:test"})
			w.must(core.Delegate{ID: core.DelegationID("p-" + name), Hash: "token-p-" + string(name), Binding: core.BindingName("p-" + name), Agent: "agent-p", By: "human:test"})
			for _, agent := range []string{"agent-a", "agent-b"} {
				w.must(core.Delegate{ID: core.DelegationID(agent + string(name)), Hash: "token-" + agent + string(name), Binding: core.BindingName("b-" + name), Agent: core.AgentName(agent), By: "human:test"})
			}
		}
		if rapid.Bool().Draw(rt, "prepared") {
			w.launch() // by chance alone a browser hardly ever comes up and is drained
			w.connect("nonce-0", "worker-1")
		}
		w.s.Capacity = core.Capacity{Browsers: rapid.SampledFrom([]int{0, 1}).Draw(rt, "capacity")}
		issued := map[core.SlotName]core.Epoch{}
		for range rapid.IntRange(5, 80).Draw(rt, "steps") {
			before := map[core.SlotName]core.Epoch{}
			for n, s := range w.s.Slots {
				before[n] = s.Epoch
			}
			w.do(randomInput(rt, w))
			for n, s := range w.s.Slots {
				if s.Epoch != before[n] && s.Epoch <= issued[n] && s.Epoch <= w.floor[n] {
					rt.Fatalf("I1: epoch %d of %s was issued before (%d)", s.Epoch, n, issued[n])
				}
				issued[n] = max(issued[n], s.Epoch)
			}
		}
	})
}

func randomInput(rt *rapid.T, w *world) core.Input {
	slot := rapid.SampledFrom([]core.SlotName{"shop", "desk"}).Draw(rt, "slot")
	s, link := w.s.Slots[slot], w.s.Links[slot]
	agent := rapid.SampledFrom([]string{"agent-a", "agent-b"}).Draw(rt, "agent")
	var lease *core.Lease
	if ls := w.s.LiveLeases(slot); len(ls) > 0 {
		lease = ls[rapid.IntRange(0, len(ls)-1).Draw(rt, "lease")]
	}
	var action *core.Action
	if as := w.s.OpenActions(slot); len(as) > 0 {
		action = as[rapid.IntRange(0, len(as)-1).Draw(rt, "action")]
	}
	n := link.Nonce
	if rapid.IntRange(0, 9).Draw(rt, "stale") == 0 {
		n = "stale-nonce"
	}
	var reports []core.Report
	for _, a := range w.s.OpenActions(slot) {
		if a.Sent && rapid.Bool().Draw(rt, "listed") {
			reports = append(reports, randomReport(rt, a))
		}
	}
	epoch := s.Epoch - core.Epoch(rapid.IntRange(0, 1).Draw(rt, "behind"))
	switch kind := rapid.IntRange(-4, 24).Draw(rt, "kind"); kind {
	case -4:
		id := core.LeaseID(w.id("lease"))
		return core.Acquire{
			Lease: id, Token: "token-p-" + string(slot), CapHash: "cap-" + string(id), RequestID: w.id("r"), Binding: core.BindingName("p-" + slot),
			WaitMs: int64(rapid.SampledFrom([]int{0, 20_000}).Draw(rt, "wait")),
		}
	case -3:
		in := core.RunProbe{Binding: core.BindingName("p-" + slot), By: "human:cli"}
		if action != nil && rapid.Bool().Draw(rt, "effect") {
			in.Action, in.Binding = action.Action, action.Binding
		}
		return in
	case -2:
		if rapid.Bool().Draw(rt, "attest") {
			return core.Confirm{Binding: core.BindingName("p-" + slot), By: "human:cli"}
		}
		fallthrough
	case -1:
		in := core.ProbeDone{
			Slot: slot, Nonce: n, Epoch: epoch, State: rapid.SampledFrom([]string{"seen", "seen", "absent", "refused"}).Draw(rt, "state"),
			Text: rapid.SampledFrom([]string{"ada@shop.example", "eve@shop.example", "1 change", "no changes", "else"}).Draw(rt, "text"),
		}
		if p := w.s.Probes[slot]; p != nil && p.Running != nil {
			in.Probe = p.Running.Probe
		}
		return in
	case 0, 1:
		id := core.LeaseID(w.id("lease"))
		return core.Acquire{
			Lease: id, Token: "token-" + agent + string(slot), CapHash: "cap-" + string(id), RequestID: w.id("r"), Binding: core.BindingName("b-" + slot),
			ForMs: int64(rapid.IntRange(1000, 100_000).Draw(rt, "for")), WaitMs: int64(rapid.SampledFrom([]int{0, 20_000}).Draw(rt, "wait")),
			Keys: rapid.SampledFrom([][]string{nil, {"k1"}, {"k1:shared"}, {"k1", "k2"}, {"k2"}}).Draw(rt, "keys"),
		}
	case 2:
		if rapid.IntRange(0, 9).Draw(rt, "adopt") == 0 {
			return core.Adopt{Slot: slot, Note: "on purpose", By: "human:cli"}
		}
		if rapid.Bool().Draw(rt, "issued") {
			// The register has issued a number; what comes first is decided above it.
			w.floor[slot] = max(w.floor[slot], s.Epoch) + 1
			if w.floor[slot] > s.Ceiling {
				delete(w.floor, slot)
				return core.Tick{}
			}
			in := core.Takeover{Slot: slot, Epoch: w.floor[slot], Surface: "popup", By: "human:popup"}
			if rapid.Bool().Draw(rt, "overtaken") {
				w.do(randomInput(rt, w))
			}
			w.do(in)
			if h := w.s.Slots[slot].Holder; h.Kind != "human" {
				rt.Fatalf("a takeover that was issued left holder %+v", h)
			}
			return core.Tick{}
		}
		return core.Takeover{Slot: slot, Surface: "popup", Hold: core.HoldID(rapid.SampledFrom([]string{"", "h1", "h2"}).Draw(rt, "hold")), FromPerson: rapid.Bool().Draw(rt, "from"), By: "human:popup"}
	case 3:
		to := core.AgentName("")
		if rapid.Bool().Draw(rt, "back") {
			to = core.AgentName(agent)
		}
		return core.Handback{Slot: slot, To: to, Confirm: rapid.Bool().Draw(rt, "confirm"), By: "human:popup"}
	case 4:
		return core.StartSlot{Slot: slot, By: "human:cli"}
	case 5:
		return core.LaunchStarting{Slot: slot, Generation: s.Generation + 1, Launch: core.LaunchID(w.id("launch")), SecretHash: "s"}
	case 6:
		if s.Launch == nil {
			return core.Tick{}
		}
		return core.LaunchRunning{Slot: slot, Launch: s.Launch.ID, Identity: core.Identity{Containment: "weak", KeeperPID: 1, KeeperStart: 2}}
	case 7:
		if s.Launch == nil {
			return core.Tick{}
		}
		return core.LaunchEnded{Slot: slot, Launch: s.Launch.ID, Verified: rapid.Bool().Draw(rt, "verified"), Clean: rapid.Bool().Draw(rt, "clean"), How: "test"}
	case 8:
		return core.LinkUp{Slot: slot, Nonce: core.Nonce(w.id("nonce"))}
	case 9:
		mark := s.Epoch
		if rapid.IntRange(0, 19).Draw(rt, "regression") == 0 {
			mark = s.Ceiling + 3
		}
		return core.Hello{
			Slot: slot, Nonce: n, Instance: core.InstanceID(fmt.Sprintf("worker-%d", rapid.IntRange(1, 2).Draw(rt, "worker"))),
			Anew: rapid.IntRange(0, 3).Draw(rt, "anew") == 0,
			Mark: mark, Person: rapid.Bool().Draw(rt, "person"), Hold: core.HoldID(rapid.SampledFrom([]string{"", "", "h1", "h3"}).Draw(rt, "hold")), Reports: reports,
		}
	case 10:
		return core.LinkLost{Slot: slot, Nonce: n, Why: "test"}
	case 11:
		docs := []core.DocNow{}
		if rapid.Bool().Draw(rt, "doc") {
			docs = append(docs, core.DocNow{Document: "D1", Why: "agent_script"})
		}
		return core.Fenced{Slot: slot, Nonce: n, Epoch: epoch, Reports: reports, Documents: docs}
	case 12, 13:
		return core.Drained{Slot: slot, Nonce: n, Epoch: epoch, Reports: reports}
	case 14:
		return core.DocumentEnded{Slot: slot, Nonce: n, Document: "D1", How: "replaced"}
	case 15:
		return core.Pull{Slot: slot, Nonce: n, Ask: 1}
	case 16, 17:
		return core.Granted{Slot: slot, Nonce: n, Epoch: epoch}
	case 18:
		w.now.BootMs += int64(rapid.SampledFrom([]int{10, 3000, 6000, 40_000}).Draw(rt, "pass"))
		return core.Tick{}
	}
	if lease == nil {
		return core.Tick{}
	}
	switch rapid.IntRange(0, 13).Draw(rt, "of lease") {
	case 10:
		return core.AskPerson{Lease: lease.ID, Cap: lease.CapHash, Reason: "look"}
	case 11:
		return core.AnswerAsk{Lease: lease.ID, Granted: true, By: "human:cli"}
	case 12:
		return core.Retain{Lease: lease.ID, Cap: lease.CapHash, ID: "ret", ForMs: 200_000, Reason: "more"}
	case 13:
		if rapid.Bool().Draw(rt, "decide") {
			return core.DecideRetention{Lease: lease.ID, ID: "ret", Approved: rapid.Bool().Draw(rt, "approved"), By: "human:cli"}
		}
		return core.Acknowledge{Lease: lease.ID, Cap: lease.CapHash, ID: "ret"}
	case 0:
		return core.Claim{Lease: lease.ID, Cap: lease.CapHash}
	case 1:
		return core.Renew{Lease: lease.ID, Cap: lease.CapHash, ForMs: 5000}
	case 2:
		return core.Release{Lease: lease.ID, Cap: lease.CapHash}
	case 3:
		return core.Resume{Lease: lease.ID, Cap: lease.CapHash}
	case 4:
		return core.CancelWait{Lease: lease.ID, Why: "gone"}
	case 5, 6:
		class := rapid.SampledFrom([]core.Class{core.Read, core.Write}).Draw(rt, "class")
		id := w.clientID()
		if rapid.IntRange(0, 4).Draw(rt, "again") == 0 {
			id = "01ARZ3NDEKTSV4RRFFQ6AGA1N0" // often used before: it runs once (I7)
		}
		return core.Act{
			Action: core.ActionID(w.id("action")), Lease: lease.ID, Cap: lease.CapHash, ID: id, Epoch: epoch,
			Verb: rapid.SampledFrom([]string{"click", "evaluate"}).Draw(rt, "verb"), Class: class, Summary: "click", BodyHash: "h", DeadlineMs: 10_000,
		}
	case 7:
		if action != nil {
			return core.Reported{Slot: slot, Nonce: n, Report: randomReport(rt, action)}
		}
	case 8:
		if action != nil {
			return core.Done{
				Slot: slot, Nonce: n, Action: action.Action, Epoch: action.Epoch, Steps: core.Steps{Dispatched: 1, Total: 3},
				State: rapid.SampledFrom([]string{"finished", "failed", "refused", "halted", "unknown"}).Draw(rt, "state"),
			}
		}
	case 9:
		if action != nil && rapid.Bool().Draw(rt, "resolve") {
			return core.Resolve{Action: action.Action, Verdict: core.Applied, By: "human:cli"}
		}
		return core.Lift{Slot: slot, Note: "looked", By: "human:cli"}
	}
	if rapid.IntRange(0, 4).Draw(rt, "restart") == 0 {
		w.s.Links = map[core.SlotName]core.LinkState{}
		return core.Restarted{}
	}
	return core.Tick{}
}

func randomReport(rt *rapid.T, a *core.Action) core.Report {
	r := core.Report{
		Action: a.Action, Rev: a.Rev + int64(rapid.IntRange(-1, 1).Draw(rt, "rev")), Dispatched: rapid.IntRange(0, 3).Draw(rt, "dispatched"),
		Open: rapid.IntRange(0, 1).Draw(rt, "open"), Document: "D1", Tab: 1, Script: rapid.Bool().Draw(rt, "script"),
		How: rapid.SampledFrom([]string{"open", "barrier", "ended", "lost"}).Draw(rt, "how"),
	}
	if rapid.Bool().Draw(rt, "request") {
		r.Requests = map[string]core.SeenCall{"1": {
			Method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(rt, "method"), Type: "xmlhttprequest", Rule: "document",
			State: rapid.SampledFrom([]string{"in_flight", "answered", "failed"}).Draw(rt, "call"), Status: rapid.SampledFrom([]int{200, 404, 500}).Draw(rt, "status"), Error: "net::ERR_ABORTED",
		}}
	}
	return r
}
