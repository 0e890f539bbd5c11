package gate

import (
	"encoding/json"
	"os"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

func TestGate(t *testing.T) {
	const huge = core.MaxEpoch + 1
	type op struct {
		do    string // grant, fence, close, check, system
		epoch core.Epoch
		ok    bool
	}
	tests := map[string][]op{
		"nothing is granted at first": {{"check", 1, false}, {"check", 0, false}},
		"a grant opens for its epoch only": {
			{"grant", 7, true}, {"check", 7, true}, {"check", 6, false}, {"check", 8, false}, {"check", 0, false},
		},
		"a fence closes": {{"grant", 7, true}, {"fence", 8, true}, {"check", 7, false}, {"check", 8, false}},
		"a late grant does not open again": {
			{"fence", 8, true}, {"grant", 7, false}, {"check", 7, false}, {"grant", 8, true}, {"check", 8, true},
		},
		"an action's number moves nothing": {{"grant", 7, true}, {"check", 9, false}, {"check", huge, false}, {"check", 7, true}},
		"grant of 0 closes":                {{"grant", 7, true}, {"grant", 0, true}, {"check", 7, false}, {"grant", 7, true}, {"check", 7, true}},
		"a lost link closes":               {{"grant", 7, true}, {"close", 0, true}, {"check", 7, false}},
		"the floor outlives the link":      {{"grant", 7, true}, {"close", 0, true}, {"grant", 6, false}, {"check", 6, false}},
		"a grant beyond the range opens nothing and poisons nothing": {
			{"grant", 7, true}, {"grant", huge, false}, {"grant", 1<<64 - 1, false}, {"check", 7, true}, {"grant", 8, true},
		},
		"a fence beyond the range closes and poisons nothing": {
			{"grant", 7, true}, {"fence", huge, false}, {"check", 7, false}, {"grant", 7, true}, {"check", 7, true},
		},
		"a fence of 0 closes": {{"grant", 7, true}, {"fence", 0, false}, {"check", 7, false}},
		"the system works under the epoch in force, granted or not": {
			{"system", 1, false}, {"fence", 8, true}, {"system", 8, true}, {"system", 7, false}, {"system", 9, false}, {"system", 0, false},
			{"grant", 9, true}, {"system", 9, true}, {"system", 8, false}, {"fence", 10, true}, {"system", 9, false}, {"system", huge, false},
			{"close", 0, true}, {"system", 10, true}, {"check", 10, false},
		},
		"the last epoch is usable": {{"grant", core.MaxEpoch, true}, {"check", core.MaxEpoch, true}},
	}
	for name, ops := range tests {
		t.Run(name, func(t *testing.T) {
			var g Gate
			for i, o := range ops {
				var err *core.Error
				switch o.do {
				case "grant":
					err = g.Grant(o.epoch)
				case "fence":
					err = g.Fence(o.epoch)
				case "close":
					g.Close()
				case "check", "system":
					before := g
					if err = g.Check(o.epoch); o.do == "system" {
						err = g.System(o.epoch)
					}
					if g != before {
						t.Fatalf("step %d: a check changed the gate", i)
					}
				}
				if (err == nil) != o.ok {
					t.Fatalf("step %d, %s(%d): %v", i, o.do, o.epoch, err)
				}
				if err != nil && err.Code != core.CodeFenced {
					t.Fatalf("step %d: code %s", i, err.Code)
				}
			}
		})
	}
}

// A refusal names both epochs.
func TestGateNamesBothEpochs(t *testing.T) {
	var g Gate
	g.Grant(9)
	err := g.Check(4)
	if err == nil || err.Detail["your_epoch"] != core.Epoch(4) || err.Detail["epoch"] != core.Epoch(9) {
		t.Fatalf("%v %v", err, err.Detail)
	}
}

// The vectors are the extension's too: its gate and this one may not differ on an
// epoch. What only the extension knows (a person's hold) is left to it.
func TestGateVectors(t *testing.T) {
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
		Code  core.Code
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, v := range vectors {
		if v.Gate.Hold {
			continue
		}
		tried++
		var g Gate
		if err := g.Grant(v.Gate.Granted); err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		if v.Gate.Epoch > v.Gate.Granted {
			if err := g.Fence(v.Gate.Epoch); err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
		}
		refused := g.Check(v.Cmd.Epoch)
		if (refused == nil) != v.Allow || refused != nil && refused.Code != v.Code {
			t.Errorf("%s: %v", v.Name, refused)
		}
	}
	if tried < 5 {
		t.Errorf("only %d vectors were tried", tried)
	}
}
