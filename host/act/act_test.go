package act

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// peer is a scripted extension. It answers each step by the first rule that fits
// and keeps what it was sent.
type peer struct {
	mu    sync.Mutex
	sent  []wire.Cmd
	waits []wire.ActionWaits
	rules func(c wire.Cmd) (Answer, bool) // false: never answered
}

func (p *peer) Waits(w wire.ActionWaits) { p.waits = append(p.waits, w) }

func (p *peer) Send(s *Step) {
	if !s.Claim() {
		return
	}
	p.mu.Lock()
	p.sent = append(p.sent, s.Cmd)
	p.mu.Unlock()
	if a, ok := p.rules(s.Cmd); ok {
		s.Resolve(a)
	}
}

func (p *peer) kinds() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, c := range p.sent {
		name := c.Kind
		if c.Kind == "cdp" {
			name = c.Method
			if c.Effect {
				name += "!"
			}
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func good(result string) Answer {
	return Answer{OK: true, Dispatched: true, Observed: &core.Expect{Tab: 1, Document: "D1"}, Result: json.RawMessage(result)}
}

func bad(dispatched bool, code core.Code, message string, cdpCode int) Answer {
	e := &core.Error{Code: code, Message: message}
	if cdpCode != 0 {
		e.Detail = map[string]any{"cdp_code": float64(cdpCode)}
	}
	return Answer{Dispatched: dispatched, Error: e}
}

// willing answers as a page on which all goes well.
func willing(c wire.Cmd) (Answer, bool) {
	switch {
	case c.Method == "Page.getFrameTree":
		return good(`{"frameTree":{"frame":{"id":"F"}}}`), true
	case c.Method == "Page.createIsolatedWorld":
		return good(`{"executionContextId":4}`), true
	case c.Method == "Runtime.evaluate" && !c.Script:
		return good(`{"result":{"type":"object","value":{"ok":true,"did":true,"n":1,"x":10,"y":20,"kind":"text"}}}`), true
	}
	return good(`{}`), true
}

func execute(t *testing.T, p *peer, a wire.Act) Done {
	t.Helper()
	return NewExecutor(p).Run(context.Background(), wire.Action{
		Action: "a", Epoch: 7, Class: core.Write, DeadlineMs: 3000, Expect: core.Expect{Tab: 1, Document: "D1"}, Act: a,
	})
}

func text(s string) *string { return &s }

var clickSave = wire.Act{Verb: "click", Selector: "#save"}

const (
	worldSteps = "Page.getFrameTree Page.createIsolatedWorld Runtime.evaluate"
	mouseSteps = "Input.dispatchMouseEvent! Input.dispatchMouseEvent! Input.dispatchMouseEvent!"
)

func TestEvaluateIsOneStep(t *testing.T) {
	p := &peer{rules: func(wire.Cmd) (Answer, bool) { return good(`{"result":{"type":"number","value":2}}`), true }}
	d := execute(t, p, wire.Act{Verb: "evaluate", Expression: "1+1"})
	if d.State != "finished" || p.kinds() != "Runtime.evaluate!" || !p.sent[0].Script || string(bytes.Join(d.Result, nil)) != `{"value":2}` {
		t.Fatalf("%s by %s: %s", d.State, p.kinds(), d.Result)
	}
	if d.Steps != (core.Steps{Dispatched: 1, Total: 1}) || d.Observed == nil || d.Observed.Document != "D1" {
		t.Fatalf("%+v", d)
	}
}

// The three parts of a click are on their way before the first is answered, and
// the barrier only after the last.
func TestClickIsWrittenAtOnce(t *testing.T) {
	var held []*Step
	p := &holding{hold: func(c wire.Cmd) bool { return strings.HasPrefix(c.Method, "Input.") }, held: &held}
	done := make(chan Done, 1)
	go func() { done <- NewExecutor(p).Run(context.Background(), actionOf(clickSave)) }()
	deadline := time.Now().Add(30 * time.Second)
	for p.count() < 3 {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 3 steps are on their way", p.count())
		}
		time.Sleep(time.Millisecond)
	}
	if strings.Contains(p.kinds(), "barrier") {
		t.Fatal("the barrier did not wait for the input")
	}
	for _, s := range held {
		s.Resolve(good(`{}`))
	}
	if d := <-done; d.State != "finished" || p.kinds() != worldSteps+" "+mouseSteps+" barrier" {
		t.Fatalf("%s by %s", d.State, p.kinds())
	}
}

func actionOf(a wire.Act) wire.Action {
	return wire.Action{Action: "a", Epoch: 7, DeadlineMs: 3000, Expect: core.Expect{Tab: 1, Document: "D1"}, Act: a}
}

// holding is a peer that leaves some steps unanswered for the test to answer.
type holding struct {
	peer
	hold func(wire.Cmd) bool
	held *[]*Step
}

func (p *holding) Send(s *Step) {
	if p.hold(s.Cmd) {
		if s.Claim() {
			p.mu.Lock()
			p.sent = append(p.sent, s.Cmd)
			*p.held = append(*p.held, s)
			p.mu.Unlock()
		}
		return
	}
	p.rules = willing
	p.peer.Send(s)
}

func (p *holding) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(*p.held)
}

