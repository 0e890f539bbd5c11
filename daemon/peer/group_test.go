package peer

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckGroups(t *testing.T) {
	if err := CheckGroups(t.TempDir()); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a plain directory: %v", err)
	}
	if err := CheckGroups("/nowhere"); err == nil {
		t.Error("no directory at all")
	}
}

// TestGroupOfAPeer compares the kernel's answer by descriptor with /proc. Where control
// groups of version 2 are mounted, the number is that of the directory.
func TestGroupOfAPeer(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, err := FromConn(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want, err := GroupPath(c.PID)
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.Group()
	if err != nil || g.ID == 0 || g.Path != want {
		t.Errorf("%+v %v, want %s", g, err, want)
	}
	if CheckGroups(GroupRoot) != nil {
		return // the numbers of what is mounted there are of another kind
	}
	if at, err := GroupAt(g.Path); err != nil || at != g {
		t.Errorf("by descriptor %+v, by path %+v %v", g, at, err)
	}
}
