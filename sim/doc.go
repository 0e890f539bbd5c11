// Package main is the simulation of the authority: seeded schedules of a daemon, its
// disk, hosts, extensions, browsers, pages, a website, agents, people and clocks, with
// faults in all of them, and every invariant looked at after every step.
//
// What is simulated is the world; what decides in it is the shipped code itself:
//
//	core.Step         daemon/core, with the state that it keeps and the journal it writes
//	fence.Register    daemon/fence, under the rules by which package engine uses it
//	heard             daemon/heard: what extensions and hosts say, in the core's words
//	gate.Gate         host/gate, the second gate
//	the extension     extension/*.js, all of it above its one seam to chrome.*: gate,
//	                  grants, ledger, drain, hold and the rest, run by an embedded engine
//
// Messages travel as package wire encodes them. Package engine's writer, the host's
// executor and the supervisor are modelled (daemon.go, host.go): they wait for clocks,
// disks and processes, which is what is simulated here.
//
// Nothing in a schedule is concurrent. What would be is the order in which its
// happenings are chosen, and the seed alone chooses them (rows.go is the table), so a
// seed reproduces a schedule to the letter:
//
//	go run ./sim -n 20000            schedules with seeds 1 to 20000
//	go run ./sim -n 1 -seed 4711     one, with its transcript
//	go run ./sim -n 2 -plants all    each deliberate fault of faults.go, until it is found
//	go run ./sim -explore whole      every state of a small world instead (package explore)
//
// What has really happened (truth.go) is kept by the simulated world itself, and the
// ledger's claims are compared with it: that an action was not dispatched, that it
// failed, that it has come to rest, who may act, what is seen by whom.
//
// What it does not show: that Chromium behaves as browser.go says. That is measured in
// package e2e.
package main
