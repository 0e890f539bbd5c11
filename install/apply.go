package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// errInterrupted is Make's answer to an installation that was cut short.
var errInterrupted = core.Refuse(core.CodeConflict, "a former installation was cut short", "it is undone by installing again, or by: sessiondock uninstall")

// Apply carries a plan out and has check look at the result. If anything fails,
// everything is as it was before, and the error says so.
func (p *Plan) Apply(check func() error) (err error) {
	made, err := makeDirs(p.dir, 0o700, nil)
	if err != nil {
		removeDirs(made)
		return nothingDone(err)
	}
	unlock, err := lock(p.dir)
	if err != nil {
		removeDirs(made)
		return nothingDone(err)
	}
	defer unlock()
	err = unchanged(p.dir, p.previous)
	if err == nil {
		// Left by a power cut; undo would take it for what was there before.
		err = p.previous.sweep()
	}
	if err != nil {
		removeDirs(made)
		return nothingDone(err)
	}
	r := &Receipt{Schema: schema, State: applying, Build: p.build, At: time.Now().UTC().Truncate(time.Second), Files: p.entries, Previous: p.previous}
	if p.previous != nil {
		r.Dirs = p.previous.Dirs
	}
	r.Dirs = slices.Concat(r.Dirs, p.made, made)
	if err := r.write(p.dir); err != nil {
		removeDirs(made)
		return nothingDone(err)
	}
	defer func() {
		if err != nil {
			if e := r.undo(p.dir); e != nil {
				err = core.Refuse(core.CodeInternal, fmt.Sprintf("%v; and it could not be undone: %v", err, e), "sessiondock uninstall")
				return
			}
			err = nothingDone(err)
		}
	}()
	if err := p.stage(r); err != nil {
		return err
	}
	if err := p.commit(); err != nil {
		return err
	}
	if err := p.verify(); err != nil {
		return err
	}
	if check != nil {
		if err := check(); err != nil {
			return err
		}
	}
	r.State, r.Previous, r.Left = installed, nil, p.former()
	if err := r.write(p.dir); err != nil {
		r.State, r.Previous, r.Left = applying, p.previous, nil
		return err
	}
	p.Left = p.sweep(r)
	return nil
}

// former are the files that commit has moved out of the way.
func (p *Plan) former() []string {
	var out []string
	for _, s := range p.Steps {
		if s.Do == Replace || s.Do == Remove {
			out = append(out, beside(s.Path, "old"))
		}
	}
	return out
}

// nothingDone adds to an error what became of the installation.
func nothingDone(err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok {
		e = core.Refuse(core.CodeUnavailable, err.Error(), "")
	}
	return core.Refuse(e.Code, e.Message+"; nothing was installed or changed", e.Hint)
}

// stage writes every new file beside its place. What can fail for want of space or
// rights fails here, where nothing is seen of it.
func (p *Plan) stage(r *Receipt) error {
	for _, s := range p.Steps {
		if s.Do != Add && s.Do != Replace {
			continue
		}
		_, err := makeDirs(filepath.Dir(s.Path), 0o755, func(dir string) error {
			r.Dirs = append(r.Dirs, dir) // known before it is there
			return r.write(p.dir)
		})
		if err != nil {
			return err
		}
		temp := beside(s.Path, "new")
		if s.file.Link != "" {
			os.Remove(temp)
			err = os.Symlink(s.file.Link, temp)
		} else {
			err = writeSynced(temp, s.file.Content, s.file.Mode)
		}
		if err != nil {
			return cannot(s.Path, err)
		}
	}
	return nil
}

// commit moves the new files into their places and former ones out of the way.
func (p *Plan) commit() error {
	for _, s := range p.Steps {
		old := beside(s.Path, "old")
		if s.Do == Replace {
			// A second name, not a move: at no moment is there nothing at the path.
			if err := second(s.Path, old); err != nil {
				return cannot(s.Path, err)
			}
		}
		var err error
		switch s.Do {
		case Add, Replace:
			err = os.Rename(beside(s.Path, "new"), s.Path)
		case Remove:
			err = os.Rename(s.Path, old)
		}
		if err != nil {
			return cannot(s.Path, err)
		}
	}
	return nil
}

