package engine

import (
	"bytes"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// One agent's large results do not take the place of another's that nobody has fetched
// yet, and all together are bounded; a large one is given once.
func TestLargeResultsLeaveEachOtherAlone(t *testing.T) {
	p := newPayloads()
	large := bytes.Repeat([]byte("x"), 5<<20)
	p.keep("a", large)
	p.keep("b", large)
	p.keep("c", []byte("small"))
	for _, id := range []core.ActionID{"a", "b", "c", "c"} {
		if len(p.result(id)) == 0 {
			t.Errorf("the result of %s is gone", id)
		}
	}
	if p.result("a") != nil {
		t.Error("a large result is given twice")
	}
	for i := range 2 * maxLargeTotal / len(large) {
		p.keep(core.ActionID(rune('A'+i)), large)
	}
	if p.large.total > maxLargeTotal || p.small.total != len("small") {
		t.Errorf("%d bytes of large results, %d of small ones", p.large.total, p.small.total)
	}
	p.forget("c")
	if p.result("c") != nil || p.small.total != 0 {
		t.Error("a result that was to be forgotten is not")
	}
}
