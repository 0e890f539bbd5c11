package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// node is a file or a directory on the disk. What is safe of it is apart from what is not.
type node struct {
	dir   bool
	data  []byte           // of a file: what is safe
	names map[string]*node // of a directory: what is safe
	// mapped: its content is written without a call, and never synced.
	mapped bool
}

// change is one thing that is not safe yet.
type change struct {
	of         *node
	begin, end int // lines of the call
	// One of three: bytes at an offset; a length; a name, which is a node's or removed.
	at     int64
	data   []byte
	length bool
	name   string
	to     *node
}

// disk is what the trace has done so far: what is safe, and all that is not, in the order
// in which it began.
type disk struct {
	root    string
	top     *node
	pending []change
	now     map[string]*node // the program's own view, by path below root
	fds     map[int64]*node  // open descriptors; what is not below root has none
}

func newDisk(root string) *disk {
	top := &node{dir: true, names: map[string]*node{}}
	return &disk{root: root, top: top, now: map[string]*node{".": top}, fds: map[int64]*node{}}
}

// size is about how many bytes the files have.
func (d *disk) size() (n int) {
	for _, v := range d.now {
		n += len(v.data)
	}
	return n
}

// below returns a path relative to the root, or false.
func (d *disk) below(path string) (string, bool) {
	rel, err := filepath.Rel(d.root, path)
	return rel, err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// begin does what a call may do from the moment in which it begins. It says whether the
// disk has changed.
func (d *disk) begin(c *call) (bool, error) {
	if slices.Contains(refused, c.name) && c.result >= 0 {
		return false, fmt.Errorf("%s%v: the model does not know what this does to a disk", c.name, c.args)
	}
	if c.result < 0 {
		return false, nil
	}
	switch c.name {
	case "open", "openat", "creat":
		return d.open(c)
	case "mkdir", "mkdirat", "unlink", "unlinkat":
		at := strings.Count(c.name, "at") // the directory's descriptor comes first
		path, ok, err := d.path(c, at)
		if err != nil || !ok {
			return false, err
		}
		if strings.HasPrefix(c.name, "unlink") {
			delete(d.now, path)
			d.rename(c, path, nil)
			return true, nil
		}
		n := &node{dir: true, names: map[string]*node{}}
		d.now[path] = n
		d.rename(c, path, n)
		return true, nil
	case "write", "pwrite64", "ftruncate":
		return d.write(c)
	case "mmap":
		return false, d.mmap(c)
	}
	return false, nil
}

// returned does what is true once a call has returned.
func (d *disk) returned(c *call) (synced bool, err error) {
	if c.result < 0 || !slices.Contains([]string{"close", "dup", "dup2", "dup3", "fsync", "fdatasync"}, c.name) {
		return false, nil
	}
	fd, err := c.number(0)
	if err != nil {
		return false, err
	}
	switch c.name {
	case "close":
		delete(d.fds, fd)
	case "dup", "dup2", "dup3":
		d.fds[c.result] = d.fds[fd]
	default:
		if n := d.fds[fd]; n != nil {
			d.sync(n, c.begin)
			return true, nil
		}
	}
	return false, nil
}

// sync makes safe what was done to a node by calls that had returned by a line.
func (d *disk) sync(n *node, by int) {
	d.pending = slices.DeleteFunc(d.pending, func(p change) bool {
		if p.of != n || p.end >= by {
			return false
		}
		switch {
		case p.name != "" && p.to == nil:
			delete(n.names, p.name)
		case p.name != "":
			n.names[p.name] = p.to
		case p.length:
			n.data = resize(n.data, p.at)
		default:
			n.data = resize(n.data, max(int64(len(n.data)), p.at+int64(len(p.data))))
			copy(n.data[p.at:], p.data)
		}
		return true
	})
}

func resize(data []byte, n int64) []byte {
	if int64(len(data)) >= n {
		return data[:n]
	}
	return append(data, make([]byte, n-int64(len(data)))...)
}

func (d *disk) path(c *call, at int) (string, bool, error) {
	raw, err := c.text(at)
	if err != nil {
		return "", false, err
	}
	if !filepath.IsAbs(string(raw)) {
		return "", false, nil // the program is given absolute paths only
	}
	path, ok := d.below(string(raw))
	return path, ok, nil
}

func (d *disk) rename(c *call, path string, to *node) {
	parent := d.now[filepath.Dir(path)]
	d.pending = append(d.pending, change{of: parent, begin: c.begin, end: c.end, name: filepath.Base(path), to: to})
}

func (d *disk) open(c *call) (bool, error) {
	at := strings.Count(c.name, "at")
	if c.name == "creat" {
		at = 0
	}
	path, ok, err := d.path(c, at)
	if err != nil || !ok {
		return false, err
	}
	flags := "O_CREAT|O_TRUNC"
	if c.name != "creat" {
		flags = c.args[at+1]
	}
	n := d.now[path]
	changed := false
	switch {
	case n == nil && strings.Contains(flags, "O_CREAT"):
		n = &node{}
		d.now[path] = n
		d.rename(c, path, n)
		changed = true
	case n == nil:
		return false, fmt.Errorf("%s was opened, and nobody has made it", path)
	case strings.Contains(flags, "O_TRUNC"):
		d.pending = append(d.pending, change{of: n, begin: c.begin, end: c.end, length: true})
		changed = true
	}
	d.fds[c.result] = n
	return changed, nil
}

func (d *disk) write(c *call) (bool, error) {
	fd, err := c.number(0)
	if err != nil {
		return false, err
	}
	n := d.fds[fd]
	if n == nil {
		return false, nil
	}
	p := change{of: n, begin: c.begin, end: c.end}
	switch c.name {
	case "write":
		return false, fmt.Errorf("a write without an offset: the model does not keep positions of descriptors")
	case "pwrite64":
		if p.data, err = c.text(1); err != nil {
			return false, err
		}
		p.data = p.data[:c.result]
		if p.at, err = c.number(3); err != nil {
			return false, err
		}
	case "ftruncate":
		p.length = true
		if p.at, err = c.number(1); err != nil {
			return false, err
		}
	}
	d.pending = append(d.pending, p)
	return true, nil
}

// mmap allows a shared, writable mapping of SQLite's shared memory file only: through any
// other, content would change without a call.
func (d *disk) mmap(c *call) error {
	fd, err := strconv.ParseInt(c.args[4], 10, 64)
	if err != nil {
		return nil // no file
	}
	n := d.fds[fd]
	if n == nil || !strings.Contains(c.args[3], "MAP_SHARED") || !strings.Contains(c.args[2], "PROT_WRITE") {
		return nil
	}
	n.mapped = true
	for path, v := range d.now {
		if v == n && !strings.HasSuffix(path, "-shm") {
			return fmt.Errorf("%s is mapped for writing: the model cannot see what is written to it", path)
		}
	}
	return nil
}
