// Package extension carries the files of the browser extension, so that one program
// can install them, and their hash, so that a copy of another build is recognised.
//
// It does not talk to the extension; that is package wire's protocol. Invariant:
// Build changes whenever a shipped file does, and with nothing else.
package extension
