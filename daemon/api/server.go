package api

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/stream"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// maxConns bounds the connections of one door. The doors are counted apart, so that
// agents cannot close the person's.
const maxConns = 512

// launchWait is how long a granted lease may wait for its browser, on top of the
// time that the client gave for the queue.
const launchWait = 30 * time.Second

// probeBusy is how long a probe waits to be begun: longer than the window in which an
// action's requests are watched, unless a binding has set another.
const probeBusy = core.DefaultWatchMs*time.Millisecond + 5*time.Second

// probeWait is how long a probe can take: the core ends it before.
const probeWait = (core.MaxProbeWaitMs + core.ProbeGraceMs + 1000) * time.Millisecond

// Server serves both doors.
type Server struct {
	Engine  *engine.Engine
	Log     *slog.Logger
	BodyKey []byte // keys the hashes of request bodies: a body may hold a password
	DataDir string
	Health  Health
	// Damage tells of a corrupt database; nil if nobody looks.
	Damage func() *core.Error
	// CDPURL is where a lease's DevTools client connects, "" if it may not now.
	CDPURL func(*core.Lease) string
	// AgentsFile keeps who has declared itself an agent's; "" if nobody is to be remembered.
	AgentsFile string

	agents agents
}

// Health is the answer of /v1/healthz.
type Health struct {
	OK         bool   `json:"ok"`
	Version    int    `json:"version"`
	Build      string `json:"build"`
	PID        int    `json:"pid"`
	Supervisor string `json:"supervisor"` // of new browsers: systemd, direct
	// Why says why the supervisor is direct, where one could expect systemd.
	Why       string `json:"supervisor_why,omitempty"`
	Extension string `json:"extension"` // the identifier of this installation's extension
	// Database says what is wrong with the database. Nothing is written then, and it is not OK.
	Database string `json:"database,omitempty"`
	Hint     string `json:"database_hint,omitempty"`
}

func (s *Server) health() Health {
	h := s.Health
	if s.Damage != nil {
		if e := s.Damage(); e != nil {
			h.OK, h.Database, h.Hint = false, e.Message, e.Hint
		}
	}
	return h
}

// LoadAgents takes up who has declared itself to an earlier daemon.
func (s *Server) LoadAgents() error { return s.agents.load(s.AgentsFile) }

// closeWithin is what requests that are being answered get when the daemon ends.
const closeWithin = 500 * time.Millisecond

// largeResult is how large a result must be for its memory to be given back at once.
const largeResult = 4 << 20

// door is one socket's way in.
type door struct {
	*Server
	person    bool
	followers chan struct{} // one for each stream of the journal
}

// Agents returns the handler of api.sock.
func (s *Server) Agents() http.Handler { return s.door(false) }

// People returns the handler of control.sock.
func (s *Server) People() http.Handler { return s.door(true) }

func (s *Server) door(person bool) http.Handler {
	d := &door{Server: s, person: person, followers: make(chan struct{}, maxFollowers)}
	return d.handler()
}

// Serve serves one door until ctx ends.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener, h http.Handler) error {
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return alive },
		ConnContext: withCaller,
		ErrorLog:    slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	conns := &checked{UnixListener: l, log: s.Log, free: make(chan struct{}, maxConns)}
	stop := context.AfterFunc(ctx, func() {
		l.Close()
		srv.SetKeepAlivesEnabled(false)
	})
	defer stop()
	err := srv.Serve(conns)
	// What was accepted is answered, as far as it does not wait for something; what was not
	// is left to whoever listens next on the same socket. Shutdown would drop a request
	// that has not been read yet.
	for late := time.Now().Add(closeWithin); ctx.Err() != nil && len(conns.free) > 0 && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	end()
	srv.Close()
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return err
}

// checked accepts connections of the daemon's own uid only.
type checked struct {
	*net.UnixListener
	log  *slog.Logger
	free chan struct{}
}

