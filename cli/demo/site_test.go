package demo

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"
)

func post(t *testing.T, ctx context.Context, url string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// A save counts from the moment in which it arrives, whatever becomes of its
// client, and only in its own scope.
func TestSiteCountsWhatArrived(t *testing.T) {
	site, err := OpenSite()
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	for _, kind := range []Kind{KindBeacon, KindKeepalive, KindTimer, KindForm} {
		if status, err := post(t, t.Context(), site.URL("one", "save", "kind="+string(kind))); err != nil || status != 200 {
			t.Fatalf("save by %s: status %d, %v", kind, status, err)
		}
	}
	gone, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := post(t, gone, site.URL("two", "save", "kind=fetch&delay=5000")); err == nil {
		t.Error("the answer came before its delay")
	}
	if status, err := post(t, t.Context(), site.URL("one", "save", "kind=other")); err != nil || status != 400 {
		t.Errorf("a save of no known kind: status %d, %v", status, err)
	}
	if c := site.Count("one"); c.Total != 4 || c.ByKind[KindForm] != 1 {
		t.Errorf("scope one counts %+v, want one each of four kinds", c)
	}
	if c := site.Count("two"); c.Total != 1 || c.ByKind[KindFetch] != 1 {
		t.Errorf("scope two counts %+v, want the one fetch whose client left", c)
	}
	if !site.Saves("two")[0].Answered.IsZero() {
		t.Error("a save is answered before its delay")
	}
}

// A scope that is held is kept waiting, and no other one.
func TestSiteHolds(t *testing.T) {
	site, err := OpenSite()
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	held := func(scope string) string {
		t.Helper()
		resp, err := http.Get(site.URL(scope, "held", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	reached, release := site.Hold("one")
	answer := make(chan error, 1)
	go func() {
		_, err := post(t, t.Context(), site.URL("one", "save", "kind=fetch&delay=0"))
		answer <- err
	}()
	<-reached
	if !site.WaitSaves(t.Context(), "one", 1) || held("one") != "true" || held("two") != "false" {
		t.Error("scope one is not held, or another one is")
	}
	if !site.Saves("one")[0].Answered.IsZero() {
		t.Error("a save is answered while its scope is held")
	}
	release()
	release()
	if err := <-answer; err != nil || site.Saves("one")[0].Answered.IsZero() || held("one") != "false" {
		t.Errorf("scope one is still held: %v", err)
	}
}

// Every page is served whole, and no other name is.
func TestSitePages(t *testing.T) {
	site, err := OpenSite()
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	for page, want := range map[string]int{
		"product": 200, "form": 200, "busy": 200, "child": 200, "saved": 200, "script": 200, "webdriver": 200, "button": 200, "noise": 200,
		"account": 200, "changes": 200,
		"base": 404, "other": 404,
	} {
		resp, err := http.Get(site.URL("pages", page, "more=1"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", page, resp.StatusCode, want)
		}
	}
}

// The account page shows who signed in, in that scope alone, and the page of changes
// whether one was applied.
func TestSiteKnowsWhoIsSignedIn(t *testing.T) {
	site, err := OpenSite()
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	text := func(scope, page, query string) string {
		t.Helper()
		resp, err := browser.Get(site.URL(scope, page, query))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if got := text("one", "signin", "as=ada"); !strings.Contains(got, `id="account">ada</b>`) {
		t.Errorf("after a sign-in: %s", got)
	}
	if got := text("two", "account", "say=ada"); strings.Contains(got, `id="account"`) || !strings.Contains(got, ">ada</span>") {
		t.Errorf("in another scope: %s", got)
	}
	if got := text("one", "signin", ""); strings.Contains(got, `id="account"`) {
		t.Errorf("after a sign-out: %s", got)
	}
	if got := text("one", "changes", ""); !strings.Contains(got, ">no changes<") {
		t.Errorf("changes: %s", got)
	}
	if _, err := post(t, t.Context(), site.URL("one", "save", "kind=beacon")); err != nil {
		t.Fatal(err)
	}
	if got := text("one", "changes", ""); !strings.Contains(got, ">1 change(s)<") {
		t.Errorf("changes: %s", got)
	}
}
