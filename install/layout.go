package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/manifests"
)

// Programs are those of SessionDock. They lie beside each other.
var Programs = []struct{ Name, What string }{
	{"sessiondock", "the command line"},
	{"sessiondockd", "the daemon"},
	{"sessiondock-host", "the native messaging host"},
}

// ProgramFiles takes the programs that lie in from to the directory bin.
func ProgramFiles(from, bin string) ([]File, error) {
	var files []File
	for _, p := range Programs {
		path := filepath.Join(from, p.Name)
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, core.Refuse(core.CodeUnavailable, path+" is missing: the three programs must lie beside each other", "make build")
		}
		if err != nil {
			return nil, cannot(path, err)
		}
		files = append(files, File{Path: filepath.Join(bin, p.Name), What: p.What, Mode: 0o755, Content: content})
	}
	return files, nil
}

// Owned says whether a directory of programs belongs to the system, and so to a package
// manager: then the programs are used where they are.
func Owned(bin string) bool {
	var st unix.Stat_t
	return unix.Stat(bin, &st) == nil && st.Uid == 0 && (bin == "/usr/bin" || strings.HasPrefix(bin, "/usr/"))
}

// unitDirs are where packages put units of user managers.
var unitDirs = []string{"/usr/lib/systemd/user", "/usr/local/lib/systemd/user"}

// passedOn are the variables that make an installation one of its own. The units carry
// them, because the user manager does not know them.
var passedOn = []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"}

// UnitFiles are the units of the user's service manager, with the link by which it
// listens from the next login on. Programs of a package bring their own units, and only
// the link is left.
func UnitFiles(paths client.Paths, bin, configHome string, getenv func(string) string) ([]File, error) {
	dir := filepath.Join(configHome, "systemd", "user")
	link := File{Path: filepath.Join(dir, "sockets.target.wants", manifests.SocketUnit), What: "listen from login on"}
	if Owned(bin) {
		for _, d := range unitDirs {
			if _, err := os.Stat(filepath.Join(d, manifests.SocketUnit)); err == nil {
				link.Link = filepath.Join(d, manifests.SocketUnit)
				return []File{link}, nil
			}
		}
	}
	socket, err := manifests.Socket(paths.ControlSocket(), paths.APISocket(), paths.HostSocket())
	if err != nil {
		return nil, core.Refuse(core.CodeInvalid, err.Error(), "set XDG_RUNTIME_DIR to another directory")
	}
	var env []string
	for _, name := range passedOn {
		if v := getenv(name); filepath.IsAbs(v) {
			env = append(env, name+"="+v)
		}
	}
	service, err := manifests.Service([]string{filepath.Join(bin, "sessiondockd")}, env)
	if err != nil {
		return nil, core.Refuse(core.CodeInvalid, err.Error(), "install the programs elsewhere: --prefix")
	}
	link.Link = filepath.Join("..", manifests.SocketUnit)
	return []File{
		{Path: filepath.Join(dir, manifests.SocketUnit), What: "starts the daemon at the first request", Mode: 0o644, Content: socket},
		{Path: filepath.Join(dir, manifests.ServiceUnit), What: "runs the daemon", Mode: 0o644, Content: service},
		{Path: filepath.Join(dir, manifests.SliceUnit), What: "holds daemon and browsers", Mode: 0o644, Content: manifests.Slice()},
		link,
	}, nil
}

// PackageUnits are the units of a distribution's package, for every user: the sockets
// lie in the runtime directory of whoever it is.
func PackageUnits(bin string) ([]File, error) {
	// The templates write every % as one; the service manager's word for the directory
	// takes the place of a name that nothing else has.
	const name = "/runtime-directory"
	paths := client.Paths{Runtime: name + "/sessiondock"}
	socket, err := manifests.Socket(paths.ControlSocket(), paths.APISocket(), paths.HostSocket())
	if err != nil {
		return nil, err
	}
	service, err := manifests.Service([]string{filepath.Join(bin, "sessiondockd")}, nil)
	if err != nil {
		return nil, err
	}
	dir := unitDirs[0]
	return []File{
		{Path: filepath.Join(dir, manifests.SocketUnit), Mode: 0o644, Content: bytes.ReplaceAll(socket, []byte(name), []byte("%t"))},
		{Path: filepath.Join(dir, manifests.ServiceUnit), Mode: 0o644, Content: service},
		{Path: filepath.Join(dir, manifests.SliceUnit), Mode: 0o644, Content: manifests.Slice()},
	}, nil
}

