package cdp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// Codes with which a client's socket is closed. The reason says more.
const (
	CloseFenced   = websocket.StatusCode(4001) // the epoch has ended: a takeover, a release, an expiry
	CloseUnlinked = websocket.StatusCode(4002) // the browser's link was lost, and the epoch with it
	CloseSlow     = websocket.StatusCode(4003) // the client does not read, or missed events
	CloseFlood    = websocket.StatusCode(4004) // more commands, or larger ones, than are taken
)

const (
	maxConns   = 256
	maxClients = 8                // of one lease, if they ask to be beside each other
	readyWait  = 60 * time.Second // for a browser that comes up
	beside     = "beside"         // the query that joins a client which is there already
)

// Server is the endpoint of one daemon.
type Server struct {
	engine *engine.Engine
	log    *slog.Logger
	dir    func(*core.Lease) string // of uploads
	l      net.Listener
	key    [32]byte

	mu    sync.Mutex
	desks map[core.SlotName]*desk
	group sync.WaitGroup
	done  chan struct{} // closed when the daemon ends
}

// Listen opens the endpoint on a port of 127.0.0.1 that the kernel chooses. Whoever has
// an address of an earlier daemon's finds nothing of this one's.
func Listen(e *engine.Engine, uploads func(*core.Lease) string, log *slog.Logger) (*Server, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{engine: e, log: log, dir: uploads, l: l, desks: map[core.SlotName]*desk{}, done: make(chan struct{})}
	rand.Read(s.key[:])
	return s, nil
}

// URL is the address for a lease at its epoch, or "" if it has no control.
func (s *Server) URL(l *core.Lease) string {
	if l.State != core.LeaseActive && l.State != core.LeaseGranted {
		return ""
	}
	return "ws://" + s.l.Addr().String() + "/devtools/browser/" + s.secret(l.ID, l.Epoch)
}

// secret names the lease and the epoch, which are no secrets, so that a former one is
// told why it is refused; what follows proves that this daemon has given it out.
func (s *Server) secret(lease core.LeaseID, epoch core.Epoch) string {
	name := string(lease) + "-" + strconv.FormatUint(uint64(epoch), 10)
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write([]byte(name))
	return name + "-" + hex.EncodeToString(mac.Sum(nil))
}

// proof says which lease and epoch a secret was given to.
func (s *Server) proof(secret string) (core.LeaseID, core.Epoch, bool) {
	lease, rest, _ := strings.Cut(secret, "-")
	number, _, _ := strings.Cut(rest, "-")
	epoch, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return "", 0, false
	}
	want := s.secret(core.LeaseID(lease), core.Epoch(epoch))
	return core.LeaseID(lease), core.Epoch(epoch), hmac.Equal([]byte(want), []byte(secret))
}

// Serve serves until ctx ends, and then waits for its clients.
func (s *Server) Serve(ctx context.Context) error {
	srv := &http.Server{
		Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() {
		close(s.done)
		srv.Close()
	})
	defer stop()
	l := s.places()
	defer l.who.close()
	err := srv.Serve(l)
	s.endAll(websocket.StatusGoingAway, "the daemon is ending")
	s.group.Wait()
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return err
}

// bounded accepts so many connections of this user's at a time and closes the others, and
// those of other users at once.
type bounded struct {
	net.Listener
	free   chan struct{}
	who    *whose // nil: it cannot be told
	log    *slog.Logger
	warned bool
}

func (s *Server) places() *bounded {
	who, err := openWhose(s.l.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		s.log.Warn("connections of other users cannot be told apart", "err", err)
	}
	return &bounded{Listener: s.l, free: make(chan struct{}, maxConns), who: who, log: s.log}
}

type boundedConn struct {
	net.Conn
	once sync.Once
	free chan struct{}
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.who != nil {
			ours, err := b.who.ours(conn)
			if err != nil && !b.warned {
				b.warned = true
				b.log.Warn("connections of other users cannot be told apart", "err", err)
			}
			if !ours {
				conn.Close()
				continue
			}
		}
		select {
		case b.free <- struct{}{}:
			return &boundedConn{Conn: conn, free: b.free}, nil
		default:
			conn.Close()
		}
	}
}

func (c *boundedConn) Close() error {
	c.once.Do(func() { <-c.free })
	return c.Conn.Close()
}

