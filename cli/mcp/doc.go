// Package mcp serves one agent's lease as tools of the Model Context Protocol. The
// tools of the browser have the names and arguments that agents know from other
// browsers' servers; those that begin with session_ are SessionDock's own.
//
// It decides nothing: every tool is a request to the daemon under the lease's
// capability, and what the daemon answers is put into words. The one thing that it
// keeps is what the agent has seen: references of a page belong to the document that
// they were read in, and are refused in another.
package mcp
