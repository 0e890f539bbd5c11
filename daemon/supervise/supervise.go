package supervise

import (
	"context"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Spec is one launch to be started.
type Spec struct {
	Slot       core.SlotName
	Launch     core.LaunchID
	Generation int64
	Secret     string // per launch; reaches the host by its environment
	Display    string // headless or window
	StartURLs  []string
	Debug      string // "", "pipe" or "port": demonstrations, tests and benchmarks only
}

// Started is what was recorded of a launch at its start.
type Started struct {
	Unit         string // empty with the direct supervisor
	InvocationID string
	Containment  string // "full" or "weak"
	KeeperPID    int
	KeeperStart  uint64 // clock ticks since boot
	BrowserBuild string // "Chromium 156.0..."
}

// Ended is what was verified of a launch's end.
type Ended struct {
	Verified    bool
	Containment string
	How         string   // one sentence for a person
	Left        []string // processes that could not be shown to be gone
}

// StopMode is how hard to end a launch.
type StopMode string

const (
	// StopClean is SIGINT (5 s), SIGTERM (3 s), SIGKILL: keeps a login.
	StopClean StopMode = "clean"
	// StopNow is SIGKILL of every process of the launch.
	StopNow StopMode = "now"
)

// Supervisor starts, adopts and ends launches.
type Supervisor interface {
	// Start starts the browser and returns once its processes exist.
	Start(ctx context.Context, s Spec) (Started, error)
	// Adopt finds a recorded launch again after a restart of the daemon. It
	// returns core.CodeNotFound if the launch is verified to have ended, and
	// any other error if nothing can be said.
	Adopt(ctx context.Context, slot core.SlotName, l core.Launch) error
	// Wait returns when the launch has ended or cannot be watched any more
	// (Verified false), or when ctx is done.
	Wait(ctx context.Context, slot core.SlotName, l core.Launch) Ended
	// Stop ends the launch and verifies it.
	Stop(ctx context.Context, slot core.SlotName, l core.Launch, mode StopMode) Ended
	// Owns says whether a process belongs to the launch, by descent from its
	// keeper (and, with systemd, by control group). The reason names what failed.
	Owns(l core.Launch, pid int) *core.Error
	// MemoryMB is what the launch uses of the machine's memory; 0 is not known.
	MemoryMB(l core.Launch) int64
	// Name is "direct" or "systemd".
	Name() string
}