// TestEnds holds the one judgement of this package: what may be said at the end.
func TestEnds(t *testing.T) {
	// nth answers the nth mouse event, from 1, otherwise than well.
	nth := func(n int, a Answer, answered bool) func(wire.Cmd) (Answer, bool) {
		seen := 0
		return func(c wire.Cmd) (Answer, bool) {
			if c.Method == "Input.dispatchMouseEvent" {
				if seen++; seen == n {
					return a, answered
				}
			}
			return willing(c)
		}
	}
	onBarrier := func(a Answer, answered bool) func(wire.Cmd) (Answer, bool) {
		return func(c wire.Cmd) (Answer, bool) {
			if c.Kind == "barrier" {
				return a, answered
			}
			return willing(c)
		}
	}
	everyMouse := func(a Answer) func(wire.Cmd) (Answer, bool) {
		return func(c wire.Cmd) (Answer, bool) {
			if c.Method == "Input.dispatchMouseEvent" {
				return a, true
			}
			return willing(c)
		}
	}
	fault := func(reason string) func(wire.Cmd) (Answer, bool) {
		return func(c wire.Cmd) (Answer, bool) {
			if c.Method == "Runtime.evaluate" {
				return good(`{"result":{"value":{"ok":false,"reason":"` + reason + `","message":"m"}}}`), true
			}
			return willing(c)
		}
	}
	tests := []struct {
		name       string
		rules      func(wire.Cmd) (Answer, bool)
		state      string
		code       core.Code
		dispatched int
	}{
		{"all well", willing, "finished", "", 3},
		{"nothing was dispatched", everyMouse(bad(false, core.CodeFenced, "epoch 7 is not granted here", 0)), "refused", core.CodeFenced, 0},
		{"the second was not dispatched", nth(2, bad(false, core.CodeFenced, "hold", 0), true), "halted", core.CodeOutcomeUnknown, 2},
		{"detached", nth(3, bad(true, core.CodeUnavailable, "Detached while handling command.", 0), true), "unknown", core.CodeOutcomeUnknown, 3},
		{"navigated or closed", nth(3, bad(true, core.CodeUnavailable, "Inspected target navigated or closed", -32000), true), "unknown", core.CodeOutcomeUnknown, 3},
		{"an error that no table knows", nth(1, bad(true, core.CodeUnavailable, "Internal error", -32603), true), "unknown", core.CodeOutcomeUnknown, 3},
		{"every error proves it", everyMouse(bad(true, core.CodeInvalid, "'x' is expected", -32602)), "failed", core.CodeConflict, 3},
		{"one error proves it, the others ran", nth(1, bad(true, core.CodeInvalid, "'x' is expected", -32602), true), "halted", core.CodeOutcomeUnknown, 3},
		{"never answered", nth(3, Answer{}, false), "halted", core.CodeOutcomeUnknown, 3},
		{"the barrier met another document", onBarrier(bad(false, core.CodeDocumentChanged, "another document", 0), true), "halted", core.CodeOutcomeUnknown, 3},
		{"the barrier is not answered", onBarrier(Answer{}, false), "halted", core.CodeOutcomeUnknown, 3},
		{"what no policy allows is not asked for again", onBarrier(bad(false, core.CodePolicy, "not this page", 0), true), "halted", core.CodePolicy, 3},
		{"the target is covered", fault("covered"), "refused", core.CodeConflict, 0},
		{"the target is not there", fault("not_found"), "refused", core.CodeConflict, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := actionOf(clickSave)
			a.DeadlineMs = 250
			d := NewExecutor(&peer{rules: tt.rules}).Run(context.Background(), a)
			var code core.Code
			if d.Error != nil {
				code = d.Error.Code
			}
			if d.State != tt.state || code != tt.code || d.Steps != (core.Steps{Dispatched: tt.dispatched, Total: 3}) {
				t.Fatalf("%s, %v, %+v; want %s, %s, %d of 3", d.State, d.Error, d.Steps, tt.state, tt.code, tt.dispatched)
			}
			if d.Error != nil && d.Error.Message == "" {
				t.Error("an error without a message")
			}
			if d.State == "halted" && d.Error.Code.Info().Retry != core.RetryNever {
				t.Errorf("%s invites to send again what was dispatched", d.Error.Code)
			}
		})
	}
}

