package core

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// A probe is a look at one page, read only, in a background tab of its own. A person
// declares it with the binding; the system carries it out under whatever epoch is in
// force, and no agent takes part in it. What the page said is compared here and then
// kept in memory for people: the state and the journal have the verdict alone.

// ProbeSpec is what a person declares.
type ProbeSpec struct {
	Account *AccountProbe `json:"account,omitempty"` // is the slot signed in as expected?
	Effect  *EffectProbe  `json:"effect,omitempty"`  // was an action applied?
	WaitMs  int64         `json:"wait_ms,omitempty"` // how long a page may take; 0: ten seconds
}

// ProbePage says what is read: at one address, the text of the one element that a CSS
// selector names, or the value of an expression that has no side effect.
type ProbePage struct {
	URL        string `json:"url"`
	Selector   string `json:"selector,omitempty"`
	Expression string `json:"expression,omitempty"`
}

// AccountProbe tells whether a slot is signed in as its binding expects. A pattern is
// RE2, and matches the whole text with its white space folded.
type AccountProbe struct {
	ProbePage
	Pattern string `json:"pattern"`
}

// EffectProbe tells whether an action was applied: one of the two patterns matches, or
// it is not known.
type EffectProbe struct {
	ProbePage
	Applied    string `json:"applied,omitempty"`
	NotApplied string `json:"not_applied,omitempty"`
}

// Probing is a probe under way.
type Probing struct {
	Probe    ProbeID     `json:"probe"`
	Kind     string      `json:"kind"` // account, effect
	Binding  BindingName `json:"binding"`
	Action   ActionID    `json:"action,omitempty"` // of effect
	Epoch    Epoch       `json:"epoch"`            // under which it looks; an end of it cuts it off
	AskedBy  string      `json:"asked_by"`         // the person, or the system for one who waits
	Deadline Deadline    `json:"deadline"`
}

// Probed is a probe that is over.
type Probed struct {
	Probing
	AtMs       int64
	Generation int64  // of the launch
	Verdict    string // match, mismatch; applied, not_applied; unknown; cut_off
	Why        string // what the verdict rests on: words of ours
	Seen       string // what the page said, for people only
	URL        string // where that was: origin and path
}

// ProbesNow is what goes on with a slot's probes. It is in memory alone: what pages
// said must not outlive the daemon.
type ProbesNow struct {
	Running *Probing
	Done    []Probed // the last few, for those who wait for them
}

