package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sessiondock": main, "at-terminal": atTerminal})
}

// TestScripts runs the real program where no daemon is.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_RUNTIME_DIR", filepath.Join(e.WorkDir, "run"))
			return os.Mkdir(filepath.Join(e.WorkDir, "run"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// code N: sessiondock ARGS... must end with that exit code.
			"code": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: code N ARGS...")
				}
				a := &app{out: ts.Stdout(), err: ts.Stderr(), getenv: ts.Getenv}
				if got := a.run(context.Background(), args[1:]); got != atoi(ts, args[0]) {
					ts.Fatalf("exit code %d, want %s", got, args[0])
				}
			},
		},
	})
}

func atoi(ts *testscript.TestScript, s string) int {
	var n int
	ts.Check(json.Unmarshal([]byte(s), &n))
	return n
}

// run runs the program in this process without any variable of the environment.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	vars := map[string]string{"HOME": t.TempDir(), "XDG_RUNTIME_DIR": t.TempDir()}
	a := &app{out: &out, err: &errs, getenv: func(k string) string { return vars[k] }}
	code = a.run(t.Context(), args)
	return code, out.String(), errs.String()
}

func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}

func TestEveryCommandHasHelpAndAnExample(t *testing.T) {
	a := &app{getenv: func(string) string { return "" }}
	eachCommand(a.root(), func(c *cobra.Command) {
		path := c.CommandPath()
		switch {
		case c.Short == "":
			t.Errorf("%s: no short help", path)
		case len(c.Short) > 72 || strings.HasSuffix(c.Short, "."):
			t.Errorf("%s: the short help is too long, or ends with a full stop: %q", path, c.Short)
		case c.Run == nil && c.RunE == nil: // a help topic
			if c.Long == "" {
				t.Errorf("%s: an empty topic", path)
			}
		case !strings.HasPrefix(c.Example, "  "):
			t.Errorf("%s: no example", path)
		case !strings.Contains(c.Example, "sessiondock "):
			t.Errorf("%s: the example does not name the program: %q", path, c.Example)
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 84 {
				t.Errorf("%s: a line of %d characters: %s", path, n, line)
			}
		}
	})
}

// TestExamplesParse runs every line of every example up to the missing daemon: a
// wrong flag or argument in the help text is a usage error.
func TestExamplesParse(t *testing.T) {
	t.Setenv("PATH", "") // no daemon program, no browser to start
	a := &app{getenv: func(string) string { return "" }}
	eachCommand(a.root(), func(c *cobra.Command) {
		for line := range strings.SplitSeq(strings.ReplaceAll(c.Example, "\\\n", " "), "\n") {
			args := exampleArgs(line)
			if len(args) == 0 {
				continue
			}
			if args[0] == "demo" || args[0] == "doctor" || args[0] == "stage" { // what they do is this machine's: only their flags are looked at
				if err := c.ParseFlags(args[1:]); err != nil {
					t.Errorf("%q: %v", args, err)
				}
				continue
			}
			var out, errs bytes.Buffer
			vars := map[string]string{"HOME": t.TempDir(), "XDG_RUNTIME_DIR": t.TempDir(), envCapability: "c", envLease: "01JZ8M3T6V4Q0W9YB2C7D5E1FG", envEpoch: "1"}
			probe := &app{out: &out, err: &errs, getenv: func(k string) string { return vars[k] }}
			if code := probe.run(t.Context(), args); code != 0 && code != 10 {
				t.Errorf("%s: %q: exit code %d: %s", c.CommandPath(), args, code, errs.String())
			}
		}
	})
}

// exampleArgs takes the arguments of sessiondock out of a line of shell.
func exampleArgs(line string) []string {
	_, rest, ok := strings.Cut(line, "sessiondock ")
	if !ok {
		return nil
	}
	rest = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(rest), `)"`), ")")
	rest = strings.ReplaceAll(rest, `"$SESSIONDOCK_LEASE"`, "01JZ8M3T6V4Q0W9YB2C7D5E1FG")
	var args []string
	for part := range strings.FieldsFuncSeq(quoted(rest), func(r rune) bool { return r == ' ' }) {
		args = append(args, strings.ReplaceAll(part, "\x00", " "))
	}
	return args
}

