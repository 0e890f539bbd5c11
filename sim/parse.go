package main

import (
	"strconv"
	"strings"

	"github.com/dop251/goja"
)

// A quicker JSON.parse: schedules spend much of their time on messages, and the engine's
// own reads them a token at a time. What it does not take as plain (an escape, a
// fraction, whatever is not JSON) it leaves to the engine's.

// quickParse puts it in the place of JSON.parse.
func (s *script) quickParse() error {
	json := s.vm.Get("JSON").ToObject(s.vm)
	own, _ := goja.AssertFunction(json.Get("parse"))
	return json.Set("parse", func(call goja.FunctionCall) goja.Value {
		if text, plain := call.Argument(0).Export().(string); plain && len(call.Arguments) == 1 {
			p := reading{vm: s.vm, text: text}
			if v := p.value(0); v != nil && p.rest() == "" {
				return v
			}
		}
		v, err := own(json, call.Arguments...)
		if err != nil {
			panic(err)
		}
		return v
	})
}

type reading struct {
	vm   *goja.Runtime
	text string
	at   int
}

// rest is what is left to read, without the space before it.
func (p *reading) rest() string {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	return p.text[p.at:]
}

// take reads one sign, if it comes next.
func (p *reading) take(c byte) bool {
	rest := p.rest()
	if rest == "" || rest[0] != c {
		return false
	}
	p.at++
	return true
}

const deepest = 32

// value reads a value, or returns nil where it is not plain.
func (p *reading) value(depth int) goja.Value {
	rest := p.rest()
	if rest == "" || depth > deepest {
		return nil
	}
	switch c := rest[0]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		if text, ok := p.string(); ok {
			return p.vm.ToValue(text)
		}
		return nil
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for _, word := range []struct {
		text  string
		value goja.Value
	}{{"null", goja.Null()}, {"true", p.vm.ToValue(true)}, {"false", p.vm.ToValue(false)}} {
		if strings.HasPrefix(rest, word.text) {
			p.at += len(word.text)
			return word.value
		}
	}
	return nil
}

func (p *reading) object(depth int) goja.Value {
	p.at++
	o := p.vm.NewObject()
	for first := true; !p.take('}'); first = false {
		if !first && !p.take(',') {
			return nil
		}
		if !strings.HasPrefix(p.rest(), `"`) {
			return nil
		}
		name, ok := p.string()
		if !ok || name == "__proto__" || !p.take(':') {
			return nil
		}
		v := p.value(depth + 1)
		if v == nil || o.Set(name, v) != nil {
			return nil
		}
	}
	return o
}

func (p *reading) array(depth int) goja.Value {
	p.at++
	items := []any{}
	for first := true; !p.take(']'); first = false {
		if !first && !p.take(',') {
			return nil
		}
		v := p.value(depth + 1)
		if v == nil {
			return nil
		}
		items = append(items, v)
	}
	return p.vm.NewArray(items...)
}

// string reads one without an escape, of plain ASCII.
func (p *reading) string() (string, bool) {
	for i := p.at + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '"':
			text := p.text[p.at+1 : i]
			p.at = i + 1
			return text, true
		case c == '\\' || c < ' ' || c >= 0x80:
			return "", false
		}
	}
	return "", false
}

// number reads a whole number that is exact in JavaScript, too.
func (p *reading) number() goja.Value {
	end := p.at + 1
	for end < len(p.text) && p.text[end] >= '0' && p.text[end] <= '9' {
		end++
	}
	if end < len(p.text) && strings.IndexByte(".eE", p.text[end]) >= 0 {
		return nil
	}
	digits := p.text[p.at:end]
	n, err := strconv.ParseInt(digits, 10, 54)
	if err != nil || strconv.FormatInt(n, 10) != digits {
		return nil
	}
	p.at = end
	return p.vm.ToValue(n)
}
