package engine

import (
	"sync/atomic"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// pulse says what the writer does, for whoever asks whether it hangs.
type pulse struct {
	busy atomic.Int64 // since when it works on one input; 0: it waits for the next
	disk atomic.Bool  // it waits for the disk
}

// began is what times are counted from: a time.Time alone keeps the monotonic clock.
var began = time.Now()

func (p *pulse) beat() { p.busy.Store(int64(time.Since(began)) + 1) }
func (p *pulse) rest() { p.busy.Store(0) }

// Alive says whether the engine does its work: the fence register can be asked, the
// state can be read, and the writer has been at its input for no longer than within. It
// does not return if one of the locks is never given back.
//
// A writer that waits for the disk is alive, however long. A takeover needs no disk, and
// a daemon that was started anew for that reason could not open its database.
func (e *Engine) Alive(within time.Duration) bool {
	e.reg.Floor()
	e.View(func(*core.State, core.Now) {})
	since := e.pulse.busy.Load()
	return since == 0 || e.pulse.disk.Load() || time.Since(began)-time.Duration(since) < within
}

// watchedStore tells the pulse when the writer waits for the disk.
type watchedStore struct {
	Store
	*pulse
}

func (w watchedStore) wait(call func() error) error {
	w.disk.Store(true)
	defer func() {
		w.beat() // what follows is counted from here
		w.disk.Store(false)
	}()
	return call()
}

func (w watchedStore) Write(d *core.Delta) error {
	return w.wait(func() error { return w.Store.Write(d) })
}

func (w watchedStore) Commit(d *core.Delta) error {
	return w.wait(func() error { return w.Store.Commit(d) })
}

func (w watchedStore) Trim(upTo int64, limit int) (got core.Trimmed, err error) {
	err = w.wait(func() error {
		got, err = w.Store.Trim(upTo, limit)
		return err
	})
	return got, err
}

func (w watchedStore) Checkpoint() error { return w.wait(w.Store.Checkpoint) }

func (w watchedStore) Reopen() error { return w.wait(w.Store.Reopen) }

func (w watchedStore) LoadOpen() (s *core.State, err error) {
	err = w.wait(func() error {
		s, err = w.Store.LoadOpen()
		return err
	})
	return s, err
}
