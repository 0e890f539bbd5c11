package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (d *door) agentRoutes(mux *http.ServeMux) {
	route(mux, "GET /v1/healthz", func(*http.Request) (any, *core.Error) { return d.health(), nil })
	route(mux, "POST /v1/leases", d.acquire)
	route(mux, "GET /v1/leases/{lease}", d.lease)
	mux.HandleFunc("GET /v1/leases/{lease}/events", d.leaseEvents)
	route(mux, "POST /v1/leases/{lease}/renew", d.renew)
	route(mux, "POST /v1/leases/{lease}/release", d.release)
	route(mux, "POST /v1/leases/{lease}/resume", d.resume)
	route(mux, "POST /v1/leases/{lease}/ask", d.ask)
	route(mux, "POST /v1/leases/{lease}/retain", d.retain)
	route(mux, "POST /v1/leases/{lease}/retain/{retention}/acknowledge", d.acknowledge)
	route(mux, "GET /v1/queue", d.queue)
	route(mux, "POST /v1/leases/{lease}/actions", d.act)
	route(mux, "GET /v1/leases/{lease}/actions/{id}", d.lookUp)
}

func (d *door) reply(l *core.Lease, capability string) wire.LeaseReply {
	var out wire.LeaseReply
	d.Engine.View(func(s *core.State, now core.Now) {
		if v := s.Leases[l.ID]; v != nil {
			l = v
		}
		out = wire.LeaseReply{
			Lease: l.ID, RequestID: l.RequestID, Slot: l.Slot, Binding: l.Binding, Agent: l.Agent, Task: l.Task, State: l.State, Epoch: l.Epoch,
			Capability: capability, ExpiresInMs: l.Expires.LeftMs(now), MaxLifetimeMs: l.MaxUntil.LeftMs(now),
			UploadDir: d.UploadDir(l), Why: l.Why, Keys: l.Keys, Place: core.PlaceOf(s, now, l.ID),
			Spent: s.SpentBy(l.ID), Ask: l.Ask, Retention: l.Retention,
		}
		if b := s.Bindings[l.Binding]; b != nil {
			out.Budget, out.Start, out.Allow = b.Budget, b.Start, b.Allow
		}
		if d.CDPURL != nil {
			out.CDPURL = d.CDPURL(l)
		}
	})
	return out
}

func (d *door) acquire(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.AcquireRequest](r)
	if err != nil {
		return nil, err
	}
	capability, hash := engine.NewSecret()
	in := core.Acquire{
		Lease: core.LeaseID(engine.NewID()), Token: bearer(r), CapHash: hash, RequestID: q.RequestID,
		Binding: q.Binding, Agent: q.Agent, Task: q.Task, ForMs: q.ForMs, WaitMs: q.WaitMs,
		Keys: q.Keys, Person: d.person && r.Header.Get("Authorization") == "", By: d.by(""),
	}
	if in.Person {
		in.Priority = q.Priority
	} else if q.Priority != 0 {
		return nil, core.Refuse(core.CodeDenied, "an agent's priority is its delegation's", "leave priority out; a person sets it: sessiondock delegate --priority N")
	}
	res := d.Engine.Submit(r.Context(), in)
	if res.Refusal != nil {
		return nil, d.seenInstead(res.Refusal, q.Binding)
	}
	l := res.Lease
	if err := d.await(r.Context(), l, hash, time.Duration(q.WaitMs)*time.Millisecond); err != nil {
		why := "its request was answered by a refusal"
		if r.Context().Err() != nil {
			why = "its client went away"
		}
		// Nobody learns its capability. The daemon's own life bounds this.
		d.Engine.Enqueue(core.CancelWait{Lease: l.ID, Cap: hash, Why: why})
		return nil, d.seenInstead(err, q.Binding)
	}
	d.makeUploadDir(l.ID)
	return d.reply(l, capability), nil
}

// makeUploadDir makes the directory from which a lease's actions may upload, once there
// is a browser that they could be in.
func (d *door) makeUploadDir(id core.LeaseID) {
	var dir string
	d.Engine.View(func(s *core.State, _ core.Now) {
		if l := s.Leases[id]; l != nil && !startsLater(s, l) {
			dir = d.UploadDir(l)
		}
	})
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		d.Log.Error("upload directory", "lease", id, "err", err)
	}
}

// startsLater says whether a lease's browser is stopped until something is asked of it.
func startsLater(s *core.State, l *core.Lease) bool {
	return !l.Start && !s.Slots[l.Slot].Launch.Live()
}

