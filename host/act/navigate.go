package act

import (
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/chromedp/cdproto/page"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// documentPoll is after how long the extension is asked once more for the tab's
// document. It learns of a commit a little after the browser.
const documentPoll = 20 * time.Millisecond

// checkURL refuses what an agent may not open. Chromium navigates to chrome: and
// then detaches for good, so that must be refused before it is sent.
func checkURL(s string) *core.Error {
	u, err := url.Parse(s)
	switch {
	case err != nil || len(s) > 1<<20:
		return badArgument("the address is not valid")
	case u.Scheme == "http" || u.Scheme == "https":
		if u.Host == "" {
			return badArgument("the address has no host")
		}
		return nil
	case s == "about:blank":
		return nil
	}
	return notAllowed("an agent opens http, https and about:blank only", "use an http or https address")
}

func (r *run) navigate() ([][]byte, error) {
	if bad := checkURL(r.a.Act.URL); bad != nil {
		return nil, bad
	}
	r.plan(1)
	// A tab with no document that can be told (a crashed one, a blank one) can be
	// navigated all the same; the gate decides on the step itself.
	before, err := r.leave()
	if err != nil && r.ctx.Err() != nil {
		return nil, err
	}
	a, err := r.do(effect(cdp(page.CommandNavigate, page.NavigateParams{URL: r.a.Act.URL})))
	if err != nil {
		return nil, err
	}
	var got struct {
		LoaderID   string `json:"loaderId"`
		ErrorText  string `json:"errorText"`
		IsDownload bool   `json:"isDownload"`
	}
	if err := json.Unmarshal(a.Result, &got); err != nil {
		return nil, badAnswer("Page.navigate", err)
	}
	result := map[string]any{}
	if got.IsDownload {
		result["download"] = true
	}
	switch {
	case got.ErrorText != "":
		// The browser tried and says what came of it; the tab may show its own page
		// of the error, or still the former document.
		result["error_text"] = got.ErrorText
		r.look()
	case got.LoaderID == "":
		// Within the document: the address changed, nothing was loaded.
		result["same_document"] = true
		r.look()
	default:
		if err := r.arrive(before, got.LoaderID); err != nil {
			return nil, err
		}
	}
	return r.arrived(result), nil
}

func (r *run) reload() ([][]byte, error) {
	r.plan(1)
	before, err := r.leave()
	if err != nil {
		return nil, err
	}
	if _, err := r.do(effect(cdp(page.CommandReload, nil))); err != nil {
		return nil, err
	}
	if err := r.arrive(before, ""); err != nil {
		return nil, err
	}
	return r.arrived(map[string]any{}), nil
}

// historyStep names an entry of the tab's history for the dispatch gate. The tab may
// be a person's, so the address stays between the host and the gate: the gate holds
// it to the lease's origins, and takes it out before the browser is asked.
type historyStep struct {
	EntryID int64  `json:"entryId"`
	URL     string `json:"url"`
}

type history struct {
	CurrentIndex int `json:"currentIndex"`
	Entries      []struct {
		ID  int64  `json:"id"`
		URL string `json:"url"`
	} `json:"entries"`
}

func (r *run) history() (history, error) {
	var h history
	a, err := r.do(cdp(page.CommandGetNavigationHistory, nil))
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(a.Result, &h); err != nil {
		return h, badAnswer("Page.getNavigationHistory", err)
	}
	return h, nil
}

func (r *run) back() ([][]byte, error) {
	r.plan(1)
	before, err := r.leave()
	if err != nil {
		return nil, err
	}
	h, err := r.history()
	if err != nil {
		return nil, err
	}
	if h.CurrentIndex < 1 || h.CurrentIndex >= len(h.Entries) {
		return nil, core.Refuse(core.CodeConflict, "the tab's history has no earlier entry", "navigate instead")
	}
	to := h.Entries[h.CurrentIndex-1]
	// The first entry of a tab can be a page that an agent may not open.
	if bad := checkURL(to.URL); bad != nil {
		return nil, bad
	}
	if _, err := r.do(effect(cdp(page.CommandNavigateToHistoryEntry, historyStep{to.ID, to.URL}))); err != nil {
		return nil, err
	}
	r.moved()
	// An entry of the same document has no new one to wait for: the history itself
	// tells when it is there.
	for {
		now, err := r.history()
		if err == nil && now.CurrentIndex == h.CurrentIndex-1 {
			break
		}
		if r.ctx.Err() != nil {
			return nil, errStopped
		}
		if err := r.pause(documentPoll); err != nil {
			return nil, err
		}
	}
	if err := r.parsed(core.Expect{Tab: r.expect.Tab}); err != nil {
		return nil, err
	}
	result := map[string]any{}
	if r.observed != nil && r.observed.Document == before {
		result["same_document"] = true
	}
	return r.arrived(result), nil
}

// leave returns the document that is about to be left, if it can be told. The
// effect that follows is still held to what the agent expected.
func (r *run) leave() (core.DocumentID, error) {
	if r.expect.Tab != 0 && r.expect.Document != "" {
		return r.expect.Document, nil
	}
	pinned := r.expect
	a, err := r.do(wire.Cmd{Kind: "document"})
	if err != nil {
		return "", err
	}
	if pinned.Document == "" {
		r.expect.Document = "" // any document of that tab may be left
	}
	if a.Observed == nil {
		return "", nil
	}
	return a.Observed.Document, nil
}

// moved says that the document of this action is not the former one any more.
func (r *run) moved() {
	r.mayMove = true
	r.expect.Document = ""
	r.observed = nil
	r.url = ""
}

// look asks once what the tab shows now. That it cannot be told is no fault of the
// navigation: a browser's own error page is nobody's document.
func (r *run) look() {
	r.moved()
	r.do(wire.Cmd{Kind: "document"}) //nolint:errcheck // learn has what there is
}

// followWait is how long the document of a navigation is waited for when another one has
// come first.
const followWait = 300 * time.Millisecond

// arrive waits for a document other than before, that of a loader if one is named, and
// until it is parsed. What an earlier navigation has put there first is not taken for it;
// but a page may send the browser on, too, and then what is there is what has come of it.
func (r *run) arrive(before core.DocumentID, loader string) error {
	r.moved()
	others := false
	for {
		wait := struct {
			Before core.DocumentID `json:"before"`
			Ms     int64           `json:"ms,omitempty"`
		}{Before: before}
		if others {
			wait.Ms = followWait.Milliseconds()
		}
		a, err := r.do(wire.Cmd{Kind: "document", Params: jsonOf(wait)})
		if there := a.Observed; err == nil && there != nil && there.Document != "" && (there.Document != before || others) {
			if there.Document == before || loader == "" || r.loaded(*there, loader) {
				return r.parsed(*there)
			}
			before, others = there.Document, true
			r.moved()
			continue
		}
		if r.ctx.Err() != nil {
			return errStopped
		}
		if err := r.pause(documentPoll); err != nil {
			return err
		}
	}
}

// loaded says whether a document is a loader's, as far as it can be told.
func (r *run) loaded(in core.Expect, loader string) bool {
	r.expect = in
	frame, err := r.mainFrame()
	if err != nil {
		return false
	}
	r.x.worlds.mainFrame(in.Tab, frame.ID)
	return frame.LoaderID == loader
}

// parsed waits for DOMContentLoaded, in a document or in whatever the tab comes to after
// it: a page may send the browser on before it is parsed.
func (r *run) parsed(in core.Expect) error {
	r.expect = in
	for {
		var err error
		if r.expect.Document == "" {
			err = r.resolve()
		}
		if err == nil {
			_, err = r.call("wait", map[string]any{"target": target{}, "state": "parsed", "ms": r.patience(waitTurn)}, false)
		}
		if err == nil {
			return nil
		}
		if r.ctx.Err() != nil {
			return errStopped
		}
		var e *core.Error
		if errors.As(err, &e) && (e.Code == core.CodePolicy || e.Code == core.CodeFenced) {
			return err
		}
		if err := r.pause(documentPoll); err != nil {
			return err
		}
		r.expect.Document = ""
	}
}

func (r *run) arrived(result map[string]any) [][]byte {
	if r.url != "" {
		result["url"] = clip(r.url, wire.MaxURL)
	}
	return jsonResult(result)
}

// tabs lists, opens, closes or chooses tabs. The extension knows which ones the
// agent may see.
func (r *run) tabs() ([][]byte, error) {
	c := wire.Cmd{Kind: "tabs"}
	r.mayMove = true
	switch r.a.Act.Op {
	case "", "list":
	case "new":
		at := r.a.Act.URL
		if at == "" {
			at = "about:blank"
		}
		if bad := checkURL(at); bad != nil {
			return nil, bad
		}
		c = effect(wire.Cmd{Kind: "tab_create", Params: jsonOf(map[string]string{"url": at})})
	case "close", "select":
		if r.expect.Tab == 0 {
			return nil, badArgument("tabs %s needs the tab, in expect.tab", r.a.Act.Op)
		}
		c = effect(wire.Cmd{Kind: "tab_close"})
		if r.a.Act.Op == "select" {
			c = effect(wire.Cmd{Kind: "tab_activate"})
		}
	default:
		return nil, badArgument("there is no tabs %q: use list, new, close or select", clip(r.a.Act.Op, 20))
	}
	a, err := r.do(c)
	if err != nil {
		return nil, err
	}
	if len(a.Result) == 0 {
		return [][]byte{[]byte("{}")}, nil
	}
	return [][]byte{a.Result}, nil
}
