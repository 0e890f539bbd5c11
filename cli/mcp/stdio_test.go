package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// What is no message is answered with the error that JSON-RPC names, and the session goes on;
// so it does after lines of any length and without an end.
func TestALineThatIsNoMessageEndsNothing(t *testing.T) {
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := Serve(context.Background(), Config{Log: slog.New(slog.DiscardHandler)}, Stdio(toServer, fromServer))
		fromServer.Close()
		done <- err
	}()
	answers := bufio.NewScanner(out)
	ask := func(line string) (id float64, code int) {
		t.Helper()
		if _, err := io.WriteString(in, line); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("no answer to %.60q: %v", line, answers.Err())
		}
		var got struct {
			ID    float64
			Error struct{ Code int }
		}
		if err := json.Unmarshal(answers.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, answers.Text())
		}
		return got.ID, got.Error.Code
	}
	const hello = `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for line, want := range map[string]int{
		"{bad\n": -32700, "5 5\n": -32700, "\n\r\n}\n": -32700, strings.Repeat("x", 100_000) + "\n": -32700,
		"5\n": -32600, "[]\n": -32600, "{}\n": -32600, `{"jsonrpc":"1.0","id":1,"method":"ping"}` + "\n": -32600,
	} {
		if id, code := ask(line); id != 0 || code != want {
			t.Errorf("%.60q: id %v, code %d, want %d", line, id, code, want)
		}
	}
	if id, code := ask(hello + "\r\n"); id != 7 || code != 0 {
		t.Fatalf("hello: id %v, code %d", id, code)
	}
	if id, code := ask(`{"jsonrpc":"2.0","id":8,"method":"ping","params":{"_meta":{"pad":"` + strings.Repeat("x", 70_000) + `"}}}` + "\n"); id != 8 || code != 0 {
		t.Errorf("a long message: id %v, code %d", id, code)
	}
	in.Close()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the end of the stream does not end the session")
	}
}
