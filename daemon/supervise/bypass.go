package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// debuggingFlag begins every switch by which a browser lets itself be driven from
// outside, past the gates.
const debuggingFlag = "--remote-debugging-"

// bypasses remembers what was looked at, so that a look at a launch in which nothing
// is new costs little.
type bypasses struct {
	mu        sync.Mutex
	processes map[processID]string     // the debugging switch of each, "" without one
	sockets   map[string]core.LaunchID // whose each listening socket is, by inode; "" is nobody's here
	named     map[string]string        // how a socket of a launch is called
	members   func(core.Launch) []peer.Proc
	last      [2]string                     // processes that the kernel had made last, at the two looks before
	walked    map[core.LaunchID][]peer.Proc // what each launch consisted of then
	profile   func(core.SlotName) string
}

func newBypasses(profile func(core.SlotName) string, members func(core.Launch) []peer.Proc) *bypasses {
	return &bypasses{
		processes: map[processID]string{}, sockets: map[string]core.LaunchID{}, named: map[string]string{},
		profile: profile, members: members,
	}
}

// look names the ways round the fence that are open in each of the launches, which
// are all that run: a debugging port that the profile names, a debugging switch, and
// a listening socket. What a test launch was started with is not among them.
func (b *bypasses) look(all map[core.SlotName]core.Launch) map[core.SlotName][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := map[core.SlotName][]string{}
	seen := map[processID]string{}
	grown := false // a launch has a process that it had not at the look before
	members := b.walk(all)
	for slot, l := range all {
		if l.Debug != "port" && exists(filepath.Join(b.profile(slot), devToolsFile)) {
			found[slot] = append(found[slot], "its profile names an open debugging port ("+devToolsFile+")")
		}
		for _, p := range members[l.ID] {
			id := processID{p.PID, p.StartTime}
			flag, known := b.processes[id]
			if !known {
				flag, grown = debuggingSwitch(p.PID), true
			}
			seen[id] = flag
			if flag != "" && flag != debuggingFlag+l.Debug {
				found[slot] = append(found[slot], fmt.Sprintf("%s runs with %s", p, flag))
			}
		}
	}
	b.processes = seen
	b.lookAtSockets(members, grown)
	for slot, l := range all {
		for inode, owner := range b.sockets {
			if owner == l.ID && l.Debug != "port" {
				found[slot] = append(found[slot], b.named[inode])
			}
		}
		slices.Sort(found[slot])
	}
	return found
}

// walk lists the processes of the launches. While the kernel has made none there are
// none to find; one in the making at a look is there at the next.
func (b *bypasses) walk(all map[core.SlotName]core.Launch) map[core.LaunchID][]peer.Proc {
	last := lastProcess()
	now := map[core.LaunchID][]peer.Proc{}
	for _, l := range all {
		was, known := b.walked[l.ID]
		if !known || last == "" || b.last != [2]string{last, last} {
			was = b.members(l)
		}
		now[l.ID] = was
	}
	b.last, b.walked = [2]string{b.last[1], last}, now
	return now
}

// lastProcess names the process or thread that the kernel made last, "" if it does
// not say.
func lastProcess() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return string(text[bytes.LastIndexByte(text, ' ')+1:])
}

// lookAtSockets finds the owners of listening sockets. Which of the user's sockets
// listen is one short read; whose one is takes a look at every descriptor. It is taken
// when there is a new socket, and again for those that were nobody's when a launch has
// grown: the owner may have been made after the processes were listed, or its launch may
// not have been among those looked at.
func (b *bypasses) lookAtSockets(members map[core.LaunchID][]peer.Proc, grown bool) {
	listening := listeningSockets()
	search := map[string]bool{}
	for inode := range listening {
		if owner, known := b.sockets[inode]; !known || owner == "" && grown {
			search[inode] = true
			b.sockets[inode] = ""
		}
	}
	for inode := range b.sockets {
		if _, still := listening[inode]; !still {
			delete(b.sockets, inode)
			delete(b.named, inode)
		}
	}
	if len(search) == 0 {
		return
	}
	for id, procs := range members {
		for _, p := range procs {
			for _, inode := range socketsOf(p.PID) {
				if search[inode] {
					b.sockets[inode] = id
					b.named[inode] = fmt.Sprintf("%s listens on %s", p, listening[inode])
				}
			}
		}
	}
}

// debuggingSwitch is the debugging switch in a process's arguments. Chromium's
// processes put their arguments together with spaces.
func debuggingSwitch(pid int) string {
	args, err := readBounded("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	for _, arg := range strings.FieldsFunc(string(args), func(r rune) bool { return r == 0 || r == ' ' }) {
		if strings.HasPrefix(arg, debuggingFlag) {
			name, _, _ := strings.Cut(arg, "=")
			return name
		}
	}
	return ""
}

// socketsOf lists the inodes of a process's sockets. Those of a process that cannot
// be looked into are not seen; Chromium's browser process, which would listen, can.
func socketsOf(pid int) []string {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join(dir, fd.Name()))
		if err != nil {
			continue
		}
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			out = append(out, strings.TrimSuffix(inode, "]"))
		}
	}
	return out
}
