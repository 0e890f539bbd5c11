package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
)

// printAct prints the record of an action and says by the exit code what is known.
func (a *app) printAct(r *core.Record, err error) error {
	if err != nil {
		return err
	}
	if err := a.show(r, func() error { return a.printRecord(r) }); err != nil {
		return err
	}
	if code := recordExit(r); code != 0 {
		return &exit{code}
	}
	return nil
}

// recordExit is the exit code of an outcome. 0 needs both: the local work has
// finished, and the website's answer is not unknown.
func recordExit(r *core.Record) int {
	unknown := core.CodeOutcomeUnknown.Info().Exit
	if refused, ok := strings.CutPrefix(string(r.Authority), "refused:"); ok {
		return core.Code(refused).Info().Exit
	}
	if r.Resolution != nil { // a person has said what it did
		switch r.Resolution.Verdict {
		case core.Applied:
			return 0
		case core.NotApplied:
			return 1
		}
		return unknown // lifted: the person has let it be unknown
	}
	switch r.Local {
	case core.LocalUnknown, core.Ended, core.Running:
		return unknown
	}
	if r.Remote == core.RemoteUnknown {
		return unknown
	}
	if r.Local == core.Finished {
		return 0
	}
	if r.Error != nil { // failed, not_dispatched or interrupted, and why
		return r.Error.Code.Info().Exit
	}
	return 1
}

// shownResult is how much of a result is printed to a person; --json and -o have
// all of it.
const shownResult = 16 << 10

func (a *app) printRecord(r *core.Record) error {
	var b strings.Builder
	b.WriteString(wrap("", fmt.Sprintf("%s (%s, epoch %d)", r.Summary, r.Class, r.Epoch)))
	fmt.Fprintf(&b, "  authority  %s\n", a.paint(outcomeColour(string(r.Authority)), clean(string(r.Authority))))
	fmt.Fprintf(&b, "  local      %s%s\n", a.paint(outcomeColour(string(r.Local)), string(r.Local)), steps(r))
	fmt.Fprintf(&b, "  remote     %s%s\n", a.paint(outcomeColour(string(r.Remote)), string(r.Remote)), watched(r))
	for _, e := range r.Evidence {
		b.WriteString(wrap("    - ", evidence(e)))
	}
	if r.Trimmed {
		b.WriteString("  evidence   is not kept any more\n")
	}
	if r.Resolution != nil {
		by := r.Resolution.By
		if r.Resolution.AskedBy != "" {
			by = fmt.Sprintf("a %s of the %s's, asked for by %s", r.Resolution.Rule, by, r.Resolution.AskedBy)
		}
		b.WriteString(wrap("  resolved   ", fmt.Sprintf("%s by %s at %s. %s", r.Resolution.Verdict, by, clock(r.Resolution.AtMs), r.Resolution.Note)))
	}
	if r.URL != "" {
		b.WriteString(wrap("  page       ", r.URL))
	}
	if r.Error != nil {
		b.WriteString(wrap("  error      ", r.Error.Error()))
		if r.Error.Hint != "" {
			b.WriteString(wrap("  hint       ", r.Error.Hint))
		}
	}
	if r.Dialog != nil {
		b.WriteString(wrap("  waits      ", fmt.Sprintf("the page shows a dialog (%s): %q", r.Dialog.Kind, r.Dialog.Message)))
		b.WriteString(wrap("  hint       ", fmt.Sprintf("answer it: sessiondock act %s dialog accept, or dismiss; then look this up: sessiondock act %s --look-up %s", r.Lease, r.Lease, r.ID)))
	}
	fmt.Fprintf(&b, "  action     %s (id %s)\n", r.Action, clean(string(r.ID)))
	if len(r.Result) > 0 && !bytes.Equal(r.Result, []byte("null")) {
		b.WriteString("  result\n" + resultText(r.Result))
	}
	_, err := a.out.Write([]byte(b.String()))
	return err
}

func steps(r *core.Record) string {
	if r.Steps.Total < 2 && r.Local != core.Interrupted {
		return ""
	}
	return fmt.Sprintf(", %d of %d steps dispatched", r.Steps.Dispatched, r.Steps.Total)
}

func watched(r *core.Record) string {
	switch {
	case r.Remote != core.NoneSeen:
		return ""
	case r.Watching:
		return " so far: requests are still watched, look it up again"
	case r.WatchedUntil == 0:
		return ""
	}
	return ", watched until " + clock(r.WatchedUntil)
}

func evidence(e core.Evidence) string {
	parts := []string{e.Kind}
	if e.Method != "" || e.URL != "" {
		parts = append(parts, strings.TrimSpace(e.Method+" "+e.URL))
	}
	if e.Status != 0 {
		parts = append(parts, fmt.Sprint(e.Status))
	}
	if e.Text != "" {
		parts = append(parts, e.Text)
	}
	if e.AfterFence {
		parts = append(parts, "after the fence")
	}
	return strings.Join(parts, " ") + " (" + e.Source + ", by " + e.Rule + ")"
}

// outcomeColour marks what is unknown, and what was refused.
func outcomeColour(value string) string {
	switch {
	case strings.Contains(value, "unknown"):
		return red
	case strings.HasPrefix(value, "refused:"), value == string(core.Running), value == string(core.InFlight),
		value == string(core.Ended), value == string(core.Interrupted), value == string(core.Failed):
		return yellow
	}
	return ""
}

// resultText is a result for a person: a text as it reads, else JSON.
func resultText(raw json.RawMessage) string {
	text := string(raw)
	var s string
	var pretty bytes.Buffer
	if json.Unmarshal(raw, &s) == nil {
		text = s
	} else if json.Indent(&pretty, raw, "", "  ") == nil {
		text = pretty.String()
	}
	cut := ""
	if len(text) > shownResult {
		text = strings.ToValidUTF8(text[:shownResult], "")
		cut = fmt.Sprintf("    ... cut at %d bytes; --json and -o give all of it\n", shownResult)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + clean(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return b.String() + cut
}

// pngMagic is base64 of the first bytes of every PNG file.
const pngMagic = "iVBORw0KGgo"

// saveResult writes a result to a file: a picture as such, a text as it reads,
// anything else as JSON.
func saveResult(path string, raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	data := []byte(raw)
	var text string
	if json.Unmarshal(raw, &text) == nil {
		data = []byte(text)
	}
	if picture, ok := findPicture(raw); ok {
		data = picture
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return core.Refuse(core.CodeInternal, "the result was not saved: "+err.Error(), "the record tells what the action did")
	}
	return nil
}

// findPicture looks for a PNG in base64: the result itself, or a member of it.
func findPicture(raw json.RawMessage) ([]byte, bool) {
	var text string
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &text) == nil {
		if !strings.HasPrefix(text, pngMagic) {
			return nil, false
		}
		data, err := base64.StdEncoding.DecodeString(text)
		return data, err == nil
	}
	if json.Unmarshal(raw, &members) == nil {
		for _, m := range members {
			var inner string
			if json.Unmarshal(m, &inner) == nil && strings.HasPrefix(inner, pngMagic) {
				data, err := base64.StdEncoding.DecodeString(inner)
				return data, err == nil
			}
		}
	}
	return nil, false
}
