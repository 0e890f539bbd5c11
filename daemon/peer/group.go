package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// GroupRoot is where the control groups of version 2 are mounted.
const GroupRoot = "/sys/fs/cgroup"

// Group is one control group. The kernel gives a number to a group once, so two
// groups that have had the same path one after the other are two.
type Group struct {
	ID   uint64
	Path string // below GroupRoot, as this process sees it
}

// CheckGroups says why the control groups mounted at root, which is GroupRoot but for
// tests, cannot be used to identify anything.
func CheckGroups(root string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		return fmt.Errorf("%s: %w", root, err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s does not hold control groups of version 2 (systemd.unified_cgroup_hierarchy=1 on the kernel's command line makes it so)", root)
	}
	return nil
}

// GroupAt is the group that is at a path now.
func GroupAt(path string) (Group, error) {
	var st unix.Stat_t
	// An inode's number is, in this file system, the group's own.
	if err := unix.Stat(filepath.Join(GroupRoot, path), &st); err != nil {
		return Group{}, fmt.Errorf("control group %s: %w", path, err)
	}
	return Group{ID: st.Ino, Path: path}, nil
}

// Group is the control group of the process that connected. The kernel is asked by
// the descriptor of that very process (Linux 6.13); on an older one its entry in
// /proc is read, and the descriptor is looked at after that.
func (c Cred) Group() (Group, error) {
	path, err := GroupPath(c.PID)
	if err != nil {
		return Group{}, err
	}
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_CGROUPID}
	switch err := unix.IoctlPidfdInfo(c.PidFD, &info); {
	case err == nil && info.Mask&unix.PIDFD_INFO_CGROUPID != 0:
		return Group{ID: info.Cgroupid, Path: path}, nil
	case errors.Is(err, unix.ESRCH):
		return Group{}, fmt.Errorf("pid %d: %w", c.PID, ErrGone)
	}
	g, err := GroupAt(path)
	if err != nil {
		return Group{}, err
	}
	if !c.Alive() {
		return Group{}, fmt.Errorf("pid %d: %w", c.PID, ErrGone)
	}
	return g, nil
}

// GroupPath is the path of a process's control group, below GroupRoot.
func GroupPath(pid int) (string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(text) {
		if path, ok := strings.CutPrefix(string(bytes.TrimSuffix(line, []byte("\n"))), "0::"); ok {
			return path, nil
		}
	}
	return "", fmt.Errorf("pid %d is in no control group of version 2", pid)
}
