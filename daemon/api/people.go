package api

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func (d *door) personRoutes(mux *http.ServeMux) {
	route(mux, "POST /v1/agents", d.declare)
	route(mux, "GET /v1/slots", d.slots)
	route(mux, "POST /v1/slots", d.createSlot)
	route(mux, "GET /v1/slots/{slot}", d.slot)
	route(mux, "DELETE /v1/slots/{slot}", d.removeSlot)
	route(mux, "GET /v1/slots/{slot}/status", d.status)
	route(mux, "GET /v1/slots/{slot}/actions", d.actions)
	route(mux, "POST /v1/slots/{slot}/takeover", d.takeover)
	route(mux, "POST /v1/slots/{slot}/handback", d.change(d.handback))
	route(mux, "POST /v1/slots/{slot}/start", d.change(d.start))
	route(mux, "POST /v1/slots/{slot}/stop", d.change(d.stop))
	route(mux, "POST /v1/slots/{slot}/stop-page", d.change(d.stopPage))
	route(mux, "POST /v1/slots/{slot}/adopt", d.change(d.adopt))
	route(mux, "POST /v1/slots/{slot}/quarantine/lift", d.change(d.lift))
	route(mux, "GET /v1/bindings", d.bindings)
	route(mux, "POST /v1/bindings", d.bind)
	route(mux, "GET /v1/bindings/{binding}", d.binding)
	route(mux, "DELETE /v1/bindings/{binding}", d.removeBinding)
	route(mux, "POST /v1/bindings/{binding}/delegate", d.delegate)
	route(mux, "POST /v1/bindings/{binding}/confirm", d.confirm)
	route(mux, "POST /v1/bindings/{binding}/probe", d.probe)
	route(mux, "GET /v1/delegations", d.delegations)
	route(mux, "POST /v1/delegations/{delegation}/revoke", d.revokeDelegation)
	route(mux, "POST /v1/leases/{lease}/answer", d.answerAsk)
	route(mux, "POST /v1/leases/{lease}/retain/{retention}/decide", d.decide)
	route(mux, "GET /v1/leases", d.leases)
	route(mux, "POST /v1/leases/{lease}/revoke", d.revoke)
	route(mux, "GET /v1/actions/{action}", d.action)
	route(mux, "POST /v1/actions/{action}/resolve", d.resolve)
	route(mux, "GET /v1/quarantine", d.quarantine)
	mux.HandleFunc("GET /v1/events", d.events)
}

func slotName(r *http.Request) core.SlotName { return core.SlotName(r.PathValue("slot")) }

func noSlot(name core.SlotName) *core.Error {
	return core.Refuse(core.CodeNotFound, fmt.Sprintf("there is no slot %q", name), "sessiondock slot list")
}

func (d *door) info(name core.SlotName) (wire.SlotInfo, *core.Error) {
	var info wire.SlotInfo
	found := false
	d.Engine.View(func(s *core.State, now core.Now) {
		if v, ok := s.Slots[name]; ok && !v.Removed {
			info, found = wire.SlotInfo{Slot: name, Display: v.Display}, true
		}
	})
	if !found {
		return info, noSlot(name)
	}
	info.Status = *d.Engine.Status(name)
	return info, nil
}

// each lists what pick makes of every slot that is there, by name.
func each[T any](d *door, pick func(*core.State, core.Now, *core.Slot) (T, bool)) []T {
	out := []T{}
	d.Engine.View(func(s *core.State, now core.Now) {
		names := make([]core.SlotName, 0, len(s.Slots))
		for n, v := range s.Slots {
			if !v.Removed {
				names = append(names, n)
			}
		}
		slices.Sort(names)
		for _, n := range names {
			if v, ok := pick(s, now, s.Slots[n]); ok {
				out = append(out, v)
			}
		}
	})
	return out
}

func (d *door) slots(*http.Request) (any, *core.Error) {
	return each(d, func(s *core.State, now core.Now, v *core.Slot) (wire.SlotInfo, bool) {
		st := core.StatusOf(s, now, v.Name)
		d.Engine.Amend(st)
		return wire.SlotInfo{Slot: v.Name, Display: v.Display, Status: *st}, true
	}), nil
}

func (d *door) quarantine(*http.Request) (any, *core.Error) {
	return each(d, func(s *core.State, now core.Now, v *core.Slot) (*core.Status, bool) {
		st := core.StatusOf(s, now, v.Name)
		return st, len(st.Quarantine) > 0
	}), nil
}

