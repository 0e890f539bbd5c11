package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// maxPipeMessage bounds one message of the debugging pipe.
const maxPipeMessage = 64 << 20

// ErrPipeClosed is the end of every call on a pipe that has ended.
var ErrPipeClosed = errors.New("the debugging pipe has ended")

// Session names an attached target of a debugging pipe; the empty one is the browser.
type Session string

// Target is a row of Target.getTargets.
type Target struct {
	ID    string `json:"targetId"`
	Type  string `json:"type"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

// Pipe is a client of Chromium's debugging pipe: DevTools messages, each ended by a
// null byte. It only calls; events are dropped. Slots have no such pipe, except
// where a test or the demonstration asks for it, to press the popup.
type Pipe struct {
	rw io.ReadWriteCloser

	writing sync.Mutex
	mu      sync.Mutex
	next    int64
	waiting map[int64]chan<- pipeAnswer
	ended   error
}

type pipeAnswer struct {
	ID     int64           `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// NewPipe speaks over rw until it ends or Close is called.
func NewPipe(rw io.ReadWriteCloser) *Pipe {
	p := &Pipe{rw: rw, waiting: map[int64]chan<- pipeAnswer{}}
	go p.read()
	return p
}

// Close ends the pipe and every call that waits.
func (p *Pipe) Close() error { return p.rw.Close() }

func (p *Pipe) read() {
	s := bufio.NewScanner(p.rw)
	s.Buffer(make([]byte, 64<<10), maxPipeMessage)
	s.Split(splitNull)
	for s.Scan() {
		var a pipeAnswer
		if err := json.Unmarshal(s.Bytes(), &a); err != nil || a.ID == 0 {
			continue // an event, or nothing that anybody waits for
		}
		p.mu.Lock()
		c := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.mu.Unlock()
		if c != nil {
			c <- a // has room for one
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = ErrPipeClosed
	if err := s.Err(); err != nil {
		p.ended = fmt.Errorf("%w: %w", ErrPipeClosed, err)
	}
	for id, c := range p.waiting {
		close(c)
		delete(p.waiting, id)
	}
}

func splitNull(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// Call sends one command and waits for its answer. A nil result drops it.
func (p *Pipe) Call(ctx context.Context, on Session, method string, params, result any) error {
	if params == nil {
		params = struct{}{}
	}
	answer := make(chan pipeAnswer, 1)
	p.mu.Lock()
	if p.ended != nil {
		p.mu.Unlock()
		return p.ended
	}
	p.next++
	id := p.next
	p.waiting[id] = answer
	p.mu.Unlock()
	body, err := json.Marshal(struct {
		ID        int64   `json:"id"`
		Method    string  `json:"method"`
		Params    any     `json:"params"`
		SessionID Session `json:"sessionId,omitempty"`
	}{id, method, params, on})
	if err == nil {
		p.writing.Lock()
		_, err = p.rw.Write(append(body, 0))
		p.writing.Unlock()
	}
	if err != nil {
		p.forget(id)
		return err
	}
	select {
	case <-ctx.Done():
		p.forget(id)
		return fmt.Errorf("%s: %w", method, ctx.Err())
	case a, ok := <-answer:
		switch {
		case !ok:
			return ErrPipeClosed
		case a.Error != nil:
			return fmt.Errorf("%s: %s (%d)", method, a.Error.Message, a.Error.Code)
		case result == nil:
			return nil
		}
		return json.Unmarshal(a.Result, result)
	}
}

func (p *Pipe) forget(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, id)
}

// Targets lists every target of the browser.
func (p *Pipe) Targets(ctx context.Context) ([]Target, error) {
	var r struct {
		TargetInfos []Target `json:"targetInfos"`
	}
	// The empty filter entry includes every type, service workers too.
	err := p.Call(ctx, "", "Target.getTargets", map[string]any{"filter": []struct{}{{}}}, &r)
	return r.TargetInfos, err
}

// Attach attaches to the target and returns its session.
func (p *Pipe) Attach(ctx context.Context, target string) (Session, error) {
	var r struct {
		SessionID Session `json:"sessionId"`
	}
	err := p.Call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}, &r)
	return r.SessionID, err
}

// Eval evaluates a JavaScript expression, awaits it, and decodes its value.
func (p *Pipe) Eval(ctx context.Context, on Session, expression string, result any) error {
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := p.Call(ctx, on, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	}, &r)
	switch {
	case err != nil:
		return err
	case r.Exception != nil:
		return fmt.Errorf("evaluate: %s %s", r.Exception.Text, r.Exception.Exception.Description)
	case result == nil:
		return nil
	case r.Result.Value == nil:
		return fmt.Errorf("evaluate %q: no value", expression)
	}
	return json.Unmarshal(r.Result.Value, result)
}

// WaitTarget waits for a target of the type whose URL begins so.
func (p *Pipe) WaitTarget(ctx context.Context, kind, url string) (Target, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		targets, err := p.Targets(ctx)
		if err != nil {
			return Target{}, err
		}
		for _, t := range targets {
			if t.Type == kind && strings.HasPrefix(t.URL, url) {
				return t, nil
			}
		}
		select {
		case <-ctx.Done():
			return Target{}, fmt.Errorf("no %s %s appeared: %w", kind, url, ctx.Err())
		case <-tick.C:
		}
	}
}

// Worker attaches to an extension's service worker and waits until its script
// environment is there: for a moment after its target appears it is not.
func (p *Pipe) Worker(ctx context.Context, url string) (Session, error) {
	t, err := p.WaitTarget(ctx, "service_worker", url)
	if err != nil {
		return "", err
	}
	s, err := p.Attach(ctx, t.ID)
	if err != nil {
		return "", err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var there bool
		err := p.Eval(ctx, s, `typeof chrome === "object" && typeof chrome.runtime === "object"`, &there)
		if err != nil || there {
			return s, err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the worker of %s did not start: %w", url, ctx.Err())
		case <-tick.C:
		}
	}
}
