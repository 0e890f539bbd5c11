package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine/enginetest"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// These tests ask the real handlers, engine and store. No browser runs: what is
// asked of one is refused before it, or tested end to end.

type doors struct {
	t              *testing.T
	s              *Server
	agents, people http.Handler
}

func newDoors(t *testing.T) *doors {
	t.Helper()
	eng := enginetest.New(t, &enginetest.Launches{})
	s := &Server{Engine: eng, Log: enginetest.Log(), BodyKey: make([]byte, 32), DataDir: t.TempDir(), Health: Health{OK: true}}
	d := &doors{t: t, s: s, agents: s.Agents(), people: s.People()}
	d.ok(d.people, "POST", "/v1/slots", "", `{"slot":"shop"}`)
	d.ok(d.people, "POST", "/v1/bindings", "", `{"name":"admin","slot":"shop","account":"none","origins":["https://shop.example"]}`)
	d.ok(d.people, "POST", "/v1/slots", "", `{"slot":"desk"}`)
	d.ok(d.people, "POST", "/v1/bindings", "", `{"name":"desk-b","slot":"desk"}`)
	return d
}

func (d *doors) ask(h http.Handler, method, path, bearer, body string) (int, string) {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (d *doors) ok(h http.Handler, method, path, bearer, body string) string {
	d.t.Helper()
	code, out := d.ask(h, method, path, bearer, body)
	if code != 200 {
		d.t.Fatalf("%s %s: %d %s", method, path, code, out)
	}
	return out
}

func (d *doors) refused(want core.Code, h http.Handler, method, path, bearer, body string) {
	d.t.Helper()
	code, out := d.ask(h, method, path, bearer, body)
	var e wire.ErrorBody
	if err := json.Unmarshal([]byte(out), &e); err != nil || e.Error.Code != want || code != want.Info().HTTP || e.Error.Message == "" {
		d.t.Errorf("%s %s %s: want %s, got %d %s", method, path, clip(body), want, code, clip(out))
	}
}

func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

func (d *doors) token(binding, agent string) string {
	var r wire.DelegateReply
	if err := json.Unmarshal([]byte(d.ok(d.people, "POST", "/v1/bindings/"+binding+"/delegate", "", fmt.Sprintf(`{"to":%q}`, agent))), &r); err != nil {
		d.t.Fatal(err)
	}
	return r.Token
}

func TestEveryFieldOfAnActionIsChecked(t *testing.T) {
	d := newDoors(t)
	const path = "/v1/leases/none/actions"
	const id = `"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"`
	for body, want := range map[string]core.Code{
		``:                     core.CodeInvalid,
		`[]`:                   core.CodeInvalid,
		`{`:                    core.CodeInvalid,
		`null`:                 core.CodeInvalid,
		"\"\xff\"":             core.CodeInvalid,
		`{} {}`:                core.CodeInvalid,
		`{"epoch":1}`:          core.CodeInvalid, // no verb
		`{"verb":"click"}`:     core.CodeInvalid, // no epoch
		`{"verb":1,"epoch":1}`: core.CodeInvalid,
		`{` + id + `,"epoch":-1,"verb":"snapshot"}`:                                            core.CodeInvalid,
		`{` + id + `,"epoch":1.5,"verb":"snapshot"}`:                                           core.CodeInvalid,
		`{` + id + `,"epoch":"1","verb":"snapshot"}`:                                           core.CodeInvalid,
		`{` + id + `,"epoch":9007199254740992,"verb":"snapshot"}`:                              core.CodeInvalid, // 2^53
		`{` + id + `,"epoch":18446744073709551615,"verb":"snapshot"}`:                          core.CodeInvalid,
		`{` + id + `,"epoch":18446744073709551616,"verb":"snapshot"}`:                          core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"fly"}`:                                                  core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"click"}`:                                                core.CodeInvalid, // no target
		`{` + id + `,"epoch":1,"verb":"click","selector":"a","ref":"e1"}`:                      core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"snapshot","selector":"a"}`:                              core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"navigate"}`:                                             core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"fill","selector":"a"}`:                                  core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"wait","state":"gone"}`:                                  core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"snapshot","deadline_ms":-1}`:                            core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"snapshot","deadline_ms":600001}`:                        core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"snapshot","expect":{"tab":"x"}}`:                        core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"snapshot","if_epoch":1}`:                                core.CodeInvalid, // unknown member
		`{` + id + `,"epoch":1,"verb":"snapshot","VERB":"click"}`:                              core.CodeInvalid, // case counts
		`{` + id + `,"epoch":1,"verb":"snapshot","verb":"click"}`:                              core.CodeInvalid,
		`{` + id + `,"epoch":1,"verb":"click","selector":"a","expect":{"tab":1,"TAB":2}}`:      core.CodeInvalid,
		`{"id":"short","epoch":1,"verb":"snapshot"}`:                                           core.CodeInvalid,
		`{"epoch":1,"verb":"snapshot"}`:                                                        core.CodeInvalid, // no id
		`{` + id + `,"epoch":1,"verb":"click","selector":"` + strings.Repeat("a", 5000) + `"}`: core.CodeLimit,
		`{` + id + `,"epoch":1,"verb":"snapshot"}`:                                             core.CodeUnauthenticated,
	} {
		d.refused(want, d.agents, "POST", path, "forged", body)
	}
	d.refused(core.CodeLimit, d.agents, "POST", path, "forged", `{"expression":"`+strings.Repeat("a", wire.MaxBody)+`"}`)
}

