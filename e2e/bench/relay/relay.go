// Package relay is the bare relay that benchmarks hold SessionDock against: a
// minimal extension, a minimal native messaging host and a unix socket, without
// authority, epochs or records. One client at a time sends a command and waits for
// its answer.
package relay

import (
	"bufio"
	"context"
	"embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/e2e/browser"
)

//go:embed extension
var extensionFiles embed.FS

// HostName is the name of the host's program; the benchmark's own executable under
// this name is the host.
const HostName = "bench-relay-host"

const (
	nativeName = "dev.sessiondock.bench_relay"
	socketVar  = "BENCH_RELAY_SOCKET"
	startDue   = 30 * time.Second
)

// Relay is a running browser with the relay in it, and a connection to its host.
type Relay struct {
	Caller
	Browser *browser.Browser
	HostPID int
}

// Caller is the client's end of a way to the relay's host.
type Caller struct {
	conn *net.UnixConn
	read *bufio.Reader
	next int64
}

func newCaller(conn *net.UnixConn) Caller {
	return Caller{conn: conn, read: bufio.NewReaderSize(conn, 64<<10)}
}

// Start starts a browser at the URL with the relay in it. The host is the program
// at hostPath. In dir, which exists, the extension and the browser's profile stay for the
// next start.
func Start(ctx context.Context, hostPath, url, dir string) (*Relay, error) {
	extension := filepath.Join(dir, "extension")
	if _, err := os.Stat(extension); err != nil {
		files, err := fs.Sub(extensionFiles, "extension")
		if err != nil {
			return nil, err
		}
		if err := os.CopyFS(extension, files); err != nil {
			return nil, err
		}
	}
	profile := filepath.Join(dir, "profile")
	if err := os.MkdirAll(profile, 0o700); err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "relay.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	b, err := browser.Start(browser.Options{
		Profile: profile, Extension: extension, Port: true, URL: url, Env: []string{socketVar + "=" + socket},
		Prepare: func(profile string) error { return writeManifest(profile, hostPath, browser.ExtensionID(extension)) },
	})
	if err != nil {
		return nil, err
	}
	r := &Relay{Browser: b}
	if err := r.accept(ctx, l); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return r, nil
}

func (r *Relay) accept(ctx context.Context, l *net.UnixListener) error {
	if err := l.SetDeadline(time.Now().Add(startDue)); err != nil {
		return err
	}
	conn, err := l.AcceptUnix()
	if err != nil {
		return fmt.Errorf("the relay's host did not connect: %w", err)
	}
	r.Caller = newCaller(conn)
	first, err := r.read.ReadString('\n')
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(first, &r.HostPID); err != nil {
		return err
	}
	return r.Call(ctx, "Runtime.enable", struct{}{}, nil)
}

// Call sends one command and waits for its answer.
func (r *Caller) Call(ctx context.Context, method string, params, result any) error {
	r.next++
	body, err := json.Marshal(map[string]any{"id": r.next, "method": method, "params": params})
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := r.conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := r.conn.Write(wire.AppendFrame(nil, binary.LittleEndian, body)); err != nil {
		return err
	}
	frame, err := wire.ReadFrame(r.read, binary.LittleEndian, wire.MaxFrame)
	if err != nil {
		return err
	}
	var answer struct {
		ID     int64           `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  string          `json:"error"`
	}
	if err := json.Unmarshal(frame, &answer); err != nil {
		return err
	}
	switch {
	case answer.ID != r.next:
		return fmt.Errorf("the relay answered %d to %d", answer.ID, r.next)
	case answer.Error != "":
		return fmt.Errorf("%s: %s", method, answer.Error)
	case result == nil:
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// Close ends this way to the host.
func (r *Caller) Close() error { return r.conn.Close() }

// Close ends the browser and with it the host.
func (r *Relay) Close() error { return errors.Join(r.conn.Close(), r.Browser.Close()) }

func writeManifest(profile, hostPath, extensionID string) error {
	dir := filepath.Join(profile, "NativeMessagingHosts")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"name": nativeName, "description": "Bare relay for benchmarks", "type": "stdio",
		"path": hostPath, "allowed_origins": []string{"chrome-extension://" + extensionID + "/"},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, nativeName+".json"), body, 0o600)
}

// IsHost says whether this process was started as the relay's host.
func IsHost() bool {
	return filepath.Base(os.Args[0]) == HostName && strings.HasPrefix(os.Args[len(os.Args)-1], "chrome-extension://")
}

// RunHost passes frames between the socket and the browser until either ends.
func RunHost() error {
	conn, err := net.Dial("unix", os.Getenv(socketVar))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, os.Getpid()); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- pass(os.Stdout, binary.NativeEndian, conn, binary.LittleEndian) }()
	go func() { ended <- pass(conn, binary.LittleEndian, os.Stdin, binary.NativeEndian) }()
	if err := <-ended; !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func pass(to io.Writer, toOrder wire.Order, from io.Reader, fromOrder wire.Order) error {
	r := bufio.NewReaderSize(from, 64<<10)
	var out []byte
	for {
		body, err := wire.ReadFrame(r, fromOrder, wire.MaxFromExtension)
		if err != nil {
			return err
		}
		out = wire.AppendFrame(out[:0], toOrder, body)
		if _, err := to.Write(out); err != nil {
			return err
		}
	}
}
