package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// TestResumeAfterAHandback is the round trip: taken, handed back in the popup to the
// agent that was interrupted, resumed at a new epoch, and only after a new look.
func TestResumeAfterAHandback(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	before := k.Lease.Epoch
	k.press(demo.ButtonTakeover)
	k.status("the fence to be drained", func(s *core.Status) bool {
		return s.Authority.Holder.Kind == "human" && s.Authority.Fence == "drained"
	})
	if err := k.Resume(k.ctx, 0); codeOf(err) != core.CodeHeld {
		t.Errorf("resume while a person holds: %v", err)
	}
	must(t, k.hand.Choose(k.ctx, "handback-to", "ada"))
	k.press(demo.ButtonHandback)
	must(t, k.Resume(k.ctx, time.Minute))
	if k.Lease.Epoch <= before+1 {
		t.Errorf("resumed at epoch %d, interrupted at %d", k.Lease.Epoch, before)
	}
	k.refuse(core.CodeDocumentChanged, wire.Act{Verb: "click", Selector: "#save"})
	k.do(wire.Act{Verb: "snapshot"})
	k.do(wire.Act{Verb: "click", Selector: "#save"})
}

// hostPID finds the slot's native messaging host.
func hostPID(t *testing.T, slot string) int {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/comm")
	must(t, err)
	for _, comm := range procs {
		name, err := os.ReadFile(comm)
		if err != nil || !strings.HasPrefix("sessiondock-host", strings.TrimSpace(string(name))) || len(name) < 10 {
			continue
		}
		environ, err := os.ReadFile(filepath.Join(filepath.Dir(comm), "environ"))
		if err == nil && strings.Contains(string(environ), "SESSIONDOCK_SLOT="+slot+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(comm)))
			must(t, err)
			return pid
		}
	}
	t.Fatalf("no host of slot %s", slot)
	return 0
}

func killPID(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
}

// TestHostKilledInMidCommand: the gate closes with the port, what was running is
// unknown until the same worker reports, and the slot comes back by itself (B9).
func TestHostKilledInMidCommand(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "busy", "")
	id := client.NewID()
	go k.Act(k.ctx, id, wire.Act{Verb: "click", Selector: "#save"}, 0)
	k.settled(id, "the dispatch", func(r *core.Record) bool { return r.Times.Dispatched != 0 })
	before := k.Lease.Epoch
	killPID(t, hostPID(t, k.name))
	k.status("the link to be lost", func(s *core.Status) bool { return s.Authority.Epoch > before })
	k.refuse(core.CodeFenced, wire.Act{Verb: "click", Selector: "#save"})
	k.status("a new host", func(s *core.Status) bool { return s.Local.Launch.Link == "up" && s.Authority.Fence == "drained" })
	r := k.settled(id, "the site's answer", func(r *core.Record) bool { return r.Remote.Status() != 0 })
	if r.Local == core.Failed || r.Local == core.NotDispatched {
		t.Errorf("local is %s although the click was dispatched", r.Local)
	}
	if n := k.site.Count(k.name).Total; n != 1 {
		t.Errorf("the site counts %d", n)
	}
}

// TestTakeoverWithTheDaemonDead: the press holds by itself; the daemon that comes
// back makes it one takeover.
func TestTakeoverWithTheDaemonDead(t *testing.T) {
	home, _ := demo.InHome()
	k := openLonely(t, home)
	must(t, k.d.Kill())
	k.press(demo.ButtonTakeover)
	text, err := k.hand.WaitText(k.ctx, "not be reached", "cannot reach", "is not connected", "Not connected", "not there")
	must(t, err)
	t.Logf("the popup says: %s", text)
	must(t, k.d.Start(k.ctx))
	st := k.status("the hold to become a takeover", func(s *core.Status) bool { return s.Authority.Holder.Kind == "human" })
	k.status("the drain", func(s *core.Status) bool { return s.Authority.Fence == "drained" })
	if err := k.Resume(k.ctx, 0); codeOf(err) != core.CodeHeld {
		t.Errorf("the agent resumes: %v", err)
	}
	if n := k.site.Count(k.name).Total; n != 0 {
		t.Errorf("the site counts %d; holder %+v", n, st.Authority.Holder)
	}
}

// openLonely is a desk with a daemon of its own, which the test may kill.
func openLonely(t *testing.T, home demo.Home) *desk {
	t.Helper()
	d, site := openOwn(t, home)
	return openDeskOn(t, d, site, "product", "")
}

