package store

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"sessiondock.dev/sessiondock/daemon/core"
)

// authority drives the real core with inputs that mostly fit its state, so that
// leases are granted, actions run and people take over. What the core decides must
// be what the schema takes.
type authority struct {
	state *core.State
	now   core.Now
	made  int
	// The choices come from a drawn seed: rapid prefers small numbers, and here
	// each must be as likely, or nothing gets as far as an action.
	random *rand.Rand
}

func (a *authority) pick(n int) int { return a.random.IntN(n) }

func (a *authority) id(kind string) string {
	a.made++
	return fmt.Sprintf("%s%06d", kind, a.made)
}

func (a *authority) input() core.Input {
	slot := core.SlotName(fmt.Sprintf("slot%d", a.pick(2)))
	binding := core.BindingName("of-" + slot)
	s := a.state.Slots[slot]
	if s == nil || s.Removed {
		return core.CreateSlot{Name: slot, Display: "headless", By: "human:cli"}
	}
	if a.state.Bindings[binding] == nil && a.pick(4) == 0 {
		return core.RemoveSlot{Name: slot, By: "human:cli"}
	}
	if a.state.Bindings[binding] == nil {
		return core.Bind{Spec: core.BindingSpec{Name: binding, Slot: slot, Account: "none"}, By: "human:cli"}
	}
	link := a.state.Links[slot]
	lease := a.state.Leases[s.Lease]
	var action core.ActionID
	if open := a.state.OpenActions(slot); len(open) > 0 {
		action = open[a.pick(len(open))].Action
	}
	switch a.pick(24) {
	case 0, 1, 2:
		return core.Acquire{Lease: core.LeaseID(a.id("l")), Person: true, CapHash: "cap", RequestID: a.id("r"), Binding: binding,
			Agent: core.AgentName(fmt.Sprintf("agent%d", a.pick(2))), ForMs: 60_000, WaitMs: 5_000, By: "human:cli"}
	case 3:
		return core.Delegate{ID: core.DelegationID(a.id("d")), Hash: a.id("h"), Binding: binding, Agent: "agent0", By: "human:cli"}
	case 4:
		for _, id := range sortedKeys(a.state.Delegations) {
			d := a.state.Delegations[id]
			return core.Acquire{Lease: core.LeaseID(a.id("l")), Token: d.Hash, CapHash: "cap", RequestID: a.id("r"), Binding: d.Binding, ForMs: 60_000, WaitMs: 5_000}
		}
	case 5, 6, 7:
		if !s.Launch.Live() && s.Starting == "" {
			return core.StartSlot{Slot: slot, By: "human:cli"}
		}
		if !s.Launch.Live() {
			return core.LaunchStarting{Slot: slot, Generation: s.Generation + 1, Launch: core.LaunchID(a.id("launch"))}
		}
		if s.Launch.State == "starting" {
			return core.LaunchRunning{Slot: slot, Launch: s.Launch.ID, Identity: core.Identity{Containment: "weak"}}
		}
		if link.Nonce == "" {
			return core.LinkUp{Slot: slot, Nonce: core.Nonce(a.id("n"))}
		}
		if !link.Up() {
			return core.Hello{Slot: slot, Nonce: link.Nonce, Instance: core.InstanceID(a.id("i")), Mark: s.Epoch}
		}
		return core.Granted{Slot: slot, Nonce: link.Nonce, Epoch: s.Epoch}
	case 8, 9:
		return core.Fenced{Slot: slot, Nonce: link.Nonce, Epoch: s.Epoch}
	case 10, 11:
		return core.Drained{Slot: slot, Nonce: link.Nonce, Epoch: s.Epoch}
	case 12, 13:
		if lease != nil {
			return core.Claim{Lease: lease.ID, Cap: "cap"}
		}
	case 14, 15, 16:
		if lease != nil {
			class := []core.Class{core.Read, core.Write}[a.pick(2)]
			return core.Act{Action: core.ActionID(a.id("a")), Lease: lease.ID, Cap: "cap", ID: core.ClientID(fmt.Sprintf("01J%023d", a.made)), Epoch: s.Epoch,
				Verb: "click", Class: class, Summary: "click", BodyHash: "hash", Expect: core.Expect{Tab: 1, Document: "doc"}, DeadlineMs: 1000}
		}
	case 17, 23:
		if action != "" {
			state := []string{"finished", "failed", "refused", "halted", "unknown"}[a.pick(5)]
			return core.Done{Slot: slot, Nonce: link.Nonce, Action: action, Epoch: a.state.Actions[action].Epoch, State: state, Steps: core.Steps{Dispatched: 1, Total: 2}}
		}
	case 18:
		if action != "" {
			return core.Reported{Slot: slot, Nonce: link.Nonce, Report: core.Report{
				Action: action, Rev: a.state.Actions[action].Rev + 1, Dispatched: 1, Open: a.pick(2), Document: "doc", Tab: 1,
				How:      []string{"barrier", "ended", "lost", "open"}[a.pick(4)],
				Requests: map[string]core.SeenCall{"1": {Method: "POST", URL: "https://shop.test/save", State: "answered", Status: 200}}}}
		}
	case 19:
		switch a.pick(6) {
		case 0:
			return core.Takeover{Slot: slot, Epoch: s.Epoch + 1, Surface: "popup", By: "human:popup"}
		case 1:
			return core.Handback{Slot: slot, Confirm: true, By: "human:popup"}
		case 2:
			return core.RemoveSlot{Name: slot, By: "human:cli"}
		case 3:
			return core.Lift{Slot: slot, Note: "looked", By: "human:cli"}
		case 4:
			return core.Resolve{Action: action, Verdict: core.Applied, Note: "looked", By: "human:cli"}
		case 5:
			return core.StopSlot{Slot: slot, By: "human:cli"}
		}
	case 20:
		if lease != nil && a.pick(2) == 0 {
			return core.Release{Lease: lease.ID, Cap: "cap"}
		} else if lease != nil {
			return core.Resume{Lease: lease.ID, Cap: "cap"}
		}
	case 21:
		switch a.pick(9) { // mostly none of it, or no action gets anywhere
		case 0:
			return core.LinkLost{Slot: slot, Nonce: link.Nonce, Why: "closed"}
		case 1:
			if s.Launch.Live() {
				return core.LaunchEnded{Slot: slot, Launch: s.Launch.ID, Verified: a.pick(2) == 0, How: "it exited"}
			}
		case 2:
			return core.Restarted{}
		}
	case 22:
		a.now.BootMs += int64(a.pick(20_000))
		return core.Tick{}
	}
	return core.Tick{}
}

