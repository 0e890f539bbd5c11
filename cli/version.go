package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/wire"
)

// schema names the shape of everything that --json prints.
const schema = "sessiondock/1"

type versionInfo struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Protocol int    `json:"protocol"`
	Go       string `json:"go"`
}

func readVersion() versionInfo {
	v := versionInfo{Schema: schema, Version: "unknown", Revision: "unknown", Protocol: wire.Version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version, v.Go = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			v.Revision += " (modified)"
		}
	}
	return v
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  sessiondock version --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			return a.show(v, func() error {
				_, err := fmt.Fprintf(a.out, "sessiondock %s\nrevision %s, protocol %d, %s\n", v.Version, v.Revision, v.Protocol, v.Go)
				return err
			})
		},
	}
}
