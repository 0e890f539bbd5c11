package core_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// world drives core.Step in tests the way the engine does, and checks after every
// step that nothing broke: the invariants, that Step changed nothing itself, that
// the same step gives the same result, and that a state that keeps only open actions,
// as the daemon's does, decides the same.
type world struct {
	t       interface{ Fatalf(string, ...any) }
	s       *core.State
	lean    *core.State // what each step changed, applied to a state that keeps only open actions
	now     core.Now
	floor   map[core.SlotName]core.Epoch
	n       int
	sent    []core.Effect
	journal []core.Entry
}

func lean() *core.State {
	s := core.NewState()
	s.KeepOnlyOpen()
	return s
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, s: core.NewState(), lean: lean(), now: core.Now{BootID: "boot-1", BootMs: 1000, WallMs: 1_000_000}, floor: map[core.SlotName]core.Epoch{}}
}

func dump(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// copyState copies a state by its entities, as a replay would.
func copyState(s *core.State) *core.State {
	d := core.Delta{Links: map[core.SlotName]core.LinkState{}, Probes: map[core.SlotName]*core.ProbesNow{}}
	for _, v := range s.Slots {
		c := *v
		d.Slots = append(d.Slots, &c)
	}
	for _, v := range s.Bindings {
		c := *v
		d.Bindings = append(d.Bindings, &c)
	}
	for _, v := range s.Delegations {
		c := *v
		d.Delegations = append(d.Delegations, &c)
	}
	for _, v := range s.Leases {
		c := *v
		d.Leases = append(d.Leases, &c)
	}
	for _, v := range s.Actions {
		c := *v
		d.Actions = append(d.Actions, &c)
	}
	for k, v := range s.Links {
		d.Links[k] = v
	}
	for k, v := range s.Probes {
		c := *v
		d.Probes[k] = &c
	}
	out := core.NewState()
	out.Apply(&d)
	out.Seq, out.Capacity, out.MemoryMB = s.Seq, s.Capacity, s.MemoryMB
	return out
}

func (w *world) do(in core.Input) core.Result {
	before := copyState(w.s)
	beforeText := dump(w.s)
	res := core.Step(w.s, w.now, w.floor, in)
	if again := core.Step(w.s, w.now, w.floor, in); dump(again) != dump(res) {
		w.t.Fatalf("%T: two runs of one step differ:\n%s\n%s", in, dump(res), dump(again))
	}
	if dump(w.s) != beforeText {
		w.t.Fatalf("%T: Step changed the state itself", in)
	}
	for i, e := range res.Delta.Journal {
		if err := core.CheckEntry(e); err != nil || e.Seq != w.s.Seq+1+int64(i) {
			e.Change = nil
			w.t.Fatalf("%T %s: %v, entry %d of the step: %+v", in, dump(in), err, i, e)
		}
	}
	w.lessIsTheSame(in, res)
	if d := &res.Delta; len(d.Journal) > 0 && d.Journal[0].Change != nil {
		if whole, err := json.Marshal(d); err != nil || string(d.Journal[0].Change) != string(whole) {
			w.t.Fatalf("%T: the journal has %s, the delta is %s, %v", in, d.Journal[0].Change, whole, err)
		}
	}
	w.s.Apply(&res.Delta)
	if err := core.CheckInvariants(before, w.s); err != nil {
		w.t.Fatalf("%T %s: %v", in, dump(in), err)
	}
	for id, l := range w.s.Leases {
		if l.State == core.LeaseWaiting && core.WhyWaiting(w.s, w.now, id) == nil {
			w.t.Fatalf("%T %s: lease %s waits for nothing: %s", in, dump(in), id, dump(core.PlaceOf(w.s, w.now, id)))
		}
	}
	w.sent = append(w.sent, res.Effects...)
	w.journal = append(w.journal, res.Delta.Journal...)
	return res
}

// lessIsTheSame takes the step in a state that keeps only open actions.
func (w *world) lessIsTheSame(in core.Input, want core.Result) {
	lean := w.s.Clone() // tests change the state by hand too
	lean.KeepOnlyOpen()
	got := core.Step(lean, w.now, w.floor, in)
	if got.Repeat && got.Action != nil && got.Action.IsPast {
		if got.Action.Action != want.Action.Action || got.Action.Lease != want.Action.Lease || !want.Action.Closed {
			w.t.Fatalf("%T: repeats %s, not %s", in, got.Action.Action, want.Action.Action)
		}
		got.Action = want.Action // the store has the rest
	}
	if dump(got) != dump(want) {
		w.t.Fatalf("%T: without its closed actions the state decides differently:\n%s\n%s", in, dump(got), dump(want))
	}
	// A state that let go of them one by one knows the same.
	w.lean.Apply(&got.Delta)
	lean = w.s.Clone()
	lean.Apply(&want.Delta)
	lean.KeepOnlyOpen()
	if dump(w.lean.Past) != dump(lean.Past) || len(w.lean.Actions) != len(lean.Actions) {
		w.t.Fatalf("%T: %d open and %d past actions, want %d and %d", in, len(w.lean.Actions), len(w.lean.Past), len(lean.Actions), len(lean.Past))
	}
	for id := range lean.Leases {
		if a, b := w.lean.SpentBy(id), lean.SpentBy(id); a != b {
			w.t.Fatalf("%T: lease %s has spent %+v, want %+v", in, id, a, b)
		}
	}
}

func (w *world) must(in core.Input) core.Result {
	res := w.do(in)
	if res.Refusal != nil {
		w.t.Fatalf("%T refused: %v", in, res.Refusal)
	}
	return res
}

func (w *world) refused(code core.Code, in core.Input) core.Result {
	res := w.do(in)
	if res.Refusal == nil || res.Refusal.Code != code {
		w.t.Fatalf("%T: want %s, got %v", in, code, res.Refusal)
	}
	return res
}

func (w *world) pass(ms int64) {
	w.now.BootMs += ms
	w.now.WallMs += ms
	w.do(core.Tick{})
}

func (w *world) slot() *core.Slot { return w.s.Slots["shop"] }

func (w *world) id(prefix string) string {
	w.n++
	return fmt.Sprintf("%s%04d", prefix, w.n)
}

// clientID makes a valid identifier of an action.
func (w *world) clientID() core.ClientID {
	w.n++
	return core.ClientID(fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ6%06d", w.n))
}

const (
	nonce    = core.Nonce("link-1")
	instance = core.InstanceID("worker-1")
)

// prepared makes a slot with a binding and two delegations, its browser running and
// its extension connected and drained.
func prepared(t *testing.T) *world {
	w := newWorld(t)
	prepare(w)
	return w
}

func prepare(w *world) {
	w.must(core.CreateSlot{Name: "shop", By: "human:test"})
	w.must(core.Bind{Spec: core.BindingSpec{Name: "admin", Slot: "shop", Account: "none"}, By: "human:test"})
	w.must(core.Bind{Spec: core.BindingSpec{Name: "signed", Slot: "shop", Account: "ada@shop.example"}, By: "human:test"})
	w.must(core.Delegate{ID: "d1", Hash: "token-a", Binding: "admin", Agent: "agent-a", By: "human:test"})
	w.must(core.Delegate{ID: "d2", Hash: "token-b", Binding: "admin", Agent: "agent-b", By: "human:test"})
	w.launch()
	w.connect(nonce, instance)
}

func (w *world) launch() {
	w.must(core.StartSlot{Slot: "shop", By: "human:test"})
	l := core.LaunchID(w.id("launch"))
	w.must(core.LaunchStarting{Slot: "shop", Generation: w.slot().Generation + 1, Launch: l, SecretHash: "s"})
	w.must(core.LaunchRunning{Slot: "shop", Launch: l, Identity: core.Identity{Containment: "weak", KeeperPID: 10, KeeperStart: 20}})
}

func (w *world) connect(n core.Nonce, i core.InstanceID, reports ...core.Report) {
	w.must(core.LinkUp{Slot: "shop", Nonce: n})
	w.must(core.Hello{Slot: "shop", Nonce: n, Instance: i, Reports: reports})
	w.drain(n, reports...)
}

// drain answers the slot's fence as an extension with these reports would.
func (w *world) drain(n core.Nonce, reports ...core.Report) {
	w.must(core.Fenced{Slot: "shop", Nonce: n, Epoch: w.slot().Epoch, Reports: reports})
	w.must(core.Drained{Slot: "shop", Nonce: n, Epoch: w.slot().Epoch, Reports: reports})
}

// acquire makes an agent's active lease and opens the extension's gate for it.
func (w *world) acquire(token string) *core.Lease {
	id := core.LeaseID(w.id("lease"))
	w.must(core.Acquire{Lease: id, Token: token, CapHash: "cap-" + string(id), RequestID: w.id("r"), Binding: "admin", ForMs: 600_000})
	w.must(core.Pull{Slot: "shop", Nonce: nonce, Ask: 1})
	w.must(core.Granted{Slot: "shop", Nonce: nonce, Epoch: w.slot().Epoch})
	w.must(core.Claim{Lease: id, Cap: "cap-" + string(id)})
	return w.s.Leases[id]
}

func (w *world) act(l *core.Lease, class core.Class) *core.Action {
	res := w.must(core.Act{
		Action: core.ActionID(w.id("action")), Lease: l.ID, Cap: l.CapHash, ID: w.clientID(), Epoch: w.slot().Epoch,
		Verb: "click", Class: class, Summary: "click #save", BodyHash: "h", DeadlineMs: 30_000,
	})
	return w.s.Actions[res.Action.Action]
}

func (w *world) finish(a *core.Action, state string, dispatched, total int) {
	w.must(core.Done{Slot: "shop", Nonce: nonce, Action: a.Action, Epoch: a.Epoch, State: state, Steps: core.Steps{Dispatched: dispatched, Total: total}})
}

func report(a *core.Action, rev int64, how string, open int, calls map[string]core.SeenCall) core.Report {
	return core.Report{Action: a.Action, Rev: rev, Dispatched: 3, Open: open, Tab: 1, Document: "D1", How: how, Requests: calls}
}

func post(state string, status int) map[string]core.SeenCall {
	return map[string]core.SeenCall{"7": {Method: "POST", URL: "http://shop/save", Type: "xmlhttprequest", State: state, Status: status, Rule: "document"}}
}

func (w *world) want(a *core.Action, local core.Local, remote core.Remote) {
	got := w.s.Actions[a.Action]
	if got.Local != local || got.Remote != remote {
		w.t.Fatalf("action %s: local %s, remote %s; want %s, %s\n%s", a.Action, got.Local, got.Remote, local, remote, dump(got))
	}
}
