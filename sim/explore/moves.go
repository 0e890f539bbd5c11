package explore

import (
	"fmt"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
)

// move is one thing that can happen next.
type move struct {
	name string
	do   func(*node)
}

// queue is how many inputs may wait for the writer before nobody adds one: more of them
// wait in their senders then, and come in every order all the same.
const queue = 2

// moves lists all that can happen in a state, in a fixed order.
func (n *node) moves() []move {
	var out []move
	can := func(is bool, name string, do func(*node)) {
		if is {
			out = append(out, move{name, do})
		}
	}
	room := n.up && len(n.inbox) < queue

	// The writer, with a death before and after each commit and before each effect.
	can(n.up && n.stage == idle && len(n.inbox) > 0, "decide", func(n *node) { n.decide(nil) })
	can(n.up && n.stage == decided, "commit", (*node).commit)
	can(n.up && n.stage == committed, "carry out", (*node).carryOut)
	can(room && n.begun && core.Due(n.seen.State, n.now()) && !n.waits("core.Tick"), "tick", func(n *node) { n.submit(core.Tick{}) })
	can(n.up && n.left.Restarts > 0, "the daemon dies", func(n *node) {
		n.left.Restarts--
		n.die()
	})
	can(!n.up, "the daemon starts", (*node).start)

	// The link.
	can(n.hostConn == "" && room && n.begun && len(n.inbox) == 0, "the host dials", (*node).attach)
	can(n.hostConn != "" && n.daemonGone && len(n.down) == 0, "the host sees the link's end", (*node).lost)
	can(n.conn != "" && n.hostGone && len(n.upward) == 0 && room, "the daemon sees the link's end", (*node).detach)
	can(n.conn != "" && len(n.upward) > 0 && room, "the daemon reads", (*node).hear)
	can(n.hostConn != "" && len(n.down) > 0, "the host reads", (*node).take)
	can(len(n.out) > 0, "the host writes", (*node).write)
	can(len(n.pipe) > 0, "the extension reads", (*node).read)
	can(len(n.page) > 0, "the page comes to a command", (*node).lands)

	if n.up && n.begun {
		out = append(out, n.asks(room)...)
	}
	can(n.left.Takeovers > 0 && n.ext.Hold == "", "a person presses Take over", func(n *node) {
		n.left.Takeovers--
		n.post(n.ext.Press(hold))
	})
	can(n.left.Jumps > 0, "time goes by", func(n *node) {
		n.left.Jumps--
		n.jump()
	})
	if n.left.Faults > 0 {
		out = append(out, n.faults()...)
	}
	return out
}

// waits says whether an input of this kind is in the inbox.
func (n *node) waits(kind string) bool {
	return slices.ContainsFunc(n.inbox, func(i input) bool { return fmt.Sprintf("%T", i.in) == kind })
}

