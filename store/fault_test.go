package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// A test that needs a process of its own starts this binary again with childEnv
// set to the child's name.
const childEnv = "STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "writer":
		writerChild()
	case "full disk":
		fullDiskChild()
	}
}

func child(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	return cmd
}

func orExit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestFailedCommitIsUncertain makes COMMIT itself fail, by a constraint that SQLite
// checks only then.
func TestFailedCommitIsUncertain(t *testing.T) {
	s := world(t)
	for _, stmt := range []string{
		`CREATE TABLE late (slot TEXT REFERENCES slots (name) DEFERRABLE INITIALLY DEFERRED) STRICT`,
		`CREATE TRIGGER late AFTER INSERT ON journal WHEN new.reason = 'fail late' BEGIN INSERT INTO late VALUES ('nowhere'); END`,
	} {
		if _, err := s.writer.Exec(stmt); err != nil {
			t.Fatal(err)
		}
	}
	before := text(load(t, s))
	d := step(2, &core.Delta{Slots: []*core.Slot{testSlot("work", 6)}})
	d.Journal[0].Reason = "fail late"
	err := s.Commit(d)
	if !errors.Is(err, ErrUncertain) {
		t.Fatalf("got %v", err)
	}
	var u interface{ Uncertain() bool }
	if !errors.As(err, &u) || !u.Uncertain() {
		t.Fatalf("%v does not say that it is uncertain", err)
	}
	wantCode(t, err, core.CodeInternal, "FOREIGN KEY")

	d.Journal[0].Reason = "good"
	_, errLoad := s.Load()
	_, errEvents := s.Events(core.EventQuery{Limit: 1})
	for _, err := range []error{s.Commit(d), errLoad, errEvents} {
		if !errors.Is(err, ErrMustReopen) || errors.Is(err, ErrUncertain) {
			t.Fatalf("got %v before Reopen", err)
		}
	}
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	if got := text(load(t, s)); got != before {
		t.Fatalf("after Reopen:\n%s", got)
	}
	commit(t, s, d)
}

// TestACorruptDatabaseIsReadAfterAFailedCommit: it is never opened again, and what can be
// read of it still is.
func TestACorruptDatabaseIsReadAfterAFailedCommit(t *testing.T) {
	s := world(t)
	s.mustReopen.Store(true) // as after a COMMIT that failed
	wantCode(t, s.refusal(corrupt(s.path, "a page is bad")), core.CodeUnavailable, "is corrupt")
	wantCode(t, s.Reopen(), core.CodeUnavailable, "is corrupt")
	if page, err := s.Events(core.EventQuery{Limit: 1}); err != nil || len(page.Entries) != 1 {
		t.Errorf("read %+v, %v", page, err)
	}
}

// TestFullDatabaseRefusesAndGoesOn: the limit is met before COMMIT, so it is known
// that nothing was written.
func TestFullDatabaseRefusesAndGoesOn(t *testing.T) {
	s := world(t)
	var pages int
	if err := s.writer.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := s.writer.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
		t.Fatal(err)
	}
	big := testAction("a2", "c2", "l1", 5)
	big.Summary = strings.Repeat("x", 1<<16)
	err := s.Commit(step(2, &core.Delta{Actions: []*core.Action{big}}))
	wantCode(t, err, core.CodeUnavailable, "full")
	if errors.Is(err, ErrUncertain) {
		t.Fatalf("what was never committed is called uncertain: %v", err)
	}
	if got := load(t, s); got.Seq != 1 || got.Actions["a2"] != nil {
		t.Fatal(text(got))
	}
	if _, err := s.writer.Exec("PRAGMA max_page_count = 1073741823"); err != nil {
		t.Fatal(err)
	}
	commit(t, s, step(2, &core.Delta{Actions: []*core.Action{big}}))
}

// TestFullDisk fills a real file system, in namespaces of the child's own.
func TestFullDisk(t *testing.T) {
	cmd := child(t, "full disk", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit), strings.HasPrefix(text, "no mount"):
		t.Skipf("NOT RUN: no private file system can be mounted here: %v %s", err, text)
	case err != nil || text != "ok":
		t.Fatalf("%v\n%s", err, text)
	}
}

