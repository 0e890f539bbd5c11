package engine

import (
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/supervise"
)

const (
	// storedEvery is how often the store of a sign-in that is not saved yet is looked at.
	storedEvery = time.Second
	// savedAfter is when a browser has written what it had. Chromium writes cookies 30 s
	// after the first that is new, and what a page keeps in its local storage at most a
	// minute after, because it bounds how often it writes; the rest is for a busy disk.
	savedAfter = 75 * time.Second
)

// storing is what was seen of a profile since a sign-in was confirmed.
type storing struct {
	atMs   int64 // of the confirmation
	launch core.LaunchID
	since  time.Time
	first  string // of its cookies
	wrote  bool
}

// prepare tells the core when a confirmed sign-in has reached the disk.
func (e *Engine) prepare() {
	ticker := time.NewTicker(storedEvery)
	defer ticker.Stop()
	watched := map[core.BindingName]storing{}
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
		}
		unsaved := map[core.BindingName]core.Saved{}
		e.View(func(s *core.State, _ core.Now) {
			for name, b := range s.Bindings {
				// Without a link nobody knows that the browser goes on writing.
				if l := s.Slots[b.Slot].Launch; !b.Removed && b.Confirmed.Unsaved(l) && l.State == "running" && s.Links[b.Slot].Up() {
					unsaved[name] = core.Saved{Slot: b.Slot, Launch: l.ID, Binding: name, AtMs: b.Confirmed.AtMs}
				}
			}
		})
		for name := range watched {
			if _, still := unsaved[name]; !still {
				delete(watched, name)
			}
		}
		for name, in := range unsaved {
			v, known := watched[name]
			now := e.sup.Stored(in.Slot)
			if !known || v.atMs != in.AtMs || v.launch != in.Launch {
				v = storing{atMs: in.AtMs, launch: in.Launch, since: time.Now(), first: now.Cookies}
			}
			var saved bool
			if saved, in.How = v.look(now, time.Since(v.since)); saved {
				e.Submit(e.ctx, in)
			}
			watched[name] = v
		}
	}
}

// look says whether all that the browser had at the first look is on the disk by now,
// and by what.
func (v *storing) look(now supervise.Stored, after time.Duration) (saved bool, how string) {
	v.wrote = v.wrote || now.Cookies != v.first
	switch {
	case after < savedAfter || now.Writing:
		return false, ""
	case v.wrote:
		return true, "its cookies were written after it was confirmed, and the time has passed in which a browser writes the rest"
	}
	return true, "the time has passed in which a browser writes what it has, and there was nothing left to write"
}
