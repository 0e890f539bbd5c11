package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// secrets hands out what is typed, a random text for each way in, so that a find names
// the way.
type secrets map[string]string

func (s secrets) of(way string) string {
	var b [10]byte
	rand.Read(b[:])
	s[way] = "zq" + hex.EncodeToString(b[:])
	return s[way]
}

// in lists the ways whose secret is in a text.
func (s secrets) in(text []byte) (ways []string) {
	for way, secret := range s {
		if bytes.Contains(text, []byte(secret[:12])) { // a message may have been cut
			ways = append(ways, way)
		}
	}
	return ways
}

// listening makes the worker keep what it says on its console.
const listening = `(() => {
	self.said = [];
	for (const level of ["debug", "log", "info", "warn", "error"]) {
		const say = console[level].bind(console);
		console[level] = (...words) => { self.said.push(words.map((w) => w?.stack ?? (typeof w === "object" ? JSON.stringify(w) : String(w))).join(" ")); say(...words); };
	}
})()`

// TestWhatIsTypedIsNowhere types a secret of its own by every way in that an agent has,
// through the real programs and a real browser, also where it is refused, and looks for
// it in everything that SessionDock keeps, writes or shows: the database and its log
// byte by byte, every other file of the installation but the browser's own profile and
// the agent's own upload, the logs of daemon, keeper, host and browser, the extension's
// console and storage, the popup, and what a person can ask the daemon for.
func TestWhatIsTypedIsNowhere(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	home, _ := demo.InHome()
	hand, err := demo.DialHand(k.ctx, home.Runtime(), k.slot())
	must(t, err)
	k.hand = hand
	t.Cleanup(func() { hand.Close() })
	must(t, hand.Pipe().Eval(k.ctx, hand.Worker(), listening, nil))

	s := secrets{}
	k.value(form)
	k.do(wire.Act{Verb: "fill", Selector: "#secret", Value: str(s.of("fill"))})
	k.do(wire.Act{Verb: "type", Selector: "#text", Value: str(s.of("type"))})
	k.tries(wire.Act{Verb: "fill", Selector: "#missing", Value: str(s.of("fill that is refused"))})
	k.tries(wire.Act{Verb: "fill", Selector: "#ok", Value: str(s.of("fill of a box"))})
	k.tries(wire.Act{Verb: "press", Selector: "#text", Key: s.of("press of no key")})
	k.tries(wire.Act{Verb: "press", Selector: "#text", Key: s.of("modifier") + "+A"})
	k.tries(wire.Act{Verb: "select", Selector: "#pick", Value: str(s.of("select of no option"))})
	option := s.of("select")
	k.value(`document.querySelector("#pick").add(new Option(` + quote(option) + `)), 1`)
	k.do(wire.Act{Verb: "select", Selector: "#pick", Value: str(option)})
	k.value(`/* ` + s.of("evaluate") + ` */ 1`)
	k.tries(wire.Act{Verb: "evaluate", Expression: `throw new Error(` + quote(s.of("exception")) + `)`})
	k.tries(wire.Act{Verb: "evaluate", Expression: `this is not a script ` + s.of("syntax error")})
	k.tries(wire.Act{Verb: "evaluate", Expression: s.of("unknown name") + `.length`})
	k.value(`console.log(` + quote(s.of("the page's console")) + `), 1`)
	for _, act := range []wire.Act{
		{Method: "Input.insertText", Params: params(map[string]any{"text": s.of("cdp")})},
		{Method: "Runtime.evaluate", Params: params(map[string]any{"expression": `"` + s.of("cdp evaluate") + `"`})},
		{Method: "Input.dispatchKeyEvent", Params: params(map[string]any{"type": s.of("cdp bad type")})},
		{Method: "Runtime.evaluate", Params: params(map[string]any{"expression": "1", "uniqueContextId": s.of("cdp bad parameter")})},
		{Method: "Network.setCookie", Params: params(map[string]any{"name": "a", "value": s.of("cdp refused")})},
		{Method: "Input.insertText", Params: params([]string{s.of("cdp no object")})},
		{Method: "DOM.querySelector", Params: params(map[string]any{"nodeId": 1, "selector": "[" + s.of("cdp selector")})},
	} {
		act.Verb = "cdp"
		k.tries(act)
	}
	// The same through a DevTools client.
	x := k.tool(k.cdpURL())
	page := x.page()
	for _, m := range []struct {
		method string
		params any
	}{
		{"Runtime.enable", struct{}{}},
		{"Network.enable", struct{}{}},
		{"Input.insertText", map[string]any{"text": s.of("client's text")}},
		{"Runtime.evaluate", map[string]any{"expression": `console.log("` + s.of("client's script") + `")`}},
		{"Runtime.evaluate", map[string]any{"expression": "not a script " + s.of("client's syntax error")}},
		{"Runtime.callFunctionOn", map[string]any{"functionDeclaration": "() => 1", "objectId": s.of("client's object")}},
		{"Input.dispatchKeyEvent", map[string]any{"type": s.of("client's bad type")}},
		{"Network.setCookie", map[string]any{"name": "a", "value": s.of("client's cookie"), "url": k.page}},
		{"Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]string{"x-key": s.of("client's header")}}},
		{"Page.navigate", map[string]any{"url": "https://elsewhere.example/?token=" + s.of("client's refused address")}},
		{"Page.navigate", map[string]any{"url": k.site.URL(k.name, "product", "token="+s.of("client's query"))}},
		{"DOM.setFileInputFiles", map[string]any{"files": []string{"/tmp/" + s.of("client's file")}}},
	} {
		x.ask(page, m.method, m.params)
	}
	x.ask("", "Target.createTarget", map[string]any{"url": k.site.URL(k.name, "child", "token="+s.of("client's new tab"))})
	x.ask(s.of("client's session"), "Runtime.evaluate", struct{}{})
	must(t, x.conn.Close(websocket.StatusNormalClosure, ""))
	k.do(wire.Act{Verb: "navigate", URL: k.page})
	k.value(form)

	must(t, os.WriteFile(filepath.Join(k.Lease.UploadDir, "note.txt"), []byte(s.of("upload")), 0o600))
	k.do(wire.Act{Verb: "upload", Selector: "#file", Files: []string{"note.txt"}})
	if got := k.value(`document.querySelector("#file").files[0].text()`); got != s["upload"] {
		t.Fatalf("the upload arrived as %v", got)
	}
	k.prompt(s.of("dialog"), s.of("dialog's question"), s.of("dialog's text"))

	// Addresses: the query, the fragment and the name of a user; of a navigation, of a
	// form that sends what was typed by GET, of fetches, redirects and documents.
	k.tries(wire.Act{Verb: "navigate", URL: "https://elsewhere.example/?token=" + s.of("refused address")})
	k.tries(wire.Act{Verb: "navigate", URL: "javascript:" + s.of("address that is a script")})
	k.tries(wire.Act{Verb: "navigate", URL: "http://[" + s.of("address that is none")})
	k.do(wire.Act{Verb: "navigate", URL: k.site.URL(k.name, "product", "token="+s.of("query")) + "#" + s.of("fragment")})
	k.value(`setInterval(() => {}, 1000), 1`) // its document is kept as one with a script
	k.tries(wire.Act{Verb: "tabs", Op: "new", URL: k.site.URL(k.name, "child", "token="+s.of("query of a new tab"))})
	k.do(wire.Act{Verb: "navigate", URL: k.page})
	k.value(`document.body.innerHTML = '<form id=get action="child"><input id=token name=token><button id=send>Send</button></form>', 1`)
	k.do(wire.Act{Verb: "fill", Selector: "#token", Value: str(s.of("form by GET"))})
	k.tries(wire.Act{Verb: "click", Selector: "#send"})
	k.do(wire.Act{Verb: "navigate", URL: k.page})
	k.value(`fetch("product?key=` + s.of("query of a fetch") + `").then(() => 1)`)
	k.value(`fetch("save", {method: "POST", body: ` + quote(s.of("body of a fetch")) + `, headers: {"x-key": ` + quote(s.of("header of a fetch")) + `}}).then(() => 1)`)
	k.value(`history.pushState({}, "", "?" + ` + quote(s.of("query of pushState")) + `), 1`)
	k.value(`document.title = ` + quote(s.of("title")) + `, 1`)

	// A person takes over while a script and an input are open, so that documents and
	// requests are listed, then looks at everything.
	k.value(`setInterval(() => {}, 1000), 1`)
	k.press(demo.ButtonTakeover)
	st := k.status("the person's control", func(s *core.Status) bool { return s.Authority.Holder.Kind == "human" && s.Authority.Fence == "drained" })
	popup, err := hand.WaitText(k.ctx, "Control is yours")
	must(t, err)
	shown := map[string]any{"the status": st, "the popup": popup}
	if len(st.Local.Documents) == 0 {
		t.Errorf("the takeover listed nothing: the test tries too little: %+v", st.Local)
	}
	for name, ask := range map[string]func() (any, error){
		"the ledger": func() (any, error) { return k.d.Control.Actions(k.ctx, k.slot(), false) },
		"the journal": func() (any, error) {
			return k.d.Control.Journal(k.ctx, client.EventQuery{Slot: k.slot(), Newest: 1000})
		},
		"the slots": func() (any, error) { return k.d.Control.Slots(k.ctx) },
	} {
		v, err := ask()
		must(t, err)
		shown[name] = v
	}
	for name, expression := range map[string]string{
		"the worker's console": `JSON.stringify(self.said)`,
		"the worker's storage": `Promise.all([chrome.storage.local.get(null), chrome.storage.session.get(null)]).then(JSON.stringify)`,
	} {
		var text string
		must(t, hand.Pipe().Eval(k.ctx, hand.Worker(), `console.warn("a control"), `+expression, &text))
		shown[name] = text
	}
	if text := fmt.Sprint(shown["the worker's console"]); !strings.Contains(text, "a control") {
		t.Errorf("the console is not heard: %s", text)
	}
	for name, v := range shown {
		text, err := json.Marshal(v)
		must(t, err)
		if ways := s.in(text); len(ways) > 0 {
			t.Errorf("%s shows what was typed by: %s", name, strings.Join(ways, ", "))
		}
	}
	looked := k.search(home.Dir, s)
	if !looked[k.d.Paths.Database()] || !looked[k.d.Paths.Database()+"-wal"] {
		t.Errorf("the database was not looked at: %v", looked)
	}
}

// search looks for the secrets in every file below a directory, and tells which files it
// looked at. What is the browser's own, and what the agent itself put up for its upload,
// is left out; what our extension stores in a profile is not.
func (k *desk) search(dir string, s secrets) map[string]bool {
	k.t.Helper()
	looked := map[string]bool{}
	control, logs := false, 0
	must(k.t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // it went away
		case e.IsDir() && (e.Name() == "uploads" || e.Name() == "bin" || strings.HasPrefix(path, k.d.Paths.Cache)):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		if at := strings.Index(path, "/profile/"); at >= 0 && !strings.Contains(path[at:], "Extension") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		looked[path] = true
		if strings.HasSuffix(path, ".log") {
			logs++
		}
		control = control || bytes.Contains(data, []byte("/s/"+k.name+"/product"))
		if ways := s.in(data); len(ways) > 0 {
			k.t.Errorf("%s holds what was typed by: %s", strings.TrimPrefix(path, dir), strings.Join(ways, ", "))
		}
		return nil
	}))
	if !control || logs < 3 {
		k.t.Errorf("the search finds too little: %d logs, the page's address %v, in %d files", logs, control, len(looked))
	}
	return looked
}

