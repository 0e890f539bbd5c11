// Package programs builds SessionDock's own programs for the tests and benchmarks
// that run the real ones. It needs the go command and the source.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
