package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// TestBypasses opens a way round the fence in each of the known ways, and no other.
func TestBypasses(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SDTEST", exe)
	for _, c := range []struct {
		name, script, debug, want string
	}{
		{"none", "", "", ""},
		{"a port that the profile names", `touch "$P/DevToolsActivePort"; "$SDTEST" stay &`, "", "DevToolsActivePort"},
		{"a switch", `"$SDTEST" stay --remote-debugging-port=0 &`, "", "--remote-debugging-port"},
		{"a switch in a title", `"$SDTEST" stay "chromium --type=x --remote-debugging-pipe --y" &`, "", "--remote-debugging-pipe"},
		{"a switch in an address", `"$SDTEST" stay "http://x/?--remote-debugging-port=1" &`, "", ""},
		{"a listener", `"$SDTEST" listen &`, "", "listens on TCP port "},
		{"a listener of a child that left", `setsid "$SDTEST" listen &`, "", "listens on TCP port "},
		{"the port of a test", `touch "$P/DevToolsActivePort"; "$SDTEST" listen --remote-debugging-port=0 &`, "port", ""},
		{"a pipe where a port was asked for", `"$SDTEST" stay --remote-debugging-pipe &`, "port", "--remote-debugging-pipe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t, c.script+"\n"+polite)
			l := f.start(f.spec())
			l.Debug = c.debug
			all := map[core.SlotName]core.Launch{f.slot: l}
			if c.script != "" {
				eventually(t, "what was planted", func() bool { return exists(filepath.Join(f.places().slot, "settled")) })
			}
			for range 3 { // what was seen once is seen again, and nothing is added
				ways := f.d.Bypasses(all)[f.slot]
				if c.want == "" && len(ways) > 0 || c.want != "" && (len(ways) != 1 || !strings.Contains(ways[0], c.want)) {
					t.Errorf("found %q, want %q", ways, c.want)
				}
			}
			f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopNow))
			if ways := f.d.Bypasses(nil); len(ways) != 0 {
				t.Errorf("of no launch: %q", ways)
			}
		})
	}
}

// TestAStrangersListenerIsNoBypass: only the launch's own count.
func TestAStrangersListenerIsNoBypass(t *testing.T) {
	f := setup(t, polite)
	l := f.start(f.spec())
	door := listen(t)
	if ways := f.d.Bypasses(map[core.SlotName]core.Launch{f.slot: l}); len(ways) != 0 {
		t.Errorf("with %v open: %q", door.Addr(), ways)
	}
}

// TestAListenerIsFoundLate: one that was nobody's at first is found when its launch is
// looked at, and when the process that has it is listed.
func TestAListenerIsFoundLate(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SDTEST", exe)
	f := setup(t, `"$SDTEST" listen &`+"\n"+polite)
	l := f.start(f.spec())
	eventually(t, "the listener", func() bool { return exists(filepath.Join(f.places().slot, "settled")) })
	all := map[core.SlotName]core.Launch{f.slot: l}
	found := func(b *bypasses, all map[core.SlotName]core.Launch) bool { return len(b.look(all)[f.slot]) == 1 }

	late := newBypasses(f.d.profile, f.d.members)
	for range 3 { // the launch is still starting, and another runs
		if found(late, map[core.SlotName]core.Launch{"other": {ID: "other"}}) {
			t.Fatal("a launch that is not looked at has a way round")
		}
	}
	if !found(late, all) {
		t.Error("not found in a launch that runs now")
	}

	listed := 0
	forked := newBypasses(f.d.profile, func(l core.Launch) []peer.Proc {
		if listed++; listed > 1 {
			return f.d.members(l)
		}
		return f.d.members(l)[:1] // the others are made after this
	})
	if found(forked, all) {
		t.Fatal("found in a process that is not there yet")
	}
	if !found(forked, all) {
		t.Error("not found in a process that was listed late")
	}
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopNow))
}
