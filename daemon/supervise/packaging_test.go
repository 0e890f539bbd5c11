package supervise

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/core"
)

// debian is a browser whose policies lie below /etc/chromium.
func debian() chromium.Version { return chromium.ParseVersion("Chromium 156.0.1.2") }

func TestTrials(t *testing.T) {
	f := setup(t, "")
	ways := func(all []Trial) string {
		var b strings.Builder
		for _, t := range all {
			b.WriteString(string(t.Way))
			if t.Why != "" {
				b.WriteString("-")
			}
			b.WriteString(" ")
		}
		return strings.TrimSpace(b.String())
	}
	// Without a package only loading is left, and a branded browser does not load.
	if got := ways(f.cfg.Trials(f.ctx(), debian())); got != "policy- external- load" {
		t.Errorf("without a package: %s", got)
	}
	if got := ways(f.cfg.Trials(f.ctx(), chromium.ParseVersion("Google Chrome 150.0.0.1"))); got != "policy- external- load-" {
		t.Errorf("of a branded browser: %s", got)
	}
	f.cfg.Package = func(context.Context, string) (Package, error) { return Package{}, nil }
	if got := ways(f.cfg.Trials(f.ctx(), chromium.ParseVersion("Stand-in 1.0"))); got != "policy- external" {
		t.Errorf("of an unknown browser: %s", got)
	}
	// Where user namespaces are forbidden it says so, and how to allow them.
	f.cfg.KeeperBinary = "/bin/false"
	all := f.cfg.Trials(f.ctx(), debian())
	if _, err := os.Stat("/etc/chromium"); err == nil && (ways(all) != "policy- external" || !strings.Contains(all[0].Fix, "user namespaces")) {
		t.Errorf("without user namespaces: %+v", all)
	}
	d := New(f.cfg)
	for debug, want := range map[string]Packaging{"": ByExternal, "pipe": ByLoad} {
		if got, err := d.packaging(f.ctx(), debian(), Spec{Debug: debug}); err != nil || got != want {
			t.Errorf("debug %q: %s, %v", debug, got, err)
		}
	}
	f.cfg.Packaging = ByPolicy // what was asked for is not exchanged for less
	if _, err := New(f.cfg).packaging(f.ctx(), debian(), Spec{}); err == nil {
		t.Error("a policy where none can be bound")
	}
}

