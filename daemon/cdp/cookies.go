package cdp

import (
	"encoding/json"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// Cookies are the browser's, and clients ask the browser as a whole for them. What passes
// the gates is a page's command: a tab that is within the origins lends its session.

// cookies answers a command about the browser's cookies, and says whether it was one.
func (c *client) cookies(s *session, m message) bool {
	switch m.Method {
	case "Storage.getCookies", "Storage.setCookies", "Storage.clearCookies", "Network.clearBrowserCookies":
	default:
		return false
	}
	var q struct {
		Context string          `json:"browserContextId"`
		Cookies json.RawMessage `json:"cookies"`
	}
	n := s.node
	if i := slices.IndexFunc(c.d.order, func(n *node) bool { return n.url != "" }); n == nil && i >= 0 {
		n = c.d.order[i]
	}
	answer := func(result json.RawMessage, err *wire.CDPError) { c.answer(m, result, err) }
	switch {
	case json.Unmarshal(m.Params, &q) != nil:
		c.fail(m, wire.CDPInvalidParams, "Invalid parameters")
	case q.Context != "" && q.Context != c.d.context():
		c.fail(m, wire.CDPServerError, "Failed to find browser context for id "+clip(q.Context))
	case !slices.Contains(c.d.allow, "cookies"):
		answer(nil, wire.ErrorOf(core.NotAllowed(m.Method, "cookies")))
	case n == nil:
		c.refuse(m, core.CodeNotFound, "no tab of this lease is within the binding's origins", "open one")
	case m.Method == "Storage.getCookies":
		c.ask(n, m, "Storage.getCookies", struct{}{}, answer)
	case m.Method == "Storage.setCookies":
		c.ask(n, m, "Storage.setCookies", map[string]any{"cookies": q.Cookies}, answer)
	default:
		c.ask(n, m, "Storage.getCookies", struct{}{}, func(result json.RawMessage, err *wire.CDPError) {
			var all struct {
				Cookies []cookie `json:"cookies"`
			}
			if err == nil && json.Unmarshal(result, &all) != nil {
				err = &wire.CDPError{Code: wire.CDPServerError, Message: "the browser did not say which cookies it has"}
			}
			c.deleteAll(n, m, all.Cookies, err)
		})
	}
	return true
}

// cookie is what names one.
type cookie struct {
	Name      string          `json:"name"`
	Domain    string          `json:"domain"`
	Path      string          `json:"path"`
	Partition json.RawMessage `json:"partitionKey,omitempty"`
}

// deleteAll deletes cookies one after another: what would delete all at once would delete
// every website's.
func (c *client) deleteAll(n *node, m message, left []cookie, err *wire.CDPError) {
	if err != nil || len(left) == 0 {
		c.answer(m, nil, err)
		return
	}
	c.ask(n, m, "Network.deleteCookies", left[0], func(_ json.RawMessage, err *wire.CDPError) {
		c.deleteAll(n, m, left[1:], err)
	})
}

// ask sends a command to a page for a client's message.
func (c *client) ask(n *node, m message, method string, params any, f told) {
	raw, err := json.Marshal(params)
	if err != nil {
		panic("cdp: " + err.Error())
	}
	m.Method, m.Params = method, raw
	c.forwardTo(&session{c: c, node: n, undo: map[string]undone{}}, m, f)
}
