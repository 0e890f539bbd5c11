package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// call is one system call of the traced program. Begin and end are the lines of the trace
// on which it began and returned: between the two, what it does may have happened.
type call struct {
	begin, end int
	name       string
	args       []string
	result     int64 // -1: refused
}

// understood are the calls that the model knows, besides those that change no file.
var understood = []string{
	"open", "openat", "creat", "close", "dup", "dup2", "dup3", "write", "pwrite64", "ftruncate",
	"fsync", "fdatasync", "unlink", "unlinkat", "mkdir", "mkdirat", "mmap",
}

// refused are calls that could change a file in a way that the model does not know. That
// one is seen on a file of ours ends the run; so the list is long.
var refused = []string{
	"openat2", "writev", "pwritev", "pwritev2", "truncate", "fallocate", "sync", "syncfs", "sync_file_range", "msync",
	"rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "rmdir", "copy_file_range", "sendfile",
	"splice", "io_uring_setup", "fork", "vfork",
}

// trace runs a program under strace, its standard output being the acknowledgements, and
// returns its calls in the order in which they began.
func trace(program string, args ...string) ([]call, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return nil, err
	}
	out, err := os.CreateTemp("", "trace-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	names := slices.Concat(understood, refused)
	cmd := exec.Command(strace, slices.Concat([]string{
		"-f", "-qq", "-o", out.Name(), "-e", "signal=none",
		"-xx", "-s", strconv.Itoa(maxData), // every byte that is written, in hexadecimal
		"-e", "trace=?" + strings.Join(names, ",?"), program}, args)...)
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1") // fewer signals in the trace
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("strace: %w", err)
	}
	return parse(out)
}

// maxData bounds the data of one call in a trace; what is longer is refused, not cut.
const maxData = 4 << 20

// parse reads strace's output. A call that was interrupted by another thread's stands in
// two lines.
func parse(r io.Reader) ([]call, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 8*maxData)
	var calls []call
	open := map[string]call{} // by thread: what has begun
	head := map[string]string{}
	n := 0
	for ; lines.Scan(); n++ {
		thread, text, ok := strings.Cut(lines.Text(), " ")
		text = strings.TrimLeft(text, " ")
		switch {
		case !ok:
			return nil, fmt.Errorf("line %d: no call: %q", n+1, short(lines.Text()))
		case strings.HasPrefix(text, "+++"), strings.HasPrefix(text, "---"):
			continue
		case strings.HasPrefix(text, "<... "):
			_, rest, ok := strings.Cut(text, " resumed>")
			if _, begun := open[thread]; !ok || !begun {
				return nil, fmt.Errorf("line %d: resumes what has not begun: %q", n+1, short(text))
			}
			c := open[thread]
			text = head[thread] + rest
			delete(open, thread)
			delete(head, thread)
			c.end = n
			if err := c.read(text); err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
			calls = append(calls, c)
		case strings.HasSuffix(text, "<unfinished ...>"):
			open[thread] = call{begin: n}
			head[thread] = strings.TrimSuffix(strings.TrimSuffix(text, "<unfinished ...>"), " ")
		default:
			c := call{begin: n, end: n}
			if err := c.read(text); err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
			calls = append(calls, c)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(calls) == 0 {
		return nil, errors.New("the trace is empty")
	}
	slices.SortFunc(calls, func(a, b call) int { return a.begin - b.begin })
	return calls, nil
}

// read reads "name(args) = result".
func (c *call) read(text string) error {
	if strings.Contains(text, `"...`) {
		return fmt.Errorf("the data of a call was cut: %q", short(text))
	}
	name, rest, ok := strings.Cut(text, "(")
	at := strings.LastIndex(rest, ") ")
	if !ok || at < 0 {
		return fmt.Errorf("not a call: %q", short(text))
	}
	result := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest[at+1:]), "="))
	result, _, _ = strings.Cut(result, " ")
	if result == "?" {
		result = "-1" // it never returned
	}
	v, err := strconv.ParseInt(result, 0, 64)
	if err != nil {
		return fmt.Errorf("a result that is not a number: %q", short(text))
	}
	c.name, c.args, c.result = name, strings.Split(rest[:at], ", "), v
	return nil
}

// text decodes an argument that is a string.
func (c *call) text(i int) ([]byte, error) {
	if i >= len(c.args) || len(c.args[i]) < 2 || c.args[i][0] != '"' {
		return nil, fmt.Errorf("%s: argument %d is not a string", c.name, i)
	}
	return hex.DecodeString(strings.ReplaceAll(strings.Trim(c.args[i], `"`), `\x`, ""))
}

// number decodes an argument that is a number.
func (c *call) number(i int) (int64, error) {
	if i >= len(c.args) {
		return 0, fmt.Errorf("%s: no argument %d", c.name, i)
	}
	return strconv.ParseInt(c.args[i], 0, 64)
}

func short(s string) string { return s[:min(len(s), 120)] }
