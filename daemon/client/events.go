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
	Database   string `json:"database"`  // what is wrong with the database: nothing is written then, and it is not OK
	Hint       string `json:"database_hint"`
}

// Health asks whether the daemon serves.
func (c *Client) Health(ctx context.Context) (*Health, error) {
	return get[Health](ctx, c, call{path: "/v1/healthz"})
}

// EventQuery asks for a part of the journal.
type EventQuery struct {
	After  int64         // after this sequence number
	Newest int           // the last so many, instead of After; 0: as After says
	Limit  int           // at most so many; 0: as many as one answer holds
	Slot   core.SlotName // of one slot only
}

func (q EventQuery) values() url.Values {
	v := url.Values{}
	for name, n := range map[string]int64{"after": q.After, "newest": int64(q.Newest), "limit": int64(q.Limit)} {
		if n > 0 {
			v.Set(name, strconv.FormatInt(n, 10))
		}
	}
	if q.Slot != "" {
		v.Set("slot", string(q.Slot))
	}
	return v
}

// Events reads up to limit rows of the journal after a sequence number.
func (c *Client) Events(ctx context.Context, after int64, limit int) ([]wire.EventRow, error) {
	return c.Journal(ctx, EventQuery{After: after, Limit: limit})
}

// Journal reads a part of the journal. Where entries that were asked for are not kept any
// more, the first row is of kind core.NotKept.
func (c *Client) Journal(ctx context.Context, q EventQuery) ([]wire.EventRow, error) {
	return list[wire.EventRow](ctx, c, call{path: "/v1/events", query: q.values()})
}

// Follow calls each with every row of the journal that q asks for, as it is written. It
// returns nil when ctx ends, the error of each, or core.CodeUnavailable when the stream
// ends. Q moves on with the stream: a call with the same q goes on without gap or repeat,
// with another daemon too. The wait for the next row has no deadline but ctx: silence is
// the usual state, and the daemon's end closes the socket.
func (c *Client) Follow(ctx context.Context, q *EventQuery, each func(wire.EventRow) error) error {
	return c.follow(ctx, call{method: "GET", path: "/v1/events"}, q, each)
}

// FollowLease does so with what the journal says of one lease, for its agent.
func (c *Client) FollowLease(ctx context.Context, lease core.LeaseID, capability Secret, q *EventQuery, each func(wire.EventRow) error) error {
	return c.follow(ctx, call{method: "GET", path: "/v1/leases/" + url.PathEscape(string(lease)) + "/events", secret: capability}, q, each)
}

func (c *Client) follow(ctx context.Context, k call, q *EventQuery, each func(wire.EventRow) error) error {
	k.query = q.values()
	k.query.Set("follow", "1")
	req, err := c.request(ctx, k)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, sent, err := c.t.roundTrip(req)
	if ctx.Err() != nil {
		if err == nil {
			resp.Body.Close()
		}
		return nil
	}
	if err != nil {
		return c.transportError(k, sent, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c.streamRefusal(k, resp)
	}
	return c.readStream(ctx, resp, q, each)
}

func (c *Client) streamRefusal(k call, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxEventLine))
	if err != nil {
		return c.transportError(k, true, err)
	}
	return c.refusal(k, resp.StatusCode, body)
}

// readStream reads server-sent events: lines of id and data, and a blank one that ends an
// event. An id without data only tells how far the stream has come.
func (c *Client) readStream(ctx context.Context, resp *http.Response, q *EventQuery, each func(wire.EventRow) error) error {
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)
	var id, data string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id = value
		case "data":
			data += value
		}
		if len(data) > maxEventLine {
			return core.Refuse(core.CodeLimit, "an event is longer than its bound", "")
		}
		if lines.Text() != "" {
			continue
		}
		if data != "" {
			var row wire.EventRow
			if err := json.Unmarshal([]byte(data), &row); err != nil {
				return core.Refuse(core.CodeVersionSkew, fmt.Sprintf("an event that cannot be read: %v", err),
					"compare `sessiondock version` with the running daemon")
			}
			if err := each(row); err != nil {
				return err
			}
		}
		if n, err := strconv.ParseInt(id, 10, 64); err == nil {
			q.After, q.Newest = n, 0
		}
		id, data = "", ""
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
