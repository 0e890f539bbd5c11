package cdp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// The browser as a whole, which chrome.debugger does not give: targets and what hangs on
// them. Only the lease's tabs exist. Clients rely on more than the protocol's text says:
// a target is announced before the command that made it is answered, never twice to one
// session, and always with its browser context.

func newAction() core.ActionID { return core.ActionID(engine.NewID()) }

// filter is one row of a target filter; the first that matches decides.
type filter struct {
	Type    string `json:"type"`
	Exclude bool   `json:"exclude"`
}

// usual is the filter of a client that gives none.
var usual = []filter{{"browser", true}, {"tab", true}, {}}

func passes(rows []filter, kind string) bool {
	if rows == nil {
		rows = usual
	}
	for _, f := range rows {
		if f.Type == "" || f.Type == kind {
			return !f.Exclude
		}
	}
	return false
}

// context names the one browser context.
func (d *desk) context() string {
	sum := sha256.Sum256([]byte("context of " + string(d.slot)))
	return strings.ToUpper(hex.EncodeToString(sum[:16]))
}

// wrapper names the target that some clients want around a page.
func wrapper(n *node) string {
	sum := sha256.Sum256([]byte("tab of " + n.target))
	return strings.ToUpper(hex.EncodeToString(sum[:16]))
}

// targetInfo is the protocol's Target.TargetInfo.
type targetInfo struct {
	TargetID  string `json:"targetId"`
	Type      string `json:"type"`
	Title     string `json:"title"`
	URL       string `json:"url"`
	Attached  bool   `json:"attached"`
	CanAccess bool   `json:"canAccessOpener"`
	OpenerID  string `json:"openerId,omitempty"`
	Context   string `json:"browserContextId,omitempty"`
}

// info describes a tab to a client.
func (c *client) info(n *node) targetInfo {
	attached := false
	for _, s := range n.sessions {
		attached = attached || s.c == c
	}
	opener := n.opener
	if !slices.ContainsFunc(c.d.order, func(o *node) bool { return o.target == opener }) {
		opener = ""
	}
	return targetInfo{n.target, "page", n.title, n.url, attached, false, opener, c.d.context()}
}

func (c *client) wrapperInfo(n *node) targetInfo {
	attached := false
	for _, s := range c.sessions {
		attached = attached || s.wrapped == n
	}
	return targetInfo{wrapper(n), "tab", n.title, n.url, attached, false, "", c.d.context()}
}

func (c *client) browserInfo() targetInfo {
	return targetInfo{"browser", "browser", "", "", true, false, "", ""}
}

// ordered are a client's sessions in the order in which they were made.
func (c *client) ordered() []*session {
	all := make([]*session, 0, len(c.sessions))
	for _, s := range c.sessions {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *session) int { return strings.Compare(a.id, b.id) })
	return all
}

// announce tells a client of a new tab.
func (c *client) announce(n *node) {
	for _, s := range c.ordered() {
		if s.node != nil || s.wrapped != nil {
			continue
		}
		if s.found {
			c.created(s, n)
		}
		if s.auto {
			c.attachNew(s, n)
		}
	}
}

// created tells of a target by discovery.
func (c *client) created(s *session, n *node) {
	if passes(s.sees, "tab") {
		c.event(s, "Target.targetCreated", map[string]any{"targetInfo": c.wrapperInfo(n)})
	}
	if passes(s.sees, "page") {
		c.event(s, "Target.targetCreated", map[string]any{"targetInfo": c.info(n)})
	}
}

// attachNew attaches a session that wants it to a tab, once.
func (c *client) attachNew(s *session, n *node) {
	for _, other := range c.sessions {
		if other.parent == s && (other.node == n || other.wrapped == n) {
			return
		}
	}
	switch {
	case passes(s.filter, "page"):
		c.attach(s, n)
	case passes(s.filter, "tab"):
		c.wrap(s, n)
	}
}

// add makes a session of a client.
func (c *client) add(parent *session) *session {
	s := &session{c: c, id: c.d.newID(), parent: parent, enabled: map[string]bool{}, undo: map[string]undone{}}
	c.sessions[s.id] = s
	return s
}

// attach makes a session of a tab's page and tells its parent.
func (c *client) attach(parent *session, n *node) *session {
	s := c.add(parent)
	s.node, s.document = n, n.document
	n.sessions = append(n.sessions, s)
	c.event(parent, "Target.attachedToTarget", map[string]any{"sessionId": s.id, "targetInfo": c.info(n), "waitingForDebugger": false})
	return s
}

