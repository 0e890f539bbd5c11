package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

const (
	// askWait is how long session_ask_person waits if it is not told; a client's own
	// patience is often a minute.
	askWait = 50 * time.Second
	askLook = 500 * time.Millisecond
	// mostWait bounds what an agent may ask to wait.
	mostWait = time.Hour
)

type (
	nothing    struct{}
	acquireArg struct {
		WaitSeconds float64 `json:"wait_seconds,omitempty" jsonschema:"how long to wait in the queue"`
		ForSeconds  float64 `json:"for_seconds,omitempty" jsonschema:"the lease's time; it is renewed while this session lives"`
		Task        string  `json:"task,omitempty" jsonschema:"what it is for, in one sentence, as the person will read it"`
	}
	askArg struct {
		Reason      string  `json:"reason" jsonschema:"what a person is needed for, in one sentence"`
		WaitSeconds float64 `json:"wait_seconds,omitempty" jsonschema:"how long to wait for the answer before telling that there is none yet; call again to go on waiting"`
	}
	actionArg struct {
		ID string `json:"id,omitempty" jsonschema:"the action's id; without it the last one that could have an effect"`
	}
)

// own are the tools that are SessionDock's.
func (s *session) own(server *sdk.Server) {
	add(s, server, "session_status", "Who has control of the browser now, and until when this session's lease lasts", true, s.status)
	add(s, server, "session_acquire", "Ask for the browser. The other tools do so by themselves when they need it", false, s.acquireTool)
	add(s, server, "session_release", "Give the browser back", false, s.releaseTool)
	add(s, server, "session_ask_person", "Ask the person for a sign-in, a second factor or a decision, and wait; also waits for the browser after a person has taken it", false, s.ask)
	add(s, server, "session_action", "What is known of an earlier action: whether it may still run here, and what the website said", true, s.action)
}

func (s *session) status(ctx context.Context, _ nothing) (reply, error) {
	if s.lease == "" {
		return text("no lease; the next browser tool, or session_acquire, asks for one"), nil
	}
	l, err := s.cfg.Agents.Lease(ctx, s.lease, s.capability)
	if err != nil {
		return reply{}, err
	}
	left := time.Duration(l.ExpiresInMs) * time.Millisecond
	t := fmt.Sprintf("slot %s, binding %s, lease %s: %s, epoch %d, %s left", l.Slot, l.Binding, l.Lease, l.State, l.Epoch, left.Round(time.Second))
	if l.Why != "" {
		t += "\n" + l.Why
	}
	if l.Ask != nil {
		t += fmt.Sprintf("\nasked of the person: %q: %s", l.Ask.Reason, l.Ask.State)
		if l.Ask.Note != "" {
			t += fmt.Sprintf(", %q", l.Ask.Note)
		}
	}
	if s.last != "" {
		t += fmt.Sprintf("\nthe last action that could have an effect: %s", s.last)
	}
	return text(t), nil
}

func (s *session) acquireTool(ctx context.Context, a acquireArg) (reply, error) {
	if s.lease != "" {
		l, err := s.cfg.Agents.Lease(ctx, s.lease, s.capability)
		switch {
		case err != nil:
			return reply{}, err
		case l.State == core.LeaseActive && l.Epoch == s.epoch:
			return text(fmt.Sprintf("it is held already: slot %s, epoch %d", l.Slot, l.Epoch)), nil
		case l.State != core.LeaseEnded:
			return s.resume(ctx, seconds(a.WaitSeconds, s.cfg.Wait))
		case s.cfg.Delegation == "":
			return text("the lease has ended, and this session was given no delegation for another"), nil
		}
		s.forget()
	}
	if s.cfg.Delegation == "" {
		return reply{}, s.hold(ctx)
	}
	if err := s.acquire(ctx, seconds(a.ForSeconds, s.cfg.For), seconds(a.WaitSeconds, s.cfg.Wait), a.Task); err != nil {
		return reply{}, err
	}
	return text(fmt.Sprintf("acquired: slot %s, epoch %d", s.slot, s.epoch)), nil
}