func (d *door) createSlot(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.SlotRequest](r)
	if err != nil {
		return nil, err
	}
	if res := d.Engine.Submit(r.Context(), core.CreateSlot{Name: q.Slot, Display: q.Display, By: d.by("")}); res.Refusal != nil {
		return nil, res.Refusal
	}
	return d.info(q.Slot)
}

func (d *door) slot(r *http.Request) (any, *core.Error) { return d.info(slotName(r)) }

func (d *door) removeSlot(r *http.Request) (any, *core.Error) {
	res := d.Engine.Submit(r.Context(), core.RemoveSlot{Name: slotName(r), By: d.by("")})
	if res.Refusal != nil {
		return nil, res.Refusal
	}
	return struct{}{}, nil
}

func (d *door) status(r *http.Request) (any, *core.Error) {
	info, err := d.info(slotName(r))
	return info.Status, err
}

func (d *door) actions(r *http.Request) (any, *core.Error) {
	name := slotName(r)
	if _, err := d.info(name); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	limit, refusal := number(q.Get("limit"), wire.MaxActions, wire.MaxActions)
	if refusal != nil {
		return nil, refusal
	}
	found := d.Engine.OpenActions(name)
	if q.Get("open") != "1" {
		var err error
		if found, err = d.Engine.Actions(name, core.ActionID(q.Get("before")), int(limit)); err != nil {
			return nil, unreadable(err)
		}
	}
	out := make([]core.Record, len(found))
	for i, a := range found {
		out[i] = a.Record
	}
	return out, nil
}

