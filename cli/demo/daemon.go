package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// How long the daemon has to serve after its start, and to end after SIGTERM.
const (
	serveWithin = 20 * time.Second
	stopWithin  = 20 * time.Second
)

// Daemon is a sessiondockd of one run, in the run's own home.
type Daemon struct {
	Control *client.Client // the person's door
	API     *client.Client // the agents' door
	Paths   client.Paths
	// Through is a program, with its arguments, that becomes the daemon at the next
	// Start in circumstances of its making, such as another time.
	Through []string

	home  Home
	debug string
	args  []string
	cmd   *exec.Cmd
	done  chan struct{}
}

// StartDaemon starts the home's sessiondockd and waits until it serves. With debug
// "pipe" or "port" its launches have that debugging switch; args are further flags.
func StartDaemon(ctx context.Context, home Home, debug string, args ...string) (*Daemon, error) {
	paths, err := client.FindPaths(os.Getenv)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		Control: client.New(paths.ControlSocket()), API: client.New(paths.APISocket()),
		Paths: paths, home: home, debug: debug, args: args,
	}
	return d, d.Start(ctx)
}

// Start starts the daemon again after it has ended.
func (d *Daemon) Start(ctx context.Context) error {
	log, err := os.OpenFile(d.logPath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := append(slices.Clone(d.Through), filepath.Join(d.home.Bin(), "sessiondockd"))
	if d.debug != "" {
		command = append(command, "--debug="+d.debug)
	}
	command = append(command, d.args...)
	d.cmd = exec.Command(command[0], command[1:]...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	d.done = done
	cmd := d.cmd
	go func() {
		_ = cmd.Wait() // a killed daemon is part of the show
		close(done)
	}()
	ctx, cancel := context.WithTimeout(ctx, serveWithin)
	defer cancel()
	for {
		h, err := d.Control.Health(ctx)
		if err == nil && h.OK && h.PID == d.PID() { // another one there makes ours give way
			return nil
		}
		select {
		case <-done:
			return d.failed(errors.New("the daemon ended at its start"))
		default:
		}
		if wait(ctx, 5*time.Millisecond) != nil {
			return d.failed(fmt.Errorf("the daemon does not serve: %w", errors.Join(err, d.Kill())))
		}
	}
}

func (d *Daemon) logPath() string { return filepath.Join(d.home.Dir, "sessiondockd.log") }

// failed adds the end of the daemon's log to an error.
func (d *Daemon) failed(err error) error {
	log, readErr := d.Log()
	return errors.Join(fmt.Errorf("%w; its log ends:\n%s", err, log), readErr)
}

// Log is the end of the daemon's log.
func (d *Daemon) Log() (string, error) {
	const tail = 4000
	text, err := os.ReadFile(d.logPath())
	return string(text[max(0, len(text)-tail):]), err
}

// PID is the running daemon's.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Kill ends the daemon as a crash would.
func (d *Daemon) Kill() error {
	err := d.cmd.Process.Kill()
	<-d.done
	d.Control.Close()
	d.API.Close()
	return err
}

// Stop ends the daemon in order.
func (d *Daemon) Stop() error {
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-d.done:
		return nil
	case <-time.After(stopWithin):
		return errors.Join(errors.New("the daemon did not end when asked"), d.Kill())
	}
}

// NewSlot makes a slot and a binding of the same name for a site, starts the
// browser at the address and waits until its extension is connected.
func (d *Daemon) NewSlot(ctx context.Context, name, display, origin, start string) error {
	if _, err := d.Control.CreateSlot(ctx, wire.SlotRequest{Slot: core.SlotName(name), Display: display}); err != nil {
		return err
	}
	_, err := d.Control.Bind(ctx, wire.BindingRequest{BindingSpec: core.BindingSpec{
		Name: core.BindingName(name), Slot: core.SlotName(name), Account: "none", Origins: []string{origin}, Start: start,
	}})
	if err != nil {
		return err
	}
	return d.StartSlot(ctx, name)
}

// StartSlot starts the slot's browser and waits until its extension is connected.
func (d *Daemon) StartSlot(ctx context.Context, name string) error {
	if _, err := d.Control.Change(ctx, core.SlotName(name), client.Start, wire.ChangeRequest{By: "demo"}); err != nil {
		return err
	}
	_, err := d.WaitStatus(ctx, name, "the browser to be connected", func(s *core.Status) bool {
		return s.Local.Launch != nil && s.Local.Launch.Link == "up" && s.Authority.Fence == "drained"
	})
	return err
}

// lookAgain is how long WaitStatus waits before it looks again, at first and at most:
// looking costs the processor that the slot's browser needs.
const (
	lookAgainFirst = 5 * time.Millisecond
	lookAgainMost  = 20 * time.Millisecond
)

// WaitStatus waits until the slot's status is as wanted, and returns it.
func (d *Daemon) WaitStatus(ctx context.Context, name, what string, good func(*core.Status) bool) (*core.Status, error) {
	for pause := lookAgainFirst; ; pause = min(2*pause, lookAgainMost) {
		s, err := d.Control.Status(ctx, core.SlotName(name))
		if err == nil && good(s) {
			return s, nil
		}
		if wait(ctx, pause) != nil {
			if s != nil {
				err = errors.Join(err, fmt.Errorf("the last status: %+v", *s))
			}
			return s, fmt.Errorf("waited in vain for %s: %w", what, errors.Join(ctx.Err(), err))
		}
	}
}

// Agent is a client of the agents' door with a delegation, and with a lease once
// it has acquired one.
type Agent struct {
	Name  core.AgentName
	Lease *wire.LeaseReply

	d          *Daemon
	binding    core.BindingName
	delegation client.Secret
	capability client.Secret
}

// NewAgent delegates the slot's binding to a new agent, as a person would.
func (d *Daemon) NewAgent(ctx context.Context, name, slot string) (*Agent, error) {
	r, err := d.Control.Delegate(ctx, core.BindingName(slot), wire.DelegateRequest{To: core.AgentName(name), ForMs: 3_600_000})
	if err != nil {
		return nil, err
	}
	return &Agent{Name: r.Agent, d: d, binding: r.Binding, delegation: client.Secret(r.Token)}, nil
}

// Acquire asks for a lease, waits for it as long, and claims it.
func (a *Agent) Acquire(ctx context.Context, task string, within time.Duration) error {
	l, err := a.d.API.Acquire(ctx, a.delegation, wire.AcquireRequest{
		RequestID: client.NewID(), Binding: a.binding, ForMs: 600_000, WaitMs: within.Milliseconds(), Task: task,
	})
	if err != nil {
		return err
	}
	a.Lease, a.capability = l, client.Secret(l.Capability)
	return nil
}

// Resume takes the lease up again at a new epoch, and waits for that as long.
func (a *Agent) Resume(ctx context.Context, within time.Duration) error {
	l, err := a.d.API.Resume(ctx, a.Lease.Lease, a.capability, wire.ResumeRequest{WaitMs: within.Milliseconds()})
	if err != nil {
		return err
	}
	a.Lease = l
	return nil
}

// Release ends the lease.
func (a *Agent) Release(ctx context.Context) error {
	_, err := a.d.API.Release(ctx, a.Lease.Lease, a.capability)
	return err
}

// Act asks for one action, under the epoch that the agent knows, in the tab (0: the
// active one).
func (a *Agent) Act(ctx context.Context, id string, act wire.Act, tab core.TabID) (*core.Record, error) {
	epoch := a.Lease.Epoch
	r := wire.ActRequest{ID: core.ClientID(id), Epoch: &epoch, Act: act}
	if tab != 0 {
		r.Expect = &core.Expect{Tab: tab}
	}
	return a.d.API.Act(ctx, a.Lease.Lease, a.capability, r)
}

// LookUp reads one of the agent's own records.
func (a *Agent) LookUp(ctx context.Context, id string) (*core.Record, error) {
	return a.d.API.LookUp(ctx, a.Lease.Lease, a.capability, core.ClientID(id))
}

// Env is what `sessiondock` needs in its environment to act as this agent.
func (a *Agent) Env() []string {
	env := []string{"SESSIONDOCK_DELEGATION=" + string(a.delegation)}
	if a.Lease != nil {
		env = append(env, "SESSIONDOCK_LEASE="+string(a.Lease.Lease), "SESSIONDOCK_CAPABILITY="+string(a.capability),
			"SESSIONDOCK_EPOCH="+strconv.FormatUint(uint64(a.Lease.Epoch), 10))
	}
	return env
}
