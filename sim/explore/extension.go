package explore

import (
	"fmt"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Extension is a model of the extension's worker, as far as control goes: gate.js,
// grants.js, state.js, and of dock.js and drain.js what answers the daemon. It is a
// value: a copy is an extension of its own, for no list in it is ever changed in place.
type Extension struct {
	Nonce  core.Nonce // of the link behind the port, empty without one
	Linked bool       // the daemon behind it has said welcome
	Epoch  core.Epoch // in force, never lowered
	Grant  core.Epoch // 0: the gate is closed
	EndMs  int64      // of the grant
	Hold   core.HoldID
	Mark   core.Epoch // of the profile
	Seq    int64
	Person bool
	Ledger []Entry

	granted   core.Epoch // the last that this life was granted
	helloHold core.HoldID
	lastAsk   int64
	asks      []asked
	draining  core.Epoch // the fence whose drain goes on, 0: none
	drainEnd  int64
}

type asked struct{ ask, atMs int64 }

// Entry is what the ledger knows of one action: one command, at work in a page or over.
type Entry struct {
	Action core.ActionID
	Epoch  core.Epoch
	Rev    int64
	Open   bool
	How    string // open, barrier, lost
}

// Instance is the one life of the worker that is modelled.
const Instance core.InstanceID = "worker"

const document core.DocumentID = "D"

// Down is a message to the extension.
type Down struct {
	T          string // link, welcome, fence, poke, grant, forget, cmd
	Nonce      core.Nonce
	Up         bool // of link
	Epoch      core.Epoch
	Seq        int64
	Person     bool
	FromPerson bool
	Hold       core.HoldID
	DrainMs    int64
	Ask        int64
	TTLMs      int64
	Lease      core.LeaseID
	Action     core.ActionID
}

// Up is a message of the extension's, in the core's words, or of a person's press.
type Up struct {
	In   core.Input
	Hold core.HoldID // of person.hold
	// Refused and Answered are a command's answers, for the host.
	Refused, Answered core.ActionID
}

// Allows is the third gate: whether an agent's command of this epoch is dispatched now.
func (x *Extension) Allows(epoch core.Epoch, nowMs int64) bool {
	return epoch >= 1 && epoch <= core.MaxEpoch && x.Linked && x.Nonce != "" && x.Hold == "" &&
		x.Grant == epoch && x.Epoch == epoch && nowMs < x.EndMs
}

// allow is the gate that is asked: a test takes it away.
var allow = (*Extension).Allows

func (x *Extension) raise(epoch core.Epoch) bool {
	if epoch < 1 || epoch > core.MaxEpoch || epoch < x.Epoch {
		return false
	}
	x.Epoch = epoch
	if x.Grant < epoch {
		x.Grant = 0
	}
	return true
}

func (x *Extension) see(epoch core.Epoch, seq int64, person bool) {
	x.Mark, x.Seq, x.Person = max(x.Mark, epoch), max(x.Seq, seq), person
}

// Hear takes one message of the link that is there now. What comes of another is dropped,
// as link.js does.
func (x *Extension) Hear(m Down, nowMs int64) (out []Up) {
	if m.T == "link" {
		x.Linked, x.Nonce, x.Grant = false, m.Nonce, 0
		x.asks, x.lastAsk = nil, 0
		if !m.Up {
			x.Nonce = ""
			return nil
		}
		x.helloHold = x.Hold
		return []Up{{In: core.Hello{
			Slot: slot, Nonce: x.Nonce, Instance: Instance, Mark: x.Mark, MarkSeq: x.Seq, Person: x.Person, Hold: x.Hold, Reports: x.reports(core.MaxEpoch, false),
		}}}
	}
	if m.T != "cmd" && (m.Nonce != x.Nonce || x.Nonce == "" || m.T != "welcome" && !x.Linked) {
		return nil
	}
	switch m.T {
	case "welcome":
		x.Linked = true
		x.raise(m.Epoch)
		x.see(m.Epoch, m.Seq, x.Person)
		if x.Hold != "" && x.Hold != x.helloHold {
			out = append(out, Up{Hold: x.Hold})
		}
	case "fence":
		return x.fence(m, nowMs)
	case "poke":
		return []Up{x.ask(nowMs)}
	case "grant":
		return x.grant(m, nowMs)
	case "forget":
		x.Seq = max(x.Seq, m.Seq)
		x.Ledger = slices.DeleteFunc(slices.Clone(x.Ledger), func(e Entry) bool { return e.Action == m.Action })
	case "cmd":
		if !allow(x, m.Epoch, nowMs) {
			return []Up{{Refused: m.Action}}
		}
		x.Ledger = append(x.Ledger[:len(x.Ledger):len(x.Ledger)], Entry{Action: m.Action, Epoch: m.Epoch, Rev: 1, Open: true, How: "open"})
	}
	return out
}

func (x *Extension) ask(nowMs int64) Up {
	x.lastAsk++
	x.asks = append(x.asks[:len(x.asks):len(x.asks)], asked{x.lastAsk, nowMs})
	return Up{In: core.Pull{Slot: slot, Nonce: x.Nonce, Ask: x.lastAsk}}
}

func (x *Extension) grant(m Down, nowMs int64) []Up {
	if m.Epoch == 0 {
		x.Grant = 0
		return nil
	}
	at := slices.IndexFunc(x.asks, func(a asked) bool { return a.ask == m.Ask })
	if at < 0 {
		return nil
	}
	end := x.asks[at].atMs + m.TTLMs
	x.asks = slices.Delete(slices.Clone(x.asks), at, at+1)
	if m.TTLMs <= 0 || nowMs >= end {
		younger := slices.ContainsFunc(x.asks, func(a asked) bool { return a.ask > m.Ask })
		if m.TTLMs > 0 && !younger {
			return []Up{x.ask(nowMs)}
		}
		return nil
	}
	if x.Hold != "" || !x.raise(m.Epoch) {
		return nil
	}
	before := x.Grant
	x.Grant, x.EndMs = m.Epoch, end
	if before == m.Epoch {
		return nil
	}
	if x.draining != 0 {
		x.draining = 0
		x.lose(m.Epoch)
	}
	x.granted = m.Epoch
	x.see(m.Epoch, 0, x.Person)
	return []Up{{In: core.Granted{Slot: slot, Nonce: x.Nonce, Epoch: m.Epoch}}}
}

func (x *Extension) fence(m Down, nowMs int64) []Up {
	if !x.raise(m.Epoch) {
		return nil
	}
	x.Grant = 0
	if m.Hold != "" && x.Hold == m.Hold {
		x.Hold = ""
	}
	x.draining, x.drainEnd = m.Epoch, nowMs+m.DrainMs
	out := []Up{{In: core.Fenced{
		Slot: slot, Nonce: x.Nonce, Epoch: m.Epoch, Reports: x.reports(m.Epoch, true), Documents: x.documents(m.Epoch),
	}}}
	x.see(m.Epoch, m.Seq, m.Person)
	return append(out, x.Drain(nowMs)...)
}

// Drain ends the drain, if everything has come to rest or its time is over.
func (x *Extension) Drain(nowMs int64) []Up {
	late := nowMs >= x.drainEnd
	if x.draining == 0 || !late && len(x.documents(x.draining)) > 0 {
		return nil
	}
	epoch := x.draining
	x.draining = 0
	x.lose(epoch)
	var lost []core.DocNow
	if slices.ContainsFunc(x.Ledger, func(e Entry) bool { return e.Epoch < epoch && e.How == "lost" }) {
		lost = []core.DocNow{{Document: document, Tab: 1, Why: "input_pending"}}
	}
	if x.Nonce == "" {
		return nil
	}
	return []Up{{In: core.Drained{Slot: slot, Nonce: x.Nonce, Epoch: epoch, Reports: x.reports(epoch, false), Documents: lost}}}
}

// lose gives up what is still open of the epochs below.
func (x *Extension) lose(below core.Epoch) {
	x.Ledger = slices.Clone(x.Ledger)
	for i := range x.Ledger {
		if e := &x.Ledger[i]; e.Epoch < below && e.How == "open" {
			e.How = "lost"
			e.Rev++
		}
	}
}

// Land is called when the page has come to an action's command. It is answered then.
func (x *Extension) Land(action core.ActionID) (out []Up) {
	x.Ledger = slices.Clone(x.Ledger)
	for i := range x.Ledger {
		e := &x.Ledger[i]
		if e.Action != action || !e.Open {
			continue
		}
		e.Open, e.How = false, "barrier"
		e.Rev++
		if x.Linked {
			out = append(out, Up{In: core.Reported{Slot: slot, Nonce: x.Nonce, Report: e.report()}})
		}
		// What is seen after a fence, or a press, is the next holder's.
		if e.Epoch >= x.Epoch && x.Hold == "" {
			out = append(out, Up{Answered: action})
		}
	}
	return out
}

// Press is a person's "Take over" in the popup.
func (x *Extension) Press(id core.HoldID) []Up {
	x.Hold = id
	x.Grant = 0
	if !x.Linked {
		return nil
	}
	return []Up{{Hold: x.Hold}}
}

// Renew asks for the open grant again, as its timer does.
func (x *Extension) Renew(nowMs int64) []Up {
	if x.Grant == 0 || !x.Linked {
		return nil
	}
	return []Up{x.ask(nowMs)}
}

func (x *Extension) documents(below core.Epoch) []core.DocNow {
	if slices.ContainsFunc(x.Ledger, func(e Entry) bool { return e.Epoch < below && e.How == "open" }) {
		return []core.DocNow{{Document: document, Tab: 1, Why: "input_pending"}}
	}
	return nil
}

func (e Entry) report() core.Report {
	r := core.Report{Action: e.Action, Rev: e.Rev, Dispatched: 1, Tab: 1, Document: document, How: e.How, Requests: map[string]core.SeenCall{}}
	if e.Open {
		r.Open = 1
		return r
	}
	// The page has answered it, and its website has.
	r.Requests["1"] = core.SeenCall{Method: "POST", Type: "xmlhttprequest", State: "answered", Status: 200, Rule: "document"}
	return r
}

func (x *Extension) reports(below core.Epoch, open bool) []core.Report {
	out := []core.Report{}
	for _, e := range x.Ledger {
		if e.Epoch < below && (!open || e.Open || e.How == "open") {
			out = append(out, e.report())
		}
	}
	return out
}

// key says all that matters. The journal's number does not: an extension has seen none
// that is not on the disk, or Hear's caller would have heard of it (world.go).
func (x *Extension) key() string {
	return fmt.Sprintf("%s %v %d %d %d %s %d %v %v %d %s %d %v %d %d",
		x.Nonce, x.Linked, x.Epoch, x.Grant, x.EndMs, x.Hold, x.Mark, x.Person, x.Ledger, x.granted, x.helloHold, x.lastAsk, x.asks, x.draining, x.drainEnd)
}
