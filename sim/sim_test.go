package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func forTest(t *testing.T) *script {
	t.Helper()
	program, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newScript(program)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inputs are the names of all inputs of the core, from its source: those for which the
// interface's method is declared.
func inputs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../daemon/core/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "input" && fn.Recv != nil {
				names = append(names, fn.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	if len(names) < 30 {
		t.Fatalf("only %d inputs found: %v", len(names), names)
	}
	return names
}

// TestEveryInputIsIssued plays schedules until each input of the core has been decided
// on, and in more than one state of its slot.
func TestEveryInputIsIssued(t *testing.T) {
	s, count := forTest(t), newCounts()
	var missing []string
	for seed := range uint64(4000) {
		if err := play(seed, s, count, nil); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if seed%50 != 49 {
			continue
		}
		missing = slices.DeleteFunc(inputs(t), func(name string) bool {
			return len(count.grid[name]) >= 2 || never[name] != ""
		})
		if len(missing) == 0 {
			return
		}
	}
	t.Errorf("not issued in two states within %d schedules: %v. Give each a row in rows.go, or its reason in never", count.schedules, missing)
}

// TestASeedReproduces plays one schedule twice, in an engine that has played others in
// between: the transcripts are the same to the letter.
func TestASeedReproduces(t *testing.T) {
	s := forTest(t)
	transcript := func(seed uint64) string {
		var text strings.Builder
		if err := play(seed, s, newCounts(), &text); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		return text.String()
	}
	for seed := range uint64(20) {
		first := transcript(seed)
		transcript(seed + 1000)
		if again := transcript(seed); again != first {
			t.Fatalf("seed %d: %d bytes, then %d, and they differ", seed, len(first), len(again))
		}
		if len(first) < 1000 {
			t.Errorf("seed %d: nothing happened:\n%s", seed, first)
		}
	}
}

// TestTheSeamIsWhole: what browser.js gives the worker in Chromium, the seam gives it
// here.
func TestTheSeamIsWhole(t *testing.T) {
	member := regexp.MustCompile(`(?m)^  (?:async )?([a-zA-Z]+)[:(]`)
	real, err := os.ReadFile("../extension/browser.js")
	if err != nil {
		t.Fatal(err)
	}
	here, err := seam.ReadFile("seam.js")
	if err != nil {
		t.Fatal(err)
	}
	found := member.FindAllSubmatch(real, -1)
	if len(found) < 25 {
		t.Fatalf("only %d members of browser.js found", len(found))
	}
	for _, m := range found {
		if name := string(m[1]); name != "connectWorker" && !regexp.MustCompile(`(?m)^    `+name+`[:(,]`).Match(here) {
			t.Errorf("seam.js has no %s", name)
		}
	}
}

// TestWhatIsPlantedFits: each deliberate fault replaces a text that stands exactly once
// in its file. A change of the product moves the fault with it, or takes it out of the
// table on purpose.
func TestWhatIsPlantedFits(t *testing.T) {
	if len(plants) < 20 {
		t.Errorf("only %d faults are planted", len(plants))
	}
	for _, p := range plants {
		body, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(p.file)))
		if err != nil {
			t.Error(err)
			continue
		}
		if n := bytes.Count(body, []byte(p.old)); n != 1 {
			t.Errorf("%s: %s: the text to be replaced stands there %d times: %q", p.file, p.why, n, p.old)
		}
	}
}
