package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// What a binding's settings open works with the published clients, and no further than the
// binding's origins; without them it is refused, and the refusal says which setting it takes.
func TestWhatSettingsOpen(t *testing.T) {
	t.Parallel()
	all := []string{"cookies", "storage", "interception"}
	beyond := map[string]string{"cookies of another site": "origins", "storage of another site": "origins"}
	without := map[string]string{
		"cookies": "--allow cookies", "cookies of another site": "--allow cookies", "storage": "--allow storage",
		"storage of another site": "--allow storage", "interception": "--allow interception",
	}
	for _, name := range []string{"playwright", "puppeteer"} {
		for _, tt := range []struct {
			what    string
			allow   []string
			refused map[string]string
		}{{"with them", all, beyond}, {"without", nil, without}} {
			t.Run(name+" "+tt.what, func(t *testing.T) {
				t.Parallel()
				openProduct(t)
				k := openBoundDesk(t, core.BindingSpec{Origins: []string{product.site.Origin()}, Allow: tt.allow})
				got, err := k.script(name+"-settings.mjs", k.cdpURL(), k.page, k.site.URLAt("a.localhost", k.name, "button", ""), k.site.URL(k.name, "product", ""))
				must(t, err)
				for _, feature := range slices.Sorted(maps.Keys(got)) {
					said, _ := got[feature].(string)
					if word, refused := tt.refused[feature]; refused && strings.Contains(said, word) || !refused && said == "works" {
						continue
					}
					t.Errorf("%s: %s", feature, said)
				}
				if len(got) != 5 {
					t.Errorf("%d features were tried", len(got))
				}
			})
		}
	}
}

