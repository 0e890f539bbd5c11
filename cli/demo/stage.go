package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// Outcome is what a scene came to: the one JSON line of it.
type Outcome struct {
	Scene       string      `json:"scene"`
	SiteSaves   int         `json:"site_saves"` // by the site's own count
	EpochBefore core.Epoch  `json:"epoch_before"`
	EpochAfter  core.Epoch  `json:"epoch_after"`
	Refused     core.Code   `json:"refused"` // what the agent's next action was told
	Local       core.Local  `json:"local"`   // of the action that was interrupted
	Remote      core.Remote `json:"remote"`
	// GrantedMeanwhile counts the grants to another agent while the slot was not
	// clean.
	GrantedMeanwhile int `json:"granted_meanwhile"`
}

// stage is one scene while it plays: a slot with a browser, two agents with a
// delegation each, a person's hand, and the site.
type stage struct {
	out      io.Writer
	site     *Site
	daemon   *Daemon
	scene    string
	page     string
	hand     *Hand
	a, b     *Agent
	began    time.Time
	outcome  Outcome
	problems []string // what differed from the promise

	saying sync.Mutex
}

// grantWithin is how long an agent in the queue may have to wait for a slot that
// nothing stands against any more.
const grantWithin = 15 * time.Second

// slot is the slot's name; the binding and the site's scope have the same.
func (s *stage) slot() core.SlotName { return core.SlotName(s.scene) }

// open prepares the stage: the page of the scene stands in the slot's browser.
func (s *stage) open(ctx context.Context, display, query string) error {
	s.began = time.Now()
	url := s.site.URL(s.scene, s.page, query)
	if err := s.daemon.NewSlot(ctx, s.scene, display, s.site.Origin(), url); err != nil {
		return err
	}
	var err error
	if s.a, err = s.daemon.NewAgent(ctx, "ada", s.scene); err != nil {
		return err
	}
	if s.b, err = s.daemon.NewAgent(ctx, "bob", s.scene); err != nil {
		return err
	}
	if s.hand, err = DialHand(ctx, s.home().Runtime(), s.slot()); err != nil {
		return err
	}
	if err := s.a.Acquire(ctx, "save product 42", 10*time.Second); err != nil {
		return err
	}
	s.outcome.EpochBefore = s.a.Lease.Epoch
	s.say("ada", s.a.Lease.Epoch, "acquires binding %s", s.scene)
	r, err := s.a.Act(ctx, client.NewID(), wire.Act{Verb: "navigate", URL: url}, 0)
	if err != nil {
		return err
	}
	s.say("ada", r.Epoch, "opens %s", strings.TrimPrefix(r.URL, s.site.Origin()))
	return nil
}

func (s *stage) home() Home { return s.daemon.home }

// close ends the slot's browser. What the scene left open stays in the ledger.
func (s *stage) close(ctx context.Context) error {
	var errs []error
	if s.hand != nil {
		errs = append(errs, s.hand.Close())
	}
	st, err := s.daemon.Control.Status(ctx, s.slot())
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if st.Authority.Holder.Kind == "agent" {
		if _, err := s.daemon.Control.Change(ctx, s.slot(), client.Takeover, wire.ChangeRequest{By: "demo"}); err != nil {
			errs = append(errs, err)
		}
	}
	_, err = s.daemon.Control.Change(ctx, s.slot(), client.Stop, wire.ChangeRequest{By: "demo", StopNow: true})
	return errors.Join(append(errs, err)...)
}

// say prints one line of the timeline.
func (s *stage) say(who string, epoch core.Epoch, format string, args ...any) {
	s.saying.Lock()
	defer s.saying.Unlock()
	at := fmt.Sprintf("%6.2f s", time.Since(s.began).Seconds())
	number := "       "
	if epoch != 0 {
		number = fmt.Sprintf("epoch %-3d", epoch)
	}
	fmt.Fprintf(s.out, "  %s  %-9s %-9s  %s\n", at, who, number, fmt.Sprintf(format, args...))
}

