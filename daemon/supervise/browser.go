package supervise

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// places are the directories and files of one slot.
type places struct {
	slot, profile, downloads string // under DataDir
	etc                      string // what the browser sees as its /etc/chromium
	lock, machine            string
	run                      string // under RunDir
	logs                     string // under StateDir
	cache, temp              string // under CacheDir
}

// maxTempDir is the longest TMPDIR in which Chromium can make its socket
// "org.chromium.Chromium.XXXXXX/SingletonSocket".
const maxTempDir = peer.MaxSocketPath - len("/org.chromium.Chromium.XXXXXX/SingletonSocket")

func (d Dirs) places(slot core.SlotName) places {
	s := filepath.Join(d.DataDir, "slots", string(slot))
	p := places{
		slot: s, profile: filepath.Join(s, "profile"), downloads: filepath.Join(s, "downloads"), etc: filepath.Join(s, "etc"),
		lock: filepath.Join(s, "lock"), machine: filepath.Join(s, "machine.json"),
		run:   filepath.Join(d.RunDir, "slots", string(slot)),
		logs:  filepath.Join(d.StateDir, "slots", string(slot)),
		cache: filepath.Join(d.CacheDir, "slots", string(slot)),
	}
	// A name of fixed length keeps the browser's socket within the kernel's bound.
	sum := sha256.Sum256([]byte(slot))
	short := filepath.Join("tmp", hex.EncodeToString(sum[:6]))
	if p.temp = filepath.Join(d.CacheDir, short); len(p.temp) > maxTempDir {
		p.temp = filepath.Join(d.RunDir, short)
	}
	return p
}

// make makes the slot's directories, each of this user alone.
func (p places) make() error {
	if len(p.temp) > maxTempDir {
		return core.Refuse(core.CodeLimit, fmt.Sprintf("temporary directory %s is too long for the browser's socket", p.temp),
			"set XDG_RUNTIME_DIR to a shorter directory")
	}
	// What an earlier launch left there belongs to nobody by now.
	if err := os.RemoveAll(p.temp); err != nil {
		return err
	}
	for _, dir := range []string{p.profile, p.downloads, p.run, p.logs, p.cache, p.temp} {
		if err := peer.OwnDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// flags are the browser's arguments. None of them is a debugging switch unless
// the launch was asked for as a test's.
func flags(p places, ext packaged, v chromium.Version, s Spec) ([]string, *core.Error) {
	f := []string{
		"--user-data-dir=" + p.profile,
		"--disk-cache-dir=" + p.cache,
		// Frozen pages in the back-forward cache would outlive their documents'
		// settlement; branded builds want the second to load an extension at all.
		"--disable-features=BackForwardCache,DisableLoadExtensionCommandLineSwitch",
		"--silent-debugger-extension-api", // the panel says who acts; the bar would only move the page
		"--no-first-run",
		"--no-default-browser-check",
		"--disable-component-update",
		"--disable-sync",
		"--disable-quic",
		"--password-store=basic", // constant for the life of a profile, or its cookies are lost
	}
	f = append(f, ext.flags...)
	switch s.Display {
	case "headless", "":
		f = append(f, "--headless", "--window-size=1280,800")
		if ua := v.UserAgent(); ua != "" {
			f = append(f, "--user-agent="+ua)
		}
	case "window":
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return nil, core.Refuse(core.CodeUnavailable, "there is no display to open a window on",
				"start the daemon within the desktop session, or create the slot with --display headless")
		}
	default:
		return nil, core.Refuse(core.CodeInvalid, fmt.Sprintf("no such display %q", s.Display), "headless or window")
	}
	switch s.Debug {
	case "":
	case "pipe":
		f = append(f, "--remote-debugging-pipe")
	case "port":
		f = append(f, "--remote-debugging-port=0")
	default:
		return nil, core.Refuse(core.CodeInvalid, fmt.Sprintf("no such debugging switch %q", s.Debug), "pipe or port")
	}
	start := s.StartURLs
	if len(start) == 0 && fresh(p.profile) {
		// Only a new profile is given a page: any other has its tabs back, and
		// would get one blank tab more at each start.
		start = []string{"about:blank"}
	}
	for _, u := range start {
		// Anything else could be taken for a switch, or reach what agents may not.
		parsed, err := url.Parse(u)
		if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https" && u != "about:blank") {
			return nil, core.Refuse(core.CodeInvalid, fmt.Sprintf("start page %q is not a web address", u), "use http:// or https://")
		}
		f = append(f, u)
	}
	return f, nil
}

// withheld are variables of the daemon's that a browser must not get: those of
// its service manager, those of ours, and those by which flags could be added.
var withheld = []string{"NOTIFY_SOCKET=", "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", "WATCHDOG_", "INVOCATION_ID=",
	"JOURNAL_STREAM=", "SYSTEMD_EXEC_PID=", "MEMORY_PRESSURE_", "SESSIONDOCK_", "CHROMIUM_FLAGS=", "CHROMIUM_USER_FLAGS=",
	"CHROME_USER_DATA_DIR=", "TMPDIR=", "DBUS_SESSION_BUS_ADDRESS=", "BREAKPAD_DUMP_LOCATION="}

// environment is the person's, without what is withheld, and the launch's own.
func environment(base []string, p places, hostSocket string, s Spec) []string {
	var env []string
next:
	for _, v := range base {
		for _, w := range withheld {
			if strings.HasPrefix(v, w) {
				continue next
			}
		}
		env = append(env, v)
	}
	return append(env,
		"SESSIONDOCK_SLOT="+string(s.Slot),
		tagName+"="+string(s.Launch),
		"SESSIONDOCK_SECRET="+s.Secret,
		"SESSIONDOCK_HOST_SOCKET="+hostSocket,
		"TMPDIR="+p.temp,
		// The person's bus is not the slot's. By it Chromium has the service manager move
		// it into a unit of its own, out of the launch's, and portals start programs.
		"DBUS_SESSION_BUS_ADDRESS=disabled:",
		// What it notes of a crash holds parts of pages, and is the slot's.
		"BREAKPAD_DUMP_LOCATION="+filepath.Join(p.logs, "crashes"),
	)
}

// removeIfThere removes a file that need not exist.
func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
