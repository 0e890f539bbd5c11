package act

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// browser is a real Chromium over its debugging pipe, in the place of the
// extension: it answers steps as the extension would, without any gate.
type browser struct {
	t       *testing.T
	in      io.WriteCloser
	session string

	mu    sync.Mutex
	id    int
	calls map[int]chan reply
}

type reply struct {
	Result json.RawMessage
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
}

// startBrowser starts Chromium as an ordinary user, with its own sandbox on.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		notRun(t, "there is no chromium here")
	}
	// Not t.TempDir: its parents are closed to the user that Chromium runs as.
	home, err := os.MkdirTemp("", "sessiondock-act-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-gpu",
		"--password-store=basic", "--window-size=1000,800", "--user-data-dir="+filepath.Join(home, "profile"), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_RUNTIME_DIR="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		const uid = 64513 // nobody's: without a name, without rights
		if err := os.Chown(home, uid, uid); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	toR, toW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromR, fromW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{toR, fromW}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toR.Close()
	fromW.Close()
	t.Cleanup(func() {
		toW.Close()
		done := make(chan struct{})
		go func() { cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
		}
		// The group is the browser's own, and its leader is not reaped before Wait.
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
		fromR.Close()
		os.RemoveAll(home)
	})
	b := &browser{t: t, in: toW, calls: map[int]chan reply{}}
	go b.read(fromR)
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	b.must("", "Target.getTargets", nil, &targets)
	for _, info := range targets.TargetInfos {
		if info.Type == "page" {
			var got struct{ SessionID string }
			b.must("", "Target.attachToTarget", map[string]any{"targetId": info.TargetID, "flatten": true}, &got)
			b.session = got.SessionID
		}
	}
	b.must(b.session, "Page.enable", nil, nil)
	return b
}

func notRun(t *testing.T, why string) {
	t.Helper()
	fmt.Printf("NOT RUN: %s: %s\n", t.Name(), why)
	if os.Getenv("CI") == "true" {
		t.Fatalf("NOT RUN: %s", why)
	}
	t.Skip("NOT RUN: " + why)
}

func (b *browser) read(from io.Reader) {
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		raw, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID int
			reply
		}
		if json.Unmarshal(raw[:len(raw)-1], &m) != nil || m.ID == 0 {
			continue
		}
		b.mu.Lock()
		ch := b.calls[m.ID]
		delete(b.calls, m.ID)
		b.mu.Unlock()
		if ch != nil {
			ch <- m.reply
		}
	}
}

func (b *browser) start(session, method string, params any) chan reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.id++
	m := map[string]any{"id": b.id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	ch := make(chan reply, 1)
	b.calls[b.id] = ch
	b.in.Write(append(raw, 0))
	return ch
}

func (b *browser) must(session, method string, params, into any) {
	b.t.Helper()
	select {
	case r := <-b.start(session, method, params):
		if r.Error != nil {
			b.t.Fatalf("%s: %+v", method, *r.Error)
		}
		if into != nil {
			if err := json.Unmarshal(r.Result, into); err != nil {
				b.t.Fatal(err)
			}
		}
	case <-time.After(60 * time.Second):
		b.t.Fatalf("%s: no answer", method)
	}
}

// document is what the extension would know of the tab: a loader's identifier
// stands for the document's.
func (b *browser) document() (core.Expect, string) {
	var tree struct {
		FrameTree struct {
			Frame struct{ LoaderID, URL string }
		}
	}
	r := <-b.start(b.session, "Page.getFrameTree", nil)
	json.Unmarshal(r.Result, &tree)
	return core.Expect{Tab: 1, Document: core.DocumentID(tree.FrameTree.Frame.LoaderID)}, tree.FrameTree.Frame.URL
}

// Waits implements Port.
func (b *browser) Waits(wire.ActionWaits) {}

// Send implements Port.
func (b *browser) Send(s *Step) {
	if !s.Claim() {
		return
	}
	method, params := s.Cmd.Method, any(s.Cmd.Params)
	if len(s.Cmd.Params) == 0 {
		params = nil
	}
	if s.Cmd.Kind == "barrier" {
		method, params = "Runtime.evaluate", map[string]any{"expression": "0"}
	}
	if s.Cmd.Kind == "document" {
		go func() {
			at, url := b.document()
			s.Resolve(Answer{OK: true, Dispatched: true, Observed: &at, URL: url})
		}()
		return
	}
	ch := b.start(b.session, method, params)
	go func() {
		r := <-ch
		a := Answer{OK: r.Error == nil, Dispatched: true, Result: r.Result}
		if r.Error != nil {
			a.Error = &core.Error{Code: core.CodeUnavailable, Message: r.Error.Message, Detail: map[string]any{"cdp_code": float64(r.Error.Code)}}
		}
		s.Resolve(a)
	}()
}