// A stop ends the action at once, whatever is still open, with its own reason.
func TestStopDoesNotWait(t *testing.T) {
	var held []*Step
	p := &holding{hold: func(c wire.Cmd) bool { return strings.HasPrefix(c.Method, "Input.") }, held: &held}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan Done, 1)
	go func() { done <- NewExecutor(p).Run(ctx, actionOf(clickSave)) }()
	for p.count() < 3 {
		time.Sleep(time.Millisecond)
	}
	held[0].Resolve(good(`{}`))
	cancel(core.Refuse(core.CodeFenced, "epoch 7 has ended", "wait").With("epoch", 8).With("your_epoch", 7))
	select {
	case d := <-done:
		if want := "epoch 7 has ended; 3 of 3 steps had been dispatched"; d.Error.Message != want {
			t.Errorf("%q, want %q", d.Error.Message, want)
		}
		if got := d.Error.Detail; got["epoch"] != 8 || got["your_epoch"] != 7 || got["cause"] != core.CodeFenced {
			t.Errorf("detail %v", got)
		}
		if d.State != "halted" || d.Error.Code != core.CodeOutcomeUnknown || d.Steps != (core.Steps{Dispatched: 3, Total: 3}) {
			t.Fatalf("%s %v %+v", d.State, d.Error, d.Steps)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the action waited for its open steps")
	}
}

// A step that was still queued when the action was stopped is never sent, and so
// the action is refused.
func TestQueuedStepIsWithheld(t *testing.T) {
	queue := make(chan *Step, 8)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan Done, 1)
	x := NewExecutor(portFunc(func(s *Step) { queue <- s }))
	go func() { done <- x.Run(ctx, actionOf(wire.Act{Verb: "evaluate", Expression: "1"})) }()
	s := <-queue
	cancel(core.Refuse(core.CodeFenced, "epoch 7 has ended", "wait"))
	if d := <-done; d.State != "refused" || d.Steps != (core.Steps{Total: 1}) {
		t.Fatalf("%s %+v", d.State, d.Steps)
	}
	if s.Claim() {
		t.Fatal("a step can be written although its action was refused")
	}
}

type portFunc func(*Step)

