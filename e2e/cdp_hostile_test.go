package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"sessiondock.dev/sessiondock/daemon/cdp"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// A page, or whoever does not have the address, gets nothing.
func TestWhoMayConnect(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	host, secret, _ := strings.Cut(strings.TrimPrefix(k.cdpURL(), "ws://"), "/devtools/browser/")
	request := func(method, path string, change func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(k.ctx, method, "http://"+host+path, nil)
		must(t, err)
		change(r)
		resp, err := http.DefaultClient.Do(r)
		must(t, err)
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	as := func(*http.Request) {}
	origin := func(o string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("Origin", o) } }
	named := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	good := "/" + secret + "/json/version"
	_, port, err := net.SplitHostPort(host)
	must(t, err)
	for _, tt := range []struct {
		what, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"the address", "GET", good, as, 200},
		{"with a slash", "GET", good + "/", as, 200},
		{"the list", "GET", "/" + secret + "/json/list", as, 200},
		{"a page", "GET", good, origin("https://evil.example"), 403},
		{"a page of this machine", "GET", good, origin("http://" + host), 403},
		{"a page without an origin", "GET", good, origin("null"), 403},
		{"an empty origin", "GET", good, origin(""), 403},
		{"another name of this machine", "GET", good, named("localhost:" + port), 403},
		{"a name pointed here", "GET", good, named("evil.example"), 403},
		{"another port", "GET", good, named("127.0.0.1:1"), 403},
		{"no secret", "GET", "/json/version", as, 403},
		{"a wrong secret", "GET", "/" + secret[:len(secret)-1] + "x/json/version", as, 403},
		{"another epoch", "GET", "/" + strings.Replace(secret, "-", "-1", 1) + "/json/version", as, 403},
		{"nothing", "GET", "/", as, 403},
		{"something else", "GET", "/" + secret + "/json/protocol", as, 404},
		{"a change", "PUT", "/" + secret + "/json/new", as, 405},
	} {
		status, text := request(tt.method, tt.path, tt.change)
		if status != tt.want || status != 200 && strings.TrimSpace(text) == "" {
			t.Errorf("%s: %d %q, want %d", tt.what, status, text, tt.want)
		}
	}
	for name, header := range map[string]http.Header{"a page": {"Origin": {"https://evil.example"}}, "this machine": {"Origin": {"http://" + host}}} {
		if conn, status, _ := dialTool(k.ctx, k.cdpURL(), header); conn != nil || status != http.StatusForbidden {
			t.Errorf("a socket of %s: %d", name, status)
		}
	}
	leases, err := k.d.Control.Leases(k.ctx)
	must(t, err)
	for _, l := range leases {
		if l.CDPURL != "" {
			t.Errorf("a person's list of leases has the address of %s", l.Slot)
		}
	}
	if conn, status, _ := dialTool(k.ctx, k.cdpURL()[:len(k.cdpURL())-1]+"x", nil); conn != nil || status != http.StatusForbidden {
		t.Errorf("a socket with a wrong secret: %d", status)
	}
}

