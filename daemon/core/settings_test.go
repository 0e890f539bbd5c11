package core_test

import (
	"slices"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// A binding allows what there is to allow, each once; what it allows goes out with the grant
// and stands in the slot's status.
func TestABindingAllows(t *testing.T) {
	w := prepared(t)
	spec := core.BindingSpec{Name: "open", Slot: "shop", Account: "none", Allow: []string{"cookies", "interception"}}
	for _, bad := range [][]string{{"cookie"}, {""}, {"cookies", "cookies"}, {"Cookies"}, {"cookies,storage"}, {"permissions"}} {
		wrong := spec
		wrong.Allow = bad
		res := w.refused(core.CodeInvalid, core.Bind{Spec: wrong, By: "human:test"})
		if len(bad) == 1 && !strings.Contains(res.Refusal.Hint, "cookies, storage, interception") {
			t.Errorf("%q: the hint is %q", bad, res.Refusal.Hint)
		}
	}
	w.must(core.Bind{Spec: spec, By: "human:test"})
	narrower := spec
	narrower.Allow = nil
	w.refused(core.CodeConflict, core.Bind{Spec: narrower, By: "human:test"})
	w.must(core.Delegate{ID: "d3", Hash: "token-c", Binding: "open", Agent: "agent-c", By: "human:test"})
	w.must(core.Acquire{Lease: "lease", Token: "token-c", CapHash: "cap", RequestID: "r", Binding: "open", ForMs: 600_000})
	w.must(core.Pull{Slot: "shop", Nonce: nonce, Ask: 1})
	var grant core.SendGrant
	for _, eff := range w.sent {
		if g, ok := eff.(core.SendGrant); ok && g.Epoch != 0 {
			grant = g
		}
	}
	if !slices.Equal(grant.Allow, spec.Allow) {
		t.Errorf("the grant allows %q", grant.Allow)
	}
	if got := core.StatusOf(w.s, w.now, "shop").Allow; !slices.Equal(got, spec.Allow) {
		t.Errorf("the status says %q", got)
	}
}
