package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// The tests of the product share one daemon and one site; each has a slot, a
// browser and an agent of its own.

var product struct {
	once   sync.Once
	daemon *demo.Daemon
	site   *demo.Site
	err    error
}

// closeProduct ends what the tests shared.
func closeProduct() error {
	if product.daemon == nil {
		return nil
	}
	defer product.site.Close()
	return product.daemon.Stop()
}

// desk is one test's slot with its agent.
type desk struct {
	*demo.Agent
	t    *testing.T
	ctx  context.Context
	d    *demo.Daemon
	site *demo.Site
	name string
	page string
	hand *demo.Hand
}

func slotName(t *testing.T) string {
	return strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test")))
}

// openDesk prepares a slot at one of the site's pages, and an agent that has
// acquired it and looked at that page.
func openDesk(t *testing.T, page, query string) *desk {
	t.Helper()
	openProduct(t)
	return openDeskOn(t, product.daemon, product.site, page, query)
}

// openProduct starts what the tests share, with the first that needs it.
func openProduct(t *testing.T) {
	t.Helper()
	product.once.Do(func() {
		home, in := demo.InHome()
		if !in {
			product.err = fmt.Errorf("not in a home")
			return
		}
		if product.site, product.err = demo.OpenSite(); product.err == nil {
			product.daemon, product.err = demo.StartDaemon(context.Background(), home, "pipe", "--verbose")
		}
	})
	must(t, product.err)
}

func openDeskOn(t *testing.T, d *demo.Daemon, site *demo.Site, page, query string) *desk {
	t.Helper()
	return openNamedDesk(t, d, site, slotName(t), page, query)
}

func openNamedDesk(t *testing.T, d *demo.Daemon, site *demo.Site, name, page, query string) *desk {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	k := &desk{t: t, ctx: ctx, d: d, site: site, name: name}
	k.page = site.URL(k.name, page, query)
	must(t, d.NewSlot(ctx, k.name, "headless", site.Origin(), k.page))
	t.Cleanup(func() {
		stop, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		k.d.Control.Change(stop, k.slot(), client.Takeover, wire.ChangeRequest{FromPerson: true})
		if _, err := k.d.Control.Change(stop, k.slot(), client.Stop, wire.ChangeRequest{StopNow: true}); err != nil {
			t.Errorf("stop: %v", err)
		}
		st, err := k.d.Control.Status(stop, k.slot())
		if err != nil || st.Local.Launch == nil || st.Local.Launch.State != "ended" {
			t.Errorf("the browser was not verified to have ended: %v %+v", err, st)
		}
	})
	var err error
	k.Agent, err = d.NewAgent(ctx, "ada", k.name)
	must(t, err)
	must(t, k.Acquire(ctx, "test", time.Minute))
	k.do(wire.Act{Verb: "navigate", URL: k.page})
	return k
}

func (k *desk) slot() core.SlotName { return core.SlotName(k.name) }

// extensionID is the identifier of the daemon's extension, which its key gives it.
func (k *desk) extensionID() string {
	k.t.Helper()
	h, err := k.d.Control.Health(k.ctx)
	must(k.t, err)
	if len(h.Extension) != 32 {
		k.t.Fatalf("the extension's identifier is %q", h.Extension)
	}
	return h.Extension
}

// do carries an action out and wants it to have finished.
func (k *desk) do(a wire.Act) *core.Record {
	k.t.Helper()
	r, err := k.Act(k.ctx, client.NewID(), a, 0)
	must(k.t, err)
	if r.Local != core.Finished || len(r.Result) == 0 && r.Error != nil {
		k.t.Fatalf("%s: local %s, error %v", r.Summary, r.Local, r.Error)
	}
	return r
}

// refuse wants an action to be refused with a code, by the daemon or by a later
// gate, and not to have been dispatched.
func (k *desk) refuse(code core.Code, a wire.Act) {
	k.t.Helper()
	r, err := k.Act(k.ctx, client.NewID(), a, 0)
	if err == nil && r.Error != nil {
		if r.Local != core.NotDispatched {
			k.t.Errorf("%s: refused, and local %s", r.Summary, r.Local)
		}
		err = r.Error
	}
	if got := codeOf(err); got != code {
		k.t.Errorf("%s: want %s, got %v", a.Verb, code, err)
	}
}

