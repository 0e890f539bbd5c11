package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// Dirs are the daemon's directories, each SessionDock's own: such as
// $XDG_DATA_HOME/sessiondock.
type Dirs struct {
	DataDir  string // profiles, downloads, the extension
	RunDir   string // sockets, end records
	StateDir string // logs
	CacheDir string // disk caches, temporary files
}

// Config is what Direct needs to know. Everything but Browser is required.
type Config struct {
	Dirs           Dirs
	Browser        string // path or name; "" looks for one
	HostBinary     string // the broker, an absolute path that stays
	KeeperBinary   string // a program that gives "keeper" to KeeperMain; "" is this one
	HostSocket     string // given to hosts
	ExtensionID    string
	ExtensionBuild string // names the directory of the extension
	WriteExtension func(dir string) error
}

// Direct is the supervisor without a service manager.
type Direct struct {
	cfg    Config
	builds builds

	mu      sync.Mutex
	keepers map[core.LaunchID]peer.Proc // of launches not known to have ended
}

var _ Supervisor = (*Direct)(nil)

// New returns a Direct. Nothing is looked at before the first use.
func New(c Config) *Direct {
	return &Direct{cfg: c, keepers: map[core.LaunchID]peer.Proc{}}
}

// Name is "direct".
func (d *Direct) Name() string { return "direct" }

const (
	// startWithin bounds a start if the context does not.
	startWithin = 20 * time.Second
	// watchEvery is how often a keeper that does not answer is looked at.
	watchEvery = 250 * time.Millisecond
	// patience is how long a keeper may be silent before StopNow ends it too.
	patience = 2 * time.Second
)

// Start starts the browser. An error says in its detail "verified_ended" whether
// nothing is left of the launch; where it does not, Stop can be asked.
func (d *Direct) Start(ctx context.Context, s Spec) (Started, error) {
	if os.Geteuid() == 0 {
		return Started{}, core.Refuse(core.CodeDenied, "browsers are not started as root: Chromium's sandbox does not work there",
			"run sessiondockd as an ordinary user")
	}
	if e := core.CheckName("slot", string(s.Slot)); e != nil {
		return Started{}, e
	}
	if s.Launch == "" || strings.ContainsAny(string(s.Launch), "/\x00") {
		return Started{}, core.Refuse(core.CodeInvalid, fmt.Sprintf("launch %q cannot name a file", s.Launch), "use a ULID")
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	spec, lock, err := d.prepare(s)
	if err != nil {
		return Started{}, notStarted(err)
	}
	defer lock.Close() // the keeper has its own reference to the same lock

	build := make(chan string, 1)
	go func() { build <- d.builds.of(ctx, spec.Argv[0]) }()
	keeper, err := d.startKeeper(ctx, s, spec, lock)
	if err != nil {
		return Started{}, err
	}
	return Started{
		Containment: containment, KeeperPID: keeper.PID, KeeperStart: keeper.StartTime,
		BrowserBuild: <-build,
	}, nil
}

// notStarted marks an error that came before anything was started.
func notStarted(err error) error {
	return asError(err).With("verified_ended", true)
}

// prepare takes the slot's lock and makes everything ready under it.
func (d *Direct) prepare(s Spec) (keeperSpec, *os.File, error) {
	browser, err := FindBrowser(d.cfg.Browser)
	if err != nil {
		return keeperSpec{}, nil, err
	}
	p := d.cfg.Dirs.places(s.Slot)
	for _, name := range []string{"keeper.sock", "pipe.sock"} {
		if e := peer.CheckSocketPath(filepath.Join(p.run, name)); e != nil {
			return keeperSpec{}, nil, e
		}
	}
	if err := peer.OwnDir(p.slot); err != nil {
		return keeperSpec{}, nil, err
	}
	lock, err := takeLock(p.lock)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return keeperSpec{}, nil, core.Refuse(core.CodeConflict, fmt.Sprintf("an earlier launch of slot %s has not ended", s.Slot),
			"stop it first: sessiondock slot stop "+string(s.Slot))
	}
	if err != nil {
		return keeperSpec{}, nil, err
	}
	spec, err := d.prepareLocked(browser, p, s)
	if err != nil {
		lock.Close()
		return keeperSpec{}, nil, err
	}
	return spec, lock, nil
}

func (d *Direct) prepareLocked(browser string, p places, s Spec) (keeperSpec, error) {
	if err := peer.OwnDir(p.profile); err != nil {
		return keeperSpec{}, err
	}
	names, err := hostnames(p.machine)
	if err != nil {
		return keeperSpec{}, err
	}
	if err := clearLock(scope{launch: s.Launch, profile: p.profile, hostnames: names}); err != nil {
		return keeperSpec{}, err
	}
	if err := p.make(); err != nil {
		return keeperSpec{}, err
	}
	if err := removeIfThere(recordPath(p.run, s.Launch)); err != nil {
		return keeperSpec{}, err
	}
	ext, err := prepareExtension(filepath.Join(d.cfg.Dirs.DataDir, "extension"), d.cfg.ExtensionBuild, d.cfg.WriteExtension)
	if err != nil {
		return keeperSpec{}, err
	}
	if err := preparePreferences(p.profile, p.downloads); err != nil {
		return keeperSpec{}, err
	}
	if err := prepareHost(p.profile, d.cfg.HostBinary, d.cfg.ExtensionID); err != nil {
		return keeperSpec{}, err
	}
	argv, e := flags(p, ext, s)
	if e != nil {
		return keeperSpec{}, e
	}
	return keeperSpec{
		Slot: s.Slot, Launch: s.Launch, Generation: s.Generation,
		Profile: p.profile, RunDir: p.run, LogDir: p.logs, WorkDir: p.downloads, Hostnames: names,
		Argv: append([]string{browser}, argv...),
		Env:  environment(os.Environ(), p, d.cfg.HostSocket, s),
		Pipe: s.Debug == "pipe",
	}, nil
}

