package gate

import (
	"fmt"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Gate is the second gate. It knows one granted epoch, which only the daemon's
// grant and fence move; an action's own number never does. The zero Gate grants
// nothing.
type Gate struct {
	granted core.Epoch // 0: nothing is granted
	floor   core.Epoch // the highest epoch ever granted or fenced: never lowered
}

// Granted returns the granted epoch, 0 if there is none.
func (g *Gate) Granted() core.Epoch { return g.granted }

// Grant opens the gate for one epoch; 0 closes it. A grant below an epoch that was
// granted or fenced before is late, and changes nothing.
func (g *Gate) Grant(e core.Epoch) *core.Error {
	switch {
	case e > core.MaxEpoch:
		return notAnEpoch(e)
	case e == 0:
		g.granted = 0
	case e < g.floor:
		return fenced(e, g.floor)
	default:
		g.granted, g.floor = e, e
	}
	return nil
}

// Fence closes the gate and refuses every lower epoch from now on. Even a fence
// that makes no sense closes it; only a sensible one raises the floor.
func (g *Gate) Fence(e core.Epoch) *core.Error {
	g.granted = 0
	if e == 0 || e > core.MaxEpoch {
		return notAnEpoch(e)
	}
	g.floor = max(g.floor, e)
	return nil
}

// Close closes the gate until the next grant.
func (g *Gate) Close() { g.granted = 0 }

// Check refuses every epoch but the granted one.
func (g *Gate) Check(e core.Epoch) *core.Error {
	switch {
	case e == 0 || e > core.MaxEpoch:
		return notAnEpoch(e)
	case e != g.granted:
		return fenced(e, max(g.granted, g.floor))
	}
	return nil
}

// System refuses the system's own work under every epoch but the one in force: the
// highest that was granted or fenced. It needs no grant, for nobody may hold the slot.
func (g *Gate) System(e core.Epoch) *core.Error {
	switch {
	case e == 0 || e > core.MaxEpoch:
		return notAnEpoch(e)
	case e != g.floor:
		return fenced(e, g.floor)
	}
	return nil
}

// fenced says what the daemon's own refusal says: epoch is the slot's, your_epoch
// the one that was asked for.
func fenced(asked, now core.Epoch) *core.Error {
	said := fmt.Sprintf("epoch %d is not granted here; the slot is at epoch %d", asked, now)
	switch {
	case asked == now:
		said = fmt.Sprintf("epoch %d is granted no longer: its lease has ended or was not renewed in time", asked)
	case asked < now:
		said = fmt.Sprintf("epoch %d has ended; the slot is at epoch %d", asked, now)
	}
	return core.Refuse(core.CodeFenced, said, "wait, or resume the lease").With("epoch", now).With("your_epoch", asked)
}

func notAnEpoch(e core.Epoch) *core.Error {
	return core.Refuse(core.CodeFenced, fmt.Sprintf("%d is not an epoch", uint64(e)),
		"epochs are whole numbers from 1 to 9007199254740991").With("epoch", core.Epoch(0)).With("your_epoch", e)
}
