package fence_test

import (
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/fence"
)

var now = core.Now{BootID: "boot", BootMs: 1000, WallMs: 1000}

func slot(t *testing.T) (*core.State, *fence.Register) {
	t.Helper()
	s := core.NewState()
	res := core.Step(s, now, nil, core.CreateSlot{Name: "shop", By: "human:test"})
	s.Apply(&res.Delta)
	r := fence.New()
	r.Sync(res.Delta.Slots)
	return s, r
}

func take(t *testing.T, r *fence.Register) core.Takeover {
	t.Helper()
	out, err := r.Takeover(core.Takeover{Slot: "shop", Surface: "cli", FromPerson: true, By: "human:cli"}, "")
	if err != nil {
		t.Fatal(err)
	}
	return out.Takeover
}

// Two people take over, the second from the first, before the first one's record is
// decided. Each record is claimed under the number that was issued for it; if either
// were refused the writer would decide it anew for ever.
func TestTakeoversThatAreOutTogetherAreRecordedOneAfterAnother(t *testing.T) {
	s, r := slot(t)
	records := []core.Takeover{take(t, r), take(t, r)}
	for _, in := range records {
		res := core.Step(s, now, r.Floor(), in)
		if !r.Claim(s.Slots, &res.Delta, in.Epoch) {
			t.Fatalf("the record of the takeover at epoch %d is refused", in.Epoch)
		}
		s.Apply(&res.Delta)
		r.Sync(res.Delta.Slots)
		if got := s.Slots["shop"]; got.Epoch != in.Epoch || got.Holder.Kind != "human" {
			t.Errorf("recorded epoch %d of %s, want %d", got.Epoch, got.Holder.Kind, in.Epoch)
		}
	}
	if r.Floor() != nil || len(r.Unrecorded()) > 0 {
		t.Errorf("something is still out: %v %v", r.Floor(), r.Unrecorded())
	}
}

// A step that was decided before a takeover took its number is decided again.
func TestANumberIsClaimedOnce(t *testing.T) {
	s, r := slot(t)
	step := func() core.Result {
		return core.Step(s, now, r.Floor(), core.RemoveSlot{Name: "shop", By: "human:cli"})
	}
	res := step()
	in := take(t, r)
	if r.Claim(s.Slots, &res.Delta, 0) {
		t.Fatalf("epoch %d was issued twice", in.Epoch)
	}
	if res = step(); !r.Claim(s.Slots, &res.Delta, 0) {
		t.Fatal("decided above the takeover's number, and refused")
	}
	if got := res.Delta.Slots[0].Epoch; got <= in.Epoch {
		t.Errorf("epoch %d, the takeover has %d", got, in.Epoch)
	}
}

// A slot that is removed while it is taken over gets no record, and nobody waits for one; a
// takeover after that is refused at once.
func TestNobodyWaitsForTheRecordOfASlotThatIsGone(t *testing.T) {
	s, r := slot(t)
	res := core.Step(s, now, nil, core.RemoveSlot{Name: "shop", By: "human:test"})
	take(t, r)
	s.Apply(&res.Delta)
	r.Sync(res.Delta.Slots)
	if out := r.Unrecorded(); len(out) > 0 {
		t.Errorf("still to be recorded: %+v", out)
	}
	in := core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"}
	if _, err := r.Takeover(in, ""); err == nil || err.Code != core.CodeNotFound {
		t.Errorf("a slot that is gone is taken over: %v", err)
	}
	res = core.Step(s, now, r.Floor(), core.CreateSlot{Name: "shop", By: "human:test"})
	r.Sync(res.Delta.Slots)
	if _, err := r.Takeover(in, ""); err != nil {
		t.Errorf("one that is there again is not taken over: %v", err)
	}
}

// A person presses, an agent's request that was in front of the record is granted a number
// above, and the person presses once more. No number is both the agent's and the person's.
func TestAPressIsGivenNoAgentsNumber(t *testing.T) {
	s, r := slot(t)
	step := func(in core.Input, own core.Epoch) {
		t.Helper()
		res := core.Step(s, now, r.Floor(), in)
		if res.Refusal != nil {
			t.Fatal(res.Refusal)
		}
		if !r.Claim(s.Slots, &res.Delta, own) {
			t.Fatalf("%T is not claimed", in)
		}
		s.Apply(&res.Delta)
		r.Sync(res.Delta.Slots)
	}
	press := func(hold core.HoldID) core.Takeover {
		t.Helper()
		out, err := r.Takeover(core.Takeover{Slot: "shop", Surface: "popup", Hold: hold, By: "human:popup"}, "")
		if err != nil || out.Again {
			t.Fatal(out, err)
		}
		return out.Takeover
	}
	step(core.Bind{Spec: core.BindingSpec{Name: "admin", Slot: "shop", Account: "none"}, By: "human:test"}, 0)
	step(core.Delegate{ID: "d", Hash: "token", Binding: "admin", Agent: "agent-a", By: "human:test"}, 0)
	first := press("hold-1")
	step(core.Acquire{Lease: "lease", Token: "token", CapHash: "cap", RequestID: "r", Binding: "admin", ForMs: 60_000}, 0)
	agents := s.Slots["shop"].Epoch
	if s.Slots["shop"].Holder.Kind != "agent" || r.Grants("shop", agents) {
		t.Fatalf("%+v; may the agent act: %v", s.Slots["shop"].Holder, r.Grants("shop", agents))
	}
	second := press("hold-2")
	if second.Epoch <= agents {
		t.Errorf("the second press is given epoch %d, the agent has %d", second.Epoch, agents)
	}
	for _, in := range []core.Takeover{first, second} {
		step(in, in.Epoch)
	}
	if got := s.Slots["shop"]; got.Holder.Kind != "human" || got.Epoch <= second.Epoch || got.LastHold != "hold-2" {
		t.Errorf("in the end %s has it at epoch %d, for %s", got.Holder.Kind, got.Epoch, got.LastHold)
	}
	if r.Floor() != nil || len(r.Unrecorded()) > 0 {
		t.Errorf("something is still out: %v %v", r.Floor(), r.Unrecorded())
	}
}