func (p *ProbeSpec) check(b *BindingSpec) *Error {
	switch {
	case p.Account == nil && p.Effect == nil:
		return Refuse(CodeInvalid, "the probe declares neither account nor effect", `for example {"account":{"url":"https://shop.example/me","selector":"#email","pattern":"ada@shop\\.example"}}`)
	case p.Account != nil && b.Account == "none":
		return Refuse(CodeInvalid, "the binding needs no sign-in (--account none), and its probe would check one", "leave out one of the two")
	case p.WaitMs < 0 || p.WaitMs > MaxProbeWaitMs:
		return Refuse(CodeInvalid, "wait_ms of the probe is out of range", fmt.Sprintf("0 to %d", MaxProbeWaitMs))
	}
	if p.Account != nil {
		if err := p.Account.check("account", b.Origins); err != nil {
			return err
		}
		if p.Account.Pattern == "" {
			return Refuse(CodeInvalid, "the account probe has no pattern", "say which text is expected")
		}
		if err := checkPattern(p.Account.Pattern); err != nil {
			return err
		}
	}
	if p.Effect != nil {
		if err := p.Effect.check("effect", b.Origins); err != nil {
			return err
		}
		if p.Effect.Applied == "" && p.Effect.NotApplied == "" {
			return Refuse(CodeInvalid, "the effect probe has no pattern", "say which text is expected: applied, not_applied or both")
		}
		for _, pattern := range []string{p.Effect.Applied, p.Effect.NotApplied} {
			if err := checkPattern(pattern); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *ProbePage) check(kind string, origins []string) *Error {
	switch {
	case len(p.URL) > MaxProbeURL || len(p.Selector) > MaxProbeCode || len(p.Expression) > MaxProbeCode:
		return Refuse(CodeLimit, fmt.Sprintf("the %s probe is too long", kind), fmt.Sprintf("at most %d bytes of url and %d of selector or expression", MaxProbeURL, MaxProbeCode))
	case (p.Selector == "") == (p.Expression == ""):
		return Refuse(CodeInvalid, fmt.Sprintf("the %s probe needs either a selector or an expression", kind), "name the one element whose text is read")
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return Refuse(CodeInvalid, fmt.Sprintf("the %s probe's address %q is not valid", kind, clip(p.URL, 100)), "write a whole http or https address, for example https://shop.example/me")
	}
	return checkAddress(p.URL, origins)
}

func checkPattern(pattern string) *Error {
	if len(pattern) > MaxProbePattern {
		return Refuse(CodeLimit, fmt.Sprintf("a pattern of the probe is longer than %d bytes", MaxProbePattern), "shorten it")
	}
	if _, err := wholeText(pattern); err != nil {
		return Refuse(CodeInvalid, fmt.Sprintf("pattern %q of the probe is not valid: %v", clip(pattern, 80), err), "RE2, as in Go: https://pkg.go.dev/regexp/syntax")
	}
	return nil
}

// wholeText compiles a pattern for a whole text: one that is found somewhere in a text
// would take nada@shop.example for ada@shop.example.
func wholeText(pattern string) (*regexp.Regexp, error) {
	// By itself first, so that a bracket too many cannot leave the group.
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`^(?:` + pattern + `)$`)
}

// says matches a text with a pattern that was checked when it was declared.
func says(text, pattern string) bool {
	re, err := wholeText(pattern)
	return pattern != "" && err == nil && re.MatchString(text)
}

// probes returns the step's own copy of a slot's probes.
func (t *tx) probes(name SlotName) *ProbesNow {
	if v, ok := t.res.Delta.Probes[name]; ok {
		return v
	}
	v := &ProbesNow{}
	if old := t.s.Probes[name]; old != nil {
		*v = ProbesNow{Running: old.Running, Done: slices.Clone(old.Done)}
	}
	if t.res.Delta.Probes == nil {
		t.res.Delta.Probes = map[SlotName]*ProbesNow{}
	}
	t.res.Delta.Probes[name] = v
	return v
}

// probing returns the slot's probe that is under way, or nil.
func (t *tx) probing(name SlotName) *Probing {
	if v, ok := t.res.Delta.Probes[name]; ok {
		return v.Running
	}
	if v := t.s.Probes[name]; v != nil {
		return v.Running
	}
	return nil
}

// runProbe is a person's. It moves nobody: the system looks under the epoch in force.
func (t *tx) runProbe(in RunProbe) *Error {
	t.by = in.By
	b := t.binding(in.Binding)
	if b == nil || b.Removed {
		return noBinding(in.Binding)
	}
	s := t.seeSlot(b.Slot)
	if err := s.at(in.IfEpoch); err != nil {
		return err
	}
	p := Probing{Kind: "account", Binding: b.Name, Action: in.Action, AskedBy: in.By}
	if in.Action != "" {
		p.Kind = "effect"
		a := t.seeAction(in.Action)
		if a == nil || a.Binding != b.Name {
			return Refuse(CodeNotFound, fmt.Sprintf("binding %s has no action %q", b.Name, clip(string(in.Action), 80)), "sessiondock actions "+string(s.Name))
		}
		if err := t.resolvable(a); err != nil {
			return err
		}
		if a.canSettle(t.now) {
			return Refuse(CodeBusy, fmt.Sprintf("the action may still settle by itself: local %s, remote %s", a.Local, a.Remote),
				"wait until it is known or quarantined: what the website shows now may not be its last word").With("action", a.Action)
		}
	}
	if b.page(p.Kind) == nil {
		hint := fmt.Sprintf("look yourself, then: sessiondock confirm %s; or make the binding anew with --probe FILE", b.Name)
		if p.Kind == "effect" {
			hint = fmt.Sprintf("look yourself, then: sessiondock resolve %s --applied | --not-applied", in.Action)
		}
		return Refuse(CodeConflict, fmt.Sprintf("binding %s declares no %s probe", b.Name, p.Kind), hint)
	}
	if err := t.probeable(s); err != nil {
		return err
	}
	t.res.Probe = t.probe(s, p)
	return nil
}

// page returns what a kind of probe of the binding reads, or nil.
func (b *Binding) page(kind string) *ProbePage {
	switch {
	case b.Probe == nil:
	case kind == "account" && b.Probe.Account != nil:
		return &b.Probe.Account.ProbePage
	case kind == "effect" && b.Probe.Effect != nil:
		return &b.Probe.Effect.ProbePage
	}
	return nil
}

// probeable says why no probe can be carried out in a slot now, or nil.
func (t *tx) probeable(s *Slot) *Error {
	link := t.link(s.Name)
	switch {
	case t.probing(s.Name) != nil:
		return Refuse(CodeBusy, fmt.Sprintf("another probe looks at a page of slot %s", s.Name), "ask again shortly")
	case s.Launch == nil || s.Launch.State != "running" || !link.Up():
		return Refuse(CodeUnavailable, fmt.Sprintf("the browser of slot %s is not running, or its extension is not connected", s.Name), "sessiondock slot start "+string(s.Name))
	case s.Fence.State == "unacknowledged":
		return Refuse(CodeUnavailable, fmt.Sprintf("the extension of slot %s has not acknowledged the fence of epoch %d", s.Name, s.Epoch), "sessiondock status "+string(s.Name))
	case s.Fence.State != "drained", s.Holder.Kind == "agent" && link.Granted != s.Epoch:
		return Refuse(CodeBusy, fmt.Sprintf("slot %s is changing hands", s.Name), "ask again shortly")
	}
	return nil
}

// probe begins a probe that nothing stands against.
func (t *tx) probe(s *Slot, p Probing) ProbeID {
	b := t.binding(p.Binding)
	page := b.page(p.Kind)
	wait := cmp.Or(b.Probe.WaitMs, ProbeWaitMs)
	// The journal's sequence is used once, so the number is too.
	p.Probe = ProbeID(fmt.Sprintf("probe-%d", t.s.Seq+int64(len(t.res.Delta.Journal))+1))
	p.Epoch, p.Deadline = s.Epoch, t.now.In(wait+ProbeGraceMs)
	t.probes(s.Name).Running = &p
	t.emit(SendProbe{
		Slot: s.Name, Epoch: s.Epoch, Probe: p.Probe,
		URL: page.URL, Selector: page.Selector, Expression: page.Expression, WaitMs: wait,
	})
	t.logSystem("probe", s, p.Action, fmt.Sprintf("%s of binding %s, asked for by %s", p.Kind, p.Binding, p.AskedBy))
	return p.Probe
}

// logSystem notes the system's own work, whoever's input has led to it.
func (t *tx) logSystem(kind string, s *Slot, action ActionID, reason string) {
	by := t.by
	t.by = "system"
	t.log(kind, s, "", action, reason)
	t.by = by
}

// probeDone takes what the extension saw.
func (t *tx) probeDone(in ProbeDone) *Error {
	t.by = "system"
	if !t.linked(in.Slot, in.Nonce) {
		return stale(in.Slot)
	}
	p := t.probing(in.Slot)
	if p == nil || p.Probe != in.Probe || p.Epoch != in.Epoch {
		return Refuse(CodeConflict, fmt.Sprintf("answer to probe %q, which is over", clip(string(in.Probe), 60)), "")
	}
	verdict, why := t.judge(p, in)
	t.endProbe(in.Slot, verdict, why, in.Text, in.URL)
	return nil
}

// unseen says in words of ours why a page gave nothing to compare.
var unseen = map[string]string{
	"absent":    "the page showed no such text in time",
	"several":   "the selector names more than one element",
	"elsewhere": "the page led to another origin",
	"silent":    "the page did not answer in time",
	"refused":   "the browser did not carry it out, or the expression failed or has a side effect",
}

// judge compares what was seen with what the binding declares.
func (t *tx) judge(p *Probing, in ProbeDone) (verdict, why string) {
	b := t.binding(p.Binding)
	if b == nil || b.Removed || b.page(p.Kind) == nil {
		return "unknown", "the binding was removed meanwhile"
	}
	text := strings.Join(strings.Fields(in.Text), " ")
	if in.State != "seen" {
		return "unknown", cmp.Or(unseen[in.State], unseen["refused"])
	}
	if in.Cut {
		return "unknown", "the text is longer than is compared" // it may go on otherwise
	}
	if p.Kind == "account" {
		if says(text, b.Probe.Account.Pattern) {
			return "match", "the page showed the expected account"
		}
		return "mismatch", "the page showed another text than the expected account"
	}
	applied, not := says(text, b.Probe.Effect.Applied), says(text, b.Probe.Effect.NotApplied)
	switch {
	case applied && not:
		return "unknown", "both patterns match"
	case applied:
		return string(Applied), "the page showed the pattern for applied"
	case not:
		return string(NotApplied), "the page showed the pattern for not_applied"
	}
	return "unknown", "neither pattern matches"
}

// endProbe ends the slot's probe with a verdict, and lets that count. Text and where
// are for people, and stay in memory.
func (t *tx) endProbe(name SlotName, verdict, why, text, where string) {
	now := t.probes(name)
	p := *now.Running
	now.Running = nil
	s := t.seeSlot(name)
	switch {
	case verdict == "cut_off":
		// A look that was ended says nothing about the website.
	case p.Kind == "account":
		t.checked(s, p, verdict, why)
	default:
		if refused := t.settleByProbe(s, p, verdict, why); refused != "" {
			why += "; " + refused
		}
	}
	done := Probed{Probing: p, AtMs: t.now.WallMs, Verdict: verdict, Why: why, Seen: strings.ToValidUTF8(clip(text, MaxProbeShown), ""), URL: clip(where, MaxProbeURL)}
	if s.Launch != nil {
		done.Generation = s.Launch.Generation
	}
	now.Done = append(now.Done, done)
	if len(now.Done) > MaxProbesDone {
		now.Done = slices.Delete(now.Done, 0, len(now.Done)-MaxProbesDone)
	}
	t.logSystem("probed", s, p.Action, fmt.Sprintf("%s of binding %s: %s, %s", p.Kind, p.Binding, verdict, why))
	t.touch(name)
}

// cutProbe ends a probe because its epoch or its link has ended: a takeover does not
// wait for one.
func (t *tx) cutProbe(name SlotName, why string) {
	if t.probing(name) != nil {
		t.endProbe(name, "cut_off", why, "", "")
	}
}

// settleByProbe gives an action the verdict of a probe, or says why it has it no more.
func (t *tx) settleByProbe(s *Slot, p Probing, verdict, why string) (refused string) {
	a := t.seeAction(p.Action)
	if err := t.resolvable(a); err != nil {
		return err.Message
	}
	a = t.action(p.Action)
	page := t.binding(p.Binding).page("effect")
	row := Evidence{Kind: "probe", AtMs: t.now.WallMs, Source: "extension", Rule: "probe", Text: verdict + ": " + why}
	if page != nil {
		row.URL = withoutQuery(page.URL)
	}
	a.evidence(row)
	if verdict == "unknown" {
		return "" // as unknown as before
	}
	t.resolved(a, Resolution{By: "system", AskedBy: p.AskedBy, Rule: "probe", Verdict: Remote(verdict), Note: why})
	return ""
}

func withoutQuery(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return u.String()
}

// ProbeResult returns a probe of a slot that is over, or nil.
func (s *State) ProbeResult(slot SlotName, id ProbeID) *Probed {
	if v := s.Probes[slot]; v != nil {
		for i := range v.Done {
			if v.Done[i].Probe == id {
				return &v.Done[i]
			}
		}
	}
	return nil
}

// SeenInstead returns what the last account probe of a binding read, for people.
func (s *State) SeenInstead(slot SlotName, b BindingName) string {
	if v := s.Probes[slot]; v != nil {
		for _, p := range slices.Backward(v.Done) {
			if p.Kind == "account" && p.Binding == b && p.Verdict == "mismatch" {
				return p.Seen
			}
		}
	}
	return ""
}
