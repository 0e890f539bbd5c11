package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/e2e/manager"
)

func TestMain(m *testing.M) { os.Exit(manager.RunTests(m, prepare)) }

// TestSignIns plays the cells that take seconds: a clean stop, one with a page that asks
// whether it may be left, a crash, and an upgrade. The others are make logins.
func TestSignIns(t *testing.T) {
	home := manager.Need(t)
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("NOT RUN: chromium is missing: make deps")
	}
	var quick []cell
	for _, w := range ways {
		if w.quick {
			quick = append(quick, cell{w, "headless"})
		}
	}
	outcomes, err := playAll(t.Context(), home, quick, func(o outcome, err error) {
		t.Logf("%s: the site %+v, tab back %v; status %v: %s; %v", o.name(), o.site, o.tab, o.said, o.line, err)
	})
	if err != nil || len(outcomes) != len(quick) {
		t.Fatalf("%d of %d cells: %v", len(outcomes), len(quick), err)
	}
	for _, o := range outcomes {
		if why := o.wrong(); why != "" {
			t.Errorf("%s: %s", o.name(), why)
		}
	}
	// Whether the site still knows that browser is the disk's luck: it is said not to be known.
	early := outcomes[2]
	if early.way.id != "early" || !early.said.lost || !strings.Contains(early.line, "may be LOST") {
		t.Errorf("a browser that was killed early: %+v", early)
	}
}

// TestWhatIsWrong holds the judge against outcomes that differ from what is to be.
func TestWhatIsWrong(t *testing.T) {
	all := visit{true, true, true, true}
	kept, crash := way{keeps: true, clean: true}, way{}
	for want, o := range map[string]outcome{
		"":                                  {cell: cell{way: kept}, site: all, tab: true, said: said{lent: true, prepared: true}},
		"takes the slot for signed in":      {cell: cell{way: crash}, tab: true, said: said{lent: true, crash: true}},
		"says prepared":                     {cell: cell{way: crash}, site: visit{Cookie: true, Session: true}, tab: true, said: said{lent: true, prepared: true, crash: true}},
		"should have stayed":                {cell: cell{way: kept}, tab: true, said: said{lost: true}},
		"status does not say so":            {cell: cell{way: kept}, site: all, tab: true, said: said{lent: true}},
		"contrary of how the browser ended": {cell: cell{way: crash}, tab: true, said: said{lost: true}},
		"the tab did not come back":         {cell: cell{way: crash}, said: said{lost: true, crash: true}},
	} {
		if got := o.wrong(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
}
