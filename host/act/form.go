package act

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/dom"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// fill replaces a field's text as a person would: focus, select all, and insert
// (or delete). Fields that are not typed into, such as dates, are set.
func (r *run) fill() ([][]byte, error) {
	value := *r.a.Act.Value
	r.plan(2)
	at, err := r.find(need{Enabled: true, Control: true, Editable: true})
	if err != nil {
		return nil, err
	}
	if at.Kind == "set" {
		r.plan(1)
		if _, err := r.call("set", map[string]any{"n": at.N, "value": value}, true); err != nil {
			return nil, err
		}
		return nil, r.barrier()
	}
	steps := []wire.Cmd{insert(value)}
	if value == "" {
		steps = keys["Delete"].strike(0)
	}
	r.plan(1 + len(steps))
	// The focus is waited for: text must not go where the focus was before.
	if _, err := r.call("focus", map[string]any{"n": at.N, "all": true}, true); err != nil {
		return nil, err
	}
	return nil, r.input(steps...)
}

func (r *run) choose() ([][]byte, error) {
	r.plan(1)
	value := *r.a.Act.Value
	at, err := r.find(need{Enabled: true, Control: true, Option: &value})
	if err != nil {
		return nil, err
	}
	chosen, err := r.call("choose", map[string]any{"n": at.N, "value": value}, true)
	if err != nil {
		return nil, err
	}
	if err := r.barrier(); err != nil {
		return nil, err
	}
	return jsonResult(map[string]string{"value": chosen.Value, "label": chosen.Label}), nil
}

// maxFiles is how many files one upload takes.
const maxFiles = 32

func (r *run) upload() ([][]byte, error) {
	r.plan(1)
	paths, bad := uploadPaths(r.a.UploadDir, r.a.Act.Files)
	if bad != nil {
		return nil, bad
	}
	at, err := r.find(need{Control: true, File: true})
	if err != nil {
		return nil, err
	}
	if len(paths) > 1 && !at.Multiple {
		return nil, badArgument("the field takes one file, not %d", len(paths))
	}
	e, err := r.inWorld("element", at.N, false, false)
	if err != nil {
		return nil, err
	}
	if e.Result.ObjectID == "" {
		return nil, pageFault(pageReply{Reason: "gone", Message: "the file field left the page"})
	}
	files := struct {
		Files    []string `json:"files"`
		ObjectID string   `json:"objectId"`
	}{paths, e.Result.ObjectID}
	return nil, r.input(effect(cdp(dom.CommandSetFileInputFiles, files)))
}

// uploadPaths turns names into paths of regular files that lie directly in dir. No
// name leads out of it: not by a separator, not by a link. (A process of the same
// user can still exchange a file after this look; that is said in the README.)
func uploadPaths(dir string, names []string) ([]string, *core.Error) {
	if dir == "" {
		return nil, notAllowed("this lease has no upload directory", "ask for a lease of a binding with uploads")
	}
	if len(names) > maxFiles {
		return nil, core.Refuse(core.CodeLimit, "too many files for one upload", "send at most 32 at a time")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, core.Refuse(core.CodeUnavailable, "the upload directory cannot be opened", "ask the person to look at it")
	}
	defer root.Close()
	paths := make([]string, 0, len(names))
	for _, name := range names {
		if name == "" || name == "." || name == ".." || name != filepath.Base(name) {
			return nil, notAllowed("a file is named by its plain name in the upload directory", "copy it there first")
		}
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, badArgument("there is no file %q in the upload directory", clip(name, 120))
		case err != nil:
			return nil, notAllowed("the file cannot be looked at", "copy it into the upload directory")
		case !info.Mode().IsRegular():
			return nil, notAllowed("only regular files are uploaded, no links and no directories", "copy the file itself into the upload directory")
		}
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths, nil
}

func jsonOf(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("act: cannot be encoded: " + err.Error())
	}
	return raw
}
