package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// maxWait bounds browser_wait_for, so that an agent's call always ends.
const maxWait = 60 * time.Second

type (
	targetArg struct {
		Element string `json:"element,omitempty" jsonschema:"what the element is, in words; for the person who reads along"`
		Target  string `json:"target" jsonschema:"the element's reference in the last browser_snapshot, such as d1e7"`
	}
	navigateArg struct {
		URL string `json:"url" jsonschema:"the address to go to"`
	}
	typeArg struct {
		targetArg
		Text   string `json:"text" jsonschema:"the text; it replaces what the field holds"`
		Slowly bool   `json:"slowly,omitempty" jsonschema:"type it key by key, after what the field holds"`
		Submit bool   `json:"submit,omitempty" jsonschema:"press Enter afterwards"`
	}
	formArg struct {
		Fields []struct {
			Name   string `json:"name,omitempty" jsonschema:"the field, in words"`
			Target string `json:"target" jsonschema:"the field's reference"`
			Type   string `json:"type,omitempty" jsonschema:"textbox, checkbox, radio, combobox or slider"`
			Value  string `json:"value" jsonschema:"the text, the option, or true or false"`
		} `json:"fields" jsonschema:"the fields, in order"`
	}
	keyArg struct {
		Key string `json:"key" jsonschema:"a key, such as Enter, ArrowDown, a or Control+A"`
	}
	selectArg struct {
		targetArg
		Values []string `json:"values" jsonschema:"the option, by value or label"`
	}
	dragArg struct {
		StartElement string `json:"startElement,omitempty"`
		StartTarget  string `json:"startTarget" jsonschema:"what is dragged"`
		EndElement   string `json:"endElement,omitempty"`
		EndTarget    string `json:"endTarget" jsonschema:"what it is dropped on"`
	}
	uploadArg struct {
		targetArg
		Paths []string `json:"paths" jsonschema:"files; they are copied to the lease's upload directory"`
	}
	dialogArg struct {
		Accept     bool    `json:"accept"`
		PromptText *string `json:"promptText,omitempty"`
	}
	tabsArg struct {
		Action string `json:"action" jsonschema:"list, new, select or close"`
		Index  *int   `json:"index,omitempty" jsonschema:"which tab of the list, from 0"`
		URL    string `json:"url,omitempty" jsonschema:"new: the address"`
	}
	evaluateArg struct {
		Function string `json:"function" jsonschema:"JavaScript: an expression, or a function without arguments; a promise is awaited"`
	}
	pictureArg struct {
		FullPage bool `json:"fullPage,omitempty" jsonschema:"the whole page, not only what is in view"`
	}
	waitArg struct {
		Text     string  `json:"text,omitempty" jsonschema:"until this text is there"`
		TextGone string  `json:"textGone,omitempty" jsonschema:"until this text is gone"`
		Time     float64 `json:"time,omitempty" jsonschema:"seconds"`
	}
	scrollArg struct {
		DX float64 `json:"dx,omitempty" jsonschema:"CSS pixels to the right"`
		DY float64 `json:"dy,omitempty" jsonschema:"CSS pixels down"`
	}
)

// browser are the tools of the browser.
func (s *session) browser(server *sdk.Server) {
	add(s, server, "browser_navigate", "Go to an address", false, func(ctx context.Context, a navigateArg) (reply, error) {
		return s.do(ctx, wire.Act{Verb: "navigate", URL: a.URL}, "")
	})
	add(s, server, "browser_navigate_back", "One step back in the tab's history", false, func(ctx context.Context, _ nothing) (reply, error) {
		return s.do(ctx, wire.Act{Verb: "back"}, "")
	})
	add(s, server, "browser_reload", "Load the page again", false, func(ctx context.Context, _ nothing) (reply, error) {
		return s.do(ctx, wire.Act{Verb: "reload"}, "")
	})
	add(s, server, "browser_snapshot", "The page as text: one line a thing or row, with a reference for whatever can be acted on", true, s.snapshot)
	add(s, server, "browser_click", "Click an element", false, s.on("click"))
	add(s, server, "browser_hover", "Move the mouse to an element", false, s.on("hover"))
	add(s, server, "browser_type", "Enter text into a field", false, s.enter)
	add(s, server, "browser_fill_form", "Fill several fields", false, s.form)
	add(s, server, "browser_press_key", "Press one key, with modifiers", false, func(ctx context.Context, a keyArg) (reply, error) {
		return s.do(ctx, wire.Act{Verb: "press", Key: a.Key}, "")
	})
	add(s, server, "browser_select_option", "Choose an option of a list", false, s.choose)
	add(s, server, "browser_drag", "Drag an element onto another", false, s.drag)
	add(s, server, "browser_scroll", "Scroll the page", false, func(ctx context.Context, a scrollArg) (reply, error) {
		return s.do(ctx, wire.Act{Verb: "scroll", DX: a.DX, DY: a.DY}, "")
	})
	add(s, server, "browser_file_upload", "Give files to a file field", false, s.upload)
	add(s, server, "browser_handle_dialog", "Answer an open alert, confirm or prompt", false, s.dialog)
	add(s, server, "browser_tabs", "List, open, choose or close tabs", false, s.tabs)
	add(s, server, "browser_evaluate", "Run JavaScript in the page", false, s.evaluate)
	add(s, server, "browser_take_screenshot", "A picture of the page", true, s.screenshot)
	add(s, server, "browser_console_messages", "What the page's console says", true, s.console)
	add(s, server, "browser_network_requests", "The requests of the page since it was opened", true, s.network)
	add(s, server, "browser_wait_for", "Wait for a text to come or go, or for a time", true, s.wait)
}

