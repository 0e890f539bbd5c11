package e2e

import (
	"syscall"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// A tab whose renderer crashed while nobody had it: the next agent is told so, what it sends
// there is not dispatched, and its navigation brings the tab back. Nothing of it is unknown.
func TestATabThatCrashedUnseen(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	k.do(wire.Act{Verb: "snapshot"})
	must(t, k.Release(k.ctx))
	k.status("the slot to be at rest", func(s *core.Status) bool { return s.Offer.Available })
	time.Sleep(time.Second) // the debugger has let go of the tab
	for _, pid := range renderers(t, k.name) {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	time.Sleep(time.Second)

	var err error
	k.Agent, err = k.d.NewAgent(k.ctx, "ada", k.name)
	must(t, err)
	must(t, k.Acquire(k.ctx, "test", 0))
	for _, a := range []wire.Act{{Verb: "navigate", URL: k.page}, {Verb: "snapshot"}, {Verb: "click", Selector: "#press"}} {
		if r := k.do(a); r.Local != core.Finished {
			t.Errorf("%s: local %s, %v", a.Verb, r.Local, r.Error)
		}
	}
	must(t, k.Release(k.ctx))
	st := k.status("the slot to be at rest", func(s *core.Status) bool { return s.Offer.Available || len(s.Quarantine) > 0 })
	if len(st.Quarantine) > 0 {
		t.Errorf("quarantined: %+v", st.Quarantine)
	}
}

// A dialog that an agent has left open keeps its page; a person ends that page long after
// the lease, too.
func TestAPageIsEndedWhoseDialogAnAgentLeft(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	r, err := k.Act(k.ctx, client.NewID(), wire.Act{Verb: "evaluate", Expression: `alert("left")`}, 0)
	must(t, err)
	if r.Dialog == nil {
		t.Fatalf("%+v", r)
	}
	must(t, k.Release(k.ctx))
	k.status("the drain's end", func(s *core.Status) bool { return s.Authority.Fence == "drained" })
	time.Sleep(time.Second)
	st, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test", StopPage: true})
	must(t, err)
	if len(st.Local.Documents) > 0 || len(st.Local.Commands) > 0 {
		t.Errorf("still there: %+v %+v", st.Local.Documents, st.Local.Commands)
	}
}

// A shared worker made by an agent's script outlives its page and the lease: it is listed as a
// page with a script is, and ended with the pages.
func TestAWorkerThatAnAgentLeft(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	k.do(wire.Act{Verb: "evaluate", Expression: `new SharedWorker(URL.createObjectURL(new Blob(["setInterval(() => fetch('` + k.page + `?worker'), 200)"])), {extendedLifetime: true}), 1`})
	k.do(wire.Act{Verb: "navigate", URL: k.page})
	must(t, k.Release(k.ctx))
	st := k.status("the drain's end", func(s *core.Status) bool { return s.Authority.Fence == "drained" })
	if d := st.Local.Documents; len(d) != 1 || d[0].URL != "blob:"+k.site.Origin() || st.Local.State != "running" {
		t.Fatalf("listed: %+v", st.Local)
	}
	k.person().shows([]string{"status", k.name}, "worker blob:"+k.site.Origin()+": a script of the agent may still run in it")
	st, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test", StopPage: true})
	must(t, err)
	if len(st.Local.Documents) > 0 {
		t.Errorf("still there: %+v", st.Local.Documents)
	}
}
