package packed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/extension"
	"sessiondock.dev/sessiondock/manifests"
)

// Package is one signed package.
type Package struct {
	ID      string `json:"id"`
	Build   string `json:"build"`
	Version string `json:"version"`
	CRX     string `json:"-"` // path of the package
	Update  string `json:"-"` // path of its update manifest
}

// Files of one package's directory.
const (
	crxFile    = "sessiondock.crx"
	updateFile = "update.xml"
	aboutFile  = "package.json"
)

// keep is how many packages stay: that of this build, and those from which a browser
// that was started just before an update may be about to install.
const keep = 3

// Store is the directory of an installation's packages.
type Store struct {
	Dir string
	Key extension.Key

	mu sync.Mutex
}

// Package returns the package of this build, and makes it with the browser if it is
// not the newest one. Another program may do the same at the same time.
func (s *Store) Package(ctx context.Context, browser string) (Package, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		numbers, err := s.numbers()
		if err != nil {
			return Package{}, err
		}
		next := 1
		if len(numbers) > 0 {
			last := numbers[len(numbers)-1]
			if p, ok := s.read(last); ok && p.ID == s.Key.ID && p.Build == extension.Build() {
				return p, nil
			}
			next = last + 1
		}
		switch err := s.pack(ctx, browser, next); {
		case errors.Is(err, fs.ErrExist): // another program was first
			continue
		case err != nil:
			return Package{}, err
		}
		for _, n := range numbers[:max(0, len(numbers)+1-keep)] {
			if err := os.RemoveAll(s.path(n, "")); err != nil {
				return Package{}, err
			}
		}
	}
}

func (s *Store) path(n int, file string) string {
	return filepath.Join(s.Dir, strconv.Itoa(n), file)
}

// numbers are those of the packages that are there, rising.
func (s *Store) numbers() ([]int, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, err
}

// read returns a package if all of it is there.
func (s *Store) read(n int) (Package, bool) {
	p := Package{CRX: s.path(n, crxFile), Update: s.path(n, updateFile)}
	text, err := os.ReadFile(s.path(n, aboutFile))
	if err != nil || json.Unmarshal(text, &p) != nil {
		return p, false
	}
	for _, file := range []string{p.CRX, p.Update} {
		if st, err := os.Stat(file); err != nil || st.Size() == 0 {
			return p, false
		}
	}
	return p, true
}

// pack makes package n, which appears as a whole or not at all.
func (s *Store) pack(ctx context.Context, browser string, n int) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(s.Dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	source, made := filepath.Join(temp, "source"), filepath.Join(temp, "made")
	if err := os.Mkdir(made, 0o700); err != nil {
		return err
	}
	if err := extension.Write(source, s.Key, n); err != nil {
		return err
	}
	if err := chromium.Pack(ctx, browser, source, s.Key.Path, filepath.Join(made, crxFile)); err != nil {
		return err
	}
	p := Package{ID: s.Key.ID, Build: extension.Build(), Version: extension.Version(n)}
	about, err := json.Marshal(p)
	if err != nil {
		return err
	}
	for file, text := range map[string][]byte{
		aboutFile: about, updateFile: manifests.UpdateXML(p.ID, s.path(n, crxFile), p.Version),
	} {
		if err := os.WriteFile(filepath.Join(made, file), text, 0o600); err != nil {
			return err
		}
	}
	// Onto a directory that is not empty a rename fails.
	if err := os.Rename(made, s.path(n, "")); err != nil {
		if _, there := os.Stat(s.path(n, "")); there == nil {
			return fs.ErrExist
		}
		return fmt.Errorf("the package cannot be put in place: %w", err)
	}
	return nil
}
