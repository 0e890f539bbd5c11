package hostlink

import (
	"bufio"
	"context"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/engine"
	"sessiondock.dev/sessiondock/daemon/peer"
	"sessiondock.dev/sessiondock/daemon/stream"
	"sessiondock.dev/sessiondock/daemon/supervise"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// maxConns bounds the connections of host.sock: one host a slot, and some that are
// about to be refused.
const maxConns = 1024

// Clients takes what browsers say to agents' DevTools clients, in the order in which a
// link carries it. None of its methods waits.
type Clients interface {
	Answer(core.SlotName, *wire.CDPAnswer)
	Done(core.SlotName, *wire.ActionDone)
	Event(core.SlotName, *wire.CDPEvent)
	Tab(core.SlotName, *wire.CDPTab)
	Lost(core.SlotName, *wire.CDPLost)
	Unlinked(core.SlotName, core.Nonce) // the slot's link has ended
}

// Server accepts hosts.
type Server struct {
	Engine         *engine.Engine
	Supervisor     supervise.Supervisor
	ExtensionID    string
	ExtensionBuild string
	Clients        Clients // may be nil
	Log            *slog.Logger

	group sync.WaitGroup
}

// Serve accepts until the listener is closed, and then waits for its links.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	slots := make(chan struct{}, maxConns)
	defer s.group.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			s.Log.Error("accept", "err", err)
			time.Sleep(50 * time.Millisecond) // out of descriptors: let some close
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		s.group.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			s.serve(ctx, conn)
		})
	}
}

// serve attests one host and carries its link until it ends.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	conn.SetReadDeadline(time.Now().Add(wire.HelloWithin))
	rw, err := stream.New(conn)
	if err != nil {
		s.Log.Error("connection", "err", err)
		return
	}
	r := bufio.NewReaderSize(rw, 64<<10)
	hello, refusal := s.attest(ctx, conn, r)
	if refusal != nil {
		s.Log.Warn("host refused", "code", refusal.Code, "why", refusal.Message, "slot", hello.Slot)
		refuse(conn, refusal)
		return
	}
	conn.SetReadDeadline(time.Time{})
	l := newLink(s, conn, rw, hello.Slot, core.Nonce(engine.NewID()))
	s.Engine.Attach(hello.Slot, l)
	s.Log.Info("host attested", "slot", hello.Slot, "launch", hello.Launch)
	l.post(wire.HostWelcome{Nonce: l.nonce, Slot: hello.Slot})
	why := l.run(ctx, r)
	s.Engine.Detach(hello.Slot, l, why)
	if s.Clients != nil {
		s.Clients.Unlinked(hello.Slot, l.nonce)
	}
	s.Log.Info("host link ended", "slot", hello.Slot, "why", why)
}

func refuse(conn net.Conn, e *core.Error) {
	body, err := wire.Marshal(wire.HostRefused{Error: *e})
	if err != nil {
		return
	}
	conn.SetWriteDeadline(time.Now().Add(time.Second))
	conn.Write(wire.AppendFrame(nil, binary.LittleEndian, body))
}

// attest says which slot and launch the peer belongs to, or refuses it by name.
func (s *Server) attest(ctx context.Context, conn *net.UnixConn, r *bufio.Reader) (hello wire.HostHello, refusal *core.Error) {
	body, err := wire.ReadFrame(r, binary.LittleEndian, 64<<10)
	if err != nil {
		return hello, core.Refuse(core.CodeInvalid, "no host.hello: "+err.Error(), "")
	}
	if t, err := wire.Type(body); err != nil || t != "host.hello" {
		return hello, core.Refuse(core.CodeInvalid, "the first message is not host.hello", "")
	}
	if err := json.Unmarshal(body, &hello); err != nil {
		return hello, core.Refuse(core.CodeInvalid, "host.hello is malformed: "+err.Error(), "")
	}
	if hello.Version != wire.Version {
		return hello, core.Refuse(core.CodeVersionSkew, fmt.Sprintf("the host speaks version %d, the daemon %d", hello.Version, wire.Version),
			"stop the slot and start it again, so that its host is the daemon's")
	}
	cred, err := peer.FromConn(conn)
	if err != nil {
		return hello, core.Refuse(core.CodeDenied, "the peer's credentials cannot be read: "+err.Error(), "")
	}
	defer cred.Close()
	if err := peer.SameUID(cred); err != nil {
		return hello, err
	}
	if want := "chrome-extension://" + s.ExtensionID + "/"; strings.TrimSuffix(hello.Origin, "/")+"/" != want {
		return hello, core.Refuse(core.CodeDenied, "the host was started by another extension", "only "+want+" may")
	}
	launch, refusal := s.launch(ctx, hello)
	if refusal != nil {
		return hello, refusal
	}
	if subtle.ConstantTimeCompare([]byte(engine.HashSecret(hello.Secret)), []byte(launch.SecretHash)) != 1 {
		return hello, core.Refuse(core.CodeDenied, "the launch's secret is wrong", "this host was not started by the slot's browser")
	}
	if err := s.Supervisor.Owns(launch, cred); err != nil {
		return hello, err
	}
	if !cred.Alive() {
		return hello, core.Refuse(core.CodeDenied, "the peer has ended", "")
	}
	return hello, nil
}

// launch finds the launch that the hello names. Its browser may be quicker than the
// record of its start, so a moment is given.
func (s *Server) launch(ctx context.Context, hello wire.HostHello) (core.Launch, *core.Error) {
	var found core.Launch
	refusal := core.Refuse(core.CodeNotFound, fmt.Sprintf("there is no slot %q", hello.Slot), "")
	s.Engine.Wait(ctx, hello.Slot, 2*time.Second, func(st *core.State, _ core.Now) bool {
		slot, ok := st.Slots[hello.Slot]
		switch {
		case !ok || slot.Removed:
			return true
		case slot.Launch == nil || slot.Launch.ID != hello.Launch:
			refusal = core.Refuse(core.CodeDenied, "the host belongs to another launch of the slot", "that launch has ended, as far as the daemon knows")
			return true
		case slot.Launch.State == "ended":
			refusal = core.Refuse(core.CodeDenied, "the host's launch has ended", "")
			return true
		case slot.Launch.State == "starting":
			refusal = core.Refuse(core.CodeUnavailable, "the launch is not recorded yet", "")
			return false
		}
		found, refusal = *slot.Launch, nil
		return true
	})
	return found, refusal
}
