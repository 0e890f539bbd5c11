package e2e

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/e2e/browser"
)

//go:embed testdata/facts
var factsFiles embed.FS

// factsDeadline bounds one step of a fact, on a machine that is busy with others;
// labDeadline a whole lab, whose tests may have to wait for their turn.
const (
	factsDeadline = 60 * time.Second
	labDeadline   = 10 * time.Minute
)

// aMoment is what something gets that must not happen, or may have no event of its own.
const aMoment = 2 * time.Second

// lab is one browser with the facts' extension, and a site.
type lab struct {
	t      *testing.T
	ctx    context.Context
	site   *demo.Site
	pipe   *demo.Pipe
	worker demo.Session
}

// opened is what the extension's open answers.
type opened struct {
	Tab      int64   `json:"tab"`
	Window   int64   `json:"window"`
	Document string  `json:"document"`
	X        float64 `json:"x"`
	Y        float64 `json:"y"`
}

func openLab(t *testing.T) *lab {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("NOT RUN: there is no chromium here")
	}
	ctx, cancel := context.WithTimeout(context.Background(), labDeadline)
	t.Cleanup(cancel)
	extension := t.TempDir()
	files, err := fs.Sub(factsFiles, "testdata/facts")
	must(t, err)
	must(t, os.CopyFS(extension, files))
	site, err := demo.OpenSite()
	must(t, err)
	t.Cleanup(func() { must(t, site.Close()) })
	b, err := browser.Start(browser.Options{Extension: extension, Pipe: true})
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	worker, err := b.Pipe.Worker(ctx, "chrome-extension://")
	must(t, err)
	return &lab{t, ctx, site, b.Pipe, worker}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// in is the lab as a subtest sees it.
func (l *lab) in(t *testing.T) *lab {
	c := *l
	c.t = t
	return &c
}

// do evaluates an expression in the extension's worker.
func (l *lab) do(result any, format string, args ...any) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, factsDeadline)
	defer cancel()
	if err := l.pipe.Eval(ctx, l.worker, fmt.Sprintf(format, args...), result); err != nil {
		l.t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// saved waits until the site has a save of the scope.
func (l *lab) saved(scope string) bool {
	ctx, cancel := context.WithTimeout(l.ctx, factsDeadline)
	defer cancel()
	return l.site.WaitSaves(ctx, scope, 1)
}

// hold keeps a scope waiting until its release or the end of the test; busy waits until its
// page is.
func (l *lab) hold(scope string) (busy, release func()) {
	reached, release := l.site.Hold(scope)
	l.t.Cleanup(release)
	return func() {
		l.t.Helper()
		select {
		case <-reached:
		case <-time.After(factsDeadline):
			l.t.Fatal("the page did not become busy")
		}
	}, release
}

// page opens a page of the scope under a name of its own, so that no other page
// shares its process.
func (l *lab) page(scope, page, query string) opened {
	l.t.Helper()
	var o opened
	l.do(&o, "open(%q)", l.site.URLAt(scope+".localhost", scope, page, query))
	return o
}

func (l *lab) events(tab int64) string {
	l.t.Helper()
	var text string
	l.do(&text, `events.filter((e) => e.tab === %d).map((e) => e.name + " " + e.reason).join(", ")`, tab)
	return text
}

type post struct {
	Tab      int64  `json:"tab"`
	URL      string `json:"url"`
	Document string `json:"document"`
	Error    string `json:"error"`
}

func (l *lab) posts(tab int64) []post {
	l.t.Helper()
	var p []post
	l.do(&p, "requests.filter((r) => r.tab === %d)", tab)
	return p
}

func (o opened) js() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // five plain fields
	}
	return string(text)
}

