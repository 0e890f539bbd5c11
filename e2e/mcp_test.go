package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// toolUser is an agent that works by the tools of `sessiondock mcp`.
type toolUser struct {
	*desk
	session *sdk.ClientSession
}

// tools starts `sessiondock mcp` for the desk's binding, by the configuration that
// `sessiondock mcp config` prints, with nothing of this test's own lease.
func (k *desk) tools() *toolUser {
	k.t.Helper()
	must(k.t, k.Release(k.ctx))
	k.Lease = nil
	home, _ := demo.InHome()
	config := exec.CommandContext(k.ctx, filepath.Join(home.Bin(), "sessiondock"), "mcp", "config", "claude", "--binding", k.name, "--to", "tools")
	config.Stderr = os.Stderr
	printed, err := config.Output()
	must(k.t, err)
	var file struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	must(k.t, json.Unmarshal(printed, &file))
	server := file.Servers["sessiondock"]
	cmd := exec.Command(server.Command, server.Args...)
	cmd.Stderr = os.Stderr
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(k.ctx, &sdk.CommandTransport{Command: cmd}, nil)
	must(k.t, err)
	k.t.Cleanup(func() { session.Close() })
	return &toolUser{k, session}
}

type args map[string]any

// call uses a tool and returns what it says.
func (u *toolUser) call(name string, a args) (text string, failed bool) {
	u.t.Helper()
	r, err := u.session.CallTool(u.ctx, &sdk.CallToolParams{Name: name, Arguments: a})
	must(u.t, err)
	for _, c := range r.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			text += c.Text
		case *sdk.ImageContent:
			text += c.MIMEType
		}
	}
	u.t.Logf("%s %v: %s", name, a, text)
	return text, r.IsError
}

// says uses a tool, and wants it to succeed and to say all of this.
func (u *toolUser) says(name string, a args, want ...string) string {
	u.t.Helper()
	text, failed := u.call(name, a)
	for _, w := range want {
		if !strings.Contains(text, w) {
			u.t.Fatalf("%s does not say %q:\n%s", name, w, text)
		}
	}
	if failed {
		u.t.Fatalf("%s failed: %s", name, text)
	}
	return text
}

// refuses uses a tool, and wants it to refuse with this.
func (u *toolUser) refuses(name string, a args, want ...string) {
	u.t.Helper()
	text, failed := u.call(name, a)
	for _, w := range want {
		if !failed || !strings.Contains(text, w) {
			u.t.Fatalf("%s: failed %v, and it does not say %q:\n%s", name, failed, w, text)
		}
	}
}

// target finds the reference of an element in a snapshot.
func (u *toolUser) target(page, element string) string {
	u.t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta("- "+element) + `.*?\[ref=(d\d+e\d+)\]`).FindStringSubmatch(page)
	if m == nil {
		u.t.Fatalf("no %s in\n%s", element, page)
	}
	return m[1]
}

// An agent works by tools alone: it sees the page, changes it, is told what came of a
// change that the website answers late, and cannot use a reference of a page that has
// gone.
func TestToolsTellWhatCameOfAnAction(t *testing.T) {
	t.Parallel()
	u := openDesk(t, "product", "").tools()
	page := u.says("browser_navigate", args{"url": u.page}, "Page: ", `button "Save"`)
	save := u.target(page, `button "Save"`)
	// The shop takes 1.5 s to answer, and then the page says so.
	u.says("browser_click", args{"element": "Save", "target": save}, "done; the website answered 200", "now: ")
	if got := len(u.site.Saves(u.name)); got != 1 {
		t.Fatalf("the shop counted %d", got)
	}
	u.says("session_action", args{}, "done; the website answered 200", "POST")
	u.says("browser_evaluate", args{"function": "() => 6 * 7"}, "42")
	u.says("browser_take_screenshot", args{}, "image/png")
	u.says("browser_tabs", args{"action": "list"}, "0: ", "(active)")
	u.says("session_status", args{}, "lease", "active")

	other := u.says("browser_navigate", args{"url": u.site.URL(u.name, "button", "")}, "Page: ")
	if strings.Contains(other, save+"]") {
		t.Fatalf("%s stands for something else now:\n%s", save, other)
	}
	u.refuses("browser_click", args{"target": save}, "THE PAGE HAS CHANGED", "Nothing was done")
	u.refuses("browser_click", args{"target": "e7"}, "not a reference")
	u.refuses("browser_navigate", args{"url": "https://elsewhere.example/"}, "refused (policy)")
	u.refuses("browser_tabs", args{"action": "select", "index": 7}, "there is no tab 7")

	u.says("session_release", args{}, "released")
	st, err := u.d.Control.Status(u.ctx, u.slot())
	must(t, err)
	if st.Authority.Holder.Kind != "none" {
		t.Fatalf("after the release it is held by %+v", st.Authority.Holder)
	}
	// The next tool acquires again; the end of the server releases it.
	u.says("browser_snapshot", args{}, "Page: ")
	must(t, u.session.Close())
	u.status("the release at the server's end", func(s *core.Status) bool { return s.Authority.Holder.Kind == "none" })
}

