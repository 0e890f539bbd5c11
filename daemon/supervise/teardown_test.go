package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

const (
	// polite goes at SIGINT, as Chromium does.
	polite = `trap 'rm "$P/SingletonLock"; exit 0' INT
lock
while :; do sleep 0.05; done
`
	// stubborn ignores every request to go, and so does its family: one that left
	// the session and was disowned twice, and one that only ignores.
	stubborn = `trap '' INT TERM HUP
lock
setsid sh -c 'sh -c "while :; do sleep 1; done" & exit' &
sh -c 'trap "" INT TERM; while :; do sleep 1; done' &
while :; do sleep 1; done
`
	// storm keeps thirty chains of processes that do nothing but fork and end, so
	// that no process of them is there for long. The last ten have left the
	// session, in a group whose leader has ended.
	storm = `trap '' INT TERM
lock
chains() { i=0; while [ $i -lt $1 ]; do (chain) & i=$((i+1)); done; }
chain() { chain & exit 0; }
chains 20
setsid sh -c 'chain() { chain & exit 0; }; i=0; while [ $i -lt 10 ]; do (chain) & i=$((i+1)); done; exit 0' &
while :; do sleep 1; done
`
)

func TestCleanStop(t *testing.T) {
	f := setup(t, polite)
	l := f.start(f.spec())
	begin := time.Now()
	e := f.d.Stop(f.ctx(), f.slot, l, StopClean)
	f.mustEnd(e)
	if !strings.Contains(e.How, "SIGINT") {
		t.Errorf("How %q does not name the signal that sufficed", e.How)
	}
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("a polite browser took %v to end", d)
	}
	// The slot is free at once, and the same end is told for ever.
	f.mustEnd(f.d.Wait(f.ctx(), f.slot, l))
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopNow))
	mustCode(t, adopt(f.d.Adopt(f.ctx(), f.slot, l)), core.CodeNotFound)
	again := f.start(f.spec())
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, again, StopNow))
}

func TestStopOfOneWhoIgnoresSignals(t *testing.T) {
	f := setup(t, `touch "$TMPDIR/left"`+"\n"+stubborn)
	l := f.start(f.spec())
	eventually(t, "five processes", func() bool { return len(tagged(t, l.ID)) >= 5 })
	if !exists(filepath.Join(f.places().temp, "left")) {
		t.Error("it has no temporary file, so the test shows nothing")
	}
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopNow))
	if left := tagged(t, l.ID); len(left) != 0 {
		t.Errorf("verified, and left are %v", left)
	}
	if exists(f.places().temp) {
		t.Error("its temporary files are left")
	}
}

func TestCleanStopGoesOnToKill(t *testing.T) {
	f := setup(t, stubborn)
	l := f.start(f.spec())
	begin := time.Now()
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopClean))
	if d := time.Since(begin); d < intWithin+termWithin {
		t.Errorf("killed after %v, before SIGINT and SIGTERM had their time", d)
	}
}

func TestStopNowHastensACleanStop(t *testing.T) {
	f := setup(t, stubborn)
	l := f.start(f.spec())
	slow := make(chan Ended, 1)
	go func() { slow <- f.d.Stop(f.ctx(), f.slot, l, StopClean) }()
	eventually(t, "stopping", func() bool {
		a, _, err := call(f.ctx(), filepath.Join(f.places().run, "keeper.sock"), peer.Proc{}, request{Op: opStatus, Launch: l.ID})
		return err == nil && a.State == "stopping"
	})
	begin := time.Now()
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopNow))
	if d := time.Since(begin); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
	f.mustEnd(<-slow)
}

func TestForkStorm(t *testing.T) {
	f := setup(t, storm)
	l := f.start(f.spec())
	time.Sleep(300 * time.Millisecond) // let it rage
	begin := time.Now()
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopNow))
	t.Logf("ended and verified after %v", time.Since(begin))
	if left := tagged(t, l.ID); len(left) != 0 {
		t.Errorf("verified, and left are %v", left)
	}
}

