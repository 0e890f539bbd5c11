package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/fence"
)

// truth is what has really happened in the world, kept where it happens and by no code
// of the product's. The product's claims are compared with it.
type truth struct {
	actions  map[core.ActionID]*deed
	ran      map[string]core.ActionID              // binding, client's identifier and step: by which action
	grants   map[string]core.LeaseID               // profile and epoch: whose grant its gate has accepted
	issued   map[string]string                     // slot and epoch: to whom, by this journal
	recorded map[core.SlotName]map[core.Epoch]bool // epochs of agents that a grant was committed for
	restored bool                                  // the database was once put back to an older copy
	lost     map[core.SlotName]bool                // its browser said that it has seen more than the database
	saying   map[core.SlotName]bool                // the same, and it is not written yet: a life of the worker that comes later may not know
	handed   map[core.SlotName]core.Epoch          // at which a person last gave it back, with the browser or without
	maxUntil map[core.LeaseID]core.Deadline
	approved map[core.LeaseID]core.Deadline // what a person has last let a lease live to, at most
	holds    map[core.HoldID]bool           // presses that a daemon has heard of
	acked    map[core.SlotName]core.Epoch   // the highest fence that a daemon was told to be acknowledged
	numbers  map[core.SlotName]core.Epoch   // the highest that was given to a person, recorded or not
	persons  map[string]bool                // slot and epoch: each that was
	statuses map[int]bool                   // with which the website has answered anything
}

// deed is what has happened of one action.
type deed struct {
	slot       core.SlotName
	verb       string
	class      core.Class
	agent      core.AgentName
	client     core.ClientID
	binding    core.BindingName
	dispatched int // effect commands given to the browser
	looked     int
	executed   int // of those, come to by a page
	refused    int // of those, refused by the browser before they could be
	open       int // dispatched, and may still be come to
	posts      int // requests that ask for an effect
	applied    int
}

func newTruth() truth {
	return truth{
		actions: map[core.ActionID]*deed{}, ran: map[string]core.ActionID{}, grants: map[string]core.LeaseID{}, issued: map[string]string{},
		recorded: map[core.SlotName]map[core.Epoch]bool{}, lost: map[core.SlotName]bool{}, saying: map[core.SlotName]bool{}, handed: map[core.SlotName]core.Epoch{},
		maxUntil: map[core.LeaseID]core.Deadline{}, approved: map[core.LeaseID]core.Deadline{}, statuses: map[int]bool{}, holds: map[core.HoldID]bool{}, numbers: map[core.SlotName]core.Epoch{},
		persons: map[string]bool{}, acked: map[core.SlotName]core.Epoch{},
	}
}

func key(parts ...any) string { return strings.TrimSuffix(fmt.Sprintln(parts...), "\n") }

// asked notes an action that an agent asks for.
func (t *truth) asked(in core.Act, slot core.SlotName, agent core.AgentName, binding core.BindingName) {
	t.actions[in.Action] = &deed{
		slot: slot, verb: in.Verb, class: in.Class, agent: agent, client: in.ID, binding: binding,
	}
}

func (t *truth) of(id core.ActionID) *deed { return t.actions[id] }

// content is what a page shows now: a secret of whoever has control of the browser, as
// far as the browser itself knows.
func (t *truth) content(b *browser) string {
	if b.held() {
		return "a person's"
	}
	return fmt.Sprintf("of epoch %d", max(b.fenced, b.granted))
}

// mark is what the profile has seen.
func (b *browser) mark() (m struct {
	Epoch  core.Epoch `json:"epoch"`
	Person bool       `json:"person"`
}) {
	if text := b.slot.local["mark"]; text != "" {
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			panic(err)
		}
	}
	return m
}

// held says whether a person has pressed "Take over" in this profile, unanswered.
func (b *browser) held() bool {
	h := b.slot.local["hold"]
	return h != "" && h != "null"
}

// took: a takeover has been asked of the register.
// What takes control from somebody else has a number of its own.
func (t *truth) took(w *world, out fence.Issued, had bool) {
	t.holds[out.Hold] = true
	if is := w.daemon.seen.Slots[out.Slot].Epoch; !out.Again && !had && !t.restored && out.Epoch <= max(is, t.numbers[out.Slot]) {
		w.violated("I1", "a person was given epoch %d of %s, which is at %d; the last given was %d", out.Epoch, out.Slot, is, t.numbers[out.Slot])
	}
	t.numbers[out.Slot] = max(t.numbers[out.Slot], out.Epoch)
	if !out.Again || had {
		t.persons[key(out.Slot, out.Epoch)] = true
	}
}