// do carries out an action that can have an effect, waits for what it started, and
// tells what became of it and what changed on the page.
func (s *session) do(ctx context.Context, a wire.Act, target string) (reply, error) {
	r, err := s.effect(ctx, a, target)
	if err != nil {
		return reply{}, err
	}
	return s.tell(ctx, r)
}

// effect carries an action out on an element of the document that its reference names.
func (s *session) effect(ctx context.Context, a wire.Act, target string) (*core.Record, error) {
	var expect *core.Expect
	if target != "" {
		doc, ref, err := s.docs.find(target)
		if err != nil {
			return nil, err
		}
		expect, a.Ref = &core.Expect{Document: doc}, ref
	}
	return s.act(ctx, a, expect)
}

// goes says whether a verb is for another document: the look that follows waits for that
// one, and its request has been told of by then.
func goes(verb string) bool { return verb == "navigate" || verb == "back" || verb == "reload" }

// tell says what became of an action, and shows what is different on the page. The page is
// looked at at once: most actions begin no request, and the look takes about as long as one
// needs to be told of. If there was one, the page is looked at again when it has ended.
func (s *session) tell(ctx context.Context, r *core.Record) (reply, error) {
	if r.Local == core.NotDispatched || r.Dialog != nil {
		return came(r), nil
	}
	before, begun, first := s.page, time.Now(), settleFirst
	if goes(r.Verb) {
		first = 0 // the look waits for the new page, and its request has been told of by then
	}
	now, err := s.look(ctx, goes(r.Verb), first)
	if r.Local == core.Finished {
		r = s.settle(ctx, r, first-time.Since(begun))
		if !goes(r.Verb) && (r.Remote != core.NoneSeen || navigated(r)) {
			now, err = s.look(ctx, navigated(r), 0)
		}
	}
	out := reply{text: outcome(r), failed: r.Local != core.Finished}
	if err != nil {
		out.text += "\nThe page could not be looked at: " + s.lost(err)
		return out, nil
	}
	changed, whole := changes(before, now)
	switch {
	case whole:
		out.text += "\n" + shown(now, changed)
	case changed == "":
		out.text += "\nNothing changed on the page " + now.url
	default:
		out.text += fmt.Sprintf("\nOn the page %s (%s):\n%s", now.url, now.title, changed)
	}
	return out, nil
}

// came says what became of an action, without a look at the page.
func came(r *core.Record) reply {
	return reply{text: outcome(r), failed: r.Local != core.Finished && r.Dialog == nil && !goesOn(r)}
}

func shown(p *page, lines string) string {
	return fmt.Sprintf("Page: %s\nTitle: %s\n%s", p.url, p.title, lines)
}

func (s *session) on(verb string) func(context.Context, targetArg) (reply, error) {
	return func(ctx context.Context, a targetArg) (reply, error) {
		return s.do(ctx, wire.Act{Verb: verb}, a.Target)
	}
}

func (s *session) snapshot(ctx context.Context, _ nothing) (reply, error) {
	now, err := s.look(ctx, false, 0)
	if err != nil {
		return reply{}, err
	}
	return text(shown(now, strings.Join(now.lines, "\n"))), nil
}

func (s *session) enter(ctx context.Context, a typeArg) (reply, error) {
	verb := "fill"
	if a.Slowly {
		verb = "type"
	}
	r, err := s.effect(ctx, wire.Act{Verb: verb, Value: &a.Text}, a.Target)
	if err != nil {
		return reply{}, err
	}
	if a.Submit && r.Local != core.Finished {
		out, err := s.tell(ctx, r)
		out.text += "\nEnter was not pressed"
		return out, err
	}
	if !a.Submit {
		return s.tell(ctx, r)
	}
	s.settle(ctx, r, settleFirst) // what the text has started may be what Enter takes
	return s.do(ctx, wire.Act{Verb: "press", Key: "Enter"}, a.Target)
}