func TestBrowserThatEndsByItself(t *testing.T) {
	f := setup(t, `sleep 300 & sleep 0.3; rm "$P/SingletonLock"; exit 3`+"\n")
	l := f.start(f.spec())
	e := f.d.Wait(f.ctx(), f.slot, l)
	f.mustEnd(e)
	if !strings.Contains(e.How, "exit code 3") {
		t.Errorf("How %q does not tell the exit code", e.How)
	}
	if left := tagged(t, l.ID); len(left) != 0 {
		t.Errorf("the browser's child outlived the launch: %v", left)
	}
	if _, there, err := readRecord(f.places().logs, l.ID); !there || err != nil {
		t.Errorf("no end record: %v", err)
	}
}

// TestCleanEnd: an end is clean if the browser exited without a fault, and has said in its
// profile that it went by itself.
func TestCleanEnd(t *testing.T) {
	const says = `mkdir -p "$P/Default"; lock; sleep 0.2; echo '{"profile":{"exit_type":"%s"}}' > "$P/Default/Preferences"; rm "$P/SingletonLock"; exit %d` + "\n"
	for _, c := range []struct {
		says  string
		code  int
		clean bool
	}{{"Normal", 0, true}, {"Normal", 3, false}, {"SessionEnded", 0, false}, {"Crashed", 0, false}} {
		f := setup(t, fmt.Sprintf(says, c.says, c.code))
		l := f.start(f.spec())
		e := f.d.Wait(f.ctx(), f.slot, l)
		f.mustEnd(e)
		again := f.d.Stop(f.ctx(), f.slot, l, StopNow) // by the record
		refusal := mustCode(t, adopt(f.d.Adopt(f.ctx(), f.slot, l)), core.CodeNotFound)
		former := l
		former.BootID = "another"
		if e := mustCode(t, adopt(f.d.Adopt(f.ctx(), f.slot, former)), core.CodeNotFound); e.Detail["clean"] != c.clean {
			t.Errorf("%s, exit code %d: after a restart of the machine %v", c.says, c.code, e.Detail)
		}
		if e.Clean != c.clean || again.Clean != c.clean || refusal.Detail["clean"] != c.clean {
			t.Errorf("%s, exit code %d: clean %v, by the record %v, to who adopts %v", c.says, c.code, e.Clean, again.Clean, refusal.Detail)
		}
	}
}

// A daemon that is killed leaves keeper and browser; the next finds both.
func TestNextDaemonAdopts(t *testing.T) {
	f := setup(t, polite)
	l := f.start(f.spec())
	next := New(f.cfg)
	if _, err := next.Adopt(f.ctx(), f.slot, l); err != nil {
		t.Fatal(err)
	}
	if p := tagged(t, l.ID); len(p) == 0 {
		t.Fatal("the browser is gone")
	} else if err := next.Owns(l, cred(p[0].PID)); err != nil {
		t.Errorf("own process: %v", err)
	}
	if err := next.Owns(l, cred(os.Getpid())); err == nil || err.Code != core.CodeDenied {
		t.Errorf("a stranger: %v", err)
	}
	ctx, cancel := context.WithTimeout(f.ctx(), 100*time.Millisecond)
	defer cancel()
	if e := next.Wait(ctx, f.slot, l); e.Verified {
		t.Errorf("a wait that was given up verified an end: %+v", e)
	}
	f.mustEnd(next.Stop(f.ctx(), f.slot, l, StopClean))
}

func TestAdoptWithoutRecordedKeeper(t *testing.T) {
	f := setup(t, polite)
	l := f.start(f.spec())
	bare := core.Launch{ID: l.ID, BootID: l.BootID} // the daemon died before it could record more
	next := New(f.cfg)
	if _, err := next.Adopt(f.ctx(), f.slot, bare); err != nil {
		t.Fatal(err)
	}
	if err := next.Owns(bare, cred(tagged(t, l.ID)[0].PID)); err != nil {
		t.Error(err)
	}
	f.mustEnd(next.Stop(f.ctx(), f.slot, bare, StopNow))
}

