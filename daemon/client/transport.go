package client

import (
	"bufio"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/stream"
)

const (
	// maxIdle bounds the connections that are kept for the next calls.
	maxIdle = 8
	// idleFor is how long one is kept: well below the time after which the daemon
	// closes it.
	idleFor = 30 * time.Second
	// maxHead bounds the head of an answer.
	maxHead = 64 << 10
)

// transport carries calls over connections to one socket, one call at a time on each.
// It reads and writes HTTP as net/http does, without http.Transport: its goroutines,
// two a connection, to which a call is handed and from which its answer is taken, cost
// more of a small call than the call.
type transport struct {
	dial func(context.Context) (*net.UnixConn, error)

	mu   sync.Mutex
	idle []*conn // the last used last
}

// conn is one connection.
type conn struct {
	*net.UnixConn
	in    *io.LimitedReader // under r
	r     *bufio.Reader
	w     *bufio.Writer
	since time.Time // it is idle
}

// roundTrip sends a request and returns once the head of its answer is there. Sent says
// whether anything of the request may have reached the daemon. A request is never sent
// a second time.
func (t *transport) roundTrip(req *http.Request) (resp *http.Response, sent bool, err error) {
	ctx := req.Context()
	c, err := t.conn(ctx)
	if err != nil {
		return nil, false, err
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	written := req.Write(c.w)
	if written == nil {
		written = c.w.Flush()
	}
	// A daemon that did not want all of the request may have said why.
	c.in.N = maxHead
	resp, err = http.ReadResponse(c.r, req)
	c.in.N = math.MaxInt64
	if err == nil {
		resp.Body = &answer{ReadCloser: resp.Body, t: t, c: c, stop: stop, keep: written == nil && !resp.Close}
		return resp, true, nil
	}
	stop()
	c.Close()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case written != nil:
		err = written
	}
	return nil, true, err
}

// conn returns a connection on which nothing is under way.
func (t *transport) conn(ctx context.Context) (*conn, error) {
	for c := t.take(); c != nil; c = t.take() {
		if time.Since(c.since) < idleFor && c.quiet() {
			return c, nil
		}
		c.Close()
	}
	u, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	rw, err := stream.New(u)
	if err != nil {
		u.Close()
		return nil, err
	}
	in := &io.LimitedReader{R: rw}
	return &conn{UnixConn: u, in: in, r: bufio.NewReader(in), w: bufio.NewWriter(rw)}, nil
}

func (t *transport) take() *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.idle)
	if n == 0 {
		return nil
	}
	c := t.idle[n-1]
	t.idle = t.idle[:n-1]
	return c
}

func (t *transport) keep(c *conn) {
	c.since = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle) == maxIdle {
		c.Close()
		return
	}
	t.idle = append(t.idle, c)
}

// close ends the connections that nobody uses.
func (t *transport) close() {
	for c := t.take(); c != nil; c = t.take() {
		c.Close()
	}
}

// quiet says whether the daemon has neither closed the connection nor said anything on
// it that nobody asked for.
func (c *conn) quiet() bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		open = err == unix.EAGAIN
	})
	return open && err == nil
}

// answer is an answer's body. At its end the connection is there for the next call.
type answer struct {
	io.ReadCloser
	t    *transport
	c    *conn
	stop func() bool // its context's end, from ending the connection
	keep bool
}

func (a *answer) Read(p []byte) (int, error) {
	if a.c == nil {
		return 0, io.EOF
	}
	n, err := a.ReadCloser.Read(p)
	if err == io.EOF {
		a.done(a.keep)
	}
	return n, err
}

func (a *answer) Close() error {
	a.done(false)
	return nil
}

func (a *answer) done(whole bool) {
	if a.c == nil {
		return
	}
	// If its context ends at this moment, the connection may be ended by that.
	if alive := a.stop(); alive && whole {
		a.t.keep(a.c)
	} else {
		a.c.Close()
	}
	a.c = nil
}
