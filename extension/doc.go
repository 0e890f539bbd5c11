// Package extension carries the files of the browser extension, so that one program
// can install them, and their hash, so that a copy of another build is recognised.
//
// It also makes and reads the key of an installation. The repository holds none: the key
// gives the extension its identifier, by which a native host knows whom to serve, and a
// key that everybody had would let anybody sign another extension under it.
//
// It does not talk to the extension; that is package wire's protocol. Invariants: Build
// changes whenever a shipped file does, and with nothing else; ID follows from the key,
// and nothing else names it.
package extension
