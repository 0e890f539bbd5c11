//go:build !powerlosscontrol

package store

// synchronous is FULL: each commit waits for the disk. Anything less loses acknowledged
// commits with the power, which e2e/powerloss shows.
const synchronous = 2