// startKeeper starts the keeper and waits for its report.
func (d *Direct) startKeeper(ctx context.Context, s Spec, spec keeperSpec, lock *os.File) (peer.Proc, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return peer.Proc{}, notStarted(err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		return peer.Proc{}, notStarted(err)
	}
	defer from.Close()
	binary := d.cfg.KeeperBinary
	if binary == "" {
		binary = "/proc/self/exe" // also after an update has replaced the file
	}
	cmd := exec.Command(binary, "keeper", string(s.Slot))
	cmd.Args[0] = "sessiondockd"
	cmd.Stdin = bytes.NewReader(text)
	cmd.ExtraFiles = []*os.File{lock, to} // fdLock, fdReport
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	stderr, err := openLog(filepath.Join(spec.LogDir, "keeper.log"))
	if err != nil {
		to.Close()
		return peer.Proc{}, notStarted(err)
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stderr, stderr
	err = cmd.Start()
	to.Close()
	if err != nil {
		return peer.Proc{}, notStarted(err)
	}
	// It has not been waited for, so the PID is still its own.
	keeper, err := peer.Read(cmd.Process.Pid)
	if err != nil {
		keeper = peer.Proc{PID: cmd.Process.Pid}
	}
	d.remember(s.Launch, keeper)
	go cmd.Wait() // ends with the keeper; how it ended is in its record

	stop := context.AfterFunc(ctx, func() { from.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	r, err := readReport(from)
	if err == nil && r.Error == nil {
		return keeper, nil
	}
	if err == nil {
		if v, _ := r.Error.Detail["verified_ended"].(bool); v {
			d.forget(s.Launch)
		}
		return peer.Proc{}, r.Error
	}
	// No word from the keeper: it is not known whether the browser runs. It is
	// ended, so that no launch is left that nobody recorded.
	ended := d.Stop(context.WithoutCancel(ctx), s.Slot, core.Launch{ID: s.Launch, KeeperPID: keeper.PID, KeeperStart: keeper.StartTime}, StopNow)
	code := core.CodeUnavailable
	if ctx.Err() != nil {
		code = core.CodeDeadline
	}
	return peer.Proc{}, core.Refuse(code, "the launch's keeper did not report in time: "+err.Error(), "see "+stderr.Name()).
		With("verified_ended", ended.Verified).With("left", ended.Left)
}

func readReport(from io.Reader) (report, error) {
	line, err := readLine(from)
	if err != nil {
		return report{}, err
	}
	var r report
	err = json.Unmarshal(line, &r)
	return r, err
}

// takeLock takes a lock that belongs to the open file: a keeper that inherits
// the descriptor holds it after the daemon has closed its own.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Owns says whether a process descends from the launch's keeper.
func (d *Direct) Owns(l core.Launch, pid int) *core.Error {
	keeper := d.keeperOf(l)
	if keeper.PID == 0 {
		return core.Refuse(core.CodeDenied, "the launch's keeper is not known", "restart the slot's browser")
	}
	chain, err := peer.Ancestry(pid)
	if err != nil {
		return core.Refuse(core.CodeDenied, "the process's parents could not be established: "+err.Error(), "try again")
	}
	if !slices.ContainsFunc(chain[1:], keeper.Same) {
		return core.Refuse(core.CodeDenied, fmt.Sprintf("%s does not descend from the launch's keeper", chain[0]),
			"only the host that the slot's own browser started may connect")
	}
	return nil
}

// keeperOf is the launch's keeper as recorded, or as this daemon started or met it.
func (d *Direct) keeperOf(l core.Launch) peer.Proc {
	if l.KeeperPID != 0 {
		return peer.Proc{PID: l.KeeperPID, StartTime: l.KeeperStart, Comm: "keeper"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keepers[l.ID]
}

func (d *Direct) remember(l core.LaunchID, p peer.Proc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keepers[l] = p
}

func (d *Direct) forget(l core.LaunchID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.keepers, l)
}

func (d *Direct) scope(slot core.SlotName, l core.Launch, successor peer.Proc) scope {
	p := d.cfg.Dirs.places(slot)
	names, err := hostnames(p.machine)
	if err != nil {
		// Without a name every lock counts as a foreign one, and against the end.
		slog.Warn("host name not known", "slot", slot, "err", err)
	}
	return scope{launch: l.ID, profile: p.profile, hostnames: names,
		since: d.keeperOf(l).StartTime, successor: successor}
}
