package supervise

import (
	"context"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
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

// Ended is what was verified of a launch's end.
type Ended struct {
	Verified    bool
	Containment string
	Clean       bool     // the browser has written all that it had
	How         string   // one sentence for a person
	Left        []string // what could not be shown to be gone
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
	// Unit is the name of the unit that a launch will run in, "" without units.
	// It is recorded before the start.
	Unit(slot core.SlotName, generation int64, l core.LaunchID) string
	// Start starts the browser and returns once its processes exist.
	Start(ctx context.Context, s Spec) (core.Identity, error)
	// Adopt finds a recorded launch again after a restart of the daemon, and
	// returns what was recorded of it or should have been. It refuses with
	// core.CodeNotFound if the launch is verified to have ended (whether cleanly, says
	// its detail "clean"), and with any other code if nothing can be said.
	Adopt(ctx context.Context, slot core.SlotName, l core.Launch) (core.Identity, error)
	// Wait returns when the launch has ended or cannot be watched any more
	// (Verified false), or when ctx is done.
	Wait(ctx context.Context, slot core.SlotName, l core.Launch) Ended
	// Stop ends the launch and verifies it. A launch whose identity is not the
	// recorded one is left alone.
	Stop(ctx context.Context, slot core.SlotName, l core.Launch, mode StopMode) Ended
	// Owns says whether the process that connected belongs to the launch: by
	// control group with systemd, else by descent from the launch's keeper. The
	// reason names what failed.
	Owns(l core.Launch, who peer.Cred) *core.Error
	// Bypasses names the ways round the fence that are open in the launches given,
	// which are all that run: a debugging port, switch or listening socket that a
	// launch was not started with.
	Bypasses(map[core.SlotName]core.Launch) map[core.SlotName][]string
	// Stored is what the files show in which the slot's browser keeps sign-ins.
	Stored(slot core.SlotName) Stored
	// MemoryMB is what the launch uses of the machine's memory; 0 is not known.
	MemoryMB(l core.Launch) int64
	// Name is "direct" or "systemd".
	Name() string
}
