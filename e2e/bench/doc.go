// Command bench measures SessionDock against what it is compared with, in the same
// run and in turns: `go run ./e2e/bench`, or with ONLY=name,name a part of it. It
// prints a table and writes one JSON line a figure to build/bench.jsonl.
//
// Baselines are real: a bare relay (package relay), the same browser by a direct
// DevTools socket, and the same Chromium started without SessionDock. A figure
// whose baseline could not be measured is not written.
package main
