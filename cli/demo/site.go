package demo

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

//go:embed site/*.html
var siteFiles embed.FS

var sitePages = template.Must(template.ParseFS(siteFiles, "site/*.html"))

// Kind is the way in which a save reached the site.
type Kind string

// The kinds of save. Each is counted apart, because they end differently when
// their page does.
const (
	KindFetch     Kind = "fetch"
	KindForm      Kind = "form"
	KindBeacon    Kind = "beacon"
	KindKeepalive Kind = "keepalive"
	KindTimer     Kind = "timer"
)

var kinds = map[Kind]bool{KindFetch: true, KindForm: true, KindBeacon: true, KindKeepalive: true, KindTimer: true}

// Bounds of the site. A scope beyond them is refused, so that a page that posts
// for ever cannot fill the memory of a long run.
const (
	maxScopes = 256
	maxSaves  = 4096 // per scope
	maxWait   = 10 * time.Second
)

// SaveDelay is how long the site keeps the answer to a fetch back, unless the page
// was opened with another delay: long enough for a person to take over meanwhile.
const SaveDelay = 1500 * time.Millisecond

// BusyFor is how long the busy page's script runs when the mouse reaches its
// button, unless the page was opened with another time.
const BusyFor = 3 * time.Second

// Save is one save as the site saw it. It counts as applied from At on; Answered
// is zero until the answer was sent.
type Save struct {
	Kind     Kind      `json:"kind"`
	At       time.Time `json:"at"`
	Answered time.Time `json:"answered,omitzero"`
}

// Counts is the number of saves of one scope.
type Counts struct {
	Total  int          `json:"total"`
	ByKind map[Kind]int `json:"by_kind"`
}

// Site is a small shop's admin site on 127.0.0.1. What it counted is the truth
// about the remote side. Scopes keep the scenes and tests that share one site
// apart: every page and every save belongs to the scope in its path.
type Site struct {
	port int
	srv  *http.Server

	mu      sync.Mutex
	scopes  map[string][]Save
	reports map[string]string
	held    map[string]*hold
}

// hold is a scope that is kept waiting.
type hold struct {
	reached  chan struct{} // closed once a page of the scope has met it
	meet     sync.Once
	released chan struct{}
}

// OpenSite starts the site on a free port of 127.0.0.1.
func OpenSite() (*Site, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Site{port: l.Addr().(*net.TCPAddr).Port, scopes: map[string][]Save{}, reports: map[string]string{}, held: map[string]*hold{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /s/{scope}/{page}", s.page)
	mux.HandleFunc("GET /s/{scope}/signin", s.signIn)
	mux.HandleFunc("GET /s/{scope}/away", s.away)
	mux.HandleFunc("POST /s/{scope}/save", s.save)
	mux.HandleFunc("POST /s/{scope}/report", s.report)
	mux.HandleFunc("GET /s/{scope}/counts", s.counts)
	mux.HandleFunc("GET /s/{scope}/held", s.waits)
	s.srv = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	go func() {
		if err := s.srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the demo site ended", "err", err)
		}
	}()
	return s, nil
}

// Close ends the site and what it still has to answer.
func (s *Site) Close() error { return s.srv.Close() }

// Origin is the site's origin.
func (s *Site) Origin() string { return s.OriginAt("127.0.0.1") }

// OriginAt is the site's origin under another name of this machine, such as
// "a.localhost". Chromium takes those for different sites, so that their pages do
// not share a process.
func (s *Site) OriginAt(host string) string { return fmt.Sprintf("http://%s:%d", host, s.port) }

// URL is the address of a page of a scope. Pages: product, form, busy, child,
// saved, script, webdriver, button, noise, account, changes; signin?as=NAME signs in
// and leads to account, away leads there from another origin. Query is appended as it is: slow=MS keeps any page back, say=TEXT
// is a customer's message on account.
func (s *Site) URL(scope, page, query string) string { return s.URLAt("127.0.0.1", scope, page, query) }

// URLAt is URL under another name of this machine.
func (s *Site) URLAt(host, scope, page, query string) string {
	u := fmt.Sprintf("%s/s/%s/%s", s.OriginAt(host), scope, page)
	if query != "" {
		u += "?" + query
	}
	return u
}

// Saves returns the scope's saves in the order in which they arrived.
func (s *Site) Saves(scope string) []Save {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Save(nil), s.scopes[scope]...)
}

// Count counts the scope's saves.
func (s *Site) Count(scope string) Counts {
	c := Counts{ByKind: map[Kind]int{}}
	for _, v := range s.Saves(scope) {
		c.Total++
		c.ByKind[v.Kind]++
	}
	return c
}

