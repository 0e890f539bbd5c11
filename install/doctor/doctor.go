package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sessiondock.dev/sessiondock/daemon/client"
)

// Weight is what follows from a check that is not well.
type Weight string

const (
	// Needed: without it slots cannot be used.
	Needed Weight = "needed"
	// Security: slots can be used, and a promise about them does not hold.
	Security Weight = "security"
	// Advice: something that can be had is missing.
	Advice Weight = "advice"
)

// Check is the answer of one check.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // what was found
	Fix    string `json:"fix"`    // how to mend it; empty if it is well
	Weight Weight `json:"weight"`
}

// Report is what doctor found.
type Report struct {
	Schema string `json:"schema"`
	// Works: slots can be used here.
	Works bool `json:"works"`
	// SecurityReady: every promise about who may do what in a slot holds here.
	SecurityReady bool     `json:"security_ready"`
	Reasons       []string `json:"reasons"` // why it is not; empty if it is
	Checks        []Check  `json:"checks"`
}

// Machine is what is looked at.
type Machine struct {
	Paths   client.Paths
	PathErr error // why there are no paths: then what needs them says so
	Getenv  func(string) string
	Bin     string // directory of the programs
	Root    string // before /proc/sys, /sys and /var; "" outside tests
}

// file is a path of the system.
func (m Machine) file(path string) string { return filepath.Join("/", m.Root, path) }

// checks, in the order in which a person would mend what they find.
var checks = []struct {
	name   string
	weight Weight
	look   func(context.Context, Machine) Check
}{
	{"user", Needed, user},
	{"runtime-path", Needed, runtimePath},
	{"browser", Needed, browser},
	{"disk", Needed, disk},
	{"clock", Needed, clock},
	{"programs", Needed, programs},
	{"extension-key", Needed, extensionKey},
	{"manifests", Needed, hostManifests},
	{"sockets", Needed, sockets},
	{"daemon", Needed, daemon},
	{"profiles", Needed, profiles},
	{"user-namespaces", Security, userNamespaces},
	{"policy", Security, policy},
	{"control-groups", Security, controlGroups},
	{"user-manager", Security, userManager},
	{"peer-identity", Security, peerIdentity},
	{"debugging", Security, debugging},
	{"linger", Advice, linger},
	{"desktop", Advice, desktop},
	{"private-display", Advice, privateDisplay},
	{"confinement", Advice, confinement},
	{"installation", Advice, installation},
}

// Look carries out every check.
func Look(ctx context.Context, m Machine) Report {
	r := Report{Schema: "sessiondock/1", Works: true, SecurityReady: true, Reasons: []string{}}
	for _, c := range checks {
		got := c.look(ctx, m)
		got.Name, got.Weight = c.name, c.weight
		r.Checks = append(r.Checks, got)
		if got.OK || c.weight == Advice {
			continue
		}
		r.SecurityReady = false
		r.Reasons = append(r.Reasons, c.name+": "+got.Detail)
		if c.weight == Needed {
			r.Works = false
		}
	}
	return r
}

func well(format string, args ...any) Check {
	return Check{OK: true, Detail: fmt.Sprintf(format, args...)}
}

func ill(fix, format string, args ...any) Check {
	return Check{Detail: fmt.Sprintf(format, args...), Fix: fix}
}

// exists says whether there is something at the path.
func exists(path string) bool { _, err := os.Lstat(path); return err == nil }
