package act

import (
	"encoding/json"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// TestErrorsRepeatNothingThatWasTyped: errors are kept with the action. What a browser or
// a page puts into its message is taken out again; where to act and which method stay.
func TestErrorsRepeatNothingThatWasTyped(t *testing.T) {
	secret := `hunter2 "and" more`
	inJSON := `hunter2 \"and\" more`
	for name, a := range map[string]wire.Act{
		"value":      {Verb: "fill", Value: &secret},
		"expression": {Verb: "evaluate", Expression: secret},
		"parameter":  {Verb: "cdp", Params: json.RawMessage(`{"a":[{"b":"hunter2 \"and\" more"}]}`)},
	} {
		e := core.Refuse(core.CodeConflict, "Unexpected event type '"+secret+"' or "+inJSON, "not "+secret).With("cdp_message", secret).With("cdp_code", -32602)
		got := secrecy(e, typed(a))
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "hunter2") || !strings.Contains(got.Message, "Unexpected event type '…'") || got.Detail["cdp_code"] != -32602 {
			t.Errorf("%s: %s", name, raw)
		}
		if !strings.Contains(e.Message, "hunter2") {
			t.Errorf("%s: the error itself was changed", name)
		}
	}
	address := wire.Act{Verb: "navigate", URL: "https://ada:pass@shop.example/orders?token=abc#frag"}
	got := secrecy(core.Refuse(core.CodeConflict, "no https://ada:pass@shop.example/orders?token=abc#frag here", ""), typed(address))
	if got.Message != "no https://…@shop.example/orders?…#… here" {
		t.Errorf("an address: %s", got.Message)
	}
	if _, e := parseChord("hunter2"); e == nil || strings.Contains(e.Message, "hunter2") {
		t.Errorf("a key that is none: %v", e)
	}
	if _, e := parseChord("hunter2+a"); e == nil || strings.Contains(e.Message, "hunter2") {
		t.Errorf("a modifier that is none: %v", e)
	}
	allow := wire.Act{Verb: "cdp", Method: "Browser.setPermission", Params: json.RawMessage(`{"setting":"allow"}`)}
	_, refused := ruleFor(wire.Action{Act: wire.Act{Method: "Network.getCookies", Params: json.RawMessage(`{}`)}})
	if got := secrecy(refused, typed(allow)); got == nil || !strings.Contains(got.Message, "does not allow cookies") || !strings.Contains(got.Hint, "--allow cookies") {
		t.Errorf("our own words: %+v", got)
	}
	if secrecy(nil, typed(address)) != nil {
		t.Error("no error became one")
	}
}

// A client is not told to send again what was dispatched and may have been carried out.
func TestADispatchedEffectIsNotSentAgain(t *testing.T) {
	crashed := &core.Error{Code: core.CodeUnavailable, Message: "the page's renderer crashed"}
	for _, c := range []struct {
		class      core.Class
		dispatched bool
		want       core.Code
	}{
		{core.Write, true, core.CodeOutcomeUnknown},
		{core.Write, false, core.CodeUnavailable},
		{core.Read, true, core.CodeUnavailable},
	} {
		got := ClientError(c.class, Answer{Dispatched: c.dispatched, Error: crashed})
		if want := wire.ErrorOf(&core.Error{Code: c.want}); got.Code != want.Code || !strings.Contains(got.Message, string(c.want)) || !strings.Contains(got.Message, crashed.Message) {
			t.Errorf("%s, dispatched %v: %+v, want %s", c.class, c.dispatched, got, c.want)
		}
	}
	if got := ClientError(core.Write, bad(true, core.CodeUnavailable, "Inspected target navigated or closed", -32000)); got.Code != -32000 {
		t.Errorf("the browser's own: %+v", got)
	}
}