// asks are what agents and the person ask of a daemon that runs.
func (n *node) asks(room bool) []move {
	var out []move
	can := func(is bool, name string, do func(*node)) {
		if is {
			out = append(out, move{name, do})
		}
	}
	for i := range n.agents {
		a, id := &n.agents[i], lease(i)
		name := fmt.Sprintf("agent %d ", i)
		l := n.seen.Leases[id]
		has := l != nil && (l.State == core.LeaseGranted || l.State == core.LeaseActive)
		lost := l != nil && (l.State == core.LeaseInterrupted || l.State == core.LeaseSuspended)
		// The agents are alike: which of them comes first is no difference.
		can(room && a.acquires > 0 && (i == 0 || n.agents[0].acquires == 0), name+"acquires", func(n *node) {
			n.agents[i].acquires--
			n.submit(core.Acquire{
				Lease: id, Token: fmt.Sprint("t", i), CapHash: capability(i), RequestID: fmt.Sprint("r", i), Binding: binding, ForMs: leaseMs, WaitMs: core.MaxWaitMs,
			})
		})
		can(room && a.acts > 0 && (has && n.seen.Links[slot].Granted == l.Epoch || lost), name+"acts", func(n *node) {
			n.agents[i].acts--
			n.submit(core.Act{
				Action: core.ActionID(fmt.Sprintf("A%d%d", i, n.agents[i].acts)), Lease: id, Cap: capability(i), Epoch: l.Epoch,
				ID:   core.ClientID(fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ69G5F%d%d", i, n.agents[i].acts)),
				Verb: "press", Class: core.Write, Summary: "press", BodyHash: "b", DeadlineMs: actionMs,
			})
		})
		can(room && a.resumes > 0 && lost && l.State == core.LeaseSuspended, name+"resumes", func(n *node) {
			n.agents[i].resumes--
			n.submit(core.Resume{Lease: id, Cap: capability(i)})
		})
		can(room && a.releases > 0 && has, name+"releases", func(n *node) {
			n.agents[i].releases--
			n.submit(core.Release{Lease: id, Cap: capability(i)})
		})
	}
	const person = "human:cli"
	takeover := core.Takeover{Slot: slot, Surface: "cli", By: person}
	can(n.left.Takeovers > 0 && room && !n.reg.Person(slot), "a person takes over", func(n *node) {
		n.left.Takeovers--
		n.takeover(takeover)
	})
	can(n.left.Takeovers > 0 && n.stage == idle && len(n.inbox) > 0 && !n.reg.Person(slot), "decide, and a person takes over before its numbers are claimed", func(n *node) {
		n.left.Takeovers--
		n.decide(func() { n.takeover(takeover) })
	})
	if n.left.Handbacks > 0 && room && n.seen.Slots[slot].Holder.Kind == "human" {
		back := func(to core.AgentName) func(*node) {
			return func(n *node) {
				n.left.Handbacks--
				n.submit(core.Handback{Slot: slot, To: to, Confirm: true, By: person})
			}
		}
		can(true, "a person hands back to the queue", back(""))
		if l := n.seen.Leases[n.seen.Slots[slot].Interrupted]; l != nil {
			can(true, "a person hands back to who was interrupted", back(l.Agent))
		}
	}
	return out
}

func lease(i int) core.LeaseID     { return core.LeaseID(fmt.Sprint("L", i)) }
func capability(i int) string      { return fmt.Sprint("c", i) }
func agentOf(i int) core.AgentName { return core.AgentName(fmt.Sprint("agent-", i)) }

// faults are what the link between daemon and host can do to messages, to the first that
// is on its way in each direction. Between the host and its extension there is a pipe.
func (n *node) faults() []move {
	var out []move
	fault := func(name string, do func(*node)) {
		out = append(out, move{name, func(n *node) {
			n.left.Faults--
			do(n)
		}})
	}
	if q := n.down; len(q) > 0 && n.hostConn != "" {
		fault("a message to the host is lost", func(n *node) { n.down = q[1:] })
		fault("a message to the host comes twice", func(n *node) { n.down = slices.Insert(slices.Clone(q), 0, q[0]) })
		if len(q) > 1 {
			fault("a message to the host is overtaken", func(n *node) { n.down = swapped(q) })
		}
	}
	if q := n.upward; len(q) > 0 && n.conn != "" {
		fault("a message to the daemon is lost", func(n *node) { n.upward = q[1:] })
		fault("a message to the daemon comes twice", func(n *node) { n.upward = slices.Insert(slices.Clone(q), 0, q[0]) })
		if len(q) > 1 {
			fault("a message to the daemon is overtaken", func(n *node) { n.upward = swapped(q) })
		}
	}
	if n.conn != "" && n.hostConn == n.conn && !n.daemonGone && !n.hostGone {
		fault("the link is cut", func(n *node) { n.daemonGone, n.hostGone, n.down, n.upward = true, true, nil, nil })
	}
	return out
}

func swapped[T any](q []T) []T {
	q = slices.Clone(q)
	q[0], q[1] = q[1], q[0]
	return q
}