// serve answers one request. A page must not get this far: browsers send an Origin with
// a WebSocket and with whatever else a page may ask of another origin, and a name that a
// website has pointed at this machine is in the Host.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if len(r.Header.Values("Origin")) > 0 {
		refuse(w, http.StatusForbidden, "a request with an Origin is refused: pages are not served here")
		return
	}
	if r.Host != s.l.Addr().String() {
		refuse(w, http.StatusForbidden, "the Host must be "+s.l.Addr().String())
		return
	}
	if r.Method != http.MethodGet {
		refuse(w, http.StatusMethodNotAllowed, "only GET is answered")
		return
	}
	secret, page, ok := split(r.URL.Path)
	lease, epoch, proved := s.proof(secret)
	if !ok || !proved {
		refuse(w, http.StatusForbidden, "this address was not given out by this daemon: acquire or resume a lease, its cdp_url is the address")
		return
	}
	d, status, err := s.ready(r.Context(), lease, epoch)
	if err != nil {
		refuse(w, status, text(err))
		return
	}
	switch page {
	case "browser":
		s.connect(w, r, d)
	case "json/version":
		reply(w, map[string]string{
			"Browser": product(d.userAgent()), "Protocol-Version": "1.3", "User-Agent": d.userAgent(), "V8-Version": "", "WebKit-Version": "",
			"webSocketDebuggerUrl": "ws://" + s.l.Addr().String() + "/devtools/browser/" + secret,
		})
	case "json", "json/list":
		reply(w, d.list())
	default:
		refuse(w, http.StatusNotFound, "there is json/version, json/list and the WebSocket")
	}
}

// split takes a path apart: /devtools/browser/SECRET and /SECRET/json/...
func split(path string) (secret, page string, ok bool) {
	path = strings.Trim(path, "/")
	if rest, found := strings.CutPrefix(path, "devtools/browser/"); found {
		return rest, "browser", true
	}
	secret, page, ok = strings.Cut(path, "/")
	if rest, found := strings.CutPrefix(page, "devtools/browser/"); found && rest == secret {
		page = "browser"
	}
	return secret, page, ok
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, why)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client went away
}