func (f portFunc) Send(s *Step)         { f(s) }
func (portFunc) Waits(wire.ActionWaits) {}

// The world of a document is made once, and again when it is gone. The tab's main frame is
// asked for once, and again when the browser does not know it any more.
func TestWorlds(t *testing.T) {
	gone, frame := false, "F"
	p := &peer{}
	p.rules = func(c wire.Cmd) (Answer, bool) {
		if c.Method == "Runtime.evaluate" && gone {
			gone = false
			return bad(true, core.CodeUnavailable, "Cannot find context with specified id", -32000), true
		}
		switch c.Method {
		case "Page.getFrameTree":
			return good(`{"frameTree":{"frame":{"id":"` + frame + `"}}}`), true
		case "Page.createIsolatedWorld":
			if !strings.Contains(string(c.Params), `"`+frame+`"`) {
				return bad(true, core.CodeUnavailable, "No frame for given id found", -32000), true
			}
		}
		return willing(c)
	}
	x := NewExecutor(p)
	run := func(want string) {
		t.Helper()
		p.sent = nil
		if d := x.Run(context.Background(), actionOf(clickSave)); d.State != "finished" {
			t.Fatalf("%s %v", d.State, d.Error)
		}
		if got := p.kinds(); got != want {
			t.Fatalf("steps %s, want %s", got, want)
		}
	}
	rest := " " + mouseSteps + " barrier"
	run(worldSteps + rest)
	run("Runtime.evaluate" + rest)
	gone = true
	run("Runtime.evaluate Page.createIsolatedWorld Runtime.evaluate" + rest)
	run("Runtime.evaluate" + rest)
	gone, frame = true, "G"
	run("Runtime.evaluate Page.createIsolatedWorld " + worldSteps + rest)
	run("Runtime.evaluate" + rest)
}

// What was typed is in no error, whoever puts it there.
func TestTypedTextStaysSecret(t *testing.T) {
	const secret = `p"ss wörd`
	inner, _ := json.Marshal(secret)
	for _, a := range []wire.Act{
		{Verb: "fill", Selector: "#q", Value: text(secret)},
		{Verb: "type", Selector: "#q", Value: text(secret)},
	} {
		p := &peer{rules: func(c wire.Cmd) (Answer, bool) {
			if c.Method == "Input.insertText" {
				return bad(true, core.CodeUnavailable, "cannot insert "+secret+" "+string(inner), 0), true
			}
			return willing(c)
		}}
		d := execute(t, p, a)
		raw, err := wire.Marshal(d.ActionDone)
		if err != nil {
			t.Fatal(err)
		}
		if d.State != "unknown" || strings.Contains(string(raw), "wörd") {
			t.Fatalf("%s: %s", a.Verb, raw)
		}
	}
}

