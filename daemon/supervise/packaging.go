package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/manifests"
)

// Packaging is how the extension is put into a slot's browser.
type Packaging string

const (
	// ByPolicy: a signed package, installed by a policy that only this browser sees.
	// Nobody can disable the extension, and it cannot read files.
	ByPolicy Packaging = "policy"
	// ByExternal: the same package, installed by a file of the profile. The extension
	// cannot read files; a person can disable it, and then it stays disabled.
	ByExternal Packaging = "external"
	// ByLoad: the unpacked extension, named on the command line. A person can disable
	// it, and it can read files.
	ByLoad Packaging = "load"
)

// packagings, the strongest first.
var packagings = []Packaging{ByPolicy, ByExternal, ByLoad}

// ParsePackaging reads the value of a flag; "" is the strongest that works.
func ParsePackaging(s string) (Packaging, error) {
	for _, p := range append(packagings, "") {
		if s == string(p) {
			return p, nil
		}
	}
	return "", core.Refuse(core.CodeInvalid, fmt.Sprintf("there is no packaging %q", s), "policy, external or load")
}

// Package is the signed extension.
type Package struct {
	Version string
	CRX     string // its path
	Update  string // path of the update manifest that names it
}

// packaged is how one launch gets its extension.
type packaged struct {
	way   Packaging
	flags []string
	over  *overlay
}

// policyFile is the last by name of the files in its directory, and so the one that
// prevails where the machine's own say something else.
const policyFile = "zz-sessiondock.json"

// Trial says of one way of packaging whether it works here.
type Trial struct {
	Way Packaging `json:"way"`
	Why string    `json:"why,omitempty"` // why it does not; empty: it does
	Fix string    `json:"fix,omitempty"`

	unsure bool // the trial did not come to its end, and may go otherwise the next time
}

// Trials tries the ways, the strongest first, up to the first that works.
func (c Config) Trials(ctx context.Context, v chromium.Version) []Trial {
	var all []Trial
	for _, way := range packagings {
		t := Trial{Way: way}
		err := c.try(ctx, way, v)
		t.unsure = errors.Is(err, errUnsure)
		if e, ok := errors.AsType[*core.Error](err); ok {
			t.Why, t.Fix = e.Message, e.Hint
		} else if err != nil {
			t.Why = err.Error()
		}
		all = append(all, t)
		if err == nil {
			break
		}
	}
	return all
}

// try says why a way does not work with this browser, or nil.
func (c Config) try(ctx context.Context, way Packaging, v chromium.Version) error {
	switch {
	case way == ByLoad && v.Branded():
		return core.Refuse(core.CodeUnavailable, v.Name+" does not load an unpacked extension", chromium.InstallHint)
	case way != ByLoad && c.Package == nil:
		return errors.New("there is no signed package")
	case way == ByPolicy && v.Etc() == "":
		return errors.New("it is not known where this browser reads its policies")
	case way == ByPolicy:
		if st, err := os.Stat(v.Etc()); err != nil || !st.IsDir() {
			return core.Refuse(core.CodeUnavailable, "there is no directory "+v.Etc()+" to put a slot's policy over", "sudo mkdir -p "+v.Etc())
		}
		return overlay{From: v.Etc(), To: v.Etc()}.try(ctx, c.keeperBinary())
	}
	return nil
}

// keeperBinary is this program unless another was given; also after an update has
// replaced its file.
func (c Config) keeperBinary() string {
	if c.KeeperBinary == "" {
		return "/proc/self/exe"
	}
	return c.KeeperBinary
}

