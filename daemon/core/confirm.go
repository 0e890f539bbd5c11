package core

import "fmt"

// Confirmation is a person's word that a slot is signed in as a binding says. It is of
// one launch: after a restart it is shown as older than that.
type Confirmation struct {
	By         string   `json:"by"`
	AtMs       int64    `json:"at"`
	Account    string   `json:"account,omitempty"`
	Launch     LaunchID `json:"launch"`
	Generation int64    `json:"generation"`
	Note       string   `json:"note,omitempty"`
	// SavedMs is when the sign-in was known to be on the disk, LostMs when its browser
	// ended before that, without a clean stop. Both 0: a crash now would lose it.
	SavedMs int64 `json:"saved,omitempty"`
	LostMs  int64 `json:"lost,omitempty"`
}

func (t *tx) confirm(in Confirm) *Error {
	t.by = in.By
	b := t.s.Bindings[in.Binding]
	if b == nil || b.Removed {
		return noBinding(in.Binding)
	}
	if len(in.Note) > 4096 {
		return Refuse(CodeLimit, "note is longer than 4096 bytes", "shorten it")
	}
	s := t.seeSlot(b.Slot)
	if err := s.at(in.IfEpoch); err != nil {
		return err
	}
	switch {
	case b.Account == "none":
		return Refuse(CodeConflict, fmt.Sprintf("binding %s needs no sign-in", b.Name), "nothing is to be confirmed")
	case s.Launch == nil || s.Launch.State != "running":
		return Refuse(CodeConflict, fmt.Sprintf("the browser of slot %s is not running, so nobody can have looked at it", s.Name), "start it, sign in, then confirm: sessiondock slot start "+string(s.Name))
	case s.Holder.Kind == "agent":
		return Refuse(CodeHeld, fmt.Sprintf("slot %s is held by agent %s", s.Name, s.Holder.Name), "take it over and look: sessiondock takeover "+string(s.Name)).With("holder", s.Holder)
	}
	v := *b
	v.Confirmed = &Confirmation{By: in.By, AtMs: t.now.WallMs, Account: b.Account, Launch: s.Launch.ID, Generation: s.Launch.Generation, Note: in.Note}
	t.res.Delta.Bindings = append(t.res.Delta.Bindings, &v)
	t.log("sign-in confirmed", s, "", "", fmt.Sprintf("binding %s, account %q, launch %d", b.Name, b.Account, s.Launch.Generation)+noted(in.Note))
	if v.page("account") != nil {
		// Where a probe cannot tell, or tells wrongly, the person who has looked does.
		t.found(s, AccountFound{Binding: b.Name, State: "match", By: in.By, Why: "a person attested it"}, AccountMs)
	}
	t.touch(s.Name)
	return nil
}

// unconfirmed refuses a lease of a binding whose sign-in nobody has confirmed, or was
// lost since. Where a
// binding declares an account probe, that is asked instead, before each grant that the
// last answer does not cover: see unchecked.
func (t *tx) unconfirmed(name BindingName) *Error {
	b := t.binding(name)
	switch {
	case b == nil || b.Account == "none" || b.page("account") != nil:
		return nil
	case b.Confirmed.Lost():
		return Refuse(CodeAccountMismatch, fmt.Sprintf("slot %s may not be signed in any more as binding %s expects: its browser ended without a clean stop, before the sign-in had reached the disk", b.Slot, b.Name),
			fmt.Sprintf("a person looks, signs in again if need be, and says so: sessiondock confirm %s", b.Name)).With("account", b.Account)
	case b.Confirmed != nil:
		return nil
	}
	return Refuse(CodeAccountMismatch, fmt.Sprintf("nobody has confirmed that slot %s is signed in as binding %s expects", b.Slot, b.Name),
		fmt.Sprintf("a person signs in and says so: sessiondock confirm %s (or the binding is made with --account none)", b.Name)).With("account", b.Account)
}

// binding returns a binding with the step's own changes.
func (t *tx) binding(name BindingName) *Binding {
	for _, b := range t.res.Delta.Bindings {
		if b.Name == name {
			return b
		}
	}
	return t.s.Bindings[name]
}

// OlderThanRestart says whether the slot's browser was started again since.
func (c *Confirmation) OlderThanRestart(s *Slot) bool {
	return c != nil && s.Launch != nil && c.Launch != s.Launch.ID
}
