package core

import "fmt"

// A browser writes what sites store with a delay: cookies after half a minute, the rest
// within one. What a person confirmed is prepared once it is on the disk.

// UncleanEnd is an end of a browser that wrote nothing more.
type UncleanEnd struct {
	Launch     LaunchID `json:"launch"`
	Generation int64    `json:"generation"`
	AtMs       int64    `json:"at"` // unix milliseconds, when it was known
	How        string   `json:"how"`
}

// sentence says what is lost, to a person.
func (u *UncleanEnd) sentence(now Now) string {
	return fmt.Sprintf("The browser ended without a clean stop %s ago (launch %d). What sites stored in its last minute may be lost, cookies above all. Its tabs come back.",
		span(max(0, now.WallMs-u.AtMs)), u.Generation)
}

// Prepared says whether the next start of the browser will find the sign-in.
func (c *Confirmation) Prepared() bool { return c != nil && c.SavedMs != 0 }

// Lost says whether the browser ended before the sign-in was on the disk.
func (c *Confirmation) Lost() bool { return c != nil && c.LostMs != 0 }

// Unsaved says whether a crash of the launch now would lose the sign-in.
func (c *Confirmation) Unsaved(l *Launch) bool {
	return c != nil && l != nil && c.Launch == l.ID && !c.Prepared() && !c.Lost()
}

// saved takes the supervisor's word that a confirmed sign-in is on the disk.
func (t *tx) saved(in Saved) *Error {
	t.by = "supervisor"
	s, b := t.seeSlot(in.Slot), t.binding(in.Binding)
	switch {
	case s == nil || !s.Launch.Live() || s.Launch.ID != in.Launch:
		return Refuse(CodeConflict, "a launch of another generation", "")
	case b == nil || b.Slot != in.Slot || !b.Confirmed.Unsaved(s.Launch) || b.Confirmed.AtMs != in.AtMs:
		return Refuse(CodeConflict, "another confirmation, or one that is saved", "")
	}
	t.setSaved(s, b, in.How)
	return nil
}

func (t *tx) setSaved(s *Slot, b *Binding, how string) {
	c := *b.Confirmed
	c.SavedMs = t.now.WallMs
	t.reconfirm(b, &c)
	t.log("sign-in saved", s, "", "", fmt.Sprintf("binding %s: %s", b.Name, how))
	t.touch(s.Name)
}

// signInsAfter says of a launch's end what it did to the sign-ins that were confirmed in
// it. A clean one has written them.
func (t *tx) signInsAfter(s *Slot, in LaunchEnded) {
	s.Unclean = nil
	if !in.Clean {
		s.Unclean = &UncleanEnd{Launch: in.Launch, Generation: s.Launch.Generation, AtMs: t.now.WallMs, How: in.How}
	}
	for _, name := range t.s.index.bindings[s.Name] {
		b := t.binding(name)
		if !b.Confirmed.Unsaved(s.Launch) {
			continue
		}
		if in.Clean {
			t.setSaved(s, b, "its browser has ended cleanly")
			continue
		}
		c := *b.Confirmed
		c.LostMs = t.now.WallMs
		t.reconfirm(b, &c)
		t.log("sign-in lost", s, "", "", fmt.Sprintf("binding %s: its browser ended without a clean stop %s after it was confirmed", b.Name, span(max(0, t.now.WallMs-c.AtMs))))
	}
}

// reconfirm puts what became of a confirmation into the step's delta.
func (t *tx) reconfirm(b *Binding, c *Confirmation) {
	v := *b
	v.Confirmed = c
	t.res.Delta.Bindings = append(t.res.Delta.Bindings, &v)
}
