package act

import (
	"encoding/json"

	"sessiondock.dev/sessiondock/daemon/core"
)

// rule is one DevTools method that the verb cdp passes on.
type rule struct {
	effect bool // it can change the page or what the page does
	script bool // it runs the agent's script in the page's own world
	input  bool // it is input: a barrier follows
	why    string
	params []string // members that may be given; nil for any
}

// allowed is the closed table of the verb cdp. What is not in it is refused,
// whatever the binding says: a method gets in only by a reason to be harmless to
// the person's sign-ins, to other tabs and to the fence.
var allowed = map[string]rule{
	"Accessibility.getFullAXTree":          {why: "reads the page; a password's characters are not in it"},
	"Accessibility.getRootAXNode":          {why: "reads the page"},
	"DOM.getDocument":                      {why: "reads the page"},
	"DOM.getOuterHTML":                     {why: "reads the page"},
	"DOM.querySelector":                    {why: "reads the page"},
	"DOM.querySelectorAll":                 {why: "reads the page"},
	"DOM.getAttributes":                    {why: "reads the page"},
	"DOM.getBoxModel":                      {why: "reads the layout"},
	"DOM.getContentQuads":                  {why: "reads the layout"},
	"DOMSnapshot.captureSnapshot":          {why: "reads the page"},
	"Page.getLayoutMetrics":                {why: "reads the layout"},
	"Page.getFrameTree":                    {why: "reads the frames' addresses"},
	"Page.captureScreenshot":               {why: "a picture of the page"},
	"Page.printToPDF":                      {why: "a picture of the page", params: []string{"landscape", "displayHeaderFooter", "printBackground", "scale", "paperWidth", "paperHeight", "marginTop", "marginBottom", "marginLeft", "marginRight", "pageRanges", "preferCSSPageSize", "generateTaggedPDF"}},
	"Performance.enable":                   {why: "counts, no content"},
	"Performance.getMetrics":               {why: "counts, no content"},
	"Runtime.evaluate":                     {effect: true, script: true, why: "as the verb evaluate, with more options", params: []string{"expression", "returnByValue", "awaitPromise", "userGesture", "silent", "replMode", "timeout", "generatePreview"}},
	"Input.dispatchMouseEvent":             {effect: true, input: true, why: "input into the page"},
	"Input.dispatchKeyEvent":               {effect: true, input: true, why: "input into the page", params: []string{"type", "modifiers", "text", "unmodifiedText", "keyIdentifier", "code", "key", "windowsVirtualKeyCode", "nativeVirtualKeyCode", "autoRepeat", "isKeypad", "isSystemKey", "location"}},
	"Input.dispatchTouchEvent":             {effect: true, input: true, why: "input into the page"},
	"Input.insertText":                     {effect: true, input: true, why: "input into the page"},
	"Emulation.setDeviceMetricsOverride":   {effect: true, why: "the size of the viewport; gone when the debugger is detached"},
	"Emulation.clearDeviceMetricsOverride": {effect: true, why: "undoes the one above"},
	"Emulation.setEmulatedMedia":           {effect: true, why: "media features; gone when the debugger is detached"},
}

// ruleFor returns the row of a method, or the refusal.
func ruleFor(method string, params json.RawMessage) (rule, *core.Error) {
	row, ok := allowed[method]
	if !ok {
		return row, notAllowed("the method "+clip(method, 80)+" is not passed on",
			"use a verb; cookies, storage, targets and the browser itself are out of reach for an agent")
	}
	if len(params) == 0 {
		return row, nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(params, &given); err != nil || given == nil {
		return row, badArgument("params must be a JSON object")
	}
	if row.params == nil {
		return row, nil
	}
	for name := range given {
		known := false
		for _, p := range row.params {
			known = known || p == name
		}
		if !known {
			return row, notAllowed("the parameter "+clip(name, 60)+" of "+method+" is not passed on", "leave it out")
		}
	}
	return row, nil
}
