package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

const (
	// settleMost bounds how long a tool waits for what its action has started.
	settleMost = 5 * time.Second
	// settleFirst is how long a request that an action has begun may take to be told of:
	// the browser tells the extension beside the action's own answer, and the extension
	// tells of the first one at once.
	settleFirst = 15 * time.Millisecond
	// settleLook is how often the action is looked at meanwhile.
	settleLook = 25 * time.Millisecond
	// renewals is how often a lease is renewed within its time.
	renewals = 3
	// requestTimeout bounds one short request to the daemon.
	requestTimeout = 10 * time.Second
)

// Config says whose lease is served. Either Lease, Capability and Epoch are of one that
// exists, or Delegation acquires one of Binding when the first tool needs it.
type Config struct {
	Agents     *client.Client // of the agents' socket
	Delegation client.Secret
	Binding    core.BindingName
	For, Wait  time.Duration

	Lease      core.LeaseID
	Capability client.Secret
	Epoch      core.Epoch

	Build string
	Log   *slog.Logger
}

// session is one client's: its lease, and what it has been shown. Tools follow one
// another.
type session struct {
	cfg Config

	mu         sync.Mutex
	lease      core.LeaseID
	capability client.Secret
	epoch      core.Epoch
	slot       core.SlotName
	ours       bool // the lease was acquired here, and is released at the end
	uploads    string
	docs       documents
	page       *page
	last       core.ClientID
	pending    *core.Record       // it waits for the answer to a dialog
	stop       context.CancelFunc // ends the renewals
}

func newSession(cfg Config) *session {
	return &session{cfg: cfg, lease: cfg.Lease, capability: cfg.Capability, epoch: cfg.Epoch}
}

// hold makes sure that there is a lease.
func (s *session) hold(ctx context.Context) error {
	if s.lease != "" {
		return nil
	}
	if s.cfg.Delegation == "" {
		return core.Refuse(core.CodeUnauthenticated, "this session has no lease and no delegation to acquire one with",
			"a person makes one: sessiondock mcp config CLIENT --binding BINDING")
	}
	return s.acquire(ctx, s.cfg.For, s.cfg.Wait, "")
}

func (s *session) acquire(ctx context.Context, d, wait time.Duration, task string) error {
	l, err := s.cfg.Agents.Acquire(ctx, s.cfg.Delegation, wire.AcquireRequest{
		RequestID: client.NewID(), Binding: s.cfg.Binding, ForMs: d.Milliseconds(), WaitMs: wait.Milliseconds(), Task: task,
	})
	if err != nil {
		return err
	}
	s.lease, s.capability, s.epoch, s.slot, s.uploads, s.ours = l.Lease, client.Secret(l.Capability), l.Epoch, l.Slot, l.UploadDir, true
	s.page, s.last, s.pending = nil, "", nil
	s.renew(d)
	if l.Start != "" {
		// A start page that does not open is seen by the next look. What became of it stands
		// in the record (session_action) until a tool has done something.
		r, err := s.cfg.Agents.OpenStart(ctx, s.lease, s.capability, s.epoch, l.Start)
		if err != nil {
			s.cfg.Log.Info("the start page was not opened", "lease", l.Lease, "err", err)
			return nil
		}
		s.last = r.ID
		if r.Dialog != nil {
			s.pending = r
		}
		if r.Local != core.Finished {
			s.cfg.Log.Info("the start page", "lease", l.Lease, "local", r.Local, "err", r.Error)
		}
	}
	return nil
}

// renew keeps the lease while the session lives. A renewal that fails is not told: the
// next tool is told the same.
func (s *session) renew(d time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	lease, capability := s.lease, s.capability
	go func() {
		every := time.NewTicker(max(time.Second, d/renewals))
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			within, cancel := context.WithTimeout(ctx, requestTimeout)
			if _, err := s.cfg.Agents.Renew(within, lease, capability, wire.RenewRequest{ForMs: d.Milliseconds()}); err != nil {
				s.cfg.Log.Info("renewal refused", "lease", lease, "err", err)
			}
			cancel()
		}
	}()
}

// release ends the lease.
func (s *session) release(ctx context.Context) error {
	if s.lease == "" {
		return nil
	}
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	_, err := s.cfg.Agents.Release(ctx, s.lease, s.capability)
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeExpired {
		err = nil // it has ended already
	}
	if err == nil {
		s.lease, s.capability, s.page = "", "", nil
	}
	return err
}

// close ends what the session began.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ours {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := s.release(ctx); err != nil {
		s.cfg.Log.Info("the lease could not be released; it ends at its time", "lease", s.lease, "err", err)
	}
}

