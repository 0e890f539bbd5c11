package engine

import "sessiondock.dev/sessiondock/daemon/core"

// The state in memory has only open actions whole. What is asked about a closed one is
// read from the store, on connections that do not keep the writer waiting.

// Action returns an action as it is committed, or nil if there is none.
func (e *Engine) Action(id core.ActionID) (*core.Action, error) {
	var a *core.Action
	e.View(func(s *core.State, _ core.Now) { a = s.Action(id) })
	return e.whole(a)
}

// ActionByClient returns an action by its binding and the client's identifier, or nil.
func (e *Engine) ActionByClient(binding core.BindingName, id core.ClientID) (*core.Action, error) {
	var a *core.Action
	e.View(func(s *core.State, _ core.Now) { a = s.ActionByClient(binding, id) })
	return e.whole(a)
}

func (e *Engine) whole(a *core.Action) (*core.Action, error) {
	if a == nil || !a.IsPast {
		return a, nil
	}
	return e.store.Action(a.Action)
}

// OpenActions returns a slot's actions that are not closed, oldest first.
func (e *Engine) OpenActions(slot core.SlotName) []*core.Action {
	var out []*core.Action
	e.View(func(s *core.State, _ core.Now) { out = s.OpenActions(slot) })
	return out
}

// Actions returns a slot's newest actions, or the newest before one, oldest first.
func (e *Engine) Actions(slot core.SlotName, before core.ActionID, limit int) ([]*core.Action, error) {
	return e.store.Actions(slot, before, limit)
}

// Events reads the journal.
func (e *Engine) Events(q core.EventQuery) (core.EventPage, error) { return e.store.Events(q) }