// WaitSaves waits until the scope has at least n saves, and says whether it has.
func (s *Site) WaitSaves(ctx context.Context, scope string, n int) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.Count(scope).Total >= n {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// Hold keeps a scope waiting until release is called: its busy page stays busy, if it was
// opened with busy=held, and its fetches are applied and not answered. Reached is closed
// once one of the two has happened. So what comes before and after does not hang on how
// quick the machine is.
func (s *Site) Hold(scope string) (reached <-chan struct{}, release func()) {
	h := &hold{reached: make(chan struct{}), released: make(chan struct{})}
	s.mu.Lock()
	s.held[scope] = h
	s.mu.Unlock()
	return h.reached, sync.OnceFunc(func() {
		s.mu.Lock()
		delete(s.held, scope)
		s.mu.Unlock()
		close(h.released)
	})
}

// meets returns the scope's hold, which is reached by that, or nil.
func (s *Site) meets(scope string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[scope]
	if h != nil {
		h.meet.Do(func() { close(h.reached) })
	}
	return h
}

// heldFor is how long one question of a busy page is kept. Between two of them the page's
// script runs, and can be terminated.
const heldFor = 200 * time.Millisecond

// waits answers a busy page's question whether its scope is still held.
func (s *Site) waits(w http.ResponseWriter, r *http.Request) {
	h := s.meets(r.PathValue("scope"))
	if h != nil {
		select {
		case <-h.released:
			h = nil
		case <-time.After(heldFor):
		case <-r.Context().Done():
		}
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprint(w, h != nil)
}

// Report returns what a page of the scope reported of itself, or "".
func (s *Site) Report(scope string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reports[scope]
}

type pageData struct {
	Page    string
	Scope   string
	DelayMs int64
	BusyMs  int64
	Held    bool // the busy page is busy while its scope is held
	More    bool // the handler also sends a beacon and a keepalive fetch
	Saves   int
	User    string // who is signed in, by the cookie of the scope
	Say     string
}

// userCookie names who is signed in.
const userCookie = "user"

// signIn signs the browser in, in one scope, and leads to the account's page. Without a
// name it signs out.
func (s *Site) signIn(w http.ResponseWriter, r *http.Request) {
	home := "/s/" + r.PathValue("scope") + "/"
	c := http.Cookie{Name: userCookie, Value: r.URL.Query().Get("as"), Path: home, MaxAge: 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if c.Value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, &c)
	http.Redirect(w, r, home+"account", http.StatusSeeOther)
}

// away leads to the account's page at the site's own origin, for who comes by another.
func (s *Site) away(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, s.URL(r.PathValue("scope"), "account", ""), http.StatusSeeOther)
}

func (s *Site) page(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("page")
	if sitePages.Lookup(name+".html") == nil || name == "base" {
		http.NotFound(w, r)
		return
	}
	scope := r.PathValue("scope")
	q := r.URL.Query()
	data := pageData{
		Page: name, Scope: scope, More: q.Get("more") == "1", Saves: s.Count(scope).Total,
		DelayMs: millis(q.Get("delay"), SaveDelay), BusyMs: millis(q.Get("busy"), BusyFor), Held: q.Get("busy") == "held", Say: q.Get("say"),
	}
	if c, err := r.Cookie(userCookie); err == nil {
		data.User = c.Value
	}
	select {
	case <-time.After(time.Duration(millis(q.Get("slow"), 0)) * time.Millisecond):
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err := sitePages.ExecuteTemplate(w, name+".html", data); err != nil {
		slog.Debug("a page was not sent whole", "page", name, "err", err)
	}
}

// millis reads a query's milliseconds, between 0 and maxWait.
func millis(text string, def time.Duration) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxWait.Milliseconds() {
		return def.Milliseconds()
	}
	return n
}

func (s *Site) save(w http.ResponseWriter, r *http.Request) {
	scope, kind := r.PathValue("scope"), Kind(r.URL.Query().Get("kind"))
	if !kinds[kind] {
		http.Error(w, "unknown kind of save", http.StatusBadRequest)
		return
	}
	n, ok := s.record(scope, kind)
	if !ok {
		http.Error(w, "too many saves", http.StatusTooManyRequests)
		return
	}
	// The save is applied; what comes late is only the answer. A client that goes
	// away before it takes nothing back.
	if kind == KindFetch {
		if h := s.meets(scope); h != nil {
			select {
			case <-h.released:
			case <-r.Context().Done():
				return
			}
		} else {
			time.Sleep(time.Duration(millis(r.URL.Query().Get("delay"), SaveDelay)) * time.Millisecond)
		}
	}
	s.mu.Lock()
	s.scopes[scope][n-1].Answered = time.Now()
	s.mu.Unlock()
	if kind == KindForm {
		http.Redirect(w, r, "/s/"+scope+"/saved", http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"saved":true,"number":%d}`, n)
}

func (s *Site) record(scope string, kind Kind) (n int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	saves, known := s.scopes[scope]
	if (!known && len(s.scopes) == maxScopes) || len(saves) == maxSaves {
		return 0, false
	}
	s.scopes[scope] = append(saves, Save{Kind: kind, At: time.Now()})
	return len(saves) + 1, true
}

func (s *Site) report(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("text")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(text) > 256 || len(s.reports) == maxScopes {
		http.Error(w, "too much", http.StatusTooManyRequests)
		return
	}
	s.reports[r.PathValue("scope")] = text
	w.WriteHeader(http.StatusNoContent)
}

func (s *Site) counts(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	scope := r.PathValue("scope")
	reply := struct {
		Counts
		Saves []Save `json:"saves"`
	}{s.Count(scope), s.Saves(scope)}
	if err := json.NewEncoder(w).Encode(reply); err != nil {
		slog.Debug("the counts were not sent whole", "err", err)
	}
}
