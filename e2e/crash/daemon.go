package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
)

const (
	serveWithin = 20 * time.Second
	stopWithin  = 20 * time.Second
)

// daemon is one life of sessiondockd.
type daemon struct {
	control, api *client.Client

	cmd   *exec.Cmd
	log   *os.File
	start int64 // where in the log this life begins
	ended chan struct{}
	once  sync.Once
}

// start starts the daemon on a place, with a failpoint armed ("": none). The log goes on
// in one file a place.
func start(home demo.Home, p place, point string) (*daemon, error) {
	log, err := os.OpenFile(p.log(), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	d := &daemon{
		control: client.New(p.paths.ControlSocket()), api: client.New(p.paths.APISocket()),
		cmd: exec.Command(filepath.Join(home.Bin(), "sessiondockd"), p.flags...), log: log, start: info.Size(), ended: make(chan struct{}),
	}
	d.cmd.Env = append(p.environ(), "SESSIONDOCK_FAILPOINT="+point)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		_ = d.cmd.Wait() // how it ended is in its state
		close(d.ended)
	}()
	return d, nil
}

// serving waits until the daemon serves. It returns false if it was killed before.
func (d *daemon) serving(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, serveWithin)
	defer cancel()
	for {
		h, err := d.control.Health(ctx)
		if err == nil && h.OK && h.PID == d.cmd.Process.Pid {
			return true, nil
		}
		select {
		case <-d.ended:
			return false, d.killed()
		case <-ctx.Done():
			return false, fmt.Errorf("the daemon does not serve: %w\n%s", err, d.said())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// kill ends the daemon as a crash does, if it has not ended by itself, and wants that
// nothing else has ended it.
func (d *daemon) kill() error {
	d.once.Do(func() {
		_ = d.cmd.Process.Kill() // it may have come to its failpoint in this moment
		<-d.ended
		d.control.Close()
		d.api.Close()
	})
	return d.killed()
}

// killed wants the daemon, which has ended, to have been killed.
func (d *daemon) killed() error {
	status, ok := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the daemon ended by itself: %v\n%s", d.cmd.ProcessState, d.said())
	}
	if text := d.said(); strings.Contains(text, "panic:") || strings.Contains(text, "fatal error:") {
		return fmt.Errorf("the daemon panicked:\n%s", text)
	}
	return nil
}

// point is the failpoint that has ended the daemon, or "".
func (d *daemon) point() string {
	name := ""
	for line := range strings.Lines(d.said()) {
		if p, ok := strings.CutPrefix(line, "failpoint "); ok {
			name = strings.TrimSpace(p)
		}
	}
	return name
}

// said is what this life has logged.
func (d *daemon) said() string {
	info, err := d.log.Stat()
	if err != nil {
		return err.Error()
	}
	text := make([]byte, info.Size()-d.start)
	n, _ := d.log.ReadAt(text, d.start)
	return string(text[:n])
}

// stop ends the daemon in order.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	select {
	case <-d.ended:
	case <-time.After(stopWithin):
		return errors.Join(errors.New("the daemon did not end when asked"), d.kill())
	}
	d.control.Close()
	d.api.Close()
	if !d.cmd.ProcessState.Success() {
		return fmt.Errorf("the daemon ended badly: %v\n%s", d.cmd.ProcessState, d.said())
	}
	return nil
}

// place is where one installation lies: a database, profiles, sockets.
type place struct {
	dir   string
	paths client.Paths
	flags []string // of the daemon
}

// trimmed is to how many bytes the journal is trimmed in every other place, which a few
// rounds exceed.
const trimmed = 1 << 20

// newPlace makes one. All share the run's sockets, whose paths have to be short.
func newPlace(home demo.Home, n int) (place, error) {
	p := place{
		dir:   filepath.Join(home.Dir, fmt.Sprintf("life-%d", n)),
		flags: []string{"--supervisor=direct", "--packaging=load"}, // a stand-in takes no package
	}
	if n%2 == 0 {
		p.flags = append(p.flags, fmt.Sprintf("--journal-size=%d", trimmed))
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return p, err
	}
	var err error
	p.paths, err = client.FindPaths(func(name string) string {
		for _, v := range p.environ() {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	})
	return p, err
}

func (p place) log() string { return filepath.Join(p.dir, "sessiondockd.log") }

// environ is the run's environment with the place's directories.
func (p place) environ() []string {
	ours := map[string]string{}
	for _, name := range []string{"CONFIG", "STATE", "DATA", "CACHE"} {
		ours["XDG_"+name+"_HOME"] = filepath.Join(p.dir, strings.ToLower(name))
	}
	var env []string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); ours[name] == "" {
			env = append(env, v)
		}
	}
	for name, dir := range ours {
		env = append(env, name+"="+dir)
	}
	return env
}

// sightings reads what the browser of a slot has written down.
func (p place) sightings(slot string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(p.paths.Data, "slots", slot, "profile", sightings))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return text, err
}
