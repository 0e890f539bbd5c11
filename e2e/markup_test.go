package e2e

import (
	"encoding/json"
	"slices"
	"testing"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// Code that an agent leaves in a page as markup is told of like any other script of its.
func TestMarkupOfAnAgentIsToldOf(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	node := func(method string, params map[string]any) (id int) {
		t.Helper()
		body, err := json.Marshal(params)
		must(t, err)
		r := k.do(wire.Act{Verb: "cdp", Method: method, Params: body})
		var got struct {
			Root   struct{ NodeID int }
			NodeID int
		}
		must(t, json.Unmarshal(r.Result, &got))
		return max(got.Root.NodeID, got.NodeID)
	}
	root := node("DOM.getDocument", map[string]any{})
	save := node("DOM.querySelector", map[string]any{"nodeId": root, "selector": "#save"})
	node("DOM.setAttributeValue", map[string]any{"nodeId": save, "name": "onclick", "value": "document.title = 'the agent’s'"})
	k.press(demo.ButtonTakeover)
	st := k.status("the drain", func(s *core.Status) bool { return s.Authority.Holder.Kind == "human" && s.Authority.Fence == "drained" })
	if !slices.ContainsFunc(st.Local.Documents, func(d core.DocNow) bool { return d.Why == "agent_script" && d.URL == k.page }) {
		t.Errorf("the page is not among %+v", st.Local.Documents)
	}
	if !slices.Contains(st.Sentences.Warnings, "Code that the agent put into this page may still run. Reload before you type a secret.") {
		t.Errorf("the person is not warned: %q", st.Sentences.Warnings)
	}
}