// TestSchemaTakesWhatTheCoreDecides runs the real core over random inputs. A
// constraint that refused a right decision would stop the daemon; an entity that
// the journal lacked would be lost in a replay.
func TestSchemaTakesWhatTheCoreDecides(t *testing.T) {
	dir, runs, did := t.TempDir(), 0, map[string]int{} // did counts what was not refused
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		s, err := Open(filepath.Join(dir, fmt.Sprintf("%d.db", runs)))
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		a := &authority{
			state: core.NewState(), now: core.Now{BootID: "boot", BootMs: 1, WallMs: 1_700_000_000_000},
			random: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)),
		}
		for range rapid.IntRange(1, 60).Draw(rt, "commits") {
			group := &core.Delta{}
			for range rapid.IntRange(1, 6).Draw(rt, "steps") {
				in := a.input()
				res := core.Step(a.state, a.now, nil, in)
				if res.Refusal == nil {
					did[fmt.Sprintf("%T", in)]++
				}
				a.now.BootMs += 10
				a.state.Apply(&res.Delta)
				group.Merge(&res.Delta)
			}
			if err := s.Commit(group); err != nil {
				rt.Fatal(err)
			}
			if a.pick(5) == 0 {
				trimSome(rt, s, a.state.Seq-int64(a.pick(20)), 1+a.pick(20))
			}
		}
		same(rt, s, a.state)
	})
	for _, in := range []core.Input{core.Acquire{}, core.Claim{}, core.Act{}, core.Done{}, core.Reported{}, core.Takeover{},
		core.Handback{}, core.Release{}, core.RemoveSlot{}, core.Restarted{}, core.LaunchEnded{}} {
		if name := fmt.Sprintf("%T", in); did[name] == 0 && !t.Failed() {
			t.Errorf("no %s was ever accepted: the histories try too little", name)
		}
	}
	t.Log(did)
}
