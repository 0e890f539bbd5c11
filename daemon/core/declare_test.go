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
	for _, o := range []string{"https://shop.example", "http://localhost:3000", "https://shop.example:443", "http://127.0.0.1:8080", "http://[::1]:3", "https://xn--bcher-kva.example", "https://a_b.example", "http://[::ffff:102:304]", "http://4.shop.example", "http://a.0xyz"} {
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
		"http://0x7f.1": "four decimal", "http://127.1": "four decimal", "http://2130706433": "four decimal", "http://010.0.0.1": "four decimal",
		"http://256.0.0.1": "four decimal", "http://shop.1": "four decimal", "http://1.2.3.4.0x5": "four decimal", "http://[::ffff:1.2.3.4]": "http://[::ffff:102:304]",
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

func TestAFieldIsOneLineOfText(t *testing.T) {
	for account, refused := range map[string]bool{"ada@shop.example": false, "Größe 漢": false, "a\nb": true, "\x1b[2J": true, "a\x7f": true, "a\u0085": true} {
		err := core.CheckSpec(core.BindingSpec{Name: "b", Slot: "s", Account: account})
		if (err != nil) != refused {
			t.Errorf("account %q: %v", account, err)
		}
	}
}

// Who hands back too early is told how long a quiet action is watched yet.
func TestAHandbackSaysHowLongAnActionIsWatched(t *testing.T) {
	w := prepared(t)
	a := w.act(w.acquire("token-a"), core.Write)
	w.must(core.Reported{Slot: "shop", Nonce: nonce, Report: report(a, 1, "barrier", 0, nil)})
	w.finish(a, "finished", 3, 3)
	w.must(core.Takeover{Slot: "shop", Surface: "cli", By: "human:cli"})
	w.drain(nonce, report(a, 1, "barrier", 0, nil))
	w.pass(2000)
	if e := w.refused(core.CodeConflict, core.Handback{Slot: "shop", By: "human:cli"}).Refusal; !strings.Contains(e.Message, "none_seen so far, watched for 3 s more") {
		t.Errorf("it says %q", e.Message)
	}
}
