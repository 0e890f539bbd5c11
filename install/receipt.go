package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// receiptFile is where a state directory says what was installed.
const receiptFile = "install.json"

// schema is the version of a receipt's shape.
const schema = "sessiondock-install/1"

// The states of a receipt.
const (
	applying  = "applying" // an installation was begun, and has neither ended nor been undone
	installed = "installed"
)

// Receipt is what an installation has made, and therefore what its end removes.
type Receipt struct {
	Schema   string    `json:"schema"`
	State    string    `json:"state"`
	Build    string    `json:"build"`
	At       time.Time `json:"at"`
	Files    []Entry   `json:"files"`
	Dirs     []string  `json:"dirs"`               // made by the installation, parents first
	Previous *Receipt  `json:"previous,omitempty"` // while applying: what it goes back to
	Left     []string  `json:"left,omitempty"`     // former files, out of the way, that may not be removed yet
}

// Entry is one file of a receipt.
type Entry struct {
	Path string      `json:"path"`
	Sum  string      `json:"sum"` // SHA-256, or "link:" and where it points
	Mode fs.FileMode `json:"mode"`
	What string      `json:"what"`
}

// Read returns the receipt of an installation, or nil where there is none.
func Read(stateDir string) (*Receipt, error) { return readReceipt(stateDir) }

func readReceipt(dir string) (*Receipt, error) {
	path := filepath.Join(dir, receiptFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cannot(path, err)
	}
	var r Receipt
	if err := json.Unmarshal(text, &r); err != nil || r.Schema != schema {
		return nil, core.Refuse(core.CodeInvalid, fmt.Sprintf("%s is not a receipt that this version understands", path),
			"use the version that wrote it, or move it away: then nothing counts as installed")
	}
	return &r, nil
}

// files, entry and has also answer for no receipt at all.
func (r *Receipt) files() []Entry {
	if r == nil {
		return nil
	}
	return r.Files
}

func (r *Receipt) entry(path string) (Entry, bool) {
	i := slices.IndexFunc(r.files(), func(e Entry) bool { return e.Path == path })
	if i < 0 {
		return Entry{}, false
	}
	return r.Files[i], true
}

func (r *Receipt) has(path string) bool { _, ok := r.entry(path); return ok }

// Changed names the files that are not as they were installed, and says whether the
// installation was cut short.
func (r *Receipt) Changed() (paths []string, interrupted bool) {
	for _, e := range r.Files {
		if now, err := look(e.Path); err != nil || now != e.Sum {
			paths = append(paths, e.Path)
		}
	}
	return paths, r.State == applying
}

// sweep removes former files that an installation has left out of the way.
func (r *Receipt) sweep() error {
	if r == nil {
		return nil
	}
	left := slices.Clone(r.Left)
	for _, e := range r.Files { // of a receipt that names none
		left = append(left, beside(e.Path, "old"))
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil && !absent(err) {
			return cannot(path, err)
		}
	}
	return nil
}

// unchanged refuses a plan that was made from another receipt than the one there now.
// The caller has the lock.
func unchanged(dir string, before *Receipt) error {
	now, err := readReceipt(dir)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(now, before) {
		return core.Refuse(core.CodeConflict, "another installation was made or removed meanwhile", "look again: sessiondock doctor")
	}
	return nil
}

// write writes the receipt so that after a power cut there is the former or this one.
func (r *Receipt) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, receiptFile)
	temp := beside(path, "new")
	if err := writeSynced(temp, text, 0o600); err != nil {
		return cannot(path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return cannot(path, err)
	}
	return syncDir(dir)
}

func writeSynced(path string, content []byte, mode fs.FileMode) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		os.Remove(path)
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// lock keeps two installations from running at a time. The lock is on the directory
// itself, so that none is left behind.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, cannot(dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, core.Refuse(core.CodeConflict, "another installation is under way in "+dir, "wait until it has ended")
	}
	return func() { f.Close() }, nil
}
