package cdp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// desk is what the endpoint knows of one slot under one epoch: the lease's tabs, their
// debugging sessions, and the clients. It ends with the epoch, and with the link.
type desk struct {
	s       *Server
	slot    core.SlotName
	lease   *core.Lease
	epoch   core.Epoch
	origins []string
	allow   []string
	ended   chan struct{}

	watching sync.Mutex // one asks at a time

	mu      sync.Mutex
	over    bool
	cutOff  core.TabID // whose debugging has ended, 0 if none's
	link    core.Nonce // on which the browser tells of its tabs
	agent   string     // the browser's user agent, "" before it is known
	tabs    map[core.TabID]*node
	order   []*node          // tabs in the order in which they came
	kids    map[string]*node // by the browser's session
	clients []*client
	pending map[core.ActionID]told
	whenTab map[core.TabID][]func(*node)
	loading map[string]bool // downloads that have begun, by the browser's names
	ids     int
}

// node is one debugging session of the browser: a tab's, or a child's of it.
type node struct {
	tab      core.TabID
	real     string // the browser's name of a child session, "" of a tab
	target   string
	kind     string // page, iframe, worker, ...
	url      string
	title    string
	opener   string
	document core.DocumentID
	info     json.RawMessage // of a child: as the browser said
	parent   *node
	kids     []*node
	sessions []*session
	uses     map[string]int // sessions that have enabled a domain
	auto     int            // sessions that want to be told of children
	contexts []execution
	waiting  bool     // for runIfWaitingForDebugger
	telling  int      // commands of the endpoint's own to a tab that are not answered
	quiet    []func() // what waits for them
}

// execution is a JavaScript context that the browser has told of: one that is told of
// once only, while each client wants to hear of it.
type execution struct {
	id     int64
	unique string
	raw    json.RawMessage
}

func newDesk(s *Server, l *core.Lease, epoch core.Epoch) *desk {
	d := &desk{
		s: s, slot: l.Slot, lease: l, epoch: epoch, ended: make(chan struct{}),
		tabs: map[core.TabID]*node{}, kids: map[string]*node{}, loading: map[string]bool{},
		pending: map[core.ActionID]told{}, whenTab: map[core.TabID][]func(*node){},
	}
	s.engine.View(func(st *core.State, _ core.Now) {
		if b := st.Bindings[l.Binding]; b != nil {
			d.origins, d.allow = b.Origins, b.Allow
		}
	})
	return d
}

// watch asks the extension to tell of the lease's tabs, unless it does.
func (d *desk) watch(ctx context.Context) *core.Error {
	d.watching.Lock()
	defer d.watching.Unlock()
	if d.userAgent() != "" {
		return nil
	}
	for {
		// Whose link it is is noted with the question: one that is lost meanwhile ends the
		// desk, and what came by another is asked for anew.
		asked := d.linked()
		d.mu.Lock()
		d.link = asked
		d.mu.Unlock()
		done := make(chan *wire.CDPError, 1)
		var agent string
		act := wire.Act{Verb: "cdp"}
		res := <-d.act(order{act: act, raw: true, summary: "cdp: a client connects"}, func(result json.RawMessage, err *wire.CDPError) {
			var told struct {
				UserAgent string `json:"userAgent"`
			}
			json.Unmarshal(result, &told) //nolint:errcheck // then it stays unknown
			agent = told.UserAgent
			done <- err
		})
		if res.Refusal == nil {
			select {
			case err := <-done:
				if err == nil && agent != "" {
					if d.linked() != asked {
						continue
					}
					d.mu.Lock()
					d.agent = agent
					d.mu.Unlock()
					return nil
				}
				return core.Refuse(core.CodeUnavailable, "the browser did not say which tabs it has", "connect again")
			case <-d.ended:
			case <-ctx.Done():
			}
			return core.Refuse(core.CodeUnavailable, "the browser did not answer in time", "connect again")
		}
		if res.Refusal.Code != core.CodeBusy || res.Refusal.Detail["not_dispatched"] != true {
			return res.Refusal
		}
		ready := d.s.engine.Wait(ctx, d.slot, readyWait, func(s *core.State, _ core.Now) bool {
			return s.Links[d.slot].Granted == d.epoch || s.Slots[d.slot].Epoch != d.epoch
		})
		if !ready {
			return res.Refusal
		}
	}
}

