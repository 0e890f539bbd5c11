package engine

import (
	"errors"
	"fmt"
	"math"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Keep says how much of the journal is kept. Zero is no bound.
type Keep struct {
	Age   time.Duration // no entry is kept for longer
	Bytes int64         // the journal takes no more
}

// DefaultKeep is what a daemon keeps that is told nothing else.
var DefaultKeep = Keep{Age: 90 * 24 * time.Hour, Bytes: 256 << 20}

const (
	// lookEvery is how often the journal is looked at.
	lookEvery = time.Minute
	// trimMore is the part of a bound by which more is trimmed than it asks for, so that
	// it is not done again after every entry.
	trimMore = 32
	// trimPiece is how many entries are trimmed at once. It holds the writer for about
	// five commits.
	trimPiece = 16
	// trimShare is which part of the writer's time trimming may take.
	trimShare = 5
	// steadyFor is how long the wall clock must have gone on as the machine's own before
	// anything is found to be too old: a clock that jumps to another year, and back, must
	// not cost the journal.
	steadyFor = time.Hour
	// steadyWithin is by how much it may differ meanwhile; it is corrected all the time.
	steadyWithin = time.Minute
)

// trimmer is the writer's own: what is being trimmed, and when its next piece is due.
type trimmer struct {
	upTo int64
	due  *time.Timer
}

// KeepJournal looks at the journal now and then and has it trimmed, until the engine
// ends. What is to go is decided and journaled first; it goes in pieces between the
// writer's other work, and what a daemon did not live to finish the next one finds again.
func (e *Engine) KeepJournal(k Keep) {
	e.background(func() {
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		var clock steady
		var decided int64
		for {
			upTo, err := e.trimDue(k, clock.since(e.clock()) >= steadyFor, decided)
			if err != nil {
				e.log.Error("the journal could not be looked at", "err", err)
			}
			decided = max(decided, upTo)
			select {
			case <-look.C:
			case <-e.ctx.Done():
				return
			}
		}
	})
}

// trimDue has the journal trimmed if it is beyond its bounds and what was decided before
// is done, and tells up to which entry.
func (e *Engine) trimDue(k Keep, steady bool, decided int64) (upTo int64, err error) {
	kept, err := e.store.Kept()
	if err != nil || kept.First <= decided {
		return 0, err // an empty journal has no first entry
	}
	if !steady {
		k.Age = 0
	}
	beforeMs, bytes, why := k.exceeded(kept, e.clock().WallMs)
	if why == "" {
		return 0, nil
	}
	if upTo, err = e.store.Cut(beforeMs, bytes); err != nil || upTo < kept.First {
		return 0, err
	}
	if res := e.Submit(e.ctx, core.Trim{UpTo: upTo, Why: why}); res.Refusal != nil {
		return 0, res.Refusal
	}
	return upTo, nil
}

// exceeded says which bound the journal is beyond, and to what it is to be trimmed: from
// when on and to how many bytes.
func (k Keep) exceeded(kept core.Kept, nowMs int64) (beforeMs, bytes int64, why string) {
	age := k.Age.Milliseconds()
	switch {
	case k.Bytes > 0 && kept.Bytes > k.Bytes:
		why = fmt.Sprintf("the journal takes %d bytes, %d are kept", kept.Bytes, k.Bytes)
	case age > 0 && kept.OldestMs < nowMs-age:
		why = fmt.Sprintf("the oldest is from %s, %s are kept", time.UnixMilli(kept.OldestMs).UTC().Format(time.DateTime), k.Age)
	}
	beforeMs, bytes = math.MinInt64, math.MaxInt64
	if age > 0 {
		beforeMs = nowMs - age + age/trimMore
	}
	if k.Bytes > 0 {
		bytes = k.Bytes - k.Bytes/trimMore
	}
	return beforeMs, bytes, why
}

// steady tells since when the wall clock has gone on as the machine's own.
type steady struct {
	sinceMs  int64 // of the machine's clock
	offsetMs int64
	known    bool
}

func (s *steady) since(now core.Now) time.Duration {
	offset := now.WallMs - now.BootMs
	if d := offset - s.offsetMs; !s.known || d > steadyWithin.Milliseconds() || d < -steadyWithin.Milliseconds() {
		*s = steady{sinceMs: now.BootMs, offsetMs: offset, known: true}
	}
	return time.Duration(now.BootMs-s.sinceMs) * time.Millisecond
}

// beginTrim takes up a Trim. It is the writer's own, as is trimSome.
func (e *Engine) beginTrim(upTo int64) {
	e.trim.upTo = max(e.trim.upTo, upTo)
	e.trim.due.Reset(0)
}

// trimSome trims one piece. Nothing is decided and not committed.
func (e *Engine) trimSome() {
	began := time.Now()
	got, err := e.store.Trim(e.trim.upTo, trimPiece)
	switch {
	case err != nil:
		e.log.Error("the journal was not trimmed", "err", err)
		e.trim.due.Reset(lookEvery)
		var u interface{ Uncertain() bool }
		if errors.As(err, &u) && u.Uncertain() {
			e.uncertain(err)
		}
	case got == core.Trimmed{}:
		e.log.Info("journal trimmed", "up_to", e.trim.upTo)
		e.commits = max(e.commits, checkpointAfter) // what it freed is given back with the next checkpoint
		e.quiet.Reset(quietFor)
	default:
		e.trim.due.Reset((trimShare - 1) * time.Since(began))
	}
}
