// Package standin makes stand-ins for a browser, for tests of what happens around one:
// shell scripts that behave like Chromium as far as a supervisor looks, and that can
// leave a process behind in each of the ways in which one escapes.
package standin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/supervise"
)

// preamble says a version and locks the profile, as Chromium does. A script that has traps
// to set says lock when it has: from then on it counts as started.
const preamble = `#!/bin/sh
for a in "$@"; do case $a in
--version) echo "Stand-in 1.0"; exit 0;;
--user-data-dir=*) P=${a#*=};;
esac; done
lock() { ln -s "$(uname -n)-$$" "$P/SingletonLock"; }
`

// Polite goes at SIGINT, as Chromium does.
const Polite = `trap 'rm "$P/SingletonLock"; exit 0' INT
lock
while :; do sleep 0.05; done
`

// Write writes a stand-in that does what script says.
func Write(path, script string) error {
	if !strings.Contains(script, "lock\n") {
		script = "lock\n" + script
	}
	return os.WriteFile(path, []byte(preamble+script), 0o700)
}

// Escape is a way in which a process may outlive the browser that started it.
type Escape struct {
	Name string
	// script leaves a process behind, which writes its PID into the file $OUT.
	script string
	// Foreign: the service manager starts the process, so that it can be found and not
	// be told from another's: the launch's end is unknown as long as it is there.
	Foreign bool
}

// stay is a process that says who it is and stays, deaf to every request to go.
const stay = `trap "" INT TERM HUP; echo $$ >"$OUT.new"; mv "$OUT.new" "$OUT"; while :; do sleep 1; done`

// Escapes are the ways that are known. Group is a control group outside of the launch,
// into which the user may move processes.
func Escapes(group string) []Escape {
	procs := filepath.Join(peer.GroupRoot, group, "cgroup.procs")
	return []Escape{
		{Name: "double_fork", script: `( ( sh -c '` + stay + `' & ) & )`},
		{Name: "setsid", script: `setsid -f sh -c '` + stay + `' </dev/null >/dev/null 2>&1`},
		{Name: "ignores_sigterm", script: `sh -c '` + stay + `' &`},
		// The manager takes $$ for a $.
		{Name: "systemd_run", script: `systemd-run --user --quiet --setenv=OUT="$OUT" sh -c '` + strings.ReplaceAll(stay, "$$", "$$$$") + `'`, Foreign: true},
		// In another group, another session, without a parent or a trace of the launch
		// in its environment.
		{Name: "moved", script: `env -i PATH="$PATH" OUT="$OUT" setsid -f sh -c 'echo $$ >` + procs + `; cd /; ` + stay + `' </dev/null >/dev/null 2>&1`},
	}
}

// WriteEscape writes a polite stand-in that has let a process escape by the time its
// profile is locked.
func WriteEscape(path string, e Escape) error {
	return Write(path, `OUT=${P%/profile}/escaped; export OUT; rm -f "$OUT"
`+e.script+`
while [ ! -e "$OUT" ]; do sleep 0.01; done
`+Polite)
}

// Escaped is the process that the launch of a slot has let escape.
func Escaped(slotDir string) (peer.Proc, error) {
	text, err := os.ReadFile(filepath.Join(slotDir, "escaped"))
	if err != nil {
		return peer.Proc{}, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return peer.Proc{}, err
	}
	return peer.Read(pid)
}

// Runs says whether exactly that process still runs.
func Runs(p peer.Proc) bool {
	now, err := peer.Read(p.PID)
	return err == nil && now.Same(p) && !now.Dead
}

// ErrCalledClean is the one fault that must not be: something escaped, and its launch was
// called ended.
var ErrCalledClean = errors.New("called clean while it lives")

// Judge holds what was said of a launch's end against what became of the process that
// had escaped.
func Judge(e Escape, said supervise.Ended, p peer.Proc) error {
	switch lives := Runs(p); {
	case said.Verified && lives:
		return fmt.Errorf("%s: %w: %v: %+v", e.Name, ErrCalledClean, p, said)
	case !said.Verified && !lives:
		return fmt.Errorf("%s: unknown although it is gone: %+v", e.Name, said)
	case e.Foreign && !lives:
		return fmt.Errorf("%s: %v was ended, which was not the launch's to see", e.Name, p)
	case lives && len(said.Left) == 0:
		return fmt.Errorf("%s: unknown, and nothing is named: %+v", e.Name, said)
	}
	return nil
}

// Config is a supervisor's, for slots in dir whose browser is dir/browser.
func Config(dir string) (supervise.Config, error) {
	exe, err := os.Executable()
	if err != nil {
		return supervise.Config{}, err
	}
	return supervise.Config{
		Dirs: supervise.Dirs{
			DataDir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "run"),
			StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
		},
		Browser: filepath.Join(dir, "browser"), HostBinary: "/bin/false", KeeperBinary: exe,
		HostSocket: filepath.Join(dir, "run", "host.sock"), Bus: supervise.BusAddress(os.Getenv),
		ExtensionID: "abcdefghijklmnopabcdefghijklmnop", ExtensionBuild: "b1",
		WriteExtension: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(`{"manifest_version":3,"name":"stand-in","version":"1"}`), 0o600)
		},
	}, nil
}

// ErrLate says that something did not happen in time.
var ErrLate = errors.New("not in time")

// Eventually waits for something that another process does.
func Eventually(ok func() bool) error {
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return ErrLate
		}
	}
	return nil
}