func TestRefusedBeforeAnyStep(t *testing.T) {
	yes := true
	tests := []struct {
		act  wire.Act
		code core.Code
	}{
		{wire.Act{Verb: "fly"}, core.CodeInvalid},
		{wire.Act{Verb: "click"}, core.CodeInvalid},
		{wire.Act{Verb: "click", Selector: "a", Text: "b"}, core.CodeInvalid},
		{wire.Act{Verb: "fill", Selector: "a"}, core.CodeInvalid},
		{wire.Act{Verb: "press", Key: "Hyper+x"}, core.CodeInvalid},
		{wire.Act{Verb: "press", Key: "NoKey"}, core.CodeInvalid},
		{wire.Act{Verb: "navigate", URL: "chrome://settings"}, core.CodePolicy},
		{wire.Act{Verb: "navigate", URL: "file:///etc/passwd"}, core.CodePolicy},
		{wire.Act{Verb: "navigate", URL: "javascript:alert(1)"}, core.CodePolicy},
		{wire.Act{Verb: "tabs", Op: "new", URL: "chrome-extension://x/popup.html"}, core.CodePolicy},
		{wire.Act{Verb: "tabs", Op: "burn"}, core.CodeInvalid},
		{wire.Act{Verb: "wait", State: "visible"}, core.CodeInvalid},
		{wire.Act{Verb: "snapshot", State: "visible"}, core.CodeInvalid},
		{wire.Act{Verb: "drag", Selector: "a"}, core.CodeInvalid},
		{wire.Act{Verb: "type", Value: text(strings.Repeat("\n", 3000))}, core.CodeLimit},
		{wire.Act{Verb: "upload", Selector: "a", Files: []string{"x"}}, core.CodePolicy},
		{wire.Act{Verb: "cdp", Method: "Network.getAllCookies"}, core.CodePolicy},
		{wire.Act{Verb: "cdp", Method: "Storage.clearDataForOrigin"}, core.CodePolicy},
		{wire.Act{Verb: "cdp", Method: "Target.createTarget"}, core.CodePolicy},
		{wire.Act{Verb: "cdp", Method: "Browser.close"}, core.CodePolicy},
		{wire.Act{Verb: "cdp", Method: "Page.crash"}, core.CodePolicy},
		{wire.Act{Verb: "cdp", Method: "Page.getNavigationHistory"}, core.CodePolicy},
		{wire.Act{Verb: "cdp", Method: "Page.navigateToHistoryEntry", Params: json.RawMessage(`{"entryId":1,"url":"https://shop.test/"}`)}, core.CodePolicy},
		{wire.Act{Verb: "cdp", Method: "page.getLayoutMetrics"}, core.CodePolicy},
		{wire.Act{Verb: "cdp", Method: "Runtime.evaluate", Params: json.RawMessage(`{"expression":"1","contextId":4}`)}, core.CodePolicy},
		{wire.Act{Verb: "cdp", Method: "Page.getLayoutMetrics", Params: json.RawMessage(`[1]`)}, core.CodeInvalid},
		{wire.Act{Verb: "dialog"}, core.CodeInvalid},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.act.Verb, " ", tt.act.Method, tt.act.URL, tt.act.Key), func(t *testing.T) {
			p := &peer{rules: willing}
			d := execute(t, p, tt.act)
			if d.State != "refused" || d.Error.Code != tt.code || d.Error.Hint == "" || len(p.sent) != 0 {
				t.Fatalf("%s %v after %q", d.State, d.Error, p.kinds())
			}
		})
	}
	if d := execute(t, &peer{rules: willing}, wire.Act{Verb: "dialog", Accept: &yes}); d.State != "finished" {
		t.Fatalf("%s %v", d.State, d.Error)
	}
}

// An action without time left is over: nothing of it is begun.
func TestNoTimeLeft(t *testing.T) {
	for _, ms := range []int64{0, -1, -1 << 40} {
		p := &peer{rules: willing}
		a := actionOf(clickSave)
		a.DeadlineMs = ms
		d := NewExecutor(p).Run(context.Background(), a)
		if d.State != "refused" || d.Error.Code != core.CodeDeadline || len(p.sent) != 0 {
			t.Errorf("%d ms: %s %v after %q", ms, d.State, d.Error, p.kinds())
		}
	}
}

