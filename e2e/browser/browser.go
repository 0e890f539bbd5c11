// Package browser starts plain Chromium processes for tests and benchmarks: the
// measure that SessionDock's own launches are held against, and the place where
// facts about the browser are established without SessionDock.
//
// It never switches Chromium's sandbox off, so it does not run as root; package
// demo has the home and the ordinary uid for that. A fresh profile lies in
// the temporary directory and is removed by Close.
package browser

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
)

// Options say how a browser is started.
type Options struct {
	Profile   string                     // a profile to use and to keep; default a fresh one
	Extension string                     // directory of an unpacked extension, or empty
	Pipe      bool                       // with a debugging pipe
	Port      bool                       // with a debugging port; see Browser.DevTools
	URL       string                     // the first page; default about:blank
	Prepare   func(profile string) error // called before the start
	Env       []string                   // added to the environment
}

// Browser is one running Chromium.
type Browser struct {
	Pipe    *demo.Pipe // nil without Options.Pipe
	Profile string
	PID     int

	keep bool // the profile
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// flags keep a browser on a closed network quiet and the same from run to run.
var flags = []string{
	"--headless", "--no-first-run", "--password-store=basic",
	"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic",
}

// Start starts a headless Chromium.
func Start(o Options) (*Browser, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	b := &Browser{Profile: o.Profile, keep: o.Profile != "", done: make(chan struct{})}
	if !b.keep {
		if b.Profile, err = os.MkdirTemp("", "profile-"); err != nil {
			return nil, err
		}
	}
	if o.Prepare != nil {
		if err := o.Prepare(b.Profile); err != nil {
			return nil, errors.Join(err, b.removeProfile())
		}
	}
	args := append([]string{"--user-data-dir=" + b.Profile}, flags...)
	if o.Extension != "" {
		args = append(args, "--load-extension="+o.Extension)
	}
	if o.Port {
		args = append(args, "--remote-debugging-port=0")
	}
	if o.URL == "" {
		o.URL = "about:blank"
	}
	var conn *pipeEnds
	b.cmd = exec.Command(path)
	b.cmd.Env = append(os.Environ(), o.Env...)
	if o.Pipe {
		args = append(args, "--remote-debugging-pipe")
		if conn, b.cmd.ExtraFiles, err = newPipeEnds(); err != nil {
			return nil, errors.Join(err, b.removeProfile())
		}
	}
	b.cmd.Args = append(append(b.cmd.Args, args...), o.URL)
	err = b.cmd.Start()
	for _, f := range b.cmd.ExtraFiles {
		f.Close()
	}
	if err != nil {
		if conn != nil {
			err = errors.Join(err, conn.Close())
		}
		return nil, errors.Join(err, b.removeProfile())
	}
	b.PID = b.cmd.Process.Pid
	go func() {
		// The exit status is nobody's concern: a browser is ended in many ways here.
		_ = b.cmd.Wait()
		close(b.done)
	}()
	if conn != nil {
		b.Pipe = demo.NewPipe(conn)
	}
	return b, nil
}

// pipeEnds are our ends of the two pipes that Chromium has as descriptors 3 and 4.
type pipeEnds struct{ r, w *os.File }

func newPipeEnds() (*pipeEnds, []*os.File, error) {
	theirRead, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	r, theirWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, theirRead.Close(), w.Close())
	}
	return &pipeEnds{r, w}, []*os.File{theirRead, theirWrite}, nil
}

func (p *pipeEnds) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p *pipeEnds) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p *pipeEnds) Close() error                { return errors.Join(p.r.Close(), p.w.Close()) }

// DevTools waits for the debugging port and returns the browser's WebSocket address.
func (b *Browser) DevTools(ctx context.Context) (string, error) { return DevTools(ctx, b.Profile) }

// DevTools is the WebSocket address of the browser that runs with the profile and
// a debugging port.
func DevTools(ctx context.Context, profile string) (string, error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		if port, path, ok := strings.Cut(strings.TrimSpace(string(text)), "\n"); err == nil && ok {
			if _, err := strconv.ParseUint(port, 10, 16); err == nil {
				return "ws://127.0.0.1:" + port + path, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("no debugging port in %s: %w", profile, ctx.Err())
		case <-tick.C:
		}
	}
}

// Kill ends the browser without warning, as a crash would.
func (b *Browser) Kill() error {
	err := b.cmd.Process.Kill()
	<-b.done
	return err
}

// Close ends the browser and removes its profile.
func (b *Browser) Close() error {
	var err error
	select {
	case <-b.done:
	default:
		err = b.cmd.Process.Signal(os.Interrupt)
	}
	select {
	case <-b.done:
	case <-time.After(5 * time.Second):
		err = errors.Join(err, b.Kill())
	}
	if b.Pipe != nil {
		err = errors.Join(err, b.Pipe.Close())
	}
	return errors.Join(err, b.removeProfile())
}

func (b *Browser) removeProfile() error {
	if b.keep {
		return nil
	}
	// Helpers of the browser may write a last file while it is removed.
	for range 20 {
		if os.RemoveAll(b.Profile) == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return os.RemoveAll(b.Profile)
}

// ExtensionID is the identifier that Chromium gives to an unpacked extension
// without a key: the first half of the SHA-256 of its path, in the letters a to p.
func ExtensionID(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	id := make([]byte, 32)
	for i := range id {
		half := sum[i/2] >> 4
		if i%2 == 1 {
			half = sum[i/2] & 15
		}
		id[i] = 'a' + half
	}
	return string(id)
}
