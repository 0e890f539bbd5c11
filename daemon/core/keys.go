package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Conflict keys: declared names of things that are shared beyond one browser. A lease
// takes all of its keys at its grant or none; they stay with the slot while anybody
// has control of it and as long as an outcome under them is open (I8), and one that
// is exclusive is never held twice (I2).

// KeyClaim is one conflict key, as a lease wants it or a slot holds it.
type KeyClaim struct {
	Key    string `json:"key"`
	Shared bool   `json:"shared,omitempty"`
}

func (c KeyClaim) String() string {
	if c.Shared {
		return c.Key + ":shared"
	}
	return c.Key
}

// parseKeys reads KEY[:shared] of every list into one, by name. A key that is wanted
// both ways is wanted exclusively.
func parseKeys(lists ...[]string) ([]KeyClaim, *Error) {
	var out []KeyClaim
	for _, list := range lists {
		for _, k := range list {
			key, shared := strings.CutSuffix(k, ":shared")
			if !keyRE.MatchString(key) {
				return nil, Refuse(CodeInvalid, fmt.Sprintf("conflict key %q is not valid", clip(k, 100)), "for example shop:product/42 or shop:orders:shared")
			}
			// A word that was meant to say how is not to become a part of the name.
			if name, last := cutLast(key); strings.EqualFold(last, "shared") || strings.EqualFold(last, "exclusive") {
				return nil, Refuse(CodeInvalid, fmt.Sprintf("conflict key %q is not valid", clip(k, 100)),
					fmt.Sprintf("write %s, which is exclusive, or %s:shared", name, name))
			}
			at, found := slices.BinarySearchFunc(out, key, func(c KeyClaim, key string) int { return cmp.Compare(c.Key, key) })
			if found {
				out[at].Shared = out[at].Shared && shared
				continue
			}
			out = slices.Insert(out, at, KeyClaim{key, shared})
		}
	}
	if len(out) > MaxKeys {
		return nil, Refuse(CodeLimit, fmt.Sprintf("more than %d conflict keys", MaxKeys), "declare fewer")
	}
	return out, nil
}

