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
