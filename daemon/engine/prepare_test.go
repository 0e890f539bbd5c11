package engine

import (
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/supervise"
)

// TestWhenASignInIsOnTheDisk: not before the time has passed in which a browser writes,
// and not while it does.
func TestWhenASignInIsOnTheDisk(t *testing.T) {
	const before, after = "1 bytes, 1", "2 bytes, 2"
	for _, c := range []struct {
		name  string
		looks []supervise.Stored
		after time.Duration
		saved bool
		how   string
	}{
		{"at once", []supervise.Stored{{Cookies: before}}, 0, false, ""},
		{"written, too early for the rest", []supervise.Stored{{Cookies: after}}, 40 * time.Second, false, ""},
		{"written", []supervise.Stored{{Cookies: after}}, savedAfter, true, "were written"},
		{"written, and seen before", []supervise.Stored{{Cookies: after}, {Cookies: before}}, savedAfter, true, "were written"},
		{"nothing to write", []supervise.Stored{{Cookies: before}}, savedAfter, true, "nothing left to write"},
		{"in the midst of it", []supervise.Stored{{Cookies: after, Writing: true}}, savedAfter, false, ""},
	} {
		v := storing{first: before}
		var saved bool
		var how string
		for _, now := range c.looks {
			saved, how = v.look(now, c.after)
		}
		if saved != c.saved || (c.how == "") != (how == "") || !strings.Contains(how, c.how) {
			t.Errorf("%s: saved %v, %q", c.name, saved, how)
		}
	}
}