// cutLast cuts a key before its last colon; without one nothing is last.
func cutLast(key string) (name, last string) {
	if i := strings.LastIndexByte(key, ':'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return key, ""
}

// claim returns the claim of a key in a sorted list.
func claimOf(claims []KeyClaim, key string) (KeyClaim, bool) {
	at, found := slices.BinarySearchFunc(claims, key, func(c KeyClaim, key string) int { return cmp.Compare(c.Key, key) })
	if !found {
		return KeyClaim{}, false
	}
	return claims[at], true
}

// against names the slots other than one that hold a key in a way that stands against
// a claim, in order.
func (t *tx) against(claim KeyClaim, except SlotName) []*Slot {
	var out []*Slot
	look := func(name SlotName) {
		s := t.seeSlot(name)
		if s.Name == except {
			return
		}
		if held, ok := claimOf(s.Keys, claim.Key); ok && !(held.Shared && claim.Shared) {
			out = append(out, s)
		}
	}
	for _, name := range t.s.index.holding[claim.Key] {
		look(name)
	}
	for _, s := range t.res.Delta.Slots {
		if !slices.Contains(t.s.index.holding[claim.Key], s.Name) {
			look(s.Name)
		}
	}
	return out
}

// keyBlocks says which of a waiter's keys it waits for, and who holds them.
func (t *tx) keyBlocks(l *Lease) []block {
	var out []block
	for _, c := range l.Keys {
		for _, s := range t.against(c, l.Slot) {
			text := t.heldText(s)
			out = append(out, block{CodeHeld, fmt.Sprintf("key %s held by %s (slot %s)", c.Key, text, s.Name), fmt.Sprintf("key %s held by %s", c.Key, text), true})
		}
		if w := t.reserved(c, l); w != nil {
			text := fmt.Sprintf("key %s is kept for %s, which others have passed %d times", c.Key, w.Agent, w.Passed)
			out = append(out, block{CodeBusy, text, text, true})
		}
	}
	return out
}

// heldText says who keeps a slot's keys, and until when.
func (t *tx) heldText(s *Slot) string {
	l := t.seeLease(s.Lease)
	switch {
	case s.Holder.Kind == "human":
		return "a person (" + s.Holder.Name + ")"
	case l != nil:
		return fmt.Sprintf("%s for %s more", l.Agent, span(l.Expires.LeftMs(t.now)))
	}
	return "what " + string(s.LastAgent) + " did, until that is settled"
}

// reserved returns the waiter for which a key is kept: one that stands before l, wants
// the key in a way that excludes it, could have its slot now, and has been passed as
// often as a waiter may be. Waiters are in one order across all slots, and a key is
// kept only against those behind, so no two of them keep keys from each other.
func (t *tx) reserved(c KeyClaim, l *Lease) *Lease {
	for _, id := range t.s.index.wanting[c.Key] {
		w := t.seeLease(id)
		if w.State != LeaseWaiting || w.ID == l.ID || !before(w, l) || w.Passed < MaxPassed {
			continue
		}
		if want, _ := claimOf(w.Keys, c.Key); !(want.Shared && c.Shared) && t.canHave(w) {
			return w
		}
	}
	return nil
}

// canHave says whether nothing but keys stands between a waiter and its slot. Who waits for
// what only a person can tell keeps nobody waiting.
func (t *tx) canHave(w *Lease) bool {
	s := t.seeSlot(w.Slot)
	return s.Holder.Kind == "none" && len(t.blocks(s, w.Agent)) == 0 && t.unconfirmed(w.Binding) == nil && t.unchecked(s, w.Binding) == nil
}

// takeKeys gives a slot the keys of the lease that it is granted to, and counts that
// against those who wait for one of them and stood before.
func (t *tx) takeKeys(s *Slot, l *Lease) {
	s.Keys = l.Keys
	for _, c := range l.Keys {
		for _, id := range t.s.index.wanting[c.Key] {
			w := t.seeLease(id)
			if w.State != LeaseWaiting || w.ID == l.ID || w.Slot == l.Slot || !before(w, l) {
				continue // those of the slot's own queue are counted where they are passed
			}
			if want, _ := claimOf(w.Keys, c.Key); !(want.Shared && c.Shared) && t.canHave(w) {
				t.lease(id).Passed++
			}
		}
	}
}

// dropKeys lets go of a slot's keys once nobody has it and nothing under them is open,
// and looks at those who wait for them.
func (t *tx) dropKeys(name SlotName) {
	s := t.seeSlot(name)
	if len(s.Keys) == 0 || s.Holder.Kind != "none" || s.Lease != "" || s.Interrupted != "" || len(s.Reasons) > 0 {
		return
	}
	for _, id := range t.openActions(name) {
		if a := t.seeAction(id); a.Class == Write && !a.clean() {
			return
		}
	}
	s = t.slot(name)
	freed := s.Keys
	s.Keys = nil
	var waiters []*Lease
	for _, c := range freed {
		for _, id := range t.s.index.wanting[c.Key] {
			if w := t.seeLease(id); w.State == LeaseWaiting && !slices.Contains(waiters, w) {
				waiters = append(waiters, w)
			}
		}
	}
	slices.SortFunc(waiters, rank)
	for _, w := range waiters {
		t.again(w.Slot)
	}
}

// keptNoMore has those looked at for whom a key was kept from: by a waiter of this slot
// that has gone, or that could not have its slot now.
func (t *tx) keptNoMore(name SlotName) {
	for _, id := range t.s.index.waiting[name] {
		w := t.seeLease(id)
		if w.Passed < MaxPassed || w.State == LeaseWaiting && t.canHave(w) || t.letGo[id] {
			continue
		}
		if t.letGo == nil {
			t.letGo = map[LeaseID]bool{}
		}
		t.letGo[id] = true
		for _, c := range w.Keys {
			for _, other := range t.s.index.wanting[c.Key] {
				if o := t.seeLease(other); o.State == LeaseWaiting && o.Slot != name {
					t.again(o.Slot)
				}
			}
		}
	}
}

// keepKeys takes keys back under which an outcome has opened again: a request that came
// late, of an action that had been clean. What somebody else holds by now stays theirs.
func (t *tx) keepKeys(name SlotName) {
	// One that begins in this step has its keys by its lease.
	for _, id := range t.s.index.keyed[name] {
		a := t.seeAction(id)
		if a.Closed || a.clean() {
			continue
		}
		for _, c := range t.seeLease(a.Lease).Keys {
			held := t.seeSlot(name).Keys
			at, found := slices.BinarySearchFunc(held, c.Key, func(h KeyClaim, key string) int { return cmp.Compare(h.Key, key) })
			if found && (!held[at].Shared || c.Shared) || len(t.against(c, name)) > 0 {
				continue
			}
			keys := slices.Clone(held) // they may be a lease's
			if found {
				keys[at] = c
			} else {
				keys = slices.Insert(keys, at, c)
			}
			t.slot(name).Keys = keys
		}
	}
}

// keyWarnings says which keys of a slot's bindings others hold, to a person who has
// taken it over: a takeover waits for none.
func (t *tx) keyWarnings(s *Slot) []string {
	var out []string
	for _, name := range t.s.index.bindings[s.Name] {
		claims, _ := parseKeys(t.s.Bindings[name].Keys)
		for _, c := range claims {
			if held, ok := claimOf(s.Keys, c.Key); ok && (!held.Shared || c.Shared) {
				continue
			}
			for _, o := range t.against(c, s.Name) {
				out = append(out, fmt.Sprintf("Key %s is held by %s on slot %s: what you change may meet what it does.", c.Key, t.heldText(o), o.Name))
			}
		}
	}
	return slices.Compact(out)
}
