//go:build !failpoint

package main

import (
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/store"
)

// withPoints is the store itself, but in the crash test.
func withPoints(db *store.Store) engine.Store { return db }
