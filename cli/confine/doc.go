// Package confine keeps an agent's command from what is not its own: the files of slots,
// the person's door, other programs' sockets and DevTools ports.
//
// A command is started in a user namespace and a mount namespace of its own, where this
// very program, as "confined", covers directories, gives up what it may do, and becomes
// the command. The process identifier, the uid and the process group stay, so that signals,
// the terminal and the daemon's look at its descent work as ever. Ports, abstract sockets,
// signals to others and their memory are kept from it by Landlock.
//
// It does not hide the rest of the file system and does not cut the network off: an agent
// needs its worktree and its model. What it writes where a person will run it later
// (a shell's start files, a program in PATH) is not prevented.
package confine
