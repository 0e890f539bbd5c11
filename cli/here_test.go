package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// TestBindingsOfWorktrees asks git itself for a repository with worktrees, one of them
// inside the main one.
func TestBindingsOfWorktrees(t *testing.T) {
	dir := resolved(t.TempDir())
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@a.example", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	main := filepath.Join(dir, "shop")
	git("init", "-q", main)
	git("-C", main, "commit", "-q", "--allow-empty", "-m", "first")
	inner, beside := filepath.Join(main, "trees", "fix"), filepath.Join(dir, "feature")
	git("-C", main, "worktree", "add", "-q", inner)
	git("-C", main, "worktree", "add", "-q", beside)
	deep := filepath.Join(beside, "cmd", "shop")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(beside, link); err != nil {
		t.Fatal(err)
	}

	for _, from := range []string{main, inner, beside} {
		got := worktrees(from)
		if want := []string{beside, main, inner}; !slices.Equal(got, want) {
			t.Errorf("from %s: %q, want %q", from, got, want)
		}
	}
	if got := worktreeRoot(deep); got != beside {
		t.Errorf("the root of %s is %s", deep, got)
	}

	bound := func(name, dir string, removed bool) core.Binding {
		b := core.Binding{Removed: removed}
		b.Name, b.Worktree = core.BindingName(name), dir
		return b
	}
	all := []core.Binding{bound("main", main, false), bound("feature", link, false), bound("former", inner, true), bound("cmd-1", filepath.Join(main, "cmd"), false), bound("nowhere", "", false)}
	for here, want := range map[string]string{
		main:                            "main",
		filepath.Join(main, "docs"):     "main",
		filepath.Join(main, "cmd"):      "cmd-1",
		deep:                            "feature", // named by a link
		inner:                           "",        // a worktree of its own, not the one around it
		filepath.Join(inner, "x"):       "",
		dir:                             "",
		filepath.Join(main, "cmd", "x"): "cmd-1",
	} {
		var names []string
		for _, b := range bindingsOf(all, here, worktreeRoot(here)) {
			names = append(names, string(b.Name))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("in %s: %q, want %q", here, got, want)
		}
	}
	if got := siblingsText(all, inner); !strings.Contains(got, "feature is for "+beside) || !strings.Contains(got, "main is for "+main) {
		t.Errorf("what else there is: %q", got)
	}
	two := append(all, bound("second", beside, false))
	if got := bindingsOf(two, deep, beside); len(got) != 2 {
		t.Errorf("two bindings of one worktree: %d", len(got))
	}
}
