// Package programs builds SessionDock's own programs for the tests and benchmarks
// that run the real ones. It needs the go command and the source.
package programs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sources says what each program is built from.
var sources = map[string]string{"sessiondock": "cli", "sessiondockd": "daemon", "sessiondock-host": "host"}

// Build builds the three programs into dir, as they ship.
func Build(dir string) error { return BuildWith(dir) }

// BuildWith builds them with flags of go build.
func BuildWith(dir string, flags ...string) error {
	for program, pkg := range sources {
		args := slices.Concat([]string{"build", "-trimpath"}, flags,
			[]string{"-o", filepath.Join(dir, program), "sessiondock.dev/sessiondock/" + pkg})
		cmd := exec.Command("go", args...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s: %w", program, err)
		}
	}
	return nil
}

// BuildNext builds a daemon as the next version would be: with another build of the
// extension.
func BuildNext(to string) error {
	const part = "extension/words.js"
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("where the source is: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(dir)), part)
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "next-")
	if err != nil {
		return err
	}
	changed, overlay := filepath.Join(temp, "words.js"), filepath.Join(temp, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err == nil {
		err = errors.Join(os.WriteFile(changed, append(text, "// The next build.\n"...), 0o644), os.WriteFile(overlay, list, 0o644))
	}
	if err == nil {
		cmd := exec.Command("go", "build", "-trimpath", "-overlay", overlay, "-o", to, "sessiondock.dev/sessiondock/daemon")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		err = cmd.Run()
	}
	return errors.Join(err, os.RemoveAll(temp))
}
