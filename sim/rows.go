package main

import (
	"fmt"
	"slices"

	"sessiondock.dev/sessiondock/daemon/core"
)

// row is one kind of happening. Among those that are possible now one is chosen, by its
// weight and by the seed.
type row struct {
	name   string
	weight int
	fault  bool
	// can lists what the happening could befall now; do lets it happen to one of them.
	can func(*world) int
	do  func(*world, int)
}

// on makes the two functions of a row from a list of candidates.
func on[T any](list func(*world) []T, do func(*world, T)) (func(*world) int, func(*world, int)) {
	return func(w *world) int { return len(list(w)) },
		func(w *world, i int) { do(w, list(w)[i]) }
}

func of[T any](name string, weight int, list func(*world) []T, do func(*world, T)) row {
	can, act := on(list, do)
	return row{name: name, weight: weight, can: can, do: act}
}

func fault[T any](name string, weight int, list func(*world) []T, do func(*world, T)) row {
	r := of(name, weight, list, do)
	r.fault = true
	return r
}

// The candidates.

func always(w *world) []*world { return []*world{w} }

func up(w *world) []*daemon {
	if w.daemon == nil {
		return nil
	}
	return []*daemon{w.daemon}
}

func slots(w *world) []*slot {
	if w.daemon == nil {
		return nil
	}
	return w.slots
}

func browsers(w *world) []*browser {
	var out []*browser
	for _, s := range w.slots {
		out = append(out, s.browsers...)
	}
	return out
}

func browsersThat(is func(*browser) bool) func(*world) []*browser {
	return func(w *world) []*browser {
		var out []*browser
		for _, s := range w.slots {
			for _, b := range s.browsers {
				if is(b) {
					out = append(out, b)
				}
			}
		}
		return out
	}
}

var awake = browsersThat(func(b *browser) bool { return b.worker != nil })

func hostsThat(is func(*host) bool) func(*world) []*host {
	return func(w *world) []*host {
		var out []*host
		for _, s := range w.slots {
			for _, b := range s.browsers {
				if b.host != nil && is(b.host) {
					out = append(out, b.host)
				}
			}
		}
		return out
	}
}

// ends are the daemon's ends of connections.
func ends(w *world) []*conn {
	var out []*conn
	if w.daemon != nil {
		for _, name := range sorted(w.daemon.conns) {
			out = append(out, w.daemon.conns[name])
		}
	}
	return out
}

func documents(is func(*document) bool) func(*world) []*place {
	return func(w *world) []*place {
		var out []*place
		for _, s := range w.slots {
			for _, b := range s.browsers {
				for _, d := range b.documents {
					if !d.gone && is(d) {
						out = append(out, &place{b, d, nil, nil})
					}
				}
			}
		}
		return out
	}
}

// place is something within a browser.
type place struct {
	b *browser
	d *document
	t *tab
	r *request
}

func tabsThat(is func(*tab) bool) func(*world) []*place {
	return func(w *world) []*place {
		var out []*place
		for _, s := range w.slots {
			for _, b := range s.browsers {
				for _, t := range b.tabs {
					if is(t) {
						out = append(out, &place{b, t.document, t, nil})
					}
				}
			}
		}
		return out
	}
}

func requests(is func(*request) bool) func(*world) []*place {
	return func(w *world) []*place {
		var out []*place
		for _, s := range w.slots {
			for _, b := range s.browsers {
				for _, r := range b.requests {
					if is(r) {
						out = append(out, &place{b, nil, nil, r})
					}
				}
			}
		}
		return out
	}
}

// party is an agent with one of its leases.
type party struct {
	a *agent
	l *lease
}

func parties(w *world) []party {
	if w.daemon == nil {
		return nil
	}
	var out []party
	for _, a := range w.agents {
		for i := len(a.leases) - 1; i >= 0 && i >= len(a.leases)-2; i-- {
			if l := a.leases[i]; !l.over {
				out = append(out, party{a, l})
			}
		}
	}
	return out
}

// holders are the parties whose lease has a slot now, as far as is committed.
func holders(w *world) []party {
	return slices.DeleteFunc(parties(w), func(p party) bool {
		s := w.disk.slots[p.l.slot]
		return s == nil || s.Lease != p.l.id || s.Holder.Kind != "agent"
	})
}

