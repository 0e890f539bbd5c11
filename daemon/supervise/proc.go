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

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// tagName is the variable that marks every process of a launch, as far as
// processes keep the environment they were started with.
const tagName = "SESSIONDOCK_LAUNCH"

// maxEnviron bounds what is read of a process's environment or arguments. The
// kernel's own bound on both is of this order.
const maxEnviron = 8 << 20

// scope says which processes a launch answers for.
type scope struct {
	launch    core.LaunchID
	profile   string
	hostnames []string  // under which a lock of this machine may stand
	since     uint64    // start time of the keeper; 0 if not known
	keeper    peer.Proc // the living keeper, zero if it is gone
	successor peer.Proc // the keeper of a later launch of the same slot, if there is one
	group     string    // the path of the launch's control group; "" if it has none of its own
}

// finding is a process that keeps a launch from being called ended.
type finding struct {
	proc peer.Proc
	kind kind
	why  string
}

// kind says what a finding means.
type kind int

const (
	ours    kind = iota // of the launch beyond doubt: it may be killed
	user                // uses the profile: reported, and left alone
	obscure             // cannot be looked into, and might be of the launch
)

func (f finding) String() string { return f.proc.String() + ": " + f.why }

// sight is one process as one look saw it.
type sight struct {
	peer.Proc
	mine   bool // of our uid, real or effective
	hidden bool // its environment could not be read
	ours   bool
	later  bool // of the successor's launch
	why    string
}

// look searches every process of this uid. The keeper itself is not reported.
// An error means that nothing can be said.
func (s scope) look() ([]finding, error) { return s.search(s.inspect) }

// lookDeep looks also at what each process has open or mapped. It takes longer, and
// an end that is called verified needs it.
func (s scope) lookDeep() ([]finding, error) {
	return s.search(func(e *sight) {
		if s.inspect(e); !e.ours && e.why == "" {
			e.why = s.uses(e.PID)
		}
	})
}

func (s scope) search(inspect func(*sight)) ([]finding, error) {
	table, err := s.survey(inspect)
	if err != nil {
		return nil, err
	}
	holder, held := s.lockHolder()
	if held && holder.kind == ours {
		if p := table[holder.proc.PID]; p != nil && !p.later {
			p.ours, p.why = true, holder.why
		}
	}
	s.markDescendants(table)
	var reapers map[int]bool
	var out []finding
	for _, p := range table {
		switch {
		case p.ours:
			out = append(out, finding{p.Proc, ours, p.why})
		case p.later:
		case p.why != "":
			out = append(out, finding{p.Proc, user, p.why})
		case p.hidden && p.StartTime >= s.since:
			if reapers == nil {
				reapers = s.reapers()
			}
			if accounted(p, table, reapers) || s.inOtherUnit(p.PID) {
				continue
			}
			out = append(out, finding{p.Proc, obscure, "started after the launch, and cannot be looked into"})
		}
	}
	if held && holder.kind == user {
		if p := table[holder.proc.PID]; p == nil || !p.later {
			out = append(out, holder)
		}
	}
	return out, nil
}

func (s scope) survey(inspect func(*sight)) (map[int]*sight, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	table := make(map[int]*sight, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := peer.Read(pid)
		if errors.Is(err, peer.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if p.Dead || p.Same(s.keeper) {
			continue
		}
		e := &sight{Proc: p, mine: ownedByUs(pid)}
		table[pid] = e
		if e.mine {
			inspect(e)
		}
	}
	// A /proc mounted with hidepid leaves out, of all processes, those that could
	// not be looked into.
	if table[1] == nil {
		return nil, errors.New("this /proc does not show every process: it lacks init")
	}
	return table, nil
}

// inspect looks for the launch's tag and for the profile in one process.
func (s scope) inspect(e *sight) {
	dir := "/proc/" + strconv.Itoa(e.PID) + "/"
	env, err := readBounded(dir + "environ")
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.hidden = true
	case err == nil && hasVar(env, tagName+"="+string(s.launch)):
		e.ours, e.why = true, "carries the launch's tag"
		return
	}
	for _, link := range []string{"cwd", "exe"} {
		if to, err := os.Readlink(dir + link); err == nil && within(to, s.profile) {
			e.why = "its " + link + " is in the profile"
			return
		}
	}
	if args, err := readBounded(dir + "cmdline"); err == nil && mentions(args, s.profile) {
		e.why = "its arguments name the profile"
	}
}

// uses says by what a process uses the profile: a descriptor, or a mapping that
// outlives its descriptor. It is "" if there is none.
func (s scope) uses(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	if fds, err := os.ReadDir(dir + "fd"); err == nil {
		for _, fd := range fds {
			if to, err := os.Readlink(dir + "fd/" + fd.Name()); err == nil && within(to, s.profile) {
				return "has a file of the profile open"
			}
		}
	}
	if maps, err := readBounded(dir + "maps"); err == nil && mentions(maps, s.profile) {
		return "has a file of the profile mapped"
	}
	return ""
}

