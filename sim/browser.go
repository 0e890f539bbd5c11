package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dop251/goja"

	"sessiondock.dev/sessiondock/daemon/core"
)

// browser is one launch of a slot's browser, as the measurements of the design found
// Chromium to be: a command that was sent is queued with the page and lands when the
// page comes to it, whatever becomes of the debugger, the worker or the host meanwhile.
type browser struct {
	w          *world
	slot       *slot
	launch     core.LaunchID
	generation int64
	tabs       []*tab
	shared     []shared
	workers    int         // made so far
	documents  []*document // that may still run something
	worker     *worker     // nil while it sleeps or is dead
	host       *host       // the native host of the worker's port, nil if there is none
	ports      int64
	session    map[string]string // storage.session
	requests   []*request

	fenced  core.Epoch // the highest epoch that it has acknowledged (I4)
	persons core.Epoch // the highest of those that was a person's
	taken   core.Epoch // the highest that it was sent as a person's
	granted core.Epoch // the highest that its gate has accepted
	asked   map[int64]int64
}

type tab struct {
	id       int64
	document *document
	attached bool
	crashed  bool
	going    *navigation
}

type document struct {
	id      string
	tab     *tab
	url     string
	current bool // what its tab shows
	gone    bool // the browser lists it no more, and nothing of it runs
	busy    bool
	queue   []*work
	scripts []tag // an agent's code that goes on by itself
}

// work is something that a document will come to.
type work struct {
	kind   string // press, release, key, script, look, barrier
	tag    tag
	call   int64 // whose promise is answered by it, 0 if nobody's any more
	by     *worker
	tabID  int64
	wanted string // barrier: the document that was asked for
}

// shared is a worker that an agent's script has made: it needs no page.
type shared struct {
	id  string
	tag tag
}

// navigation is on its way to be committed.
type navigation struct {
	tag  tag
	call int64
	by   *worker
	url  string
	post bool
}

// tag marks a command with the action that it is a step of.
type tag struct {
	action core.ActionID
	step   int
	person bool
}

const page = "https://shop.test/"

func (w *world) startBrowser(s *slot, launch core.LaunchID, generation int64) *browser {
	b := &browser{w: w, slot: s, launch: launch, generation: generation, session: map[string]string{}, asked: map[int64]int64{}}
	s.browsers = append(s.browsers, b)
	b.openTab(page)
	if w.one(3) {
		b.openTab(page)
	}
	b.wake()
	return b
}

func (b *browser) openTab(url string) *tab {
	b.w.ids++
	t := &tab{id: int64(b.w.ids)}
	b.tabs = append(b.tabs, t)
	b.put(t, url)
	return t
}

// put commits a new document into a tab. The former one lives on until it has ended.
func (b *browser) put(t *tab, url string) *document {
	if old := t.document; old != nil {
		old.current = false
	}
	d := &document{id: b.w.id("D"), tab: t, url: url, current: true}
	t.document, t.crashed = d, false
	b.documents = append(b.documents, d)
	return d
}

// commit does so, and tells the worker.
func (b *browser) commit(t *tab, url string) {
	if t.going != nil && t.going.call != 0 {
		b.answer(t.going.by, t.going.call, `{"frameId":"F","loaderId":"L"}`)
	}
	if t.going != nil {
		b.w.truth.navigated(t.going.tag, true)
	}
	t.going = nil
	d := b.put(t, url)
	b.event("committed", map[string]any{
		"tabId": t.id, "frameId": 0, "documentId": d.id, "url": url, "documentLifecycle": "active", "timeStamp": b.w.wallMs,
	})
}

func (b *browser) tab(id int64) *tab {
	for _, t := range b.tabs {
		if t.id == id {
			return t
		}
	}
	return nil
}

// event tells the worker of something; a worker that sleeps is woken by it.
func (b *browser) event(name string, args ...any) {
	if b.worker == nil {
		return
	}
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	b.later(b.worker, func() { b.worker.do("emit", name, string(text)) })
}

// later does something once the worker's turn has ended: no event comes into a turn.
func (b *browser) later(w *worker, f func()) {
	if w.deep == 0 {
		f()
		return
	}
	w.soon = append(w.soon, f)
}

