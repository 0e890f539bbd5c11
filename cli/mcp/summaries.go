package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

type (
	consoleArg struct {
		Level string `json:"level,omitempty" jsonschema:"error, warning, info or debug: messages of that level and those that are worse (default info)"`
	}
	networkArg struct {
		Static bool   `json:"static,omitempty" jsonschema:"also what was answered well of images, fonts, scripts, style sheets and media"`
		Filter string `json:"filter,omitempty" jsonschema:"only addresses that match this regular expression"`
	}
)

// levels of console messages, the worst first.
var levels = []string{"error", "warning", "info", "debug"}

// console tells what the page has said to its console.
func (s *session) console(ctx context.Context, a consoleArg) (reply, error) {
	if a.Level == "" {
		a.Level = "info"
	}
	most := slices.Index(levels, a.Level)
	if most < 0 {
		return reply{}, core.Refuse(core.CodeInvalid, fmt.Sprintf("there is no level %q", a.Level), "use error, warning, info or debug")
	}
	var got struct {
		Lines []struct {
			Level, Text, URL string
			Line             int
		}
		More int
	}
	if err := s.read(ctx, "console", &got); err != nil {
		return reply{}, err
	}
	var lines []string
	for _, l := range got.Lines {
		if slices.Index(levels, l.Level) > most {
			continue
		}
		at := ""
		if l.URL != "" {
			at = " @ " + l.URL
		}
		if l.URL != "" && l.Line > 0 {
			at += fmt.Sprintf(":%d", l.Line)
		}
		lines = append(lines, fmt.Sprintf("[%s] %s%s", strings.ToUpper(l.Level), l.Text, at))
	}
	return summary(lines, got.More, "The console says nothing of that level"), nil
}

// static are the types of requests that a page is made of.
var static = []string{"image", "font", "script", "stylesheet", "media", "imageset"}

// network tells what the page has asked the network for.
func (s *session) network(ctx context.Context, a networkArg) (reply, error) {
	filter, err := regexp.Compile(a.Filter)
	if err != nil {
		return reply{}, core.Refuse(core.CodeInvalid, "the filter: "+err.Error(), "write a regular expression, for example /api/")
	}
	var got struct {
		Requests []struct {
			Method, URL, Type, State, Error string
			Status                          int
			Ms                              int64
		}
		More int
	}
	if err := s.read(ctx, "network", &got); err != nil {
		return reply{}, err
	}
	var lines []string
	for _, r := range got.Requests {
		well := r.State == "answered" && r.Status < 400
		if !a.Static && well && slices.Contains(static, r.Type) || !filter.MatchString(r.URL) {
			continue
		}
		end := "not answered yet"
		switch r.State {
		case "answered":
			end = fmt.Sprintf("%d, %d ms", r.Status, r.Ms)
		case "failed":
			end = r.Error
		}
		lines = append(lines, fmt.Sprintf("[%s] %s => [%s] %s", r.Method, r.URL, end, r.Type))
	}
	return summary(lines, got.More, "No such request has been seen since the page was opened"), nil
}

// read takes a look that the extension itself answers.
func (s *session) read(ctx context.Context, verb string, into any) error {
	r, err := s.act(ctx, wire.Act{Verb: verb}, nil)
	if err != nil {
		return err
	}
	if r.Local != core.Finished || json.Unmarshal(r.Result, into) != nil {
		return unfinished(r)
	}
	return nil
}

func summary(lines []string, more int, none string) reply {
	if more > 0 {
		lines = append([]string{fmt.Sprintf("(%d older ones are left out)", more)}, lines...)
	}
	if len(lines) == 0 {
		return text(none)
	}
	return text(strings.Join(lines, "\n"))
}
