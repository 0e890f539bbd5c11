package core

import (
	"fmt"
	"slices"
)

// StatusOf tells a slot's state in the three answers. It reads and never changes.
func StatusOf(s *State, now Now, name SlotName) *Status {
	slot, ok := s.Slots[name]
	if !ok {
		return nil
	}
	t := &tx{s: s, now: now}
	st := &Status{
		Slot: name, AtMs: now.WallMs,
		Authority: AuthorityOf(s, now, slot),
		Local:     LocalNow{State: "idle", Commands: []CommandNow{}, Documents: []DocNow{}, Downloads: []string{}},
		Remote:    RemoteNow{State: "none_seen", Requests: []RequestNow{}},
		Offer:     Offer{Why: []string{}},
		Queue:     []Waiter{},
	}
	if l := s.Leases[slot.Lease]; l != nil {
		st.Binding = l.Binding
	}
	if l := s.Leases[slot.Interrupted]; l != nil && l.State == LeaseInterrupted {
		st.Binding = l.Binding
		st.Interrupted = &Interrupt{Lease: l.ID, Agent: l.Agent, ExpiresInMs: l.Expires.LeftMs(now)}
		if l.Ask != nil && l.Ask.State == "taken_over" && l.Ask.Epoch == l.Epoch { // not of an earlier takeover
			st.Interrupted.Ask = l.Ask
		}
	}
	if b := s.Bindings[st.Binding]; b != nil {
		st.Allow = b.Allow
	}
	t.statusActions(slot, st)
	// Without a link, or with one that does not answer, nobody sees the browser's
	// requests: what has not been seen of an open action is not known.
	unseen := slot.Launch.Live() && (!s.Links[name].Up() || slot.Fence.State == "unacknowledged")
	if unseen && st.Remote.State == "none_seen" {
		st.Remote.State = "unknown"
	}
	st.Local.Documents = append(append(st.Local.Documents, slot.Pending...), slot.Scripts...)
	if len(st.Local.Documents) > 0 && st.Local.State == "idle" {
		st.Local.State = "running"
	}
	if l := slot.Launch; l != nil {
		link := "down"
		if s.Links[name].Up() {
			link = "up"
		}
		st.Local.Launch = &LaunchNow{
			Launch: l.ID, Generation: l.Generation, Unit: l.Unit, InvocationID: l.InvocationID,
			Containment: l.Containment, State: l.State, Link: link, Debug: l.Debug,
			Packaging: l.Packaging, Unprotected: Unprotected(l.Packaging),
		}
		if l.State == "unknown" || slot.Fence.State == "unacknowledged" {
			st.Local.State = "unknown"
		}
	}
	st.Quarantine = t.quarantine(slot)
	for _, b := range t.blocks(slot, "") {
		st.Offer.Why = append(st.Offer.Why, b.text)
	}
	if st.Offer.Available = len(st.Offer.Why) == 0; st.Offer.Available {
		st.Offer.Why = othersWait(slot)
	}
	for l := range t.queue(name) {
		w := Waiter{
			Lease: l.ID, Agent: l.Agent, Binding: l.Binding, Task: l.Task, Priority: l.Priority,
			Position: len(st.Queue) + 1, WaitMs: l.WaitUntil.LeftMs(now), Reasons: []string{},
		}
		for _, b := range t.waiterBlocks(l) {
			w.Reasons = append(w.Reasons, b.text)
		}
		st.Queue = append(st.Queue, w)
	}
	for _, c := range slot.Keys {
		st.Keys = append(st.Keys, c.String())
	}
	for _, id := range s.index.live[name] {
		l := s.Leases[id]
		if l.Ask != nil && l.Ask.State == "open" {
			st.Asks = append(st.Asks, AskNow{Lease: l.ID, Agent: l.Agent, Ask: *l.Ask})
		}
		if l.Retention != nil && l.Retention.State == "requested" && l.Retention.Epoch == slot.Epoch {
			st.Retentions = append(st.Retentions, RetentionNow{Lease: l.ID, Agent: l.Agent, Retention: *l.Retention})
		}
	}
	for _, b := range s.index.bindings[name] {
		v := s.Bindings[b]
		if v.Account == "none" {
			continue
		}
		st.SignIns = append(st.SignIns, SignIn{Binding: b, Account: v.Account, Confirmed: v.Confirmed, BeforeRestart: v.Confirmed.OlderThanRestart(slot), Prepared: v.Confirmed.Prepared(), Probe: v.page("account") != nil, Checked: slot.accountNow(b, now)})
	}
	st.Unclean = slot.Unclean
	st.Probing = t.probing(name)
	st.Sentences = t.sentences(slot, st)
	return st
}

