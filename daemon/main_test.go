package main

import (
	"flag"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/manifests"
)

// TestTheManualNamesEveryFlag, and no other.
func TestTheManualNamesEveryFlag(t *testing.T) {
	f, _ := flags(new(options))
	page := strings.ReplaceAll(string(manifests.DaemonPage("")), `\-`, "-")
	f.VisitAll(func(v *flag.Flag) {
		if !strings.Contains(page, "\n.B --"+v.Name+"\n") && !strings.Contains(page, "\n.BI --"+v.Name+" ") {
			t.Errorf("the manual page does not tell of --%s", v.Name)
		}
		if !strings.Contains(usage, "[--"+v.Name) {
			t.Errorf("the usage does not name --%s", v.Name)
		}
	})
	for line := range strings.Lines(page) {
		name, ok := strings.CutPrefix(line, ".B")
		if !ok || !strings.Contains(name, " --") {
			continue
		}
		name, _, _ = strings.Cut(strings.TrimSpace(strings.SplitN(name, "--", 2)[1]), " ")
		if f.Lookup(name) == nil {
			t.Errorf("the manual page tells of --%s, which there is not", name)
		}
	}
}
