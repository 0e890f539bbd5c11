package manifests

import (
	"fmt"
	"strings"
)

// The units of the user's service manager.
const (
	SocketUnit  = "sessiondock.socket"
	ServiceUnit = "sessiondock.service"
	SliceUnit   = "sessiondock.slice"
)

// Socket renders the unit that listens for the daemon on its three sockets, absolute
// paths, and starts it at the first connection.
func Socket(control, api, host string) ([]byte, error) {
	return execute(SocketUnit+".tmpl", map[string]string{"Control": control, "API": api, "Host": host})
}

// Service renders the daemon's unit. The command begins with an absolute path; the
// environment is added to the service manager's own.
func Service(command, environment []string) ([]byte, error) {
	return execute(ServiceUnit+".tmpl", map[string][]string{"Command": command, "Environment": environment})
}

// Slice renders the unit that daemon and browsers lie below.
func Slice() []byte { return render(SliceUnit+".tmpl", nil) }

// setting writes a value that takes a unit file's whole line.
func setting(v string) (string, error) {
	if strings.ContainsAny(v, "\n\r") || v != strings.TrimSpace(v) {
		return "", fmt.Errorf("%q cannot be written into a unit file", v)
	}
	return strings.ReplaceAll(v, "%", "%%"), nil
}

// quoted writes one word of several.
func quoted(v string) (string, error) {
	if strings.Contains(v, "\x00") {
		return "", fmt.Errorf("%q cannot be written into a unit file", v)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "%", "%%").Replace(v) + `"`, nil
}

// word writes one word of a command, in which $ begins a variable.
func word(v string) (string, error) { return quoted(strings.ReplaceAll(v, "$", "$$")) }
