package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/peer"
)

// pinWithin bounds the wait for a process to be stopped, which it is when it next
// gets the processor.
const pinWithin = 20 * time.Millisecond

// killTree sends SIGKILL to every living descendant of root, parents first, and
// says which it found. root is a keeper, which leads a session of its own.
//
// Where it can, it kills whole process groups: the kernel does that in one step,
// in which no member can fork, so that processes which do nothing but fork and
// end cannot run away from it. A group of the keeper's tree has no member outside
// of it, because a group lies within one session, and the tree's sessions began
// in the tree.
func killTree(root peer.Proc) []peer.Proc {
	var found []peer.Proc
	groups := map[int]bool{root.Group: true} // never the keeper's own
	for queue := []peer.Proc{root}; len(queue) > 0; queue = queue[1:] {
		parent := queue[0]
		for _, pid := range peer.Children(parent.PID) {
			p, ok := killChild(parent, pid, groups)
			if ok {
				found = append(found, p)
				queue = append(queue, p)
			}
		}
	}
	return found
}

// killChild kills a process if it is a living child of parent, with its group if
// that is not among groups yet.
func killChild(parent peer.Proc, pid int, groups map[int]bool) (peer.Proc, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return peer.Proc{}, false
	}
	defer unix.Close(fd)
	// The parent is looked at after the child: it was the same process all along,
	// and so what names it as parent is its child and no stranger.
	p, err := peer.Read(pid)
	if err != nil || p.Dead || p.PPID != parent.PID || !runs(parent) {
		return peer.Proc{}, false
	}
	if !groups[p.Group] && pin(fd, p) {
		groups[p.Group] = true
		// A stopped member keeps the group's number from being used again, so it
		// is this group that is killed; the member dies with it.
		unix.Kill(-p.Group, unix.SIGKILL)
	}
	unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	return p, true
}

// pin stops a process and waits until it has stopped in the group where it was.
func pin(fd int, p peer.Proc) bool {
	if unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil {
		return false
	}
	for end := time.Now().Add(pinWithin); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		now, err := peer.Read(p.PID)
		if err != nil || !now.Same(p) || now.Dead || now.Group != p.Group {
			return false
		}
		if now.Stopped {
			return true
		}
	}
	return false
}
