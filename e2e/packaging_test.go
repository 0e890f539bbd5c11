package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// parlour is a daemon of a test's own, with a second installation's directories and one
// slot, whose extension is packaged in a given way.
type parlour struct {
	*testing.T
	ctx  context.Context
	dir  string
	site *demo.Site
	d    *demo.Daemon
	hand *demo.Hand
}

const parlourSlot = "parlour"

func openParlour(t *testing.T, debug string, args ...string) *parlour {
	t.Helper()
	home, in := demo.InHome()
	if !in {
		t.Fatal("not in a home")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	dir, err := os.MkdirTemp("/tmp", "sd")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"CONFIG_HOME", "STATE_HOME", "DATA_HOME", "CACHE_HOME", "RUNTIME_DIR"} {
		sub := filepath.Join(dir, strings.ToLower(name[:3]))
		must(t, os.Mkdir(sub, 0o700))
		t.Setenv("XDG_"+name, sub)
	}
	p := &parlour{T: t, ctx: ctx, dir: dir}
	p.site, err = demo.OpenSite()
	must(t, err)
	t.Cleanup(func() { p.site.Close() })
	p.d, err = demo.StartDaemon(ctx, home, debug, args...)
	must(t, err)
	t.Cleanup(func() { must(t, p.d.Stop()) })
	must(t, p.d.NewSlot(ctx, parlourSlot, "headless", p.site.Origin(), p.site.URL(parlourSlot, "product", "")))
	t.Cleanup(func() { p.stop(context.WithoutCancel(ctx)) })
	return p
}

// stop ends the slot's browser, verified.
func (p *parlour) stop(ctx context.Context) {
	p.Helper()
	if p.hand != nil {
		p.hand.Close()
		p.hand = nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := p.d.Control.Change(ctx, parlourSlot, client.Stop, wire.ChangeRequest{})
	must(p.T, err)
	_, err = p.d.WaitStatus(ctx, parlourSlot, "the browser's end", func(s *core.Status) bool {
		return s.Local.Launch == nil || s.Local.Launch.State == "ended"
	})
	must(p.T, err)
}

func (p *parlour) start() {
	p.Helper()
	must(p.T, p.d.StartSlot(p.ctx, parlourSlot))
}

// reach gives the test a hand at the browser, by the debugging pipe.
func (p *parlour) reach() *demo.Hand {
	p.Helper()
	if p.hand == nil {
		var err error
		p.hand, err = demo.DialHand(p.ctx, os.Getenv("XDG_RUNTIME_DIR"), parlourSlot)
		must(p.T, err)
	}
	return p.hand
}

// worker evaluates in the extension's worker.
func (p *parlour) worker(result any, expression string) {
	p.Helper()
	must(p.T, p.reach().Pipe().Eval(p.ctx, p.reach().Worker(), expression, result))
}

// popup takes control and gives it back in the real popup.
func (p *parlour) popup() {
	p.Helper()
	must(p.T, p.reach().Press(p.ctx, demo.ButtonTakeover))
	_, err := p.d.WaitStatus(p.ctx, parlourSlot, "the takeover", func(s *core.Status) bool { return s.Authority.Holder.Kind == "human" })
	must(p.T, err)
	must(p.T, p.reach().Press(p.ctx, demo.ButtonHandback))
	_, err = p.d.WaitStatus(p.ctx, parlourSlot, "the handback", func(s *core.Status) bool { return s.Authority.Holder.Kind == "none" })
	must(p.T, err)
}

// files says what the extension gets of a file: whether Chromium lets it see file:
// addresses at all, and what becomes of attaching it to an upload by its path.
func (p *parlour) files() (seen bool, upload string) {
	p.Helper()
	var got struct {
		Seen   bool
		Upload string
	}
	p.worker(&got, fmt.Sprintf(`(async () => {
		const tab = await chrome.tabs.create({ url: %q, active: false });
		while ((await chrome.tabs.get(tab.id)).status !== "complete") await new Promise((f) => setTimeout(f, 20));
		const on = { tabId: tab.id };
		const out = { Seen: await chrome.extension.isAllowedFileSchemeAccess(), Upload: "" };
		try {
			await chrome.debugger.attach(on, "1.3");
			await chrome.debugger.sendCommand(on, "Runtime.evaluate",
				{ expression: 'document.documentElement.innerHTML = "<input type=file>"' });
			const { root } = await chrome.debugger.sendCommand(on, "DOM.getDocument", {});
			const { nodeId } = await chrome.debugger.sendCommand(on, "DOM.querySelector", { nodeId: root.nodeId, selector: "input" });
			await chrome.debugger.sendCommand(on, "DOM.setFileInputFiles", { nodeId, files: ["/etc/passwd"] });
			out.Upload = "attached";
		} catch (e) { out.Upload = String(e.message); }
		await chrome.tabs.remove(tab.id);
		return out;
	})()`, p.site.URL("upload", "product", "")))
	return got.Seen, got.Upload
}

// disabled writes into the profile what a person's "off" at chrome://extensions does.
// The browser must not run.
func (p *parlour) disabled(id string) {
	p.Helper()
	path := filepath.Join(p.d.Paths.SlotDir(parlourSlot), "profile", "Default", "Preferences")
	text, err := os.ReadFile(path)
	must(p.T, err)
	var prefs map[string]any
	must(p.T, json.Unmarshal(text, &prefs))
	settings := prefs["extensions"].(map[string]any)["settings"].(map[string]any)
	const byTheUser = 1
	settings[id].(map[string]any)["disable_reasons"] = []int{byTheUser}
	text, err = json.Marshal(prefs)
	must(p.T, err)
	must(p.T, os.WriteFile(path, text, 0o600))
}

// connected says whether the slot's extension connects, that long after a start.
func (p *parlour) connected(within time.Duration) bool {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, within)
	defer cancel()
	_, err := p.d.Control.Change(ctx, parlourSlot, client.Start, wire.ChangeRequest{})
	if codeOf(err) != core.CodeUnavailable && ctx.Err() == nil { // the daemon itself waits for it
		must(p.T, err)
	}
	st, err := p.d.Control.Status(p.ctx, parlourSlot)
	must(p.T, err)
	return st.Local.Launch != nil && st.Local.Launch.Link == "up"
}

