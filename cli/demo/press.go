package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// anyExtension is where the worker's address begins. The rest of it follows from the
// installation's key; a slot's browser runs no other extension's worker.
const anyExtension = "chrome-extension://"

// The popup's controls, by their identifiers.
const (
	ButtonTakeover        = "takeover"
	ButtonStopPage        = "stop-page"
	ButtonStopPageConfirm = "stop-page-confirm"
	ButtonHandback        = "handback"
	ButtonHandbackConfirm = "handback-confirm"
	SelectHandbackTo      = "handback-to"
)

// Hand is a person's hand at one slot's browser: it opens the extension's real
// popup, reads it, and presses its buttons with the mouse, through the debugging
// pipe that the launch was given for this and nothing else.
type Hand struct {
	pipe   *Pipe
	worker Session
	popup  Session
}

// DialHand connects to the slot's debugging pipe, which is there only if the
// daemon runs with --debug=pipe.
func DialHand(ctx context.Context, runtimeDir string, slot core.SlotName) (*Hand, error) {
	path := filepath.Join(runtimeDir, "sessiondock", "slots", string(slot), "pipe.sock")
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("the slot's debugging pipe: %w", err)
	}
	return NewHand(ctx, NewPipe(conn), anyExtension)
}

// NewHand uses a pipe that is open already, with the extension whose worker is at
// the URL.
func NewHand(ctx context.Context, pipe *Pipe, workerURL string) (*Hand, error) {
	worker, err := pipe.Worker(ctx, workerURL)
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	return &Hand{pipe: pipe, worker: worker}, nil
}

// Close lets the pipe go. The browser stays.
func (h *Hand) Close() error { return h.pipe.Close() }

// Pipe is the debugging pipe, for what a person does in the page itself.
func (h *Hand) Pipe() *Pipe { return h.pipe }

// Worker is the session of the extension's worker, to read what it noted.
func (h *Hand) Worker() Session { return h.worker }

// Open opens the popup by the extension's toolbar action, unless it is open.
func (h *Hand) Open(ctx context.Context) error {
	if h.popup != "" && h.pipe.Eval(ctx, h.popup, "1", nil) == nil {
		return nil
	}
	h.popup = ""
	err := h.pipe.Eval(ctx, h.worker, `(async () => {
		const [window] = await chrome.windows.getAll({ windowTypes: ["normal"] });
		await chrome.action.openPopup({ windowId: window.id });
	})()`, nil)
	if err != nil {
		return fmt.Errorf("open the popup: %w", err)
	}
	var base string
	if err := h.pipe.Eval(ctx, h.worker, `chrome.runtime.getURL("")`, &base); err != nil {
		return err
	}
	t, err := h.pipe.WaitTarget(ctx, "page", base+"popup")
	if err != nil {
		return err
	}
	h.popup, err = h.pipe.Attach(ctx, t.ID)
	return err
}

// Text opens the popup if need be and reads all that it shows.
func (h *Hand) Text(ctx context.Context) (string, error) {
	if err := h.Open(ctx); err != nil {
		return "", err
	}
	var text string
	err := h.pipe.Eval(ctx, h.popup, "document.body.innerText", &text)
	return text, err
}

// TextOf reads what one part of the open popup shows, on one line.
func (h *Hand) TextOf(ctx context.Context, id string) (string, error) {
	quoted, err := json.Marshal(id)
	if err != nil {
		return "", err
	}
	var text string
	err = h.pipe.Eval(ctx, h.popup, "document.getElementById("+string(quoted)+").innerText", &text)
	return strings.Join(strings.Fields(text), " "), err
}

// WaitText waits until the popup shows one of the texts, and returns all of it.
func (h *Hand) WaitText(ctx context.Context, any ...string) (string, error) {
	for {
		text, err := h.Text(ctx)
		if err == nil {
			for _, a := range any {
				if strings.Contains(text, a) {
					return text, nil
				}
			}
		}
		if wait(ctx, 30*time.Millisecond) != nil {
			return text, errors.Join(fmt.Errorf("the popup does not say %q but %q", any, text), err)
		}
	}
}

// PressIf presses the button if it can be pressed now, and says whether it could.
func (h *Hand) PressIf(ctx context.Context, button string) (bool, error) {
	if err := h.Open(ctx); err != nil {
		return false, err
	}
	at, why, err := h.place(ctx, button)
	if err != nil || why != "" {
		return false, err
	}
	return true, h.click(ctx, at)
}

// Press waits until the button can be pressed and presses it with the mouse.
func (h *Hand) Press(ctx context.Context, button string) error {
	last := "the popup has not said why"
	for {
		err := h.Open(ctx)
		if err == nil {
			var at point
			var why string
			if at, why, err = h.place(ctx, button); err == nil && why == "" {
				return h.click(ctx, at)
			}
			last = cmp.Or(why, last)
		} else if ctx.Err() == nil {
			return err
		}
		if wait(ctx, 30*time.Millisecond) != nil {
			return errors.Join(fmt.Errorf("the popup's button %q cannot be pressed: %s", button, last), err)
		}
	}
}

