package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"sessiondock.dev/sessiondock/cli/confine"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == confine.Verb {
		os.Exit(confine.Main(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{out: os.Stdout, err: os.Stderr, getenv: os.Getenv}
	a.colour = a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" && isTerminal(os.Stdout)
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
