//go:build failpoint

package main

import (
	"errors"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/failpoint"
	"sessiondock.dev/sessiondock/store"
)

// withPoints puts the points of the crash test around the store.
func withPoints(db *store.Store) engine.Store { return pointed{db} }

type pointed struct{ *store.Store }

// slow is how long a commit takes on a slow disk: longer than an extension takes to
// acknowledge a fence.
const slow = 20 * time.Millisecond

func (p pointed) Commit(d *core.Delta) error {
	if failpoint.Since("slow-disk") {
		time.Sleep(slow)
	}
	failpoint.Hit("before-commit")
	if failpoint.Fails("commit-lost") {
		return errors.New("failpoint: nothing was written")
	}
	if err := p.Store.Commit(d); err != nil {
		return err
	}
	if failpoint.Fails("commit-kept") {
		return errors.New("failpoint: all was written")
	}
	failpoint.Hit("after-commit")
	if failpoint.Since("eager-checkpoint") {
		p.Checkpoint()
	}
	return nil
}

func (p pointed) Trim(upTo int64, limit int) (core.Trimmed, error) {
	failpoint.Hit("before-trim")
	t, err := p.Store.Trim(upTo, limit)
	failpoint.Hit("after-trim")
	return t, err
}

func (p pointed) Checkpoint() error {
	failpoint.Hit("before-checkpoint")
	err := p.Store.Checkpoint()
	failpoint.Hit("after-checkpoint")
	return err
}

func (p pointed) Reopen() error {
	failpoint.Hit("before-reopen")
	if err := p.Store.Reopen(); err != nil {
		return err
	}
	failpoint.Hit("during-reopen")
	return nil
}
