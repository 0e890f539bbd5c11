package act

import (
	"bytes"
	"encoding/json"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// raw sends one command of a DevTools client as it is and returns what waits for its
// end: the answer and, for input, the barrier after it. Without a method it asks to be
// told of the lease's tabs from here on.
func (r *run) raw(told func(Answer)) func() error {
	r.mayMove = true
	if r.a.Act.Method == "" {
		s := r.hand(wire.Cmd{Kind: "watch"}, told)
		return func() error { return r.ends(s) }
	}
	rule, bad := ruleFor(r.a)
	var params json.RawMessage
	if bad == nil {
		params, bad = rawParams(r.a)
	}
	if bad != nil {
		return func() error { return bad }
	}
	c := wire.Cmd{Kind: "cdp", Method: r.a.Act.Method, Params: bytes.TrimSpace(params), Session: r.a.Session}
	c.Effect, c.Script = rule.Effect, rule.Script
	r.mayMove = !rule.Input // the barrier is for the document that got the input
	if rule.Effect {
		r.plan(1)
	}
	if c.Method == "Page.navigateToHistoryEntry" {
		return func() error { return r.rawHistory(c, told) }
	}
	s := r.hand(c, told)
	return func() error {
		if err := r.ends(s); err != nil || !rule.Input {
			return err
		}
		return r.barrier()
	}
}

// hand sends a step whose answer is told.
func (r *run) hand(c wire.Cmd, told func(Answer)) *Step {
	s := r.step(c)
	s.first = func(a Answer) {
		if a.OK || a.Dispatched {
			a.Result = within(r.a.Origins).only(c.Method, a.Result)
			told(a)
		}
	}
	r.hands(s)
	return s
}

// ends waits for a step's answer, which its client has been told.
func (r *run) ends(s *Step) error {
	_, err := r.wait(s)
	return err
}

// rawHistory tells the dispatch gate where an entry of the history leads.
func (r *run) rawHistory(c wire.Cmd, told func(Answer)) error {
	var entry historyStep
	if err := json.Unmarshal(c.Params, &entry); err != nil {
		return badArgument("params must be a JSON object with entryId")
	}
	h, err := r.history()
	if err != nil {
		return err
	}
	for _, e := range h.Entries {
		if e.ID != entry.EntryID {
			continue
		}
		if bad := checkURL(e.URL); bad != nil {
			return bad
		}
		c.Params = jsonOf(historyStep{e.ID, e.URL})
		return r.ends(r.hand(c, told))
	}
	return core.Refuse(core.CodeInvalid, "the tab's history has no such entry", "look it up: Page.getNavigationHistory")
}

// ClientError words a step's error for a DevTools client: the browser's own number and
// text where there is one.
//
// Of a command that can have an effect and was dispatched, nothing else proves that it was
// not carried out: it is not to be sent again.
func ClientError(class core.Class, seen Answer) *wire.CDPError {
	e := seen.Error
	if b, ok := parseBrowserError(e); ok {
		return &wire.CDPError{Code: b.Code, Message: b.Message}
	}
	if class == core.Write && seen.Dispatched && e.Code == core.CodeUnavailable {
		e = core.Refuse(core.CodeOutcomeUnknown, e.Message+"; the command was dispatched, and what became of it is not known", "look before you send it again")
	}
	return wire.ErrorOf(e)
}
