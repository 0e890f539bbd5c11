//go:build powerlosscontrol

package store

// synchronous is NORMAL in the control of e2e/powerloss, which is built with this tag to
// see its loss seen. No program of SessionDock is.
const synchronous = 1