// A person takes over between an agent's click and the website's answer: the tool says
// that at once, never that it may be tried again, and waits for the handback when asked.
func TestToolsSayThatControlWasTaken(t *testing.T) {
	t.Parallel()
	u := openDesk(t, "product", "").tools()
	page := u.says("browser_navigate", args{"url": u.page}, `button "Save"`)
	save := u.target(page, `button "Save"`)
	clicked := make(chan string, 1)
	go func() {
		r, err := u.session.CallTool(context.WithoutCancel(u.ctx), &sdk.CallToolParams{Name: "browser_click", Arguments: args{"target": save}})
		if err != nil || len(r.Content) == 0 {
			clicked <- "error"
			return
		}
		clicked <- r.Content[0].(*sdk.TextContent).Text
	}()
	if !u.site.WaitSaves(u.ctx, u.name, 1) {
		t.Fatal("the click did not reach the shop")
	}
	_, err := u.d.Control.Change(u.ctx, u.slot(), client.Takeover, wire.ChangeRequest{})
	must(t, err)
	said := <-clicked
	t.Logf("the click: %s", said)
	if !strings.Contains(said, "do NOT do it again") && !strings.Contains(said, "answered 200") {
		t.Fatalf("the click says: %s", said)
	}
	u.refuses("browser_click", args{"target": save}, "CONTROL WAS TAKEN AWAY", "human", "session_ask_person")
	u.says("session_ask_person", args{"reason": "go on", "wait_seconds": 0.5}, "the person has the browser", "again")
	u.says("session_action", args{}, "click ")

	done := make(chan string, 1)
	go func() {
		r, err := u.session.CallTool(u.ctx, &sdk.CallToolParams{Name: "session_ask_person", Arguments: args{"reason": "go on", "wait_seconds": 60}})
		if err != nil || len(r.Content) == 0 {
			done <- "error"
			return
		}
		done <- r.Content[0].(*sdk.TextContent).Text
	}()
	u.status("the website's answer", func(s *core.Status) bool { return s.Authority.Fence == "drained" && s.Remote.State != "in_flight" })
	_, err = u.d.Control.Change(u.ctx, u.slot(), client.Handback, wire.ChangeRequest{To: "tools"})
	must(t, err)
	select {
	case said := <-done:
		if !strings.Contains(said, "yours again") {
			t.Fatalf("after the handback: %s", said)
		}
	case <-time.After(time.Minute):
		t.Fatal("the handback was not noticed")
	}
	// References of before the takeover lead to the page as long as it is the same one.
	u.says("browser_snapshot", args{}, `button "Save"`)
	if got := len(u.site.Saves(u.name)); got != 1 {
		t.Fatalf("the shop counted %d", got)
	}
}

