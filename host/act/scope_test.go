package act

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// The host and the dispatch gate agree on what is beyond a binding's origins.
func TestScopeVectors(t *testing.T) {
	raw, err := os.ReadFile("../../extension/test/vectors/scope.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Method         string
		Params         json.RawMessage
		Origins, Allow []string
		Code           core.Code
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		_, bad := ruleFor(wire.Action{Act: wire.Act{Method: v.Method, Params: v.Params}, Origins: v.Origins, Allow: v.Allow})
		if got := code(bad); got != v.Code {
			t.Errorf("%s %s within %v: %q, want %q: %v", v.Method, v.Params, v.Origins, got, v.Code, bad)
		}
	}
}

func code(e *core.Error) core.Code {
	if e == nil {
		return ""
	}
	return e.Code
}

// Every method that a setting opens is tried by a vector, unless it names nothing that
// could be beyond the origins.
func TestASettingOpensItsMethodsOnly(t *testing.T) {
	params := json.RawMessage(`{"cookies":[],"storageKey":"https://shop.test/"}`)
	for method, row := range wire.Methods {
		if row.Needs == "" {
			continue
		}
		for _, s := range core.Settings {
			a := wire.Action{Act: wire.Act{Method: method, Params: params}, Allow: []string{s.Name}}
			_, bad := ruleFor(a)
			if opens := s.Name == row.Needs; opens != (bad == nil) || !opens && bad.Detail["setting"] != row.Needs {
				t.Errorf("%s with %s: %v", method, s.Name, bad)
			}
		}
	}
}

func TestCookiesOfOtherOriginsAreTakenOut(t *testing.T) {
	all := json.RawMessage(`{"cookies":[{"domain":"shop.test"},{"domain":".shop.test","value":"v"},{"domain":"www.shop.test"},{"domain":"bank.test"},{},7]}`)
	got := within{"https://shop.test"}.only("Network.getCookies", all)
	if want := `{"cookies":[{"domain":"shop.test"},{"domain":".shop.test","value":"v"}]}`; string(got) != want {
		t.Errorf("%s", got)
	}
	if got := (within{"https://shop.test"}).only("Storage.getCookies", json.RawMessage(`{}`)); string(got) != `{"cookies":[]}` {
		t.Errorf("none: %s", got)
	}
	if got := (within{}).only("Network.getAllCookies", all); !slices.Equal(got, all) {
		t.Errorf("without origins: %s", got)
	}
	if got := (within{"https://shop.test"}).only("Runtime.evaluate", all); !slices.Equal(got, all) {
		t.Errorf("of another method: %s", got)
	}
}
