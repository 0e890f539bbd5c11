package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"
	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/cdp"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// clientsDir holds the published clients that the tests run, and their scripts.
const clientsDir = "clients"

// clients is where they are; a test for which they are not there is not run.
func (k *desk) clients() (dir string) {
	k.t.Helper()
	home, _ := demo.InHome()
	dir = filepath.Join(home.Bin(), clientsDir)
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "playwright-core")); err != nil {
		k.t.Skip("NOT RUN: the published clients are not installed: make deps")
	}
	if _, err := exec.LookPath("node"); err != nil {
		k.t.Skip("NOT RUN: node is missing: make deps")
	}
	return dir
}

// script runs one of the scripts in clientsDir against an address, with arguments, and
// returns what it printed: one JSON value.
func (k *desk) script(name, address string, args ...string) (map[string]any, error) {
	k.t.Helper()
	dir := k.clients()
	ctx, cancel := context.WithTimeout(k.ctx, 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join(dir, name), address}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if stderr.Len() > 0 {
		k.t.Logf("%s: %s", name, stderr.String())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		return nil, fmt.Errorf("%s printed %q: %w", name, out, err)
	}
	return got, nil
}

// wants compares what a script printed.
func (k *desk) wants(got map[string]any, want map[string]any) {
	k.t.Helper()
	for name, value := range want {
		if fmt.Sprint(got[name]) != fmt.Sprint(value) {
			k.t.Errorf("%s: got %v, want %v", name, got[name], value)
		}
	}
}

func (k *desk) cdpURL() string {
	k.t.Helper()
	if !strings.HasPrefix(k.Lease.CDPURL, "ws://127.0.0.1:") {
		k.t.Fatalf("the lease's cdp_url is %q", k.Lease.CDPURL)
	}
	return k.Lease.CDPURL
}

// httpURL is the same address for clients that ask by HTTP.
func (k *desk) httpURL() string {
	address, secret, _ := strings.Cut(k.cdpURL(), "/devtools/browser/")
	return strings.Replace(address, "ws://", "http://", 1) + "/" + secret
}

// offered releases the lease and wants the slot to be offered again by itself: an
// ordinary day's work leaves nothing for a person to settle.
func (k *desk) offered() {
	k.t.Helper()
	must(k.t, k.Release(k.ctx))
	k.status("the slot to be offered", func(s *core.Status) bool { return s.Offer.Available })
}

func TestPuppeteerWorksInALease(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	got, err := k.script("puppeteer.mjs", k.cdpURL(), k.site.URL(k.name, "product", "delay=0"))
	must(t, err)
	k.wants(got, map[string]any{"pages": 1, "title": "Product 42", "sum": 3, "pressed": "1", "made": 2, "after": 1})
	if n := k.site.Count(k.name).Total; n != 1 {
		t.Errorf("the site counts %d saves", n)
	}
	k.offered()
}

func TestPlaywrightWorksInALease(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	got, err := k.script("playwright.mjs", k.httpURL(), k.site.URL(k.name, "product", "delay=0"), k.site.URLAt("a.localhost", k.name, "child", ""))
	must(t, err)
	k.wants(got, map[string]any{
		"pages": 1, "title": "Product 42", "sum": 3, "pressed": "1", "made": 2, "after": 1, "filled": "Ada", "dialog": "hello",
	})
	if n := k.site.Count(k.name).Total; n != 1 {
		t.Errorf("the site counts %d saves", n)
	}
	k.offered()
}

func TestChromedpWorksInALease(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	alloc, cancel := remote.NewAllocator(k.ctx, k.cdpURL())
	defer cancel()
	ctx, cancel := chromedp.NewContext(alloc)
	defer cancel()
	must(t, chromedp.Do(ctx, chromedp.Navigate(k.site.URL(k.name, "button", "")), chromedp.Click(chromedp.ID("press"))))
	title, err := chromedp.Run(ctx, chromedp.Title())
	must(t, err)
	state, err := chromedp.Run(ctx, chromedp.Text(chromedp.ID("state")))
	must(t, err)
	sum, err := chromedp.Run(ctx, chromedp.Evaluate[int]("1+2"))
	must(t, err)
	if !strings.HasPrefix(title, "button") || state != "1" || sum != 3 {
		t.Errorf("title %q, state %q, sum %d", title, state, sum)
	}
	infos, err := chromedp.Targets(ctx)
	must(t, err)
	if len(infos) != 2 {
		t.Errorf("targets: %+v", infos)
	}
	must(t, chromedp.Cancel(ctx))
	k.offered()
}

// The same by chromedp 0.14.2, whose interface is another.
func TestOldChromedpWorksInALease(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	file := filepath.Join(k.Lease.UploadDir, "picture.txt")
	must(t, os.WriteFile(file, []byte("a picture"), 0o600))
	home, _ := demo.InHome()
	out, err := exec.CommandContext(k.ctx, filepath.Join(home.Bin(), oldChromedp), k.cdpURL(), k.site.URL(k.name, "button", ""),
		k.site.URL(k.name, "child", ""), file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got map[string]any
	must(t, json.Unmarshal(out, &got))
	k.wants(got, map[string]any{
		"title": "button", "pressed": "1", "sum": 3, "typed": "Ada", "file": "picture.txt", "viewport": "640x480", "picture": true,
		"dialog": "Sure?", "answer": "true", "second": true, "pages": 3, "cookies": false,
	})
	k.offered()
}

// A lease may be older than its browser: the first that connects has it started.
func TestAClientStartsTheBrowser(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	must(t, k.Release(k.ctx))
	k.status("the slot to be offered", func(s *core.Status) bool { return s.Offer.Available })
	_, err := k.d.Control.Change(k.ctx, k.slot(), client.Stop, wire.ChangeRequest{By: "test"})
	must(t, err)
	k.status("the browser's end", func(s *core.Status) bool { return s.Local.Launch != nil && s.Local.Launch.State == "ended" })
	k.Agent, err = k.d.NewAgent(k.ctx, "ada", k.name)
	must(t, err)
	must(t, k.Acquire(k.ctx, "test", 0))
	if st := k.status("the grant", func(s *core.Status) bool { return s.Authority.Holder.Kind == "agent" }); st.Local.Launch != nil && st.Local.Launch.State != "ended" {
		t.Fatalf("the browser is %s before anybody has asked for it", st.Local.Launch.State)
	}
	x := k.tool(k.cdpURL())
	page := x.page()
	x.want(page, "Page.navigate", map[string]any{"url": k.page})
	k.await("the page", func() bool {
		f := x.ask(page, "Runtime.evaluate", evaluation("document.querySelector('#state')?.textContent"))
		return strings.Contains(string(f.Result), `"0"`)
	})
	// Its link is known, though there was none when the client asked.
	must(t, unix.Kill(hostPID(t, k.name), unix.SIGKILL))
	if c := x.closed(); c.Code != cdp.CloseUnlinked {
		t.Errorf("without its link the client was told %d %s", c.Code, c.Reason)
	}
}
