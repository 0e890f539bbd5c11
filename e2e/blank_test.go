package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// An empty page can be driven like any other, however it was reached, and has the origin of
// the page before it or none: what an extension navigates there gets the extension's.
func TestAnEmptyPageIsDriven(t *testing.T) {
	for _, debug := range []string{"", "pipe"} {
		t.Run("debug="+debug, func(t *testing.T) {
			p := openParlour(t, debug)
			p.start()
			k := &desk{t: t, ctx: p.ctx, d: p.d, site: p.site, name: parlourSlot, page: p.site.URL(parlourSlot, "button", "")}
			var err error
			k.Agent, err = p.d.NewAgent(p.ctx, "ada", parlourSlot)
			must(t, err)
			must(t, k.Acquire(p.ctx, "test", time.Minute))
			origin := func(what, want string) {
				t.Helper()
				k.do(wire.Act{Verb: "snapshot"})
				if got := k.value("origin + ' ' + location"); got != want+" about:blank" {
					t.Errorf("%s: %v, want the origin %s", what, got, want)
				}
			}
			k.do(wire.Act{Verb: "navigate", URL: k.page})
			k.do(wire.Act{Verb: "navigate", URL: "about:blank"})
			origin("navigated", p.site.Origin())
			k.do(wire.Act{Verb: "navigate", URL: "about:blank"})
			origin("navigated once more", p.site.Origin())
			k.do(wire.Act{Verb: "navigate", URL: k.page})

			x := k.tool(k.cdpURL())
			page := x.page()
			x.want(page, "Page.enable", struct{}{})
			var went struct {
				FrameID  string `json:"frameId"`
				LoaderID string `json:"loaderId"`
			}
			must(t, json.Unmarshal(x.want(page, "Page.navigate", map[string]any{"url": "about:blank"}), &went))
			x.find("the page that the answer names", func(f frame) bool {
				return f.Method == "Page.frameNavigated" && went.LoaderID != "" && strings.Contains(string(f.Params), went.LoaderID)
			})
			if got := x.value(page, "origin"); got != p.site.Origin() {
				t.Errorf("a client's: %v", got)
			}
			x.conn.CloseNow()

			k.do(wire.Act{Verb: "tabs", Op: "new"})
			origin("a new tab", "null")
			must(t, k.Release(p.ctx))
			if debug == "" {
				return
			}
			// The browser's own page for a new tab, which a person left in front.
			p.worker(nil, `(async () => {
				const tab = await chrome.tabs.create({url: "chrome://new-tab-page/"});
				while ((await chrome.tabs.get(tab.id)).url !== "chrome://new-tab-page/") await new Promise((f) => setTimeout(f, 20));
			})()`)
			must(t, k.Acquire(p.ctx, "test", time.Minute))
			// It takes no debugger, and gives way to one that does.
			if r, err := k.Act(p.ctx, client.NewID(), wire.Act{Verb: "snapshot"}, 0); err != nil || codeOf(r.Error) != core.CodeDocumentChanged || strings.Contains(fmt.Sprint(r.Evidence), "fence") {
				t.Errorf("the browser's own page: %v %+v", err, r)
			}
			k.do(wire.Act{Verb: "snapshot"})
			if got := k.value("origin"); got != "null" {
				t.Errorf("instead of the browser's own page: %v", got)
			}
			k.do(wire.Act{Verb: "navigate", URL: k.page})
			must(t, k.Release(p.ctx))
		})
	}
}

// A page that is busy when it is asked to leave for the empty one does so in the person's
// hands. Until it has, that is said like a click that waits there, and nothing is finished.
func TestABusyPageMayYetLeaveForTheEmptyOne(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	busy, release := k.hold()
	k.dial()
	k.value(`setTimeout(() => {
		for (let held = "true"; held === "true";) {
			const ask = new XMLHttpRequest();
			ask.open("GET", "held", false);
			ask.send();
			held = ask.responseText;
		}
	}, 100), 1`)
	busy()
	id := client.NewID()
	go k.Act(k.ctx, id, wire.Act{Verb: "navigate", URL: "about:blank"}, 0)
	k.settled(id, "the dispatch", func(r *core.Record) bool { return r.Times.Dispatched != 0 })
	k.press(demo.ButtonTakeover)
	st := k.status("the warning", func(s *core.Status) bool {
		return s.Authority.Holder.Kind == "human" && slices.Contains(s.Sentences.Warnings, "A click may still land in this page.")
	})
	if r, err := k.LookUp(k.ctx, id); err != nil || r.Local != core.Running || st.Authority.Fence != "draining" {
		t.Errorf("while the page is busy: %v %+v, the slot %+v", err, r, st)
	}
	release()
	k.status("the drain", func(s *core.Status) bool { return s.Authority.Fence == "drained" })
	if r, err := k.LookUp(k.ctx, id); err != nil || r.Local != core.Finished {
		t.Errorf("when it has left: %v %+v", err, r)
	}
}
