package hostlink

import (
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// From the wire's words to the core's, with the bounds that a report must keep.

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
		Document: r.Document, Script: r.Script, How: r.How, HowRule: r.HowRule, More: max(0, r.More),
		Requests: make(map[string]core.SeenCall, len(r.Requests)),
	}
	for i, q := range r.Requests {
		if i >= wire.MaxEvidence {
			c.More += len(r.Requests) - i
			break
		}
		c.Requests[q.ID] = core.SeenCall{
			Method: q.Method, URL: clipURL(q.URL), Type: q.Type, State: q.State, Status: q.Status,
			Error: q.Error, Rule: q.Rule, AfterFence: q.AfterFence,
		}
	}
	return c
}

func documents(ds []wire.Document) []core.DocNow {
	out := make([]core.DocNow, len(ds))
	for i, d := range ds {
		out[i] = core.DocNow{Document: d.Document, Tab: d.Tab, URL: clipURL(d.URL), Why: d.Why}
	}
	return out
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

func tabs(rs []wire.TabRef) []core.Tab {
	out := make([]core.Tab, len(rs))
	for i, r := range rs {
		out[i] = core.Tab{Tab: r.Tab, Title: r.Title, URL: r.URL}
	}
	return out
}

func tabRefs(ts []core.Tab) []wire.TabRef {
	out := make([]wire.TabRef, len(ts))
	for i, t := range ts {
		out[i] = wire.TabRef{Tab: t.Tab, Title: t.Title, URL: t.URL}
	}
	return out
}

func clipURL(u string) string {
	if len(u) > wire.MaxURL {
		return u[:wire.MaxURL]
	}
	return u
}
