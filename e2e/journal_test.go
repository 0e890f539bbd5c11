package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// TestTheJournalOutlivesADaemonAndIsTrimmed: a reader at a terminal follows through a
// crash without a gap; the next daemon trims what is beyond its size, says so in place of
// what is gone, and an action whose details went with it still never runs again.
func TestTheJournalOutlivesADaemonAndIsTrimmed(t *testing.T) {
	home, _ := demo.InHome()
	d, site := openOwn(t, home, "--journal-size=60000")
	k := openDeskOn(t, d, site, "product", "")
	person := k.person()
	save := client.NewID()
	click := wire.Act{Verb: "click", Selector: "#save"}
	if _, err := k.Act(k.ctx, save, click, 0); err != nil {
		t.Fatal(err)
	}
	saved := k.settled(save, "the save to be closed", func(r *core.Record) bool { return r.Remote == core.Answered(200) && !r.Watching })
	for range 40 {
		k.do(wire.Act{Verb: "snapshot"})
	}

	reader := person.begins("events", "--follow", "--after", "0", "--json")
	seen := func() (rows []wire.EventRow) {
		for line := range strings.Lines(reader.out.String()) {
			var e wire.EventRow
			if json.Unmarshal([]byte(line), &e) == nil {
				rows = append(rows, e)
			}
		}
		return rows
	}
	must(t, waitFor(k, "the reader to have come to the end", func() bool {
		newest, err := d.Control.Journal(k.ctx, client.EventQuery{Newest: 1})
		rows := seen()
		return err == nil && len(rows) > 0 && rows[len(rows)-1].Seq == newest[0].Seq
	}))
	must(t, d.Kill())
	reader.says("the daemon has gone away")
	must(t, d.Start(k.ctx))

	var first []wire.EventRow
	must(t, waitFor(k, "the journal to be trimmed", func() bool {
		var err error
		first, err = d.Control.Journal(k.ctx, client.EventQuery{Limit: 2})
		return err == nil && len(first) == 3 && first[0].Kind == core.NotKept
	}))
	gone := first[0].Seq
	if first[1].Seq != gone+1 || first[0].Principal != "system" {
		t.Errorf("the journal begins with %+v", first)
	}
	person.shows([]string{"events", "--after", "1", "--limit", "3"}, "not kept", "entries 2 to ", " are not kept any more")

	// The reader had seen everything before it went: it misses nothing.
	var rows []wire.EventRow
	must(t, waitFor(k, "the reader to hear of the trimming", func() bool {
		rows = seen()
		return rows[len(rows)-1].Seq > gone && strings.Contains(reader.out.String(), `"kind":"trimmed"`)
	}))
	for i, e := range rows {
		if e.Seq != int64(i+1) || e.Kind == core.NotKept {
			t.Fatalf("row %d of the reader is %+v", i, e)
		}
	}
	must(t, reader.cmd.Cancel())
	reader.cmd.Wait()

	// The save has left the journal. Its outcome has not, and it does not run again.
	must(t, k.Resume(k.ctx, time.Minute))
	k.Lease.Epoch = saved.Epoch // the very request again
	r, err := k.Act(k.ctx, save, click, 0)
	must(t, err)
	if !r.Trimmed || r.Local != core.Finished || r.Remote != core.Answered(200) || len(r.Evidence) != 0 {
		t.Errorf("the record of a trimmed action: %+v", r)
	}
	if n := site.Count(k.name).Total; n != 1 {
		t.Errorf("the site counts %d saves", n)
	}
	person.shows([]string{"actions", "--action", string(r.Action)}, "remote answered:200", "evidence is not kept any more")
	if _, err := k.Act(k.ctx, save, wire.Act{Verb: "click", Selector: "body"}, 0); codeOf(err) != core.CodeConflict {
		t.Errorf("another action under its identifier: %v", err)
	}
}
