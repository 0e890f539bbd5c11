package e2e

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// TestPopupByKeyboardAlone takes over and hands back without a mouse, and looks at what
// the popup says in between. With POPUP_PICTURES it keeps pictures of it there.
func TestPopupByKeyboardAlone(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "busy", "busy=held")
	_, release := k.hold()
	k.dial()
	must(t, k.hand.Open(k.ctx))
	_, err := k.hand.WaitText(k.ctx, "ada may act")
	must(t, err)
	k.picture("agent")
	id := client.NewID()
	go k.Act(k.ctx, id, wire.Act{Verb: "click", Selector: "#save"}, 0)
	k.settled(id, "the dispatch", func(r *core.Record) bool { return r.Times.Dispatched != 0 })
	must(t, k.hand.PressByKeyboard(k.ctx, demo.ButtonTakeover))
	text, err := k.hand.WaitText(k.ctx, "A click may still land")
	must(t, err)
	for _, want := range []string{k.name, "Control is yours", "click #save"} {
		if !strings.Contains(text, want) {
			t.Errorf("the popup does not say %q:\n%s", want, text)
		}
	}
	k.picture("person")
	release()
	k.settled(id, "the barrier and the answer", func(r *core.Record) bool { return r.Local == core.Finished && r.Remote == core.Answered(200) })
	k.status("the drain", func(s *core.Status) bool { return s.Authority.Fence == "drained" && len(s.Offer.Why) == 1 })
	must(t, k.hand.PressByKeyboard(k.ctx, demo.ButtonHandback))
	k.status("the handback", func(s *core.Status) bool { return s.Authority.Holder.Kind == "none" })
	k.picture("handed-back")
}

func (k *desk) picture(name string) {
	dir := os.Getenv("POPUP_PICTURES")
	if dir == "" {
		return
	}
	data, err := k.hand.Picture(k.ctx)
	must(k.t, err)
	raw, err := base64.StdEncoding.DecodeString(data)
	must(k.t, err)
	must(k.t, os.WriteFile(filepath.Join(dir, name+".png"), raw, 0o644))
}
