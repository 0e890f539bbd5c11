package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"sessiondock.dev/sessiondock/cli/confine"
	"sessiondock.dev/sessiondock/daemon/core"
)

// openPorts are what an agent needs to reach its model: names, and the web.
var openPorts = []uint16{53, 80, 443}

// confinement plans what a confined command is kept from, besides its own DevTools
// address, which is known once it has a lease.
func (a *app) confinement(ports []uint) (*confine.Plan, error) {
	open, err := confine.Check()
	if err != nil {
		return nil, err
	}
	if open != "" {
		a.say("confined, with one thing open: %s", open)
	}
	paths, err := a.paths()
	if err != nil {
		return nil, err
	}
	// Where one of ours is not there yet, the command could put its own there.
	ours := []string{paths.Config, paths.State, paths.Data, paths.Cache, paths.Runtime}
	for _, dir := range ours {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, core.Refuse(core.CodeUnavailable, "a directory that is to be hidden from the command cannot be made: "+err.Error(), "")
		}
	}
	plan := &confine.Plan{
		Hide:  append(ours, "/tmp/.X11-unix"),
		Show:  []string{filepath.Dir(paths.APISocket())},
		Ports: openPorts[:len(openPorts):len(openPorts)],
	}
	// The desktop's and the service manager's sockets lie beside ours. A directory that is
	// open to others is not a runtime directory, and has more in it than sockets.
	for _, dir := range []string{filepath.Dir(paths.Runtime), filepath.Join("/run/user", strconv.Itoa(os.Getuid()))} {
		if fi, err := os.Stat(dir); err == nil && fi.Mode().Perm()&0o077 == 0 {
			plan.Hide = append(plan.Hide, dir)
		}
	}
	for _, port := range ports {
		plan.Ports = append(plan.Ports, uint16(port))
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	here = resolved(here)
	for _, dir := range plan.Hide {
		if confine.Below(here, resolved(dir)) {
			return nil, core.Refuse(core.CodeInvalid, fmt.Sprintf("the working directory %s is below %s, which a confined command does not see", here, dir),
				"run it from another directory")
		}
	}
	return plan, nil
}

// confine has the command begin as a confined one.
func (d *delegated) confine() error {
	// What it uploads, it puts there. Of a slot that was never started there is none yet.
	if _, err := os.Stat(d.lease.UploadDir); err == nil {
		d.plan.Show = append(d.plan.Show, d.lease.UploadDir)
	}
	if at := d.lease.CDPURL; at != "" {
		u, err := url.Parse(at)
		if err != nil {
			return err
		}
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil {
			return err
		}
		d.plan.Ports = append(d.plan.Ports, uint16(port))
	}
	argv, err := d.plan.Argv(d.cmd.Path, d.cmd.Args)
	if err != nil {
		return err
	}
	d.cmd.Path, d.cmd.Args, d.cmd.Env = "/proc/self/exe", argv, append(confine.Environ(d.cmd.Env), envConfined+"=1")
	confine.Namespaces(d.cmd.SysProcAttr)
	return nil
}