// Headers that would go with a page's requests to other websites are not set, whatever the
// binding allows.
func TestExtraHeadersStayWithinTheOrigins(t *testing.T) {
	t.Parallel()
	openProduct(t)
	k := openBoundDesk(t, core.BindingSpec{Origins: []string{product.site.Origin()}, Allow: []string{"cookies", "interception", "storage"}})
	k.do(wire.Act{Verb: "navigate", URL: k.page})
	x := k.tool(k.cdpURL())
	page := x.page()
	f := x.ask(page, "Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]string{"X-Csrf-Token": "1"}})
	if f.Error == nil || !strings.Contains(fmt.Sprint(f.Error), "beyond the binding") {
		t.Errorf("they are set: %+v", f)
	}
	x.want(page, "Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]string{}})
}

// The sign-ins of other origins are not given, by no way of asking, and not touched.
func TestCookiesOfOtherOriginsAreNotGiven(t *testing.T) {
	t.Parallel()
	openProduct(t)
	k := openBoundDesk(t, core.BindingSpec{Origins: []string{product.site.Origin()}, Allow: []string{"cookies"}})
	if !slices.Equal(k.Lease.Allow, []string{"cookies"}) {
		t.Errorf("the agent is told that it may use %q", k.Lease.Allow)
	}
	other := k.site.URLAt("a.localhost", k.name, "signin", "as=hunter2")
	k.asPerson(fmt.Sprintf(`chrome.tabs.create({url: %q, active: false})`, other))
	k.await("the sign-in at the other site", func() bool {
		return k.asPerson(`chrome.tabs.query({}).then((all) => all.some((tab) => tab.url.endsWith('/account') && tab.status === 'complete'))`) == true
	})
	x := k.tool(k.cdpURL())
	page := x.page()
	x.want(page, "Page.navigate", map[string]any{"url": k.site.URL(k.name, "signin", "as=mine")})
	must(t, k.awaitAccount(x, page, "mine"))
	urls := []string{other, k.site.URLAt("a.localhost", k.name, "account", "")}
	for _, session := range []string{"", page} {
		for method, params := range map[string]map[string]any{
			"Storage.getCookies": {}, "Network.getAllCookies": {}, "Network.getCookies": {"urls": append(urls, k.page, k.site.URL(k.name, "account", ""))},
		} {
			if session == "" && method != "Storage.getCookies" {
				continue
			}
			text := string(x.want(session, method, params))
			if strings.Contains(text, "hunter2") || !strings.Contains(text, `"mine"`) || !strings.Contains(text, `"httpOnly":true`) {
				t.Errorf("%s on %q: %s", method, session, text)
			}
		}
	}
	for method, params := range map[string]any{
		"Network.setCookie":     map[string]any{"name": "user", "value": "x", "url": other},
		"Network.deleteCookies": map[string]any{"name": "user", "domain": "a.localhost", "path": "/s/" + k.name + "/"},
		"Storage.setCookies":    map[string]any{"cookies": []any{map[string]any{"name": "user", "value": "x", "domain": "a.localhost", "path": "/s/" + k.name + "/"}}},
	} {
		if f := x.ask(page, method, params); f.Error == nil || !strings.Contains(f.Error.Message, "origins") {
			t.Errorf("%s: %+v", method, f)
		}
	}
	for _, verb := range []string{"Network.getAllCookies", "Storage.getCookies"} {
		r := k.do(wire.Act{Verb: "cdp", Method: verb, Params: json.RawMessage("{}")})
		if text := string(r.Result); strings.Contains(text, "hunter2") || !strings.Contains(text, "mine") {
			t.Errorf("the verb cdp with %s: %s", verb, text)
		}
	}
	x.want("", "Storage.clearCookies", struct{}{})
	if text := string(x.want("", "Storage.getCookies", struct{}{})); strings.Contains(text, "mine") {
		t.Errorf("its own are not cleared: %s", text)
	}
	k.asPerson(fmt.Sprintf(`chrome.tabs.create({url: %q, active: false})`, urls[1]+"?again"))
	k.await("the other site's sign-in, as it was", func() bool { return strings.Contains(k.textOf("?again"), "hunter2") })
}

// A page whose requests an agent holds back is the person's again with the takeover: what
// was held back is failed, unsent, and the page loads.
func TestAPageThatWasHeldBackLoadsForThePerson(t *testing.T) {
	t.Parallel()
	openProduct(t)
	k := openBoundDesk(t, core.BindingSpec{Origins: []string{product.site.Origin()}, Allow: []string{"interception"}})
	x := k.tool(k.cdpURL())
	page := x.page()
	x.want(page, "Page.enable", struct{}{})
	x.want(page, "Fetch.enable", map[string]any{"patterns": []any{map[string]any{"urlPattern": "*"}}})
	save := k.site.URL(k.name, "save", "kind=fetch")
	x.value(page, fmt.Sprintf("void fetch(%q, {method: 'POST'})", save))
	held := x.find("the request, held back", func(f frame) bool { return f.Method == "Fetch.requestPaused" })
	if !strings.Contains(string(held.Params), "/save") {
		t.Fatalf("%s", held.Params)
	}
	product := k.site.URL(k.name, "product", "")
	_, err := x.send(page, "Page.navigate", map[string]any{"url": product})
	must(t, err)
	x.find("the page, held back", func(f frame) bool {
		return f.Method == "Fetch.requestPaused" && strings.Contains(string(f.Params), "/product")
	})
	k.press(demo.ButtonTakeover)
	k.status("the takeover", func(s *core.Status) bool { return s.Authority.Holder.Kind == "human" && s.Authority.Fence == "drained" })
	if n := k.site.Count(k.name).Total; n != 0 {
		t.Errorf("%d requests that were held back have left", n)
	}
	k.asPerson(fmt.Sprintf(`chrome.tabs.query({}).then(([tab]) => chrome.tabs.update(tab.id, {url: %q}))`, product+"?mine"))
	k.await("the person's page", func() bool { return strings.Contains(k.textOf("?mine"), "Product 42") })
	if n := k.site.Count(k.name).Total; n != 0 {
		t.Errorf("%d requests that were held back have left later", n)
	}
}

// A request to another origin is not the agent's to hold back, though its page makes it.
func TestARequestToAnotherOriginIsNotHeldBack(t *testing.T) {
	t.Parallel()
	openProduct(t)
	k := openBoundDesk(t, core.BindingSpec{Origins: []string{product.site.Origin()}, Allow: []string{"interception"}})
	x := k.tool(k.cdpURL())
	page := x.page()
	both := []any{map[string]any{"urlPattern": "*", "requestStage": "Request"}, map[string]any{"urlPattern": "*", "requestStage": "Response"}}
	x.want(page, "Fetch.enable", map[string]any{"patterns": both})
	there := k.site.URLAt("a.localhost", k.name, "product", "")
	if got := x.value(page, fmt.Sprintf("fetch(%q, {mode: 'no-cors'}).then((r) => r.type)", there)); got != "opaque" {
		t.Errorf("the other origin's answer: %v", got)
	}
	id, err := x.send(page, "Runtime.evaluate", evaluation(fmt.Sprintf("fetch(%q).then((r) => r.text())", k.page)))
	must(t, err)
	// Once before it is sent, and once with its answer.
	for _, answered := range []bool{false, true} {
		var m struct {
			Request string `json:"requestId"`
			Status  int    `json:"responseStatusCode"`
		}
		f := x.find("a request of its own", func(f frame) bool { return f.Method == "Fetch.requestPaused" })
		must(t, json.Unmarshal(f.Params, &m))
		if (m.Status != 0) != answered {
			t.Errorf("with its answer %v: held back at status %d", answered, m.Status)
		}
		if answered {
			if body := string(x.want(page, "Fetch.getResponseBody", map[string]any{"requestId": m.Request})); !strings.Contains(body, "body") {
				t.Errorf("the body: %s", body)
			}
		}
		x.want(page, "Fetch.continueRequest", map[string]any{"requestId": m.Request})
		x.forget("Fetch.requestPaused")
	}
	if !x.answered(id) {
		t.Error("its own request did not end")
	}
	if f := x.ask(page, "Fetch.getResponseBody", map[string]any{"requestId": "interception-job-1.0"}); f.Error == nil || !strings.Contains(f.Error.Message, "held back") {
		t.Errorf("by a name that was guessed: %+v", f)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.got {
		if f.Method == "Fetch.requestPaused" && strings.Contains(string(f.Params), "a.localhost") {
			t.Errorf("told of %s", f.Params)
		}
	}
}

// forget takes the frames of an event out of what has come.
func (x *tool) forget(method string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.got = slices.DeleteFunc(x.got, func(f frame) bool { return f.Method == method })
}

// asPerson does in the slot's browser what a person at it could.
func (k *desk) asPerson(expression string) (got any) {
	k.t.Helper()
	k.dial()
	must(k.t, k.hand.Pipe().Eval(k.ctx, k.hand.Worker(), expression+".then((got) => got === true || typeof got === 'string' ? got : 0)", &got))
	return got
}

// textOf is what the page of the tab at an address with such an end shows.
func (k *desk) textOf(end string) string {
	text, _ := k.asPerson(fmt.Sprintf(`chrome.tabs.query({}).then(async (all) => {
		const tab = all.find(({url, status}) => url.endsWith(%q) && status === 'complete');
		if (!tab) return '';
		const [{result}] = await chrome.scripting.executeScript({target: {tabId: tab.id}, func: () => document.body.innerText});
		return result;
	})`, end)).(string)
	return text
}

// awaitAccount waits until a page says who is signed in.
func (k *desk) awaitAccount(x *tool, page, name string) error {
	for range 200 {
		f := x.ask(page, "Runtime.evaluate", evaluation("document.body?.innerText ?? ''"))
		if f.Error == nil && strings.Contains(string(f.Result), name) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("nobody named %s is signed in", name)
}