// forget lets go of a lease that has ended.
func (s *session) forget() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	s.lease, s.capability, s.page = "", "", nil
}

// resume takes the lease up again, at a new epoch. What the agent has been shown is of
// the time before.
func (s *session) resume(ctx context.Context, wait time.Duration) (reply, error) {
	l, err := s.cfg.Agents.Resume(ctx, s.lease, s.capability, wire.ResumeRequest{WaitMs: wait.Milliseconds()})
	if err != nil {
		return reply{}, err
	}
	s.epoch, s.page = l.Epoch, nil
	return text(fmt.Sprintf("the browser is yours again, at epoch %d. The person may have changed anything: take browser_snapshot before you go on, and do not repeat earlier actions.", l.Epoch)), nil
}

func (s *session) releaseTool(ctx context.Context, _ nothing) (reply, error) {
	if err := s.release(ctx); err != nil {
		return reply{}, err
	}
	return text("released"), nil
}

// ask waits for a person: for the answer, or, where they took over, for the handback.
func (s *session) ask(ctx context.Context, a askArg) (reply, error) {
	if err := s.hold(ctx); err != nil {
		return reply{}, err
	}
	l, err := s.cfg.Agents.Lease(ctx, s.lease, s.capability)
	if err != nil {
		return reply{}, err
	}
	if l.State == core.LeaseActive && l.Epoch == s.epoch {
		if l, err = s.cfg.Agents.Ask(ctx, s.lease, s.capability, a.Reason); err != nil {
			return reply{}, err
		}
	}
	for end := time.Now().Add(seconds(a.WaitSeconds, askWait)); ; {
		switch {
		case l.State == core.LeaseEnded:
			return text("the lease has ended: " + l.Why), nil
		case l.State == core.LeaseActive && l.Epoch == s.epoch:
			if l.Ask != nil && l.Ask.State != "open" {
				return text(strings.TrimSpace(fmt.Sprintf("the person's answer: %s %s", l.Ask.State, l.Ask.Note))), nil
			}
		default:
			if r, err := s.resume(ctx, 0); err == nil || !passes(err) {
				return r, err
			}
		}
		if time.Now().After(end) {
			if l.State == core.LeaseActive {
				return text("no answer yet: the person has been asked. Call session_ask_person with the same reason to go on waiting."), nil
			}
			return text(fmt.Sprintf("the person has the browser (%s). Call session_ask_person again to go on waiting for the handback.", l.State)), nil
		}
		select {
		case <-ctx.Done():
			return reply{}, ctx.Err()
		case <-time.After(askLook):
		}
		if l, err = s.cfg.Agents.Lease(ctx, s.lease, s.capability); err != nil {
			return reply{}, err
		}
	}
}

// passes says whether a refusal to resume is one that time or a person ends.
func passes(err error) bool {
	e, ok := errors.AsType[*core.Error](err)
	return ok && slices.Contains([]core.Code{core.CodeHeld, core.CodeBusy, core.CodeConflict, core.CodeCapacity, core.CodeUnavailable, core.CodeQuarantined}, e.Code)
}

func (s *session) action(ctx context.Context, a actionArg) (reply, error) {
	id := core.ClientID(a.ID)
	if id == "" {
		id = s.last
	}
	if id == "" || s.lease == "" {
		return text("no action of this lease could have had an effect"), nil
	}
	r, err := s.cfg.Agents.LookUp(ctx, s.lease, s.capability, id)
	if err != nil {
		return reply{}, err
	}
	t := outcome(r)
	for _, e := range r.Evidence {
		t += fmt.Sprintf("\n%s %s %s", e.Kind, e.Method, e.URL)
		if e.Status != 0 {
			t += fmt.Sprintf(" answered %d", e.Status)
		}
		if e.AfterFence {
			t += " (after control had been taken away)"
		}
	}
	return text(t), nil
}

// seconds makes a span of what an agent has given, or takes the default.
func seconds(given float64, or time.Duration) time.Duration {
	if given <= 0 {
		return or
	}
	return min(time.Duration(given*float64(time.Second)), mostWait)
}
