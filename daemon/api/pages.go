package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// Ending the pages that hold an agent's work, at a person's word.

func (d *door) stopPage(r *http.Request, slot core.SlotName, q wire.ChangeRequest, by string) *core.Error {
	return d.endPages(r.Context(), core.StopPage{Slot: slot, IfEpoch: q.IfEpoch, By: by})
}

// pagesWait is how long the pages of a slot may take to be seen to end: a little longer
// than the extension waits for it.
const pagesWait = 6 * time.Second

// endPages has the pages that hold an agent's work ended, and answers when they were seen
// to end, or were not.
func (d *door) endPages(ctx context.Context, in core.StopPage) *core.Error {
	if err := d.Engine.Submit(ctx, in).Refusal; err != nil {
		return err
	}
	answered := d.Engine.Wait(ctx, in.Slot, pagesWait, func(s *core.State, _ core.Now) bool { return s.Slots[in.Slot].Fence.Answered() })
	if !answered {
		return core.Refuse(core.CodeUnavailable, "the browser has not answered yet: it has been asked to end the pages, and which those are is not known until it does",
			"do not wait for it: sessiondock slot stop "+string(in.Slot)+" --now")
	}
	// What the fence listed is in the state by now, whoever was told of it before.
	work := map[core.DocumentID]bool{} // "": a command of which it is not known in which page it runs
	d.Engine.View(func(s *core.State, _ core.Now) {
		for _, doc := range slices.Concat(s.Slots[in.Slot].Pending, s.Slots[in.Slot].Scripts) {
			work[doc.Document] = doc.Document != ""
		}
		for _, a := range s.OpenActions(in.Slot) {
			if a.Local == core.Running {
				work[a.Document] = true
			}
		}
	})
	ended := d.Engine.Wait(ctx, in.Slot, pagesWait, func(s *core.State, _ core.Now) bool {
		v := s.Slots[in.Slot]
		there := func(doc core.DocNow) bool { return doc.Document != "" && work[doc.Document] }
		return !slices.ContainsFunc(v.Pending, there) && !slices.ContainsFunc(v.Scripts, there) &&
			!slices.ContainsFunc(s.OpenActions(in.Slot), func(a *core.Action) bool { return a.Local == core.Running && work[a.Document] })
	})
	if !ended {
		return core.Refuse(core.CodeUnavailable, "a page was not seen to end: what runs in it may go on",
			"end the browser: sessiondock slot stop "+string(in.Slot)+" --now")
	}
	return nil
}
