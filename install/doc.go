// Package install puts one user's installation in place and takes it away again: the
// programs, the units of the service manager, native messaging manifests, completions
// and manual pages.
//
// What is to be done is a Plan, which can be shown before it is applied. Applying it
// first writes every new file beside its place, then moves them in; whatever fails is
// undone by the receipt, which was written before anything else. The receipt also
// carries out the end of the installation: it names every file and directory that was
// made, and nothing that was not.
//
// Invariants: a file that is not ours, or that a person has changed, is neither
// replaced nor removed; at every moment, a power cut included, the receipt is enough to
// go forward or back; paths that others are given (manifests, units) have no version in
// them, so that no update makes them dangle.
package install
