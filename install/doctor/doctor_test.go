package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/extension"
	"sessiondock.dev/sessiondock/manifests"
)

// patient is a machine in directories of its own.
type patient struct {
	*testing.T
	Machine
	dir string
	env map[string]string
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "doc") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &patient{T: t, dir: dir, env: map[string]string{"HOME": filepath.Join(dir, "home"), "XDG_RUNTIME_DIR": filepath.Join(dir, "run")}}
	for _, d := range []string{"home", "run", "bin", "path", "root"} {
		p.mkdir(d, 0o700)
	}
	t.Setenv("PATH", filepath.Join(dir, "path"))
	p.Machine = Machine{Getenv: func(k string) string { return p.env[k] }, Bin: filepath.Join(dir, "bin"), Root: filepath.Join(dir, "root")}
	p.Paths, p.PathErr = client.FindPaths(p.Getenv)
	return p
}

func (p *patient) mkdir(name string, mode fs.FileMode) string {
	p.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(path, mode); err != nil {
		p.Fatal(err)
	}
	return path
}

func (p *patient) write(path, text string, mode fs.FileMode) string {
	p.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.dir, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		p.Fatal(err)
	}
	return path
}

// look carries out one check.
func (p *patient) look(name string) Check {
	p.Helper()
	for _, c := range checks {
		if c.name == name {
			return c.look(context.Background(), p.Machine)
		}
	}
	p.Fatalf("there is no check %q", name)
	return Check{}
}

// ill wants a check to be not well, to say so, and to have a fix that says how.
func (p *patient) ill(name, says, fix string) {
	p.Helper()
	c := p.look(name)
	if c.OK || !strings.Contains(c.Detail, says) || !strings.Contains(c.Fix, fix) {
		p.Errorf("%s: want %q, mend %q; got %+v", name, says, fix, c)
	}
}

func (p *patient) well(name, says string) {
	p.Helper()
	if c := p.look(name); !c.OK || c.Fix != "" || !strings.Contains(c.Detail, says) {
		p.Errorf("%s: want it well and %q; got %+v", name, says, c)
	}
}

func TestBrowser(t *testing.T) {
	p := newPatient(t)
	p.ill("browser", "no Chromium was found", "apt-get install chromium")
	version := func(name, says string) {
		p.write("path/"+name, "#!/bin/sh\necho '"+says+"'\n", 0o755)
	}
	version("chromium", "Chromium 156.0.1.2")
	p.well("browser", "Chromium 156.0.1.2")
	version("chromium", "Chromium 99.0.1.2")
	p.ill("browser", "too old", "update it")
	version("chromium", "Netscape 4")
	p.ill("browser", "does not say that it is a Chromium", "--version")
	p.write("path/chromium", "#!/bin/sh\nexec /snap/bin/chromium\n", 0o755)
	p.ill("browser", "snap", "distribution's own package")
	p.write("path/chromium", "#!/bin/sh\nexec flatpak run org.chromium\n", 0o755)
	p.ill("browser", "flatpak", "distribution's own package")
	version("google-chrome", "Google Chrome 150.0.1.2")
	p.well("browser", "branded")
}

func TestPaths(t *testing.T) {
	p := newPatient(t)
	p.well("runtime-path", p.Paths.Runtime)
	p.env["XDG_RUNTIME_DIR"] = "/tmp/" + strings.Repeat("long", 30)
	p.Paths, p.PathErr = client.FindPaths(p.Getenv)
	p.ill("runtime-path", "the kernel takes 107", "shorter directory")
	// Whatever needs paths says so instead of failing in its own way.
	r := Look(context.Background(), p.Machine)
	if r.Works || len(r.Checks) != len(checks) {
		t.Errorf("%+v", r)
	}
	for _, c := range r.Checks {
		if c.Detail == "" || (!c.OK && c.Fix == "") {
			t.Errorf("%s says nothing: %+v", c.Name, c)
		}
	}
}