// linked is the slot's link as it is now.
func (d *desk) linked() (link core.Nonce) {
	d.s.engine.View(func(st *core.State, _ core.Now) { link = st.Links[d.slot].Nonce })
	return link
}

// told is called with an answer.
type told func(json.RawMessage, *wire.CDPError)

// order is something to be asked of the browser.
type order struct {
	act      wire.Act
	raw      bool
	session  string // the browser's
	tab      core.TabID
	document core.DocumentID
	class    core.Class
	summary  string
	bytes    int
}

// rawDeadline is how long a command may go without an answer: a script that waits for
// something in the page may wait long, and its client has a deadline of its own.
const rawDeadline = wire.MaxActionDeadline

// createWait is how long a tab that was made may take to be told of.
const createWait = 10 * time.Second

// quietWait is how long the end of a tab waits for the endpoint's own commands to it.
const quietWait = time.Second

// act asks for an action in the place of the lease's agent. f is called once, with the
// desk's mutex held; it is not called if the epoch ends first. The result on the
// channel is the core's, for whoever wants it.
func (d *desk) act(o order, f told) <-chan core.Result {
	id := core.ActionID(engine.NewID())
	d.mu.Lock()
	d.pending[id] = f
	res := d.actLocked(id, o)
	d.mu.Unlock()
	out := make(chan core.Result, 1)
	go func() {
		r := <-res
		if r.Refusal != nil {
			d.answer(id, core.Expect{}, nil, wire.ErrorOf(r.Refusal))
		}
		out <- r
	}()
	return out
}

func (d *desk) actLocked(id core.ActionID, o order) <-chan core.Result {
	if o.class == "" {
		o.class = core.Read
	}
	// One text for all three: they are kept as long as the ledger is.
	in := core.Act{
		Action: id, Lease: d.lease.ID, Cap: d.lease.CapHash, ID: core.ClientID(id), Epoch: d.epoch,
		Verb: o.act.Verb, Class: o.class, Summary: o.summary, BodyHash: string(id), Beside: true,
		Expect: core.Expect{Tab: o.tab, Document: o.document}, DeadlineMs: rawDeadline.Milliseconds(), Bytes: int64(o.bytes),
	}
	ask := wire.Asked{Act: o.act, Raw: o.raw, Session: o.session, UploadDir: d.s.dir(d.lease)}
	if wire.Methods[o.act.Method].Needs != "" {
		ask.Origins, ask.Allow = d.origins, d.allow
	}
	return d.s.engine.ActInOrder(in, ask)
}

// answer gives a pending command its answer, once. It came from a document of a tab, if
// that is known.
func (d *desk) answer(id core.ActionID, at core.Expect, result json.RawMessage, err *wire.CDPError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.tabs[at.Tab]; n != nil {
		n.know(at.Document)
	}
	f := d.pending[id]
	delete(d.pending, id)
	if f != nil && !d.over {
		f(result, err)
	}
}

// end closes the clients. Commands that are under way get no answer: none is known.
func (d *desk) end(code websocket.StatusCode, why string) {
	d.mu.Lock()
	clients := d.clients
	if !d.over {
		close(d.ended)
	}
	d.over, d.clients, d.pending = true, nil, map[core.ActionID]told{}
	d.mu.Unlock()
	for _, c := range clients {
		c.close(code, why)
	}
}

func (d *desk) join(c *client, besides bool) *core.Error {
	d.mu.Lock()
	defer d.mu.Unlock()
	here := 0
	for _, other := range d.clients {
		if !other.gone() {
			here++
		}
	}
	switch {
	case d.over:
		return core.Refuse(core.CodeFenced, "the epoch has ended", "resume the lease")
	case here > 0 && !besides:
		return core.Refuse(core.CodeConflict, "another client of this lease is connected", "end that one, or add ?"+beside+" to the address to work beside it")
	case len(d.clients) >= maxClients:
		return core.Refuse(core.CodeLimit, fmt.Sprintf("%d clients of this lease are connected", maxClients), "end one of them")
	}
	d.clients = append(d.clients, c)
	return nil
}