// seenInstead tells people, and nobody else, which account a page showed instead of the
// expected one.
func (d *door) seenInstead(err *core.Error, binding core.BindingName) *core.Error {
	if !d.person || err.Code != core.CodeAccountMismatch {
		return err
	}
	seen := ""
	d.Engine.View(func(s *core.State, _ core.Now) {
		if b := s.Bindings[binding]; b != nil {
			seen = s.SeenInstead(b.Slot, binding)
		}
	})
	if seen == "" {
		return err
	}
	err = err.With("seen", seen)
	err.Message += fmt.Sprintf(": its page says %q", seen)
	return err
}

// await waits for a lease's grant and then for its browser. The hash is of the capability
// that this request would be answered with: the same request again takes its place.
func (d *door) await(ctx context.Context, l *core.Lease, hash string, wait time.Duration) *core.Error {
	var why *core.Error // what it waited for last
	granted := d.Engine.Wait(ctx, l.Slot, wait+time.Second, func(s *core.State, now core.Now) bool {
		if s.Leases[l.ID].State != core.LeaseWaiting {
			return true
		}
		why = core.WhyWaiting(s, now, l.ID)
		return false
	})
	if !granted {
		d.Engine.Enqueue(core.CancelWait{Lease: l.ID, Cap: hash, Why: "its wait ended"})
	}
	ready := d.Engine.Wait(ctx, l.Slot, launchWait, func(s *core.State, _ core.Now) bool {
		v := s.Leases[l.ID]
		holds := v.State == core.LeaseGranted || v.State == core.LeaseActive
		return v.CapHash != hash || v.State != core.LeaseWaiting && (!holds || startsLater(s, v) || s.Links[l.Slot].Granted == v.Epoch)
	})
	var v *core.Lease
	d.Engine.View(func(s *core.State, _ core.Now) { v = s.Leases[l.ID] })
	switch {
	case v.CapHash != hash:
		return core.Refuse(core.CodeDeadline, "the same request has come again and waits in this one's place", "its answer tells")
	case v.Refusal != nil:
		return v.Refusal
	case v.State == core.LeaseEnded && why != nil:
		return why
	case v.State == core.LeaseEnded:
		return core.Refuse(core.CodeDeadline, "the lease was not granted: "+v.Why, "ask again with a longer wait")
	case v.State == core.LeaseSuspended, v.State == core.LeaseInterrupted:
		return core.Refuse(core.CodeUnavailable, fmt.Sprintf("slot %s could not be used: %s", v.Slot, v.Why), "look at it: sessiondock status "+string(v.Slot)).With("lease", v.ID)
	case !ready:
		return core.Refuse(core.CodeUnavailable, fmt.Sprintf("the browser of slot %s was not ready in time", v.Slot), "look at it: sessiondock status "+string(v.Slot)).With("lease", v.ID)
	}
	return nil
}

func (d *door) by(surface string) string {
	switch {
	case !d.person:
		return "agent"
	case surface == "":
		return "human:cli"
	}
	return "human:" + surface
}

func leaseID(r *http.Request) core.LeaseID { return core.LeaseID(r.PathValue("lease")) }

func (d *door) lease(r *http.Request) (any, *core.Error) {
	l, err := d.seeLease(r)
	if err != nil {
		return nil, err
	}
	return d.shown(r, l), nil
}

// shown is a lease as whoever has asked may see it: without its capability the address,
// which is as good, is not told.
func (d *door) shown(r *http.Request, l *core.Lease) wire.LeaseReply {
	out := d.reply(l, "")
	if bearer(r) == "" {
		out.CDPURL = ""
	}
	return out
}

func (d *door) leaseVerb(r *http.Request, in core.Input) (any, *core.Error) {
	res := d.Engine.Submit(r.Context(), in)
	if res.Refusal != nil {
		return nil, res.Refusal
	}
	return d.shown(r, res.Lease), nil
}

func (d *door) renew(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.RenewRequest](r)
	if err != nil {
		return nil, err
	}
	return d.leaseVerb(r, core.Renew{Lease: leaseID(r), Cap: bearer(r), ForMs: q.ForMs})
}

func (d *door) release(r *http.Request) (any, *core.Error) {
	if _, _, err := body[struct{}](r); err != nil {
		return nil, err
	}
	return d.leaseVerb(r, core.Release{Lease: leaseID(r), Cap: bearer(r)})
}

// resume waits, as long as the client gives it, for what stands against the resume
// to pass by itself.
func (d *door) resume(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.ResumeRequest](r)
	if err != nil {
		return nil, err
	}
	if q.WaitMs < 0 || q.WaitMs > core.MaxWaitMs {
		return nil, core.Refuse(core.CodeInvalid, "wait_ms is out of range", "0 to one day")
	}
	until := time.Now().Add(time.Duration(q.WaitMs) * time.Millisecond)
	in := core.Resume{Lease: leaseID(r), Cap: bearer(r)}
	for {
		var slot core.SlotName
		d.Engine.View(func(s *core.State, _ core.Now) {
			if l := s.Leases[in.Lease]; l != nil {
				slot = l.Slot
			}
		})
		changed := d.Engine.Changed(slot)
		res := d.Engine.Submit(r.Context(), in)
		if res.Refusal == nil {
			if err := d.await(r.Context(), res.Lease, res.Lease.CapHash, 0); err != nil {
				return nil, err
			}
			return d.reply(res.Lease, ""), nil
		}
		left := time.Until(until)
		if res.Refusal.Code.Info().Retry != core.RetrySame || left <= 0 {
			return nil, res.Refusal
		}
		select {
		case <-changed:
		case <-time.After(left):
			return nil, res.Refusal
		case <-r.Context().Done():
			return nil, res.Refusal
		}
	}
}

