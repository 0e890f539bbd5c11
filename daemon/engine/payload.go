package engine

import (
	"encoding/json"
	"slices"
	"sync"

	"sessiondock.dev/sessiondock/daemon/core"
)

// maxKept bounds a result that is kept for a client that asks again. A larger one
// goes to the request that waits for it, once.
const maxKept = 64 << 10

// Bounds of all results of a kind together. The large ones are on their way to requests:
// a bound that one such result fills would let another agent's take its place.
const (
	maxSmallTotal = 8 << 20
	maxLargeTotal = 256 << 20
)

// payloads holds what the journal must not: what actions type into pages, and what
// they saw there. Neither is ever written to the disk.
type payloads struct {
	mu           sync.Mutex
	asked        map[core.ActionID]any
	small, large shelf
}

// shelf holds results, the oldest of which make room for the newest.
type shelf struct {
	results map[core.ActionID]json.RawMessage
	order   []core.ActionID // oldest first
	total   int
	max     int
}

func newPayloads() payloads {
	return payloads{
		asked: map[core.ActionID]any{},
		small: shelf{results: map[core.ActionID]json.RawMessage{}, max: maxSmallTotal},
		large: shelf{results: map[core.ActionID]json.RawMessage{}, max: maxLargeTotal},
	}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(result) == 0:
	case len(result) <= maxKept:
		p.small.put(id, result)
	default:
		p.large.put(id, result)
	}
}

func (s *shelf) put(id core.ActionID, result json.RawMessage) {
	if _, ok := s.results[id]; ok {
		return
	}
	s.results[id] = result
	s.order = append(s.order, id)
	s.total += len(result)
	for s.total > s.max && len(s.order) > 1 {
		s.drop(s.order[0])
	}
}

func (s *shelf) drop(id core.ActionID) {
	r, ok := s.results[id]
	if !ok {
		return
	}
	s.total -= len(r)
	delete(s.results, id)
	i := slices.Index(s.order, id)
	s.order = slices.Concat(s.order[:i], s.order[i+1:])
}

// result returns a kept result; a large one is given once.
func (p *payloads) result(id core.ActionID) json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.small.results[id]; ok {
		return r
	}
	r := p.large.results[id]
	p.large.drop(id)
	return r
}

// forget drops what was asked and seen under an epoch that has ended (I10).
func (p *payloads) forget(id core.ActionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, id)
	p.small.drop(id)
	p.large.drop(id)
}
