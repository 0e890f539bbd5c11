package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// scene is one story of the demonstration and what it promises.
type scene struct {
	name    string
	title   string
	page    string
	query   string
	play    func(context.Context, *stage) error
	promise Outcome // Scene and the epochs are not compared
	// atLeast: the site's saves are that many or more.
	atLeast bool
}

// intoBusy is how long after the dispatch of a click its page is certainly busy,
// and certainly not yet done.
const intoBusy = 600 * time.Millisecond

// The page of the stop scenes is busy for longer, so that a person on a slow machine
// has the time to open the popup, read which pages will end, and press twice.
const (
	stopBusy  = 7 * time.Second
	stopQuery = "more=1&busy=7000"
)

var scenes = []scene{
	{
		name: "late", title: "The answer comes after the takeover", page: "product", query: "delay=3000", play: playLate,
		promise: Outcome{SiteSaves: 1, Refused: core.CodeFenced, Local: core.Finished, Remote: core.Answered(200)},
	},
	{
		name: "busy", title: "A click waits behind a busy page", page: "busy", query: "busy=5000", play: playBusy,
		promise: Outcome{SiteSaves: 1, Refused: core.CodeFenced, Local: core.Finished, Remote: core.Answered(200)},
	},
	{
		name: "stop", title: "The same, and the person stops the page", page: "busy", query: stopQuery, play: playStop(false),
		promise: Outcome{SiteSaves: 0, Refused: core.CodeFenced, Local: core.Ended, Remote: core.NoneSeen},
	},
	{
		name: "stop-shared", title: "The same, with a second window in the page's process", page: "busy", query: stopQuery, play: playStop(true),
		promise: Outcome{SiteSaves: 0, Refused: core.CodeFenced, Local: core.Ended, Remote: core.NoneSeen},
	},
	{
		name: "script", title: "The agent's own code goes on in the page", page: "script", play: playScript,
		promise: Outcome{SiteSaves: 1, Refused: core.CodeFenced, Local: core.Finished, Remote: core.Answered(200)}, atLeast: true,
	},
	{
		name: "daemon", title: "The daemon is killed in mid-action", page: "busy", play: playDaemon,
		promise: Outcome{SiteSaves: 1, Refused: core.CodeFenced, Local: core.Finished, Remote: core.Answered(200)},
	},
	{
		name: "browser", title: "The browser is killed in mid-action", page: "busy", play: playBrowser,
		promise: Outcome{SiteSaves: 0, Refused: core.CodeQuarantined, Local: core.LocalUnknown, Remote: core.RemoteUnknown},
	},
}

// compare notes where the outcome differs from the promise.
func (sc scene) compare(s *stage) {
	got, want := s.outcome, sc.promise
	enough := got.SiteSaves == want.SiteSaves || sc.atLeast && got.SiteSaves > want.SiteSaves
	s.want(enough, "the site counts %d saves, promised %d", got.SiteSaves, want.SiteSaves)
	s.want(got.EpochAfter > got.EpochBefore, "the epoch went from %d to %d", got.EpochBefore, got.EpochAfter)
	s.want(got.Refused == want.Refused, "the agent's next action was told %q, promised %q", got.Refused, want.Refused)
	s.want(got.Local == want.Local, "local is %q, promised %q", got.Local, want.Local)
	s.want(got.Remote == want.Remote, "remote is %q, promised %q", got.Remote, want.Remote)
	s.want(got.GrantedMeanwhile == 0, "%d grants meanwhile, promised none", got.GrantedMeanwhile)
}

func playLate(ctx context.Context, s *stage) error {
	id := client.NewID()
	clicked := s.click(ctx, "#save", id, 0)
	if !s.site.WaitSaves(ctx, s.scene, 1) {
		return errors.New("the save did not reach the site")
	}
	s.say("site", 0, "has applied the save, and will answer in 3 s")
	if _, err := s.takeOver(ctx); err != nil {
		return err
	}
	s.refused(ctx)
	if err := <-clicked; err != nil {
		s.say("ada", s.a.Lease.Epoch, "is told of its click: %v", err)
	}
	if len(s.site.Saves(s.scene)) == 1 && !s.site.Saves(s.scene)[0].Answered.IsZero() {
		s.differs("the site answered before the takeover: this machine is too slow for the scene")
	}
	r, err := s.settle(ctx, id, "the answer to become evidence", func(r *core.Record) bool { return r.Remote.Status() != 0 && r.Local != core.Running })
	if err != nil {
		return err
	}
	// The former holder reads what became of its action, and no content.
	own, err := s.a.LookUp(ctx, id)
	if err != nil {
		return err
	}
	s.want(own.Remote == r.Remote && len(own.Result) == 0, "the former holder reads remote %s and %d bytes of content", own.Remote, len(own.Result))
	s.say("ada", r.Epoch, "may read the outcome of its own click: local %s, remote %s; no content", own.Local, own.Remote)
	return nil
}

