package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{out: os.Stdout, err: os.Stderr, getenv: os.Getenv}
	a.colour = a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" && isTerminal(os.Stdout)
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
