package supervise

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
)

// MemoryMB is what the launch's processes use of the machine's memory, in MB: the
// proportional set size of each (/proc/PID/smaps_rollup), so that what Chromium's
// processes share is counted once. A process that cannot be read counts nothing. Zero
// is not known.
func (d *Direct) MemoryMB(l core.Launch) int64 {
	members := d.members(l)
	if len(members) == 0 {
		return 0
	}
	kb := pss(d.keeperOf(l).PID)
	for _, p := range members {
		kb += pss(p.PID)
	}
	return kb >> 10
}

func pss(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return kb
		}
	}
	return 0
}