func codeOf(err error) core.Code {
	if e, ok := err.(*core.Error); ok && e != nil {
		return e.Code
	}
	return ""
}

// value evaluates an expression and returns its value.
func (k *desk) value(expression string) any {
	k.t.Helper()
	var out struct {
		Value     any `json:"value"`
		Exception any `json:"exception"`
	}
	r := k.do(wire.Act{Verb: "evaluate", Expression: expression})
	if len(r.Result) == 0 {
		st, _ := k.d.Control.Status(k.ctx, k.slot())
		k.t.Fatalf("%s came without a result: %+v; the slot: %+v", r.Summary, r, st)
	}
	must(k.t, json.Unmarshal(r.Result, &out))
	if out.Exception != nil {
		k.t.Fatalf("%s: %v", expression, out.Exception)
	}
	return out.Value
}

func (k *desk) press(button string) {
	k.t.Helper()
	k.dial()
	must(k.t, k.hand.Press(k.ctx, button))
}

// dial puts a hand at the desk's browser.
func (k *desk) dial() {
	k.t.Helper()
	if k.hand != nil {
		return
	}
	var err error
	k.hand, err = demo.DialHand(k.ctx, filepath.Dir(k.d.Paths.Runtime), k.slot())
	must(k.t, err)
	k.t.Cleanup(func() { k.hand.Close() })
}

// document is the document that the browser tells the extension of at the desk's page; ""
// while there is none.
func (k *desk) document() (id string) {
	k.t.Helper()
	must(k.t, k.hand.Pipe().Eval(k.ctx, k.hand.Worker(), fmt.Sprintf(`(async () => {
		const tab = (await chrome.tabs.query({})).find((t) => t.url === %q && t.status === "complete");
		const frame = tab && await chrome.webNavigation.getFrame({tabId: tab.id, frameId: 0});
		return frame ? frame.documentId : "";
	})()`, k.page), &id))
	return id
}

// hold keeps the desk's page busy, if it was opened with busy=held, until release or the
// test's end. Busy waits until it is.
func (k *desk) hold() (busy, release func()) {
	k.t.Helper()
	reached, release := k.site.Hold(k.name)
	k.t.Cleanup(release)
	return func() {
		k.t.Helper()
		select {
		case <-reached:
		case <-k.ctx.Done():
			k.t.Fatal("the page did not become busy")
		}
	}, release
}

func (k *desk) status(what string, good func(*core.Status) bool) *core.Status {
	k.t.Helper()
	st, err := k.d.WaitStatus(k.ctx, k.name, what, good)
	must(k.t, err)
	return st
}