// A look that was sent is not called one that was never dispatched.
func TestReadsThatWereSent(t *testing.T) {
	never := func(wire.Cmd) (Answer, bool) { return Answer{}, false }
	first := func(a Answer) func(wire.Cmd) (Answer, bool) {
		return func(wire.Cmd) (Answer, bool) { return a, true }
	}
	late := func(c wire.Cmd) (Answer, bool) {
		if c.Method == "Runtime.evaluate" {
			return bad(false, core.CodeFenced, "epoch 7 is not granted here", 0), true
		}
		return willing(c)
	}
	tests := []struct {
		name  string
		rules func(wire.Cmd) (Answer, bool)
		state string
		code  core.Code
	}{
		{"never answered", never, "halted", core.CodeDeadline},
		{"answered by an error", first(bad(true, core.CodeUnavailable, "Internal error", -32603)), "halted", core.CodeUnavailable},
		{"not dispatched", first(bad(false, core.CodeFenced, "epoch 7 is not granted here", 0)), "refused", core.CodeFenced},
		{"fenced on the way", late, "halted", core.CodeOutcomeUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := actionOf(wire.Act{Verb: "snapshot"})
			a.Class, a.DeadlineMs = core.Read, 200
			d := NewExecutor(&peer{rules: tt.rules}).Run(context.Background(), a)
			if d.State != tt.state || d.Error.Code != tt.code || d.Steps != (core.Steps{}) {
				t.Fatalf("%s %v %+v, want %s %s", d.State, d.Error, d.Steps, tt.state, tt.code)
			}
		})
	}
	queued := NewExecutor(portFunc(func(*Step) {}))
	a := actionOf(wire.Act{Verb: "snapshot"})
	a.Class, a.DeadlineMs = core.Read, 50
	if d := queued.Run(context.Background(), a); d.State != "refused" || d.Error.Code != core.CodeDeadline {
		t.Fatalf("never written: %s %v", d.State, d.Error)
	}
}

// The record keeps no query; the agent is told the whole address.
func TestAddressesInRecords(t *testing.T) {
	p := &peer{rules: func(c wire.Cmd) (Answer, bool) {
		if c.Method == "Runtime.evaluate" {
			return good(`{"result":{"value":{"ok":true,"url":"https://shop.test/a?token=s3cret#x","title":"T","text":"t"}}}`), true
		}
		return willing(c)
	}}
	d := execute(t, p, wire.Act{Verb: "snapshot"})
	if d.URL != "https://shop.test/a" || !strings.Contains(string(bytes.Join(d.Result, nil)), "s3cret") {
		t.Fatalf("record %q, result %s", d.URL, d.Result)
	}
	for in, want := range map[string]string{
		"https://u:p@shop.test:8443/a%20b?c#d": "https://shop.test:8443/a%20b",
		"about:blank":                          "about:blank",
		"data:text/plain,secret":               "data:",
		"blob:https://shop.test/1-2":           "blob:",
		"http://%zz":                           "",
		"":                                     "",
	} {
		if got := withoutQuery(in); got != want {
			t.Errorf("%q is kept as %q, want %q", in, got, want)
		}
	}
	if n := len(withoutQuery("https://shop.test/" + strings.Repeat("x", 5000))); n > wire.MaxURL {
		t.Errorf("an address of %d bytes is kept", n)
	}
}

// Going back tells the gate where it leads, and nobody else; an entry that is not a
// website's is not gone to.
func TestBack(t *testing.T) {
	at := 1
	entries := `[{"id":3,"url":"%s"},{"id":4,"url":"https://shop.test/now"}]`
	visit := func(former string) (*peer, Done) {
		at = 1
		p := &peer{}
		p.rules = func(c wire.Cmd) (Answer, bool) {
			switch c.Method {
			case "Page.getNavigationHistory":
				return good(fmt.Sprintf(`{"currentIndex":%d,"entries":`+entries+`}`, at, former)), true
			case "Page.navigateToHistoryEntry":
				at = 0
			}
			return willing(c)
		}
		return p, execute(t, p, wire.Act{Verb: "back"})
	}
	p, d := visit("https://shop.test/before?q=1")
	if d.State != "finished" {
		t.Fatalf("%s %v", d.State, d.Error)
	}
	var step string
	for _, c := range p.sent {
		if c.Method == "Page.navigateToHistoryEntry" {
			step = string(c.Params)
		}
	}
	if want := `{"entryId":3,"url":"https://shop.test/before?q=1"}`; step != want {
		t.Fatalf("the gate is told %s, want %s", step, want)
	}
	for _, former := range []string{"chrome://settings/passwords", "file:///home/p/secret", "chrome-extension://x/private", "devtools://x"} {
		p, d := visit(former)
		raw, _ := wire.Marshal(d.ActionDone)
		if d.State != "refused" || d.Error.Code != core.CodePolicy || strings.Contains(p.kinds(), "Entry") || strings.Contains(string(raw), former) {
			t.Errorf("%s: %s after %q: %s", former, d.State, p.kinds(), raw)
		}
	}
}

