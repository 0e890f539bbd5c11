package chromium

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
)

// names are looked for in PATH, in this order: first those that take an unpacked
// extension as well.
var names = []string{"chromium", "chromium-browser", "google-chrome-for-testing", "google-chrome", "google-chrome-stable"}

// InstallHint is what to do where there is no browser.
const InstallHint = "install Chromium, on Debian and Ubuntu with: apt-get install chromium"

// Find returns the browser at path, or the first one in PATH if path is empty. A
// snap's or a flatpak's is refused: they have no Native Messaging.
func Find(path string) (string, error) {
	candidates := names
	if path != "" {
		candidates = []string{path}
	}
	var refused string
	for _, name := range candidates {
		p, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if p, err = filepath.Abs(p); err != nil {
			return "", err
		}
		if box := Confinement(p); box != "" {
			refused = fmt.Sprintf("%s is a %s, which cannot start a native host", p, box)
			continue
		}
		return p, nil
	}
	switch {
	case refused != "":
		return "", core.Refuse(core.CodeUnavailable, refused, InstallHint+", or with the distribution's own package")
	case path != "":
		return "", core.Refuse(core.CodeUnavailable, "there is no browser at "+path, InstallHint)
	}
	return "", core.Refuse(core.CodeUnavailable, "no Chromium was found in PATH", InstallHint)
}

// maxScript is how much of a program is looked at to see what it would start. The
// wrappers that snap and flatpak leave in PATH are a few hundred bytes.
const maxScript = 4096

// Confinement says "snap" or "flatpak" for a browser of theirs, and "" for any other.
// Ubuntu's package chromium-browser is a script that starts the snap.
func Confinement(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	for _, p := range []string{path, real} {
		switch {
		case strings.HasSuffix(p, "/snap"), strings.Contains(p, "/snap/"):
			return "snap"
		case strings.HasSuffix(p, "/flatpak"), strings.Contains(p, "/flatpak/"):
			return "flatpak"
		}
	}
	f, err := os.Open(real)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, maxScript)
	n, _ := f.Read(head) // an empty or unreadable one is nobody's wrapper
	script := string(head[:n])
	switch {
	case !strings.HasPrefix(script, "#!"):
	case strings.Contains(script, "/snap/bin/"), strings.Contains(script, "snap run "):
		return "snap"
	case strings.Contains(script, "flatpak run "):
		return "flatpak"
	}
	return ""
}
