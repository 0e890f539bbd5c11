// Package sessiondock_test checks the shape of the module as a whole: which way
// imports run, who may use what, and that every package says what it is for.
package sessiondock_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "sessiondock.dev/sessiondock"

// arrow says which packages of this module a package's own files may import, and
// why no others. Tests of a package may import more: they put parts together.
type arrow struct {
	from string
	to   []string
	why  string
}

// arrows has a row for every package.
var arrows = []arrow{
	{"daemon/core", nil,
		"the authority is pure: whatever it imported could bring a clock, I/O or another's decision into it"},
	{"daemon/wire", []string{"daemon/core"},
		"the protocol names the authority's words and decides nothing; a part that it knew could not be replaced"},
	{"daemon/wire/gen", []string{"daemon/core", "daemon/wire"},
		"what is generated follows from the protocol alone"},
	{"daemon/peer", []string{"daemon/core"},
		"who a peer is comes from the kernel; what it may do is decided elsewhere"},
	{"daemon/stream", nil,
		"it moves bytes; what they are is not its business"},
	{"daemon/chromium", []string{"daemon/core"},
		"what a browser is and can do is the same for the daemon, the installer and doctor, whoever asks"},
	{"daemon/supervise", []string{"daemon/chromium", "daemon/core", "daemon/peer", "manifests"},
		"it starts and ends browsers; if it saw leases or the store it could decide who uses one"},
	{"daemon/engine/enginetest", []string{"daemon/core", "daemon/engine", "daemon/peer", "daemon/supervise", "store"},
		"it puts a real engine on a real store for the tests of its neighbours, and is in no program"},
	{"daemon/failpoint", nil,
		"it is nothing in what is shipped, and there must be nothing that it could do there"},
	{"daemon/fence", []string{"daemon/core"},
		"it issues numbers and decides nothing; with a clock or a disk in it a takeover could wait for one"},
	{"daemon/engine", []string{"daemon/core", "daemon/failpoint", "daemon/fence", "daemon/supervise"},
		"the one writer is given its store, its links and its supervisor; it knows no transport and no database"},
	{"daemon/heard", []string{"daemon/core", "daemon/wire"},
		"it translates words; whatever else it knew could colour what was said"},
	{"daemon/hostlink", []string{"daemon/core", "daemon/engine", "daemon/failpoint", "daemon/heard", "daemon/peer", "daemon/stream", "daemon/supervise", "daemon/wire"},
		"a link passes frames on, and asks the supervisor whether a peer belongs to the launch; it may not read the store or serve the API"},
	{"daemon/cdp", []string{"daemon/core", "daemon/engine", "daemon/wire"},
		"a DevTools client's commands are actions asked of the engine; with a link or the store in reach it would be a way round the gates"},
	{"daemon/api", []string{"daemon/core", "daemon/engine", "daemon/peer", "daemon/stream", "daemon/wire"},
		"a handler asks the engine; a handler that reached the store or a browser would go round the authority"},
	{"daemon/client", []string{"daemon/core", "daemon/stream", "daemon/wire"},
		"a client knows the protocol only, so that it works against any daemon that speaks it"},
	{"daemon", []string{"daemon/api", "daemon/cdp", "daemon/client", "daemon/core", "daemon/engine", "daemon/failpoint", "daemon/hostlink", "daemon/peer",
		"daemon/supervise", "daemon/wire", "daemon/chromium", "extension", "extension/packed", "manifests", "store"},
		"it wires the parts and is the only one that sees the store; of the client it uses the paths"},
	{"store", []string{"daemon/core"},
		"it keeps the authority's entities and knows nothing of who asks for them"},
	{"manifests", nil,
		"templates and their rendering depend on nothing that could change what is installed"},
	{"extension", nil,
		"it holds the extension's files and their hash; what it imported would be built into what a page can meet"},
	{"extension/bundle", nil,
		"what it makes follows from the modules alone"},
	{"extension/packed", []string{"daemon/chromium", "extension", "manifests"},
		"it signs what the extension is and keeps it; who installs it, and where, is not its matter"},
	{"host/native", []string{"daemon/core", "daemon/stream", "daemon/wire"},
		"framing knows messages, not actions"},
	{"host/act", []string{"daemon/core", "daemon/wire"},
		"an executor holds no authority: it is told what to do, and each step passes the gate"},
	{"host/gate", []string{"daemon/core"},
		"a gate that knew more than an epoch could be talked into something"},
	{"host", []string{"daemon/client", "daemon/core", "daemon/peer", "daemon/stream", "daemon/wire", "host/act", "host/gate", "host/native"},
		"the broker relays; with the engine or the store in it, it could decide. Of the client it uses the paths"},
	{"install", []string{"daemon/chromium", "daemon/client", "daemon/core", "manifests"},
		"it puts files in their places and takes them away; the daemon is known to it by its paths alone"},
	{"install/doctor", []string{"daemon/chromium", "daemon/client", "daemon/core", "daemon/wire", "extension", "install", "manifests"},
		"it looks and changes nothing; of the daemon it asks what anybody may ask"},
	{"cli", []string{"cli/confine", "cli/demo", "cli/mcp", "daemon/chromium", "daemon/client", "daemon/core", "daemon/peer", "daemon/wire", "extension", "extension/packed", "install", "install/doctor", "manifests"},
		"the command line has one door, the API; anything else would be a second authority. Installer and doctor look at files besides, and run at the processes below it"},
	{"cli/confine", []string{"daemon/core"},
		"it becomes the agent's command: whatever it could ask for, the command could"},
	{"cli/demo", []string{"daemon/client", "daemon/core", "daemon/wire"},
		"the demonstration shows what a user can do, through the door that a user has"},
	{"cli/mcp", []string{"daemon/client", "daemon/core", "daemon/wire"},
		"an agent's tools are requests under its lease; with another door they could do what the lease may not"},
	{"sim/explore", []string{"daemon/core", "daemon/fence", "host/gate"},
		"it goes through every state of what decides; anything with a clock or a file in it would have more of them"},
	{"sim", []string{"daemon/core", "daemon/fence", "daemon/heard", "daemon/wire", "extension", "host/gate", "sim/explore"},
		"it runs what decides, as it ships, in a world of its own; with a clock, a disk or a socket of the product's no seed would reproduce"},
}

