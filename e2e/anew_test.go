package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// TestExtensionLoadedAnew loads the extension anew in the middle of a launch, as an update
// does. It has forgotten whose tabs are whose and which pages hold scripts: what a person
// opened while holding is not lent, and another agent waits for the browser's end.
func TestExtensionLoadedAnew(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	other, err := k.d.NewAgent(k.ctx, "bob", k.name)
	must(t, err)
	if got := k.value("1 + 1"); got != 2.0 {
		t.Fatalf("1 + 1 is %v", got)
	}
	k.press(demo.ButtonTakeover)
	k.status("the takeover", func(s *core.Status) bool { return s.Authority.Holder.Kind == "human" && s.Authority.Fence == "drained" })
	mine := k.site.URL(k.name, "product", "of=person")
	must(t, k.hand.Pipe().Eval(k.ctx, k.hand.Worker(), fmt.Sprintf(`chrome.tabs.create({url: %q, active: false}).then(() => 0)`, mine), nil))
	k.back()
	must(t, k.Acquire(k.ctx, "before", time.Minute))
	if got := k.tabs(); len(got) != 1 || strings.Contains(got[0], "of=person") {
		t.Fatalf("before it is loaded anew the agent sees %q", got)
	}
	before := k.Lease.Epoch
	// runtime.reload() would leave one that a switch has loaded disabled.
	dirs, err := filepath.Glob(filepath.Join(k.d.Paths.Data, "extension", "*", "manifest.json"))
	if must(t, err); len(dirs) != 1 {
		t.Fatalf("the extension's files: %q", dirs)
	}
	must(t, k.hand.Pipe().Call(k.ctx, "", "Extensions.loadUnpacked", map[string]any{"path": filepath.Dir(dirs[0])}, nil))
	k.status("the link to be lost and to come back", func(s *core.Status) bool {
		return s.Authority.Epoch > before && s.Local.Launch.Link == "up" && s.Authority.Fence == "drained"
	})
	must(t, k.Resume(k.ctx, 0))
	if got := k.tabs(); len(got) != 0 {
		t.Errorf("after it was loaded anew the agent sees %q", got)
	}
	k.do(wire.Act{Verb: "tabs", Op: "new", URL: k.page})
	if got := k.tabs(); len(got) != 1 {
		t.Errorf("of its own the agent sees %q", got)
	}
	must(t, k.Release(k.ctx))
	st := k.status("the drain", func(s *core.Status) bool { return s.Authority.Fence == "drained" })
	if !slices.ContainsFunc(st.Local.Documents, func(d core.DocNow) bool { return d.Document == "" && d.Agent == "ada" }) {
		t.Errorf("which pages may hold ada's script is forgotten, and not said: %+v", st.Local.Documents)
	}
	if err := other.Acquire(k.ctx, "another", time.Second); codeOf(err) == "" {
		t.Error("another agent has the slot")
	}
}

// back hands the slot back, to nobody.
func (k *desk) back() {
	k.t.Helper()
	_, err := k.d.Control.Change(k.ctx, k.slot(), client.Handback, wire.ChangeRequest{Confirm: true})
	must(k.t, err)
}

// tabs are the addresses of the tabs that the agent sees.
func (k *desk) tabs() (urls []string) {
	k.t.Helper()
	var out struct{ Tabs []wire.TabRef }
	r := k.do(wire.Act{Verb: "tabs"})
	must(k.t, json.Unmarshal(r.Result, &out))
	for _, tab := range out.Tabs {
		urls = append(urls, tab.URL)
	}
	return urls
}
