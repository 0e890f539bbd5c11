package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/e2e/browser"
)

const (
	// scripts is how often the fifty steps are done.
	scripts      = 15
	scriptWarmUp = 2
	// clientsDir holds the clients as they are published, and their scripts.
	clientsDir = "clients"
)

// errNoClients says that there is no Playwright to run.
var errNoClients = errors.New("NOT RUN: Playwright is not installed: make deps")

// stepper is a running Playwright program that does fifty steps when it is asked.
type stepper struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (b *bench) stepper(ctx context.Context, address string) (*stepper, error) {
	dir := filepath.Join(b.home.Bin(), clientsDir)
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		return nil, errNoClients
	}
	s := &stepper{cmd: exec.CommandContext(ctx, "node", filepath.Join(dir, "steps.mjs"), address, b.page("table"))}
	s.cmd.Stderr = os.Stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	return s, s.cmd.Start()
}

// steps does the fifty steps and returns how long they took the program.
func (s *stepper) steps() (time.Duration, error) {
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		return 0, err
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the Playwright program: %w", err)
	}
	ms, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
	return time.Duration(ms * float64(time.Millisecond)), err
}

func (s *stepper) close() error { return errors.Join(s.in.Close(), s.cmd.Wait()) }

// measurePlaywright has one Playwright program work through the lease's address and
// another one, on the same browser, by its DevTools port.
func measurePlaywright(ctx context.Context, b *bench) (figures []Figure, err error) {
	p, err := b.product(ctx, "port", "table")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	devtools, err := browser.DevTools(ctx, p.profile())
	if err != nil {
		return nil, err
	}
	ours, err := b.stepper(ctx, p.agent.Lease.CDPURL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	direct, err := b.stepper(ctx, devtools)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, direct.close()) }()
	var a, t []time.Duration
	for i := range scriptWarmUp + scripts {
		one, err := ours.steps()
		if err != nil {
			return nil, err
		}
		two, err := direct.steps()
		if err != nil {
			return nil, err
		}
		if i >= scriptWarmUp {
			a, t = append(a, one), append(t, two)
		}
	}
	return []Figure{figure("playwright_vs_direct", "the same fifty steps by the browser's own DevTools port", 50, a, t)}, nil
}