func playBusy(ctx context.Context, s *stage) error {
	id := client.NewID()
	s.click(ctx, "#save", id, 0)
	if _, err := s.dispatched(ctx, id); err != nil {
		return err
	}
	if err := wait(ctx, intoBusy); err != nil {
		return err
	}
	q := s.ask(ctx)
	s.want(s.site.Count(s.scene).Total == 0, "the page was not busy")
	if _, err := s.takeOver(ctx); err != nil {
		return err
	}
	if err := s.popupSays(ctx, "A click may still land in this page"); err != nil {
		return err
	}
	s.refused(ctx)
	s.want(s.site.Count(s.scene).Total == 0, "the click landed before the person had read the popup")
	s.meanwhile(q, "while a person held it")
	if err := s.handBack(ctx); err != nil {
		return err
	}
	for s.site.Count(s.scene).Total == 0 {
		s.meanwhile(q, "before the click had landed")
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	s.say("site", 0, "counts the save of the click that was waiting")
	if err := s.granted(ctx, q); err != nil {
		return err
	}
	r, err := s.settle(ctx, id, "the click's outcome", func(r *core.Record) bool { return r.Remote.Status() != 0 && r.Local != core.Running })
	if err != nil {
		return err
	}
	if settled := time.UnixMilli(r.Times.Settled); q.at.Before(settled.Truncate(time.Millisecond)) {
		s.outcome.GrantedMeanwhile++
		s.differs("bob was granted the slot %v before the click's local work was settled", settled.Sub(q.at))
	}
	return nil
}

// playStop ends the page's renderer while the click waits in it.
func playStop(shared bool) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		var tab core.TabID
		if shared {
			r, err := s.a.Act(ctx, client.NewID(), wire.Act{Verb: "click", Selector: "#compare"}, 0)
			if err != nil {
				return err
			}
			if r.Observed != nil {
				tab = r.Observed.Tab
			}
			if _, err := s.hand.Pipe().WaitTarget(ctx, "page", s.site.URL(s.scene, "child", "")); err != nil {
				return err
			}
			s.say("ada", r.Epoch, "opens a second window of the site; it lives in the page's process")
		}
		id := client.NewID()
		s.click(ctx, "#save", id, tab)
		if _, err := s.dispatched(ctx, id); err != nil {
			return err
		}
		if err := wait(ctx, intoBusy); err != nil {
			return err
		}
		s.want(s.site.Count(s.scene).Total == 0, "the page was not busy")
		if _, err := s.takeOver(ctx); err != nil {
			return err
		}
		if err := s.hand.Press(ctx, ButtonStopPage); err != nil {
			return err
		}
		text := ""
		for text == "" {
			if err := wait(ctx, 20*time.Millisecond); err != nil {
				return fmt.Errorf("the popup lists no page to stop: %w", err)
			}
			var err error
			if text, err = s.hand.TextOf(ctx, "stop-list"); err != nil {
				return err
			}
		}
		s.say("popup", 0, "these pages will end: %s", text)
		if err := s.hand.Press(ctx, ButtonStopPageConfirm); err != nil {
			return err
		}
		s.say("person", 0, "stops the page")
		s.refused(ctx)
		if _, err := s.settle(ctx, id, "the page's end", func(r *core.Record) bool { return r.Local != core.Running }); err != nil {
			return err
		}
		s.say("demo", 0, "the end of the renderer proves that the click can do nothing any more;")
		s.say("demo", 0, "it does not prove what the website did with requests that had left before")
		// Longer than the page would have been busy: what it had queued is gone.
		if err := wait(ctx, stopBusy); err != nil {
			return err
		}
		s.say("site", 0, "counts %d saves, beacons and keepalive requests included", s.site.Count(s.scene).Total)
		return nil
	}
}

