package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// AccountFound is what was last found about the account that a slot is signed in with,
// for one binding that declares how to check it. It is of one launch, and counts until
// somebody who could have signed in otherwise has had the slot, but no longer than a
// session at a website may be trusted to last.
type AccountFound struct {
	Binding    BindingName `json:"binding"`
	State      string      `json:"state"` // match, mismatch, unknown
	AtMs       int64       `json:"at"`
	Launch     LaunchID    `json:"launch"`
	Generation int64       `json:"generation"`
	By         string      `json:"by"`                 // system (a probe), or the person who attested it
	AskedBy    string      `json:"asked_by,omitempty"` // of a probe
	Why        string      `json:"why"`
	Until      Deadline    `json:"until"`          // it counts so long; zero: no longer
	Past       string      `json:"past,omitempty"` // why it counts no longer
}

// checked records what a probe found.
func (t *tx) checked(s *Slot, p Probing, state, why string) {
	b := t.binding(p.Binding)
	if b == nil || b.Removed || s.Launch == nil {
		return
	}
	ms := int64(AccountMs)
	if state != "match" {
		ms = ProbeAgainMs
	}
	t.found(s, AccountFound{Binding: b.Name, State: state, By: "system", AskedBy: p.AskedBy, Why: why}, ms)
}

// found takes the place of what was found before about the binding.
func (t *tx) found(s *Slot, id AccountFound, ms int64) {
	s = t.slot(s.Name)
	id.AtMs, id.Launch, id.Generation, id.Until = t.now.WallMs, s.Launch.ID, s.Launch.Generation, t.now.In(ms)
	at, found := slices.BinarySearchFunc(s.Accounts, id.Binding, byBinding)
	if found {
		s.Accounts[at] = id
	} else {
		s.Accounts = slices.Insert(s.Accounts, at, id)
	}
}

func byBinding(id AccountFound, b BindingName) int { return cmp.Compare(id.Binding, b) }

// account returns what was last found about a binding, or nil.
func (s *Slot) account(b BindingName) *AccountFound {
	if at, found := slices.BinarySearchFunc(s.Accounts, b, byBinding); found {
		return &s.Accounts[at]
	}
	return nil
}

// Counts says whether what was found still counts.
func (id *AccountFound) Counts(s *Slot, now Now) bool {
	return id != nil && s.Launch.Live() && id.Launch == s.Launch.ID && id.Until != (Deadline{}) && !id.Until.Passed(now)
}

// pastAccounts ends what counts of the slot's accounts, except those that keep says.
func (s *Slot) pastAccounts(why string, keep func(*AccountFound) bool) {
	for i := range s.Accounts {
		if id := &s.Accounts[i]; id.Until != (Deadline{}) && !keep(id) {
			id.Until, id.Past = Deadline{}, why
		}
	}
}

// unchecked says what stands between a binding and its slot as far as the account
// goes, or nil.
func (t *tx) unchecked(s *Slot, name BindingName) *Error {
	b := t.binding(name)
	if b == nil || b.page("account") == nil {
		return nil
	}
	if id := s.account(name); id.Counts(s, t.now) {
		switch id.State {
		case "match":
			return nil
		case "mismatch":
			return Refuse(CodeAccountMismatch, fmt.Sprintf("slot %s is not signed in as binding %s expects (%s)", s.Name, name, b.Expected("account")),
				fmt.Sprintf("a person takes the slot over, signs in as expected and hands back; or checks again: sessiondock probe %s", name)).
				With("account", b.Account).With("expected", b.Expected("account"))
		}
		return Refuse(CodeUnavailable, fmt.Sprintf("it is not known whether slot %s is signed in as binding %s expects: %s", s.Name, name, id.Why),
			fmt.Sprintf("a person looks and says so: sessiondock confirm %s; or checks again: sessiondock probe %s", name, name)).With("account", b.Account)
	}
	text := fmt.Sprintf("the account of binding %s is to be checked first", name)
	if !s.Launch.Live() {
		text = fmt.Sprintf("the browser of slot %s is not running, and the account of binding %s is to be checked first", s.Name, name)
	}
	return Refuse(CodeBusy, text, "ask again with a longer wait")
}

// Expected says which account a binding expects, to agents too, or how an effect shows.
func (b *Binding) Expected(kind string) string {
	switch {
	case b.page(kind) == nil:
		return ""
	case kind == "effect":
		var out []string
		for _, v := range []struct{ verdict, pattern string }{{"applied", b.Probe.Effect.Applied}, {"not applied", b.Probe.Effect.NotApplied}} {
			if v.pattern != "" {
				out = append(out, v.verdict+": "+v.pattern)
			}
		}
		return strings.Join(out, "; ")
	case b.Account != "":
		return b.Account
	}
	return "a text like " + b.Probe.Account.Pattern
}

// look has the account checked that a lease's binding expects, if that can be done now
// and nobody has the slot; a stopped browser is started for a lease that may start it.
// It says whether anything is on its way.
func (t *tx) look(s *Slot, l *Lease) bool {
	switch {
	case s.Holder.Kind != "none":
		return false
	case t.probeable(s) == nil:
		t.probe(s, Probing{Kind: "account", Binding: l.Binding, AskedBy: "system"})
		return true
	case s.Starting != "" || s.Launch.Live() && !s.Launch.Linked:
		return true // a browser is coming up
	case !s.Launch.Live() && l.Start:
		if t.room(s) {
			t.startLaunch(t.slot(s.Name), "lease")
		}
		return true
	}
	return false
}

// unwanted takes back a browser that was to be started only to look, for somebody who
// waits no longer.
func (t *tx) unwanted(s *Slot) {
	if s.Starting != "lease" || s.Holder.Kind != "none" || s.Lease != "" {
		return
	}
	for l := range t.queue(s.Name) {
		if l.Start && t.unchecked(s, l.Binding) != nil {
			return
		}
	}
	t.slot(s.Name).Starting = ""
	t.wakeAll()
}

// lookAgain lets those who wait have an account checked anew that could not be told.
func (t *tx) lookAgain(s *Slot) {
	if !s.tooOld(t.now) {
		return
	}
	t.slot(s.Name).pastAccounts("it was to be looked at again", func(id *AccountFound) bool {
		return id.State == "match" || !id.Until.Passed(t.now)
	})
	t.touch(s.Name)
}

// tooOld says whether something that could not be told is due to be looked at again.
func (s *Slot) tooOld(now Now) bool {
	return slices.ContainsFunc(s.Accounts, func(id AccountFound) bool { return id.State != "match" && id.Until.Passed(now) })
}

// AccountNow is what was found about an account, as people see it.
type AccountNow struct {
	AccountFound
	Counts        bool `json:"counts"` // a lease may rest on it
	BeforeRestart bool `json:"before_restart,omitempty"`
}

// accountNow returns what status shows of a binding's account, or nil.
func (s *Slot) accountNow(b BindingName, now Now) *AccountNow {
	id := s.account(b)
	if id == nil {
		return nil
	}
	return &AccountNow{AccountFound: *id, Counts: id.Counts(s, now), BeforeRestart: s.Launch == nil || id.Launch != s.Launch.ID}
}
