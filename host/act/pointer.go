package act

import (
	"github.com/chromedp/cdproto/input"

	"sessiondock.dev/sessiondock/daemon/wire"
)

func mouse(p input.DispatchMouseEventParams) wire.Cmd {
	return effect(cdp(input.CommandDispatchMouseEvent, p))
}

func moveTo(x, y float64, pressed bool) wire.Cmd {
	p := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y}
	if pressed {
		p.Button, p.Buttons = input.MouseButtonLeft, 1
	}
	return mouse(p)
}

func pressAt(x, y float64) wire.Cmd {
	return mouse(input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMousePressed, X: x, Y: y, Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1})
}

func releaseAt(x, y float64) wire.Cmd {
	return mouse(input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseReleased, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1})
}

// clickAt is a click's three steps. They are written at once: waiting for each
// would cost a frame of the display apiece and prove nothing, since an answer to
// an input event is no proof of what came of it.
func clickAt(x, y float64) []wire.Cmd {
	return []wire.Cmd{moveTo(x, y, false), pressAt(x, y), releaseAt(x, y)}
}

func (r *run) click() ([][]byte, error) {
	r.plan(3)
	at, err := r.find(need{Point: true, Enabled: true})
	if err != nil {
		return nil, err
	}
	return nil, r.input(clickAt(at.X, at.Y)...)
}

func (r *run) hover() ([][]byte, error) {
	r.plan(1)
	at, err := r.find(need{Point: true})
	if err != nil {
		return nil, err
	}
	return nil, r.input(moveTo(at.X, at.Y, false))
}

// check clicks a box only if it is not as wanted, and reports how it then stands:
// a page may refuse the change.
func (r *run) check() ([][]byte, error) {
	wanted := r.a.Act.Checked == nil || *r.a.Act.Checked
	at, err := r.find(need{Point: true, Enabled: true, Control: true, Checkable: true, Checked: wanted})
	if err != nil {
		return nil, err
	}
	if at.Checked != nil && *at.Checked == wanted {
		return jsonResult(map[string]any{"checked": wanted, "changed": false}), nil
	}
	if err := r.input(clickAt(at.X, at.Y)...); err != nil {
		return nil, err
	}
	now, err := r.call("checked", map[string]int{"n": at.N}, false)
	if err != nil {
		return nil, err
	}
	return jsonResult(map[string]any{"checked": now.Checked, "changed": now.Checked != nil && *now.Checked == wanted}), nil
}

// wheel is the event of a turned wheel. Both distances must be given, also one that
// is 0, which cdproto's type leaves out.
type wheel struct {
	Type   input.DispatchMouseEventType `json:"type"`
	X      float64                      `json:"x"`
	Y      float64                      `json:"y"`
	DeltaX float64                      `json:"deltaX"`
	DeltaY float64                      `json:"deltaY"`
}

// scroll turns the mouse wheel over the target, or over the page's middle.
func (r *run) scroll() ([][]byte, error) {
	r.plan(1)
	var at pageReply
	var err error
	if targetOf(r.a.Act) == (target{}) {
		at, err = r.call("middle", nil, false)
	} else {
		at, err = r.find(need{Point: true})
	}
	if err != nil {
		return nil, err
	}
	return nil, r.input(effect(cdp(input.CommandDispatchMouseEvent, wheel{
		input.DispatchMouseEventTypeMouseWheel, at.X, at.Y, r.a.Act.DX, r.a.Act.DY,
	})))
}

// dragSteps is how many moves a drag makes on its way: enough for pages that
// begin a drag only after the pointer has gone some distance.
const dragSteps = 5

func (r *run) drag() ([][]byte, error) {
	to := target{Selector: r.a.Act.ToSelector, Ref: r.a.Act.ToRef}
	if (to.Selector == "") == (to.Ref == "") {
		return nil, badArgument("drag needs one of to_selector and to_ref")
	}
	found, err := r.call("pair", struct {
		From target `json:"from"`
		To   target `json:"to"`
		Ms   int64  `json:"ms"`
	}{targetOf(r.a.Act), to, r.patience(findWithin)}, false)
	if err != nil {
		return nil, err
	}
	from, onto := found.From, found.To
	if from == nil || onto == nil {
		return nil, badArgument("drag: the page named no targets")
	}
	if from.Draggable {
		return r.dragEvents(*from, *onto)
	}
	steps := []wire.Cmd{moveTo(from.X, from.Y, false), pressAt(from.X, from.Y)}
	for i := 1; i <= dragSteps; i++ {
		part := float64(i) / dragSteps
		steps = append(steps, moveTo(from.X+(onto.X-from.X)*part, from.Y+(onto.Y-from.Y)*part, true))
	}
	steps = append(steps, releaseAt(onto.X, onto.Y))
	r.plan(len(steps))
	if err := r.input(steps...); err != nil {
		return nil, err
	}
	return jsonResult(map[string]any{"how": "mouse"}), nil
}

// dragEvents drags an element that is declared draggable: the mouse would start a
// drag of the desktop, which the protocol cannot end.
func (r *run) dragEvents(from, to pageReply) ([][]byte, error) {
	type place struct {
		N int     `json:"n"`
		X float64 `json:"x"`
		Y float64 `json:"y"`
	}
	r.plan(1)
	done, err := r.call("drag", map[string]place{"from": {from.N, from.X, from.Y}, "to": {to.N, to.X, to.Y}}, true)
	if err != nil {
		return nil, err
	}
	if err := r.barrier(); err != nil {
		return nil, err
	}
	return jsonResult(map[string]any{"how": "events", "dropped": done.Dropped}), nil
}