// leave undoes what a client had switched on, as far as nobody else uses it.
func (d *desk) leave(c *client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients = slices.DeleteFunc(d.clients, func(other *client) bool { return other == c })
	for _, s := range c.sessions {
		d.drop(s)
	}
	c.sessions = nil
	for id := range c.asked {
		delete(d.pending, id)
		if !d.over {
			d.s.engine.StopWaiting(d.slot, d.epoch, id)
		}
	}
}

// takeBack takes back what all clients have switched on, so that the next one begins anew;
// not in a tab whose debugging has ended: with that all of it went.
func (d *desk) takeBack(tab core.TabID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutOff = tab
	for _, c := range d.clients {
		for _, s := range c.ordered() {
			if c.sessions[s.id] == s { // not with its parent
				d.drop(s)
			}
		}
	}
}

// drop ends a client's session.
func (d *desk) drop(s *session) {
	delete(s.c.sessions, s.id)
	for _, kid := range s.c.ordered() {
		if kid.parent == s {
			d.drop(kid)
		}
	}
	n := s.node
	if n == nil {
		return
	}
	n.sessions = slices.DeleteFunc(n.sessions, func(other *session) bool { return other == s })
	for domain := range s.enabled {
		d.disable(s, domain)
	}
	for _, u := range s.alone() {
		d.tell(n, u.method, u.params)
	}
	if s.auto {
		s.auto = false
		if n.auto--; n.auto == 0 && !d.over {
			d.tell(n, "Target.setAutoAttach", `{"autoAttach":false,"waitForDebuggerOnStart":false,"flatten":true}`)
		}
	}
}

// alone is what a session has set and no other of the same target has.
func (s *session) alone() (out []undone) {
	for key, u := range s.undo {
		if !slices.ContainsFunc(s.node.sessions, func(other *session) bool {
			_, set := other.undo[key]
			return set && other != s
		}) {
			out = append(out, u)
		}
	}
	return out
}

// disable notes that a session uses a domain no longer, and says whether somebody does.
func (d *desk) disable(s *session, domain string) {
	if !s.enabled[domain] {
		return
	}
	delete(s.enabled, domain)
	s.node.uses[domain]--
	if s.node.uses[domain] > 0 || d.over {
		return
	}
	if domain == "Runtime" {
		s.node.contexts = nil
	}
	if _, known := wire.Methods[domain+".disable"]; known && wire.Methods[domain+".disable"].Never == "" {
		d.tell(s.node, domain+".disable", "{}")
	}
}

// tell sends a command of the endpoint's own in the agent's place. Only the end of its tab
// waits for it.
func (d *desk) tell(n *node, method, params string) {
	tab := d.tabs[n.tab]
	if d.over || tab == nil || n.tab == d.cutOff {
		return
	}
	o := order{
		act: wire.Act{Verb: "cdp", Method: method, Params: json.RawMessage(params)}, raw: true, session: n.real, tab: n.tab, summary: "cdp " + method,
	}
	if wire.Methods[method].Effect {
		o.class = core.Write
	}
	id := newAction()
	tab.telling++
	d.pending[id] = func(json.RawMessage, *wire.CDPError) {
		if tab.telling--; tab.telling == 0 {
			tab.settled()
		}
	}
	d.ask(id, o)
}

// whenQuiet does something once the endpoint's own commands to a tab are answered, or
// have been waited for. What is closed with one on its way leaves its outcome unknown.
func (d *desk) whenQuiet(tab *node, do func()) {
	if tab.telling == 0 {
		do()
		return
	}
	tab.quiet = append(tab.quiet, do)
	time.AfterFunc(quietWait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.over {
			tab.settled()
		}
	})
}

func (n *node) settled() {
	waiting := n.quiet
	n.quiet = nil
	for _, do := range waiting {
		do()
	}
}

// undone is what takes back what a client has left switched on, for the next one.
type undone struct{ method, params string }

