package e2e

import (
	"flag"
	"os"
	"testing"

	"sessiondock.dev/sessiondock/cli/demo"
)

// TestMain runs the tests in a home of their own and under an ordinary uid, so
// that Chromium keeps its sandbox. Most of their time is waiting, so more of them
// run at once than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(demo.RunTests(m, nil))
}
