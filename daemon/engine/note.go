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
}

const (
	// noteEvery is how long an answer waits for the note, and how often one that is not
	// up to date is tried again.
	noteEvery = 50 * time.Millisecond
	maxNote   = 4 << 20
)

// read takes up what an earlier daemon has left. A file that cannot be read is set aside, an
// entry that cannot be meant is left out: an error says of either, beside what is good.
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
	var entries []json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &entries)
	}
	if err != nil {
		aside := n.path + ".bad"
		return nil, errors.Join(fmt.Errorf("%s, set aside as %s: %w", n.path, aside, err), os.Rename(n.path, aside))
	}
	for i, text := range entries {
		if v, e := readNoted(text); e != nil {
			err = errors.Join(err, fmt.Errorf("%s, entry %d, left out: %w", n.path, i+1, e))
		} else {
			all = append(all, v)
		}
	}
	return all, err
}

func readNoted(text []byte) (v noted, err error) {
	if err := json.Unmarshal(text, &v); err != nil {
		return v, err
	}
	if e := core.CheckName("slot", string(v.Slot)); e != nil {
		return v, e
	}
	if e := core.CheckName("surface", v.Surface); e != nil {
		return v, e
	}
	if v.Epoch == 0 || v.Epoch > core.MaxEpoch {
		return v, fmt.Errorf("no slot has epoch %d", v.Epoch)
	}
	if core.CheckName("hold", string(v.Hold)) != nil {
		v.Hold = "" // the slot is the person's all the same
	}
	return v, nil
}

// put makes the file hold what the function says, which is asked under the lock: of two
// that put, the later one knows more.
func (n *note) put(unrecorded func() []core.Takeover) (left int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []noted
	for _, t := range unrecorded() {
		all = append(all, noted{t.Slot, t.Epoch, t.Surface, t.Hold})
	}
	if _, err := os.Stat(n.path); err != nil {
		n.holds.Store(nil) // somebody has removed it
	}
	switch {
	case len(all) == 0:
		if err = os.Remove(n.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	case n.path == "":
		return len(all), errors.New("there is no place for it")
	case slices.Equal(all, n.held()):
		return len(all), nil
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
// hangs does not keep the answer, nor the engine's end, after which it still notes.
func (e *Engine) noteNow() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := e.note.put(e.reg.Unrecorded); err != nil {
			e.log.Warn("a takeover that is not recorded cannot be noted", "err", err)
		}
	}()
	select {
	case <-done:
	case <-time.After(noteEvery):
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

// remembered are the takeovers that an earlier daemon noted and did not record. They have no
// number: the restart gives one above all that were issued.
func (e *Engine) remembered() []core.Takeover {
	all, err := e.note.read()
	if err != nil {
		e.log.Error("not all of the note of takeovers that are not recorded can be read: who had taken a slot over may have to do it again", "err", err)
	}
	var out []core.Takeover
	for _, v := range all {
		if s := e.state.Slots[v.Slot]; s != nil && !s.Removed && s.PersonUntil < v.Epoch {
			out = append(out, core.Takeover{Slot: v.Slot, Surface: v.Surface, Hold: v.Hold, By: "human:" + v.Surface, FromPerson: true})
		}
	}
	return out
}

// unwritten answers a takeover whose record cannot be written, for the reason that the
// writer gave.
func (e *Engine) unwritten(slot core.SlotName, why *core.Error) *core.Error {
	e.noteNow()
	taken, acknowledged := e.reg.Taken(slot)
	known := taken == nil || acknowledged || e.note.has(taken)
	text, hint := "the slot is yours and the fence is out, but the database cannot be written: the record follows when it can", "look at the disk"
	if !known {
		text = "the slot is yours as long as this daemon runs: the fence is out, but neither the database nor a note for the next daemon can be written"
		hint = "do not end the daemon; look at the disk, and then at the slot: sessiondock status " + string(slot)
	}
	if why.Detail["corrupt"] == true { // no record follows, and only another daemon mends it
		text = "the slot is yours and the fence is out, but nothing is recorded any more: " + why.Message
		if !known {
			text = "the slot is yours as long as this daemon runs: the fence is out, but it is neither noted for the next daemon nor recorded: " + why.Message
		}
		hint = why.Hint
	}
	out := core.Refuse(core.CodeUnavailable, text, hint).With("fence_sent", true)
	if !known {
		out = out.With("noted", false)
	}
	return out
}
