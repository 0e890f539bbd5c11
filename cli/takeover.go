package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (a *app) takeoverCmd() *cobra.Command {
	var (
		r       wire.ChangeRequest
		ifEpoch uint64
	)
	c := &cobra.Command{
		Use:   "takeover SLOT",
		Short: "Take control now",
		Long: `Takes control of a slot at once: nothing of an agent is dispatched any more. What
was dispatched before cannot be recalled; the answer lists what of it may still
run. The stronger ways end local work, verified; neither says anything about the
website.`,
		Example: `  sessiondock takeover shop
  sessiondock takeover shop --stop-page`,
		Args: names("SLOT"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("if-epoch") {
				epoch := core.Epoch(ifEpoch)
				r.IfEpoch = &epoch
			}
			r.By = surface
			door, err := a.control()
			if err != nil {
				return err
			}
			// Without --if-epoch nothing is looked at first: a takeover must not wait.
			st, err := door.Change(c.Context(), core.SlotName(args[0]), client.Takeover, r)
			if err != nil {
				return alreadyYours(err, args[0])
			}
			return a.show(st, func() error { return a.printStatus(st) })
		},
	}
	c.Flags().BoolVar(&r.StopPage, "stop-page", false, "also end the renderers of affected pages; tabs that share one end too")
	c.Flags().BoolVar(&r.StopNow, "stop-browser", false, "also end the whole browser")
	c.Flags().BoolVar(&r.FromPerson, "from-person", false, "take it even from another person")
	c.Flags().Uint64Var(&ifEpoch, "if-epoch", 0, "only if the slot's epoch is still this one (default: whatever it is)")
	c.MarkFlagsMutuallyExclusive("stop-page", "stop-browser")
	return c
}

// alreadyYours says in words that a takeover was refused because the slot had been
// taken over from a terminal before: that is most likely the same person.
func alreadyYours(err error, slot string) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Code != core.CodeHeld {
		return err
	}
	holder, _ := e.Detail["holder"].(map[string]any)
	if holder["kind"] != "human" || holder["name"] != surface {
		return err
	}
	mine := *e
	mine.Message = fmt.Sprintf("slot %s is yours already: it was taken over from a terminal before", slot)
	mine.Hint = fmt.Sprintf("look: sessiondock status %s; give it back: sessiondock handback %s; to take it once more, for --stop-page too, add --from-person", slot, slot)
	return &mine
}
