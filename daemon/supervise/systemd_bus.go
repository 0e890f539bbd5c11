package supervise

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// callWithin bounds one question to the user manager. It answers in a millisecond
// unless it hangs.
const callWithin = 5 * time.Second

// noUnit is the manager's name for a unit that it has no record of.
const noUnit = "org.freedesktop.systemd1.NoSuchUnit"

// BusAddress is where the person's own bus is, by the environment: the address that
// is set, or the socket in XDG_RUNTIME_DIR; "" if there is neither. No bus is
// started.
func BusAddress(getenv func(string) string) string {
	if a := getenv("DBUS_SESSION_BUS_ADDRESS"); a != "" {
		return a
	}
	dir := getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = "/run/user/" + strconv.Itoa(os.Getuid())
	}
	if socket := filepath.Join(dir, "bus"); exists(socket) {
		return "unix:path=" + dbus.EscapeBusAddressValue(socket)
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// manager is the user's service manager, over D-Bus. A connection that was lost is
// made anew at the next question.
type manager struct {
	address string

	mu   sync.Mutex
	conn *systemd.Conn
}

func (m *manager) connect(ctx context.Context) (*systemd.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil && m.conn.Connected() {
		return m.conn, nil
	}
	if m.conn != nil {
		m.conn.Close()
		m.conn = nil
	}
	if m.address == "" {
		return nil, errors.New("there is no D-Bus session bus here")
	}
	conn, err := systemd.NewConnection(func() (*dbus.Conn, error) { return dialBus(ctx, m.address) })
	if err != nil {
		return nil, err
	}
	m.conn = conn
	return conn, nil
}

func (m *manager) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		m.conn.Close()
		m.conn = nil
	}
}

// dialBus connects and says hello, within callWithin. The library's own way to the
// session bus would start one where there is none.
func dialBus(ctx context.Context, address string) (*dbus.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	conn, err := dbus.Dial(address)
	if err != nil {
		return nil, fmt.Errorf("the D-Bus session bus does not answer: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // ends the waits below
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil {
		err = conn.Hello()
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("the D-Bus session bus does not let us in: %w", err)
	}
	return conn, nil
}

// check says why the user manager cannot hold launches here.
func (m *manager) check(ctx context.Context) error {
	if err := peer.CheckGroups(peer.GroupRoot); err != nil {
		return err
	}
	conn, err := m.connect(ctx)
	if err != nil {
		return err
	}
	root, err := conn.GetManagerProperty("ControlGroup")
	if err != nil {
		return fmt.Errorf("no user manager answers on the session bus: %w", err)
	}
	path, err := strconv.Unquote(root)
	if err != nil {
		return fmt.Errorf("the user manager's control group is %s", root)
	}
	if _, err := peer.GroupAt(path); err != nil {
		return fmt.Errorf("the user manager's control group is not to be seen from here: %w", err)
	}
	return nil
}

// unitState is what the manager says of a unit.
type unitState struct {
	known      bool // the manager has a record of it; without one it reads "inactive"
	active     string
	invocation string
	created    uint64 // when it left "inactive", by CLOCK_MONOTONIC, microseconds
	transient  bool
}

// running says whether the manager may still have processes of the unit. It says
// nothing about what is in the unit's control group.
func (u unitState) running() bool { return u.known && u.active != "inactive" && u.active != "failed" }

// is says whether this is the unit that was recorded. A name that belongs to one
// launch only is enough where the daemon died before it could record more.
func (u unitState) is(l core.Launch) bool {
	return u.known && (l.InvocationID == "" || u.invocation == l.InvocationID)
}

func (m *manager) unit(ctx context.Context, name string) (unitState, error) {
	conn, err := m.connect(ctx)
	if err != nil {
		return unitState{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	props, err := conn.GetUnitPropertiesContext(ctx, name)
	if err != nil {
		return unitState{}, fmt.Errorf("the user manager does not answer: %w", err)
	}
	load, _ := props["LoadState"].(string)
	u := unitState{known: load != "not-found"}
	u.active, _ = props["ActiveState"].(string)
	u.created, _ = props["InactiveExitTimestampMonotonic"].(uint64)
	u.transient, _ = props["Transient"].(bool)
	id, _ := props["InvocationID"].([]byte)
	u.invocation = hex.EncodeToString(id)
	return u, nil
}

// process returns a service's main process and its control group's path.
func (m *manager) process(ctx context.Context, name string) (pid int, path string, err error) {
	conn, err := m.connect(ctx)
	if err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	main, err := conn.GetServicePropertyContext(ctx, name, "MainPID")
	if err != nil {
		return 0, "", err
	}
	group, err := conn.GetServicePropertyContext(ctx, name, "ControlGroup")
	if err != nil {
		return 0, "", err
	}
	n, _ := main.Value.Value().(uint32)
	path, _ = group.Value.Value().(string)
	if n == 0 || path == "" {
		return 0, "", fmt.Errorf("unit %s has no process", name)
	}
	return int(n), path, nil
}

// stop asks the manager to stop a unit. What the manager reports of the job's end
// comes on the channel: "done" is the one word that counts.
func (m *manager) stop(ctx context.Context, name string) (<-chan string, error) {
	conn, err := m.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	done := make(chan string, 1)
	if _, err := conn.StopUnitContext(ctx, name, "replace", done); err != nil {
		if e, ok := errors.AsType[dbus.Error](err); ok && e.Name == noUnit {
			done <- "done" // it ended meanwhile, and the manager has dropped its record
			return done, nil
		}
		return nil, err
	}
	return done, nil
}

// forget drops what the manager keeps of a unit that failed.
func (m *manager) forget(ctx context.Context, name string) {
	if conn, err := m.connect(ctx); err == nil {
		ctx, cancel := context.WithTimeout(ctx, callWithin)
		defer cancel()
		conn.ResetFailedUnitContext(ctx, name) // an error: there is nothing to drop
	}
}

// desktops are the beginnings of names that desktops and buses give, by convention,
// to the units of what a person starts; and ours.
var desktops = []string{"app-", "dbus-", unitPrefix}

// strays names the running units that somebody had the manager make since a moment.
// The manager forks their processes itself and keeps no record of who asked: one
// that was asked for from inside a launch looks the same as any other. Scopes are
// left out, because whoever asks for one forks its processes.
func (m *manager) strays(ctx context.Context, sinceUs uint64) ([]string, error) {
	conn, err := m.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	all, err := conn.ListUnitsByPatternsContext(ctx, []string{"active", "activating", "reloading", "deactivating"},
		[]string{"*.service", "*.timer", "*.path", "*.socket"})
	if err != nil {
		return nil, fmt.Errorf("the user manager does not answer: %w", err)
	}
	var out []string
next:
	for _, u := range all {
		for _, d := range desktops {
			if strings.HasPrefix(u.Name, d) {
				continue next
			}
		}
		got, err := m.unit(ctx, u.Name)
		if err != nil {
			return nil, err
		}
		if got.transient && got.running() && got.created >= sinceUs {
			out = append(out, fmt.Sprintf("unit %s: was started while the launch ran, and the user manager cannot tell by whom", u.Name))
		}
	}
	return out, nil
}