func text(e *core.Error) string {
	if e.Hint == "" {
		return string(e.Code) + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Message + "; " + e.Hint
}

// holds returns the lease if it has control under the epoch, or why not.
func (s *Server) holds(id core.LeaseID, epoch core.Epoch) (l *core.Lease, err *core.Error) {
	var slot core.SlotName
	s.engine.View(func(st *core.State, now core.Now) {
		if l = st.Leases[id]; l == nil {
			err = core.Refuse(core.CodeExpired, "the lease has ended", "acquire a new one")
			return
		}
		slot = l.Slot
		err = core.WhyLost(st, now, id, epoch)
	})
	if err == nil && !s.engine.Grants(slot, epoch) {
		err = core.Refuse(core.CodeFenced, s.why(slot, epoch), "resume the lease once it is offered again: its new cdp_url is the address")
	}
	return l, err
}

// why says in few words why an epoch has ended.
func (s *Server) why(slot core.SlotName, epoch core.Epoch) string {
	now, _ := s.engine.Authority(slot, "")
	if now.Holder.Kind == "human" {
		return fmt.Sprintf("a person (%s) took over slot %s at epoch %d", now.Holder.Name, slot, now.Epoch)
	}
	return fmt.Sprintf("epoch %d of slot %s has ended", epoch, slot)
}

// ready returns the desk of a lease whose browser is ready for its epoch. A browser that
// is stopped is started, as by any action. That a client looks is an action, too: it
// passes the gates, and is in the record.
func (s *Server) ready(ctx context.Context, id core.LeaseID, epoch core.Epoch) (*desk, int, *core.Error) {
	l, err := s.holds(id, epoch)
	if err != nil {
		return nil, http.StatusForbidden, err
	}
	d := s.desk(l, epoch)
	if d == nil {
		return nil, http.StatusForbidden, core.Refuse(core.CodeFenced, s.why(l.Slot, epoch), "resume the lease once it is offered again: its new cdp_url is the address")
	}
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := d.watch(ctx); err != nil {
		if _, lost := s.holds(id, epoch); lost != nil {
			return nil, http.StatusForbidden, lost
		}
		return nil, err.Code.Info().HTTP, err
	}
	if err := os.MkdirAll(s.dir(l), 0o700); err != nil {
		s.log.Error("upload directory", "lease", id, "err", err)
	}
	return d, 0, nil
}

// desk returns what the endpoint knows of a slot's tabs under an epoch; nil if a newer one
// has begun meanwhile.
func (s *Server) desk(l *core.Lease, epoch core.Epoch) *desk {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.desks[l.Slot]; d != nil && d.epoch >= epoch {
		if d.epoch > epoch {
			return nil
		}
		return d
	}
	d := newDesk(s, l, epoch)
	s.desks[l.Slot] = d
	over := s.engine.Over(l.Slot, epoch)
	s.group.Go(func() {
		select {
		case <-over:
			s.end(d, CloseFenced, "fenced: "+s.why(d.slot, epoch))
		case <-d.ended:
		case <-s.done:
		}
	})
	return d
}

// end ends a desk and its clients.
func (s *Server) end(d *desk, code websocket.StatusCode, why string) {
	s.mu.Lock()
	if s.desks[d.slot] == d {
		delete(s.desks, d.slot)
	}
	s.mu.Unlock()
	d.end(code, why)
}

func (s *Server) endAll(code websocket.StatusCode, why string) {
	s.mu.Lock()
	var all []*desk
	for _, d := range s.desks {
		all = append(all, d)
	}
	s.mu.Unlock()
	for _, d := range all {
		s.end(d, code, why)
	}
}

// of returns the desk that something which was seen under an epoch is for: nobody's, if
// the epoch is not in force any more (I10).
func (s *Server) of(slot core.SlotName, epoch core.Epoch) *desk {
	s.mu.Lock()
	d := s.desks[slot]
	s.mu.Unlock()
	if d == nil || d.epoch != epoch || !s.engine.Grants(slot, epoch) {
		return nil
	}
	return d
}

// The methods below are what hostlink calls, in the order in which a link carries it.

// Answer takes the browser's answer to a command.
func (s *Server) Answer(slot core.SlotName, m *wire.CDPAnswer) {
	if d := s.of(slot, m.Epoch); d != nil {
		d.answer(m.Action, m.Observed, m.Result, m.Error)
	}
}

// Done takes the last word on an action. It answers what was not answered before.
func (s *Server) Done(slot core.SlotName, m *wire.ActionDone) {
	d := s.of(slot, m.Epoch)
	switch {
	case d == nil:
	case m.Error != nil:
		d.answer(m.Action, core.Expect{}, nil, wire.ErrorOf(m.Error))
	default:
		d.answer(m.Action, core.Expect{}, m.Result, nil)
	}
}

// Event takes an event of a page.
func (s *Server) Event(slot core.SlotName, m *wire.CDPEvent) {
	if d := s.of(slot, m.Epoch); d != nil {
		d.event(m)
	}
}

// Tab takes news of a tab.
func (s *Server) Tab(slot core.SlotName, m *wire.CDPTab) {
	if d := s.of(slot, m.Epoch); d != nil {
		d.tabNews(m)
	}
}

// Lost ends clients that have missed events: what they believe is not so any more.
func (s *Server) Lost(slot core.SlotName, m *wire.CDPLost) {
	if d := s.of(slot, m.Epoch); d != nil {
		d.takeBack(m.Tab)
		why := "events came faster than they could be passed on: connect again"
		if m.Tab != 0 {
			why = "a page's events came too fast, and its debugging was ended: have it say less or listen to less, then connect again"
		}
		s.end(d, CloseSlow, why)
	}
}

// Unlinked ends the clients of a browser whose link was lost.
func (s *Server) Unlinked(slot core.SlotName, link core.Nonce) {
	s.mu.Lock()
	d := s.desks[slot]
	s.mu.Unlock()
	if d != nil && d.on(link) {
		s.end(d, CloseUnlinked, "the link to the browser was lost: resume the lease")
	}
}

// connect makes a client of a request.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, d *desk) {
	c := newClient(d)
	if err := d.join(c, r.URL.Query().Has(beside)); err != nil {
		refuse(w, err.Code.Info().HTTP, text(err))
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // a request with an Origin was refused
	if err != nil {
		d.leave(c)
		return
	}
	s.group.Add(1)
	defer s.group.Done()
	c.run(conn)
	d.leave(c)
}
