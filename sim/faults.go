package main

// plant is a deliberate fault: what somebody could get wrong in the product's own code.
// It exists only in a copy that is compiled for the purpose; the shipped code has no
// switch. The simulation has to find each of them.
type plant struct {
	file, old, new string
	breaks         string // the rule that it is expected to break
	why            string
	quick          bool // it is planted in every run of the tests
}

var plants = []plant{
	// The authority.
	{"daemon/core/tx.go", "max(s.Epoch, t.floor[s.Name]) + 1", "max(s.Epoch, t.floor[s.Name], 2)", "I1",
		"a change of control does not raise the epoch", false},
	{"daemon/core/tx.go", "max(s.Epoch, t.floor[s.Name]) + 1", "s.Epoch + 1", "liveness",
		"a number that a takeover has taken is wanted again", false},
	{"daemon/core/launch.go", "s.Epoch = s.Ceiling + 1", "s.Epoch = before + 1", "I1",
		"after a restart numbering goes on below what may be out", false},
	{"daemon/core/launch.go", "	if !in.Verified {\n", "	if false {\n", "I5",
		"an end that could not be verified is taken for one", false},
	{"daemon/core/link.go", `in.Epoch != s.Epoch || s.Fence.State == "drained" {`, `s.Fence.State == "drained" {`, "I5",
		"an older fence's answer is taken for the newer one's", false},
	{"daemon/core/link.go", `in.Epoch != s.Epoch || s.Fence.State != "draining" {`, `in.Epoch != s.Epoch {`, "I5",
		"a drain counts without an acknowledgement", false},
	// That a pull waits for the drain is a second lock: nothing is offered before what the
	// former holder left has been drained, and a browser that came up since has nothing of it.
	{"daemon/core/link.go", "min(GrantTTLMs, l.Expires.LeftMs(t.now))", "GrantTTLMs", "L7",
		"a grant lives longer than its lease", false},
	{"daemon/core/link.go", "regressed := in.Mark > s.Ceiling || in.MarkSeq > max(told, s.SeqAdopted)", "regressed := false", "L14",
		"a restored copy of the database is served", false},
	{"daemon/core/link.go", "in.Person && in.Mark > s.PersonUntil && s.Holder.Kind != \"human\"", "false", "I14",
		"a takeover that was not recorded is forgotten", false},
	{"daemon/core/link.go", "!listed[id] && a.Instance == link.Instance", "!listed[id] && (a.Instance == link.Instance || !listed[id])", "I6",
		"a worker that did not have the grant vouches that nothing was dispatched", false},
	{"daemon/core/link.go", "(regressed || in.Anew && l.ScriptOf != \"\")", "regressed", "I8",
		"an extension that was loaded anew is taken to have seen every script", false},
	// That it says so until a daemon has heard it needs two ends of workers within a moment:
	// the extension's fence.test.js makes them.
	{"daemon/core/control.go", "			if d.Agent != agent {\n", "			if false {\n", "I8",
		"a page with another agent's script is handed on", false},
	{"daemon/core/control.go", `	case "acknowledged", "draining":`, `	case "acknowledged":`, "I8",
		"the slot is offered while it is drained", false},
	{"daemon/core/control.go", "	t.fence(s, hold, fromPerson)\n	t.touch(s.Name)\n", "	t.touch(s.Name)\n", "I5",
		"a change of control sends no fence", true},
	{"daemon/core/action.go", "old != nil {\n		if old.Agent", "false {\n		if old.Agent", "I7",
		"an action's identifier runs again", false},
	{"daemon/core/action.go", "case in.Epoch != s.Epoch || l.Epoch != s.Epoch || l.State != LeaseActive || s.Lease != l.ID:", "case in.Epoch != s.Epoch:", "I2",
		"a lease without control may act if it knows the epoch", true},
	{"daemon/core/settle.go", "	if a.Gone || a.Blind || a.Drained || a.Over && a.How == \"lost\" {\n		return LocalUnknown\n	}\n	return Running", "	if a.Gone || a.Blind || a.Drained || a.Over && a.How == \"lost\" {\n		return NotDispatched\n	}\n	return Running", "I6",
		"a lost answer is taken for no dispatch", true},
	{"daemon/core/settle.go", "	case a.Host == \"finished\":\n		return Finished", "	case a.Host == \"finished\" || a.Host == \"halted\":\n		return Finished", "I6",
		"an action that was stopped is called finished", false},
	{"daemon/core/time.go", "(d.BootID != n.BootID || n.BootMs >= d.BootMs)", "n.BootMs >= d.BootMs", "L8",
		"a lease outlives a reboot", false},
	{"daemon/core/control.go", "	fresh := l.State == LeaseWaiting\n", "	fresh := true\n", "L5",
		"a resumed lease begins anew", false},
	{"daemon/core/lease.go", "	until := earlier(t.now.In(in.ForMs), l.MaxUntil)", "	until := t.now.In(in.ForMs)", "L5",
		"a renewal reaches beyond what a person set", false},
	{"daemon/core/keys.go", "ok && !(held.Shared && claim.Shared) {\n			out", "ok && !(held.Shared || claim.Shared) {\n			out", "I2",
		"an exclusive key is shared", false},
	{"daemon/core/tick.go", "			case l.Expires.Passed(t.now):\n", "			case false:\n", "L5",
		"a lease whose time is over is kept", false},

	// The fence register.
	{"daemon/fence/register.go", "r.issue(in.Slot, e, e.epoch+1)", "r.issue(in.Slot, e, e.epoch)", "I1",
		"a takeover takes no number of its own", false},
	{"daemon/fence/register.go", "s.Epoch <= e.epoch && s.Epoch != own {", "s.Epoch < 0 && s.Epoch != own {", "I1",
		"a step takes the number that a takeover has taken", false},
	{"daemon/fence/register.go", "s.Epoch <= e.epoch && s.Epoch != own {", "s.Epoch <= e.epoch {", "liveness",
		"a takeover's own record is refused", true},
	{"daemon/fence/register.go", "return e != nil && e.epoch == epoch && e.record == nil", "return e != nil", "I10",
		"effects of an epoch that was left behind are carried out", false},

	// The host's gate.
	{"host/gate/gate.go", "	case e != g.granted:\n", "	case e < g.floor:\n", "second gate",
		"a fence does not close the host's gate", true},
	{"host/gate/gate.go", "func (g *Gate) Close() { g.granted = 0 }", "func (g *Gate) Close() {}", "second gate",
		"a lost link does not close the host's gate", false},

	// The extension.
	// That the gate looks at the hold is a second lock: a press closes the grant in its own
	// turn, and no grant is taken under a hold. Without it nothing else gives way; the
	// extension's gate.test.js tries it alone. That raising the epoch drops the grant is
	// another: what is dispatched must be of the grant's epoch and of the epoch in force.
	{"extension/gate.js", "now.monoMs >= state.grant.monoMs || now.wallMs >= state.grant.wallMs", "now.monoMs >= state.grant.monoMs", "L7",
		"the gate does not count a suspend", false},
	{"extension/gate.js", "if (order.document && view.document(order.tab, order.frame) !== order.document) {", "if (false) {", "I3",
		"the gate does not look at the document", false},
	{"extension/grants.js", "monoMs: asked.monoMs + grant.ttl_ms, wallMs: asked.wallMs + grant.ttl_ms", "monoMs: this.#browser.monoMs() + grant.ttl_ms, wallMs: this.#browser.wallMs() + grant.ttl_ms", "L7",
		"a grant's life counts from when it came", false},
	{"extension/people.js", "    this.#gate.hold = next;\n    this.#gate.close();\n", "", "I3",
		"a press waits for the daemon", true},
	{"extension/state.js", "if (!this.hold || !id || this.hold.id !== id) return false;", "if (!this.hold) return false;", "I3",
		"any fence lets go of a press", false},
	{"extension/documents.js", "if (!document || this.#scripts.has(document)) return false;", "return false;", "I8",
		"an agent's script is not noted", false},
	// That shared workers are looked for, where a page ends and where a drain does, shows itself
	// in none of 40,000 schedules: the page that made one is listed, and seldom ends before
	// another agent waits. The extension's workers.test.js tries each alone, and e2e the whole.
	{"extension/drain.js", "return Array.isArray(result) && result.some((one) => one?.documentId === document);", "return Array.isArray(result);", "I6",
		"a barrier that ran in another document counts", false},
	{"extension/commands.js", "if (counted) this.#ledger.dispatched(", "if (false) this.#ledger.dispatched(", "I6",
		"an effect is not entered into the ledger", false},
	// That what is seen after a press, or a fence, is not sent is a second lock: the press goes
	// ahead of it to the daemon, whose register then lets nothing of that epoch out, and a fence
	// ends in the host what waits for it. The extension's fence.test.js tries it alone.
}
