package act

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// window is how many steps of one action are on their way at once, at most.
const window = 64

// Done is an action's end. Result is the JSON of the result in pieces, in place of
// the embedded one: a picture of 20 MB is passed on, not copied.
type Done struct {
	wire.ActionDone
	Result [][]byte
}

// run is one action under way. It is used by one goroutine; what the reader of the browser's
// stream tells it, too, is atomic.
type run struct {
	x    *Executor
	ctx  context.Context
	stop context.CancelCauseFunc
	a    wire.Action
	// deadline is a.DeadlineMs from the receipt.
	deadline time.Time

	expect   core.Expect  // pinned to the tab and document of the first answer
	observed *core.Expect // last told
	url      string

	acted      atomic.Bool                 // an effect step was handed over
	shown      atomic.Pointer[core.Dialog] // why it was not begun
	reached    bool                        // a step of any kind may have been dispatched
	effects    []*Step                     // every effect step that was handed over
	planned    int                         // how many there are to be
	mayMove    bool                        // the action itself replaces the document: do not pin it
	inBarrier  bool                        // all effects are done, the barrier is out
	proved     int                         // effects whose error proves that they were not executed
	unanswered bool                        // an effect was answered by an error that proves nothing
}

// errStopped is returned by a step that was cut off; the cause is the context's.
var errStopped = errors.New("stopped")

// plan sets how many effect steps the action has.
func (r *run) plan(n int) { r.planned = n }

func (r *run) left() time.Duration { return time.Until(r.deadline) }

// send hands a step over.
func (r *run) send(c wire.Cmd) *Step {
	s := r.step(c)
	r.hands(s)
	return s
}

// step makes a step of this action.
func (r *run) step(c wire.Cmd) *Step {
	c.Action, c.Epoch, c.Class = r.a.Action, r.a.Epoch, r.a.Class
	if c.Expect == (core.Expect{}) {
		c.Expect = r.expect
	}
	c.LeftMs = max(r.left().Milliseconds(), 0)
	c.Raw = r.a.Raw
	s := newStep(c)
	if !c.Raw {
		s.waits = r.waits
	}
	if c.Effect {
		r.acted.Store(true)
		r.effects = append(r.effects, s)
		r.planned = max(r.planned, len(r.effects))
	}
	return s
}

// waits is told of a dialog in the page, by the reader of the browser's stream. An action
// that has not begun does not begin: what it is to do would be done after the answer, in a
// page that is another by then.
func (r *run) waits(d *core.Dialog) {
	if r.acted.Load() {
		r.x.port.Waits(wire.ActionWaits{Action: r.a.Action, Epoch: r.a.Epoch, Dialog: d})
	} else if d != nil {
		r.shown.Store(d)
		r.stop(inTheWay(d))
	}
}

func inTheWay(d *core.Dialog) *core.Error {
	return core.Refuse(core.CodeConflict, "the page shows "+article(d.Kind)+" and waits for its answer", "answer it: the verb dialog")
}

func article(kind string) string {
	if kind == "alert" {
		return "an alert"
	}
	return "a " + kind + " dialog"
}

func (r *run) hands(s *Step) {
	if r.ctx.Err() != nil {
		s.Withhold()
		return
	}
	r.x.port.Send(s)
}

// wait waits for a step's answer, and no longer than the action may live.
func (r *run) wait(s *Step) (Answer, error) {
	select {
	case <-s.done:
	case <-r.ctx.Done():
		s.Withhold()
	}
	r.reached = r.reached || s.mayHaveRun()
	a, ok := s.settled()
	if !ok {
		return Answer{}, errStopped
	}
	// A barrier may be answered from the document that the action itself led to.
	// The agent has not seen that one: it is not reported as seen.
	if s.Cmd.Kind != "barrier" {
		r.learn(a)
	}
	if a.OK {
		return a, nil
	}
	if s.Cmd.Effect && a.Dispatched {
		if provesNotExecuted(s.Cmd.Method, a.Error) != nil {
			r.proved++
		} else {
			r.unanswered = true
		}
	}
	return a, r.stepError(s, a)
}

// learn pins the action to the document of its first answer.
func (r *run) learn(a Answer) {
	if a.URL != "" {
		r.url = a.URL
	}
	if a.Observed == nil {
		return
	}
	r.observed = a.Observed
	if r.expect.Tab == 0 {
		r.expect.Tab = a.Observed.Tab
	}
	if r.expect.Document == "" && !r.mayMove {
		r.expect.Document = a.Observed.Document
	}
}

func (r *run) stepError(s *Step, a Answer) *core.Error {
	if a.Error == nil {
		return core.Refuse(core.CodeInternal, "the extension gave no reason", "see the log of the host")
	}
	if d := a.Dialog; d != nil && !a.Dispatched {
		// An effect is not put behind a dialog that stands there already.
		r.shown.Store(d)
		return inTheWay(d)
	}
	if !a.Dispatched {
		return a.Error
	}
	what := s.Cmd.Method
	if what == "" {
		what = s.Cmd.Kind
	}
	if p := provesNotExecuted(s.Cmd.Method, a.Error); p != nil {
		return core.Refuse(core.CodeConflict, what+": "+browserSays(a.Error), "nothing was executed: "+p.reason)
	}
	if !s.Cmd.Effect {
		code := a.Error.Code
		if code == "" || code == core.CodeOutcomeUnknown {
			code = core.CodeConflict
		}
		return core.Refuse(code, what+": "+browserSays(a.Error), "look at the page again, then send a new action")
	}
	return core.Refuse(core.CodeOutcomeUnknown, what+": "+browserSays(a.Error), "look the action up; do not send it again")
}

