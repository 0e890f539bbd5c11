// Package supervise starts and ends launches of a slot's browser and says what is
// verified about them. It never decides who may use one. A launch is ended only
// when that was verified (I11), and its identity is the supervisor's own record,
// never a PID or a name alone (I12).
//
// Direct is the supervisor for a machine without a user manager. Each launch has
// a keeper: a small process of its own session that is the subreaper of
// everything the browser starts, holds the slot's lock, serves keeper.sock and
// outlives the daemon. The next daemon finds it there. When the browser has gone
// the keeper ends what is left, verifies, writes an end record and goes too.
//
// What Direct can prove has a limit, and its containment is therefore "weak":
// it accounts for every process that descends from the keeper, and searches for
// the rest by the launch's tag in their environment and by the profile's path.
// A process that something else started on the browser's behalf (over D-Bus, for
// instance), with neither, is not seen. Processes are signalled through pidfds
// whose start time was compared, so that no signal reaches a stranger; and only
// descendants and tagged processes are signalled at all. Others that use the
// profile are reported and left alone.
package supervise
