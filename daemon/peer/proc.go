package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Proc is one process as /proc shows it. PID and StartTime together name it:
// a PID that is used again has another start time.
type Proc struct {
	PID       int
	PPID      int
	StartTime uint64 // clock ticks since boot
	Group     int    // its process group
	Comm      string
	Stopped   bool // by a signal, or by a tracer
	Dead      bool // ended, and kept only until its parent asks for its status
}

// Same says whether the two are one process.
func (p Proc) Same(q Proc) bool { return p.PID == q.PID && p.StartTime == q.StartTime }

func (p Proc) String() string { return fmt.Sprintf("%s (pid %d)", p.Comm, p.PID) }

// ErrGone says that a process has ended, or that its PID belongs to another now.
var ErrGone = errors.New("the process has ended")

// MaxAncestors bounds Ancestry. Trees of a desktop are some ten deep.
const MaxAncestors = 64

// Read reads one process from /proc. A PID that does not exist is ErrGone.
func Read(pid int) (Proc, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return Proc{}, fmt.Errorf("pid %d: %w", pid, ErrGone)
	}
	if err != nil {
		return Proc{}, err
	}
	return parseStat(text)
}

// parseStat reads "PID (COMM) STATE PPID ...". COMM may hold spaces, brackets
// and newlines, so it ends at the last bracket.
func parseStat(text []byte) (Proc, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return Proc{}, fmt.Errorf("peer: stat %.80q has no command name", text)
	}
	const (
		state, ppid, group, threads, start = 0, 1, 2, 17, 19 // places after COMM
	)
	f := strings.Fields(string(text[end+1:]))
	if len(f) <= start {
		return Proc{}, fmt.Errorf("peer: stat %.80q is too short", text)
	}
	p := Proc{Comm: string(text[open+1 : end])}
	var errs [5]error
	var n int
	p.PID, errs[0] = strconv.Atoi(strings.TrimSpace(string(text[:open])))
	p.PPID, errs[1] = strconv.Atoi(f[ppid])
	n, errs[2] = strconv.Atoi(f[threads])
	p.Group, errs[4] = strconv.Atoi(f[group])
	p.StartTime, errs[3] = strconv.ParseUint(f[start], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return Proc{}, fmt.Errorf("peer: stat %.80q: %w", text, err)
	}
	p.Stopped = f[state] == "T" || f[state] == "t"
	// A first thread that has ended while others run is shown as a zombie too.
	p.Dead = (f[state] == "Z" || f[state] == "X") && n <= 1
	return p, nil
}

// Ancestry returns the process and its parents, the process first and init last.
// It refuses a chain that is too long, that loops, or in which a parent is
// younger than its child; and it reads every start time again afterwards, so
// that a PID used again during the walk is noticed and not believed.
func Ancestry(pid int) ([]Proc, error) {
	chain, err := walk(pid, Read)
	if err != nil {
		return nil, err
	}
	for _, p := range chain {
		again, err := Read(p.PID)
		if err != nil {
			return nil, err
		}
		if !again.Same(p) {
			return nil, fmt.Errorf("pid %d was used again during the look: %w", p.PID, ErrGone)
		}
	}
	return chain, nil
}

func walk(pid int, read func(int) (Proc, error)) ([]Proc, error) {
	var chain []Proc
	seen := map[int]bool{}
	for pid > 0 {
		if len(chain) == MaxAncestors {
			return nil, fmt.Errorf("peer: pid %d has more than %d ancestors", chain[0].PID, MaxAncestors)
		}
		if seen[pid] {
			return nil, fmt.Errorf("peer: the parents of pid %d form a loop", chain[0].PID)
		}
		seen[pid] = true
		p, err := read(pid)
		if err != nil {
			return nil, err
		}
		if n := len(chain); n > 0 && p.StartTime > chain[n-1].StartTime {
			return nil, fmt.Errorf("peer: %s is younger than its child %s", p, chain[n-1])
		}
		chain = append(chain, p)
		pid = p.PPID
	}
	if len(chain) == 0 {
		return nil, fmt.Errorf("peer: %d is not a process", pid)
	}
	return chain, nil
}

// Children lists the direct children of a process, the ended ones that nobody has waited
// for among them, as the kernel keeps them. It is far quicker than a look at all of
// /proc, which is what lets a kill outpace processes that fork. Kernels may lack it;
// then it is empty.
func Children(pid int) []int {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
	dir, err := os.Open(tasks)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var out []int
	for _, name := range names {
		text, err := os.ReadFile(tasks + name + "/children")
		if err != nil {
			continue // it has ended
		}
		for _, f := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}
