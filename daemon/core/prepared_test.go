package core_test

import (
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// confirmed is a slot whose sign-in a person has confirmed, and the launch of that.
func confirmed(t *testing.T) (*world, core.LaunchID) {
	w := prepared(t)
	w.must(core.Delegate{ID: "ds", Hash: "token-s", Binding: "signed", Agent: "agent-s", By: "human:test"})
	w.must(core.Confirm{Binding: "signed", By: "human:cli"})
	return w, w.slot().Launch.ID
}

func (w *world) signIn() core.SignIn {
	for _, in := range core.StatusOf(w.s, w.now, "shop").SignIns {
		if in.Binding == "signed" {
			return in
		}
	}
	w.t.Fatalf("no sign-in")
	return core.SignIn{}
}

func (w *world) saved(launch core.LaunchID) core.Saved {
	return core.Saved{Slot: "shop", Launch: launch, Binding: "signed", AtMs: w.s.Bindings["signed"].Confirmed.AtMs, How: "written"}
}

var toSigned = core.Acquire{Lease: "l", Token: "token-s", CapHash: "c", RequestID: "r", Binding: "signed", ForMs: 60_000, WaitMs: 1000}

// TestASignInIsPreparedOnceItIsOnTheDisk, by a write that was seen or by a clean end.
func TestASignInIsPreparedOnceItIsOnTheDisk(t *testing.T) {
	w, launch := confirmed(t)
	if w.signIn().Prepared {
		t.Error("prepared as soon as it was confirmed")
	}
	other := w.saved(launch)
	other.AtMs++
	w.refused(core.CodeConflict, other)
	w.refused(core.CodeConflict, w.saved("another"))
	w.must(w.saved(launch))
	if !w.signIn().Prepared {
		t.Error("not prepared, and it is on the disk")
	}
	w.refused(core.CodeConflict, w.saved(launch))
	w.must(core.LaunchEnded{Slot: "shop", Launch: launch, Verified: true, How: "killed"})
	st := core.StatusOf(w.s, w.now, "shop")
	if !w.signIn().Prepared || st.Unclean == nil {
		t.Errorf("after a crash: %s", dump(st))
	}
	if !strings.Contains(strings.Join(st.Sentences.Warnings, " "), "may be lost") {
		t.Errorf("what is lost is not said: %q", st.Sentences.Warnings)
	}
	w.launch()
	w.must(toSigned)
	w.must(core.Release{Lease: "l", Cap: "c"})

	w, launch = confirmed(t)
	w.must(core.LaunchEnded{Slot: "shop", Launch: launch, Verified: true, Clean: true, How: "ended at SIGINT"})
	if st := core.StatusOf(w.s, w.now, "shop"); !w.signIn().Prepared || st.Unclean != nil || len(st.Sentences.Warnings) > 0 {
		t.Errorf("after a clean end: %s", dump(st))
	}
}

// TestASignInIsLostWithABrowserThatCrashed before it was on the disk: nobody is lent the
// binding until a person has looked again.
func TestASignInIsLostWithABrowserThatCrashed(t *testing.T) {
	w, launch := confirmed(t)
	w.must(core.LaunchEnded{Slot: "shop", Launch: launch, Verified: true, How: "killed"})
	if in := w.signIn(); in.Prepared || !in.Confirmed.Lost() {
		t.Errorf("%s", dump(in))
	}
	w.launch()
	res := w.refused(core.CodeAccountMismatch, toSigned)
	if !strings.Contains(res.Refusal.Message, "without a clean stop") || !strings.Contains(res.Refusal.Hint, "sessiondock confirm signed") {
		t.Errorf("%s", dump(res.Refusal))
	}
	w.refused(core.CodeConflict, w.saved(launch))
	w.must(core.Confirm{Binding: "signed", By: "human:cli"})
	w.must(toSigned)
	w.must(core.Release{Lease: "l", Cap: "c"})
	if w.signIn().Confirmed.Lost() {
		t.Error("still lost after a person has looked")
	}
	w.must(core.LaunchEnded{Slot: "shop", Launch: w.slot().Launch.ID, Verified: true, Clean: true, How: "ended at SIGINT"})
	if st := core.StatusOf(w.s, w.now, "shop"); st.Unclean != nil {
		t.Errorf("a crash is told of after a clean end: %s", dump(st.Unclean))
	}
}

// TestASignInAfterAReboot is what the browser's end before it was.
func TestASignInAfterAReboot(t *testing.T) {
	for _, clean := range []bool{true, false} {
		w, _ := confirmed(t)
		w.now.BootID, w.now.BootMs = "boot-2", 5
		w.must(core.Restarted{Clean: map[core.SlotName]bool{"shop": clean}})
		if in, u := w.signIn(), w.slot().Unclean; in.Prepared != clean || in.Confirmed.Lost() == clean || (u == nil) != clean {
			t.Errorf("clean %v: %s, %s", clean, dump(in), dump(u))
		}
	}
}

// TestALaunchThatDidNotStartLosesNothing, and says nothing of the crash before it.
func TestALaunchThatDidNotStartLosesNothing(t *testing.T) {
	w, launch := confirmed(t)
	w.must(w.saved(launch))
	w.must(core.LaunchEnded{Slot: "shop", Launch: launch, Verified: true, Clean: true, How: "ended at SIGINT"})
	w.must(core.StartSlot{Slot: "shop", By: "human:cli"})
	w.must(core.LaunchStarting{Slot: "shop", Generation: w.slot().Generation + 1, Launch: "stillborn", SecretHash: "s"})
	w.must(core.LaunchEnded{Slot: "shop", Launch: "stillborn", Verified: true, How: "it did not start"})
	if w.slot().Unclean != nil {
		t.Errorf("%s", dump(w.slot().Unclean))
	}
}