// do sends a step and waits for it.
func (r *run) do(c wire.Cmd) (Answer, error) { return r.wait(r.send(c)) }

// cdp makes a command of the DevTools protocol. Params is nil or one of cdproto's.
func cdp(method string, params any) wire.Cmd {
	c := wire.Cmd{Kind: "cdp", Method: method}
	if params == nil {
		return c
	}
	if raw, ok := params.(json.RawMessage); ok {
		c.Params = raw
		return c
	}
	raw, err := json.Marshal(params)
	if err != nil {
		panic("act: " + method + " cannot be encoded: " + err.Error())
	}
	c.Params = raw
	return c
}

// effect marks a command as one that can change the page.
func effect(c wire.Cmd) wire.Cmd {
	c.Effect = true
	return c
}

// all writes effect steps back to back, at most window ahead of their answers, and
// waits for every answer. It returns the first error.
func (r *run) all(cmds ...wire.Cmd) error {
	var first error
	var open []*Step
	settle := func(n int) {
		for len(open) > n {
			if _, err := r.wait(open[0]); err != nil && first == nil {
				first = err
			}
			open = open[1:]
		}
	}
	for _, c := range cmds {
		if settle(window - 1); first != nil {
			break
		}
		open = append(open, r.send(c))
	}
	settle(0)
	return first
}

// barrier proves that what was put in before it has been handled in the document.
func (r *run) barrier() error {
	r.inBarrier = true
	_, err := r.do(wire.Cmd{Kind: "barrier"})
	return err
}

// input is the end of every input verb: the effects, then the barrier.
func (r *run) input(cmds ...wire.Cmd) error {
	if err := r.all(cmds...); err != nil {
		return err
	}
	return r.barrier()
}

// end says what is known of the action.
func (r *run) end(result [][]byte, err error) Done {
	d := Done{ActionDone: wire.ActionDone{
		Action: r.a.Action, Epoch: r.a.Epoch, State: "finished",
		Observed: r.observed, URL: withoutQuery(r.url),
	}}
	for _, s := range r.effects {
		// Withholding first makes "never sent" final for what is still queued.
		if !s.Withhold() && s.mayHaveRun() {
			d.Steps.Dispatched++
		}
	}
	d.Steps.Total = max(r.planned, len(r.effects))
	if err == nil {
		d.Result = result
		return d
	}
	d.Error = secrecy(r.reason(err), typed(r.a.Act))
	if shown := r.shown.Load(); shown != nil && d.Steps.Dispatched == 0 {
		d.Result = jsonResult(map[string]any{"dialog": shown}) // content: in the result, which is not stored
	}
	switch {
	case d.Steps.Dispatched == 0 && r.a.Class == core.Read && r.reached:
		// It has no effects to count, and it has looked all the same.
		d.State = "halted"
	case d.Steps.Dispatched == 0:
		d.State = "refused"
	case r.ctx.Err() != nil || r.inBarrier:
		d.State = "halted"
	case r.unanswered:
		d.State = "unknown"
	case r.proved == d.Steps.Dispatched:
		d.State = "failed"
	default:
		d.State = "halted"
	}
	if d.State == "halted" || d.State == "unknown" {
		d.Error = r.begun(d.Error, d.Steps)
	}
	return d
}

// begun makes the reason of an action that was not refused one that nobody takes
// for leave to send it again: "fenced" and its like say that nothing was
// dispatched. What the code was stands in the detail "cause".
func (r *run) begun(e *core.Error, steps core.Steps) *core.Error {
	if steps.Dispatched == 0 {
		if e.Code != core.CodeFenced {
			return e
		}
		c := e.With("cause", e.Code)
		c.Code, c.Message, c.Hint = core.CodeOutcomeUnknown, e.Message+"; the look at the page was cut short", "it changed nothing; look again under the new epoch"
		return c
	}
	if e.Code == core.CodeOutcomeUnknown || e.Code.Info().Retry == core.RetryNever {
		return e
	}
	c := e.With("cause", e.Code)
	c.Code = core.CodeOutcomeUnknown
	c.Message = fmt.Sprintf("%s; %d of %d steps had been dispatched", e.Message, steps.Dispatched, steps.Total)
	c.Hint = "look the action up; do not send it again"
	return c
}

// reason returns the refusal that an error stands for.
func (r *run) reason(err error) *core.Error {
	if r.ctx.Err() != nil {
		var stop *core.Error
		if errors.As(context.Cause(r.ctx), &stop) {
			return stop
		}
		return core.Refuse(core.CodeDeadline, "the action's deadline passed", "look again, or send a new action")
	}
	var e *core.Error
	if errors.As(err, &e) {
		return e
	}
	return core.Refuse(core.CodeInternal, err.Error(), "see the log of the host")
}

// withoutQuery is the part of an address that may be stored: what follows the path
// can hold a secret, and so can the whole of an address that is no place on the web.
func withoutQuery(address string) string {
	if address == "" || address == "about:blank" {
		return address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return ""
	case u.Scheme != "http" && u.Scheme != "https":
		return u.Scheme + ":"
	}
	return clip(u.Scheme+"://"+u.Host+u.EscapedPath(), wire.MaxURL-len("…"))
}

// jsonResult encodes a small result.
func jsonResult(v any) [][]byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("act: a result cannot be encoded: " + err.Error())
	}
	return [][]byte{bytes.TrimRight(b.Bytes(), "\n")}
}
