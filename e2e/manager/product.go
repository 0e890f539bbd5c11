package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/manifests"
)

// Product is SessionDock's units under the run's manager, with directories of their own.
// The sockets lie in the one runtime directory, so there is one product at a time.
type Product struct {
	Paths   client.Paths
	Control *client.Client // the person's door
	API     *client.Client // the agents' door

	units string
	dir   string
}

// Install writes the units for the home's sessiondockd and lets the manager listen. The
// daemon is not started.
func Install(home Home, flags ...string) (*Product, error) {
	dir, err := os.MkdirTemp(home.Dir, "p")
	if err != nil {
		return nil, err
	}
	var environment []string
	vars := map[string]string{"XDG_RUNTIME_DIR": os.Getenv("XDG_RUNTIME_DIR"), "HOME": os.Getenv("HOME")}
	for _, name := range []string{"XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"} {
		vars[name] = filepath.Join(dir, strings.ToLower(name[4:5]))
		environment = append(environment, name+"="+vars[name])
	}
	p := &Product{units: home.Units(), dir: dir}
	if p.Paths, err = client.FindPaths(func(name string) string { return vars[name] }); err != nil {
		return nil, err
	}
	p.Control, p.API = client.New(p.Paths.ControlSocket()), client.New(p.Paths.APISocket())
	socket, err := manifests.Socket(p.Paths.ControlSocket(), p.Paths.APISocket(), p.Paths.HostSocket())
	if err != nil {
		return nil, err
	}
	service, err := manifests.Service(append([]string{filepath.Join(home.Bin(), "sessiondockd")}, flags...), environment)
	if err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{manifests.SocketUnit: socket, manifests.ServiceUnit: service, manifests.SliceUnit: manifests.Slice()} {
		if err := os.WriteFile(filepath.Join(p.units, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	// There is no journal here.
	return p, errors.Join(p.dropIn("log.conf", "[Service]\nStandardError=append:"+p.log()+"\n"), Systemctl("start", manifests.SocketUnit))
}

func (p *Product) log() string { return filepath.Join(p.dir, "daemon.log") }

// Log is what the daemons have said.
func (p *Product) Log() string {
	text, err := os.ReadFile(p.log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// DropIn changes the service's unit; an empty text takes the change back.
func (p *Product) DropIn(text string) error { return p.dropIn("test.conf", text) }

func (p *Product) dropInDir() string { return filepath.Join(p.units, manifests.ServiceUnit+".d") }

func (p *Product) dropIn(name, text string) error {
	if err := os.MkdirAll(p.dropInDir(), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(p.dropInDir(), name), []byte(text), 0o644), Systemctl("daemon-reload"))
}

// Remove ends every launch, the daemon and its sockets, and removes the units.
func (p *Product) Remove(ctx context.Context) error {
	var errs []error
	slots, err := p.Control.Slots(ctx)
	errs = append(errs, err)
	for _, s := range slots {
		if l := s.Status.Local.Launch; l != nil && l.Unit != "" && l.State != "ended" {
			// Without the daemon, so that it works with a broken one.
			errs = append(errs, Systemctl("kill", "--signal=KILL", l.Unit))
		}
	}
	p.Control.Close()
	p.API.Close()
	errs = append(errs, Systemctl("stop", manifests.SocketUnit, manifests.ServiceUnit))
	for _, name := range []string{manifests.SocketUnit, manifests.ServiceUnit, manifests.SliceUnit} {
		errs = append(errs, os.Remove(filepath.Join(p.units, name)))
	}
	return errors.Join(append(errs, os.RemoveAll(p.dropInDir()), Systemctl("daemon-reload"), os.RemoveAll(p.dir))...)
}

// Systemctl asks the run's manager for something.
func Systemctl(args ...string) error {
	_, err := Ask(args...)
	return err
}

// Ask is Systemctl, for its answer.
func Ask(args ...string) (string, error) {
	out, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