// othersWait says for whom a slot that is offered is not: whoever has no script in its pages.
func othersWait(slot *Slot) []string {
	why := []string{}
	for _, d := range slot.Scripts {
		if d.Document == "" {
			why = append(why, fmt.Sprintf("not to other agents yet: any page may still hold a script of %s; sessiondock slot stop %s", d.Agent, slot.Name))
			continue
		}
		why = append(why, "not to other agents yet: "+d.held()+"; "+d.mend(slot.Name))
	}
	return why
}

// AuthorityOf tells who has control of a slot: the part of its status that costs nothing.
func AuthorityOf(s *State, now Now, slot *Slot) AuthorityNow {
	a := AuthorityNow{Holder: slot.Holder, Epoch: slot.Epoch, Lease: slot.Lease, Fence: slot.Fence.State}
	if l := s.Leases[slot.Lease]; l != nil {
		a.ExpiresInMs = l.Expires.LeftMs(now)
		a.Ready = slot.Holder.Kind == "agent" && s.Links[slot.Name].Granted == slot.Epoch
	}
	return a
}

// statusActions fills in what the slot's open actions say.
func (t *tx) statusActions(slot *Slot, st *Status) {
	rank := map[string]int{"none_seen": 0, "answered": 1, "in_flight": 2, "unknown": 3}
	for _, a := range t.s.OpenActions(slot.Name) {
		// What was sent to a browser that has ended is not at work, whatever came of it.
		if !a.Gone && (a.Local == Running || a.Local == LocalUnknown && a.Resolution == nil) {
			st.Local.Commands = append(st.Local.Commands, CommandNow{
				Action: a.Action, Summary: a.Summary, RunningMs: max(0, t.now.WallMs-a.Times.Admitted), Local: a.Local,
			})
			if a.Local == LocalUnknown {
				st.Local.State = "unknown"
			} else if a.Local == Running && st.Local.State == "idle" {
				st.Local.State = "running"
			}
		}
		if a.Class == Read || a.Resolution != nil || a.Remote.Status() != 0 && !a.asked() {
			continue // an answer to a safe method says nothing about a result
		}
		state := string(a.Remote)
		switch {
		case a.Remote.Status() != 0:
			state = "answered"
		case a.Remote == AbortedLocally:
			state = "unknown"
		}
		if rank[state] > rank[st.Remote.State] {
			st.Remote.State = state
		}
		for _, id := range a.requestIDs() {
			c := a.Requests[id]
			if !c.unsafe() && c.Type != "main_frame" {
				continue
			}
			what := c.State
			switch {
			case c.State == "answered":
				what = string(Answered(c.Status))
			case c.State == "in_flight" && (a.Blind || a.Gone):
				what = "unknown"
			case c.State == "failed":
				what = c.failure()
			}
			st.Remote.Requests = append(st.Remote.Requests, RequestNow{Action: a.Action, Method: c.Method, URL: c.URL, State: what})
		}
	}
}

// quarantine lists the slot's own reasons and the actions that nothing but a
// person, a probe or new evidence can settle.
func (t *tx) quarantine(slot *Slot) []Reason {
	out := append([]Reason{}, slot.Reasons...)
	for _, a := range t.s.OpenActions(slot.Name) {
		if a.Over && a.Class == Write && !a.clean() && !a.canSettle(t.now) {
			resolve := "sessiondock resolve " + string(a.Action) + " --applied | --not-applied"
			if b := t.s.Bindings[a.Binding]; b.page("effect") != nil {
				resolve = fmt.Sprintf("sessiondock probe %s --action %s; or, having looked: %s", b.Name, a.Action, resolve)
			}
			out = append(out, Reason{
				Code: "outcome_unknown", Text: fmt.Sprintf("%s: local %s, remote %s", a.Summary, a.Local, a.Remote),
				SinceMs: a.Times.Settled, Action: a.Action,
				Resolve: resolve,
			})
		}
	}
	return out
}

