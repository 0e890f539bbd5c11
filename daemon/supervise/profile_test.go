package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

func TestFlags(t *testing.T) {
	p := Dirs{"/d", "/r", "/s", "/c"}.places("shop")
	load := packaged{way: ByLoad, flags: []string{"--load-extension=/e", "--disable-background-networking"}}
	version := chromium.ParseVersion("Chromium 156.1.2.3")
	t.Setenv("DISPLAY", ":9")
	all, err := flags(p, load, version, Spec{Display: "window", StartURLs: []string{"https://a.test/?q=--x"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--user-data-dir=/d/slots/shop/profile", "--load-extension=/e", "--password-store=basic",
		"--silent-debugger-extension-api", "--no-first-run", "--disable-quic", "--disable-background-networking"} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if slices.Contains(all, "--headless") || strings.Contains(strings.Join(all, " "), "--user-agent") || all[len(all)-1] != "https://a.test/?q=--x" {
		t.Errorf("got %v", all)
	}
	for _, f := range all {
		if strings.Contains(f, "sandbox") || strings.Contains(f, "remote-debugging") || strings.Contains(f, "enable-automation") {
			t.Errorf("%s must never be given", f)
		}
	}
	if all, _ := flags(p, load, version, Spec{Display: "headless"}); !slices.Contains(all, "--headless") || all[len(all)-1] != "about:blank" {
		t.Errorf("headless and new: %v", all)
	}
	if all, _ := flags(p, load, version, Spec{}); !slices.ContainsFunc(all, func(f string) bool {
		return strings.HasPrefix(f, "--user-agent=") && strings.Contains(f, "Chrome/156.0.0.0") && !strings.Contains(f, "Headless")
	}) {
		t.Errorf("without a window the browser says so: %v", all)
	}
	for debug, want := range map[string]string{"pipe": "--remote-debugging-pipe", "port": "--remote-debugging-port=0"} {
		if all, _ := flags(p, load, version, Spec{Debug: debug}); !slices.Contains(all, want) {
			t.Errorf("%s: %v", debug, all)
		}
	}
	for _, bad := range []Spec{
		{StartURLs: []string{"--no-sandbox"}}, {StartURLs: []string{"file:///etc/passwd"}}, {StartURLs: []string{"chrome://settings"}},
		{StartURLs: []string{""}}, {Display: "private"}, {Debug: "socket"},
	} {
		if _, err := flags(p, load, version, bad); err == nil || err.Code != core.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	if _, err := flags(p, load, version, Spec{Display: "window"}); err == nil || err.Code != core.CodeUnavailable {
		t.Errorf("a window without a display: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	p := places{temp: "/c/tmp/x", logs: "/s/x"}
	base := []string{"HOME=/h", "DISPLAY=:1", "LANG=C", "NOTIFY_SOCKET=/n", "LISTEN_FDS=2", "SESSIONDOCK_CAPABILITY=c",
		"CHROMIUM_FLAGS=--no-sandbox", "TMPDIR=/tmp", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1/bus"}
	got := environment(base, p, "/r/host.sock", Spec{Slot: "shop", Launch: "L", Secret: "s"})
	want := []string{"HOME=/h", "DISPLAY=:1", "LANG=C", "SESSIONDOCK_SLOT=shop", "SESSIONDOCK_LAUNCH=L",
		"SESSIONDOCK_SECRET=s", "SESSIONDOCK_HOST_SOCKET=/r/host.sock", "TMPDIR=/c/tmp/x", "DBUS_SESSION_BUS_ADDRESS=disabled:",
		"BREAKPAD_DUMP_LOCATION=/s/x/crashes"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Every slot name there may be must leave room for the browser's socket under
// the usual directories.
func TestTemporaryDirectoryFits(t *testing.T) {
	name := core.SlotName(strings.Repeat("n", 63))
	d := Dirs{RunDir: "/run/user/1000/sessiondock", CacheDir: "/home/somebody/.cache/sessiondock"}
	if p := d.places(name); len(p.temp) > maxTempDir || !strings.HasPrefix(p.temp, d.CacheDir) {
		t.Errorf("%s", p.temp)
	}
	d.CacheDir = "/" + strings.Repeat("c", 80)
	if p := d.places(name); len(p.temp) > maxTempDir || !strings.HasPrefix(p.temp, d.RunDir) {
		t.Errorf("%s", p.temp)
	}
}

func TestExitedCleanly(t *testing.T) {
	const crashed = `{"big":12345678901234567890,"profile":{"exit_type":"Crashed","exited_cleanly":false,"n":1.50}}`
	out, ok := exitedCleanly([]byte(crashed))
	if !ok {
		t.Fatal("nothing was changed")
	}
	if want := `{"big":12345678901234567890,"profile":{"exit_type":"Normal","exited_cleanly":true,"n":1.50}}`; string(out) != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
	for _, same := range []string{string(out), `{"profile":{"exit_type":"Normal"}}`, `{}`, `[]`, `{"profile":1}`, `{`, ``} {
		if out, ok := exitedCleanly([]byte(same)); ok {
			t.Errorf("%s was changed to %s", same, out)
		}
	}
}

func TestPreferencesOfANewProfile(t *testing.T) {
	profile := t.TempDir()
	if err := preparePreferences(profile, "/down"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(profile, "Default", "Preferences"))
	if err != nil || !json.Valid(text) || !strings.Contains(string(text), `"/down"`) {
		t.Errorf("%s %v", text, err)
	}
}

func TestHostnames(t *testing.T) {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil || len(id) == 0 {
		t.Skip("NOT RUN: this machine has no /etc/machine-id")
	}
	file := filepath.Join(t.TempDir(), "machine.json")
	now, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	write := func(machineID string) {
		text, _ := json.Marshal(machine{ID: machineID, Hostname: []string{"former"}})
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.TrimSpace(string(id)))
	if got, err := hostnames(file); err != nil || !slices.Equal(got, []string{"former", now}) {
		t.Errorf("a former name of this machine: %v %v", got, err)
	}
	write("another machine's")
	if got, err := hostnames(file); err != nil || !slices.Equal(got, []string{now}) {
		t.Errorf("a name of another machine: %v %v", got, err)
	}
}

func TestClearLock(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	// The path is short: this test's own processes must not name it.
	profile, err := os.MkdirTemp("/tmp", "sdprof")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(profile) })
	lock := filepath.Join(profile, "SingletonLock")
	point := func(to string) {
		os.Remove(lock)
		if err := os.Symlink(to, lock); err != nil {
			t.Fatal(err)
		}
	}
	s := scope{launch: "new", profile: profile, hostnames: []string{host, "former"}}
	for _, dead := range []string{
		host + "-999999999",
		fmt.Sprintf("%s-%d", host, os.Getpid()), // a PID used again: we are no browser of this profile
		"former-999999999",
	} {
		point(dead)
		if err := clearLock(s); err != nil {
			t.Errorf("%s: %v", dead, err)
		}
		if _, err := os.Lstat(lock); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: not removed", dead)
		}
	}
	point("elsewhere-1")
	mustCode(t, clearLock(s), core.CodeConflict)
	if _, _, locked := readLock(profile); !locked {
		t.Error("the lock of another host was removed")
	}
}

func TestPrepareExtension(t *testing.T) {
	root := filepath.Join(t.TempDir(), "extension")
	writes := 0
	write := func(dir string) error {
		writes++
		return os.WriteFile(filepath.Join(dir, "manifest.json"), []byte("{}"), 0o600)
	}
	if _, err := prepareExtension(root, "b1", func(string) error { return errors.New("disk full") }); err == nil {
		t.Error("a failed write is an error")
	}
	for range 2 {
		if dir, err := prepareExtension(root, "b1", write); err != nil || dir != filepath.Join(root, "b1") {
			t.Errorf("%s %v", dir, err)
		}
	}
	if writes != 1 {
		t.Errorf("written %d times", writes)
	}
	for _, bad := range []string{"", "..", "a/b"} {
		if _, err := prepareExtension(root, bad, write); err == nil {
			t.Errorf("build %q", bad)
		}
	}
	if entries, _ := os.ReadDir(root); len(entries) != 1 {
		t.Errorf("left in the directory: %v", entries)
	}
}

func TestMentions(t *testing.T) {
	for args, want := range map[string]bool{
		"x\x00--user-data-dir=/d/profile\x00": true, "/d/profile/Default": true, "/d/profile": true,
		"/d/profile2\x00": false, "/d/profile2 /d/profile": true, "": false,
	} {
		if mentions([]byte(args), "/d/profile") != want {
			t.Errorf("%q: not %v", args, want)
		}
	}
}

// A process that hides is held against a launch unless what made it is known.
func TestAccounted(t *testing.T) {
	at := func(pid, ppid int, comm string, mine, hidden bool, why string) *sight {
		return &sight{Proc: peer.Proc{PID: pid, PPID: ppid, Comm: comm}, mine: mine, hidden: hidden, why: why}
	}
	table := map[int]*sight{}
	for _, p := range []*sight{
		at(1, 0, "init", false, false, ""),
		at(10, 1, "systemd", true, false, ""),
		at(20, 10, "bash", true, false, ""),
		at(21, 20, "ssh-agent", true, true, ""),
		at(22, 21, "child", true, true, ""),
		at(30, 1, "sshd", false, false, ""),
		at(31, 30, "sshd", true, true, ""),
		at(40, 10, "keyring", true, true, ""),
		at(50, 1, "orphan", true, true, ""),
		at(60, 20, "user", true, false, "its cwd is in the profile"),
		at(61, 60, "hidden", true, true, ""),
	} {
		table[p.PID] = p
	}
	for pid, want := range map[int]bool{21: true, 22: true, 31: true, 40: false, 50: false, 61: false} {
		if accounted(table[pid], table, map[int]bool{1: true}) != want {
			t.Errorf("%s: not %v", table[pid].Comm, want)
		}
	}
}
