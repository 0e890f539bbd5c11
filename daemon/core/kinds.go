package core

import (
	"fmt"
	"strings"
)

// KindInfo is one row of Kinds.
type KindInfo struct {
	Kind string
	Of   string // what every entry of this kind names besides its principal and reason: slot (with its epoch), lease, action
	Help string
}

// Kinds is the one table of the journal's entries. Every entry has a principal and a
// reason; one of a slot has the epoch that the slot was at.
var Kinds = []KindInfo{
	{"slot created", "slot", "a person made a slot, or one of that name again"},
	{"slot removed", "slot", "a person removed it; its epoch stays"},
	{"bound", "slot", "a person declared a binding"},
	{"binding removed", "slot", "a person removed it, and its delegations"},
	{"delegated", "slot", "a person permitted an agent to acquire a binding"},
	{"delegation revoked", "slot", "a person took that back"},
	{"sign-in confirmed", "slot", "a person attests the account that a binding expects"},
	{"sign-in saved", "slot", "what was confirmed has reached the disk: a crash does not lose it"},
	{"sign-in lost", "slot", "the browser ended without a clean stop before it had"},

	{"probe", "slot", "a binding's probe of the account, or of an effect, was begun"},
	{"probed", "slot", "what it found"},

	{"acquire", "slot lease", "an agent asked for a binding and has its place in the queue"},
	{"acquire again", "slot lease", "the same request came again and was given a new capability"},
	{"left the queue", "slot lease", "a request's wait ended without a grant"},
	{"granted", "slot lease", "an agent has control, at a new epoch"},
	{"ready", "slot lease", "the extension has opened its gate for the grant; the agent has a moment to claim it"},
	{"claimed", "slot lease", "the agent has used its capability"},
	{"withdrawn", "slot lease", "a grant that nobody claimed was taken back"},
	{"renewed", "slot lease", "more time within the maximum lifetime"},
	{"suspended", "slot lease", "control was lost by no doing of the agent's; it may resume"},
	{"resumed", "slot lease", "the agent has control again, at a new epoch"},
	{"released", "slot lease", "the agent gave control back"},
	{"revoked", "slot lease", "a person ended the lease"},
	{"expired", "slot lease", "the lease's time was over"},
	{"asked", "slot lease", "an agent asks a person to take over"},
	{"ask granted", "slot lease", "a person did what was asked"},
	{"ask declined", "slot lease", "a person will not"},
	{"retention requested", "slot lease", "an agent asks for more than the maximum lifetime"},
	{"retention approved", "slot lease", "a person raised the maximum"},
	{"retention refused", "slot lease", "a person did not"},
	{"retention acknowledged", "slot lease", "the agent has taken the approved time"},

	{"takeover", "slot", "a person has control, at a new epoch"},
	{"handback", "slot", "a person gave control back, at a new epoch"},
	{"fenced", "slot", "the extension acknowledged the fence: nothing older is dispatched from then on"},
	{"drained", "slot", "the drain of what was dispatched before has ended"},
	{"document found", "slot", "a worker that may run an agent's code is there"},
	{"document ended", "slot", "a page with an agent's script, or such a worker, is gone"},
	{"stop page", "slot", "pages with an agent's work are to be ended"},

	{"admitted", "slot lease action", "an action passed the first gate"},
	{"refused", "slot", "an action or a request was refused; the reason names the code"},
	{"denied", "", "a delegation was used for what it is not for"},
	{"settled", "slot lease action", "what is known of an action has changed"},
	{"evidence", "slot lease action", "more was seen of an action; its outcome is as before"},
	{"resolved", "slot lease action", "a person, or a binding's probe, said what an action did"},

	{"quarantined", "slot", "the slot is closed to agents until something about it is settled"},
	{"quarantine left", "slot", "evidence has settled it"},
	{"quarantine lifted", "slot", "a person lets what is unknown be unknown"},
	{"adopted", "slot", "a person took on a slot whose browser knows more than the database"},

	{"start", "slot", "the browser is wanted"},
	{"stop", "slot", "the browser is to be ended"},
	{"launch starting", "slot", "a launch is recorded before it is made"},
	{"launch running", "slot", "the supervisor has started it"},
	{"launch ended", "slot", "its end is verified"},
	{"linked", "slot", "a host of the launch was attested"},
	{"hello", "slot", "the extension is connected"},
	{"link lost", "slot", "nobody watches the browser now"},

	{"restarted", "slot", "the daemon has started; epochs go on above all that were issued"},
	{"trimmed", "", "the journal's oldest entries are let go"},
	{"noted", "slot", "a change that decides nothing; the reason names what it came of"},
}

// CheckEntry says what an entry lacks that the table asks for, or nil. It is for tests
// and simulations: the daemon does not call it.
func CheckEntry(e Entry) error {
	for _, k := range Kinds {
		if k.Kind != e.Kind {
			continue
		}
		of := " " + k.Of + " "
		switch {
		case !knownPrincipal(e.Principal):
			return fmt.Errorf("entry %d, %s: principal %q", e.Seq, e.Kind, e.Principal)
		case strings.TrimSpace(e.Reason) == "":
			return fmt.Errorf("entry %d, %s: no reason", e.Seq, e.Kind)
		case e.AtMs == 0:
			return fmt.Errorf("entry %d, %s: no time", e.Seq, e.Kind)
		case (e.Slot == "") != (e.Epoch == 0) || strings.Contains(of, " slot ") && e.Slot == "":
			return fmt.Errorf("entry %d, %s: slot %q, epoch %d", e.Seq, e.Kind, e.Slot, e.Epoch)
		case strings.Contains(of, " lease ") && e.Lease == "":
			return fmt.Errorf("entry %d, %s: no lease", e.Seq, e.Kind)
		case strings.Contains(of, " action ") && e.Action == "":
			return fmt.Errorf("entry %d, %s: no action", e.Seq, e.Kind)
		}
		return nil
	}
	return fmt.Errorf("entry %d: kind %q is not in the table", e.Seq, e.Kind)
}

func knownPrincipal(p string) bool {
	switch p {
	case "system", "extension", "host", "supervisor":
		return true
	}
	kind, name, ok := strings.Cut(p, ":")
	return ok && (kind == "human" || kind == "agent") && nameRE.MatchString(name)
}
