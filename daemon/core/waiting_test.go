package core_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Whatever comes in whatever order, nobody waits although nothing stands in the way: the
// world looks at every waiter after every step.
func TestNobodyWaitsForNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.t = rt
		names := []core.SlotName{"a", "b", "c"}
		for _, n := range names {
			w.must(core.CreateSlot{Name: n, By: "human:test"})
			w.must(core.Bind{Spec: core.BindingSpec{Name: core.BindingName(n), Slot: n, Account: "none"}, By: "human:test"})
			for i := range 2 {
				w.must(core.Delegate{ID: core.DelegationID(fmt.Sprint(n, i)), Hash: fmt.Sprint("t", n, i), Binding: core.BindingName(n), Agent: core.AgentName(fmt.Sprint("ag", i)), Priority: i, By: "human:test"})
			}
		}
		w.s.Capacity = core.Capacity{Browsers: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "cap")}
		for range rapid.IntRange(5, 60).Draw(rt, "steps") {
			n := rapid.SampledFrom(names).Draw(rt, "slot")
			s := w.s.Slots[n]
			var l *core.Lease
			if ls := w.s.LiveLeases(n); len(ls) > 0 {
				l = ls[rapid.IntRange(0, len(ls)-1).Draw(rt, "l")]
			}
			k := rapid.IntRange(0, 14).Draw(rt, "k")
			switch {
			case k <= 3:
				id := w.id("l")
				w.do(core.Acquire{Lease: core.LeaseID(id), Token: fmt.Sprint("t", n, rapid.IntRange(0, 1).Draw(rt, "d")), CapHash: "cap" + id, RequestID: id, Binding: core.BindingName(n), ForMs: 600_000,
					WaitMs: rapid.SampledFrom([]int64{0, 60_000, 600_000}).Draw(rt, "w"),
					Keys:   rapid.SampledFrom([][]string{nil, {"k1"}, {"k1:shared"}, {"k1", "k2"}, {"k2"}, {"k2", "k3"}, {"k1", "k2", "k3"}}).Draw(rt, "keys")})
			case k == 4 && l != nil:
				w.do(core.Claim{Lease: l.ID, Cap: l.CapHash})
			case k <= 6 && l != nil:
				w.do(core.Release{Lease: l.ID, Cap: l.CapHash})
			case k == 7 && l != nil:
				w.do(core.CancelWait{Lease: l.ID, Why: "gone"})
			case k == 8 && l != nil:
				w.do(core.Revoke{Lease: l.ID, By: "human:cli"})
			case k == 9:
				w.do(core.Takeover{Slot: n, Surface: "cli", By: "human:cli"})
			case k == 10:
				w.do(core.Handback{Slot: n, To: rapid.SampledFrom([]core.AgentName{"", "ag0"}).Draw(rt, "to"), By: "human:cli"})
			case k == 11 && l != nil:
				w.do(core.Resume{Lease: l.ID, Cap: l.CapHash})
			case k == 12 && s.Starting != "":
				w.run(n)
			case k == 12 && s.Launch.Live():
				w.end(n)
			case k == 13:
				w.do(core.RevokeDelegation{ID: core.DelegationID(fmt.Sprint(n, rapid.IntRange(0, 1).Draw(rt, "d"))), By: "human:cli"})
			case k == 14:
				w.pass(rapid.SampledFrom([]int64{1000, 6000, 70_000}).Draw(rt, "p"))
			}
		}
	})
}
