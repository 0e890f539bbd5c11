package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

// TestPowerLoss is `make powerloss` in small (D2), with its control (D3).
func TestPowerLoss(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skipf("NOT RUN: no trace of the store's system calls: %v: make deps", err)
	}
	z := size{chapters: 60, states: 2000, seed: rand.Uint64N(1 << 32)}
	r, err := run(z, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if err := r.verdict(); err != nil {
		t.Error(err)
	}
	if r.States < z.states {
		t.Errorf("only %d states were judged", r.States)
	}
}

// hexed writes a trace's strings as strace -xx does.
func hexed(trace string) string {
	var out strings.Builder
	for i, part := range strings.Split(trace, `"`) {
		if i%2 == 0 {
			out.WriteString(part)
			continue
		}
		out.WriteByte('"')
		for _, b := range []byte(part) {
			fmt.Fprintf(&out, `\x%02x`, b)
		}
		out.WriteByte('"')
	}
	return out.String()
}

// after returns the disk after a trace, and the states in which all of what is not safe
// is there, and nothing of it.
func after(t *testing.T, trace string) (d *disk, all, nothing image) {
	t.Helper()
	calls, err := parse(strings.NewReader(hexed(trace)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := walk("/r", calls, func(_ int, now *disk, _ int) bool { d = now; return true }); err != nil && err != errEmpty {
		t.Fatal(err)
	}
	if d == nil {
		t.Fatal("nothing has changed the disk")
	}
	return d, d.image(choices(d, 1, nil)), d.image(choices(d, 0, nil))
}

func TestWhatIsSafe(t *testing.T) {
	const made = `1 mkdir("/r/d", 0700) = 0
1 open("/r/d/f", O_RDWR|O_CREAT, 0600) = 5
`
	const safe = made + `1 open("/r/d", O_RDONLY) = 6
1 fsync(6) = 0
1 close(6) = 0
1 open("/r", O_RDONLY) = 6
1 fsync(6) = 0
`
	for name, c := range map[string]struct{ trace, all, nothing string }{
		"a name":                   {made, "map[.: d: d/f:]", "map[.:]"},
		"a synced file's name":     {made + "1 fsync(5) = 0\n", "map[.: d: d/f:]", "map[.:]"},
		"a synced name":            {safe, "map[.: d: d/f:]", "map[.: d: d/f:]"},
		"a write":                  {safe + `1 pwrite64(5, "abc", 3, 1) = 3`, "map[.: d: d/f:\x00abc]", "map[.: d: d/f:]"},
		"a synced write":           {safe + `1 pwrite64(5, "abc", 3, 0) = 3` + "\n1 fdatasync(5) = 0", "map[.: d: d/f:abc]", "map[.: d: d/f:abc]"},
		"a write that was short":   {safe + `1 pwrite64(5, "abc", 3, 0) = 2` + "\n1 fdatasync(5) = 0", "map[.: d: d/f:ab]", "map[.: d: d/f:ab]"},
		"a sync that failed":       {safe + `1 pwrite64(5, "abc", 3, 0) = 3` + "\n1 fdatasync(5) = -1 EIO (Input/output error)", "map[.: d: d/f:abc]", "map[.: d: d/f:]"},
		"a write during the sync":  {safe + "1 fdatasync(5 <unfinished ...>\n" + `2 pwrite64(5, "abc", 3, 0) = 3` + "\n1 <... fdatasync resumed>) = 0", "map[.: d: d/f:abc]", "map[.: d: d/f:]"},
		"a write around the sync":  {safe + `2 pwrite64(5, "abc", 3, 0 <unfinished ...>` + "\n1 fdatasync(5) = 0\n2 <... pwrite64 resumed>) = 3", "map[.: d: d/f:abc]", "map[.: d: d/f:]"},
		"a sync that never ended":  {safe + `1 pwrite64(5, "abc", 3, 0) = 3` + "\n1 fdatasync(5) = ?", "map[.: d: d/f:abc]", "map[.: d: d/f:]"},
		"a cut":                    {safe + `1 pwrite64(5, "abc", 3, 0) = 3` + "\n1 fsync(5) = 0\n1 ftruncate(5, 1) = 0", "map[.: d: d/f:a]", "map[.: d: d/f:abc]"},
		"a removed name":           {safe + `1 unlink("/r/d/f") = 0`, "map[.: d:]", "map[.: d: d/f:]"},
		"a name that is new again": {safe + `1 unlink("/r/d/f") = 0` + "\n" + `1 open("/r/d/f", O_RDWR|O_CREAT, 0600) = 7` + "\n" + `1 pwrite64(7, "new", 3, 0) = 3`, "map[.: d: d/f:new]", "map[.: d: d/f:]"},
	} {
		_, all, nothing := after(t, c.trace)
		if got := fmt.Sprintf("%s", map[string][]byte(all)); got != c.all {
			t.Errorf("%s, all of it: %q, want %q", name, got, c.all)
		}
		if got := fmt.Sprintf("%s", map[string][]byte(nothing)); got != c.nothing {
			t.Errorf("%s, nothing of it: %q, want %q", name, got, c.nothing)
		}
	}
}

func TestAWriteIsTorn(t *testing.T) {
	d, _, _ := after(t, `1 open("/r/f", O_RDWR|O_CREAT, 0600) = 5
1 pwrite64(5, "`+strings.Repeat("a", 1200)+`", 1200, 300) = 1200`)
	c := choice{sector: 512, take: func(i, k, of int) bool {
		if i == 1 && of != 3 {
			t.Errorf("a write over 300 to 1500 has %d pieces", of)
		}
		return i == 0 || k == 1
	}}
	want := strings.Repeat("\x00", 512) + strings.Repeat("a", 512)
	if got := string(d.image(c)["f"]); got != want {
		t.Errorf("the second sector alone: %q", got)
	}
	c.grown = true
	if got := string(d.image(c)["f"]); got != want+strings.Repeat("\x00", 476) {
		t.Errorf("the same in its length: %q", got)
	}
	c.noise = rand.New(rand.NewPCG(1, 1))
	got := string(d.image(c)["f"])
	if len(got) != 1500 || got[512:1024] != want[512:] || strings.HasPrefix(got, want[:64]) {
		t.Errorf("the same over noise: %q", got)
	}
}

// TestWhatTheModelDoesNotKnow: a call that it cannot follow ends the run.
func TestWhatTheModelDoesNotKnow(t *testing.T) {
	for _, line := range []string{
		`1 rename("/r/f", "/r/g") = 0`,
		`1 write(5, "abc", 3) = 3`,
		`1 fallocate(5, 0, 0, 4096) = 0`,
		`1 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 5, 0) = 0x7f0000000000`,
		`1 open("/r/other", O_RDWR) = 6`,
	} {
		calls, err := parse(strings.NewReader(hexed(`1 open("/r/f", O_RDWR|O_CREAT, 0600) = 5` + "\n" + line)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = walk("/r", calls, func(int, *disk, int) bool { return true }); err == nil || err == errEmpty {
			t.Errorf("%s is passed over", line)
		}
	}
	for _, line := range []string{`1 pwrite64(5, "abc"..., 3, 0) = 3`, "noise", "1 noise", "1 <... fsync resumed>) = 0"} {
		if _, err := parse(strings.NewReader(line)); err == nil {
			t.Errorf("%s is read as a call", line)
		}
	}
}