func open(w *world) []*core.Action {
	if w.daemon == nil {
		return nil
	}
	var out []*core.Action
	for _, s := range w.slots {
		out = append(out, w.daemon.seen.OpenActions(s.name)...)
	}
	return out
}

// asking are the leases for which an agent waits for a person.
func asking(is func(*core.Lease) bool) func(*world) []*core.Lease {
	return func(w *world) []*core.Lease {
		var out []*core.Lease
		if w.daemon == nil {
			return nil
		}
		for _, id := range sorted(w.disk.leases) {
			if l := w.disk.leases[id]; l.State != core.LeaseEnded && is(l) {
				out = append(out, l)
			}
		}
		return out
	}
}

func (w *world) epochOf(name core.SlotName) *core.Epoch {
	if w.one(2) {
		return nil
	}
	e := w.disk.slots[name].Epoch
	if w.one(5) {
		e--
	}
	return &e
}

const person = "human:cli"

// verbs are what agents do.
var verbs = []string{"snapshot", "navigate", "click", "click", "click", "evaluate"}

// rows is the table of everything that can happen. A new input of the core is one more
// row here; TestEveryInputIsIssued fails until it is.
var rows []row

func init() { rows = happenings() } // a row may refer to the table

func happenings() []row {
	return []row{
		// The writer, the links, the supervisor.
		of("batch", 80, func(w *world) []*daemon {
			if w.daemon == nil || w.disk.hung || len(w.daemon.inbox) == 0 && !w.daemon.closed {
				return nil
			}
			return []*daemon{w.daemon}
		}, func(w *world, d *daemon) { d.batch() }),
		of("daemon starts", 25, func(w *world) []*world {
			if w.daemon != nil || w.disk.hung {
				return nil
			}
			return []*world{w}
		}, func(w *world, _ *world) { w.startDaemon() }),
		of("host reads", 45, hostsThat(func(h *host) bool { return h.conn != nil && len(h.conn.down) > 0 }), func(w *world, h *host) {
			text := h.conn.down[0]
			h.conn.down = h.conn.down[1:]
			h.take(text)
		}),
		of("host sees the link's end", 25, hostsThat(func(h *host) bool { return h.conn != nil && len(h.conn.down) == 0 && h.conn.daemonGone }), func(w *world, h *host) { h.lost() }),
		of("host writes", 60, hostsThat(func(h *host) bool { return len(h.out) > 0 }), func(w *world, h *host) {
			h.write()
			for len(h.out) > 0 && w.one(2) {
				h.write()
			}
		}),
		of("worker reads", 60, hostsThat(func(h *host) bool { return len(h.pipe) > 0 && !h.unread }), func(w *world, h *host) { h.read() }),
		of("a worker reads nothing for a while", 2, hostsThat(func(h *host) bool { return !h.unread }), func(w *world, h *host) {
			h.unread = true
			w.pass(1_500) // it may ask for something meanwhile
		}),
		of("a worker reads again", 10, hostsThat(func(h *host) bool { return h.unread }), func(w *world, h *host) {
			w.pass(int64(pick(w, []int{30, 2_600, 5_100})))
			h.unread = false
			for len(h.pipe) > 0 && !w.one(10) {
				h.read()
			}
		}),
		of("host hears", 50, hostsThat(func(h *host) bool { return len(h.up) > 0 }), func(w *world, h *host) { h.hear() }),
		of("daemon reads", 50, func(w *world) []*conn {
			return slices.DeleteFunc(ends(w), func(c *conn) bool { return len(c.up) == 0 })
		}, func(w *world, c *conn) { w.daemon.hear(c) }),
		of("daemon sees the link's end", 25, func(w *world) []*conn {
			return slices.DeleteFunc(ends(w), func(c *conn) bool { return len(c.up) > 0 || !c.hostGone && !c.daemonGone })
		}, func(w *world, c *conn) { w.daemon.detach(c, "read: EOF") }),
		of("host dials", 30, func(w *world) []*host {
			if w.daemon == nil {
				return nil
			}
			return hostsThat(func(h *host) bool {
				// The daemon attests it: it belongs to the launch that is recorded.
				l := w.daemon.seen.Slots[h.b.slot.name].Launch
				return h.conn == nil && l != nil && l.ID == h.b.launch && l.State != "ended" && l.State != "starting"
			})(w)
		}, func(w *world, h *host) { w.daemon.attach(h) }),
		of("supervisor", 30, func(w *world) []*job {
			if w.daemon == nil {
				return nil
			}
			var out []*job
			for _, j := range w.daemon.jobs {
				if j.wait == nil || !j.wait() {
					out = append(out, j)
				}
			}
			return out
		}, func(w *world, j *job) {
			d := w.daemon
			d.jobs = slices.DeleteFunc(d.jobs, func(o *job) bool { return o == j })
			j.do()
		}),
		of("worker wakes", 20, browsersThat(func(b *browser) bool { return b.worker == nil }), func(w *world, b *browser) { b.wake() }),

		of("things go on", 90, always, func(w *world, _ *world) { w.goOn() }),

		// Time.
		of("tick", 20, func(w *world) []*daemon {
			if w.daemon == nil || w.daemon.ticking || !core.Due(w.daemon.seen, w.now()) {
				return nil
			}
			return []*daemon{w.daemon}
		}, func(w *world, d *daemon) {
			d.ticking = true // the next waits for this one's end
			d.submit(core.Tick{}, func(core.Result) { d.ticking = false })
		}),
		of("a moment", 20, always, func(w *world, _ *world) { w.pass(int64(pick(w, []int{5, 30, 30, 250}))) }),
		of("seconds", 5, always, func(w *world, _ *world) { w.pass(int64(pick(w, []int{1_000, 2_100, 5_100, 5_100, 16_000, 33_000}))) }),
		fault("the wall clock jumps", 5, always, func(w *world, _ *world) {
			by := int64(pick(w, []int{-86_400_000, 86_400_000, -3_600_000}))
			w.logf("wall clock jumps by %d ms", by)
			w.wallMs += by
			w.setBack = w.setBack || by < 0
			w.ring()
		}),
		fault("the machine sleeps", 5, always, func(w *world, _ *world) {
			ms := int64(pick(w, []int{3_000, 60_000, 7_200_000}))
			w.logf("the machine sleeps for %d ms", ms)
			w.bootMs += ms
			w.wallMs += ms
			w.asleepMs += ms
			w.ring()
		}),

		// Faults of the parts.
		fault("daemon is killed", 10, up, func(w *world, d *daemon) { d.die("killed") }),
		fault("host is killed", 8, hostsThat(func(*host) bool { return true }), func(w *world, h *host) { h.die() }),
		fault("link is cut", 10, ends, func(w *world, c *conn) {
			w.logf("link of %s is cut", c.slot.name)
			c.hostGone, c.daemonGone = true, true
			if w.one(2) {
				c.up = nil
			}
			if w.one(2) {
				c.down = nil
			}
		}),
		fault("worker is killed", 8, awake, func(w *world, b *browser) { b.sleep() }),
		fault("the extension is loaded anew", 6, browsers, func(w *world, b *browser) { b.loadAnew() }),
		fault("browser ends", 6, browsers, func(w *world, b *browser) { b.quit() }),
		fault("a commit will fail", 6, up, func(w *world, d *daemon) { w.disk.torn = true }),
		fault("the disk is full", 4, up, func(w *world, d *daemon) { w.disk.full = true }),
		// Takeovers do not wait for it; all else does.
		fault("the disk hangs", 6, up, func(w *world, d *daemon) { w.disk.hung = true }),
		of("the disk goes on", 10, func(w *world) []*world {
			if !w.disk.hung {
				return nil
			}
			return []*world{w}
		}, func(w *world, _ *world) {
			w.disk.hung = false
			if w.daemon != nil && w.one(3) {
				w.daemon.die("ended because its disk hung")
			}
		}),
		of("there is room again", 20, func(w *world) []*world {
			if !w.disk.full {
				return nil
			}
			return []*world{w}
		}, func(w *world, _ *world) { w.disk.full = false }),
		fault("the machine is rebooted", 3, always, func(w *world, _ *world) {
			w.logf("the machine is rebooted")
			if w.daemon != nil {
				w.daemon.die("reboot")
			}
			for _, b := range browsers(w) {
				b.quit()
			}
			w.boot++
			w.bootID = fmt.Sprintf("boot-%d", w.boot)
			w.bootMs, w.asleepMs = 5_000, 0
		}),
		fault("an older database is restored", 4, always, func(w *world, _ *world) { w.restore() }),
		fault("a message comes twice", 4, func(w *world) []*conn {
			return slices.DeleteFunc(ends(w), func(c *conn) bool { return len(c.up) == 0 })
		}, func(w *world, c *conn) { c.up = slices.Insert(c.up, w.rng.IntN(len(c.up)+1), c.up[0]) }),
		fault("messages change places", 4, func(w *world) []*conn {
			return slices.DeleteFunc(ends(w), func(c *conn) bool { return len(c.up) < 2 })
		}, func(w *world, c *conn) { c.up[0], c.up[1] = c.up[1], c.up[0] }),
		fault("an input comes twice", 4, func(w *world) []*daemon {
			if w.daemon == nil || len(w.daemon.inbox) == 0 {
				return nil
			}
			return up(w)
		}, func(w *world, d *daemon) { d.enqueue(d.inbox[0].in) }),

		// Pages and the website.
		of("a page comes to what is queued", 30, documents(func(d *document) bool { return !d.busy && len(d.queue) > 0 }), func(w *world, p *place) { p.b.handle(p.d) }),
		of("a page is busy", 5, documents(func(d *document) bool { return d.current && !d.busy }), func(w *world, p *place) { p.d.busy = true }),
		of("a page is free again", 8, documents(func(d *document) bool { return d.busy }), func(w *world, p *place) { p.d.busy = false }),
		of("a navigation commits", 15, tabsThat(func(t *tab) bool { return t.going != nil }), func(w *world, p *place) { p.b.commit(p.t, page) }),
		of("a former document ends", 8, documents(func(d *document) bool { return !d.current && len(d.queue) == 0 }), func(w *world, p *place) { p.b.end(p.d) }),
		of("an agent's script makes a shared worker", 3, documents(func(d *document) bool { return len(d.scripts) > 0 && !d.busy }), func(w *world, p *place) {
			p.b.makeShared(p.d.scripts[0])
		}),
		of("a shared worker ends", 3, browsersThat(func(b *browser) bool { return len(b.shared) > 0 }), func(w *world, b *browser) { b.endShared(b.shared[0].id) }),
		of("an agent's script posts", 5, documents(func(d *document) bool { return len(d.scripts) > 0 && !d.busy }), func(w *world, p *place) {
			p.b.request(p.d, "POST", "xmlhttprequest", p.d.scripts[0])
		}),
		of("a request arrives", 15, requests(func(r *request) bool { return !r.applied }), func(w *world, p *place) { p.b.arrives(p.r) }),
		of("a request is answered", 15, requests(func(r *request) bool { return r.applied || r.by.action == "" || len(r.id)%2 == 0 }), func(w *world, p *place) { p.b.answers(p.r) }),
		fault("a renderer crashes", 5, tabsThat(func(t *tab) bool { return !t.crashed }), func(w *world, p *place) { p.b.crash(p.t) }),

		// A person at the browser.
		of("a person presses Take over", 4, awake, func(w *world, b *browser) {
			w.logf("%s: a person presses Take over", b.launch)
			b.worker.do("press", fmt.Sprintf(`{"t":"takeover","pressed_ms":%d}`, w.wallMs))
			b.check()
		}),
		of("a person presses Stop the page", 2, awake, func(w *world, b *browser) {
			w.logf("%s: a person presses Stop the page", b.launch)
			b.worker.do("press", fmt.Sprintf(`{"t":"stop_page","pressed_ms":%d,"tabs":[{"tab":%d}]}`, w.wallMs, b.tabs[0].id))
			b.check()
		}),
		of("a person presses Hand back", 3, awake, func(w *world, b *browser) {
			to := ""
			if w.one(2) {
				to = string(pick(w, w.agents).name)
			}
			b.worker.do("press", fmt.Sprintf(`{"t":"handback","to":%q,"confirm":%v}`, to, w.one(2)))
			b.check()
		}),
		of("a person ends the debugging", 1, tabsThat(func(t *tab) bool { return t.attached }), func(w *world, p *place) { p.b.cancel(p.t) }),
		of("a person ends the debugging of a busy page", 1, tabsThat(func(t *tab) bool { return t.attached && len(t.document.queue) > 0 }), func(w *world, p *place) {
			p.d.busy = true
			p.b.cancel(p.t)
		}),
		of("a person clicks", 3, tabsThat(func(t *tab) bool { return !t.crashed }), func(w *world, p *place) {
			p.d.queue = append(p.d.queue, &work{kind: "release", tag: tag{person: true}, tabID: p.t.id})
		}),
		of("a person reloads", 2, tabsThat(func(t *tab) bool { return true }), func(w *world, p *place) { p.b.navigate(p.t, &navigation{url: page}) }),
		of("a person closes a tab", 2, tabsThat(func(t *tab) bool { return true }), func(w *world, p *place) { p.b.closeTab(p.t) }),

		// Agents.
		of("acquire", 6, func(w *world) []*agent {
			if w.daemon == nil {
				return nil
			}
			return w.agents
		}, func(w *world, a *agent) {
			s := pick(w, w.slots)
			w.acquire(a, pick(w, s.bindings), s.name, int64(pick(w, []int{0, 20_000, 20_000})))
		}),
		of("acquire again", 2, parties, func(w *world, p party) { w.again(p.a, p.l) }),
		of("cancel a wait", 1, parties, func(w *world, p party) {
			w.submit(core.CancelWait{Lease: p.l.id, Cap: p.l.cap, Why: "its client has gone"}, nil)
		}),
		of("claim", 3, parties, func(w *world, p party) { w.submit(core.Claim{Lease: p.l.id, Cap: p.l.cap}, nil) }),
		of("renew", 2, parties, func(w *world, p party) {
			w.submit(core.Renew{Lease: p.l.id, Cap: p.l.cap, ForMs: int64(pick(w, []int{10_000, 30_000}))}, nil)
		}),
		of("release", 2, parties, func(w *world, p party) { w.submit(core.Release{Lease: p.l.id, Cap: p.l.cap}, nil) }),
		of("resume", 5, parties, func(w *world, p party) { w.submit(core.Resume{Lease: p.l.id, Cap: p.l.cap}, nil) }),
		of("act", 30, holders, func(w *world, p party) {
			if w.favourite != "" && w.one(2) {
				w.act(p.a, p.l, w.favourite)
				return
			}
			w.act(p.a, p.l, pick(w, verbs))
		}),
		of("act without control", 2, parties, func(w *world, p party) { w.act(p.a, p.l, "click") }),
		of("ask again", 3, func(w *world) []*agent {
			return slices.DeleteFunc(slices.Clone(w.agents), func(a *agent) bool { return len(a.actions) == 0 })
		}, func(w *world, a *agent) { w.repeat(a, pick(w, a.actions)) }),
		of("read a result", 4, func(w *world) []*agent {
			return slices.DeleteFunc(slices.Clone(w.agents), func(a *agent) bool { return len(a.actions) == 0 })
		}, func(w *world, a *agent) { w.look(pick(w, a.actions)) }),

		// People elsewhere.
		of("takeover", 4, slots, func(w *world, s *slot) {
			w.daemon.takeover(core.Takeover{Slot: s.name, Surface: "cli", IfEpoch: w.epochOf(s.name), FromPerson: w.one(3), By: person}, nil)
		}),
		of("handback", 4, slots, func(w *world, s *slot) {
			to := core.AgentName("")
			if w.one(2) {
				to = pick(w, w.agents).name
			}
			w.submit(core.Handback{Slot: s.name, To: to, IfEpoch: w.epochOf(s.name), Confirm: w.one(2), By: person}, nil)
		}),
		of("start", 2, slots, func(w *world, s *slot) {
			w.submit(core.StartSlot{Slot: s.name, IfEpoch: w.epochOf(s.name), By: person}, nil)
		}),
		of("stop", 2, slots, func(w *world, s *slot) {
			w.submit(core.StopSlot{Slot: s.name, Now: w.one(2), IfEpoch: w.epochOf(s.name), By: person}, nil)
		}),
		of("stop pages", 1, slots, func(w *world, s *slot) {
			w.submit(core.StopPage{Slot: s.name, IfEpoch: w.epochOf(s.name), By: person}, nil)
		}),
		of("revoke", 1, parties, func(w *world, p party) {
			w.submit(core.Revoke{Lease: p.l.id, IfEpoch: w.epochOf(p.l.slot), By: person}, nil)
		}),
		of("ask a person", 1, holders, func(w *world, p party) {
			w.submit(core.AskPerson{Lease: p.l.id, Cap: p.l.cap, Reason: "a second factor"}, nil)
		}),
		of("answer an ask", 2, asking(func(l *core.Lease) bool { return l.Ask != nil && l.Ask.State == "open" }), func(w *world, l *core.Lease) {
			w.submit(core.AnswerAsk{Lease: l.ID, Granted: w.one(2), IfEpoch: w.epochOf(l.Slot), By: person}, nil)
		}),
		of("ask for retention", 4, holders, func(w *world, p party) {
			w.submit(core.Retain{Lease: p.l.id, Cap: p.l.cap, ID: core.RetentionID(w.id("retention-")), ForMs: 60_000, Reason: "more to do"}, nil)
		}),
		of("decide on a retention", 5, asking(func(l *core.Lease) bool { return l.Retention != nil && l.Retention.State == "requested" }), func(w *world, l *core.Lease) {
			w.submit(core.DecideRetention{Lease: l.ID, ID: l.Retention.ID, Approved: !w.one(4), IfEpoch: w.epochOf(l.Slot), By: person}, nil)
		}),
		of("acknowledge a retention", 8, func(w *world) []party {
			return slices.DeleteFunc(holders(w), func(p party) bool {
				l := w.disk.leases[p.l.id]
				return l == nil || l.Retention == nil
			})
		}, func(w *world, p party) {
			w.submit(core.Acknowledge{Lease: p.l.id, Cap: p.l.cap, ID: w.disk.leases[p.l.id].Retention.ID}, nil)
		}),
		of("confirm a sign-in", 2, slots, func(w *world, s *slot) {
			w.submit(core.Confirm{Binding: pick(w, s.bindings), IfEpoch: w.epochOf(s.name), By: person}, nil)
		}),
		of("revoke a delegation", 1, up, func(w *world, d *daemon) {
			if ids := sorted(d.seen.Delegations); len(ids) > 0 && w.one(3) {
				w.submit(core.RevokeDelegation{ID: pick(w, ids), By: person}, nil)
			}
		}),
		of("a probe is asked for", 2, slots, func(w *world, s *slot) {
			in := core.RunProbe{Binding: pick(w, s.bindings), IfEpoch: w.epochOf(s.name), By: person}
			if as := w.daemon.seen.OpenActions(s.name); len(as) > 0 {
				in.Action = pick(w, as).Action
			}
			w.submit(in, nil)
		}),
		of("the journal is trimmed", 2, up, func(w *world, d *daemon) {
			d.submit(core.Trim{UpTo: d.seen.Seq - int64(w.rng.IntN(8)), Why: "old"}, nil)
		}),
		of("memory is measured", 1, up, func(w *world, d *daemon) {
			mb := map[core.SlotName]int64{}
			for _, b := range browsers(w) {
				mb[b.slot.name] = int64(100 + w.rng.IntN(900))
			}
			d.submit(core.Measured{MemoryMB: mb}, nil)
		}),
		of("resolve", 4, open, func(w *world, a *core.Action) {
			w.submit(core.Resolve{Action: a.Action, Verdict: pick(w, []core.Remote{core.Applied, core.NotApplied}), IfEpoch: w.epochOf(a.Slot), By: person}, nil)
		}),
		of("lift", 3, slots, func(w *world, s *slot) {
			w.submit(core.Lift{Slot: s.name, Note: "looked", IfEpoch: w.epochOf(s.name), By: person}, nil)
		}),
		of("adopt", 1, slots, func(w *world, s *slot) {
			w.submit(core.Adopt{Slot: s.name, Note: "restored", IfEpoch: w.epochOf(s.name), By: person}, nil)
		}),
		of("create a slot", 1, slots, func(w *world, s *slot) { w.submit(core.CreateSlot{Name: s.name, By: person}, nil) }),
		of("remove a slot", 1, slots, func(w *world, s *slot) { w.submit(core.RemoveSlot{Name: s.name, By: person}, nil) }),
		of("bind", 1, slots, func(w *world, s *slot) { w.bind(s, pick(w, s.bindings)) }),
		of("remove a binding", 1, slots, func(w *world, s *slot) {
			if w.one(4) {
				w.submit(core.RemoveBinding{Name: pick(w, s.bindings), By: person}, nil)
			}
		}),
		of("delegate", 1, slots, func(w *world, s *slot) { w.delegate(pick(w, w.agents), pick(w, s.bindings)) }),
	}
}

