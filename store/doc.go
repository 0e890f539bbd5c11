// Package store keeps the authority's state in one SQLite database: a table per
// kind of entity, and an append-only journal from which the tables can be rebuilt.
// A Delta is written in one transaction and is on disk when Commit returns.
//
// It decides nothing. What package core decided is written as it is, or refused as
// a whole where it would break an invariant: the schema keeps I1 (a slot's epoch
// and ceiling never go back, its row is never deleted), a part of I2 (one live
// lease per slot) and I7 (one action per binding and client's identifier), and a
// fence is a predicate of the write as well as an `if` before it.
//
// What holds of it:
//   - A nil from Commit means durable (WAL, synchronous=FULL).
//   - What Write has taken is durable with the next Commit, and lost with any error.
//   - An error from Commit means that nothing was written, unless it is
//     ErrUncertain: then COMMIT itself failed, nobody knows, and everything is
//     refused until Reopen and Load have shown what is there.
//   - One daemon: a lock file beside the database is held for the store's life.
//     Nothing else in the process may open the database's file.
//   - A database that is corrupt, foreign or of a newer version is refused, and
//     left as it was. One that turns out to be corrupt while it is open is written to no
//     more: see Damage.
//   - The log is copied into the database by Checkpoint, when the writer is idle. A commit
//     has to do it only where that never was.
//   - The state of links is of one daemon's life; it is not stored.
//   - The journal's oldest entries can be trimmed into the snapshot, which holds the
//     entities as they made them. Snapshot and journal, replayed, give the tables; no
//     epoch, open action or identifier of an action goes with them.
package store
