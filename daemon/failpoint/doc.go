// Package failpoint names the moments at which a test may end the daemon. Without the
// build tag "failpoint", which no shipped program has, a point is nothing.
//
// With it the environment arms one point or several, in SESSIONDOCK_FAILPOINT:
// "before-commit:12" is the twelfth time that before-commit is passed, and
// "commit-lost:3,during-reopen:1" are two. A point that is passed so often ends the
// process as SIGKILL does, or makes fail or slow what it stands before.
//
// The points, where they lie, and what is true there:
//
//	slow-disk       from here on each commit takes 20 ms, as on a busy disk
//	before-key      the first start has made its key, and not given it its name
//	before-commit   decided; nothing is written, nobody was told
//	after-commit    durable; nobody was told
//	commit-lost     COMMIT answers an error, and nothing was written
//	commit-kept     COMMIT answers an error, and all was written
//	before-reopen   a commit has failed; the database is about to be opened again
//	during-reopen   it is open again; nothing was read yet
//	before-trim     a piece of the journal is about to go
//	after-trim      it has gone
//	before-checkpoint  the log is about to be copied into the database
//	after-checkpoint   it was
//	eager-checkpoint   from here on that follows each commit: under load it would not come
//	before-effect   an effect is about to leave: a frame to a host, a browser's start
//	after-effect    it has left; whoever asked has no answer
package failpoint