// What an agent may not do is refused with the reason, and is not done.
func TestWhatAClientMayNotDo(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	other := openNamedDesk(t, k.d, k.site, k.name+"-b", "button", "")
	their := other.tool(other.cdpURL())
	their.page()
	x := k.tool(k.cdpURL())
	page := x.page()

	refused := func(session, method string, params any, code int, says string) {
		t.Helper()
		f := x.ask(session, method, params)
		if f.Error == nil || f.Error.Code != code || !strings.Contains(f.Error.Message, says) || f.Session != session && f.Error.Code != wire.CDPNoSession {
			t.Errorf("%s on %q: %+v %s; wanted %d with %q", method, session, f.Error, f.Result, code, says)
		}
	}
	none := struct{}{}
	for _, s := range []string{"", page} {
		refused(s, "No.such", none, wire.CDPUnknownMethod, "No.such")
		refused(s, "Storage.getCookies", none, wire.CDPServerError, "cookies")
		refused(s, "Storage.clearCookies", none, wire.CDPServerError, "cookies")
		refused(s, "Network.getAllCookies", none, wire.CDPServerError, "cookies")
		refused(s, "Fetch.enable", none, wire.CDPServerError, "interception")
		refused(s, "Browser.grantPermissions", map[string]any{"permissions": []string{"geolocation"}}, wire.CDPServerError, "permissions")
		refused(s, "Target.createBrowserContext", none, wire.CDPServerError, "context")
		refused(s, "Target.attachToTarget", map[string]any{"targetId": their.target(), "flatten": true}, wire.CDPInvalidParams, "No target")
		refused(s, "Target.closeTarget", map[string]any{"targetId": their.target()}, wire.CDPInvalidParams, "No target")
		refused(s, "Browser.crash", none, wire.CDPUnknownMethod, "")
		refused(s, "SystemInfo.getProcessInfo", none, wire.CDPUnknownMethod, "")
	}
	refused("nobody", "Runtime.enable", none, wire.CDPNoSession, "Session")
	for _, method := range []string{"Page.crash", "Page.setBypassCSP", "Debugger.enable", "Network.loadNetworkResource", "Tracing.start"} {
		refused(page, method, none, wire.CDPServerError, "policy")
	}
	refused(page, "Network.setCookie", map[string]any{"name": "a", "value": "b", "url": k.page}, wire.CDPServerError, "cookies")
	for _, address := range []string{
		"chrome://settings", "chrome-extension://" + k.extensionID() + "/popup.html", "file:///etc/passwd", "devtools://devtools",
		"javascript:alert(1)", "data:text/html,x", "https://other.example/", "view-source:" + k.page,
	} {
		refused(page, "Page.navigate", map[string]any{"url": address}, wire.CDPServerError, "policy")
		refused("", "Target.createTarget", map[string]any{"url": address}, wire.CDPServerError, "policy")
	}
	// The tab was there before the lease: it is lent.
	refused("", "Target.closeTarget", map[string]any{"targetId": x.target()}, wire.CDPServerError, "lent")
	refused(page, "DOM.setFileInputFiles", map[string]any{"files": []string{"/etc/passwd"}, "backendNodeId": 1}, wire.CDPServerError, "upload")

	// What is no message is answered, and nothing breaks.
	for _, text := range []string{"", "{", "[]", "null", `{"method":"Runtime.enable"}`, `{"id":"a","method":"Runtime.enable"}`, `{"id":1.5,"method":"x"}`, `{"id":7000,"method":7}`} {
		must(t, x.conn.Write(k.ctx, websocket.MessageText, []byte(text)))
	}
	refused(page, "Runtime.evaluate", []int{1}, wire.CDPInvalidParams, "params")
	if got := x.value(page, "document.querySelector('#state').textContent"); got != "0" {
		t.Errorf("the page says %v", got)
	}
	if got := their.value(their.pageSession(), "1+1"); got != 2.0 {
		t.Errorf("the other lease's page: %v", got)
	}
}

// target is the first tab's name.
func (x *tool) target() string {
	x.t.Helper()
	return x.attached()["targetInfo"].(map[string]any)["targetId"].(string)
}

func (x *tool) pageSession() string { return x.attached()["sessionId"].(string) }

func (x *tool) attached() map[string]any {
	x.t.Helper()
	var m map[string]any
	must(x.t, json.Unmarshal(x.find("a page", func(f frame) bool { return f.Method == "Target.attachedToTarget" }).Params, &m))
	return m
}

