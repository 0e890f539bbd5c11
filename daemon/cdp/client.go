package cdp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// Bounds of one client.
const (
	maxFrame   = wire.MaxBody     // of what it sends
	maxQueued  = 64 << 20         // bytes that wait to be read by it, besides one message of any size
	maxUnread  = 65536            // messages that do
	maxOpen    = 1024             // commands without an answer
	maxOpenSum = 64 << 20         // bytes of those
	writeWait  = 20 * time.Second // for it to read one message
	closeWait  = time.Second      // the same, once the socket is to be closed
	maxSession = 1024
)

// client is one WebSocket. Its sessions are the desk's to guard.
type client struct {
	d        *desk
	asked    map[core.ActionID]bool // without an answer
	root     *session
	sessions map[string]*session
	open     int
	openSum  int

	mu     sync.Mutex
	queue  [][]byte
	bytes  int
	wake   chan struct{}
	code   websocket.StatusCode
	reason string
	closed chan struct{}
	once   sync.Once
}

// session is a client's session: the browser as a whole, a tab's wrapper, or a page, a
// frame or a worker. Its name is the endpoint's own; several clients have each their own
// for one and the same session of the browser.
type session struct {
	c         *client
	id        string // "" of the client's first
	node      *node  // nil of the browser and of a tab's wrapper
	wrapped   *node  // of a tab's wrapper
	parent    *session
	enabled   map[string]bool // domains
	auto      bool            // is told of targets as they come
	filter    []filter
	found     bool // discovers targets
	sees      []filter
	downloads bool // is told of them
	// document is the one in the tab's main frame that the client was last told of here.
	document core.DocumentID
	undo     map[string]undone
}

func newClient(d *desk) *client {
	c := &client{d: d, asked: map[core.ActionID]bool{}, sessions: map[string]*session{}, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	c.root = &session{c: c, enabled: map[string]bool{}, undo: map[string]undone{}}
	c.sessions[""] = c.root
	return c
}

// wants says whether a session is to be told of a domain's events.
func (s *session) wants(domain string) bool {
	if s.enabled[domain] || domain == "Inspector" {
		return true
	}
	_, switched := wire.Methods[domain+".enable"]
	return !switched
}

// run reads and writes until the socket is closed.
func (c *client) run(conn *websocket.Conn) {
	conn.SetReadLimit(maxFrame)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var writer sync.WaitGroup
	writer.Go(func() { c.write(ctx, conn) })
	for {
		kind, body, err := conn.Read(ctx)
		if err != nil {
			if errors.Is(err, websocket.ErrMessageTooBig) || websocket.CloseStatus(err) == websocket.StatusMessageTooBig {
				c.close(CloseFlood, "a message is larger than is taken")
			}
			break
		}
		if kind != websocket.MessageText {
			c.close(websocket.StatusUnsupportedData, "messages are text")
			break
		}
		c.take(body)
	}
	c.close(websocket.StatusNormalClosure, "")
	writer.Wait()
	conn.CloseNow()
}

// write is the one writer of the socket.
func (c *client) write(ctx context.Context, conn *websocket.Conn) {
	for {
		select {
		case <-c.closed:
			c.mu.Lock()
			code, reason := c.code, c.reason
			c.mu.Unlock()
			late := time.AfterFunc(closeWait, func() { conn.CloseNow() })
			conn.Close(code, reason) //nolint:errcheck // it may be gone
			late.Stop()
			return
		case <-c.wake:
		}
		for body := c.next(); body != nil; body = c.next() {
			if err := c.writeOne(ctx, conn, body); err != nil {
				c.close(CloseSlow, "the client does not read") // unless it was closed for another reason
				conn.CloseNow()
				return
			}
		}
	}
}

// writeOne writes a message. A client that does not read it in time, or does not read on
// while the socket is to be closed, is cut off in the middle of it.
func (c *client) writeOne(ctx context.Context, conn *websocket.Conn, body []byte) error {
	late, cancel := context.WithTimeout(ctx, writeWait)
	defer cancel()
	written := make(chan struct{})
	defer close(written)
	go func() {
		select {
		case <-c.closed:
			time.AfterFunc(closeWait, cancel)
		case <-written:
		}
	}()
	return conn.Write(late, websocket.MessageText, body)
}

// gone says whether the socket is closed, or about to be.
func (c *client) gone() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// next takes the oldest message, none once the socket is to be closed.
func (c *client) next() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.queue = nil
		return nil
	}
	body := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	c.bytes -= len(body)
	return body
}

