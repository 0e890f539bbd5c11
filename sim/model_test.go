package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dop251/goja"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/sim/explore"
)

// real is the extension's own worker in a browser with one tab, which does nothing by
// itself: commands are dispatched and stay in the page until the test lets them land.
type real struct {
	t      *testing.T
	w      *worker
	nowMs  int64
	nonce  core.Nonce
	posted []string // since the last look
	open   map[core.ActionID]int64
	seqs   map[int64]core.ActionID
	seq    int64
	holds  int
}

func newReal(t *testing.T, s *script) *real {
	r := &real{t: t, nowMs: 1_000, open: map[core.ActionID]int64{}, seqs: map[int64]core.ActionID{}}
	r.w = s.newWorker(func() int64 { return r.nowMs })
	val := s.vm.ToValue
	answer := func(call int64, text string) goja.Value {
		r.w.soon = append(r.w.soon, func() { r.w.do("answer", call, text) })
		return goja.Undefined()
	}
	fixed := func(text string) func(goja.FunctionCall) goja.Value {
		return func(goja.FunctionCall) goja.Value { return val(text) }
	}
	frame := `{"frameId":0,"documentId":"D","url":"https://shop.test/","processId":7}`
	call := func(c goja.FunctionCall) int64 { return c.Argument(0).ToInteger() }
	r.w.begin(natives{
		"mono": func(goja.FunctionCall) goja.Value { return val(r.nowMs) },
		"wall": func(goja.FunctionCall) goja.Value { return val(1_700_000_000_000 + r.nowMs) },
		"uuid": func(goja.FunctionCall) goja.Value {
			r.holds++
			return val(fmt.Sprint("uuid-", r.holds))
		},
		"connect": func(goja.FunctionCall) goja.Value { return val(int64(1)) },
		"post": func(c goja.FunctionCall) goja.Value {
			r.post(c.Argument(1).String())
			return goja.Undefined()
		},
		"closed":  fixed(""),
		"attach":  func(c goja.FunctionCall) goja.Value { return answer(call(c), "null") },
		"detach":  func(c goja.FunctionCall) goja.Value { return answer(call(c), "null") },
		"targets": fixed("[]"),
		"send": func(c goja.FunctionCall) goja.Value {
			if m, agents := tagOf(c.Argument(3).String()); agents {
				r.open[m.action] = call(c)
				return goja.Undefined()
			}
			if c.Argument(2).String() == "Page.getFrameTree" {
				return answer(call(c), `{"frameTree":{"frame":{"id":"F"}}}`)
			}
			return answer(call(c), "{}")
		},
		"barrier":   func(c goja.FunctionCall) goja.Value { return answer(call(c), `[{"frameId":0,"documentId":"D"}]`) },
		"tabs":      fixed(`[{"id":1,"url":"https://shop.test/","title":"","active":true,"windowId":1}]`),
		"createTab": fixed(""), "closeTab": fixed(""),
		"frames": fixed("[" + frame + "]"), "mainFrame": fixed(frame), "frameOf": fixed(`{"documentId":"D"}`),
		"load": fixed("{}"), "save": fixed(""),
	})
	return r
}

// post notes what the worker says, in the words that both sides are compared in.
func (r *real) post(text string) {
	var m struct {
		T          string
		Epoch      core.Epoch
		Ask, Seq   int64
		Mark       struct{ Epoch, Seq int64 }
		Hold       *struct{ ID core.HoldID }
		Actions    []struct{ Action core.ActionID }
		Documents  []any
		OK         bool
		Dispatched bool
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		r.t.Fatal(err)
	}
	said := ""
	switch m.T {
	case "hello":
		said = fmt.Sprintf("hello mark %d %d hold %v reports %d", m.Mark.Epoch, m.Mark.Seq, m.Hold != nil, len(m.Actions))
	case "fenced", "drained":
		said = fmt.Sprintf("%s %d reports %d documents %d", m.T, m.Epoch, len(m.Actions), len(m.Documents))
		if m.T == "drained" {
			said = fmt.Sprintf("drained %d reports %d", m.Epoch, len(m.Actions))
		}
	case "pull":
		said = fmt.Sprintf("pull %d", m.Ask)
	case "granted":
		said = fmt.Sprintf("granted %d", m.Epoch)
	case "person.hold":
		said = "person.hold"
	case "cmd.result":
		said = fmt.Sprintf("%s dispatched %v", r.seqs[m.Seq], m.Dispatched)
	case "report":
		return // told within some time; the model tells it at once
	default:
		said = text
	}
	r.posted = append(r.posted, said)
}

// rest lets the worker's short timers ring.
func (r *real) rest() {
	for range 12 {
		r.nowMs += 5
		r.w.ring()
	}
	if r.w.failed != nil {
		r.t.Fatal(r.w.failed)
	}
}

func (r *real) say(fields map[string]any) {
	text, err := json.Marshal(fields)
	if err != nil {
		r.t.Fatal(err)
	}
	r.w.do("say", 1, string(text))
}

