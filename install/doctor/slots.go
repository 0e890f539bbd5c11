package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/extension"
	"sessiondock.dev/sessiondock/install"
	"sessiondock.dev/sessiondock/manifests"
)

// askWithin bounds a question to a daemon or a program.
const askWithin = 5 * time.Second

func runtimePath(_ context.Context, m Machine) Check {
	if m.PathErr != nil {
		fix := "set HOME and XDG_RUNTIME_DIR"
		if e, ok := errors.AsType[*core.Error](m.PathErr); ok && e.Hint != "" {
			fix = e.Hint
		}
		return ill(fix, "%s", message(m.PathErr))
	}
	if m.Paths.RuntimeFallback {
		return well("%s, because XDG_RUNTIME_DIR is not set", m.Paths.Runtime)
	}
	return well("%s", m.Paths.Runtime)
}

func message(err error) string {
	if e, ok := errors.AsType[*core.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

func hint(err error) string {
	if e, ok := errors.AsType[*core.Error](err); ok {
		return e.Hint
	}
	return ""
}

func browser(ctx context.Context, _ Machine) Check {
	path, err := chromium.Find("")
	if err != nil {
		return ill(hint(err), "%s", message(err))
	}
	v := (&chromium.Versions{}).Of(ctx, path)
	switch {
	case !v.Known():
		return ill("see what it says: "+path+" --version", "%s does not say that it is a Chromium: %q", path, v.Text)
	case v.TooOld():
		return ill("update it; "+chromium.InstallHint, "%s is too old: the extension needs %d", v.Text, chromium.MinMajor)
	case v.Branded():
		return well("%s at %s, a branded build: it takes the extension by policy or by file only", v.Text, path)
	}
	return well("%s at %s", v.Text, path)
}

func programs(_ context.Context, m Machine) Check {
	for _, p := range install.Programs {
		path := filepath.Join(m.Bin, p.Name)
		if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o111 == 0 {
			return ill("sessiondock install, or make build", "%s is missing beside this program, or cannot be run", path)
		}
	}
	return well("all three in %s", m.Bin)
}

// key is the installation's, if there is one. It makes none.
func (m Machine) key() (extension.Key, error) {
	if m.PathErr != nil {
		return extension.Key{}, m.PathErr
	}
	if _, err := os.Stat(m.Paths.ExtensionKey()); err != nil {
		return extension.Key{}, err
	}
	return extension.OpenKey(m.Paths.ExtensionKey())
}

func extensionKey(_ context.Context, m Machine) Check {
	key, err := m.key()
	switch {
	case m.PathErr != nil:
		return noPaths(m)
	case errors.Is(err, fs.ErrNotExist):
		return well("not made yet: the daemon makes it at its first start")
	case err != nil:
		return ill("chmod 600 "+m.Paths.ExtensionKey()+", or move it away: a new one is made", "%v", err)
	}
	return well("identifier %s", key.ID)
}

// hostManifests looks at every manifest of ours that a browser could read.
func hostManifests(_ context.Context, m Machine) Check {
	if m.PathErr != nil {
		return noPaths(m)
	}
	config := m.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(m.Getenv("HOME"), ".config")
	}
	paths := []string{
		m.file("/etc/chromium/native-messaging-hosts/" + manifests.HostName + ".json"),
		m.file("/etc/opt/chrome/native-messaging-hosts/" + manifests.HostName + ".json"),
	}
	for _, b := range install.Browsers {
		paths = append(paths, b.Manifest(config))
	}
	slots, _ := filepath.Glob(filepath.Join(m.Paths.Data, "slots", "*", "profile", "NativeMessagingHosts", manifests.HostName+".json"))
	key, _ := m.key()
	found := 0
	for _, path := range slices.Concat(paths, slots) {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found++
		// The daemon writes a slot's anew at each start.
		fix := "remove it, or: sessiondock install --browser NAME"
		if slices.Contains(slots, path) {
			fix = "sessiondock slot stop and start: the manifest is written anew"
		}
		var h struct {
			Path    string   `json:"path"`
			Origins []string `json:"allowed_origins"`
		}
		switch {
		case err != nil:
			return ill(fix, "%s: %v", path, err)
		case json.Unmarshal(text, &h) != nil:
			return ill(fix, "%s is not a manifest", path)
		case !filepath.IsAbs(h.Path):
			return ill(fix, "%s names %q, which is no full path", path, h.Path)
		case !runnable(h.Path):
			return ill(fix, "%s is dangling: %s is not there, or cannot be run", path, h.Path)
		case key.ID != "" && !slices.Equal(h.Origins, []string{"chrome-extension://" + key.ID + "/"}):
			return ill(fix, "%s is for another extension than this installation's %s", path, key.ID)
		}
	}
	return well("%d, each with its host and this installation's extension", found)
}

func runnable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0
}

