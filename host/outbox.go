package main

import (
	"errors"
	"io"
	"sync"

	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/host/act"
	"sessiondock.dev/sessiondock/host/native"
)

// Bounds of what may wait for the extension.
const (
	maxRelayed      = 1024             // messages
	maxRelayedBytes = 2 * wire.MaxBody // of them together
)

// outbox is the queue to the extension, with one writer. What the daemon says goes
// before steps of actions, so that a fence never waits for an action; and between
// the chunks of a large message, so that it does not wait for those.
//
// The steps need no bound of their own: act.MaxRunning actions send at most a
// window each.
type outbox struct {
	mu      sync.Mutex
	wake    chan struct{} // holds one token while there may be something to write
	idle    *sync.Cond    // signalled when nothing is left to write
	relayed [][]byte
	bytes   int
	steps   []queuedStep
	busy    bool
	chunkID int64
}

type queuedStep struct {
	step *act.Step
	body []byte
}

var errOutboxFull = errors.New("the extension does not read what is sent to it")

func newOutbox() *outbox {
	o := &outbox{wake: make(chan struct{}, 1)}
	o.idle = sync.NewCond(&o.mu)
	return o
}

// relay queues a message as it is. It never blocks: a reader of the daemon's stream
// that waited here would not see the next fence.
func (o *outbox) relay(body []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.relayed) >= maxRelayed || o.bytes+len(body) > maxRelayedBytes {
		return errOutboxFull
	}
	o.relayed = append(o.relayed, body)
	o.bytes += len(body)
	o.signal()
	return nil
}

// only queues a message in the place of all that waits. It is for the end of a link:
// what else was queued belongs to that link, and the end must reach the extension
// even if the queue is full.
func (o *outbox) only(body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.relayed, o.bytes = [][]byte{body}, len(body)
	o.signal()
}

// step queues a step of an action.
func (o *outbox) step(s *act.Step, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, queuedStep{s, body})
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// nextRelayed takes the oldest message of at most limit bytes, if that is next.
func (o *outbox) nextRelayed(limit int) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.relayed) == 0 || len(o.relayed[0]) > limit {
		return nil
	}
	body := o.relayed[0]
	o.relayed[0] = nil
	o.relayed = o.relayed[1:]
	o.bytes -= len(body)
	if len(o.relayed) == 0 {
		o.relayed = nil
	}
	o.busy = true
	return body
}

func (o *outbox) nextStep() (queuedStep, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.steps) == 0 {
		o.busy = false
		if len(o.relayed) == 0 {
			o.idle.Broadcast()
		}
		return queuedStep{}, false
	}
	q := o.steps[0]
	o.steps[0] = queuedStep{}
	o.steps = o.steps[1:]
	if len(o.steps) == 0 {
		o.steps = nil
	}
	o.busy = true
	return q, true
}

// run writes until w fails. pass is asked about each step immediately before it is
// written; it is the second gate.
func (o *outbox) run(w io.Writer, pass func(*act.Step) bool) error {
	for {
		if body := o.nextRelayed(wire.MaxMessage); body != nil {
			if err := o.write(w, body); err != nil {
				return err
			}
			continue
		}
		q, ok := o.nextStep()
		if !ok {
			<-o.wake
			continue
		}
		if !pass(q.step) {
			continue
		}
		if err := o.write(w, q.body); err != nil {
			return err
		}
	}
}

// write writes one message, and small relayed ones between its chunks.
func (o *outbox) write(w io.Writer, body []byte) error {
	o.chunkID++
	first := true
	for frame := range native.Frames(o.chunkID, body) {
		if !first {
			for b := o.nextRelayed(wire.MaxToExtension); b != nil; b = o.nextRelayed(wire.MaxToExtension) {
				for f := range native.Frames(0, b) {
					if _, err := w.Write(f); err != nil {
						return err
					}
				}
			}
		}
		first = false
		if _, err := w.Write(frame); err != nil {
			return err
		}
	}
	if len(body) > bigMessage {
		freeSoon()
	}
	return nil
}

// flushed returns when everything queued has been written. It has no deadline of
// its own: the caller runs it beside one.
func (o *outbox) flushed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.busy || len(o.relayed) > 0 || len(o.steps) > 0 {
		o.idle.Wait()
	}
}
