package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// atTerminal is a person's terminal at the shared daemon.
func atTerminal(t *testing.T) *terminal {
	t.Helper()
	openProduct(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return &terminal{t: t, ctx: ctx}
}

// status is what `status --json` of a slot says.
func (u *terminal) status(slot string) *core.Status {
	u.t.Helper()
	var st core.Status
	must(u.t, json.Unmarshal([]byte(u.types("status", slot, "--json")), &st))
	return &st
}

// TestAKeyPassesFromSlotToSlot: two slots with one exclusive key. The second waits, is
// told who has it, also when that becomes a person, and gets it when it is free.
func TestAKeyPassesFromSlotToSlot(t *testing.T) {
	t.Parallel()
	person := atTerminal(t)
	const key = "shop:product/42"
	for _, slot := range []string{"key-a", "key-b"} {
		person.slot(slot)
		person.types("bind", slot, "--slot", slot, "--account", "none", "--origin", product.site.Origin(), "--start", product.site.URL(slot, "product", ""), "--key", key)
	}
	ada, ben := person.agent("ada", "key-a"), person.agent("ben", "key-b")
	ada.acquires("lease", "acquire", "--binding", "key-a", "--wait", "30s")
	ben.refused(13, "key "+key+" held by ada for ", "lease", "acquire", "--binding", "key-b")

	waiting := ben.begins("lease", "acquire", "--binding", "key-b", "--wait", "60s")
	waiting.says("waiting: place 1 of 1: key " + key + " held by ada for ")
	person.shows([]string{"status", "key-b"}, "waiting, place 1: ben for binding key-b, ", "key "+key+" held by ada for ", "(slot key-a)")
	person.shows([]string{"status", "key-a"}, "conflict keys: "+key)
	person.shows([]string{"slot", "list"}, key)

	person.types("takeover", "key-a")
	waiting.says("key " + key + " held by a person (cli)")
	person.refused(13, "slot key-a is yours already: it was taken over from a terminal before", "takeover", "key-a")
	// A takeover waits for no key: it warns.
	person.shows([]string{"takeover", "key-b"}, "Key "+key+" is held by a person (cli) on slot key-a")
	person.types("handback", "key-b")

	back := person.begins("handback", "key-a")
	back.ends(0)
	back.says("this has ended the lease of ada")
	back.says("sessiondock handback key-a --to ada")
	waiting.ends(0)
	waiting.exported()
	ben.types("act", "snapshot")
	ada.refused(12, "has ended", "lease", "resume")
	if st := person.status("key-b"); st.Authority.Holder.Name != "ben" || !slices.Equal(st.Keys, []string{key}) {
		t.Errorf("holder %+v, keys %v", st.Authority.Holder, st.Keys)
	}
	ben.types("lease", "release")
	if st := person.status("key-b"); len(st.Keys) != 0 && st.Offer.Available {
		t.Errorf("after the release the slot holds %v", st.Keys)
	}
}

// TestTheHigherPriorityIsGrantedFirst, whoever came first.
func TestTheHigherPriorityIsGrantedFirst(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	person := k.person()
	low, high := person.agent("low", k.name), person.agent("high", k.name, "--priority", "5")
	first := low.begins("lease", "acquire", "--binding", k.name, "--wait", "60s", "--task", "count the stock")
	first.says("place 1 of 1: held by ada for ")
	second := high.begins("lease", "acquire", "--binding", k.name, "--wait", "60s")
	second.says("place 1 of 2: held by ada for ")
	first.says("place 2 of 2: held by ada for ")
	person.shows([]string{"status", k.name}, "waiting, place 1: high for binding "+k.name+", priority 5,", "waiting, place 2: low")
	person.shows([]string{"lease", "list"}, "place 2 of 2: held by ada")
	person.shows([]string{"delegation", "list"}, "high 5 human:cli")
	k.dial()
	text, err := k.hand.WaitText(k.ctx, "2 agents waiting; the next is high.")
	must(t, err)
	if !strings.Contains(text, "2. low: count the stock") {
		t.Errorf("the popup says:\n%s", text)
	}
	k.picture("queue")
	must(t, k.Release(k.ctx))
	second.ends(0)
	second.exported()
	first.says("place 1 of 1: held by high for ")
	high.types("lease", "release") // the lease and its capability come from the environment
	first.ends(0)
}

// TestCapacityMakesRoomCleanly: one browser at a time. The one that is held goes on;
// once it is idle it is ended cleanly, and only then the other one starts.
func TestCapacityMakesRoomCleanly(t *testing.T) {
	home, _ := demo.InHome()
	d, site := openOwn(t, home, "--max-browsers=1")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	person := &terminal{t: t, ctx: ctx}
	for _, slot := range []string{"cap-a", "cap-b"} {
		person.slot(slot)
		person.types("bind", slot, "--slot", slot, "--account", "none", "--origin", site.Origin(), "--start", site.URL(slot, "product", ""))
	}
	ada, ben := person.agent("ada", "cap-a"), person.agent("ben", "cap-b")
	ada.acquires("lease", "acquire", "--binding", "cap-a", "--wait", "30s")
	waiting := ben.begins("lease", "acquire", "--binding", "cap-b", "--wait", "60s")
	waiting.says("waiting: place 1 of 1: capacity: 1 of 1 browsers running")
	person.refused(11, "capacity: 1 of 1 browsers running", "slot", "start", "cap-b")
	ada.types("act", "navigate", site.URL("cap-a", "product", ""))
	if st := person.status("cap-a"); st.Local.Launch.State != "running" || st.Local.Launch.Generation != 1 {
		t.Fatalf("the browser that is held: %+v", st.Local.Launch)
	}
	ada.types("lease", "release")
	waiting.ends(0)
	waiting.exported()
	ben.types("act", "snapshot")
	if st := person.status("cap-a"); st.Local.Launch.State != "ended" {
		t.Errorf("the idle browser: %+v", st.Local.Launch)
	}
	rows, err := d.Control.Events(ctx, 0, 1000)
	must(t, err)
	at := func(kind string, slot core.SlotName) int {
		return slices.IndexFunc(rows, func(e wire.EventRow) bool { return e.Kind == kind && e.Slot == slot })
	}
	ended, began := at("launch ended", "cap-a"), at("launch starting", "cap-b")
	if ended < 0 || began < ended {
		t.Fatalf("the one ended at %d, the other started at %d: %+v", ended, began, rows)
	}
	// A browser that takes longer than a stop waits for, on a busy machine, is asked twice.
	if how := rows[ended].Reason; !strings.Contains(how, "ended at SIG") || !strings.Contains(how, "exit code 0") {
		t.Errorf("not a clean end: %s", how)
	}
	if stop := rows[at("stop", "cap-a")]; stop.Principal == "human:cli" || !strings.Contains(stop.Reason, "to make room for slot cap-b") {
		t.Errorf("the stop says %+v", stop)
	}
}

// TestAGrantWithoutAWaitStartsNothing: the first action starts the browser, and waits
// for it.
func TestAGrantWithoutAWaitStartsNothing(t *testing.T) {
	t.Parallel()
	person := atTerminal(t)
	person.slot("lazy")
	page := product.site.URL("lazy", "product", "")
	person.types("bind", "lazy", "--slot", "lazy", "--account", "none", "--origin", product.site.Origin(), "--start", page)
	agent := person.agent("ada", "lazy")
	agent.acquires("lease", "acquire", "--binding", "lazy")
	if st := person.status("lazy"); st.Local.Launch != nil || st.Authority.Holder.Name != "ada" {
		t.Fatalf("holder %+v, launch %+v", st.Authority.Holder, st.Local.Launch)
	}
	agent.shows([]string{"act", "navigate", page}, "finished")
	if st := person.status("lazy"); st.Local.Launch == nil || st.Local.Launch.State != "running" {
		t.Errorf("launch %+v", st.Local.Launch)
	}
}

// TestABudgetIsUsedUp: the refusal says which bound it is.
func TestABudgetIsUsedUp(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "")
	must(t, k.Release(k.ctx))
	person := k.person()
	person.types("bind", "tight", "--slot", k.name, "--account", "none", "--origin", k.site.Origin(), "--max-actions", "2", "--max-per-minute", "60", "--max-bytes", "10000000")
	person.shows([]string{"binding", "show", "tight"}, "budget 2 actions, 10000000 bytes, at most 60 a minute")
	agent := person.agent("ben", "tight")
	agent.acquires("lease", "acquire", "--binding", "tight", "--wait", "20s")
	agent.types("act", "navigate", k.page)
	agent.types("act", "snapshot")
	agent.refused(1, "error: limit: the lease's budget of 2 actions is used up\nhint: a person allows more", "act", "click", "#save")
	agent.shows([]string{"lease", "show"}, "used: 2 of 2 actions, ")
	if n := k.site.Count(k.name).Total; n != 0 {
		t.Errorf("the site counts %d", n)
	}
}

