package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/e2e/manager"
	"sessiondock.dev/sessiondock/e2e/programs"
	"sessiondock.dev/sessiondock/manifests"
)

// These figures need a service manager. It is started for them, in namespaces of their
// own, which needs root.
var unitFigures = []string{"cold_start_ms", "restart_8_slots_ms"}

const (
	coldStarts = 20
	slots      = 8
	restarts   = 5
	// betweenRestarts is more than a host's link must have lived for its waits to begin
	// anew (host.stableLink).
	betweenRestarts = 6 * time.Second
	// answerArg makes this program the least that a socket can start: it answers once.
	answerArg = "answer-once"
)

// withUnits measures the figures of units after all others, and adds their lines.
func withUnits(code int, err error) (int, error) {
	if err != nil || !wanted(unitFigures) {
		return code, err
	}
	if why := manager.Missing(); why != "" {
		fmt.Fprintf(os.Stderr, "NOT RUN: %s: %s\n", strings.Join(unitFigures, ", "), why)
		return code, nil
	}
	unitsCode, err := manager.Rerun(manager.Run{Args: os.Args[1:], Prepare: programs.Build, Finish: addLines})
	return max(code, unitsCode), err
}

func addLines(home manager.Home) error {
	text, err := os.ReadFile(filepath.Join(home.Dir, "home", lines))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join("build", lines), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// runUnits measures, within the manager's home.
func runUnits(home manager.Home) error {
	ctx, cancel := context.WithTimeout(context.Background(), wholeRun)
	defer cancel()
	var figures []Figure
	var failed []error
	for i, measure := range []func(context.Context, manager.Home) (Figure, error){measureColdStart, measureRestart} {
		if !wanted(unitFigures[i : i+1]) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s\n", unitFigures[i])
		f, err := measure(ctx, home)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", unitFigures[i], err))
			continue
		}
		figures = append(figures, f)
	}
	out, err := os.Create(filepath.Join(home.Dir, "home", lines))
	if err != nil {
		return err
	}
	printTable(os.Stdout, figures)
	return errors.Join(append(failed, writeLines(out, figures), out.Close())...)
}

// measureColdStart is from a request on the socket of a daemon that does not run to its
// answer, against the least that systemd can start in that way.
func measureColdStart(ctx context.Context, home manager.Home) (Figure, error) {
	p, err := manager.Install(home)
	if err != nil {
		return Figure{}, err
	}
	least, remove, err := installLeast(home)
	if err != nil {
		return Figure{}, err
	}
	if _, err := p.Control.Health(ctx); err != nil { // makes the database
		return Figure{}, err
	}
	var took [2][]time.Duration
	for range coldStarts {
		if err := manager.Systemctl("stop", manifests.ServiceUnit); err != nil {
			return Figure{}, err
		}
		for i, ask := range []func() error{
			func() error {
				c := client.New(p.Paths.ControlSocket())
				defer c.Close()
				_, err := c.Health(ctx)
				return err
			},
			func() error { return askOnce(least) },
		} {
			begin := time.Now()
			if err := ask(); err != nil {
				return Figure{}, err
			}
			took[i] = append(took[i], time.Since(begin))
		}
	}
	return figure("cold_start_ms", "the least program that a socket starts", 50, took[0], took[1]), errors.Join(remove(), p.Remove(ctx))
}

// measureRestart is from the order to restart the daemon until the hosts of eight
// browsers are attested again and their extensions have said hello; against a restart
// without a browser, until it answers.
func measureRestart(ctx context.Context, home manager.Home) (Figure, error) {
	if _, err := exec.LookPath("chromium"); err != nil {
		return Figure{}, err
	}
	p, err := manager.Install(home)
	if err != nil {
		return Figure{}, err
	}
	var took [2][]time.Duration
	restart := func(i, links int) error {
		begin := time.Now()
		if err := manager.Systemctl("restart", manifests.ServiceUnit); err != nil {
			return err
		}
		if err := linked(ctx, p, links); err != nil {
			return err
		}
		took[i] = append(took[i], time.Since(begin))
		return nil
	}
	for range restarts {
		if err := restart(1, 0); err != nil {
			return Figure{}, err
		}
	}
	for i := range slots {
		name := core.SlotName(fmt.Sprintf("slot-%d", i))
		if _, err := p.Control.CreateSlot(ctx, wire.SlotRequest{Slot: name, Display: "headless"}); err != nil {
			return Figure{}, err
		}
		if _, err := p.Control.Change(ctx, name, client.Start, wire.ChangeRequest{}); err != nil {
			return Figure{}, err
		}
	}
	if err := linked(ctx, p, slots); err != nil {
		return Figure{}, err
	}
	for range restarts {
		time.Sleep(betweenRestarts)
		if err := restart(0, slots); err != nil {
			return Figure{}, err
		}
	}
	return figure("restart_8_slots_ms", "a restart without a slot, to its first answer", 50, took[0], took[1]), p.Remove(ctx)
}

// linked waits until so many slots have their extension's link.
func linked(ctx context.Context, p *manager.Product, links int) error {
	for {
		all, err := p.Control.Slots(ctx)
		if err != nil {
			return err
		}
		up := 0
		for _, s := range all {
			if l := s.Status.Local.Launch; l != nil && l.Link == "up" {
				up++
			}
		}
		if up == links {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d linked: %w", up, links, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// installLeast lets systemd listen for a program that does nothing but answer once.
func installLeast(home manager.Home) (socket string, remove func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	socket = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "least.sock")
	units := map[string]string{
		"least.socket":  "[Socket]\nListenStream=" + socket + "\n",
		"least.service": "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=exec\nExecStart=" + self + " " + answerArg + "\n",
	}
	for name, text := range units {
		if err := os.WriteFile(filepath.Join(home.Units(), name), []byte(text), 0o644); err != nil {
			return "", nil, err
		}
	}
	remove = func() error {
		errs := []error{manager.Systemctl("stop", "least.socket")}
		for name := range units {
			errs = append(errs, os.Remove(filepath.Join(home.Units(), name)))
		}
		return errors.Join(append(errs, manager.Systemctl("daemon-reload"))...)
	}
	return socket, remove, errors.Join(manager.Systemctl("daemon-reload"), manager.Systemctl("start", "least.socket"))
}

// answerOnce is that program.
func answerOnce() error {
	passed, err := activation.Listeners()
	if err != nil {
		return err
	}
	if len(passed) != 1 {
		return fmt.Errorf("%d sockets were passed", len(passed))
	}
	conn, err := passed[0].Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		return err
	}
	_, err = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
	return err
}

func askOnce(socket string) error {
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	resp, err := c.Get("http://localhost/")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
