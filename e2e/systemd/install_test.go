package systemd

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/e2e/manager"
	"sessiondock.dev/sessiondock/manifests"
)

// TestInstalledUnderAUserManager: after an installation the first request starts the
// daemon; a real browser runs in a unit of its own with the slot's own policy; an upgrade
// restarts the daemon and not the browser; and nothing of the units is left at the end.
func TestInstalledUnderAUserManager(t *testing.T) {
	home := manager.Need(t)
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("NOT RUN: there is no chromium here")
	}
	run := func(program string, args ...string) (string, error) {
		out, err := exec.Command(program, args...).CombinedOutput()
		return string(out), err
	}
	ok := func(program string, args ...string) string {
		t.Helper()
		out, err := run(program, args...)
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", filepath.Base(program), args, err, out)
		}
		return out
	}
	from := filepath.Join(home.Bin(), "sessiondock")
	sd := filepath.Join(os.Getenv("HOME"), ".local", "bin", "sessiondock")
	ok(from, "install")
	t.Cleanup(func() {
		run(from, "slot", "stop", "guarded")
		if out, err := run(from, "uninstall", "--purge"); err != nil {
			t.Errorf("uninstall: %v\n%s", err, out)
		}
	})
	if s := show(t, manifests.SocketUnit, "ActiveState"); s != "active" {
		t.Fatalf("the socket is %s", s)
	}
	if s := show(t, manifests.ServiceUnit, "ActiveState"); s != "inactive" {
		t.Errorf("before the first request the daemon is %s", s)
	}
	if s := systemctl(t, "is-enabled", manifests.SocketUnit); s != "enabled" {
		t.Errorf("the socket is %s", s)
	}
	ok(sd, "slot", "create", "guarded")
	ok(sd, "slot", "start", "guarded")
	type launch struct {
		Generation                          int
		State, Unit, Containment, Packaging string
		InvocationID                        string `json:"invocation_id"`
	}
	status := func() launch {
		t.Helper()
		var st struct{ Local struct{ Launch launch } }
		out := ok(sd, "status", "guarded", "--json")
		if err := json.Unmarshal([]byte(out), &st); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return st.Local.Launch
	}
	before := status()
	if before.State != "running" || before.Containment != "full" || before.Packaging != "policy" || before.Unit == "" {
		t.Errorf("the launch: %+v", before)
	}

	next := t.TempDir()
	for _, p := range []string{"sessiondock", "sessiondockd", "sessiondock-host"} {
		body, err := os.ReadFile(filepath.Join(home.Bin(), p))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(next, p), append(body, "next"...), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	daemon := show(t, manifests.ServiceUnit, "MainPID")
	if out := ok(filepath.Join(next, "sessiondock"), "install"); !strings.Contains(out, "the daemon was restarted") {
		t.Errorf("an upgrade:\n%s", out)
	}
	if now := show(t, manifests.ServiceUnit, "MainPID"); now == daemon || now == "0" {
		t.Errorf("the daemon is %s, and was %s", now, daemon)
	}
	if after := status(); after != before {
		t.Errorf("after the upgrade the launch is %+v, and was %+v", after, before)
	}

	ok(sd, "slot", "stop", "guarded")
	ok(sd, "uninstall")
	for _, unit := range []string{manifests.SocketUnit, manifests.ServiceUnit} {
		if s := show(t, unit, "LoadState"); s != "not-found" {
			t.Errorf("%s is %s", unit, s)
		}
	}
	if out, err := run(from, "status"); err == nil || !strings.Contains(out, "no daemon answers") {
		t.Errorf("after the end: %v %s", err, out)
	}
}
