package explore

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"sessiondock.dev/sessiondock/daemon/core"
)

// canonical is an input without what decides nothing: a hello's number of the journal, an
// error's words.
func canonical(in core.Input) core.Input {
	switch in := in.(type) {
	case core.Hello:
		in.MarkSeq = 0
		return in
	case core.Done:
		in.Error = nil // it follows from the state
		return in
	}
	return in
}

// authKeyed gives a state its canonical form: all that decides anything, and none of the
// words, times and evidence that are only told.
func authKeyed(s *core.State) *auth {
	var out strings.Builder
	v := s.Slots[slot]
	fmt.Fprintf(&out, "%d %d %+v %s %s %s %s %+v %+v %d %s %s %+v|", v.Epoch, v.Ceiling, v.Holder, v.Lease, v.Interrupted, v.LastHold,
		v.Fence.State, v.Fence.Deadline.BootMs, v.Pending, v.PersonUntil, v.LastAgent, v.Starting, reasons(v.Reasons))
	if l := v.Launch; l != nil {
		fmt.Fprintf(&out, "%s %v|", l.State, l.Linked)
	}
	// Who came first decides; the number by which it is told does not.
	ids := slices.SortedFunc(maps.Keys(s.Leases), func(a, b core.LeaseID) int { return int(s.Leases[a].Arrived - s.Leases[b].Arrived) })
	for _, id := range ids {
		l := s.Leases[id]
		fmt.Fprintf(&out, "%s %s %d %d %d %d %d|", id, l.State, l.Epoch, l.WaitUntil.BootMs, l.ClaimBy.BootMs, l.Expires.BootMs, l.MaxUntil.BootMs)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Actions)) {
		a := s.Actions[id]
		fmt.Fprintf(&out, "%s %d %s %s %v %v %v %v %v %v %v %s %d %d %d %d %s %d %v %d %d|", id, a.Epoch, a.Local, a.Remote, a.Sent, a.Over, a.Closed, a.Blind,
			a.Gone, a.Drained, a.Watched, a.How, a.Rev, a.Open, a.Reported, a.Steps.Dispatched, a.Host, len(a.Requests), a.Resolution != nil, a.WatchEnds.BootMs, a.Deadline.BootMs)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Past)) {
		fmt.Fprintf(&out, "past %s|", id)
	}
	l := s.Links[slot]
	fmt.Fprintf(&out, "%s %s %d %d|", l.Nonce, l.Instance, l.Granted, l.Mark)
	if w := s.Work[slot]; w != nil {
		fmt.Fprintf(&out, "%v %v %d", w.Lane, w.Seen, w.LastTab)
	}
	return &auth{s, out.String()}
}

func reasons(rs []core.Reason) (codes []string) {
	for _, r := range rs {
		codes = append(codes, r.Code)
	}
	return codes
}

// words holds the canonical form of every message there was: they are few.
var words sync.Map

func spelt(m Down) string {
	m.Seq = 0
	if known, ok := words.Load(m); ok {
		return known.(string)
	}
	text := fmt.Sprintf("%+v", m)
	words.Store(m, text)
	return text
}

// hash is a state's, in its canonical form.
type hash [16]byte

func (n *node) hash() hash {
	var out bytes.Buffer
	out.Grow(2048)
	fmt.Fprintf(&out, "%d %v %v %v %v %d %s\n", n.nowMs, n.left, n.agents, n.up, n.begun, n.stage, n.said)
	for _, a := range []*auth{n.state, n.seen, n.disk} {
		switch {
		case a == nil:
			out.WriteString("none\n")
		case a != n.state && n.state != nil && a.key == n.state.key:
			out.WriteString("same\n")
		default:
			out.WriteString(a.key)
			out.WriteByte('\n')
		}
	}
	if n.reg != nil {
		out.WriteString(n.reg.key)
	}
	for _, i := range n.inbox {
		out.WriteString(i.key)
	}
	fmt.Fprintf(&out, "\n%d %s %s %v %v\n", n.nonces, n.conn, n.hostConn, n.daemonGone, n.hostGone)
	for _, list := range [][]Down{n.down, n.out, n.pipe} {
		for _, m := range list {
			out.WriteString(spelt(m))
		}
		out.WriteByte('\n')
	}
	for _, m := range n.upward {
		out.WriteString(m.key)
	}
	fmt.Fprintf(&out, "\n%+v %d %+v %v\n", n.gate, n.open, n.run, n.begunActions)
	for _, d := range n.kept {
		fmt.Fprintf(&out, "%s %s;", d.Action, d.State)
	}
	fmt.Fprintf(&out, "\n%s\n%v %+v", n.ext.key(), n.page, n.truth)
	sum := sha256.Sum256(out.Bytes())
	return hash(sum[:16])
}
