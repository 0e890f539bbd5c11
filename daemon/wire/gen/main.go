package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "write nothing; exit 1 if an output is stale")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	outputs, err := generate(root)
	if err != nil {
		return err
	}
	if check {
		return stale(root, outputs)
	}
	for _, o := range outputs {
		path := filepath.Join(root, o.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, o.text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// output is one generated file; path is relative to the module's root.
type output struct {
	path string
	text []byte
}

func generate(root string) ([]output, error) {
	src, err := readSource(root)
	if err != nil {
		return nil, err
	}
	m, err := buildModel(src)
	if err != nil {
		return nil, err
	}
	js, err := renderJS(m)
	if err != nil {
		return nil, err
	}
	md, err := renderProtocol(m)
	if err != nil {
		return nil, err
	}
	return []output{
		{"extension/gen/wire.js", js},
		{"extension/gen/wire.d.ts", renderTypes(m)},
		{"docs/PROTOCOL.md", md},
	}, nil
}

// stale names every output that differs from what would be written now.
func stale(root string, outputs []output) error {
	var errs []error
	for _, o := range outputs {
		have, err := os.ReadFile(filepath.Join(root, o.path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("%s is missing: go run ./daemon/wire/gen", o.path))
		case err != nil:
			errs = append(errs, err)
		case !bytes.Equal(have, o.text):
			errs = append(errs, fmt.Errorf("%s is stale: go run ./daemon/wire/gen", o.path))
		}
	}
	return errors.Join(errs...)
}

// moduleRoot is the nearest directory upwards that holds go.mod, so that the
// command works from anywhere in the module.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod here or above")
		}
		dir = parent
	}
}