// A click was queued behind a page that is busy. Then something was done to the page, and
// the page was let go. Did the click's requests still reach the site?
func TestQueuedClick(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	for _, c := range []struct {
		name   string
		shared bool
		deed   string // with o, the opened page
		ends   string // how the press was answered; "" if that does not matter
		event  string // what the debugger said
		kinds  string // which saves reached the site; with a question mark: perhaps
	}{
		{"detach", false, `chrome.debugger.detach({tabId: o.tab})`, "Detached while handling command.", "", "beacon fetch keepalive"},
		{"navigate", false, `chrome.tabs.update(o.tab, {url: "data:text/html,elsewhere"})`, "", "", "beacon fetch keepalive"},
		{"terminate", false, `settled(send(o.tab, "Runtime.terminateExecution")), 1`, "", "", "beacon fetch keepalive"},
		{"discard", false, `chrome.tabs.create({windowId: o.window, active: true}).then(() => chrome.tabs.discard(o.tab))`, "", "detach target_closed", ""},
		// With a shared process the plain fetch has been seen to arrive and not to arrive;
		// beacon and keepalive request always have.
		{"discard-shared", true, `chrome.tabs.create({windowId: o.window, active: true}).then(() => chrome.tabs.discard(o.tab))`, "", "detach target_closed", "beacon fetch? keepalive"},
		{"remove", false, `chrome.tabs.remove(o.tab)`, "", "detach target_closed", ""},
		{"remove-shared", true, `chrome.tabs.remove(o.tab)`, "", "detach target_closed", "beacon fetch? keepalive"},
		{"crash", false, `settled(send(o.tab, "Page.crash")), 1`, "", "Inspector.targetCrashed", ""},
		{"crash-shared", true, `settled(send(o.tab, "Page.crash")), 1`, "", "Inspector.targetCrashed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := l.in(t)
			o := l.page(c.name, "busy", "more=1&busy=held")
			if c.shared {
				l.do(nil, "openCompare(%d)", o.Tab)
			}
			busy, release := l.hold(c.name)
			l.do(nil, "queueClick(%s)", o.js())
			busy()
			l.do(nil, "(async (o) => { await (%s); })(%s)", c.deed, o.js())
			time.Sleep(aMoment)
			if n := l.site.Count(c.name).Total; n != 0 {
				t.Fatalf("the page was not busy: %d saves", n)
			}
			release()
			time.Sleep(aMoment)
			with, without := strings.ReplaceAll(c.kinds, "?", ""), strings.ReplaceAll(c.kinds, "fetch? ", "")
			got := savedKinds(l.site, c.name)
			for end := time.Now().Add(factsDeadline); got != with && got != without && len(got) < len(without) && time.Now().Before(end); {
				time.Sleep(50 * time.Millisecond) // a slow machine's requests are on their way
				got = savedKinds(l.site, c.name)
			}
			if got != with && got != without {
				t.Errorf("saved %q, want %q", got, c.kinds)
			}
			var ends []string
			l.do(&ends, "clickEnds(%d)", o.Tab)
			if c.ends != "" && ends[1] != c.ends {
				t.Errorf("the press was answered %q, want %q", ends, c.ends)
			}
			if got := l.events(o.Tab); !strings.Contains(got, c.event) {
				t.Errorf("the debugger said %q, want %q", got, c.event)
			}
			t.Logf("answers to move, press, release: %q; debugger: %q; site: %q", ends, l.events(o.Tab), savedKinds(l.site, c.name))
		})
	}
}

func savedKinds(s *demo.Site, scope string) string {
	var got []string
	counts := s.Count(scope)
	for _, k := range []demo.Kind{demo.KindBeacon, demo.KindFetch, demo.KindKeepalive} {
		switch counts.ByKind[k] {
		case 0:
		case 1:
			got = append(got, string(k))
		default:
			got = append(got, fmt.Sprintf("%s×%d", k, counts.ByKind[k]))
		}
	}
	return strings.Join(got, " ")
}

// ran is what the extension's barrier answers: the document in which it ran, and
// how many requests of the tab had begun by then.
type ran struct {
	Document string `json:"document"`
	Posts    int    `json:"posts"`
}