// TestASlowTrialIsTriedAgain: what a busy machine could not find out is not remembered,
// and nothing else of the supervisor waits for it.
func TestASlowTrialIsTriedAgain(t *testing.T) {
	if _, err := os.Stat("/etc/chromium"); err != nil {
		t.Skip("NOT RUN: this machine has no /etc/chromium")
	}
	f := setup(t, "")
	f.cfg.Package = func(context.Context, string) (Package, error) { return Package{}, nil }
	works := overlay{From: "/etc/chromium", To: "/etc/chromium"}.try(f.ctx(), f.cfg.KeeperBinary)
	if works != nil {
		t.Skipf("NOT RUN: %v", works)
	}
	d := New(f.cfg)
	short, cancel := context.WithCancel(f.ctx())
	cancel() // as if its time were over
	if got, err := d.packaging(short, debian(), Spec{}); err != nil || got != ByExternal {
		t.Errorf("for the launch that could not wait: %s, %v", got, err)
	}
	if got, err := d.packaging(f.ctx(), debian(), Spec{}); err != nil || got != ByPolicy {
		t.Errorf("for the next: %s, %v", got, err)
	}
	f.cfg.KeeperBinary = filepath.Join(f.dir, "slow")
	if err := os.WriteFile(f.cfg.KeeperBinary, []byte("#!/bin/sh\nexec sleep 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	d = New(f.cfg)
	over := make(chan error, 1)
	go func() { _, err := d.packaging(f.ctx(), debian(), Spec{}); over <- err }()
	eventually(t, "the trial", func() bool {
		if d.trying.TryLock() {
			d.trying.Unlock()
			return false
		}
		return true
	})
	d.forget("L")
	select {
	case err := <-over:
		t.Errorf("a stop waited for the trial: %v", err)
	default:
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// TestEnter: a program sees the overlay and runs as the same user without any
// capability, and its neighbours see nothing of it.
func TestEnter(t *testing.T) {
	if _, err := os.Stat("/etc/chromium"); err != nil {
		t.Skip("NOT RUN: this machine has no /etc/chromium")
	}
	f := setup(t, `grep -h . /etc/chromium/* /proc/self/status >"$P/saw" 2>&1; id -u >>"$P/saw"
touch /etc/chromium/new 2>>"$P/saw"; sleep 60`)
	f.cfg.Package = func(context.Context, string) (Package, error) { return Package{}, nil }
	p := f.places()
	if err := writeEtc(p.etc, "/etc/chromium", []byte(`{"of":"this slot"}`)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.etc, "mark"), []byte("the slot's own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := overlay{From: p.etc, To: "/etc/chromium"}
	if err := o.try(f.ctx(), f.cfg.KeeperBinary); err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	launch := f.spec()
	spec, err := f.d.prepare(launch)
	if err != nil {
		t.Fatal(err)
	}
	spec.Over = &o
	id, err := f.d.startKeeper(f.ctx(), launch, spec, fork)
	if err != nil {
		t.Fatal(err)
	}
	l := core.Launch{ID: launch.Launch, Identity: id}
	var saw string
	eventually(t, "what the browser saw", func() bool {
		text, _ := os.ReadFile(filepath.Join(p.profile, "saw"))
		saw = string(text)
		return strings.Contains(saw, "cannot touch")
	})
	for _, want := range []string{"the slot's own", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "Read-only file system"} {
		if !strings.Contains(saw, want) {
			t.Errorf("%q is missing in what the browser saw:\n%s", want, saw)
		}
	}
	if _, err := os.Stat("/etc/chromium/mark"); err == nil {
		t.Error("the overlay is seen outside")
	}
	f.mustEnd(f.d.Stop(f.ctx(), f.slot, l, StopNow))
}

func TestSlotsPolicyStandsBesideTheMachines(t *testing.T) {
	machine, etc := t.TempDir(), filepath.Join(t.TempDir(), "etc")
	for name, text := range map[string]string{
		"policies/managed/firm.json": `{"a":1}`, "policies/recommended/firm.json": `{"b":1}`, "master_preferences": "{}",
	} {
		path := filepath.Join(machine, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(machine, "master_preferences"), filepath.Join(machine, "initial_preferences")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time over the first, from which a file has gone
		if err := writeEtc(etc, machine, []byte(`{"ours":1}`)); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"policies/managed/firm.json": `{"a":1}`, "initial_preferences": "{}", "policies/managed/" + policyFile: `{"ours":1}`,
		} {
			if text, err := os.ReadFile(filepath.Join(etc, name)); err != nil || string(text) != want {
				t.Errorf("%s: %s, %v", name, text, err)
			}
		}
		if err := os.Remove(filepath.Join(machine, "policies/recommended/firm.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(etc, "policies/recommended/firm.json")); err == nil {
		t.Error("a policy that the machine no longer has is still there")
	}
	if err := os.Truncate(filepath.Join(machine, "master_preferences"), maxEtcFile+1); err != nil {
		t.Fatal(err)
	}
	if err := writeEtc(etc, machine, nil); err == nil {
		t.Error("a file above the bound was copied")
	}
}

// TestWhatIsInstalled: what the preferences say is believed only with the files there,
// and forgetting leaves everything else as it is.
// TestAnotherBuildForgetsTheWorkers, and the same one does not.
func TestAnotherBuildForgetsTheWorkers(t *testing.T) {
	f := setup(t, polite)
	p := f.places()
	at := func(name string) string { return filepath.Join(p.profile, "Default", "Service Worker", name) }
	for _, build := range []string{"b1", "b2"} {
		f.d.cfg.ExtensionBuild = build
		for again := range 2 {
			for _, name := range append([]string{"CacheStorage"}, workers...) {
				if err := os.MkdirAll(at(name), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.d.renewWorker(p); err != nil {
				t.Fatal(err)
			}
			if gone := !exists(at("Database")) && !exists(at("ScriptCache")); gone != (again == 0) || !exists(at("CacheStorage")) {
				t.Errorf("build %s, start %d: gone %v", build, again+1, gone)
			}
		}
	}
}

func TestWhatIsInstalled(t *testing.T) {
	profile, id := t.TempDir(), strings.Repeat("a", 32)
	path := filepath.Join(profile, "Default", "Preferences")
	files := filepath.Join(profile, "Default", "Extensions", id, "1.0.0.2_0")
	if err := os.MkdirAll(files, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(reasons string) {
		t.Helper()
		text := `{"big":12345678901234567890,"extensions":{"settings":{"` + id + `":{"path":"` + id + `/1.0.0.2_0","disable_reasons":` + reasons + `},"other":{"n":1.50}}}}`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[]")
	i, ok := readInstalled(profile, id)
	if !ok || i.is(profile, "1.0.0.2") || i.disabled() {
		t.Errorf("without its files: %+v", i)
	}
	if err := os.WriteFile(filepath.Join(files, "manifest.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]bool{"1.0.0.2": true, "1.0.0.20": false, "1.0.0.1": false, "1.0.0": false} {
		if i.is(profile, version) != want {
			t.Errorf("%s: not %v", version, want)
		}
	}
	for reasons, want := range map[string]bool{"[]": false, "0": false, "[1]": true, "1": true} {
		write(reasons)
		if i, _ := readInstalled(profile, id); i.disabled() != want {
			t.Errorf("disable_reasons %s: not %v", reasons, want)
		}
	}
	if err := forget(profile, id); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if want := `{"big":12345678901234567890,"extensions":{"settings":{"other":{"n":1.50}}}}`; err != nil || string(text) != want {
		t.Errorf("after forgetting: %s, %v", text, err)
	}
	if _, err := os.Stat(files); err == nil {
		t.Error("its files are still there")
	}
	for _, odd := range []string{"", "[]", "{}", `{"extensions":1}`, `{"extensions":{"settings":{}}}`} {
		if err := os.WriteFile(path, []byte(odd), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := forget(profile, id); err != nil {
			t.Errorf("%s: %v", odd, err)
		}
		if text, _ := os.ReadFile(path); string(text) != odd {
			t.Errorf("%s became %s", odd, text)
		}
	}
}