func (d *door) ask(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.AskRequest](r)
	if err != nil {
		return nil, err
	}
	return d.leaseVerb(r, core.AskPerson{Lease: leaseID(r), Cap: bearer(r), Reason: q.Reason})
}

func (d *door) retain(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.RetainRequest](r)
	if err != nil {
		return nil, err
	}
	return d.leaseVerb(r, core.Retain{
		Lease: leaseID(r), Cap: bearer(r), ID: core.RetentionID(engine.NewID()), ForMs: q.ForMs, Reason: q.Reason,
	})
}

func (d *door) acknowledge(r *http.Request) (any, *core.Error) {
	if _, _, err := body[struct{}](r); err != nil {
		return nil, err
	}
	return d.leaseVerb(r, core.Acknowledge{Lease: leaseID(r), Cap: bearer(r), ID: core.RetentionID(r.PathValue("retention"))})
}

// queue tells where the requests of one delegation stand, to whoever has its token.
func (d *door) queue(r *http.Request) (any, *core.Error) {
	out := []wire.QueueRow{}
	known := false
	d.Engine.View(func(s *core.State, now core.Now) {
		var waiting []*core.Lease
		waiting, known = s.WaitingOf(bearer(r))
		for _, l := range waiting {
			out = append(out, wire.QueueRow{RequestID: l.RequestID, Place: *core.PlaceOf(s, now, l.ID)})
		}
	})
	if !known {
		return nil, core.Refuse(core.CodeUnauthenticated, "no valid delegation came with the request", "send it as Authorization: Bearer TOKEN")
	}
	return out, nil
}

func (d *door) act(r *http.Request) (any, *core.Error) {
	q, raw, err := body[wire.ActRequest](r)
	if err != nil {
		return nil, err
	}
	if q.Epoch == nil {
		return nil, core.Refuse(core.CodeInvalid, "epoch is missing", "use the epoch that came with the lease")
	}
	if err := checkEpoch(q.Epoch); err != nil {
		return nil, err
	}
	info, err := wire.CheckAct(q.Act)
	if err != nil {
		return nil, err
	}
	if q.DeadlineMs < 0 || q.DeadlineMs > wire.MaxActionDeadline.Milliseconds() {
		return nil, core.Refuse(core.CodeInvalid, "deadline_ms is out of range", "1 to 600000")
	}
	if q.SettleMs < 0 || q.SettleMs > wire.MaxSettle.Milliseconds() {
		return nil, core.Refuse(core.CodeInvalid, "settle_ms is out of range", "0 to 1000; to wait for more, use the verb wait")
	}
	if q.DeadlineMs == 0 {
		q.DeadlineMs = wire.ActionDeadline.Milliseconds()
	}
	in := core.Act{
		Action: core.ActionID(engine.NewID()), Lease: leaseID(r), Cap: bearer(r), ID: q.ID, Epoch: *q.Epoch,
		Verb: q.Verb, Class: core.Read, Summary: summary(q.Act), BodyHash: d.bodyHash(raw),
		NeedsDoc: info.Doc, Beside: q.Verb == "dialog", URL: q.URL, DeadlineMs: q.DeadlineMs, Bytes: int64(len(raw)),
	}
	if info.Write && !(q.Verb == "tabs" && (q.Op == "" || q.Op == "list")) {
		in.Class = core.Write
	}
	if q.Expect != nil {
		in.Expect = *q.Expect
	}
	payload := wire.Asked{Act: q.Act}
	d.Engine.View(func(s *core.State, _ core.Now) {
		if l := s.Leases[in.Lease]; l != nil {
			payload.UploadDir = d.UploadDir(l)
			if b := s.Bindings[l.Binding]; b != nil && q.Verb == "cdp" {
				payload.Origins, payload.Allow = b.Origins, b.Allow
			}
		}
	})
	res := d.whenReady(r.Context(), in, payload)
	if res.Refusal != nil {
		return nil, res.Refusal
	}
	const grace = 250 * time.Millisecond // for the host to say that its deadline came
	wait := time.Duration(q.DeadlineMs)*time.Millisecond + grace
	if res.Action.Lease != in.Lease {
		wait = 0
	}
	a, e := d.Engine.Settled(r.Context(), res.Action, wait)
	return d.told(a, e, in.Lease)
}

