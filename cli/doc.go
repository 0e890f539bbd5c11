// Command sessiondock is what a person, a script or an agent types: it creates
// slots, declares bindings, delegates them, acts under a lease, takes a browser
// back and says what is known.
//
// It decides nothing and stores nothing. Every verb is one or two calls of package
// client; the authority is the daemon. Its own promises are these:
//
//   - Data goes to standard output, messages to standard error. With --json the
//     data is the API's own object or array.
//   - An error is a line "error: code: message", then a line "hint: ..."; the exit
//     code comes from core.Codes.
//   - A delegation or a capability is never an argument: other users can read
//     arguments.
//   - Colour only on a terminal and without NO_COLOR. It never asks anything.
package main