// act asks for one action, under the epoch that the agent knows. An error is a refusal:
// what became of an action that was admitted stands in its record.
func (s *session) act(ctx context.Context, a wire.Act, expect *core.Expect) (*core.Record, error) {
	if err := s.hold(ctx); err != nil {
		return nil, err
	}
	if p := s.pending; p != nil && a.Verb != "dialog" {
		// It would stand in line behind what waits for an answer. Who has lost control is told
		// that, by the daemon.
		if now := s.settle(ctx, p, 0); s.inControl(ctx) {
			switch {
			case now.Dialog != nil:
				return nil, core.Refuse(core.CodeConflict, asks(now.Dialog), "answer it with browser_handle_dialog")
			case goesOn(now):
				return nil, core.Refuse(core.CodeBusy, "not begun: "+outcome(now), "wait for that first")
			}
		}
		s.pending = nil
	}
	id := core.ClientID(client.NewID())
	epoch := s.epoch
	r, err := s.cfg.Agents.Act(ctx, s.lease, s.capability, wire.ActRequest{ID: id, Epoch: &epoch, Expect: expect, Act: a})
	if v, _ := wire.Verb(a.Verb); v.Write && (err == nil || mayHaveBeenAdmitted(err)) {
		s.last = id
	}
	if err != nil {
		return nil, err
	}
	if r.Authority != core.Admitted && r.Error != nil {
		return nil, r.Error
	}
	if r.Dialog != nil {
		s.pending = r
	}
	return r, nil
}

// inControl says whether the agent's epoch is in force, as far as the daemon can be asked.
func (s *session) inControl(ctx context.Context) bool {
	l, err := s.cfg.Agents.Lease(ctx, s.lease, s.capability)
	return err == nil && l.State == core.LeaseActive && l.Epoch == s.epoch
}

// mayHaveBeenAdmitted says whether there may be a record although none came.
func mayHaveBeenAdmitted(err error) bool {
	e, ok := errors.AsType[*core.Error](err)
	return !ok || e.Code == core.CodeOutcomeUnknown
}

// settle waits for what an action has started: as long as it goes on, or one of its requests
// is under way, and no longer than settleMost. It looks for the first time after a while.
func (s *session) settle(ctx context.Context, r *core.Record, first time.Duration) *core.Record {
	pause := time.NewTimer(max(0, first))
	defer pause.Stop()
	for end := time.Now().Add(settleMost); time.Now().Before(end); pause.Reset(settleLook) {
		select {
		case <-ctx.Done():
			return r
		case <-pause.C:
		}
		now, err := s.cfg.Agents.LookUp(ctx, s.lease, s.capability, r.ID)
		if err != nil {
			return r
		}
		if now.Result == nil {
			now.Result = r.Result
		}
		r = now
		if r.Remote != core.InFlight && (r.Local != core.Running || r.Dialog != nil) || !s.inControl(ctx) {
			return r
		}
	}
	return r
}

// look takes a snapshot, and remembers that the agent has been shown it. After a
// navigation it waits for the page to load, for a while; what changes within settle is told as it is then.
func (s *session) look(ctx context.Context, navigates bool, settle time.Duration) (*page, error) {
	a := wire.Act{Verb: "snapshot", SettleMs: settle.Milliseconds()}
	if navigates {
		a.State = "load"
	}
	r, err := s.act(ctx, a, nil)
	if err != nil {
		return nil, err
	}
	var got struct{ URL, Title, Text string }
	if r.Local != core.Finished || r.Observed == nil || json.Unmarshal(r.Result, &got) != nil {
		return nil, unfinished(r)
	}
	doc := r.Observed.Document
	s.page = &page{url: got.URL, title: got.Title, document: doc, lines: strings.Split(s.docs.mark(got.Text, doc), "\n")}
	return s.page, nil
}

// unfinished is the error of a look that came to nothing.
func unfinished(r *core.Record) error {
	if d := dialogOf(r); d != nil {
		return core.Refuse(core.CodeConflict, asks(d), "answer it with browser_handle_dialog")
	}
	if r.Error != nil {
		return r.Error
	}
	return core.Refuse(core.CodeUnavailable, fmt.Sprintf("%s: local %s", r.Summary, r.Local), "try the look again; nothing on the page was changed by it")
}

// navigated says whether a request of the action asked for another document.
func navigated(r *core.Record) bool {
	for _, e := range r.Evidence {
		if strings.Contains(e.Rule, "navigat") {
			return true
		}
	}
	return false
}
