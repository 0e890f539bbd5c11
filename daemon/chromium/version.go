package chromium

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MinMajor is the oldest version in which the extension runs: its manifest says the
// same.
const MinMajor = 120

// Version is what a browser says of itself.
type Version struct {
	Text   string // "Chromium 156.0.8078.108 built on Debian ..."; empty if it does not say
	Name   string // "Chromium"
	Number string // "156.0.8078.108"
	Major  int    // 156
}

// family are the browsers that are known: where each reads its policies, and whether
// it has given up loading an unpacked extension from its command line. The longer
// name stands before one that begins it.
var family = []struct {
	name, etc string
	branded   bool
}{
	{"Chromium", "/etc/chromium", false},
	{"Google Chrome for Testing", "/etc/opt/chrome_for_testing", false},
	{"Google Chrome", "/etc/opt/chrome", true},
	{"Brave Browser", "/etc/brave", true},
	{"Brave", "/etc/brave", true},
	{"Microsoft Edge", "/etc/opt/edge", true},
}

// ParseVersion reads what a browser prints for --version.
func ParseVersion(text string) Version {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	v := Version{Text: strings.TrimSpace(line[:min(len(line), 200)])}
	for _, f := range family {
		if rest, ok := strings.CutPrefix(v.Text, f.name+" "); ok {
			v.Name = f.name
			v.Number, _, _ = strings.Cut(rest, " ")
			break
		}
	}
	major, _, _ := strings.Cut(v.Number, ".")
	if n, err := strconv.Atoi(major); err == nil {
		v.Major = n
	}
	return v
}

// Known says whether it is a browser of the family, with its version.
func (v Version) Known() bool { return v.Major > 0 }

// TooOld says whether the extension does not run in it. Of an unknown browser nothing
// is said.
func (v Version) TooOld() bool { return v.Known() && v.Major < MinMajor }

// Branded browsers load no unpacked extension: with them only the packed one is left.
func (v Version) Branded() bool {
	for _, f := range family {
		if f.name == v.Name {
			return f.branded
		}
	}
	return false
}

// Etc is the directory below which it reads its policies and the system's native
// messaging hosts; empty if that is not known.
func (v Version) Etc() string {
	for _, f := range family {
		if f.name == v.Name {
			return f.etc
		}
	}
	return ""
}

// UserAgent is what the browser says with a window, and "" if it is not known: without
// a window it says HeadlessChrome, at which sites refuse a sign-in. Chromium shows the
// same platform and no more than the major version on every Linux.
func (v Version) UserAgent() string {
	if !v.Known() {
		return ""
	}
	return fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36", v.Major)
}

// Versions remembers what browsers say of themselves, in memory and in a file, because
// asking costs some 200 ms and a launch waits for it. A browser whose files changed is
// asked again.
type Versions struct {
	File string // "" keeps nothing across daemons

	mu    sync.Mutex
	known answer
}

// answer is the content of the file.
type answer struct {
	Of   string `json:"of"` // path, size and time of the program that was asked
	Text string `json:"text"`
}

// askWithin bounds the question.
const askWithin = 5 * time.Second

// Of asks the browser at path, which is one that Find returned.
func (v *Versions) Of(ctx context.Context, path string) Version {
	of := fingerprint(path)
	if of == "" {
		return Version{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known.Of == "" && v.File != "" {
		if text, err := os.ReadFile(v.File); err != nil || json.Unmarshal(text, &v.known) != nil {
			v.known = answer{}
		}
	}
	if v.known.Of == of {
		return ParseVersion(v.known.Text)
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Version{}
	}
	got := ParseVersion(string(out))
	v.known = answer{of, got.Text}
	v.keep()
	return got
}

// keep writes the answer down. Where it cannot, the next daemon asks again.
func (v *Versions) keep() {
	if v.File == "" {
		return
	}
	text, err := json.Marshal(v.known)
	if err != nil || os.MkdirAll(filepath.Dir(v.File), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(v.File), ".browser-*")
	if err != nil {
		return
	}
	_, err = f.Write(text)
	if f.Close() != nil || err != nil || os.Rename(f.Name(), v.File) != nil {
		os.Remove(f.Name())
	}
}

// fingerprint changes when a browser is replaced. The program in PATH is often a
// script that no update touches, so the programs that such scripts start are looked
// at too.
func fingerprint(path string) string {
	var b strings.Builder
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	base := filepath.Base(path)
	for _, p := range []string{real, "/usr/lib/" + base + "/" + base, "/usr/lib64/" + base + "/" + base, filepath.Join(filepath.Dir(real), "chrome")} {
		if st, err := os.Stat(p); err == nil {
			fmt.Fprint(&b, p, " ", st.Size(), " ", st.ModTime().UnixNano(), "\n")
		}
	}
	return b.String()
}
