package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
)

// The hand opens an extension's real popup and presses it: the page takes the
// press for a person's, and a button that appears later is waited for.
func TestHandPressesTheRealPopup(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	hand, err := demo.NewHand(l.ctx, l.pipe, "chrome-extension://")
	must(t, err)
	must(t, hand.Press(l.ctx, demo.ButtonTakeover))
	_, err = hand.WaitText(l.ctx, "Pressed by hand.")
	must(t, err)
	must(t, hand.Choose(l.ctx, "list", "ada"))
	must(t, hand.Press(l.ctx, "later"))
	_, err = hand.WaitText(l.ctx, "Later, for ada.")
	must(t, err)

	ctx, cancel := context.WithTimeout(l.ctx, 500*time.Millisecond)
	defer cancel()
	if err := hand.Press(ctx, "nothing"); err == nil || !strings.Contains(err.Error(), "it is not there") {
		t.Errorf("pressing what is not there: %v", err)
	}
}
