// Command powerloss cuts the power at every system call of package store, and looks at
// what is left.
//
// A small program (writer) commits changes with package store and acknowledges each.
// strace writes down its system calls. From them the file system is rebuilt as it could
// stand on the disk at any moment, the database in it is opened again with package store,
// and judged:
//
//   - Every change whose acknowledgement had left before that moment is there, and with it
//     every epoch and ceiling: else it is lost.
//   - What is there is one of the states that the program committed, whole; snapshot and
//     journal lead to it as well; the next change can be committed; PRAGMA integrity_check
//     finds nothing: else it is corrupt.
//
// The same is done with a writer that was built to ask for synchronous=NORMAL. Of that one
// acknowledged changes must be lost, or this test could not see a loss.
//
// # The disk
//
// What is believed of a disk and its file system, and no more than that:
//
//   - What was written to a file is safe once an fsync or fdatasync of it has returned that
//     began after the write had returned. So is the file's length.
//   - A name is safe once an fsync or fdatasync of its directory has returned, in the same
//     way. Syncing the file does not make its name safe, as it does on many file systems.
//   - Of everything else any part may be there, in any order: writes, cuts, new names and
//     removed ones each for itself, also later ones without earlier ones.
//   - A write may be torn: of each sector, of 512 bytes or of 4096, that it covers, its
//     bytes are there or not. Bytes of a sector that were not written stay as they were.
//   - A file may have grown by a write whose bytes are not there. They read as zeros, or as
//     anything.
//   - The content of SQLite's shared memory file is anything: it is mapped, and never
//     synced.
//
// A disk that says a write is safe when it is not cannot be helped, and is not tried.
package main