func TestAcquireIsForTheDelegatedBindingOnly(t *testing.T) { // I9
	d := newDoors(t)
	token := d.token("admin", "agent-a")
	for body, want := range map[string]core.Code{
		`{"binding":"admin"}`:                                                 core.CodeInvalid, // no request_id
		`{"request_id":"r","binding":"desk-b"}`:                               core.CodeDenied,
		`{"request_id":"r","binding":"nowhere"}`:                              core.CodeDenied,
		`{"request_id":"r","binding":"admin","agent":"agent-b"}`:              core.CodeDenied,
		`{"request_id":"r","binding":"admin","for_ms":-5}`:                    core.CodeInvalid,
		`{"request_id":"r","binding":"admin","for_ms":1e30}`:                  core.CodeInvalid,
		`{"request_id":"r","binding":"admin","for_ms":86400000}`:              core.CodeLimit, // above the binding's maximum
		`{"request_id":"r","binding":"admin","wait_ms":-1}`:                   core.CodeInvalid,
		`{"request_id":"r","binding":"admin","keys":["a b"]}`:                 core.CodeInvalid,
		`{"request_id":"r","binding":"admin","priority":5}`:                   core.CodeDenied,
		`{"request_id":"` + strings.Repeat("r", 200) + `","binding":"admin"}`: core.CodeInvalid,
	} {
		d.refused(want, d.agents, "POST", "/v1/leases", token, body)
	}
	for _, forged := range []string{"", "x", strings.Repeat("0", 64), token[:63], token + "0", strings.Repeat("a", 300)} {
		d.refused(core.CodeUnauthenticated, d.agents, "POST", "/v1/leases", forged, `{"request_id":"r","binding":"admin"}`)
	}
}

func TestPeoplesVerbsAreNotOnTheAgentsDoor(t *testing.T) {
	d := newDoors(t)
	for _, path := range []string{"/v1/slots", "/v1/slots/shop/status", "/v1/events", "/v1/quarantine", "/v1/bindings", "/v1/leases"} {
		d.refused(core.CodeNotFound, d.agents, "GET", path, "", "")
	}
	for _, path := range []string{"/v1/slots/shop/takeover", "/v1/slots/shop/handback", "/v1/slots/shop/quarantine/lift", "/v1/actions/x/resolve", "/v1/bindings/admin/delegate"} {
		d.refused(core.CodeNotFound, d.agents, "POST", path, "", "{}")
	}
}

