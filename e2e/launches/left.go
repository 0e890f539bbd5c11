package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/e2e/manager"
)

const (
	// settleWithin is what the manager gets, after the end was verified, to let go of an
	// ended unit's slice.
	settleWithin = 2 * time.Second
	// spareFDs is by how much the daemon's descriptors may differ from moment to moment:
	// connections of this program, a file that is being read.
	spareFDs = 8
)

// watch looks for what launches leave behind, without the code under test.
type watch struct {
	p      *manager.Product
	daemon int
	// before is what was there before the first launch that counts, by kind.
	before map[string][]string
}

func newWatch(ctx context.Context, p *manager.Product) (*watch, error) {
	h, err := p.Control.Health(ctx)
	if err != nil {
		return nil, err
	}
	w := &watch{p: p, daemon: h.PID}
	time.Sleep(settleWithin)
	w.before, err = w.look()
	return w, err
}

// left returns what is there now and was not before, once it stays.
func (w *watch) left(ctx context.Context) (map[string][]string, error) {
	for end := time.Now().Add(settleWithin); ; time.Sleep(20 * time.Millisecond) {
		now, err := w.look()
		if err != nil {
			return nil, err
		}
		for kind, what := range now {
			now[kind] = slices.DeleteFunc(what, func(s string) bool { return slices.Contains(w.before[kind], s) })
			if len(now[kind]) == 0 {
				delete(now, kind)
			}
		}
		if len(now) == 0 || time.Now().After(end) || ctx.Err() != nil {
			return now, ctx.Err()
		}
	}
}

func (w *watch) look() (map[string][]string, error) {
	all := map[string][]string{}
	var errs []error
	for kind, look := range map[string]func() ([]string, error){
		"process": processes, "control_group": controlGroups, "unit": units,
		"socket": w.sockets, "lock": w.locks, "temporary_file": w.temporary,
	} {
		found, err := look()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind, err))
		}
		all[kind] = found
	}
	return all, errors.Join(errs...)
}

// processes are all of the run: it has a process namespace of its own. A thread's or a
// zombie's entry counts too.
func processes() ([]string, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	var out []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		name := string(text[bytes.IndexByte(text, '(')+1 : bytes.LastIndexByte(text, ')')])
		out = append(out, fmt.Sprintf("%s %s, started at %s", filepath.Base(filepath.Dir(f)), name, fields[19]))
	}
	return out, err
}

// controlGroups are all of the run.
func controlGroups() (out []string, err error) {
	home, _ := manager.Inside()
	err = filepath.WalkDir(home.ControlGroup(), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && d.IsDir():
			out = append(out, path)
		}
		return err
	})
	return out, err
}

func units() ([]string, error) {
	out, err := manager.Ask("list-units", "--all", "--no-legend", "--plain", "--full", "sessiondock-*")
	var names []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasSuffix(f[0], ".slice") {
			names = append(names, f[0])
		}
	}
	return names, err
}

// sockets are those in the file system, and those that somebody still has open by a name
// below the run's directories.
func (w *watch) sockets() ([]string, error) {
	out, err := w.walk(func(path string, d fs.DirEntry) bool { return d.Type()&fs.ModeSocket != 0 })
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) != 8 || !strings.HasPrefix(f[7], w.p.Paths.Runtime+"/slots/") && !strings.HasPrefix(f[7], w.p.Paths.Cache) {
			continue
		}
		out = append(out, "open: "+f[7])
	}
	return out, nil
}

// locks are Chromium's, and the slot's own if somebody holds it.
func (w *watch) locks() ([]string, error) {
	dir := w.p.Paths.SlotDir(slot)
	out, err := filepath.Glob(filepath.Join(dir, "profile", "Singleton*"))
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		out = append(out, f.Name()+": "+err.Error())
	}
	return out, nil
}

// temporary are the files in the launch's own temporary directory, and those of this
// user in the directories that everybody may write to.
func (w *watch) temporary() ([]string, error) {
	out, err := filepath.Glob(filepath.Join(w.p.Paths.Cache, "tmp", "*", "*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"/tmp", "/dev/shm", "/var/tmp", os.TempDir()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			var st unix.Stat_t
			path := filepath.Join(dir, e.Name())
			if unix.Lstat(path, &st) == nil && int(st.Uid) == os.Getuid() {
				out = append(out, path)
			}
		}
	}
	return out, nil
}

// walk collects what the test wants below the run's directories.
func (w *watch) walk(want func(string, fs.DirEntry) bool) ([]string, error) {
	var out []string
	for _, dir := range []string{w.p.Paths.Runtime, w.p.Paths.Cache, w.p.Paths.State, w.p.Paths.Data} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && want(path, d) {
				out = append(out, path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it went away meanwhile
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fds counts the daemon's open descriptors; 0 if it is gone.
func (w *watch) fds() int {
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(w.daemon) + "/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
