package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// peer answers a pipe's calls as answer says; "" leaves the call open.
func peer(t *testing.T, conn net.Conn, answer func(id int64, method string) string) {
	go func() {
		s := bufio.NewScanner(conn)
		s.Split(splitNull)
		for s.Scan() {
			var m struct {
				ID     int64
				Method string
			}
			if err := json.Unmarshal(s.Bytes(), &m); err != nil {
				t.Errorf("the pipe sent %q: %v", s.Bytes(), err)
				return
			}
			if text := answer(m.ID, m.Method); text != "" {
				if _, err := conn.Write([]byte(text + "\x00")); err != nil {
					return
				}
			}
		}
	}()
}

func TestPipe(t *testing.T) {
	ours, theirs := net.Pipe()
	p := NewPipe(ours)
	peer(t, theirs, func(id int64, method string) string {
		number, _ := json.Marshal(id)
		switch method {
		case "answer": // after an event, what is no JSON, and an answer that nobody waits for
			return `{"method":"Some.event"}` + "\x00" + `nonsense` + "\x00" + `{"id":99,"result":{}}` + "\x00" +
				`{"id":` + string(number) + `,"result":{"n":7}}`
		case "refuse":
			return `{"id":` + string(number) + `,"error":{"code":-32000,"message":"Not allowed"}}`
		}
		return ""
	})
	var r struct{ N int }
	if err := p.Call(t.Context(), "", "answer", nil, &r); err != nil || r.N != 7 {
		t.Errorf("answer %+v, %v", r, err)
	}
	if err := p.Call(t.Context(), "", "refuse", nil, nil); err == nil || !strings.Contains(err.Error(), "Not allowed") {
		t.Errorf("a refusal: %v", err)
	}
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Call(late, "", "silence", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call without an answer: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Call(t.Context(), "", "silence", nil, nil) }()
	time.Sleep(50 * time.Millisecond)
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, ErrPipeClosed) {
			t.Errorf("a call on a pipe that ends: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a call outlives its pipe")
	}
	if err := p.Call(t.Context(), "", "answer", nil, nil); !errors.Is(err, ErrPipeClosed) {
		t.Errorf("a call after the end: %v", err)
	}
}
