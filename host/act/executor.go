package act

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// MaxRunning is how many actions one host runs at once: one of the lane, and
// dialog beside it, with room for those that a fence is ending.
const MaxRunning = 16

// Executor runs actions. It remembers the isolated worlds of documents, nothing
// of actions.
type Executor struct {
	port   Port
	worlds worlds
}

// NewExecutor returns an executor that sends its steps to port.
func NewExecutor(port Port) *Executor { return &Executor{port: port} }

type verbFunc func(*run) (result [][]byte, err error)

var verbs = map[string]verbFunc{
	"navigate":   (*run).navigate,
	"back":       (*run).back,
	"reload":     (*run).reload,
	"click":      (*run).click,
	"fill":       (*run).fill,
	"type":       (*run).typeText,
	"press":      (*run).press,
	"select":     (*run).choose,
	"check":      (*run).check,
	"hover":      (*run).hover,
	"drag":       (*run).drag,
	"scroll":     (*run).scroll,
	"upload":     (*run).upload,
	"wait":       (*run).waitFor,
	"snapshot":   (*run).snapshot,
	"console":    (*run).console,
	"network":    (*run).network,
	"screenshot": (*run).screenshot,
	"evaluate":   (*run).evaluate,
	"dialog":     (*run).dialog,
	"tabs":       (*run).tabs,
	"cdp":        (*run).devtools,
}

// Run carries out one action. It returns at the latest at the action's deadline,
// and at once when ctx is cancelled; the cause of that should be a *core.Error.
func (x *Executor) Run(ctx context.Context, a wire.Action) Done {
	left := time.Duration(a.DeadlineMs) * time.Millisecond
	r := &run{x: x, a: a, expect: a.Expect, deadline: time.Now().Add(min(left, wire.MaxActionDeadline))}
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithDeadline(ctx, r.deadline)
	defer cancel()
	if a.DeadlineMs <= 0 {
		// The daemon names every action's deadline: none left means that it is over.
		return r.end(nil, core.Refuse(core.CodeDeadline, "the action's deadline had passed before it was begun", "send a new action"))
	}
	if err := check(a); err != nil {
		return r.end(nil, err)
	}
	return r.end(verbs[a.Act.Verb](r))
}

// Begin begins a raw command: it is handed over before Begin returns, so that commands
// leave in the order in which they came. told is given the browser's answer in its order
// among the browser's other words, and must not wait; a command that no gate let pass is
// not told of. The function that comes back waits for the end, as Run does.
func (x *Executor) Begin(ctx context.Context, a wire.Action, told func(Answer)) func() Done {
	left := min(time.Duration(a.DeadlineMs)*time.Millisecond, wire.MaxActionDeadline)
	r := &run{x: x, a: a, expect: a.Expect, deadline: time.Now().Add(left)}
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithDeadline(ctx, r.deadline)
	wait := r.raw(told)
	return func() Done {
		defer cancel()
		return r.end(nil, wait())
	}
}

// check refuses an action that its verb's row does not allow. The daemon has done
// so before; this is what the host itself relies on.
func check(a wire.Action) error {
	info, known := wire.Verb(a.Act.Verb)
	if !known || verbs[a.Act.Verb] == nil {
		return badArgument("there is no verb %q", clip(a.Act.Verb, 40))
	}
	if a.Epoch > core.MaxEpoch {
		return badArgument("epoch %d is out of range", a.Epoch)
	}
	if a.Expect.Frame != 0 && info.Verb != "evaluate" {
		return badArgument("%s acts in the main frame and what it contains of the same origin", info.Verb)
	}
	targets := 0
	for _, s := range []string{a.Act.Selector, a.Act.Ref, a.Act.Text, a.Act.Role} {
		if s != "" {
			targets++
		}
	}
	switch {
	case targets > 1:
		return badArgument("%s: name the target in one way: selector, ref, text, or role with name", info.Verb)
	case info.Target == "need" && targets == 0:
		return badArgument("%s needs a target", info.Verb)
	}
	for _, need := range strings.Fields(info.Needs) {
		if !has(a.Act, need) {
			return badArgument("%s needs %s", info.Verb, need)
		}
	}
	return nil
}

func has(a wire.Act, argument string) bool {
	switch argument {
	case "url":
		return a.URL != ""
	case "value":
		return a.Value != nil
	case "key":
		return a.Key != ""
	case "files":
		return len(a.Files) > 0
	case "expression":
		return a.Expression != ""
	case "accept":
		return a.Accept != nil
	case "method":
		return a.Method != ""
	}
	panic(fmt.Sprintf("act: wire.Verbs names the argument %q", argument))
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
