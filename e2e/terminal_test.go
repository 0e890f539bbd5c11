package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
)

// terminal is a shell in which somebody types: it runs the real sessiondock, and
// keeps what `lease acquire` exports, as eval would.
type terminal struct {
	t   *testing.T
	ctx context.Context
	env []string
}

// person is a terminal without any delegation or lease.
func (k *desk) person() *terminal { return &terminal{t: k.t, ctx: k.ctx} }

// agents is a terminal with what the desk's agent has.
func (k *desk) agents() *terminal { return &terminal{t: k.t, ctx: k.ctx, env: k.Env()} }

// agent is a terminal with a new delegation of a binding, as this one's person gives it.
func (u *terminal) agent(name, binding string, flags ...string) *terminal {
	u.t.Helper()
	token := u.types(append([]string{"delegate", binding, "--to", name}, flags...)...)
	return &terminal{t: u.t, ctx: u.ctx, env: []string{"SESSIONDOCK_DELEGATION=" + strings.TrimSpace(token)}}
}

// running is a command that was begun.
type running struct {
	u    *terminal
	args []string
	cmd  *exec.Cmd
	out  buffer
	errs buffer
}

// buffer can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// begins starts a command and does not wait for it.
func (u *terminal) begins(args ...string) *running {
	u.t.Helper()
	home, _ := demo.InHome()
	r := &running{u: u, args: args, cmd: exec.CommandContext(u.ctx, filepath.Join(home.Bin(), "sessiondock"), args...)}
	r.cmd.Env = append(os.Environ(), u.env...)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.errs
	must(u.t, r.cmd.Start())
	return r
}

// says waits until a command has told something.
func (r *running) says(text string) {
	r.u.t.Helper()
	for !strings.Contains(r.errs.String(), text) {
		if r.u.ctx.Err() != nil {
			r.u.t.Fatalf("%q does not say %q but:\n%s", r.args, text, r.errs.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// code waits for the end of a command and returns its exit code.
func (r *running) code() int {
	r.u.t.Helper()
	err := r.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	must(r.u.t, err)
	return 0
}

// ends waits for the end of a command, which must be this exit code.
func (r *running) ends(code int) {
	r.u.t.Helper()
	if got := r.code(); got != code {
		r.u.t.Fatalf("%q: exit code %d, want %d:\n%s%s", r.args, got, code, r.out.String(), r.errs.String())
	}
}

// types runs a command that must succeed, and returns its standard output.
func (u *terminal) types(args ...string) string {
	u.t.Helper()
	r := u.begins(args...)
	r.ends(0)
	return r.out.String()
}

// refused runs a command that must end with this exit code and say this.
func (u *terminal) refused(code int, says string, args ...string) {
	u.t.Helper()
	r := u.begins(args...)
	r.ends(code)
	if !strings.Contains(r.errs.String(), says) {
		u.t.Errorf("%q does not say %q but:\n%s", args, says, r.errs.String())
	}
}

// shows runs a command and wants its output to contain each of the texts, wherever
// its lines break.
func (u *terminal) shows(args []string, texts ...string) {
	u.t.Helper()
	out := strings.Join(strings.Fields(u.types(args...)), " ")
	for _, text := range texts {
		if !strings.Contains(out, text) {
			u.t.Errorf("%q does not show %q but:\n%s", args, text, out)
		}
	}
}

// exported keeps what an acquire or a resume printed for eval.
func (r *running) exported() {
	r.u.t.Helper()
	for line := range strings.Lines(r.out.String()) {
		name, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "export ")), "=")
		if !ok {
			r.u.t.Fatalf("%q printed %q", r.args, line)
		}
		r.u.env = append(r.u.env, name+"="+strings.Trim(value, "'"))
	}
}

// acquires runs a command that grants, and keeps what it exports.
func (u *terminal) acquires(args ...string) {
	u.t.Helper()
	r := u.begins(args...)
	r.ends(0)
	r.exported()
}

// slot makes a slot that is stopped, verified, when the test has ended.
func (u *terminal) slot(name string) {
	u.t.Helper()
	u.types("slot", "create", name)
	u.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		end := &terminal{t: u.t, ctx: ctx}
		end.types("takeover", name, "--from-person")
		end.types("slot", "stop", name, "--now") // exit code 0: verified to have ended
	})
}
