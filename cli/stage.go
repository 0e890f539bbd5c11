package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/install"
)

// stageCmd writes what a distribution's package holds. It is hidden: only the making of
// packages needs it.
func (a *app) stageCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "stage DIR",
		Short:   "Write the files of a distribution's package below DIR",
		Example: "  sessiondock stage build/package",
		Hidden:  true,
		Args:    names("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := program()
			if err != nil {
				return err
			}
			files, err := install.ProgramFiles(filepath.Dir(self), "/usr/bin")
			if err != nil {
				return err
			}
			units, err := install.PackageUnits("/usr/bin")
			if err != nil {
				return err
			}
			docs, err := pages("/usr/share")
			if err != nil {
				return err
			}
			for _, f := range append(append(files, units...), docs...) {
				path := filepath.Join(args[0], f.Path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(path, f.Content, f.Mode); err != nil {
					return err
				}
				if err := os.Chmod(path, f.Mode); err != nil { // whatever the umask is
					return err
				}
				fmt.Fprintln(a.out, f.Path)
			}
			return nil
		},
	}
}