// arrowsOfTests are the folders that hold tests and measurements, which may put any
// parts together; nothing may import them but themselves.
var arrowsOfTests = []string{"e2e"}

// reserve keeps something from outside the module to the packages that exist for it.
type reserve struct {
	path string // the package, or a prefix that ends in "/"
	only []string
	why  string
}

var reserves = []reserve{
	{"modernc.org/sqlite", []string{"store"}, "one program, and one package of it, opens the database"},
	{"database/sql", []string{"store"}, "one program, and one package of it, opens the database"},
	{"github.com/chromedp/cdproto/", []string{"host/act"}, "a page is driven from the host only, where ending the process ends the work"},
	{"github.com/chromedp/chromedp", nil, "a debugging connection of its own is a way round the gates; tests alone may have one"},
	{"github.com/coder/websocket", []string{"daemon/cdp"}, "one package listens on the network, and says who may come"},
	{"github.com/coreos/go-systemd/", []string{"daemon", "daemon/supervise"}, "the service manager is the supervisor's"},
	{"github.com/godbus/dbus/", []string{"daemon/supervise"}, "D-Bus is how the supervisor talks to the service manager, and nothing else is said there"},
	{"github.com/go-json-experiment/json", []string{"daemon/api", "host"}, "messages are read by encoding/json; this one finds where the parts of one begin, and refuses what that lets pass"},
	{"github.com/spf13/cobra", []string{"cli", "cli/demo"}, "only the command line has a command line"},
	{"github.com/modelcontextprotocol/go-sdk/", []string{"cli", "cli/mcp"}, "the protocol of one kind of client stays at the edge"},
	{"github.com/landlock-lsm/go-landlock", []string{"cli/confine"}, "who gives up rights becomes somebody else: that is one program's end"},
	{"github.com/dop251/goja", []string{"sim"}, "the extension runs in a browser; only the simulation runs it elsewhere"},
	{"github.com/evanw/esbuild/", []string{"extension/bundle", "sim"}, "it bundles the worker before the extension is shipped, and for the simulation; nothing that a user runs needs it"},
	{"os/exec", []string{"daemon/chromium", "daemon", "daemon/supervise", "install", "install/doctor", "sim", "cli", "cli/demo"}, "who starts a process answers for its end"},
}

