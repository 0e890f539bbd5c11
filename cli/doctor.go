package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/install/doctor"
)

// notSecure is doctor's exit code where slots can be used and a promise about them does
// not hold.
const notSecure = 3

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what works here, what does not, and how to mend it",
		Long: `Looks at the browser, the machine and the installation, and says of each thing
whether it is well and how to mend it. It changes nothing and needs no daemon.

Exit code 0: everything that is needed works, and every promise holds. 3: slots can
be used, but a promise does not hold here, for example that a launch's processes are
held completely; "not security ready" says which. 1: slots cannot be used.`,
		Example: "  sessiondock doctor --json",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.doctor(c.Context()) },
	}
}

func (a *app) doctor(ctx context.Context) error {
	m := doctor.Machine{Getenv: a.getenv}
	m.Paths, m.PathErr = a.paths()
	self, err := program()
	if err != nil {
		return err
	}
	m.Bin = filepath.Dir(self)
	r := doctor.Look(ctx, m)
	if err := a.show(r, func() error { a.printDoctor(r); return nil }); err != nil {
		return err
	}
	switch {
	case !r.Works:
		return &exit{1}
	case !r.SecurityReady:
		return &exit{notSecure}
	}
	return nil
}

func (a *app) printDoctor(r doctor.Report) {
	for _, c := range r.Checks {
		mark, colour := "ok", green
		if !c.OK {
			switch c.Weight {
			case doctor.Needed:
				mark, colour = "BAD", red
			case doctor.Security:
				mark, colour = "weak", yellow
			default:
				mark, colour = "note", plain
			}
		}
		line := wrap(fmt.Sprintf("%-4s %-16s ", mark, c.Name), c.Detail)
		fmt.Fprint(a.out, a.paint(colour, mark)+line[len(mark):])
		if c.Fix != "" {
			fmt.Fprint(a.out, wrap("                      mend: ", c.Fix))
		}
	}
	fmt.Fprintln(a.out)
	switch {
	case !r.Works:
		fmt.Fprintln(a.out, a.paint(red, "Slots cannot be used here yet."))
	case !r.SecurityReady:
		fmt.Fprintln(a.out, a.paint(yellow, "Slots can be used; not security ready:"))
		for _, why := range r.Reasons {
			fmt.Fprint(a.out, wrap("  - ", why))
		}
	default:
		fmt.Fprintln(a.out, a.paint(green, "Everything works, and every promise holds."))
	}
}
