package main

import (
	"errors"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/cli/demo"
)

// demoCmd is package demo's command. It has said everything when it ends with a
// code of its own.
func (a *app) demoCmd() *cobra.Command {
	c := demo.Command()
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if e, ok := errors.AsType[*demo.Exit](err); ok {
			return &exit{e.Code}
		}
		return err
	}
	return c
}
