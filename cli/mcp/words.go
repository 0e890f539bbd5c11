package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// outcome tells an action's record in words that cannot be taken for "try again".
func outcome(r *core.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", r.Summary)
	if r.Dialog != nil {
		return b.String() + "not over yet. " + asks(r.Dialog) + " It goes on when browser_handle_dialog has answered that"
	}
	switch {
	case r.Local == core.NotDispatched:
		b.WriteString("not done; nothing was sent to the page")
	case r.Local == core.Failed:
		b.WriteString("failed in the page, and had no effect there")
	case r.Local == core.Finished && r.Remote == core.NoneSeen:
		b.WriteString("done; no request to the website was seen")
		if r.Watching {
			b.WriteString(" so far")
		}
	case r.Local == core.Finished && r.Remote == core.InFlight:
		b.WriteString("done in the page; the website has not answered yet")
	case r.Local == core.Finished && r.Remote == core.AbortedLocally:
		b.WriteString("done in the page; its request was cut off, and whether the website received it is not known")
	case r.Local == core.Finished && r.Remote.Status() != 0:
		fmt.Fprintf(&b, "done; the website answered %d", r.Remote.Status())
	case r.Remote == core.Applied:
		b.WriteString("it took effect on the website")
	case r.Remote == core.NotApplied:
		b.WriteString("it did not take effect on the website")
	case goesOn(r):
		b.WriteString("not over yet: OUTCOME UNKNOWN so far, it goes on in the page")
	default:
		fmt.Fprintf(&b, "OUTCOME UNKNOWN (local: %s, website: %s)", r.Local, r.Remote)
	}
	if d := dialogOf(r); d != nil {
		fmt.Fprintf(&b, ". %s Answer it with browser_handle_dialog first", asks(d))
	} else if r.Error != nil {
		fmt.Fprintf(&b, ". %s", told(r.Error))
	}
	if open(r) {
		fmt.Fprintf(&b, ". It may or may not have happened: do NOT do it again. Look it up with session_action, id %s, or look at the page; if that does not tell, ask the person", r.ID)
	}
	return b.String()
}

// goesOn says whether an action is at work, and nobody has given it up.
func goesOn(r *core.Record) bool { return r.Local == core.Running && r.Error == nil }

// asks says what a dialog of the page says.
func asks(d *core.Dialog) string {
	kind := map[string]string{"alert": "an alert", "beforeunload": "a question whether to leave it"}[d.Kind]
	if kind == "" {
		kind = "a " + d.Kind + " dialog"
	}
	text := "The page shows " + kind
	if d.Message != "" {
		text += fmt.Sprintf(": %q", d.Message)
	}
	if d.Default != "" {
		text += fmt.Sprintf(" (the answer that stands there: %q)", d.Default)
	}
	return text + "."
}

// dialogOf is the dialog because of which an action was not begun, or nil.
func dialogOf(r *core.Record) *core.Dialog {
	var got struct{ Dialog *core.Dialog }
	if r.Error == nil || r.Error.Code != core.CodeConflict || json.Unmarshal(r.Result, &got) != nil {
		return nil
	}
	return got.Dialog
}

// open says whether something about the action's effect is not known.
func open(r *core.Record) bool {
	if r.Class != core.Write || r.Remote == core.Applied || r.Remote == core.NotApplied {
		return false
	}
	local := r.Local == core.Running || r.Local == core.Interrupted || r.Local == core.Ended || r.Local == core.LocalUnknown
	return local || r.Remote == core.RemoteUnknown || r.Remote == core.InFlight || r.Remote == core.AbortedLocally
}

func told(e *core.Error) string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// lost tells a refusal. Where control is gone it says who has it and what to do.
func (s *session) lost(err error) string {
	e, ok := errors.AsType[*core.Error](err)
	if !ok {
		return err.Error()
	}
	switch e.Code {
	case core.CodeFenced:
		holder := "nobody"
		if h, ok := e.Detail["holder"].(map[string]any); ok {
			holder = strings.TrimSpace(fmt.Sprint(h["kind"]) + " " + fmt.Sprint(or(h["name"])))
		}
		text := fmt.Sprintf("CONTROL WAS TAKEN AWAY: %s. At %s the slot %s is held by: %s. ",
			e.Message, time.Now().Format("15:04:05"), s.slot, holder)
		if s.last != "" {
			text += fmt.Sprintf("What became of the last action: session_action, id %s. ", s.last)
		}
		return text + "Do not go on by other means. session_ask_person waits until the person hands the browser back."
	case core.CodeExpired:
		return "THE LEASE HAS ENDED: " + told(e) + ". session_acquire asks for a new one."
	case core.CodeOutcomeUnknown:
		return "OUTCOME UNKNOWN: " + told(e) + fmt.Sprintf(". It may or may not have happened: do NOT do it again. session_action, id %s, tells what is known.", s.last)
	case core.CodeDocumentChanged:
		return "THE PAGE HAS CHANGED: " + told(e) + ". Take browser_snapshot and choose again."
	}
	return fmt.Sprintf("refused (%s): %s", e.Code, told(e))
}

// undone is what is added where a call did nothing at all.
func undone(err error) string {
	if e, ok := errors.AsType[*core.Error](err); ok && (e.Code == core.CodeFenced || e.Code == core.CodeDocumentChanged) {
		return " Nothing was done by this call."
	}
	return ""
}

func or(v any) any {
	if v == nil {
		return ""
	}
	return v
}