// The barrier runs after the queued click and after its request has begun, whether
// the debugger is attached or not.
func TestBarrier(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	for _, attached := range []bool{true, false} {
		name := map[bool]string{true: "attached", false: "detached"}[attached]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := l.in(t)
			scope := "barrier-" + name
			o := l.page(scope, "busy", "busy=held")
			busy, release := l.hold(scope)
			l.do(nil, "queueClick(%s)", o.js())
			busy()
			if !attached {
				l.do(nil, "chrome.debugger.detach({tabId: %d})", o.Tab)
			}
			l.do(nil, "begin(%d, %q)", o.Tab, o.Document)
			time.Sleep(aMoment)
			var r *ran
			if l.do(&r, "ran(%d)", o.Tab); r != nil {
				t.Errorf("the barrier ran before the page had finished: %+v", r)
			}
			release()
			l.do(&r, `until("the barrier", () => ran(%d))`, o.Tab)
			if r.Document != o.Document || r.Posts != 1 {
				t.Errorf("the barrier ran in %q with %d requests begun, want %q and 1", r.Document, r.Posts, o.Document)
			}
			if !l.saved(scope) {
				t.Error("the request that had begun did not reach the site")
			}
		})
	}
}

// After a navigation the same call, with the old document's identifier, runs in the new
// document. The old document's click may still land: Chromium lets a busy document that
// was left go on for a while, and then no longer. Its request carries the old identifier,
// or neither a document nor a tab; never the new one.
func TestBarrierAfterNavigation(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	o := l.page("left", "busy", "busy=held")
	busy, release := l.hold("left")
	l.do(nil, "queueClick(%s)", o.js())
	busy()
	l.do(nil, `chrome.tabs.update(%d, {url: %q}).then(() => until("the other page", async () =>
		(await chrome.tabs.get(%[1]d)).url.includes("elsewhere")))`, o.Tab, l.site.URLAt("elsewhere.localhost", "elsewhere", "product", ""))
	var r ran
	l.do(&r, "barrier(%d, %q)", o.Tab, o.Document) // the old document is busy: this does not wait for it
	if r.Document == o.Document || r.Document == "" {
		t.Errorf("the barrier names document %q; want the new one, not %q", r.Document, o.Document)
	}
	if n := l.site.Count("left").Total; n != 0 {
		t.Errorf("the page was not busy: %d saves", n)
	}
	release()
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	landed := l.site.WaitSaves(ctx, "left", 1)
	time.Sleep(aMoment)
	if n := l.site.Count("left").Total; n > 1 {
		t.Errorf("the site counts %d saves of the page that was left", n)
	}
	var seen []post
	l.do(&seen, `requests.filter((r) => r.url.includes("/left/"))`)
	for _, p := range seen {
		if !(p.Tab == o.Tab && p.Document == o.Document || p.Tab == -1 && p.Document == "") {
			t.Errorf("request %+v; want it of document %q in tab %d, or of none", p, o.Document, o.Tab)
		}
	}
	if landed && len(seen) != 1 {
		t.Errorf("the page's save reached the site; the requests seen are %+v", seen)
	}
	t.Logf("the click landed: %v; its request: %+v", landed, seen)
}

// What webRequest says of the document of a form's POST, and of a fetch.
func TestRequestDocument(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	for page, named := range map[string]bool{"product": true, "form": false} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			l := l.in(t)
			scope := "request-" + page
			o := l.page(scope, page, "delay=0")
			l.do(nil, "click(%s)", o.js())
			if !l.saved(scope) {
				t.Fatal("the site saw no save")
			}
			l.do(nil, `until("the request", () => requests.some((r) => r.tab === %d))`, o.Tab)
			want := ""
			if named {
				want = o.Document
			}
			if p := l.posts(o.Tab); len(p) != 1 || p[0].Document != want {
				t.Errorf("requests %+v; want one of document %q", p, want)
			}
		})
	}
}

// A timer that the agent's script left goes on after the barrier and the detach.
func TestScriptOutlivesTheDebugger(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	o := l.page("timer", "script", "")
	l.do(nil, `send(%d, "Runtime.evaluate", {expression: "setInterval(() => fetch('save?kind=timer', {method: 'POST'}), 300)"})`, o.Tab)
	var r ran
	l.do(&r, "barrier(%d, %q)", o.Tab, o.Document)
	if r.Document != o.Document {
		t.Errorf("the barrier ran in %q, want %q", r.Document, o.Document)
	}
	l.do(nil, "chrome.debugger.detach({tabId: %d})", o.Tab)
	at := l.site.Count("timer").Total
	ctx, cancel := context.WithTimeout(l.ctx, factsDeadline)
	defer cancel()
	if !l.site.WaitSaves(ctx, "timer", at+3) {
		t.Errorf("the page posted %d times after the detach, want 3 and more", l.site.Count("timer").Total-at)
	}
	for _, p := range l.posts(o.Tab) {
		if p.Document != o.Document {
			t.Errorf("a timer's request names document %q, want %q", p.Document, o.Document)
		}
	}
}

