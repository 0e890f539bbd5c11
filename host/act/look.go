package act

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/chromedp/cdproto/page"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

const (
	// maxSnapshot bounds a snapshot's text, in bytes of UTF-8.
	maxSnapshot = 256 << 10
	// waitTurn is how long one call of the page waits: a document that goes away
	// meanwhile is noticed when its call ends.
	waitTurn = 5 * time.Second
	// maxCapture bounds the sides of a picture of a whole page, in CSS pixels:
	// Chromium's own textures end there.
	maxCapture = 16384
)

// waitFor waits until the target is as asked for, and to the end of the action's
// time. A page that is replaced meanwhile is followed, unless a document was
// expected by name.
func (r *run) waitFor() ([][]byte, error) {
	state := r.a.Act.State
	switch state {
	case "":
		if state = "visible"; targetOf(r.a.Act) == (target{}) {
			state = "load"
		}
	case "visible", "hidden":
		if targetOf(r.a.Act) == (target{}) {
			return nil, badArgument("wait for %s needs a target", state)
		}
	case "load":
	default:
		return nil, badArgument("there is no state %q to wait for: use visible, hidden or load", clip(state, 20))
	}
	begun := time.Now()
	args := map[string]any{"target": targetOf(r.a.Act), "state": state}
	if _, err := r.follow("wait", args, r.deadline); err != nil {
		return nil, err
	}
	return jsonResult(map[string]any{"state": state, "waited_ms": time.Since(begun).Milliseconds()}), nil
}

// follow calls a function that waits for the page, until then at the latest, and in turns:
// in each a document that was left is noticed. A page that takes its place is followed,
// unless a document was expected by name.
func (r *run) follow(fn string, args map[string]any, end time.Time) (pageReply, error) {
	follows := r.a.Expect.Document == ""
	for {
		left := min(time.Until(end), r.left()-answerRoom)
		args["ms"] = r.patience(min(waitTurn, left))
		got, err := r.call(fn, args, false)
		if err == nil || r.ctx.Err() != nil {
			return got, err
		}
		var e *core.Error
		if errors.As(err, &e) && e.Detail["reason"] == "not_yet" {
			if left <= waitTurn {
				return got, err
			}
			continue
		}
		if !follows || !leftDocument(e) {
			return got, err
		}
		if left <= 0 {
			return got, core.Refuse(core.CodeConflict, "one page after the other came", "look again").With("reason", "not_yet")
		}
		r.expect.Document = ""
		if err := r.pause(50 * time.Millisecond); err != nil {
			return got, err
		}
	}
}

// leftDocument says whether a look failed because its document was left.
func leftDocument(e *core.Error) bool {
	if e == nil {
		return false
	}
	return e.Code == core.CodeDocumentChanged || e.Code == core.CodeConflict && e.Detail["reason"] == nil
}

func (r *run) pause(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.ctx.Done():
		return errStopped
	}
}

// snapshot tells the page as text. Within settle_ms the page is watched for changes, while
// the first text is made and after it: if there were any, it is told as it is then. With the
// state "load" the page is waited for first, for half of the action's time: one that has not
// loaded by then is told as it is.
func (r *run) snapshot() ([][]byte, error) {
	begun, settle := time.Now(), time.Duration(r.a.Act.SettleMs)*time.Millisecond
	look := func(watch bool) (pageReply, error) {
		return r.call("snapshot", map[string]any{"bytes": maxSnapshot, "watch": watch}, false)
	}
	var got pageReply
	var err error
	switch r.a.Act.State {
	case "":
		got, err = look(settle > 0)
	case "load":
		args := map[string]any{"bytes": maxSnapshot, "watch": settle > 0, "load": true}
		got, err = r.follow("snapshot", args, begun.Add(r.left()/2))
		var e *core.Error
		if errors.As(err, &e) && e.Detail["reason"] == "not_yet" {
			got, err = look(settle > 0)
		}
	default:
		return nil, badArgument("a snapshot waits for the state load only, not for %q", clip(r.a.Act.State, 20))
	}
	if err != nil {
		return nil, err
	}
	if settle > 0 {
		if err := r.pause(settle - time.Since(begun)); err != nil {
			return nil, err
		}
		// A document that was left meanwhile has been told as it was last.
		if now, err := r.call("changed", nil, false); err == nil && now.Changed {
			if again, err := look(false); err == nil {
				got = again
			}
		}
	}
	if len(got.Text) > maxSnapshot {
		return nil, core.Refuse(core.CodeLimit, "the page's text is longer than a snapshot may be", "use evaluate for the part that you need")
	}
	r.url = clip(got.URL, wire.MaxURL)
	return jsonResult(map[string]string{"url": got.URL, "title": got.Title, "text": got.Text}), nil
}

// console tells what the page has said to its console.
func (r *run) console() ([][]byte, error) { return r.tells("console") }

// network tells what the page has asked the network for.
func (r *run) network() ([][]byte, error) { return r.tells("network") }

// tells asks the extension for what it knows of the page.
func (r *run) tells(kind string) ([][]byte, error) {
	a, err := r.do(wire.Cmd{Kind: kind})
	if err != nil {
		return nil, err
	}
	return [][]byte{a.Result}, nil
}

// capture is the part of Page.captureScreenshot that is used.
type capture struct {
	Format         page.CaptureScreenshotFormat `json:"format"`
	Clip           *page.Viewport               `json:"clip,omitempty"`
	BeyondViewport bool                         `json:"captureBeyondViewport,omitempty"`
}

func (r *run) screenshot() ([][]byte, error) {
	c := capture{Format: page.CaptureScreenshotFormatPng}
	if r.a.Act.FullPage {
		a, err := r.do(cdp(page.CommandGetLayoutMetrics, nil))
		if err != nil {
			return nil, err
		}
		var m struct {
			Size struct{ Width, Height float64 } `json:"cssContentSize"`
		}
		if err := json.Unmarshal(a.Result, &m); err != nil {
			return nil, badAnswer("Page.getLayoutMetrics", err)
		}
		c.BeyondViewport = true
		c.Clip = &page.Viewport{Width: math.Min(m.Size.Width, maxCapture), Height: math.Min(m.Size.Height, maxCapture), Scale: 1}
	}
	a, err := r.do(cdp(page.CommandCaptureScreenshot, c))
	if err != nil {
		return nil, err
	}
	// The answer is {"data":"..."}; the kind is put before it and the megabytes
	// stay where they are.
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(a.Result), []byte("{"))
	if !ok || bytes.Equal(bytes.TrimSpace(rest), []byte("}")) {
		return nil, core.Refuse(core.CodeInternal, "the browser gave no picture", "try again")
	}
	return [][]byte{[]byte(`{"mime":"image/png",`), rest}, nil
}
