package core

import (
	"fmt"
	"maps"
	"slices"
)

// Step decides on one input. It changes nothing: the caller commits the delta,
// applies it, and then carries out the effects. Floor gives, for each slot, the
// highest epoch that the fence register has issued; a new epoch is above it.
//
// A step that refuses may still have a delta: a refusal is a decision, and is
// journaled when it says something about a principal.
func Step(s *State, now Now, floor map[SlotName]Epoch, in Input) Result {
	t := &tx{
		s: s, now: now, in: in, by: "system", floor: floor,
		slots: map[SlotName]*Slot{}, leases: map[LeaseID]*Lease{},
		actions: map[ActionID]*Action{}, links: map[SlotName]LinkState{},
		touched: map[SlotName]bool{},
	}
	t.res.Refusal = t.decide(in)
	by := t.by
	t.by = "system"                     // what follows is nobody's wish
	for i := 0; i < len(t.order); i++ { // serving one may ask for another
		t.keepKeys(t.order[i])
		t.dropKeys(t.order[i])
		t.serve(t.order[i])
		t.yield(t.order[i])
		t.keptNoMore(t.order[i])
	}
	for _, name := range slices.Sorted(maps.Keys(t.forget)) {
		t.tell(t.slot(name)) // only the journal knows of them from here on
		t.emit(SendForget{Slot: name, Actions: t.forget[name]})
	}
	t.by = by
	t.finish()
	return t.res
}

func (t *tx) decide(in Input) *Error {
	switch in := in.(type) {
	case CreateSlot:
		return t.createSlot(in)
	case RemoveSlot:
		return t.removeSlot(in)
	case Bind:
		return t.bind(in)
	case RemoveBinding:
		return t.removeBinding(in)
	case Delegate:
		return t.delegate(in)
	case RevokeDelegation:
		return t.revokeDelegation(in)
	case Confirm:
		return t.confirm(in)
	case Takeover:
		return t.takeover(in)
	case Handback:
		return t.handback(in)
	case StopPage:
		return t.stopPage(in)
	case StartSlot:
		return t.startSlot(in)
	case StopSlot:
		return t.stopSlot(in)
	case Revoke:
		return t.revoke(in)
	case Resolve:
		return t.resolve(in)
	case Lift:
		return t.lift(in)
	case Adopt:
		return t.adopt(in)
	case Acquire:
		return t.acquire(in)
	case CancelWait:
		return t.cancelWait(in)
	case Claim:
		return t.claim(in)
	case Renew:
		return t.renew(in)
	case Release:
		return t.release(in)
	case Resume:
		return t.resume(in)
	case AskPerson:
		return t.askPerson(in)
	case RunProbe:
		return t.runProbe(in)
	case AnswerAsk:
		return t.answerAsk(in)
	case Retain:
		return t.retain(in)
	case DecideRetention:
		return t.decideRetention(in)
	case Acknowledge:
		return t.acknowledge(in)
	case Act:
		return t.act(in)
	case LinkUp:
		return t.linkUp(in)
	case Hello:
		return t.hello(in)
	case LinkLost:
		return t.linkLost(in)
	case Fenced:
		return t.fenced(in)
	case Drained:
		return t.drained(in)
	case DocumentFound:
		return t.documentFound(in)
	case DocumentEnded:
		return t.documentEnded(in)
	case Reported:
		return t.reported(in)
	case Pull:
		return t.pull(in)
	case Granted:
		return t.granted(in)
	case ProbeDone:
		return t.probeDone(in)
	case Done:
		return t.done(in)
	case LaunchStarting:
		return t.launchStarting(in)
	case LaunchRunning:
		return t.launchRunning(in)
	case LaunchEnded:
		return t.launchEnded(in)
	case Saved:
		return t.saved(in)
	case Overdue:
		return t.notSent(in)
	case Bypassed:
		return t.bypassed(in)
	case Measured:
		return t.measured(in)
	case Trim:
		return t.trim(in)
	case Restarted:
		return t.restarted(in)
	case Tick:
		return t.tick()
	}
	panic(fmt.Sprintf("core: input %T is not in the table of Step", in))
}
