package core

// Now is the time of one step, given by the engine. Boot time counts suspend and
// never jumps; the wall clock is only for people to read.
type Now struct {
	BootID string // the kernel's boot identifier
	BootMs int64  // CLOCK_BOOTTIME, milliseconds
	WallMs int64  // unix milliseconds
}

// Deadline is an instant of one boot. After a reboot it has passed.
type Deadline struct {
	BootID string `json:"boot_id"`
	BootMs int64  `json:"boot_ms"`
}

// In returns the deadline ms milliseconds from now.
func (n Now) In(ms int64) Deadline { return Deadline{n.BootID, n.BootMs + ms} }

// Passed says whether the deadline has come. The zero deadline is never.
func (d Deadline) Passed(n Now) bool {
	return d != Deadline{} && (d.BootID != n.BootID || n.BootMs >= d.BootMs)
}

// LeftMs returns the milliseconds that are left, 0 if it has passed or is zero.
func (d Deadline) LeftMs(n Now) int64 {
	if d == (Deadline{}) || d.Passed(n) {
		return 0
	}
	return d.BootMs - n.BootMs
}