// send queues a message. It never waits: a client that does not read is closed.
func (c *client) send(body []byte) {
	c.mu.Lock()
	full := len(c.queue) > 0 && c.bytes+len(body) > maxQueued || len(c.queue) >= maxUnread
	if !full && c.code == 0 {
		c.queue = append(c.queue, body)
		c.bytes += len(body)
	}
	c.mu.Unlock()
	if full {
		c.close(CloseSlow, "the client does not read")
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close closes the socket. What waits to be written is not written any more.
func (c *client) close(code websocket.StatusCode, reason string) {
	c.once.Do(func() {
		if len(reason) > 120 { // a close frame holds no more
			reason = strings.ToValidUTF8(reason[:120], "")
		}
		c.mu.Lock()
		c.code, c.reason, c.queue, c.bytes = code, reason, nil, 0
		c.mu.Unlock()
		close(c.closed)
	})
}

// message is a command as a client sends it.
type message struct {
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Session string          `json:"sessionId"`
	size    int
}

// take takes one message of the client's.
func (c *client) take(body []byte) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		c.fail(message{}, wire.CDPInvalidRequest, "the message is no JSON object with id and method")
		return
	}
	m.size = len(body)
	m.Params = bytes.TrimSpace(m.Params)
	if len(m.Params) == 0 || string(m.Params) == "null" {
		m.Params = json.RawMessage("{}")
	}
	switch {
	case !isNumber(m.ID):
		m.ID = nil
		c.fail(m, wire.CDPInvalidRequest, "the message has no id, or one that is no whole number")
	case m.Method == "" || len(m.Method) > 200:
		c.fail(m, wire.CDPInvalidRequest, "the message has no method, or one that is longer than 200 bytes")
	case m.Params[0] != '{':
		c.fail(m, wire.CDPInvalidParams, "params must be an object")
	default:
		c.d.mu.Lock()
		defer c.d.mu.Unlock()
		c.dispatch(m)
	}
}

func isNumber(id json.RawMessage) bool {
	var n int64
	return json.Unmarshal(id, &n) == nil && len(id) > 0 && id[0] != 'n'
}

// dispatch has a command answered, or sends it on. The desk's mutex is held.
func (c *client) dispatch(m message) {
	s := c.sessions[m.Session]
	if c.d.over {
		return // the socket is about to be closed
	}
	if s == nil {
		c.fail(m, wire.CDPNoSession, "Session with given id not found.")
		return
	}
	domain, name, _ := strings.Cut(m.Method, ".")
	switch {
	case c.cookies(s, m):
	case domain == "Target" && !(s.node != nil && name == "setAutoAttach"), domain == "Browser", s.node == nil:
		c.browser(s, m)
	case m.Method == "Target.setAutoAttach":
		c.children(s, m)
	case m.Method == "Page.close":
		c.closeTab(m, c.d.tabs[s.node.tab])
	case m.Method == "Page.bringToFront":
		// As Target.activateTarget: what is in front of the person stays there. A tab
		// behind it is drawn and has the focus all the same.
		c.reply(m, struct{}{})
	case m.Method == "Page.disable", m.Method == "Inspector.disable":
		// It stays on for the record; this session is told no more of it.
		delete(s.enabled, domain)
		c.reply(m, struct{}{})
	case name == "enable" && !s.enabled[domain]:
		s.enabled[domain] = true
		s.node.uses[domain]++
		if domain == "Runtime" && s.node.uses[domain] > 1 {
			for _, e := range s.node.contexts {
				c.event(s, "Runtime.executionContextCreated", e.raw)
			}
			c.reply(m, struct{}{})
			return
		}
		c.forward(s, m)
	case name == "disable" && s.enabled[domain] && s.node.uses[domain] > 1:
		c.d.disable(s, domain)
		c.reply(m, struct{}{})
	case name == "disable" && s.enabled[domain]:
		delete(s.enabled, domain)
		s.node.uses[domain]--
		if domain == "Runtime" {
			s.node.contexts = nil
		}
		c.forward(s, m)
	default:
		if m.Method == "Runtime.runIfWaitingForDebugger" {
			s.node.waiting = false
		}
		c.forward(s, m)
	}
}

// forward sends a command to the page, and its answer back.
func (c *client) forward(s *session, m message) {
	c.forwardTo(s, m, func(result json.RawMessage, err *wire.CDPError) { c.answer(m, result, err) })
}

