// Command writer is the program that e2e/powerloss traces: it commits a story's chapters
// with package store, and acknowledges each by its number, a line on standard output.
//
//	writer DATABASE SEED CHAPTERS
package main

import (
	"errors"
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
		return errors.New("usage: writer DATABASE SEED CHAPTERS")
	}
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	chapters, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	return story.Run(args[0], seed, chapters, func(n int, _ story.Chapter, committed bool, _ *store.Store) error {
		if !committed {
			return nil
		}
		// One call of the kernel: the trace shows where in it the acknowledgement left.
		_, err := fmt.Fprintln(os.Stdout, n)
		return err
	})
}