// bind declares a binding. The slots of one schedule want the same key, now and then
// both shared; some have a short life or a small budget; one sign-in wants confirming.
func (w *world) bind(s *slot, name core.BindingName) {
	spec := core.BindingSpec{Name: name, Slot: s.name, Account: "none"}
	if w.one(2) {
		spec.MaxLifetimeMs = 30_000
	}
	if w.one(2) {
		spec.Keys = []string{pick(w, []string{"stock", "stock", "stock:shared"})}
	}
	if w.one(6) {
		spec.Budget = core.Budget{Actions: 3, PerMinute: 2}
	}
	if w.one(10) {
		spec.Account = "ann"
	}
	if w.one(4) {
		spec.Probe = &core.ProbeSpec{Effect: &core.EffectProbe{ProbePage: core.ProbePage{URL: page, Selector: "#state"}, Applied: "saved"}}
	}
	w.submit(core.Bind{Spec: spec, By: person}, nil)
}

func (w *world) delegate(a *agent, binding core.BindingName) {
	token := w.id("token-")
	w.submit(core.Delegate{ID: core.DelegationID(w.id("d-")), Hash: token, Binding: binding, Agent: a.name, By: person}, func(res core.Result) {
		if res.Refusal == nil {
			a.tokens[binding] = token
		}
	})
}