func compare[T ~string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// change reads a person's verb on a slot, lets f do it and answers with the status
// after it.
func (d *door) change(f func(*http.Request, core.SlotName, wire.ChangeRequest, string) *core.Error) func(*http.Request) (any, *core.Error) {
	return func(r *http.Request) (any, *core.Error) {
		name, q, err := d.asked(r)
		if err != nil {
			return nil, err
		}
		if err := f(r, name, q, d.by(q.By)); err != nil {
			return nil, err
		}
		return d.Engine.Status(name), nil
	}
}

// asked reads a person's request about a slot.
func (d *door) asked(r *http.Request) (core.SlotName, wire.ChangeRequest, *core.Error) {
	name := slotName(r)
	q, _, err := body[wire.ChangeRequest](r)
	if err != nil {
		return name, q, err
	}
	if err := checkEpoch(q.IfEpoch); err != nil {
		return name, q, err
	}
	if q.By == "" {
		q.By = "cli"
	}
	if err := core.CheckName("surface", q.By); err != nil {
		return name, q, err
	}
	_, err = d.info(name)
	return name, q, err
}

// takeover answers when the extension has acknowledged the fence, or when it is
// known that it has not.
func (d *door) takeover(r *http.Request) (any, *core.Error) {
	slot, q, err := d.asked(r)
	if err != nil {
		return nil, err
	}
	by := d.by(q.By)
	res, st := d.Engine.TakeoverAnswered(r.Context(), core.Takeover{
		Slot: slot, Surface: q.By, IfEpoch: q.IfEpoch, FromPerson: q.FromPerson, By: by,
	}, wire.FenceAck+500*time.Millisecond)
	if res.Refusal != nil {
		return nil, res.Refusal
	}
	if st != nil && !q.StopPage && !q.StopNow {
		return st, nil
	}
	if q.StopPage {
		err = d.endPages(r.Context(), core.StopPage{Slot: slot, By: by})
	}
	if q.StopNow {
		err = d.end(r.Context(), core.StopSlot{Slot: slot, Now: true, By: by})
	}
	if err != nil {
		err = err.With("taken_over", true)
		err.Message = "the slot was taken over, but: " + err.Message
		return nil, err
	}
	return d.Engine.Status(slot), nil
}

func (d *door) handback(r *http.Request, slot core.SlotName, q wire.ChangeRequest, by string) *core.Error {
	return d.Engine.Submit(r.Context(), core.Handback{Slot: slot, To: q.To, IfEpoch: q.IfEpoch, Confirm: q.Confirm, By: by}).Refusal
}

// start answers when the browser's extension is connected.
func (d *door) start(r *http.Request, slot core.SlotName, q wire.ChangeRequest, by string) *core.Error {
	var former core.LaunchID // one that has ended is not the one that is started
	d.Engine.View(func(s *core.State, _ core.Now) {
		if l := s.Slots[slot].Launch; l != nil && !l.Live() {
			former = l.ID
		}
	})
	if res := d.Engine.Submit(r.Context(), core.StartSlot{Slot: slot, IfEpoch: q.IfEpoch, By: by}); res.Refusal != nil {
		return res.Refusal
	}
	var l *core.Launch
	var ahead *core.Reason
	up := false
	d.Engine.Wait(r.Context(), slot, launchWait, func(s *core.State, _ core.Now) bool {
		v := s.Slots[slot]
		l, up, ahead = v.Launch, s.Links[slot].Up() && v.Fence.State == "drained", nil
		if i := slices.IndexFunc(v.Reasons, func(r core.Reason) bool { return core.Code(r.Code) == core.CodeEpochRegression }); i >= 0 {
			ahead = &v.Reasons[i]
		}
		return up || ahead != nil || l != nil && l.ID != former && !l.Live()
	})
	switch {
	case ahead != nil:
		return core.Refuse(core.CodeEpochRegression, ahead.Text, ahead.Resolve)
	case up:
		return nil
	case l != nil && l.ID != former && !l.Live():
		return core.Refuse(core.CodeUnavailable, "the browser did not stay: "+l.How, "look at its log in the slot's directory")
	}
	return core.Refuse(core.CodeUnavailable, "the browser's extension did not connect in time", "sessiondock status "+string(slot))
}

func (d *door) stop(r *http.Request, slot core.SlotName, q wire.ChangeRequest, by string) *core.Error {
	return d.end(r.Context(), core.StopSlot{Slot: slot, Now: q.StopNow, IfEpoch: q.IfEpoch, By: by})
}

// end stops a launch and answers when its end is verified, or known not to be.
func (d *door) end(ctx context.Context, in core.StopSlot) *core.Error {
	if res := d.Engine.Submit(ctx, in); res.Refusal != nil {
		return res.Refusal
	}
	d.Engine.Wait(ctx, in.Slot, launchWait, func(s *core.State, _ core.Now) bool {
		l := s.Slots[in.Slot].Launch
		return l == nil || l.State == "ended" || l.State == "unknown"
	})
	return nil
}

func (d *door) adopt(r *http.Request, slot core.SlotName, q wire.ChangeRequest, by string) *core.Error {
	return d.Engine.Submit(r.Context(), core.Adopt{Slot: slot, Note: q.Note, IfEpoch: q.IfEpoch, By: by}).Refusal
}

func (d *door) lift(r *http.Request, slot core.SlotName, q wire.ChangeRequest, by string) *core.Error {
	return d.Engine.Submit(r.Context(), core.Lift{Slot: slot, Note: q.Note, IfEpoch: q.IfEpoch, By: by}).Refusal
}

func (d *door) bindings(*http.Request) (any, *core.Error) {
	out := []core.Binding{}
	d.Engine.View(func(s *core.State, _ core.Now) {
		for _, b := range s.Bindings {
			if !b.Removed {
				out = append(out, *b)
			}
		}
	})
	slices.SortFunc(out, func(a, b core.Binding) int { return compare(a.Name, b.Name) })
	return out, nil
}

func (d *door) findBinding(name core.BindingName) (any, *core.Error) {
	var b *core.Binding
	d.Engine.View(func(s *core.State, _ core.Now) { b = s.Bindings[name] })
	if b == nil || b.Removed {
		return nil, core.Refuse(core.CodeNotFound, fmt.Sprintf("there is no binding %q", name), "sessiondock binding list")
	}
	return b, nil
}

func (d *door) bind(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.BindingRequest](r)
	if err != nil {
		return nil, err
	}
	if err := checkWorktree(q.Worktree); err != nil {
		return nil, err
	}
	if res := d.Engine.Submit(r.Context(), core.Bind{Spec: q.BindingSpec, By: d.by("")}); res.Refusal != nil {
		return nil, res.Refusal
	}
	return d.findBinding(q.Name)
}

// checkWorktree wants the directory that a binding is for: a git worktree, or one that no
// repository knows.
func checkWorktree(dir string) *core.Error {
	if dir == "" {
		return nil
	}
	if !filepath.IsAbs(dir) {
		return core.Refuse(core.CodeInvalid, fmt.Sprintf("the worktree %q is not an absolute path", dir), "write the whole path of its directory")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return core.Refuse(core.CodeInvalid, fmt.Sprintf("the worktree %s is not a directory", dir), "make it first: git worktree add "+dir)
	}
	return nil
}