type point struct{ X, Y float64 }

// place finds the middle of a control, and says why it cannot be pressed, if so.
func (h *Hand) place(ctx context.Context, id string) (point, string, error) {
	quoted, err := json.Marshal(id)
	if err != nil {
		return point{}, "", err
	}
	var r struct {
		X, Y float64
		Why  string
	}
	err = h.pipe.Eval(ctx, h.popup, `(() => {
		const e = document.getElementById(`+string(quoted)+`);
		if (!e) return { Why: "it is not there" };
		e.scrollIntoView({ block: "center" });
		const r = e.getBoundingClientRect();
		if (!r.width || !r.height) return { Why: "it is hidden" };
		if (e.disabled) return { Why: "it is disabled" };
		const X = r.x + r.width / 2, Y = r.y + r.height / 2;
		const top = document.elementFromPoint(X, Y);
		return { X, Y, Why: e.contains(top) ? "" : "something covers it" };
	})()`, &r)
	return point{r.X, r.Y}, r.Why, err
}

func (h *Hand) click(ctx context.Context, at point) error {
	for _, step := range []struct {
		kind, button string
		clicks       int
	}{{"mouseMoved", "none", 0}, {"mousePressed", "left", 1}, {"mouseReleased", "left", 1}} {
		err := h.pipe.Call(ctx, h.popup, "Input.dispatchMouseEvent", map[string]any{
			"type": step.kind, "x": at.X, "y": at.Y, "button": step.button, "clickCount": step.clicks,
		}, nil)
		if err != nil {
			return fmt.Errorf("press in the popup: %w", err)
		}
	}
	return nil
}

// Choose selects an option of the popup's list by its value, as the keyboard
// would, and tells the page so.
func (h *Hand) Choose(ctx context.Context, list, value string) error {
	for {
		if err := h.Open(ctx); err != nil {
			return err
		}
		args, err := json.Marshal([]string{list, value})
		if err != nil {
			return err
		}
		var chosen bool
		err = h.pipe.Eval(ctx, h.popup, `(([id, value]) => {
			const list = document.getElementById(id);
			if (!list || ![...list.options].some((o) => o.value === value)) return false;
			list.value = value;
			list.dispatchEvent(new Event("input", { bubbles: true }));
			list.dispatchEvent(new Event("change", { bubbles: true }));
			return true;
		})(`+string(args)+`)`, &chosen)
		if err == nil && chosen {
			return nil
		}
		if wait(ctx, 30*time.Millisecond) != nil {
			return errors.Join(fmt.Errorf("the popup's list %q has no %q", list, value), err)
		}
	}
}

// wait sleeps, and returns the context's error if that comes first.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Message measures how long the popup takes to reach the worker and hear from it:
// a fresh port, to the first message on it.
func (h *Hand) Message(ctx context.Context) (time.Duration, error) {
	if err := h.Open(ctx); err != nil {
		return 0, err
	}
	var ms float64
	err := h.pipe.Eval(ctx, h.popup, `new Promise((done) => {
		const began = performance.now();
		const port = chrome.runtime.connect({ name: "popup" });
		port.onMessage.addListener(() => { port.disconnect(); done(performance.now() - began); });
		port.onDisconnect.addListener(() => done(-1));
	})`, &ms)
	if err == nil && ms < 0 {
		err = errors.New("the worker closed the popup's port")
	}
	return time.Duration(ms * float64(time.Millisecond)), err
}

// PressByKeyboard reaches a button of the popup by the Tab key alone and presses it
// with Enter.
func (h *Hand) PressByKeyboard(ctx context.Context, button string) error {
	if err := h.Open(ctx); err != nil {
		return err
	}
	for {
		var focused struct{ ID string }
		if err := h.pipe.Eval(ctx, h.popup, `({ ID: document.activeElement?.id ?? "" })`, &focused); err != nil {
			return err
		}
		if focused.ID == button {
			return h.key(ctx, "Enter", 13, "\r")
		}
		if err := h.key(ctx, "Tab", 9, ""); err != nil {
			return err
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("Tab never reaches %q: %w", button, err)
		}
	}
}

func (h *Hand) key(ctx context.Context, key string, code int, text string) error {
	for _, kind := range []string{"keyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
		if kind == "keyDown" && text != "" {
			params["text"] = text
		}
		if err := h.pipe.Call(ctx, h.popup, "Input.dispatchKeyEvent", params, nil); err != nil {
			return fmt.Errorf("key in the popup: %w", err)
		}
	}
	return nil
}

// Picture is a PNG of the open popup, base64.
func (h *Hand) Picture(ctx context.Context) (string, error) {
	var shot struct{ Data string }
	err := h.pipe.Call(ctx, h.popup, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	return shot.Data, err
}
