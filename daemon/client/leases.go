package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"time"

	"github.com/oklog/ulid/v2"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// startAllowance is how long an acquire may take beyond its wait: the daemon gives
// a granted lease's browser 30 s to start, and answers before this.
const startAllowance = 30*time.Second + waitMargin

// NewID returns a new identifier for an action or an acquire request.
func NewID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

func seg(s string) string { return url.PathEscape(s) }

func leasePath(lease core.LeaseID, rest string) string {
	return "/v1/leases/" + seg(string(lease)) + rest
}

// Acquire asks for a lease and claims the grant at once, because an unclaimed
// grant is withdrawn. On control.sock the delegation may be empty: a person
// delegates and acquires in one step. An empty RequestID gets a new one; the same
// one returns the same lease, which is how a lost answer is mended. If only the
// claim fails, the reply comes with the error.
func (c *Client) Acquire(ctx context.Context, delegation Secret, r wire.AcquireRequest) (*wire.LeaseReply, error) {
	if r.RequestID == "" {
		r.RequestID = NewID()
	}
	var out wire.LeaseReply
	err := c.do(ctx, call{
		method: "POST", path: "/v1/leases", secret: delegation, body: r,
		timeout: time.Duration(r.WaitMs)*time.Millisecond + startAllowance,
		lookUp:  fmt.Sprintf("a lease may have been granted; acquire again with request_id %s returns the same one", r.RequestID),
	}, &out)
	if err != nil {
		return nil, err
	}
	return c.claim(ctx, &out, Secret(out.Capability))
}

// claim makes the first authenticated request of a new grant. If that fails, the
// grant comes with the error.
func (c *Client) claim(ctx context.Context, granted *wire.LeaseReply, capability Secret) (*wire.LeaseReply, error) {
	if granted.State != core.LeaseGranted || capability == "" {
		return granted, nil
	}
	claimed, err := c.Lease(ctx, granted.Lease, capability)
	if err != nil {
		return granted, err
	}
	claimed.Capability = granted.Capability // it is shown once, and the claim does not repeat it
	return claimed, nil
}

// Lease reads a lease. With its capability it also claims a grant.
func (c *Client) Lease(ctx context.Context, lease core.LeaseID, capability Secret) (*wire.LeaseReply, error) {
	return get[wire.LeaseReply](ctx, c, call{path: leasePath(lease, ""), secret: capability})
}

// Renew extends a lease within its maximum lifetime.
func (c *Client) Renew(ctx context.Context, lease core.LeaseID, capability Secret, r wire.RenewRequest) (*wire.LeaseReply, error) {
	return post[wire.LeaseReply](ctx, c, call{path: leasePath(lease, "/renew"), secret: capability, body: r, lookUp: leaseHint(lease)})
}

// Release ends a lease by its holder.
func (c *Client) Release(ctx context.Context, lease core.LeaseID, capability Secret) (*wire.LeaseReply, error) {
	return post[wire.LeaseReply](ctx, c, call{
		path: leasePath(lease, "/release"), secret: capability, body: struct{}{}, timeout: changeTimeout, lookUp: leaseHint(lease),
	})
}

// Resume takes a suspended lease up again, at a new epoch, and claims that grant as
// Acquire does.
func (c *Client) Resume(ctx context.Context, lease core.LeaseID, capability Secret, r wire.ResumeRequest) (*wire.LeaseReply, error) {
	granted, err := post[wire.LeaseReply](ctx, c, call{
		path: leasePath(lease, "/resume"), secret: capability, body: r, lookUp: leaseHint(lease),
		timeout: time.Duration(r.WaitMs)*time.Millisecond + startAllowance,
	})
	if err != nil {
		return nil, err
	}
	return c.claim(ctx, granted, capability)
}

// Revoke ends any lease by a person (control.sock).
func (c *Client) Revoke(ctx context.Context, lease core.LeaseID, r wire.ChangeRequest) (*wire.LeaseReply, error) {
	return post[wire.LeaseReply](ctx, c, call{
		path: leasePath(lease, "/revoke"), body: r, timeout: changeTimeout, lookUp: leaseHint(lease),
	})
}

// Ask asks a person for something.
func (c *Client) Ask(ctx context.Context, lease core.LeaseID, capability Secret, reason string) (*wire.LeaseReply, error) {
	return post[wire.LeaseReply](ctx, c, call{
		path: leasePath(lease, "/ask"), secret: capability, body: wire.AskRequest{Reason: reason}, lookUp: leaseHint(lease),
	})
}

// Answer is a person's answer to that (control.sock).
func (c *Client) Answer(ctx context.Context, lease core.LeaseID, r wire.AnswerRequest) (*wire.LeaseReply, error) {
	return post[wire.LeaseReply](ctx, c, call{path: leasePath(lease, "/answer"), body: r, lookUp: leaseHint(lease)})
}