// Releasing a held button where it was pressed is a click; outside the viewport it
// is none on the button.
func TestReleaseOfAHeldButton(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	for name, c := range map[string]struct{ inPlace, want int }{"in-place": {1, 1}, "outside": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := l.in(t)
			scope := "release-" + name
			o := l.page(scope, "product", "delay=0")
			l.do(nil, `send(%d, "Runtime.evaluate", {expression: "clicked = []; addEventListener('click', (e) => clicked.push(e.target.tagName), true)"})`, o.Tab)
			x, y := -10.0, -10.0
			if c.inPlace == 1 {
				x, y = o.X, o.Y
			}
			l.do(nil, `(async (o) => { await mouse(o.tab, "mouseMoved", o.x, o.y); await mouse(o.tab, "mousePressed", o.x, o.y);
				await mouse(o.tab, "mouseReleased", %v, %v); })(%s)`, x, y, o.js())
			var r ran
			l.do(&r, "barrier(%d, %q)", o.Tab, o.Document)
			if c.want > 0 {
				l.saved(scope)
			}
			time.Sleep(300 * time.Millisecond) // what should not come
			if n := l.site.Count(scope).Total; n != c.want {
				t.Errorf("the site counts %d, want %d", n, c.want)
			}
			var on string
			l.do(&on, `send(%d, "Runtime.evaluate", {expression: "clicked.join()"}).then((r) => r.result.value)`, o.Tab)
			if want := map[int]string{0: "HTML", 1: "BUTTON"}[c.want]; on != want {
				t.Errorf("the click was on %q, want %q", on, want)
			}
		})
	}
}

// Stopping a page's loading does not take back a POST that was sent: the page sees
// an error, the site has applied it.
func TestStopLoading(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	o := l.page("stop", "product", "")
	_, release := l.hold("stop")
	defer release()
	l.do(nil, "click(%s)", o.js())
	if !l.saved("stop") {
		t.Fatal("the site saw no save")
	}
	l.do(nil, `send(%d, "Page.stopLoading").then(() => until("the error", () => requests.some((r) => r.tab === %[1]d && r.error)))`, o.Tab)
	if p := l.posts(o.Tab); len(p) != 1 || p[0].Error != "net::ERR_ABORTED" {
		t.Errorf("requests %+v; want one that ended with net::ERR_ABORTED", p)
	}
	if n := l.site.Count("stop").Total; n != 1 {
		t.Errorf("the site counts %d, want 1", n)
	}
}

// A page can tell a browser with a debugging pipe from one without.
func TestWebdriver(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("NOT RUN: there is no chromium here")
	}
	site, err := demo.OpenSite()
	must(t, err)
	t.Cleanup(func() { must(t, site.Close()) })
	for _, pipe := range []bool{true, false} {
		scope := fmt.Sprintf("pipe-%v", pipe)
		t.Run(scope, func(t *testing.T) {
			b, err := browser.Start(browser.Options{Pipe: pipe, URL: site.URL(scope, "webdriver", "")})
			must(t, err)
			defer func() { must(t, b.Close()) }()
			want := fmt.Sprintf("webdriver=%v", pipe)
			for end := time.Now().Add(20 * time.Second); site.Report(scope) == "" && time.Now().Before(end); {
				time.Sleep(20 * time.Millisecond)
			}
			if got := site.Report(scope); got != want {
				t.Errorf("the page saw %q, want %q", got, want)
			}
			if left, _ := filepath.Glob(filepath.Join(b.Profile, "DevToolsActivePort")); len(left) != 0 {
				t.Errorf("a debugging port is open: %v", left)
			}
		})
	}
}
