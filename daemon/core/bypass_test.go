package core_test

import (
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// TestABypassClosesTheSlot: whoever else can drive the browser makes every gate void, so
// the agent is stopped and the slot is offered to nobody, until that browser has ended and
// a person has looked.
func TestABypassClosesTheSlot(t *testing.T) {
	w := prepared(t)
	l := w.acquire("token-a")
	id := w.slot().Launch.ID
	w.refused(core.CodeConflict, core.Bypassed{Slot: "shop", Launch: "another", Ways: []string{"a port"}})
	w.must(core.Bypassed{Slot: "shop", Launch: id, Ways: []string{"a port"}})
	w.wantState(string(l.ID), core.LeaseSuspended)
	w.refused(core.CodeQuarantined, core.Resume{Lease: l.ID, Cap: l.CapHash})
	if st := core.StatusOf(w.s, w.now, "shop"); st.Offer.Available || len(st.Quarantine) != 1 || !strings.Contains(st.Quarantine[0].Text, "a port") {
		t.Errorf("%+v %+v", st.Offer, st.Quarantine)
	}
	if res := w.must(core.Bypassed{Slot: "shop", Launch: id, Ways: []string{"a port"}}); !res.Delta.Empty() {
		t.Error("the same is recorded twice")
	}
	w.refused(core.CodeConflict, core.Lift{Slot: "shop", Note: "looked", By: "human:cli"})
	w.must(core.LaunchEnded{Slot: "shop", Launch: id, Verified: true, How: "ended"})
	w.refused(core.CodeQuarantined, core.Resume{Lease: l.ID, Cap: l.CapHash}) // what was done by it is not known
	w.must(core.Lift{Slot: "shop", Note: "looked", By: "human:cli"})
	if len(w.slot().Reasons) > 0 {
		t.Errorf("%+v", w.slot().Reasons)
	}
}