const testPage = `<!doctype html><title>Shop</title>
<h1>Orders</h1>
<nav><a href="/two">Second page</a></nav>
<form onsubmit="event.preventDefault(); log('submit ' + q.value)">
<label>Query <input id=q name=q placeholder=words></label>
<label>Secret <input id=pw type=password value=hunter2-typed></label>
<label for=colour>Colour</label><select id=colour onchange="log('change ' + value)"><option value=r>Red<option value=g>Green</select>
<label><input id=box type=checkbox> Express</label>
<input id=day type=date aria-label=Day>
<textarea id=note aria-label=Note></textarea>
<input id=file type=file multiple onchange="log('files ' + [...this.files].map(f => f.name))">
<button id=go>Search</button></form>
<button id=save onclick="log('saved')">Save</button>
<button id=off disabled>Off</button>
<div style="position:relative"><button id=under onclick="log('under')">Under</button><div id=cover style="position:absolute;inset:0;background:#eee"></div></div>
<div id=src style="width:50px;height:50px;background:red">drag</div>
<div id=card draggable=true ondragstart="event.dataTransfer.setData('text/plain','card-7')">card</div>
<div id=dst style="width:90px;height:90px;background:blue" ondragover="event.preventDefault()" ondrop="log('drop ' + event.dataTransfer.getData('text/plain'))"></div>
<div id=host></div>
<iframe id=inner srcdoc="<button onclick=&quot;parent.log('inner')&quot;>Inside</button>" style="height:60px"></iframe>
<div style="height:3000px"></div><button id=far onclick="log('far')">Far away</button>
<pre id=out></pre>
<script>
function log(s) { out.textContent += s + '\n'; }
host.attachShadow({mode:'open'}).innerHTML = '<button onclick="log(\'shadow\')">In the shadow</button>';
src.onmousedown = () => { onmouseup = (e) => { onmouseup = null; log('released on ' + e.target.id); }; };
onkeydown = (e) => { if (e.ctrlKey || e.key === 'F5') log('key ' + [e.ctrlKey, e.shiftKey, e.key, e.code]); };
setTimeout(() => { const b = document.createElement('button'); b.id = 'late'; b.textContent = 'Late'; b.onclick = () => log('late'); host.after(b); }, 700);
</script>`