// restore puts an older copy of the database back. A daemon that runs is ended first. A
// copy from before a slot was made has nothing that it could say of that slot, and its
// browser is not served: there would be nothing to look at.
func (w *world) restore() {
	if len(w.disk.journal) < 8 {
		return
	}
	n := len(w.disk.journal) - 1 - w.rng.IntN(len(w.disk.journal)/2)
	// A copy has whole steps: each begins with an entry that carries a change.
	for n > 0 && len(w.disk.journal[n].Change) == 0 {
		n--
	}
	copied, err := w.disk.until(n)
	if err != nil {
		w.violated("I14", "a copy of the journal cannot be read: %v", err)
		return
	}
	if len(copied.Slots) < len(w.slots) {
		return
	}
	if w.daemon != nil {
		w.daemon.die("for a restore")
	}
	was := w.disk.journal[len(w.disk.journal)-1].Seq
	w.disk.restore(n, copied)
	w.logf("a copy of the database is restored: %d entries, it had %d", n, was)
	w.truth.restored = true
	w.truth.lost = map[core.SlotName]bool{} // a browser says it again, if this copy still shows it
	w.truth.issued = map[string]string{}
	w.truth.recorded = map[core.SlotName]map[core.Epoch]bool{}
	w.truth.maxUntil = map[core.LeaseID]core.Deadline{}
}

// never names the inputs that no schedule issues, each with the reason.
var never = map[string]string{
	"ProbeDone": "no page of the simulated browser is there to be probed",
	"Bypassed":  "the supervisor sends it when it finds a debugger in a browser; it closes the slot, as scenes of the core show",
	"Saved":     "the engine sends it by what it sees of a profile's files; it changes who may act in no way that a confirmation does not",
	"Overdue":   "the writer sends it when a commit took longer than an action may live; no commit here takes time",
}
