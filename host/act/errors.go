package act

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// browserError is the DevTools protocol's own error, as the extension passes it on.
type browserError struct {
	Code    int
	Message string
}

// proof is one row of the closed table of errors which prove that a command was
// not executed. An error that is not in it proves nothing: "Detached while handling
// command", "Inspected target navigated or closed", "Target closed" and every
// timeout were seen while the command's effect still happened.
type proof struct {
	method  string // "" for any
	code    int
	message string // the beginning of the message; "" for any
	reason  string
}

var proofs = []proof{
	{"", -32601, "", "the browser knows no such method, so nothing could run"},
	{"", -32600, "", "the request was malformed and was refused before any handler"},
	{"", -32602, "Invalid parameters", "the parameters were refused by the dispatcher, before the method's handler"},
	{"Input.dispatchMouseEvent", -32602, "", "the event's members are checked before the event is made"},
	{"Input.dispatchKeyEvent", -32602, "", "the event's members are checked before the event is made"},
	{"Input.dispatchTouchEvent", -32602, "", "the event's members are checked before the event is made"},
	{"Page.handleJavaScriptDialog", -32602, "No dialog is showing", "the handler looked for a dialog, found none, and ended"},
	{"Page.navigate", -32000, "Cannot navigate to invalid URL", "the address was refused before a navigation was begun"},
	{"Page.navigateToHistoryEntry", -32602, "No entry with passed id", "the entry was looked up before a navigation was begun"},
	{"Runtime.evaluate", -32000, "Cannot find context with specified id", "there was no context to run the script in"},
	{"Runtime.evaluate", -32000, "uniqueContextId not found", "there was no context to run the script in"},
	{"Runtime.callFunctionOn", -32000, "Cannot find context with specified id", "there was no context to run the function in"},
	{"Runtime.callFunctionOn", -32000, "uniqueContextId not found", "there was no context to run the function in"},
	{"Runtime.callFunctionOn", -32000, "Could not find object with given id", "there was no object to run the function on"},
	{"DOM.setFileInputFiles", -32000, "Not allowed", "the permission to read files is checked before the field is touched"},
	{"DOM.setFileInputFiles", -32000, "Node is not a file input element", "the field's kind is checked before it is touched"},
	{"DOM.setFileInputFiles", -32000, "Could not find node", "there was no field to give the files to"},
	{"DOM.setFileInputFiles", -32000, "Cannot find context with specified id", "there was no field to give the files to"},
}

// provesNotExecuted returns the row that proves that a dispatched command was not
// executed, or nil.
func provesNotExecuted(method string, e *core.Error) *proof {
	b, ok := parseBrowserError(e)
	if !ok {
		return nil
	}
	for i := range proofs {
		p := &proofs[i]
		if (p.method == "" || p.method == method) && p.code == b.Code && strings.HasPrefix(b.Message, p.message) {
			return p
		}
	}
	return nil
}

// parseBrowserError reads the protocol error out of a step's error. Chromium gives
// it as a JSON text in the message of the extension's exception; the extension may
// pass that text on, or name the number in a detail. An error of the extension API
// itself is plain text and has no number: it is no protocol error.
func parseBrowserError(e *core.Error) (browserError, bool) {
	if e == nil {
		return browserError{}, false
	}
	if at := strings.IndexByte(e.Message, '{'); at >= 0 {
		var b struct {
			Code    *int   `json:"code"`
			Message string `json:"message"`
		}
		if json.Unmarshal([]byte(e.Message[at:]), &b) == nil && b.Code != nil {
			return browserError{*b.Code, b.Message}, true
		}
	}
	for _, key := range []string{"cdp_code", "protocol_code"} {
		if n, ok := e.Detail[key].(float64); ok {
			message := e.Message
			if m, ok := e.Detail["cdp_message"].(string); ok {
				message = m
			}
			return browserError{int(n), message}, true
		}
	}
	return browserError{}, false
}

// browserSays is the text of a step's error for a person.
func browserSays(e *core.Error) string {
	if b, ok := parseBrowserError(e); ok {
		return b.Message
	}
	if e == nil {
		return "no reason was given"
	}
	return e.Message
}

// hasContextGone says that a page call met no context: the document's isolated
// world is not there (any more), and the call did not run.
func hasContextGone(e *core.Error) bool {
	m := browserSays(e)
	return strings.HasPrefix(m, "Cannot find context") || strings.HasPrefix(m, "uniqueContextId not found")
}

// pageFault turns the page function's own refusal into ours.
func pageFault(f pageReply) *core.Error {
	code, hint := core.CodeConflict, "take a snapshot and choose the target from it"
	switch f.Reason {
	case "invalid":
		code, hint = core.CodeInvalid, "correct the argument"
	case "covered":
		hint = "close or move what covers it, then send a new action"
	case "disabled":
		hint = "do first what enables it"
	case "not_yet":
		code, hint = core.CodeDeadline, "wait again with a new action, or take a snapshot to see the page"
	case "stale_ref", "gone":
		hint = "take a new snapshot; references end with their document"
	}
	return core.Refuse(code, f.Message, hint).With("reason", f.Reason)
}

func notAllowed(what, hint string) *core.Error {
	return core.Refuse(core.CodePolicy, what, hint)
}

func badArgument(format string, args ...any) *core.Error {
	return core.Refuse(core.CodeInvalid, fmt.Sprintf(format, args...), "see the table of verbs for the arguments")
}

// typed lists what an action puts into the page or sends to a website beyond where: what
// no error may repeat, because errors are kept.
func typed(a wire.Act) []string {
	out := []string{a.Expression}
	if a.Value != nil {
		out = append(out, *a.Value)
	}
	if u, err := url.Parse(a.URL); err == nil {
		out = append(out, u.RawQuery, u.Fragment, u.User.String())
	}
	var params any
	if json.Unmarshal(a.Params, &params) == nil {
		out = append(out, texts(params)...)
	}
	return out
}

// texts lists the strings within a JSON value, apart from names and words so short that
// an error is likely to have them by itself.
func texts(v any) (out []string) {
	switch v := v.(type) {
	case string:
		if len(v) > 3 {
			out = append(out, v)
		}
	case []any:
		for _, e := range v {
			out = append(out, texts(e)...)
		}
	case map[string]any:
		for _, e := range v {
			out = append(out, texts(e)...)
		}
	}
	return out
}

// ownWords are codes of refusals that are worded here or at the dispatch gate, from start to
// end: nothing in them was typed, and a value that happens to be one of their words stays.
var ownWords = []core.Code{core.CodePolicy, core.CodeFenced, core.CodeDocumentChanged, core.CodeLimit}

// secrecy takes what was typed out of an error. Nothing puts it there on purpose; a
// browser's or a page's message is not ours to vouch for: Chromium repeats a parameter
// that it does not know.
func secrecy(e *core.Error, typed []string) *core.Error {
	if e == nil || slices.Contains(ownWords, e.Code) {
		return e
	}
	var pairs []string
	slices.SortFunc(typed, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) // one may contain another
	for _, text := range typed {
		if len(text) < 2 {
			continue
		}
		quoted, _ := json.Marshal(text)
		pairs = append(pairs, text, "…", string(quoted[1:len(quoted)-1]), "…")
	}
	if len(pairs) == 0 {
		return e
	}
	hide := strings.NewReplacer(pairs...).Replace
	c := *e
	c.Message, c.Hint = hide(c.Message), hide(c.Hint)
	for key, value := range e.Detail {
		if text, ok := value.(string); ok {
			c = *c.With(key, hide(text))
		}
	}
	return &c
}
