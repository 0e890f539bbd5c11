package wire

import (
	"encoding/json"
	"time"
)

// Act is the flat part of an action request: the verb and its arguments. Which
// arguments a verb takes stands in Verbs.
type Act struct {
	Verb string `json:"verb"`
	// Where. A target is one of Selector (CSS), Ref (from a snapshot of the same
	// document), Text (visible text, the smallest element that contains it), or
	// Role with Name (ARIA role, accessible name).
	Selector string `json:"selector,omitempty"`
	Ref      string `json:"ref,omitempty"`
	Text     string `json:"text,omitempty"`
	Role     string `json:"role,omitempty"`
	Name     string `json:"name,omitempty"`
	// drag: the target to drop on, a CSS selector or a ref.
	ToSelector string `json:"to_selector,omitempty"`
	ToRef      string `json:"to_ref,omitempty"`

	URL        string          `json:"url,omitempty"`        // navigate
	Value      *string         `json:"value,omitempty"`      // fill, type, select; dialog: the prompt's text
	Key        string          `json:"key,omitempty"`        // press: "Enter", "Control+A"
	Checked    *bool           `json:"checked,omitempty"`    // check: false unchecks; default true
	DX         float64         `json:"dx,omitempty"`         // scroll, CSS pixels
	DY         float64         `json:"dy,omitempty"`         // scroll, CSS pixels
	Expression string          `json:"expression,omitempty"` // evaluate: JavaScript, a promise is awaited
	Files      []string        `json:"files,omitempty"`      // upload: names in the lease's upload directory
	State      string          `json:"state,omitempty"`      // wait: visible, hidden, load; default visible. snapshot: load waits for that first, for half of the action's time
	FullPage   bool            `json:"full_page,omitempty"`  // screenshot
	SettleMs   int64           `json:"settle_ms,omitempty"`  // snapshot: what changes within this time is told as it is then
	Accept     *bool           `json:"accept,omitempty"`     // dialog
	Op         string          `json:"op,omitempty"`         // tabs: list, new, close, select; default list
	Method     string          `json:"method,omitempty"`     // cdp
	Params     json.RawMessage `json:"params,omitempty"`     // cdp
}

// MaxSettle bounds settle_ms.
const MaxSettle = time.Second

// VerbInfo is one row of Verbs.
type VerbInfo struct {
	Verb   string
	Write  bool   // can have an effect on the website
	Target string // "" takes none, "need" must have one, "may"
	Needs  string // the arguments it must have, separated by blanks
	Doc    bool   // acts in the document last reported to this agent (else any will do)
	Help   string
}

// Verbs is the one table of action verbs.
var Verbs = []VerbInfo{
	{"navigate", true, "", "url", false, "go to an address; waits for the document to be parsed"},
	{"back", true, "", "", true, "one step back in the tab's history"},
	{"reload", true, "", "", true, "load the page again"},
	{"click", true, "need", "", true, "move the mouse to an element, press and release"},
	{"fill", true, "need", "value", true, "replace a field's text"},
	{"type", true, "may", "value", true, "type text into a field, or where the focus is"},
	{"press", true, "may", "key", true, "press one key, with modifiers"},
	{"select", true, "need", "value", true, "choose an option by value or label"},
	{"check", true, "need", "", true, "check or uncheck a box"},
	{"hover", true, "need", "", true, "move the mouse to an element"},
	{"drag", true, "need", "", true, "drag an element onto another"},
	{"scroll", true, "may", "", true, "scroll by dx, dy at an element or the page's middle"},
	{"upload", true, "need", "files", true, "give files of the lease's upload directory to a file field"},
	{"wait", false, "may", "", false, "wait for an element to be visible or hidden, or for the page to load"},
	{"snapshot", false, "", "", false, "the page as text, one line a thing or row, with a reference for whatever can be acted on"},
	{"console", false, "", "", false, "what the page's console says, the latest 200 lines"},
	{"network", false, "", "", false, "the requests of the page since it was opened, the latest 200"},
	{"screenshot", false, "", "", false, "a PNG, base64"},
	{"evaluate", true, "", "expression", true, "run JavaScript in the page"},
	{"dialog", true, "", "accept", false, "answer an open alert, confirm or prompt"},
	{"tabs", true, "", "", false, "list, open, close or choose tabs"},
	{"cdp", true, "", "method", true, "one command of the DevTools protocol, as far as policy allows"},
}

// Verb returns the row of a verb and whether there is one.
func Verb(name string) (VerbInfo, bool) {
	for _, v := range Verbs {
		if v.Verb == name {
			return v, true
		}
	}
	return VerbInfo{}, false
}

// Asked is an admitted action's payload on its way from the API to the host's link.
// It is kept in memory only: it may hold what is typed into a page.
type Asked struct {
	Act       Act
	UploadDir string
	Origins   []string
	Allow     []string
	Raw       bool   // see Action
	Session   string // see Action
}
