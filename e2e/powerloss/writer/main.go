// Command writer is the program that e2e/powerloss traces: it commits a story's chapters
// with package store, and acknowledges each by its number, a line on standard output.
//
//	writer DATABASE SEED CHAPTERS
package main

import (
	"fmt"
	"os"
	"strconv"

	"sessiondock.dev/sessiondock/e2e/powerloss/story"
	"sessiondock.dev/sessiondock/store"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: writer DATABASE SEED CHAPTERS")
	}
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	chapters, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	db, err := store.Open(args[0])
	if err != nil {
		return err
	}
	tale := story.New(seed)
	for n := 1; n <= chapters; n++ {
		c := tale.Tell()
		switch c.Before {
		case story.Reopen:
			if err := db.Reopen(); err != nil {
				return err
			}
		case story.Restart:
			if err := db.Close(); err != nil {
				return err
			}
			if db, err = store.Open(args[0]); err != nil {
				return err
			}
		}
		if err := db.Commit(c.Delta); err != nil {
			return fmt.Errorf("chapter %d: %w", n, err)
		}
		// One call of the kernel: the trace shows where in it the acknowledgement left.
		if _, err := fmt.Fprintln(os.Stdout, n); err != nil {
			return err
		}
	}
	return db.Close()
}
