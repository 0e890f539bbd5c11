// Command bundle makes of the service worker's modules the one file that a browser loads,
// gen/worker.js. Chromium fetches and compiles the modules of a worker one after another
// at each start, which costs a launch more than everything else of ours; the modules
// remain what is written, read and tested. With -check it writes nothing and fails if the
// file is stale.
package main
