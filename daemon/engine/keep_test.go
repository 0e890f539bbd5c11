package engine

import (
	"math"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

const day = 24 * time.Hour

func TestWhatIsBeyondABoundIsTrimmed(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		keep   Keep
		kept   core.Kept
		why    string // a part of it; empty: nothing goes
		before time.Time
		bytes  int64
	}{
		"within both":    {Keep{90 * day, 320}, core.Kept{OldestMs: now.Add(-90 * day).UnixMilli(), Bytes: 320}, "", time.Time{}, 0},
		"too old":        {Keep{96 * day, 320}, core.Kept{OldestMs: now.Add(-97 * day).UnixMilli(), Bytes: 1}, "2304h0m0s are kept", now.Add(-93 * day), 310},
		"too large":      {Keep{96 * day, 320}, core.Kept{OldestMs: now.UnixMilli(), Bytes: 321}, "321 bytes, 320 are kept", now.Add(-93 * day), 310},
		"large, no size": {Keep{Age: 96 * day}, core.Kept{OldestMs: now.UnixMilli(), Bytes: 1 << 40}, "", time.Time{}, 0},
		"old, no age":    {Keep{Bytes: 320}, core.Kept{OldestMs: 1, Bytes: 320}, "", time.Time{}, 0},
		"only size":      {Keep{Bytes: 320}, core.Kept{OldestMs: 1, Bytes: 321}, "321 bytes", time.Time{}, 310},
		"no bounds":      {Keep{}, core.Kept{OldestMs: 1, Bytes: 1 << 40}, "", time.Time{}, 0},
	} {
		beforeMs, bytes, why := c.keep.exceeded(c.kept, now.UnixMilli())
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: why %q, want %q", name, why, c.why)
		}
		if why == "" {
			continue
		}
		want := int64(math.MinInt64)
		if !c.before.IsZero() {
			want = c.before.UnixMilli()
		}
		if beforeMs != want || bytes != c.bytes {
			t.Errorf("%s: before %d and %d bytes, want %d and %d", name, beforeMs, bytes, want, c.bytes)
		}
	}
}

// TestAJumpOfTheClockIsNotAge: L6, for the journal.
func TestAJumpOfTheClockIsNotAge(t *testing.T) {
	var s steady
	now := core.Now{BootMs: 1000, WallMs: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli()}
	pass := func(d time.Duration) time.Duration {
		now.BootMs += d.Milliseconds()
		now.WallMs += d.Milliseconds()
		return s.since(now)
	}
	if got := pass(0); got != 0 {
		t.Errorf("a daemon that has just started finds its clock steady for %s", got)
	}
	if got := pass(59 * time.Minute); got != 59*time.Minute {
		t.Errorf("after 59 minutes: %s", got)
	}
	for _, jump := range []time.Duration{12 * 365 * day, -12 * 365 * day, -day, 2 * time.Minute} {
		now.WallMs += jump.Milliseconds()
		if got := pass(time.Minute); got != 0 {
			t.Errorf("after a jump by %s: %s", jump, got)
		}
		if got := pass(30 * time.Minute); got != 30*time.Minute {
			t.Errorf("half an hour later: %s", got)
		}
	}
	for range 120 {
		now.WallMs += 100 // it is slewed
		pass(time.Minute)
	}
	if got := s.since(now); got < 2*time.Hour {
		t.Errorf("a clock that is corrected slowly is steady for %s", got)
	}
}
