package core

import "fmt"

// Budget bounds what one lease may do. Zero is no bound.
type Budget struct {
	Actions   int64 `json:"actions,omitempty"`    // over the lease's whole life
	PerMinute int64 `json:"per_minute,omitempty"` // in any minute of one epoch
	Bytes     int64 `json:"bytes,omitempty"`      // of requests and results together
}

// Spent is what a lease has used of its budget.
type Spent struct {
	Actions int64 `json:"actions"`
	Bytes   int64 `json:"bytes"`
}

// SpentBy tells what a lease has used.
func (s *State) SpentBy(id LeaseID) Spent { return s.index.spent[id] }

func (b Budget) check() *Error {
	if b.Actions < 0 || b.PerMinute < 0 || b.Bytes < 0 || b.PerMinute > MaxPerMinute {
		return Refuse(CodeInvalid, "a budget is out of range", fmt.Sprintf("actions and bytes of 0 or more, at most %d actions a minute", MaxPerMinute))
	}
	return nil
}

// budget refuses an action that its lease has no budget for.
func (t *tx) budget(l *Lease, w *Work, in Act) *Error {
	b := t.s.Bindings[l.Binding].Budget
	spent := t.s.index.spent[l.ID]
	const hint = "a person allows more: make the binding anew with a larger budget, and acquire again"
	switch {
	case b.Actions > 0 && spent.Actions >= b.Actions:
		return Refuse(CodeLimit, fmt.Sprintf("the lease's budget of %d actions is used up", b.Actions), hint).With("budget", b).With("spent", spent)
	case b.Bytes > 0 && spent.Bytes+in.Bytes > b.Bytes:
		return Refuse(CodeLimit, fmt.Sprintf("the lease's budget of %d bytes is used up", b.Bytes), hint).With("budget", b).With("spent", spent)
	}
	if b.PerMinute == 0 {
		return nil
	}
	const minute = 60_000
	for len(w.Recent) > 0 && w.Recent[0] <= t.now.BootMs-minute {
		w.Recent = w.Recent[1:]
	}
	if int64(len(w.Recent)) >= b.PerMinute {
		wait := w.Recent[0] + minute - t.now.BootMs
		return Refuse(CodeLimit, fmt.Sprintf("%d actions in the last minute are as many as the binding allows", b.PerMinute),
			"go on in "+span(wait)).With("budget", b).With("retry_after_ms", wait)
	}
	w.Recent = append(w.Recent, t.now.BootMs)
	return nil
}