func sockets(_ context.Context, m Machine) Check {
	if m.PathErr != nil {
		return noPaths(m)
	}
	if !exists(m.Paths.Runtime) {
		return well("none yet")
	}
	for _, dir := range []string{m.Paths.Runtime, filepath.Dir(m.Paths.APISocket())} {
		st, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		switch {
		case err != nil:
			return ill("look at "+dir, "%v", err)
		case !st.IsDir():
			return ill("remove it", "%s is not a directory", dir)
		case !ours(st):
			return ill("set XDG_RUNTIME_DIR to a directory of yours", "%s belongs to another user", dir)
		case st.Mode().Perm()&0o077 != 0:
			return ill("chmod 700 "+dir, "%s has mode %04o: others can reach the sockets in it", dir, st.Mode().Perm())
		}
	}
	n := 0
	for _, path := range []string{m.Paths.ControlSocket(), m.Paths.APISocket(), m.Paths.HostSocket()} {
		st, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		n++
		switch {
		case err != nil:
			return ill("look at "+path, "%v", err)
		case st.Mode().Type() != fs.ModeSocket:
			return ill("move it away", "%s is not a socket", path)
		case !ours(st):
			return ill("remove it, or set XDG_RUNTIME_DIR to a directory of yours", "%s belongs to another user", path)
		case st.Mode().Perm() != 0o600:
			return ill("chmod 600 "+path, "%s has mode %04o, and should have 0600", path, st.Mode().Perm())
		}
	}
	return well("%d, for this user alone", n)
}

func ours(st fs.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}

// health asks the daemon, if one answers.
func health(ctx context.Context, m Machine) (*client.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return client.New(m.Paths.ControlSocket()).Health(ctx)
}

func daemon(ctx context.Context, m Machine) Check {
	if m.PathErr != nil {
		return noPaths(m)
	}
	h, err := health(ctx, m)
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeUnavailable && !exists(m.Paths.ControlSocket()) {
		return well("not running; it is started by: sessiondock up --detach")
	}
	if err != nil {
		// A socket that nobody answers on is a former daemon's: the next one replaces it.
		if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeUnavailable {
			return well("not running, and a former one's socket is left; the next replaces it: sessiondock up --detach")
		}
		return ill("stop what listens there, or set XDG_RUNTIME_DIR elsewhere; then: sessiondock up --detach", "%s is answered, and not by a daemon of ours: %s", m.Paths.ControlSocket(), message(err))
	}
	key, _ := m.key()
	switch {
	case h.Version != wire.Version:
		return ill("sessiondock down, then sessiondock up --detach", "the daemon (pid %d) speaks version %d of the protocol, this program %d", h.PID, h.Version, wire.Version)
	case key.ID == "" || key.ID != h.Extension:
		return ill("stop it, or set the XDG variables as it has them", "the daemon that answers (pid %d) is another installation's: its extension is %s", h.PID, h.Extension)
	case h.Database != "":
		return ill(h.Hint, "the daemon (pid %d) writes nothing any more: %s", h.PID, h.Database)
	}
	return well("running (pid %d), build %s, supervisor %s", h.PID, h.Build, h.Supervisor)
}

// lockOf reads whose lock is on a profile: "HOST-PID".
func lockOf(profile string) (host string, pid int, ok bool) {
	to, err := os.Readlink(filepath.Join(profile, "SingletonLock"))
	if err != nil {
		return "", 0, false
	}
	i := strings.LastIndexByte(to, '-')
	if i < 0 {
		return to, 0, true
	}
	pid, _ = strconv.Atoi(to[i+1:])
	return to[:i], pid, true
}

