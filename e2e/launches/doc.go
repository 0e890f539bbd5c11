// Command launches starts and stops a real Chromium many times in a row, as an installed
// product does under a user manager, and looks after each stop for what is left of it:
// processes, control groups, units, sockets, locks, temporary files, descriptors of the
// daemon. Its last line is one of JSON; it fails if anything is left.
package main
