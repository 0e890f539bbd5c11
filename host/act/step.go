package act

import (
	"encoding/json"
	"sync/atomic"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// Port takes steps for the extension. Send never blocks; the number of steps on
// their way is bounded by the executor (MaxRunning actions of at most window each).
type Port interface {
	Send(*Step)
	// Waits is told what an action waits for that may have had an effect: a dialog of its
	// page, or nothing any more.
	Waits(wire.ActionWaits)
}

// Answer is what the extension said of a step. Result is part of the frame that it
// came in, so that a large picture is not copied.
type Answer struct {
	OK         bool
	Dispatched bool
	Observed   *core.Expect
	URL        string
	Result     json.RawMessage
	Error      *core.Error
	Dialog     *core.Dialog // why an effect was not dispatched
}

// Step is one command on its way to the extension. It is either written once, or
// withheld for ever; which of the two is decided by one atomic change, so that
// "never sent" is a fact and not a guess.
type Step struct {
	Cmd    wire.Cmd // the port sets Seq
	fate   atomic.Int32
	done   chan struct{}
	answer Answer
	waits  func(*core.Dialog)
	// first is called with the answer before anybody who waits for it sees it, in the
	// order in which answers come.
	first func(Answer)
}

const (
	stepQueued int32 = iota
	stepWritten
	stepWithheld
)

func newStep(c wire.Cmd) *Step { return &Step{Cmd: c, done: make(chan struct{})} }

// Claim is called by the port immediately before it writes the step. If it says
// false the step must not be written.
func (s *Step) Claim() bool { return s.fate.CompareAndSwap(stepQueued, stepWritten) }

// Withhold ends a step that has not been written; it says whether that is now
// certain.
func (s *Step) Withhold() bool {
	return s.fate.CompareAndSwap(stepQueued, stepWithheld) || s.fate.Load() == stepWithheld
}

// Resolve gives the answer to a step. Only the port calls it, once.
func (s *Step) Resolve(a Answer) {
	s.answer = a
	if s.first != nil {
		s.first(a)
	}
	close(s.done)
}

// Waits says that the step is answered when a dialog of its page has been, or with nil that
// there is none any more.
func (s *Step) Waits(d *core.Dialog) {
	if s.waits != nil {
		s.waits(d)
	}
}

// Refuse withholds the step and answers it with the reason, if it was still
// waiting to be written.
func (s *Step) Refuse(e *core.Error) {
	if s.fate.CompareAndSwap(stepQueued, stepWithheld) {
		s.Resolve(Answer{Error: e})
	}
}

// settled returns the answer, if it has come.
func (s *Step) settled() (Answer, bool) {
	select {
	case <-s.done:
		return s.answer, true
	default:
		return Answer{}, false
	}
}

// mayHaveRun says whether the step may have been dispatched: it was written, and
// the extension has not said that it was not.
func (s *Step) mayHaveRun() bool {
	if s.fate.Load() != stepWritten {
		return false
	}
	a, ok := s.settled()
	return !ok || a.Dispatched
}
