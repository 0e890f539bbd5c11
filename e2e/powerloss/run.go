package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// size says how much is tried.
type size struct {
	chapters int // commits of the traced program
	states   int // distinct states of the disk
	seed     uint64
}

// tally is what came of it.
type tally struct {
	calls, points, states, lost, corrupt int
	first                                string // of what was lost or corrupt
}

// build builds the traced program into dir; the control's asks for synchronous=NORMAL.
func build(dir string, control bool) (string, error) {
	program := filepath.Join(dir, "writer")
	args := []string{"build", "-trimpath"}
	if control {
		program += "-normal"
		args = append(args, "-tags=powerlosscontrol")
	}
	args = append(args, "-o", program, "sessiondock.dev/sessiondock/e2e/powerloss/writer")
	cmd := exec.Command("go", args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return program, cmd.Run()
}

// A large state costs as much as many small ones and differs from them in length alone.
// The rounds that every moment has are first; after those the large ones have fewer.
const (
	always = 2
	large  = 512 << 10
	seldom = 40
)

// tellEvery is after how many states a line tells how far it has come.
const tellEvery = 10_000

// try traces one program and judges the states of its disk.
func try(program string, z size, log io.Writer) (t tally, err error) {
	root, err := os.MkdirTemp("", "disk-")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(root)
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return t, err
	}
	calls, err := trace(program, filepath.Join(root, database), strconv.FormatUint(z.seed, 10), strconv.Itoa(z.chapters))
	if err != nil {
		return t, err
	}
	t.calls = len(calls)
	c, err := newCourt(z)
	if err != nil {
		return t, err
	}
	defer c.close()
	begun, told := time.Now(), 0
	for round := 0; c.sent < z.states; round++ {
		before := c.sent
		points, err := walk(root, calls, func(point int, d *disk, acknowledged int) bool {
			if round >= always && d.size() > large && (round+point)%seldom != 0 {
				return true
			}
			rng := rand.New(rand.NewPCG(z.seed, uint64(round)<<32|uint64(point)))
			what := choices(d, round, rng)
			c.bring(d.image(what), acknowledged, fmt.Sprintf("after call %d, of what was not safe: %s", point, what.what))
			if c.sent >= told+tellEvery {
				told = c.sent
				fmt.Fprintf(log, "  %d states in %.0f s\n", c.sent, time.Since(begun).Seconds())
			}
			return c.sent < z.states
		})
		if err != nil {
			return t, err
		}
		t.points = max(t.points, points)
		if c.sent == before && round > 1000 {
			break // every state that this trace has was seen
		}
	}
	t.states, t.lost, t.corrupt, t.first, err = c.verdict()
	return t, err
}

// walk goes through a trace, and stops the power after each moment at which the disk, or
// what is safe on it, or what was acknowledged, has changed. It returns how many those are.
func walk(root string, calls []call, at func(point int, d *disk, acknowledged int) bool) (int, error) {
	d := newDisk(root)
	acknowledged, points := 0, 0
	var open []call // begun, not returned
	point := func(changed bool) bool {
		if !changed {
			return true
		}
		points++
		return at(points, d, acknowledged)
	}
	returned := func(until int) (bool, error) {
		for len(open) > 0 {
			first := 0
			for i := range open {
				if open[i].end < open[first].end {
					first = i
				}
			}
			c := open[first]
			if c.end > until {
				return true, nil
			}
			open = append(open[:first], open[first+1:]...)
			synced, err := d.returned(&c)
			if err != nil || !point(synced) {
				return false, err
			}
		}
		return true, nil
	}
	for i := range calls {
		c := &calls[i]
		if more, err := returned(c.begin - 1); err != nil || !more {
			return points, err
		}
		said, err := acknowledgement(d, c)
		if err != nil {
			return points, err
		}
		changed := said > acknowledged
		acknowledged = max(acknowledged, said)
		if said == 0 {
			if changed, err = d.begin(c); err != nil {
				return points, fmt.Errorf("line %d of the trace: %w", c.begin+1, err)
			}
		}
		if !point(changed) {
			return points, nil
		}
		open = append(open, *c)
	}
	if _, err := returned(int(^uint(0) >> 1)); err != nil {
		return points, err
	}
	if acknowledged == 0 {
		return points, errEmpty
	}
	return points, nil
}

// acknowledgement reads which chapter a call acknowledges, or 0. It may have been seen from
// the moment in which the call begins.
func acknowledgement(d *disk, c *call) (int, error) {
	if c.name != "write" || c.args[0] != "1" || d.fds[1] != nil || c.result < 0 {
		return 0, nil
	}
	text, err := c.text(1)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// court judges images, several at once, and each only once.
type court struct {
	book  book
	dir   string
	jobs  chan job
	group sync.WaitGroup
	sent  int
	seen  map[uint64]*sentence

	mu  sync.Mutex
	err error
}

type job struct {
	image image
	of    *sentence
}

// sentence is what is known of one image. Of the moments in which the disk could look so,
// the one with most acknowledged counts.
type sentence struct {
	acknowledged int
	when         string
	found        found
}

func newCourt(z size) (*court, error) {
	parent := "/dev/shm" // memory: nothing here has to survive
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "powerloss-")
	if err != nil {
		return nil, err
	}
	whole := filepath.Join(dir, "whole")
	b, err := write(whole, z.seed, z.chapters)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := &court{book: b, dir: dir, jobs: make(chan job, 2*runtime.NumCPU()), seen: map[uint64]*sentence{}}
	for i := range runtime.NumCPU() {
		c.group.Go(func() { c.judge(filepath.Join(dir, strconv.Itoa(i))) })
	}
	return c, nil
}

func (c *court) bring(m image, acknowledged int, when string) {
	key := m.sum()
	if s := c.seen[key]; s != nil {
		if acknowledged > s.acknowledged {
			s.acknowledged, s.when = acknowledged, when
		}
		return
	}
	s := &sentence{acknowledged: acknowledged, when: when}
	c.seen[key] = s
	c.sent++
	c.jobs <- job{m, s}
}

func (c *court) judge(dir string) {
	for j := range c.jobs {
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			j.of.found, err = c.book.look(dir, j.image)
		}
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			c.mu.Lock()
			c.err = errors.Join(c.err, err)
			c.mu.Unlock()
		}
	}
}

func (c *court) verdict() (states, lost, corrupt int, first string, err error) {
	close(c.jobs)
	c.group.Wait()
	c.jobs = nil
	for _, s := range c.seen {
		bad := s.found.corrupt
		switch short := c.book.lost(s.found, s.acknowledged); {
		case bad != "":
			corrupt++
		case short != "":
			lost++
			bad = short
		default:
			continue
		}
		if first == "" || s.when < first {
			first = s.when + ": " + bad
		}
	}
	return len(c.seen), lost, corrupt, first, c.err
}

func (c *court) close() {
	if c.jobs != nil {
		close(c.jobs)
		c.group.Wait()
	}
	os.RemoveAll(c.dir)
}
