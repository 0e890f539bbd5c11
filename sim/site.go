package main

import "slices"

// The website. It counts what has reached it, for whoever caused it.

// request is one that a browser has sent.
type request struct {
	id       string
	method   string
	kind     string
	tabID    int64
	document string
	by       tag
	applied  bool
}

func (b *browser) request(d *document, method, kind string, by tag) {
	b.requestOf(d.tab, d, method, kind, by)
}

// requestOf sends one. A form's has no document, as in Chromium.
func (b *browser) requestOf(t *tab, d *document, method, kind string, by tag) {
	w := b.w
	r := &request{id: w.id(""), method: method, kind: kind, tabID: t.id, by: by}
	details := map[string]any{
		"requestId": r.id, "method": method, "url": page + "save", "type": kind, "tabId": t.id, "timeStamp": w.wallMs,
	}
	if d != nil {
		r.document = d.id
		details["documentId"] = d.id
	}
	w.logf("%s: %s %s leaves for %s", b.launch, method, r.id, by.action)
	b.requests = append(b.requests, r)
	w.truth.left(b, r)
	b.event("request", details)
}

// arrives: the server has the request, and does what it asks for.
func (b *browser) arrives(r *request) {
	r.applied = true
	b.w.truth.applied(r)
}

// answers a request: with a status, or with an error of its connection.
func (b *browser) answers(r *request) {
	b.requests = slices.DeleteFunc(b.requests, func(o *request) bool { return o == r })
	details := map[string]any{"requestId": r.id, "tabId": r.tabID, "timeStamp": b.w.wallMs}
	if !r.applied {
		details["error"] = pick(b.w, []string{"net::ERR_CONNECTION_REFUSED", "net::ERR_ABORTED", "net::ERR_CONNECTION_RESET"})
		b.event("requestError", details)
		return
	}
	status := pick(b.w, []int{200, 200, 200, 303, 404, 500})
	details["statusCode"] = status
	b.w.truth.answered(r, status)
	b.event("response", details)
}
