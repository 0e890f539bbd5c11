// Package act carries out actions: it turns each verb of wire.Verbs into steps,
// hands them to the extension one by one, and says what is known at the end.
//
// It decides nothing about who may act: every step passes the host's gate and the
// extension's, and package act only learns whether it did. It holds no lease, no
// capability and no policy of a binding; the table of DevTools methods in
// policy.go is what no binding may widen.
//
// Invariants: an action ends as finished only if every effect step was answered
// without error and, for input, a barrier in the same document passed after them;
// as refused only if it is proved that no effect step was dispatched; as failed
// only by an error of the closed table in errors.go. Everything else is halted or
// unknown. A stopped action (a fence, its deadline, a lost link) ends at once and
// waits for no open step. What was typed stands in no error and no log.
package act