// form stops at the first field that could not be filled, and says so.
func (s *session) form(ctx context.Context, a formArg) (reply, error) {
	var last *core.Record
	for i, f := range a.Fields {
		act := wire.Act{Verb: "fill", Value: &a.Fields[i].Value}
		switch f.Type {
		case "checkbox", "radio":
			yes := f.Value == "true"
			act = wire.Act{Verb: "check", Checked: &yes}
		case "combobox":
			act.Verb = "select"
		}
		r, err := s.effect(ctx, act, f.Target)
		if err != nil {
			return reply{}, fmt.Errorf("%d of %d fields were filled; %s", i, len(a.Fields), s.lost(err))
		}
		if last = r; r.Local == core.Finished && i < len(a.Fields)-1 {
			s.settle(ctx, r, settleFirst) // a field may depend on the one before
		}
		if r.Local != core.Finished {
			out, err := s.tell(ctx, r)
			out.text = fmt.Sprintf("%d of %d fields were filled. ", i, len(a.Fields)) + out.text
			return out, err
		}
	}
	if last == nil {
		return reply{}, core.Refuse(core.CodeInvalid, "fields is empty", "name at least one")
	}
	return s.tell(ctx, last)
}

func (s *session) choose(ctx context.Context, a selectArg) (reply, error) {
	if len(a.Values) != 1 {
		return reply{}, core.Refuse(core.CodeInvalid, fmt.Sprintf("%d values", len(a.Values)), "give one; call again for each further one")
	}
	return s.do(ctx, wire.Act{Verb: "select", Value: &a.Values[0]}, a.Target)
}

func (s *session) drag(ctx context.Context, a dragArg) (reply, error) {
	from, _, err := s.docs.find(a.StartTarget)
	if err != nil {
		return reply{}, err
	}
	to, ref, err := s.docs.find(a.EndTarget)
	if err != nil {
		return reply{}, err
	}
	if from != to {
		return reply{}, core.Refuse(core.CodeDocumentChanged, "the two references are of different pages", "take browser_snapshot again")
	}
	return s.do(ctx, wire.Act{Verb: "drag", ToRef: ref}, a.StartTarget)
}

// upload copies files to the lease's directory: the browser is given none from elsewhere.
func (s *session) upload(ctx context.Context, a uploadArg) (reply, error) {
	if err := s.hold(ctx); err != nil {
		return reply{}, err
	}
	if s.uploads == "" {
		l, err := s.cfg.Agents.Lease(ctx, s.lease, s.capability)
		if err != nil {
			return reply{}, err
		}
		s.uploads = l.UploadDir
	}
	var names []string
	for _, p := range a.Paths {
		data, err := os.ReadFile(p)
		if err == nil {
			err = os.WriteFile(filepath.Join(s.uploads, filepath.Base(p)), data, 0o600)
		}
		if err != nil {
			return reply{}, core.Refuse(core.CodeNotFound, err.Error(), "give paths that this program can read")
		}
		names = append(names, filepath.Base(p))
	}
	return s.do(ctx, wire.Act{Verb: "upload", Files: names}, a.Target)
}

func (s *session) tabs(ctx context.Context, a tabsArg) (reply, error) {
	act, expect := wire.Act{Verb: "tabs", Op: a.Action, URL: a.URL}, (*core.Expect)(nil)
	if a.Action == "select" || a.Action == "close" {
		if a.Index != nil {
			list, err := s.listTabs(ctx)
			if err != nil {
				return reply{}, err
			}
			if *a.Index < 0 || *a.Index >= len(list) {
				return reply{}, core.Refuse(core.CodeNotFound, fmt.Sprintf("there is no tab %d", *a.Index), "the list begins at 0; take it again with action list")
			}
			expect = &core.Expect{Tab: list[*a.Index].Tab}
		} else if a.Action == "select" {
			return reply{}, core.Refuse(core.CodeInvalid, "index is missing", "say which tab of the list")
		}
	}
	if a.Action != "list" {
		r, err := s.act(ctx, act, expect)
		if err != nil {
			return reply{}, err
		}
		if r.Local != core.Finished {
			return came(r), nil
		}
		s.page = nil // another page is looked at from here on
	}
	list, err := s.listTabs(ctx)
	if err != nil {
		return reply{}, err
	}
	var b strings.Builder
	for i, t := range list {
		mark := ""
		if t.Active {
			mark = " (active)"
		}
		fmt.Fprintf(&b, "%d: %s %s%s\n", i, t.Title, t.URL, mark)
	}
	return text(strings.TrimSuffix(b.String(), "\n")), nil
}