// answers prints the slot's three answers, each by itself.
func (s *stage) answers(st *core.Status) {
	s.saying.Lock()
	defer s.saying.Unlock()
	const line = "            %-16s %s\n"
	fmt.Fprintf(s.out, line, "who may act?", st.Sentences.Authority)
	local := append([]string{st.Sentences.Local}, st.Sentences.Warnings...)
	fmt.Fprintf(s.out, line, "local work?", strings.Join(local, " "))
	fmt.Fprintf(s.out, line, "the website?", st.Sentences.Remote)
}

// differs notes that something is not as the scene promises.
func (s *stage) differs(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.problems = append(s.problems, text)
	s.say("demo", 0, "DIFFERS: %s", text)
}

// want notes a difference unless the condition holds.
func (s *stage) want(good bool, format string, args ...any) {
	if !good {
		s.differs(format, args...)
	}
}

// click starts the agent's click on an element without waiting for its outcome.
func (s *stage) click(ctx context.Context, selector, id string, tab core.TabID) <-chan error {
	s.say("ada", s.a.Lease.Epoch, "clicks %s", selector)
	done := make(chan error, 1)
	go func() {
		_, err := s.a.Act(ctx, id, wire.Act{Verb: "click", Selector: selector}, tab)
		done <- err
	}()
	return done
}

// dispatched waits until the browser has been given the action's commands, and
// returns its record.
func (s *stage) dispatched(ctx context.Context, id string) (*core.Record, error) {
	return s.record(ctx, id, "the click to be dispatched", func(r *core.Record) bool { return r.Times.Dispatched != 0 })
}

// record waits until the action with the client's identifier is as wanted. It looks
// through the person's door, which shows evidence whoever holds the slot.
func (s *stage) record(ctx context.Context, id, what string, good func(*core.Record) bool) (*core.Record, error) {
	var last *core.Record
	for {
		rs, err := s.daemon.Control.Actions(ctx, s.slot(), false)
		for i := range rs {
			if rs[i].ID == core.ClientID(id) {
				last = &rs[i]
			}
		}
		if err == nil && last != nil && good(last) {
			return last, nil
		}
		if wait(ctx, 10*time.Millisecond) != nil {
			if last != nil {
				err = errors.Join(err, fmt.Errorf("its record: %+v", *last))
			}
			return last, fmt.Errorf("waited in vain for %s: %w", what, errors.Join(ctx.Err(), err))
		}
	}
}

// settle waits for the action's outcome and puts it into the scene's.
func (s *stage) settle(ctx context.Context, id, what string, good func(*core.Record) bool) (*core.Record, error) {
	r, err := s.record(ctx, id, what, good)
	if err != nil {
		return r, err
	}
	s.outcome.Local, s.outcome.Remote = r.Local, r.Remote
	s.say("record", r.Epoch, "%s: local %s, remote %s", r.Summary, r.Local, r.Remote)
	for _, e := range r.Evidence {
		if e.Kind == "answer" {
			s.say("evidence", r.Epoch, "%s %s answered %d, attributed by %s", e.Method, strings.TrimPrefix(e.URL, s.site.Origin()), e.Status, e.Rule)
		}
	}
	return r, nil
}

// takeOver presses the popup's Take over and waits until the extension has
// acknowledged the fence.
func (s *stage) takeOver(ctx context.Context) (*core.Status, error) {
	if err := s.hand.Press(ctx, ButtonTakeover); err != nil {
		return nil, err
	}
	st, err := s.daemon.WaitStatus(ctx, s.scene, "the fence to be acknowledged", func(st *core.Status) bool {
		return st.Authority.Holder.Kind == "human" && (st.Authority.Fence == "draining" || st.Authority.Fence == "drained")
	})
	if err != nil {
		return nil, err
	}
	s.outcome.EpochAfter = st.Authority.Epoch
	s.say("person", st.Authority.Epoch, "takes over in the popup; the fence is acknowledged")
	s.answers(st)
	return st, nil
}