// TestChromium tries each verb on a real page.
func TestChromium(t *testing.T) {
	b := startBrowser(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/":
			io.WriteString(w, testPage)
		case "/two":
			io.WriteString(w, "<!doctype html><title>Two</title><h2>Second</h2>")
		case "/loads":
			io.WriteString(w, "<!doctype html><p id=p>not loaded<p><img src=/late?"+r.URL.RawQuery+"><script>onload = () => { p.textContent = 'has loaded' }</script>")
		case "/late":
			d, _ := time.ParseDuration(r.URL.RawQuery)
			select {
			case <-time.After(d):
			case <-r.Context().Done():
			}
			http.NotFound(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	defer site.Close()
	x := NewExecutor(b)
	n := 0
	act := func(t *testing.T, a wire.Act) Done {
		t.Helper()
		n++
		return x.Run(context.Background(), wire.Action{
			Action: core.ActionID("a" + strconv.Itoa(n)), Epoch: 1, Class: core.Write, DeadlineMs: 8000, UploadDir: os.Getenv("ACT_TEST_UPLOADS"), Act: a,
		})
	}
	finished := func(t *testing.T, a wire.Act) string {
		t.Helper()
		begun := time.Now()
		d := act(t, a)
		if d.State != "finished" {
			t.Fatalf("%s: %s %v steps %+v", a.Verb, d.State, d.Error, d.Steps)
		}
		if d.Steps.Dispatched != d.Steps.Total && a.Verb != "check" {
			t.Fatalf("%s: steps %+v", a.Verb, d.Steps)
		}
		t.Logf("%s took %v", a.Verb, time.Since(begun).Round(100*time.Microsecond))
		return string(bytes.Join(d.Result, nil))
	}
	str := func(s string) *string { return &s }
	// page evaluates in the page; it is how the test looks, and itself a verb.
	page := func(t *testing.T, expression string) string {
		t.Helper()
		return finished(t, wire.Act{Verb: "evaluate", Expression: expression})
	}
	logs := func(t *testing.T, want string) {
		t.Helper()
		var got struct{ Value string }
		raw := page(t, "(() => { const s = out.textContent; out.textContent = ''; return s })()")
		if err := json.Unmarshal([]byte(raw), &got); err != nil || got.Value != want {
			t.Fatalf("the page logged %s (%v), want %q", raw, err, want)
		}
	}

	if got := finished(t, wire.Act{Verb: "navigate", URL: site.URL + "/"}); !strings.Contains(got, site.URL) {
		t.Fatalf("navigate: %s", got)
	}
	t.Run("late element is waited for", func(t *testing.T) {
		finished(t, wire.Act{Verb: "click", Selector: "#late"})
		logs(t, "late\n")
	})
	t.Run("click", func(t *testing.T) {
		finished(t, wire.Act{Verb: "click", Role: "button", Name: "Save"})
		finished(t, wire.Act{Verb: "click", Text: "Save"})
		finished(t, wire.Act{Verb: "click", Text: "In the shadow"})
		finished(t, wire.Act{Verb: "click", Text: "Inside"})
		finished(t, wire.Act{Verb: "click", Selector: "#far"})
		logs(t, "saved\nsaved\nshadow\ninner\nfar\n")
	})
	t.Run("refusals before any dispatch", func(t *testing.T) {
		for selector, reason := range map[string]string{"#under": "covered", "#off": "disabled", "#nowhere": "not_found", "###": "invalid"} {
			d := x.Run(context.Background(), wire.Action{Action: "r", Epoch: 1, DeadlineMs: 700, Act: wire.Act{Verb: "click", Selector: selector}})
			if d.State != "refused" || d.Steps.Dispatched != 0 || d.Error == nil || d.Error.Detail["reason"] != reason {
				t.Errorf("%s: %s %v %+v", selector, d.State, d.Error, d.Steps)
			}
		}
		d := x.Run(context.Background(), wire.Action{Action: "r", Epoch: 1, DeadlineMs: 500, Act: wire.Act{Verb: "fill", Selector: "#box", Value: str("x")}})
		if d.State != "refused" || d.Error.Detail["reason"] != "wrong_kind" {
			t.Errorf("text into a checkbox: %s %v", d.State, d.Error)
		}
		logs(t, "")
	})
	t.Run("fill and type", func(t *testing.T) {
		finished(t, wire.Act{Verb: "fill", Role: "textbox", Name: "Query", Value: str("first")})
		finished(t, wire.Act{Verb: "fill", Selector: "#q", Value: str("größe 漢")})
		finished(t, wire.Act{Verb: "type", Selector: "#q", Value: str(" more\n")})
		logs(t, "submit größe 漢 more\n")
		finished(t, wire.Act{Verb: "fill", Selector: "#q", Value: str("")})
		finished(t, wire.Act{Verb: "fill", Selector: "#day", Value: str("2027-03-04")})
		finished(t, wire.Act{Verb: "type", Selector: "#note", Value: str("a\nb")})
		if got := page(t, "[q.value, day.value, note.value]"); got != `{"value":["","2027-03-04","a\nb"]}` {
			t.Fatal(got)
		}
	})
	t.Run("press", func(t *testing.T) {
		finished(t, wire.Act{Verb: "press", Selector: "#note", Key: "Control+Shift+A"})
		finished(t, wire.Act{Verb: "press", Selector: "#note", Key: "Control+a"})
		finished(t, wire.Act{Verb: "press", Key: "Z"})
		logs(t, "key true,false,Control,ControlLeft\nkey true,true,Shift,ShiftLeft\nkey true,true,A,KeyA\nkey true,false,Control,ControlLeft\nkey true,false,a,KeyA\n")
		if got := page(t, "note.value"); got != `{"value":"Z"}` {
			t.Fatal(got)
		}
	})
	t.Run("clicks one after another", func(t *testing.T) {
		begun := time.Now()
		const n = 30
		for range n {
			if d := act(t, wire.Act{Verb: "click", Selector: "#save"}); d.State != "finished" {
				t.Fatal(d.State, d.Error)
			}
		}
		t.Logf("%v a click", time.Since(begun)/n)
		logs(t, strings.Repeat("saved\n", n))
	})
	t.Run("select and check", func(t *testing.T) {
		if got := finished(t, wire.Act{Verb: "select", Selector: "#colour", Value: str("Green")}); got != `{"label":"Green","value":"g"}` {
			t.Fatal(got)
		}
		logs(t, "change g\n")
		no := false
		if got := finished(t, wire.Act{Verb: "check", Text: "Express"}); got != `{"changed":true,"checked":true}` {
			t.Fatal(got)
		}
		if got := finished(t, wire.Act{Verb: "check", Selector: "#box"}); got != `{"changed":false,"checked":true}` {
			t.Fatal(got)
		}
		finished(t, wire.Act{Verb: "check", Selector: "#box", Checked: &no})
		if got := page(t, "box.checked"); got != `{"value":false}` {
			t.Fatal(got)
		}
	})
	t.Run("drag", func(t *testing.T) {
		finished(t, wire.Act{Verb: "drag", Selector: "#src", ToSelector: "#dst"})
		finished(t, wire.Act{Verb: "drag", Selector: "#card", ToSelector: "#dst"})
		logs(t, "released on dst\ndrop card-7\n")
	})
	t.Run("scroll and hover", func(t *testing.T) {
		page(t, "scrollTo(0, 0)")
		finished(t, wire.Act{Verb: "scroll", DY: 300})
		finished(t, wire.Act{Verb: "wait", State: "load"})
		deadline := time.Now().Add(30 * time.Second)
		for page(t, "scrollY > 0") != `{"value":true}` {
			if time.Now().After(deadline) {
				t.Fatal("the page did not scroll")
			}
		}
		finished(t, wire.Act{Verb: "hover", Selector: "#save"})
		if got := page(t, "document.querySelector('#save').matches(':hover')"); got != `{"value":true}` {
			t.Fatal(got)
		}
	})
	t.Run("upload", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "sessiondock-up-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		os.Chmod(dir, 0o755)
		for _, name := range []string{"a.txt", "b.txt"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("ACT_TEST_UPLOADS", dir)
		finished(t, wire.Act{Verb: "upload", Selector: "#file", Files: []string{"a.txt", "b.txt"}})
		logs(t, "files a.txt,b.txt\n")
	})
	t.Run("evaluate", func(t *testing.T) {
		for expression, want := range map[string]string{
			"1 + 1":                          `{"value":2}`,
			"Promise.resolve({a: [1, 'x']})": `{"value":{"a":[1,"x"]}}`,
			"undefined":                      `"note":"undefined"`,
			"NaN":                            `"note":"not a JSON value: NaN"`,
			"document.body":                  `no members that JSON can carry`,
			"(() => { const a = {}; a.a = a; return a })()": `"note"`,
			"Symbol()":                          `"note"`,
			"(() => { throw Error('oops') })()": `"exception":"Error: oops`,
			"Promise.reject(new Error('late'))": `"exception":"Error: late`,
			"x y":                               `"exception":"SyntaxError`,
			"typeof __sessiondock":              `{"value":"undefined"}`,
		} {
			if got := page(t, expression); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", expression, got, want)
			}
		}
	})
	t.Run("snapshot", func(t *testing.T) {
		raw := finished(t, wire.Act{Verb: "snapshot"})
		var s struct{ URL, Title, Text string }
		if err := json.Unmarshal([]byte(raw), &s); err != nil {
			t.Fatal(err)
		}
		t.Log("\n" + s.Text)
		for _, want := range []string{`- heading "Orders" [level=1]`, `- link "Second page" [ref=e`, `- textbox "Query"`, `- combobox "Colour"`,
			`- option "Green" [selected]`, `- checkbox "Express" [unchecked]`, `- button "In the shadow"`, `- button "Inside"`, `- button "Off" [disabled]`, `(not shown)`} {
			if !strings.Contains(s.Text, want) {
				t.Errorf("the snapshot lacks %q", want)
			}
		}
		if strings.Contains(raw, "hunter2") {
			t.Error("the snapshot shows a password")
		}
		line := s.Text[strings.Index(s.Text, `- button "Save"`):]
		ref, _, _ := strings.Cut(line[strings.Index(line, "ref=")+4:], "]")
		finished(t, wire.Act{Verb: "click", Ref: ref})
		logs(t, "saved\n")
	})
	t.Run("snapshot of a page that loads", func(t *testing.T) {
		defer finished(t, wire.Act{Verb: "navigate", URL: site.URL + "/"})
		for path, want := range map[string]string{"/loads?700ms": "has loaded", "/loads?10s": "not loaded"} {
			finished(t, wire.Act{Verb: "navigate", URL: site.URL + path})
			begun := time.Now()
			if got := finished(t, wire.Act{Verb: "snapshot", State: "load"}); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %q", path, got, want)
			}
			if took := time.Since(begun); want == "not loaded" && took < 3*time.Second {
				t.Errorf("%s: looked at after %v of 8 s", path, took)
			}
		}
	})
	t.Run("screenshot", func(t *testing.T) {
		for _, full := range []bool{false, true} {
			var got struct {
				Mime string
				Data []byte
			}
			if err := json.Unmarshal([]byte(finished(t, wire.Act{Verb: "screenshot", FullPage: full})), &got); err != nil {
				t.Fatal(err)
			}
			if got.Mime != "image/png" || !bytes.HasPrefix(got.Data, []byte("\x89PNG")) {
				t.Fatalf("%s, %d bytes", got.Mime, len(got.Data))
			}
		}
	})
	t.Run("cdp", func(t *testing.T) {
		if got := finished(t, wire.Act{Verb: "cdp", Method: "Page.getLayoutMetrics"}); !strings.Contains(got, "cssVisualViewport") {
			t.Fatal(got)
		}
	})
	t.Run("closed table of errors", func(t *testing.T) {
		yes := true
		d := act(t, wire.Act{Verb: "dialog", Accept: &yes})
		if d.State != "failed" || d.Steps.Dispatched != 1 {
			t.Fatalf("dialog with none open: %s %v %+v", d.State, d.Error, d.Steps)
		}
	})
	t.Run("dialog", func(t *testing.T) {
		stuck := make(chan Done, 1)
		go func() {
			stuck <- x.Run(context.Background(), wire.Action{Action: "stuck", Epoch: 1, DeadlineMs: 8000, Act: wire.Act{Verb: "evaluate", Expression: "confirm('sure?')"}})
		}()
		yes := true
		for d := act(t, wire.Act{Verb: "dialog", Accept: &yes}); d.State != "finished"; d = act(t, wire.Act{Verb: "dialog", Accept: &yes}) {
			if d.State != "failed" {
				t.Fatalf("%s %v", d.State, d.Error)
			}
		}
		if d := <-stuck; d.State != "finished" || string(bytes.Join(d.Result, nil)) != `{"value":true}` {
			t.Fatalf("%s %v", d.State, d.Error)
		}
	})
	t.Run("navigation", func(t *testing.T) {
		finished(t, wire.Act{Verb: "click", Role: "link", Name: "Second page"})
		finished(t, wire.Act{Verb: "wait", Role: "heading", Name: "Second"})
		finished(t, wire.Act{Verb: "back"})
		finished(t, wire.Act{Verb: "wait", Selector: "#save"})
		finished(t, wire.Act{Verb: "reload"})
		if got := finished(t, wire.Act{Verb: "navigate", URL: site.URL + "/#part"}); !strings.Contains(got, "same_document") {
			t.Fatal(got)
		}
		if got := finished(t, wire.Act{Verb: "back"}); !strings.Contains(got, "same_document") {
			t.Fatal(got)
		}
		if got := finished(t, wire.Act{Verb: "navigate", URL: "http://127.0.0.1:9/"}); !strings.Contains(got, "error_text") {
			t.Fatal(got)
		}
		finished(t, wire.Act{Verb: "navigate", URL: site.URL + "/two"})
		if got := page(t, "document.title"); got != `{"value":"Two"}` {
			t.Fatal(got)
		}
	})
	t.Run("a busy page halts at the deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		begun := time.Now()
		d := x.Run(ctx, wire.Action{Action: "busy", Epoch: 1, DeadlineMs: 300, Act: wire.Act{Verb: "evaluate", Expression: "(() => { const t = performance.now(); while (performance.now() - t < 6000); })()"}})
		if d.State != "halted" || d.Steps != (core.Steps{Dispatched: 1, Total: 1}) || d.Error.Code != core.CodeOutcomeUnknown || time.Since(begun) > 5*time.Second {
			t.Fatalf("%s %v %+v after %v", d.State, d.Error, d.Steps, time.Since(begun))
		}
		var e *core.Error
		if !errors.As(error(d.Error), &e) {
			t.Fatal("no refusal")
		}
	})
}