func (b *browser) answer(by *worker, call int64, text string) {
	if call != 0 && by != nil && by == b.worker && !by.dead {
		b.later(by, func() { by.do("answer", call, text) })
	}
}

func (b *browser) fail(by *worker, call int64, message string) {
	if call != 0 && by != nil && by == b.worker && !by.dead {
		b.later(by, func() { by.do("fail", call, message) })
	}
}

// wake starts a life of the worker.
func (b *browser) wake() {
	w := b.w
	str := func(c goja.FunctionCall, i int) string { return c.Argument(i).String() }
	num := func(c goja.FunctionCall, i int) int64 { return c.Argument(i).ToInteger() }
	val := func(v any) goja.Value { return w.script.vm.ToValue(v) }
	undefined := goja.Undefined()
	w.logf("%s: worker starts", b.launch)
	me := w.script.newWorker(w.mono)
	b.worker = me
	me.begin(natives{
		"mono":    func(goja.FunctionCall) goja.Value { return val(w.mono()) },
		"wall":    func(goja.FunctionCall) goja.Value { return val(w.wallMs) },
		"uuid":    func(goja.FunctionCall) goja.Value { return val(w.id("uuid-")) },
		"connect": func(goja.FunctionCall) goja.Value { return val(b.connectHost(me)) },
		"post": func(c goja.FunctionCall) goja.Value {
			b.posted(num(c, 0), said{text: str(c, 1), t: str(c, 2), nonce: core.Nonce(str(c, 3)), epoch: core.Epoch(num(c, 4))})
			return undefined
		},
		"closed": func(c goja.FunctionCall) goja.Value {
			if b.host != nil && b.host.port == num(c, 0) {
				b.host.die()
			}
			return undefined
		},
		"attach": func(c goja.FunctionCall) goja.Value {
			b.attach(me, num(c, 0), num(c, 1))
			return undefined
		},
		"detach": func(c goja.FunctionCall) goja.Value {
			b.detach(me, num(c, 0), num(c, 1))
			return undefined
		},
		"targets": func(goja.FunctionCall) goja.Value { return val(b.targets()) },
		"send": func(c goja.FunctionCall) goja.Value {
			b.send(me, num(c, 0), num(c, 1), str(c, 2), str(c, 3))
			return undefined
		},
		"barrier": func(c goja.FunctionCall) goja.Value {
			b.barrier(me, num(c, 0), num(c, 1), str(c, 2))
			return undefined
		},
		"tabs": func(goja.FunctionCall) goja.Value { return val(b.listTabs()) },
		"createTab": func(c goja.FunctionCall) goja.Value {
			t := b.openTab(str(c, 0))
			return val(fmt.Sprintf(`{"id":%d,"url":%q,"title":"","active":true,"windowId":1}`, t.id, t.document.url))
		},
		"closeTab": func(c goja.FunctionCall) goja.Value {
			b.closeTab(b.tab(num(c, 0)))
			return val("")
		},
		"closeWorker": func(c goja.FunctionCall) goja.Value {
			b.endShared(str(c, 0))
			return val("")
		},
		"frames":    func(c goja.FunctionCall) goja.Value { return val(b.frames(num(c, 0), true)) },
		"mainFrame": func(c goja.FunctionCall) goja.Value { return val(b.frames(num(c, 0), false)) },
		"frameOf":   func(c goja.FunctionCall) goja.Value { return val(b.frameOf(str(c, 0))) },
		"load":      func(c goja.FunctionCall) goja.Value { return val(load(b.storage(str(c, 0)))) },
		"save": func(c goja.FunctionCall) goja.Value {
			b.save(str(c, 0), str(c, 1))
			return val("")
		},
	})
	b.check()
}

func (b *browser) storage(name string) map[string]string {
	if name == "local" {
		return b.slot.local
	}
	return b.session
}

func load(items map[string]string) string {
	keys := make([]string, 0, len(items))
	for k := range items {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var out strings.Builder
	for i, k := range keys {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:%s", k, items[k])
	}
	return "{" + out.String() + "}"
}

func (b *browser) save(name, text string) {
	var items map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &items); err != nil {
		panic(err)
	}
	was := maps.Clone(b.storage(name))
	for k, v := range items {
		b.storage(name)[k] = string(v)
	}
	if name == "local" {
		b.w.truth.stored(b, was)
	}
}