func playScript(ctx context.Context, s *stage) error {
	id := client.NewID()
	_, err := s.a.Act(ctx, id, wire.Act{
		Verb:       "evaluate",
		Expression: `setInterval(() => fetch("save?kind=timer", { method: "POST" }), 400); "started"`,
	}, 0)
	if err != nil {
		return err
	}
	s.say("ada", s.a.Lease.Epoch, "leaves a timer in the page that posts to the shop")
	if !s.site.WaitSaves(ctx, s.scene, 1) {
		return errors.New("the timer does not post")
	}
	q := s.ask(ctx)
	st, err := s.takeOver(ctx)
	if err != nil {
		return err
	}
	page := s.site.URL(s.scene, s.page, "")
	named := false
	for _, d := range st.Local.Documents {
		named = named || d.Why == "agent_script" && strings.HasPrefix(d.URL, page)
	}
	s.want(named, "the takeover does not name the document with the agent's script: %+v", st.Local.Documents)
	if err := s.popupSays(ctx, "Code that the agent put into this page may still run"); err != nil {
		return err
	}
	s.refused(ctx)
	if err := s.handBack(ctx); err != nil {
		return err
	}
	at := s.site.Count(s.scene).Total
	if !s.site.WaitSaves(ctx, s.scene, at+2) {
		return errors.New("the timer has stopped by itself")
	}
	s.say("site", 0, "counts %d saves, and more are coming", s.site.Count(s.scene).Total)
	s.meanwhile(q, "while the other's script was still running")
	if st, err = s.daemon.Control.Status(ctx, s.slot()); err != nil {
		return err
	}
	for _, w := range st.Queue {
		s.say("bob", 0, "waits: %s", strings.Join(w.Reasons, "; "))
	}
	if err := s.reload(ctx, page); err != nil {
		return err
	}
	s.say("person", 0, "reloads the page")
	if err := s.granted(ctx, q); err != nil {
		return err
	}
	at = s.site.Count(s.scene).Total
	if err := wait(ctx, time.Second); err != nil {
		return err
	}
	s.want(s.site.Count(s.scene).Total == at, "the script still posts after the reload")
	_, err = s.settle(ctx, id, "the script's outcome", func(r *core.Record) bool { return r.Local != core.Running && r.Remote != core.InFlight })
	return err
}

func playDaemon(ctx context.Context, s *stage) error {
	id := client.NewID()
	clicked := s.click(ctx, "#save", id, 0)
	if _, err := s.dispatched(ctx, id); err != nil {
		return err
	}
	if err := wait(ctx, intoBusy); err != nil {
		return err
	}
	if err := s.daemon.Kill(); err != nil {
		return err
	}
	s.say("demo", 0, "kills the daemon (SIGKILL)")
	err := <-clicked
	e, ok := errors.AsType[*core.Error](err)
	s.want(ok && e.Code == core.CodeOutcomeUnknown, "the agent was told %v, not that the outcome is unknown", err)
	s.say("ada", s.a.Lease.Epoch, "is told of its click: %v", err)
	if err := s.hand.Pipe().Call(ctx, "", "Browser.getVersion", nil, nil); err != nil {
		return fmt.Errorf("the browser did not outlive the daemon: %w", err)
	}
	s.say("demo", 0, "the browser lives; starts the daemon again")
	if err := s.daemon.Start(ctx); err != nil {
		return err
	}
	r, err := s.record(ctx, id, "the restarted daemon's record", func(*core.Record) bool { return true })
	if err != nil {
		return err
	}
	s.say("record", r.Epoch, "%s: local %s, remote %s", r.Summary, r.Local, r.Remote)
	st, err := s.daemon.WaitStatus(ctx, s.scene, "the extension to be attested again", func(st *core.Status) bool {
		return st.Local.Launch != nil && st.Local.Launch.Link == "up"
	})
	if err != nil {
		return err
	}
	s.outcome.EpochAfter = st.Authority.Epoch
	s.say("daemon", st.Authority.Epoch, "has the extension attested again")
	s.answers(st)
	s.refused(ctx)
	r, err = s.settle(ctx, id, "what the extension kept", func(r *core.Record) bool { return r.Local == core.Finished && r.Remote.Status() != 0 })
	if err != nil {
		return err
	}
	s.want(saidUnknown(r), "the record does not say that the outcome was unknown meanwhile: %+v", r.Evidence)
	if err := s.a.Resume(ctx, 10*time.Second); err != nil {
		return err
	}
	s.want(s.a.Lease.Epoch > s.outcome.EpochBefore, "the lease was resumed at epoch %d", s.a.Lease.Epoch)
	s.say("ada", s.a.Lease.Epoch, "resumes its lease at a new epoch")
	if _, err := s.a.Act(ctx, client.NewID(), wire.Act{Verb: "snapshot"}, 0); err != nil {
		return err
	}
	s.say("ada", s.a.Lease.Epoch, "looks at the page again")
	return nil
}

