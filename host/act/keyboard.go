package act

import (
	"strings"
	"unicode/utf8"

	"github.com/chromedp/cdproto/input"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// maxTypeSteps bounds the steps of one type action: each line break and tab is a
// key of its own.
const maxTypeSteps = 2000

func keyEvent(p input.DispatchKeyEventParams) wire.Cmd {
	return effect(cdp(input.CommandDispatchKeyEvent, p))
}

func insert(text string) wire.Cmd {
	return effect(cdp(input.CommandInsertText, input.InsertTextParams{Text: text}))
}

// chord is a key with the modifiers that are held while it is struck.
type chord struct {
	held []key
	mask int64
	key  key
}

// parseChord reads "Enter", "a", "Control+Shift+A", "Control++".
func parseChord(s string) (chord, *core.Error) {
	var c chord
	rest := s
	for {
		name, after, ok := strings.Cut(rest, "+")
		if !ok || name == "" || after == "" {
			break
		}
		mod, ok := modifiers[name]
		if !ok {
			return c, badArgument("what stands before the + is not a modifier: use Alt, Control, Meta or Shift")
		}
		if c.mask&mod.bit != 0 {
			return c, badArgument("the modifier %s is named twice", name)
		}
		c.mask |= mod.bit
		c.held = append(c.held, mod.key)
		rest = after
	}
	k, ok := keyNamed(rest, c.mask&modifiers["Shift"].bit != 0)
	if !ok {
		// The text is not repeated: it may have been meant to be typed.
		return c, badArgument("there is no such key: use one character or a name such as Enter, Tab, Escape, ArrowDown, F5; to enter text, use type")
	}
	c.key = k
	return c, nil
}

// steps presses the modifiers, strikes the key, and lets go in the other order.
func (c chord) steps() []wire.Cmd {
	var out []wire.Cmd
	var mask int64
	for _, m := range c.held {
		mask |= modifiers[m.name].bit
		out = append(out, keyEvent(m.event(input.DispatchKeyEventTypeRawKeyDown, mask)))
	}
	out = append(out, c.key.strike(c.mask)...)
	for i := len(c.held) - 1; i >= 0; i-- {
		mask &^= modifiers[c.held[i].name].bit
		out = append(out, keyEvent(c.held[i].event(input.DispatchKeyEventTypeKeyUp, mask)))
	}
	return out
}

// strike is a key's press and release.
func (k key) strike(mask int64) []wire.Cmd {
	down := k.event(input.DispatchKeyEventTypeRawKeyDown, mask)
	// A key with Control, Alt or Meta is a command and types nothing.
	if k.text != "" && mask&^modifiers["Shift"].bit == 0 {
		down.Type, down.Text, down.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, k.text, k.text
	}
	return []wire.Cmd{keyEvent(down), keyEvent(k.event(input.DispatchKeyEventTypeKeyUp, mask))}
}

func (k key) event(kind input.DispatchKeyEventType, mask int64) input.DispatchKeyEventParams {
	return input.DispatchKeyEventParams{
		Type: kind, Modifiers: mask, Key: k.name, Code: k.code, Location: k.location,
		WindowsVirtualKeyCode: k.virtual, NativeVirtualKeyCode: k.virtual,
	}
}

// focus puts the focus into the target, if the action has one. It is an effect:
// pages listen to it.
func (r *run) focus(n need, all bool) error {
	at, err := r.find(n)
	if err != nil {
		return err
	}
	_, err = r.call("focus", map[string]any{"n": at.N, "all": all}, true)
	return err
}

func (r *run) press() ([][]byte, error) {
	c, bad := parseChord(r.a.Act.Key)
	if bad != nil {
		return nil, bad
	}
	steps := c.steps()
	r.plan(len(steps))
	if targetOf(r.a.Act) != (target{}) {
		r.plan(1 + len(steps))
		if err := r.focus(need{Enabled: true, Control: true}, false); err != nil {
			return nil, err
		}
	}
	return nil, r.input(steps...)
}

func (r *run) typeText() ([][]byte, error) {
	steps, bad := typing(*r.a.Act.Value)
	if bad != nil {
		return nil, bad
	}
	r.plan(len(steps))
	if targetOf(r.a.Act) != (target{}) {
		r.plan(1 + len(steps))
		if err := r.focus(need{Enabled: true, Control: true, Editable: true}, false); err != nil {
			return nil, err
		}
	}
	return nil, r.input(steps...)
}

// typing cuts text into insertions and the keys Enter and Tab.
func typing(text string) ([]wire.Cmd, *core.Error) {
	if !utf8.ValidString(text) {
		return nil, badArgument("the text is not valid UTF-8")
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var steps []wire.Cmd
	for text != "" {
		if len(steps) > maxTypeSteps {
			return nil, core.Refuse(core.CodeLimit, "the text has too many line breaks and tabs for one action", "use fill, which inserts it whole")
		}
		at := strings.IndexAny(text, "\n\t")
		if at < 0 {
			steps = append(steps, insert(text))
			break
		}
		if at > 0 {
			steps = append(steps, insert(text[:at]))
		}
		k := keys["Enter"]
		if text[at] == '\t' {
			k = keys["Tab"]
		}
		steps = append(steps, k.strike(0)...)
		text = text[at+1:]
	}
	return steps, nil
}
