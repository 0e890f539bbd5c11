package act

import (
	_ "embed"
	"encoding/json"
	"sync"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// The page library, in the order in which it is installed.
var (
	//go:embed names.js
	namesJS string
	//go:embed page.js
	pageJS string
)

const (
	// findWithin is how long a target is waited for, unless the deadline is nearer.
	findWithin = 5 * time.Second
	// answerRoom is what of a deadline is left for the answer to come back.
	answerRoom = 200 * time.Millisecond
	// maxWorlds bounds the remembered isolated worlds.
	maxWorlds = 64
)

// worldKey names a document.
type worldKey struct {
	tab      core.TabID
	document core.DocumentID
}

// worlds remembers the isolated world made in each document.
type worlds struct {
	mu sync.Mutex
	m  map[worldKey]runtime.ExecutionContextID
	// frames are the main frames of tabs as DevTools names them: the same for a tab's life.
	frames map[core.TabID]string
}

func (w *worlds) frame(tab core.TabID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.frames[tab]
}

// mainFrame notes a tab's main frame, or with "" that what was noted is none.
func (w *worlds) mainFrame(tab core.TabID, frame string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frames == nil || len(w.frames) >= maxWorlds {
		w.frames = map[core.TabID]string{}
	}
	w.frames[tab] = frame
}

func (w *worlds) get(k worldKey) (runtime.ExecutionContextID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, ok := w.m[k]
	return id, ok
}

func (w *worlds) put(k worldKey, id runtime.ExecutionContextID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m == nil || len(w.m) >= maxWorlds {
		// A forgotten world costs one round trip to make again.
		w.m = map[worldKey]runtime.ExecutionContextID{}
	}
	w.m[k] = id
}

func (w *worlds) drop(k worldKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.m, k)
}

// pageReply is what every function of the page library answers.
type pageReply struct {
	OK      bool           `json:"ok"`
	Reason  string         `json:"reason"`
	Message string         `json:"message"`
	Detail  map[string]any `json:"detail"`
	Did     bool           `json:"did"`

	N         int     `json:"n"`
	X         float64 `json:"x"`
	Y         float64 `json:"y"`
	Kind      string  `json:"kind"`
	Draggable bool    `json:"draggable"`
	Multiple  bool    `json:"multiple"`
	Checked   *bool   `json:"checked"`
	Value     string  `json:"value"`
	Label     string  `json:"label"`
	Dropped   bool    `json:"dropped"`

	From *pageReply `json:"from"`
	To   *pageReply `json:"to"`

	URL   string `json:"url"`
	Title string `json:"title"`
	Text  string `json:"text"`

	Changed bool `json:"changed"`
}

// evaluated is the part of Runtime.evaluate's answer that is read here. The value
// stays as it came.
type evaluated struct {
	Result struct {
		Type                string          `json:"type"`
		Subtype             string          `json:"subtype"`
		Value               json.RawMessage `json:"value"`
		UnserializableValue string          `json:"unserializableValue"`
		Description         string          `json:"description"`
		ObjectID            string          `json:"objectId"`
	} `json:"result"`
	Exception *struct {
		Text      string `json:"text"`
		Line      int64  `json:"lineNumber"`
		Column    int64  `json:"columnNumber"`
		Exception *struct {
			Description string          `json:"description"`
			Value       json.RawMessage `json:"value"`
		} `json:"exception"`
	} `json:"exceptionDetails"`
}

// world returns the isolated world of the action's document, and whether the page
// library must still be put into it.
func (r *run) world() (id runtime.ExecutionContextID, fresh bool, err error) {
	if r.expect.Document == "" || r.expect.Tab == 0 {
		if err := r.resolve(); err != nil {
			return 0, false, err
		}
	}
	key := worldKey{r.expect.Tab, r.expect.Document}
	if id, ok := r.x.worlds.get(key); ok {
		return id, false, nil
	}
	in := r.x.worlds.frame(key.tab)
	noted := in != ""
	ask := func() (Answer, error) {
		f, err := r.mainFrame()
		if err != nil {
			return Answer{}, err
		}
		in = f.ID
		return r.do(cdp("Page.createIsolatedWorld", worldParams{in, "sessiondock"}))
	}
	var a Answer
	if noted {
		a, err = r.do(cdp("Page.createIsolatedWorld", worldParams{in, "sessiondock"}))
	}
	if !noted || a.Error != nil && a.Dispatched {
		a, err = ask()
	}
	if err != nil {
		return 0, false, err
	}
	r.x.worlds.mainFrame(key.tab, in)
	var made page.CreateIsolatedWorldResult
	if err := json.Unmarshal(a.Result, &made); err != nil {
		return 0, false, badAnswer("Page.createIsolatedWorld", err)
	}
	return made.ExecutionContextID, true, nil
}

// frame is a frame as DevTools names it.
type frame struct {
	ID       string `json:"id"`
	LoaderID string `json:"loaderId"`
}

// mainFrame asks for the main frame of the action's tab.
func (r *run) mainFrame() (frame, error) {
	var tree struct {
		FrameTree struct {
			Frame frame `json:"frame"`
		} `json:"frameTree"`
	}
	a, err := r.do(cdp("Page.getFrameTree", nil))
	if err != nil {
		return tree.FrameTree.Frame, err
	}
	if err := json.Unmarshal(a.Result, &tree); err != nil {
		return tree.FrameTree.Frame, badAnswer("Page.getFrameTree", err)
	}
	return tree.FrameTree.Frame, nil
}