// wrap makes a session of the target around a page.
func (c *client) wrap(parent *session, n *node) *session {
	s := c.add(parent)
	s.wrapped = n
	c.event(parent, "Target.attachedToTarget", map[string]any{"sessionId": s.id, "targetInfo": c.wrapperInfo(n), "waitingForDebugger": false})
	return s
}

// child makes a session of a child of this one's and tells of it.
func (s *session) child(kid *node) {
	for _, other := range kid.sessions {
		if other.parent == s {
			return
		}
	}
	k := s.c.add(s)
	k.node, k.document = kid, s.document
	kid.sessions = append(kid.sessions, k)
	var info map[string]json.RawMessage
	if json.Unmarshal(kid.info, &info) != nil || info == nil {
		info = map[string]json.RawMessage{}
	}
	info["attached"] = json.RawMessage("true")
	name, _ := json.Marshal(s.c.d.context())
	info["browserContextId"] = name
	s.c.event(s, "Target.attachedToTarget", map[string]any{"sessionId": k.id, "targetInfo": info, "waitingForDebugger": kid.waiting})
}

// detached tells that a session has ended.
func (s *session) detached() {
	parent := s.parent
	if parent == nil || s.c.sessions[parent.id] != parent {
		return
	}
	target := ""
	if s.node != nil {
		target = s.node.target
	} else if s.wrapped != nil {
		target = wrapper(s.wrapped)
	}
	s.c.event(parent, "Target.detachedFromTarget", map[string]any{"sessionId": s.id, "targetId": target})
}

// changed tells of a tab's new address or title.
func (c *client) changed(n *node) {
	for _, s := range c.ordered() {
		if s.node != nil || s.wrapped != nil || !s.found {
			continue
		}
		if passes(s.sees, "tab") {
			c.event(s, "Target.targetInfoChanged", map[string]any{"targetInfo": c.wrapperInfo(n)})
		}
		if passes(s.sees, "page") {
			for _, page := range n.sessions {
				if page.c == c {
					page.document = n.document
				}
			}
			c.event(s, "Target.targetInfoChanged", map[string]any{"targetInfo": c.info(n)})
		}
	}
}

// destroyed tells that a tab is gone. Its page's sessions have been ended.
func (c *client) destroyed(n *node) {
	for _, s := range c.ordered() {
		if s.wrapped == n {
			s.detached()
			delete(c.sessions, s.id)
		}
	}
	for _, s := range c.ordered() {
		if s.node != nil || !s.found {
			continue
		}
		if passes(s.sees, "page") {
			c.event(s, "Target.targetDestroyed", map[string]any{"targetId": n.target})
		}
		if passes(s.sees, "tab") {
			c.event(s, "Target.targetDestroyed", map[string]any{"targetId": wrapper(n)})
		}
	}
}

// find returns a tab by a target's name, and whether that is the wrapper's.
func (d *desk) find(target string) (n *node, wraps bool) {
	for _, n := range d.order {
		if n.target == target {
			return n, false
		}
		if wrapper(n) == target {
			return n, true
		}
	}
	return nil, false
}

// asked are the parameters of the methods below.
type asked struct {
	TargetID   string   `json:"targetId"`
	SessionID  string   `json:"sessionId"`
	URL        string   `json:"url"`
	Context    string   `json:"browserContextId"`
	AutoAttach bool     `json:"autoAttach"`
	Discover   bool     `json:"discover"`
	Filter     []filter `json:"filter"`
	// EventsEnabled: of downloads.
	EventsEnabled bool `json:"eventsEnabled"`
}

