package store

import (
	"database/sql/driver"
	"fmt"

	"sessiondock.dev/sessiondock/daemon/core"
)

// The upserts name in their WHERE what may not change under the row they meet:
// a fence is a predicate of the write, so a row that fails it is not written, and
// write refuses a statement that did not affect exactly one.
const (
	upsertSlot = `INSERT INTO slots (name, removed, epoch, ceiling, holder, lease, generation, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET removed = excluded.removed, epoch = excluded.epoch, ceiling = excluded.ceiling,
  holder = excluded.holder, lease = excluded.lease, generation = excluded.generation, body = excluded.body
WHERE epoch <= excluded.epoch AND ceiling <= excluded.ceiling`

	upsertBinding = `INSERT INTO bindings (name, slot, removed, body)
VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET slot = excluded.slot, removed = excluded.removed, body = excluded.body`

	upsertDelegation = `INSERT INTO delegations (id, binding, agent, hash, revoked, body)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET revoked = excluded.revoked, body = excluded.body
WHERE binding = excluded.binding AND agent = excluded.agent AND hash = excluded.hash`

	upsertLease = `INSERT INTO leases (id, slot, binding, delegation, state, epoch, body)
VALUES (?, ?, ?, nullif(?, ''), ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, epoch = excluded.epoch, body = excluded.body
WHERE slot = excluded.slot AND binding = excluded.binding AND delegation IS excluded.delegation AND epoch <= excluded.epoch`

	upsertAction = `INSERT INTO actions (id, binding, client, lease, slot, epoch, class, authority, local, remote, sent, closed, hash, bytes, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET authority = excluded.authority, local = excluded.local, remote = excluded.remote, sent = excluded.sent,
  closed = excluded.closed, bytes = excluded.bytes, body = excluded.body
WHERE binding = excluded.binding AND client = excluded.client AND lease = excluded.lease AND slot = excluded.slot
  AND epoch = excluded.epoch AND class = excluded.class AND hash = excluded.hash
  AND authority IN ('admitted', excluded.authority)`

	// updateAction is what upsertAction does to a row that is there, for half its price: an
	// INSERT looks for what the row refers to before it meets the conflict.
	updateAction = `UPDATE actions SET authority = ?, local = ?, remote = ?, sent = ?, closed = ?, bytes = ?, body = ?
WHERE id = ? AND binding = ? AND client = ? AND lease = ? AND slot = ? AND epoch = ? AND class = ? AND hash = ?
  AND authority IN ('admitted', ?)`

	insertEntry = `INSERT INTO journal (seq, at, kind, slot, epoch, lease, action, principal, reason, change, total)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? + coalesce((SELECT total FROM journal ORDER BY seq DESC LIMIT 1), 0))`
)

// ofUpdate are the arguments of updateAction, as places in those of upsertAction.
var ofUpdate = [...]int{7, 8, 9, 10, 11, 13, 14, 0, 1, 2, 3, 4, 5, 6, 12, 7}

// entryOverhead is about what an entry takes besides its reason and its change.
const entryOverhead = 100

// row is one write: a statement's arguments, of which the first is the key.
type row struct {
	kind string
	args []driver.Value
	old  bool // it is there already, as far as the entity shows
}

func (r row) String() string { return fmt.Sprintf("%s %v", r.kind, r.args[0]) }

// rows are a delta's writes, in an order in which each finds what it refers to.
type rows struct {
	slots, bindings, delegations []row
	over, leases                 []row // over first: a lease that ends makes room for the next
	actions, journal             []row
}

func encode(d *core.Delta) (*rows, error) {
	r := &rows{}
	var err error
	if err = slotsGoForward(d.Slots); err != nil {
		return nil, err
	}
	add := func(to *[]row, kind string, entity any, columns ...driver.Value) {
		body, e := d.JSON(entity)
		r := row{kind: kind, args: append(columns, string(body))}
		if e != nil && err == nil {
			err = fmt.Errorf("%s: %w", r, e)
		}
		*to = append(*to, r)
	}
	for _, v := range last(d.Slots, func(v *core.Slot) core.SlotName { return v.Name }) {
		add(&r.slots, "slot", v,
			string(v.Name), v.Removed, int64(v.Epoch), int64(v.Ceiling), v.Holder.Kind, string(v.Lease), v.Generation)
	}
	for _, v := range last(d.Bindings, func(v *core.Binding) core.BindingName { return v.Name }) {
		add(&r.bindings, "binding", v, string(v.Name), string(v.Slot), v.Removed)
	}
	for _, v := range last(d.Delegations, func(v *core.Delegation) core.DelegationID { return v.ID }) {
		add(&r.delegations, "delegation", v,
			string(v.ID), string(v.Binding), string(v.Agent), v.Hash, v.Revoked)
	}
	for _, v := range last(d.Leases, func(v *core.Lease) core.LeaseID { return v.ID }) {
		to := &r.over
		if v.State == core.LeaseGranted || v.State == core.LeaseActive {
			to = &r.leases
		}
		add(to, "lease", v,
			string(v.ID), string(v.Slot), string(v.Binding), string(v.Delegation), string(v.State), int64(v.Epoch))
	}
	for _, v := range last(d.Actions, func(v *core.Action) core.ActionID { return v.Action }) {
		add(&r.actions, "action", v,
			string(v.Action), string(v.Binding), string(v.ID), string(v.Lease), string(v.Slot), int64(v.Epoch),
			string(v.Class), string(v.Authority), string(v.Local), string(v.Remote), v.Sent, v.Closed, v.BodyHash, v.Bytes)
		r.actions[len(r.actions)-1].old = v.Over || v.Host != "" || v.Reported > 0
	}
	for i := range d.Journal {
		e := &d.Journal[i]
		var change driver.Value
		if e.Change != nil {
			change = string(e.Change)
		}
		r.journal = append(r.journal, row{kind: "journal entry", args: []driver.Value{
			e.Seq, e.AtMs, e.Kind, string(e.Slot), int64(e.Epoch), string(e.Lease), string(e.Action), e.Principal, e.Reason, change,
			int64(entryOverhead + len(e.Reason) + len(e.Change))}})
	}
	return r, err
}

// slotsGoForward looks at what merging would hide from the database: a later step
// of the same transaction that takes an epoch back.
func slotsGoForward(slots []*core.Slot) error {
	if len(slots) < 2 {
		return nil
	}
	seen := make(map[core.SlotName]*core.Slot, len(slots))
	for _, v := range slots {
		if p := seen[v.Name]; p != nil && (v.Epoch < p.Epoch || v.Ceiling < p.Ceiling) {
			return goesBack("slot " + string(v.Name))
		}
		seen[v.Name] = v
	}
	return nil
}

func goesBack(what string) error {
	return core.Refuse(core.CodeInternal, "the change to "+what+" would take back what is recorded",
		"this is a fault of the daemon; its log and the journal show what it was about to do")
}

// last keeps of the entities with the same key the one that came last.
func last[K comparable, V any](all []V, key func(V) K) []V {
	if len(all) < 2 {
		return all
	}
	at := make(map[K]int, len(all))
	out := make([]V, 0, len(all))
	for _, v := range all {
		k := key(v)
		if i, ok := at[k]; ok {
			out[i] = v
			continue
		}
		at[k] = len(out)
		out = append(out, v)
	}
	return out
}