// A dialog is told at once, with what it says; nothing else is begun while it is there, and
// its answer tells what came of the action that had waited for it.
func TestToolsTellOfADialog(t *testing.T) {
	t.Parallel()
	u := openDesk(t, "product", "").tools()
	prompt := func(name, does string) {
		u.says("browser_evaluate", args{"function": `document.body.insertAdjacentHTML("beforeend", "<button onclick=\"` + does + `\">` + name + `</button>"), 1`})
	}
	prompt("Delete", "document.title = confirm('Really delete?') ? 'deleted' : 'kept'")
	prompt("Later", "setTimeout(() => { alert('Too late'); document.title = 'told' }, 300)")
	page := u.says("browser_snapshot", nil)
	soon := func(what string) func() {
		begun := time.Now()
		return func() {
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("%s took %v", what, took)
			}
		}
	}

	told := soon("a click")
	u.says("browser_click", args{"target": u.target(page, `button "Delete"`)}, "not over yet", `a confirm dialog: "Really delete?"`, "browser_handle_dialog")
	told()
	told = soon("a look at a page with a dialog")
	u.refuses("browser_snapshot", nil, `"Really delete?"`, "browser_handle_dialog")
	u.refuses("browser_evaluate", args{"function": "document.title"}, `"Really delete?"`)
	told()
	u.says("browser_handle_dialog", args{"accept": true}, "click", "done", "(deleted)")

	u.says("browser_evaluate", args{"function": "alert('one'), 7"}, "not over yet", `an alert: "one"`)
	if got := u.says("browser_handle_dialog", args{"accept": true}); !strings.HasSuffix(got, "\n7") {
		t.Errorf("the evaluation came to %q", got)
	}

	// The next dialog comes long after the first is answered: nothing stands in line meanwhile.
	u.says("browser_evaluate", args{"function": "(async () => { confirm('first'); await new Promise((then) => setTimeout(then, 7000)); confirm('second'); return 8 })()"}, `"first"`)
	told = soon("what goes on after a dialog")
	u.says("browser_handle_dialog", args{"accept": true}, "dialog: done", "not over yet: OUTCOME UNKNOWN so far, it goes on in the page", "do NOT do it again")
	told()
	u.says("session_action", nil)
	for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		text, failed := u.call("browser_snapshot", nil)
		if !failed || time.Since(begun) > 15*time.Second {
			t.Fatalf("the second dialog: %s", text)
		}
		if strings.Contains(text, `"second"`) {
			break
		}
	}
	if got := u.says("browser_handle_dialog", args{"accept": true}); !strings.HasSuffix(got, "\n8") {
		t.Errorf("the evaluation came to %q", got)
	}

	// One that comes when nothing waits: what is asked for next is not begun.
	u.says("browser_click", args{"target": u.target(page, `button "Later"`)}, "done")
	time.Sleep(time.Second)
	told = soon("what is not begun")
	u.refuses("browser_click", args{"target": u.target(page, `button "Delete"`)}, "not done; nothing was sent", `an alert: "Too late"`, "browser_handle_dialog")
	u.refuses("browser_snapshot", nil, `"Too late"`)
	u.refuses("browser_press_key", args{"key": "x"}, "not done; nothing was sent", `"Too late"`)
	u.refuses("browser_evaluate", args{"function": "document.title = 'ran behind it'"}, "not done; nothing was sent", `"Too late"`)
	u.refuses("browser_navigate", args{"url": u.page}, `"Too late"`)
	told()
	u.says("browser_handle_dialog", args{"accept": true})
	u.says("browser_snapshot", nil, "told")
	u.says("browser_evaluate", args{"function": "onbeforeunload = (e) => { e.preventDefault(); return '' }, 1"})
	u.says("browser_navigate", args{"url": u.page}, "not over yet", "a question whether to leave it")
	u.says("browser_handle_dialog", args{"accept": true}, "dialog: done; the website answered 200", "navigate", "done")
}

// What the page has said to its console before anybody listened, and what it has asked for.
func TestToolsSumUpConsoleAndNetwork(t *testing.T) {
	t.Parallel()
	u := openDesk(t, "product", "").tools()
	u.says("browser_navigate", args{"url": u.page})
	u.says("browser_evaluate", args{"function": `(console.log("counted", 3, {a: 1}), console.warn("careful"), console.debug("chatter"), setTimeout(() => { throw new Error("thrown") }), 1)`})
	u.says("browser_evaluate", args{"function": `fetch("/missing?token=7#part", {method: "POST"}).then(() => new Promise((then) => { const i = new Image(); i.onload = i.onerror = then; i.src = "data:,x" }), () => 0)`})
	got := u.says("browser_console_messages", nil, "[INFO] counted 3 Object", "[WARNING] careful", "[ERROR] Error: thrown", "[ERROR] Failed to load resource")
	if strings.Contains(got, "chatter") {
		t.Error("a debug message is told")
	}
	u.says("browser_console_messages", args{"level": "debug"}, "[DEBUG] chatter")
	if got := u.says("browser_console_messages", args{"level": "error"}); strings.Contains(got, "careful") {
		t.Error("a warning is told as an error")
	}
	u.refuses("browser_console_messages", args{"level": "loud"}, "there is no level")
	u.says("browser_network_requests", nil, "[GET] "+u.page+" => [200, ", "main_frame", "[POST] ", "/missing?token=7 => [404, ")
	if got := u.says("browser_network_requests", args{"filter": "missing"}); strings.Contains(got, "main_frame") {
		t.Errorf("the filter lets through:\n%s", got)
	}
	u.refuses("browser_network_requests", args{"filter": "("}, "the filter")
	u.says("browser_navigate", args{"url": u.page})
	u.says("browser_console_messages", nil, "says nothing")
	if got := u.says("browser_network_requests", args{"static": true}, "main_frame"); strings.Contains(got, "missing") {
		t.Errorf("requests of a former page:\n%s", got)
	}
}

// A person takes over while an action waits for a dialog: the next tool says who has control,
// at once, and not that the dialog is to be answered.
func TestATakeoverWhileADialogWaits(t *testing.T) {
	t.Parallel()
	u := openDesk(t, "product", "").tools()
	u.says("browser_evaluate", args{"function": "confirm('mine?')"}, "not over yet", `"mine?"`)
	_, err := u.d.Control.Change(u.ctx, u.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
	must(t, err)
	begun := time.Now()
	u.refuses("browser_snapshot", nil, "CONTROL WAS TAKEN AWAY")
	u.refuses("browser_handle_dialog", args{"accept": true}, "CONTROL WAS TAKEN AWAY")
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("told after %v", took)
	}
}
