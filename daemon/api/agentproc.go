package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// The person's door is not the agent's. `sessiondock run` and `sessiondock mcp` say of
// themselves that what they start is an agent; from there on nothing that descends from
// them gets a person's verb. That takes rights away and gives none, so anybody may say
// it. An agent that has a shell would otherwise run `sessiondock resolve --applied` to
// get unstuck: a mistake, not malware, and what it is meant for is to stop mistakes.
//
// Two signs tell a descendant, because each can be lost: the process that declared
// itself is among its ancestors (lost if a descendant is adopted by init), or one of
// them was started with wire.AgentVariable in its environment (lost if an agent clears
// it on purpose).

// agents remembers the processes that have declared themselves, in a file too: the next
// daemon knows them.
type agents struct {
	mu    sync.Mutex
	roots []peer.Proc
}

// declared is a process in that file.
type declared struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

// load takes up those of an earlier daemon that still run.
func (a *agents) load(file string) error {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	var all []declared
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return err
	}
	for _, d := range all[:min(len(all), maxRoots)] {
		if p, err := peer.Read(d.PID); err == nil && p.StartTime == d.Start {
			a.roots = append(a.roots, p)
		}
	}
	return nil
}

// keep writes them down.
func (a *agents) keep(file string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []declared{}
	for _, p := range a.roots {
		all = append(all, declared{p.PID, p.StartTime})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	part := file + ".new"
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return err
	}
	return os.Rename(part, file)
}

// maxRoots bounds what is remembered; the oldest that still runs is the last to go.
const maxRoots = 1024

func (a *agents) declare(p peer.Proc) *core.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.ContainsFunc(a.roots, p.Same) {
		return nil
	}
	if len(a.roots) >= maxRoots {
		a.roots = slices.DeleteFunc(a.roots, func(p peer.Proc) bool {
			now, err := peer.Read(p.PID)
			return err != nil || !now.Same(p)
		})
	}
	if len(a.roots) >= maxRoots {
		return core.Refuse(core.CodeLimit, fmt.Sprintf("%d agents have declared themselves", maxRoots), "end some of them")
	}
	a.roots = append(a.roots, p)
	return nil
}

func (a *agents) has(p peer.Proc) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.roots, p.Same)
}

// isAgent says whether a process is an agent's, and by which sign.
func (a *agents) isAgent(who peer.Proc) (string, error) {
	chain, err := peer.Ancestry(who.PID)
	if err != nil {
		return "", err
	}
	if !chain[0].Same(who) {
		return "", fmt.Errorf("pid %d is another process by now: %w", who.PID, peer.ErrGone)
	}
	for _, p := range chain {
		if a.has(p) {
			return fmt.Sprintf("it descends from %s, which runs an agent", p), nil
		}
		if marked(p.PID) {
			return fmt.Sprintf("%s was started for an agent", p), nil
		}
	}
	return "", nil
}

// marked says whether a process was started with the agent's variable. What cannot be
// read is another uid's or the kernel's, and not an agent of ours.
func marked(pid int) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for v := range strings.SplitSeq(string(env), "\x00") {
		if strings.HasPrefix(v, wire.AgentVariable+"=") {
			return true
		}
	}
	return false
}

// caller is the process at the other end of one connection.
type caller struct {
	peer.Proc
	mu      sync.Mutex
	checked time.Time // when it was last found to be nobody's agent
}

// recheck is how long that holds for one connection. Whoever becomes an agent declares
// itself before it starts anything.
const recheck = time.Second

// agentSign says by which sign the caller is an agent, or "".
func (c *caller) agentSign(a *agents) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < recheck {
		return "", nil
	}
	sign, err := a.isAgent(c.Proc)
	if err == nil && sign == "" {
		c.checked = time.Now()
	}
	return sign, err
}

type callerKey struct{}

// withCaller puts the process at the other end into its requests' context.
func withCaller(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*counted); ok {
		return context.WithValue(ctx, callerKey{}, &caller{Proc: c.peer})
	}
	return ctx
}

// persons refuses an agent at the person's door, on every path but the daemon's health
// and the declaration itself.
func (d *door) persons(r *http.Request) *core.Error {
	if !d.person || r.URL.Path == "/v1/healthz" || r.URL.Path == "/v1/agents" {
		return nil
	}
	c, ok := r.Context().Value(callerKey{}).(*caller)
	if !ok {
		return nil // a handler without a socket: a test of the handler itself
	}
	const hint = "what a person decides is asked of a person: sessiondock lease ask LEASE --reason TEXT; what became of an action: sessiondock act LEASE --look-up ID"
	sign, err := c.agentSign(&d.agents)
	switch {
	case err != nil:
		return core.Refuse(core.CodeDenied, "it could not be established who is asking: "+err.Error(), "ask again")
	case sign != "":
		d.Log.Warn("a person's verb was refused to an agent", "path", r.URL.Path, "sign", sign)
		return core.Refuse(core.CodeDenied, "a person's verb is not an agent's: "+sign, hint)
	}
	return nil
}

// declare marks the process that asks, and all that descends from it, as an agent's.
func (d *door) declare(r *http.Request) (any, *core.Error) {
	if _, _, err := body[struct{}](r); err != nil {
		return nil, err
	}
	c, ok := r.Context().Value(callerKey{}).(*caller)
	if !ok {
		return nil, core.Refuse(core.CodeInternal, "the process that asks is not known", "")
	}
	known := d.agents.has(c.Proc)
	if err := d.agents.declare(c.Proc); err != nil {
		return nil, err
	}
	if !known && d.AgentsFile != "" {
		if err := d.agents.keep(d.AgentsFile); err != nil {
			return nil, core.Refuse(core.CodeUnavailable, "the next daemon would not know of it: "+err.Error(), "make room where the sockets lie")
		}
	}
	c.mu.Lock()
	c.checked = time.Time{}
	c.mu.Unlock()
	d.Log.Info("declared itself an agent's", "process", c.String())
	return wire.AgentReply{PID: c.PID}, nil
}
