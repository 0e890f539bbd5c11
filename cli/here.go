package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
)

// bindingHere finds the binding of the directory that one is in: the one that names this
// directory, or the nearest above it up to the root of the git worktree. It guesses
// nothing: none, or several, is refused with what there is.
func (a *app) bindingHere(ctx context.Context, door *client.Client) (core.BindingName, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", core.Refuse(core.CodeInvalid, "--binding is missing, and the working directory is not known: "+err.Error(), "give --binding BINDING")
	}
	here = resolved(here)
	all, err := door.Bindings(ctx)
	if err != nil {
		return "", err
	}
	root := worktreeRoot(here)
	found := bindingsOf(all, here, root)
	switch len(found) {
	case 1:
		a.say("binding %s, of %s", found[0].Name, found[0].Worktree)
		return found[0].Name, nil
	case 0:
		where := here
		if root != "" {
			where = "the worktree " + root
		}
		return "", core.Refuse(core.CodeInvalid, "--binding is missing, and no binding is for "+where+siblingsText(all, root),
			"give --binding BINDING, or make one for it: sessiondock bind NAME --slot SLOT --worktree "+cmp.Or(root, here))
	}
	names := make([]string, len(found))
	for i, b := range found {
		names[i] = string(b.Name)
	}
	return "", core.Refuse(core.CodeInvalid, fmt.Sprintf("--binding is missing, and %d bindings are for %s: %s", len(found), found[0].Worktree, strings.Join(names, ", ")),
		"give --binding with one of them")
}

// bindingsOf are the bindings whose worktree is the directory here or the nearest above
// it, no higher than root, the git worktree's; without one it is here itself.
func bindingsOf(all []core.Binding, here, root string) []core.Binding {
	for dir := here; ; dir = filepath.Dir(dir) {
		var found []core.Binding
		for _, b := range all {
			if !b.Removed && b.Worktree != "" && resolved(b.Worktree) == dir {
				found = append(found, b)
			}
		}
		if len(found) > 0 || root == "" || dir == root || dir == filepath.Dir(dir) {
			return found
		}
	}
}

// siblingsText tells the bindings of the repository's other worktrees.
func siblingsText(all []core.Binding, root string) string {
	var lines []string
	for _, tree := range worktrees(root) {
		if tree == root {
			continue
		}
		for _, b := range bindingsOf(all, tree, tree) {
			lines = append(lines, fmt.Sprintf("%s is for %s", b.Name, tree))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "; of the same repository: " + strings.Join(lines, ", ")
}

// resolved is a path without links, or the path itself if it cannot be looked at.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// worktreeRoot is the root of the git worktree that a directory lies in, "" if in none.
// It has .git in it: a directory, or, of a linked worktree, a file.
func worktreeRoot(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// worktrees are the roots of all worktrees of a repository, by the files in which git
// keeps them (gitrepository-layout): a linked one has a file .git that names its directory
// below the repository's worktrees/, and that has the file gitdir that names the former.
func worktrees(root string) []string {
	if root == "" {
		return nil
	}
	repository := filepath.Join(root, ".git")
	if fi, err := os.Stat(repository); err == nil && !fi.IsDir() {
		own, ok := strings.CutPrefix(line(repository), "gitdir: ")
		if !ok {
			return nil
		}
		own = from(root, own)
		repository = from(own, cmp.Or(line(filepath.Join(own, "commondir")), "../.."))
	}
	var roots []string
	if filepath.Base(repository) == ".git" {
		roots = append(roots, resolved(filepath.Dir(repository))) // else it is bare
	}
	linked, _ := filepath.Glob(filepath.Join(repository, "worktrees", "*", "gitdir"))
	for _, file := range linked {
		if at := line(file); at != "" {
			roots = append(roots, resolved(filepath.Dir(from(filepath.Dir(file), at))))
		}
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}

// line is a small file's one line, "" if it cannot be read.
func line(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