// refused lets the agent try one more action under its old epoch.
func (s *stage) refused(ctx context.Context) {
	_, err := s.a.Act(ctx, client.NewID(), wire.Act{Verb: "click", Selector: "#save"}, 0)
	e, ok := errors.AsType[*core.Error](err)
	if !ok {
		s.differs("the agent's next action was not refused: %v", err)
		return
	}
	s.outcome.Refused = e.Code
	s.say("ada", s.a.Lease.Epoch, "tries another click: refused, %s (%s)", e.Code, e.Message)
}

// asking is an agent's acquire that waits in the queue.
type asking struct {
	granted chan error // once
	at      time.Time  // of the grant, once granted has been received
}

// ask lets the second agent ask for the slot and go on waiting.
func (s *stage) ask(ctx context.Context) *asking {
	s.say("bob", 0, "asks for the slot, and waits")
	q := &asking{granted: make(chan error, 1)}
	go func() {
		err := s.b.Acquire(ctx, "check the price", time.Minute)
		q.at = time.Now()
		q.granted <- err
	}()
	return q
}

// meanwhile counts a grant that came while it should not.
func (s *stage) meanwhile(q *asking, why string) {
	select {
	case err := <-q.granted:
		q.granted <- err
		if err == nil {
			s.outcome.GrantedMeanwhile++
			s.differs("bob was granted the slot %s", why)
		}
	default:
	}
}

// granted waits for the grant of the agent that asks.
func (s *stage) granted(ctx context.Context, q *asking) error {
	ctx, cancel := context.WithTimeout(ctx, grantWithin)
	defer cancel()
	select {
	case err := <-q.granted:
		if err == nil {
			s.say("bob", s.b.Lease.Epoch, "is granted the slot")
		}
		return err
	case <-ctx.Done():
		err := fmt.Errorf("the second agent was not granted the slot: %w", ctx.Err())
		st, statusErr := s.daemon.Control.Status(context.WithoutCancel(ctx), s.slot())
		if statusErr != nil {
			return errors.Join(err, statusErr)
		}
		for _, w := range st.Queue {
			err = fmt.Errorf("%w; it waits because: %s", err, strings.Join(w.Reasons, "; "))
		}
		return err
	}
}

// handBack presses the popup's Hand back for the queue, and confirms what the popup
// then lists as open, if it does.
func (s *stage) handBack(ctx context.Context) error {
	if err := s.hand.Choose(ctx, SelectHandbackTo, ""); err != nil {
		return err
	}
	if err := s.hand.Press(ctx, ButtonHandback); err != nil {
		return err
	}
	how := ""
	for {
		st, err := s.daemon.Control.Status(ctx, s.slot())
		if err != nil {
			return err
		}
		if st.Authority.Holder.Kind != "human" {
			s.say("person", st.Authority.Epoch, "hands back to the queue%s", how)
			return nil
		}
		confirmed, err := s.hand.PressIf(ctx, ButtonHandbackConfirm)
		if err != nil {
			return err
		}
		if confirmed {
			how = ", and confirms what is still open"
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the popup's Hand back did nothing: %w", err)
		}
	}
}

// reload loads the page that stands in the browser again, as the person's F5 would.
func (s *stage) reload(ctx context.Context, url string) error {
	pipe := s.hand.Pipe()
	t, err := pipe.WaitTarget(ctx, "page", url)
	if err != nil {
		return err
	}
	page, err := pipe.Attach(ctx, t.ID)
	if err != nil {
		return err
	}
	err = pipe.Call(ctx, page, "Page.reload", nil, nil)
	return errors.Join(err, pipe.Call(ctx, "", "Target.detachFromTarget", map[string]any{"sessionId": page}, nil))
}