// Every verb of the protocol has its function, and none is left over.
func TestVerbsAreComplete(t *testing.T) {
	for _, v := range wire.Verbs {
		if verbs[v.Verb] == nil {
			t.Errorf("no function for %s", v.Verb)
		}
		for _, need := range strings.Fields(v.Needs) {
			has(wire.Act{}, need) // panics for an argument that it does not know
		}
	}
	if len(verbs) != len(wire.Verbs) {
		t.Errorf("%d functions for %d verbs", len(verbs), len(wire.Verbs))
	}
}

func TestPolicyHasReasons(t *testing.T) {
	for method, row := range wire.Methods {
		if (row.Script || row.Input) && !row.Effect || row.Never != "" && (row.Effect || row.Needs != "") {
			t.Errorf("%s: %+v", method, row)
		}
		if row.Needs == "" || slices.ContainsFunc(core.Settings, func(s struct{ Name, Help string }) bool { return s.Name == row.Needs }) {
			continue
		}
		t.Errorf("%s needs %q, which is no setting", method, row.Needs)
	}
	for _, p := range proofs {
		if p.reason == "" || p.code == 0 {
			t.Errorf("%+v", p)
		}
	}
}

// Code may come into a page as markup, and run later.
func TestMarkupIsAScript(t *testing.T) {
	for _, method := range []string{
		"DOM.setOuterHTML", "DOM.setAttributeValue", "DOM.setAttributesAsText", "DOM.setNodeName", "DOM.setNodeValue",
		"DOM.copyTo", "DOM.moveTo", "DOM.undo", "DOM.redo", "Page.setDocumentContent",
	} {
		for _, raw := range []bool{false, true} {
			p := &peer{rules: willing}
			a := actionOf(wire.Act{Verb: "cdp", Method: method, Params: json.RawMessage(`{"nodeId":1}`)})
			a.Class, a.Raw = core.Write, raw
			d := NewExecutor(p).Run(context.Background(), a)
			if d.State != "finished" || len(p.sent) != 1 || !p.sent[0].Effect || !p.sent[0].Script {
				t.Errorf("%s, raw %v: %s by %+v", method, raw, d.State, p.sent)
			}
		}
	}
}

func TestUploadPaths(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "up")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{filepath.Join(top, "secret"), filepath.Join(dir, "a.txt"), filepath.Join(dir, "sub", "b")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"out": "../secret", "in": "a.txt", "subdir": "sub"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	got, bad := uploadPaths(dir, []string{"a.txt"})
	if bad != nil || len(got) != 1 || got[0] != filepath.Join(dir, "a.txt") {
		t.Fatalf("%v %v", got, bad)
	}
	for _, name := range []string{"", ".", "..", "../secret", "/etc/passwd", "sub/b", "subdir/b", "sub", "out", "in", "none", "a.txt/", "a\x00"} {
		if got, bad := uploadPaths(dir, []string{"a.txt", name}); bad == nil {
			t.Errorf("%q gave %v", name, got)
		}
	}
}

