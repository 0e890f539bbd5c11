package cdp

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// What the browser tells of a lease's tabs, and who is told of it.

func (d *desk) on(link core.Nonce) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.link == link
}

func (d *desk) userAgent() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.agent
}

// product is the browser's name and version, as it names itself to websites.
func product(agent string) string {
	for _, word := range strings.Fields(agent) {
		if name, version, ok := strings.Cut(word, "/"); ok && strings.HasSuffix(name, "Chrome") {
			return "Chrome/" + version
		}
	}
	return "Chrome/0.0.0.0"
}

// list is /json/list. It gives no socket of a page's own: there is one way in.
func (d *desk) list() []map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []map[string]any{}
	for _, n := range d.order {
		out = append(out, map[string]any{"id": n.target, "type": "page", "title": n.title, "url": n.url})
	}
	return out
}

// allowed says whether the binding lists an address's origin. One that has none is the
// page's around it.
func (d *desk) allowed(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "", "about", "data", "blob", "javascript":
		return true
	case "http", "https":
		return len(d.origins) == 0 || core.CheckAddress(address, d.origins) == nil
	}
	return false
}

// shows says whether clients are told of a child session. A service worker belongs to no
// page: no barrier and no end of a document would say when a script in it has come to rest.
func (d *desk) shows(kid *node) bool {
	return kid.kind != "service_worker" && kid.kind != "shared_worker" && d.allowed(kid.url)
}

// tabNews takes what the extension says of a tab.
func (d *desk) tabNews(m *wire.CDPTab) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.tabs[m.Tab]
	if d.over || n == nil && m.Gone {
		return
	}
	switch {
	case m.Gone:
		d.gone(n)
	case n == nil:
		n = &node{
			tab: m.Tab, target: m.Target, kind: "page", url: m.URL, title: m.Title, opener: m.Opener,
			document: m.Document, uses: map[string]int{},
		}
		d.tabs[m.Tab] = n
		d.order = append(d.order, n)
		for _, c := range d.clients {
			c.announce(n)
		}
		for _, f := range d.whenTab[m.Tab] {
			f(n)
		}
		delete(d.whenTab, m.Tab)
	default:
		n.url, n.title = m.URL, m.Title
		n.know(m.Document)
		for _, c := range d.clients {
			c.changed(n)
		}
	}
}

// know notes the document that is in a tab now.
func (n *node) know(document core.DocumentID) {
	if document != "" {
		n.document = document
	}
}

// gone ends a node: a tab was closed, or a child detached.
func (d *desk) gone(n *node) {
	for _, kid := range slices.Clone(n.kids) {
		d.gone(kid)
	}
	for _, s := range slices.Clone(n.sessions) {
		s.detached()
		delete(s.c.sessions, s.id)
	}
	n.sessions = nil
	if n.real != "" {
		delete(d.kids, n.real)
		n.parent.kids = slices.DeleteFunc(n.parent.kids, func(other *node) bool { return other == n })
		return
	}
	delete(d.tabs, n.tab)
	d.order = slices.DeleteFunc(d.order, func(other *node) bool { return other == n })
	for _, c := range d.clients {
		c.destroyed(n)
	}
}

// event takes an event of a debugging session of the browser.
func (d *desk) event(m *wire.CDPEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tab := d.tabs[m.Tab]
	if d.over || tab == nil {
		return
	}
	tab.know(m.Document)
	n := tab
	if m.Session != "" {
		if n = d.kids[m.Session]; n == nil {
			return
		}
	}
	domain, name, _ := strings.Cut(m.Method, ".")
	switch domain {
	case "Target":
		d.targetEvent(n, name, m.Params)
		return
	case "Runtime":
		n.context(name, m.Params)
	case "Page":
		d.download(name, m.Params)
	}
	frame := []byte(nil)
	for _, s := range n.sessions {
		if !s.wants(domain) {
			continue
		}
		if frame == nil {
			frame = fmt.Appendf(nil, `{"method":%q,"params":%s`, m.Method, m.Params)
		}
		s.document = tab.document
		s.c.send(fmt.Appendf(slices.Clip(frame), `,"sessionId":%q}`, s.id))
	}
}

// download tells of a page's download as the browser as a whole would. A page and a frame of
// it may both have been told.
func (d *desk) download(event string, params json.RawMessage) {
	if event != "downloadWillBegin" && event != "downloadProgress" {
		return
	}
	var m struct {
		GUID  string `json:"guid"`
		State string `json:"state"`
	}
	begins := event == "downloadWillBegin"
	if json.Unmarshal(params, &m) != nil || begins == d.loading[m.GUID] || begins && len(d.loading) >= 1024 {
		return
	}
	d.loading[m.GUID] = true
	if !begins && m.State != "inProgress" {
		delete(d.loading, m.GUID)
	}
	for _, c := range d.clients {
		for _, s := range c.ordered() {
			if s.downloads {
				c.event(s, "Browser."+event, params)
			}
		}
	}
}

// context keeps what the browser has said of contexts.
func (n *node) context(event string, params json.RawMessage) {
	switch event {
	case "executionContextCreated":
		var m struct {
			Context struct {
				ID     int64  `json:"id"`
				Unique string `json:"uniqueId"`
			} `json:"context"`
		}
		if json.Unmarshal(params, &m) == nil && len(n.contexts) < 4096 {
			n.contexts = append(n.contexts, execution{m.Context.ID, m.Context.Unique, params})
		}
	case "executionContextDestroyed":
		var m struct {
			ID int64 `json:"executionContextId"`
		}
		if json.Unmarshal(params, &m) == nil {
			n.contexts = slices.DeleteFunc(n.contexts, func(e execution) bool { return e.id == m.ID })
		}
	case "executionContextsCleared":
		n.contexts = nil
	}
}

// targetEvent follows the children of a session.
func (d *desk) targetEvent(n *node, event string, params json.RawMessage) {
	var m struct {
		Session string          `json:"sessionId"`
		Info    json.RawMessage `json:"targetInfo"`
		Waiting bool            `json:"waitingForDebugger"`
	}
	if json.Unmarshal(params, &m) != nil || m.Session == "" {
		return
	}
	switch event {
	case "attachedToTarget":
		if len(d.kids) >= 1024 || d.kids[m.Session] != nil {
			return
		}
		var info struct {
			TargetID string `json:"targetId"`
			Type     string `json:"type"`
			URL      string `json:"url"`
		}
		json.Unmarshal(m.Info, &info) //nolint:errcheck // then it is of no kind
		kid := &node{
			tab: n.tab, real: m.Session, target: info.TargetID, kind: info.Type, url: info.URL, info: m.Info, parent: n,
			uses: map[string]int{}, waiting: m.Waiting,
		}
		d.kids[m.Session] = kid
		n.kids = append(n.kids, kid)
		wanted := false
		if d.shows(kid) {
			for _, s := range slices.Clone(n.sessions) {
				if s.auto {
					s.child(kid)
					wanted = true
				}
			}
		}
		if !wanted && kid.waiting {
			// Nobody would let it go on.
			kid.waiting = false
			d.tell(kid, "Runtime.runIfWaitingForDebugger", "{}")
		}
	case "detachedFromTarget":
		if kid := d.kids[m.Session]; kid != nil {
			d.gone(kid)
		}
	}
}
