package core_test

import (
	"fmt"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// BenchmarkGrant is a grant, its claim and its release, as the core decides them: in an
// empty system, and with a thousand slots for which ten thousand requests wait.
func BenchmarkGrant(b *testing.B) {
	for _, size := range []struct{ slots, waiters int }{{1, 0}, {1000, 10}} {
		b.Run(fmt.Sprintf("slots=%d/waiters=%d", size.slots, size.slots*size.waiters), func(b *testing.B) {
			s, now := core.NewState(), core.Now{BootID: "boot", BootMs: 1000, WallMs: 1_000_000}
			step := func(in core.Input) {
				res := core.Step(s, now, nil, in)
				if res.Refusal != nil {
					b.Fatalf("%T: %v", in, res.Refusal)
				}
				s.Apply(&res.Delta)
			}
			acquire := func(slot, id string, wait int64) core.Acquire {
				return core.Acquire{
					Lease: core.LeaseID(id), Token: "token-" + slot, CapHash: "cap-" + id, RequestID: id,
					Binding: core.BindingName(slot), ForMs: 600_000, WaitMs: wait, Keys: []string{"key-" + slot},
				}
			}
			for i := range size.slots {
				slot := fmt.Sprintf("s%04d", i)
				step(core.CreateSlot{Name: core.SlotName(slot), By: "human:test"})
				step(core.Bind{Spec: core.BindingSpec{Name: core.BindingName(slot), Slot: core.SlotName(slot), Account: "none"}, By: "human:test"})
				step(core.Delegate{ID: core.DelegationID(slot), Hash: "token-" + slot, Binding: core.BindingName(slot), Agent: "agent", By: "human:test"})
				if size.waiters > 0 {
					step(acquire(slot, slot+"-holder", 0))
				}
				for j := range size.waiters {
					step(acquire(slot, fmt.Sprintf("%s-%d", slot, j), 3_600_000))
				}
			}
			step(core.CreateSlot{Name: "free", By: "human:test"})
			step(core.Bind{Spec: core.BindingSpec{Name: "free", Slot: "free", Account: "none"}, By: "human:test"})
			step(core.Delegate{ID: "free", Hash: "token-free", Binding: "free", Agent: "agent", By: "human:test"})
			n := 0
			for b.Loop() {
				n++
				id := fmt.Sprintf("l%08d", n)
				step(acquire("free", id, 0))
				step(core.Claim{Lease: core.LeaseID(id), Cap: "cap-" + id})
				step(core.Release{Lease: core.LeaseID(id), Cap: "cap-" + id})
			}
		})
	}
}

// BenchmarkTakeover is a takeover with a hundred commands in the page, to the
// acknowledgement of its fence: the record, each command's end, the extension's answer and
// the status that the person is shown.
func BenchmarkTakeover(b *testing.B) {
	const commands = 100
	w := &world{t: b, s: core.NewState(), lean: lean(), now: core.Now{BootID: "boot-1", BootMs: 1000, WallMs: 1_000_000}}
	prepare(w)
	l := w.acquire("token-a")
	var acts []*core.Action
	for range commands {
		id := w.id("action")
		w.must(core.Act{
			Action: core.ActionID(id), Lease: l.ID, Cap: l.CapHash, ID: w.clientID(), Epoch: l.Epoch, Beside: true,
			Verb: "cdp", Class: core.Write, Summary: "Runtime.evaluate", BodyHash: id, DeadlineMs: 30_000,
		})
		acts = append(acts, w.s.Actions[core.ActionID(id)])
	}
	var reports []core.Report
	for _, a := range acts {
		reports = append(reports, report(a, 2, "open", 1, nil))
	}
	for b.Loop() {
		s := w.s.Clone()
		step := func(in core.Input) {
			res := core.Step(s, w.now, nil, in)
			if res.Refusal != nil {
				b.Fatalf("%T: %v", in, res.Refusal)
			}
			s.Apply(&res.Delta)
		}
		step(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
		for _, a := range acts {
			step(core.Done{Slot: "shop", Nonce: nonce, Action: a.Action, Epoch: a.Epoch, State: "halted", Steps: core.Steps{Dispatched: 1, Total: 1}})
		}
		step(core.Fenced{Slot: "shop", Nonce: nonce, Epoch: s.Slots["shop"].Epoch, Reports: reports})
		if st := core.StatusOf(s, w.now, "shop"); len(st.Local.Commands) != commands {
			b.Fatalf("%d commands", len(st.Local.Commands))
		}
	}
}
