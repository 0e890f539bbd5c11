package core

import (
	"slices"
	"strings"
)

// settle computes an action's two outcome fields anew from what is known: the
// host's last word, the extension's last report, the drain, and whether the
// watcher is still there. It is the only place that sets them (I6).
func (t *tx) settle(a *Action) {
	if a.Closed {
		return
	}
	wasLocal, wasRemote := a.Local, a.Remote
	a.Local = a.local()
	a.Remote = a.remote() // it depends on the local value
	if a.Local != wasLocal {
		a.evidence(Evidence{Kind: "local", AtMs: t.now.WallMs, Source: "daemon", Rule: a.localRule(), Text: string(a.Local)})
	}
	if a.Local == Finished && wasLocal != Finished && wasLocal != Running {
		// It came to rest later than had been known: what it started may leave only now.
		a.WatchEnds, a.Watched, a.WatchedUntil = Deadline{}, false, 0
	}
	if a.Local != Running && a.Sent {
		if a.Times.Settled == 0 {
			a.Times.Settled = t.now.WallMs
		}
		if a.opensRemote() && !a.Blind && !a.Gone && a.WatchEnds == (Deadline{}) {
			a.WatchEnds = t.now.In(a.WatchMs)
		}
	}
	if !a.Sent && a.Over && a.Times.Settled == 0 {
		a.Times.Settled = t.now.WallMs
	}
	if wasLocal != a.Local || wasRemote != a.Remote {
		t.touch(a.Slot)
	}
	a.Watching = a.opensRemote() && a.Local == Finished && !a.Watched && !a.Blind && !a.Gone
	if a.Local == Finished && a.Error != nil && slices.Contains([]Code{CodeOutcomeUnknown, CodeDeadline, CodeFenced}, a.Error.Code) {
		a.Error = nil // the answer came after all
	}
	if a.finished() {
		a.Closed = true
		if a.Sent && t.link(a.Slot).Up() {
			if t.forget == nil {
				t.forget = map[SlotName][]ActionID{}
			}
			t.forget[a.Slot] = append(t.forget[a.Slot], a.Action)
			t.touch(a.Slot)
		}
	}
}

// local derives what is known of the action's local work.
func (a *Action) local() Local {
	if !a.Sent {
		return NotDispatched // it never left the daemon
	}
	switch {
	case a.Host == "finished":
		return Finished
	case a.Host == "refused" && a.Reported == 0:
		return NotDispatched
	case a.Host == "failed" && len(a.Requests) == 0 && a.More == 0:
		return Failed
	}
	// A host that says "refused" or "failed" of what the extension saw dispatched, or
	// saw requests of, proves nothing.
	if a.How == "none" {
		return NotDispatched // proved by the instance that had the grant
	}
	if a.Class == Read && (a.Host != "" || a.Over) {
		return Interrupted // we stopped looking; nothing was to change
	}
	switch a.How {
	case "ended":
		return Ended
	case "barrier":
		if a.Script && a.Open > 0 {
			// Its promise has not settled, so its code may go on.
			if a.Gone || a.Blind {
				return LocalUnknown
			}
			return Running
		}
		if a.Host != "" {
			if a.Steps.Dispatched = a.Reported; a.Reported >= a.Steps.Total {
				return Finished
			}
			return Interrupted
		}
	}
	if a.Gone || a.Blind || a.Drained || a.Over && a.How == "lost" {
		return LocalUnknown
	}
	return Running
}

// localRule says in one phrase what the local value rests on.
func (a *Action) localRule() string {
	switch a.Local {
	case Finished:
		if a.Host == "finished" {
			return "host: every step answered, barrier passed"
		}
		return "drain: " + a.howRule()
	case Interrupted:
		if a.Over {
			return "fence: the steps that remained were cancelled; " + a.howRule()
		}
		return "host: a step was refused or failed, and those that remained were not begun"
	case NotDispatched:
		if a.How == "none" {
			return "drain: the instance that had the grant never dispatched it"
		}
		return "no gate let it pass"
	case Ended:
		return "its renderer or launch is verified gone"
	case Failed:
		return "host: an error that proves it did not execute"
	case LocalUnknown:
		switch {
		case a.Gone:
			return "its browser ended before it was settled"
		case a.Blind:
			return "the link to its watcher was lost"
		}
		return "the drain could not settle it"
	}
	return "dispatched"
}

func (a *Action) howRule() string {
	if a.HowRule != "" {
		return a.HowRule
	}
	return "barrier_in_document"
}

