package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/dop251/goja"
	"github.com/evanw/esbuild/pkg/api"

	"sessiondock.dev/sessiondock/extension"
)

//go:embed seam.js globals.js
var seam embed.FS

// program is the extension, compiled for the engine.
type program = goja.Program

// bundle makes one script of the extension's own modules, as they are shipped, and the
// seam under them. Nothing is translated but the import statements.
func bundle() (*program, error) {
	dir, err := os.MkdirTemp("", "sim-extension-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := extension.Write(dir, extension.Key{}, 1); err != nil {
		return nil, err
	}
	for _, name := range []string{"seam.js", "globals.js"} {
		body, err := seam.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
			return nil, err
		}
	}
	entry := filepath.Join(dir, "seam.js")
	built := api.Build(api.BuildOptions{EntryPoints: []string{entry}, Bundle: true, Format: api.FormatIIFE, Target: api.ES2022})
	if len(built.Errors) > 0 {
		return nil, fmt.Errorf("bundle the extension: %s", built.Errors[0].Text)
	}
	return goja.Compile("extension.js", string(built.OutputFiles[0].Contents), true)
}

// script is one JavaScript engine with the extension in it. Workers that are started
// in it share nothing but its code; what runs in it at a time is one worker's turn.
type script struct {
	vm    *goja.Runtime
	start goja.Callable
	turn  *worker // whose turn it is: its are the timers that are set now
	noted func(string)
}

func newScript(program *program) (*script, error) {
	s := &script{vm: goja.New()}
	console := s.vm.NewObject()
	warn := func(call goja.FunctionCall) goja.Value {
		if s.noted != nil {
			s.noted(fmt.Sprint(call.Arguments))
		}
		return goja.Undefined()
	}
	for _, err := range []error{
		s.quickParse(),
		console.Set("warn", warn), s.vm.Set("console", console),
		s.vm.Set("setTimeout", func(call goja.FunctionCall) goja.Value {
			f, _ := goja.AssertFunction(call.Argument(0))
			return s.vm.ToValue(s.turn.after(call.Argument(1).ToInteger(), f))
		}),
		s.vm.Set("clearTimeout", func(call goja.FunctionCall) goja.Value {
			s.turn.clear(call.Argument(0).ToInteger())
			return goja.Undefined()
		}),
	} {
		if err != nil {
			return nil, err
		}
	}
	if _, err := s.vm.RunProgram(program); err != nil {
		return nil, err
	}
	s.start, _ = goja.AssertFunction(s.vm.Get("startWorker"))
	return s, nil
}

// timer is one setTimeout.
type timer struct {
	id, at int64
	f      goja.Callable
}

// worker is one life of the extension's service worker.
type worker struct {
	script *script
	mono   func() int64
	verbs  map[string]goja.Callable
	timers []timer
	nextID int64
	soon   []func() // what its browser does once the turn has ended
	deep   int
	dead   bool
	failed error // the worker threw where nothing of its own catches
}

// natives is what a worker asks of its browser.
type natives map[string]func(goja.FunctionCall) goja.Value

// newWorker makes a life that has not begun.
func (s *script) newWorker(mono func() int64) *worker {
	return &worker{script: s, mono: mono, verbs: map[string]goja.Callable{}}
}

// begin is the worker's first turn.
func (w *worker) begin(table natives) {
	vm := w.script.vm
	native := vm.NewObject()
	for name, f := range table {
		if err := native.Set(name, f); err != nil {
			w.failed = err
		}
	}
	w.script.turn = w
	w.deep++
	v, err := w.script.start(nil, native)
	w.deep--
	if err != nil {
		w.failed, w.dead = err, true
		return
	}
	for _, name := range []string{"emit", "answer", "fail", "say", "drop", "press"} {
		w.verbs[name], _ = goja.AssertFunction(v.ToObject(vm).Get(name))
	}
	w.settle()
}

// do lets the worker have one turn of its event loop, with everything that hangs on it.
func (w *worker) do(verb string, args ...any) {
	if w.dead {
		return
	}
	values := make([]goja.Value, len(args))
	for i, a := range args {
		values[i] = w.script.vm.ToValue(a)
	}
	w.run(w.verbs[verb], values...)
}

func (w *worker) run(f goja.Callable, args ...goja.Value) {
	w.deep++
	w.script.turn = w
	if _, err := f(nil, args...); err != nil && w.failed == nil {
		w.failed = err
	}
	w.deep--
	w.settle()
}

// settle lets the browser do what waited for the end of the turn.
func (w *worker) settle() {
	for w.deep == 0 && len(w.soon) > 0 && !w.dead {
		next := w.soon[0]
		w.soon = w.soon[1:]
		next()
	}
}

func (w *worker) after(ms int64, f goja.Callable) int64 {
	w.nextID++
	w.timers = append(w.timers, timer{w.nextID, w.mono() + max(ms, 0), f})
	return w.nextID
}

func (w *worker) clear(id int64) {
	w.timers = slices.DeleteFunc(w.timers, func(t timer) bool { return t.id == id })
}

// due returns when the next timer is due, and whether there is one.
func (w *worker) due() (at int64, any bool) {
	for _, t := range w.timers {
		if !any || t.at < at {
			at, any = t.at, true
		}
	}
	return at, any
}

// ring runs the timers that are due now, each in its turn. Those that they set anew
// wait for the next time.
func (w *worker) ring() {
	now, last := w.mono(), w.nextID
	for !w.dead {
		best := -1
		for i, t := range w.timers {
			if t.at <= now && t.id <= last && (best < 0 || t.at < w.timers[best].at || t.at == w.timers[best].at && t.id < w.timers[best].id) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		t := w.timers[best]
		w.timers = slices.Delete(w.timers, best, best+1)
		w.run(t.f)
	}
}

// kill ends the life: its timers and promises are gone with it.
func (w *worker) kill() { w.dead, w.timers = true, nil }
