package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
)

// File is one file or link that the installation consists of.
type File struct {
	Path    string
	What    string // for a person: "the daemon"
	Mode    fs.FileMode
	Content []byte // of a file
	Link    string // where a link points; then there is no content
}

// sum identifies what a file holds.
func (f File) sum() string {
	if f.Link != "" {
		return "link:" + f.Link
	}
	return sum(f.Content)
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// Do is what a step does to a file.
type Do string

// The steps.
const (
	Add     Do = "add"
	Replace Do = "replace"
	Keep    Do = "keep"   // it is there and as it should be
	Remove  Do = "remove" // a former version had it
)

// Step is one line of a plan.
type Step struct {
	Do   Do     `json:"do"`
	Path string `json:"path"`
	What string `json:"what"`

	file File
}

// Plan is what an installation would do.
type Plan struct {
	Steps []Step `json:"steps"`
	Left  error  `json:"-"` // after Apply: why a former file is still beside its place

	dir      string // of the receipt
	made     []string
	build    string
	previous *Receipt
	entries  []Entry // of the receipt to be
}

// Make compares the files that an installation consists of with what is there. It
// changes nothing. stateDir is where the receipt lies; build names the version.
func Make(stateDir, build string, files []File) (*Plan, error) {
	previous, err := readReceipt(stateDir)
	if err != nil {
		return nil, err
	}
	if previous != nil && previous.State == applying {
		return nil, errInterrupted
	}
	p := &Plan{dir: stateDir, build: build, previous: previous}
	for _, f := range files {
		do, err := p.compare(f)
		if err != nil {
			return nil, err
		}
		p.Steps = append(p.Steps, Step{Do: do, Path: f.Path, What: f.What, file: f})
		if do != Keep || previous.has(f.Path) {
			p.entries = append(p.entries, Entry{Path: f.Path, Sum: f.sum(), Mode: f.Mode, What: f.What})
		}
	}
	for _, e := range previous.files() {
		if slices.ContainsFunc(files, func(f File) bool { return f.Path == e.Path }) {
			continue
		}
		if now, err := look(e.Path); err != nil || now != e.Sum {
			continue // gone already, or a person's by now
		}
		p.Steps = append(p.Steps, Step{Do: Remove, Path: e.Path, What: e.What})
	}
	return p, nil
}

// Made adds directories to the receipt that were made for the installation before it
// began, parents first.
func (p *Plan) Made(dirs []string) { p.made = dirs }

// compare says what is to be done about a file, or refuses to touch what is there.
func (p *Plan) compare(f File) (Do, error) {
	now, err := look(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Add, nil
	case err != nil:
		return "", cannot(f.Path, err)
	case now == f.sum():
		if f.Link == "" {
			if st, err := os.Stat(f.Path); err == nil && st.Mode().Perm() != f.Mode && p.previous.has(f.Path) {
				return Replace, nil
			}
		}
		return Keep, nil
	}
	switch before, ours := p.previous.entry(f.Path); {
	case !ours:
		return "", core.Refuse(core.CodeConflict, f.Path+" is there and was not installed by this program", "move it away, then install again")
	case before.Sum != now:
		return "", core.Refuse(core.CodeConflict, f.Path+" was changed since it was installed", "move it away to have the new one, then install again")
	}
	return Replace, nil
}

// Changes says whether anything is to be done.
func (p *Plan) Changes() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Do != Keep })
}

// maxFile bounds what is read of a file to compare it; a program has some 30 MB.
const maxFile = 512 << 20

// look returns the sum of what is at a path.
func look(path string) (string, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	switch {
	case st.Mode().Type() == fs.ModeSymlink:
		to, err := os.Readlink(path)
		return "link:" + to, err
	case !st.Mode().IsRegular():
		return "another kind of file", nil
	case st.Size() > maxFile:
		return "a file too large to compare", nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return sum(content), nil
}

// cannot words an error of the file system with what to do about it.
func cannot(path string, err error) error {
	if e, ok := errors.AsType[*core.Error](err); ok {
		return e
	}
	hint := "make it writable, or set HOME or the XDG variables to directories of yours"
	if errors.Is(err, fs.ErrNotExist) {
		hint = ""
	}
	return core.Refuse(core.CodeUnavailable, fmt.Sprintf("%s: %v", path, reason(err)), hint)
}

// reason is the error without the path that a path error repeats.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

// String is the plan for a person: one line a step, unchanged files counted only.
func (p *Plan) String() string {
	var b bytes.Buffer
	kept := 0
	for _, s := range p.Steps {
		if s.Do == Keep {
			kept++
			continue
		}
		fmt.Fprintf(&b, "%-8s %s  (%s)\n", s.Do, s.Path, s.What)
	}
	if kept > 0 {
		fmt.Fprintf(&b, "%-8s %d files that are as they should be\n", Keep, kept)
	}
	return b.String()
}

// beside names a file next to another, hidden, for the time of an installation.
func beside(path, end string) string {
	return filepath.Join(filepath.Dir(path), "."+strings.TrimPrefix(filepath.Base(path), ".")+".sessiondock-"+end)
}
