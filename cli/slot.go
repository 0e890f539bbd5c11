package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// surface is how the daemon records that a person acted through this program.
const surface = "cli"

func (a *app) slotCmd() *cobra.Command {
	return group("slot", "Create, start, stop and remove workspaces", `  sessiondock slot create shop --display window
  sessiondock slot list`,
		a.slotCreateCmd(), a.slotListCmd(), a.slotShowCmd(),
		a.changeCmd(change{
			use: "start", short: "Start the slot's browser", verb: client.Start,
		}),
		a.changeCmd(change{
			use: "stop", short: "End the slot's browser, keeping its sign-ins", verb: client.Stop, now: true,
			long: `Ends the browser cleanly and verifies that all its processes are gone; if that
cannot be verified, it says so and exits with 15. Refused while an agent holds the
slot: take it over first. Says nothing about the website: a request that was sent
may still take effect.`,
		}),
		a.slotRemoveCmd(),
		a.changeCmd(change{
			use: "adopt", short: "Serve a slot again whose browser knows more than the daemon", verb: client.Adopt, note: true,
			long: `A browser that has seen a higher epoch than the daemon remembers means that the
database was restored from an older copy. The slot is not served until a person
adopts it; then its epoch starts above both, and it stays quarantined.`,
			example: `  sessiondock slot adopt shop --note "database restored from Monday"`,
		}),
	)
}

// change describes one of the person's verbs that take a slot and little else.
type change struct {
	use, short, long, example string
	verb                      client.Change
	note                      bool // a reason must be given
	now                       bool // it can be had without ceremony
}

func (a *app) changeCmd(v change) *cobra.Command {
	var (
		note    string
		ifEpoch uint64
		now     bool
	)
	c := &cobra.Command{
		Use: v.use + " SLOT", Short: v.short, Long: v.long, Example: v.example,
		Args: names("SLOT"),
		RunE: func(c *cobra.Command, args []string) error {
			if v.note && note == "" {
				return usage(c, "--note is missing: say why")
			}
			slot := core.SlotName(args[0])
			door, err := a.control()
			if err != nil {
				return err
			}
			epoch, err := a.ifEpoch(c, door, slot, ifEpoch)
			if err != nil {
				return err
			}
			st, err := door.Change(c.Context(), slot, v.verb, wire.ChangeRequest{IfEpoch: epoch, By: surface, Note: note, StopNow: now})
			if err != nil {
				return err
			}
			if err := a.show(st, func() error { return a.printStatus(st) }); err != nil {
				return err
			}
			if l := st.Local.Launch; v.verb == client.Stop && l != nil && l.State != "ended" {
				return core.Refuse(core.CodeOutcomeUnknown, "it could not be verified that the browser has ended", "ask again: sessiondock slot stop "+string(slot)+" --now")
			}
			return nil
		},
	}
	if v.example == "" {
		c.Example = "  sessiondock slot " + v.use + " shop"
	}
	if v.note {
		c.Flags().StringVar(&note, "note", "", "why, for the journal")
		c.Use += " --note TEXT"
	}
	if v.now {
		c.Flags().BoolVar(&now, "now", false, "kill its processes at once; sign-ins of the last half minute may be lost")
	}
	ifEpochFlag(c, &ifEpoch)
	return c
}

func ifEpochFlag(c *cobra.Command, to *uint64) {
	c.Flags().Uint64Var(to, "if-epoch", 0, "only if the slot's epoch is still this one (default: as it is now)")
}

// ifEpoch is the epoch that a change is meant for: the flag's, else the present
// one, so that a change of control between the two calls is noticed.
func (a *app) ifEpoch(c *cobra.Command, door *client.Client, slot core.SlotName, flag uint64) (*core.Epoch, error) {
	epoch := core.Epoch(flag)
	if !c.Flags().Changed("if-epoch") {
		st, err := door.Status(c.Context(), slot)
		if err != nil {
			return nil, err
		}
		epoch = st.Authority.Epoch
	}
	return &epoch, nil
}

func (a *app) slotCreateCmd() *cobra.Command {
	var display string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a slot: a browser profile of its own",
		Example: `  sessiondock slot create shop --display window
  sessiondock slot create nightly`,
		Args: names("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			s, err := door.CreateSlot(c.Context(), wire.SlotRequest{Slot: core.SlotName(args[0]), Display: display})
			if err != nil {
				return err
			}
			return a.show(s, func() error {
				_, err := fmt.Fprintf(a.out, "slot %s created (%s)\n", s.Slot, s.Display)
				return err
			})
		},
	}
	c.Flags().StringVar(&display, "display", "headless", "headless, or window: on your own desktop")
	return c
}

func (a *app) slotListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the slots",
		Example: "  sessiondock slot list --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			slots, err := door.Slots(c.Context())
			if err != nil {
				return err
			}
			return a.show(slots, func() error {
				var rows [][]string
				for _, s := range slots {
					browser, offered := "-", "no"
					if l := s.Status.Local.Launch; l != nil {
						browser = l.State
					}
					if s.Status.Offer.Available {
						offered = "yes"
					}
					waiting := ""
					if n := len(s.Status.Queue); n > 0 {
						waiting = strconv.Itoa(n)
					}
					rows = append(rows, []string{string(s.Slot), s.Display, holder(s.Status.Authority.Holder),
						strconv.FormatUint(uint64(s.Status.Authority.Epoch), 10), browser, offered, waiting,
						clip(strings.Join(s.Status.Keys, " "), 40)})
				}
				return a.table([]string{"SLOT", "DISPLAY", "HOLDER", "EPOCH", "BROWSER", "OFFERED", "WAITING", "KEYS"}, rows,
					"no slots yet: sessiondock slot create NAME")
			})
		},
	}
}

func (a *app) slotShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a slot",
		Example: "  sessiondock slot show shop",
		Args:    names("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			s, err := door.Slot(c.Context(), core.SlotName(args[0]))
			if err != nil {
				return err
			}
			return a.show(s, func() error {
				p, err := a.paths()
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(a.out, "display %s, files in %s\n", s.Display, p.SlotDir(s.Slot)); err != nil {
					return err
				}
				return a.printStatus(&s.Status)
			})
		},
	}
}

func (a *app) slotRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a slot whose browser has ended",
		Long: `The slot leaves the list and its epochs are never used again. Its profile, with
the sign-ins in it, stays on the disk until you delete it: a slot made again
under the same name starts with it.`,
		Example: "  sessiondock slot remove shop",
		Args:    names("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			door, err := a.control()
			if err != nil {
				return err
			}
			if err := door.RemoveSlot(c.Context(), core.SlotName(args[0])); err != nil {
				return err
			}
			p, err := a.paths()
			if err != nil {
				return err
			}
			a.say("slot %s removed; its profile, with the sign-ins in it, stays in %s", args[0], p.SlotDir(core.SlotName(args[0])))
			return nil
		},
	}
}
