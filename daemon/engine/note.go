package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// note keeps the takeovers that are out and not in the database in a small file beside the
// sockets: where no browser could tell the next daemon of one, the file does. It is renamed
// into place and not synced: it outlives the daemon, and not the machine.
type note struct {
	path    string // "" keeps nothing
	pending chan struct{}

	mu    sync.Mutex              // held while the file is written
	holds atomic.Pointer[[]noted] // what the file holds
}

// noted is a takeover in that file.
type noted struct {
	Slot    core.SlotName `json:"slot"`
	Epoch   core.Epoch    `json:"epoch"`
	Surface string        `json:"surface"`
	Hold    core.HoldID   `json:"hold,omitempty"`
	By      core.By       `json:"by"`
}

const (
	// noteWithin is how long an answer waits for the note.
	noteWithin = 50 * time.Millisecond
	noteEvery  = 50 * time.Millisecond
	maxNote    = 4 << 20
)

// read takes up what an earlier daemon has left. What cannot be read is set aside.
func (n *note) read() (all []noted, err error) {
	if n.path == "" {
		return nil, nil
	}
	info, err := os.Stat(n.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var text []byte
	if err == nil && info.Size() > maxNote {
		err = fmt.Errorf("it has %d bytes", info.Size())
	}
	if err == nil {
		text, err = os.ReadFile(n.path)
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	for _, v := range all {
		if e := core.CheckName("slot", string(v.Slot)); err == nil && e != nil {
			err = e
		}
		if e := core.CheckName("surface", v.Surface); err == nil && e != nil {
			err = e
		}
	}
	if err != nil {
		aside := n.path + ".bad"
		return nil, errors.Join(fmt.Errorf("%s, set aside as %s: %w", n.path, aside, err), os.Rename(n.path, aside))
	}
	n.holds.Store(&all)
	return all, nil
}

// put makes the file hold what the function says, which is asked under the lock: of two
// that put, the later one knows more.
func (n *note) put(unrecorded func() []core.Takeover) (left int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []noted
	for _, t := range unrecorded() {
		all = append(all, noted{t.Slot, t.Epoch, t.Surface, t.Hold, t.By})
	}
	switch {
	case slices.Equal(all, n.held()):
		return len(all), nil
	case n.path == "":
		return len(all), errors.New("there is no place for it")
	case len(all) == 0:
		err = os.Remove(n.path)
	default:
		err = n.write(all)
	}
	if err == nil {
		n.holds.Store(&all)
	}
	return len(all), err
}

func (n *note) write(all []noted) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	part := n.path + ".new"
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, n.path)
}

func (n *note) held() []noted {
	if all := n.holds.Load(); all != nil {
		return *all
	}
	return nil
}

func (n *note) has(t *core.Takeover) bool {
	return slices.ContainsFunc(n.held(), func(v noted) bool { return v.Slot == t.Slot && v.Epoch == t.Epoch })
}

// noteNow notes what is out and not recorded, before somebody is answered. A directory that
// hangs does not keep the answer.
func (e *Engine) noteNow() {
	done := make(chan struct{})
	e.background(func() {
		defer close(done)
		if _, err := e.note.put(e.reg.Unrecorded); err != nil {
			e.log.Warn("a takeover that is not recorded cannot be noted", "err", err)
		}
	})
	select {
	case <-done:
	case <-time.After(noteWithin):
	case <-e.ctx.Done():
	}
	select {
	case e.note.pending <- struct{}{}: // to be noted again, or taken out
	default:
	}
}

// keepNote keeps the note until what it says is recorded.
func (e *Engine) keepNote() {
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.note.pending:
		}
		for {
			left, err := e.note.put(e.reg.Unrecorded)
			if left == 0 && err == nil {
				break
			}
			select {
			case <-e.ctx.Done():
				return
			case <-time.After(noteEvery):
			}
		}
	}
}

// remembered are the takeovers that an earlier daemon noted and did not record.
func (e *Engine) remembered() []core.Takeover {
	all, err := e.note.read()
	if err != nil {
		e.log.Error("the note of takeovers that are not recorded cannot be read: who had taken a slot over may have to do it again", "err", err)
	}
	var out []core.Takeover
	for _, v := range all {
		if s := e.state.Slots[v.Slot]; s != nil && s.PersonUntil < v.Epoch {
			out = append(out, core.Takeover{Slot: v.Slot, Epoch: v.Epoch, Surface: v.Surface, Hold: v.Hold, By: v.By, FromPerson: true})
		}
	}
	return out
}

// unwritten answers a takeover whose record cannot be written.
func (e *Engine) unwritten(slot core.SlotName) *core.Error {
	e.noteNow()
	taken, acknowledged := e.reg.Taken(slot)
	if taken == nil || acknowledged || e.note.has(taken) {
		return core.Refuse(core.CodeUnavailable, "the slot is yours and the fence is out, but the database cannot be written: the record follows when it can",
			"look at the disk").With("fence_sent", true)
	}
	return core.Refuse(core.CodeUnavailable, "the slot is yours as long as this daemon runs: the fence is out, but neither the database nor a note for the next daemon can be written",
		"do not end the daemon; look at the disk, and then at the slot: sessiondock status "+string(slot)).With("fence_sent", true).With("noted", false)
}