func (d *door) binding(r *http.Request) (any, *core.Error) {
	name := core.BindingName(r.PathValue("binding"))
	b, err := d.findBinding(name)
	if err != nil {
		return nil, err
	}
	out := wire.BindingInfo{Binding: *b.(*core.Binding)}
	if st := d.Engine.Status(out.Slot); st != nil {
		if i := slices.IndexFunc(st.SignIns, func(v core.SignIn) bool { return v.Binding == name }); i >= 0 {
			out.SignIn = &st.SignIns[i]
		}
	}
	return out, nil
}

func (d *door) removeBinding(r *http.Request) (any, *core.Error) {
	res := d.Engine.Submit(r.Context(), core.RemoveBinding{Name: core.BindingName(r.PathValue("binding")), By: d.by("")})
	if res.Refusal != nil {
		return nil, res.Refusal
	}
	return struct{}{}, nil
}

func (d *door) delegate(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.DelegateRequest](r)
	if err != nil {
		return nil, err
	}
	token, hash := engine.NewSecret()
	in := core.Delegate{
		ID: core.DelegationID(engine.NewID()), Hash: hash, Binding: core.BindingName(r.PathValue("binding")),
		Agent: q.To, ForMs: q.ForMs, Priority: q.Priority, By: d.by(""),
	}
	if res := d.Engine.Submit(r.Context(), in); res.Refusal != nil {
		return nil, res.Refusal
	}
	out := wire.DelegateReply{Delegation: in.ID, Binding: in.Binding, Agent: in.Agent, Token: token}
	d.Engine.View(func(s *core.State, now core.Now) { out.ExpiresInMs = s.Delegations[in.ID].Expires.LeftMs(now) })
	return out, nil
}

func (d *door) delegations(*http.Request) (any, *core.Error) {
	out := []wire.DelegationRow{}
	d.Engine.View(func(s *core.State, now core.Now) {
		for _, v := range s.Delegations {
			out = append(out, delegationRow(v, now))
		}
	})
	slices.SortFunc(out, func(a, b wire.DelegationRow) int { return compare(a.Delegation, b.Delegation) })
	return out, nil
}

func delegationRow(v *core.Delegation, now core.Now) wire.DelegationRow {
	return wire.DelegationRow{
		Delegation: v.ID, Binding: v.Binding, Agent: v.Agent, Priority: v.Priority, By: v.By,
		ExpiresInMs: v.Expires.LeftMs(now), Revoked: v.Revoked,
	}
}

func (d *door) revokeDelegation(r *http.Request) (any, *core.Error) {
	if _, _, err := body[struct{}](r); err != nil {
		return nil, err
	}
	id := core.DelegationID(r.PathValue("delegation"))
	if res := d.Engine.Submit(r.Context(), core.RevokeDelegation{ID: id, By: d.by("")}); res.Refusal != nil {
		return nil, res.Refusal
	}
	var out wire.DelegationRow
	d.Engine.View(func(s *core.State, now core.Now) { out = delegationRow(s.Delegations[id], now) })
	return out, nil
}

func (d *door) confirm(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.ConfirmRequest](r)
	if err != nil {
		return nil, err
	}
	if err := d.checkPerson(q.By, q.IfEpoch); err != nil {
		return nil, err
	}
	name := core.BindingName(r.PathValue("binding"))
	if res := d.Engine.Submit(r.Context(), core.Confirm{Binding: name, Note: q.Note, IfEpoch: q.IfEpoch, By: d.by(q.By)}); res.Refusal != nil {
		return nil, res.Refusal
	}
	return d.findBinding(name)
}

// probe answers when the look is over. The daemon bounds it, whatever the page does.
func (d *door) probe(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.ProbeRequest](r)
	if err != nil {
		return nil, err
	}
	if err := d.checkPerson(q.By, q.IfEpoch); err != nil {
		return nil, err
	}
	name := core.BindingName(r.PathValue("binding"))
	if _, err := d.findBinding(name); err != nil {
		return nil, err
	}
	var b *core.Binding
	d.Engine.View(func(s *core.State, _ core.Now) { b = s.Bindings[name] })
	res := d.beginProbe(r.Context(), b.Slot, core.RunProbe{Binding: name, Action: q.Action, IfEpoch: q.IfEpoch, By: d.by(q.By)})
	if res.Refusal != nil {
		return nil, res.Refusal
	}
	var p *core.Probed
	d.Engine.Wait(r.Context(), b.Slot, probeWait, func(s *core.State, _ core.Now) bool {
		p = s.ProbeResult(b.Slot, res.Probe)
		return p != nil
	})
	if p == nil {
		return nil, core.Refuse(core.CodeDeadline, "the probe was begun, and nothing came of it in time", "sessiondock status "+string(b.Slot))
	}
	out := wire.ProbeReply{
		Probe: p.Probe, Kind: p.Kind, Binding: p.Binding, Slot: b.Slot, Epoch: p.Epoch, Generation: p.Generation,
		AtMs: p.AtMs, Verdict: p.Verdict, Why: p.Why, Expected: b.Expected(p.Kind), Seen: p.Seen, URL: p.URL,
	}
	if p.Kind == "effect" {
		if a, err := d.Engine.Action(p.Action); err == nil && a != nil {
			out.Action = &a.Record
		}
	}
	return out, nil
}

