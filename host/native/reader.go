package native

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"sessiondock.dev/sessiondock/daemon/wire"
)

// order is Native Messaging's: that of the machine.
var order = binary.NativeEndian

// Reader reads whole messages from the browser. It is used by one goroutine.
type Reader struct {
	r *bufio.Reader
	j joiner
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), j: joiner{limit: wire.MaxMessage}}
}

// Next returns the next message, chunks joined. It returns io.EOF when the browser
// closed the link between two messages; every other error is a violation after
// which the stream cannot be read on.
func (r *Reader) Next() ([]byte, error) {
	for {
		body, err := wire.ReadFrame(r.r, order, wire.MaxFromExtension)
		if errors.Is(err, io.EOF) && r.j.open {
			return nil, fmt.Errorf("message %d cut short: %w", r.j.id, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return nil, err
		}
		if !isChunk(body) {
			return body, nil
		}
		whole, err := r.j.add(body)
		switch {
		case err != nil:
			return nil, err
		case whole == nil:
			continue
		case !utf8.Valid(whole):
			return nil, wire.ErrNotUTF8
		case isChunk(whole):
			return nil, fmt.Errorf("%w: a chunk within chunks", ErrChunk)
		}
		return whole, nil
	}
}

// isChunk looks for the type in a message's first bytes and, if another member
// comes first, opens the message. Only chunks and small messages are ever opened.
func isChunk(body []byte) bool {
	const prefix = `{"t":"`
	if rest, ok := bytes.CutPrefix(body, []byte(prefix)); ok {
		return bytes.HasPrefix(rest, []byte(`chunk"`))
	}
	t, _ := wire.Type(body)
	return t == "chunk"
}
