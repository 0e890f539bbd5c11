package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sessiondock.dev/sessiondock/cli/demo"
)

// guest is a user with a home of their own, in which the real programs are installed.
type guest struct {
	*testing.T
	dir string // home and run lie in it
	bin string // what is installed from
	env []string
}

func newGuest(t *testing.T) *guest {
	t.Helper()
	home, in := demo.InHome()
	if !in {
		t.Fatal("not in a home")
	}
	dir, err := os.MkdirTemp("/tmp", "sd")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	g := &guest{T: t, dir: dir, bin: home.Bin()}
	for _, name := range []string{"home", "run"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(g.home(), "notes"), []byte("mine"), 0o644))
	g.env = []string{"HOME=" + g.home(), "XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	return g
}

func (g *guest) home() string { return filepath.Join(g.dir, "home") }

func (g *guest) installed(program string) string {
	return filepath.Join(g.home(), ".local", "bin", program)
}

// run runs a program and returns what it printed and its exit code.
func (g *guest) run(program string, args ...string) (stdout, stderr string, code int) {
	g.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.Context()), 2*time.Minute) // also at the test's end
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = g.env, g.home(), &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), errs.String(), exit.ExitCode()
	}
	must(g.T, err)
	return out.String(), errs.String(), 0
}

// ok wants the program to succeed.
func (g *guest) ok(program string, args ...string) string {
	g.Helper()
	out, errs, code := g.run(program, args...)
	if code != 0 {
		g.Fatalf("%s %v: exit code %d\n%s%s", filepath.Base(program), args, code, out, errs)
	}
	return out
}

// refuses wants the program to end with an error that says this, and names a fix.
func (g *guest) refuses(says string, args ...string) {
	g.Helper()
	out, errs, code := g.run(filepath.Join(g.bin, "sessiondock"), args...)
	if code == 0 || !strings.Contains(errs, says) || !strings.Contains(errs, "hint: ") {
		g.Errorf("%v: exit code %d, want %q\n%s%s", args, code, says, out, errs)
	}
}

// tree is every file of the home, with its mode and what it holds.
func (g *guest) tree() map[string]string {
	g.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(g.home(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		if info.Mode().IsRegular() {
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %d %x", len(body), body[:min(len(body), 64)])
		}
		rel, err := filepath.Rel(g.home(), path)
		all[rel] = text
		return err
	})
	must(g.T, err)
	return all
}

func (g *guest) same(what string, want map[string]string) {
	g.Helper()
	if d := cmp.Diff(want, g.tree()); d != "" {
		g.Errorf("%s, the home differs:\n%s", what, d)
	}
}

// TestInstallAndUninstall: a clean home, file by file, before and after.
func TestInstallAndUninstall(t *testing.T) {
	t.Parallel()
	g := newGuest(t)
	before := g.tree()
	from := filepath.Join(g.bin, "sessiondock")
	if out := g.ok(from, "install", "--dry-run"); !strings.Contains(out, "add      "+g.installed("sessiondockd")) {
		t.Errorf("the plan:\n%s", out)
	}
	g.same("after a dry run", before)

	g.ok(from, "install", "--browser", "chromium")
	now := g.tree()
	for _, path := range []string{
		".local/bin/sessiondock", ".local/bin/sessiondockd", ".local/bin/sessiondock-host",
		".config/systemd/user/sessiondock.socket", ".config/systemd/user/sessiondock.service", ".config/systemd/user/sockets.target.wants/sessiondock.socket",
		".config/chromium/NativeMessagingHosts/dev.sessiondock.host.json",
		".local/share/bash-completion/completions/sessiondock", ".local/share/zsh/site-functions/_sessiondock", ".local/share/fish/vendor_completions.d/sessiondock.fish",
		".local/share/man/man1/sessiondock.1", ".local/share/man/man1/sessiondock-slot-create.1", ".local/share/man/man1/sessiondockd.1",
		".local/share/sessiondock/extension/packed/1/sessiondock.crx", ".local/state/sessiondock/install.json",
	} {
		if now[path] == "" {
			t.Errorf("%s was not installed", path)
		}
	}
	if mode := now[".local/state/sessiondock/extension.pem"]; !strings.HasPrefix(mode, "-rw------- ") {
		t.Errorf("the extension's key: %q", mode)
	}
	page, err := os.ReadFile(filepath.Join(g.home(), ".local/share/man/man1/sessiondock-slot-create.1"))
	if err != nil || !strings.Contains(string(page), ".TH \"SESSIONDOCK-SLOT-CREATE\" \"1\"") {
		t.Errorf("the manual page: %v\n%.300s", err, page)
	}
	out, err := exec.Command("bash", "-c", `. "$1"; complete -p sessiondock`, "bash", filepath.Join(g.home(), ".local/share/bash-completion/completions/sessiondock")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "__start_sessiondock") {
		t.Errorf("completion in bash: %v: %s", err, out)
	}

	// The installed programs are a whole: doctor runs by itself and finds nothing dangling.
	text, _, code := g.run(g.installed("sessiondock"), "doctor", "--json")
	var report struct {
		SecurityReady bool `json:"security_ready"`
		Reasons       []string
		Checks        []struct {
			Name, Detail, Fix, Weight string
			OK                        bool
		}
	}
	must(t, json.Unmarshal([]byte(text), &report))
	if code != 0 && code != 3 || report.SecurityReady != (code == 0) {
		t.Errorf("doctor: exit code %d, security ready %v, %v", code, report.SecurityReady, report.Reasons)
	}
	for _, c := range report.Checks {
		if c.Weight == "needed" && !c.OK || c.Name == "installation" && !c.OK || !c.OK && c.Fix == "" {
			t.Errorf("doctor: %+v", c)
		}
	}

	g.ok(from, "install", "--browser", "chromium")
	again := g.tree()
	receipt := ".local/state/sessiondock/install.json"
	delete(now, receipt)
	delete(again, receipt)
	if d := cmp.Diff(now, again); d != "" {
		t.Errorf("a second installation changed:\n%s", d)
	}

	g.ok(g.installed("sessiondock"), "uninstall")
	g.same("after the end", before)
	if _, errs, code := g.run(from, "uninstall"); code != 0 || !strings.Contains(errs, "nothing was installed") {
		t.Errorf("a second end: %d %s", code, errs)
	}
}

