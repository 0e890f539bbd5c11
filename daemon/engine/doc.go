// Package engine is the one writer. It takes inputs one after another, lets
// core.Step decide, commits what was decided, and only then carries out the
// effects and answers. It owns the state, the clock and the fence register; it
// decides nothing itself.
//
// The fence register is the one exception to "commit first", and the reason for it
// is the person: a takeover must stop an agent with a full or hung disk too. Its
// number comes out of a ceiling that is durable already, the fence goes out at
// once, and the record follows. Every other effect is checked against the register
// after its commit and dropped if its epoch has been left behind.
package engine