// openOwn starts a daemon for one test alone, with a site.
func openOwn(t *testing.T, home demo.Home, flags ...string) (*demo.Daemon, *demo.Site) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sd")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"CONFIG", "STATE", "DATA", "CACHE"} {
		t.Setenv("XDG_"+name+"_HOME", filepath.Join(dir, strings.ToLower(name)))
	}
	// Its own sockets too: the shared daemon may be running.
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
	must(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
	site, err := demo.OpenSite()
	must(t, err)
	t.Cleanup(func() { site.Close() })
	d, err := demo.StartDaemon(t.Context(), home, "pipe", flags...)
	must(t, err)
	t.Cleanup(func() { must(t, d.Stop()) })
	return d, site
}

// TestPersonsEpochs: people's verbs carry the epoch they were decided on.
func TestPersonsEpochs(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	stale := k.Lease.Epoch - 1
	_, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{IfEpoch: &stale})
	if codeOf(err) != core.CodeConflict {
		t.Errorf("a takeover decided on a former epoch: %v", err)
	}
	st, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{})
	must(t, err)
	if st.Authority.Fence == "pending" || st.Authority.Fence == "unacknowledged" {
		t.Errorf("the fence is %s", st.Authority.Fence)
	}
	if _, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{}); codeOf(err) != core.CodeHeld {
		t.Errorf("a second person: %v", err)
	}
	_, err = k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{FromPerson: true, By: "viewer"})
	must(t, err)
	if _, err := k.d.Control.Change(k.ctx, k.slot(), client.Handback, wire.ChangeRequest{IfEpoch: &st.Authority.Epoch}); codeOf(err) != core.CodeConflict {
		t.Errorf("a handback decided on a former epoch: %v", err)
	}
}

// TestStopBrowserEndsTheLaunchVerified: the strongest boundary.
func TestStopBrowserEndsTheLaunchVerified(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "busy", "busy=held")
	busy, _ := k.hold() // until the browser ends
	id := client.NewID()
	go k.Act(k.ctx, id, wire.Act{Verb: "click", Selector: "#save"}, 0)
	k.settled(id, "the dispatch", func(r *core.Record) bool { return r.Times.Dispatched != 0 })
	busy()
	st, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{StopNow: true})
	must(t, err)
	if st.Local.Launch.State != "ended" {
		t.Fatalf("launch %+v", st.Local.Launch)
	}
	rows, err := k.d.Control.Actions(k.ctx, k.slot(), true)
	must(t, err)
	if len(rows) != 1 || rows[0].Local != core.Ended {
		t.Fatalf("open actions: %+v", rows)
	}
	if n := k.site.Count(k.name).Total; n != 0 {
		t.Errorf("the site counts %d", n)
	}
	none := client.NewID() // of no action
	k.person().refused(core.CodeNotFound.Info().Exit, "1 of 2 were resolved before "+none+" was not",
		"resolve", string(rows[0].Action), none, "--not-applied", "--note", "the site counts 0")
	if r, err := k.d.Control.Action(k.ctx, rows[0].Action); err != nil || r.Resolution == nil || r.Resolution.Verdict != core.NotApplied {
		t.Errorf("resolved: %+v, %v", r, err)
	}
}

// A page that is on its way to another is ended all the same: Chromium refuses to end it
// until what it is on its way to, or the dialog that keeps it, is called off.
func TestAPageIsEndedOnItsWayToAnother(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{"by a dialog", "by a server"} {
		t.Run(kept, func(t *testing.T) {
			t.Parallel()
			k := openDesk(t, "product", "")
			to := k.site.URL(k.name, "product", "slow=10000")
			k.do(wire.Act{Verb: "evaluate", Expression: `setInterval(() => 0, 1000)`})
			if kept == "by a dialog" {
				to = k.page
				k.do(wire.Act{Verb: "evaluate", Expression: `addEventListener("beforeunload", (e) => { e.preventDefault(); e.returnValue = true; })`})
				k.do(wire.Act{Verb: "click", Selector: "#save"}) // Chromium asks only who has used the page
			}
			id := client.NewID()
			go k.Act(k.ctx, id, wire.Act{Verb: "navigate", URL: to}, 0)
			k.settled(id, "the dispatch", func(r *core.Record) bool { return r.Times.Dispatched != 0 })
			time.Sleep(300 * time.Millisecond) // the dialog is open, the request under way
			st, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test", StopPage: true})
			must(t, err)
			if len(st.Local.Documents) > 0 || st.Authority.Holder.Kind != "human" {
				t.Errorf("held by %s; still there: %+v", st.Authority.Holder.Kind, st.Local.Documents)
			}
		})
	}
}