// impure is what package core must not import: each would make Step depend on more
// than its arguments.
var impure = []string{"time", "os", "io", "net", "context", "sync", "sync/atomic", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog", "syscall", "runtime"}

// source is one package's folder.
type source struct {
	dir         string
	imports     map[string]string // by its own files: path to file
	testImports map[string]string
	doc         map[string]bool // files with a package comment
}

func readSources(t *testing.T) []*source {
	t.Helper()
	byDir := map[string]*source{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || (d.Name() != "." && strings.HasPrefix(d.Name(), "."))) {
			return filepath.SkipDir
		}
		if dir := filepath.Dir(path); strings.HasSuffix(path, ".go") && dir != "." {
			if byDir[dir] == nil {
				byDir[dir] = &source{dir: dir, imports: map[string]string{}, testImports: map[string]string{}, doc: map[string]bool{}}
			}
			return byDir[dir].read(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []*source
	for _, s := range byDir {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *source) int { return strings.Compare(a.dir, b.dir) })
	if len(all) < 10 {
		t.Fatalf("only %d packages found: not at the module's root?", len(all))
	}
	return all
}

func (s *source) read(path string) error {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	to := s.imports
	if strings.HasSuffix(path, "_test.go") {
		to = s.testImports
	}
	for _, i := range f.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		to[name] = path
	}
	s.doc[filepath.Base(path)] = hasDoc(f)
	return nil
}

func hasDoc(f *ast.File) bool { return f.Doc != nil && len(f.Doc.Text()) > 40 }

func ofTests(dir string) bool {
	return slices.ContainsFunc(arrowsOfTests, func(top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") })
}

func TestImportsRunOneWay(t *testing.T) {
	for _, s := range readSources(t) {
		own := slices.IndexFunc(arrows, func(a arrow) bool { return a.from == s.dir })
		if own < 0 && !ofTests(s.dir) {
			t.Errorf("%s has no row in the table: say what it may import, and why no more", s.dir)
			continue
		}
		for path, file := range s.imports {
			to, ours := strings.CutPrefix(path, module+"/")
			if !ours || ofTests(s.dir) {
				continue
			}
			if !slices.Contains(arrows[own].to, to) {
				t.Errorf("%s imports %s, which %s may not: %s", file, to, s.dir, arrows[own].why)
			}
		}
	}
}

func TestTheTableNamesPackagesThatExist(t *testing.T) {
	var dirs []string
	for _, s := range readSources(t) {
		dirs = append(dirs, s.dir)
	}
	for _, a := range arrows {
		if !slices.Contains(dirs, a.from) {
			t.Errorf("the table has a row for %s, which does not exist", a.from)
		}
	}
}

func TestOutsidePackagesStayWithTheirOwner(t *testing.T) {
	for _, s := range readSources(t) {
		if ofTests(s.dir) {
			continue
		}
		for path, file := range s.imports {
			for _, r := range reserves {
				hit := path == r.path || strings.HasPrefix(path, strings.TrimSuffix(r.path, "/")+"/")
				if hit && !slices.Contains(r.only, s.dir) {
					t.Errorf("%s imports %s, which is kept to %v: %s", file, path, r.only, r.why)
				}
			}
		}
	}
}

func TestTheAuthorityIsPure(t *testing.T) {
	for _, s := range readSources(t) {
		if s.dir != "daemon/core" {
			continue
		}
		for _, path := range impure {
			if file, ok := s.imports[path]; ok {
				t.Errorf("%s imports %s: Step would depend on more than its arguments", file, path)
			}
		}
		return
	}
	t.Fatal("daemon/core was not found")
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, s := range readSources(t) {
		if len(s.imports) == 0 && len(s.doc) == 0 {
			continue
		}
		// Where a reader looks first: doc.go, or main.go of a program of one file.
		said := s.doc["doc.go"] || s.doc["main.go"]
		for _, here := range s.doc {
			said = said || (here && ofTests(s.dir))
		}
		if !said {
			t.Errorf("%s has no doc.go with a package comment", s.dir)
		}
	}
}
