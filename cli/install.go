package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/chromium"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/extension"
	"sessiondock.dev/sessiondock/extension/packed"
	"sessiondock.dev/sessiondock/install"
	"sessiondock.dev/sessiondock/manifests"
)

type installFlags struct {
	dryRun, noStart bool
	prefix          string
	browsers        []string
}

func (a *app) installCmd() *cobra.Command {
	var f installFlags
	c := &cobra.Command{
		Use:   "install [--dry-run] [--prefix DIR] [--browser NAME]... [--no-start]",
		Short: "Install SessionDock for this user, or bring it up to date",
		Long: `Puts the programs that lie beside this one into PREFIX/bin, the units of the user's
service manager, completions and manual pages into their places, makes the key of
this installation's extension and packs it. The daemon is then started by the first
request. Everything is shown first; with --dry-run it is only shown.

It is safe to repeat: what is as it should be stays. What was not installed by this
program, or was changed since, is not touched: it is named, and nothing is done. If
anything fails everything is as it was before. Browsers that run go on.

Programs of a distribution's package stay where they are; then only what belongs to
this user is installed.

--browser installs the native messaging manifest for a browser of your own as well:
chromium, chrome, brave or edge. Slots do not need it.`,
		Example: `  sessiondock install --dry-run
  sessiondock install`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.install(c.Context(), f) },
	}
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only show what would be done")
	c.Flags().BoolVar(&f.noStart, "no-start", false, "do not have the service manager listen yet")
	c.Flags().StringVar(&f.prefix, "prefix", "", "the programs go to DIR/bin (default ~/.local)")
	c.Flags().StringArrayVar(&f.browsers, "browser", nil, "also for this browser of your own; may be given again")
	return c
}

// xdg is a base directory of the user's.
func (a *app) xdg(name, underHome string) string {
	if dir := a.getenv(name); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(a.getenv("HOME"), underHome)
}

// program is where this program lies, by its real path.
func program() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(self)
}

// layout is what an installation is made of, and where.
type layout struct {
	paths client.Paths
	from  string // where the programs are
	bin   string // where they will be
	files []install.File
}

func (a *app) layout(f installFlags) (*layout, error) {
	paths, err := a.paths()
	if err != nil {
		return nil, err
	}
	self, err := program()
	if err != nil {
		return nil, err
	}
	p := &layout{paths: paths, from: filepath.Dir(self)}
	prefix := f.prefix
	if prefix == "" {
		prefix = filepath.Join(a.getenv("HOME"), ".local")
	}
	if prefix, err = filepath.Abs(prefix); err != nil {
		return nil, err
	}
	p.bin = filepath.Join(prefix, "bin")
	packaged := f.prefix == "" && install.Owned(p.from)
	if packaged {
		p.bin = p.from
	} else if p.files, err = install.ProgramFiles(p.from, p.bin); err != nil {
		return nil, err
	}
	config := a.xdg("XDG_CONFIG_HOME", ".config")
	units, err := install.UnitFiles(paths, p.bin, config, a.getenv)
	if err != nil {
		return nil, err
	}
	p.files = append(p.files, units...)
	if len(f.browsers) > 0 {
		id, err := extensionID(paths, f.dryRun)
		if err != nil {
			return nil, err
		}
		hosts, err := install.ManifestFiles(f.browsers, config, filepath.Join(p.bin, "sessiondock-host"), id)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, hosts...)
	}
	if !packaged {
		docs, err := pages(a.xdg("XDG_DATA_HOME", ".local/share"))
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, docs...)
	}
	return p, nil
}

// extensionID is that of this installation's key. A dry run that finds none shows what
// another key would give, and makes none.
func extensionID(paths client.Paths, dryRun bool) (string, error) {
	path := paths.ExtensionKey()
	if _, err := os.Stat(path); dryRun && errors.Is(err, os.ErrNotExist) {
		temp, err := os.MkdirTemp("", "sessiondock-")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(temp)
		path = filepath.Join(temp, "key.pem")
	}
	key, err := extension.OpenKey(path)
	if err != nil {
		return "", core.Refuse(core.CodeUnavailable, err.Error(), "")
	}
	return key.ID, nil
}

// installReport is what --json prints.
type installReport struct {
	Schema string         `json:"schema"`
	DryRun bool           `json:"dry_run"`
	Bin    string         `json:"bin"`
	Steps  []install.Step `json:"steps"`
	Notes  []string       `json:"notes"`
}