// packaging chooses the way for a launch: the one asked for, else the strongest that
// works; a test's launch loads the unpacked extension unless told otherwise. What the
// trials found is remembered, as long as the browser is the same and each came to its end:
// one that was too slow says nothing of the next launch.
func (d *Direct) packaging(ctx context.Context, v chromium.Version, s Spec) (Packaging, error) {
	switch {
	case d.cfg.Packaging != "":
		return d.cfg.Packaging, d.cfg.try(ctx, d.cfg.Packaging, v)
	case s.Debug != "":
		return ByLoad, nil
	}
	d.trying.Lock()
	defer d.trying.Unlock()
	if d.tried.way != "" && d.tried.of == v {
		return d.tried.way, nil
	}
	trials := d.cfg.Trials(ctx, v)
	last := trials[len(trials)-1]
	if last.Why != "" {
		return "", core.Refuse(core.CodeUnavailable, "the extension cannot be put into the browser: "+last.Why, last.Fix)
	}
	if !slices.ContainsFunc(trials, func(t Trial) bool { return t.unsure }) {
		d.tried.way, d.tried.of = last.Way, v
	}
	return last.Way, nil
}

// pack prepares a slot's profile, which no browser uses now, for one way.
func (d *Direct) pack(ctx context.Context, browser string, v chromium.Version, p places, s Spec) (packaged, error) {
	way, err := d.packaging(ctx, v, s)
	if err != nil {
		return packaged{}, err
	}
	if err := d.renewWorker(p); err != nil {
		return packaged{}, err
	}
	out := packaged{way: way}
	external := filepath.Join(p.profile, "External Extensions", d.cfg.ExtensionID+".json")
	if way != ByExternal {
		if err := removeIfThere(external); err != nil {
			return packaged{}, err
		}
	}
	if way == ByLoad {
		dir, err := prepareExtension(filepath.Join(d.cfg.Dirs.DataDir, "extension"), d.cfg.ExtensionBuild, d.cfg.WriteExtension)
		out.flags = append(quiet, "--load-extension="+dir)
		return out, err
	}
	pkg, err := d.cfg.Package(ctx, browser)
	if err != nil {
		return packaged{}, err
	}
	now, ok := readInstalled(p.profile, d.cfg.ExtensionID)
	// What a person has switched off stays so where a person may switch it off, and
	// nowhere else.
	off := ok && now.disabled()
	there := ok && now.is(p.profile, pkg.Version) && !(off && way == ByPolicy)
	if ok && !there && !(off && way == ByExternal) {
		if err := forget(p.profile, d.cfg.ExtensionID); err != nil {
			return packaged{}, err
		}
	}
	if way == ByExternal {
		if err := peer.OwnDir(filepath.Dir(external)); err != nil {
			return packaged{}, err
		}
		out.flags = quiet
		return out, writeFile(external, manifests.External(pkg.CRX, pkg.Version))
	}
	if there {
		out.flags = quiet
	}
	out.over = &overlay{From: p.etc, To: v.Etc()}
	return out, writeEtc(p.etc, v.Etc(), manifests.Policy(manifests.Slot{
		ExtensionID: d.cfg.ExtensionID, UpdateXML: pkg.Update, DownloadDir: p.downloads, Test: s.Debug != "",
	}))
}

// workers are where a profile keeps the scripts of service workers, of sites and of the
// extension, as they were when they were registered.
var workers = []string{"Database", "ScriptCache"}

// renewWorker lets a profile that ran another build of the extension forget the scripts of
// its service workers. Otherwise the browser would find the extension's under the same
// address, and run the former build again, in a package of the new one. A site registers
// its own anew when it is next visited; what it has stored stays.
func (d *Direct) renewWorker(p places) error {
	mark := filepath.Join(p.slot, "extension")
	if was, err := os.ReadFile(mark); err == nil && string(was) == d.cfg.ExtensionBuild {
		return nil
	}
	for _, name := range workers {
		if err := os.RemoveAll(filepath.Join(p.profile, "Default", "Service Worker", name)); err != nil {
			return err
		}
	}
	return writeFile(mark, []byte(d.cfg.ExtensionBuild))
}

// quiet keeps the browser from asking the network by itself. A launch that has to
// install the extension by policy goes without: the same switch turns that off.
var quiet = []string{"--disable-background-networking"}