// TestASignInIsConfirmed by a person who can have looked, and is shown as older than
// the browser's restart.
func TestASignInIsConfirmed(t *testing.T) {
	t.Parallel()
	person := atTerminal(t)
	person.slot("signed")
	page := product.site.URL("signed", "product", "")
	person.types("bind", "signed", "--slot", "signed", "--account", "ops@shop", "--origin", product.site.Origin(), "--start", page)
	agent := person.agent("ada", "signed")
	agent.refused(1, "error: account_mismatch: nobody has confirmed", "lease", "acquire", "--binding", "signed", "--wait", "20s")
	agent.refused(1, "sessiondock confirm signed", "lease", "acquire", "--binding", "signed")
	person.refused(1, "is not running, so nobody can have looked", "confirm", "signed")
	person.types("slot", "start", "signed")
	person.shows([]string{"slot", "show", "signed"}, "the sign-in as ops@shop is not confirmed: sessiondock confirm signed")
	person.shows([]string{"confirm", "signed", "--note", "ops, tenant north"}, "the sign-in as ops@shop was confirmed by human:cli at ", "(ops, tenant north)")
	agent.acquires("lease", "acquire", "--binding", "signed", "--wait", "20s")
	person.refused(13, "held by agent ada", "confirm", "signed")
	agent.types("act", "navigate", page)
	agent.types("lease", "release")
	for st := person.status("signed"); st.Authority.Fence != "drained"; st = person.status("signed") {
		time.Sleep(20 * time.Millisecond)
	}
	person.types("slot", "stop", "signed")
	person.types("slot", "start", "signed")
	person.shows([]string{"binding", "show", "signed"}, "confirmed by human:cli at ", ", before the last restart of the browser (ops, tenant north)")
	person.shows([]string{"status", "signed"}, "before the last restart of the browser")
}

