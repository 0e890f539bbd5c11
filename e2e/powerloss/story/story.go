// Package story tells, from one seed, always the same changes of the authority: what
// the traced program of e2e/powerloss commits, and what its judge expects to find.
// They are decided by package core, so they have the shapes and sizes of real ones.
package story

import (
	"fmt"
	"math/rand/v2"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Before is what the program does to its store before a commit.
type Before string

const (
	Nothing Before = ""
	Reopen  Before = "reopen" // as the daemon does after a COMMIT that failed
	Restart Before = "restart"
	Merge   Before = "merge" // the log is copied into the database
	Trim    Before = "trim"  // the journal's older half goes into the snapshot
)

// Chapter is one commit, and what comes before it.
type Chapter struct {
	Before  Before
	Written *core.Delta // in the same transaction, before the commit; nil: nothing
	Delta   *core.Delta
}

// Story is where it stands. State is what the store holds once the last chapter told is
// committed.
type Story struct {
	State *core.State

	rng     *rand.Rand
	now     core.Now
	n       int               // identifiers drawn
	links   int               // nonces drawn
	next    []core.Input      // what the last effects lead to
	tokens  map[string]string // of delegations, by binding
	leases  []core.LeaseID    // all that were asked for
	chapter int               // told
}

var slots = []core.SlotName{"desk", "till", "shop"}

// New begins the story of a seed.
func New(seed uint64) *Story {
	return &Story{
		State: core.NewState(), rng: rand.New(rand.NewPCG(seed, 0)), tokens: map[string]string{},
		now: core.Now{BootID: "boot", BootMs: 1_000_000, WallMs: 1_700_000_000_000},
	}
}

// Tell tells the next chapter. Its delta is never empty.
func (s *Story) Tell() Chapter {
	c := Chapter{Before: before(s.chapter), Delta: &core.Delta{}}
	s.chapter++
	if c.Before == Reopen || c.Before == Restart {
		s.next = nil // nobody hears what was said by a daemon that is gone
		s.step(c.Delta, core.Restarted{})
		for _, name := range slots {
			if v := s.State.Slots[name]; v != nil && v.Launch.Live() {
				s.next = append(s.next, s.hello(name)...)
			}
		}
		return c
	}
	// The engine commits in one transaction what has come in meanwhile, and may write some
	// of it before.
	most := 3
	if s.chapter > quiet {
		most = 40
	}
	if s.rng.IntN(3) == 0 {
		c.Written = &core.Delta{}
		s.steps(c.Written, most)
	}
	s.steps(c.Delta, most)
	return c
}

// steps takes some steps, until they have changed something.
func (s *Story) steps(to *core.Delta, most int) {
	for n := 1 + s.rng.IntN(most); n > 0 || to.Empty(); n-- {
		s.now.BootMs += int64(s.rng.IntN(400))
		s.now.WallMs += int64(s.rng.IntN(400))
		if len(s.next) > 0 {
			in := s.next[0]
			s.next = s.next[1:]
			s.step(to, in)
			continue
		}
		s.step(to, s.choose())
	}
}

// The log is merged now and then, and is written again from its beginning; in the first
// chapters, up to quiet, at closes and reopenings too. After those many steps go into one
// commit, and the log grows to some hundred pages before it is merged. Long is how many
// chapters it takes to see all that. The log that is so long that SQLite merges it within a
// commit, by the same code, is not reached.
const (
	quiet = 90
	Long  = 300
)

// before places the store's own events.
func before(chapter int) Before {
	switch {
	case chapter > 0 && chapter%40 == 0:
		return Trim
	case chapter%40 == 20:
		return Merge
	case chapter == 0 || chapter > quiet || chapter%15 != 0:
		return Nothing
	case chapter%45 == 30:
		return Reopen
	}
	return Restart
}

func (s *Story) step(to *core.Delta, in core.Input) {
	res := core.Step(s.State, s.now, nil, in)
	s.State.Apply(&res.Delta)
	to.Merge(&res.Delta)
	for _, eff := range res.Effects {
		s.follow(eff)
	}
	if _, ok := in.(core.Acquire); ok && res.Lease != nil {
		s.leases = append(s.leases, res.Lease.ID)
		s.next = append(s.next, core.Claim{Lease: res.Lease.ID, Cap: capOf(res.Lease.ID)})
	}
}

// follow plays the browser: what it says to what it is sent.
func (s *Story) follow(eff core.Effect) {
	switch eff := eff.(type) {
	case core.StartLaunch:
		id := core.LaunchID(s.id("launch"))
		s.next = append(s.next,
			core.LaunchStarting{Slot: eff.Slot, Generation: eff.Generation, Launch: id, SecretHash: s.id("hash")},
			core.LaunchRunning{Slot: eff.Slot, Launch: id, Identity: core.Identity{Containment: "weak", KeeperPID: 4000 + s.n, KeeperStart: uint64(s.now.BootMs)}})
		s.next = append(s.next, s.hello(eff.Slot)...)
	case core.SendFence:
		nonce := s.State.Links[eff.Slot].Nonce
		s.next = append(s.next,
			core.Fenced{Slot: eff.Slot, Nonce: nonce, Epoch: eff.Epoch},
			core.Drained{Slot: eff.Slot, Nonce: nonce, Epoch: eff.Epoch})
	case core.SendPoke:
		nonce := s.State.Links[eff.Slot].Nonce
		s.next = append(s.next, core.Pull{Slot: eff.Slot, Nonce: nonce, Ask: int64(s.n)},
			core.Granted{Slot: eff.Slot, Nonce: nonce, Epoch: eff.Epoch})
	case core.SendAction:
		s.next = append(s.next, core.Done{
			Slot: eff.Slot, Nonce: s.State.Links[eff.Slot].Nonce, Action: eff.Action, Epoch: eff.Epoch, State: "finished",
			Steps: core.Steps{Dispatched: 1, Total: 1}, Observed: &core.Expect{Tab: 7, Document: "D1"},
		})
	}
}

func (s *Story) hello(slot core.SlotName) []core.Input {
	s.links++
	nonce := core.Nonce(fmt.Sprintf("nonce-%d", s.links))
	return []core.Input{
		core.LinkUp{Slot: slot, Nonce: nonce},
		core.Hello{Slot: slot, Nonce: nonce, Instance: "instance"},
	}
}

func (s *Story) id(kind string) string {
	s.n++
	return fmt.Sprintf("%s-%026d", kind, s.n)
}

func capOf(l core.LeaseID) string { return "capability of " + string(l) }

const by = "human:cli"

// choose draws what a person or an agent asks next. What core refuses changes nothing
// and is drawn again.
func (s *Story) choose() core.Input {
	name := slots[s.rng.IntN(len(slots))]
	v := s.State.Slots[name]
	binding := core.BindingName("of-" + string(name))
	if v == nil {
		return core.CreateSlot{Name: name, By: by}
	}
	if b := s.State.Bindings[binding]; b == nil || b.Removed {
		return core.Bind{By: by, Spec: core.BindingSpec{
			Name: binding, Slot: name, Project: "the shop", Environment: "staging", Owner: "ada",
			Start: "https://shop.example/", Origins: []string{"https://shop.example", "https://pay.example"},
		}}
	}
	token := s.tokens[string(binding)]
	if token == "" {
		token = s.id("token")
		s.tokens[string(binding)] = token
		return core.Delegate{ID: core.DelegationID(s.id("delegation")), Hash: token, Binding: binding, Agent: "ada", By: by}
	}
	var lease core.LeaseID
	for _, id := range s.leases {
		if l := s.State.Leases[id]; l.Slot == name && l.State != core.LeaseEnded {
			lease = id
		}
	}
	capability := capOf(lease)
	switch draw := s.rng.IntN(100); {
	case lease == "":
		id := core.LeaseID(s.id("lease"))
		return core.Acquire{
			Lease: id, Token: token, CapHash: capOf(id), RequestID: s.id("request"), Binding: binding,
			Task: "change the price of product 42", ForMs: 600_000, WaitMs: 60_000, By: "agent",
		}
	case v.Holder.Kind == "human" && draw < 60:
		return core.Handback{Slot: name, To: "ada", Confirm: true, By: by}
	case v.Holder.Kind == "none" && draw < 50:
		return core.Resume{Lease: lease, Cap: capability}
	case draw < 45:
		return core.Act{
			Action: core.ActionID(s.id("action")), ID: core.ClientID(fmt.Sprintf("%026d", s.n)), Lease: lease, Cap: capability,
			Epoch: v.Epoch, Verb: "click", Class: core.Write, Summary: "click #save", BodyHash: s.id("body"), DeadlineMs: 20_000,
		}
	case draw < 60:
		return core.Renew{Lease: lease, Cap: capability, ForMs: 600_000}
	case draw < 75:
		return core.Takeover{Slot: name, Surface: "cli", FromPerson: true, By: by}
	case draw < 80:
		return core.Release{Lease: lease, Cap: capability}
	case draw < 83:
		return core.Revoke{Lease: lease, Note: "enough", By: by}
	case draw < 86:
		s.tokens[string(binding)] = ""
		return core.RemoveBinding{Name: binding, By: by}
	}
	return core.Tick{}
}
