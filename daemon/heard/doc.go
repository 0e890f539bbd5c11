// Package heard puts what extensions and hosts say into the core's words, with the
// bounds that a report must keep: what cannot be stored is cut, what this daemon does
// not know is taken for what proves nothing.
//
// It knows no link and decides nothing about control. The simulation of the authority
// runs it between the extension's own code and the core's.
package heard