// opensRemote says whether the action can have had an effect on a website.
func (a *Action) opensRemote() bool {
	return a.Class == Write && a.Sent && a.Local != NotDispatched && a.Local != Failed
}

// remote derives what is known about the result on the website.
func (a *Action) remote() Remote {
	if a.Resolution != nil {
		return a.Resolution.Verdict
	}
	if !a.opensRemote() {
		return NoneSeen
	}
	seen := a.seen()
	lost := a.Blind || a.Gone
	switch {
	case seen == InFlight && lost:
		return RemoteUnknown
	case seen == NoneSeen && lost && !a.Watched:
		return RemoteUnknown
	}
	return seen
}

// unsafe says whether a request's method asks for an effect. The methods that HTTP
// defines as safe do not.
func (c SeenCall) unsafe() bool {
	switch c.Method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return false
	}
	return true
}

// never lists the errors that prove that a request did not reach its server.
var never = []string{
	"net::ERR_CONNECTION_REFUSED", "net::ERR_NAME_NOT_RESOLVED", "net::ERR_INTERNET_DISCONNECTED",
	"net::ERR_ADDRESS_UNREACHABLE", "net::ERR_BLOCKED_BY_CLIENT", "net::ERR_BLOCKED_BY_CSP",
	"net::ERR_UNSAFE_PORT", "net::ERR_CERT_AUTHORITY_INVALID", "net::ERR_CERT_DATE_INVALID",
	"net::ERR_CERT_COMMON_NAME_INVALID",
}

// Unheard is the error of a request of whose end the extension was not told.
const Unheard = "how it ended was not heard"

// failure says for a person what a request without an answer came to.
func (c SeenCall) failure() string {
	open := ""
	if c.unsafe() {
		open = "; whether the site carried it out is not known"
	}
	switch {
	case slices.Contains(never, c.Error):
		return "failed: " + c.Error // it never reached the site
	case c.Error == "net::ERR_ABORTED":
		return "the browser gave up waiting (" + c.Error + ")" + open
	}
	if c.Error == Unheard {
		return c.Error + open
	}
	return "no answer came (" + c.Error + ")" + open
}

// seen sums the attributed requests up. Requests that ask for an effect decide; if
// there is none, the page's own loads and fetches do, but an image or a style sheet
// says nothing about a result.
func (a *Action) seen() Remote {
	weigh := func(use func(SeenCall) bool) (Remote, bool) {
		any, flying, aborted, unknown, worst, last := false, false, false, false, 0, 0
		for _, id := range a.requestIDs() {
			c := a.Requests[id]
			if !use(c) {
				continue
			}
			switch {
			case c.State == "in_flight":
				flying = true
			case c.State == "answered":
				last = c.Status
				if dirtyStatus(c.Status) {
					worst = max(worst, c.Status)
				}
			case slices.Contains(never, c.Error):
				continue
			case c.Error == "net::ERR_ABORTED":
				aborted = true
			default:
				unknown = true
			}
			any = true
		}
		switch {
		case !any:
			return NoneSeen, false
		case flying:
			return InFlight, true
		case unknown:
			return RemoteUnknown, true
		case aborted:
			return AbortedLocally, true
		case worst > 0:
			return Answered(worst), true
		}
		return Answered(last), true
	}
	r, asked := weigh(SeenCall.unsafe)
	if a.More > 0 && (!asked || r.Status() != 0 && a.fullOfUnsafe()) {
		return RemoteUnknown // requests that were only counted may have asked for effects
	}
	if asked {
		return r
	}
	r, _ = weigh(func(c SeenCall) bool {
		return !c.unsafe() && slices.Contains([]string{"main_frame", "sub_frame", "xmlhttprequest"}, c.Type)
	})
	if r == RemoteUnknown {
		// A load or fetch that failed on its way. It had asked for no effect.
		return AbortedLocally
	}
	return r
}

// fullOfUnsafe says whether a request that asks for an effect may have found no room: one
// that does not gives way to it.
func (a *Action) fullOfUnsafe() bool {
	for _, c := range a.Requests {
		if !c.unsafe() {
			return false
		}
	}
	return len(a.Requests) >= MaxSeenRequests
}

// giveWay makes room for a request that asks for an effect.
func (a *Action) giveWay() bool {
	for _, id := range a.requestIDs() {
		if !a.Requests[id].unsafe() {
			delete(a.Requests, id)
			return true
		}
	}
	return false
}