type tab struct {
	Tab    core.TabID `json:"tab"`
	URL    string     `json:"url"`
	Title  string     `json:"title"`
	Active bool       `json:"active"`
}

func (s *session) listTabs(ctx context.Context) ([]tab, error) {
	r, err := s.act(ctx, wire.Act{Verb: "tabs", Op: "list"}, nil)
	if err != nil {
		return nil, err
	}
	var got struct{ Tabs []tab }
	if json.Unmarshal(r.Result, &got) != nil || r.Local != core.Finished {
		return nil, unfinished(r)
	}
	return got.Tabs, nil
}

func (s *session) evaluate(ctx context.Context, a evaluateArg) (reply, error) {
	expression := strings.TrimSpace(a.Function)
	if strings.HasPrefix(expression, "(") || strings.HasPrefix(expression, "async") || strings.HasPrefix(expression, "function") {
		expression = "(f => typeof f === 'function' ? f() : f)(" + expression + "\n)"
	}
	r, err := s.act(ctx, wire.Act{Verb: "evaluate", Expression: expression}, nil)
	if err != nil {
		return reply{}, err
	}
	return value(r)
}

// value is what an evaluation has come to.
func value(r *core.Record) (reply, error) {
	if r.Local != core.Finished {
		return came(r), nil
	}
	if r.Error != nil {
		return reply{text: told(r.Error), failed: true}, nil
	}
	var got struct{ Value json.RawMessage }
	if json.Unmarshal(r.Result, &got) != nil || got.Value == nil {
		return text(string(r.Result)), nil
	}
	return text(string(got.Value)), nil
}

// dialog answers one, and tells what became of the action that had waited for that. What
// either has asked the website is put down to the answer, the later of the two.
func (s *session) dialog(ctx context.Context, a dialogArg) (reply, error) {
	waited := s.pending
	var expect *core.Expect
	if waited != nil && waited.Expect.Tab != 0 {
		expect = &core.Expect{Tab: waited.Expect.Tab}
	}
	r, err := s.act(ctx, wire.Act{Verb: "dialog", Accept: &a.Accept, Value: a.PromptText}, expect)
	switch {
	case err != nil:
		return reply{}, err
	case waited == nil:
		return s.tell(ctx, r)
	case r.Local != core.Finished:
		return came(r), nil
	}
	out, err := s.waited(ctx, s.settle(ctx, waited, settleFirst))
	r = s.settle(ctx, r, 0)
	out.text = outcome(r) + "\n" + out.text
	return out, err
}

// waited tells what became of an action that had waited for a dialog. One that goes on, or
// waits for the next, is not looked at: the look would stand in line behind it.
func (s *session) waited(ctx context.Context, r *core.Record) (reply, error) {
	s.pending = nil
	if r.Local == core.Running {
		s.pending = r
		return came(r), nil
	}
	if r.Verb == "evaluate" {
		return value(r)
	}
	return s.tell(ctx, r)
}

func (s *session) screenshot(ctx context.Context, a pictureArg) (reply, error) {
	r, err := s.act(ctx, wire.Act{Verb: "screenshot", FullPage: a.FullPage}, nil)
	if err != nil {
		return reply{}, err
	}
	var got struct{ Data string }
	if r.Local != core.Finished || json.Unmarshal(r.Result, &got) != nil {
		return reply{}, unfinished(r)
	}
	return reply{picture: got.Data}, nil
}

// wait asks the page again and again rather than once for long: a person's takeover is
// then told at once.
func (s *session) wait(ctx context.Context, a waitArg) (reply, error) {
	end := time.Now().Add(min(time.Duration(a.Time*float64(time.Second)), maxWait))
	if a.Text != "" || a.TextGone != "" {
		if a.Time <= 0 {
			end = time.Now().Add(maxWait / 2)
		}
	}
	for {
		now, err := s.look(ctx, false, 0)
		if err != nil {
			return reply{}, err
		}
		whole := strings.Join(now.lines, "\n")
		met := a.Text == "" && a.TextGone == "" && time.Now().After(end) ||
			a.Text != "" && strings.Contains(whole, a.Text) || a.TextGone != "" && !strings.Contains(whole, a.TextGone)
		switch {
		case met:
			return text(shown(now, whole)), nil
		case time.Now().After(end):
			return reply{text: "the time is over, and what was waited for has not come\n" + shown(now, whole), failed: true}, nil
		}
		select {
		case <-ctx.Done():
			return reply{}, ctx.Err()
		case <-time.After(min(200*time.Millisecond, max(10*time.Millisecond, time.Until(end)))):
		}
	}
}
