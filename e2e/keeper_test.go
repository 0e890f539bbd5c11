package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// keeperOf finds a slot's keeper by what it was started as.
func keeperOf(t *testing.T, slot string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range all {
		args, _ := os.ReadFile(file)
		if strings.HasSuffix(string(args), "\x00keeper\x00"+slot+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			must(t, err)
			return pid
		}
	}
	t.Fatal("the slot has no keeper")
	return 0
}

// A browser whose keeper was killed is ended all the same when a person says so, whatever
// brought the extension into it, and the slot can be used again.
func TestABrowserWithoutItsKeeperCanBeEnded(t *testing.T) {
	for _, way := range []string{"policy", "load"} {
		t.Run(way, func(t *testing.T) {
			p := openParlour(t, "", "--packaging="+way)
			must(t, unix.Kill(keeperOf(t, parlourSlot), unix.SIGKILL))
			time.Sleep(500 * time.Millisecond)
			for _, now := range []bool{true, false} {
				st, err := p.d.Control.Change(p.ctx, parlourSlot, client.Stop, wire.ChangeRequest{StopNow: now})
				must(t, err)
				ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
				_, err = p.d.WaitStatus(ctx, parlourSlot, "the browser's end", func(s *core.Status) bool { return s.Local.Launch.State == "ended" })
				cancel()
				if err != nil {
					t.Fatalf("%v; the answer was %+v", err, st.Local.Launch)
				}
				p.start()
				if now {
					must(t, unix.Kill(keeperOf(t, parlourSlot), unix.SIGKILL))
				}
			}
		})
	}
}
