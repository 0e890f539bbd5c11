package engine

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Clock tells the time of a step.
type Clock func() core.Now

// SystemClock reads CLOCK_BOOTTIME, which counts suspend and never jumps, and the
// kernel's boot identifier.
func SystemClock() (Clock, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	id := strings.TrimSpace(string(boot))
	return func() core.Now {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			panic("engine: CLOCK_BOOTTIME cannot be read: " + err.Error())
		}
		return core.Now{BootID: id, BootMs: ts.Nano() / int64(time.Millisecond), WallMs: time.Now().UnixMilli()}
	}, nil
}
