package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInstallCommandFollowsTheDistribution(t *testing.T) {
	for release, want := range map[string]string{
		"ID=debian\n":                          "apt-get install -y chromium",
		"ID=mint\nID_LIKE=\"ubuntu debian\"\n": "apt-get install -y chromium",
		"NAME='Fedora Linux'\nID=fedora\n":     "dnf install -y chromium",
		"ID=unheard-of\n":                      "",
		"":                                     "",
	} {
		path := filepath.Join(t.TempDir(), "os-release")
		if err := os.WriteFile(path, []byte(release), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(installCommand(osRelease(path)), " "); got != want {
			t.Errorf("%q: command %q, want %q", release, got, want)
		}
	}
	if got := installCommand(osRelease(filepath.Join(t.TempDir(), "missing"))); got != nil {
		t.Errorf("without a release file: command %q, want none", got)
	}
}
