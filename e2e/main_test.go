package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/e2e/programs"
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
	os.Exit(demo.RunTests(ending{m}, programs.Build))
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
