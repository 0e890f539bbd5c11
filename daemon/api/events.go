package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

const (
	// maxFollowers bounds the streams of one door: they last, and must leave connections
	// for the rest.
	maxFollowers = 128
	// followPage is how many entries a follower reads at once. No connection to the
	// database is held while they are written to a reader, however slow that is.
	followPage = 200
	// lookAgain is how long a follower that has just looked waits before it does again, so
	// that many of them share what a busy journal brings instead of asking for each entry.
	lookAgain = 20 * time.Millisecond
	// stillHere is how often a silent stream says that it is.
	stillHere = 15 * time.Second
)

// events gives the journal: a list, or a stream of server-sent events.
func (d *door) events(w http.ResponseWriter, r *http.Request) {
	q, err := journalQuery(r)
	if err == nil && q.Slot != "" {
		known := false
		d.Engine.View(func(s *core.State, _ core.Now) { known = s.Slots[q.Slot] != nil }) // removed ones too
		if !known {
			err = noSlot(q.Slot)
		}
	}
	d.journal(w, r, q, streams(r, "1"), err)
}

// leaseEvents gives an agent what the journal says of its own lease, and nothing of
// anybody else's (I10).
func (d *door) leaseEvents(w http.ResponseWriter, r *http.Request) {
	q, err := journalQuery(r)
	var l *core.Lease
	if err == nil {
		l, err = d.seeLease(r)
	}
	if err == nil {
		q.Lease = l.ID
		q.After = max(q.After, l.Arrived-1) // it has no entry from before
	}
	d.journal(w, r, q, streams(r, "1", ""), err)
}

// seeLease returns a lease to who may look at it.
func (d *door) seeLease(r *http.Request) (*core.Lease, *core.Error) {
	if d.person && bearer(r) == "" {
		var l *core.Lease
		d.Engine.View(func(s *core.State, _ core.Now) { l = s.Leases[leaseID(r)] })
		if l == nil {
			return nil, core.Refuse(core.CodeNotFound, "there is no such lease", "sessiondock lease list")
		}
		return l, nil
	}
	res := d.Engine.Submit(r.Context(), core.Claim{Lease: leaseID(r), Cap: bearer(r)})
	return res.Lease, res.Refusal
}

func journalQuery(r *http.Request) (q core.EventQuery, err *core.Error) {
	form := r.URL.Query()
	after := form.Get("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		after = last
	}
	if q.After, err = number(after, 0, 1<<62); err != nil {
		return q, err
	}
	limit, err := number(form.Get("limit"), wire.MaxEvents, wire.MaxEvents)
	if err != nil {
		return q, err
	}
	newest, err := number(form.Get("newest"), 0, wire.MaxEvents)
	q.Limit, q.Newest, q.Slot = int(limit), newest > 0 && after == "", core.SlotName(form.Get("slot"))
	if q.Newest {
		q.Limit = int(newest)
	}
	return q, err
}

// streams says whether a request is for a stream: by the values of follow that mean it,
// or because it accepts nothing else.
func streams(r *http.Request, follow ...string) bool {
	for _, v := range follow {
		if r.URL.Query().Get("follow") == v {
			return true
		}
	}
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

func (d *door) journal(w http.ResponseWriter, r *http.Request, q core.EventQuery, stream bool, err *core.Error) {
	var rows []wire.EventRow
	var next int64
	if err == nil && stream {
		select {
		case d.followers <- struct{}{}:
			defer func() { <-d.followers }()
		default:
			err = core.Refuse(core.CodeLimit, fmt.Sprintf("%d readers follow the journal at this door", maxFollowers), "end one of them, or ask for a list")
		}
		if !q.Newest {
			q.Limit = followPage
		}
	}
	if err == nil {
		rows, next, err = d.rows(q)
	}
	switch {
	case err != nil:
		fail(w, err)
	case !stream:
		answer(w, rows)
	default:
		q.After, q.Limit, q.Newest = next, followPage, false
		d.follow(w, r, q, rows)
	}
}

// rows reads one page of the journal, and tells after which entry the next begins. Where
// entries that were asked for are not kept any more, the page begins with a row that says
// so: a reader never misses one without being told.
func (d *door) rows(q core.EventQuery) ([]wire.EventRow, int64, *core.Error) {
	page, err := d.Engine.Events(q)
	if err != nil {
		return nil, 0, core.Refuse(core.CodeUnavailable, "the journal cannot be read: "+err.Error(), "ask again after the last entry that you have")
	}
	if q.After > page.Last {
		return nil, 0, core.Refuse(core.CodeConflict, fmt.Sprintf("the journal ends at %d; an entry %d is not of this database, or of a newer copy of it", page.Last, q.After),
			"begin anew, without after or Last-Event-ID").With("last", page.Last)
	}
	rows := make([]wire.EventRow, 0, len(page.Entries)+1)
	if q.After < page.Trimmed && !q.Newest {
		rows = append(rows, wire.EventRow{
			Seq: page.Trimmed, AtMs: page.TrimmedMs, Kind: core.NotKept, Principal: "system",
			Reason: fmt.Sprintf("entries %d to %d are not kept any more", q.After+1, page.Trimmed),
		})
	}
	for _, e := range page.Entries {
		rows = append(rows, wire.EventRow{
			Seq: e.Seq, AtMs: e.AtMs, Kind: e.Kind, Slot: e.Slot, Epoch: e.Epoch, Lease: e.Lease, Action: e.Action, Principal: e.Principal, Reason: e.Reason,
		})
	}
	return rows, page.Next, nil
}

// follow writes rows and then what comes, until the reader goes away, does not read, or
// the daemon ends. The reader goes on after the last entry that it has.
func (d *door) follow(w http.ResponseWriter, r *http.Request, q core.EventQuery, rows []wire.EventRow) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	for {
		out.SetWriteDeadline(time.Now().Add(bodyWait)) // a reader that does not read is cut off
		for _, row := range rows {
			data, _ := json.Marshal(row)
			fmt.Fprintf(w, "id: %d\ndata: %s\n\n", row.Seq, data)
		}
		if out.Flush() != nil {
			return
		}
		looked := time.Now()
		changed := d.Engine.Changed("")
		var err *core.Error
		rows, q.After, err = d.rows(q)
		switch {
		case err != nil:
			return
		case len(rows) > 0:
			continue
		}
		select {
		case <-changed:
		case <-time.After(stillHere):
			// Without data it is no event, and still moves the reader's Last-Event-ID.
			fmt.Fprintf(w, "id: %d\n: still here\n\n", q.After)
		case <-r.Context().Done():
			return
		}
		select {
		case <-time.After(time.Until(looked.Add(lookAgain))):
		case <-r.Context().Done():
			return
		}
	}
}

func number(text string, def, most int64) (int64, *core.Error) {
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, core.Refuse(core.CodeInvalid, fmt.Sprintf("%q is not a number from 0 to %d", text, most), "")
	}
	return n, nil
}
