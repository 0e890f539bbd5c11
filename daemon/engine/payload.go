package engine

import (
	"encoding/json"
	"sync"

	"sessiondock.dev/sessiondock/daemon/core"
)

// maxKept bounds a result that is kept for a client that asks again. A larger one
// goes to the request that waits for it, once.
const maxKept = 64 << 10

// maxKeptTotal bounds all kept results together.
const maxKeptTotal = 8 << 20

// payloads holds what the journal must not: what actions type into pages, and what
// they saw there. Neither is ever written to the disk.
type payloads struct {
	mu      sync.Mutex
	asked   map[core.ActionID]any
	results map[core.ActionID]json.RawMessage
	order   []core.ActionID // of results, oldest first
	total   int
}

func newPayloads() payloads {
	return payloads{asked: map[core.ActionID]any{}, results: map[core.ActionID]json.RawMessage{}}
}

func (p *payloads) ask(id core.ActionID, v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[id] = v
}

// take returns what was asked and forgets it.
func (p *payloads) take(id core.ActionID) (any, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.asked[id]
	delete(p.asked, id)
	return v, ok
}

func (p *payloads) keep(id core.ActionID, result json.RawMessage) {
	if len(result) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.results[id]; ok {
		return
	}
	p.results[id] = result
	p.order = append(p.order, id)
	p.total += len(result)
	for p.total > maxKeptTotal && len(p.order) > 1 {
		p.drop(p.order[0])
	}
}

func (p *payloads) drop(id core.ActionID) {
	if r, ok := p.results[id]; ok {
		p.total -= len(r)
		delete(p.results, id)
	}
	for i, o := range p.order {
		if o == id {
			p.order = append(p.order[:i:i], p.order[i+1:]...)
			return
		}
	}
}

// result returns a kept result; a large one is given once.
func (p *payloads) result(id core.ActionID) json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.results[id]
	if len(r) > maxKept {
		p.drop(id)
	}
	return r
}

// forget drops what was asked and seen under an epoch that has ended (I10).
func (p *payloads) forget(id core.ActionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, id)
	p.drop(id)
}