// cleared: a worker has let go of a hold. Only the answer to that very press may do so.
func (t *truth) cleared(b *browser, hold string) {
	var h struct {
		ID core.HoldID `json:"id"`
	}
	if err := json.Unmarshal([]byte(hold), &h); err != nil {
		panic(err)
	}
	if !t.holds[h.ID] {
		b.w.violated("I3", "%s let go of a person's press that no daemon had answered", b.launch)
	}
}

// reopened looks at a database that is read anew: the commit of an adoption may have
// answered an error and been written.
func (t *truth) reopened(s *core.State) {
	for name, slot := range s.Slots {
		if slices.ContainsFunc(slot.Reasons, func(r core.Reason) bool { return r.Code == "adopted" }) {
			t.lost[name] = false
		}
	}
}

// restarted looks at what a daemon that has just begun says of its leases, and at its
// numbers.
func (t *truth) restarted(w *world, s *core.State) {
	for name, slot := range s.Slots {
		if !t.restored && !slot.Removed && slot.Epoch <= t.numbers[name] {
			w.violated("I1", "%s is at epoch %d; a person was given %d", name, slot.Epoch, t.numbers[name])
		}
	}
	for _, id := range sorted(s.Leases) {
		l := s.Leases[id]
		if l.State == core.LeaseEnded {
			continue
		}
		if l.Expires.BootID != w.now().BootID {
			w.violated("L8", "lease %s of another boot is %s", id, l.State)
		}
		if l.State == core.LeaseActive || l.State == core.LeaseGranted {
			w.violated("I14", "lease %s is %s although the daemon has just begun", id, l.State)
		}
	}
}

// stored is called for whatever a worker writes to the profile.
func (t *truth) stored(b *browser, was map[string]string) {
	if old := was["hold"]; old != "" && old != "null" && b.slot.local["hold"] == "null" {
		t.cleared(b, old)
	}
}

// accepted: a gate has opened for an epoch.
func (t *truth) accepted(b *browser, epoch core.Epoch) {
	w := b.w
	b.granted = max(b.granted, epoch)
	slot := w.disk.slots[b.slot.name]
	if slot == nil {
		return
	}
	var lease core.LeaseID
	for id, l := range w.disk.leases {
		if l.Slot == b.slot.name && l.Epoch == epoch && (lease == "" || id < lease) {
			lease = id
		}
	}
	k := key(b.slot.name, epoch)
	if was, ok := t.grants[k]; ok && lease != "" && was != lease {
		w.violated("I1", "epoch %d of %s opened a gate for lease %s, and before for %s", epoch, b.slot.name, lease, was)
	}
	if lease != "" {
		t.grants[k] = lease
	}
	if t.lost[b.slot.name] {
		w.violated("L14", "a gate of %s was opened although its browser has seen more than the database", b.slot.name)
	}
}

// dispatched is the moment after which nothing can be recalled. Everything that must be
// true of it is looked at here.
func (t *truth) dispatched(b *browser, on *tab, m tag, method, params string) {
	w := b.w
	d := t.of(m.action)
	if d == nil {
		w.violated("I7", "a command of %s, which no agent asked for", m.action)
		return
	}
	w.count.deeds["dispatched "+method]++
	effect := !strings.Contains(params, "look()")
	if effect {
		d.dispatched++
		d.open++
	} else {
		d.looked++
	}
	if d.slot != b.slot.name {
		w.violated("I9", "%s of slot %s was dispatched in %s", m.action, d.slot, b.slot.name)
	}
	k := key(d.binding, d.client, m.step)
	if by, again := t.ran[k]; again && !(t.restored && w.disk.actions[by] == nil) {
		w.violated("I7", "step %d of action %s was dispatched again, as %s", m.step, by, m.action)
	}
	t.ran[k] = m.action
	a := w.disk.actions[m.action]
	if a == nil {
		if !t.restored {
			w.violated("commit before effect", "%s was dispatched and is not in the journal", m.action)
		}
		return
	}
	if a.Epoch < b.fenced {
		w.violated("I4", "%s of epoch %d was dispatched after this launch had acknowledged %d", m.action, a.Epoch, b.fenced)
	}
	if b.held() {
		w.violated("I3", "%s was dispatched although a person had pressed Take over", m.action)
	}
	if want := a.Expect.Document; want != "" && string(want) != on.document.id && d.verb != "navigate" {
		w.violated("I3", "%s expects document %s and was dispatched in %s", m.action, want, on.document.id)
	}
	switch a.Local {
	case core.NotDispatched, core.Failed, core.Finished, core.Ended, core.Interrupted:
		if (effect || a.Local == core.NotDispatched) && !t.copied(a) {
			w.violated("I6", "%s was dispatched after the ledger said %s", m.action, a.Local)
		}
	}
	if effect {
		t.alone(w, a)
	}
	if by := t.grants[key(b.slot.name, a.Epoch)]; by != a.Lease {
		w.violated("I2", "%s of lease %s was dispatched at epoch %d, which was granted to %q", m.action, a.Lease, a.Epoch, by)
	}
	if l := w.disk.leases[a.Lease]; l != nil {
		if l.Expires.Passed(w.now()) && !w.setBack {
			w.violated("L7", "%s was dispatched %d ms after its lease's time", m.action, w.bootMs-l.Expires.BootMs)
		}
		if s := w.disk.slots[d.slot]; s.Holder.Kind == "agent" && s.Lease != a.Lease && s.Epoch > a.Epoch {
			w.violated("I5", "%s of lease %s was dispatched after %s had been granted the slot", m.action, a.Lease, s.Lease)
		}
	}
	if t.lost[b.slot.name] {
		w.violated("L14", "%s was dispatched although its browser has seen more than the database", m.action)
	}
}

