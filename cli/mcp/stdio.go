package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine bounds one message of a client, in bytes.
const maxLine = 16 << 20

// Stdio is the protocol's transport by lines. What is no message is answered with an error,
// as JSON-RPC asks for, where the library ends the session, and with it the lease.
func Stdio(in io.ReadCloser, out io.WriteCloser) sdk.Transport {
	w := &writer{out: out}
	return &sdk.IOTransport{Reader: &reader{in: in, buffered: bufio.NewReader(in), errs: w}, Writer: w}
}

// writer lets whole messages through, one at a time.
type writer struct {
	mu  sync.Mutex
	out io.WriteCloser
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *writer) Close() error { return w.out.Close() }

// reader passes on the lines that are messages.
type reader struct {
	in       io.Closer
	buffered *bufio.Reader
	errs     io.Writer
	rest     []byte // of the line that is being passed on
}

func (r *reader) Close() error { return r.in.Close() }

func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		line, err := r.line()
		if err != nil {
			return 0, err
		}
		if code, why := fault(line); why != "" {
			if _, err := fmt.Fprintf(r.errs, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, why); err != nil {
				return 0, err
			}
			continue
		}
		if len(line) > 0 {
			r.rest = append(line, '\n')
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// line reads a line, without what surrounds it. An error comes after the last one.
func (r *reader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.buffered.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, fmt.Errorf("a line of the client's is longer than %d bytes", maxLine)
		}
		line = append(line, part...)
		if err == nil || errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0 {
			return bytes.TrimSpace(line), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// fault says what is wrong with a line, in the words and codes of JSON-RPC; "" if nothing is.
func fault(line []byte) (code int, why string) {
	if len(line) == 0 {
		return 0, ""
	}
	if !json.Valid(line) {
		return jsonrpc.CodeParseError, "parse error: the line is not JSON"
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		return jsonrpc.CodeInvalidRequest, "invalid request: the line is no message of JSON-RPC 2.0"
	}
	return 0, ""
}
