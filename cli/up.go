package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
)

const (
	daemonName = "sessiondockd"
	// upWithin is how long a detached daemon may take until it serves: it opens its
	// database and its sockets; starting browsers comes later.
	upWithin = 5 * time.Second
	// maxLog is the size from which a log is put aside when the daemon starts.
	maxLog = 8 << 20
)

func (a *app) upCmd() *cobra.Command {
	var (
		detach             bool
		browsers, memoryMB int64
	)
	c := &cobra.Command{
		Use:   "up [--detach] [-- DAEMON-FLAGS...]",
		Short: "Run the daemon",
		Long: `Runs sessiondockd, found beside this program or in PATH, in the foreground until
it is interrupted. With --detach it goes on in a session of its own, and its
messages go to $XDG_STATE_HOME/sessiondock/sessiondockd.log. A daemon that runs
already is left as it is.

With a bound on browsers or memory, a request that needs one more browser waits
("capacity: ..."). One that nobody has, wants or started by hand is stopped cleanly
to make room; one that is held or has something unsettled never is.`,
		Example: `  sessiondock up --detach
  sessiondock up --detach --max-browsers 4`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.isPerson(c.Context()); err != nil {
				return err
			}
			if at := c.ArgsLenAtDash(); len(args) > 0 && at != 0 {
				return usage(c, "%q is one argument too many; flags of the daemon come after --", args[0])
			}
			if err := boundsGiven(c, "max-browsers", "max-memory"); err != nil {
				return err
			}
			var bounds []string
			if browsers > 0 {
				bounds = append(bounds, fmt.Sprintf("--max-browsers=%d", browsers))
			}
			if memoryMB > 0 {
				bounds = append(bounds, fmt.Sprintf("--max-memory=%d", memoryMB))
			}
			p, err := a.paths()
			if err != nil {
				return err
			}
			if running, err := a.running(c.Context(), p); running || err != nil {
				if running && len(bounds) > 0 {
					a.say("note: its bounds are as they were; %s takes a new start: sessiondock down, then up", strings.Join(bounds, " "))
				}
				return err
			}
			args = append(bounds, args...)
			if err := p.CheckRuntime(); err != nil {
				return err
			}
			if p.RuntimeFallback {
				a.say("note: XDG_RUNTIME_DIR is not set; the sockets lie in %s", p.Runtime)
			}
			program, err := findDaemon()
			if err != nil {
				return err
			}
			if detach {
				return a.detach(c.Context(), p, program, args)
			}
			// This process becomes the daemon: signals reach it directly.
			err = syscall.Exec(program, append([]string{program}, args...), os.Environ())
			return core.Refuse(core.CodeUnavailable, fmt.Sprintf("cannot run %s: %v", program, err), "")
		},
	}
	c.Flags().BoolVarP(&detach, "detach", "d", false, "return once the daemon serves")
	c.Flags().Int64Var(&browsers, "max-browsers", 0, "`N` browsers may run at a time (default: no bound)")
	c.Flags().Int64Var(&memoryMB, "max-memory", 0, "they may use so many `MB` together (default: no bound)")
	return c
}

// running says whether a daemon answers, and tells the person so.
func (a *app) running(ctx context.Context, p client.Paths) (bool, error) {
	h, err := client.New(p.ControlSocket()).Health(ctx)
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeUnavailable {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	a.say("the daemon is running already (pid %d)", h.PID)
	return true, a.printUp(p, h)
}

type upInfo struct {
	Schema  string `json:"schema"`
	Sockets string `json:"sockets"`
	PID     int    `json:"pid"`
}

func (a *app) printUp(p client.Paths, h *client.Health) error {
	return a.show(upInfo{schema, p.Runtime, h.PID}, func() error {
		_, err := fmt.Fprintln(a.out, p.Runtime)
		return err
	})
}

// findDaemon looks beside the program first, so that a build is used as a whole.
func findDaemon() (string, error) {
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		beside := filepath.Join(filepath.Dir(self), daemonName)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return beside, nil
		}
	}
	program, err := exec.LookPath(daemonName)
	if err != nil {
		return "", core.Refuse(core.CodeUnavailable, daemonName+" is neither beside this program nor in PATH", "make build")
	}
	return program, nil
}

func (a *app) detach(ctx context.Context, p client.Paths, program string, args []string) error {
	log, err := openLog(p)
	if err != nil {
		return core.Refuse(core.CodeUnavailable, "no log can be written: "+err.Error(), "set XDG_STATE_HOME to a directory of yours")
	}
	defer log.Close()
	child := exec.Command(program, args...)
	child.Dir = "/"
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return core.Refuse(core.CodeUnavailable, fmt.Sprintf("cannot run %s: %v", program, err), "")
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()

	ctx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	door := client.New(p.ControlSocket())
	look := time.NewTicker(25 * time.Millisecond)
	defer look.Stop()
	for {
		if h, err := door.Health(ctx); err == nil {
			a.say("the daemon serves (pid %d); its log is %s", h.PID, p.Log())
			a.warnDatabase(h)
			return a.printUp(p, h)
		}
		select {
		case err := <-ended:
			// Another daemon may have been first; then ours has rightly given way.
			if running, _ := a.running(context.WithoutCancel(ctx), p); running {
				return nil
			}
			return core.Refuse(core.CodeUnavailable, fmt.Sprintf("the daemon ended at once (%v): %s", err, lastWords(p.Log())), "read "+p.Log())
		case <-ctx.Done():
			return core.Refuse(core.CodeDeadline,
				fmt.Sprintf("the daemon (pid %d) does not serve yet after %s", child.Process.Pid, upWithin), "it was left running; read "+p.Log())
		case <-look.C:
		}
	}
}

// openLog opens the log to append, after putting a large one aside.
func openLog(p client.Paths) (*os.File, error) {
	if err := os.MkdirAll(p.State, 0o700); err != nil {
		return nil, err
	}
	if info, err := os.Stat(p.Log()); err == nil && info.Size() > maxLog {
		if err := os.Rename(p.Log(), p.Log()+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(p.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// lastWords is the end of a log, for an error message: two lines, because an error
// is followed by its hint.
func lastWords(path string) string {
	const tail = 2048
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	data := make([]byte, min(info.Size(), tail))
	if _, err := f.ReadAt(data, info.Size()-int64(len(data))); err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return clip(strings.Join(lines[max(0, len(lines)-2):], "; "), 400)
}
