package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Processor time explains what a ratio of durations only shows: on a machine with few
// cores the two go together, and other work disturbs this one less.

// cost is the processor time of a group of processes, by part.
type cost map[string]time.Duration

// userHz is the unit of times in /proc: the kernel's interface fixes it.
const userHz = 100

// processes names a group's parts.
type processes struct {
	profile string         // of its browser, if it has one: which processes are which follows from it
	pids    map[string]int // the others, by part
}

// cost reads what the group has used so far.
func (p processes) cost() (cost, error) {
	out := cost{}
	for part, pid := range p.pids {
		used, err := processorTime(pid)
		if err != nil {
			return nil, err
		}
		out[part] = used
	}
	if p.profile == "" {
		return out, nil
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !bytes.Contains(line, []byte("--user-data-dir="+p.profile)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if used, err := processorTime(pid); err == nil { // else it has just ended
			out[browserPart(string(line))] += used
		}
	}
	return out, nil
}

// browserPart names one of a browser's processes by its command line.
func browserPart(line string) string {
	switch {
	case strings.Contains(line, "--extension-process"):
		return "extension"
	case strings.Contains(line, "--type=renderer"):
		return "page"
	case strings.Contains(line, "--type="):
		return "browser's helpers"
	}
	return "browser"
}

// processorTime is what a process has used, its threads that have ended included.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	// The name is in parentheses and may hold anything, parentheses too.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, i := range []int{11, 12} { // utime and stime
		if len(fields) <= i {
			return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / userHz, nil
}

// split is what one of n operations cost, of ours and of what it is held against.
type split struct {
	name         string
	n            int
	ours, theirs cost
}

// splitOf runs f, which does n of each, and reads what that cost.
func splitOf(name string, n int, ours, theirs processes, f func() error) (split, error) {
	read := func() (a, b cost, err error) {
		if a, err = ours.cost(); err == nil {
			b, err = theirs.cost()
		}
		return a, b, err
	}
	a, b, err := read()
	if err != nil {
		return split{}, err
	}
	if err := f(); err != nil {
		return split{}, err
	}
	s := split{name: name, n: n}
	if s.ours, s.theirs, err = read(); err != nil {
		return split{}, err
	}
	for part := range s.ours {
		s.ours[part] -= a[part]
	}
	for part := range s.theirs {
		s.theirs[part] -= b[part]
	}
	return s, nil
}

// print writes the parts in the order in which an action meets them.
func (s split) print(w io.Writer) {
	fmt.Fprintf(w, "\nprocessor time of %s, µs each\n%-20s %10s %10s\n", s.name, "", "ours", "baseline")
	each := func(c cost, part string) string {
		if _, ok := c[part]; !ok {
			return "-"
		}
		return strconv.FormatInt((c[part] / time.Duration(s.n)).Microseconds(), 10)
	}
	for _, part := range []string{"clients", "daemon", "host", "browser", "browser's helpers", "extension", "page"} {
		if a, b := each(s.ours, part), each(s.theirs, part); a != "-" || b != "-" {
			fmt.Fprintf(w, "%-20s %10s %10s\n", part, a, b)
		}
	}
}
