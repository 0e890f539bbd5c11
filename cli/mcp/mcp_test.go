package mcp

import (
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

// A reference names the document that it was read in, and no other.
func TestReferencesBelongToTheirDocument(t *testing.T) {
	var d documents
	if got := d.mark("- button \"Save\" [ref=e6]\n- text: [ref=x]", "A"); got != "- button \"Save\" [ref=d1e6]\n- text: [ref=x]" {
		t.Errorf("marked: %s", got)
	}
	d.mark("", "B")
	d.mark("", "A")
	for ref, want := range map[string]core.DocumentID{"d1e6": "A", "d2e6": "B", "d3e6": "", "e6": "", "d1": "", "d0e1": "", "d99999999999999999999e1": ""} {
		doc, inner, err := d.find(ref)
		if doc != want || (want == "") == (err == nil) || want != "" && inner != "e6" {
			t.Errorf("%s: %q %q %v", ref, doc, inner, err)
		}
	}
	for i := range maxDocuments + 1 {
		d.mark("", core.DocumentID(strings.Repeat("x", i+1)))
	}
	if _, _, err := d.find("d1e6"); err == nil {
		t.Error("a document of long ago is still known")
	}
	if len(d.number) > maxDocuments || len(d.shown) > maxDocuments {
		t.Errorf("%d documents are kept", len(d.number))
	}
}

func TestChanges(t *testing.T) {
	before := &page{document: "A", lines: []string{"- heading", "- text: one", "- text: same", "- text: same"}}
	for _, c := range []struct {
		now   *page
		want  string
		whole bool
	}{
		{&page{document: "A", lines: before.lines}, "", false},
		{&page{document: "A", lines: []string{"- heading", "  - text: two", "- text: same"}}, "removed: - text: one\nremoved: - text: same\nnow: - text: two", false},
		{&page{document: "B", lines: []string{"- other"}}, "- other", true},
		{&page{document: "A", lines: strings.Split(strings.Repeat("- new\n", maxChanged), "\n")}, strings.Repeat("- new\n", maxChanged), true},
	} {
		if got, whole := changes(before, c.now); got != c.want || whole != c.whole {
			t.Errorf("%q, whole %v, want %q, %v", got, whole, c.want, c.whole)
		}
	}
}

// Whatever is known of an action: where anything about its effect is not known the words
// forbid a second try, and where everything is they do not.
func TestOutcomeForbidsWhatIsNotKnown(t *testing.T) {
	locals := []core.Local{core.NotDispatched, core.Running, core.Interrupted, core.Finished, core.Failed, core.Ended, core.LocalUnknown}
	remotes := []core.Remote{core.NoneSeen, core.InFlight, core.AbortedLocally, core.RemoteUnknown, core.Applied, core.NotApplied, core.Answered(200), core.Answered(503)}
	for _, local := range locals {
		for _, remote := range remotes {
			r := &core.Record{ID: "01", Class: core.Write, Summary: "click Save", Local: local, Remote: remote}
			settled := local == core.NotDispatched || local == core.Failed || local == core.Finished
			answered := remote == core.NoneSeen || remote.Status() != 0
			known := remote == core.Applied || remote == core.NotApplied || settled && answered
			text := outcome(r)
			if forbids := strings.Contains(text, "do NOT do it again"); forbids == known {
				t.Errorf("local %s, website %s: %s", local, remote, text)
			}
			if local != core.Finished && !known && !strings.Contains(text, "UNKNOWN") && !settled {
				t.Errorf("local %s, website %s is not called unknown: %s", local, remote, text)
			}
		}
	}
	for watching, want := range map[bool]string{true: "was seen so far", false: "was seen"} {
		if text := outcome(&core.Record{Class: core.Write, Local: core.Finished, Remote: core.NoneSeen, Watching: watching}); !strings.HasSuffix(text, want) {
			t.Errorf("watching %v: %s", watching, text)
		}
	}
	if text := outcome(&core.Record{Class: core.Read, Local: core.LocalUnknown}); strings.Contains(text, "NOT") {
		t.Errorf("of a look: %s", text)
	}
}