// settled waits for a record of the agent's to be as wanted.
func (k *desk) settled(id, what string, good func(*core.Record) bool) *core.Record {
	k.t.Helper()
	for {
		r, err := k.LookUp(k.ctx, id)
		if err == nil && good(r) {
			return r
		}
		select {
		case <-k.ctx.Done():
			k.t.Fatalf("waited in vain for %s: %v %+v", what, err, r)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func str(s string) *string { return &s }

const form = `document.body.innerHTML = ` + "`" + `
<form id=f onsubmit="return false"><label>Name <input id=name></label><label>Secret <input id=secret type=password></label>
<select id=pick><option value=a>Apple<option value=b>Pear</select><label><input type=checkbox id=ok> Agree</label>
<textarea id=text></textarea><input type=file id=file><button id=go type=button onclick="this.textContent='Gone'">Go there</button></form>
<div id=drag draggable=true style="width:50px;height:50px;background:#ccc">drag</div>
<div id=drop style="width:90px;height:90px;background:#eee" ondragover="event.preventDefault()" ondrop="this.textContent='dropped'">drop</div>
<div id=far style="margin-top:3000px">far away</div>` + "`" + `; window.keys = []; document.addEventListener('keydown', e => keys.push(e.key)); document.addEventListener('mouseover', e => window.over = e.target.id); 1`

func TestEveryVerb(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	k.value(form)
	k.do(wire.Act{Verb: "fill", Selector: "#name", Value: str("Ada Lovelace")})
	k.do(wire.Act{Verb: "fill", Selector: "#name", Value: str("Grace")})
	k.do(wire.Act{Verb: "type", Selector: "#text", Value: str("two\nlines")})
	k.do(wire.Act{Verb: "fill", Selector: "#secret", Value: str("hunter2")})
	k.do(wire.Act{Verb: "press", Selector: "#name", Key: "End"})
	k.do(wire.Act{Verb: "press", Key: "!"})
	k.do(wire.Act{Verb: "select", Selector: "#pick", Value: str("Pear")})
	k.do(wire.Act{Verb: "check", Selector: "#ok"})
	k.do(wire.Act{Verb: "hover", Selector: "#drop"})
	if got := k.value(`[name.value ?? document.querySelector('#name').value, document.querySelector('#text').value, document.querySelector('#pick').value, document.querySelector('#ok').checked, window.over].join('|')`); got != "Grace!|two\nlines|b|true|drop" &&
		got != "|two\nlines|b|true|drop" {
		t.Errorf("the form holds %q", got)
	}
	if got := k.value(`document.querySelector('#name').value`); got != "Grace!" {
		t.Errorf("the field holds %q", got)
	}
	k.do(wire.Act{Verb: "drag", Selector: "#drag", ToSelector: "#drop"})
	if got := k.value(`document.querySelector('#drop').textContent`); got != "dropped" {
		t.Errorf("drag: %q", got)
	}
	k.do(wire.Act{Verb: "click", Text: "Go there"})
	k.do(wire.Act{Verb: "wait", Text: "Gone"})
	k.do(wire.Act{Verb: "scroll", DY: 1000})
	// It is scrolled in the frame that is drawn next.
	if got, _ := k.value(`new Promise(r => { const end = Date.now() + 10000; const look = () => scrollY >= 500 || Date.now() > end ? r(scrollY) : setTimeout(look, 20); look() })`).(float64); got < 500 {
		t.Errorf("scrolled to %v", got)
	}
	must(t, os.WriteFile(filepath.Join(k.Lease.UploadDir, "note.txt"), []byte("hello"), 0o600))
	k.do(wire.Act{Verb: "upload", Selector: "#file", Files: []string{"note.txt"}})
	if got := k.value(`document.querySelector('#file').files[0].text()`); got != "hello" {
		t.Errorf("uploaded %q", got)
	}
	k.refuse(core.CodePolicy, wire.Act{Verb: "upload", Selector: "#file", Files: []string{"../../etc/passwd"}})

	snap := string(k.do(wire.Act{Verb: "snapshot"}).Result)
	if !strings.Contains(snap, "Gone") || strings.Contains(snap, "hunter2") {
		t.Errorf("snapshot: %s", snap)
	}
	var s struct{ Text string }
	must(t, json.Unmarshal([]byte(snap), &s))
	_, after, found := strings.Cut(s.Text[strings.Index(s.Text, "Gone"):], "ref=")
	if !found {
		t.Fatalf("no ref: %s", s.Text)
	}
	ref := after[:strings.IndexAny(after, "] ")]
	k.do(wire.Act{Verb: "click", Ref: ref})

	shot := k.do(wire.Act{Verb: "screenshot"})
	var img struct{ Data string }
	must(t, json.Unmarshal(shot.Result, &img))
	raw, err := base64.StdEncoding.DecodeString(img.Data)
	must(t, err)
	if _, err := png.DecodeConfig(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
	if shot.Class != core.Read || shot.Remote != core.NoneSeen {
		t.Errorf("a screenshot is class %s, remote %s", shot.Class, shot.Remote)
	}
	k.do(wire.Act{Verb: "reload"})
	if got := k.value(`!!document.querySelector('#save')`); got != true {
		t.Error("reload did not bring the page back")
	}
	k.do(wire.Act{Verb: "navigate", URL: k.site.URL(k.name, "child", "")})
	k.do(wire.Act{Verb: "back"})
	k.do(wire.Act{Verb: "wait", Selector: "#save"})
	tabs := string(k.do(wire.Act{Verb: "tabs"}).Result)
	if !strings.Contains(tabs, k.site.Origin()) {
		t.Errorf("tabs: %s", tabs)
	}
	k.do(wire.Act{Verb: "tabs", Op: "new", URL: k.site.URL(k.name, "child", "")})

	// An alert blocks the page, not the agent's way out of it: it is told at once.
	id := client.NewID()
	r, err := k.Act(k.ctx, id, wire.Act{Verb: "evaluate", Expression: `alert('hello'); 7`}, 0)
	must(t, err)
	if r.Local != core.Running || r.Dialog == nil || *r.Dialog != (core.Dialog{Kind: "alert", Message: "hello"}) {
		t.Fatalf("local %s, dialog %+v", r.Local, r.Dialog)
	}
	yes := true
	k.do(wire.Act{Verb: "dialog", Accept: &yes})
	r = k.settled(id, "the end of what the alert had kept", func(r *core.Record) bool { return r.Local == core.Finished })
	if string(r.Result) != `{"value":7}` || r.Dialog != nil {
		t.Errorf("result %s, dialog %+v", r.Result, r.Dialog)
	}
}

func TestLargeMessagesPassBothWays(t *testing.T) { // B1, B2, scriptcat#1744
	t.Parallel()
	k := openDesk(t, "product", "")
	for _, mb := range []float64{0.9, 1.05, 4, 5} {
		n := int(mb * 1e6)
		if got := k.value(`"` + strings.Repeat("x", n) + `".length`); got != float64(n) {
			t.Errorf("%g MB of parameters: %v", mb, got)
		}
	}
	for _, mb := range []float64{0.9, 1.05, 4, 20} {
		n := int(mb * 1e6)
		if got, _ := k.value(fmt.Sprintf(`"y".repeat(%d)`, n)).(string); len(got) != n {
			t.Errorf("%g MB of result: %d bytes", mb, len(got))
		}
	}
	k.do(wire.Act{Verb: "navigate", URL: k.site.URL(k.name, "noise", "")})
	var img struct{ Data string }
	must(t, json.Unmarshal(k.do(wire.Act{Verb: "screenshot", FullPage: true}).Result, &img))
	if raw := len(img.Data) / 4 * 3; raw < 20e6 {
		t.Errorf("the screenshot has %d bytes, wanted 20 MB", raw)
	}
	if got := k.value(`1+1`); got != 2.0 {
		t.Errorf("after it: %v", got)
	}
}

func TestADocumentThatWasNotSeenIsNotActedOn(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	k.dial()
	before := k.document()
	k.value(`location.reload(), 1`)
	for now := before; now == "" || now == before; now = k.document() {
		time.Sleep(20 * time.Millisecond)
	}
	k.refuse(core.CodeDocumentChanged, wire.Act{Verb: "click", Selector: "#save"})
	if n := k.site.Count(k.name).Total; n != 0 {
		t.Errorf("the site counts %d saves", n)
	}
	k.do(wire.Act{Verb: "snapshot"})
	k.do(wire.Act{Verb: "click", Selector: "#save"})
}

func TestAddressesThatAreNotForAgents(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	for _, url := range []string{
		"chrome://settings", "chrome-extension://" + k.extensionID() + "/popup.html", "file:///etc/passwd", "devtools://devtools",
		"javascript:alert(1)", "data:text/html,x", "https://other.example/", "view-source:" + k.page, "blob:" + k.page,
	} {
		k.refuse(core.CodePolicy, wire.Act{Verb: "navigate", URL: url})
		params, _ := json.Marshal(map[string]string{"url": url})
		k.refuse(core.CodePolicy, wire.Act{Verb: "cdp", Method: "Page.navigate", Params: params})
		k.refuse(core.CodePolicy, wire.Act{Verb: "tabs", Op: "new", URL: url})
	}
	for _, method := range []string{"Network.getAllCookies", "Storage.getCookies", "Storage.clearCookies", "Page.setBypassCSP", "Page.crash", "Target.createTarget", "Browser.close", "Tracing.start"} {
		k.refuse(core.CodePolicy, wire.Act{Verb: "cdp", Method: method})
	}
	if got := k.value(`location.href`); got != k.page {
		t.Errorf("the page is at %v", got)
	}
}

func TestAPageReachesNothingOfTheExtension(t *testing.T) { // S8
	t.Parallel()
	k := openDesk(t, "product", "")
	id := k.extensionID()
	got := k.value(`(async () => {
		const out = [];
		try { chrome.runtime.sendMessage("` + id + `", {t: "takeover"}); out.push("message sent") } catch (e) { out.push("no message") }
		try { chrome.runtime.connect("` + id + `", {name: "popup"}); out.push("connected") } catch (e) { out.push("no connection") }
		try { await fetch("chrome-extension://` + id + `/popup.html"); out.push("fetched") } catch (e) { out.push("no fetch") }
		const w = window.open("chrome-extension://` + id + `/popup.html"); out.push(w && w.location ? "opened" : "not opened");
		return out.join(", ");
	})()`)
	if text, _ := got.(string); strings.Contains(text, "message sent") || strings.Contains(text, "connected") || strings.Contains(text, "fetched") {
		t.Errorf("a page: %v", got)
	}
	if st, err := k.d.Control.Status(k.ctx, k.slot()); err != nil || st.Authority.Holder.Kind != "agent" {
		t.Errorf("control was moved by a page: %v %+v", err, st.Authority)
	}
}

func TestEpochsOfARequestMoveNothing(t *testing.T) { // L11
	t.Parallel()
	k := openDesk(t, "product", "")
	epoch := k.Lease.Epoch
	for _, e := range []core.Epoch{0, epoch - 1, epoch + 1, core.MaxEpoch} {
		k.Lease.Epoch = e
		k.refuse(core.CodeFenced, wire.Act{Verb: "click", Selector: "#save"})
	}
	k.Lease.Epoch = epoch
	k.do(wire.Act{Verb: "snapshot"})
	if n := k.site.Count(k.name).Total; n != 0 {
		t.Errorf("the site counts %d saves", n)
	}
}

func TestTheSameIDRunsOnce(t *testing.T) { // I7, qpilot#8
	t.Parallel()
	k := openDesk(t, "product", "delay=10")
	id := client.NewID()
	for range 4 {
		r, err := k.Act(k.ctx, id, wire.Act{Verb: "click", Selector: "#save"}, 0)
		must(t, err)
		if r.Local != core.Finished {
			t.Fatalf("local %s", r.Local)
		}
	}
	k.settled(id, "the answer", func(r *core.Record) bool { return r.Remote == core.Answered(200) })
	if n := k.site.Count(k.name).Total; n != 1 {
		t.Errorf("the site counts %d saves of one action", n)
	}
	_, err := k.Act(k.ctx, id, wire.Act{Verb: "click", Selector: "body"}, 0)
	if codeOf(err) != core.CodeConflict {
		t.Errorf("another body under the same id: %v", err)
	}
}

func TestAFormsSaveIsEvidenceByNavigation(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "form", "delay=200")
	id := client.NewID()
	r, err := k.Act(k.ctx, id, wire.Act{Verb: "click", Selector: "#save"}, 0)
	must(t, err)
	if r.Authority != core.Admitted {
		t.Fatalf("%+v", r)
	}
	r = k.settled(id, "the form's answer", func(r *core.Record) bool { return r.Local == core.Finished && r.Remote.Status() != 0 })
	if n := k.site.Count(k.name).Total; n != 1 {
		t.Errorf("the site counts %d", n)
	}
	rules := ""
	for _, e := range r.Evidence {
		if e.Method == "POST" {
			rules += e.Rule + " "
		}
	}
	if !strings.Contains(rules, "navigation") {
		t.Errorf("evidence: %+v", r.Evidence)
	}
	must(t, k.Release(k.ctx))
	k.status("the slot to be offered again", func(s *core.Status) bool { return s.Offer.Available })
}