type worldParams struct {
	FrameID   string `json:"frameId"`
	WorldName string `json:"worldName"`
}

// resolve asks which document is in the tab and pins the action to it.
func (r *run) resolve() error {
	wanted := r.expect.Document
	r.expect.Document = ""
	a, err := r.do(wire.Cmd{Kind: "document"})
	if err != nil {
		return err
	}
	if a.Observed == nil || a.Observed.Document == "" {
		return core.Refuse(core.CodeUnavailable, "the tab has no document that can be acted on", "navigate the tab first")
	}
	if wanted != "" && wanted != a.Observed.Document {
		return core.Refuse(core.CodeDocumentChanged, "the active tab shows another document than the one expected", "observe the page again")
	}
	r.expect = *a.Observed
	return nil
}

// call runs one function of the page library. With isEffect it is a counted step.
func (r *run) call(fn string, args any, isEffect bool) (pageReply, error) {
	var out pageReply
	e, err := r.inWorld(fn, args, true, isEffect)
	if err != nil {
		return out, err
	}
	if e.Exception != nil {
		return out, core.Refuse(core.CodeInternal, "the page library failed: "+clip(exceptionText(e), 300), "report this")
	}
	if err := json.Unmarshal(e.Result.Value, &out); err != nil {
		return out, badAnswer(fn, err)
	}
	if !out.OK {
		if isEffect && !out.Did {
			r.proved++ // our own function says that it ended before it changed anything
		}
		return out, pageFault(out)
	}
	return out, nil
}

// inWorld evaluates a call of the page library in the document's isolated world. A
// world that is gone is made again once, unless the call is an effect: then what it
// would act on is gone too.
func (r *run) inWorld(fn string, args any, byValue, isEffect bool) (evaluated, error) {
	var out evaluated
	raw, err := json.Marshal(args)
	if err != nil {
		panic("act: arguments of " + fn + " cannot be encoded: " + err.Error())
	}
	for again := false; ; again = true {
		id, fresh, err := r.world()
		if err != nil {
			return out, err
		}
		expression := "__sessiondock." + fn + "(" + string(raw) + ")"
		if fresh {
			expression = namesJS + pageJS + expression
		}
		yes := true
		c := cdp("Runtime.evaluate", runtime.EvaluateParams{
			Expression: expression, ContextID: id, ReturnByValue: &byValue, AwaitPromise: &yes,
		})
		c.Effect = isEffect
		key := worldKey{r.expect.Tab, r.expect.Document}
		a, err := r.do(c)
		if err != nil {
			if a.Error != nil && hasContextGone(a.Error) {
				r.x.worlds.drop(key)
				if !again && !isEffect {
					continue
				}
			}
			return out, err
		}
		if fresh {
			r.x.worlds.put(key, id)
		}
		if err := json.Unmarshal(a.Result, &out); err != nil {
			return out, badAnswer("Runtime.evaluate", err)
		}
		return out, nil
	}
}

// target is how the page library is told what to look for.
type target struct {
	Selector string `json:"selector,omitempty"`
	Ref      string `json:"ref,omitempty"`
	Text     string `json:"text,omitempty"`
	Role     string `json:"role,omitempty"`
	Name     string `json:"name,omitempty"`
}

func targetOf(a wire.Act) target { return target{a.Selector, a.Ref, a.Text, a.Role, a.Name} }

// need is what must hold of a target before anything is dispatched.
type need struct {
	Point     bool    `json:"point,omitempty"`     // it can be hit by the mouse
	Enabled   bool    `json:"enabled,omitempty"`   // it is not disabled
	Editable  bool    `json:"editable,omitempty"`  // it takes text
	Control   bool    `json:"control,omitempty"`   // a label stands for its field
	File      bool    `json:"file,omitempty"`      // it is a file field, visible or not
	Option    *string `json:"option,omitempty"`    // it is a select with that option
	Checkable bool    `json:"checkable,omitempty"` // it can be checked
	Checked   bool    `json:"checked"`             // wanted; if it is so already no point is looked for
}

// find waits for the action's target to be as needed.
func (r *run) find(n need) (pageReply, error) {
	return r.call("find", struct {
		Target target `json:"target"`
		Need   need   `json:"need"`
		Ms     int64  `json:"ms"`
	}{targetOf(r.a.Act), n, r.patience(findWithin)}, false)
}

// patience is how long, in milliseconds, a page function may wait.
func (r *run) patience(most time.Duration) int64 {
	return max(min(most, r.left()-answerRoom), 0).Milliseconds()
}

func badAnswer(what string, err error) *core.Error {
	return core.Refuse(core.CodeInternal, what+" was answered in a form that is not known: "+clip(err.Error(), 200), "report this, with the browser's version")
}

func exceptionText(e evaluated) string {
	x := e.Exception
	switch {
	case x.Exception != nil && x.Exception.Description != "":
		return x.Exception.Description
	case x.Exception != nil && len(x.Exception.Value) > 0:
		return x.Text + " " + string(x.Exception.Value)
	}
	return x.Text
}