// Browser is one of a person's own browsers, which a native messaging manifest can be
// installed for. Slots need none of these: their profiles have their own.
type Browser struct {
	Name     string
	Dir      string // of its data, below the configuration directory
	programs []string
}

// Browsers are the ones that are known.
var Browsers = []Browser{
	{"chromium", "chromium", []string{"chromium", "chromium-browser"}},
	{"chrome", "google-chrome", []string{"google-chrome", "google-chrome-stable"}},
	{"brave", "BraveSoftware/Brave-Browser", []string{"brave-browser", "brave-browser-stable", "brave"}},
	{"edge", "microsoft-edge", []string{"microsoft-edge", "microsoft-edge-stable"}},
}

// Manifest is where the browser looks for the host's manifest.
func (b Browser) Manifest(configHome string) string {
	return filepath.Join(configHome, b.Dir, "NativeMessagingHosts", manifests.HostName+".json")
}

// ManifestFiles are the native messaging manifests for a person's own browsers. A
// browser that is not there, or cannot start a host, is refused.
func ManifestFiles(names []string, configHome, host, extensionID string) ([]File, error) {
	var files []File
	for _, name := range names {
		i := slices.IndexFunc(Browsers, func(b Browser) bool { return b.Name == name })
		if i < 0 {
			var known []string
			for _, b := range Browsers {
				known = append(known, b.Name)
			}
			return nil, core.Refuse(core.CodeInvalid, fmt.Sprintf("there is no browser %q", name), "one of "+strings.Join(known, ", "))
		}
		b := Browsers[i]
		if err := b.usable(); err != nil {
			return nil, err
		}
		if path := b.Manifest(configHome); !slices.ContainsFunc(files, func(f File) bool { return f.Path == path }) {
			files = append(files, File{Path: path, What: "the host, for " + name, Mode: 0o644, Content: manifests.NativeHost(host, extensionID)})
		}
	}
	return files, nil
}

// usable refuses a browser that is missing or a snap's or a flatpak's.
func (b Browser) usable() error {
	var err error
	for _, p := range b.programs {
		if _, lookErr := exec.LookPath(p); lookErr != nil {
			continue
		}
		if _, err = chromium.Find(p); err == nil {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return core.Refuse(core.CodeNotFound, fmt.Sprintf("%s is not installed: none of %s is in PATH", b.Name, strings.Join(b.programs, ", ")),
		"install it first, by the distribution's own package")
}

// RunningSlots names the slots whose browser runs: its keeper holds the slot's lock.
// That can be seen without a daemon.
func RunningSlots(paths client.Paths) ([]string, error) {
	locks, err := filepath.Glob(filepath.Join(paths.Data, "slots", "*", "lock"))
	if err != nil {
		return nil, err
	}
	var running []string
	for _, path := range locks {
		f, err := os.Open(path)
		if err != nil {
			continue // removed meanwhile
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			running = append(running, filepath.Base(filepath.Dir(path)))
		}
	}
	return running, nil
}

// HasSlots says whether there is anything of a person's that an end of the installation
// must leave: a database, or a slot's directory.
func HasSlots(paths client.Paths) bool {
	if _, err := os.Stat(paths.Database()); err == nil {
		return true
	}
	slots, err := os.ReadDir(filepath.Join(paths.Data, "slots"))
	return err == nil && len(slots) > 0
}

// ownDirs hold everything that SessionDock makes for one user.
func ownDirs(paths client.Paths) []string {
	return []string{paths.Config, paths.State, paths.Data, paths.Cache, paths.Runtime}
}

// Purge removes the slots with their logins, the database and every other trace.
func Purge(paths client.Paths) error {
	var errs []error
	for _, dir := range ownDirs(paths) {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// Forget removes what is left of an installation that was never used: the extension's
// key and packages, caches, sockets of a daemon that has ended.
func Forget(paths client.Paths) error {
	errs := []error{os.RemoveAll(filepath.Join(paths.Data, "extension")), os.RemoveAll(paths.Cache), os.RemoveAll(paths.Runtime)}
	if err := os.Remove(paths.ExtensionKey()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, dir := range ownDirs(paths) {
		_ = os.Remove(dir) // if it is empty
	}
	return errors.Join(errs...)
}
