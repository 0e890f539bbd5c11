// Command sessiondock-host is the broker of one launch of a slot's browser. The
// browser starts it as a Native Messaging host; it connects to the daemon's
// host.sock, passes messages between the daemon and the extension on unchanged,
// and carries out the daemon's actions as steps of the extension (package act).
//
// It decides nothing about who may act and holds no capability. It is the second
// of three gates: an action whose epoch is not the granted one is refused here,
// and only the daemon's grant and fence move what is granted. It ends with its
// browser, and a fence, a deadline or a lost daemon ends every action in it.
//
// Invariants: nothing but frames reaches standard output; a fence closes the gate
// before it is passed on, and waits for no action and no large message; every
// queue is bounded, and one that is full ends the link to the daemon, which closes
// the gates; no step is written whose epoch is not granted at that moment.
package main
