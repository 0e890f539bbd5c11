package heard

import (
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// maxDocuments bounds the documents of one report.
const maxDocuments = 1024

// Hello is the extension's first word on a link.
func Hello(slot core.SlotName, m *wire.Hello) core.Hello {
	in := core.Hello{
		Slot: slot, Nonce: m.Nonce, Instance: m.Instance, Mark: m.Mark.Epoch, MarkSeq: m.Mark.Seq,
		Person: m.Mark.Person, Anew: m.Anew, Reports: reports(m.Actions),
	}
	if m.Hold != nil {
		in.Hold, in.StopPage, in.Tabs = m.Hold.ID, m.Hold.StopPage, Tabs(m.Hold.Tabs)
	}
	return in
}

// Fenced acknowledges a fence.
func Fenced(slot core.SlotName, m *wire.Fenced) core.Fenced {
	return core.Fenced{Slot: slot, Nonce: m.Nonce, Epoch: m.Epoch, Reports: reports(m.Actions), Documents: documents(m.Documents)}
}

// Drained ends a drain.
func Drained(slot core.SlotName, m *wire.Drained) core.Drained {
	return core.Drained{Slot: slot, Nonce: m.Nonce, Epoch: m.Epoch, Reports: reports(m.Actions), Documents: openInput(m.Documents)}
}

// DocumentFound tells of a worker that may run an agent's code.
func DocumentFound(slot core.SlotName, m *wire.DocumentFound) core.DocumentFound {
	return core.DocumentFound{Slot: slot, Nonce: m.Nonce, Document: core.DocumentID(clip(string(m.Document), 128)), URL: cleanURL(m.URL)}
}

// DocumentEnded tells of a document with an agent's script.
func DocumentEnded(slot core.SlotName, m *wire.DocumentEnded) core.DocumentEnded {
	return core.DocumentEnded{Slot: slot, Nonce: m.Nonce, Document: m.Document, How: m.How}
}

// Reported is one action's report.
func Reported(slot core.SlotName, m *wire.Report) core.Reported {
	return core.Reported{Slot: slot, Nonce: m.Nonce, Report: report(m.Action)}
}

// Pull asks for a grant.
func Pull(slot core.SlotName, m *wire.Pull) core.Pull {
	return core.Pull{Slot: slot, Nonce: m.Nonce, Ask: m.Ask}
}

// Granted confirms one.
func Granted(slot core.SlotName, m *wire.Granted) core.Granted {
	return core.Granted{Slot: slot, Nonce: m.Nonce, Epoch: m.Epoch}
}

// ProbeDone is what was seen at the page of a probe. More of it than is compared is cut.
func ProbeDone(slot core.SlotName, m *wire.ProbeResult) core.ProbeDone {
	return core.ProbeDone{
		Slot: slot, Nonce: m.Nonce, Probe: m.Probe, Epoch: m.Epoch, State: m.State,
		Text: clip(m.Text, wire.MaxProbeText), Cut: m.Cut || len(m.Text) > wire.MaxProbeText, URL: cleanURL(m.URL),
	}
}

// Done is the host's last word on an action, on the link with this nonce. What was
// seen, its result, does not go to the core.
func Done(slot core.SlotName, nonce core.Nonce, m *wire.ActionDone) core.Done {
	return core.Done{
		Slot: slot, Nonce: nonce, Action: m.Action, Epoch: m.Epoch, State: m.State,
		Error: m.Error, Steps: m.Steps, Observed: m.Observed, URL: cleanURL(m.URL), Bytes: int64(len(m.Result)),
	}
}

func reports(rs []wire.ActionReport) []core.Report {
	out := make([]core.Report, len(rs))
	for i, r := range rs {
		out[i] = report(r)
	}
	return out
}

func report(r wire.ActionReport) core.Report {
	c := core.Report{
		Action: r.Action, Rev: r.Rev, Dispatched: max(0, r.Dispatched), Open: max(0, r.Open), Tab: r.Tab,
		Document: core.DocumentID(clip(string(r.Document), 128)), Script: r.Script, How: how(r.How), HowRule: clip(r.HowRule, 64), More: max(0, r.More),
		Requests: make(map[string]core.SeenCall, len(r.Requests)),
	}
	for i, q := range r.Requests {
		if i >= wire.MaxEvidence {
			c.More += len(r.Requests) - i
			break
		}
		if q.State != "in_flight" && q.State != "answered" && q.State != "failed" {
			c.More++ // a state that this daemon does not know is no answer
			continue
		}
		c.Requests[clip(q.ID, 64)] = core.SeenCall{
			Method: clip(q.Method, 32), URL: cleanURL(q.URL), Type: clip(q.Type, 32), State: q.State, Status: q.Status,
			Error: clip(q.Error, 128), Rule: clip(q.Rule, 32), AfterFence: q.AfterFence,
		}
	}
	return c
}

func documents(ds []wire.Document) []core.DocNow {
	ds = ds[:min(len(ds), maxDocuments)]
	out := make([]core.DocNow, len(ds))
	for i, d := range ds {
		out[i] = core.DocNow{Document: core.DocumentID(clip(string(d.Document), 128)), Tab: d.Tab, URL: cleanURL(d.URL), Why: clip(d.Why, 32)}
	}
	return out
}

// how takes a word that this daemon does not know for the one that proves nothing.
func how(h string) string {
	switch h {
	case "barrier", "ended", "lost":
		return h
	}
	return "open"
}

// openInput keeps the documents in which input may still be pending after a drain.
func openInput(ds []wire.Document) []core.DocNow {
	var open []wire.Document
	for _, d := range ds {
		if d.Why == "input_pending" && (d.How == "lost" || d.How == "open") {
			open = append(open, d)
		}
	}
	return documents(open)
}

// Tabs names tabs for a person.
func Tabs(rs []wire.TabRef) []core.Tab {
	out := make([]core.Tab, len(rs))
	for i, r := range rs {
		out[i] = core.Tab{Tab: r.Tab, Title: r.Title, URL: r.URL}
	}
	return out
}

// cleanURL keeps of an address what may be stored: a query or fragment may carry a
// secret.
func cleanURL(u string) string {
	if i := strings.IndexAny(u, "?#"); i >= 0 {
		u = u[:i]
	}
	return clip(u, wire.MaxURL)
}

func clip(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
