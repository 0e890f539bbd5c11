package core

import (
	"fmt"
	"slices"
)

// CheckInvariants says which invariant a step from before to after has broken, or
// nil. Before may be nil. It is for tests and simulations: the daemon does not call
// it.
func CheckInvariants(before, after *State) error {
	for name, s := range after.Slots {
		if err := checkSlot(after, s); err != nil {
			return fmt.Errorf("slot %s: %w", name, err)
		}
	}
	for id, l := range after.Leases {
		s := after.Slots[l.Slot]
		if s == nil {
			return fmt.Errorf("lease %s: no slot", id)
		}
		if b := after.Bindings[l.Binding]; b == nil || b.Slot != l.Slot {
			return fmt.Errorf("I9: lease %s is on slot %s, its binding is not", id, l.Slot)
		}
		if (l.State == LeaseGranted || l.State == LeaseActive) && (s.Lease != id || s.Holder.Kind != "agent" || l.Epoch != s.Epoch) {
			return fmt.Errorf("I2: lease %s is %s, slot %s is held by %+v at epoch %d under lease %q", id, l.State, l.Slot, s.Holder, s.Epoch, s.Lease)
		}
	}
	for id, a := range after.Actions {
		if a.Epoch == 0 || a.Epoch > after.Slots[a.Slot].Epoch {
			return fmt.Errorf("I1: action %s has epoch %d, its slot is at %d", id, a.Epoch, after.Slots[a.Slot].Epoch)
		}
		if a.Closed && (a.Local == Running || a.Remote == InFlight && a.Resolution == nil) {
			return fmt.Errorf("I6: action %s is closed with local %s, remote %s", id, a.Local, a.Remote)
		}
		if a.Local == Failed && a.Host != "failed" {
			return fmt.Errorf("I6: action %s failed without the host's proof", id)
		}
		if (a.Remote == Applied || a.Remote == NotApplied) && a.Resolution == nil {
			return fmt.Errorf("I6: action %s is %s without a verdict", id, a.Remote)
		}
		if r := a.Resolution; r != nil && (r.By == "system") != (r.Rule == "probe" && r.AskedBy != "") {
			return fmt.Errorf("I6: action %s has a verdict by nobody: %+v", id, *r)
		}
	}
	if err := checkKeys(after); err != nil {
		return err
	}
	if before == nil {
		return nil
	}
	for name, old := range before.Slots {
		s := after.Slots[name]
		if s == nil {
			return fmt.Errorf("I1: slot %s and its epoch are gone", name)
		}
		if s.Epoch < old.Epoch || s.Ceiling < old.Ceiling {
			return fmt.Errorf("I1: slot %s went from epoch %d (ceiling %d) to %d (%d)", name, old.Epoch, old.Ceiling, s.Epoch, s.Ceiling)
		}
		if (s.Holder != old.Holder || s.Lease != old.Lease && s.Holder.Kind == "agent") && s.Epoch == old.Epoch {
			return fmt.Errorf("I1: control of slot %s went from %+v to %+v within epoch %d", name, old.Holder, s.Holder, s.Epoch)
		}
		// A new agent: everything that stands against it must have been settled.
		if s.Holder.Kind == "agent" && s.Epoch != old.Epoch {
			if err := checkOffered(after, s); err != nil {
				return fmt.Errorf("slot %s was granted at epoch %d: %w", name, s.Epoch, err)
			}
		}
	}
	for id, old := range before.Leases {
		// Only a retention that was acknowledged gives more than a person had set.
		l := after.Leases[id]
		if l == nil || old.MaxUntil == (Deadline{}) || l.MaxUntil.BootID != old.MaxUntil.BootID || l.MaxUntil.BootMs <= old.MaxUntil.BootMs {
			continue
		}
		if r := l.Retention; r == nil || r.State != "acknowledged" || r.Until != l.MaxUntil {
			return fmt.Errorf("I13: the maximum of lease %s grew from %d to %d: %+v", id, old.MaxUntil.BootMs, l.MaxUntil.BootMs, r)
		}
	}
	for id, old := range before.Actions {
		a := after.Action(id)
		if a == nil {
			return fmt.Errorf("I6: action %s is gone", id)
		}
		if a.IsPast {
			continue // what it came to is not in this state
		}
		if old.Closed && (a.Local != old.Local || a.Remote != old.Remote) {
			return fmt.Errorf("I6: closed action %s went from %s/%s to %s/%s", id, old.Local, old.Remote, a.Local, a.Remote)
		}
	}
	return nil
}