// TestUpgradeWithARunningSlot: the browser goes on, the next daemon is the new one and
// adopts it, and neither it nor a login is lost by an uninstallation.
func TestUpgradeWithARunningSlot(t *testing.T) {
	t.Parallel()
	g := newGuest(t)
	g.ok(filepath.Join(g.bin, "sessiondock"), "install")
	sd := g.installed("sessiondock")
	g.ok(sd, "up", "--detach")
	// By the programs that stay, whatever has become of the installed ones.
	t.Cleanup(func() { g.run(filepath.Join(g.bin, "sessiondock"), "down") })
	g.ok(sd, "slot", "create", "shop")
	g.ok(sd, "slot", "start", "shop")
	t.Cleanup(func() { g.run(filepath.Join(g.bin, "sessiondock"), "slot", "stop", "shop") })
	launch := func() (generation int, state string) {
		var st struct {
			Local struct {
				Launch struct {
					Generation int
					State      string
				}
			}
		}
		must(t, json.Unmarshal([]byte(g.ok(sd, "status", "shop", "--json")), &st))
		return st.Local.Launch.Generation, st.Local.Launch.State
	}
	generation, _ := launch()

	// Another version: the same programs, with something at their end.
	next := filepath.Join(g.dir, "next")
	must(t, os.Mkdir(next, 0o700))
	for _, p := range []string{"sessiondock", "sessiondockd", "sessiondock-host"} {
		body, err := os.ReadFile(filepath.Join(g.bin, p))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(next, p), append(body, "next"...), 0o755))
	}
	if out := g.ok(filepath.Join(next, "sessiondock"), "install"); strings.Count(out, "replace ") != 3 {
		t.Errorf("an upgrade:\n%s", out)
	}
	if now, state := launch(); now != generation || state != "running" {
		t.Errorf("after the upgrade the browser is %s, launch %d", state, now)
	}
	g.ok(sd, "down")
	g.ok(sd, "up", "--detach")
	if now, state := launch(); now != generation || state != "running" {
		t.Errorf("the new daemon finds the browser %s, launch %d", state, now)
	}

	if _, errs, code := g.run(sd, "uninstall"); code == 0 || !strings.Contains(errs, "a browser runs in shop") {
		t.Errorf("an uninstallation under a running browser: %d %s", code, errs)
	}
	g.ok(sd, "slot", "stop", "shop")
	if _, errs, _ := g.run(filepath.Join(g.bin, "sessiondock"), "uninstall"); !strings.Contains(errs, "--purge removes them too") {
		t.Errorf("what stays is not said: %s", errs)
	}
	left := slices.Sorted(maps.Keys(g.tree()))
	for _, path := range []string{".local/share/sessiondock/slots/shop/profile/Default", ".local/state/sessiondock/sessiondock.db", ".local/state/sessiondock/extension.pem"} {
		if !slices.Contains(left, path) {
			t.Errorf("%s is gone", path)
		}
	}
	if slices.Contains(left, ".local/bin/sessiondock") || slices.Contains(left, ".local/share/man") {
		t.Errorf("left: %v", left)
	}
	g.ok(filepath.Join(g.bin, "sessiondock"), "uninstall", "--purge")
	for path := range g.tree() {
		if strings.Contains(path, "sessiondock") {
			t.Errorf("after --purge: %s", path)
		}
	}
}