// alone: no other slot may hold a conflict key of an action of which an effect is
// dispatched, unless both share it (I2). One that only looks keeps no key after its lease:
// what it sees reaches nobody.
func (t *truth) alone(w *world, a *core.Action) {
	for name, s := range w.disk.slots {
		if name == a.Slot || t.restored {
			continue
		}
		for _, other := range s.Keys {
			for _, own := range w.disk.leases[a.Lease].Keys {
				if own.Key == other.Key && !(own.Shared && other.Shared) {
					w.violated("I2", "%s was dispatched under key %s, which slot %s holds", a.Action, own, name)
				}
			}
		}
	}
}

// landed: a page has come to a command.
func (t *truth) landed(b *browser, doc *document, k *work) {
	d := t.of(k.tag.action)
	if d == nil {
		return
	}
	d.open--
	d.executed++
	b.w.count.deeds["landed "+k.kind]++
	if a := b.w.disk.actions[k.tag.action]; a != nil && !t.copied(a) {
		switch a.Local {
		case core.NotDispatched, core.Failed, core.Finished, core.Ended, core.Interrupted:
			b.w.violated("I6", "%s of %s landed after the ledger said %s", k.kind, k.tag.action, a.Local)
		}
	}
}

// copied says whether the ledger's word on an action is that of a restored copy of the
// time before it was sent. Such a copy cannot know better until the extension tells.
func (t *truth) copied(a *core.Action) bool { return t.restored && !a.Sent }

// refused: the browser has refused a command that it was given.
func (t *truth) refused(m tag) {
	if d := t.of(m.action); d != nil && d.open > 0 {
		d.open--
		d.refused++
	}
}

// ended: a command will never be come to.
func (t *truth) ended(m tag) {
	if d := t.of(m.action); d != nil && m.action != "" && d.open > 0 {
		d.open--
	}
}

// navigated: a navigation is over. Only one that an action asked for by name counts as
// its command; a click's is the page's doing.
func (t *truth) navigated(m tag, done bool) {
	d := t.of(m.action)
	if d == nil || d.verb != "navigate" {
		return
	}
	d.open--
	if done {
		d.executed++
	}
}

func (t *truth) left(b *browser, r *request) {
	if d := t.of(r.by.action); d != nil && r.method == "POST" {
		d.posts++
	}
}

func (t *truth) applied(r *request) {
	if d := t.of(r.by.action); d != nil && r.method == "POST" {
		d.applied++
	}
}

func (t *truth) answered(r *request, status int) {
	t.statuses[status] = true
}

