package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
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