// The person's sign-in is in no event either.
func TestCookiesAreInNoEvent(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	x := k.tool(k.cdpURL())
	page := x.page()
	x.want(page, "Network.enable", struct{}{})
	x.want(page, "Page.enable", struct{}{})
	x.want(page, "Page.navigate", map[string]any{"url": k.site.URL(k.name, "signin", "as=hunter2")})
	x.find("the account's page", func(f frame) bool { return f.Method == "Page.loadEventFired" })
	x.want(page, "Page.navigate", map[string]any{"url": k.site.URL(k.name, "account", "")})
	x.find("the account's page once more", func() func(frame) bool {
		loads := 0
		return func(f frame) bool {
			if f.Method == "Page.loadEventFired" {
				loads++
			}
			return loads == 2
		}
	}())
	x.find("what requests carry", func(f frame) bool { return f.Method == "Network.requestWillBeSentExtraInfo" })
	x.find("what answers carry", func(f frame) bool { return f.Method == "Network.responseReceivedExtraInfo" })
	if got := x.value(page, "document.body.innerText.includes('hunter2')"); got != true {
		t.Fatalf("nobody is signed in: %v", got)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.got {
		if text := string(f.Params); strings.Contains(text, "user=hunter2") || strings.Contains(text, `"value":"hunter2"`) {
			t.Errorf("%s: %s", f.Method, f.Params)
		}
	}
}

// A dialog that nobody answers, a page that hangs, a client that sends without end or
// reads nothing, a result beyond all bounds: each ends, and the slot goes on.
func TestWhatAClientCannotBreak(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	t.Cleanup(func() {
		log, _ := k.d.Log()
		for line := range strings.Lines(log) {
			if t.Failed() && strings.Contains(line, k.name) {
				t.Log(line)
			}
		}
	})

	x := k.tool(k.cdpURL())
	page := x.page()
	x.want(page, "Page.enable", struct{}{})
	waits, err := x.send(page, "Runtime.evaluate", evaluation("alert('nobody answers'), 7"))
	must(t, err)
	x.find("the dialog", func(f frame) bool { return f.Method == "Page.javascriptDialogOpening" })
	x.want(page, "Page.handleJavaScriptDialog", map[string]any{"accept": true})
	if f := x.find("the script's end", func(f frame) bool { return f.ID == waits }); !strings.Contains(string(f.Result), "7") {
		t.Errorf("after the dialog: %s %+v", f.Result, f.Error)
	}
	for _, mb := range []int{5, 20} {
		if got, _ := x.value(page, fmt.Sprintf("'y'.repeat(%d)", mb*1_000_000)).(string); len(got) != mb*1_000_000 {
			t.Errorf("%d MB came as %d bytes", mb, len(got))
		}
	}
	if got := x.value(page, "'"+strings.Repeat("x", 5_000_000)+"'.length"); got != 5e6 {
		t.Errorf("5 MB of parameters: %v", got)
	}
	if f := x.ask(page, "Runtime.evaluate", evaluation("'z'.repeat(110e6)")); f.Error == nil || !strings.Contains(f.Error.Message, "limit") {
		t.Errorf("a result beyond all bounds: %d bytes, %+v", len(f.Result), f.Error)
	}
	if got := x.value(page, "2+2"); got != 4.0 {
		t.Errorf("after it: %v", got)
	}

	// A flood.
	go func() {
		for {
			if _, err := x.send(page, "Runtime.evaluate", evaluation("new Promise(() => {})")); err != nil {
				return
			}
		}
	}()
	if c := x.closed(); c.Code != cdp.CloseFlood || !strings.Contains(c.Reason, "without an answer") {
		t.Errorf("a flood: %d %q", c.Code, c.Reason)
	}
	y := k.again()
	page = y.page()
	if got := y.value(page, "3+3"); got != 6.0 {
		t.Errorf("after the flood: %v", got)
	}
	must(t, y.conn.Close(websocket.StatusNormalClosure, ""))

	// A client that asks for much and reads nothing.
	deaf := k.againRaw()
	defer deaf.CloseNow()
	write := func(text string) { must(t, deaf.Write(k.ctx, websocket.MessageText, []byte(text))) }
	write(`{"id":1,"method":"Target.setAutoAttach","params":{"autoAttach":true,"waitForDebuggerOnStart":false,"flatten":true}}`)
	_, body, err := deaf.Read(k.ctx)
	must(t, err)
	var f frame
	must(t, json.Unmarshal(body, &f))
	var at struct {
		Session string `json:"sessionId"`
	}
	must(t, json.Unmarshal(f.Params, &at))
	for i := range 7 {
		write(fmt.Sprintf(`{"id":%d,"method":"Runtime.evaluate","sessionId":%q,"params":{"expression":"'y'.repeat(15e6)","returnByValue":true}}`, i+2, at.Session))
	}
	z := k.again() // there is room once the deaf one is given up
	if got := z.value(z.page(), "4+4"); got != 8.0 {
		t.Errorf("after a deaf client: %v", got)
	}
}

// again connects once the former client is gone.
func (k *desk) again() *tool {
	k.t.Helper()
	x := &tool{t: k.t, ctx: k.ctx, conn: k.againRaw(), news: make(chan struct{})}
	x.conn.SetReadLimit(128 << 20)
	k.t.Cleanup(func() { x.conn.CloseNow() })
	go x.read()
	return x
}

func (k *desk) againRaw() *websocket.Conn {
	k.t.Helper()
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		conn, status, text := dialTool(k.ctx, k.cdpURL(), nil)
		if conn != nil {
			return conn
		}
		if status != http.StatusConflict || time.Now().After(end) {
			k.t.Fatalf("connect: %d %s", status, text)
		}
	}
}

