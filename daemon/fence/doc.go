// Package fence is the fence register: what has been issued of a slot's epochs, and to
// whom, before the database has it.
//
// It is the one exception to "commit first", and the reason for it is the person: a
// takeover must stop an agent with a full or hung disk too. It issues numbers out of a
// ceiling that is durable, and knows nothing of disks, links or clocks; package engine
// uses it, and the simulation of the authority runs this very file.
//
// Invariants: no number is issued twice, none above the ceiling, and none below one
// that went out before (I1).
package fence
