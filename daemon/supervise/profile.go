package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/manifests"
)

// machine is kept beside a profile, so that a lock under a former name of this
// machine is not taken for one of another.
type machine struct {
	ID       string   `json:"machine_id"`
	Hostname []string `json:"hostnames"` // newest last
}

// maxHostnames bounds the names that are remembered.
const maxHostnames = 16

// hostnames returns the names under which this machine has locked the profile,
// and remembers its present one.
func hostnames(file string) ([]string, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil || len(id) == 0 {
		return []string{name}, nil // nothing says that a former name was ours
	}
	now := machine{ID: strings.TrimSpace(string(id))}
	var old machine
	if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &old) == nil && old.ID == now.ID {
		now.Hostname = old.Hostname
	}
	for _, h := range now.Hostname {
		if h == name {
			return now.Hostname, nil
		}
	}
	now.Hostname = append(now.Hostname, name)
	now.Hostname = now.Hostname[max(0, len(now.Hostname)-maxHostnames):]
	text, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	return now.Hostname, writeFile(file, text)
}

// clearLock removes Chromium's own lock once its owner is proved dead. The caller
// holds the slot's lock, and s looks for a launch that does not exist yet: what
// it finds is whatever uses the profile now. A DevToolsActivePort of an earlier
// test launch goes too, so that one which is there means a port that is open now.
func clearLock(s scope) error {
	found, err := s.look()
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.kind == obscure {
			continue // there is no launch yet of which it could be
		}
		return core.Refuse(core.CodeConflict, "the slot's profile is in use by "+f.String(),
			"close that program; if it is another host's, stop the browser there").With("process", f.String())
	}
	for _, name := range []string{"SingletonLock", "SingletonCookie", "SingletonSocket", "DevToolsActivePort"} {
		if err := os.Remove(filepath.Join(s.profile, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// fresh says whether the profile has no session to bring back.
func fresh(profile string) bool {
	entries, err := os.ReadDir(filepath.Join(profile, "Default", "Sessions"))
	return err != nil || len(entries) == 0
}

// preparePreferences writes the preferences of a new profile, and makes those of
// one whose browser crashed say that it did not: otherwise the tabs would not
// come back.
func preparePreferences(profile, downloads string) error {
	path := filepath.Join(profile, "Default", "Preferences")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := peer.OwnDir(filepath.Dir(path)); err != nil {
			return err
		}
		return writeFile(path, manifests.Preferences(downloads))
	}
	if err != nil {
		return err
	}
	// Preferences that cannot be read are Chromium's to deal with: it keeps the
	// bad file aside and begins anew.
	if changed, ok := exitedCleanly(text); ok {
		return writeFile(path, changed)
	}
	return nil
}

// exitType is what a browser wrote into its profile as it ended: Normal, SessionEnded
// (by a signal that leaves no time), or Crashed, which it writes as it starts.
func exitType(profile string) string {
	text, err := os.ReadFile(filepath.Join(profile, "Default", "Preferences"))
	var p struct {
		Profile struct {
			ExitType string `json:"exit_type"`
		} `json:"profile"`
	}
	if err != nil || json.Unmarshal(text, &p) != nil {
		return ""
	}
	return p.Profile.ExitType
}

// exitedCleanly changes two members and leaves every other byte of the values as
// it is. It returns false if there is nothing to change.
func exitedCleanly(text []byte) ([]byte, bool) {
	var all, prof map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil || all["profile"] == nil || json.Unmarshal(all["profile"], &prof) != nil {
		return nil, false
	}
	if string(prof["exit_type"]) == `"Normal"` && string(prof["exited_cleanly"]) != "false" {
		return nil, false
	}
	prof["exit_type"], prof["exited_cleanly"] = json.RawMessage(`"Normal"`), json.RawMessage("true")
	sub, err := json.Marshal(prof)
	if err != nil {
		return nil, false
	}
	all["profile"] = sub
	out, err := json.Marshal(all)
	return out, err == nil
}

// prepareHost writes the manifest by which the profile's extension finds the host.
func prepareHost(profile, hostBinary, extensionID string) error {
	dir := filepath.Join(profile, "NativeMessagingHosts")
	if err := peer.OwnDir(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, manifests.HostName+".json")
	want := manifests.NativeHost(hostBinary, extensionID)
	if have, err := os.ReadFile(path); err == nil && string(have) == string(want) {
		return nil
	}
	return writeFile(path, want)
}

// prepareExtension puts the extension of one build into a directory of its own,
// once. Slots that run another build keep theirs.
func prepareExtension(root, build string, write func(dir string) error) (string, error) {
	if build == "" || build == "." || build == ".." || strings.ContainsAny(build, "/\x00") {
		return "", fmt.Errorf("extension build %q cannot name a directory", build)
	}
	dir := filepath.Join(root, build)
	if err := peer.OwnDir(root); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err == nil {
		return dir, nil
	}
	temp, err := os.MkdirTemp(root, ".new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := write(temp); err != nil {
		return "", err
	}
	if err := os.Rename(temp, dir); err != nil {
		// Another slot's start may have been first with the same build.
		if _, serr := os.Stat(filepath.Join(dir, "manifest.json")); serr == nil {
			return dir, nil
		}
		return "", err
	}
	return dir, nil
}
