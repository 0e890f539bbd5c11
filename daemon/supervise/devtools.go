package supervise

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// devToolsFile is where Chromium writes the port of an open debugging server.
const devToolsFile = "DevToolsActivePort"

// dialWithin bounds the question whether a local port is open.
const dialWithin = 500 * time.Millisecond

// devTools says that a profile's debugging port is open; "" if it is not. A file that
// promises one on which nobody listens is what a killed browser left, and is removed.
func devTools(profile string) string {
	path := filepath.Join(profile, devToolsFile)
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return ""
	}
	if err == nil {
		port, _, _ := strings.Cut(string(text), "\n")
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strings.TrimSpace(port)), dialWithin)
		if err != nil {
			if err := removeIfThere(path); err != nil {
				return path + ": " + err.Error()
			}
			return ""
		}
		conn.Close()
		return "port " + strings.TrimSpace(port) + ": is named by the profile's " + devToolsFile + ", and somebody listens on it"
	}
	return path + ": " + err.Error()
}
