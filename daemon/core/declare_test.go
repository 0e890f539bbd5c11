package core_test

import (
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

func TestOriginsAreWrittenAsBrowsersDo(t *testing.T) {
	check := func(origin string) *core.Error {
		return core.CheckSpec(core.BindingSpec{Name: "b", Slot: "s", Origins: []string{origin}})
	}
	for _, o := range []string{"https://shop.example", "http://localhost:3000", "https://shop.example:443", "http://127.0.0.1:8080", "http://[::1]:3", "https://xn--bcher-kva.example", "https://a_b.example"} {
		if err := check(o); err != nil {
			t.Errorf("%s: %v (%s)", o, err, err.Hint)
		}
	}
	for o, hint := range map[string]string{
		"": "for example", "shop.example": "for example", "https://": "for example", "https://shop.example/": "for example",
		"https://:443": "for example", "https://shop.example:": "leave the colon out", "https://shop.example:99999": "65535",
		"https://shop.example:0": "65535", "https://shop.example?": "for example", "https://shop.example?q": "for example",
		"https://shop.example#": "for example", "https://shop.example#f": "for example", "https://*.shop.example": "wildcards", "*": "wildcards",
		"http://a..b": "for example", "http://a.b.": "for example", "https://-a.example": "for example", "https://bücher.example": "punycode",
		"https://SHOP.example": "https://shop.example", "HTTPS://shop.example": "https://shop.example", "https://shop.example:080": "https://shop.example:80",
		"http://[0:0::1]": "http://[::1]", "http://[fe80::1%25eth0]": "for example", "ftp://x": "for example", "https://u:p@shop.example": "for example",
		"https://shop.example,https://b.example": "for example", "https://shop example": "for example",
	} {
		if err := check(o); err == nil || err.Code != core.CodeInvalid || !strings.Contains(err.Hint, hint) {
			t.Errorf("%q: %+v, want the hint %q", o, err, hint)
		}
	}
}

func TestAKeySaysOnceHowItIsWanted(t *testing.T) {
	check := func(key string) *core.Error {
		return core.CheckSpec(core.BindingSpec{Name: "b", Slot: "s", Keys: []string{key}})
	}
	for _, k := range []string{"shop:product/42", "shop:orders:shared", "shared", "exclusive:x", "shared:shared"} {
		if err := check(k); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	for k, hint := range map[string]string{"x:Shared": "x:shared", "k:exclusive": "write k,", "k:Exclusive:shared": "k:shared", "k:shared:shared": "k:shared", ":shared": "for example"} {
		if err := check(k); err == nil || err.Code != core.CodeInvalid || !strings.Contains(err.Hint, hint) {
			t.Errorf("%q: %+v, want the hint %q", k, err, hint)
		}
	}
}