func TestSystem(t *testing.T) {
	p := newPatient(t)
	p.write("root/proc/sys/user/max_user_namespaces", "0\n", 0o644)
	p.ill("user-namespaces", "max_user_namespaces is 0", "sysctl user.max_user_namespaces")
	p.write("root/proc/sys/user/max_user_namespaces", "100\n", 0o644)
	p.write("root/proc/sys/kernel/unprivileged_userns_clone", "0\n", 0o644)
	p.ill("user-namespaces", "userns_clone is 0", "unprivileged_userns_clone=1")

	p.ill("control-groups", "no control groups", "mount")
	p.mkdir("root/sys/fs/cgroup/memory", 0o755)
	p.ill("control-groups", "version 1", "unified_cgroup_hierarchy")
	p.write("root/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n", 0o644)
	p.ill("control-groups", "no control group of its own", "enable-linger")
	own := fmt.Sprintf("root/sys/fs/cgroup/user.slice/user-%[1]d.slice/user@%[1]d.service/cgroup.controllers", os.Getuid())
	p.write(own, "pids\n", 0o644)
	p.ill("control-groups", "memory is not delegated", "Delegate=")
	p.write(own, "memory pids\n", 0o644)
	p.well("control-groups", "memory pids")

	p.ill("user-manager", "no systemd", "systemd")
	p.write("path/systemctl", "#!/bin/sh\necho Failed to connect to bus >&2\nexit 1\n", 0o755)
	p.ill("user-manager", "Failed to connect to bus", "enable-linger")
	p.write("path/systemctl", "#!/bin/sh\necho 252\n", 0o755)
	p.ill("user-manager", "no bus", "dbus-user-session")
	p.env["DBUS_SESSION_BUS_ADDRESS"] = "unix:path=/x"
	p.well("user-manager", "containment is full")

	p.ill("linger", "end when", "enable-linger")
	p.write("root/var/lib/systemd/linger/"+userName(), "", 0o644)
	p.well("linger", "after a logout")

	p.ill("desktop", "no display", "desktop session")
	p.env["DISPLAY"] = ":7"
	p.well("desktop", ":7")
	p.ill("private-display", "weston and Xvnc", "apt-get install")
	p.write("path/weston", "", 0o755)
	p.write("path/Xvnc", "", 0o755)
	p.well("private-display", "there")
	p.well("clock", "boot")
	p.well("peer-identity", "kernel")
	p.well("disk", "MB free")
}

// TestPolicy: what the daemon's program tried is passed on, with the fix of what failed.
func TestPolicy(t *testing.T) {
	p := newPatient(t)
	p.ill("policy", "does not say", "see programs")
	say := func(trials string) { p.write("bin/sessiondockd", "#!/bin/sh\necho '"+trials+"'\n", 0o755) }
	say(`[{"way":"policy"}]`)
	p.well("policy", "nobody can switch the extension off")
	say(`[{"way":"policy","why":"no namespaces","fix":"sysctl x=1"},{"way":"external"}]`)
	p.ill("policy", "no namespaces", "sysctl x=1")
	p.ill("policy", core.Unprotected("external"), "")
	say(`[{"way":"policy","why":"a"},{"way":"external","why":"b"},{"way":"load","why":"c","fix":"d"}]`)
	p.ill("policy", "cannot be put into the browser: c", "d")
}

func (p *patient) newKey() extension.Key {
	p.Helper()
	key, err := extension.OpenKey(p.Paths.ExtensionKey())
	if err != nil {
		p.Fatal(err)
	}
	return key
}

