package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
	"sessiondock.dev/sessiondock/extension"
	"sessiondock.dev/sessiondock/host/native"
)

// browserName is under which name this program is the browser. The daemon takes the first
// of that name in PATH, which is the run's own directory.
const browserName = "chromium"

// hostAway is how long the browser bears a host without a daemon before it starts another
// one. A host waits longer and longer; another begins anew.
const hostAway = 200 * time.Millisecond

// browser is what stands in for Chromium and the extension. It starts the real host as
// Chromium would, from the manifest in its profile, so that the daemon can attest it, and
// says over Native Messaging what the extension would say of a page that does at once what
// it is told. Like the extension it keeps the highest epoch that it saw in its profile, and
// it writes down every fence and grant that reaches it.
type browser struct {
	profile string
	witness *os.File

	mu      sync.Mutex
	out     io.Writer
	host    *exec.Cmd
	down    *time.Timer
	nonce   core.Nonce
	asks    int64
	epoch   core.Epoch // fenced or granted
	granted core.Epoch
	last    core.Epoch // granted, of this life
	mark    wire.Mark
	reports map[core.ActionID]*wire.ActionReport
}

// sighting is one line of what a browser writes down.
type sighting struct {
	Kind   string        `json:"kind"` // fence, grant, dispatch
	Epoch  core.Epoch    `json:"epoch"`
	Person bool          `json:"person,omitempty"`
	Lease  core.LeaseID  `json:"lease,omitempty"`
	Action core.ActionID `json:"action,omitempty"`
}

const sightings = "sightings.jsonl"