// TestALeaseIsKeptLonger: approved in time it outlives its maximum; too late it does not.
func TestALeaseIsKeptLonger(t *testing.T) { // I13
	t.Parallel()
	k := openDesk(t, "product", "")
	must(t, k.Release(k.ctx))
	person := k.person()
	const expired = 12
	lease := func(name string, life time.Duration) *terminal {
		name += "-" + life.String()
		person.types("bind", name, "--slot", k.name, "--account", "none", "--origin", k.site.Origin(), "--max-lifetime", life.String())
		agent := person.agent("ada", name)
		agent.acquires("lease", "acquire", "--binding", name, "--for", life.String(), "--wait", "20s")
		return agent
	}
	// What has to be said within a lease's time is said again within a longer one, if this
	// machine was too slow for it.
	for life := 3 * time.Second; ; life *= 2 {
		lost := lease("lost", life)
		asks := lost.begins("retain", "request", "--for", "1m", "--reason", "the import is not done").code()
		id := value(lost.env, "SESSIONDOCK_LEASE")
		k.status("the end of its time", func(s *core.Status) bool { return s.Authority.Holder.Kind == "none" })
		person.refused(expired, "error: expired: the lease has ended: its time is over", "retain", "approve", id)
		lost.refused(expired, "expired", "retain", "acknowledge")
		if asks == 0 {
			break
		}
		if asks != expired {
			t.Fatalf("to be kept longer is refused with exit code %d", asks)
		}
	}

	for life := 8 * time.Second; ; life *= 2 {
		kept := lease("kept", life)
		over := time.Now().Add(life)
		id := value(kept.env, "SESSIONDOCK_LEASE")
		asks := kept.begins("retain", "request", "--for", "2m", "--reason", "the import is not done").code()
		list := person.types("retain", "list")
		early := kept.begins("retain", "acknowledge")
		refused := early.code()
		approves := person.begins("retain", "approve", id, "--note", "until noon").code()
		if approves == expired {
			continue
		}
		if asks != 0 || approves != 0 {
			t.Fatalf("exit codes: the request %d, its approval %d", asks, approves)
		}
		if list = strings.Join(strings.Fields(list), " "); !strings.Contains(list, id) || !strings.Contains(list, "requested 2m0s") || !strings.Contains(list, "the import is not done") {
			t.Errorf("what was asked for: %s", list)
		}
		if refused != 1 || !strings.Contains(early.errs.String(), "no person has approved it") {
			t.Errorf("an acknowledgement before the approval: exit code %d: %s", refused, early.errs.String())
		}
		kept.types("retain", "acknowledge")
		kept.shows([]string{"lease", "show"}, "acknowledged by human:cli", "(until noon)")
		time.Sleep(time.Until(over)) // its first maximum
		kept.types("act", "navigate", k.page)
		return
	}
}

// value is the last value of a variable.
func value(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if text, ok := strings.CutPrefix(v, name+"="); ok {
			return text
		}
	}
	return ""
}
