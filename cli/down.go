package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
)

// downWithin is how long the daemon may take to end: it answers what is in flight
// and closes its database.
const downWithin = 15 * time.Second

func (a *app) downCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the daemon; the browsers go on",
		Long: `Asks the daemon to end and waits until it is gone. Browsers go on, but nothing of
an agent is dispatched in them any more. The next daemon adopts them; leases are
then suspended, and their agents may resume.

It warns of a takeover that could not be recorded yet, because the disk is full
perhaps: the next daemon learns of it from the browser, or from a note beside the
sockets, and neither outlives a restart of the machine.`,
		Example: "  sessiondock down",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := a.paths()
			if err != nil {
				return err
			}
			if err := a.isPerson(c.Context()); err != nil {
				return err
			}
			// Which process that is comes from the socket itself: a number in a file
			// may by now belong to somebody else.
			proc, err := client.PeerProcess(c.Context(), p.ControlSocket())
			if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeUnavailable {
				a.say("no daemon is running")
				return nil
			}
			if err != nil {
				return err
			}
			defer proc.Close()
			h, err := client.New(p.ControlSocket()).Health(c.Context())
			if err != nil {
				return err
			}
			if h.PID != proc.PID {
				return core.Refuse(core.CodeConflict,
					fmt.Sprintf("process %d listens, but process %d answers as the daemon", proc.PID, h.PID),
					"stop the daemon where it was started, for example by its service manager")
			}
			a.warnUnrecorded(c.Context(), client.New(p.ControlSocket()))
			if err := proc.Terminate(); err != nil {
				return core.Refuse(core.CodeUnavailable, fmt.Sprintf("process %d: %v", proc.PID, err), "")
			}
			if err := proc.WaitGone(downWithin); err != nil {
				return err
			}
			a.say("the daemon (pid %d) has ended; browsers that were running go on", proc.PID)
			return nil
		},
	}
}

// warnUnrecorded says which takeovers the database does not have when its daemon is asked
// to end.
func (a *app) warnUnrecorded(ctx context.Context, door *client.Client) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	slots, err := door.Slots(ctx)
	if err != nil {
		return // the end of a daemon that does not answer is not kept for it
	}
	for _, s := range slots {
		if s.Status.Authority.Unrecorded {
			a.say("warning: slot %s was taken over, and the database does not have it: %s", s.Slot, s.Status.Sentences.Authority)
		}
	}
}
