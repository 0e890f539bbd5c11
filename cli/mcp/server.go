package mcp

import (
	"context"
	"encoding/base64"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const instructions = `A persistent, signed-in browser that a person lends you, and may take back at any moment.
Element targets are the references of browser_snapshot, such as d1e7; they end with their page.
When a tool says that control was taken away, stop: use session_ask_person to wait for the person.
When a tool says OUTCOME UNKNOWN, the action may have happened: never repeat it; use session_action.`

// Serve serves one session over a transport, until it ends or the context does. The
// lease that it acquired is then released.
func Serve(ctx context.Context, cfg Config, transport sdk.Transport) error {
	s := newSession(cfg)
	defer s.close()
	return s.server().Run(ctx, transport)
}

func (s *session) server() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "sessiondock", Version: s.cfg.Build}, &sdk.ServerOptions{Instructions: instructions, Logger: s.cfg.Log})
	s.browser(server)
	s.own(server)
	return server
}

// reply is what a tool says: text, and maybe a picture.
type reply struct {
	text    string
	failed  bool
	picture string // PNG, base64
}

func text(t string) reply { return reply{text: t} }

// add adds a tool. Its errors are told in words, as the agent's to read: the protocol's
// own errors are for calls that are not well formed.
func add[In any](s *session, server *sdk.Server, name, description string, reads bool, f func(context.Context, In) (reply, error)) {
	tool := &sdk.Tool{Name: name, Description: description, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: reads}}
	sdk.AddTool(server, tool, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		r, err := f(ctx, in)
		if err != nil {
			r = reply{text: s.lost(err) + undone(err), failed: true}
		}
		out := &sdk.CallToolResult{IsError: r.failed}
		if r.text != "" {
			out.Content = append(out.Content, &sdk.TextContent{Text: r.text})
		}
		if r.picture != "" {
			data, err := base64.StdEncoding.DecodeString(r.picture)
			if err != nil {
				return nil, nil, err
			}
			out.Content = append(out.Content, &sdk.ImageContent{Data: data, MIMEType: "image/png"})
		}
		return out, nil, nil
	})
}
