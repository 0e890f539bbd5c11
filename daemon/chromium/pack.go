package chromium

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// packWithin bounds one packing; it takes about a second.
const packWithin = 30 * time.Second

// Pack signs the unpacked extension in dir with the key, by the browser's own packer,
// and writes the result to crx. Nothing else appears in the directory of dir.
func Pack(ctx context.Context, browser, dir, key, crx string) (err error) {
	temp, err := os.MkdirTemp("", "pack-") // the packer's profile, and nothing of a person's
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	ctx, cancel := context.WithTimeout(ctx, packWithin)
	defer cancel()
	made := dir + ".crx" // the packer lets nobody choose
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-first-run", "--user-data-dir="+filepath.Join(temp, "profile"),
		"--pack-extension="+dir, "--pack-extension-key="+key)
	// Also what it notes of a crash stays out of the person's own directories.
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "HOME="+temp, "XDG_CONFIG_HOME="+temp, "XDG_CACHE_HOME="+temp, "XDG_DATA_HOME="+temp,
		"DBUS_SESSION_BUS_ADDRESS=disabled:")
	cmd.WaitDelay = time.Second // a helper of the browser may keep the pipe open
	said, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it did, and the browser itself ended well
	}
	if info, e := os.Stat(made); err == nil && (e != nil || info.Size() == 0) {
		err = errors.New("it wrote no package")
	}
	if err != nil {
		os.Remove(made)
		return core.Refuse(core.CodeUnavailable, fmt.Sprintf("%s did not pack the extension: %v", browser, err),
			"see whether the browser starts: "+browser+" --version").With("said", tail(string(said)))
	}
	return os.Rename(made, crx)
}

// tail is the end of what a program said, for an error's detail.
func tail(s string) string {
	const most = 1000
	s = strings.TrimSpace(s)
	return s[max(0, len(s)-most):]
}
