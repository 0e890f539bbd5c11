package client

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"sessiondock.dev/sessiondock/daemon/core"
)

// MaxSocketPath is the longest path of a unix socket in bytes: sun_path is 108
// with its closing zero.
const MaxSocketPath = 107

const appDir = "sessiondock"

// Paths says where the files of one installation lie. With the XDG variables set
// elsewhere a second installation runs beside the first.
type Paths struct {
	Config  string // $XDG_CONFIG_HOME/sessiondock
	State   string // $XDG_STATE_HOME/sessiondock: the database, the daemon's log
	Data    string // $XDG_DATA_HOME/sessiondock: profiles, under slots/NAME
	Cache   string // $XDG_CACHE_HOME/sessiondock
	Runtime string // $XDG_RUNTIME_DIR/sessiondock: the sockets
	// RuntimeFallback: XDG_RUNTIME_DIR was not set and Runtime lies in /tmp.
	RuntimeFallback bool
}

// APISocket is the agents' door, in a directory of its own: all that a confined
// agent needs to see.
func (p Paths) APISocket() string { return filepath.Join(p.Runtime, "api", "api.sock") }

// ControlSocket is the person's door.
func (p Paths) ControlSocket() string { return filepath.Join(p.Runtime, "control.sock") }

// HostSocket is the door of the native messaging hosts.
func (p Paths) HostSocket() string { return filepath.Join(p.Runtime, "host.sock") }

// Database is the file that only the daemon opens.
func (p Paths) Database() string { return filepath.Join(p.State, "sessiondock.db") }

// ExtensionKey is the key that signs this installation's extension and gives it its
// identifier.
func (p Paths) ExtensionKey() string { return filepath.Join(p.State, "extension.pem") }

// Packages holds the signed packages of the extension.
func (p Paths) Packages() string { return filepath.Join(p.Data, "extension", "packed") }

// Log is where a detached daemon writes its messages.
func (p Paths) Log() string { return filepath.Join(p.State, "sessiondockd.log") }

// SlotDir holds one slot's profile and downloads.
func (p Paths) SlotDir(slot core.SlotName) string {
	return filepath.Join(p.Data, "slots", string(slot))
}

// FindPaths reads the XDG variables through getenv (os.Getenv). A variable that is
// unset or not an absolute path counts as unset, as the specification wants.
//
// Without XDG_RUNTIME_DIR the sockets lie in /run/user/UID if that is the user's
// own, else in /tmp/sessiondock-UID. A name in /tmp can be taken by another user
// first; that is refused by CheckRuntime, so it costs the service and nothing else.
func FindPaths(getenv func(string) string) (Paths, error) {
	home := getenv("HOME")
	base := func(name, underHome string) (string, error) {
		if dir := getenv(name); filepath.IsAbs(dir) {
			return filepath.Join(dir, appDir), nil
		}
		if !filepath.IsAbs(home) {
			return "", core.Refuse(core.CodeInvalid, "neither "+name+" nor HOME is an absolute path",
				"set HOME, or the XDG variables")
		}
		return filepath.Join(home, underHome, appDir), nil
	}
	var p Paths
	for _, d := range []struct {
		to              *string
		name, underHome string
	}{
		{&p.Config, "XDG_CONFIG_HOME", ".config"},
		{&p.State, "XDG_STATE_HOME", ".local/state"},
		{&p.Data, "XDG_DATA_HOME", ".local/share"},
		{&p.Cache, "XDG_CACHE_HOME", ".cache"},
	} {
		dir, err := base(d.name, d.underHome)
		if err != nil {
			return Paths{}, err
		}
		*d.to = dir
	}
	uid := strconv.Itoa(os.Getuid())
	switch login := filepath.Join("/run/user", uid); {
	case filepath.IsAbs(getenv("XDG_RUNTIME_DIR")):
		p.Runtime = filepath.Join(getenv("XDG_RUNTIME_DIR"), appDir)
	case checkOwnDir(login) == nil:
		p.Runtime = filepath.Join(login, appDir)
	default:
		p.Runtime = filepath.Join("/tmp", appDir+"-"+uid)
		p.RuntimeFallback = true
	}
	for _, sock := range []string{p.APISocket(), p.ControlSocket(), p.HostSocket()} {
		if len(sock) > MaxSocketPath {
			return Paths{}, core.Refuse(core.CodeLimit,
				fmt.Sprintf("the socket path %s has %d bytes; the kernel takes %d", sock, len(sock), MaxSocketPath),
				"set XDG_RUNTIME_DIR to a shorter directory")
		}
	}
	return p, nil
}

// CheckRuntime makes the socket directories if they are missing (0700) and
// refuses one that is a link, belongs to somebody else or is open to others.
func (p Paths) CheckRuntime() error {
	for _, dir := range []string{p.Runtime, filepath.Dir(p.APISocket())} {
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return core.Refuse(core.CodeUnavailable, "cannot make the socket directory: "+err.Error(),
				"set XDG_RUNTIME_DIR to a directory of yours with mode 0700")
		}
		if err := checkOwnDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// checkOwnDir says whether dir is a directory of ours that nobody else can enter.
// Lstat, so that a link planted by another user is seen as one.
func checkOwnDir(dir string) error {
	const hint = "remove it if it is yours, or set XDG_RUNTIME_DIR to a directory of yours with mode 0700"
	info, err := os.Lstat(dir)
	if err != nil {
		return core.Refuse(core.CodeUnavailable, err.Error(), hint)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return core.Refuse(core.CodeDenied, dir+" is not a directory", hint)
	case !ok || int(st.Uid) != os.Getuid():
		return core.Refuse(core.CodeDenied, dir+" belongs to another user", hint)
	case info.Mode().Perm()&fs.FileMode(0o077) != 0:
		return core.Refuse(core.CodeDenied,
			fmt.Sprintf("%s has mode %04o: others can reach the sockets in it", dir, info.Mode().Perm()), hint)
	}
	return nil
}