// installed is what a profile's preferences say of the extension as it was installed
// from a package.
type installed struct {
	Path           string          `json:"path"` // "ID/VERSION_0", below Extensions
	DisableReasons json.RawMessage `json:"disable_reasons"`
}

// is says whether it is that version, with its files in place.
func (i installed) is(profile, version string) bool {
	if !filepath.IsLocal(i.Path) || !strings.HasPrefix(filepath.Base(i.Path), version+"_") {
		return false
	}
	_, err := os.Stat(filepath.Join(profile, "Default", "Extensions", i.Path, "manifest.json"))
	return err == nil
}

// disabled says whether a person has switched it off.
func (i installed) disabled() bool {
	switch string(i.DisableReasons) {
	case "", "0", "[]", "null":
		return false
	}
	return true
}

// preferenceFiles hold what is installed; which of them depends on the platform's
// build of the browser.
var preferenceFiles = []string{"Secure Preferences", "Preferences"}

// readInstalled reads the entry; ok is false if there is none.
func readInstalled(profile, id string) (i installed, ok bool) {
	for _, name := range preferenceFiles {
		text, err := os.ReadFile(filepath.Join(profile, "Default", name))
		var prefs struct {
			Extensions struct {
				Settings map[string]installed `json:"settings"`
			} `json:"extensions"`
		}
		if err != nil || json.Unmarshal(text, &prefs) != nil {
			continue
		}
		if i, ok = prefs.Extensions.Settings[id]; ok {
			return i, true
		}
	}
	return installed{}, false
}

// forget makes the profile one in which the extension was never installed, so that the
// browser installs it anew before it runs anything of it. With its files replaced and
// the entry left alone, the former worker would run once more, from a cache. What the
// extension has stored lies elsewhere in the profile, and stays.
func forget(profile, id string) error {
	for _, name := range preferenceFiles {
		path := filepath.Join(profile, "Default", name)
		text, err := os.ReadFile(path)
		if err != nil {
			continue // preparePreferences says so if it matters
		}
		if changed, ok := without(text, "extensions", "settings", id); ok {
			if err := writeFile(path, changed); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(filepath.Join(profile, "Default", "Extensions", id))
}

// without removes a member of a JSON object, named by its path, and leaves every other
// value as it is. It returns false if there is no such member.
func without(text []byte, path ...string) ([]byte, bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil || all[path[0]] == nil {
		return nil, false
	}
	if len(path) == 1 {
		delete(all, path[0])
	} else {
		sub, ok := without(all[path[0]], path[1:]...)
		if !ok {
			return nil, false
		}
		all[path[0]] = sub
	}
	out, err := json.Marshal(all)
	return out, err == nil
}

// Bounds of what is copied of the machine's own directory: an administrator's policies
// and manifests are a few small files.
const (
	maxEtcFiles = 256
	maxEtcFile  = 1 << 20
)

// writeEtc makes what a slot's browser sees at the place of the machine's own
// directory: a copy of that, so that an administrator's policies go on to hold, and
// the slot's policy.
func writeEtc(etc, machine string, policy []byte) error {
	if err := os.RemoveAll(etc); err != nil {
		return err
	}
	if err := peer.OwnDir(etc); err != nil {
		return err
	}
	if err := copyEtc(etc, machine); err != nil {
		return fmt.Errorf("%s cannot be copied: %w", machine, err)
	}
	dir := filepath.Join(etc, "policies", "managed")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, policyFile), policy)
}

func copyEtc(to, from string) error {
	files := 0
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrPermission) {
				return nil // the browser could not read it either
			}
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		st, err := os.Stat(path) // links are followed: they are what the browser reads
		if err != nil || !st.Mode().IsRegular() {
			return nil
		}
		if files++; files > maxEtcFiles || st.Size() > maxEtcFile {
			return fmt.Errorf("it has more than %d files, or one above %d bytes: %s", maxEtcFiles, maxEtcFile, path)
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o600)
	})
}