// beginProbe waits a while for what passes by itself: a slot that changes hands, another
// probe, an action that is still watched.
func (d *door) beginProbe(ctx context.Context, slot core.SlotName, in core.RunProbe) core.Result {
	late := time.After(probeBusy)
	for {
		changed := d.Engine.Changed(slot)
		res := d.Engine.Submit(ctx, in)
		if res.Refusal == nil || res.Refusal.Code != core.CodeBusy {
			return res
		}
		select {
		case <-changed:
		case <-late:
			return res
		case <-ctx.Done():
			return res
		}
	}
}

// checkPerson checks what every person's request may name.
func (d *door) checkPerson(by string, ifEpoch *core.Epoch) *core.Error {
	if by != "" {
		if err := core.CheckName("surface", by); err != nil {
			return err
		}
	}
	return checkEpoch(ifEpoch)
}

// yesOrNo reads a person's answer, which must say one of the two.
func (d *door) yesOrNo(r *http.Request) (wire.AnswerRequest, *core.Error) {
	q, _, err := body[wire.AnswerRequest](r)
	switch {
	case err != nil:
		return q, err
	case q.Approve == nil:
		return q, core.Refuse(core.CodeInvalid, "approve is missing", "true or false")
	}
	return q, d.checkPerson(q.By, q.IfEpoch)
}

func (d *door) answerAsk(r *http.Request) (any, *core.Error) {
	q, err := d.yesOrNo(r)
	if err != nil {
		return nil, err
	}
	return d.leaseVerb(r, core.AnswerAsk{Lease: leaseID(r), Granted: *q.Approve, Note: q.Note, IfEpoch: q.IfEpoch, By: d.by(q.By)})
}

func (d *door) decide(r *http.Request) (any, *core.Error) {
	q, err := d.yesOrNo(r)
	if err != nil {
		return nil, err
	}
	return d.leaseVerb(r, core.DecideRetention{
		Lease: leaseID(r), ID: core.RetentionID(r.PathValue("retention")), Approved: *q.Approve, Note: q.Note, IfEpoch: q.IfEpoch, By: d.by(q.By),
	})
}

func (d *door) leases(r *http.Request) (any, *core.Error) {
	live := each(d, func(s *core.State, _ core.Now, v *core.Slot) ([]*core.Lease, bool) { return s.LiveLeases(v.Name), true })
	out := []wire.LeaseReply{}
	for _, ls := range live {
		for _, l := range ls {
			out = append(out, d.shown(r, l))
		}
	}
	return out, nil
}

func (d *door) revoke(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.ChangeRequest](r)
	if err != nil {
		return nil, err
	}
	if err := d.checkPerson(q.By, q.IfEpoch); err != nil {
		return nil, err
	}
	return d.leaseVerb(r, core.Revoke{Lease: leaseID(r), Note: q.Note, IfEpoch: q.IfEpoch, By: d.by(q.By)})
}

func (d *door) action(r *http.Request) (any, *core.Error) {
	a, err := d.Engine.Action(core.ActionID(r.PathValue("action")))
	switch {
	case err != nil:
		return nil, unreadable(err)
	case a == nil:
		return nil, core.Refuse(core.CodeNotFound, "there is no such action", "sessiondock actions SLOT")
	}
	return a.Record, nil
}

func (d *door) resolve(r *http.Request) (any, *core.Error) {
	q, _, err := body[wire.ResolveRequest](r)
	if err != nil {
		return nil, err
	}
	res := d.Engine.Submit(r.Context(), core.Resolve{
		Action: core.ActionID(r.PathValue("action")), Verdict: q.Verdict, Note: q.Note, IfEpoch: q.IfEpoch, By: d.by(q.By),
	})
	if res.Refusal != nil {
		return nil, res.Refusal
	}
	return res.Action.Record, nil
}
