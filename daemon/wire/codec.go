package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unicode/utf8"
)

// Errors of the frame codec. Each ends the connection it was met on.
var (
	ErrEmptyFrame = errors.New("frame of length 0")
	ErrFrameSize  = errors.New("frame longer than the limit")
	ErrNotUTF8    = errors.New("frame is not valid UTF-8")
	ErrNoType     = errors.New(`message has no type "t"`)
)

// Order is a byte order of frame lengths: binary.NativeEndian for Native Messaging,
// binary.LittleEndian on host.sock.
type Order interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// ReadFrame reads one frame: a 4-byte length in the given order, then that many
// bytes of UTF-8. It returns io.EOF only between frames; a frame cut short is
// io.ErrUnexpectedEOF. No more is allocated than has arrived, up to limit.
func ReadFrame(r *bufio.Reader, order Order, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := order.Uint32(head[:])
	switch {
	case n == 0:
		return nil, ErrEmptyFrame
	case int64(n) > int64(limit):
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrFrameSize, n, limit)
	}
	body, err := readBody(r, int(n))
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(body) {
		return nil, ErrNotUTF8
	}
	return body, nil
}

// readBody reads n bytes in steps, so that a forged length costs no memory.
func readBody(r io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	body := make([]byte, min(n, step))
	for read := 0; ; {
		m, err := io.ReadFull(r, body[read:])
		read += m
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if read == n {
			return body, nil
		}
		grown := make([]byte, min(n, 2*len(body)))
		copy(grown, body)
		body = grown
	}
}

// AppendFrame appends the frame of body to dst.
func AppendFrame(dst []byte, order Order, body []byte) []byte {
	dst = order.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...)
}

// Type returns a message's "t". Where that comes first, as in everything that Marshal
// makes, the rest is not looked at: it is checked when the message is decoded.
func Type(body []byte) (string, error) {
	if rest, ok := bytes.CutPrefix(body, []byte(`{"t":"`)); ok {
		if n := bytes.IndexFunc(rest, notOfType); n > 0 && rest[n] == '"' {
			return string(rest[:n]), nil
		}
	}
	var m struct {
		T string `json:"t"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return "", err
	}
	if m.T == "" {
		return "", ErrNoType
	}
	return m.T, nil
}

// notOfType says what no message's type has in it.
func notOfType(r rune) bool { return r != '.' && r != '_' && (r < 'a' || r > 'z') }

var typeNames = func() map[reflect.Type]string {
	m := map[reflect.Type]string{}
	for _, e := range Messages {
		m[reflect.TypeOf(e.Value)] = e.T
	}
	return m
}()

// Marshal encodes a message of one of the types in Messages, with its "t" first.
func Marshal(msg any) ([]byte, error) {
	t, ok := typeNames[reflect.TypeOf(msg)]
	if !ok {
		return nil, fmt.Errorf("wire: %T is not a message", msg)
	}
	body, err := json.Marshal(msg)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(body)+len(t)+8)
	out = append(out, `{"t":"`...)
	out = append(out, t...)
	out = append(out, '"')
	if len(body) > 2 {
		out = append(out, ',')
	}
	return append(out, body[1:]...), nil
}
