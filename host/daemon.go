package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/stream"
	"sessiondock.dev/sessiondock/daemon/wire"
)

const (
	dialWithin  = 2 * time.Second
	writeWithin = 10 * time.Second
	// Bounds of what may wait for the daemon.
	maxToDaemon      = 4096
	maxToDaemonBytes = wire.MaxMessage + 16<<20
	// maxEventBytes is how much may wait before events of pages are dropped.
	maxEventBytes = 32 << 20
	// smallFrame is up to where copying a message costs less than writing it in pieces.
	smallFrame = 64 << 10
)

var errDaemonSlow = errors.New("the daemon does not read what is sent to it")

// refusedError is the daemon's own refusal of a link, with its message as it came.
type refusedError struct {
	reason core.Error
	body   []byte
}

func (e *refusedError) Error() string { return e.reason.Error() }
func (e *refusedError) Unwrap() error { return &e.reason }

// daemonLink is one attested connection to the daemon.
type daemonLink struct {
	conn  *net.UnixConn
	w     io.Writer
	r     *bufio.Reader
	nonce core.Nonce

	mu     sync.Mutex
	queue  []net.Buffers
	bytes  int
	busy   bool
	wake   chan struct{}
	closed chan struct{}
	once   sync.Once
	behind bool // an event was dropped; of the reader of the browser's stream
}

// dialDaemon connects, checks who is at the other end, and says hello.
func dialDaemon(e environment, origin string) (*daemonLink, error) {
	if err := checkSocketDir(e.socket); err != nil {
		return nil, err
	}
	c, err := net.DialTimeout("unix", e.socket, dialWithin)
	if err != nil {
		return nil, core.Refuse(core.CodeUnavailable, "the daemon does not answer", "start it: sessiondock up")
	}
	conn := c.(*net.UnixConn)
	s, err := stream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l := &daemonLink{
		conn: conn, w: s, r: bufio.NewReaderSize(s, 32<<10),
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if err := l.greet(e, origin); err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

func (l *daemonLink) greet(e environment, origin string) error {
	if err := checkPeer(l.conn); err != nil {
		return err
	}
	if err := l.conn.SetDeadline(time.Now().Add(wire.HelloWithin)); err != nil {
		return err
	}
	hello, err := wire.Marshal(wire.HostHello{
		Version: wire.Version, Build: build(), Slot: e.slot, Launch: e.launch, Secret: e.secret, Origin: origin,
	})
	if err != nil {
		return err
	}
	if _, err := l.conn.Write(wire.AppendFrame(nil, binary.LittleEndian, hello)); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	body, err := wire.ReadFrame(l.r, binary.LittleEndian, wire.MaxToExtension)
	if err != nil {
		return fmt.Errorf("wait for welcome: %w", err)
	}
	t, err := wire.Type(body)
	switch {
	case err != nil:
		return err
	case t == "host.refused":
		return refusal(body)
	case t != "host.welcome":
		return fmt.Errorf("the daemon answered %q to hello", t)
	}
	var w wire.HostWelcome
	if err := json.Unmarshal(body, &w); err != nil {
		return err
	}
	if w.Nonce == "" {
		return errors.New("the daemon's welcome has no nonce")
	}
	l.nonce = w.Nonce
	return l.conn.SetDeadline(time.Time{})
}

func refusal(body []byte) error {
	var m wire.HostRefused
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	return &refusedError{m.Error, body}
}

// send queues a message for the daemon, in pieces. It never blocks, so that the
// reader of the browser's stream always sees its end; a daemon that does not read
// loses the link.
func (l *daemonLink) send(body ...[]byte) {
	n := 0
	for _, b := range body {
		n += len(b)
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(n))
	frame := append(make(net.Buffers, 0, len(body)+1), head)
	if n < smallFrame {
		// One piece, one call of the kernel.
		frame[0] = slices.Grow(head, n)
		for _, b := range body {
			frame[0] = append(frame[0], b...)
		}
	} else {
		frame = append(frame, body...)
	}
	l.mu.Lock()
	full := len(l.queue) >= maxToDaemon || l.bytes+n > maxToDaemonBytes
	if !full {
		l.queue = append(l.queue, frame)
		l.bytes += n
	}
	l.mu.Unlock()
	if full {
		l.close()
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// room says whether there is any for what may be dropped: half of the queue is kept for
// what may not.
func (l *daemonLink) room() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) < maxToDaemon/2 && l.bytes < maxEventBytes
}

// write is the one writer of the connection.
func (l *daemonLink) write() error {
	defer l.close()
	var set time.Time
	for {
		frame, n, ok := l.next()
		if !ok {
			select {
			case <-l.wake:
				continue
			case <-l.closed:
				return net.ErrClosed
			}
		}
		// Setting a deadline moves a timer: for many small messages one does.
		if now := time.Now(); now.Sub(set) > writeWithin/10 {
			if err := l.conn.SetWriteDeadline(now.Add(writeWithin)); err != nil {
				return err
			}
			set = now
		}
		for _, part := range frame {
			if _, err := l.w.Write(part); err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					return errDaemonSlow
				}
				return err
			}
		}
		if n > bigMessage {
			freeSoon()
		}
	}
}

func (l *daemonLink) next() (net.Buffers, int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue, l.busy = nil, false
		return nil, 0, false
	}
	frame := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	n := -4
	for _, b := range frame {
		n += len(b)
	}
	l.bytes -= n
	l.busy = true
	return frame, n, true
}

// flushed says whether everything queued was handed to the kernel.
func (l *daemonLink) flushed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.busy && len(l.queue) == 0
}

func (l *daemonLink) close() {
	l.once.Do(func() {
		close(l.closed)
		l.conn.Close()
	})
}

// checkSocketDir refuses a socket in a directory that somebody else could write:
// they could have put their own socket there, and would get the launch's secret.
func checkSocketDir(socket string) error {
	dir := filepath.Dir(socket)
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return core.Refuse(core.CodeUnavailable, "the daemon's directory is not there", "start the daemon: sessiondock up")
	}
	switch {
	case !filepath.IsAbs(socket):
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
	case int(st.Uid) != os.Geteuid():
	case st.Mode&0o7777 != 0o700:
	default:
		return nil
	}
	return core.Refuse(core.CodeDenied, "the daemon's directory is not this user's own, with mode 0700",
		"run sessiondock doctor; nothing was sent to that socket")
}

// checkPeer refuses a daemon of another user.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("read the daemon's credentials: %w", failed)
	}
	if int(cred.Uid) != os.Geteuid() {
		return core.Refuse(core.CodeDenied, fmt.Sprintf("the daemon's socket is held by user %d", cred.Uid),
			"run sessiondock doctor; nothing was sent to that socket")
	}
	return nil
}
