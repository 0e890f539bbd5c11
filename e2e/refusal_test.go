package e2e

import (
	"strings"
	"testing"
)

// TestWhatIsRefusedIsSaidInWords: what only the daemon can know to be wrong, for each
// verb of keys, queue, asks, retention, budgets and sign-ins.
func TestWhatIsRefusedIsSaidInWords(t *testing.T) {
	t.Parallel()
	person := atTerminal(t)
	person.types("slot", "create", "words")
	person.types("bind", "words", "--slot", "words", "--account", "none")
	const nobody = "01JZ8M3T6V4Q0W9YB2C7D5E1FG"
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{2, `conflict key "a b" is not valid`, []string{"bind", "b", "--slot", "words", "--key", "a b"}},
		{2, "a budget is out of range", []string{"bind", "b", "--slot", "words", "--max-per-minute", "9999999"}},
		{1, `there is no binding "nowhere"`, []string{"confirm", "nowhere"}},
		{1, "binding words needs no sign-in", []string{"confirm", "words"}},
		{1, "slot words is at epoch", []string{"confirm", "words", "--if-epoch", "77"}},
		{2, "priority is out of range", []string{"delegate", "words", "--priority", "101"}},
		{2, "priority is out of range", []string{"lease", "acquire", "--binding", "words", "--priority", "-101"}},
		{2, `conflict key "käse" is not valid`, []string{"lease", "acquire", "--binding", "words", "--key", "käse"}},
		{1, `there is no delegation "` + nobody, []string{"delegation", "revoke", nobody}},
		{1, `there is no lease "` + nobody, []string{"lease", "answer", nobody, "--approve"}},
		{1, "there is no such lease", []string{"retain", "approve", nobody}},
		{1, `there is no lease "` + nobody, []string{"retain", "refuse", nobody, "--request", nobody}},
	} {
		person.refused(c.code, c.says, c.args...)
	}
	for _, list := range [][]string{{"retain", "list", "--json"}, {"lease", "list", "--json"}, {"delegation", "list", "--json"}, {"slot", "list", "--json"}} {
		if out := person.types(list...); !strings.HasPrefix(out, "[") {
			t.Errorf("%q prints %s", list, out)
		}
	}

	agent := person.agent("ada", "words")
	agent.acquires("lease", "acquire", "--binding", "words") // no browser is started by it
	lease := value(agent.env, "SESSIONDOCK_LEASE")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{2, "reason is missing or longer than 1024 bytes", []string{"lease", "ask", "--reason", strings.Repeat("x", 1025)}},
		{2, "for_ms is out of range", []string{"retain", "request", "--for", "200h", "--reason", "r"}},
		{1, "this lease has not asked for more time", []string{"retain", "acknowledge"}},
		{1, `this lease has no request "` + nobody, []string{"retain", "acknowledge", "--request", nobody}},
		{1, "no lease with this capability", []string{"lease", "ask", nobody, "--reason", "r"}},
		{1, "the delegation is for binding words", []string{"lease", "acquire", "--binding", "other"}},
		{13, "held by ada for", []string{"lease", "acquire", "--binding", "words"}},
	} {
		agent.refused(c.code, c.says, c.args...)
	}
	person.refused(1, "nothing that this lease asked waits for an answer", "lease", "answer", lease, "--approve")
	person.refused(1, "has not asked for more time", "retain", "approve", lease)
	agent.types("retain", "request", "--for", "1h", "--reason", "r")
	agent.refused(1, "an earlier request of this lease waits for a person", "retain", "request", "--for", "2h", "--reason", "r")
	person.refused(1, "slot words is at epoch", "retain", "approve", lease, "--if-epoch", "1")
	person.types("retain", "refuse", lease)
	person.refused(1, "the request was refused before", "retain", "approve", lease)
	agent.types("lease", "release")
	agent.refused(12, "the lease has ended", "lease", "ask", "--reason", "r")
	agent.refused(12, "the lease has ended", "retain", "request", "--for", "1h", "--reason", "r")
	person.types("binding", "remove", "words")
	person.types("slot", "remove", "words")
}