// quoted hides the blanks within quotes and drops the quotes.
func quoted(s string) string {
	var b strings.Builder
	var in rune
	for _, r := range s {
		switch {
		case in == 0 && (r == '"' || r == '\''):
			in = r
		case r == in:
			in = 0
		case in != 0 && r == ' ':
			b.WriteByte(0)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func TestActArguments(t *testing.T) {
	str := func(s string) *string { return &s }
	yes, no := true, false
	for line, want := range map[string]wire.Act{
		"navigate http://a.example/":      {Verb: "navigate", URL: "http://a.example/"},
		"click #save":                     {Verb: "click", Selector: "#save"},
		"click --ref e3":                  {Verb: "click", Ref: "e3"},
		"click --role button --name Save": {Verb: "click", Role: "button", Name: "Save"},
		"fill #a x":                       {Verb: "fill", Selector: "#a", Value: str("x")},
		"fill --ref e1 x":                 {Verb: "fill", Ref: "e1", Value: str("x")},
		"fill #a --value x":               {Verb: "fill", Selector: "#a", Value: str("x")},
		"type x":                          {Verb: "type", Value: str("x")},
		"type #a x":                       {Verb: "type", Selector: "#a", Value: str("x")},
		"press Control+A":                 {Verb: "press", Key: "Control+A"},
		"drag #a #b":                      {Verb: "drag", Selector: "#a", ToSelector: "#b"},
		"drag #a --to-ref e2":             {Verb: "drag", Selector: "#a", ToRef: "e2"},
		"scroll --dy -200":                {Verb: "scroll", DY: -200},
		"upload #f a.txt b.txt":           {Verb: "upload", Selector: "#f", Files: []string{"a.txt", "b.txt"}},
		"check #a --checked=false":        {Verb: "check", Selector: "#a", Checked: &no},
		"wait":                            {Verb: "wait"},
		"wait #a --state hidden":          {Verb: "wait", Selector: "#a", State: "hidden"},
		"evaluate 1+1":                    {Verb: "evaluate", Expression: "1+1"},
		"dialog dismiss":                  {Verb: "dialog", Accept: &no},
		"dialog accept --value x":         {Verb: "dialog", Accept: &yes, Value: str("x")},
		"tabs":                            {Verb: "tabs"},
		"tabs new":                        {Verb: "tabs", Op: "new"},
		`cdp Page.enable {"a":1}`:         {Verb: "cdp", Method: "Page.enable", Params: json.RawMessage(`{"a":1}`)},
	} {
		got, err := parseAct(strings.Fields(line))
		gotJSON, _ := json.Marshal(got)
		wantJSON, _ := json.Marshal(want)
		if err != nil || !bytes.Equal(gotJSON, wantJSON) {
			t.Errorf("%s: %s, %v; want %s", line, gotJSON, err, wantJSON)
		}
	}
	for _, line := range []string{
		"leap", "navigate", "navigate a b", "click", "fill #a", "press", "upload #f", "dialog", "dialog maybe",
		"cdp Page.enable []", "cdp", "evaluate", "click #a --ref e1", "wait --state gone", "reload now", "drag", "click #a --deadline 11m",
	} {
		if got, err := parseAct(strings.Fields(line)); err == nil {
			t.Errorf("%s: taken as %+v", line, got)
		}
	}
}

// parseAct parses a verb with its arguments as `act` does, up to the request.
func parseAct(args []string) (wire.Act, error) {
	var got wire.Act
	f, c := new(actFlags), &cobra.Command{Use: "act"}
	f.bind(c)
	if err := c.ParseFlags(args); err != nil {
		return got, err
	}
	pos := c.Flags().Args()
	f.act.Verb = pos[0]
	if err := f.take(c, pos[0], pos[1:]); err != nil {
		return got, err
	}
	if err := f.finish(c); err != nil {
		return got, err
	}
	if _, err := wire.CheckAct(f.act); err != nil {
		return got, err
	}
	return f.act, nil
}

// TestRecordExit: 0 needs a finished local part and an answer that is not unknown;
// an unknown is never reported as a failure (I6).
func TestRecordExit(t *testing.T) {
	fenced := core.Refuse(core.CodeFenced, "fenced", "")
	for _, c := range []struct {
		r    core.Record
		want int
	}{
		{core.Record{Authority: core.Admitted, Local: core.Finished, Remote: core.NoneSeen}, 0},
		{core.Record{Authority: core.Admitted, Local: core.Finished, Remote: core.InFlight}, 0},
		{core.Record{Authority: core.Admitted, Local: core.Finished, Remote: core.Answered(500)}, 0},
		{core.Record{Authority: core.Admitted, Local: core.Finished, Remote: core.RemoteUnknown}, 15},
		{core.Record{Authority: core.Admitted, Local: core.LocalUnknown, Remote: core.NoneSeen}, 15},
		{core.Record{Authority: core.Admitted, Local: core.LocalUnknown, Remote: core.NoneSeen, Error: fenced}, 15},
		{core.Record{Authority: core.Admitted, Local: core.Failed, Remote: core.RemoteUnknown}, 15},
		{core.Record{Authority: core.Admitted, Local: core.Ended, Remote: core.NoneSeen}, 15},
		{core.Record{Authority: core.Admitted, Local: core.Running, Remote: core.NoneSeen}, 15},
		{core.Record{Authority: core.Admitted, Local: core.Failed, Remote: core.NoneSeen}, 1},
		{core.Record{Authority: core.Admitted, Local: core.Interrupted, Remote: core.NoneSeen, Error: fenced}, 12},
		{core.Record{Authority: core.Admitted, Local: core.NotDispatched, Remote: core.NoneSeen, Error: fenced}, 12},
		{core.Record{Authority: core.Refused(core.CodeFenced), Local: core.NotDispatched}, 12},
		{core.Record{Authority: core.Refused(core.CodeHeld), Local: core.NotDispatched}, 13},
		{core.Record{Authority: core.Admitted, Local: core.LocalUnknown, Remote: core.Applied, Resolution: &core.Resolution{Verdict: core.Applied}}, 0},
		{core.Record{Authority: core.Admitted, Local: core.LocalUnknown, Remote: core.NotApplied, Resolution: &core.Resolution{Verdict: core.NotApplied}}, 1},
	} {
		if got := recordExit(&c.r); got != c.want {
			t.Errorf("%s, %s, %s: exit code %d, want %d", c.r.Authority, c.r.Local, c.r.Remote, got, c.want)
		}
	}
}

func TestStatusFitsAndNamesUnknown(t *testing.T) {
	st := &core.Status{
		Slot: "shop", Binding: "shop-admin",
		Authority: core.AuthorityNow{Holder: core.Holder{Kind: "human", Name: "popup"}, Epoch: 8, Fence: "draining"},
		Local: core.LocalNow{State: "unknown",
			Commands:  []core.CommandNow{{Action: "01A", Summary: "click button Save\x1b[31m with a name that is rather long", RunningMs: 4200, Local: core.LocalUnknown}},
			Documents: []core.DocNow{{Document: "D", URL: "https://shop.example/product/42", Why: "agent_script"}},
			Launch:    &core.LaunchNow{Generation: 3, Containment: "weak", State: "running", Link: "up"}},
		Remote:      core.RemoteNow{State: "unknown", Requests: []core.RequestNow{{Action: "01A", Method: "POST", URL: "https://shop.example/save", State: "in_flight"}}},
		Offer:       core.Offer{Why: []string{"held by a person"}},
		Quarantine:  []core.Reason{{Text: "an action is open", Resolve: "sessiondock resolve 01A --applied"}},
		Interrupted: &core.Interrupt{Lease: "01B", Agent: "ada", ExpiresInMs: 60_000, Ask: &core.Ask{Reason: "sign in"}},
		Keys:        []string{"shop:product/42", "stock:shared"},
		Allow:       []string{"cookies", "storage"},
		Queue: []core.Waiter{{Lease: "01C", Agent: "ben", Binding: "nightly", Priority: 5, Position: 1, WaitMs: 90_000,
			Reasons: []string{"held by a person (popup)", "key till held by cleo for 9 min more (slot b)"}}},
		Asks:       []core.AskNow{{Lease: "01D", Agent: "eve", Ask: core.Ask{Reason: "may I?"}}},
		Retentions: []core.RetentionNow{{Lease: "01D", Agent: "eve", Retention: core.Retention{ForMs: 3_600_000, Reason: "the import is not done"}}},
		SignIns: []core.SignIn{
			{Binding: "stock", Account: "ops", Confirmed: &core.Confirmation{By: "human:cli", AtMs: 1, Note: "looked"}, BeforeRestart: true},
			{Binding: "till", Account: "ops"},
			{Binding: "saved", Confirmed: &core.Confirmation{By: "human:cli", AtMs: 1, SavedMs: 2}, Prepared: true},
			{Binding: "gone", Confirmed: &core.Confirmation{By: "human:cli", AtMs: 1, LostMs: 2}},
		},
		Sentences: core.Sentences{Warnings: []string{"Code that the agent put into this page may still run. Reload before you type a secret.", "eve asks for a person: may I?"}},
	}
	for _, colour := range []bool{false, true} {
		var out bytes.Buffer
		a := &app{out: &out, colour: colour}
		if err := a.printStatus(st); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if got := strings.Contains(text, "\x1b["); got != colour {
			t.Errorf("colour %v, want %v:\n%s", got, colour, text)
		}
		if strings.Contains(text, "Save\x1b") {
			t.Error("an escape sequence of a page reached the terminal")
		}
		if strings.Count(text, "UNKNOWN") != 2 {
			t.Errorf("both unknowns must be said:\n%s", text)
		}
		for _, want := range []string{"Who may act now?", "epoch 8", "a script of the agent may still run", "POST https://shop.example/save", "sessiondock resolve 01A",
			"sessiondock handback shop --to ada", "ada had asked: sign in", "conflict keys: shop:product/42, stock:shared", "beyond pages the binding allows: cookies, storage",
			"waiting, place 1: ben for binding nightly, priority 5, 1m30s left to wait: held by a person (popup); key till held by cleo for 9 min more (slot b)",
			"eve asks for a person: may I?", "sessiondock lease answer 01D --approve | --decline",
			"eve asks to keep its lease for 1h0m0s more: the import is not done", "sessiondock retain approve 01D",
			"before the last restart of the browser (looked); not on the disk yet", "; on the disk since ", "it may be LOST: the browser ended without a clean stop at ", "sessiondock confirm gone", "the sign-in as ops is not confirmed: sessiondock confirm till"} {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
				t.Errorf("%q is missing:\n%s", want, text)
			}
		}
		if strings.Count(text, "eve asks for a person") != 1 {
			t.Errorf("an ask is said twice:\n%s", text)
		}
		if colour {
			continue
		}
		for line := range strings.Lines(text) {
			if n := len([]rune(line)); n > width+1 {
				t.Errorf("%d characters: %s", n, line)
			}
		}
	}
}

func TestExportsAreQuotedForTheShell(t *testing.T) {
	if got, want := shellQuote(`a'b $(rm) "c"`), `'a'\''b $(rm) "c"'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSaveResult(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\n....")
	b64 := base64.StdEncoding.EncodeToString(png)
	for raw, want := range map[string]string{
		`"` + b64 + `"`:                string(png),
		`{"data":"` + b64 + `","w":1}`: string(png),
		`"plain text"`:                 "plain text",
		`{"a":1}`:                      `{"a":1}`,
	} {
		path := filepath.Join(t.TempDir(), "result")
		if err := saveResult(path, json.RawMessage(raw)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", raw, got, err)
		}
	}
}

// TestALeaseSaysWhatItMayAndWhatItAsks prints each of a lease's parts.
func TestALeaseSaysWhatItMayAndWhatItAsks(t *testing.T) {
	l := &wire.LeaseReply{
		Lease: "01D", Slot: "shop", Binding: "stock", Agent: "eve", State: core.LeaseActive, Epoch: 9, ExpiresInMs: 60_000, MaxLifetimeMs: 120_000,
		Keys: []core.KeyClaim{{Key: "shop:product/42"}, {Key: "stock", Shared: true}}, Budget: core.Budget{Actions: 10, PerMinute: 5}, Spent: core.Spent{Actions: 3, Bytes: 700},
		Ask:       &core.Ask{Reason: "may I?", AtMs: 1, State: "taken_over", By: "human:popup", AnswerMs: 2},
		Retention: &core.Retention{ID: "R", ForMs: 3_600_000, Reason: "not done", AtMs: 1, State: "approved", By: "human:cli", DecidedMs: 2, Note: "until noon"},
	}
	waiting := &wire.LeaseReply{Lease: "01C", State: core.LeaseWaiting, Agent: "ben", Place: &core.Place{Position: 2, Of: 3, WaitMs: 5000, Passed: 1, Why: []string{"held by eve for 9 min more"}}}
	var out bytes.Buffer
	a := &app{out: &out}
	for _, l := range []*wire.LeaseReply{l, waiting} {
		if err := a.printLease(l); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"keys: shop:product/42, stock:shared", "used: 3 of 10 actions, 700 bytes, at most 5 a minute", "may I?, at ", "; taken over by human:popup at ",
		"wants: 1h0m0s from the approval on: not done, at ", "; approved by human:cli at ", "(until noon)", "sessiondock retain acknowledge 01D",
		"waits: place 2 of 3, passed 1 times because of its keys: held by eve for 9 min more; 5s left to wait",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

// TestAClockAloneIsNoChange: who waits is not told of each second.
func TestAClockAloneIsNoChange(t *testing.T) {
	at := func(why string) string { return untimed(place(&core.Place{Position: 1, Of: 1, Why: []string{why}})) }
	if at("held by eve for 59 s more") != at("held by eve for 2 h 10 min more") {
		t.Error("a clock that runs is told as a change")
	}
	for _, other := range []string{"held by ben for 59 s more", "capacity: 1 of 1 browsers running", "held by eve2 for 59 s more"} {
		if at("held by eve for 59 s more") == at(other) {
			t.Errorf("%q is not told", other)
		}
	}
}

// A person is shown the beginning of a long list, how much more there is, and how to see it
// and to be done with it.
func TestALongStatusIsCut(t *testing.T) {
	st := &core.Status{Slot: "shop"}
	for i := range 100 {
		id := core.ActionID(fmt.Sprint("action-", i))
		st.Remote.Requests = append(st.Remote.Requests, core.RequestNow{Action: id, Method: "POST", URL: "https://shop.example/", State: "unknown"})
		st.Offer.Why = append(st.Offer.Why, "quarantined: "+string(id))
		st.Quarantine = append(st.Quarantine, core.Reason{Code: "outcome_unknown", Text: string(id), Action: id, Resolve: "sessiondock resolve " + string(id)})
	}
	var out bytes.Buffer
	if err := (&app{out: &out}).printStatus(st); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if n := strings.Count(text, "\n"); n > 100 {
		t.Errorf("%d lines", n)
	}
	for _, want := range []string{"and 90 more", "sessiondock actions shop --open", "resolve ACTION ACTION...", "sessiondock quarantine lift shop --note"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
}
