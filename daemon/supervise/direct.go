package supervise

import (
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
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// Dirs are the daemon's directories, each SessionDock's own: such as
// $XDG_DATA_HOME/sessiondock.
type Dirs struct {
	DataDir  string // profiles, downloads, the extension
	RunDir   string // sockets
	StateDir string // logs, end records
	CacheDir string // disk caches, temporary files
}

// Config is what a supervisor needs to know. Everything but Browser and Bus is
// required.
type Config struct {
	Dirs           Dirs
	Browser        string // path or name; "" looks for one
	HostBinary     string // the broker, an absolute path that stays
	KeeperBinary   string // a program that gives "keeper" to KeeperMain; "" is this one
	HostSocket     string // given to hosts
	ExtensionID    string
	ExtensionBuild string // names the directory of the extension
	WriteExtension func(dir string) error
	Bus            string // the D-Bus address of the user manager's bus; "" is none
	// Package returns the signed extension, which the browser packs if it is not there;
	// nil: there is none, and browsers load the unpacked one.
	Package   func(ctx context.Context, browser string) (Package, error)
	Packaging Packaging // "": the strongest way that works here
}

// Direct is the supervisor without a service manager.
type Direct struct {
	cfg      Config
	versions chromium.Versions
	bypasses *bypasses

	trying sync.Mutex // held during a trial, which can take seconds
	tried  struct {   // which packaging works, with which browser
		way Packaging
		of  chromium.Version
	}

	mu      sync.Mutex
	keepers map[core.LaunchID]peer.Proc // of launches not known to have ended
}

var _ Supervisor = (*Direct)(nil)

// New returns a Direct. Nothing is looked at before the first use.
func New(c Config) *Direct {
	d := &Direct{cfg: c, versions: chromium.Versions{File: filepath.Join(c.Dirs.CacheDir, "browser.json")}, keepers: map[core.LaunchID]peer.Proc{}}
	d.bypasses = newBypasses(d.profile, d.members)
	return d
}

// Name is "direct".
func (d *Direct) Name() string { return "direct" }

func (d *Direct) profile(slot core.SlotName) string { return d.cfg.Dirs.places(slot).profile }

// members are the processes of the launch, by descent from its keeper.
func (d *Direct) members(l core.Launch) []peer.Proc {
	keeper := d.keeperOf(l)
	if keeper.PID == 0 || !runs(keeper) {
		return nil
	}
	var out []peer.Proc
	for pids := peer.Children(keeper.PID); len(pids) > 0; pids = pids[1:] {
		if p, err := peer.Read(pids[0]); err == nil && !p.Dead {
			out = append(out, p)
			pids = append(pids, peer.Children(p.PID)...)
		}
	}
	return out
}

// Bypasses names the ways round the fence that are open.
func (d *Direct) Bypasses(all map[core.SlotName]core.Launch) map[core.SlotName][]string {
	return d.bypasses.look(all)
}

// Unit is "": there are none.
func (d *Direct) Unit(core.SlotName, int64, core.LaunchID) string { return "" }

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
func (d *Direct) Start(ctx context.Context, s Spec) (core.Identity, error) {
	id, err := d.start(ctx, s, fork)
	if e, ok := errors.AsType[*silentKeeper](err); ok {
		// It is not known whether the browser runs. It is ended, so that no launch is
		// left that nobody recorded.
		return core.Identity{}, e.refusal(d.Stop(context.WithoutCancel(ctx), s.Slot, core.Launch{ID: s.Launch, Identity: e.id}, StopNow))
	}
	return id, err
}

// runKeeper starts a keeper's process: keeperFiles are its standard input, output
// and error. It returns what identifies the launch from then on.
type runKeeper func(context.Context, Spec, keeperFiles, []string) (core.Identity, error)

// keeperFiles are what a keeper is given: its specification to read, where to write
// its report, and its log.
type keeperFiles struct{ spec, report, log *os.File }

// silentKeeper is the error of a start whose keeper runs and said nothing.
type silentKeeper struct {
	id   core.Identity
	why  error
	late bool
	log  string
}

func (e *silentKeeper) Error() string { return e.why.Error() }

// refusal words it, with what became of the launch.
func (e *silentKeeper) refusal(ended Ended) *core.Error {
	code := core.CodeUnavailable
	if e.late {
		code = core.CodeDeadline
	}
	return core.Refuse(code, "the launch's keeper did not report in time: "+e.why.Error(), "see "+e.log).
		With("verified_ended", ended.Verified).With("left", ended.Left)
}

// start prepares the slot, lets run start the keeper and waits for its report.
func (d *Direct) start(ctx context.Context, s Spec, run runKeeper) (core.Identity, error) {
	if os.Geteuid() == 0 {
		return core.Identity{}, core.Refuse(core.CodeDenied, "browsers are not started as root: Chromium's sandbox does not work there",
			"run sessiondockd as an ordinary user")
	}
	if e := checkLaunch(s.Slot, core.Launch{ID: s.Launch}); e != nil {
		return core.Identity{}, e
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	spec, err := d.prepare(s)
	if err != nil {
		return core.Identity{}, notStarted(err)
	}
	id, err := d.startKeeper(ctx, s, spec, run)
	if err != nil {
		return core.Identity{}, err
	}
	id.Browser, id.Extension, id.Packaging = spec.version.Text, d.cfg.ExtensionBuild, string(spec.packaging)
	return id, nil
}

// notStarted marks an error that came before anything was started.
func notStarted(err error) error {
	return asError(err).With("verified_ended", true)
}

// prepare makes everything ready under the slot's lock. The keeper takes the lock
// again for itself: between the two nobody else would, because one daemon at a time
// has the database, and it has one launch of a slot at a time.
func (d *Direct) prepare(s Spec) (keeperSpec, error) {
	browser, err := chromium.Find(d.cfg.Browser)
	if err != nil {
		return keeperSpec{}, err
	}
	p := d.cfg.Dirs.places(s.Slot)
	for _, name := range []string{"keeper.sock", "pipe.sock"} {
		if e := peer.CheckSocketPath(filepath.Join(p.run, name)); e != nil {
			return keeperSpec{}, e
		}
	}
	if err := peer.OwnDir(p.slot); err != nil {
		return keeperSpec{}, err
	}
	lock, err := takeLock(p.lock)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return keeperSpec{}, core.Refuse(core.CodeConflict, fmt.Sprintf("an earlier launch of slot %s has not ended", s.Slot),
			"stop it first: sessiondock slot stop "+string(s.Slot))
	}
	if err != nil {
		return keeperSpec{}, err
	}
	defer lock.Close()
	return d.prepareLocked(browser, p, s)
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
	if err := removeIfThere(recordPath(p.logs, s.Launch)); err != nil {
		return keeperSpec{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	version := d.versions.Of(ctx, browser)
	if version.TooOld() {
		return keeperSpec{}, core.Refuse(core.CodeUnavailable, fmt.Sprintf("%s is too old: the extension needs %d", version.Text, chromium.MinMajor), "update the browser")
	}
	ext, err := d.pack(ctx, browser, version, p, s)
	if err != nil {
		return keeperSpec{}, err
	}
	if err := preparePreferences(p.profile, p.downloads); err != nil {
		return keeperSpec{}, err
	}
	if err := prepareHost(p.profile, d.cfg.HostBinary, d.cfg.ExtensionID); err != nil {
		return keeperSpec{}, err
	}
	argv, e := flags(p, ext, version, s)
	if e != nil {
		return keeperSpec{}, e
	}
	return keeperSpec{
		Slot: s.Slot, Launch: s.Launch, Generation: s.Generation,
		Lock: p.lock, Profile: p.profile, RunDir: p.run, LogDir: p.logs, WorkDir: p.downloads, Temp: p.temp, Hostnames: names,
		Argv: append([]string{browser}, argv...),
		Env:  environment(os.Environ(), p, d.cfg.HostSocket, s),
		Pipe: s.Debug == "pipe", Over: ext.over, version: version, packaging: ext.way,
	}, nil
}

// startKeeper starts the keeper and waits for its report.
func (d *Direct) startKeeper(ctx context.Context, s Spec, spec keeperSpec, run runKeeper) (core.Identity, error) {
	text, err := memoryFile("keeper", spec)
	if err != nil {
		return core.Identity{}, notStarted(err)
	}
	defer text.Close()
	from, to, err := os.Pipe()
	if err != nil {
		return core.Identity{}, notStarted(err)
	}
	defer from.Close()
	log, err := openLog(filepath.Join(spec.LogDir, "keeper.log"))
	if err != nil {
		to.Close()
		return core.Identity{}, notStarted(err)
	}
	defer log.Close()
	id, err := run(ctx, s, keeperFiles{text, to, log}, []string{d.cfg.keeperBinary(), "keeper", string(s.Slot)})
	to.Close()
	if err != nil {
		return core.Identity{}, err
	}
	d.remember(s.Launch, peer.Proc{PID: id.KeeperPID, StartTime: id.KeeperStart, Comm: "keeper"})

	stop := context.AfterFunc(ctx, func() { from.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	r, err := readReport(from)
	if err != nil {
		return core.Identity{}, &silentKeeper{id: id, why: err, late: ctx.Err() != nil, log: log.Name()}
	}
	if r.Error != nil {
		if v, _ := r.Error.Detail["verified_ended"].(bool); v {
			d.forget(s.Launch)
		}
		return core.Identity{}, r.Error
	}
	return id, nil
}

// fork starts a keeper as a process of its own session, which outlives the daemon.
func fork(_ context.Context, _ Spec, files keeperFiles, argv []string) (core.Identity, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Args[0] = "sessiondockd"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files.spec, files.report, files.log
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return core.Identity{}, notStarted(err)
	}
	// It has not been waited for, so the PID is still its own.
	id := core.Identity{Containment: containment, KeeperPID: cmd.Process.Pid}
	if p, err := peer.Read(cmd.Process.Pid); err == nil {
		id.KeeperStart = p.StartTime
	}
	go cmd.Wait() // ends with the keeper; how it ended is in its record
	return id, nil
}

// memoryFile holds a value as JSON where no other process can open it by name.
func memoryFile(name string, v any) (*os.File, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteAt(text, 0); err != nil { // the reader begins at 0
		f.Close()
		return nil, err
	}
	return f, nil
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

// takeLock takes a lock that belongs to the open file, and lasts until that is closed.
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
func (d *Direct) Owns(l core.Launch, who peer.Cred) *core.Error {
	keeper := d.keeperOf(l)
	if keeper.PID == 0 {
		return core.Refuse(core.CodeDenied, "the launch's keeper is not known", "restart the slot's browser")
	}
	chain, err := peer.Ancestry(who.PID)
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
