package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/e2e/manager"
	"sessiondock.dev/sessiondock/manifests"
)

// early is how long after the sign-in was confirmed the browser is killed: well within
// the half minute for which Chromium keeps new cookies in memory.
const early = 2 * time.Second

// way is something that happens to a signed-in browser.
type way struct {
	id    string
	name  string
	asks  bool // the page asks whether it may be left
	clean bool // the browser ends cleanly
	keeps bool // the sign-in is to stay
	quick bool // cheap enough for every run of the tests
	// happens leaves the browser ended, or running.
	happens func(context.Context, *play) error
}

// ways are the rows of the matrix.
var ways = []way{
	{id: "stop", name: "clean stop", clean: true, keeps: true, quick: true, happens: func(ctx context.Context, p *play) error { return p.stop(ctx) }},
	{id: "asks", name: "clean stop, the page asks whether it may be left", asks: true, clean: true, keeps: true, quick: true,
		happens: func(ctx context.Context, p *play) error { return p.stop(ctx) }},
	{id: "early", name: "SIGKILL of the browser, 2 s after the sign-in", quick: true, happens: func(ctx context.Context, p *play) error {
		sleep(ctx, early)
		return p.killBrowser(ctx)
	}},
	{id: "late", name: "SIGKILL of the browser, once status says prepared", keeps: true, happens: func(ctx context.Context, p *play) error {
		if err := p.until(ctx, "the sign-in to be on the disk", func(st *core.Status) bool { return st.SignIns[0].Prepared }); err != nil {
			return err
		}
		return p.killBrowser(ctx)
	}},
	{id: "daemon", name: "SIGKILL of the daemon, then a clean stop by the next", clean: true, keeps: true, happens: func(ctx context.Context, p *play) error {
		if err := manager.Systemctl("kill", "--signal=KILL", manifests.ServiceUnit); err != nil {
			return err
		}
		if err := p.until(ctx, "the browser to be connected again", func(st *core.Status) bool { return st.Local.Launch.Link == "up" && st.Authority.Fence == "drained" }); err != nil {
			return err
		}
		return p.stop(ctx)
	}},
	{id: "manager", name: "restart of the user manager", clean: true, keeps: true, happens: func(ctx context.Context, p *play) error {
		if err := p.home.RestartManager(); err != nil {
			return err
		}
		if err := display(); err != nil {
			return err
		}
		return errors.Join(manager.Systemctl("start", manifests.SocketUnit), p.ended(ctx))
	}},
	// A browser that was killed leaves the lock of its profile behind, with the host's name.
	{id: "hostname", name: "SIGKILL of a prepared browser, then another host name", keeps: true, happens: func(ctx context.Context, p *play) error {
		if err := errors.Join(p.stop(ctx), p.start(ctx)); err != nil {
			return err
		}
		if err := p.killBrowser(ctx); err != nil {
			return err
		}
		return p.home.SetHostname("renamed-" + p.display)
	}},
	{id: "upgrade", name: "upgrade of the extension, then a clean stop", clean: true, keeps: true, quick: true, happens: func(ctx context.Context, p *play) error {
		if err := p.swapDaemons(); err != nil {
			return err
		}
		was, err := p.build()
		if err != nil {
			return err
		}
		if err := manager.Systemctl("restart", manifests.ServiceUnit); err != nil {
			return err
		}
		if err := errors.Join(p.stop(ctx), p.start(ctx)); err != nil {
			return err
		}
		if now, err := p.build(); err != nil || now == was {
			return fmt.Errorf("the extension was not upgraded: it is %s, and was %s; %w", now, was, err)
		}
		return nil
	}},
}

// nextDaemon is a daemon with another build of the extension.
const nextDaemon = "sessiondockd.next"

// swapDaemons puts the daemon with the other build in the place of this one, and keeps
// this one for the next cell.
func (p *play) swapDaemons() error {
	now, next := filepath.Join(p.home.Bin(), "sessiondockd"), filepath.Join(p.home.Bin(), nextDaemon)
	return errors.Join(os.Rename(now, now+".old"), os.Rename(next, now), os.Rename(now+".old", next))
}

// build is the extension's that was packed last. A browser with another than the daemon's
// is not connected.
func (p *play) build() (string, error) {
	all, err := filepath.Glob(filepath.Join(p.product.Paths.Packages(), "*", "package.json"))
	if err != nil || len(all) == 0 {
		return "", errors.Join(errors.New("no package of the extension"), err)
	}
	text, err := os.ReadFile(all[len(all)-1])
	var about struct{ Build string }
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	return about.Build, err
}

// killBrowser ends the browser as a crash would.
func (p *play) killBrowser(ctx context.Context) error {
	st, err := p.product.Control.Status(ctx, p.slot())
	if err != nil {
		return err
	}
	pid, err := browserOf(st.Local.Launch.Unit)
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return err
	}
	return p.ended(ctx)
}

// browserOf finds the browser's first process in the control group of a launch.
func browserOf(unit string) (int, error) {
	group, err := manager.Ask("show", "--value", "-p", "ControlGroup", unit)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", group, "cgroup.procs"))
	if err != nil {
		return 0, err
	}
	for word := range strings.FieldsSeq(string(text)) {
		line, err := os.ReadFile(filepath.Join("/proc", word, "cmdline"))
		if args := string(line); err == nil && strings.Contains(args, "--user-data-dir=") && !strings.Contains(args, "--type=") {
			return strconv.Atoi(word)
		}
	}
	return 0, fmt.Errorf("no browser in the control group of %s", unit)
}
