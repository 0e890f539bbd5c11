package e2e

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// refusedStart starts the daemon where it must not serve, and returns what it says.
func refusedStart(t *testing.T, code core.Code) string {
	t.Helper()
	home, _ := demo.InHome()
	cmd := exec.CommandContext(t.Context(), filepath.Join(home.Bin(), "sessiondockd"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code.Info().Exit {
		t.Fatalf("want exit code %d (%s), got %v\n%s", code.Info().Exit, code, err, out)
	}
	if !strings.Contains(string(out), "hint: ") {
		t.Errorf("no hint: %s", out)
	}
	return string(out)
}

func TestASecondDaemonIsRefused(t *testing.T) { // D8
	home, _ := demo.InHome()
	d, _ := openOwn(t, home)
	said := refusedStart(t, core.CodeConflict)
	if want := fmt.Sprintf("process %d already serves the database %s", d.PID(), d.Paths.Database()); !strings.Contains(said, want) {
		t.Errorf("the refusal does not name the first: %s", said)
	}
	if h, err := d.Control.Health(t.Context()); err != nil || h.PID != d.PID() {
		t.Errorf("the first daemon: %v %+v", err, h)
	}
}

// TestADatabaseThatIsNotServed: the daemon refuses it, says what to do, and leaves every
// byte of it.
func TestADatabaseThatIsNotServed(t *testing.T) {
	home, _ := demo.InHome()
	d, _ := openOwn(t, home)
	must(t, d.Stop())
	path := d.Paths.Database()
	good, err := os.ReadFile(path)
	must(t, err)

	newer := func() {
		db, err := sql.Open("sqlite", "file:"+path)
		must(t, err)
		defer db.Close()
		_, err = db.Exec("PRAGMA user_version = 99")
		must(t, err)
	}
	noise := func() {
		bad := bytes.Clone(good)
		for i := 4096; i < 3*4096; i++ {
			bad[i] ^= byte(i * 131)
		}
		must(t, os.WriteFile(path, bad, 0o600))
	}
	for _, c := range []struct {
		name   string
		damage func()
		code   core.Code
		want   []string
	}{
		{"newer", newer, core.CodeVersionSkew, []string{"has version 99", "start the newer daemon"}},
		{"corrupt", noise, core.CodeUnavailable, []string{"is corrupt", "move it aside", "put a backup there"}},
		{"cut off", func() { must(t, os.Truncate(path, int64(len(good)/2))) }, core.CodeUnavailable, []string{"is corrupt", "put a backup there"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, os.WriteFile(path, good, 0o600))
			c.damage()
			before := hashes(t, path)
			for range 2 { // a second try finds what the first found
				said := refusedStart(t, c.code)
				for _, want := range append(c.want, path) {
					if !strings.Contains(said, want) {
						t.Errorf("it does not say %q: %s", want, said)
					}
				}
			}
			if after := hashes(t, path); after != before {
				t.Errorf("the database was changed: %s, %s", before, after)
			}
		})
	}
	must(t, os.WriteFile(path, good, 0o600))
	must(t, d.Start(t.Context()))
}

// hashes are of a database and the files that SQLite keeps beside it.
func hashes(t *testing.T, path string) string {
	t.Helper()
	var all []string
	for _, suffix := range []string{"", "-wal", "-journal"} {
		text, err := os.ReadFile(path + suffix)
		if errors.Is(err, os.ErrNotExist) || len(text) == 0 {
			continue // an empty log is as good as none
		}
		must(t, err)
		all = append(all, fmt.Sprintf("%s %x", suffix, sha256.Sum256(text)))
	}
	return strings.Join(all, " ")
}

// TestTheDaemonHasNoSwitchOfTests: the crash test's failpoints and the power-loss test's
// control are behind build tags, and what ships is built with none.
func TestTheDaemonHasNoSwitchOfTests(t *testing.T) {
	home, _ := demo.InHome()
	path := filepath.Join(home.Bin(), "sessiondockd")
	info, err := buildinfo.ReadFile(path)
	must(t, err)
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			t.Errorf("it is built with the tags %s", s.Value)
		}
	}
	text, err := os.ReadFile(path)
	must(t, err)
	for _, name := range []string{"SESSIONDOCK_FAILPOINT", "before-commit", "before-effect"} {
		if bytes.Contains(text, []byte(name)) {
			t.Errorf("it knows of %s", name)
		}
	}
}

// TestStartOverAnOlderCopy: a browser that has seen more than the database is closed to
// agents, and whoever starts it is told so at once, with what to do.
func TestStartOverAnOlderCopy(t *testing.T) { // I1
	home, _ := demo.InHome()
	d, site := openOwn(t, home)
	t.Cleanup(func() { must(t, d.Stop()) }) // the last one, after the desk's own end
	k := openDeskOn(t, d, site, "product", "")
	must(t, k.Release(k.ctx))
	_, err := d.Control.Change(k.ctx, k.slot(), client.Stop, wire.ChangeRequest{By: "test"})
	must(t, err)
	must(t, d.Stop())
	older, err := os.ReadFile(d.Paths.Database())
	must(t, err)

	d, err = demo.StartDaemon(k.ctx, home, "")
	must(t, err)
	_, err = d.Control.Change(k.ctx, k.slot(), client.Start, wire.ChangeRequest{By: "test"})
	must(t, err)
	for range 3 {
		_, err = d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
		must(t, err)
		_, err = d.Control.Change(k.ctx, k.slot(), client.Handback, wire.ChangeRequest{By: "test", Confirm: true})
		must(t, err)
	}
	_, err = d.Control.Change(k.ctx, k.slot(), client.Stop, wire.ChangeRequest{By: "test"})
	must(t, err)
	must(t, d.Stop())
	must(t, os.WriteFile(d.Paths.Database(), older, 0o600))

	d, err = demo.StartDaemon(k.ctx, home, "")
	must(t, err)
	begun := time.Now()
	_, err = d.Control.Change(k.ctx, k.slot(), client.Start, wire.ChangeRequest{By: "test"})
	var refusal *core.Error
	if !errors.As(err, &refusal) || refusal.Code != core.CodeEpochRegression || !strings.Contains(refusal.Hint, "slot adopt "+string(k.slot())) {
		t.Errorf("started: %v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v to say so", took)
	}
	_, err = d.Control.Change(k.ctx, k.slot(), client.Adopt, wire.ChangeRequest{By: "test", Note: "restored"})
	must(t, err)
	_, err = d.Control.Change(k.ctx, k.slot(), client.Stop, wire.ChangeRequest{By: "test"})
	must(t, err)
}
