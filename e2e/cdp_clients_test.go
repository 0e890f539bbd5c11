package e2e

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// openWideDesk is a desk whose binding lists the site under two names, whose pages do
// not share a process.
func openWideDesk(t *testing.T) *desk {
	t.Helper()
	openProduct(t)
	return openBoundDesk(t, core.BindingSpec{Origins: []string{product.site.Origin(), product.site.OriginAt("a.localhost")}})
}

// openBoundDesk is a desk with a binding of its own.
func openBoundDesk(t *testing.T, spec core.BindingSpec) *desk {
	t.Helper()
	openProduct(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	k := &desk{t: t, ctx: ctx, d: product.daemon, site: product.site, name: slotName(t)}
	k.page = k.site.URL(k.name, "button", "")
	_, err := k.d.Control.CreateSlot(ctx, wire.SlotRequest{Slot: k.slot(), Display: "headless"})
	must(t, err)
	spec.Name, spec.Slot, spec.Account, spec.Start = core.BindingName(k.name), k.slot(), "none", k.page
	_, err = k.d.Control.Bind(ctx, wire.BindingRequest{BindingSpec: spec})
	must(t, err)
	must(t, k.d.StartSlot(ctx, k.name))
	t.Cleanup(func() {
		stop, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		k.d.Control.Change(stop, k.slot(), client.Takeover, wire.ChangeRequest{FromPerson: true})
		if _, err := k.d.Control.Change(stop, k.slot(), client.Stop, wire.ChangeRequest{StopNow: true}); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	k.Agent, err = k.d.NewAgent(ctx, "ada", k.name)
	must(t, err)
	must(t, k.Acquire(ctx, "test", 20*time.Second))
	return k
}

// refusals are what every client is refused, with a word of the reason. All else works.
var refusals = map[string]string{
	"cookies": "--allow cookies", "request interception": "--allow interception", "another context": "context", "another site": "origins",
	"addInitScript": "origins", "exposeFunction": "origins",
}

// What programs for Playwright and Puppeteer do: it works, or it is refused with a reason.
func TestWhatClientsCanDo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"playwright", "puppeteer"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := openWideDesk(t)
			note := filepath.Join(k.Lease.UploadDir, "note.txt")
			must(t, os.WriteFile(note, []byte("hello"), 0o600))
			got, err := k.script(name+"-features.mjs", k.cdpURL(), k.page, k.site.URLAt("a.localhost", k.name, "button", ""),
				k.site.URL(k.name, "product", ""), note)
			must(t, err)
			for _, feature := range slices.Sorted(maps.Keys(got)) {
				said, _ := got[feature].(string)
				if word, refused := refusals[feature]; refused && strings.Contains(said, word) || !refused && said == "works" {
					continue
				}
				t.Errorf("%s: %s", feature, said)
			}
			if len(got) < 25 {
				t.Errorf("only %d features were tried", len(got))
			}
		})
	}
}

// A program in the middle of its work loses control, is told so by its own client's
// means, and clicks no more.
func TestAPlaywrightProgramLosesControl(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	type end struct {
		got map[string]any
		err error
	}
	done := make(chan end, 1)
	k.clients() // a test is skipped by its own goroutine only
	go func() {
		got, err := k.script("playwright-fence.mjs", k.cdpURL())
		done <- end{got, err}
	}()
	k.await("the program's first clicks", func() bool {
		open, err := k.d.Control.Actions(k.ctx, k.slot(), false)
		return err == nil && slices.ContainsFunc(open, func(r core.Record) bool { return strings.Contains(r.Summary, "dispatchMouseEvent") })
	})
	_, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
	must(t, err)
	var e end
	select {
	case e = <-done:
	case <-k.ctx.Done():
		t.Fatal("the program did not end")
	}
	must(t, e.err)
	if e.got["disconnected"] != true || e.got["connected"] != false || !strings.Contains(e.got["again"].(string), "took over") {
		t.Errorf("it was told %v", e.got)
	}
	t.Logf("after %v clicks: %v", e.got["clicks"], e.got["error"])
}
