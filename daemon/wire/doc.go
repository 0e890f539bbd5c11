// Package wire is the protocol between the daemon, the host and the extension,
// and the JSON of the daemon's HTTP API: messages, verbs, limits and the frame
// codec. The types here are the only definition; package gen writes the
// extension's validators and the tables of docs/PROTOCOL.md from them.
//
// Package wire decides nothing. It says whether a message is well formed, never
// whether it is allowed.
package wire