// committed looks at what has been written: these are the product's claims.
func (t *truth) committed(w *world, delta *core.Delta) {
	for _, a := range delta.Actions {
		t.claim(w, a)
	}
	for _, l := range delta.Leases {
		approved := t.approved[l.ID] == l.MaxUntil
		if was, ok := t.maxUntil[l.ID]; ok && l.MaxUntil.BootID == was.BootID && l.MaxUntil.BootMs > was.BootMs && !approved {
			w.violated("I13", "the maximum of lease %s grew from %d to %d", l.ID, was.BootMs, l.MaxUntil.BootMs)
		}
		if l.MaxUntil != (core.Deadline{}) {
			t.maxUntil[l.ID] = l.MaxUntil
		}
		if l.MaxUntil != (core.Deadline{}) && l.Expires.BootMs > l.MaxUntil.BootMs {
			w.violated("L5", "lease %s lives until %d, its maximum is %d", l.ID, l.Expires.BootMs, l.MaxUntil.BootMs)
		}
	}
	for _, e := range delta.Journal {
		if e.Kind == "adopted" {
			t.lost[e.Slot] = false
		}
	}
	for _, s := range delta.Slots {
		t.fenced(w, s)
		if t.saying[s.Name] {
			t.lost[s.Name] = true
			delete(t.saying, s.Name)
		}
		who := key(s.Holder.Kind, s.Lease)
		k := key(s.Name, s.Epoch)
		if was, ok := t.issued[k]; ok && was != who && strings.HasPrefix(was, "agent") && strings.HasPrefix(who, "agent") {
			w.violated("I1", "epoch %d of %s was issued to %s, and before to %s", s.Epoch, s.Name, who, was)
		}
		if s.Holder.Kind == "agent" && t.persons[k] && !t.restored {
			w.violated("I1", "epoch %d of %s was issued to %s, and before to a person", s.Epoch, s.Name, who)
		}
		t.issued[k] = who
		if s.Holder.Kind == "agent" && !t.recorded[s.Name][s.Epoch] {
			if t.recorded[s.Name] == nil {
				t.recorded[s.Name] = map[core.Epoch]bool{}
			}
			t.recorded[s.Name][s.Epoch] = true
			t.granted(w, s)
		}
	}
}

// fenced compares what the ledger says of a fence with what an extension has told. What has
// no link is fenced at its hello, and a grant comes after its slot's fence.
func (t *truth) fenced(w *world, s *core.Slot) {
	over := s.Fence.State == "draining" || s.Fence.State == "drained"
	if over && s.Holder.Kind != "agent" && s.Launch.Live() && s.Launch.Linked && w.daemon.state.Links[s.Name].Up() && t.acked[s.Name] < s.Epoch {
		w.violated("I5", "the ledger says of the fence of epoch %d of %s %s; none above %d was acknowledged", s.Epoch, s.Name, s.Fence.State, t.acked[s.Name])
	}
}

// claim compares what the ledger says of an action with what has happened.
func (t *truth) claim(w *world, a *core.Action) {
	d := t.of(a.Action)
	if d == nil {
		w.violated("I6", "the ledger has %s, which no agent asked for", a.Action)
		return
	}
	effects := d.dispatched
	if a.Class == core.Read {
		effects += d.looked
	}
	switch a.Local {
	case core.NotDispatched:
		if effects > 0 && !t.copied(a) {
			w.violated("I6", "the ledger says that %s was not dispatched; it was, %d times", a.Action, effects)
		}
	case core.Failed:
		if d.executed > 0 {
			w.violated("I6", "the ledger says that %s failed; %d of its commands were executed", a.Action, d.executed)
		}
	case core.Finished:
		if a.Class == core.Write && (d.open > 0 || d.executed+d.refused < effectsOf(d.verb)) {
			w.violated("I6", "the ledger says that %s finished; %d of %d commands were executed, %d are open", a.Action, d.executed, effectsOf(d.verb), d.open)
		}
	case core.Interrupted, core.Ended:
		if a.Class == core.Write && d.open > 0 {
			w.violated("I6", "the ledger says of %s %s; %d of its commands are open", a.Action, a.Local, d.open)
		}
	}
	if status := a.Remote.Status(); status != 0 && a.Resolution == nil && !t.statuses[status] {
		w.violated("I6", "the ledger says that %s was answered %d; the website has answered nothing so", a.Action, status)
	}
}

// step looks at one decision, before it is written.
func (t *truth) step(w *world, before, after *core.State, in core.Input) {
	for name, s := range after.Slots {
		old := before.Slots[name]
		if old != nil && old.Holder.Kind == "human" && s.Holder.Kind != "human" {
			t.handed[name] = s.Epoch
		}
		// Without a link nothing can be dispatched, and the next hello says it again.
		if (t.lost[name] || t.saying[name]) && after.Links[name].Up() && s.Holder.Kind == "agent" && (old == nil || s.Epoch != old.Epoch) {
			w.violated("L14", "%s was granted at epoch %d although its browser has seen more than the database", name, s.Epoch)
		}
	}
	for id, l := range after.Leases {
		if l.State == core.LeaseWaiting && core.WhyWaiting(after, w.now(), id) == nil {
			w.violated("liveness", "lease %s waits for nothing", id)
		}
	}
	if d, ok := in.(core.DecideRetention); ok && d.Approved && before.Leases[d.Lease] != nil && !before.Leases[d.Lease].Expires.Passed(w.now()) {
		t.approved[d.Lease] = after.Leases[d.Lease].Retention.Until // by a person, in time
	}
	if ack, ok := in.(core.Fenced); ok && after.Links[ack.Slot].Nonce == ack.Nonce {
		t.acked[ack.Slot] = max(t.acked[ack.Slot], ack.Epoch)
	}
	if hello, ok := in.(core.Hello); ok {
		t.hello(before, after, hello)
		t.holds[hello.Hold] = true
	}
}

