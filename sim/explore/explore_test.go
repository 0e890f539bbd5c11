package explore

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/host/gate"
)

// TestSmall goes through a small world. That it is all of it shows in the number of
// states: whoever changes what a daemon, a host or an extension does changes it here too.
func TestSmall(t *testing.T) {
	r, err := Explore(Sizes["small"], io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if r.Violations > 0 {
		t.Fatalf("%s, after:\n%s", r.Violation, strings.Join(r.Trace, "\n"))
	}
	// As docs/SIMULATION.md has it. With the model or the core these change, and the table
	// there with them.
	if r.States != 3_119 || r.Transitions != 6_296 || r.Depth != 36 {
		t.Errorf("%d states, %d transitions, %d deep", r.States, r.Transitions, r.Depth)
	}
	t.Logf("%d states, %d transitions, depth %d", r.States, r.Transitions, r.Depth)
}

// TestItCanFail: with a gate that lets everything pass, in the host and in the extension,
// the explorer finds what comes of it, and the moves that it names lead there.
func TestItCanFail(t *testing.T) {
	defer func() { allow = (*Extension).Allows }()
	allow = func(*Extension, core.Epoch, int64) bool { return true }
	r, err := Explore(Sizes["small"], io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if r.Violations != 1 || !strings.HasPrefix(r.Violation, "I4:") && !strings.HasPrefix(r.Violation, "I3:") {
		t.Fatalf("found %q", r.Violation)
	}
	if n := len(r.Trace); n < 10 || r.Trace[n-1] != "the extension reads" {
		t.Errorf("the way there: %q", r.Trace)
	}
}

// TestTheModelsGate holds the model of the third gate, and the second gate, against the
// vectors that the extension's own gate and the host's are tested with.
func TestTheModelsGate(t *testing.T) {
	raw, err := os.ReadFile("../../extension/test/vectors/gate.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name string
		Gate struct {
			Epoch, Granted core.Epoch
			Hold           bool
		}
		Cmd   struct{ Epoch core.Epoch }
		Allow bool
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 10 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		x := Extension{Nonce: "n", Linked: true, Epoch: v.Gate.Epoch, Grant: v.Gate.Granted, EndMs: 1}
		if v.Gate.Hold {
			x.Hold = hold
		}
		if got := x.Allows(v.Cmd.Epoch, 0); got != v.Allow {
			t.Errorf("%s: the model says %v", v.Name, got)
		}
		var g gate.Gate
		_ = g.Grant(v.Gate.Granted)
		if v.Gate.Epoch > v.Gate.Granted {
			_ = g.Fence(v.Gate.Epoch)
		}
		if got := g.Check(v.Cmd.Epoch) == nil; got != v.Allow && !v.Gate.Hold {
			t.Errorf("%s: the host's gate says %v", v.Name, got)
		}
	}
}