// undo lists, by method, what takes it back.
var undo = map[string]undone{
	"Emulation.setAutoDarkModeOverride":           {"Emulation.setAutoDarkModeOverride", `{}`},
	"Emulation.setCPUThrottlingRate":              {"Emulation.setCPUThrottlingRate", `{"rate":1}`},
	"Emulation.setDefaultBackgroundColorOverride": {"Emulation.setDefaultBackgroundColorOverride", `{}`},
	"Emulation.setDeviceMetricsOverride":          {"Emulation.clearDeviceMetricsOverride", `{}`},
	"Emulation.setEmitTouchEventsForMouse":        {"Emulation.setEmitTouchEventsForMouse", `{"enabled":false}`},
	"Emulation.setEmulatedMedia":                  {"Emulation.setEmulatedMedia", `{"media":"","features":[]}`},
	"Emulation.setEmulatedVisionDeficiency":       {"Emulation.setEmulatedVisionDeficiency", `{"type":"none"}`},
	"Emulation.setFocusEmulationEnabled":          {"Emulation.setFocusEmulationEnabled", `{"enabled":true}`},
	"Emulation.setGeolocationOverride":            {"Emulation.clearGeolocationOverride", `{}`},
	"Emulation.setIdleOverride":                   {"Emulation.clearIdleOverride", `{}`},
	"Emulation.setLocaleOverride":                 {"Emulation.setLocaleOverride", `{}`},
	"Emulation.setPageScaleFactor":                {"Emulation.resetPageScaleFactor", `{}`},
	"Emulation.setScriptExecutionDisabled":        {"Emulation.setScriptExecutionDisabled", `{"value":false}`},
	"Emulation.setScrollbarsHidden":               {"Emulation.setScrollbarsHidden", `{"hidden":false}`},
	"Emulation.setTimezoneOverride":               {"Emulation.setTimezoneOverride", `{"timezoneId":""}`},
	"Emulation.setTouchEmulationEnabled":          {"Emulation.setTouchEmulationEnabled", `{"enabled":false}`},
	"Emulation.setUserAgentOverride":              {"Emulation.setUserAgentOverride", `{"userAgent":""}`},
	"Input.setInterceptDrags":                     {"Input.setInterceptDrags", `{"enabled":false}`},
	"Network.emulateNetworkConditions":            {"Network.emulateNetworkConditions", online},
	"Network.emulateNetworkConditionsByRule":      {"Network.emulateNetworkConditions", online},
	"Network.overrideNetworkState":                {"Network.overrideNetworkState", online},
	"Network.setBlockedURLs":                      {"Network.setBlockedURLs", `{"urls":[]}`},
	"Network.setBypassServiceWorker":              {"Network.setBypassServiceWorker", `{"bypass":false}`},
	"Network.setCacheDisabled":                    {"Network.setCacheDisabled", `{"cacheDisabled":false}`},
	"Network.setExtraHTTPHeaders":                 {"Network.setExtraHTTPHeaders", `{"headers":{}}`},
	"Network.setUserAgentOverride":                {"Emulation.setUserAgentOverride", `{"userAgent":""}`},
	"Overlay.setShowViewportSizeOnResize":         {"Overlay.setShowViewportSizeOnResize", `{"show":false}`},
	"Page.setInterceptFileChooserDialog":          {"Page.setInterceptFileChooserDialog", `{"enabled":false}`},
	"Page.setWebLifecycleState":                   {"Page.setWebLifecycleState", `{"state":"active"}`},
	"Page.startScreencast":                        {"Page.stopScreencast", `{}`},
}

const online = `{"offline":false,"latency":0,"downloadThroughput":-1,"uploadThroughput":-1}`

// stays lists what a client can set that is not taken back: it ends with the debugging, some
// of it with its domain. docs/CLIENTS.md has it, too.
var stays = []string{
	"CSS.forcePseudoState", "Emulation.setHardwareConcurrencyOverride", "Network.setAttachDebugStack", "Page.setFontFamilies", "Page.setFontSizes",
	"Page.setLifecycleEventsEnabled", "Runtime.setAsyncCallStackDepth", "Runtime.setMaxCallStackSizeToCapture",
}

// newID names a session.
func (d *desk) newID() string {
	d.ids++
	return fmt.Sprintf("%X%08X", d.epoch, d.ids)
}
