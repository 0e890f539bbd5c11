package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

const banner = "// Made from worker.js and the modules that it imports by `go run ./extension/bundle`. Do not edit.\n"

func main() {
	check := flag.Bool("check", false, "write nothing; exit 1 if the file is stale")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	dir, err := filepath.Abs("extension")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "worker.js")); err != nil {
		return fmt.Errorf("%w; hint: run it in the module's root", err)
	}
	path := filepath.Join(dir, "gen", "worker.js")
	made, err := bundle(dir, path)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(path, made, 0o644)
	}
	if present, err := os.ReadFile(path); err != nil || !bytes.Equal(present, made) {
		return errors.Join(fmt.Errorf("%s is stale; hint: go run ./extension/bundle", path), err)
	}
	return nil
}

// keepBuild leaves the build's hash in a module of its own: it is written when a copy of
// the extension is.
func keepBuild(b api.PluginBuild) {
	b.OnResolve(api.OnResolveOptions{Filter: `/build\.js$`}, func(api.OnResolveArgs) (api.OnResolveResult, error) {
		return api.OnResolveResult{Path: "../build.js", External: true}, nil
	})
}

// bundle returns what is to be at path.
func bundle(dir, path string) ([]byte, error) {
	made := api.Build(api.BuildOptions{
		AbsWorkingDir: dir,
		EntryPoints:   []string{"worker.js"},
		Outfile:       path,
		Bundle:        true,
		Plugins:       []api.Plugin{{Name: "build", Setup: keepBuild}},
		Format:        api.FormatESModule,
		Charset:       api.CharsetUTF8,
		Engines:       []api.Engine{{Name: api.EngineChrome, Version: "120"}},
		Banner:        map[string]string{"js": banner},
		LogLevel:      api.LogLevelSilent,
	})
	var errs []error
	for _, m := range append(made.Errors, made.Warnings...) {
		errs = append(errs, errors.New(m.Text))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return made.OutputFiles[0].Contents, nil
}