func (c *client) forwardTo(s *session, m message, f told) {
	if c.open >= maxOpen || c.openSum+m.size > maxOpenSum {
		c.close(CloseFlood, fmt.Sprintf("more than %d commands, or %d MB of them, are without an answer", maxOpen, maxOpenSum>>20))
		return
	}
	rule := wire.Methods[m.Method]
	o := order{
		act: wire.Act{Verb: "cdp", Method: m.Method, Params: m.Params}, raw: true, session: s.node.real, tab: s.node.tab,
		class: core.Read, summary: "cdp " + clip(m.Method), bytes: m.size,
	}
	if rule.Effect {
		o.class = core.Write
	}
	// What names no context or node of its own is for the document that the client knows.
	aimed := rule.Input && m.Method != "DOM.setFileInputFiles"
	if aimed {
		o.document = s.document
	}
	if back, ok := undo[m.Method]; ok {
		s.undo[back.method] = back
	}
	if m.Method == "Runtime.addBinding" {
		s.bound(m.Params)
	}
	c.open++
	c.openSum += m.size
	c.request(o, func(result json.RawMessage, err *wire.CDPError) {
		c.open--
		c.openSum -= m.size
		if tab := c.d.tabs[s.node.tab]; tab != nil {
			s.document = tab.document
		}
		if m.Method == "Page.addScriptToEvaluateOnNewDocument" {
			s.scripted(result)
		}
		f(result, err)
	})
}

// scripted has a script for new documents taken back with its session.
func (s *session) scripted(result json.RawMessage) {
	var made struct {
		ID string `json:"identifier"`
	}
	if json.Unmarshal(result, &made) != nil || made.ID == "" || len(s.undo) > maxOpen {
		return
	}
	params, _ := json.Marshal(map[string]string{"identifier": made.ID})
	s.undo["script "+made.ID] = undone{"Page.removeScriptToEvaluateOnNewDocument", string(params)}
}

// bound has a binding taken back with its session: what calls it is not heard any more.
func (s *session) bound(params json.RawMessage) {
	var made struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(params, &made) != nil || made.Name == "" || len(s.undo) > maxOpen {
		return
	}
	back, _ := json.Marshal(made)
	s.undo["binding "+made.Name] = undone{"Runtime.removeBinding", string(back)}
}

// request asks for an action; the desk's mutex is held, also when f is called.
func (c *client) request(o order, f told) {
	d := c.d
	id := newAction()
	c.asked[id] = true
	d.pending[id] = func(result json.RawMessage, err *wire.CDPError) {
		delete(c.asked, id)
		f(result, err)
	}
	d.ask(id, o)
}

// ask has an action carried out whose answer is pending.
func (d *desk) ask(id core.ActionID, o order) {
	res := d.actLocked(id, o)
	go func() {
		if r := <-res; r.Refusal != nil {
			d.answer(id, core.Expect{}, nil, wire.ErrorOf(r.Refusal))
		}
	}()
}

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// answer answers a command in the protocol's form.
func (c *client) answer(m message, result json.RawMessage, err *wire.CDPError) {
	var b bytes.Buffer
	b.Grow(len(result) + 128)
	b.WriteString(`{"id":`)
	if len(m.ID) == 0 {
		b.WriteString("null")
	} else {
		b.Write(m.ID)
	}
	if err != nil {
		raw, _ := json.Marshal(err)
		b.WriteString(`,"error":`)
		b.Write(raw)
	} else {
		b.WriteString(`,"result":`)
		if len(result) == 0 {
			result = json.RawMessage("{}")
		}
		b.Write(result)
	}
	if m.Session != "" {
		id, _ := json.Marshal(m.Session)
		b.WriteString(`,"sessionId":`)
		b.Write(id)
	}
	b.WriteByte('}')
	c.send(b.Bytes())
}

func (c *client) reply(m message, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("cdp: " + err.Error())
	}
	c.answer(m, raw, nil)
}

func (c *client) fail(m message, code int, why string) {
	c.answer(m, nil, &wire.CDPError{Code: code, Message: why})
}

func (c *client) refuse(m message, code core.Code, why, hint string) {
	c.answer(m, nil, wire.ErrorOf(core.Refuse(code, why, hint)))
}

// event sends an event on one of the client's sessions.
func (c *client) event(s *session, method string, params any) {
	raw, err := json.Marshal(params)
	if err != nil {
		panic("cdp: " + err.Error())
	}
	b := fmt.Appendf(nil, `{"method":%q,"params":%s`, method, raw)
	if s.id != "" {
		b = fmt.Appendf(b, `,"sessionId":%q`, s.id)
	}
	c.send(append(b, '}'))
}