// A page whose renderer ends answers nothing more: what was open is answered by that,
// and the client may navigate it on.
func TestACrashedPage(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	x := k.tool(k.cdpURL())
	page := x.page()
	x.want(page, "Page.enable", struct{}{})
	hangs, err := x.send(page, "Runtime.evaluate", evaluation("new Promise(() => {})"))
	must(t, err)
	if got := x.value(page, "1+1"); got != 2.0 {
		t.Fatalf("before: %v", got)
	}
	for _, pid := range renderers(t, k.name) {
		killPID(t, pid)
	}
	x.find("the crash", func(f frame) bool { return f.Method == "Inspector.targetCrashed" })
	if f := x.find("the answer to what was open", func(f frame) bool { return f.ID == hangs }); f.Error == nil {
		t.Errorf("it was answered with %s", f.Result)
	}
	if f := x.ask(page, "Runtime.evaluate", evaluation("1")); f.Error == nil || !strings.Contains(f.Error.Message, "crashed") {
		t.Errorf("a crashed page answers %s %+v", f.Result, f.Error)
	}
	x.want(page, "Page.navigate", map[string]any{"url": k.page})
	x.find("the page again", func(f frame) bool { return f.Method == "Page.loadEventFired" })
	if got := x.value(page, "2+2"); got != 4.0 {
		t.Errorf("after it: %v", got)
	}
}

// renderers lists the renderer processes of a slot's browser.
func renderers(t *testing.T, slot string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(line), "--type=renderer") || strings.Contains(string(line), "--extension-process") {
			continue
		}
		if !descends(filepath.Dir(path), "/slots/"+slot+"/") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		must(t, err)
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		t.Fatalf("no renderer of slot %s", slot)
	}
	return pids
}

// descends says whether a process or one above it has something in its command line.
func descends(proc, text string) bool {
	for range 16 {
		if line, err := os.ReadFile(filepath.Join(proc, "cmdline")); err == nil && strings.Contains(string(line), text) {
			return true
		}
		stat, err := os.ReadFile(filepath.Join(proc, "stat"))
		if err != nil {
			return false
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)
		if len(fields) < 2 {
			return false
		}
		proc = filepath.Join("/proc", fields[1])
	}
	return false
}

// A person may take over while a dialog is open, and nobody of the agent's answers it.
func TestATakeoverWithADialogOpen(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	x := k.tool(k.cdpURL())
	page := x.page()
	x.want(page, "Page.enable", struct{}{})
	_, err := x.send(page, "Runtime.evaluate", evaluation("alert('hello'), 1"))
	must(t, err)
	x.find("the dialog", func(f frame) bool { return f.Method == "Page.javascriptDialogOpening" })
	_, err = k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
	must(t, err)
	if c := x.closed(); c.Code != cdp.CloseFenced {
		t.Errorf("closed with %d %q", c.Code, c.Reason)
	}
	st := k.status("the fence", func(s *core.Status) bool { return s.Authority.Fence != "pending" })
	if st.Authority.Holder.Kind != "human" {
		t.Errorf("held by %+v", st.Authority.Holder)
	}
}