// second gives a file or a link a second name.
func second(path, name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Link(path, name)
}

// verify reads everything again.
func (p *Plan) verify() error {
	for _, s := range p.Steps {
		now, err := look(s.Path)
		if s.Do == Remove {
			if !errors.Is(err, fs.ErrNotExist) {
				return core.Refuse(core.CodeInternal, s.Path+" is still there", "")
			}
			continue
		}
		if err != nil {
			return cannot(s.Path, err)
		}
		if now != s.file.sum() {
			return core.Refuse(core.CodeInternal, s.Path+" does not hold what was written", "look at the disk")
		}
	}
	return nil
}

// sweep removes the former files once the new receipt stands. What it cannot remove
// stays in the receipt.
func (p *Plan) sweep(r *Receipt) error {
	if len(r.Left) == 0 {
		return nil
	}
	if err := r.sweep(); err != nil {
		return err
	}
	for _, s := range p.Steps {
		if s.Do == Remove {
			// Left over where a former version had a directory of its own.
			_ = os.Remove(filepath.Dir(s.Path))
		}
	}
	r.Left = nil
	return r.write(p.dir)
}

// undo goes back to what was before an installation that did not come to its end.
func (r *Receipt) undo(dir string) error {
	var errs []error
	for _, e := range slices.Concat(r.Previous.files(), r.Files) {
		fresh, old := beside(e.Path, "new"), beside(e.Path, "old")
		if err := os.Remove(fresh); err != nil && !absent(err) {
			errs = append(errs, err)
		}
		if _, err := os.Lstat(old); err == nil {
			if err := os.Rename(old, e.Path); err != nil {
				errs = append(errs, err)
			}
			os.Remove(old) // a rename onto the same file leaves both names
			continue
		}
		if r.Previous.has(e.Path) {
			continue
		}
		if now, err := look(e.Path); err == nil && now == e.Sum {
			if err := os.Remove(e.Path); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var before []string
	if r.Previous != nil {
		before = r.Previous.Dirs
		if err := r.Previous.write(dir); err != nil {
			return err
		}
	} else if err := os.Remove(filepath.Join(dir, receiptFile)); err != nil {
		return err
	}
	removeDirs(slices.DeleteFunc(slices.Clone(r.Dirs), func(d string) bool { return slices.Contains(before, d) }))
	return nil
}

// absent says of an error that there is nothing at the path, nor could be.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// Recover undoes an installation that was cut short, and says whether there was one.
func Recover(stateDir string) (bool, error) {
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	unlock, err := lock(stateDir) // first: one that is under way looks the same
	if err != nil {
		return false, err
	}
	defer unlock()
	r, err := readReceipt(stateDir)
	if err != nil || r == nil || r.State != applying {
		return false, err
	}
	return true, r.undo(stateDir)
}

// makeDirs makes a directory and its missing parents. It tells each one before it is
// made, and returns them, parents first.
func makeDirs(dir string, mode fs.FileMode, tell func(dir string) error) (made []string, err error) {
	st, err := os.Stat(dir)
	if err == nil && !st.IsDir() {
		return nil, core.Refuse(core.CodeConflict, dir+" is there and is not a directory", "move it away")
	}
	if err == nil {
		return nil, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, cannot(dir, err)
	}
	if parent := filepath.Dir(dir); parent != dir {
		if made, err = makeDirs(parent, mode, tell); err != nil {
			return made, err
		}
	}
	if tell != nil {
		if err := tell(dir); err != nil {
			return made, err
		}
	}
	if err := os.Mkdir(dir, mode); err != nil {
		return made, cannot(dir, err)
	}
	return append(made, dir), nil
}

// Missing are the directories, parents first, that would have to be made for dir.
func Missing(dir string) []string {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return append(Missing(filepath.Dir(dir)), dir)
}

// RemoveEmpty removes those of the directories, children first, that are empty.
func RemoveEmpty(dirs []string) { removeDirs(dirs) }

// removeDirs removes directories, children first, that nobody uses by now.
func removeDirs(dirs []string) {
	for _, d := range slices.Backward(dirs) {
		_ = os.Remove(d) // one that is not empty stays
	}
}