// navigated is where a page of the person's lands that is sent to the address.
func (p *parlour) navigated(url string) string {
	p.Helper()
	pipe := p.reach().Pipe()
	var made struct {
		TargetID string `json:"targetId"`
	}
	must(p.T, pipe.Call(p.ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &made))
	page, err := pipe.Attach(p.ctx, made.TargetID)
	must(p.T, err)
	var got struct {
		ErrorText string `json:"errorText"`
	}
	must(p.T, pipe.Call(p.ctx, page, "Page.navigate", map[string]any{"url": url}, &got))
	must(p.T, pipe.Call(p.ctx, "", "Target.closeTarget", map[string]any{"targetId": made.TargetID}, nil))
	return got.ErrorText
}

// TestPackaging: each way in which the extension gets into a slot's browser, with what
// it protects and what it does not.
func TestPackaging(t *testing.T) {
	for _, c := range []struct {
		way            string
		disablable     bool
		files          bool
		settings, file string // what becomes of chrome://extensions and file:
	}{
		{"policy", false, false, "net::ERR_BLOCKED_BY_ADMINISTRATOR", "net::ERR_BLOCKED_BY_ADMINISTRATOR"},
		{"external", true, false, "", ""},
		{"load", false, true, "", ""}, // the command line loads it anew at each start
	} {
		t.Run(c.way, func(t *testing.T) {
			p := openParlour(t, "pipe", "--packaging="+c.way)
			h, err := p.d.Control.Health(p.ctx)
			must(t, err)
			st, err := p.d.Control.Status(p.ctx, parlourSlot)
			must(t, err)
			if l := st.Local.Launch; l.Packaging != c.way || (l.Unprotected == "") != (c.way == "policy") {
				t.Errorf("the status says %q, unprotected %q", l.Packaging, l.Unprotected)
			}
			p.popup()
			seen, upload := p.files()
			if seen != c.files || (upload == "attached") != c.files {
				t.Errorf("file access %v, a file's upload by path: %s", seen, upload)
			}
			if got := p.navigated("chrome://extensions"); got != c.settings {
				t.Errorf("chrome://extensions: %q", got)
			}
			if got := p.navigated("file:///etc/hostname"); got != c.file {
				t.Errorf("a file's page: %q", got)
			}
			var version string
			p.worker(&version, `(async () => { await chrome.storage.local.set({ kept: 7 }); return chrome.runtime.getManifest().version })()`)
			p.stop(p.ctx)
			if c.way == "load" {
				return
			}

			// An update of the extension: the next launch has the new one, and what the
			// old one stored, the mark of epochs above all.
			about, err := filepath.Glob(filepath.Join(p.dir, "dat", "sessiondock", "extension", "packed", "*", "package.json"))
			must(t, err)
			if len(about) != 1 {
				t.Fatalf("packages: %v", about)
			}
			for _, file := range about {
				must(t, os.WriteFile(file, []byte(`{"id":"`+h.Extension+`","build":"former"}`), 0o600))
			}
			p.start()
			var next struct {
				Version string
				Kept    int
			}
			p.worker(&next, `(async () => ({ Version: chrome.runtime.getManifest().version, Kept: (await chrome.storage.local.get("kept")).kept }))()`)
			if next.Version == version || next.Kept != 7 {
				t.Errorf("after an update from %s: %+v", version, next)
			}
			p.stop(p.ctx)

			p.disabled(h.Extension)
			within := time.Minute
			if c.disablable {
				within = 10 * time.Second // in vain
			}
			if got := p.connected(within); got == c.disablable {
				t.Errorf("disabled in the profile, it connects: %v", got)
			}
		})
	}
}

// TestABrowserLooksLikeAPersons: sites that refuse automated browsers a sign-in look at
// these. By default, and so without any debugging switch.
func TestABrowserLooksLikeAPersons(t *testing.T) {
	p := openParlour(t, "")
	agent, err := p.d.NewAgent(p.ctx, "ada", parlourSlot)
	must(t, err)
	must(t, agent.Acquire(p.ctx, "look", 30*time.Second))
	t.Cleanup(func() { agent.Release(context.WithoutCancel(p.ctx)) })
	_, err = agent.Act(p.ctx, client.NewID(), wire.Act{Verb: "navigate", URL: p.site.URL(parlourSlot, "product", "")}, 0)
	must(t, err)
	r, err := agent.Act(p.ctx, client.NewID(), wire.Act{Verb: "evaluate", Expression: `(async () => ({
		agent: navigator.userAgent, webdriver: navigator.webdriver,
		brands: navigator.userAgentData.brands.map((b) => b.brand + " " + b.version).join(", "),
		platform: navigator.userAgentData.platform,
	}))()`}, 0)
	must(t, err)
	var got struct {
		Value struct {
			Agent, Brands, Platform string
			Webdriver               bool
		} `json:"value"`
	}
	must(t, json.Unmarshal(r.Result, &got))
	v := got.Value
	if v.Agent == "" || strings.Contains(v.Agent+v.Brands, "Headless") || v.Webdriver {
		t.Errorf("a page sees that nobody looks: %+v", v)
	}
	if !strings.Contains(v.Brands, "Chromium ") || v.Platform != "Linux" {
		t.Errorf("the user agent's brands: %+v", v)
	}
}