// told is what a lease is told of an action: one of its own, or one of a former lease
// of the same agent.
func (d *door) told(a *core.Action, err error, lease core.LeaseID) (any, *core.Error) {
	switch {
	case err != nil:
		return nil, unreadable(err)
	case a.Lease != lease:
		return former(a), nil
	}
	return d.record(a), nil
}

func unreadable(err error) *core.Error {
	return core.Refuse(core.CodeUnavailable, "the record cannot be read: "+err.Error(), "look it up again by its id; do not send it again under another")
}

// whenReady asks for an action, and as long as the action may live waits for a browser
// that comes up: a grant can be older than the browser that it is for.
func (d *door) whenReady(ctx context.Context, in core.Act, payload wire.Asked) core.Result {
	until := time.Now().Add(time.Duration(in.DeadlineMs) * time.Millisecond)
	for {
		res := d.Engine.Act(ctx, in, payload)
		left := time.Until(until)
		if res.Refusal == nil || res.Refusal.Code != core.CodeBusy || res.Refusal.Detail["not_dispatched"] != true || left <= 0 {
			return res
		}
		ready := d.Engine.Wait(ctx, res.Refusal.Detail["slot"].(core.SlotName), left, func(s *core.State, _ core.Now) bool {
			l := s.Leases[in.Lease]
			return l.Epoch != in.Epoch || l.State != core.LeaseActive || s.Links[l.Slot].Granted == in.Epoch
		})
		if !ready {
			return res
		}
		d.makeUploadDir(in.Lease)
		in.DeadlineMs = max(1, time.Until(until).Milliseconds())
	}
}

// record is an action as its own lease may see it: with what it saw, as long as its
// epoch is in force, and after that only with what became of it.
func (d *door) record(a *core.Action) core.Record {
	if a.Over {
		return former(a)
	}
	rec := a.Record
	rec.Result, rec.Dialog = d.Engine.Result(a), d.Engine.Dialog(a)
	return rec
}

// former is an action as a former holder may see it: its outcome, no content, and
// nothing of what a person did in its pages afterwards (I10).
func former(a *core.Action) core.Record {
	rec := a.Record
	rec.Result, rec.URL, rec.Observed = nil, "", nil
	rec.Evidence = nil
	for _, e := range a.Evidence {
		if !e.AfterFence {
			e.URL = ""
			rec.Evidence = append(rec.Evidence, e)
		}
	}
	if rec.Error != nil || rec.Authority != core.Admitted || a.Host == "finished" {
		return rec
	}
	if a.Local == core.NotDispatched {
		rec.Error = core.Refuse(core.CodeFenced, fmt.Sprintf("epoch %d ended before the action was dispatched", a.Epoch), "resume the lease, and ask anew")
	} else {
		rec.Error = core.Refuse(core.CodeOutcomeUnknown, fmt.Sprintf("epoch %d ended while the action was under way: local %s, remote %s", a.Epoch, a.Local, a.Remote),
			"look it up by its id; do not send it again")
	}
	return rec
}

func (d *door) lookUp(r *http.Request) (any, *core.Error) {
	res := d.Engine.Submit(r.Context(), core.Claim{Lease: leaseID(r), Cap: bearer(r)})
	if res.Refusal != nil {
		return nil, res.Refusal
	}
	a, err := d.Engine.ActionByClient(res.Lease.Binding, core.ClientID(r.PathValue("id")))
	if err == nil && (a == nil || a.Agent != res.Lease.Agent) {
		return nil, core.Refuse(core.CodeNotFound, "this lease has no action with this id", "it was never admitted")
	}
	return d.told(a, err, res.Lease.ID)
}

// summary names an action for people and the journal. It never holds what is typed,
// nor a query, which may carry a secret.
func summary(a wire.Act) string {
	target := ""
	switch {
	case a.Selector != "":
		target = a.Selector
	case a.Ref != "":
		target = a.Ref
	case a.Text != "":
		target = fmt.Sprintf("%q", a.Text)
	case a.Role != "":
		target = strings.TrimSpace(a.Role + " " + a.Name)
	}
	switch a.Verb {
	case "navigate":
		if u, err := url.Parse(a.URL); err == nil {
			u.RawQuery, u.Fragment, u.User = "", "", nil
			target = u.String()
		}
	case "evaluate":
		target = fmt.Sprintf("a script of %d characters", len(a.Expression))
	case "cdp":
		target = a.Method
	case "tabs":
		target = a.Op
	}
	if len(target) > 120 {
		target = strings.ToValidUTF8(target[:120], "") + "…"
	}
	return strings.TrimSpace(a.Verb + " " + target)
}
