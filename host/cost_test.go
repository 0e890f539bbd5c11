package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// cpu reads how long all threads of a process have run, to the nanosecond.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		b.Fatalf("no schedstat: %v", err)
	}
	var sum time.Duration
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that has just ended
		}
		n, err := strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(n)
	}
	return sum
}

// BenchmarkEvaluate measures what one evaluate costs in the host's own process, with
// an extension and a daemon that answer at once: as fast as it goes, and with a pause
// after each, in which the host's threads go to sleep.
func BenchmarkEvaluate(b *testing.B) {
	b.Run("back to back", func(b *testing.B) { evaluates(b, 0) })
	b.Run("paused", func(b *testing.B) { evaluates(b, 2*time.Millisecond) })
}

func evaluates(b *testing.B, pause time.Duration) {
	r := newRig(b)
	r.start()
	r.link(7)
	begun := cpu(b, r.cmd.Process.Pid)
	b.ResetTimer()
	for i := range b.N {
		r.evaluate(core.ActionID(fmt.Sprint("a", i)), 7)
		r.ok(r.getCmd(), two)
		r.getDone()
		time.Sleep(pause)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu(b, r.cmd.Process.Pid)-begun).Microseconds())/float64(b.N), "cpu-µs/op")
}
