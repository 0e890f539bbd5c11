package native

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"sessiondock.dev/sessiondock/daemon/wire"
)

func frame(body string) []byte { return wire.AppendFrame(nil, order, []byte(body)) }

// message returns a JSON message of exactly n bytes.
func message(n int) []byte {
	const head, tail = `{"t":"big","data":"`, `"}`
	return []byte(head + strings.Repeat("x", n-len(head)-len(tail)) + tail)
}

func chunkFrame(id int64, index, total int, data string) []byte {
	return frame(fmt.Sprintf(`{"t":"chunk","id":%d,"index":%d,"total":%d,"data":%q}`, id, index, total, data))
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestReaderSplitInput(t *testing.T) {
	stream := append(frame(`{"t":"a"}`), frame(`{"t":"b","x":"é"}`)...)
	readers := map[string]io.Reader{
		"two frames in one read": bytes.NewReader(stream),
		"one byte at a time":     iotest.OneByteReader(bytes.NewReader(stream)),
		"split header":           io.MultiReader(bytes.NewReader(stream[:2]), bytes.NewReader(stream[2:])),
		"half at a time":         iotest.HalfReader(bytes.NewReader(stream)),
	}
	for name, in := range readers {
		t.Run(name, func(t *testing.T) {
			r := NewReader(in)
			for _, want := range []string{`{"t":"a"}`, `{"t":"b","x":"é"}`} {
				got, err := r.Next()
				if err != nil || string(got) != want {
					t.Fatalf("got %q, %v; want %q", got, err, want)
				}
			}
			if _, err := r.Next(); err != io.EOF {
				t.Fatalf("at the end: %v, want io.EOF", err)
			}
		})
	}
}

func TestReaderRefuses(t *testing.T) {
	whole := frame(`{"t":"a"}`)
	tests := []struct {
		name string
		in   []byte
		want error
	}{
		{"length 0", []byte{0, 0, 0, 0}, wire.ErrEmptyFrame},
		{"length 2^32-1", []byte{0xff, 0xff, 0xff, 0xff, '{'}, wire.ErrFrameSize},
		{"64 MiB and 1", order.AppendUint32(nil, wire.MaxFromExtension+1), wire.ErrFrameSize},
		{"end in header", whole[:3], io.ErrUnexpectedEOF},
		{"end in body", whole[:len(whole)-1], io.ErrUnexpectedEOF},
		{"not UTF-8", frame("{\"t\":\"\xff\"}"), wire.ErrNotUTF8},
		{"index not 0 first", chunkFrame(1, 1, 2, b64("x")), ErrChunk},
		{"index repeated", append(chunkFrame(1, 0, 3, b64("x")), chunkFrame(1, 0, 3, b64("x"))...), ErrChunk},
		{"index negative", chunkFrame(1, -1, 2, b64("x")), ErrChunk},
		{"total 0", chunkFrame(1, 0, 0, b64("x")), ErrChunk},
		{"total huge", chunkFrame(1, 0, 1<<30, b64("x")), ErrChunk},
		{"total changes", append(chunkFrame(1, 0, 3, b64("x")), chunkFrame(1, 1, 2, b64("x"))...), ErrChunk},
		{"interleaved", append(chunkFrame(1, 0, 2, b64("x")), chunkFrame(2, 0, 2, b64("x"))...), ErrChunk},
		{"bad base64", chunkFrame(1, 0, 1, "####"), ErrChunk},
		{"base64 not padded", chunkFrame(1, 0, 1, "YQ"), ErrChunk},
		{"wrong JSON type", frame(`{"t":"chunk","id":"one"}`), ErrChunk},
		{"chunk in a chunk", chunkFrame(1, 0, 1, b64(`{"t":"chunk","id":1}`)), ErrChunk},
		{"joined not UTF-8", chunkFrame(1, 0, 1, b64("\xff")), wire.ErrNotUTF8},
		{"end between chunks", chunkFrame(1, 0, 2, b64("x")), io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NewReader(bytes.NewReader(tt.in)).Next()
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %q, %v; want %v", got, err, tt.want)
			}
		})
	}
}

// A message in chunks stays bounded however many chunks there are.
func TestJoinerBound(t *testing.T) {
	j := joiner{limit: 10}
	if _, err := j.add([]byte(`{"id":1,"index":0,"total":3,"data":"` + b64("123456") + `"}`)); err != nil {
		t.Fatal(err)
	}
	_, err := j.add([]byte(`{"id":1,"index":1,"total":3,"data":"` + b64("78901") + `"}`))
	if !errors.Is(err, ErrChunk) {
		t.Fatalf("11 bytes of at most 10: %v", err)
	}
}

func TestPlainFrameBetweenChunks(t *testing.T) {
	var in []byte
	in = append(in, chunkFrame(7, 0, 2, b64(`{"t":"wh`))...)
	in = append(in, frame(`{"t":"fence"}`)...)
	in = append(in, chunkFrame(7, 1, 2, b64(`ole"}`))...)
	r := NewReader(bytes.NewReader(in))
	for _, want := range []string{`{"t":"fence"}`, `{"t":"whole"}`} {
		if got, err := r.Next(); err != nil || string(got) != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
}

// Sizes on both sides of Chromium's bound pass both ways unchanged.
func TestSizes(t *testing.T) {
	for _, n := range []int{
		900 << 10, wire.MaxToExtension, wire.MaxToExtension + 1, 1075 << 10,
		4 << 20, 4<<20 + 1, 20 << 20,
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			body := message(n)
			var toBrowser []byte
			for f := range Frames(3, body) {
				if len(f) > 4+wire.MaxToExtension {
					t.Fatalf("a frame of %d bytes to the browser", len(f)-4)
				}
				toBrowser = append(toBrowser, f...)
			}
			got, err := NewReader(bytes.NewReader(toBrowser)).Next()
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("to the browser: %d bytes, %v", len(got), err)
			}
			got, err = NewReader(bytes.NewReader(wire.AppendFrame(nil, order, body))).Next()
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("from the browser in one frame: %d bytes, %v", len(got), err)
			}
		})
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(frame(`{"t":"a"}`))
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(append(chunkFrame(1, 0, 2, b64(`{"t"`)), chunkFrame(1, 1, 2, b64(`:"a"}`))...))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewReader(iotest.HalfReader(bytes.NewReader(in)))
		for {
			body, err := r.Next()
			if err != nil {
				return
			}
			if len(body) == 0 || len(body) > len(in) {
				t.Fatalf("%d bytes came out of %d", len(body), len(in))
			}
		}
	})
}

func FuzzChunks(f *testing.F) {
	f.Add(int64(1), []byte(`{"t":"a"}`), 3)
	f.Add(int64(-9), []byte(`{"t":"long","x":"0123456789"}`), 1)
	f.Fuzz(func(t *testing.T, id int64, body []byte, size int) {
		if len(body) == 0 || size < 1 {
			return
		}
		total := (len(body) + size - 1) / size
		if total > maxChunks {
			return
		}
		j := joiner{limit: len(body)}
		for i := range total {
			piece := body[i*size : min((i+1)*size, len(body))]
			whole, err := j.add(appendChunk(nil, id, i, total, piece)[4:])
			if err != nil {
				t.Fatal(err)
			}
			if last := i == total-1; last != (whole != nil) {
				t.Fatalf("chunk %d of %d: whole %v", i, total, whole != nil)
			} else if last && !bytes.Equal(whole, body) {
				t.Fatalf("joined %q, want %q", whole, body)
			}
		}
	})
}
