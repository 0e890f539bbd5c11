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
	return p.Action(id, s.Leases[p.Lease])
}

// Action makes an action of a lease that is only its identity.
func (p *Past) Action(id ActionID, l *Lease) *Action {
	return &Action{
		Record: Record{Action: id, ID: p.ID, Lease: p.Lease, Slot: l.Slot},
		Agent:  l.Agent, Binding: l.Binding, BodyHash: p.BodyHash, Bytes: p.Bytes, Over: true, Closed: true, IsPast: true,
	}
}

// Brief is what stays of a closed action, beside its Past, once the journal's entries
// about it are trimmed: what was done under which epoch, and what became of it.
type Brief struct {
	Epoch        Epoch       `json:"epoch"`
	Verb         string      `json:"verb"`
	Summary      string      `json:"summary"`
	Class        Class       `json:"class"`
	Authority    Authority   `json:"authority"`
	Local        Local       `json:"local"`
	Remote       Remote      `json:"remote"`
	Steps        Steps       `json:"steps,omitzero"`
	WatchedUntil int64       `json:"watched_until,omitempty"`
	Resolution   *Resolution `json:"resolution,omitempty"`
	Times        Times       `json:"times"`
	Error        *Error      `json:"error,omitempty"`
	Sent         bool        `json:"sent,omitempty"`
	Host         string      `json:"host,omitempty"`
}

// Brief sums a closed action up.
func (a *Action) Brief() Brief {
	b := Brief{
		Epoch: a.Epoch, Verb: a.Verb, Summary: a.Summary, Class: a.Class, Authority: a.Authority, Local: a.Local, Remote: a.Remote,
		Steps: a.Steps, WatchedUntil: a.WatchedUntil, Resolution: a.Resolution, Times: a.Times, Sent: a.Sent, Host: a.Host,
	}
	if a.Error != nil {
		b.Error = &Error{Code: a.Error.Code, Message: a.Error.Message} // without the detail
	}
	return b
}

// Fill gives an action that is only its identity what the brief says.
func (b Brief) Fill(a *Action) {
	a.Epoch, a.Verb, a.Summary, a.Class, a.Authority, a.Local, a.Remote = b.Epoch, b.Verb, b.Summary, b.Class, b.Authority, b.Local, b.Remote
	a.Steps, a.WatchedUntil, a.Resolution, a.Times, a.Error, a.Sent, a.Host = b.Steps, b.WatchedUntil, b.Resolution, b.Times, b.Error, b.Sent, b.Host
	a.Watched = b.WatchedUntil > 0
	a.Evidence, a.Trimmed, a.IsPast = []Evidence{}, true, false
}