// What a client had set is taken back when it goes, by commands that Chromium takes; and it
// brings nothing to the front.
func TestAClientLeavesNothingSet(t *testing.T) {
	t.Parallel()
	k := openBoundDesk(t, core.BindingSpec{}) // without origins, which extra headers ask for
	k.do(wire.Act{Verb: "navigate", URL: k.page})
	x := k.tool(k.cdpURL())
	page := x.page()
	type o = map[string]any
	// What takes it back is the same method where no other stands here.
	other := map[string]string{
		"Emulation.setIdleOverride": "Emulation.clearIdleOverride", "Emulation.setPageScaleFactor": "Emulation.resetPageScaleFactor",
		"Runtime.addBinding": "Runtime.removeBinding",
	}
	want := map[string]int{}
	for method, params := range map[string]o{
		"Emulation.setAutoDarkModeOverride": {"enabled": true}, "Emulation.setDefaultBackgroundColorOverride": {"color": o{"r": 1, "g": 2, "b": 3}},
		"Emulation.setEmitTouchEventsForMouse": {"enabled": true}, "Emulation.setEmulatedVisionDeficiency": {"type": "achromatopsia"},
		"Emulation.setFocusEmulationEnabled": {"enabled": false}, "Emulation.setIdleOverride": {"isUserActive": false, "isScreenUnlocked": false},
		"Emulation.setPageScaleFactor": {"pageScaleFactor": 2}, "Emulation.setScrollbarsHidden": {"hidden": true},
		"Input.setInterceptDrags":          {"enabled": true},
		"Network.emulateNetworkConditions": {"offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
		"Network.overrideNetworkState":     {"offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
		"Network.setBlockedURLs":           {"urls": []string{"*nothing*"}},
		"Network.setBypassServiceWorker":   {"bypass": true}, "Network.setCacheDisabled": {"cacheDisabled": true},
		"Network.setExtraHTTPHeaders":         {"headers": o{"X-Left": "behind"}},
		"Overlay.setShowViewportSizeOnResize": {"show": true}, "Page.setWebLifecycleState": {"state": "active"},
		"Runtime.addBinding": {"name": "heard"},
	} {
		x.want(page, method, params)
		back := method
		if other[method] != "" {
			back = other[method]
		}
		want["cdp "+method]++
		want["cdp "+back]++
	}
	x.want(page, "Page.bringToFront", o{})
	x.conn.CloseNow()
	var missing []string
	t.Cleanup(func() {
		if len(missing) > 0 {
			t.Errorf("not taken back: %q", missing)
		}
	})
	k.await("everything to be taken back", func() bool {
		all, err := k.d.Control.Actions(k.ctx, k.slot(), false)
		must(t, err)
		finished := map[string]int{}
		for _, r := range all {
			if r.Summary == "cdp Page.bringToFront" {
				t.Fatal("a tab was brought to the front")
			}
			if r.Error != nil && strings.HasPrefix(r.Summary, "cdp ") {
				t.Fatalf("%s: %v", r.Summary, r.Error)
			}
			if r.Local == core.Finished {
				finished[r.Summary]++
			}
		}
		missing = nil
		for summary, n := range want {
			if finished[summary] < n {
				missing = append(missing, summary)
			}
		}
		return len(missing) == 0
	})
	y := k.again()
	its := y.page()
	y.want(its, "Network.enable", o{})
	if got := y.value(its, "fetch(location.href).then(r => r.status + ' ' + navigator.onLine)"); got != "200 true" {
		t.Errorf("after it: %v", got)
	}
	sent := y.find("what the request carries", func(f frame) bool { return f.Method == "Network.requestWillBeSentExtraInfo" })
	if strings.Contains(string(sent.Params), "X-Left") {
		t.Errorf("its header is still sent: %s", sent.Params)
	}
}