// checkKeys looks at conflict keys: held once if exclusively (I2), and by whoever has
// control under a lease that wants them.
func checkKeys(st *State) error {
	type held struct {
		slot   SlotName
		shared bool
	}
	by := map[string]held{}
	for name, s := range st.Slots {
		for _, c := range s.Keys {
			if o, ok := by[c.Key]; ok && !(o.shared && c.Shared) {
				return fmt.Errorf("I2: key %s is held by slots %s and %s", c.Key, o.slot, name)
			}
			by[c.Key] = held{name, c.Shared}
		}
		l := st.Leases[s.Lease]
		if l == nil {
			l = st.Leases[s.Interrupted]
		}
		if l == nil || l.State == LeaseEnded || l.State == LeaseWaiting {
			continue
		}
		for _, c := range l.Keys {
			if h, ok := claimOf(s.Keys, c.Key); !ok || h.Shared && !c.Shared {
				return fmt.Errorf("I2: lease %s is %s without its key %s", l.ID, l.State, c.Key)
			}
		}
	}
	for _, a := range st.Actions {
		l := st.Leases[a.Lease]
		if l == nil || a.Closed || a.Class == Read || a.clean() {
			continue
		}
		for _, c := range l.Keys {
			h, ok := claimOf(st.Slots[a.Slot].Keys, c.Key)
			// The outcome may have opened again, by a late request; another has the key then.
			if o, taken := by[c.Key]; taken && o.slot != a.Slot && !(o.shared && c.Shared) {
				continue
			}
			if !ok || h.Shared && !c.Shared {
				return fmt.Errorf("I8: key %s is free while the outcome of %s is open", c.Key, a.Action)
			}
		}
	}
	return nil
}

func checkSlot(st *State, s *Slot) error {
	if s.Epoch == 0 || s.Epoch > s.Ceiling || s.Ceiling > MaxEpoch {
		return fmt.Errorf("I1: epoch %d, ceiling %d", s.Epoch, s.Ceiling)
	}
	live := 0
	for _, l := range st.Leases {
		if l.Slot == s.Name && (l.State == LeaseGranted || l.State == LeaseActive) {
			live++
		}
	}
	if live > 1 {
		return fmt.Errorf("I2: %d leases hold it", live)
	}
	if (s.Holder.Kind == "agent") != (live == 1) {
		return fmt.Errorf("I2: holder %+v with %d live leases", s.Holder, live)
	}
	if p := st.Probes[s.Name]; p != nil && p.Running != nil && (p.Running.Epoch != s.Epoch || !s.Launch.Live()) {
		return fmt.Errorf("I4: a probe of epoch %d goes on at epoch %d", p.Running.Epoch, s.Epoch)
	}
	if s.Holder.Kind == "human" && s.Lease != "" {
		return fmt.Errorf("I2: a person holds it and lease %s too", s.Lease)
	}
	return nil
}

// checkOffered looks at what I5 and I8 ask for, from the entities alone.
func checkOffered(st *State, s *Slot) error {
	switch {
	case s.Fence.State != "drained":
		return fmt.Errorf("I5: its fence is %s", s.Fence.State)
	case s.Launch != nil && s.Launch.State == "unknown":
		return fmt.Errorf("I11: it is not known whether its browser has ended")
	case len(s.Reasons) > 0:
		return fmt.Errorf("I8: quarantined: %s", s.Reasons[0].Code)
	}
	if b := st.Bindings[st.Leases[s.Lease].Binding]; b.page("account") != nil {
		if id := s.account(b.Name); id == nil || id.State != "match" || id.Launch != s.Launch.ID || id.Until == (Deadline{}) {
			return fmt.Errorf("I8: binding %s was granted without a match of its account: %+v", b.Name, id)
		}
	}
	agent := AgentName(s.Holder.Name)
	if i := slices.IndexFunc(s.Scripts, func(d DocNow) bool { return d.Agent != agent }); i >= 0 {
		return fmt.Errorf("I8: a script of %s may still run", s.Scripts[i].Agent)
	}
	for _, a := range st.Actions {
		if a.Slot != s.Name || a.Class == Read || a.Epoch == s.Epoch || a.Resolution != nil {
			continue
		}
		settled := a.Local == NotDispatched || a.Local == Failed || a.Local == Finished &&
			(a.Remote == NoneSeen && a.Watched || a.Remote.Status() != 0 || a.Remote == AbortedLocally && !a.asked())
		if !settled {
			return fmt.Errorf("I8: %s has local %s, remote %s", a.Summary, a.Local, a.Remote)
		}
	}
	return nil
}
