// Package manifests renders the files that SessionDock gives to other programs:
// the Native Messaging host manifest, the preferences that a new profile begins with,
// a slot's browser policy, what a packed extension is installed from, and the units of
// the user's service manager. The texts are templates in this folder.
//
// It writes nothing to disk and decides no path. The same arguments always give
// the same bytes, so that a file may be compared before it is replaced.
package manifests