func (c *checked) Accept() (net.Conn, error) {
	for {
		conn, err := c.AcceptUnix()
		if err != nil {
			return nil, err
		}
		cred, err := peer.FromConn(conn)
		if err != nil {
			conn.Close()
			continue
		}
		cred.Close()
		if refusal := peer.SameUID(cred); refusal != nil {
			c.log.Warn("connection refused", "uid", cred.UID)
			conn.Close()
			continue
		}
		rw, err := stream.New(conn)
		if err != nil {
			conn.Close()
			continue
		}
		select {
		case c.free <- struct{}{}:
			return &counted{UnixConn: conn, rw: rw, free: c.free, peer: peer.Proc{PID: cred.PID, StartTime: cred.StartTime, Comm: "the caller"}}, nil
		default:
			conn.Close()
		}
	}
}

type counted struct {
	*net.UnixConn
	rw   *stream.Stream // of UnixConn
	free chan struct{}
	once sync.Once
	peer peer.Proc // who connected
}

func (c *counted) Read(p []byte) (int, error)  { return c.rw.Read(p) }
func (c *counted) Write(p []byte) (int, error) { return c.rw.Write(p) }

func (c *counted) Close() error {
	err := c.UnixConn.Close()
	c.once.Do(func() { <-c.free })
	return err
}

// handler routes. What a page in a browser would send never gets as far: an Origin,
// or a Host that is not ours, is refused on every path.
func (d *door) handler() http.Handler {
	mux := http.NewServeMux()
	d.agentRoutes(mux)
	if d.person {
		d.personRoutes(mux)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		hint := "see docs/PROTOCOL.md"
		if !d.person {
			hint = "people's verbs are on control.sock"
		}
		fail(w, core.Refuse(core.CodeNotFound, fmt.Sprintf("there is no %s %s here", r.Method, r.URL.Path), hint))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, has := r.Header["Origin"]; has {
			fail(w, core.Refuse(core.CodeDenied, "requests with an Origin are refused: this API is not for web pages", ""))
			return
		}
		if !slices.Contains([]string{"localhost", "sessiondock", "unix"}, r.Host) {
			fail(w, core.Refuse(core.CodeDenied, "the Host is not this socket's", "use http://localhost/v1/..."))
			return
		}
		if refusal := d.persons(r); refusal != nil {
			fail(w, refusal)
			return
		}
		if r.Body != http.NoBody {
			// A body is read within its time; what follows may wait as long as was asked.
			wait := http.NewResponseController(w)
			wait.SetReadDeadline(time.Now().Add(bodyWait))
			r.Body = &timedBody{http.MaxBytesReader(w, r.Body, wire.MaxBody), wait}
		}
		mux.ServeHTTP(w, r)
	})
}

// bodyWait bounds the reading of a request and the writing of one event.
const bodyWait = 30 * time.Second

// timedBody lifts the read deadline once the body has been read.
type timedBody struct {
	io.ReadCloser
	wait *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.wait.SetReadDeadline(time.Time{})
	}
	return n, err
}

// route registers a handler that returns its answer or a refusal.
func route(mux *http.ServeMux, pattern string, f func(*http.Request) (any, *core.Error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err != nil {
			fail(w, err)
			return
		}
		answer(w, v)
	})
}

