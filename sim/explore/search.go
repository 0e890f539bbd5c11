package explore

import (
	"fmt"
	"io"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/fence"
)

// Sizes are the bounds that have a name: tests take the small ones, planted faults are
// looked for in the middle ones, the command goes through all.
var Sizes = map[string]Bounds{
	"small":  {Acts: 1, Takeovers: 1},
	"middle": {Acts: 1, Takeovers: 1, Faults: 1},
	"time":   {Acts: 1, Releases: 1, Resumes: 1, Takeovers: 1, Handbacks: 1, Jumps: 1},
	"deaths": {Acts: 1, Resumes: 1, Takeovers: 1, Handbacks: 1, Restarts: 1},
	"link":   {Acts: 1, Takeovers: 1, Handbacks: 1, Faults: 1},
	"both":   {Acts: 1, Takeovers: 1, Restarts: 1, Faults: 1},
	"whole":  {Acts: 1, Takeovers: 1, Handbacks: 1, Restarts: 1, Faults: 1},
}

// Result is what was explored.
type Result struct {
	Bounds      Bounds `json:"bounds"`
	States      int64  `json:"states"`
	Transitions int64  `json:"transitions"`
	Depth       int    `json:"depth"`
	Violations  int    `json:"violations"`

	Violation string   `json:"violation,omitempty"` // the first
	Trace     []string `json:"trace,omitempty"`     // the moves that lead to it
}

// step is how a state was reached first.
type step struct {
	from int32
	move uint8
}

// Explore visits every state within the bounds once, those near the beginning first, and
// ends at the first violation. How far it has come goes to out.
func Explore(bounds Bounds, out io.Writer) (Result, error) {
	root, err := begin(bounds)
	if err != nil {
		return Result{}, err
	}
	type found struct {
		*node
		at int32
	}
	r := Result{Bounds: bounds}
	seen := map[hash]struct{}{root.hash(): {}}
	how := []step{{-1, 0}}
	level := []found{{root, 0}}
	for ; len(level) > 0; r.Depth++ {
		fmt.Fprintf(out, "depth %d: %d states, %d of them new, %d transitions\n", r.Depth, len(seen), len(level), r.Transitions)
		var next []found
		for i, f := range level {
			level[i].node = nil
			for k, m := range f.moves() {
				r.Transitions++
				n := *f.node
				if broken := n.happens(m); broken != "" {
					r.States, r.Violations, r.Violation = int64(len(seen)), 1, broken
					r.Trace, err = trace(bounds, how, f.at, uint8(k))
					return r, err
				}
				h := n.hash()
				if _, known := seen[h]; known {
					continue
				}
				seen[h] = struct{}{}
				how = append(how, step{f.at, uint8(k)})
				next = append(next, found{&n, int32(len(how) - 1)})
			}
		}
		level = next
	}
	r.States = int64(len(seen))
	return r, nil
}

// happens lets a move happen, and says what it has violated.
func (n *node) happens(m move) (broken string) {
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(violation)
			if !ok {
				v.text = fmt.Sprintf("panic: %v", r)
			}
			broken = v.text
		}
	}()
	m.do(n)
	n.passOn()
	return ""
}

// trace names the moves that lead to a state, and one more.
func trace(bounds Bounds, how []step, at int32, last uint8) ([]string, error) {
	path := []uint8{last}
	for ; at > 0; at = how[at].from {
		path = append(path, how[at].move)
	}
	slices.Reverse(path)
	n, err := begin(bounds)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, k := range path {
		m := n.moves()[k]
		names = append(names, m.name)
		next := *n
		next.happens(m)
		n = &next
	}
	return names, nil
}

// begin makes the world in which everything begins: a slot whose browser runs, its
// extension linked and at rest, and two agents with a delegation each.
func begin(bounds Bounds) (*node, error) {
	n := &node{nowMs: 100_000, up: true, begun: true, left: bounds, reg: keyed(fence.New())}
	for i := range n.agents {
		n.agents[i] = agent{1, bounds.Acts, bounds.Resumes, bounds.Releases}
	}
	s := core.NewState()
	for _, in := range []core.Input{
		core.CreateSlot{Name: slot, By: "human:cli"},
		core.Bind{Spec: core.BindingSpec{Name: binding, Slot: slot, Account: "none"}, By: "human:cli"},
		core.Delegate{ID: "d0", Hash: "t0", Binding: binding, Agent: agentOf(0), By: "human:cli"},
		core.Delegate{ID: "d1", Hash: "t1", Binding: binding, Agent: agentOf(1), By: "human:cli"},
		core.StartSlot{Slot: slot, By: "human:cli"},
		core.LaunchStarting{Slot: slot, Generation: 1, Launch: launch},
		core.LaunchRunning{Slot: slot, Launch: launch, Identity: core.Identity{Containment: "weak"}},
	} {
		res := core.Step(s, n.now(), nil, in)
		if res.Refusal != nil {
			return nil, fmt.Errorf("set the scene: %T: %w", in, res.Refusal)
		}
		s.Apply(&res.Delta)
		n.reg.Sync(res.Delta.Slots)
	}
	s.KeepOnlyOpen()
	n.reg = keyed(n.reg.Register)
	n.state = authKeyed(s)
	n.seen, n.disk = n.state, n.state
	none := n.left
	n.left = Bounds{}
	agents := n.agents
	n.agents = [2]agent{}
	for range 1000 {
		moves := n.moves()
		if len(moves) == 0 {
			n.left, n.agents = none, agents
			return n, nil
		}
		if broken := n.happens(moves[0]); broken != "" {
			return nil, fmt.Errorf("set the scene: %s", broken)
		}
	}
	return nil, fmt.Errorf("the scene does not come to rest")
}