func retainPath(lease core.LeaseID, id core.RetentionID, verb string) string {
	return leasePath(lease, "/retain/"+seg(string(id))+"/"+verb)
}

// Retain asks for a longer maximum lifetime.
func (c *Client) Retain(ctx context.Context, lease core.LeaseID, capability Secret, r wire.RetainRequest) (*wire.LeaseReply, error) {
	return post[wire.LeaseReply](ctx, c, call{path: leasePath(lease, "/retain"), secret: capability, body: r, lookUp: leaseHint(lease)})
}

// Decide approves or refuses that, by a person (control.sock).
func (c *Client) Decide(ctx context.Context, lease core.LeaseID, id core.RetentionID, r wire.AnswerRequest) (*wire.LeaseReply, error) {
	return post[wire.LeaseReply](ctx, c, call{path: retainPath(lease, id, "decide"), body: r, lookUp: leaseHint(lease)})
}

// Acknowledge takes up what a person approved.
func (c *Client) Acknowledge(ctx context.Context, lease core.LeaseID, capability Secret, id core.RetentionID) (*wire.LeaseReply, error) {
	return post[wire.LeaseReply](ctx, c, call{
		path: retainPath(lease, id, "acknowledge"), secret: capability, body: struct{}{}, lookUp: leaseHint(lease),
	})
}

// Queue tells where the requests of a delegation stand that wait.
func (c *Client) Queue(ctx context.Context, delegation Secret) ([]wire.QueueRow, error) {
	return list[wire.QueueRow](ctx, c, call{path: "/v1/queue", secret: delegation})
}

// Leases lists every lease that has not ended (control.sock).
func (c *Client) Leases(ctx context.Context) ([]wire.LeaseReply, error) {
	return list[wire.LeaseReply](ctx, c, call{path: "/v1/leases"})
}

func leaseHint(lease core.LeaseID) string {
	return fmt.Sprintf("it may have happened; `sessiondock lease show %s` tells", lease)
}

// Act asks for one action. Its outcome stands in the record's three fields; an
// error means that there is no record to read it from. After a lost answer the
// same request, with the same identifier, returns the record and never runs the
// action a second time; LookUp does so without the body.
func (c *Client) Act(ctx context.Context, lease core.LeaseID, capability Secret, r wire.ActRequest) (*core.Record, error) {
	deadline := time.Duration(r.DeadlineMs) * time.Millisecond
	if deadline <= 0 {
		deadline = wire.ActionDeadline
	}
	return post[core.Record](ctx, c, call{
		path: leasePath(lease, "/actions"), secret: capability, body: r, timeout: deadline + waitMargin,
		lookUp: fmt.Sprintf("do not send it under a new id; look it up: `sessiondock act %s --look-up %s`", lease, r.ID),
	})
}

// OpenStart opens the start page of a lease's binding: in the tab in front, or in a new one
// where the lease has none, because whatever is open in the slot is not within its origins.
func (c *Client) OpenStart(ctx context.Context, lease core.LeaseID, capability Secret, epoch core.Epoch, page string) (*core.Record, error) {
	open := func(a wire.Act) (*core.Record, error) {
		return c.Act(ctx, lease, capability, wire.ActRequest{ID: core.ClientID(NewID()), Epoch: &epoch, Act: a})
	}
	r, err := open(wire.Act{Verb: "navigate", URL: page})
	if err == nil && r.Local == core.NotDispatched && r.Error != nil && r.Error.Code == core.CodeNotFound {
		return open(wire.Act{Verb: "tabs", Op: "new", URL: page})
	}
	return r, err
}

// LookUp reads the record of one of the lease's own actions by the client's
// identifier.
func (c *Client) LookUp(ctx context.Context, lease core.LeaseID, capability Secret, id core.ClientID) (*core.Record, error) {
	return get[core.Record](ctx, c, call{path: leasePath(lease, "/actions/"+seg(string(id))), secret: capability})
}

func get[T any](ctx context.Context, c *Client, k call) (*T, error) {
	k.method = "GET"
	return one[T](ctx, c, k)
}

func post[T any](ctx context.Context, c *Client, k call) (*T, error) {
	k.method = "POST"
	return one[T](ctx, c, k)
}

func one[T any](ctx context.Context, c *Client, k call) (*T, error) {
	out := new(T)
	if err := c.do(ctx, k, out); err != nil {
		return nil, err
	}
	return out, nil
}

// list never returns a nil slice without an error, so that JSON says [].
func list[T any](ctx context.Context, c *Client, k call) ([]T, error) {
	k.method = "GET"
	out := []T{}
	if err := c.do(ctx, k, &out); err != nil {
		return nil, err
	}
	if out == nil {
		out = []T{}
	}
	return out, nil
}