// TestBadInputLeavesNothing: each is refused by name, with what to do, and the home is
// as it was.
func TestBadInputLeavesNothing(t *testing.T) {
	t.Parallel()
	variable := func(name, value string) func(*guest) {
		return func(g *guest) {
			g.env = slices.DeleteFunc(g.env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
			g.env = append(g.env, name+"="+value)
		}
	}
	for _, c := range []struct {
		name, says string
		prepare    func(*guest)
		args       []string
	}{
		{"a home that is read-only", "permission denied", func(g *guest) {
			must(g.T, os.Chmod(g.home(), 0o500))
			g.Cleanup(func() { os.Chmod(g.home(), 0o700) })
		}, nil},
		{"a part of it that is read-only", "permission denied", func(g *guest) {
			must(g.T, os.MkdirAll(filepath.Join(g.home(), ".local", "share"), 0o755))
			must(g.T, os.Chmod(filepath.Join(g.home(), ".local", "share"), 0o500))
			g.Cleanup(func() { os.Chmod(filepath.Join(g.home(), ".local", "share"), 0o700) })
		}, nil},
		{"a runtime path that is too long", "the kernel takes 107", variable("XDG_RUNTIME_DIR", "/tmp/"+strings.Repeat("long", 30)), nil},
		{"no home", "is an absolute path", variable("HOME", ""), nil},
		{"somebody's file", "was not installed by this program", func(g *guest) {
			must(g.T, os.MkdirAll(filepath.Join(g.home(), ".config", "systemd", "user"), 0o755))
			must(g.T, os.WriteFile(filepath.Join(g.home(), ".config", "systemd", "user", "sessiondock.socket"), []byte("mine"), 0o644))
		}, nil},
		{"a browser that is not there", "brave is not installed", nil, []string{"--browser", "brave"}},
		{"a browser that is not known", "no browser \"netscape\"", nil, []string{"--browser", "chromium", "--browser", "netscape"}},
		{"a snap", "snap", func(g *guest) {
			dir := filepath.Join(g.dir, "snapped")
			must(g.T, os.Mkdir(dir, 0o755))
			must(g.T, os.WriteFile(filepath.Join(dir, "chromium"), []byte("#!/bin/sh\nexec /snap/bin/chromium\n"), 0o755))
			variable("PATH", dir)(g)
		}, []string{"--browser", "chromium"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuest(t)
			if c.prepare != nil {
				c.prepare(g)
			}
			before := g.tree()
			g.refuses(c.says, append([]string{"install"}, c.args...)...)
			g.same("after the refusal", before)
		})
	}

	t.Run("programs that do not belong together", func(t *testing.T) {
		g := newGuest(t)
		before := g.tree()
		odd := filepath.Join(g.dir, "odd")
		must(t, os.Mkdir(odd, 0o700))
		for _, p := range []string{"sessiondock", "sessiondockd", "sessiondock-host"} {
			body, err := os.ReadFile(filepath.Join(g.bin, p))
			must(t, err)
			if p == "sessiondockd" {
				body = []byte("#!/bin/sh\nexit 7\n")
			}
			must(t, os.WriteFile(filepath.Join(odd, p), body, 0o755))
		}
		g.bin = odd
		if _, errs, code := g.run(filepath.Join(odd, "sessiondock"), "install"); code == 0 || !strings.Contains(errs, "sessiondockd does not work") {
			t.Errorf("exit code %d: %s", code, errs)
		}
		g.same("after the failure", before)
		must(t, os.Remove(filepath.Join(odd, "sessiondock-host")))
		g.refuses("must lie beside each other", "install")
	})

	t.Run("no browser at all", func(t *testing.T) {
		g := newGuest(t)
		before := g.tree()
		variable("PATH", g.bin)(g)
		_, errs, code := g.run(filepath.Join(g.bin, "sessiondock"), "install")
		if code != 0 || !strings.Contains(errs, "no Chromium was found") || !strings.Contains(errs, "apt-get install chromium") {
			t.Errorf("exit code %d: %s", code, errs)
		}
		if _, _, code := g.run(g.installed("sessiondock"), "doctor"); code != 1 {
			t.Errorf("doctor without a browser: exit code %d", code)
		}
		g.ok(g.installed("sessiondock"), "uninstall")
		g.same("after the end", before)
	})
}