// asked says whether a request that asks for an effect was attributed.
func (a *Action) asked() bool {
	if a.More > 0 {
		return true
	}
	for _, c := range a.Requests {
		if c.unsafe() && !slices.Contains(never, c.Error) {
			return true
		}
	}
	return false
}

func (a *Action) requestIDs() []string {
	ids := make([]string, 0, len(a.Requests))
	for id := range a.Requests {
		ids = append(ids, id)
	}
	// Chromium numbers requests; the shorter number is the older one.
	slices.SortFunc(ids, func(x, y string) int {
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
	return ids
}

// dirtyStatus says whether an answer leaves it open what the server did.
func dirtyStatus(s int) bool { return s >= 500 || s == 408 || s == 425 || s < 100 }

// clean says whether the action leaves nothing unknown behind.
func (a *Action) clean() bool {
	if a.Class == Read {
		return true
	}
	if a.Local == NotDispatched || a.Local == Failed {
		return true
	}
	if a.Resolution != nil {
		return a.Local != Running
	}
	if a.Local != Finished {
		return false
	}
	switch a.Remote {
	case Applied, NotApplied:
		return true
	case NoneSeen:
		return a.Watched
	case InFlight:
		return false
	}
	if !a.asked() && a.Remote != RemoteUnknown {
		return true // only safe methods: their answers, whatever they are, changed nothing
	}
	return a.Remote.Status() != 0 && !dirtyStatus(a.Remote.Status())
}

// canSettle says whether an action that is not clean may become so by itself.
func (a *Action) canSettle(now Now) bool {
	if a.Gone || a.Blind && a.Drained {
		return false
	}
	switch {
	case a.Local == Running || a.Blind:
		return true
	case a.Local != Finished:
		return false
	case a.Remote == InFlight:
		return true
	case a.Remote == NoneSeen:
		return !a.Watched
	}
	return false
}

// finished says whether nothing more is expected of the action.
func (a *Action) finished() bool {
	if a.Local == Running || a.Sent && a.Host == "" && !a.Over {
		return false
	}
	if !a.Sent {
		return a.Over
	}
	if !a.clean() {
		return false
	}
	return a.Class == Read || a.Resolution != nil || a.Watched || a.Gone || a.Local == NotDispatched || a.Local == Failed
}

func (a *Action) evidence(e Evidence) {
	if len(a.Evidence) < MaxEvidenceRows {
		a.Evidence = append(a.Evidence, e)
	}
}

// merge takes a report of the extension. A report that is older than the last one
// is dropped.
func (t *tx) merge(id ActionID, slot SlotName, r Report) {
	a := t.seeAction(id)
	if a == nil || a.Slot != slot || !a.Sent || a.Closed || r.Rev < a.Rev {
		return
	}
	a = t.action(id)
	a.Rev, a.Open, a.Tab, a.Document = r.Rev, r.Open, r.Tab, r.Document
	a.Script, a.HowRule, a.More = a.Script || r.Script, r.HowRule, r.More
	a.Reported = max(a.Reported, r.Dispatched)
	if r.How != "open" && a.How != "none" {
		a.How = r.How
	}
	if r.Dispatched > 0 && a.Times.Dispatched == 0 {
		a.Times.Dispatched = t.now.WallMs
		a.How = strings.TrimPrefix(a.How, "none") // it was dispatched after all
	}
	if t.link(slot).Instance == a.Instance {
		a.Blind = false
	}
	fresh := &Action{Requests: r.Requests}
	for _, rid := range fresh.requestIDs() {
		t.mergeRequest(a, rid, r.Requests[rid])
	}
	t.settle(a)
}

func (t *tx) mergeRequest(a *Action, id string, c SeenCall) {
	old, known := a.Requests[id]
	if !known && len(a.Requests) >= MaxSeenRequests {
		a.More++
		if !c.unsafe() || !a.giveWay() {
			return
		}
	}
	if known && old.State != "in_flight" || known && old == c {
		return
	}
	a.Requests[id] = c
	e := Evidence{Kind: "request", AtMs: t.now.WallMs, Source: "extension", Rule: c.Rule, Method: c.Method, URL: c.URL, AfterFence: c.AfterFence}
	if !known && c.State != "in_flight" {
		a.evidence(e) // it began and ended between two reports
	}
	switch c.State {
	case "answered":
		e.Kind, e.Status = "answer", c.Status
	case "failed":
		e.Kind, e.Text = "failure", c.Error
		if c.Error == Unheard {
			e.Kind = "request" // that it failed is not known
		}
	}
	a.evidence(e)
}
