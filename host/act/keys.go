package act

import (
	"fmt"
	"unicode/utf8"
)

// key is one key of an English (US) keyboard, as pages see it in KeyboardEvent.
type key struct {
	name     string // KeyboardEvent.key
	code     string // KeyboardEvent.code: the place on the keyboard
	virtual  int64  // the virtual key code, which editing commands go by
	text     string // what it types, if anything
	location int64  // 1: the left one of two
}

type modifier struct {
	key
	bit int64 // in the protocol's field "modifiers"
}

var modifiers = map[string]modifier{
	"Alt":     {key{"Alt", "AltLeft", 18, "", 1}, 1},
	"Control": {key{"Control", "ControlLeft", 17, "", 1}, 2},
	"Meta":    {key{"Meta", "MetaLeft", 91, "", 1}, 4},
	"Shift":   {key{"Shift", "ShiftLeft", 16, "", 1}, 8},
}

// keys holds the keys that have a name of more than one character.
var keys = func() map[string]key {
	m := map[string]key{}
	for _, k := range []key{
		{"Enter", "Enter", 13, "\r", 0}, {"Tab", "Tab", 9, "", 0}, {"Escape", "Escape", 27, "", 0},
		{"Backspace", "Backspace", 8, "", 0}, {"Delete", "Delete", 46, "", 0}, {"Insert", "Insert", 45, "", 0},
		{"ArrowLeft", "ArrowLeft", 37, "", 0}, {"ArrowUp", "ArrowUp", 38, "", 0},
		{"ArrowRight", "ArrowRight", 39, "", 0}, {"ArrowDown", "ArrowDown", 40, "", 0},
		{"Home", "Home", 36, "", 0}, {"End", "End", 35, "", 0},
		{"PageUp", "PageUp", 33, "", 0}, {"PageDown", "PageDown", 34, "", 0},
		{"ContextMenu", "ContextMenu", 93, "", 0}, {"Pause", "Pause", 19, "", 0},
		{"CapsLock", "CapsLock", 20, "", 0}, {"PrintScreen", "PrintScreen", 44, "", 0},
	} {
		m[k.name] = k
	}
	for i := int64(1); i <= 12; i++ {
		name := fmt.Sprintf("F%d", i)
		m[name] = key{name, name, 111 + i, "", 0}
	}
	for _, k := range modifiers {
		m[k.name] = k.key
	}
	m["Space"] = key{" ", "Space", 32, " ", 0}
	return m
}()

// punctuation is what the other keys type, plain and shifted.
var punctuation = []struct {
	plain, shifted rune
	code           string
	virtual        int64
}{
	{'0', ')', "Digit0", 48}, {'1', '!', "Digit1", 49}, {'2', '@', "Digit2", 50}, {'3', '#', "Digit3", 51},
	{'4', '$', "Digit4", 52}, {'5', '%', "Digit5", 53}, {'6', '^', "Digit6", 54}, {'7', '&', "Digit7", 55},
	{'8', '*', "Digit8", 56}, {'9', '(', "Digit9", 57},
	{';', ':', "Semicolon", 186}, {'=', '+', "Equal", 187}, {',', '<', "Comma", 188}, {'-', '_', "Minus", 189},
	{'.', '>', "Period", 190}, {'/', '?', "Slash", 191}, {'`', '~', "Backquote", 192}, {'[', '{', "BracketLeft", 219},
	{'\\', '|', "Backslash", 220}, {']', '}', "BracketRight", 221}, {'\'', '"', "Quote", 222},
}

// keyNamed returns the key with that name, or the one that types that character.
// With shift held a letter is its capital.
func keyNamed(name string, shift bool) (key, bool) {
	if k, ok := keys[name]; ok {
		return k, true
	}
	r, size := utf8.DecodeRuneInString(name)
	if size != len(name) || r == utf8.RuneError {
		return key{}, false
	}
	switch {
	case r == ' ':
		return keys["Space"], true
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		upper := r &^ 0x20
		if shift {
			r = upper
		}
		return key{string(r), "Key" + string(upper), int64(upper), string(r), 0}, true
	}
	for _, p := range punctuation {
		if r == p.plain || r == p.shifted {
			if shift {
				r = p.shifted
			}
			return key{string(r), p.code, p.virtual, string(r), 0}, true
		}
	}
	// A character that this keyboard lacks has no place on it, and is typed all the same.
	return key{string(r), "", 0, string(r), 0}, r >= 0x80
}
