package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// TestTwoHoursOfSuspendEndALease (L7): CLOCK_BOOTTIME goes on while the machine sleeps.
// A time namespace sets it two hours ahead, as a suspend would, for a daemon that is
// started again; its lease of ten minutes is over before anything is dispatched. (Start
// times of processes are shifted there as well, so that daemon does not know its
// browser's keeper again. After a suspend it would.)
func TestTwoHoursOfSuspendEndALease(t *testing.T) {
	asleep := []string{"unshare", "--map-current-user", "--time", "--boottime", "7200"}
	if out, err := exec.Command(asleep[0], append(asleep[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: no time namespace can be made here: %v %s", err, out)
	}
	home, _ := demo.InHome()
	k := openLonely(t, home)
	must(t, k.d.Kill())
	k.d.Through = asleep
	must(t, k.d.Start(k.ctx))
	t.Cleanup(func() { // so that the desk's browser can be ended by its keeper
		must(t, k.d.Stop())
		k.d.Through = nil
		must(t, k.d.Start(context.WithoutCancel(k.ctx)))
	})
	offsets, err := os.ReadFile(fmt.Sprintf("/proc/%d/timens_offsets", k.d.PID()))
	must(t, err)
	if !strings.Contains(strings.Join(strings.Fields(string(offsets)), " "), "boottime 7200") {
		t.Fatalf("the daemon's clock is not ahead: %s", offsets)
	}
	k.refuse(core.CodeExpired, wire.Act{Verb: "click", Selector: "#save"})
	if err := k.Resume(k.ctx, 0); codeOf(err) != core.CodeExpired {
		t.Errorf("resumed after its time: %v", err)
	}
	agent := k.agents()
	agent.refused(12, "expired", "lease", "renew", "--for", "10m")
	agent.shows([]string{"lease", "show"}, ": ended", "why: its time is over")
	rows, err := k.d.Control.Events(k.ctx, 0, 1000)
	must(t, err)
	restarted := false
	for _, e := range rows {
		restarted = restarted || e.Kind == "restarted"
		if restarted && (e.Kind == "admitted" || e.Kind == "resumed" || e.Kind == "granted") {
			t.Errorf("after the restart: %+v", e)
		}
	}
	if n := k.site.Count(k.name).Total; !restarted || n != 0 {
		t.Errorf("restarted %v; the site counts %d", restarted, n)
	}
}