func TestPagesAreRefused(t *testing.T) { // S1, S2
	d := newDoors(t)
	for _, h := range []http.Handler{d.agents, d.people} {
		for _, origin := range []string{"https://evil.example", "null", "chrome-extension://abc", ""} {
			r := httptest.NewRequest("GET", "http://localhost/v1/healthz", nil)
			r.Header["Origin"] = []string{origin}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != 403 {
				t.Errorf("Origin %q: %d", origin, w.Code)
			}
		}
		for _, host := range []string{"evil.example", "localhost.", "127.0.0.1", "[::1]", "", "localhost:80"} {
			r := httptest.NewRequest("GET", "http://localhost/v1/healthz", nil)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != 403 {
				t.Errorf("Host %q: %d", host, w.Code)
			}
		}
	}
}

// A corrupt database is told by the health, and by every refusal.
func TestACorruptDatabaseIsTold(t *testing.T) {
	found := core.Refuse(core.CodeUnavailable, "the database is corrupt", "move it aside")
	s := &Server{Health: Health{OK: true}, Damage: func() *core.Error { return nil }}
	if h := s.health(); !h.OK || h.Database != "" {
		t.Errorf("a whole one: %+v", h)
	}
	s.Damage = func() *core.Error { return found }
	if h := s.health(); h.OK || h.Database != found.Message || h.Hint != found.Hint {
		t.Errorf("a corrupt one: %+v", h)
	}
}

func TestDeclarationsAreChecked(t *testing.T) {
	d := newDoors(t)
	for body, want := range map[string]core.Code{
		`{}`:              core.CodeInvalid,
		`{"slot":"../x"}`: core.CodeInvalid,
		`{"slot":"A"}`:    core.CodeInvalid,
		`{"slot":"` + strings.Repeat("a", 64) + `"}`: core.CodeInvalid,
		`{"slot":"shop"}`:                   core.CodeConflict,
		`{"slot":"x","display":"hologram"}`: core.CodeInvalid,
	} {
		d.refused(want, d.people, "POST", "/v1/slots", "", body)
	}
	for body, want := range map[string]core.Code{
		`{"name":"b","slot":"nowhere"}`:                                                          core.CodeNotFound,
		`{"name":"b","slot":"shop","origins":["shop.example"]}`:                                  core.CodeInvalid,
		`{"name":"b","slot":"shop","origins":["https://shop.example/path"]}`:                     core.CodeInvalid,
		`{"name":"b","slot":"shop","keys":["spaces are not allowed"]}`:                           core.CodeInvalid,
		`{"name":"b","slot":"shop","worktree":"relative"}`:                                       core.CodeInvalid,
		`{"name":"b","slot":"shop","worktree":"/nonexistent/tree"}`:                              core.CodeInvalid,
		`{"name":"b","slot":"shop","worktree":"/dev/null"}`:                                      core.CodeInvalid,
		`{"name":"b","slot":"shop","start":"file:///etc/passwd"}`:                                core.CodePolicy,
		`{"name":"b","slot":"shop","start":"https://a.example","origins":["https://b.example"]}`: core.CodePolicy,
		`{"name":"b","slot":"shop","max_lifetime_ms":-1}`:                                        core.CodeInvalid,
		`{"name":"admin","slot":"desk"}`:                                                         core.CodeConflict,
	} {
		d.refused(want, d.people, "POST", "/v1/bindings", "", body)
	}
	d.refused(core.CodeInvalid, d.people, "POST", "/v1/bindings/admin/delegate", "", `{"to":"Agent A"}`)
	d.refused(core.CodeNotFound, d.people, "POST", "/v1/bindings/none/delegate", "", `{"to":"a"}`)
	d.refused(core.CodeInvalid, d.people, "POST", "/v1/slots/shop/takeover", "", `{"if_epoch":-1}`)
	d.refused(core.CodeInvalid, d.people, "POST", "/v1/slots/shop/takeover", "", `{"if_epoch":9007199254740992}`)
	d.refused(core.CodeConflict, d.people, "POST", "/v1/slots/shop/takeover", "", `{"if_epoch":77}`)
	d.refused(core.CodeInvalid, d.people, "POST", "/v1/slots/shop/takeover", "", `{"ifepoch":1}`)
	d.refused(core.CodeConflict, d.people, "POST", "/v1/slots/shop/handback", "", `{}`)
	d.refused(core.CodeInvalid, d.people, "GET", "/v1/events?after=-1", "", "")
	d.refused(core.CodeInvalid, d.people, "GET", "/v1/events?limit=x", "", "")
}