// check takes an error that a worker let through for what it is: a fault of ours.
func (b *browser) check() {
	if b.worker != nil && b.worker.failed != nil {
		b.w.violated("the worker threw", "%v", b.worker.failed)
	}
}

func (b *browser) listTabs() string {
	var out []string
	for i, t := range b.tabs {
		out = append(out, fmt.Sprintf(`{"id":%d,"url":%q,"title":"","active":%v,"windowId":1}`, t.id, t.document.url, i == 0))
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (b *browser) frames(tabID int64, list bool) string {
	t := b.tab(tabID)
	if t == nil {
		return ""
	}
	one := fmt.Sprintf(`{"frameId":0,"documentId":%q,"url":%q,"processId":7}`, t.document.id, t.document.url)
	if list {
		return "[" + one + "]"
	}
	return one
}

func (b *browser) frameOf(id string) string {
	for _, d := range b.documents {
		if d.id == id && !d.gone {
			return fmt.Sprintf(`{"documentId":%q}`, id)
		}
	}
	return ""
}

func (b *browser) targets() string {
	out := []string{}
	for _, t := range b.tabs {
		if t.attached {
			out = append(out, fmt.Sprintf(`{"type":"page","attached":true,"tabId":%d,"url":%q}`, t.id, page))
		}
	}
	for _, s := range b.shared {
		out = append(out, fmt.Sprintf(`{"type":"worker","attached":false,"id":%q,"url":"blob:https://shop.test/1"}`, s.id))
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (b *browser) attach(by *worker, call, tabID int64) {
	switch t := b.tab(tabID); {
	case t == nil:
		b.fail(by, call, "No tab with given id")
	case t.attached:
		b.fail(by, call, "Another debugger is already attached to the tab")
	default:
		t.attached = true
		b.answer(by, call, "null")
	}
}

// detach ends the debugging of a tab: its commands' promises end with an error, and what
// they had put into the page stays there.
func (b *browser) detach(by *worker, call, tabID int64) {
	t := b.tab(tabID)
	if t == nil || !t.attached {
		b.fail(by, call, "Debugger is not attached to the tab")
		return
	}
	t.attached = false
	b.cut(t, "Detached while handling command.")
	b.answer(by, call, "null")
}

// cancel ends the debugging of a tab by a person's press.
func (b *browser) cancel(t *tab) {
	b.w.logf("%s: a person ends the debugging", b.launch)
	t.attached = false
	b.cut(t, "Detached while handling command.")
	b.event("debuggerDetach", t.id, "canceled_by_user")
}

// cut answers every open command of a tab with an error that proves nothing.
func (b *browser) cut(t *tab, message string) {
	for _, d := range b.documents {
		for _, k := range d.queue {
			if k.tabID == t.id && k.kind != "barrier" && k.call != 0 {
				b.fail(k.by, k.call, message)
				k.call = 0
			}
		}
	}
	if g := t.going; g != nil && g.call != 0 {
		b.fail(g.by, g.call, message)
		g.call = 0
	}
}

func tagOf(params string) (tag, bool) {
	_, rest, found := strings.Cut(params, `"sim":"`)
	if !found {
		return tag{}, false
	}
	name, _, _ := strings.Cut(rest, `"`)
	action, step, _ := strings.Cut(name, "#")
	n := 0
	fmt.Sscan(step, &n)
	return tag{action: core.ActionID(action), step: n}, true
}

// send is chrome.debugger.sendCommand: what comes here has been dispatched.
func (b *browser) send(by *worker, call, tabID int64, method, params string) {
	w := b.w
	t := b.tab(tabID)
	mark, agents := tagOf(params)
	if t == nil || !t.attached {
		b.fail(by, call, "Debugger is not attached to the tab with id: "+fmt.Sprint(tabID)+".")
		return
	}
	if agents {
		w.logf("%s: dispatch %s of %s step %d in %s", b.launch, method, mark.action, mark.step, t.document.id)
		w.truth.dispatched(b, t, mark, method, params)
	} else {
		w.logf("%s: system sends %s", b.launch, method)
	}
	if t.crashed && method != "Page.navigate" {
		return // never answered
	}
	if agents && w.one(25) {
		// The browser refuses what it was sent, before anything of it has run.
		b.fail(by, call, `{"code":-32602,"message":"Invalid parameters"}`)
		w.truth.refused(mark)
		return
	}
	kind := ""
	switch method {
	case "Input.dispatchMouseEvent":
		kind = "release"
		if strings.Contains(params, `"mousePressed"`) {
			kind = "press"
		}
		if !agents {
			kind = "key" // released outside of every page
		}
	case "Input.dispatchKeyEvent":
		kind = "key"
	case "Runtime.evaluate":
		kind = "look"
		if strings.Contains(params, "effect()") {
			kind = "script"
		}
	case "Page.navigate":
		b.navigate(t, &navigation{tag: mark, call: call, by: by, url: page})
		return
	case "Page.crash":
		b.later(by, func() { b.crash(t) })
		return
	case "Page.getFrameTree":
		b.answer(by, call, `{"frameTree":{"frame":{"id":"F"}}}`)
		return
	default:
		b.answer(by, call, "{}")
		return
	}
	d := t.document
	d.queue = append(d.queue, &work{kind: kind, tag: mark, call: call, by: by, tabID: t.id})
	if !d.busy && len(d.queue) == 1 && !w.one(3) {
		b.later(by, func() { b.handle(d) })
	}
}

// barrier runs in the document that is asked for, after what is queued there; if that
// one was replaced on its way it runs in the new one, and says so.
func (b *browser) barrier(by *worker, call, tabID int64, wanted string) {
	t := b.tab(tabID)
	if t == nil || t.crashed {
		b.fail(by, call, "No tab with id")
		return
	}
	put := func() {
		d := t.document
		d.queue = append(d.queue, &work{kind: "barrier", call: call, by: by, tabID: t.id, wanted: wanted})
		if !d.busy && len(d.queue) == 1 && !b.w.one(3) {
			b.later(by, func() { b.handle(d) })
		}
	}
	if b.w.calm || t.going == nil && len(t.document.queue) == 0 || !b.w.one(2) {
		put()
		return
	}
	// A navigation is committed before it gets there: one that was under way, or a person's.
	b.later(by, func() {
		if b.tab(t.id) != nil {
			if t.going == nil {
				b.navigate(t, &navigation{url: page})
			}
			b.commit(t, page)
		}
		put()
	})
}

// handle lets a document come to what is first in its queue.
func (b *browser) handle(d *document) {
	if d.gone || d.busy || len(d.queue) == 0 {
		return
	}
	k := d.queue[0]
	d.queue = d.queue[1:]
	w := b.w
	switch k.kind {
	case "barrier":
		b.answer(k.by, k.call, fmt.Sprintf(`[{"frameId":0,"documentId":%q}]`, d.id))
		return
	case "look":
		b.answer(k.by, k.call, fmt.Sprintf(`{"result":{"value":%q}}`, w.truth.content(b)))
		return
	}
	if k.tag.action != "" {
		w.logf("%s: %s of %s lands in %s", b.launch, k.kind, k.tag.action, d.id)
		w.truth.landed(b, d, k)
	}
	if k.kind == "release" && (k.tag.action != "" || k.tag.person) || k.kind == "script" {
		b.reacts(d, k.tag, k.kind == "script")
	}
	switch {
	case k.kind == "script" && w.one(12):
		b.fail(k.by, k.call, `{"code":-32000,"message":"Promise was collected"}`) // it ran all the same
	default:
		b.answer(k.by, k.call, "{}")
	}
}

// reacts is what a page does with a click, or an agent's script does in it.
func (b *browser) reacts(d *document, by tag, script bool) {
	switch n := b.w.rng.IntN(10); {
	case n < 3:
	case script && n < 6:
		d.scripts = append(d.scripts, by)
		if b.w.one(3) {
			b.makeShared(by)
		}
	case n < 7:
		b.request(d, "POST", "xmlhttprequest", by)
	case n < 8 && d.current:
		b.event("debuggerEvent", d.tab.id, "", "Page.frameRequestedNavigation", map[string]any{"frameId": "F", "disposition": "currentTab"})
		b.navigate(d.tab, &navigation{tag: by, url: page, post: b.w.one(2)})
	case n < 9:
		b.request(d, "GET", "xmlhttprequest", by)
	}
}

// navigate begins one. Another that was under way in the tab is dropped for it.
func (b *browser) navigate(t *tab, g *navigation) {
	if old := t.going; old != nil {
		b.answer(old.by, old.call, `{"frameId":"F","errorText":"net::ERR_ABORTED"}`)
		b.w.truth.navigated(old.tag, true) // it was carried out, and replaced
	}
	t.going = g
	method := "GET"
	if g.post {
		method = "POST"
	}
	b.requestOf(t, nil, method, "main_frame", g.tag)
}

// crash ends a renderer. All tabs share one here: whoever asks for one ends them all.
func (b *browser) crash(asked *tab) {
	b.w.logf("%s: renderer crashes", b.launch)
	b.shared = nil
	for _, d := range b.documents {
		b.end(d)
	}
	for _, t := range b.tabs {
		if t.crashed {
			continue
		}
		t.crashed = true
		b.goNowhere(t)
		if t.attached {
			b.event("debuggerEvent", t.id, "", "Inspector.targetCrashed", map[string]any{})
		}
	}
}

// end is a document's end: nothing of it runs any more.
func (b *browser) end(d *document) {
	if d.gone {
		return
	}
	d.gone = true
	for _, k := range d.queue {
		b.w.truth.ended(k.tag)
		if k.kind == "barrier" {
			b.fail(k.by, k.call, "The frame was removed.")
		}
	}
	d.queue, d.scripts = nil, nil
}

// makeShared makes a shared worker. It is alone with its name, also when it has ended.
func (b *browser) makeShared(by tag) {
	b.workers++
	b.shared = append(b.shared, shared{fmt.Sprintf("W%d", b.workers), by})
}

// endShared ends a shared worker.
func (b *browser) endShared(id string) {
	b.shared = slices.DeleteFunc(b.shared, func(s shared) bool { return s.id == id })
}

// goNowhere ends a tab's navigation that is not committed.
func (b *browser) goNowhere(t *tab) {
	if t.going != nil {
		b.w.truth.navigated(t.going.tag, false)
		t.going = nil
	}
}

func (b *browser) closeTab(t *tab) {
	if t == nil || len(b.tabs) < 2 {
		return
	}
	b.tabs = slices.DeleteFunc(b.tabs, func(o *tab) bool { return o == t })
	t.document.current = false
	b.cut(t, "Inspected target navigated or closed")
	b.goNowhere(t)
	t.attached = false
	if b.w.one(2) {
		b.end(t.document) // alone in its process; else what is queued there still lands
	}
	b.event("tabRemoved", t.id)
}

// quit ends the browser, with everything in it.
func (b *browser) quit() {
	b.w.logf("%s: browser ends", b.launch)
	b.shared = nil
	for _, d := range b.documents {
		b.end(d)
	}
	for _, t := range b.tabs {
		b.goNowhere(t)
	}
	b.sleep()
	b.requests = slices.DeleteFunc(b.requests, func(*request) bool { return b.w.one(2) })
	b.slot.browsers = slices.DeleteFunc(b.slot.browsers, func(o *browser) bool { return o == b })
}

// loadAnew loads the extension anew, as an update of it does: its debugging ends, and what it
// kept of this run of the browser is gone. Pages and profile stay.
func (b *browser) loadAnew() {
	b.w.logf("%s: the extension is loaded anew", b.launch)
	b.sleep()
	b.session = map[string]string{}
	for _, t := range b.tabs {
		if t.attached {
			t.attached = false
			b.cut(t, "Detached while handling command.")
		}
	}
}

// sleep ends the worker's life, and with its port its host.
func (b *browser) sleep() {
	if b.worker != nil {
		b.worker.kill()
		b.worker = nil
	}
	if b.host != nil {
		b.host.die()
	}
}