// tries carries an action out, whatever becomes of it.
func (k *desk) tries(a wire.Act) {
	k.t.Helper()
	r, err := k.Act(k.ctx, client.NewID(), a, 0)
	switch {
	case err != nil:
		k.t.Logf("%s: %v", a.Verb, err)
	case r.Error != nil:
		k.t.Logf("%s: local %s, %v", r.Summary, r.Local, r.Error)
	}
}

// prompt lets the page ask, and answers it with a text.
func (k *desk) prompt(answer, question, stands string) {
	k.t.Helper()
	r, err := k.Act(k.ctx, client.NewID(), wire.Act{Verb: "evaluate", Expression: `setTimeout(() => { window.answer = prompt(` + quote(question) + `, ` + quote(stands) + `) }), 1`}, 0)
	must(k.t, err)
	// What comes now is not begun, and says why; or it waits for the answer, too.
	must(k.t, waitFor(k, "the prompt", func() bool {
		r, err = k.Act(k.ctx, client.NewID(), wire.Act{Verb: "click", Selector: "body"}, 0)
		must(k.t, err)
		return r.Dialog != nil || strings.Contains(string(r.Result), question) && strings.Contains(string(r.Result), stands)
	}))
	yes := true
	k.do(wire.Act{Verb: "dialog", Accept: &yes, Value: &answer})
	if got := k.value(`window.answer`); got != answer {
		k.t.Errorf("the page heard %v", got)
	}
}

func waitFor(k *desk, what string, done func() bool) error {
	for !done() {
		select {
		case <-k.ctx.Done():
			return fmt.Errorf("waited in vain for %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// params encodes the parameters of a command.
func params(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func quote(s string) string { return string(params(s)) }
