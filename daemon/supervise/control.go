package supervise

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// The keeper's socket carries one request and one answer a connection, each a
// line of JSON. The answer to a wait comes when the launch has ended.

const (
	maxLine        = 64 << 10 // of a request or an answer
	requestWithin  = 5 * time.Second
	answerWithin   = 5 * time.Second // of a status
	maxConnections = 32
)

type op string

const (
	opStatus op = "status"
	opStop   op = "stop"
	opWait   op = "wait"
)

// request names the launch it is meant for, so that a stop which comes late does
// not end a newer one.
type request struct {
	Op     op            `json:"op"`
	Launch core.LaunchID `json:"launch"`
	Mode   StopMode      `json:"mode,omitempty"`
}

type answer struct {
	Launch core.LaunchID `json:"launch"`
	State  string        `json:"state,omitempty"` // starting, running, stopping
	Ended  *Ended        `json:"ended,omitempty"`
	Error  *core.Error   `json:"error,omitempty"`
}

// errOtherLaunch says that a keeper answered, and that it keeps another launch.
var errOtherLaunch = errors.New("the keeper there keeps another launch")

// call dials a keeper, checks who answers and asks one thing. A keeper that is
// known by process must be that process; known is zero if it is not.
func call(ctx context.Context, socket string, known peer.Proc, q request) (answer, peer.Proc, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return answer{}, peer.Proc{}, err
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	// Ending the context ends every wait on the connection.
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()

	cred, err := peer.FromConn(conn)
	if err != nil {
		return answer{}, peer.Proc{}, err
	}
	defer cred.Close()
	who := peer.Proc{PID: cred.PID, StartTime: cred.StartTime, Comm: "keeper"}
	if e := peer.SameUID(cred); e != nil {
		return answer{}, who, e
	}
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return answer{}, who, err
	}
	line, err := readLine(conn)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return answer{}, who, err
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return answer{}, who, err
	}
	switch {
	case a.Launch != q.Launch:
		return a, who, errOtherLaunch
	case known.PID != 0 && !known.Same(who):
		return a, who, fmt.Errorf("pid %d answers as the keeper of launch %s; recorded is pid %d", who.PID, q.Launch, known.PID)
	case a.Error != nil:
		return a, who, a.Error
	}
	return a, who, nil
}

func readLine(r io.Reader) ([]byte, error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	if s.Scan() {
		return s.Bytes(), nil
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// serve answers connections until the listener is closed.
func (k *keeper) serve(l *net.UnixListener) {
	room := make(chan struct{}, maxConnections)
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			k.log.Warn("accept", "err", err)
			time.Sleep(100 * time.Millisecond) // out of descriptors, most likely
			continue
		}
		select {
		case room <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		k.talks.Add(1)
		go func() {
			defer func() { conn.Close(); <-room; k.talks.Done() }()
			k.talk(conn)
		}()
	}
}

func (k *keeper) talk(conn *net.UnixConn) {
	cred, err := peer.FromConn(conn)
	if err != nil {
		k.log.Warn("peer not known", "err", err)
		return
	}
	defer cred.Close()
	reply := func(a answer) {
		a.Launch = k.spec.Launch
		conn.SetWriteDeadline(time.Now().Add(requestWithin))
		if err := json.NewEncoder(conn).Encode(a); err != nil {
			k.log.Info("answer not delivered", "pid", cred.PID, "err", err)
		}
	}
	if e := peer.SameUID(cred); e != nil {
		reply(answer{Error: e})
		return
	}
	conn.SetReadDeadline(time.Now().Add(requestWithin))
	var q request
	line, err := readLine(conn)
	if err == nil {
		err = json.Unmarshal(line, &q)
	}
	if err != nil {
		reply(answer{Error: core.Refuse(core.CodeInvalid, "not a request: "+err.Error(), "send one line of JSON")})
		return
	}
	if q.Launch != k.spec.Launch {
		reply(answer{Error: core.Refuse(core.CodeConflict, "this keeper keeps launch "+string(k.spec.Launch), "ask for that one")})
		return
	}
	switch q.Op {
	case opStatus:
		reply(answer{State: k.state()})
	case opWait:
		select {
		case <-k.done:
			reply(answer{Ended: &k.result})
		case <-hungUp(conn):
		}
	case opStop:
		if q.Mode != StopClean && q.Mode != StopNow {
			reply(answer{Error: core.Refuse(core.CodeInvalid, fmt.Sprintf("no such mode %q", q.Mode), "clean or now")})
			return
		}
		k.log.Info("stop asked", "mode", q.Mode, "pid", cred.PID)
		k.stop(q.Mode)
		// The end goes on if the asker goes; it is told if it stays.
		t := time.NewTimer(stopWithin)
		defer t.Stop()
		select {
		case <-k.done:
			reply(answer{Ended: &k.result})
		case <-t.C:
			reply(answer{Ended: k.unverified()})
		case <-hungUp(conn):
		}
	default:
		reply(answer{Error: core.Refuse(core.CodeInvalid, fmt.Sprintf("no such operation %q", q.Op), "status, stop or wait")})
	}
}

// hungUp is closed when the other end closes. Its goroutine ends with the
// connection.
func hungUp(conn *net.UnixConn) <-chan struct{} {
	ch := make(chan struct{})
	conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(ch)
		io.Copy(io.Discard, conn)
	}()
	return ch
}
