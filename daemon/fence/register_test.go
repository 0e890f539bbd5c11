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
