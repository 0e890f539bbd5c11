// Command sessiondockd is the daemon: the sole authority over slots. It holds flags,
// sockets and wiring; what it decides is decided in package core.
//
// As `sessiondockd keeper` it is the small process that holds one launch of a browser
// and outlives the daemon; the daemon starts it by itself.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	sd "github.com/coreos/go-systemd/v22/daemon"

	"sessiondock.dev/sessiondock/daemon/api"
	"sessiondock.dev/sessiondock/daemon/cdp"
	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/failpoint"
	"sessiondock.dev/sessiondock/daemon/hostlink"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/supervise"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/extension"
	"sessiondock.dev/sessiondock/extension/packed"
	"sessiondock.dev/sessiondock/store"
)

const usage = `usage: sessiondockd [--browser PATH] [--max-browsers N] [--max-memory MB]
                    [--journal-age DURATION] [--journal-size BYTES]
                    [--supervisor systemd|direct] [--packaging policy|external|load]
                    [--debug pipe|port] [--verbose]

The SessionDock daemon. It serves api.sock (agents), control.sock (people) and
host.sock (native messaging hosts) under $XDG_RUNTIME_DIR/sessiondock, from systemd
if that passes them and by itself otherwise. People use it by "sessiondock".

`

// memoryTarget bounds what the collector lets grow before it works harder. Large page
// captures are given back at once, wherever they pass.
const memoryTarget = 256 << 20

// gcPercent lets the heap grow to five times what is alive before it is collected. That
// is small (some 5 MB with a thousand slots), and the usual factor of two had the
// collector take a sixth of the processor time of a grant, and a tenth of a takeover's.
const gcPercent = 400

