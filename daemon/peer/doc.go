// Package peer says who is at the other end of a unix socket, and makes the
// sockets that such a peer may come to.
//
// What the kernel recorded at connect time is the identity: uid, process and a
// descriptor of that very process. A PID alone never is, because it may be used
// again; wherever one is read, the start time is read with it and looked at
// twice. The package makes no decision about what a peer may do.
//
// Two limits are the kernel's: the credentials are those of the process that
// connected, which may have handed the descriptor on; and a process of the same
// uid can imitate its neighbours by means that no credential shows.
package peer
