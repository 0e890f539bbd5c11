package core

import (
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Slots, bindings and delegations: what a person declares.

func (t *tx) createSlot(in CreateSlot) *Error {
	t.by = in.By
	if err := CheckName("slot", string(in.Name)); err != nil {
		return err
	}
	if in.Display == "" {
		in.Display = "headless"
	}
	if in.Display != "headless" && in.Display != "window" {
		return Refuse(CodeInvalid, fmt.Sprintf("display %q is not known", clip(in.Display, 40)), "use headless or window")
	}
	if s := t.seeSlot(in.Name); s != nil {
		if !s.Removed {
			return Refuse(CodeConflict, fmt.Sprintf("slot %s exists", in.Name), "sessiondock slot show "+string(in.Name))
		}
		// A tombstone is taken up again: its epochs are never issued twice (I1), nor one that a
		// takeover was given while it was being removed.
		s = t.slot(in.Name)
		s.Removed, s.Display, s.Epoch = false, in.Display, s.Ceiling
		t.raise(s)
		t.log("slot created", s, "", "", "again, above its former epoch")
		return nil
	}
	if len(t.s.Slots) >= MaxSlots {
		return Refuse(CodeLimit, fmt.Sprintf("there are %d slots", MaxSlots), "remove one")
	}
	s := &Slot{
		Name: in.Name, Display: in.Display, Created: t.now.WallMs, Epoch: 1, Ceiling: 1 + EpochChunk,
		Holder: Holder{Kind: "none"}, Fence: FenceNow{State: "drained", SinceMs: t.now.WallMs},
	}
	t.tell(s) // nobody yet, but from here on it is kept
	t.putSlot(s)
	t.log("slot created", s, "", "", "display "+in.Display)
	return nil
}

func (t *tx) removeSlot(in RemoveSlot) *Error {
	t.by = in.By
	s := t.slot(in.Name)
	if s == nil || s.Removed {
		return noSlot(in.Name)
	}
	switch {
	case s.Holder.Kind != "none":
		return Refuse(CodeHeld, fmt.Sprintf("slot %s is held by %s %s", s.Name, s.Holder.Kind, s.Holder.Name), "end that first: sessiondock handback, or sessiondock lease release --revoke").With("holder", s.Holder)
	case s.Launch.Live():
		return Refuse(CodeConflict, fmt.Sprintf("the browser of slot %s has not ended", s.Name), "sessiondock slot stop "+string(s.Name))
	case len(t.openActions(s.Name)) > 0 || len(s.Reasons) > 0:
		return Refuse(CodeQuarantined, fmt.Sprintf("slot %s has actions that are not settled", s.Name), "sessiondock quarantine list")
	case len(t.liveLeases(s.Name)) > 0 || len(t.s.index.waiting[s.Name]) > 0:
		return Refuse(CodeConflict, fmt.Sprintf("slot %s has leases that wait or can be resumed", s.Name), "sessiondock lease list")
	}
	for _, b := range t.s.Bindings {
		if b.Slot == s.Name && !b.Removed {
			return Refuse(CodeConflict, fmt.Sprintf("slot %s still has bindings", s.Name), "remove them first: sessiondock binding list")
		}
	}
	s.Removed = true
	t.raise(s)
	t.log("slot removed", s, "", "", "its epoch stays")
	return nil
}

var keyRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$`)

// CheckSpec refuses a binding that is not well formed.
func CheckSpec(b BindingSpec) *Error {
	if err := CheckName("binding", string(b.Name)); err != nil {
		return err
	}
	if err := CheckName("slot", string(b.Slot)); err != nil {
		return err
	}
	for _, o := range b.Origins {
		if err := checkOrigin(o); err != nil {
			return err
		}
	}
	if err := checkAllow(b.Allow); err != nil {
		return err
	}
	if _, err := parseKeys(b.Keys); err != nil {
		return err
	}
	if err := b.Budget.check(); err != nil {
		return err
	}
	if b.Probe != nil {
		if err := b.Probe.check(&b); err != nil {
			return err
		}
	}
	if b.Start != "" {
		if err := checkAddress(b.Start, b.Origins); err != nil {
			return err
		}
	}
	for _, f := range []string{b.Project, b.Worktree, b.Environment, b.Account, b.Tenant, b.Owner, b.RecoveryOwner, b.CostOwner} {
		if len(f) > 1024 {
			return Refuse(CodeLimit, "a field of the binding is longer than 1024 bytes", "shorten it")
		}
		if strings.ContainsFunc(f, unicode.IsControl) {
			return Refuse(CodeInvalid, fmt.Sprintf("a field of the binding has a control character: %q", f), "write it as one line of text")
		}
	}
	if b.MaxLifetimeMs < 0 || b.MaxLifetimeMs > MaxLeaseMs {
		return Refuse(CodeInvalid, "max_lifetime_ms is out of range", "0 to seven days")
	}
	if b.WatchMs < 0 || b.WatchMs > 600_000 {
		return Refuse(CodeInvalid, "watch_ms is out of range", "0 to ten minutes")
	}
	if len(b.Origins) > 100 || len(b.Keys) > 100 {
		return Refuse(CodeLimit, "more than 100 origins or keys", "declare fewer")
	}
	return nil
}

// numberRE is the last label of a host that a browser takes for an IPv4 address.
var numberRE = regexp.MustCompile(`^([0-9]+|0x[0-9a-f]*)$`)

var labelRE = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

// checkOrigin takes an origin as a browser writes it, and no other spelling: what an agent's
// address is compared with must be able to match.
func checkOrigin(o string) *Error {
	bad := func(hint string) *Error {
		return Refuse(CodeInvalid, fmt.Sprintf("origin %q is not valid", clip(o, 100)), hint)
	}
	const form = "write scheme://host[:port], for example https://shop.example"
	if strings.ContainsFunc(o, func(r rune) bool { return r > unicode.MaxASCII }) {
		return bad("write the host in punycode, as the browser does (xn--...)")
	}
	if strings.Contains(o, "*") {
		return bad("there are no wildcards: name each host with an origin of its own")
	}
	u, err := url.Parse(o)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Opaque != "" || u.Path != "" || strings.ContainsAny(o, "?#") {
		return bad(form)
	}
	host := u.Hostname()
	written := strings.ToLower(host)
	if strings.HasPrefix(u.Host, "[") {
		addr, err := netip.ParseAddr(host)
		if err != nil || addr.Zone() != "" {
			return bad(form)
		}
		written = "[" + addr.String() + "]"
		if v4 := addr.As16(); addr.Is4In6() { // a browser writes all of it in hexadecimal
			written = fmt.Sprintf("[::ffff:%x:%x]", uint16(v4[12])<<8|uint16(v4[13]), uint16(v4[14])<<8|uint16(v4[15]))
		}
	} else if len(host) > 253 || slices.ContainsFunc(strings.Split(written, "."), func(l string) bool { return !labelRE.MatchString(l) }) {
		return bad(form)
	} else if last := written[strings.LastIndexByte(written, '.')+1:]; numberRE.MatchString(last) {
		// A browser takes a host that ends in a number for an IPv4 address, in any notation.
		if addr, err := netip.ParseAddr(written); err != nil || !addr.Is4() {
			return bad("write an IPv4 address as four decimal numbers, for example http://127.0.0.1:8080")
		}
	}
	if strings.HasSuffix(u.Host, ":") {
		return bad("write the port, or leave the colon out")
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return bad("a port is a number from 1 to 65535")
		}
		written += ":" + strconv.FormatUint(n, 10)
	}
	if written = u.Scheme + "://" + written; written != o {
		return bad("write it as the browser does: " + written)
	}
	return nil
}

// checkAddress is the rule for every address that a binding opens or an agent asks
// for: http, https or about:blank, within the binding's origins if it has any.
// CheckAddress says whether an agent may go to an address.
func CheckAddress(raw string, origins []string) *Error { return checkAddress(raw, origins) }

func checkAddress(raw string, origins []string) *Error {
	if raw == "about:blank" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" && (u.Scheme == "http" || u.Scheme == "https") || u.Scheme == "" {
		return Refuse(CodeInvalid, fmt.Sprintf("address %q is not valid", clip(raw, 100)), "write a whole address, for example https://shop.example/orders")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return Refuse(CodePolicy, fmt.Sprintf("%s: addresses are not opened for agents", u.Scheme), "only http, https and about:blank are")
	}
	if len(origins) == 0 {
		return nil
	}
	for _, o := range origins {
		if v, err := url.Parse(o); err == nil && originOf(v) == originOf(u) {
			return nil
		}
	}
	return Refuse(CodePolicy, fmt.Sprintf("%s is not one of the binding's origins", originOf(u)),
		"a person allows it: remove the binding and make it again with --origin "+originOf(u)).With("origins", origins)
}

func originOf(u *url.URL) string {
	host := u.Host
	if p := u.Port(); p == "80" && u.Scheme == "http" || p == "443" && u.Scheme == "https" {
		host = u.Hostname()
	}
	return u.Scheme + "://" + host
}

func (t *tx) bind(in Bind) *Error {
	t.by = in.By
	if err := CheckSpec(in.Spec); err != nil {
		return err
	}
	s := t.seeSlot(in.Spec.Slot)
	if s == nil || s.Removed {
		return noSlot(in.Spec.Slot)
	}
	if old := t.s.Bindings[in.Spec.Name]; old != nil && !old.Removed {
		if reflect.DeepEqual(old.BindingSpec, in.Spec) {
			return nil
		}
		return Refuse(CodeConflict, fmt.Sprintf("binding %s exists and says something else", in.Spec.Name), "remove it first: sessiondock binding remove "+string(in.Spec.Name))
	}
	b := &Binding{BindingSpec: in.Spec, Created: t.now.WallMs}
	t.res.Delta.Bindings = append(t.res.Delta.Bindings, b)
	t.log("bound", s, "", "", "binding "+string(b.Name))
	return nil
}

func noBinding(name BindingName) *Error {
	return Refuse(CodeNotFound, fmt.Sprintf("there is no binding %q", clip(string(name), 80)), "sessiondock binding list")
}

func (t *tx) removeBinding(in RemoveBinding) *Error {
	t.by = in.By
	b := t.s.Bindings[in.Name]
	if b == nil || b.Removed {
		return noBinding(in.Name)
	}
	for _, id := range append(t.liveLeases(b.Slot), t.waiters(b.Slot)...) {
		if t.seeLease(id).Binding == b.Name {
			return Refuse(CodeConflict, fmt.Sprintf("binding %s has a lease", b.Name), "sessiondock lease list")
		}
	}
	for _, id := range t.openActions(b.Slot) {
		if t.seeAction(id).Binding == b.Name {
			return Refuse(CodeQuarantined, fmt.Sprintf("binding %s has actions that are not settled", b.Name), "sessiondock actions --open "+string(b.Slot))
		}
	}
	v := *b
	v.Removed = true
	t.res.Delta.Bindings = append(t.res.Delta.Bindings, &v)
	for _, id := range t.s.delegationsOf(b.Name) {
		d := *t.s.Delegations[id]
		d.Revoked = true
		t.res.Delta.Delegations = append(t.res.Delta.Delegations, &d)
	}
	if t.seeSlot(b.Slot).account(b.Name) != nil {
		s := t.slot(b.Slot)
		s.Accounts = slices.DeleteFunc(s.Accounts, func(id AccountFound) bool { return id.Binding == b.Name })
	}
	t.log("binding removed", t.seeSlot(b.Slot), "", "", "binding "+string(b.Name))
	return nil
}

func (t *tx) delegate(in Delegate) *Error {
	t.by = in.By
	if err := CheckName("agent", string(in.Agent)); err != nil {
		return err
	}
	b := t.s.Bindings[in.Binding]
	if b == nil || b.Removed {
		return noBinding(in.Binding)
	}
	if in.ForMs == 0 {
		in.ForMs = DelegationMs
	}
	if in.ForMs < 0 || in.ForMs > MaxDelegationMs {
		return Refuse(CodeInvalid, "for_ms is out of range", "at most thirty days")
	}
	if in.Priority < -MaxPriority || in.Priority > MaxPriority {
		return Refuse(CodeInvalid, "priority is out of range", fmt.Sprintf("-%d to %d", MaxPriority, MaxPriority))
	}
	d := &Delegation{
		ID: in.ID, Hash: in.Hash, Binding: in.Binding, Agent: in.Agent, By: in.By,
		Expires: t.now.In(in.ForMs), Priority: in.Priority,
	}
	t.res.Delta.Delegations = append(t.res.Delta.Delegations, d)
	t.log("delegated", t.seeSlot(b.Slot), "", "", fmt.Sprintf("binding %s to agent %s for %s", b.Name, in.Agent, span(in.ForMs)))
	return nil
}

// revokeDelegation takes a permission back. Leases that were made with it go on: a
// person ends those with a revoke or a takeover.
func (t *tx) revokeDelegation(in RevokeDelegation) *Error {
	t.by = in.By
	d := t.s.Delegations[in.ID]
	if d == nil {
		return Refuse(CodeNotFound, fmt.Sprintf("there is no delegation %q", clip(string(in.ID), 80)), "sessiondock delegation list")
	}
	if d.Revoked {
		return nil
	}
	v := *d
	v.Revoked = true
	t.res.Delta.Delegations = append(t.res.Delta.Delegations, &v)
	slot := t.seeSlot(t.s.Bindings[d.Binding].Slot)
	for l := range t.queue(slot.Name) {
		if l.Delegation == d.ID {
			l = t.lease(l.ID)
			t.endLease(l, "its delegation was revoked")
			t.log("left the queue", slot, l.ID, "", l.Why)
		}
	}
	t.touch(slot.Name) // others may have been waiting for its turn, or a browser was wanted for it
	t.log("delegation revoked", slot, "", "", fmt.Sprintf("%s, binding %s, agent %s", d.ID, d.Binding, d.Agent))
	return nil
}
