package install

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Removal is what the end of an installation would do.
type Removal struct {
	Remove []string `json:"remove"`
	Leave  []string `json:"leave"` // changed by a person since: no longer ours

	dir     string
	receipt *Receipt
}

// Unmake reads the receipt and says what would be removed. It changes nothing.
func Unmake(stateDir string) (*Removal, error) {
	r, err := readReceipt(stateDir)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, core.Refuse(core.CodeNotFound, "nothing was installed: there is no receipt in "+stateDir,
			"a package of the distribution is removed by its package manager")
	}
	if r.State == applying {
		return nil, errInterrupted
	}
	m := &Removal{Remove: []string{}, Leave: []string{}, dir: stateDir, receipt: r}
	for _, e := range r.Files {
		now, err := look(e.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, cannot(e.Path, err)
		case now != e.Sum:
			m.Leave = append(m.Leave, e.Path)
		default:
			m.Remove = append(m.Remove, e.Path)
		}
	}
	return m, nil
}

// Empty says whether there is no receipt.
func (m *Removal) Empty() bool { return m.receipt == nil }

// Apply removes what the receipt names, lets then remove what an installation leaves
// elsewhere, and removes the receipt and the directories that were made and are empty.
// If it is cut short it is carried out again.
func (m *Removal) Apply(then func() error) error {
	unlock, err := lock(m.dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := unchanged(m.dir, m.receipt); err != nil {
		return err
	}
	if err := m.receipt.sweep(); err != nil {
		return err
	}
	for _, path := range slices.Backward(m.Remove) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cannot(path, err)
		}
	}
	if then != nil {
		if err := then(); err != nil {
			return err
		}
	}
	path := filepath.Join(m.dir, receiptFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cannot(path, err)
	}
	removeDirs(m.receipt.Dirs)
	return nil
}
