package native

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"sessiondock.dev/sessiondock/daemon/wire"
)

// ErrChunk is the kind of every violation of the chunk rules. It ends the link:
// what was being joined can no longer be trusted to be whole.
var ErrChunk = errors.New("chunk out of order")

// maxChunks bounds how many chunks a message may be cut into, so that a peer
// cannot spend our time with a million empty ones.
const maxChunks = 4096

// Frames yields the frames, length included, that carry body to the browser: one
// if it fits, else chunks under the given identifier. A yielded slice is valid
// until the next one: large messages are cut as they are written, into one buffer.
func Frames(id int64, body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(body) <= wire.MaxToExtension {
			yield(wire.AppendFrame(make([]byte, 0, 4+len(body)), order, body))
			return
		}
		total := (len(body) + wire.ChunkBytes - 1) / wire.ChunkBytes
		buf := make([]byte, 0, 4+base64.StdEncoding.EncodedLen(wire.ChunkBytes)+128)
		for i := range total {
			piece := body[i*wire.ChunkBytes : min((i+1)*wire.ChunkBytes, len(body))]
			buf = appendChunk(buf[:0], id, i, total, piece)
			if !yield(buf) {
				return
			}
		}
	}
}

// appendChunk appends the frame of one chunk. It is written out by hand because
// going through wire.Marshal would copy each megabyte four times.
func appendChunk(dst []byte, id int64, index, total int, piece []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, `{"t":"chunk","id":`...)
	dst = strconv.AppendInt(dst, id, 10)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"total":`...)
	dst = strconv.AppendInt(dst, int64(total), 10)
	dst = append(dst, `,"data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, piece)
	dst = append(dst, `"}`...)
	order.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// joiner puts the chunks of one message together again. Ordinary messages may
// come between chunks, so that a fence need not wait for a large message to end;
// chunks of another message may not.
type joiner struct {
	open  bool
	id    int64
	next  int
	total int
	limit int // bytes of the whole message
	whole []byte
}

// add takes the next chunk and returns the whole message with its last one.
func (j *joiner) add(body []byte) ([]byte, error) {
	var c wire.Chunk
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrChunk, err)
	}
	switch {
	case c.Total < 1 || c.Total > maxChunks:
		return nil, fmt.Errorf("%w: total %d", ErrChunk, c.Total)
	case j.open && c.ID != j.id:
		return nil, fmt.Errorf("%w: message %d began within message %d", ErrChunk, c.ID, j.id)
	case j.open && c.Total != j.total:
		return nil, fmt.Errorf("%w: total changed from %d to %d", ErrChunk, j.total, c.Total)
	case c.Index != j.next:
		return nil, fmt.Errorf("%w: index %d, expected %d", ErrChunk, c.Index, j.next)
	case len(j.whole)+base64.StdEncoding.DecodedLen(len(c.Data)) > j.limit+2:
		return nil, fmt.Errorf("%w: message longer than %d bytes", ErrChunk, j.limit)
	}
	if !j.open {
		j.open, j.id, j.total = true, c.ID, c.Total
	}
	// The whole is as long as its first chunk times their number, or less; but a
	// peer's word on the number reserves no memory beyond a few chunks.
	whole, err := base64.StdEncoding.Strict().AppendDecode(j.whole, []byte(c.Data))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrChunk, err)
	}
	j.whole = whole
	if len(j.whole) > j.limit {
		return nil, fmt.Errorf("%w: message longer than %d bytes", ErrChunk, j.limit)
	}
	j.next++
	if j.next < j.total {
		return nil, nil
	}
	*j = joiner{limit: j.limit}
	return whole, nil
}
