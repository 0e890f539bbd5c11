package client

import (
	"context"
	"net/url"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// The calls of this file are a person's: they are served on control.sock only.

func slotPath(slot core.SlotName, rest string) string {
	return "/v1/slots/" + seg(string(slot)) + rest
}

func bindingPath(b core.BindingName, rest string) string {
	return "/v1/bindings/" + seg(string(b)) + rest
}

// Slots lists the slots with their status.
func (c *Client) Slots(ctx context.Context) ([]wire.SlotInfo, error) {
	return list[wire.SlotInfo](ctx, c, call{path: "/v1/slots"})
}

// CreateSlot makes a slot.
func (c *Client) CreateSlot(ctx context.Context, r wire.SlotRequest) (*wire.SlotInfo, error) {
	return post[wire.SlotInfo](ctx, c, call{path: "/v1/slots", body: r})
}

// Slot reads one slot.
func (c *Client) Slot(ctx context.Context, slot core.SlotName) (*wire.SlotInfo, error) {
	return get[wire.SlotInfo](ctx, c, call{path: slotPath(slot, "")})
}

// RemoveSlot removes a slot; its epoch is kept for ever.
func (c *Client) RemoveSlot(ctx context.Context, slot core.SlotName) error {
	return c.do(ctx, call{method: "DELETE", path: slotPath(slot, ""), timeout: changeTimeout}, nil)
}

// Status reads a slot's three answers.
func (c *Client) Status(ctx context.Context, slot core.SlotName) (*core.Status, error) {
	return get[core.Status](ctx, c, call{path: slotPath(slot, "/status")})
}

// Change is a person's verb on a slot, as it stands in the path.
type Change string

// The verbs of Client.Change.
const (
	Takeover       Change = "takeover"
	Handback       Change = "handback"
	Start          Change = "start"
	Stop           Change = "stop"
	StopPage       Change = "stop-page"
	Adopt          Change = "adopt"
	LiftQuarantine Change = "quarantine/lift"
)

// Change carries out a person's verb and returns the status after it.
func (c *Client) Change(ctx context.Context, slot core.SlotName, verb Change, r wire.ChangeRequest) (*core.Status, error) {
	return post[core.Status](ctx, c, call{
		path: slotPath(slot, "/"+string(verb)), body: r, timeout: changeTimeout,
		lookUp: "it may have happened; `sessiondock status " + string(slot) + "` tells",
	})
}

// Bindings lists the bindings.
func (c *Client) Bindings(ctx context.Context) ([]core.Binding, error) {
	return list[core.Binding](ctx, c, call{path: "/v1/bindings"})
}

// Bind declares a binding.
func (c *Client) Bind(ctx context.Context, r wire.BindingRequest) (*core.Binding, error) {
	return post[core.Binding](ctx, c, call{path: "/v1/bindings", body: r})
}

// Binding reads one binding, with what is known of its account.
func (c *Client) Binding(ctx context.Context, b core.BindingName) (*wire.BindingInfo, error) {
	return get[wire.BindingInfo](ctx, c, call{path: bindingPath(b, "")})
}

// RemoveBinding removes a binding and with it every delegation of it.
func (c *Client) RemoveBinding(ctx context.Context, b core.BindingName) error {
	return c.do(ctx, call{method: "DELETE", path: bindingPath(b, "")}, nil)
}

// Delegate makes a token with which the named agent may acquire the binding.
func (c *Client) Delegate(ctx context.Context, b core.BindingName, r wire.DelegateRequest) (*wire.DelegateReply, error) {
	return post[wire.DelegateReply](ctx, c, call{
		path: bindingPath(b, "/delegate"), body: r,
		lookUp: "a delegation may exist whose token nobody has; it ends by itself. Delegate again",
	})
}

// Actions lists the newest of a slot's ledger, as many as one answer holds, or what is
// open in it.
func (c *Client) Actions(ctx context.Context, slot core.SlotName, open bool) ([]core.Record, error) {
	q := url.Values{}
	if open {
		q.Set("open", "1")
	}
	return list[core.Record](ctx, c, call{path: slotPath(slot, "/actions"), query: q})
}

// ActionsBefore lists the actions before one in a slot's ledger, as many as one answer
// holds; no action is the end.
func (c *Client) ActionsBefore(ctx context.Context, slot core.SlotName, before core.ActionID) ([]core.Record, error) {
	return list[core.Record](ctx, c, call{path: slotPath(slot, "/actions"), query: url.Values{"before": {string(before)}}})
}

// Action reads one action by the daemon's identifier.
func (c *Client) Action(ctx context.Context, action core.ActionID) (*core.Record, error) {
	return get[core.Record](ctx, c, call{path: "/v1/actions/" + seg(string(action))})
}

// Resolve records a person's verdict on what an action did.
func (c *Client) Resolve(ctx context.Context, action core.ActionID, r wire.ResolveRequest) (*core.Record, error) {
	return post[core.Record](ctx, c, call{
		path: "/v1/actions/" + seg(string(action)) + "/resolve", body: r,
		lookUp: "the verdict may have been recorded; `sessiondock actions` of the slot tells",
	})
}

// Quarantined lists the slots that are closed to delegation.
func (c *Client) Quarantined(ctx context.Context) ([]core.Status, error) {
	return list[core.Status](ctx, c, call{path: "/v1/quarantine"})
}

// Confirm attests that a slot is signed in as the binding says.
func (c *Client) Confirm(ctx context.Context, b core.BindingName, r wire.ConfirmRequest) (*core.Binding, error) {
	return post[core.Binding](ctx, c, call{path: bindingPath(b, "/confirm"), body: r})
}

// Probe has the system look at the page that a binding declares, and returns what it
// found.
func (c *Client) Probe(ctx context.Context, b core.BindingName, r wire.ProbeRequest) (*wire.ProbeReply, error) {
	return post[wire.ProbeReply](ctx, c, call{
		path: bindingPath(b, "/probe"), body: r, timeout: (core.DefaultWatchMs+core.MaxProbeWaitMs+core.ProbeGraceMs)*time.Millisecond + 5*time.Second + waitMargin,
		lookUp: "it may have been carried out; `sessiondock binding show " + string(b) + "` and `sessiondock actions` tell",
	})
}

// Delegations lists the delegations, without their tokens.
func (c *Client) Delegations(ctx context.Context) ([]wire.DelegationRow, error) {
	return list[wire.DelegationRow](ctx, c, call{path: "/v1/delegations"})
}

// RevokeDelegation takes a delegation back.
func (c *Client) RevokeDelegation(ctx context.Context, id core.DelegationID) (*wire.DelegationRow, error) {
	return post[wire.DelegationRow](ctx, c, call{path: "/v1/delegations/" + seg(string(id)) + "/revoke", body: struct{}{}})
}

// DeclareAgent makes the calling process, and all that descends from it, an agent's: the
// daemon refuses it a person's verbs from now on.
func (c *Client) DeclareAgent(ctx context.Context) error {
	_, err := post[wire.AgentReply](ctx, c, call{path: "/v1/agents", body: struct{}{}})
	return err
}
