package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// runs starts `sessiondock run` with a shell script under the desk's binding.
func (k *desk) runs(script string, flags ...string) (*exec.Cmd, *bytes.Buffer) {
	k.t.Helper()
	home, _ := demo.InHome()
	args := append([]string{"run", "--binding", k.name, "--wait", "20s"}, flags...)
	cmd := exec.CommandContext(k.ctx, filepath.Join(home.Bin(), "sessiondock"), append(args, "--", "sh", "-c", script)...)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

func exitCode(err error) int {
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// A command that was delegated a binding works with it and gets none of a person's
// verbs, whatever way it goes about it.
func TestRunDelegatesAndThePersonsDoorStaysShut(t *testing.T) {
	k := openDesk(t, "button", "")
	must(t, k.Release(k.ctx))
	k.Lease = nil
	verbs := []string{
		"takeover " + k.name, "takeover --from-person " + k.name, "handback " + k.name, "slot stop " + k.name,
		"quarantine lift " + k.name + " --note stuck", "resolve 01JZ8M3T6V4Q0W9YB2C7D5E1FG --applied", "delegate " + k.name,
		"lease release --revoke $SESSIONDOCK_LEASE", "status " + k.name, "slot list",
		"down", "up --detach", "uninstall", "retain approve $SESSIONDOCK_LEASE", "lease answer $SESSIONDOCK_LEASE --approve", "confirm " + k.name,
	}
	var script strings.Builder
	fmt.Fprintf(&script, "sessiondock act navigate %s >/dev/null || exit 3\n", k.page)
	fmt.Fprintf(&script, "sessiondock act click '#press' >/dev/null || exit 4\n")
	for _, v := range verbs {
		fmt.Fprintf(&script, "sessiondock %s 2>&1 | grep -q '^error: denied' || echo \"ALLOWED: %s\"\n", v, strings.ReplaceAll(v, "$", ""))
	}
	// With its environment cleared it is still a descendant.
	fmt.Fprintf(&script, "env -u SESSIONDOCK_AGENT -u SESSIONDOCK_LEASE sessiondock takeover %s 2>&1 | grep -q 'denied' || echo 'ALLOWED: without the variable'\n", k.name)
	// In a session of its own, its parent gone, it is too.
	fmt.Fprintf(&script, "(env -u SESSIONDOCK_AGENT setsid sh -c 'sleep 0.5; sessiondock takeover %s > $HOME/orphan.txt 2>&1; touch $HOME/orphan.end' &)\nwhile [ ! -e $HOME/orphan.end ]; do sleep 0.1; done; grep -q denied $HOME/orphan.txt || echo \"ALLOWED: orphan: $(cat $HOME/orphan.txt)\"\n", k.name)
	script.WriteString("test -z \"$SESSIONDOCK_DELEGATION\" || echo 'ALLOWED: to acquire again'\nexit 7\n")
	cmd, out := k.runs(script.String())
	cmd.Env = append(os.Environ(), "SESSIONDOCK_DELEGATION=a person's")
	err := cmd.Run()
	if code := exitCode(err); code != 7 || strings.Contains(out.String(), "ALLOWED") {
		t.Fatalf("exit code %d (want the command's 7):\n%s", code, out)
	}
	st, err := k.d.Control.Status(k.ctx, k.slot())
	must(t, err)
	if st.Authority.Holder.Kind != "none" {
		t.Fatalf("after its end the slot is held by %+v", st.Authority.Holder)
	}
}

// The daemon was restarted and has forgotten who declared itself: the variable tells.
func TestAnAgentIsKnownAfterARestartOfTheDaemon(t *testing.T) {
	home, in := demo.InHome()
	if !in {
		t.Fatal("not in a home")
	}
	cmd := exec.Command(filepath.Join(home.Bin(), "sessiondock"), "slot", "list")
	cmd.Env = append(os.Environ(), wire.AgentVariable+"=ada")
	openDesk(t, "button", "") // the daemon that they all share runs
	out, err := cmd.CombinedOutput()
	if code := exitCode(err); code != core.CodeDenied.Info().Exit || !strings.Contains(string(out), "denied") {
		t.Fatalf("exit code %d: %s", code, out)
	}
}

func TestRunPassesSignalsOn(t *testing.T) {
	k := openDesk(t, "button", "")
	must(t, k.Release(k.ctx))
	k.Lease = nil
	cmd, out := k.runs(`trap 'echo got TERM; exit 9' TERM; echo ready; while :; do sleep 0.1; done`)
	must(t, cmd.Start())
	k.awaitText(out, "ready")
	must(t, cmd.Process.Signal(unix.SIGTERM))
	if code := exitCode(cmd.Wait()); code != 9 || !strings.Contains(out.String(), "got TERM") {
		t.Fatalf("exit code %d: %s", code, out)
	}
}

func (k *desk) awaitText(out *bytes.Buffer, want string) {
	k.t.Helper()
	k.await("the text "+want, func() bool { return strings.Contains(out.String(), want) })
}

func (k *desk) await(what string, done func() bool) {
	k.t.Helper()
	for ; !done(); time.Sleep(20 * time.Millisecond) {
		if k.ctx.Err() != nil {
			k.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// When a person ends the lease the command is ended too, with what it has left behind.
func TestRunEndsTheCommandWithItsLease(t *testing.T) {
	k := openDesk(t, "button", "")
	must(t, k.Release(k.ctx))
	k.Lease = nil
	note := filepath.Join(t.TempDir(), "pids")
	cmd, out := k.runs(fmt.Sprintf(`trap '' TERM; setsid sh -c 'trap "" TERM; echo $$ >> %[1]s; while :; do sleep 1; done' & echo $$ >> %[1]s; while :; do sleep 1; done`, note), "--stop-with-lease")
	must(t, cmd.Start())
	pids := func() []int {
		text, _ := os.ReadFile(note)
		var list []int
		for _, f := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(f)
			must(t, err)
			list = append(list, n)
		}
		return list
	}
	k.await("two processes", func() bool { return len(pids()) == 2 })
	leases, err := k.d.Control.Leases(k.ctx)
	must(t, err)
	for _, l := range leases {
		if l.Slot == k.slot() {
			_, err := k.d.Control.Revoke(k.ctx, l.Lease, wire.ChangeRequest{Note: "enough"})
			must(t, err)
		}
	}
	if code := exitCode(cmd.Wait()); code != 128+int(unix.SIGKILL) {
		t.Errorf("exit code %d: %s", code, out)
	}
	for _, pid := range pids() {
		if err := unix.Kill(pid, 0); err != unix.ESRCH {
			t.Errorf("process %d still runs: %v", pid, err)
		}
	}
}

// A person takes over: the command is told once, goes on, and gets nothing through.
func TestRunGoesOnWithoutControlAfterATakeover(t *testing.T) {
	k := openDesk(t, "button", "")
	must(t, k.Release(k.ctx))
	k.Lease = nil
	mark := filepath.Join(t.TempDir(), "go")
	cmd, out := k.runs(fmt.Sprintf(`sessiondock act navigate %s >/dev/null; echo ready; while [ ! -e %s ]; do sleep 0.1; done; sessiondock act click '#press' 2>&1 | sed 's/^/act: /'`, k.page, mark), "--for", "30s") // within its time, and it is renewed every 10 s
	must(t, cmd.Start())
	k.awaitText(out, "ready")
	_, err := k.d.Control.Change(context.Background(), k.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
	must(t, err)
	k.awaitText(out, "a person took over")
	must(t, os.WriteFile(mark, nil, 0o644))
	must(t, cmd.Wait())
	if !strings.Contains(out.String(), "act: error: fenced") {
		t.Fatalf("the act was not refused as fenced:\n%s", out)
	}
}

// A confined command works as an agent, and finds neither slots nor the person's door nor
// another program's DevTools port.
func TestRunConfines(t *testing.T) {
	k := openDesk(t, "button", "")
	must(t, k.Release(k.ctx))
	k.Lease = nil
	other, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer other.Close()
	script := fmt.Sprintf(`sessiondock act navigate %s >/dev/null || exit 3
sessiondock act click '#press' >/dev/null || exit 4
[ -z "$(ls %s 2>/dev/null)" ] || echo "ALLOWED: the slot's files"
dir=$(sessiondock lease show --json | sed -n 's/.*"upload_dir": *"\([^"]*\)".*/\1/p')
touch "$dir/mine" || echo "NOT ALLOWED: the upload directory $dir"
[ -z "$(ls %s 2>/dev/null)" ] || echo "ALLOWED: the database"
[ ! -e %s ] || echo "ALLOWED: the person's door"
[ ! -e %s ] || echo "ALLOWED: the hosts' door"
said=$(sessiondock takeover %s 2>&1) && echo "ALLOWED: a takeover"
case $said in *"runs confined"*) ;; *) echo "NOT ALLOWED, and not why: $said";; esac
bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d' 2>/dev/null && echo "ALLOWED: another program's port"
port=${SESSIONDOCK_CDP_URL#ws://127.0.0.1:}
port=${port%%%%/*} bash -c 'exec 3<>/dev/tcp/127.0.0.1/$port' || echo "NOT ALLOWED: its own DevTools address"
for d in %s; do d=$(dirname "$d"); mv "$d" "$d.away" 2>/dev/null && echo "ALLOWED: to rename $d"; done
for p in /proc/[0-9]*; do grep -qs SESSIONDOCK_SECRET $p/environ && echo "ALLOWED: the environment of $p"; done
exit 7
`, k.page, filepath.Join(k.d.Paths.SlotDir(k.slot()), "profile"), k.d.Paths.State, k.d.Paths.ControlSocket(), k.d.Paths.HostSocket(), k.name, other.Addr().(*net.TCPAddr).Port,
		strings.Join([]string{k.d.Paths.Data, k.d.Paths.State, k.d.Paths.Cache, k.d.Paths.Config}, " "))
	cmd, out := k.runs(script, "--confine")
	if code := exitCode(cmd.Run()); code != 7 || strings.Contains(out.String(), "ALLOWED") {
		t.Fatalf("exit code %d (want the command's 7):\n%s", code, out)
	}
	cmd, out = k.runs("true", "--confine")
	cmd.Dir = k.d.Paths.SlotDir(k.slot())
	if code := exitCode(cmd.Run()); code != core.CodeInvalid.Info().Exit || !strings.Contains(out.String(), "run it from another directory") {
		t.Errorf("from a slot's own directory: exit code %d: %s", code, out)
	}
}

// Without --binding it is the one of the worktree that one is in; where there is none, or
// more than one, nothing is guessed. The lease begins at the binding's start page.
func TestRunFindsTheBindingOfTheWorktree(t *testing.T) {
	k := openDesk(t, "button", "")
	must(t, k.Release(k.ctx))
	k.Lease = nil
	home, _ := demo.InHome()
	work, err := os.MkdirTemp("", "worktree")
	must(t, err)
	defer os.RemoveAll(work)
	must(t, os.MkdirAll(filepath.Join(work, ".git"), 0o755))
	must(t, os.MkdirAll(filepath.Join(work, "cmd"), 0o755))
	sessiondock := func(args ...string) (string, int) {
		cmd := exec.CommandContext(k.ctx, filepath.Join(home.Bin(), "sessiondock"), args...)
		cmd.Dir = filepath.Join(work, "cmd")
		out, err := cmd.CombinedOutput()
		return string(out), exitCode(err)
	}
	run := []string{"run", "--wait", "20s", "--", "sh", "-c", "test -n \"$SESSIONDOCK_LEASE\" && sessiondock act evaluate location.href && exit 7"}
	start := k.site.URL(k.name, "table", "")
	if out, code := sessiondock(run...); code != core.CodeInvalid.Info().Exit || !strings.Contains(out, "no binding is for the worktree "+work) {
		t.Errorf("without a binding: exit code %d: %s", code, out)
	}
	bind := func(name string) {
		out, code := sessiondock("bind", name, "--slot", k.name, "--worktree", work, "--account", "none", "--origin", k.site.Origin(), "--start", start)
		if code != 0 {
			t.Fatalf("bind: exit code %d: %s", code, out)
		}
	}
	bind(k.name + "-here")
	if out, code := sessiondock(run...); code != 7 || !strings.Contains(out, "binding "+k.name+"-here") || !strings.Contains(out, start) {
		t.Errorf("with one binding: exit code %d: %s", code, out)
	}
	bind(k.name + "-too")
	if out, code := sessiondock(run...); code != core.CodeInvalid.Info().Exit || !strings.Contains(out, "2 bindings are for") {
		t.Errorf("with two: exit code %d: %s", code, out)
	}
}

// The program of the README's: it finds its browser by the variable alone.
func TestRunGivesAProgramItsBrowser(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	must(t, k.Release(k.ctx))
	k.Lease = nil
	cmd, out := k.runs("exec node " + filepath.Join(k.clients(), "look.mjs"))
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "button") {
		t.Fatalf("%v: %s", err, out)
	}
}

// The only tab is elsewhere, where the binding does not go: the start page comes in a tab of
// its own, and the program finds that.
func TestTheStartPageComesWithoutATab(t *testing.T) {
	t.Parallel()
	openProduct(t)
	k := openBoundDesk(t, core.BindingSpec{Origins: []string{product.site.Origin()}})
	must(t, k.Release(k.ctx))
	k.Lease = nil
	k.dial()
	var done bool
	must(t, k.hand.Pipe().Eval(k.ctx, k.hand.Worker(), `(async () => {
		const [tab, ...others] = await chrome.tabs.query({});
		await chrome.tabs.remove(others.map(({id}) => id));
		await chrome.tabs.update(tab.id, {url: "`+k.site.OriginAt("a.localhost")+`/elsewhere"});
		for (;;) if ((await chrome.tabs.get(tab.id)).url.includes("elsewhere") && (await chrome.tabs.get(tab.id)).status === "complete") return true;
	})()`, &done))
	cmd, out := k.runs(`exec sessiondock act evaluate "location.href"`)
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), k.page) || strings.Contains(out.String(), "the start page") {
		t.Fatalf("%v: %s", err, out)
	}
}
