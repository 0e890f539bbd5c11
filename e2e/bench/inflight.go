package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

const (
	inFlight       = 100 // commands of the client when a person takes over
	inFlightRounds = 100
	// holdFor is how long each of them is without an answer, if nobody takes over.
	holdFor = 700 * time.Millisecond
)

// measureInFlight takes over while a DevTools client has a hundred commands in the page,
// and the idle slot, in turns.
func measureInFlight(ctx context.Context, b *bench) (figures []Figure, err error) {
	p, err := b.product(ctx, "", "button")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	if err := p.watchLess(ctx, b); err != nil {
		return nil, err
	}
	var busy, idle []time.Duration
	for i := range scriptWarmUp + inFlightRounds {
		if err := fillUp(ctx, p.agent.Lease.CDPURL); err != nil {
			return nil, err
		}
		one, err := p.takeOver(ctx)
		if err != nil {
			return nil, err
		}
		two, err := p.takeOver(ctx)
		if err != nil {
			return nil, err
		}
		if i >= scriptWarmUp {
			busy, idle = append(busy, one), append(idle, two)
		}
	}
	return []Figure{figure("fence_100_inflight_p99_ms", "a takeover of the same slot, idle", 99, busy, idle)}, nil
}

// watchLess gives the agent another binding of the slot, whose requests are watched for a
// moment only: what it does here makes none, and the next round need not wait for it.
func (p *product) watchLess(ctx context.Context, b *bench) error {
	const binding = "watched-less"
	if err := p.agent.Release(ctx); err != nil {
		return err
	}
	spec := core.BindingSpec{Name: binding, Slot: slot, Account: "none", Origins: []string{b.site.Origin()}, WatchMs: 50}
	if _, err := p.Control.Bind(ctx, wire.BindingRequest{BindingSpec: spec}); err != nil {
		return err
	}
	var err error
	if p.agent, err = p.NewAgent(ctx, "ada", binding); err != nil {
		return err
	}
	if err := p.agent.Acquire(ctx, "measure", 30*time.Second); err != nil {
		return err
	}
	return p.act(ctx, wire.Act{Verb: "navigate", URL: b.page("button")})
}

// takeOver takes the slot over, which is measured to the acknowledgement of the fence, and
// gives it back to its agent, which is not.
func (p *product) takeOver(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	st, err := p.Control.Change(ctx, slot, client.Takeover, wire.ChangeRequest{By: "bench"})
	if err == nil && !acknowledged(st) {
		st, err = p.WaitStatus(ctx, slot, "the fence", acknowledged)
	}
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	if _, err = p.WaitStatus(ctx, slot, "the drain", func(s *core.Status) bool { return s.Authority.Fence == "drained" }); err != nil {
		return 0, err
	}
	epoch := st.Authority.Epoch
	if _, err = p.Control.Change(ctx, slot, client.Handback, wire.ChangeRequest{By: "bench", IfEpoch: &epoch, To: p.agent.Name, Confirm: true}); err != nil {
		return 0, err
	}
	if err := p.agent.Resume(ctx, 30*time.Second); err != nil {
		s, _ := p.Control.Status(ctx, slot)
		x, _ := json.MarshalIndent(s, "", " ")
		fmt.Println(string(x))
		return took, err
	}
	return took, nil
}

// fillUp connects to a lease's address and leaves inFlight commands without an answer. The
// socket is the fence's to close.
func fillUp(ctx context.Context, address string) error {
	conn, _, err := websocket.Dial(ctx, address, nil)
	if err != nil {
		return err
	}
	send := func(id int, session, method, params string) error {
		m := fmt.Sprintf(`{"id":%d,"method":%q,"params":%s,"sessionId":%q}`, id, method, params, session)
		return conn.Write(ctx, websocket.MessageText, []byte(m))
	}
	// answered reads until a command is answered.
	answered := func(id int, into any) error {
		for {
			_, body, err := conn.Read(ctx)
			if err != nil {
				return err
			}
			var m struct {
				ID     int             `json:"id"`
				Result json.RawMessage `json:"result"`
				Error  json.RawMessage `json:"error"`
			}
			if err := json.Unmarshal(body, &m); err != nil {
				return err
			}
			switch {
			case m.ID != id:
			case m.Error != nil:
				return fmt.Errorf("command %d: %s", id, m.Error)
			default:
				return json.Unmarshal(m.Result, into)
			}
		}
	}
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	if err := errors.Join(send(1, "", "Target.getTargets", "{}"), answered(1, &targets)); err != nil {
		return err
	}
	if len(targets.TargetInfos) == 0 {
		return errors.New("the lease has no tab")
	}
	var attached struct{ SessionID string }
	if err := errors.Join(send(2, "", "Target.attachToTarget", fmt.Sprintf(`{"targetId":%q,"flatten":true}`, targets.TargetInfos[0].TargetID)), answered(2, &attached)); err != nil {
		return err
	}
	hold := fmt.Sprintf(`{"awaitPromise":true,"expression":"new Promise((done) => setTimeout(done, %d))"}`, holdFor.Milliseconds())
	for i := range inFlight {
		if err := send(10+i, attached.SessionID, "Runtime.evaluate", hold); err != nil {
			return err
		}
	}
	// Commands are dispatched in their order: when this one is answered, the others are out.
	var last struct{}
	return errors.Join(send(3, attached.SessionID, "Runtime.evaluate", `{"expression":"0"}`), answered(3, &last))
}