func profiles(_ context.Context, m Machine) Check {
	if m.PathErr != nil {
		return noPaths(m)
	}
	dirs, _ := filepath.Glob(filepath.Join(m.Paths.Data, "slots", "*"))
	running, err := install.RunningSlots(m.Paths)
	if err != nil {
		return ill("", "%v", err)
	}
	self, err := os.Hostname()
	if err != nil {
		return ill("set a host name", "this machine's name cannot be read: %v", err)
	}
	for _, dir := range dirs {
		slot := filepath.Base(dir)
		profile := filepath.Join(dir, "profile")
		host, pid, locked := lockOf(profile)
		switch {
		case slices.Contains(running, slot), !locked:
		case host != self && !slices.Contains(formerNames(dir), host):
			return ill("close the browser on "+host+"; if none runs there: rm "+filepath.Join(profile, "SingletonLock"),
				"slot %s: its profile is locked by a browser of another host, %s", slot, host)
		case host == self && usesProfile(pid, profile):
			return ill("close that browser", "slot %s: a browser that is not the slot's own (pid %d) uses its profile", slot, pid)
		}
	}
	return well("%d slots, %d running", len(dirs), len(running))
}

// formerNames are names of this machine under which a slot's profile was locked.
func formerNames(slotDir string) []string {
	var known struct {
		Machine  string   `json:"machine_id"`
		Hostname []string `json:"hostnames"`
	}
	text, err := os.ReadFile(filepath.Join(slotDir, "machine.json"))
	id, idErr := os.ReadFile("/etc/machine-id")
	if err != nil || idErr != nil || json.Unmarshal(text, &known) != nil || known.Machine != strings.TrimSpace(string(id)) {
		return nil
	}
	return known.Hostname
}

// usesProfile says whether the process has the profile on its command line: a number
// alone may be anybody's by now.
func usesProfile(pid int, profile string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(text), profile)
}

// trial is one line of what `sessiondockd packaging` prints.
type trial struct {
	Way string `json:"way"`
	Why string `json:"why"`
	Fix string `json:"fix"`
}

// policy asks the daemon's program, because some systems allow user namespaces by
// program.
func policy(ctx context.Context, m Machine) Check {
	ctx, cancel := context.WithTimeout(ctx, 2*askWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(m.Bin, "sessiondockd"), "packaging").Output()
	var trials []trial
	if err == nil {
		err = json.Unmarshal(out, &trials)
	}
	if err != nil || len(trials) == 0 {
		return ill("see programs and browser", "the daemon's program does not say how the extension would be put into browsers: %v", err)
	}
	last := trials[len(trials)-1]
	switch {
	case last.Why != "":
		return ill(last.Fix, "the extension cannot be put into the browser: %s", last.Why)
	case last.Way != "policy":
		return ill(trials[0].Fix, "no policy of a slot's own (%s); the extension is put in by %s: %s", trials[0].Why, last.Way, core.Unprotected(last.Way))
	}
	return well("each slot has its own: nobody can switch the extension off, and it cannot read files")
}

// debugging looks for ways round the fence.
func debugging(ctx context.Context, m Machine) Check {
	if m.PathErr != nil {
		return noPaths(m)
	}
	if h, err := health(ctx, m); err == nil {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", h.PID))
		if err == nil && strings.Contains(string(args), "\x00--debug") {
			return ill("start the daemon without --debug", "the daemon starts browsers with a debugging switch, which is a way round the fence")
		}
	}
	ports, _ := filepath.Glob(filepath.Join(m.Paths.Data, "slots", "*", "profile", "DevToolsActivePort"))
	if len(ports) > 0 {
		return ill("sessiondock slot stop and start", "%s: a browser has opened a debugging port, which is a way round the fence", ports[0])
	}
	return well("no debugging switch, no debugging port")
}

func installation(_ context.Context, m Machine) Check {
	if m.PathErr != nil {
		return noPaths(m)
	}
	r, err := install.Read(m.Paths.State)
	switch {
	case err != nil:
		return ill(hint(err), "%s", message(err))
	case r == nil && install.Owned(m.Bin):
		return well("by a package, in %s", m.Bin)
	case r == nil:
		return ill("sessiondock install", "not installed: the programs run from %s", m.Bin)
	}
	changed, interrupted := r.Changed()
	switch {
	case interrupted:
		return ill("sessiondock install", "an installation was cut short")
	case len(changed) > 0:
		return ill("move what you changed away, then: sessiondock install", "%d files are missing or were changed since, the first %s", len(changed), changed[0])
	}
	return well("%d files, as they were installed", len(r.Files))
}
