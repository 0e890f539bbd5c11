package act

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// only lists, for some methods, the members of params that may be given.
var only = map[string][]string{
	"Page.printToPDF": {"landscape", "displayHeaderFooter", "printBackground", "scale", "paperWidth", "paperHeight", "marginTop", "marginBottom", "marginLeft", "marginRight", "pageRanges", "preferCSSPageSize", "generateTaggedPDF", "generateDocumentOutline", "transferMode"},
	// Its script for the new page would be in no drain's list.
	"Page.reload":            {"ignoreCache", "loaderId"},
	"Input.dispatchKeyEvent": {"type", "modifiers", "timestamp", "text", "unmodifiedText", "keyIdentifier", "code", "key", "windowsVirtualKeyCode", "nativeVirtualKeyCode", "autoRepeat", "isKeypad", "isSystemKey", "location"},
}

// onlyOne lists the same for the verb cdp, which acts in the page's own world alone.
var onlyOne = map[string][]string{
	"Runtime.evaluate": {"expression", "returnByValue", "awaitPromise", "userGesture", "silent", "replMode", "timeout", "generatePreview"},
}

// ruleFor returns the row of a method in the one table, wire.Methods, or the refusal.
func ruleFor(a wire.Action) (wire.MethodInfo, *core.Error) {
	method, params := a.Act.Method, a.Act.Params
	row, ok := wire.Methods[method]
	switch {
	case !ok:
		return row, notAllowed("the method "+clip(method, 80)+" is not passed on",
			"use a verb; cookies, storage, targets and the browser itself are out of reach for an agent").With("unknown", true)
	case row.Never != "":
		return row, notAllowed(method+" is not passed on: "+row.Never, "leave it out")
	case row.Needs != "" && !slices.Contains(a.Allow, row.Needs):
		return row, core.NotAllowed(method, row.Needs)
	}
	if bad := bounded(method, params, only[method]); bad != nil || row.Needs == "" {
		return row, bad
	}
	return row, scope(method, params, a.Origins, a.Allow)
}

// bounded refuses parameters that are not in names, if there are any.
func bounded(method string, params json.RawMessage, names []string) *core.Error {
	if len(params) == 0 {
		return nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(params, &given); err != nil || given == nil {
		return badArgument("params must be a JSON object")
	}
	for name, value := range given {
		if names != nil && !empty(value) && !slices.Contains(names, name) {
			return notAllowed("the parameter "+clip(name, 60)+" of "+method+" is not passed on", "leave it out")
		}
	}
	return nil
}

// empty says whether a member says as much as none.
func empty(value json.RawMessage) bool {
	switch string(bytes.TrimSpace(value)) {
	case "null", `""`, "[]", "{}", "false", "0":
		return true
	}
	return false
}

// rawParams are a DevTools client's own parameters, held to what an agent may do: where
// a page goes to, which files it is given, how far a script of its reaches.
func rawParams(a wire.Action) (json.RawMessage, *core.Error) {
	params := a.Act.Params
	var given map[string]json.RawMessage
	text := func(name string) (s string) {
		json.Unmarshal(given[name], &s) //nolint:errcheck // the browser refuses what is no string
		return s
	}
	switch a.Act.Method {
	case "Page.navigate", "Page.createIsolatedWorld", "DOM.setFileInputFiles", "Input.dispatchDragEvent":
		if err := json.Unmarshal(params, &given); err != nil {
			return nil, badArgument("params must be a JSON object")
		}
	}
	switch a.Act.Method {
	case "Page.navigate":
		return params, checkURL(text("url"))
	case "Page.createIsolatedWorld":
		// Its name is spelt so in the protocol. A world with it reaches into frames of
		// websites that the binding does not list.
		delete(given, "grantUniveralAccess")
		delete(given, "grantUniversalAccess")
		return jsonOf(given), nil
	case "DOM.setFileInputFiles":
		files, bad := uploads(a.UploadDir, given["files"])
		if bad != nil {
			return nil, bad
		}
		given["files"] = files
		return jsonOf(given), nil
	case "Input.dispatchDragEvent":
		// What is dropped may be files, too.
		var data map[string]json.RawMessage
		if json.Unmarshal(given["data"], &data) != nil || empty(data["files"]) || len(data["files"]) == 0 {
			return params, nil
		}
		files, bad := uploads(a.UploadDir, data["files"])
		if bad != nil {
			return nil, bad
		}
		data["files"] = files
		given["data"] = jsonOf(data)
		return jsonOf(given), nil
	}
	return params, nil
}

// uploads holds a list of paths to the upload directory, and returns it spelt anew: the
// way to a file can lead through a link that is not seen in its name.
func uploads(dir string, list json.RawMessage) (json.RawMessage, *core.Error) {
	var files []string
	if err := json.Unmarshal(list, &files); err != nil {
		return nil, badArgument("files must be a list of paths")
	}
	for i, f := range files {
		if dir == "" || filepath.Dir(f) != filepath.Clean(dir) {
			return nil, notAllowed("a file outside the upload directory is not uploaded", "copy it into "+dir+" first")
		}
		files[i] = filepath.Base(f)
	}
	paths, bad := uploadPaths(dir, files)
	if bad != nil {
		return nil, bad
	}
	return jsonOf(paths), nil
}
