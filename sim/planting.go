package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// planted is what became of one deliberate fault.
type planted struct {
	plant
	found     bool
	seed      uint64
	step      int64
	violation string
	tried     int64
}

// plantAll compiles the simulation once for each fault, with the one file replaced for
// the compiler alone, and plays schedules until the fault is found.
func plantAll(root string, which []plant, hunt func(p plant, binary string) (planted, error), noted func([]planted) error) ([]planted, error) {
	dir, err := os.MkdirTemp("", "sim-plant-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var all []planted
	for i, p := range which {
		begun := time.Now()
		binary, err := p.compile(root, filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.why, err)
		}
		out, err := hunt(p, binary)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.why, err)
		}
		all = append(all, out)
		if err := noted(all); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "planted %d of %d, %.0f s: %s: %s\n", i+1, len(which), time.Since(begun).Seconds(), p.why, out.violation)
	}
	return all, nil
}

// compile makes the simulation with the fault in it.
func (p plant) compile(root, dir string) (string, error) {
	source := filepath.Join(root, filepath.FromSlash(p.file))
	body, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(body, []byte(p.old)); n != 1 {
		return "", fmt.Errorf("%s has the text to be replaced %d times: %q", p.file, n, p.old)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	faulty := filepath.Join(dir, filepath.Base(p.file))
	if err := os.WriteFile(faulty, bytes.Replace(body, []byte(p.old), []byte(p.new), 1), 0o644); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: faulty}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o644); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "sim")
	build := exec.Command("go", "build", "-overlay", list, "-o", binary, "./sim")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %s", text)
	}
	return binary, nil
}

// hunt plays schedules until one shows the fault.
func (p plant) hunt(binary string, n int64, seed uint64) (planted, error) {
	out := planted{plant: p, tried: n}
	play := exec.Command(binary, "-quiet", "-plants", "none", "-n", fmt.Sprint(n), "-seed", fmt.Sprint(seed))
	var text, problems bytes.Buffer
	play.Stdout, play.Stderr = &text, &problems
	failed := play.Run()
	for line := range strings.Lines(text.String()) {
		var f found
		if strings.HasPrefix(line, `{"seed"`) && json.Unmarshal([]byte(line), &f) == nil {
			out.found, out.seed, out.step, out.violation = true, f.Seed, f.Step, f.Violation
			out.tried = int64(f.Seed-seed) + 1
			break
		}
	}
	if failed != nil && !out.found {
		return out, fmt.Errorf("%w: %s", failed, problems.String())
	}
	return out, nil
}

// table writes what was planted, and which seed shows it, as Markdown.
func table(out io.Writer, all []planted) (caught int) {
	fmt.Fprintf(out, "| file | fault | rule | found by seed | step | schedules | what was seen |\n|---|---|---|---:|---:|---:|---|\n")
	for _, p := range all {
		found := fmt.Sprintf("**not found** | | %d | ", p.tried)
		if p.found {
			caught++
			rule, seen, _ := strings.Cut(p.violation, ": ")
			if rule != p.breaks {
				seen = rule + ": " + seen
			}
			found = fmt.Sprintf("%d | %d | %d | %s", p.seed, p.step, p.tried, strings.ReplaceAll(seen, "|", "\\|"))
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", p.file, p.why, p.breaks, found)
	}
	return caught
}
