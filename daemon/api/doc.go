// Package api is the daemon's HTTP API over unix sockets: api.sock for agents,
// control.sock for people. It knows who is at the other end before it looks at
// what is asked, turns requests into inputs of the engine and results into JSON.
// It decides nothing: every refusal but a malformed request comes from the core.
//
// A process of the same uid can open either door; see docs/THREATS.md.
package api
