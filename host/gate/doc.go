// Package gate is the second gate: the host's, between the daemon's admission and the
// extension's dispatch. It refuses by itself whatever the other two let pass.
//
// It knows one number and nothing of links, actions or browsers. It is a package of its
// own so that the simulation of the authority runs this very file.
package gate