// browser answers what concerns the browser as a whole.
func (c *client) browser(s *session, m message) {
	d := c.d
	var q asked
	if err := json.Unmarshal(m.Params, &q); err != nil {
		c.fail(m, wire.CDPInvalidParams, "Invalid parameters")
		return
	}
	switch m.Method {
	case "Browser.getVersion":
		c.reply(m, map[string]string{"protocolVersion": "1.3", "product": product(d.agent), "revision": "", "userAgent": d.agent, "jsVersion": ""})
	case "Browser.setDownloadBehavior":
		// Where downloads go is the slot's matter, and stays so.
		s.downloads = q.EventsEnabled
		c.reply(m, struct{}{})
	case "Browser.close":
		c.reply(m, struct{}{})
		time.AfterFunc(50*time.Millisecond, func() { c.close(1000, "closed by the client; the browser goes on") })
	case "Target.getBrowserContexts":
		c.reply(m, map[string]any{"browserContextIds": []string{}, "defaultBrowserContextId": d.context()})
	case "Target.getTargets":
		infos := []targetInfo{}
		for _, n := range d.order {
			if q.Filter != nil && passes(q.Filter, "tab") {
				infos = append(infos, c.wrapperInfo(n))
			}
			if passes(q.Filter, "page") {
				infos = append(infos, c.info(n))
			}
		}
		c.reply(m, map[string]any{"targetInfos": infos})
	case "Target.getTargetInfo":
		c.describe(s, m, q)
	case "Target.setDiscoverTargets":
		// Some clients ask it of a page: the browser's own session tells them.
		if s.node == nil && s.wrapped == nil {
			began := q.Discover && !s.found
			s.found, s.sees = q.Discover, q.Filter
			if began {
				if passes(s.sees, "browser") {
					c.event(s, "Target.targetCreated", map[string]any{"targetInfo": c.browserInfo()})
				}
				for _, n := range d.order {
					c.created(s, n)
				}
			}
		}
		c.reply(m, struct{}{})
	case "Target.setAutoAttach":
		c.autoAttach(s, m, q)
	case "Target.attachToBrowserTarget", "Target.attachToTarget":
		n, wraps := d.find(q.TargetID)
		switch {
		case len(c.sessions) >= maxSession:
			c.refuse(m, core.CodeLimit, "this client has too many sessions", "detach from some")
		case m.Method == "Target.attachToBrowserTarget", q.TargetID == "browser":
			b := c.add(s)
			c.event(s, "Target.attachedToTarget", map[string]any{"sessionId": b.id, "targetInfo": c.browserInfo(), "waitingForDebugger": false})
			c.reply(m, map[string]string{"sessionId": b.id})
		case n == nil:
			c.noTarget(m)
		case wraps:
			c.reply(m, map[string]string{"sessionId": c.wrap(s, n).id})
		default:
			c.reply(m, map[string]string{"sessionId": c.attach(s, n).id})
		}
	case "Target.detachFromTarget":
		c.detach(s, m, q)
	case "Target.activateTarget":
		// What is in front of the person stays there.
		if n, _ := d.find(q.TargetID); n == nil {
			c.noTarget(m)
			return
		}
		c.reply(m, struct{}{})
	case "Target.createTarget":
		c.createTab(m, q)
	case "Target.closeTarget":
		n, _ := d.find(q.TargetID)
		c.closeTab(m, n)
	case "Target.createBrowserContext", "Target.disposeBrowserContext":
		c.refuse(m, core.CodePolicy, "a lease has the one browser context of its slot", "use the default context; for another sign-in ask for another binding")
	case "Runtime.runIfWaitingForDebugger":
		c.reply(m, struct{}{}) // of a wrapper, which does not wait
	default:
		switch row := wire.Methods[m.Method]; {
		case row.Never != "":
			c.refuse(m, core.CodePolicy, m.Method+" is not passed on: "+row.Never, "leave it out")
		case row.Needs != "" && !slices.Contains(d.allow, row.Needs):
			c.answer(m, nil, wire.ErrorOf(core.NotAllowed(m.Method, row.Needs)))
		default:
			c.fail(m, wire.CDPUnknownMethod, "'"+clip(m.Method)+"' wasn't found")
		}
	}
}

func (c *client) noTarget(m message) {
	c.fail(m, wire.CDPInvalidParams, "No target with given id found")
}

// describe is Target.getTargetInfo.
func (c *client) describe(s *session, m message, q asked) {
	n, wraps := s.node, false
	if q.TargetID != "" {
		n, wraps = c.d.find(q.TargetID)
		for _, kid := range c.d.kids {
			if n == nil && kid.target == q.TargetID && len(kid.sessions) > 0 {
				n = kid
			}
		}
		if q.TargetID == "browser" {
			c.reply(m, map[string]any{"targetInfo": c.browserInfo()})
			return
		}
		if n == nil {
			c.noTarget(m)
			return
		}
	}
	switch {
	case n == nil && s.wrapped != nil:
		c.reply(m, map[string]any{"targetInfo": c.wrapperInfo(s.wrapped)})
	case n == nil:
		c.reply(m, map[string]any{"targetInfo": c.browserInfo()})
	case wraps:
		c.reply(m, map[string]any{"targetInfo": c.wrapperInfo(n)})
	case n.real != "":
		c.reply(m, map[string]any{"targetInfo": n.info})
	default:
		c.reply(m, map[string]any{"targetInfo": c.info(n)})
	}
}