func fullDiskChild() {
	dir := os.Args[1]
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=512k,mode=0700"); err != nil {
		fmt.Println("no mount:", err)
		os.Exit(0)
	}
	path := filepath.Join(dir, "sessiondock.db")
	s, err := Open(path)
	orExit(err)
	orExit(s.Commit(step(1, &core.Delta{Slots: []*core.Slot{testSlot("work", 5)}})))
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	orExit(err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		orExit(err)
	}
	orExit(f.Close())

	acknowledged := core.Epoch(5)
	for n := int64(2); ; n++ {
		v := testSlot("work", acknowledged+1)
		v.LastHold = core.HoldID(strings.Repeat("x", 8192))
		err = s.Commit(step(n, &core.Delta{Slots: []*core.Slot{v}}))
		if err != nil {
			break
		}
		acknowledged++
		if n > 1000 {
			orExit(errors.New("a full disk takes everything"))
		}
	}
	var e *core.Error
	if !errors.As(err, &e) || e.Code != core.CodeUnavailable {
		orExit(fmt.Errorf("a full disk is answered with: %w", err))
	}
	orExit(os.Remove(filler))
	orExit(s.Reopen())
	state, err := s.Load()
	orExit(err)
	if got := state.Slots["work"].Epoch; got < acknowledged || got > acknowledged+1 {
		orExit(fmt.Errorf("epoch %d, acknowledged %d", got, acknowledged))
	}
	orExit(s.Commit(step(state.Seq+1, &core.Delta{Slots: []*core.Slot{testSlot("work", state.Slots["work"].Epoch+1)}})))
	orExit(s.Close())
	fmt.Println("ok")
	os.Exit(0)
}

// TestKilledWriterLosesNothing kills a process in the middle of its commits. All
// that it acknowledged must be there, and no half of a commit.
func TestKilledWriterLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessiondock.db")
	s := open(t, path)
	commit(t, s, step(1, &core.Delta{
		Slots:       []*core.Slot{testSlot("work", 1)},
		Bindings:    []*core.Binding{testBinding("shop", "work")},
		Delegations: []*core.Delegation{testDelegation("d1", "shop")},
		Leases:      []*core.Lease{testLease("l1", core.LeaseActive, 1)},
	}))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for round := range 20 {
		acknowledged := killDuringCommits(t, path, time.Duration(5+rand.IntN(40))*time.Millisecond)
		s, err := Open(path)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		state := load(t, s)
		if state.Seq < acknowledged || state.Seq > acknowledged+1 {
			t.Fatalf("round %d: sequence %d, acknowledged %d", round, state.Seq, acknowledged)
		}
		// Each commit raised the epoch by one and added one action.
		if int64(state.Slots["work"].Epoch) != state.Seq || int64(len(state.Actions)) != state.Seq-1 {
			t.Fatalf("round %d: half of a commit: seq %d, epoch %d, %d actions", round, state.Seq, state.Slots["work"].Epoch, len(state.Actions))
		}
		total = state.Seq
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if total < 50 {
		t.Fatalf("only %d commits in 20 rounds: nothing was tried", total)
	}
}

// killDuringCommits returns the last sequence number that the child acknowledged.
// The time counts from its first acknowledgement.
func killDuringCommits(t *testing.T, path string, after time.Duration) int64 {
	t.Helper()
	cmd := child(t, "writer", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	last := int64(0)
	for first := true; lines.Scan(); first = false {
		if last, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
			t.Fatalf("%v %s", err, stderr.String())
		}
		if first {
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("the writer ended by itself: %v %s", err, stderr.String())
	}
	return last
}

func writerChild() {
	s, err := Open(os.Args[1])
	orExit(err)
	state, err := s.Load()
	orExit(err)
	for n := state.Seq + 1; ; n++ {
		orExit(s.Commit(step(n, &core.Delta{
			Slots:   []*core.Slot{testSlot("work", core.Epoch(n))},
			Actions: []*core.Action{testAction(core.ActionID(fmt.Sprintf("a%d", n)), core.ClientID(fmt.Sprintf("c%d", n)), "l1", core.Epoch(n))},
		})))
		// One write call: what the parent reads was acknowledged.
		_, err := fmt.Fprintf(os.Stdout, "%d\n", n)
		orExit(err)
	}
}