func TestChords(t *testing.T) {
	tests := map[string]string{
		"Enter":           "keyDown Enter \"\\r\" 0, keyUp Enter 0",
		"a":               "keyDown a \"a\" 0, keyUp a 0",
		"Shift+a":         "rawKeyDown Shift 8, keyDown A \"A\" 8, keyUp A 8, keyUp Shift 0",
		"Control+a":       "rawKeyDown Control 2, rawKeyDown a 2, keyUp a 2, keyUp Control 0",
		"Control++":       "rawKeyDown Control 2, rawKeyDown + 2, keyUp + 2, keyUp Control 0",
		"+":               "keyDown + \"+\" 0, keyUp + 0",
		"Control+Shift+T": "rawKeyDown Control 2, rawKeyDown Shift 10, rawKeyDown T 10, keyUp T 10, keyUp Shift 2, keyUp Control 0",
		"ß":               "keyDown ß \"ß\" 0, keyUp ß 0",
	}
	for chord, want := range tests {
		c, bad := parseChord(chord)
		if bad != nil {
			t.Errorf("%s: %v", chord, bad)
			continue
		}
		var got []string
		for _, cmd := range c.steps() {
			var p struct {
				Type, Key, Text string
				Modifiers       int
			}
			if err := json.Unmarshal(cmd.Params, &p); err != nil {
				t.Fatal(err)
			}
			s := p.Type + " " + p.Key
			if p.Text != "" {
				s += fmt.Sprintf(" %q", p.Text)
			}
			got = append(got, fmt.Sprint(s, " ", p.Modifiers))
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s: %s, want %s", chord, s, want)
		}
	}
	for _, chord := range []string{"", "Ctrl+a", "Control+Control+a", "Control+", "ab"} {
		if c, bad := parseChord(chord); bad == nil && chord != "" {
			t.Errorf("%q is %+v", chord, c)
		}
	}
}

// An earlier navigation's document that comes first is not taken for the one that was asked
// for; what a page itself leads on to is.
func TestNavigateFollowsItsOwnLoader(t *testing.T) {
	in := func(document string) *core.Expect { return &core.Expect{Tab: 1, Document: core.DocumentID(document)} }
	for name, c := range map[string]struct {
		documents []string          // as the tab comes to them, after D1
		loaders   map[string]string // by document
		want      string
	}{
		"at once":             {[]string{"D2"}, map[string]string{"D2": "L"}, "D2"},
		"behind an earlier":   {[]string{"D2", "D3"}, map[string]string{"D2": "K", "D3": "L"}, "D3"},
		"the page goes on":    {[]string{"D2", "D2"}, map[string]string{"D2": "M"}, "D2"},
		"behind two of those": {[]string{"D2", "D3", "D4"}, map[string]string{"D2": "J", "D3": "K", "D4": "L"}, "D4"},
	} {
		at, gone := -1, false
		now := func() string {
			if at < 0 {
				return "D1"
			}
			return c.documents[min(at, len(c.documents)-1)]
		}
		p := &peer{rules: func(cmd wire.Cmd) (Answer, bool) {
			switch {
			case cmd.Method == "Page.navigate":
				gone = true
				return Answer{OK: true, Dispatched: true, Observed: in("D1"), Result: json.RawMessage(`{"frameId":"F","loaderId":"L"}`)}, true
			case cmd.Kind == "document":
				if gone && strings.Contains(string(cmd.Params), "before") {
					at++
				}
				return Answer{OK: true, Dispatched: true, Observed: in(now()), Result: json.RawMessage(`{}`)}, true
			case cmd.Method == "Page.getFrameTree":
				return Answer{OK: true, Dispatched: true, Observed: in(now()), Result: json.RawMessage(`{"frameTree":{"frame":{"id":"F","loaderId":"` + c.loaders[now()] + `"}}}`)}, true
			}
			a, ok := willing(cmd)
			a.Observed = in(now())
			return a, ok
		}}
		d := NewExecutor(p).Run(context.Background(), wire.Action{
			Action: "a", Epoch: 7, Class: core.Write, DeadlineMs: 3000, Expect: core.Expect{Tab: 1, Document: "D1"},
			Act: wire.Act{Verb: "navigate", URL: "https://shop.test/"},
		})
		if d.State != "finished" || d.Observed == nil || string(d.Observed.Document) != c.want {
			t.Errorf("%s: %s %v in %+v, want %s", name, d.State, d.Error, d.Observed, c.want)
		}
	}
}
