package mcp

import (
	"fmt"
	"regexp"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
)

const (
	// maxChanged is how many changed lines a result tells before it tells the whole page.
	maxChanged = 60
	// maxDocuments is how many documents the references of one agent may lead to.
	maxDocuments = 1000
)

// page is what the agent was last shown.
type page struct {
	url, title string
	lines      []string
	document   core.DocumentID
}

// documents number what the agent has been shown, so that a reference names the
// document that it was read in: e7 of the third document is "d3e7".
type documents struct {
	number map[core.DocumentID]int
	shown  map[int]core.DocumentID
	last   int
}

func (d *documents) of(doc core.DocumentID) int {
	if d.number == nil {
		d.number, d.shown = map[core.DocumentID]int{}, map[int]core.DocumentID{}
	}
	if n, known := d.number[doc]; known {
		return n
	}
	d.last++
	if old := d.last - maxDocuments; old > 0 {
		delete(d.number, d.shown[old])
		delete(d.shown, old)
	}
	d.number[doc], d.shown[d.last] = d.last, doc
	return d.last
}

var (
	inSnapshot = regexp.MustCompile(`\[ref=(e\d+)\]`)
	reference  = regexp.MustCompile(`^d(\d+)(e\d+)$`)
)

// mark puts the document's number into a snapshot's references.
func (d *documents) mark(text string, doc core.DocumentID) string {
	return inSnapshot.ReplaceAllString(text, fmt.Sprintf("[ref=d%d$1]", d.of(doc)))
}

// find takes a reference apart. One that no snapshot has shown is refused.
func (d *documents) find(ref string) (core.DocumentID, string, error) {
	m := reference.FindStringSubmatch(ref)
	if m == nil {
		return "", "", core.Refuse(core.CodeInvalid, fmt.Sprintf("%q is not a reference of a snapshot", ref),
			"take browser_snapshot and give what stands behind ref=, such as d1e7")
	}
	var n int
	if _, err := fmt.Sscan(m[1], &n); err != nil || d.shown[n] == "" {
		return "", "", core.Refuse(core.CodeDocumentChanged, "reference "+ref+" is of a page that this session no longer knows", "take browser_snapshot again")
	}
	return d.shown[n], m[2], nil
}

// changes tells what is different from what was shown before, line by line; where that
// is more than a few lines, or another document, it is the whole page.
func changes(before *page, now *page) (text string, whole bool) {
	if before == nil || before.document != now.document {
		return strings.Join(now.lines, "\n"), true
	}
	gone, come := different(before.lines, now.lines)
	switch {
	case len(gone)+len(come) == 0:
		return "", false
	case len(gone)+len(come) > maxChanged:
		return strings.Join(now.lines, "\n"), true
	}
	var b strings.Builder
	for _, l := range gone {
		fmt.Fprintf(&b, "removed: %s\n", strings.TrimSpace(l))
	}
	for _, l := range come {
		fmt.Fprintf(&b, "now: %s\n", strings.TrimSpace(l))
	}
	return strings.TrimSuffix(b.String(), "\n"), false
}

// different are the lines of which one side has more, in their order.
func different(before, now []string) (gone, come []string) {
	count := map[string]int{}
	for _, l := range before {
		count[l]++
	}
	for _, l := range now {
		if count[l]--; count[l] < 0 {
			come = append(come, l)
		}
	}
	for _, l := range before {
		if count[l] > 0 {
			count[l]--
			gone = append(gone, l)
		}
	}
	return gone, come
}
