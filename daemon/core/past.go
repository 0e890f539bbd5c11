package core

// Past is what stays in memory of a closed action in a state that keeps only open
// ones whole: enough never to run its identifier again (I7). Its agent and its binding
// are its lease's; everything else is in the store.
type Past struct {
	Lease    LeaseID  `json:"lease"`
	ID       ClientID `json:"id"`
	BodyHash string   `json:"body_hash"`
	Bytes    int64    `json:"bytes"` // of its lease's budget
}

// KeepOnlyOpen makes the state keep closed actions as Past only. What Step decides is
// the same; what an agent or a person reads of a closed action comes from the store.
func (s *State) KeepOnlyOpen() {
	s.onlyOpen = true
	for _, a := range s.Actions {
		s.retire(a)
	}
}

// Remember takes in a closed action of which only this is at hand.
func (s *State) Remember(id ActionID, p *Past) {
	s.Past[id] = p
	s.index.past(id, s.Leases[p.Lease].Binding, p)
}

// retire lets go of a closed action, in a state that keeps only open ones.
func (s *State) retire(a *Action) {
	if !s.onlyOpen || !a.Closed {
		return
	}
	delete(s.Actions, a.Action)
	s.Past[a.Action] = &Past{Lease: a.Lease, ID: a.ID, BodyHash: a.BodyHash, Bytes: a.Bytes}
}

// Action returns an action, or nil. One that the state keeps only as Past comes with
// nothing but its identity, and says so.
func (s *State) Action(id ActionID) *Action {
	if a := s.Actions[id]; a != nil {
		return a
	}
	p := s.Past[id]
	if p == nil {
		return nil
	}
	l := s.Leases[p.Lease]
	return &Action{
		Record: Record{Action: id, ID: p.ID, Lease: p.Lease, Slot: l.Slot},
		Agent:  l.Agent, Binding: l.Binding, BodyHash: p.BodyHash, Over: true, Closed: true, IsPast: true,
	}
}

// Brief is what stays on the disk of a closed action once the journal's entries about
// it are trimmed: who did what under which epoch, what became of it, and what I7 needs.
func (a *Action) Brief() *Action {
	b := &Action{
		Record: Record{
			Action: a.Action, ID: a.ID, Lease: a.Lease, Slot: a.Slot, Epoch: a.Epoch, Verb: a.Verb, Summary: a.Summary,
			Class: a.Class, Authority: a.Authority, Local: a.Local, Steps: a.Steps, Remote: a.Remote,
			WatchedUntil: a.WatchedUntil, Evidence: []Evidence{}, Resolution: a.Resolution, Times: a.Times, Trimmed: true,
		},
		Agent: a.Agent, Binding: a.Binding, BodyHash: a.BodyHash, Bytes: a.Bytes,
		Sent: a.Sent, Over: a.Over, Closed: a.Closed, Host: a.Host, Watched: a.Watched,
	}
	if a.Error != nil {
		b.Error = &Error{Code: a.Error.Code, Message: a.Error.Message}
	}
	return b
}
