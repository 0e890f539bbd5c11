package supervise

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// relay passes the browser's debugging pipe on to one client at a time, bytes as
// they are. It exists for demonstrations, tests and benchmarks.
//
// Messages end with a zero byte. A client begins at the start of a message, and
// one that leaves in the middle of its own has it ended for it, so that the next
// client is understood. A client that leaves does not end the browser, which
// would take a closed pipe as the order to go.
type relay struct {
	toBrowser   *os.File
	fromBrowser *os.File

	mu      sync.Mutex
	client  *net.UnixConn
	aligned bool // the client has been given the start of a message
	whole   bool // the last byte from the browser ended a message
}

// clientWithin bounds one write to a client. One that does not read is dropped
// rather than let the browser's pipe fill.
const clientWithin = 5 * time.Second

func newRelay(toBrowser, fromBrowser *os.File) *relay {
	return &relay{toBrowser: toBrowser, fromBrowser: fromBrowser, whole: true}
}

// pump reads the browser's end until it closes. What no client takes is dropped,
// so that the browser never waits.
func (r *relay) pump() {
	buf := make([]byte, 256<<10)
	for {
		n, err := r.fromBrowser.Read(buf)
		r.deliver(buf[:n])
		if err != nil {
			return
		}
	}
}

func (r *relay) deliver(part []byte) {
	if len(part) == 0 {
		return
	}
	r.mu.Lock()
	client, rest := r.client, part
	if client != nil && !r.aligned {
		if !r.whole { // the tail of a message that began before it came
			_, rest, r.aligned = bytes.Cut(part, []byte{0})
		} else {
			r.aligned = true
		}
		if !r.aligned {
			client = nil
		}
	}
	r.whole = part[len(part)-1] == 0
	r.mu.Unlock()
	if client == nil || len(rest) == 0 {
		return
	}
	client.SetWriteDeadline(time.Now().Add(clientWithin))
	if _, err := client.Write(rest); err != nil {
		client.Close()
	}
}

// serve takes clients until the listener is closed.
func (r *relay) serve(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		r.mu.Lock()
		taken := r.client != nil
		if !taken {
			r.client, r.aligned = conn, false
		}
		r.mu.Unlock()
		if taken {
			conn.Close()
			continue
		}
		go r.attend(conn)
	}
}

func (r *relay) attend(conn *net.UnixConn) {
	whole := true
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if _, werr := r.toBrowser.Write(buf[:n]); werr != nil {
				break
			}
			whole = buf[n-1] == 0
		}
		if err != nil {
			break
		}
	}
	if !whole {
		io.WriteString(r.toBrowser, "\x00")
	}
	conn.Close()
	r.mu.Lock()
	r.client = nil
	r.mu.Unlock()
}
