package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
)

// tree is everything below a directory: paths with modes, and contents or targets.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(body)
		case info.Mode().Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " -> " + to
		}
		rel, err := filepath.Rel(root, path)
		all[rel] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t *testing.T, what, root string, want map[string]string) {
	t.Helper()
	if d := cmp.Diff(want, tree(t, root)); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

// home is a home directory with something in it already.
func home(t *testing.T) (root, state string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{"notes": "mine", "bin/other": "other", "config/app/settings": "x"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root, filepath.Join(root, "state", "sessiondock")
}

func files(root, version string) []File {
	return []File{
		{Path: filepath.Join(root, "bin", "sessiondock"), What: "program", Mode: 0o755, Content: []byte("program " + version)},
		{Path: filepath.Join(root, "config", "units", "a.socket"), What: "unit", Mode: 0o644, Content: []byte("unit")},
		{Path: filepath.Join(root, "config", "units", "wants", "a.socket"), What: "link", Link: "../a.socket"},
		{Path: filepath.Join(root, "share", "man", version), What: "page", Mode: 0o644, Content: []byte("page " + version)},
	}
}

func apply(t *testing.T, state, build string, files []File) *Plan {
	t.Helper()
	p, err := Make(state, build, files)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func remove(t *testing.T, state string) *Removal {
	t.Helper()
	m, err := Unmake(state)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Apply(nil); err != nil {
		t.Fatal(err)
	}
	return m
}

func refused(t *testing.T, err error, code core.Code, says string) {
	t.Helper()
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Message, says) {
		t.Errorf("want %s %q, got %v", code, says, err)
	}
}

// TestAHomeIsAsItWas: install, again, an upgrade, and the end, file by file.
func TestAHomeIsAsItWas(t *testing.T) {
	root, state := home(t)
	before := tree(t, root)
	p := apply(t, state, "1", files(root, "1"))
	if !p.Changes() || strings.Count(p.String(), "add ") != 4 {
		t.Errorf("the plan:\n%s", p)
	}
	once := tree(t, root)
	if got := once["bin/sessiondock"]; got != "-rwxr-xr-x program 1" {
		t.Errorf("the program: %q", got)
	}
	for path := range once {
		if strings.Contains(path, ".sessiondock-") {
			t.Errorf("left behind: %s", path)
		}
	}

	p, err := Make(state, "1", files(root, "1"))
	if err != nil || p.Changes() {
		t.Errorf("again: %v\n%s", err, p)
	}
	receipt := filepath.Join("state", "sessiondock", receiptFile)
	if err := p.Apply(nil); err != nil {
		t.Fatal(err)
	}
	again := tree(t, root)
	delete(once, receipt)
	delete(again, receipt)
	if d := cmp.Diff(once, again); d != "" {
		t.Errorf("a second installation changed: %s", d)
	}

	p = apply(t, state, "2", files(root, "2"))
	var did []string
	for _, s := range p.Steps {
		did = append(did, string(s.Do))
	}
	if want := []string{"replace", "keep", "keep", "add", "remove"}; !slices.Equal(did, want) {
		t.Errorf("an upgrade does %v, want %v", did, want)
	}
	now := tree(t, root)
	if now["bin/sessiondock"] != "-rwxr-xr-x program 2" || now["share/man/1"] != "" || now["share/man/2"] == "" {
		t.Errorf("after the upgrade: %v", now)
	}
	if r, err := Read(state); err != nil || r.State != installed || r.Build != "2" || r.Previous != nil || len(r.Files) != 4 {
		t.Errorf("the receipt: %+v, %v", r, err)
	}

	if m := remove(t, state); len(m.Remove) != 4 || len(m.Leave) != 0 {
		t.Errorf("removed %+v", m)
	}
	same(t, "after the end", root, before)
	_, err = Unmake(state)
	refused(t, err, core.CodeNotFound, "nothing was installed")
}

// TestWhatIsNotOursStays: a stranger's file stops an installation, and what a person
// changed is neither replaced nor removed.
func TestWhatIsNotOursStays(t *testing.T) {
	root, state := home(t)
	path := filepath.Join(root, "bin", "sessiondock")
	if err := os.WriteFile(path, []byte("somebody's"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	_, err := Make(state, "1", files(root, "1"))
	refused(t, err, core.CodeConflict, "was not installed by this program")
	same(t, "after a refusal", root, before)

	// The very content that we would write, and not ours all the same.
	if err := os.WriteFile(path, []byte("program 1"), 0o755); err != nil {
		t.Fatal(err)
	}
	apply(t, state, "1", files(root, "1"))
	remove(t, state)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("a file that was there before is gone: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}

	apply(t, state, "1", files(root, "1"))
	unit := filepath.Join(root, "config", "units", "a.socket")
	if err := os.WriteFile(unit, []byte("mine now"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Make(state, "2", files(root, "2"))
	refused(t, err, core.CodeConflict, "was changed since it was installed")
	if m := remove(t, state); !slices.Equal(m.Leave, []string{unit}) {
		t.Errorf("left: %v", m.Leave)
	}
	if text, err := os.ReadFile(unit); err != nil || string(text) != "mine now" {
		t.Errorf("the changed file: %s, %v", text, err)
	}
}

// TestNothingIsHalfInstalled: whatever fails, and wherever, everything is as before.
func TestNothingIsHalfInstalled(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("as root nothing is read-only; the tests of the program run as an ordinary user")
	}
	obstruct := map[string]func(root string, p *Plan) error{
		"a check that fails": nil,
		"a file where a directory must be": func(root string, p *Plan) error {
			return os.WriteFile(filepath.Join(root, "share"), []byte("x"), 0o644)
		},
		"a directory at a file's place": func(root string, p *Plan) error {
			return os.MkdirAll(filepath.Join(root, "share", "man", "2", "x"), 0o755)
		},
	}
	for name, how := range obstruct {
		for _, upgrade := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, upgrade %v", name, upgrade), func(t *testing.T) {
				root, state := home(t)
				if upgrade {
					apply(t, state, "1", files(root, "1")[:3])
				}
				p, err := Make(state, "2", files(root, "2"))
				if err != nil {
					t.Fatal(err)
				}
				if how != nil {
					if err := how(root, p); err != nil {
						t.Fatal(err)
					}
				}
				before := tree(t, root)
				var check func() error
				if how == nil {
					check = func() error {
						if _, err := os.Stat(filepath.Join(root, "bin", "sessiondock")); err != nil {
							t.Error("the check comes before the files")
						}
						return core.Refuse(core.CodeUnavailable, "it does not start", "")
					}
				}
				err = p.Apply(check)
				if err == nil || !strings.Contains(err.Error(), "nothing was installed or changed") {
					t.Errorf("the error: %v", err)
				}
				same(t, "after the failure", root, before)
			})
		}
	}
}

// TestCutShortAtEachStep: the program is ended after any write, and the next one goes
// back to what was before.
func TestCutShortAtEachStep(t *testing.T) {
	for _, upgrade := range []bool{false, true} {
		for step := range 40 {
			root, state := home(t)
			if upgrade {
				apply(t, state, "1", files(root, "1"))
			}
			before := tree(t, root)
			p, err := Make(state, "2", files(root, "2"))
			if err != nil {
				t.Fatal(err)
			}
			if cut(t, p, step) {
				break // every step was taken
			}
			if _, err := Make(state, "2", files(root, "2")); !errors.Is(err, errInterrupted) && err != nil {
				t.Errorf("step %d: Make: %v", step, err)
			}
			if _, err := Recover(state); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			// Directories for the receipt itself are made before there is one.
			if !upgrade {
				removeDirs([]string{filepath.Join(root, "state"), state})
			}
			same(t, fmt.Sprintf("upgrade %v, step %d", upgrade, step), root, before)
		}
	}
}

// cut carries out the first steps of Apply, by the same functions, and stops dead. It
// says whether there were fewer.
func cut(t *testing.T, p *Plan, steps int) bool {
	t.Helper()
	made, err := makeDirs(p.dir, 0o700, nil)
	must(t, err)
	r := &Receipt{Schema: schema, State: applying, Build: p.build, Files: p.entries, Previous: p.previous, Dirs: made}
	if p.previous != nil {
		r.Dirs = p.previous.Dirs
	}
	must(t, r.write(p.dir))
	all := p.Steps
	for i := range all {
		if steps == 0 {
			return false
		}
		steps--
		p.Steps = all[i : i+1]
		must(t, p.stage(r))
	}
	for i := range all {
		if steps == 0 {
			return false
		}
		steps--
		p.Steps = all[i : i+1]
		must(t, p.commit())
	}
	return steps > 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTwoInstallationsAtATime(t *testing.T) {
	root, state := home(t)
	p, err := Make(state, "1", files(root, "1"))
	must(t, err)
	err = p.Apply(func() error {
		second, err := Make(t.TempDir(), "1", nil)
		must(t, err)
		second.dir = state
		refused(t, second.Apply(nil), core.CodeConflict, "under way")
		return nil
	})
	must(t, err)
}

// TestAPlanThatWasOvertaken: what another installation did meanwhile is not undone.
func TestAPlanThatWasOvertaken(t *testing.T) {
	root, state := home(t)
	old, err := Make(state, "1", files(root, "1"))
	must(t, err)
	apply(t, state, "2", files(root, "2"))
	gone, err := Unmake(state)
	must(t, err)
	before := tree(t, root)
	refused(t, old.Apply(nil), core.CodeConflict, "meanwhile")
	same(t, "after a late plan", root, before)
	apply(t, state, "3", files(root, "3"))
	before = tree(t, root)
	refused(t, gone.Apply(nil), core.CodeConflict, "meanwhile")
	same(t, "after a late removal", root, before)

	// One that is under way is not one that was cut short.
	unlock, err := lock(state)
	must(t, err)
	_, err = Recover(state)
	refused(t, err, core.CodeConflict, "under way")
	unlock()
	undone, err := Recover(state)
	if err != nil || undone {
		t.Errorf("undone %v, %v", undone, err)
	}
}

// TestFormerFilesAreLeft: a power cut before the former files are removed, or a
// directory that does not let them go, costs neither version.
func TestFormerFilesAreLeft(t *testing.T) {
	root, state := home(t)
	apply(t, state, "1", files(root, "1"))
	p, err := Make(state, "2", files(root, "2"))
	must(t, err)
	stuck := beside(filepath.Join(root, "bin", "sessiondock"), "old")
	must(t, p.Apply(func() error {
		return errors.Join(os.Remove(stuck), os.MkdirAll(filepath.Join(stuck, "x"), 0o700))
	}))
	if p.Left == nil || !strings.Contains(p.Left.Error(), stuck) {
		t.Errorf("told: %v", p.Left)
	}
	r, err := Read(state)
	if err != nil || r.State != installed || r.Build != "2" || !slices.Contains(r.Left, stuck) {
		t.Fatalf("the receipt: %+v, %v", r, err)
	}
	// As after a power cut: the former program beside the present one.
	must(t, errors.Join(os.RemoveAll(stuck), os.WriteFile(stuck, []byte("program 1"), 0o755)))
	p, err = Make(state, "3", files(root, "3"))
	must(t, err)
	if err := p.Apply(func() error { return errors.New("it does not start") }); err == nil {
		t.Error("a check that fails is no error")
	}
	now := tree(t, root)
	if now["bin/sessiondock"] != "-rwxr-xr-x program 2" || now["share/man/2"] == "" {
		t.Errorf("after a failure that changed nothing: %v", now)
	}
	must(t, os.WriteFile(stuck, []byte("program 1"), 0o755))
	remove(t, state)
	for path := range tree(t, root) {
		if strings.Contains(path, ".sessiondock-") {
			t.Errorf("left behind: %s", path)
		}
	}
}

func TestReceiptsOfOthersAreNotTouched(t *testing.T) {
	_, state := home(t)
	must(t, os.MkdirAll(state, 0o700))
	for _, text := range []string{"{", `{"schema":"sessiondock-install/9"}`} {
		must(t, os.WriteFile(filepath.Join(state, receiptFile), []byte(text), 0o600))
		_, err := Make(state, "1", nil)
		refused(t, err, core.CodeInvalid, "not a receipt")
		_, err = Unmake(state)
		refused(t, err, core.CodeInvalid, "not a receipt")
	}
}

// TestBrowsersOfAPerson: a manifest goes where the browser looks, names the host by a
// path without a version, and a browser that could not use it is refused.
func TestBrowsersOfAPerson(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	program := func(name, text string) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	_, err := ManifestFiles([]string{"opera"}, dir, "/h", "id")
	refused(t, err, core.CodeInvalid, "no browser \"opera\"")
	_, err = ManifestFiles([]string{"brave"}, dir, "/h", "id")
	refused(t, err, core.CodeNotFound, "brave is not installed")
	program("chromium", "#!/bin/sh\nexec /snap/bin/chromium\n")
	_, err = ManifestFiles([]string{"chromium"}, dir, "/h", "id")
	refused(t, err, core.CodeUnavailable, "snap")
	for _, name := range []string{"chromium-browser", "google-chrome-stable", "brave-browser", "microsoft-edge"} {
		program(name, "ELF")
	}
	got, err := ManifestFiles([]string{"chromium", "chrome", "brave", "edge", "edge"}, "/c", "/b/sessiondock-host", "abc")
	must(t, err)
	var paths []string
	for _, f := range got {
		paths = append(paths, f.Path)
		if !strings.Contains(string(f.Content), `"/b/sessiondock-host"`) || !strings.Contains(string(f.Content), "chrome-extension://abc/") {
			t.Errorf("%s: %s", f.Path, f.Content)
		}
	}
	want := []string{
		"/c/chromium/NativeMessagingHosts/dev.sessiondock.host.json",
		"/c/google-chrome/NativeMessagingHosts/dev.sessiondock.host.json",
		"/c/BraveSoftware/Brave-Browser/NativeMessagingHosts/dev.sessiondock.host.json",
		"/c/microsoft-edge/NativeMessagingHosts/dev.sessiondock.host.json",
	}
	if d := cmp.Diff(want, paths); d != "" {
		t.Error(d)
	}
}

func TestUnits(t *testing.T) {
	paths := client.Paths{Runtime: "/run/user/7/sessiondock"}
	env := map[string]string{"XDG_DATA_HOME": "/elsewhere", "XDG_CACHE_HOME": "relative"}
	got, err := UnitFiles(paths, "/home/a b/bin", "/c", func(k string) string { return env[k] })
	must(t, err)
	text := ""
	for _, f := range got {
		text += f.Path + " " + f.Link + "\n" + string(f.Content) + "\n"
	}
	for _, want := range []string{
		"ListenStream=/run/user/7/sessiondock/control.sock", "ListenStream=/run/user/7/sessiondock/api/api.sock", "ListenStream=/run/user/7/sessiondock/host.sock",
		`ExecStart="/home/a b/bin/sessiondockd"`, `Environment="XDG_DATA_HOME=/elsewhere"`,
		"/c/systemd/user/sockets.target.wants/sessiondock.socket ../sessiondock.socket",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "relative") {
		t.Error("a variable that counts as unset is passed on")
	}
}

func TestUnitsOfAPackage(t *testing.T) {
	got, err := PackageUnits("/usr/bin")
	must(t, err)
	text := ""
	for _, f := range got {
		text += f.Path + "\n" + string(f.Content) + "\n"
	}
	for _, want := range []string{
		"/usr/lib/systemd/user/sessiondock.socket", "ListenStream=%t/sessiondock/control.sock", "ListenStream=%t/sessiondock/api/api.sock",
		`ExecStart="/usr/bin/sessiondockd"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
