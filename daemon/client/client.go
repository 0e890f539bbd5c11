package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// How long a call may take beyond what it asks the daemon to wait.
const (
	// callTimeout bounds a call that waits for nothing but the daemon itself.
	callTimeout = 10 * time.Second
	// changeTimeout bounds a person's verb: a clean stop takes up to 10 s, a
	// drain wire.DrainDeadline.
	changeTimeout = wire.DrainDeadline + 15*time.Second
	// waitMargin is added to a deadline that the daemon itself keeps, so that its
	// answer, which knows more, arrives before ours.
	waitMargin = 10 * time.Second
	// maxAnswer bounds an answer: the largest result and its record.
	maxAnswer = wire.MaxMessage + 1<<20
)

// Secret is a delegation token or a lease's capability. It is sent in the
// Authorization header and prints as "[secret]".
type Secret string

func (Secret) String() string   { return "[secret]" }
func (Secret) GoString() string { return "[secret]" }

// Client speaks to one socket of the daemon: api.sock (agents) or control.sock
// (people). It is safe for concurrent use.
type Client struct {
	socket string
	t      transport
}

// New returns a client of the socket at path. It does not connect yet.
func New(path string) *Client {
	return &Client{socket: path, t: transport{dial: func(ctx context.Context) (*net.UnixConn, error) { return dial(ctx, path) }}}
}

// Socket is the path that the client speaks to.
func (c *Client) Socket() string { return c.socket }

// Close ends idle connections.
func (c *Client) Close() { c.t.close() }

// call is one request of the API.
type call struct {
	method  string
	path    string // its variable parts escaped
	query   url.Values
	secret  Secret
	body    any
	timeout time.Duration // 0: callTimeout
	// lookUp tells, of a change, how to learn whether it happened.
	lookUp string
}

// do sends one request and decodes its answer into out (nil: no body wanted).
func (c *Client) do(ctx context.Context, k call, out any) error {
	if k.timeout == 0 {
		k.timeout = callTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	req, err := c.request(ctx, k)
	if err != nil {
		return err
	}
	resp, sent, err := c.t.roundTrip(req)
	if err != nil {
		return c.transportError(k, sent, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.transportError(k, true, err)
	case len(data) > maxAnswer:
		return c.badAnswer(k, fmt.Sprintf("an answer of more than %d bytes", maxAnswer))
	case resp.StatusCode/100 != 2:
		return c.refusal(k, resp.StatusCode, data)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return c.badAnswer(k, "an answer that cannot be read: "+err.Error())
	}
	return nil
}

// request builds the HTTP request.
func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	var body io.Reader
	if k.body != nil {
		data, err := json.Marshal(k.body)
		if err != nil {
			return nil, core.Refuse(core.CodeInvalid, "the request cannot be encoded: "+err.Error(), "")
		}
		if len(data) > wire.MaxBody {
			return nil, core.Refuse(core.CodeLimit,
				fmt.Sprintf("the request has %d bytes, at most %d are taken", len(data), wire.MaxBody), "send less at once")
		}
		body = bytes.NewReader(data)
	}
	// The host is a name only: the connection is the unix socket.
	target := "http://localhost" + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return nil, core.Refuse(core.CodeInvalid, err.Error(), "")
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if k.secret != "" {
		req.Header.Set("Authorization", "Bearer "+string(k.secret))
	}
	return req, nil
}

func (k call) changes() bool { return k.method != http.MethodGet }

// transportError tells apart what is proved (no connection, so nothing was sent)
// from what is not.
func (c *Client) transportError(k call, sent bool, err error) error {
	switch {
	case !sent:
		return unreachable(c.socket, err)
	case k.changes():
		return k.unknown("the connection to the daemon ended before its answer: " + cause(err))
	case errors.Is(err, context.DeadlineExceeded):
		return core.Refuse(core.CodeDeadline, "the daemon did not answer in time", "ask again")
	case errors.Is(err, context.Canceled):
		return core.Refuse(core.CodeDeadline, "the call was cancelled", "")
	}
	return core.Refuse(core.CodeUnavailable, "the connection to the daemon ended before its answer: "+cause(err), "ask again")
}

// unknown is the outcome of a change whose answer was lost.
func (k call) unknown(why string) error {
	hint := k.lookUp
	if hint == "" {
		hint = "it may have happened; look at `sessiondock status` before you ask again"
	}
	return core.Refuse(core.CodeOutcomeUnknown, why, hint)
}

// badAnswer: the daemon answered, but not in a way that says what it did.
func (c *Client) badAnswer(k call, what string) error {
	if k.changes() {
		return k.unknown("the daemon gave " + what)
	}
	return core.Refuse(core.CodeVersionSkew, "the daemon gave "+what,
		"compare `sessiondock version` with the running daemon; restart it after an update")
}

// refusal decodes the API's error body.
func (c *Client) refusal(k call, status int, data []byte) error {
	var body wire.ErrorBody
	if err := json.Unmarshal(data, &body); err != nil || body.Error.Code == "" {
		return c.badAnswer(k, fmt.Sprintf("HTTP status %d without a refusal", status))
	}
	return &body.Error
}

// unreachable is the error of a socket that nobody of ours answers at.
func unreachable(socket string, err error) error {
	if e, ok := errors.AsType[*core.Error](err); ok {
		return e
	}
	return core.Refuse(core.CodeUnavailable, "no daemon answers at "+socket+": "+cause(err), "sessiondock up --detach")
}

// cause is the innermost text of a transport error, without the URL and the
// socket that the callers name already.
func cause(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	return err.Error()
}