// saidUnknown says whether the action's local work was recorded as unknown at some time.
func saidUnknown(r *core.Record) bool {
	for _, e := range r.Evidence {
		if e.Kind == "local" && e.Text == string(core.LocalUnknown) {
			return true
		}
	}
	return false
}

func playBrowser(ctx context.Context, s *stage) error {
	id := client.NewID()
	s.click(ctx, "#save", id, 0)
	if _, err := s.dispatched(ctx, id); err != nil {
		return err
	}
	if err := wait(ctx, intoBusy); err != nil {
		return err
	}
	pid, err := s.browserPID(ctx)
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return err
	}
	s.say("demo", 0, "kills the browser (SIGKILL)")
	r, err := s.settle(ctx, id, "the launch to be verified ended", func(r *core.Record) bool { return r.Local != core.Running })
	if err != nil {
		return err
	}
	st, err := s.daemon.WaitStatus(ctx, s.scene, "the quarantine", func(st *core.Status) bool {
		return len(st.Quarantine) > 0 && st.Local.Launch != nil && st.Local.Launch.State == "ended"
	})
	if err != nil {
		return err
	}
	s.outcome.EpochAfter = st.Authority.Epoch
	s.answers(st)
	for _, q := range st.Quarantine {
		s.say("daemon", st.Authority.Epoch, "quarantines the slot: %s", q.Text)
	}
	s.want(!st.Offer.Available, "the slot is offered although an outcome is unknown")
	// Neither the interrupted agent nor another one gets it.
	for _, a := range []struct {
		name string
		try  func(context.Context) error
	}{
		{"ada", func(ctx context.Context) error { return s.a.Resume(ctx, 0) }},
		{"bob", func(ctx context.Context) error { return s.b.Acquire(ctx, "check the price", 0) }},
	} {
		err := a.try(ctx)
		e, ok := errors.AsType[*core.Error](err)
		if !ok {
			s.outcome.GrantedMeanwhile++
			s.differs("%s was not refused: %v", a.name, err)
			continue
		}
		s.say(a.name, 0, "asks for the slot: refused, %s", e.Code)
		if a.name == "ada" {
			s.outcome.Refused = e.Code
		}
	}
	n := s.site.Count(s.scene).Total
	verdict := core.NotApplied
	if n > 0 {
		verdict = core.Applied
	}
	if r, err = s.daemon.Control.Resolve(ctx, r.Action, wire.ResolveRequest{
		Verdict: verdict, By: "demo", Note: fmt.Sprintf("the shop shows %d changes", n),
	}); err != nil {
		return err
	}
	s.say("person", 0, "looks at the shop, finds %d changes, and resolves: %s", n, r.Resolution.Verdict)
	st, err = s.daemon.WaitStatus(ctx, s.scene, "the end of the quarantine", func(st *core.Status) bool { return len(st.Quarantine) == 0 })
	if err == nil {
		s.answers(st)
	}
	return err
}

// browserPID asks the browser itself for its process.
func (s *stage) browserPID(ctx context.Context) (int, error) {
	var r struct {
		ProcessInfo []struct {
			Type string `json:"type"`
			ID   int    `json:"id"`
		} `json:"processInfo"`
	}
	if err := s.hand.Pipe().Call(ctx, "", "SystemInfo.getProcessInfo", nil, &r); err != nil {
		return 0, err
	}
	for _, p := range r.ProcessInfo {
		if p.Type == "browser" && p.ID > 1 && p.ID != os.Getpid() {
			return p.ID, nil
		}
	}
	return 0, errors.New("the browser does not name its process")
}

// popupSays waits until the popup shows the text.
func (s *stage) popupSays(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := s.hand.WaitText(ctx, text); err != nil {
		return err
	}
	s.say("popup", 0, "“%s.”", text)
	return nil
}