func TestStaleStopDoesNotReachANewerLaunch(t *testing.T) {
	f := setup(t, polite)
	old := f.start(f.spec())
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, old, StopNow))
	cur := f.start(f.spec())
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, old, StopNow))
	if _, err := f.d.Adopt(f.ctx(), f.slot, cur); err != nil {
		t.Errorf("the newer launch: %v", err)
	}
	never := core.Launch{ID: "never-started", BootID: old.BootID}
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, never, StopNow))
	if _, err := f.d.Adopt(f.ctx(), f.slot, cur); err != nil {
		t.Errorf("the newer launch, after the stop of one that never was: %v", err)
	}
	wrong := cur
	wrong.KeeperStart++
	if _, err := New(f.cfg).Adopt(f.ctx(), f.slot, wrong); err == nil {
		t.Error("a keeper of another start time was adopted")
	}
	_, err := f.d.Start(f.ctx(), f.spec())
	mustCode(t, err, core.CodeConflict) // the slot is taken
}

func TestLaunchOfAnotherBoot(t *testing.T) { // I12
	f := setup(t, polite)
	l := core.Launch{ID: "L", BootID: "another", Identity: core.Identity{KeeperPID: os.Getpid(), KeeperStart: 1}}
	mustCode(t, adopt(f.d.Adopt(f.ctx(), f.slot, l)), core.CodeNotFound)
	f.mustEnd(f.d.Wait(f.ctx(), f.slot, l))
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopNow))
}

func killKeeper(t *testing.T, l core.Launch) {
	t.Helper()
	k := peer.Proc{PID: l.KeeperPID, StartTime: l.KeeperStart}
	if err := sendSignal(k, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the keeper's end", func() bool { return !runs(k) })
}

func TestKeeperKilled(t *testing.T) {
	f := setup(t, stubborn)
	l := f.start(f.spec())
	eventually(t, "five processes", func() bool { return len(tagged(t, l.ID)) >= 5 })
	waiting := make(chan Ended, 1)
	go func() { waiting <- f.d.Wait(f.ctx(), f.slot, l) }()
	killKeeper(t, l)
	if e := <-waiting; e.Verified || len(e.Left) < 5 {
		t.Errorf("the browser runs without its keeper, and Wait says %+v", e)
	}
	e := mustCode(t, adopt(New(f.cfg).Adopt(f.ctx(), f.slot, l)), core.CodeUnavailable)
	if e.Detail["left"] == nil {
		t.Error("the processes left are not named")
	}
	if err := f.d.Owns(l, cred(tagged(t, l.ID)[0].PID)); err == nil {
		t.Error("a process is owned by descent from a keeper that is gone")
	}
	_, err := f.d.Start(f.ctx(), f.spec())
	mustCode(t, err, core.CodeConflict) // its profile is in use, though its lock is free
	f.mustEnd(New(f.cfg).Stop(f.ctx(), f.slot, l, StopNow))
	f.mustEnd(f.d.Wait(f.ctx(), f.slot, l))
	mustCode(t, adopt(f.d.Adopt(f.ctx(), f.slot, l)), core.CodeNotFound)
}

func TestKeeperKilledCleanStop(t *testing.T) {
	f := setup(t, polite)
	l := f.start(f.spec())
	killKeeper(t, l)
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopClean))
	if _, _, locked := readLock(f.places().profile); locked {
		t.Error("the browser did not get SIGINT: it would have removed its lock")
	}
}

// A keeper that does not answer is a reason to say unknown, and to end it with
// its launch when that is asked for.
func TestKeeperHangs(t *testing.T) {
	f := setup(t, stubborn)
	l := f.start(f.spec())
	if err := sendSignal(peer.Proc{PID: l.KeeperPID, StartTime: l.KeeperStart}, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stopped", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", l.KeeperPID))
		return strings.Contains(string(text), ") T ")
	})
	ctx, cancel := context.WithTimeout(f.ctx(), 500*time.Millisecond)
	defer cancel()
	mustCode(t, adopt(f.d.Adopt(ctx, f.slot, l)), core.CodeUnavailable)
	if e := f.d.Stop(ctx, f.slot, l, StopClean); e.Verified {
		t.Errorf("verified without a keeper's word: %+v", e)
	}
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopNow))
}

