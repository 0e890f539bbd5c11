package chromium

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

func program(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	refused := func(path, says string) {
		t.Helper()
		got, err := Find(path)
		e, ok := errors.AsType[*core.Error](err)
		if !ok || e.Code != core.CodeUnavailable || !strings.Contains(e.Message, says) || !strings.Contains(e.Hint, "apt-get install chromium") {
			t.Errorf("Find(%q) = %q, %v", path, got, err)
		}
	}
	refused("", "no Chromium was found")
	refused("/nowhere/chromium", "no browser at /nowhere/chromium")

	// A snap by its place, a snap by Ubuntu's script, a flatpak by its script and place.
	snap := program(t, filepath.Join(dir, "snap", "bin", "chromium"), "ELF")
	refused(snap, "snap")
	program(t, filepath.Join(dir, "chromium-browser"), "#!/bin/sh\nexec /snap/bin/chromium \"$@\"\n")
	refused("", "snap")
	refused(program(t, filepath.Join(dir, "boxed"), "#!/bin/sh\nexec flatpak run org.chromium.Chromium\n"), "flatpak")
	if err := os.Symlink(program(t, filepath.Join(dir, "flatpak", "exports", "bin", "c"), "x"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	refused(filepath.Join(dir, "link"), "flatpak")

	// A snap in PATH does not hide a good one that comes later.
	good := program(t, filepath.Join(dir, "google-chrome"), "#!/bin/sh\nexec /opt/google/chrome\n")
	if got, err := Find(""); err != nil || got != good {
		t.Errorf("Find = %q, %v, want %q", got, err, good)
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"Chromium 156.0.8078.108 built on Debian GNU/Linux 12\n": {Name: "Chromium", Number: "156.0.8078.108", Major: 156},
		"Google Chrome 137.0.7151.55 \n":                         {Name: "Google Chrome", Number: "137.0.7151.55", Major: 137},
		"Google Chrome for Testing 140.0.1.2":                    {Name: "Google Chrome for Testing", Number: "140.0.1.2", Major: 140},
		"Brave Browser 141.1.2.3":                                {Name: "Brave Browser", Number: "141.1.2.3", Major: 141},
		"Microsoft Edge 99.0.1.1":                                {Name: "Microsoft Edge", Number: "99.0.1.1", Major: 99},
		"Stand-in 1.0":                                           {},
		"Chromium":                                               {},
		"Chromium next":                                          {Name: "Chromium", Number: "next"},
		"":                                                       {},
	} {
		want.Text = strings.TrimSpace(text)
		got := ParseVersion(text)
		if got != want {
			t.Errorf("%q: %+v", text, got)
		}
		if got.TooOld() != (got.Major == 99) || got.Branded() != (got.Major == 137 || got.Major == 141 || got.Major == 99) {
			t.Errorf("%q: too old %v, branded %v", text, got.TooOld(), got.Branded())
		}
		if ua := got.UserAgent(); (ua == "") == got.Known() || strings.Contains(ua, "Headless") {
			t.Errorf("%q: user agent %q", text, ua)
		}
	}
	if etc := ParseVersion("Google Chrome 137.0.0.1").Etc(); etc != "/etc/opt/chrome" {
		t.Errorf("policies below %q", etc)
	}
}

// TestVersionsAskOnce: a browser is asked once, by the next daemon not at all, and again
// when its program has changed.
func TestVersionsAskOnce(t *testing.T) {
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	browser := program(t, filepath.Join(dir, "browser"), "#!/bin/sh\necho x >>"+asked+"\necho Chromium 150.0.0.1\n")
	times := func() int { text, _ := os.ReadFile(asked); return len(text) / 2 }
	file := filepath.Join(dir, "cache", "browser.json")
	v := &Versions{File: file}
	for _, again := range []*Versions{v, v, {File: file}} {
		if got := again.Of(context.Background(), browser); got.Major != 150 {
			t.Errorf("version %+v", got)
		}
	}
	if times() != 1 {
		t.Errorf("asked %d times", times())
	}
	program(t, browser, "#!/bin/sh\necho x >>"+asked+"\necho Chromium 151.0.0.1 \n")
	if got := v.Of(context.Background(), browser); got.Major != 151 || times() != 2 {
		t.Errorf("after an update: %+v, asked %d times", got, times())
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := (&Versions{File: file}).Of(context.Background(), browser); got.Major != 151 {
		t.Errorf("with a broken file: %+v", got)
	}
	if got := v.Of(context.Background(), filepath.Join(dir, "none")); got != (Version{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestAPackerThatFailsIsReported(t *testing.T) {
	dir := t.TempDir()
	ext := filepath.Join(dir, "ext")
	if err := os.Mkdir(ext, 0o700); err != nil {
		t.Fatal(err)
	}
	for says, script := range map[string]string{
		"exit status 3": "#!/bin/sh\necho boom >&2\nexit 3\n",
		"no package":    "#!/bin/sh\nexit 0\n",
	} {
		browser := program(t, filepath.Join(dir, "browser"), script)
		err := Pack(context.Background(), browser, ext, "key", filepath.Join(dir, "out.crx"))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}
