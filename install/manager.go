package install

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Manager is the user's service manager, by its own command.
type Manager struct{}

// managerWithin bounds one request to it: starting a socket, or ending a daemon.
const managerWithin = 30 * time.Second

// FindManager returns the user's service manager, or why it cannot be used
// (systemctl finds it by XDG_RUNTIME_DIR).
func FindManager(ctx context.Context) (Manager, error) {
	m := Manager{}
	out, err := m.Do(ctx, "show", "--property=Version", "--value")
	if err == nil && out == "" {
		err = errors.New("it does not say its version")
	}
	return m, err
}

// Do asks it for something: systemctl --user ARGS.
func (Manager) Do(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, managerWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", append([]string{"--user", "--no-ask-password"}, args...)...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		if text == "" {
			text = err.Error()
		}
		return "", core.Refuse(core.CodeUnavailable, fmt.Sprintf("systemctl --user %s: %s", strings.Join(args, " "), text), "")
	}
	return text, nil
}

// Active says whether a unit runs.
func (m Manager) Active(ctx context.Context, unit string) bool {
	state, err := m.Do(ctx, "show", "--property=ActiveState", "--value", unit)
	return err == nil && (state == "active" || state == "reloading" || state == "activating")
}