func TestManifests(t *testing.T) {
	p := newPatient(t)
	p.well("extension-key", "not made yet")
	key := p.newKey()
	p.well("extension-key", key.ID)
	if err := os.Chmod(key.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	p.ill("extension-key", "open to others", "chmod 600")
	if err := os.Chmod(key.Path, 0o600); err != nil {
		t.Fatal(err)
	}

	p.well("manifests", "0")
	host := p.write("bin/sessiondock-host", "", 0o755)
	slot := filepath.Join(p.Paths.Data, "slots", "shop", "profile", "NativeMessagingHosts", manifests.HostName+".json")
	own := filepath.Join(p.env["HOME"], ".config", "google-chrome", "NativeMessagingHosts", manifests.HostName+".json")
	for path, fix := range map[string]string{slot: "stop and start", own: "install --browser"} {
		p.write(path, string(manifests.NativeHost(host, key.ID)), 0o600)
		p.well("manifests", "1")
		p.write(path, string(manifests.NativeHost(host+"-gone", key.ID)), 0o600)
		p.ill("manifests", "dangling", fix)
		p.write(path, string(manifests.NativeHost(host, strings.Repeat("a", 32))), 0o600)
		p.ill("manifests", "another extension", fix)
		p.write(path, `{"path":"sessiondock-host"}`, 0o600)
		p.ill("manifests", "no full path", fix)
		p.write(path, "{", 0o600)
		p.ill("manifests", "not a manifest", fix)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// answer lets something answer at control.sock.
func (p *patient) answer(h http.HandlerFunc) {
	p.Helper()
	if err := p.Paths.CheckRuntime(); err != nil {
		p.Fatal(err)
	}
	l, err := net.Listen("unix", p.Paths.ControlSocket())
	if err != nil {
		p.Fatal(err)
	}
	if err := os.Chmod(p.Paths.ControlSocket(), 0o600); err != nil {
		p.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(l)
	p.Cleanup(func() { srv.Close() })
}

func TestSocketsAndDaemon(t *testing.T) {
	p := newPatient(t)
	p.well("sockets", "none yet")
	p.well("daemon", "not running")
	key := p.newKey()
	now := client.Health{OK: true, Version: wire.Version, PID: os.Getpid(), Extension: key.ID}
	p.answer(func(w http.ResponseWriter, r *http.Request) { json.NewEncoder(w).Encode(now) })
	p.well("sockets", "1")
	p.well("daemon", "running")
	p.well("debugging", "no debugging switch")

	now.Database, now.Hint = "the database is corrupt", "move it aside"
	p.ill("daemon", "the database is corrupt", "move it aside")
	now.Database = ""
	now.Extension = strings.Repeat("a", 32)
	p.ill("daemon", "another installation's", "XDG variables")
	now.Extension, now.Version = key.ID, wire.Version+1
	p.ill("daemon", "speaks version", "sessiondock down")

	// A daemon with a debugging switch: any process with that argument stands in.
	debug := exec.Command("/proc/self/exe", "-test.run=^TestStandsIn$", "--", "--debug=pipe")
	debug.Env = append(os.Environ(), "DOCTOR_STANDS_IN=1")
	in, err := debug.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := debug.Start(); err != nil {
		t.Fatal(err)
	}
	defer debug.Wait()
	defer in.Close()
	now.Version, now.PID = wire.Version, debug.Process.Pid
	p.ill("debugging", "way round the fence", "without --debug")

	if err := os.Chmod(p.Paths.ControlSocket(), 0o666); err != nil {
		t.Fatal(err)
	}
	p.ill("sockets", "0666", "chmod 600")
	if err := os.Chmod(p.Paths.Runtime, 0o755); err != nil {
		t.Fatal(err)
	}
	p.ill("sockets", "0755", "chmod 700")
}

// TestStandsIn is a process for TestSocketsAndDaemon; alone it does nothing.
func TestStandsIn(t *testing.T) {
	if os.Getenv("DOCTOR_STANDS_IN") != "" {
		os.Stdin.Read(make([]byte, 1))
	}
}

func TestAStrangerAnswers(t *testing.T) {
	p := newPatient(t)
	p.newKey()
	p.answer(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	p.ill("daemon", "not by a daemon of ours", "stop what listens")
}

func TestSomethingElseAtASocketsPlace(t *testing.T) {
	p := newPatient(t)
	if err := p.Paths.CheckRuntime(); err != nil {
		t.Fatal(err)
	}
	p.write(p.Paths.HostSocket(), "", 0o600)
	p.ill("sockets", "not a socket", "move it away")
	if err := os.RemoveAll(p.Paths.Runtime); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/tmp", p.Paths.Runtime); err != nil {
		t.Fatal(err)
	}
	p.ill("sockets", "not a directory", "remove it")
}

func TestProfiles(t *testing.T) {
	p := newPatient(t)
	p.well("profiles", "0 slots")
	profile := filepath.Join(p.Paths.Data, "slots", "shop", "profile")
	if err := os.MkdirAll(profile, 0o700); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(profile, "SingletonLock")
	locked := func(by string) {
		t.Helper()
		if err := os.Remove(lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.Symlink(by, lock); err != nil {
			t.Fatal(err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	locked("elsewhere-17")
	p.ill("profiles", "another host, elsewhere", "rm "+lock)
	if id, err := os.ReadFile("/etc/machine-id"); err == nil && len(id) > 0 {
		// This machine's own former name is no other host.
		text, _ := json.Marshal(map[string]any{"machine_id": strings.TrimSpace(string(id)), "hostnames": []string{"elsewhere"}})
		p.write(filepath.Join(filepath.Dir(profile), "machine.json"), string(text), 0o600)
		p.well("profiles", "1 slots")
	}
	locked(fmt.Sprintf("%s-%d", host, os.Getpid())) // a number used again: we are no browser
	p.well("profiles", "1 slots")
	browser := exec.Command("sh", "-c", "read x", "sh", "--user-data-dir="+profile)
	browser.Path = "/bin/sh"
	in, err := browser.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	browser.Err = nil // sh is not in this PATH
	if err := browser.Start(); err != nil {
		t.Fatal(err)
	}
	defer browser.Wait()
	defer in.Close()
	locked(fmt.Sprintf("%s-%d", host, browser.Process.Pid))
	p.ill("profiles", "not the slot's own", "close that browser")

	p.write(filepath.Join(profile, "DevToolsActivePort"), "9222", 0o600)
	p.ill("debugging", "debugging port", "slot stop and start")
}

func TestPrograms(t *testing.T) {
	p := newPatient(t)
	for _, name := range []string{"sessiondock", "sessiondockd", "sessiondock-host"} {
		p.ill("programs", name, "sessiondock install")
		p.write("bin/"+name, "", 0o755)
	}
	p.well("programs", "all three")
	p.ill("installation", "not installed", "sessiondock install")
}

// TestTheVerdict: what is needed and what only a promise hangs on are told apart, and
// every reason is given.
func TestTheVerdict(t *testing.T) {
	p := newPatient(t)
	r := Look(context.Background(), p.Machine)
	if r.Works || r.SecurityReady {
		t.Errorf("without a browser: %+v", r)
	}
	want := 0
	for _, c := range r.Checks {
		if !c.OK && c.Weight != Advice {
			want++
		}
	}
	if len(r.Reasons) != want {
		t.Errorf("%d reasons for %d checks", len(r.Reasons), want)
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"security_ready":false`) || !strings.Contains(string(text), `"name":"browser","ok":false,"detail":"`) {
		t.Errorf("%s, %v", text, err)
	}
}
