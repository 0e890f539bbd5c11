// Package core is the authority: who holds which slot, under which epoch, and
// what is known of every action. It is pure. Step takes the state, the time and
// one input and returns what to write, what to send afterwards and, if it
// refuses, why; it does no I/O, reads no clock, draws no random number, starts
// no goroutine and never depends on the order of a map.
//
// It does not persist, send or wait: package engine does, in the order commit,
// effects, reply. The invariants I1 to I14 stand in docs/ARCHITECTURE.md; the
// functions here name the ones they keep.
package core
