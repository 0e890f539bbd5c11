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
	if text == "" {
		return points
	}
	for spec := range strings.SplitSeq(text, ",") {
		name, count, _ := strings.Cut(spec, ":")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
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
	n, armed := left[name]
	if !armed || n == 0 {
		return false
	}
	left[name]--
	return n == 1
}

// Hit ends the process if the point is due.
func Hit(name string) {
	if !Fails(name) {
		return
	}
	unix.Kill(os.Getpid(), unix.SIGKILL)
	select {} // until it is delivered
}

// Fails says whether what the point stands for is to fail.
func Fails(name string) bool {
	if !due(name) {
		return false
	}
	fmt.Fprintln(os.Stderr, "failpoint", name)
	return true
}

// Since says whether the point is due or has been.
func Since(name string) bool {
	due(name)
	mu.Lock()
	defer mu.Unlock()
	n, armed := left[name]
	return armed && n == 0
}
