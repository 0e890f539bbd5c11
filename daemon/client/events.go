package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// maxEventLine bounds one line of the event stream; a row is a few hundred bytes.
const maxEventLine = 256 << 10

// Health is the answer of /v1/healthz.
type Health struct {
	OK         bool   `json:"ok"`
	Version    int    `json:"version"` // of the protocol
	Build      string `json:"build"`
	PID        int    `json:"pid"`
	Supervisor string `json:"supervisor"` // of new browsers: systemd, direct
	Why        string `json:"supervisor_why,omitempty"`
	Extension  string `json:"extension"` // the identifier of the installation's extension
}

// Health asks whether the daemon serves.
func (c *Client) Health(ctx context.Context) (*Health, error) {
	return get[Health](ctx, c, call{path: "/v1/healthz"})
}

// Events reads up to limit rows of the journal after a sequence number.
func (c *Client) Events(ctx context.Context, after int64, limit int) ([]wire.EventRow, error) {
	return list[wire.EventRow](ctx, c, call{path: "/v1/events", query: url.Values{
		"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(limit)},
	}})
}

// Follow calls each with every row after a sequence number as it is written. It
// returns nil when ctx ends, the error of each, or core.CodeUnavailable when the
// stream ends; then go on after the last row. The wait for the next row has no
// deadline but ctx: silence is the usual state, and the daemon's end closes the
// socket.
func (c *Client) Follow(ctx context.Context, after int64, each func(wire.EventRow) error) error {
	k := call{method: "GET", path: "/v1/events", query: url.Values{
		"after": {strconv.FormatInt(after, 10)}, "follow": {"1"},
	}}
	var sent atomic.Bool
	req, err := c.request(ctx, k, &sent)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := c.http.Do(req)
	if ctx.Err() != nil {
		if err == nil {
			resp.Body.Close()
		}
		return nil
	}
	if err != nil {
		return c.transportError(k, sent.Load(), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c.streamRefusal(k, resp)
	}
	return c.readStream(ctx, resp, each)
}

func (c *Client) streamRefusal(k call, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxEventLine))
	if err != nil {
		return c.transportError(k, true, err)
	}
	return c.refusal(k, resp.StatusCode, body)
}

// readStream reads server-sent events. Only data lines matter: a row carries its
// own sequence number.
func (c *Client) readStream(ctx context.Context, resp *http.Response, each func(wire.EventRow) error) error {
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)
	var data strings.Builder
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "data:"); ok {
			if data.Len()+len(rest) > maxEventLine {
				return core.Refuse(core.CodeLimit, "an event is longer than its bound", "")
			}
			data.WriteString(strings.TrimPrefix(rest, " "))
			continue
		}
		if line != "" || data.Len() == 0 {
			continue
		}
		var row wire.EventRow
		if err := json.Unmarshal([]byte(data.String()), &row); err != nil {
			return core.Refuse(core.CodeVersionSkew, fmt.Sprintf("an event that cannot be read: %v", err),
				"compare `sessiondock version` with the running daemon")
		}
		data.Reset()
		if err := each(row); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	err := lines.Err()
	if err == nil {
		err = errors.New("the daemon closed it")
	}
	return core.Refuse(core.CodeUnavailable, "the event stream ended: "+cause(err), "ask again after the last row that you have")
}