// autoAttach is Target.setAutoAttach on the browser, and on a tab's wrapper, whose one
// child is the page.
func (c *client) autoAttach(s *session, m message, q asked) {
	s.auto, s.filter = q.AutoAttach, q.Filter
	if s.wrapped != nil {
		if q.AutoAttach && !slices.ContainsFunc(c.ordered(), func(o *session) bool { return o.parent == s }) {
			c.attach(s, s.wrapped)
		}
		c.reply(m, struct{}{})
		return
	}
	if q.AutoAttach {
		for _, n := range slices.Clone(c.d.order) {
			c.attachNew(s, n)
		}
	}
	c.reply(m, struct{}{})
}

// children is Target.setAutoAttach on a page, a frame or a worker. The browser is asked
// once; who asks later is told what it has said.
func (c *client) children(s *session, m message) {
	var q asked
	if err := json.Unmarshal(m.Params, &q); err != nil {
		c.fail(m, wire.CDPInvalidParams, "Invalid parameters")
		return
	}
	n := s.node
	switch {
	case q.AutoAttach == s.auto && !q.AutoAttach:
		c.reply(m, struct{}{})
	case q.AutoAttach && n.auto > 0:
		if !s.auto {
			s.auto = true
			n.auto++
		}
		for _, kid := range n.kids {
			if c.d.shows(kid) {
				s.child(kid)
			}
		}
		c.reply(m, struct{}{})
	case q.AutoAttach:
		s.auto = true
		n.auto++
		c.forward(s, m)
	case n.auto > 1:
		s.auto = false
		n.auto--
		c.reply(m, struct{}{})
	default:
		s.auto = false
		n.auto--
		c.forward(s, m)
	}
}

func (c *client) detach(s *session, m message, q asked) {
	gone := c.sessions[q.SessionID]
	if q.SessionID == "" {
		for _, o := range c.ordered() {
			if o.node != nil && o.node.target == q.TargetID && q.TargetID != "" || q.SessionID == "" && q.TargetID == "" && o == s && s.id != "" {
				gone = o
			}
		}
	}
	if gone == nil || gone == c.root {
		c.fail(m, wire.CDPInvalidParams, "No session with given id")
		return
	}
	gone.detached()
	c.d.drop(gone)
	c.reply(m, struct{}{})
}

// createTab opens a tab. It is announced before it is answered.
func (c *client) createTab(m message, q asked) {
	d := c.d
	if q.Context != "" && q.Context != d.context() {
		c.fail(m, wire.CDPServerError, "Failed to find browser context with id "+clip(q.Context))
		return
	}
	act := wire.Act{Verb: "tabs", Op: "new", URL: q.URL}
	c.request(order{act: act, class: core.Write, summary: "cdp Target.createTarget", bytes: m.size}, func(result json.RawMessage, err *wire.CDPError) {
		var made struct {
			Tab core.TabID `json:"tab"`
		}
		if err == nil && (json.Unmarshal(result, &made) != nil || made.Tab == 0) {
			err = &wire.CDPError{Code: wire.CDPServerError, Message: "the browser did not say which tab it has opened"}
		}
		if err != nil {
			c.answer(m, nil, err)
			return
		}
		answered := false
		told := func(n *node) {
			if !answered {
				answered = true
				c.reply(m, map[string]string{"targetId": n.target})
			}
		}
		if n := d.tabs[made.Tab]; n != nil {
			told(n)
			return
		}
		d.whenTab[made.Tab] = append(d.whenTab[made.Tab], told)
		time.AfterFunc(createWait, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if !answered {
				answered = true
				delete(d.whenTab, made.Tab)
				c.refuse(m, core.CodeUnavailable, "the new tab was not seen in time", "look at the targets: it may be there")
			}
		})
	})
}

// closeTab closes a tab that was made under the lease.
func (c *client) closeTab(m message, n *node) {
	if n == nil {
		c.noTarget(m)
		return
	}
	act := wire.Act{Verb: "tabs", Op: "close"}
	c.d.whenQuiet(n, func() {
		c.request(order{act: act, tab: n.tab, class: core.Write, summary: "cdp Target.closeTarget", bytes: m.size}, func(_ json.RawMessage, err *wire.CDPError) {
			if err != nil {
				c.answer(m, nil, err)
				return
			}
			c.reply(m, map[string]bool{"success": true})
		})
	})
}
