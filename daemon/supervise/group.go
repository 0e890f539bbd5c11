package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/peer"
)

// group is a control group that is held by descriptors. They never come to mean
// another group: once this one has been removed, reading them says so.
type group struct {
	peer.Group
	dir    *os.File
	events *os.File
}

// openGroup holds the group that is at a path now.
func openGroup(path string) (*group, error) {
	dir, err := os.Open(filepath.Join(peer.GroupRoot, path))
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return nil, err
	}
	g := &group{Group: peer.Group{ID: st.Ino, Path: path}, dir: dir}
	if g.events, err = g.open("cgroup.events", unix.O_RDONLY); err != nil {
		dir.Close()
		return nil, err
	}
	return g, nil
}

func (g *group) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(g.dir.Fd()), name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s of control group %s: %w", name, g.Path, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (g *group) close() {
	g.events.Close()
	g.dir.Close()
}

// populated says whether a process is in the group or below it. A group that has
// been removed had none: the kernel removes no other.
func (g *group) populated() (bool, error) {
	var buf [256]byte
	n, err := g.events.ReadAt(buf[:], 0)
	switch {
	case errors.Is(err, unix.ENODEV):
		return false, nil
	case err != nil && err != io.EOF:
		return false, err
	}
	for line := range bytes.Lines(buf[:n]) {
		if v, ok := bytes.CutPrefix(line, []byte("populated ")); ok {
			return string(bytes.TrimSpace(v)) != "0", nil
		}
	}
	return false, fmt.Errorf("the events of control group %s do not say whether it is populated", g.Path)
}

// kill ends every process in the group and below it. The kernel does that so that
// no member's fork escapes.
func (g *group) kill() error {
	f, err := g.open("cgroup.kill", unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("1")
	return err
}

// processes lists what is in the group and below it. It may miss what comes and
// goes meanwhile; populated does not.
func (g *group) processes() []peer.Proc {
	var out []peer.Proc
	root := filepath.Join(peer.GroupRoot, g.Path)
	// Where the path means another group by now, this one has no process.
	if now, err := peer.GroupAt(g.Path); err != nil || now.ID != g.ID {
		return nil
	}
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // gone meanwhile, or a file
		}
		text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil
		}
		for _, f := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(f)
			if p, err := peer.Read(pid); err == nil && !p.Dead {
				out = append(out, p)
			}
		}
		return nil
	})
	return out
}