func TestAPersonsTakeoverAndHandback(t *testing.T) {
	d := newDoors(t)
	var st core.Status
	if err := json.Unmarshal([]byte(d.ok(d.people, "POST", "/v1/slots/shop/takeover", "", `{}`)), &st); err != nil {
		t.Fatal(err)
	}
	if st.Authority.Holder.Kind != "human" || st.Authority.Fence != "drained" {
		t.Fatalf("%+v", st.Authority)
	}
	d.refused(core.CodeHeld, d.people, "POST", "/v1/slots/shop/takeover", "", `{}`)
	d.ok(d.people, "POST", "/v1/slots/shop/takeover", "", `{"from_person":true,"by":"viewer"}`)
	d.ok(d.people, "POST", "/v1/slots/shop/handback", "", `{}`)
}

func TestTheJournalCanBeFollowedWithoutGap(t *testing.T) {
	d := newDoors(t)
	var all, rest []wire.EventRow
	if err := json.Unmarshal([]byte(d.ok(d.people, "GET", "/v1/events", "", "")), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 4 {
		t.Fatalf("%d events", len(all))
	}
	if err := json.Unmarshal([]byte(d.ok(d.people, "GET", fmt.Sprintf("/v1/events?after=%d", all[1].Seq), "", "")), &rest); err != nil {
		t.Fatal(err)
	}
	if len(rest) != len(all)-2 || rest[0] != all[2] {
		t.Fatalf("after %d: %+v", all[1].Seq, rest)
	}
}

func TestProbesAtThePersonsDoor(t *testing.T) {
	d := newDoors(t)
	const probe = `{"account":{"url":"https://shop.example/me","selector":"#email","pattern":"ada"}}`
	bind := func(origins, probe string) string {
		return `{"name":"p","slot":"shop","account":"ada","origins":[` + origins + `],"probe":` + probe + `}`
	}
	for body, want := range map[string]core.Code{
		bind(`"https://shop.example"`, `{}`):  core.CodeInvalid,
		bind(`"https://bank.example"`, probe): core.CodePolicy,
		bind(`"https://shop.example"`, `{"account":{"url":"https://shop.example/me","selektor":"#email","pattern":"ada"}}`): core.CodeInvalid, // misspelt
		bind(`"https://shop.example"`, `{"acount":{}}`):                                                                     core.CodeInvalid,
	} {
		d.refused(want, d.people, "POST", "/v1/bindings", "", body)
	}
	d.ok(d.people, "POST", "/v1/bindings", "", bind(`"https://shop.example"`, probe))
	var b wire.BindingInfo
	if err := json.Unmarshal([]byte(d.ok(d.people, "GET", "/v1/bindings/p", "", "")), &b); err != nil || b.Probe.Account.Pattern != "ada" || b.SignIn == nil || !b.SignIn.Probe || b.SignIn.Checked != nil {
		t.Fatalf("%v %+v", err, b)
	}
	const path = "/v1/bindings/p/probe"
	d.refused(core.CodeUnavailable, d.people, "POST", path, "", `{}`) // no browser
	d.refused(core.CodeConflict, d.people, "POST", path, "", `{"if_epoch":99}`)
	d.refused(core.CodeNotFound, d.people, "POST", path, "", `{"action":"none"}`)
	d.refused(core.CodeInvalid, d.people, "POST", path, "", `{"url":"https://bank.example/"}`) // what is read is declared, not asked for
	d.refused(core.CodeNotFound, d.people, "POST", "/v1/bindings/none/probe", "", `{}`)
	d.refused(core.CodeConflict, d.people, "POST", "/v1/bindings/admin/probe", "", `{}`)
	d.refused(core.CodeNotFound, d.agents, "POST", path, d.token("p", "ada"), `{}`)
	// Without a wait nothing is started to look; the refusal says so.
	d.refused(core.CodeBusy, d.agents, "POST", "/v1/leases", d.token("p", "ada"), `{"request_id":"r","binding":"p"}`)
}

// TestRoutesAreThoseOfTheTable: every row of the protocol's table is served at its door,
// and the person's at no other.
func TestRoutesAreThoseOfTheTable(t *testing.T) {
	d := newDoors(t)
	for _, r := range wire.Routes {
		path := strings.NewReplacer("{lease}", "x", "{id}", "x", "{slot}", "none", "{binding}", "none", "{action}", "x").Replace(r.Path)
		served := func(h http.Handler) bool {
			_, out := d.ask(h, r.Method, path, "", "{}")
			return !strings.Contains(out, "there is no "+r.Method+" "+path+" here")
		}
		if !served(d.people) {
			t.Errorf("%s %s is not served on control.sock", r.Method, r.Path)
		}
		if got, want := served(d.agents), r.Door == "api"; got != want {
			t.Errorf("%s %s on api.sock: served %v, want %v", r.Method, r.Path, got, want)
		}
	}
}

// The same request again takes the place of its first copy: when that one's wait ends, the
// second goes on waiting.
func TestARepeatedRequestOutlivesItsFirstCopy(t *testing.T) {
	d := newDoors(t)
	first, second := d.token("admin", "agent-a"), d.token("admin", "agent-b")
	var held wire.LeaseReply
	if err := json.Unmarshal([]byte(d.ok(d.agents, "POST", "/v1/leases", first, `{"request_id":"hold","binding":"admin"}`)), &held); err != nil {
		t.Fatal(err)
	}
	d.ok(d.agents, "GET", "/v1/leases/"+string(held.Lease), held.Capability, "")
	type answer struct {
		code int
		text string
	}
	copies := make(chan answer, 2)
	wait := func(ms int) {
		code, text := d.ask(d.agents, "POST", "/v1/leases", second, fmt.Sprintf(`{"request_id":"r","binding":"admin","wait_ms":%d}`, ms))
		copies <- answer{code, text}
	}
	go wait(300)
	time.Sleep(100 * time.Millisecond)
	go wait(20_000)
	if a := <-copies; a.code == 200 {
		t.Fatalf("the first copy: %+v", a)
	}
	waits := false
	d.s.Engine.View(func(s *core.State, _ core.Now) {
		for _, l := range s.Leases {
			waits = waits || l.RequestID == "r" && l.State == core.LeaseWaiting
		}
	})
	if !waits {
		t.Fatal("the second copy ended with the first")
	}
	d.ok(d.agents, "POST", "/v1/leases/"+string(held.Lease)+"/release", held.Capability, `{}`)
}

// An agent that declared itself to an earlier daemon is known to the next, and another
// process with its number is not.
func TestDeclaredAgentsOutliveTheDaemon(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agents.json")
	self, err := peer.Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var before, after agents
	if err := after.load(file); err != nil || len(after.roots) != 0 {
		t.Fatalf("without a file: %v %v", after.roots, err)
	}
	if err := before.declare(self); err != nil {
		t.Fatal(err)
	}
	before.roots = append(before.roots, peer.Proc{PID: self.PPID, StartTime: 1})
	if err := before.keep(file); err != nil {
		t.Fatal(err)
	}
	if err := after.load(file); err != nil || len(after.roots) != 1 || !after.has(self) {
		t.Fatalf("known after a restart: %v %v", after.roots, err)
	}
	if sign, err := after.isAgent(self); err != nil || sign == "" {
		t.Fatalf("%q %v", sign, err)
	}
}
