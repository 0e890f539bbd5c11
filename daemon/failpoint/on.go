//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

var (
	mu   sync.Mutex
	left = read(os.Getenv("SESSIONDOCK_FAILPOINT"))
)

func read(text string) map[string]int {
	points := map[string]int{}
	for spec := range strings.SplitSeq(text, ",") {
		name, count, _ := strings.Cut(spec, ":")
		n, err := strconv.Atoi(count)
		if text != "" && (err != nil || n < 1) {
			panic("failpoint: " + spec + " is not NAME:N")
		}
		points[name] = n
	}
	return points
}

// due counts one passage of a point, and says whether it is the one that was asked for.
func due(name string) bool {
	mu.Lock()
	defer mu.Unlock()
	left[name]--
	if left[name] != 0 {
		return false
	}
	fmt.Fprintln(os.Stderr, "failpoint", name)
	return true
}

// Hit ends the process if the point is due.
func Hit(name string) {
	if !due(name) {
		return
	}
	unix.Kill(os.Getpid(), unix.SIGKILL)
	select {} // until it is delivered
}

// Fails says whether what the point stands for is to fail.
func Fails(name string) bool { return due(name) }
