// Package demo shows the handoff between an agent and a person in a real Chromium,
// on a small site of its own, and holds what such a show needs: the site, which
// counts from its own side what reached it; a home and an ordinary uid that exist
// for one run only; and a hand that presses the extension's real popup.
//
// The end-to-end tests and the benchmarks use the same parts. The package decides
// nothing about control: it asks the daemon like any other client, and what it
// reports of the website is the site's own count, never a guess from the browser.
//
// Invariants: Chromium always runs with its own sandbox on; a process that this
// package ends is one that it started or a descendant of it; nothing of a run is
// left behind in the file system.
package demo