type options struct {
	browser   string
	packaging supervise.Packaging
	debug     string
	verbose   bool
	browsers  int
	memoryMB  int64
	keep      string
	journal   engine.Keep
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(supervise.KeeperMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "enter" {
		os.Exit(supervise.EnterMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "packaging" {
		os.Exit(packagings())
	}
	var o options
	f, packaging := flags(&o)
	err := f.Parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil || f.NArg() > 0 || o.debug != "" && o.debug != "pipe" && o.debug != "port", o.browsers < 0, o.memoryMB < 0, o.journal.Age < 0, o.journal.Bytes < 0:
		fmt.Fprintln(os.Stderr, "error: unknown option or argument\nhint: sessiondockd --help")
		os.Exit(core.CodeInvalid.Info().Exit)
	}
	o.packaging, err = supervise.ParsePackaging(*packaging)
	if err == nil {
		err = run(o)
	}
	if err != nil {
		var refusal *core.Error
		if errors.As(err, &refusal) {
			fmt.Fprintf(os.Stderr, "error: %s\n", refusal.Message)
			if refusal.Hint != "" {
				fmt.Fprintf(os.Stderr, "hint: %s\n", refusal.Hint)
			}
			os.Exit(refusal.Code.Info().Exit)
		}
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// flags are the daemon's. The manual page names each of them: manifests/sessiondockd.1.tmpl.
func flags(o *options) (f *flag.FlagSet, packaging *string) {
	f = flag.NewFlagSet("sessiondockd", flag.ContinueOnError)
	f.StringVar(&o.browser, "browser", "", "the Chromium to start (default: the first one found in PATH)")
	packaging = f.String("packaging", "", "how the extension is put into browsers: policy, external or load (default: the strongest that works here; with --debug load)")
	f.StringVar(&o.debug, "debug", "", "start browsers with a debugging pipe or port, which is a way round the fence: demonstrations, tests and benchmarks only")
	f.IntVar(&o.browsers, "max-browsers", 0, "how many browsers may run at a time; who needs another waits, and an idle one is stopped to make room (0: no bound)")
	f.Int64Var(&o.memoryMB, "max-memory", 0, "how much memory, in MB, running browsers may use before another waits (0: no bound)")
	f.StringVar(&o.keep, "supervisor", "", "what holds browsers: systemd, the user's service manager, or direct, a small process for each (default: systemd if it can be reached)")
	o.journal = engine.DefaultKeep
	f.DurationVar(&o.journal.Age, "journal-age", o.journal.Age, "how long entries of the journal are kept; then they are trimmed, and closed actions lose their details (0: no bound)")
	f.Int64Var(&o.journal.Bytes, "journal-size", o.journal.Bytes, "how many bytes the journal may take before its oldest entries are trimmed (0: no bound)")
	f.BoolVar(&o.verbose, "verbose", false, "log more")
	f.Usage = func() { fmt.Fprint(f.Output(), usage); f.PrintDefaults() }
	return f, packaging
}

func run(o options) error {
	if os.Geteuid() == 0 {
		return core.Refuse(core.CodeDenied, "the daemon does not run as root: Chromium would have to give up its sandbox", "run it as an ordinary user")
	}
	debug.SetMemoryLimit(memoryTarget)
	debug.SetGCPercent(gcPercent)
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()

	paths, err := client.FindPaths(os.Getenv)
	if err != nil {
		return err
	}
	if err := paths.CheckRuntime(); err != nil {
		return err
	}
	db, err := store.Open(paths.Database()) // the lock in it refuses a second daemon
	if err != nil {
		return err
	}
	defer db.Close()
	key, err := bodyKey(filepath.Join(paths.State, "body.key"))
	if err != nil {
		return err
	}
	ext, err := extension.OpenKey(paths.ExtensionKey())
	if err != nil {
		return err
	}
	sup, err := supervisor(ctx, paths, o, ext)
	if err != nil {
		return err
	}
	defer sup.Close()
	clock, err := engine.SystemClock()
	if err != nil {
		return err
	}
	doors, err := listen(paths)
	if err != nil {
		return err
	}
	eng, err := engine.New(withPoints(db), sup, clock, log, engine.Options{Debug: o.debug, Capacity: core.Capacity{Browsers: o.browsers, MemoryMB: o.memoryMB}, Note: filepath.Join(paths.Runtime, "takeovers.json")})
	if err != nil {
		return err
	}
	defer eng.Close()
	eng.KeepJournal(o.journal)
	if o.debug != "" {
		log.Warn("browsers are started with a debugging " + o.debug + ": a way round the fence, for tests only")
	}
	srv := &api.Server{
		Engine: eng, Damage: db.Damage, Log: log, BodyKey: key, DataDir: paths.Data, AgentsFile: filepath.Join(paths.Runtime, "agents.json"),
		Health: api.Health{OK: true, Version: wire.Version, Build: build(), PID: os.Getpid(), Supervisor: sup.Name(), Why: sup.Why(), Extension: ext.ID},
	}
	clients, err := cdp.Listen(eng, srv.UploadDir, log)
	if err != nil {
		return err
	}
	srv.CDPURL = clients.URL
	if err := srv.LoadAgents(); err != nil {
		log.Warn("which processes are agents' is not known from before", "err", err)
	}
	go watchDatabase(ctx, db, log)
	return serve(ctx, cancel, doors, eng, sup, srv, clients, log)
}

// serve serves the three doors and the endpoint of DevTools clients until one of them fails or ctx ends.
func serve(ctx context.Context, cancel func(), doors map[string]*net.UnixListener, eng *engine.Engine, sup supervise.Supervisor, srv *api.Server, clients *cdp.Server, log *slog.Logger) error {
	links := &hostlink.Server{
		Engine: eng, Supervisor: sup, ExtensionID: srv.Health.Extension, ExtensionBuild: extension.Build(), Log: log,
		Clients: clients,
	}
	var group sync.WaitGroup
	failed := make(chan error, 4)
	start := func(f func() error) {
		group.Go(func() {
			failed <- f()
			cancel()
		})
	}
	start(func() error { return links.Serve(ctx, doors["host"]) })
	start(func() error { return clients.Serve(ctx) })
	start(func() error { return srv.Serve(ctx, doors["api"], srv.Agents()) })
	start(func() error { return srv.Serve(ctx, doors["control"], srv.People()) })
	log.Info("serving", "build", build(), "supervisor", sup.Name(), "why", srv.Health.Why, "extension", extension.Build())
	if _, err := sd.SdNotify(false, sd.SdNotifyReady); err != nil {
		log.Warn("systemd was not told", "err", err)
	}
	go watchdog(ctx, eng, log)
	<-ctx.Done()
	sd.SdNotify(false, sd.SdNotifyStopping)
	group.Wait()
	close(failed)
	var first error
	for err := range failed {
		if err != nil && first == nil {
			first = err
		}
	}
	log.Info("ended; browsers go on")
	return first
}

// watchDatabase has a large database checked while it is served, and says once that it is
// corrupt, whoever has met that.
func watchDatabase(ctx context.Context, db *store.Store, log *slog.Logger) {
	go func() {
		if err := db.CheckLarge(ctx); err != nil && db.Damage() == nil {
			log.Warn("the database could not be checked", "err", err)
		}
	}()
	select {
	case <-db.Damaged():
		log.Error("nothing is written any more", "err", db.Damage().Message, "hint", db.Damage().Hint)
	case <-ctx.Done():
	}
}

// listen takes the sockets from systemd if it passes them, and makes them otherwise.
// The database's lock is held by now, so a socket that nobody answers on is stale.
func listen(paths client.Paths) (map[string]*net.UnixListener, error) {
	passed, err := passedSockets()
	if err != nil {
		return nil, err
	}
	doors := map[string]*net.UnixListener{}
	for name, path := range map[string]string{"api": paths.APISocket(), "control": paths.ControlSocket(), "host": paths.HostSocket()} {
		if l := passed[path]; l != nil {
			// The service manager made the directory, or found one.
			if err := peer.OwnDir(filepath.Dir(path)); err != nil {
				return nil, err
			}
			doors[name] = l
			delete(passed, path)
			continue
		}
		l, err := peer.Listen(path, 0o600)
		if err != nil {
			return nil, err
		}
		doors[name] = l
	}
	for path := range passed {
		return nil, core.Refuse(core.CodeInvalid, fmt.Sprintf("systemd passed a socket at %s, which is none of ours", path), "look at sessiondock.socket")
	}
	return doors, nil
}

// passedSockets are what the service manager listens on for us, by path.
func passedSockets() (map[string]*net.UnixListener, error) {
	all, err := activation.Listeners()
	if err != nil {
		return nil, err
	}
	byPath := map[string]*net.UnixListener{}
	for _, l := range all {
		u, ok := l.(*net.UnixListener)
		if !ok {
			return nil, core.Refuse(core.CodeInvalid, "systemd passed something that is not a listening unix socket", "look at sessiondock.socket")
		}
		byPath[u.Addr().String()] = u
	}
	return byPath, nil
}

// writerWithin is how long the writer may work on one input before it is taken to hang:
// it takes milliseconds.
const writerWithin = 10 * time.Second

// watchdog tells the service manager, as often as that wants to hear it, that the engine
// does its work.
func watchdog(ctx context.Context, eng *engine.Engine, log *slog.Logger) {
	every, err := sd.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return
	}
	ticker := time.NewTicker(every / 3)
	defer ticker.Stop()
	for {
		if eng.Alive(writerWithin) {
			sd.SdNotify(false, sd.SdNotifyWatchdog)
		} else {
			log.Error("the writer hangs")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func supervisor(ctx context.Context, paths client.Paths, o options, ext extension.Key) (*supervise.Chosen, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	packages := &packed.Store{Dir: paths.Packages(), Key: ext}
	return supervise.Choose(ctx, supervise.Config{
		Dirs:           supervise.Dirs{DataDir: paths.Data, RunDir: paths.Runtime, StateDir: paths.State, CacheDir: paths.Cache},
		Browser:        o.browser,
		HostBinary:     hostBinary(self),
		KeeperBinary:   self,
		HostSocket:     paths.HostSocket(),
		ExtensionID:    ext.ID,
		ExtensionBuild: extension.Build() + "-" + ext.ID[:8], // with another key it is another copy
		WriteExtension: func(dir string) error { return extension.Write(dir, ext, 0) },
		Bus:            supervise.BusAddress(os.Getenv),
		Package: func(ctx context.Context, browser string) (supervise.Package, error) {
			p, err := packages.Package(ctx, browser)
			return supervise.Package{Version: p.Version, CRX: p.CRX, Update: p.Update}, err
		},
		Packaging: o.packaging,
	}, o.keep)
}

// packagings is `sessiondockd packaging`: it tries how the extension can be put into
// the browser here, for doctor. It must be this program that tries, because some
// systems allow user namespaces by program.
func packagings() int {
	ctx := context.Background()
	browser, err := chromium.Find("")
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return core.CodeUnavailable.Info().Exit
	}
	c := supervise.Config{Package: func(context.Context, string) (supervise.Package, error) { return supervise.Package{}, nil }}
	if err := json.NewEncoder(os.Stdout).Encode(c.Trials(ctx, (&chromium.Versions{}).Of(ctx, browser))); err != nil {
		return 1
	}
	return 0
}

// hostBinary is the host beside this program, by the name that this program was started
// under if that leads here too. Where programs are links into a directory of their
// version, the real path would be gone after the next update.
func hostBinary(self string) string {
	const host = "sessiondock-host"
	if named, err := exec.LookPath(os.Args[0]); err == nil && filepath.IsAbs(named) {
		beside := filepath.Join(filepath.Dir(named), host)
		real, err := filepath.EvalSymlinks(named)
		if _, there := os.Stat(beside); err == nil && there == nil && real == self {
			return beside
		}
	}
	return filepath.Join(filepath.Dir(self), host)
}

// bodyKey reads or makes the key of request hashes. Without it a password that was
// typed into a page could be guessed from its hash in the journal.
func bodyKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err == nil && len(key) == 32 {
		return key, nil
	}
	if err == nil {
		return nil, core.Refuse(core.CodeInvalid, path+" is not a key of 32 bytes", "move it away; a new one is made")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key = make([]byte, 32)
	rand.Read(key)
	return key, newFile(path, key)
}

// newFile makes a file of this user's alone, which is there whole or not at all, also
// after a crash or a power cut.
func newFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // of no effect once it has its name
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	failpoint.Hit("before-key")
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// build names this build: the revision it was made from, and the extension's.
func build() string {
	rev := "unversioned"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				rev = s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return rev + "+" + extension.Build()
}