func (r *real) hear(m explore.Down) {
	switch m.T {
	case "link":
		f := map[string]any{"t": "link", "up": m.Up}
		if m.Up {
			f["nonce"] = m.Nonce
		} else {
			f["reason"] = "it has ended"
		}
		r.say(f)
	case "fence":
		r.say(map[string]any{"t": "fence", "nonce": m.Nonce, "epoch": m.Epoch, "seq": m.Seq, "person": m.Person, "from_person": false, "hold": string(m.Hold), "deadline_ms": m.DrainMs, "watch_ms": 5_000})
	case "grant":
		r.say(map[string]any{"t": "grant", "nonce": m.Nonce, "ask": m.Ask, "epoch": m.Epoch, "lease": "L", "ttl_ms": m.TTLMs, "origins": []string{}, "watch_ms": 5_000})
	case "welcome":
		r.say(map[string]any{"t": "welcome", "nonce": m.Nonce, "epoch": m.Epoch, "seq": m.Seq})
	case "poke":
		r.say(map[string]any{"t": "poke", "nonce": m.Nonce})
	case "forget":
		r.say(map[string]any{"t": "forget", "nonce": m.Nonce, "seq": m.Seq, "actions": []core.ActionID{m.Action}})
	case "cmd":
		r.seq++
		r.seqs[r.seq] = m.Action
		r.say(map[string]any{
			"t": "cmd", "seq": r.seq, "action": m.Action, "epoch": m.Epoch, "kind": "cdp", "expect": map[string]any{"tab": 1, "document": "D"}, "method": "Runtime.evaluate",
			"params": map[string]any{"expression": "1", "sim": string(m.Action) + "#0"}, "effect": true, "script": false, "class": "write", "left_ms": 30_000,
		})
	}
}

// spoken are the model's words for the same.
func spoken(told []explore.Up) (out []string) {
	for _, u := range told {
		switch in := u.In.(type) {
		case core.Hello:
			out = append(out, fmt.Sprintf("hello mark %d %d hold %v reports %d", in.Mark, in.MarkSeq, in.Hold != "", len(in.Reports)))
		case core.Fenced:
			out = append(out, fmt.Sprintf("fenced %d reports %d documents %d", in.Epoch, len(in.Reports), len(in.Documents)))
		case core.Drained:
			out = append(out, fmt.Sprintf("drained %d reports %d", in.Epoch, len(in.Reports)))
		case core.Pull:
			out = append(out, fmt.Sprintf("pull %d", in.Ask))
		case core.Granted:
			out = append(out, fmt.Sprintf("granted %d", in.Epoch))
		case nil:
			switch {
			case u.Hold != "":
				out = append(out, "person.hold")
			case u.Refused != "":
				out = append(out, string(u.Refused)+" dispatched false")
			case u.Answered != "":
				out = append(out, string(u.Answered)+" dispatched true")
			}
		}
	}
	return out
}

// TestTheExplorersExtensionIsLikeTheRealOne plays the same messages, in orders drawn by
// chance, to the model that the explorer has of the extension and to the extension's own
// modules, and compares all that they say.
func TestTheExplorersExtensionIsLikeTheRealOne(t *testing.T) {
	s := forTest(t)
	heard := map[string]int{}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		it, model := newReal(t, s), explore.Extension{}
		var nonce core.Nonce
		var log []string
		epoch, asks, actions, links := core.Epoch(1), int64(0), 0, 0
		var open []core.ActionID
		hold := core.HoldID("")
		for range 30 {
			near := epoch - min(epoch-1, core.Epoch(rng.IntN(2)))
			if rng.IntN(3) == 0 {
				epoch++
				near = epoch
			}
			m := explore.Down{Nonce: nonce, Epoch: near, Seq: int64(rng.IntN(60)), DrainMs: 30_000, TTLMs: 15_000}
			var want []string
			switch n := rng.IntN(20); {
			case nonce == "" || n == 0:
				links++
				nonce = core.Nonce(fmt.Sprint("n", links))
				m = explore.Down{T: "link", Up: true, Nonce: nonce}
				asks = 0
			case n == 1:
				m, nonce = explore.Down{T: "link"}, ""
			case n < 5:
				m.T = "welcome"
			case n < 8:
				m.T, m.Person, m.Hold = "fence", rng.IntN(2) == 0, hold
				if rng.IntN(3) == 0 {
					m.Hold = "another"
				}
			case n < 11:
				m.T = "poke"
			case n < 14:
				m.T, m.Ask = "grant", asks-int64(rng.IntN(2))
				if rng.IntN(6) == 0 {
					m.Epoch = 0
				}
			case n < 17:
				actions++
				m.T, m.Action = "cmd", core.ActionID(fmt.Sprint("A", actions))
			case n == 17 && len(open) > 0:
				m.T = ""
				id := open[0]
				open = open[1:]
				log = append(log, "lands "+string(id))
				it.w.do("answer", it.open[id], "{}")
				it.rest()
				want = spoken(append(model.Land(id), model.Drain(it.nowMs)...))
			case n == 18 && actions > 0:
				m.T, m.Action = "forget", core.ActionID(fmt.Sprint("A", 1+rng.IntN(actions)))
				if slices.Contains(open, m.Action) {
					continue // only what is closed is forgotten
				}
			default:
				m.T = ""
				log = append(log, "press")
				it.w.do("press", `{"t":"takeover","pressed_ms":1}`)
				hold = core.HoldID(fmt.Sprint("uuid-", it.holds))
				want = spoken(model.Press(hold))
			}
			if m.T != "" {
				log = append(log, fmt.Sprintf("%+v", m))
				had := len(model.Ledger)
				it.hear(m)
				it.rest()
				want = spoken(model.Hear(m, it.nowMs))
				if m.T == "cmd" && len(model.Ledger) > had {
					open = append(open, m.Action)
				}
			}
			if model.Hold == "" {
				hold = ""
			}
			got := it.posted
			it.posted = nil
			for _, line := range want {
				word, _, _ := strings.Cut(line, " ")
				heard[word]++
				if word == "pull" {
					asks++
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: the extension says %q, the model %q, after\n%s", seed, got, want, strings.Join(log, "\n"))
			}
		}
	}
	for _, word := range []string{"hello", "fenced", "drained", "pull", "granted", "person.hold"} {
		if heard[word] < 20 {
			t.Errorf("%s was said %d times", word, heard[word])
		}
	}
	t.Log(heard)
}
