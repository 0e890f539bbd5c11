package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/e2e/programs"
)

const (
	// examplesDir holds the examples that the README leads to, beside the programs.
	examplesDir = "examples"
	// oldChromedp is a program of chromedp before its interface changed.
	oldChromedp = "chromedp-0.14"
)

// TestMain builds the programs, and runs the tests in a home of their own and under
// an ordinary uid, so that Chromium keeps its sandbox. Most of their time is waiting,
// so more of them run at once than there are processors.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == openHostName {
		runOpenHost() // ends with either peer; nobody is left to tell why
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "3"); err != nil {
		panic(err)
	}
	os.Exit(demo.RunTests(ending{m}, prepare))
}

// prepare builds the programs, and puts the published clients where an ordinary user may
// read them. That those are not installed is told by the tests that need them.
func prepare(bin string) error {
	if err := programs.Build(bin); err != nil {
		return err
	}
	examples := filepath.Join(bin, examplesDir)
	if err := os.CopyFS(examples, os.DirFS("examples")); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"-o", filepath.Join(examples, "chromedp", "chromedp"), "./examples/chromedp"},
		{"-C", "clients/chromedp-0.14", "-o", filepath.Join(bin, oldChromedp), "."}, // a module of its own
	} {
		build := exec.Command("go", append([]string{"build"}, args...)...)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build what uses chromedp (%s): %w", args[len(args)-1], err)
		}
	}
	if _, err := os.Stat("clients/node_modules"); err != nil {
		return nil
	}
	if err := os.CopyFS(filepath.Join(bin, clientsDir), os.DirFS("clients")); err != nil {
		return err
	}
	return os.Symlink(filepath.Join("..", clientsDir, "node_modules"), filepath.Join(examples, "node_modules"))
}

// ending ends what the tests shared, after the last of them.
type ending struct{ *testing.M }

func (e ending) Run() int {
	code := e.M.Run()
	if err := closeProduct(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return code
}