// sentences says the three answers to a person, in plain words.
func (t *tx) sentences(slot *Slot, st *Status) Sentences {
	out := Sentences{Warnings: []string{}}
	switch {
	case slot.Holder.Kind == "human":
		out.Authority = fmt.Sprintf("Control is yours (epoch %d).", slot.Epoch)
	case slot.Holder.Kind == "agent":
		out.Authority = fmt.Sprintf("%s may act for %s more (epoch %d).", slot.Holder.Name, span(st.Authority.ExpiresInMs), slot.Epoch)
		if !st.Authority.Ready {
			out.Authority = fmt.Sprintf("%s has control, but the browser is not ready for it yet (epoch %d).", slot.Holder.Name, slot.Epoch)
		}
	case slot.Lease != "":
		out.Authority = fmt.Sprintf("Nobody may act. The slot is kept for %s, which can resume (epoch %d).", t.s.Leases[slot.Lease].Agent, slot.Epoch)
	default:
		out.Authority = fmt.Sprintf("Nobody may act (epoch %d).", slot.Epoch)
	}
	if slot.Fence.State == "unacknowledged" {
		out.Authority += " The fence is unacknowledged: the browser has not confirmed that older commands are refused."
	}
	over := slot.Holder.Kind != "agent"
	switch {
	case st.Local.State == "unknown":
		out.Local = "It is not known whether local work is still running."
	case slot.Fence.State == "pending":
		out.Local = "The browser has not answered the fence yet."
	case !slot.Launch.Live():
		out.Local = "No local work: the browser is not running."
	case len(st.Local.Commands) > 0 && over:
		out.Local = fmt.Sprintf("%s sent to the page %s not come to rest.", count(len(st.Local.Commands), "command"), has(len(st.Local.Commands)))
	case len(st.Local.Commands) > 0:
		out.Local = fmt.Sprintf("%s running.", count(len(st.Local.Commands), "command"))
	case slot.anyPage():
		out.Local = "No command is running, but any page may still hold a script that an agent put there: in which is not known any more."
	case len(slot.Scripts) > 0:
		out.Local = "No command is running, but a page still holds a script that an agent put there."
	default:
		out.Local = "No local work is known to be running."
	}
	if over && (len(slot.Pending) > 0 || slot.Fence.State == "draining" && len(st.Local.Commands) > 0) {
		out.Warnings = append(out.Warnings, "A click may still land in this page.")
	}
	if over && slot.anyPage() {
		out.Warnings = append(out.Warnings, "Code that an agent put into any page of this browser may still run. Stop the browser before you type a secret: sessiondock slot stop "+string(slot.Name))
	} else if over && len(slot.Scripts) > 0 {
		out.Warnings = append(out.Warnings, "Code that the agent put into this page may still run. Reload before you type a secret.")
	}
	if slot.Holder.Kind == "human" {
		out.Warnings = append(out.Warnings, t.keyWarnings(slot)...)
	}
	for _, v := range st.SignIns {
		if id := v.Checked; id != nil && id.Counts && id.State == "mismatch" && v.Binding == st.Binding {
			out.Warnings = append(out.Warnings, fmt.Sprintf("The slot is not signed in as binding %s expects (%s).", v.Binding, t.s.Bindings[v.Binding].Expected("account")))
		}
	}
	if u := slot.Unclean; u != nil {
		out.Warnings = append(out.Warnings, u.sentence(t.now))
	}
	for _, a := range st.Asks {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s asks for a person: %s", a.Agent, a.Reason))
	}
	switch st.Remote.State {
	case "in_flight":
		out.Remote = "A request has been sent and its answer is not here yet."
	case "answered":
		out.Remote = "The website has answered; what it did is its own."
	case "unknown":
		out.Remote = "What the website did is not known. Look there before anything is done again."
		if len(st.Remote.Requests) == 0 && slot.Launch.Live() && (!t.s.Links[slot.Name].Up() || slot.Fence.State == "unacknowledged") {
			out.Remote = "Not known: nobody sees this browser's requests now. Look at the site before anything is done again."
		}
	default:
		out.Remote = "Nothing that asks for a change is open. What came of earlier actions is in the record of each (sessiondock actions " + string(slot.Name) + ")."
		if t.openWrites(slot.Name) {
			out.Remote = "No request that asks for a change has been seen so far."
		}
	}
	return out
}

// openWrites says whether an action that could change the website is still open.
func (t *tx) openWrites(name SlotName) bool {
	return slices.ContainsFunc(t.s.OpenActions(name), func(a *Action) bool { return a.Class == Write && a.Resolution == nil })
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// Unprotected says what a packaging of the extension leaves open that a stronger one
// would close.
func Unprotected(packaging string) string {
	switch packaging {
	case "external":
		return "a person can switch the extension off, and then the slot cannot be used; the browser's settings and this user's files are open to whoever sits at it"
	case "load":
		return "a person can switch the extension off until the next start, and it may read this user's files"
	}
	return ""
}
