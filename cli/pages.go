package main

import (
	"bytes"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"sessiondock.dev/sessiondock/install"
	"sessiondock.dev/sessiondock/manifests"
)

// pages are the completions and manual pages below data, a directory such as
// /usr/share or ~/.local/share. They follow from the commands.
func pages(data string) ([]install.File, error) {
	var files []install.File
	add := func(dir, name, what string, write func(*bytes.Buffer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		files = append(files, install.File{Path: filepath.Join(data, dir, name), What: what, Mode: 0o644, Content: b.Bytes()})
		return nil
	}
	root := (&app{getenv: func(string) string { return "" }}).root()
	for _, shell := range []struct {
		dir, name, what string
		write           func(*bytes.Buffer) error
	}{
		{"bash-completion/completions", "sessiondock", "completion for bash", func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) }},
		{"zsh/site-functions", "_sessiondock", "completion for zsh", func(b *bytes.Buffer) error { return root.GenZshCompletion(b) }},
		{"fish/vendor_completions.d", "sessiondock.fish", "completion for fish", func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) }},
	} {
		if err := add(shell.dir, shell.name, shell.what, shell.write); err != nil {
			return nil, err
		}
	}
	date := builtAt()
	root.DisableAutoGenTag = true
	var visit func(c *cobra.Command) error
	visit = func(c *cobra.Command) error {
		// A name with the section: bare topics of help are pages too.
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		err := add("man/man1", name, "manual page", func(b *bytes.Buffer) error {
			return doc.GenMan(c, &doc.GenManHeader{Section: "1", Source: "SessionDock", Manual: "SessionDock", Date: &date}, b)
		})
		if err != nil {
			return err
		}
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "help" {
				continue
			}
			if err := visit(sub); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(root); err != nil {
		return nil, err
	}
	return files, add("man/man1", "sessiondockd.1", "manual page", func(b *bytes.Buffer) error {
		_, err := b.Write(manifests.DaemonPage(date.Format("Jan 2006")))
		return err
	})
}

// builtAt dates the pages by the version they describe, so that the same version always
// gives the same bytes.
func builtAt() time.Time {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key != "vcs.time" {
				continue
			}
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				return t
			}
		}
	}
	return time.Unix(0, 0).UTC()
}
