package main

import "testing"

func TestFiguresAreHeldAgainstWhatIsAsked(t *testing.T) {
	for _, c := range []struct {
		f    Figure
		want string
	}{
		{Figure{Name: "grants_per_s", Value: 2000}, "value ≥ 2000"},
		{Figure{Name: "grants_per_s", Value: 1999}, "value ≥ 2000 SHORT"},
		{Figure{Name: "fence_100_inflight_p99_ms", Value: 15, Ratio: 99}, "value ≤ 15"},
		{Figure{Name: "fence_100_inflight_p99_ms", Value: 15.001}, "value ≤ 15 SHORT"},
		{Figure{Name: "playwright_vs_direct", Value: 900, Ratio: 1.3}, "ratio ≤ 1.3"},
		{Figure{Name: "playwright_vs_direct", Value: 900, Ratio: 1.301}, "ratio ≤ 1.3 SHORT"},
		{Figure{Name: "relay_vs_direct", Value: 900}, ""},
	} {
		c.f.judge()
		if got := c.f.Asked.String(); got != c.want {
			t.Errorf("%s %v (ratio %v): %q, want %q", c.f.Name, c.f.Value, c.f.Ratio, got, c.want)
		}
	}
}

// A target of a figure that is never measured would never be short.
func TestTargetsAreOfFigures(t *testing.T) {
	for name := range targets {
		found := false
		for _, p := range parts {
			for _, f := range p.names {
				found = found || f == name
			}
		}
		if !found {
			t.Errorf("%s is no figure", name)
		}
	}
}