func (a *app) install(ctx context.Context, f installFlags) error {
	undoKey, made, err := a.noteKey()
	if err != nil {
		return err
	}
	pl, err := a.layout(f)
	if err != nil {
		return undoKey(err)
	}
	if os.Geteuid() == 0 && !f.dryRun {
		return undoKey(core.Refuse(core.CodeDenied, "an installation is one user's, and root's browser would have no sandbox",
			"run it as the user who will use it; for all users there are packages: make packages"))
	}
	if !f.dryRun {
		undone, err := install.Recover(pl.paths.State)
		if err != nil {
			return err
		}
		if undone {
			a.say("a former installation was cut short; it has been undone")
		}
	}
	plan, err := install.Make(pl.paths.State, readVersion().Revision, pl.files)
	if err != nil {
		return undoKey(err)
	}
	plan.Made(made)
	r := installReport{Schema: schema, DryRun: f.dryRun, Bin: pl.bin, Steps: plan.Steps, Notes: []string{}}
	if !f.dryRun {
		if !a.json {
			fmt.Fprint(a.out, plan)
		}
		if err := plan.Apply(func() error { return works(ctx, pl.bin) }); err != nil {
			return undoKey(err)
		}
		if plan.Left != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("a former file could not be removed (%v); the next installation removes it", plan.Left))
		}
		r.Notes = append(r.Notes, a.packExtension(ctx, pl.paths)...)
		r.Notes = append(r.Notes, a.listen(ctx, pl, plan, f.noStart)...)
	}
	if !slices.Contains(filepath.SplitList(a.getenv("PATH")), pl.bin) {
		r.Notes = append(r.Notes, pl.bin+" is not in PATH; add it there to type the programs' names alone")
	}
	if a.json {
		return a.printJSON(r)
	}
	if f.dryRun {
		fmt.Fprint(a.out, plan)
	}
	for _, n := range r.Notes {
		a.say("note: %s", n)
	}
	switch {
	case f.dryRun:
		a.say("nothing was done: --dry-run")
	case plan.Changes():
		a.say("installed; sessiondock doctor says what works here, sessiondock uninstall takes it away again")
	default:
		a.say("installed already, and as it should be")
	}
	return nil
}

// noteKey looks whether there is a key already. One that is made for an installation
// which then comes to nothing is taken back by undo, with the directories for it.
func (a *app) noteKey() (undo func(error) error, made []string, err error) {
	paths, err := a.paths()
	if err != nil {
		return nil, nil, err
	}
	made = install.Missing(paths.State)
	_, before := os.Stat(paths.ExtensionKey())
	return func(err error) error {
		if errors.Is(before, os.ErrNotExist) {
			_ = os.Remove(paths.ExtensionKey()) // it need not have been made
			install.RemoveEmpty(made)
		}
		return err
	}, made, nil
}

// workWithin bounds the trial of one installed program.
const workWithin = 20 * time.Second

// works runs the installed programs once: that they are there, and for this machine.
func works(ctx context.Context, bin string) error {
	ctx, cancel := context.WithTimeout(ctx, workWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "sessiondock"), "version", "--json").Output()
	var v versionInfo
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	if err == nil && v.Protocol != readVersion().Protocol {
		err = fmt.Errorf("it speaks protocol %d, this program %d", v.Protocol, readVersion().Protocol)
	}
	if err != nil {
		return core.Refuse(core.CodeUnavailable, fmt.Sprintf("%s does not work: %v", filepath.Join(bin, "sessiondock"), err), "")
	}
	daemon := filepath.Join(bin, "sessiondockd")
	if out, err := exec.CommandContext(ctx, daemon, "--help").CombinedOutput(); err != nil {
		return core.Refuse(core.CodeUnavailable, fmt.Sprintf("%s does not work: %v: %s", daemon, err, clip(string(out), 200)), "")
	}
	return nil // the host talks to a browser only
}

// packExtension makes the key and the package now, so that the first launch need not. A
// machine without a browser gets them with its first launch.
func (a *app) packExtension(ctx context.Context, paths client.Paths) []string {
	key, err := extension.OpenKey(paths.ExtensionKey())
	if err != nil {
		return []string{err.Error()}
	}
	browser, err := chromium.Find("")
	if err == nil {
		_, err = (&packed.Store{Dir: paths.Packages(), Key: key}).Package(ctx, browser)
	}
	if e, ok := errors.AsType[*core.Error](err); ok {
		return []string{strings.TrimRight(e.Message+"; "+e.Hint, "; ")}
	} else if err != nil {
		return []string{"the extension was not packed yet: " + err.Error()}
	}
	return nil
}

// listen has the service manager listen, where there is one.
func (a *app) listen(ctx context.Context, pl *layout, plan *install.Plan, noStart bool) []string {
	byHand := []string{"no service manager of this user can be reached; start the daemon with: sessiondock up --detach"}
	m, err := install.FindManager(ctx)
	if err != nil {
		return byHand
	}
	if _, err := m.Do(ctx, "daemon-reload"); err != nil {
		return []string{err.Error()}
	}
	if noStart {
		return []string{"to begin: systemctl --user start " + manifests.SocketUnit}
	}
	if m.Active(ctx, manifests.ServiceUnit) {
		if !plan.Changes() {
			return nil
		}
		// Browsers are units of their own, or have keepers: the new daemon adopts them.
		if _, err := m.Do(ctx, "restart", manifests.ServiceUnit); err != nil {
			return []string{err.Error()}
		}
		return []string{"the daemon was restarted; browsers went on, and leases may be resumed"}
	}
	if h, err := client.New(pl.paths.ControlSocket()).Health(ctx); err == nil && !m.Active(ctx, manifests.SocketUnit) {
		return []string{fmt.Sprintf("a daemon that was started by hand is running (pid %d); to change over: sessiondock down, then systemctl --user start %s", h.PID, manifests.SocketUnit)}
	}
	if _, err := m.Do(ctx, "start", manifests.SocketUnit); err != nil {
		return []string{err.Error()}
	}
	return nil
}