// hello: an extension says what it has seen. If that is more than the database knows,
// the slot may not be served until a person adopts it.
func (t *truth) hello(before, after *core.State, in core.Hello) {
	slot := before.Slots[in.Slot]
	if slot != nil && after.Links[in.Slot].Nonce == in.Nonce && (in.Mark > slot.Ceiling || in.MarkSeq > max(slot.Told, slot.SeqAdopted)) {
		t.saying[in.Slot] = true
	}
}

// died: what the daemon had not written is forgotten.
func (t *truth) died() { clear(t.saying) }

// granted looks at a slot that is given to an agent: nothing of anybody else's may be at
// work there any more (I5, I8).
func (t *truth) granted(w *world, s *core.Slot) {
	for _, b := range w.slotOf(s.Name).browsers {
		// A restored copy may not know that the launch was ever linked. Whether it has
		// been fenced is then asked at its hello, before anything can be dispatched.
		if !t.restored && b.granted >= b.fenced && b.granted > 0 && b.granted < s.Epoch {
			w.violated("I5", "%s was granted at epoch %d; launch %s has acknowledged no fence since it was granted %d", s.Name, s.Epoch, b.launch, b.granted)
		}
		// A takeover whose record is still to come keeps every effect of the grant back, and
		// before the hello of its extension nothing can be dispatched.
		if out, _ := w.daemon.reg.Taken(s.Name); out == nil && !t.restored && s.Launch != nil && s.Launch.ID == b.launch &&
			w.daemon.state.Links[s.Name].Instance != "" && b.persons > t.handed[s.Name] {
			w.violated("I14", "%s was granted at epoch %d; its browser knows of a person who took over at %d and handed nothing back", s.Name, s.Epoch, b.persons)
		}
		others := func(m tag, where string) {
			if a := w.disk.actions[m.action]; t.restored && (a == nil || !a.Sent) {
				return // a copy from before it, and a worker that was killed before it had stored it
			}
			if by := t.of(m.action); by != nil && string(by.agent) != s.Holder.Name {
				w.violated("I8", "%s was granted to %s; code of %s goes on in %s", s.Name, s.Holder.Name, by.agent, where)
			}
		}
		for _, made := range b.shared {
			others(made.tag, "worker "+made.id)
		}
		for _, d := range b.documents {
			if d.gone {
				continue
			}
			for _, k := range d.queue {
				if t.unsettled(w, k.tag) {
					w.violated("I8", "%s was granted at epoch %d; a %s of %s is still to land in %s", s.Name, s.Epoch, k.kind, k.tag.action, d.id)
				}
			}
			for _, m := range d.scripts {
				others(m, d.id)
			}
		}
	}
}

// unsettled says whether a command that has not landed is one that nobody has taken on.
func (t *truth) unsettled(w *world, m tag) bool {
	if m.action == "" {
		return false
	}
	a := w.disk.actions[m.action]
	return a == nil && !t.restored || a != nil && a.Resolution == nil && a.Class == core.Write
}

// told: an agent is shown what an action of its own has seen (I10).
func (t *truth) told(w *world, a *core.Action, content string) {
	// Who has control is what the daemon has let anybody see: the person's is the
	// register's number, which is out before it is recorded.
	s := w.daemon.seen.Slots[a.Slot]
	if s.Lease != a.Lease || s.Epoch != a.Epoch || w.daemon.reg.Person(a.Slot) {
		w.violated("I10", "content seen by %s was given out at epoch %d to %s, its own was %d", a.Action, s.Epoch, a.Agent, a.Epoch)
	}
	if want := fmt.Sprintf("of epoch %d", a.Epoch); !strings.Contains(content, want) {
		w.violated("I10", "%s of epoch %d was given content %s", a.Action, a.Epoch, content)
	}
}
