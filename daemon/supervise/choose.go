package supervise

import (
	"context"
	"maps"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// Chosen starts launches by the supervisor that was chosen, and asks about each
// launch the one that started it: a launch outlives the choice.
type Chosen struct {
	direct  *Direct
	systemd *Systemd
	first   Supervisor
	why     string
}

var _ Supervisor = (*Chosen)(nil)

// Choose takes the user manager if one can hold launches here, and keepers alone
// otherwise. Want is "" for that, or "systemd" or "direct" to have that one or none.
func Choose(ctx context.Context, c Config, want string) (*Chosen, error) {
	s := &Chosen{direct: New(c), systemd: NewSystemd(c)}
	switch want {
	case "", "systemd", "direct":
	default:
		return nil, core.Refuse(core.CodeInvalid, "no such supervisor "+want, "systemd or direct; without either the best that works is taken")
	}
	if want == "direct" {
		s.first, s.why = s.direct, "asked for"
		return s, nil
	}
	if err := s.systemd.Check(ctx); err != nil {
		if want == "systemd" {
			return nil, core.Refuse(core.CodeUnavailable, "launches cannot be held by systemd: "+err.Error(),
				"log in so that a user manager runs (systemctl --user status), or go without: --supervisor direct")
		}
		s.first, s.why = s.direct, err.Error()
		return s, nil
	}
	s.first = s.systemd
	return s, nil
}

// Why says why the supervisor is direct; "" if it is not.
func (s *Chosen) Why() string { return s.why }

// Close lets go of what is held of launches, which go on.
func (s *Chosen) Close() { s.systemd.Close() }

// of is the supervisor that started a launch.
func (s *Chosen) of(l core.Launch) Supervisor {
	if l.Unit != "" {
		return s.systemd
	}
	return s.direct
}

func (s *Chosen) Unit(slot core.SlotName, generation int64, l core.LaunchID) string {
	return s.first.Unit(slot, generation, l)
}

func (s *Chosen) Start(ctx context.Context, spec Spec) (core.Identity, error) {
	return s.first.Start(ctx, spec)
}

func (s *Chosen) Adopt(ctx context.Context, slot core.SlotName, l core.Launch) (core.Identity, error) {
	return s.of(l).Adopt(ctx, slot, l)
}

func (s *Chosen) Wait(ctx context.Context, slot core.SlotName, l core.Launch) Ended {
	return s.of(l).Wait(ctx, slot, l)
}

func (s *Chosen) Stop(ctx context.Context, slot core.SlotName, l core.Launch, mode StopMode) Ended {
	return s.of(l).Stop(ctx, slot, l, mode)
}

func (s *Chosen) Owns(l core.Launch, who peer.Cred) *core.Error { return s.of(l).Owns(l, who) }

func (s *Chosen) Bypasses(all map[core.SlotName]core.Launch) map[core.SlotName][]string {
	held, kept := map[core.SlotName]core.Launch{}, map[core.SlotName]core.Launch{}
	for slot, l := range all {
		if l.Unit != "" {
			held[slot] = l
		} else {
			kept[slot] = l
		}
	}
	found := s.direct.Bypasses(kept)
	maps.Copy(found, s.systemd.Bypasses(held))
	return found
}

func (s *Chosen) Stored(slot core.SlotName) Stored { return s.direct.Stored(slot) }

func (s *Chosen) MemoryMB(l core.Launch) int64 { return s.of(l).MemoryMB(l) }

func (s *Chosen) Name() string { return s.first.Name() }
