package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// What the person types.
const (
	user     = "ada"
	password = "correct horse"
)

// site asks for a password and a second factor, and then keeps the browser signed in by
// two cookies: one that lasts, and one of the session. It wants both. The signed-in page
// puts a token into the local storage and into an IndexedDB, and tells at every load
// what it finds there. Each visitor has a path of its own, and with it cookies.
type site struct {
	port int
	srv  *http.Server

	mu       sync.Mutex
	visitors map[string]*visitor
}

// visitor is what the site knows of one browser.
type visitor struct {
	ask     bool   // the page asks whether it may be left
	code    string // the second factor, sent out of the browser
	keep    string // the two cookies, once signed in
	session string
	token   string // in the page's own stores
	visits  []visit
	refused string // why the last sign-in was
}

// visit is one load of the page, as the site and the page saw it.
type visit struct {
	Cookie  bool // the cookie that lasts
	Session bool // the cookie of the session
	Local   bool // the local storage
	Indexed bool // the IndexedDB
}

// signedIn is the site's own answer.
func (v visit) signedIn() bool { return v.Cookie && v.Session }

// whole says that every store came back.
func (v visit) whole() bool { return v.Cookie && v.Session && v.Local && v.Indexed }

func openSite() (*site, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{port: l.Addr().(*net.TCPAddr).Port, visitors: map[string]*visitor{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{who}/login", s.page(`<form method="post" action="login" onsubmit="this.automated.value = navigator.webdriver">
<input id="name" name="name"><input id="password" name="password" type="password"><input type="hidden" name="automated">
<button id="go">Sign in</button></form>`))
	mux.HandleFunc("POST /{who}/login", s.login)
	mux.HandleFunc("GET /{who}/code", s.page(`<form method="post" action="code"><input id="code" name="code"><button id="go">Go on</button></form>`))
	mux.HandleFunc("POST /{who}/code", s.second)
	mux.HandleFunc("GET /{who}/welcome", s.page(stores+`<script>put({{.Token}}).then(() => location.replace("home"));</script>`))
	mux.HandleFunc("GET /{who}/home", s.page(stores+`<button id="touch">Here</button><script>
{{if .Ask}}addEventListener("beforeunload", (e) => { e.preventDefault(); e.returnValue = true; });{{end}}
get().then((found) => fetch("report", { method: "POST", body: JSON.stringify(found) }));</script>`))
	mux.HandleFunc("POST /{who}/report", s.report)
	s.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	go func() {
		if err := s.srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the site ended", "err", err)
		}
	}()
	return s, nil
}

func (s *site) close() error { return s.srv.Close() }

func (s *site) origin() string { return fmt.Sprintf("http://127.0.0.1:%d", s.port) }

func (s *site) url(who, page string) string { return s.origin() + "/" + who + "/" + page }

// expect makes a visitor.
func (s *site) expect(who string, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.visitors[who] = &visitor{ask: ask, token: random()}
}

// codeOf is the second factor that was sent to the visitor, "" before the password.
func (s *site) codeOf(who string) (code, refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.visitors[who].code, s.visitors[who].refused
}

// seen returns the visitor's loads of the page, the last one last.
func (s *site) seen(who string) []visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.visitors[who].visits
}

func random() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// stores is how a page uses its own.
const stores = `<script>
const open = () => new Promise((done, fail) => {
  const r = indexedDB.open("site", 1);
  r.onupgradeneeded = () => r.result.createObjectStore("kept");
  r.onsuccess = () => done(r.result);
  r.onerror = () => fail(r.error);
});
async function put(token) {
  localStorage.setItem("token", token);
  const db = await open();
  await new Promise((done, fail) => {
    const t = db.transaction("kept", "readwrite");
    t.objectStore("kept").put(token, "token");
    t.oncomplete = done;
    t.onerror = () => fail(t.error);
  });
}
async function get() {
  const db = await open();
  const indexed = await new Promise((done) => {
    const r = db.transaction("kept").objectStore("kept").get("token");
    r.onsuccess = () => done(r.result ?? "");
    r.onerror = () => done("");
  });
  return { local: localStorage.getItem("token") ?? "", indexed };
}
</script>`

// page serves a page for a visitor.
func (s *site) page(body string) http.HandlerFunc {
	t := template.Must(template.New("").Parse(`<!doctype html><meta charset="utf-8"><title>Small Shop</title><link rel="icon" href="data:,">` + body))
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		v := s.visitors[r.PathValue("who")]
		var data struct {
			Ask   bool
			Token string
		}
		if v != nil {
			data.Ask, data.Token = v.ask, v.token
		}
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := t.Execute(w, data); err != nil {
			slog.Debug("a page was not sent whole", "err", err)
		}
	}
}

// login takes the password. It refuses what says that it is automated, as sites do.
func (s *site) login(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.visitors[r.PathValue("who")]
	switch agent := r.UserAgent(); {
	case strings.Contains(agent, "Headless"):
		v.refused = "the user agent is " + agent
	case r.FormValue("automated") != "false":
		v.refused = "navigator.webdriver is " + r.FormValue("automated")
	case r.FormValue("name") != user || r.FormValue("password") != password:
		v.refused = "the name or the password is wrong"
	default:
		v.refused, v.code = "", fmt.Sprintf("%06d", rand.IntN(1_000_000))
		http.Redirect(w, r, "code", http.StatusSeeOther)
		return
	}
	http.Error(w, v.refused, http.StatusForbidden)
}

// second takes the second factor and signs the browser in.
func (s *site) second(w http.ResponseWriter, r *http.Request) {
	who := r.PathValue("who")
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.visitors[who]
	if v.code == "" || r.FormValue("code") != v.code {
		v.refused = "the second factor is wrong"
		http.Error(w, v.refused, http.StatusForbidden)
		return
	}
	v.keep, v.session = random(), random()
	c := http.Cookie{Name: "keep", Value: v.keep, Path: "/" + who + "/", MaxAge: 30 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	http.SetCookie(w, &c)
	c.Name, c.Value, c.MaxAge = "session", v.session, 0
	http.SetCookie(w, &c)
	http.Redirect(w, r, "welcome", http.StatusSeeOther)
}

// report takes what the page found, with the cookies that came along.
func (s *site) report(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4096))
	var found struct{ Local, Indexed string }
	if err == nil {
		err = json.Unmarshal(body, &found)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	has := func(name, want string) bool {
		c, err := r.Cookie(name)
		return err == nil && want != "" && c.Value == want
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.visitors[r.PathValue("who")]
	v.visits = append(v.visits, visit{
		Cookie: has("keep", v.keep), Session: has("session", v.session),
		Local: found.Local == v.token, Indexed: found.Indexed == v.token,
	})
	w.WriteHeader(http.StatusNoContent)
}
