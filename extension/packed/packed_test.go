package packed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sessiondock.dev/sessiondock/extension"
)

// packer stands in for Chromium's, which e2e runs: it writes down what it was given.
const packer = `#!/bin/sh
for a in "$@"; do case $a in
--pack-extension=*) dir=${a#*=};;
--pack-extension-key=*) key=${a#*=};;
esac; done
[ -s "$key" ] && cp "$dir/manifest.json" "$dir.crx"
`

func open(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	browser := filepath.Join(dir, "browser")
	if err := os.WriteFile(browser, []byte(packer), 0o755); err != nil {
		t.Fatal(err)
	}
	key, err := extension.OpenKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return &Store{Dir: filepath.Join(dir, "data", "packed"), Key: key}, browser
}

func TestPackagesAreMadeOnceAndNeverChange(t *testing.T) {
	s, browser := open(t)
	ctx := context.Background()
	first, err := s.Package(ctx, browser)
	if err != nil {
		t.Fatal(err)
	}
	if first.ID != s.Key.ID || first.Version != extension.Version(1) || first.CRX != filepath.Join(s.Dir, "1", crxFile) {
		t.Errorf("%+v", first)
	}
	for file, want := range map[string]string{first.CRX: `"1.0.0.1"`, first.Update: first.CRX} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v", file, text, err)
		}
	}
	again, err := (&Store{Dir: s.Dir, Key: s.Key}).Package(ctx, "/nowhere/browser")
	if err != nil || again != first {
		t.Errorf("again: %+v, %v", again, err)
	}

	// Another build that is there already, or another key, or a package of which a part
	// is missing: the next number.
	for n, spoil := range []func(dir string) error{
		func(dir string) error {
			text := fmt.Sprintf(`{"id":%q,"build":"another","version":"1.0.0.1"}`, s.Key.ID)
			return os.WriteFile(filepath.Join(dir, aboutFile), []byte(text), 0o600)
		},
		func(dir string) error {
			text := fmt.Sprintf(`{"id":"another","build":%q,"version":"1.0.0.2"}`, extension.Build())
			return os.WriteFile(filepath.Join(dir, aboutFile), []byte(text), 0o600)
		},
		func(dir string) error { return os.Truncate(filepath.Join(dir, crxFile), 0) },
		func(dir string) error { return os.Remove(filepath.Join(dir, aboutFile)) },
	} {
		if err := spoil(s.path(n+1, "")); err != nil {
			t.Fatal(err)
		}
		p, err := s.Package(ctx, browser)
		if err != nil || p.Version != extension.Version(n+2) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil || len(entries) != keep {
		t.Errorf("kept: %v, %v", entries, err)
	}
}

func TestPackersAtTheSameTimeAgree(t *testing.T) {
	s, browser := open(t)
	var group sync.WaitGroup
	got := make([]Package, 4)
	for i := range got {
		group.Go(func() {
			var err error
			if got[i], err = (&Store{Dir: s.Dir, Key: s.Key}).Package(context.Background(), browser); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, p := range got {
		if p != got[0] {
			t.Errorf("%+v and %+v", p, got[0])
		}
	}
}

func TestAFailedPackingLeavesNothing(t *testing.T) {
	s, _ := open(t)
	if _, err := s.Package(context.Background(), "/bin/false"); err == nil {
		t.Error("no error")
	}
	if entries, _ := os.ReadDir(s.Dir); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
}
