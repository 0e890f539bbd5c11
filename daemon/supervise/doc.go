// Package supervise starts and ends launches of a slot's browser and says what is
// verified about them. It never decides who may use one. A launch is ended only
// when that was verified (I11), and its identity is the supervisor's own record,
// never a PID or a name alone (I12).
//
// Each launch has a keeper: a small process that is the subreaper of everything the
// browser starts, holds the slot's lock, serves keeper.sock and outlives the daemon.
// The next daemon finds it there. When the browser has gone the keeper ends what is
// left, verifies, writes an end record and goes too.
//
// Direct is the supervisor for a machine without a user manager: the keeper is a
// process of its own session. What it can prove has a limit, and its containment is
// therefore "weak": it accounts for every process that descends from the keeper, and
// searches for the rest by the launch's tag in their environment and by the
// profile's path. A process that something else started on the browser's behalf
// (over D-Bus, for instance), with neither, is not seen.
//
// Systemd starts the keeper as the main process of a transient unit of the user's
// service manager. The unit's control group holds what descent does not, and units
// that somebody had the manager make meanwhile are looked for: containment "full".
// Chosen takes the one that works here, and asks about each launch where it was
// started.
//
// Processes are signalled through pidfds whose start time was compared, so that no
// signal reaches a stranger; and only descendants, tagged processes and members of
// the launch's own control group are signalled at all. Others that use the profile
// are reported and left alone.
package supervise
