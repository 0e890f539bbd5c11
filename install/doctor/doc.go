// Package doctor looks at a machine and an installation and says what works, what does
// not, and how to mend it. It changes nothing, and needs no daemon: that none runs is
// one of the things it can say.
//
// Every check answers for one thing a person can do something about. Where it is not
// well there is a fix: a command, or one sentence.
package doctor