func answer(w http.ResponseWriter, v any) {
	var tail json.RawMessage
	if rec, ok := v.(core.Record); ok {
		// What an action saw is last in its record, and may be a page capture of many
		// megabytes: it is passed on as it came, without a copy.
		tail, rec.Result = rec.Result, nil
		v = rec
	}
	body, err := json.Marshal(v)
	if err != nil {
		fail(w, core.Refuse(core.CodeInternal, "the answer cannot be encoded: "+err.Error(), "see the daemon's log"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if len(tail) > 0 {
		w.Write(append(body[:len(body)-1], `,"result":`...))
		w.Write(tail)
		body = []byte("}")
	}
	w.Write(append(body, '\n'))
	if len(tail) > largeResult {
		tail = nil
		debug.FreeOSMemory()
	}
}

func fail(w http.ResponseWriter, e *core.Error) {
	body, _ := json.Marshal(wire.ErrorBody{Error: *e})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code.Info().HTTP)
	w.Write(append(body, '\n'))
}

// body reads a request's JSON. An unknown member is refused: a misspelt if_epoch
// must not be ignored.
func body[T any](r *http.Request) (T, []byte, *core.Error) {
	var v T
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return v, nil, core.Refuse(core.CodeLimit, fmt.Sprintf("the body is larger than %d bytes", wire.MaxBody), "send less")
		}
		return v, nil, core.Refuse(core.CodeInvalid, "the body cannot be read: "+err.Error(), "send it again, whole")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	if !utf8.Valid(raw) {
		return v, nil, core.Refuse(core.CodeInvalid, "the body is not valid UTF-8", "encode it as UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return v, nil, malformed(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return v, nil, core.Refuse(core.CodeInvalid, "the body holds more than one JSON value", "send one object")
	}
	return v, raw, exact(raw, new(T))
}

// exact refuses what encoding/json lets pass: a field whose name differs in case, and one
// that comes twice. Whoever reads the request before us would see another one.
func exact(raw []byte, as any) *core.Error {
	err := strict.Unmarshal(raw, as, strict.RejectUnknownMembers(true))
	var at *strict.SemanticError
	var syn *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syn):
		return core.Refuse(core.CodeInvalid, fmt.Sprintf("field %q comes twice", syn.JSONPointer.LastToken()), "send each once")
	case errors.Is(err, strict.ErrUnknownName) && errors.As(err, &at):
		return core.Refuse(core.CodeInvalid, fmt.Sprintf("there is no field %q", at.JSONPointer.LastToken()), "see docs/PROTOCOL.md for the fields; upper and lower case count")
	}
	return nil // of what else there is to say, encoding/json has the last word
}

func malformed(err error) *core.Error {
	var typ *json.UnmarshalTypeError
	var syn *json.SyntaxError
	switch {
	case errors.As(err, &typ) && typ.Field != "":
		return core.Refuse(core.CodeInvalid, fmt.Sprintf("field %s cannot be %s", typ.Field, typ.Value), "see docs/PROTOCOL.md for its type and range").With("field", typ.Field)
	case errors.As(err, &typ):
		return core.Refuse(core.CodeInvalid, "the body is not a JSON object", "send one object")
	case errors.As(err, &syn), errors.Is(err, io.ErrUnexpectedEOF):
		return core.Refuse(core.CodeInvalid, "the body is not valid JSON: "+err.Error(), "send one JSON object")
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(text, "unknown field "); ok {
		return core.Refuse(core.CodeInvalid, "there is no field "+name, "see docs/PROTOCOL.md for the fields")
	}
	return core.Refuse(core.CodeInvalid, text, "see docs/PROTOCOL.md")
}

// bearer returns the secret of the Authorization header, hashed, or "".
func bearer(r *http.Request) string {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.TrimSpace(secret)
	if !ok || !strings.EqualFold(scheme, "Bearer") || secret == "" || len(secret) > 256 {
		return ""
	}
	return engine.HashSecret(secret)
}

func (s *Server) bodyHash(raw []byte) string {
	m := hmac.New(sha256.New, s.BodyKey)
	m.Write(raw)
	return hex.EncodeToString(m.Sum(nil)[:16]) // 128 bits: it is kept in memory for every action
}

func checkEpoch(e *core.Epoch) *core.Error {
	if e != nil && *e > core.MaxEpoch {
		return core.Refuse(core.CodeInvalid, "the epoch is above 2^53-1", "use the epoch that came with the lease")
	}
	return nil
}

func (s *Server) UploadDir(l *core.Lease) string {
	return filepath.Join(s.DataDir, "slots", string(l.Slot), "uploads", string(l.ID))
}
