// Package client is the Go client of the daemon's HTTP API, and the only door to
// it for the command line and the end-to-end tests. It also says where the
// sockets, the database and the profiles lie (Paths).
//
// It decides nothing and never sends a change twice. Invariants:
//
//   - Every call has a deadline of its own, besides that of the context.
//   - Every error is a *core.Error; callers decide on its code.
//   - A change whose request may have reached the daemon and whose answer was
//     lost is core.CodeOutcomeUnknown, never a failure (I6).
//   - Secrets go in the Authorization header only and print as "[secret]".
//   - The peer of a socket must run as the caller's own user.
package client
