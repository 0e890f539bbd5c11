// Package hostlink is the daemon's end of host.sock. It attests the host that
// connects, turns what it sends into inputs of the engine, and the engine's effects
// into messages. It believes nothing that a host says about itself: which slot and
// launch a link belongs to is settled by the peer's credentials, its control group or
// its descent from the launch, and the launch's secret, before anything else is read.
package hostlink
