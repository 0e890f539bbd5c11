// Command crash kills the real daemon, over and over, while several clients work against
// it, and looks at what it has left on the disk.
//
// A round starts sessiondockd (built with the tag failpoint, see daemon/failpoint) on a real
// file and lets a crew of clients work through its sockets: agents that acquire, act, renew,
// resume and release, persons that take over, hand back, revoke, stop and settle, clerks
// that make and remove slots, bindings and delegations. SIGKILL comes at a named failpoint
// or at any moment. What was answered stands in the ledger, which the clients keep and the
// daemon does not know. Then:
//
//   - in a copy of the database that the dead daemon left, every acknowledged change is
//     there, the journal has no gap, goes on from the one before and leads to what the
//     tables hold, and no invariant is broken;
//   - every epoch that anybody saw is below the durable ceiling, was one holder's alone, and
//     is below every epoch after the next start;
//   - after the next start nobody has control but a person; leases are suspended, or over.
//
// A takeover may be acknowledged by the extension before it is on the disk (decision 7).
// Of such a one the extension's next hello has to tell, and the slot has to be the person's.
//
// After some rounds everything is stopped in order, SQLite looks at a copy of the database,
// and a new installation begins.
//
// No Chromium is needed: the browser is this program under another name. It starts the real
// sessiondock-host from the manifest in its profile, so it is supervised and attested like
// any other, and plays the extension at the other end of Native Messaging. What it sees it
// writes down for the ledger.
package main