// browse is the browser's main.
func browse(args []string) error {
	b := &browser{reports: map[core.ActionID]*wire.ActionReport{}}
	for _, a := range args {
		switch {
		case a == "--version":
			fmt.Println("a stand-in")
			return nil
		case strings.HasPrefix(a, "--pack-extension"):
			return errors.New("a stand-in packs nothing: it loads no extension either")
		}
		if dir, ok := strings.CutPrefix(a, "--user-data-dir="); ok {
			b.profile = dir
		}
	}
	if text, err := os.ReadFile(b.path("mark.json")); err == nil {
		if err := json.Unmarshal(text, &b.mark); err != nil {
			return err
		}
		b.epoch = b.mark.Epoch
	}
	var err error
	if b.witness, err = os.OpenFile(b.path(sightings), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	lock := b.path("SingletonLock") // by which the keeper sees that it runs
	if err := os.Symlink(fmt.Sprintf("%s-%d", name, os.Getpid()), lock); err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-end
		os.Remove(lock)
		os.Exit(0)
	}()
	for {
		if err := b.serve(); err != nil {
			fmt.Fprintln(os.Stderr, "host:", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (b *browser) path(name string) string { return filepath.Join(b.profile, name) }

// serve starts one host and talks to it until it ends.
func (b *browser) serve() error {
	text, err := os.ReadFile(b.path("NativeMessagingHosts/dev.sessiondock.host.json"))
	if err != nil {
		return err
	}
	var manifest struct {
		Path    string
		Origins []string `json:"allowed_origins"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return err
	}
	host := exec.Command(manifest.Path, manifest.Origins...)
	host.Stderr = os.Stderr
	in, err := host.StdinPipe()
	if err != nil {
		return err
	}
	out, err := host.StdoutPipe()
	if err != nil {
		return err
	}
	if err := host.Start(); err != nil {
		return err
	}
	b.mu.Lock()
	b.host, b.out = host, in
	b.mu.Unlock()
	r := native.NewReader(out)
	for {
		body, err := r.Next()
		if err != nil {
			b.mu.Lock()
			b.nonce, b.granted = "", 0
			b.mu.Unlock()
			in.Close()
			return errors.Join(err, host.Wait())
		}
		if err := b.take(body); err != nil {
			fmt.Fprintf(os.Stderr, "%.200s: %v\n", body, err)
		}
	}
}

func (b *browser) send(msg any) {
	body, err := wire.Marshal(msg)
	if err != nil {
		panic(err)
	}
	// A host that has gone is noticed where it is read from.
	_, _ = b.out.Write(wire.AppendFrame(nil, binary.NativeEndian, body))
}

func (b *browser) note(s sighting) error {
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = b.witness.Write(append(line, '\n'))
	return err
}

// see remembers the highest epoch and sequence, as the extension's storage.local does.
func (b *browser) see(epoch core.Epoch, seq int64, person bool) error {
	b.mark = wire.Mark{Epoch: max(b.mark.Epoch, epoch), Seq: max(b.mark.Seq, seq), Person: person}
	text, err := json.Marshal(b.mark)
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.path("mark.new"), text, 0o600); err != nil {
		return err
	}
	return os.Rename(b.path("mark.new"), b.path("mark.json"))
}

// take handles one message of the host's.
func (b *browser) take(body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := wire.Type(body)
	if err != nil {
		return err
	}
	switch t {
	case "link":
		return on(body, b.link)
	case "welcome":
		return on(body, func(m wire.Welcome) error {
			b.epoch = max(b.epoch, m.Epoch)
			return b.see(m.Epoch, m.Seq, b.mark.Person)
		})
	case "fence":
		return on(body, b.fence)
	case "poke":
		b.asks++
		b.send(wire.Pull{Nonce: b.nonce, Ask: b.asks})
	case "grant":
		return on(body, b.grant)
	case "cmd":
		return on(body, b.command)
	case "forget":
		return on(body, func(m wire.Forget) error {
			for _, id := range m.Actions {
				delete(b.reports, id)
			}
			return nil
		})
	case "stop.prepare":
		b.send(wire.StopReady{Nonce: b.nonce})
	}
	return nil
}

func on[T any](body []byte, f func(T) error) error {
	var m T
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	return f(m)
}

func (b *browser) link(m wire.Link) error {
	b.granted, b.nonce, b.asks = 0, m.Nonce, 0
	if b.down != nil {
		b.down.Stop()
	}
	if m.Up {
		b.send(wire.Hello{
			Nonce: m.Nonce, Version: wire.Version, Build: extension.Build(), Instance: core.InstanceID(fmt.Sprint("stand-in-", os.Getpid())),
			Mark: b.mark, Granted: b.last, Actions: b.all(core.MaxEpoch),
		})
		return nil
	}
	host := b.host
	b.down = time.AfterFunc(hostAway, func() { _ = host.Process.Kill() })
	return nil
}

// all lists the reports of epochs below one.
func (b *browser) all(below core.Epoch) []wire.ActionReport {
	out := []wire.ActionReport{}
	for _, r := range b.reports {
		if r.Epoch < below {
			out = append(out, *r)
		}
	}
	return out
}

func (b *browser) fence(m wire.Fence) error {
	if m.Epoch < b.epoch {
		return fmt.Errorf("a fence below epoch %d", b.epoch)
	}
	b.epoch, b.granted = m.Epoch, 0
	b.send(wire.Fenced{
		Nonce: b.nonce, Epoch: m.Epoch, Instance: core.InstanceID(fmt.Sprint("stand-in-", os.Getpid())), Granted: b.last,
		Actions: []wire.ActionReport{}, Documents: []wire.Document{},
	})
	b.send(wire.Drained{Nonce: b.nonce, Epoch: m.Epoch, Actions: b.all(m.Epoch), Documents: []wire.Document{}})
	return errors.Join(b.see(m.Epoch, m.Seq, m.Person), b.note(sighting{Kind: "fence", Epoch: m.Epoch, Person: m.Person}))
}

func (b *browser) grant(m wire.Grant) error {
	if m.Epoch == 0 {
		b.granted = 0
		return nil
	}
	if m.Epoch < b.epoch || m.Ask != b.asks {
		return fmt.Errorf("a grant below epoch %d, or not asked for", b.epoch)
	}
	b.epoch, b.granted, b.last = m.Epoch, m.Epoch, m.Epoch
	b.send(wire.Granted{Nonce: b.nonce, Epoch: m.Epoch})
	return errors.Join(b.see(m.Epoch, 0, b.mark.Person), b.note(sighting{Kind: "grant", Epoch: m.Epoch, Lease: m.Lease}))
}

func (b *browser) command(c wire.Cmd) error {
	if c.Epoch != b.granted {
		b.send(wire.CmdResult{Seq: c.Seq, Error: core.Refuse(core.CodeFenced, "another epoch is granted", "resume")})
		return nil
	}
	if c.Effect {
		r := b.reports[c.Action]
		if r == nil {
			r = &wire.ActionReport{
				Action: c.Action, Epoch: c.Epoch, Tab: 1, Document: "D1", Script: c.Script,
				How: "barrier", HowRule: "answered", Requests: []wire.RequestReport{}, Downloads: []string{},
			}
			b.reports[c.Action] = r
		}
		r.Rev++
		r.Dispatched++
		if err := b.note(sighting{Kind: "dispatch", Epoch: c.Epoch, Action: c.Action}); err != nil {
			return err
		}
	}
	result := json.RawMessage(`{}`)
	switch c.Method {
	case "Runtime.evaluate":
		result = json.RawMessage(`{"result":{"type":"number","value":2}}`)
	case "Page.captureScreenshot":
		result = json.RawMessage(`{"data":"aGVsbG8="}`)
	}
	b.send(wire.CmdResult{
		Seq: c.Seq, OK: true, Dispatched: true, Result: result, Observed: &core.Expect{Tab: 1, Document: "D1"},
	})
	return nil
}
