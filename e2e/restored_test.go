package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// A browser that was ended cleanly comes up with its tabs, and those behind have no page
// until something loads it. A client attaches to all of them and works in each: nothing
// there is taken for a crash, the load is nobody's action, and the tab in front stays there.
func TestRestoredTabsAreDriven(t *testing.T) {
	t.Parallel()
	const tabs, restarts = 3, 2
	k := openDesk(t, "button", "")
	for n := range tabs {
		k.do(wire.Act{Verb: "tabs", Op: "new", URL: k.site.URL(k.name, "product", fmt.Sprint("n=", n))})
	}
	must(t, k.Release(k.ctx))
	for range restarts {
		k.status("the slot to be at rest", func(s *core.Status) bool { return s.Offer.Available })
		if k.hand != nil {
			k.hand.Close()
			k.hand = nil
		}
		_, err := k.d.Control.Change(k.ctx, k.slot(), client.Stop, wire.ChangeRequest{By: "test"})
		must(t, err)
		k.status("the browser's end", func(s *core.Status) bool { return s.Local.Launch.State == "ended" })
		must(t, k.d.StartSlot(k.ctx, k.name))
		k.dial()
		front := func() (id float64) {
			t.Helper()
			must(t, k.hand.Pipe().Eval(k.ctx, k.hand.Worker(), `chrome.tabs.query({active: true}).then(([tab]) => tab.id)`, &id))
			return id
		}
		shown := func() (n int) {
			t.Helper()
			must(t, k.hand.Pipe().Eval(k.ctx, k.hand.Worker(), `chrome.tabs.query({}).then((tabs) => tabs.length)`, &n))
			return n
		}
		before := front()
		k.Agent, err = k.d.NewAgent(k.ctx, "ada", k.name)
		must(t, err)
		must(t, k.Acquire(k.ctx, "test", 0))
		x := k.tool(k.cdpURL())
		x.page()
		var asked []int
		for n := range shown() {
			session := x.attachedNth(n)
			for _, method := range []string{"Page.enable", "Runtime.enable", "Page.getFrameTree"} {
				_, err := x.send(session, method, struct{}{})
				must(t, err)
			}
			_, err := x.send(session, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": ""})
			must(t, err)
			id, err := x.send(session, "Runtime.evaluate", evaluation("location.href"))
			must(t, err)
			asked = append(asked, id)
		}
		for _, id := range asked {
			f := x.find("the answer from a tab", func(f frame) bool { return f.ID == id })
			if f.Error != nil || !strings.Contains(string(f.Result), k.site.Origin()) {
				t.Errorf("a restored tab answers %s %+v", f.Result, f.Error)
			}
		}
		x.conn.CloseNow()
		if after := front(); after != before {
			t.Errorf("the tab in front was %v and is %v", before, after)
		}
		all, err := k.d.Control.Actions(k.ctx, k.slot(), false)
		must(t, err)
		for _, r := range all {
			if r.Lease == k.Lease.Lease && slices.ContainsFunc(r.Evidence, func(e core.Evidence) bool { return strings.HasSuffix(e.URL, "/product") }) {
				t.Errorf("the load of a tab is put down to %s: %+v", r.Summary, r.Evidence)
			}
		}
		if t.Failed() {
			return // it would not be offered
		}
		k.offered()
	}
}

// attachedNth waits for the session of the nth tab that the client was told of.
func (x *tool) attachedNth(n int) string {
	x.t.Helper()
	var m struct {
		Session string `json:"sessionId"`
	}
	must(x.t, json.Unmarshal(x.find("a tab", func(f frame) bool {
		if f.Method == "Target.attachedToTarget" {
			n--
		}
		return n < 0
	}).Params, &m))
	return m.Session
}