func TestKeeperToldToGoByTheSystem(t *testing.T) {
	f := setup(t, polite)
	l := f.start(f.spec())
	k := peer.Proc{PID: l.KeeperPID, StartTime: l.KeeperStart}
	if err := sendSignal(k, unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := f.d.Adopt(f.ctx(), f.slot, l); err != nil {
		t.Errorf("after a hang-up: %v", err)
	}
	if err := sendSignal(k, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e := f.d.Wait(f.ctx(), f.slot, l)
	f.mustEnd(e)
	if !strings.Contains(e.How, "SIGINT") {
		t.Errorf("SIGTERM to the keeper is a clean stop; got %q", e.How)
	}
}

// A program that has the profile's folder open is not the launch's: it is
// named, it is left alone, and while it is there nothing is verified.
func TestStrangerInTheProfileIsNamedAndSpared(t *testing.T) {
	f := setup(t, polite)
	l := f.start(f.spec())
	s := f.d.scope(f.slot, l, peer.Proc{})
	stranger := startIn(t, f.places().profile)
	if !runs(stranger) {
		t.Fatal("not started")
	}
	found, err := s.look()
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, g := range found {
		seen = seen || g.proc.Same(stranger) && g.kind == user
	}
	if !seen {
		t.Errorf("not among %v", found)
	}
	ctx, cancel := context.WithTimeout(f.ctx(), 3*time.Second)
	defer cancel()
	if e := f.d.Stop(ctx, f.slot, l, StopNow); e.Verified {
		t.Errorf("verified with a process in the profile: %+v", e)
	}
	if !runs(stranger) {
		t.Error("a process that is not the launch's was killed")
	}
	if err := sendSignal(stranger, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.mustEnd(f.d.Wait(f.ctx(), f.slot, l))
}

// A process that nobody accounts for and that cannot be looked into might be the
// launch's: it is not killed, and as long as it is there nothing is verified.
func TestHiddenOrphanCountsAgainstTheEnd(t *testing.T) {
	f := setup(t, polite)
	l := f.start(f.spec())
	out, err := exec.Command("sh", "-c", `"$0" hide >/dev/null 2>&1 & echo $!`, f.cfg.KeeperBinary).Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	var hidden peer.Proc
	eventually(t, "a process that hides", func() bool {
		_, eerr := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		hidden, err = peer.Read(pid)
		return errors.Is(eerr, os.ErrPermission) && err == nil && hidden.PPID != os.Getpid()
	})
	t.Cleanup(func() { sendSignal(hidden, unix.SIGKILL) })
	if hidden.PPID != 1 {
		t.Skipf("NOT RUN: orphans go to pid %d here, which accounts for them", hidden.PPID)
	}
	ctx, cancel := context.WithTimeout(f.ctx(), 2*time.Second)
	defer cancel()
	if e := f.d.Stop(ctx, f.slot, l, StopNow); e.Verified {
		t.Errorf("verified: %+v", e)
	}
	if !runs(hidden) {
		t.Error("it was killed, though nothing shows that it is the launch's")
	}
	if err := sendSignal(hidden, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.mustEnd(f.d.Wait(f.ctx(), f.slot, l))
}

// A stop that cannot be verified names what is left.
func TestUnverifiedEndNamesWhatIsLeft(t *testing.T) {
	f := setup(t, polite)
	l := f.start(f.spec())
	stranger := startIn(t, f.places().profile)
	killKeeper(t, l)
	ctx, cancel := context.WithTimeout(f.ctx(), 3*time.Second)
	defer cancel()
	e := f.d.Stop(ctx, f.slot, l, StopNow)
	if e.Verified || len(e.Left) != 1 || !strings.Contains(e.Left[0], fmt.Sprint(stranger.PID)) {
		t.Errorf("ended as %+v", e)
	}
}

func TestEndRecords(t *testing.T) {
	dir := t.TempDir()
	for i := range keepRecords + 3 {
		r := endRecord{Launch: core.LaunchID(fmt.Sprint("L", i)), How: "so"}
		if err := writeRecord(dir, r); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(recordPath(dir, r.Launch), at, at); err != nil {
			t.Fatal(err)
		}
	}
	pruneRecords(dir)
	if _, there, _ := readRecord(dir, "L2"); there {
		t.Error("the oldest were kept")
	}
	if r, there, err := readRecord(dir, "L10"); !there || err != nil || !r.ended().Verified {
		t.Errorf("the newest is %+v, %v, %v", r, there, err)
	}
	if err := os.WriteFile(recordPath(dir, "bad"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, there, err := readRecord(dir, "bad"); there || err == nil {
		t.Error("a damaged record was believed")
	}
}
