package act

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"sessiondock.dev/sessiondock/daemon/core"
)

// noValue names the protocol's errors that come after a script has run to its
// end, because its value has no JSON: they say nothing against the run itself.
var noValue = []string{
	"Object couldn't be returned by value",
	"Object reference chain is too long",
}

// evaluate runs the agent's script in the page's own world: one step, whose answer
// is the proof that it ran.
func (r *run) evaluate() ([][]byte, error) {
	r.plan(1)
	yes := true
	c := effect(cdp(runtime.CommandEvaluate, runtime.EvaluateParams{
		Expression: r.a.Act.Expression, ReturnByValue: &yes, AwaitPromise: &yes, UserGesture: &yes,
	}))
	c.Script = true
	a, err := r.do(c)
	if err != nil {
		if a.Dispatched && isNoValue(a.Error) {
			r.unanswered = false
			return jsonResult(map[string]any{"value": nil, "note": "the script ran to its end; its value has no JSON form"}), nil
		}
		return nil, err
	}
	return evaluation(a.Result)
}

func isNoValue(e *core.Error) bool {
	said := browserSays(e)
	for _, m := range noValue {
		if strings.HasPrefix(said, m) {
			return true
		}
	}
	return false
}

// evaluation turns Runtime.evaluate's answer into the result. A thrown exception
// is a result: the script ran.
func evaluation(raw json.RawMessage) ([][]byte, error) {
	var e evaluated
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, badAnswer("Runtime.evaluate", err)
	}
	switch {
	case e.Exception != nil:
		return jsonResult(map[string]any{"exception": clip(exceptionText(e), 8<<10), "line": e.Exception.Line, "column": e.Exception.Column}), nil
	case e.Result.UnserializableValue != "":
		return jsonResult(map[string]any{"value": nil, "note": "not a JSON value: " + clip(e.Result.UnserializableValue, 200)}), nil
	case e.Result.Type == "undefined":
		return jsonResult(map[string]any{"value": nil, "note": "undefined"}), nil
	case len(e.Result.Value) == 0:
		return jsonResult(map[string]any{"value": nil, "note": "the value has no JSON form"}), nil
	}
	if string(e.Result.Value) == "{}" {
		// So read an element, a function's result without members, a Map.
		return jsonResult(map[string]any{"value": struct{}{}, "note": "an object with no members that JSON can carry"}), nil
	}
	return [][]byte{[]byte(`{"value":`), e.Result.Value, []byte(`}`)}, nil
}

func (r *run) dialog() ([][]byte, error) {
	r.plan(1)
	p := page.HandleJavaScriptDialogParams{Accept: *r.a.Act.Accept}
	if r.a.Act.Value != nil {
		p.PromptText = *r.a.Act.Value
	}
	_, err := r.do(effect(cdp(page.CommandHandleJavaScriptDialog, p)))
	return nil, err
}

// notOneByOne says whether a method makes sense only to a client that is told of events,
// or has a verb of its own that waits for what the method starts.
func notOneByOne(method string) bool {
	switch method {
	case "Page.navigate", "Page.getNavigationHistory", "Page.navigateToHistoryEntry", "Page.reload", "Runtime.callFunctionOn", "Input.setInterceptDrags":
		return true
	}
	return strings.HasPrefix(method, "Target.") || strings.HasPrefix(method, "Fetch.")
}

// devtools passes on one command of the table in policy.go.
func (r *run) devtools() ([][]byte, error) {
	rule, bad := ruleFor(r.a)
	if bad == nil && notOneByOne(r.a.Act.Method) {
		bad = notAllowed(r.a.Act.Method+" is for a DevTools client, at the lease's cdp_url", "use a verb")
	}
	if bad == nil {
		bad = bounded(r.a.Act.Method, r.a.Act.Params, onlyOne[r.a.Act.Method])
	}
	params := r.a.Act.Params
	if bad == nil {
		params, bad = rawParams(r.a)
	}
	if bad != nil {
		return nil, bad
	}
	c := cdp(r.a.Act.Method, nil)
	if p := bytes.TrimSpace(params); len(p) > 0 {
		c.Params = p
	}
	c.Effect, c.Script = rule.Effect, rule.Script
	if rule.Effect {
		r.plan(1)
	}
	a, err := r.do(c)
	if err != nil {
		return nil, err
	}
	if rule.Input {
		if err := r.barrier(); err != nil {
			return nil, err
		}
	}
	if len(a.Result) == 0 {
		return [][]byte{[]byte("{}")}, nil
	}
	return [][]byte{within(r.a.Origins).only(r.a.Act.Method, a.Result)}, nil
}
