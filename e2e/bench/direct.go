package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/coder/websocket"

	"sessiondock.dev/sessiondock/cli/demo"
)

// direct is a DevTools session on one page by the browser's own socket: the
// shortest way there is.
type direct struct {
	pipe    *demo.Pipe
	session demo.Session
}

// dialDirect attaches to the page whose address begins with url.
func dialDirect(ctx context.Context, devtools, url string) (*direct, error) {
	ws, _, err := websocket.Dial(ctx, devtools, nil)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(64 << 20)
	d := &direct{pipe: demo.NewPipe(&nullFrames{ws: ws})}
	t, err := d.pipe.WaitTarget(ctx, "page", url)
	if err != nil {
		return nil, err
	}
	if d.session, err = d.pipe.Attach(ctx, t.ID); err != nil {
		return nil, err
	}
	return d, d.pipe.Call(ctx, d.session, "Runtime.enable", nil, nil)
}

func (d *direct) call(ctx context.Context, method string, params, result any) error {
	return d.pipe.Call(ctx, d.session, method, params, result)
}

func (d *direct) close() error { return d.pipe.Close() }

// nullFrames makes a WebSocket look like a debugging pipe: a message is ended by a
// null byte.
type nullFrames struct {
	ws   *websocket.Conn
	rest []byte
}

const writeWithin = 10 * time.Second

func (n *nullFrames) Read(b []byte) (int, error) {
	if len(n.rest) == 0 {
		// The wait for the browser's next message is as long as its silence; Close
		// ends it.
		_, body, err := n.ws.Read(context.Background())
		if err != nil {
			return 0, io.EOF
		}
		n.rest = append(body, 0)
	}
	k := copy(b, n.rest)
	n.rest = n.rest[k:]
	return k, nil
}

func (n *nullFrames) Write(b []byte) (int, error) {
	if len(b) == 0 || b[len(b)-1] != 0 {
		return 0, fmt.Errorf("a message without its end")
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	return len(b), n.ws.Write(ctx, websocket.MessageText, b[:len(b)-1])
}

func (n *nullFrames) Close() error { return n.ws.CloseNow() }

// evaluateParams are of the command that every way is measured with: what the verb
// evaluate sends.
func evaluateParams(i int) map[string]any {
	return map[string]any{"expression": fmt.Sprintf("%d+1", i), "returnByValue": true, "awaitPromise": true, "userGesture": true}
}

// box is where the button of the benchmark's page is.
type box struct{ X, Y float64 }

// click presses the button as a client does that waits for each answer.
func (d *direct) click(ctx context.Context, at box) error {
	for _, s := range []struct {
		kind, button string
		clicks       int
	}{{"mouseMoved", "none", 0}, {"mousePressed", "left", 1}, {"mouseReleased", "left", 1}} {
		err := d.call(ctx, "Input.dispatchMouseEvent", map[string]any{
			"type": s.kind, "x": at.X, "y": at.Y, "button": s.button, "clickCount": s.clicks,
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *direct) button(ctx context.Context) (box, error) {
	var b box
	err := d.pipe.Eval(ctx, d.session, `(() => { const r = document.getElementById("press").getBoundingClientRect();
		return { X: r.x + r.width / 2, Y: r.y + r.height / 2 }; })()`, &b)
	return b, err
}