// markDescendants marks what descends from the keeper or from a tagged process,
// and what is the successor's.
func (s scope) markDescendants(table map[int]*sight) {
	for _, p := range table {
		var path []*sight
		for q := p; q != nil && len(path) < len(table); q = table[q.PPID] {
			path = append(path, q)
			if q.Same(s.successor) {
				for _, d := range path {
					d.later = true
				}
				break
			}
			if !q.ours && (s.keeper.PID == 0 || q.PPID != s.keeper.PID) {
				continue
			}
			for _, d := range path {
				d.ours = true
				if d.why == "" {
					d.why = "descends from the launch"
				}
			}
			break
		}
	}
}

// reapers are the processes to which orphans of the launch may have gone: init
// and user managers. With the keeper gone they may also have gone to any process
// above us, because whether one is a subreaper cannot be read.
func (s scope) reapers() map[int]bool {
	m := map[int]bool{1: true}
	if s.keeper.PID == 0 {
		if chain, err := peer.Ancestry(os.Getpid()); err == nil {
			for _, p := range chain {
				m[p.PID] = true
			}
		}
	}
	return m
}

// accounted says whether a process that cannot be looked into was made by a
// process that can, and that is not of the launch; or by another user's.
func accounted(p *sight, table map[int]*sight, reapers map[int]bool) bool {
	for q, n := table[p.PPID], 0; q != nil && n < len(table); q, n = table[q.PPID], n+1 {
		switch {
		case reapers[q.PID] || q.Comm == "systemd" || q.why != "":
			return false
		case !q.mine || !q.hidden:
			return true
		}
	}
	return false
}

// inOtherUnit says whether a process's control group accounts for it: it is that of
// a unit, and not the launch's. A process that a launch moved there is known by its
// descent, and a unit that a launch had made is looked for by itself.
func (s scope) inOtherUnit(pid int) bool {
	path, err := peer.GroupPath(pid)
	if s.group == "" || err != nil || within(path, s.group) {
		return false
	}
	for part := range strings.SplitSeq(path, "/") {
		if part != "init.scope" && (strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope")) {
			return true
		}
	}
	return false
}

// ownedByUs compares the real and the effective uid. The owner of /proc/PID is
// root for processes that hide, so it can only rule out.
func ownedByUs(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	us := os.Geteuid()
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || (int(st.Uid) != us && st.Uid != 0) {
		return false
	}
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(text, []byte("\nUid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	f := strings.Fields(string(line))
	want := strconv.Itoa(us)
	return len(f) >= 2 && (f[0] == want || f[1] == want)
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxEnviron))
}

func hasVar(environ []byte, pair string) bool {
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if string(v) == pair {
			return true
		}
	}
	return false
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/") || path == dir+" (deleted)"
}

// mentions says whether dir, as a whole path, occurs in the arguments.
func mentions(args []byte, dir string) bool {
	for rest := args; ; {
		i := bytes.Index(rest, []byte(dir))
		if i < 0 {
			return false
		}
		rest = rest[i+len(dir):]
		if len(rest) == 0 || bytes.IndexByte([]byte("/\x00 ,;:'\""), rest[0]) >= 0 {
			return true
		}
	}
}

// lockHolder reports the living process that Chromium's lock in the profile
// names. A PID used again shows itself by arguments that do not name the profile.
func (s scope) lockHolder() (finding, bool) {
	host, pid, ok := readLock(s.profile)
	if !ok {
		return finding{}, false
	}
	local := false
	for _, h := range s.hostnames {
		local = local || h == host
	}
	if !local {
		return finding{peer.Proc{PID: pid, Comm: "process on " + host}, user, "holds the profile's lock"}, true
	}
	p, err := peer.Read(pid)
	if err != nil || p.Dead {
		return finding{}, false
	}
	args, err := readBounded("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || !mentions(args, s.profile) {
		return finding{}, false
	}
	if s.since != 0 && p.StartTime >= s.since && ownedByUs(pid) {
		// Chromium writes its title over its environment, and with it over the tag. Of a
		// profile there is one browser, and the slot's lock has kept every other launch out.
		return finding{p, ours, "is the browser that holds the profile's lock"}, true
	}
	return finding{p, user, "holds the profile's lock"}, true
}

// readLock reads SingletonLock, a link to HOST-PID.
func readLock(profile string) (host string, pid int, ok bool) {
	to, err := os.Readlink(filepath.Join(profile, "SingletonLock"))
	if err != nil {
		return "", 0, false
	}
	i := strings.LastIndexByte(to, '-')
	if i < 0 {
		return to, 0, true
	}
	pid, _ = strconv.Atoi(to[i+1:])
	return to[:i], pid, true
}

// sendSignal reaches exactly the process p or nobody: the descriptor is opened
// first, and the start time compared after it.
func sendSignal(p peer.Proc, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	defer unix.Close(fd)
	now, err := peer.Read(p.PID)
	if err != nil {
		return err
	}
	if !now.Same(p) {
		return peer.ErrGone
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// runs says whether exactly the process p still runs.
func runs(p peer.Proc) bool {
	now, err := peer.Read(p.PID)
	return err == nil && now.Same(p) && !now.Dead
}
